/* Unigram: ids against Hugging Face's tokenizers and Google's sentencepiece (vectors/tok_unigram*),
 * the best split against all splits, unknown characters, user-defined tokens, replaced characters,
 * long texts. What is refused: refused.txt. */
#include "base/fnv.h"
#include "base/mem.h"
#include "support/tok_file.h"
#include "support/unit.h"

#define SPACE "\u2581"
#define PARSE MGPT_PARSE_SPECIAL

TEST(vectors)
{
    const char *const names[] = {"tests/vectors/tok_unigram_hf.txt",
                                 "tests/vectors/tok_unigram_whole.txt",
                                 "tests/vectors/tok_unigram_spm.txt"};
    for (size_t k = 0; k < COUNT(names); k++) {
        struct tok_file f;
        tok_file_begin(&f, NULL, NULL);
        struct tok_case *cases = tok_file_vectors(&f, names[k]);
        struct tok *t = tok_file_open(&f);
        assert_string_equal(tok_kind(t), "unigram");
        assert_true(arr_len(cases) > 200);
        for (size_t i = 0; i < arr_len(cases); i++)
            tok_gives_ids(t, cases[i].text.p, cases[i].text.n, k < 2 ? PARSE : 0, cases[i].ids,
                          arr_len(cases[i].ids));
        if (k == 2)
            tok_two_threads(t, cases);
        tok_cases_free(cases);
        tok_file_free(&f);
    }
}

/* ---- splits ---------------------------------------------------------------------------------- */

/* ids: 0 <unk>, then these */
enum { A = 1, B, AB, ABA, BA, SP, SPA, C4 };

#define LETTERS                                                                                    \
    "model t5; bool add_eos_token 0; u32 unknown_token_id 0; token <unk> 2; token a 1 -2;"         \
    "token b 1 -2.5; token ab 1 -3; token aba 1 -7; token ba 1 -3.25; token " SPACE " 1 -4;"       \
    "token " SPACE "a 1 -5;"

TEST(best_split)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, LETTERS);
    tok_gives(t, "ab", 0, AB, -1);
    tok_gives(t, "aba", 0, AB, A, -1); /* -5 before -5.25 and -7 */
    tok_gives(t, "abab", 0, AB, AB, -1);
    tok_gives(t, "bab", 0, B, AB, -1); /* -5.5 before -5.75 */
    tok_gives(t, " a", 0, SPA, -1);
    tok_gives(t, " b a", 0, SP, B, SPA, -1);
    tok_gives(t, "", 0, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, LETTERS "bool add_space_prefix 1");
    tok_gives(t, "ab", 0, SP, AB, -1); /* -7 before -7.5 */
    tok_gives(t, "aa", 0, SPA, A, -1);
    tok_file_free(&f);
}

/* Scores are multiples of 1/4, so every order of a sum is exact. */
static double best_sum(const struct tok_file *f, const char *p, size_t n)
{
    static const char *const texts[] = {"a", "b", "ab", "aba", "ba"};
    double best = -1e9;
    if (n == 0)
        return 0;
    for (size_t i = 0; i < COUNT(texts); i++) {
        size_t length = strlen(texts[i]);
        if (length <= n && memcmp(texts[i], p, length) == 0) {
            double sum = f->doubles[A + (int)i] + best_sum(f, p + length, n - length);
            best = sum > best ? sum : best;
        }
    }
    return best;
}

TEST(every_split)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, LETTERS);
    for (unsigned bits = 0; bits < 1u << 12; bits++) {
        char text[13] = "";
        int32_t ids[12];
        double sum = 0;
        for (unsigned i = 0; i < 12; i++)
            text[i] = bits >> i & 1 ? 'a' : 'b';
        int64_t n = tok_encode(t, text, 12, 0, ids, 12, NULL);
        assert_true(n > 0);
        for (int64_t i = 0; i < n; i++)
            sum += f.doubles[ids[i]];
        assert_true(sum == best_sum(&f, text, 12));
    }
    tok_file_free(&f);
}

/* ---- unknown characters ---------------------------------------------------------------------- */

