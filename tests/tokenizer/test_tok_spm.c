/* SentencePiece BPE: ids against Google's sentencepiece (vectors/tok_spm*.txt) and against the
 * prompts of stories260K (../shared), merging, unknown characters, the space in front, types. */
#include "base/cursor.h"
#include "base/file.h"
#include "support/build_model.h"
#include "support/tok_file.h"
#include "support/unit.h"

#include <math.h>

#define KEY(name) "tokenizer.ggml." name
#define SPACE "\xE2\x96\x81"

/* A fixture: both vocabularies; BOS is not added, as in the vectors. */
struct spm_vectors {
    struct tok_file f[2];
    struct tok_case *cases[2];
    struct tok *t[2];
};

static int load_spm(void **state)
{
    const char *const names[] = {"tests/vectors/tok_spm.txt", "tests/vectors/tok_spm_loose.txt"};
    struct spm_vectors *v = calloc(1, sizeof *v);
    if (!v)
        return -1;
    *state = v;
    for (int i = 0; i < 2; i++) {
        tok_file_begin(&v->f[i], "llama", NULL);
        v->cases[i] = tok_file_vectors(&v->f[i], names[i]);
        tok_file_bool(&v->f[i], KEY("add_bos_token"), 0);
        v->t[i] = tok_file_open(&v->f[i]);
    }
    return 0;
}

static int free_spm(void **state)
{
    struct spm_vectors *v = *state;
    for (int i = 0; i < 2; i++) {
        tok_cases_free(v->cases[i]);
        tok_file_free(&v->f[i]);
    }
    free(v);
    return 0;
}

TEST(vectors)
{
    struct spm_vectors *v = *state;
    for (int k = 0; k < 2; k++) {
        assert_string_equal(tok_kind(v->t[k]), "spm");
        assert_int_equal(tok_count(v->t[k]), 520);
        for (size_t i = 0; i < arr_len(v->cases[k]); i++)
            tok_gives_ids(v->t[k], v->cases[k][i].text.p, v->cases[k][i].text.n, 0,
                          v->cases[k][i].ids, arr_len(v->cases[k][i].ids));
    }
}

/* ---- stories260K ---- */

/* llama2.c's tokenizer.bin: max length, then {f32 score, u32 length, bytes} per token; plain
 * spaces. */
static void add_llama2c(struct tok_file *f, const struct file *file)
{
    struct cursor c = cursor_over(file->data, file->size);
    cursor_u32(&c);
    for (int id = 0; cursor_left(&c) > 0; id++) {
        char text[256] = "";
        float score = cursor_f32(&c);
        uint32_t n = cursor_u32(&c);
        const char *p = (const char *)cursor_take(&c, n);
        assert_true(p && n < 64);
        for (uint32_t i = 0; i < n; i++)
            if (p[i] == ' ')
                strcat(text, SPACE);
            else
                text[strlen(text)] = p[i];
        int special = id == 0 ? 2 : 3, normal = id < 259 ? 6 : 1;
        tok_file_token(f, text, id < 3 ? special : normal, score);
    }
}

TEST(stories)
{
    const char *const prompts[] = {"Lily and Tom", "The dog", "Zo\xC3\xAB said \"hi\"",
                                   "  two spaces", "\xE6\x97\xA5\xE6\x9C\xAC"};
    struct file file;
    if (file_open(&file, unit_path("../shared/cases/stories260K/tok512.bin"), NULL) < 0)
        skip();
    struct tok_file f;
    tok_file_begin(&f, "llama", NULL);
    add_llama2c(&f, &file);
    file_close(&file);
    struct tok *t = tok_file_open(&f);
    assert_int_equal(tok_count(t), 512);
    assert_int_equal(file_open(&file, unit_path("../shared/cases/stories260K/ref.json"), NULL),
                     MGPT_OK);
    char *json = calloc(file.size + 1, 1), *p = json;
    assert_non_null(json);
    memcpy(json, file.data, file.size);
    for (size_t i = 0; i < 5; i++) {
        int32_t ids[64];
        size_t n = 0;
        p = strstr(p, "\"prompt_ids\": [");
        assert_non_null(p);
        for (p += 15; n < 64 && *p != ']'; n++)
            ids[n] = (int32_t)strtol(p + (*p == ','), &p, 10);
        tok_gives_ids(t, prompts[i], strlen(prompts[i]), 0, ids, n);
    }
    free(json);
    file_close(&file);
    tok_file_free(&f);
}

