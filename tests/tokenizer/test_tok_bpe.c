/* Byte-level BPE: ids against Hugging Face's tokenizers (vectors/tok_bpe.txt), merging,
 * ill-formed text, bounded work. Splitting: test_tok_rules.c. */
#include "base/file.h"
#include "support/build_model.h"
#include "support/tok_file.h"
#include "support/unit.h"

#define N_VECTORS 600 /* tokens of vectors/tok_bpe.txt */

/* A fixture: the vocabulary of the vectors, without BOS. */
struct bpe_vectors {
    struct tok_file f;
    struct tok_case *cases;
    struct tok *t;
};

static int load_bpe(void **state)
{
    struct bpe_vectors *v = calloc(1, sizeof *v);
    if (!v)
        return -1;
    *state = v;
    tok_file_begin(&v->f, "gpt2", "gpt-2");
    v->cases = tok_file_vectors(&v->f, "tests/vectors/tok_bpe.txt");
    v->t = tok_file_open(&v->f);
    return 0;
}

static int free_bpe(void **state)
{
    struct bpe_vectors *v = *state;
    tok_cases_free(v->cases);
    tok_file_free(&v->f);
    free(v);
    return 0;
}

TEST(vectors)
{
    struct bpe_vectors *v = *state;
    assert_string_equal(tok_kind(v->t), "bpe");
    assert_int_equal(tok_count(v->t), N_VECTORS);
    for (size_t i = 0; i < arr_len(v->cases); i++)
        tok_gives_ids(v->t, v->cases[i].text.p, v->cases[i].text.n, 0, v->cases[i].ids,
                      arr_len(v->cases[i].ids));
}

/* ---- merging ---- */

enum { A, B, AA, AB, BA, ABA, AAAA };

#define AB_FILE                                                                                    \
    "model gpt2; pre gpt-2; token a; token b; token aa; token ab; token ba; token aba;"            \
    "token aaaa; merge b a; merge a a; merge a b; merge ab a; merge a ba; merge aa aa"

TEST(order_of_merges)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, AB_FILE);
    tok_gives(t, "aaa", 0, AA, A, -1); /* leftmost on ties */
    tok_gives(t, "aba", 0, ABA, -1);   /* b a first, then a ba */
    tok_gives(t, "aab", 0, AA, B, -1); /* the lower rank, although a b is possible */
    tok_gives(t, "aaaaaab", 0, AAAA, AA, B, -1);
    tok_gives(t, "abab", 0, ABA, B, -1);
    tok_gives(t, "bbb", 0, B, B, B, -1);
    tok_file_free(&f);
}

/* A vocabulary of characters is one without bytes: else a byte has its token. */
TEST(characters_and_bytes)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, "model gpt2; pre gpt-2; token a; token b; token <0x41> 6");
    assert_string_equal(tok_kind(t), "bpe");
    tok_gives(t, "bA", 0, B, 2, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, "model gpt2; pre gpt-2; token a; token b");
    assert_string_not_equal(tok_kind(t), "bpe");
    tok_file_free(&f);
}

TEST(merge_into_the_first_token)
{
    struct tok_file f;
    tok_gives(tok_file_make(&f, "model gpt2; pre gpt-2; token ab; token a; token b; merge a b"),
              "bab", 0, 2, 0, -1);
    tok_file_free(&f);
}

/* The definition: find the leftmost pair of lowest rank, merge it, begin again. */
static size_t merge_slowly(const int32_t (*rules)[3], size_t n_rules, int32_t *ids, size_t n)
{
    for (size_t r = 0; r < n_rules; r++)
        for (size_t i = 0; i + 1 < n; i++)
            if (ids[i] == rules[r][0] && ids[i + 1] == rules[r][1]) {
                ids[i] = rules[r][2];
                memmove(ids + i + 1, ids + i + 2, (n - i - 2) * sizeof *ids);
                return merge_slowly(rules, n_rules, ids, n - 1);
            }
    return n;
}