TEST(unknown)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, LETTERS);
    tok_gives(t, "x", 0, 0, -1);
    tok_gives(t, "xyz", 0, 0, -1); /* a run is one token */
    tok_gives(t, "xayz", 0, 0, A, 0, -1);
    tok_gives(t, "\xE6\x97\xA5\xE6\x97", 0, 0, -1);
    tok_gives(t, "x y", 0, 0, SP, 0, -1);
    tok_gives(t, "<unk>", 0, 0, -1); /* five characters */
    tok_file_free(&f);
    t = tok_file_make(&f, LETTERS "exact; bool mgpt.tokenizer.space_alone 1");
    tok_gives(t, "xyz", 0, 0, -1);
    tok_gives(t, "x\u00e9 \u00e9", 0, 0, SP, 0, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, "model t5; bool add_eos_token 0; token a 1 -1; token " SPACE " 1 -1");
    tok_refuses(t, "a x", 3, 2,
                "character 'x' (U+0078) at byte 2 is not in the vocabulary (2 tokens, no bytes)");
    tok_file_free(&f);
}

#define TWO_BYTES LETTERS "token <0x78> 6; token <0xC3> 6; token <0xA9> 6;"

TEST(bytes)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, TWO_BYTES);
    tok_gives(t, "xa\u00e9", 0, C4, A, C4 + 1, C4 + 2, -1);
    tok_gives(t, "\xC3", 0, C4 + 1, -1);
    tok_gives(t, "y", 0, 0, -1);
    tok_gives(t, "<0x78>", 0, 0, -1); /* no text is a byte token */
    tok_file_free(&f);
    t = tok_file_make(&f, TWO_BYTES "exact");
    tok_gives(t, "<0x78>", 0, C4, -1); /* for Hugging Face it is a token like others */
    tok_gives(t, "x\u00e9", 0, C4, C4 + 1, C4 + 2, -1);
    tok_gives(t, "xy", 0, 0, -1); /* one of the two has no byte: the run is unknown */
    tok_file_free(&f);
}

/* A run of unknown characters may be a token, if it is worth less than they are. */
TEST(unknown_run)
{
    struct tok_file f;
    struct tok *t =
        tok_file_make(&f, "model t5; exact; bool add_eos_token 0; u32 unknown_token_id 0;"
                          "token <unk> 2 100; token a 1 100; token xy 1 50; token pxyz 1 50;");
    tok_gives(t, "axy", 0, 1, 2, -1);
    tok_gives(t, "axyy", 0, 1, 0, -1);
    tok_gives(t, "apxy", 0, 1, 0, -1); /* the token at its end is not all of it */
    tok_file_free(&f);
    t = tok_file_make(&f, "model t5; exact; bool add_eos_token 0; u32 unknown_token_id 0;"
                          "token <unk> 2 20; token a 1 15; token xy 1 18;");
    tok_gives(t, "xy", 0, 2, -1); /* 18, and 5 for each unknown character */
    tok_file_free(&f);
}

/* Control tokens come from a text only where they are allowed. */
TEST(control)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, LETTERS "exact; token <s> 3; token <b> 4 -1; bool "
                                              "add_bos_token 1; u32 bos_token_id 8");
    tok_gives(t, "<s>", MGPT_NO_SPECIAL_TOKENS, 0, -1);
    tok_gives(t, "<s>a", MGPT_NO_SPECIAL_TOKENS | PARSE, 8, A, -1);
    tok_gives(t, "<b>a", 0, 8, 9, A, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, "model t5; token <pad> 3; token </s> 3; token <unk> 2; token a 1 -1");
    tok_gives(t, "ax", 0, 3, 2, 1, -1); /* llama.cpp's defaults for T5 */
    assert_int_equal(tok_eos(t), 1);
    assert_int_equal(tok_bos(t), -1);
    tok_file_free(&f);
}

/* ---- what SentencePiece does before ---------------------------------------------------------- */

TEST(user_defined)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, LETTERS "token a<x> 4; bool remove_extra_whitespaces 1");
    tok_gives(t, "a<x>a", 0, C4, A, -1);
    tok_gives(t, "aa<x> a ", 0, A, C4, SPA, -1);
    tok_file_free(&f);
    /* "abab" counts as 0.1 (4 - 1), "ab" "ab" as -6 */
    t = tok_file_make(&f, LETTERS "token abab 4");
    tok_gives(t, "ababa", 0, C4, A, -1);
    tok_gives(t, "babab", 0, B, C4, -1);
    tok_file_free(&f);
}

/* Ids of sentencepiece 0.2.3. Longer ones are worth more than two short ones, by bytes. */
TEST(user_defined_scores)
{
    struct tok_file f;
    struct tok *t =
        tok_file_make(&f, "model t5; bool add_eos_token 0; u32 unknown_token_id 0; token <unk> 2;"
                          "token \u00e9\u00e9 4; token \u00e9\u00e9\u00e9 4;"
                          "token \u00e9\u00e9\u00e9\u00e9 4; token \u00e9 1 -10;"
                          "token \u00e9p 1 -10; token p 1 -10");
    tok_gives(t, "\u00e9\u00e9\u00e9\u00e9\u00e9p", 0, 1, 2, 6, -1);
    tok_gives(t, "\u00e9\u00e9\u00e9\u00e9\u00e9", 0, 1, 2, -1);
    tok_gives(t, "p\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", 0, 6, 1, 2, 3, -1);
    tok_file_free(&f);
}