/* ---- merging ---- */

/* ids: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 bytes, then these */
enum { A = 259, B, SP, AB, ABA, BA, AA, SPA, AAA, LONE };

#define LETTERS                                                                                    \
    "token a 1 -20; token b 1 -21; token " SPACE " 1 -22; token ab 1 -3; token aba 1 -1;"          \
    "token ba 1 -2; token aa 1 -3; token " SPACE "a 1 0; token aaa 1 -0;"
#define WITH_BYTES "model llama; bool add_bos_token 0; pieces bytes;" LETTERS

TEST(order_of_merges)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, WITH_BYTES);
    tok_gives(t, "bab", 0, SP, BA, B, -1); /* -2 before -3 */
    tok_gives(t, "baab", 0, SP, BA, AB, -1);
    tok_gives(t, "aab", 0, SPA, AB, -1); /* the space is part of the merging */
    tok_gives(t, "baba", 0, SP, BA, BA, -1);
    tok_gives(t, "bbb", 0, SP, B, B, B, -1);
    tok_gives(t, "abab", 0, SPA, BA, B, -1);
    tok_gives(t, "b aa", 0, SP, B, SPA, A, -1);
    tok_file_free(&f);
}

/* The definition: merge the leftmost pair of the highest score until none is a token. Texts are of
 * one byte a symbol: a, b and a space, written s. */
static size_t merge_slowly(const char (*rules)[8], size_t n_rules, char (*symbols)[16], size_t n)
{
    for (size_t r = 0; r < n_rules; r++)
        for (size_t i = 0; i + 1 < n; i++) {
            char both[32];
            snprintf(both, sizeof both, "%s%s", symbols[i], symbols[i + 1]);
            if (strcmp(both, rules[r]) != 0)
                continue;
            strcpy(symbols[i], both);
            memmove(symbols + i + 1, symbols + i + 2, (n - i - 2) * sizeof *symbols);
            return merge_slowly(rules, n_rules, symbols, n - 1);
        }
    return n;
}

/* In order of score, highest first. With "asa" words cannot be merged separately. */
static const char rules[][8] = {"sa", "ab", "bsa", "aba", "ba", "saab", "ss", "aa", "asa", "aaaa"};
#define N_RULES (COUNT(rules))

static void add_rule(struct tok_file *f, const char *rule, float score)
{
    char text[32] = "";
    for (const char *p = rule; *p; p++)
        strcat(text, *p == 's' ? SPACE : (const char[2]){*p, 0});
    tok_file_token(f, text, 1, score);
}

static void check_by_definition(const struct tok *t, uint64_t *rng, const char (*from)[8],
                                size_t n_from)
{
    char text[120], symbols[121][16] = {"s"};
    size_t n = 1 + toy_random(rng) % 119, at = 0, n_piece;
    for (size_t i = 0; i < n; i++) {
        text[i] = "aab "[toy_random(rng) % 4];
        snprintf(symbols[i + 1], sizeof symbols[0], "%c", text[i] == ' ' ? 's' : text[i]);
    }
    size_t want = merge_slowly(from, n_from, symbols, n + 1);
    int32_t ids[128];
    assert_int_equal(tok_encode(t, text, n, 0, ids, 128, NULL), want);
    for (size_t i = 0; i < want; i++, at += n_piece) {
        const char *piece = tok_piece(t, ids[i], &n_piece);
        assert_int_equal(n_piece, strlen(symbols[i]));
        for (size_t k = 0; k < n_piece; k++)
            assert_int_equal(piece[k] == ' ' ? 's' : piece[k], symbols[i][k]);
    }
}

