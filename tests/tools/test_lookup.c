/* Prompt look-up: what is proposed after a text, how much of it, and that learning never stops it
 * for good. That speculation changes no byte is tested where bytes come out:
 * tests/cli/samples.sh. */

#include "generate/lookup.h"
#include "support/unit.h"

enum { CAP = 8 };

static void add_text_of(struct lookup *l, const char *text)
{
    for (; *text; text++)
        lookup_add(l, *text);
}

/* What is proposed after the text, as characters. */
static const char *proposal(struct lookup *l, size_t cap, char out[CAP + 1])
{
    int32_t tokens[CAP];
    size_t n = lookup_propose(l, tokens, cap);
    assert_true(n <= cap);
    for (size_t i = 0; i < n; i++)
        out[i] = (char)tokens[i];
    out[n] = 0;
    return out;
}

/* Rows that cost next to nothing: as much is proposed as there is room for. */
static void open_eager(struct lookup *l)
{
    assert_true(lookup_open(l, 1e-9));
}

TEST(follows_a_repetition)
{
    struct lookup l;
    char got[CAP + 1];
    open_eager(&l);
    assert_string_equal(proposal(&l, CAP, got), ""); /* no text */
    add_text_of(&l, "a");
    assert_string_equal(proposal(&l, CAP, got), "");
    add_text_of(&l, "bcdefghij, ab");
    assert_string_equal(proposal(&l, CAP, got), "cdefghij");
    assert_int_equal(l.length, 2);
    assert_string_equal(proposal(&l, 3, got), "cde");
    assert_string_equal(proposal(&l, 0, got), "");
    add_text_of(&l, "x"); /* "bx" is new */
    assert_string_equal(proposal(&l, CAP, got), "");
    lookup_close(&l);
}

TEST(longest_then_latest)
{
    struct lookup l;
    char got[CAP + 1];
    open_eager(&l);
    add_text_of(&l, "the cat1 he cat2 a cat");
    assert_string_equal(proposal(&l, 1, got), "2"); /* both have " cat", the latest counts */
    lookup_clear(&l);
    add_text_of(&l, "the cat1 a cat2 the cat");
    assert_string_equal(proposal(&l, 1, got), "1"); /* "the cat" is longer than " cat" */
    assert_int_equal(l.length, 7);
    lookup_close(&l);
}

TEST(goes_on_into_itself)
{
    struct lookup l;
    char got[CAP + 1];
    open_eager(&l);
    add_text_of(&l, "xabcabc");
    assert_string_equal(proposal(&l, CAP, got), "abcabcab");
    lookup_clear(&l);
    add_text_of(&l, "aaa");
    assert_string_equal(proposal(&l, 5, got), "aaaaa");
    lookup_clear(&l);
    assert_string_equal(proposal(&l, CAP, got), "");
    lookup_close(&l);
}

/* A length that is never right is given up, but tried now and then; one that is right comes
 * back. */
TEST(learns)
{
    struct lookup l;
    int32_t tokens[CAP];
    size_t silent = 0, tries = 0, n;
    assert_true(lookup_open(&l, 0.3));
    add_text_of(&l, "abcdefghijab");
    assert_true(lookup_propose(&l, tokens, CAP) > 0);
    for (int i = 0; i < 100; i++) {
        n = lookup_propose(&l, tokens, CAP);
        silent += n == 0;
        tries += n > 0;
        lookup_learn(&l, n, 0);
    }
    assert_true(silent > 80);
    assert_true(tries >= 5);
    for (int i = 0; i < 400; i++) {
        n = lookup_propose(&l, tokens, CAP);
        lookup_learn(&l, n, n);
    }
    assert_int_equal(lookup_propose(&l, tokens, CAP), CAP);
    lookup_close(&l);
}

/* One repetition of many runs, whose last tokens differ from those of others in their order or in the first only: more
 * runs in a bucket of the hash than places that are compared would hide it. */
TEST(one_among_many)
{
    enum { N = 12 };
    struct lookup l;
    int32_t token = 1000;
    open_eager(&l);
    for (int32_t i = 0; i < N; i++)
        for (int32_t k = 0; k < N; k++) {
            lookup_add(&l, i);
            lookup_add(&l, k);
            lookup_add(&l, token++);
        }
    for (int32_t i = 0; i < N; i++)
        for (int32_t k = 0; k < N; k++) {
            int32_t found;
            lookup_add(&l, i);
            lookup_add(&l, k);
            assert_int_equal(lookup_propose(&l, &found, 1), 1);
            assert_int_equal(found, 1000 + i * N + k);
            lookup_add(&l, token++);
        }
    lookup_close(&l);
}

/* Each proposal followed an earlier repetition of the text's end: tried on a text of few tokens,
 * with many collisions in the chains. */
TEST(always_from_the_text)
{
    struct lookup l;
    int32_t text[3000 + CAP], tokens[CAP];
    uint32_t random = 1;
    size_t proposed = 0;
    open_eager(&l);
    for (size_t n = 0; n < 3000; n++) {
        random = random * 1664525 + 1013904223;
        text[n] = (int32_t)(random >> 24) % 12 - 3; /* negative ids do not matter */
        lookup_add(&l, text[n]);
        size_t got = lookup_propose(&l, tokens, CAP), length = l.length, at = 0;
        memcpy(text + n + 1, tokens,
               got * sizeof *text); /* for a source that goes on into itself */
        while (got && memcmp(text + at, text + n + 1 - length, (length + got) * sizeof *text) != 0)
            at++;
        assert_true(got == 0 || at < n + 1 - length); /* before the end, not the end itself */
        proposed += got > 0;
    }
    assert_true(proposed > 1000);
    lookup_close(&l);
}