TEST(spaces)
{
    struct tok_file f;
    struct tok *t =
        tok_file_make(&f, LETTERS "bool add_space_prefix 1; bool remove_extra_whitespaces 1");
    tok_gives(t, "  a   a ", 0, SPA, SPA, -1);
    tok_gives(t, "   ", 0, -1);
    tok_gives(t, SPACE, 0, -1);
    tok_gives(t, "b" SPACE SPACE "a " SPACE, 0, SP, B, SP, SPA, -1);
    assert_true(tok_drops_space(t, SPA));
    assert_false(tok_drops_space(t, A));
    tok_file_free(&f);
}

/* Maps that no program makes: units beyond the trie, a cycle, values beyond the texts. */
TEST(hostile_map)
{
    static const char *const maps[] = {
        "040000000000000061",         /* the root's children are beyond the only unit */
        "08000000610100000FFFFFFF00", /* the last unit's children are far away */
        "04000000FFFFFFFF00",         /* so are the root's */
        "08000000008401006101000000", /* "a" has a value that is beyond the texts */
    };
    for (size_t i = 0; i < COUNT(maps); i++) {
        char edits[600];
        struct tok_file f;
        snprintf(edits, sizeof edits, "%su8s precompiled_charsmap %s", LETTERS, maps[i]);
        struct tok *t = tok_file_make(&f, edits);
        tok_gives(t, "ab", 0, AB, -1);
        tok_file_free(&f);
        snprintf(edits, sizeof edits,
                 "%su8s precompiled_charsmap %s; bool mgpt.tokenizer.graphemes 1", LETTERS,
                 maps[i]);
        t = tok_file_make(&f, edits);
        tok_gives(t, "ab", 0, AB, -1);
        tok_file_free(&f);
    }
}

/* A map of sentencepiece with random bytes changed: any result will do; a sanitizer judges. */
TEST(damaged_map)
{
    struct tok_file f;
    uint32_t random = 1;
    size_t n_open = 0;
    tok_file_begin(&f, NULL, NULL);
    struct tok_case *cases = tok_file_vectors(&f, "tests/vectors/tok_unigram_spm.txt");
    tok_file_encode(&f);
    const struct gguf_kv *kv = gguf_find(&f.g, "tokenizer.ggml.precompiled_charsmap");
    uint8_t *map = f.bytes + (kv->value - f.bytes);
    for (int round = 0; round < 2000; round++) {
        uint8_t was[8];
        size_t at[8];
        for (size_t k = 0; k < COUNT(at); k++) {
            random = random * 1664525u + 1013904223u;
            at[k] = (size_t)(random >> 8) % kv->value_bytes;
            was[k] = map[at[k]];
            map[at[k]] = (uint8_t)(random >> 3);
        }
        struct tok *t = tok_open(&f.g, NULL);
        n_open += t != NULL;
        for (size_t i = (size_t)round % 8; t && i < arr_len(cases); i += 8)
            tok_encode(t, cases[i].text.p, cases[i].text.n, 0, NULL, 0, NULL);
        tok_free(t);
        for (size_t k = COUNT(at); k-- > 0;)
            map[at[k]] = was[k];
    }
    assert_in_range(n_open, 1000, 2000);
    tok_cases_free(cases);
    tok_file_free(&f);
}

/* ---- pieces of the steps --------------------------------------------------------------------- */

#define OUR "mgpt.tokenizer."
#define PIECES                                                                                     \
    "model mgpt-unigram; exact; u32 unknown_token_id 0; token <unk> 2; token a 1 -2;"              \
    "token b 1 -2.5; token ab 1 -3; token aba 1 -7; token ba 1 -3.25;"
#define STEPS "strings " OUR "normalizers; strings " OUR "pre_tokenizers split~removed~-;"

/* Each piece has its own best split; what only the list of added tokens has is no part of one. */
TEST(pieces)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, PIECES STEPS);
    assert_string_equal(tok_kind(t), "unigram");
    tok_gives(t, "aba-ab", PARSE, AB, A, AB, -1);
    tok_gives(t, "ab xa", PARSE, AB, 0, A, -1); /* unknown characters of a piece are one token */
    tok_gives(t, "x-x", PARSE, 0, 0, -1);
    tok_gives(t, "", PARSE, -1);
    tok_long_text(t, 'a', 0);
    tok_file_free(&f);
    t = tok_file_make(&f, PIECES "token aa 1 -1; i32s " OUR "added 6;" STEPS);
    tok_gives(t, "aaab", PARSE, A, A, AB, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, PIECES "token aa 1 -1;" STEPS);
    tok_gives(t, "aaab", PARSE, 6, AB, -1);
    tok_file_free(&f);
}