TEST(merging_by_definition)
{
    static const char tight[][8] = {"sa", "ab", "aba", "ba", "saab", "ss", "aa", "aaaa"};
    uint64_t rng = 3;
    for (int loose = 0; loose < 2; loose++) {
        struct tok_file f;
        const char(*from)[8] = loose ? rules : tight;
        size_t n_from = loose ? N_RULES : COUNT(tight);
        tok_file_begin(&f, "llama", NULL);
        tok_file_sentencepiece(&f, 0);
        for (const char *p = "abs"; *p; p++)
            add_rule(&f, (const char[2]){*p, 0}, -100);
        for (size_t i = 0; i < n_from; i++)
            add_rule(&f, from[i], -(float)i);
        tok_file_bool(&f, KEY("add_bos_token"), 0);
        struct tok *t = tok_file_open(&f);
        for (int round = 0; round < 1000; round++)
            check_by_definition(t, &rng, from, n_from);
        tok_file_free(&f);
    }
}

/* An unused token may be a step to another, but is never a result. */
TEST(unused_tokens)
{
    enum { BB = LONE, BBB, B5, MARK };
    struct tok_file f;
    struct tok *t = tok_file_make(&f, WITH_BYTES "token bb 5 5; token bbb 1 4; token bbbbb 5 3;"
                                                 "token ! 5 0");
    size_t n;
    tok_gives(t, "bb", 0, SP, B, B, -1);
    tok_gives(t, "bbb", 0, SP, BBB, -1);
    tok_gives(t, "bbabb", 0, SP, B, B, A, B, B, -1); /* bb first, so never ba */
    tok_gives(t, "bbbb", 0, SP, B, B, B, B, -1);     /* bb bb: both taken apart */
    tok_gives(t, "!", 0, SP, 3 + '!', -1);
    for (int32_t id = BB; id <= MARK; id++) {
        tok_piece(t, id, &n);
        assert_int_equal(n, id == BBB ? 3 : 0);
    }
    assert_int_equal(tok_count(t), MARK + 1);
    tok_file_free(&f);
}

/* bb and then bbbb are unused: what was merged twice is taken apart twice. */
TEST(nested_unused_tokens)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, WITH_BYTES "token bb 5 5; token bbbb 5 4; token bbbbb 1 3");
    tok_gives(t, "bbbb", 0, SP, B, B, B, B, -1);
    tok_gives(t, "bbbbb", 0, SP, LONE + 2, -1);
    tok_gives(t, "bbbbbbb", 0, SP, B, B, B, B, B, B, B, -1);
    tok_file_free(&f);
}

/* ---- unknown characters ---- */

TEST(bytes_of_unknown)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, WITH_BYTES);
    tok_gives(t, "\xC3\xA9", 0, SP, 3 + 0xC3, 3 + 0xA9, -1);
    tok_gives(t,
              "a\xFF"
              "b\xE6\x97",
              0, SPA, 3 + 0xFF, B, 3 + 0xE6, 3 + 0x97, -1);
    tok_gives(t, "\n", 0, SP, 3 + '\n', -1);
    tok_gives_ids(t, "\0", 1, 0, (const int32_t[]){SP, 3}, 2);
    tok_gives(t, "a" SPACE "a", 0, SPA, SPA, -1); /* as a space: SentencePiece's convention */
    for (unsigned b = 0; b < 256; b++) {
        size_t n;
        assert_int_equal((uint8_t)*tok_piece(t, 3 + (int32_t)b, &n), b);
        assert_int_equal(n, 1);
    }
    tok_file_free(&f);
}