/* Random texts of 1 to 120 letters: short runs and the heap of long ones against the definition. */
TEST(merging_by_definition)
{
    const int32_t rules[][3] = {{B, A, BA},   {A, A, AA},   {A, B, AB},
                                {AB, A, ABA}, {A, BA, ABA}, {AA, AA, AAAA}};
    struct tok_file f;
    struct tok *t = tok_file_make(&f, AB_FILE);
    uint64_t rng = 1;
    for (int round = 0; round < 2000; round++) {
        char text[120];
        int32_t ids[120];
        size_t n = 1 + toy_random(&rng) % 120;
        for (size_t i = 0; i < n; i++) {
            ids[i] = toy_random(&rng) % 4 == 0 ? B : A;
            text[i] = (char)('a' + ids[i]);
        }
        tok_gives_ids(t, text, n, 0, ids, merge_slowly(rules, 6, ids, n));
    }
    tok_file_free(&f);
}

TEST(odd_merges)
{
    struct tok_file f;
    tok_file_begin(&f, "gpt2", "gpt-2");
    for (const char *p = "a\0b\0 \0ab\0bb\0 a\0ab\0"; *p; p += strlen(p) + 1)
        tok_file_token(&f, p, 1, 0);
    int32_t control = tok_file_token(&f, "bab", 3, 0);
    for (const char *p = "#version: 0.2\0q b\0b q\0a bb\0b ab\0nospace\0  a\0a b\0"; *p;
         p += strlen(p) + 1)
        tok_file_merge(&f, p);
    tok_file_merge(&f, "");
    tok_file_merge(&f, "a");
    tok_file_merge(&f, "a ");
    tok_file_merge(&f, "a b"); /* again: the first one counts */
    struct tok *t = tok_file_open(&f);
    tok_gives(t, "ab", 0, 3, -1);     /* of two equal texts the lower id */
    tok_gives(t, "bab", 0, 1, 3, -1); /* control tokens are not merged */
    assert_int_equal(control, 7);
    tok_gives(t, "bb", 0, 1, 1, -1);
    tok_gives(t, " a", 0, 5, -1); /* "  a" is split at its second space */
    tok_file_free(&f);
}

/* A vocabulary of single bytes needs no merges. */
TEST(missing_merges)
{
    struct tok_file f;
    tok_gives(tok_file_make(&f, "model gpt2; pre gpt-2; alphabet; no_merges"), "!!", 0, 0, 0, -1);
    tok_file_free(&f);
}

/* ---- bytes ---- */

TEST(missing_byte)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, "model gpt2; pre gpt-2; token a; token ab");
    tok_refuses(t, "aab", 3, 2, "byte 0x62 at byte 2 is not in the vocabulary (2 tokens)");
    tok_refuses(t, "a\xC3\xA9", 3, 1, "byte 0xC3 at byte 1 is not in the vocabulary (2 tokens)");
    tok_refuses(t, "a\xC3", 2, 1, "byte 0xC3 at byte 1 is not in the vocabulary (2 tokens)");
    tok_file_free(&f);
}

/* Each byte is a token: its piece is that byte, at any place in the vocabulary. */
TEST(alphabet)
{
    struct bpe_vectors *v = *state;
    for (unsigned b = 0; b < 256; b++) {
        char byte = (char)b;
        int32_t id;
        size_t n;
        assert_int_equal(tok_encode(v->t, &byte, 1, 0, &id, 1, NULL), 1);
        assert_int_equal(*tok_piece(v->t, id, &n), byte);
        assert_int_equal(n, 1);
    }
}

TEST(round_trip)
{
    struct bpe_vectors *v = *state;
    tok_round_trips(v->t, v->cases, 0);
}

/* One piece as long as the text: quadratic merging would take 10^12 steps and time out. */
TEST(one_long_piece)
{
    struct bpe_vectors *v = *state;
    for (const char *unit = "a \n1!\xFF"; *unit; unit++)
        tok_long_text(v->t, *unit, 0);
}

TEST(two_threads)
{
    struct bpe_vectors *v = *state;
    tok_two_threads(v->t, v->cases);
}

GROUP(load_bpe, free_bpe)