TEST(no_unknown_in_pieces)
{
    struct tok_file f;
    mgpt_error err = {0};
    struct tok *t = tok_file_make(&f, "model mgpt-unigram; exact; token a 1 -2;" STEPS);
    tok_gives(t, "a-a", PARSE, 0, 0, -1);
    assert_int_equal(tok_encode(t, "a\u00E9", 3, PARSE, NULL, 0, &err), MGPT_ETEXT);
    assert_non_null(strstr(err.text, "character '\u00E9' (U+00E9) is not in the vocabulary, which "
                                     "has no token for unknown characters"));
    tok_file_free(&f);
}

/* A trie of three units and a text: "a" to "b". */
#define A_TO_B "0C00000000800100610D0000000000806200"

TEST(map_as_step)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, PIECES "bool " OUR "graphemes 1; strings " OUR
                                             "normalizers replace~b~a~charsmap;"
                                             "u8s precompiled_charsmap " A_TO_B);
    tok_gives(t, "ab", PARSE, B, B, -1);
    tok_file_free(&f);
    /* a user-defined token is found in the text as it is */
    t = tok_file_make(&f, LETTERS "token abab 4; u8s precompiled_charsmap " A_TO_B);
    tok_gives(t, "aabab", 0, B, C4, -1);
    tok_file_free(&f);
}

/* A text of a map has at most 255 bytes: a short text must not become a long one. */
TEST(texts_of_a_map)
{
    for (size_t n = 255; n < 257; n++) {
        char map[600] = "0C00000000800100610D000000000080";
        for (size_t i = 0; i < n; i++)
            strcat(map, "62");
        strcat(map, "00");
        struct tok_file f;
        tok_file_begin(&f, NULL, NULL);
        tok_file_edit(&f, LETTERS);
        tok_file_u8s(&f, "tokenizer.ggml.precompiled_charsmap", map);
        if (n > 255) {
            tok_file_refused(&f, "tokenizer.ggml.precompiled_charsmap: the text at byte 0 of the "
                                 "texts is longer than 255");
            continue;
        }
        assert_int_equal(tok_encode(tok_file_open(&f), "a", 1, 0, NULL, 0, NULL), n);
        tok_file_free(&f);
    }
}

/* ---- long texts ------------------------------------------------------------------------------ */

TEST(long_texts)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, LETTERS);
    tok_long_text(t, 'a', 0);
    tok_file_free(&f);
    t = tok_file_make(&f, LETTERS "token a" SPACE "a 1 -3"); /* no longer word by word */
    tok_long_text(t, 'b', 0);
    tok_file_free(&f);
    /* a map of one unit, which is its own child by "a" */
    t = tok_file_make(&f, LETTERS "u8s precompiled_charsmap 040000006184010000");
    tok_long_text(t, 'a', 0);
    tok_file_free(&f);
}

/* The scores of a long text sum to more than 100,000, where the sum is started anew. The number, the
 * sum and the hash of the ids are those that sentencepiece 0.2.3 gives. */
TEST(long_sums)
{
    enum { LENGTH = 40000 };
    struct tok_file f;
    struct tok *t =
        tok_file_make(&f, "model t5; bool add_eos_token 0; u32 unknown_token_id 0; token <unk> 2;"
                          "token a 1 -7.3; token b 1 -7.1; token ab 1 -14.401;"
                          "token ba 1 -14.402; token aba 1 -21.7");
    char *text = mem_new(LENGTH, 1);
    int32_t *ids = mem_new(LENGTH, sizeof *ids);
    uint32_t drawn = 1;
    for (size_t i = 0; i < LENGTH; i++) {
        drawn = drawn * 1103515245 + 12345;
        text[i] = drawn >> 16 & 1 ? 'b' : 'a';
    }
    int64_t n = tok_encode(t, text, LENGTH, 0, ids, LENGTH, NULL), sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ids[i];
    assert_int_equal(n, 28214);
    assert_int_equal(sum, 65314);
    assert_true(fnv1a(FNV_START, ids, (size_t)n * sizeof *ids) == UINT64_C(0x0c819faadbabdb25));
    free(text);
    free(ids);
    tok_file_free(&f);
}