TEST(unknown_without_bytes)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, "model llama; bool add_bos_token 0; pieces;" LETTERS);
    const int32_t sp = SP - 256, b = B - 256;
    size_t n;
    tok_gives(t,
              "\xC3\xA9"
              "b\xFF",
              0, sp, 0, b, 0, -1);
    /* a run of them is one <unk>, over the end of a word too */
    tok_gives(t, "\xC3\xA9\xFFxy z", 0, sp, 0, sp, 0, -1);
    tok_gives(t, "xx", MGPT_PARSE_SPECIAL, sp, 0, -1);
    tok_gives(t, "x</s>x", MGPT_PARSE_SPECIAL, sp, 0, 2, sp, 0, -1);
    tok_piece(t, 0, &n);
    assert_int_equal(n, 0);
    tok_file_free(&f);
    /* half of a character is no use */
    t = tok_file_make(&f, "model llama; token a; token " SPACE "; token <0xC3> 6;"
                          "bool add_bos_token 0");
    tok_gives(t, "a\xC3 a", 0, 1, 0, 2, 1, 0, -1);
    tok_refuses(
        t, "a  a\xC3\xA9 ", 7, 4,
        "character '\xC3\xA9' (U+00E9) at byte 4 is not in the vocabulary (3 tokens, no bytes)");
    tok_refuses(t, "\xFF", 1, 0,
                "byte 0xFF at byte 0 is not in the vocabulary (3 tokens, no bytes)");
    tok_file_free(&f);
    tok_refuses(tok_file_make(&f, "model llama; token a"), "a", 1, 0, /* not even the space */
                "character '" SPACE
                "' (U+2581) at byte 0 is not in the vocabulary (1 tokens, no bytes)");
    tok_file_free(&f);
}

/* With ranks, as in Hugging Face without fuse_unk, each unknown character is one. */
TEST(ranked_unknown)
{
    struct tok_file f;
    struct tok *t = tok_file_make(
        &f, "model llama; bool add_bos_token 0; bool mgpt.tokenizer.ranked 1; pieces;" LETTERS);
    tok_gives(t, "xyb", 0, SP - 256, 0, 0, B - 256, -1);
    tok_file_free(&f);
}

/* ---- user-defined tokens as pieces ---- */

/* They are found where a space is U+2581 already, the longest first; nothing merges with them, and
 * only the start of the text has a space in front. */
TEST(user_pieces)
{
    struct tok_file f;
    tok_file_begin(&f, NULL, NULL);
    tok_file_edit(
        &f,
        "model llama; bool add_bos_token 0; bool mgpt.tokenizer.user_pieces 1; pieces;" LETTERS);
    int32_t two = tok_file_token(&f, "  ", 4, 0), three = tok_file_token(&f, "   ", 4, 0),
            aab = tok_file_token(&f, "aab", 4, 0);
    struct tok *t = tok_file_open(&f);
    const int32_t a = A - 256, sp = SP - 256, spa = SPA - 256, aa = AA - 256;
    tok_gives(t, "a" SPACE SPACE "a", 0, spa, two, a, -1);
    tok_gives(t, "a  a", 0, spa, two, a, -1);
    tok_gives(t, " " SPACE "a", 0, three, a, -1);
    tok_gives(t, "aaaab a", 0, spa, a, aab, spa, -1);
    tok_gives(t, "xaabx", 0, sp, 0, aab, 0, -1);
    tok_gives(t, "aabaa", 0, sp, aab, aa, -1);
    tok_file_free(&f);
}

/* Normal tokens that count where the text spells U+2581, and merge where it has spaces. */
TEST(literal)
{
    struct tok_file f;
    tok_file_begin(&f, NULL, NULL);
    tok_file_edit(&f,
                  "model llama; bool add_bos_token 0; bool add_space_prefix 0; pieces;" LETTERS);
    int32_t two = tok_file_token(&f, SPACE SPACE, 1, -1),
            aab = tok_file_token(&f, SPACE "aab", 1, -100);
    char list[64];
    snprintf(list, sizeof list, "i32s mgpt.tokenizer.literal %d %d", two, aab);
    tok_file_edit(&f, list);
    struct tok *t = tok_file_open(&f);
    const int32_t a = A - 256, sp = SP - 256, aa = AA - 256;
    tok_gives(t, "a  " SPACE SPACE "a", 0, a, two, two, a, -1);
    tok_gives(t, "a   " SPACE "aab", 0, a, two, sp, aab, -1);
    tok_gives(t, "aa", 0, aa, -1);
    tok_file_free(&f);
}

/* ---- the space in front, and types ---- */

TEST(space_in_front)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, WITH_BYTES);
    tok_gives(t, "", 0, -1);
    tok_gives(t, " ", 0, SP, SP, -1);
    tok_gives(t, "a", 0, SPA, -1);
    tok_gives(t, " a", 0, SP, SPA, -1);
    tok_gives(t, "a</s>a<s>", MGPT_PARSE_SPECIAL, SPA, 2, SPA, 1, -1); /* of every segment */
    assert_int_equal(tok_drops_space(t, SPA), 1);
    assert_int_equal(tok_drops_space(t, SP), 1);
    assert_int_equal(tok_drops_space(t, A), 0);
    assert_int_equal(tok_drops_space(t, 3 + ' '), 0); /* a byte token says what it says */
    assert_int_equal(tok_drops_space(t, 1), 0);
    assert_int_equal(tok_drops_space(t, -1), 0);
    tok_file_free(&f);
    t = tok_file_make(&f, "model llama; bool add_space_prefix 0; pieces bytes;" LETTERS);
    tok_gives(t, "a a", 0, 1, A, SPA, -1);
    tok_gives(t, "", 0, 1, -1);
    assert_int_equal(tok_drops_space(t, SPA), 0);
    tok_file_free(&f);
}

TEST(types)
{
    struct tok_file f;
    tok_file_begin(&f, NULL, NULL);
    tok_file_edit(&f, WITH_BYTES);
    int32_t user = tok_file_token(&f, "  ", 4, 0), control = tok_file_token(&f, "bb", 3, 9);
    struct tok *t = tok_file_open(&f);
    size_t n;
    tok_gives(t, "b  a", 0, SP, B, user, SPA, -1);
    tok_gives(t, "bb", 0, SP, B, B, -1);
    tok_gives(t, "bb", MGPT_PARSE_SPECIAL, control, -1);
    assert_memory_equal(tok_piece(t, user, &n), "  ", 2); /* literal */
    assert_int_equal(n, 2);
    assert_int_equal(tok_drops_space(t, user), 0);
    assert_memory_equal(tok_piece(t, SPA, &n), " a", 2);
    assert_int_equal(n, 2);
    assert_memory_equal(tok_text(t, SPA, &n), SPACE "a", 4);
    assert_int_equal(n, 4);
    tok_piece(t, control, &n);
    assert_int_equal(n, 0);
    tok_file_free(&f);
}

/* Byte tokens in small letters, which some converters write. */
TEST(small_hex)
{
    struct tok_file f;
    struct tok *t =
        tok_file_make(&f, "model llama; pieces; token <0x0a> 6; token <0xfe> 6; token <0x9F> 6");
    for (int32_t i = 0; i < 3; i++) {
        size_t n;
        assert_memory_equal(tok_piece(t, 3 + i, &n), &"\n\xFE\x9F"[i], 1);
        assert_int_equal(n, 1);
    }
    tok_file_free(&f);
}

/* ---- bytes, work, threads ---- */

/* U+2581 itself becomes a space. */
TEST(round_trip)
{
    struct spm_vectors *v = *state;
    for (int k = 0; k < 2; k++)
        tok_round_trips(v->t[k], v->cases[k], SPACE[1]);
}

/* Quadratic merging would need 10^12 steps and hit the time limit. */
TEST(one_long_text)
{
    struct spm_vectors *v = *state;
    for (const char *unit = "a 1\xFF"; *unit; unit++)
        for (int k = 0; k < 2; k++)
            tok_long_text(v->t[k], *unit, 1); /* and the space in front */
}

TEST(two_threads)
{
    struct spm_vectors *v = *state;
    tok_two_threads(v->t[0], v->cases[0]);
    tok_two_threads(v->t[1], v->cases[1]);
}

GROUP(load_spm, free_spm)
