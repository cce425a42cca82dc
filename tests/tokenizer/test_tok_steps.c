/* Normalizers and pre-tokenizers as steps. The vocabulary has bytes only, so the pieces of the
 * tokens show the text that the steps made; "lead always [" shows where its pieces begin. */
#include "support/tok_file.h"
#include "support/unit.h"

#include <string.h>

#define BYTES "model llama; pre default; pieces bytes; bool add_space_prefix 0;"
#define NORM BYTES "strings mgpt.tokenizer.normalizers "
#define PRE BYTES "strings mgpt.tokenizer.pre_tokenizers "
#define PARSE (MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL)
#define SHOW "~lead~always~[;"

/* The pieces of the text's tokens; U+2581 is what the kind made of a space. */
static void gives(const struct tok *t, const char *text, const char *want)
{
    int32_t ids[256];
    char got[512] = "";
    mgpt_error err = {0};
    size_t n = 0;
    int64_t count = tok_encode(t, text, strlen(text), PARSE, ids, COUNT(ids), &err);
    if (count < 0)
        fail_msg("%s: %s", text, err.text);
    for (int64_t i = 0; i < count; i++) {
        size_t n_piece;
        const char *piece = tok_piece(t, ids[i], &n_piece);
        if (n_piece == 0)
            piece = tok_text(t, ids[i], &n_piece);
        memcpy(got + n, piece, n_piece);
        n += n_piece;
    }
    got[n] = 0;
    for (char *p; (p = strstr(got, "\u2581")) != NULL;) {
        *p = ' ';
        memmove(p + 1, p + 3, strlen(p + 3) + 1);
    }
    assert_string_equal(got, want);
}

struct step_case {
    const char *file, *text, *want;
};

static void check_cases(const struct step_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tok_file f;
        gives(tok_file_make(&f, cases[i].file), cases[i].text, cases[i].want);
        tok_file_free(&f);
    }
}

/* ---- texts ---- */

#define LOWER "u32s mgpt.tokenizer.map.low 1000041 41 61 1000042 42 62 2000130 130 69 307;"
#define MARKS "u32s mgpt.tokenizer.map.marks 300 36F;"
#define CANON "u32s mgpt.tokenizer.map.canon 20000E9 E9 65 301 3001EA5 1EA5 61 302 301;"
#define CLASSES                                                                                    \
    "u32s mgpt.tokenizer.map.classes 1000300 314 E6 1000323 323 DC 1000327 327 CA 1000334 334 1;"
#define PAIRS                                                                                      \
    "u32s mgpt.tokenizer.map.compositions 4000301 301 65 E9 E2 1EA5 2000302 302 61 E2 2000323 "    \
    "323 "                                                                                         \
    "61 1EA1;"

TEST(characters)
{
    static const struct step_case cases[] = {
        {NORM "map~low; u32s mgpt.tokenizer.map.low 1000041 5A 78;", "aBZ[", "axx["},
        {NORM "map~marks;" MARKS, "e\u0301a\u036F\u0370", "ea\u0370"},
        {NORM "map~high; u32s mgpt.tokenizer.map.high E000 10FFFF;", "a\U0010FFFFb", "ab"},
        {NORM "decompose~canon;" CANON CLASSES, "\u00E9\u1EA5z", "e\u0301a\u0302\u0301z"},
        {NORM "decompose~canon;" CANON CLASSES, "\uAC00\uAC01", "\u1100\u1161\u1100\u1161\u11A8"},
        {NORM "decompose~canon;" CANON CLASSES, "a\u0301\u0323\u0327b\u0301\u0300",
         "a\u0327\u0323\u0301b\u0301\u0300"},
        {NORM "decompose~canon;" CANON CLASSES, "\u0301\u0334", "\u0334\u0301"},
        {NORM "compose;" CLASSES PAIRS, "e\u0301a\u0302\u0301", "\u00E9\u1EA5"},
        {NORM "compose;" CLASSES PAIRS, "a\u0323\u0302", "\u1EA1\u0302"},
        {NORM "compose;" CLASSES PAIRS, "a\u0334\u0302", "\u00E2\u0334"},  /* lower class between */
        {NORM "compose;" CLASSES PAIRS, "e\u0302\u0301", "e\u0302\u0301"}, /* the same class */
        {NORM "compose;" CLASSES PAIRS, "eb\u0301", "eb\u0301"},
        {NORM "compose;" CLASSES PAIRS, "\u1100\u1161\u11A8\u11A8", "\uAC01\u11A8"},
        {NORM "bytes;", "a \u00E9", "a\u0120\u00C3\u00A9"},
        {NORM "bytes;", "\x01\x7F\u00AD", "\u0101\u0121\u00C2\u0143"},
        {BYTES "strings mgpt.tokenizer.normalizers;",
         "\xFF"
         "a\xC3",
         "\uFFFD"
         "a\uFFFD"},
    };
    check_cases(cases, COUNT(cases));
}

/* Many marks after one letter: sorted by class, not exchanged within one. */
TEST(long_order)
{
    struct tok_file f;
    char text[200] = "a", want[200] = "a";
    for (int i = 0; i < 20; i++) {
        strcat(text, i % 2 ? "\u0323" : i % 4 ? "\u0301" : "\u0300");
        if (i % 2)
            strcat(want, "\u0323");
    }
    for (int i = 0; i < 20; i += 2)
        strcat(want, i % 4 ? "\u0301" : "\u0300");
    gives(tok_file_make(&f, NORM "decompose~canon;" CANON CLASSES), text, want);
    tok_file_free(&f);
}

TEST(texts)
{
    static const struct step_case cases[] = {
        {NORM "replace~a+~x", "aabaca", "xbxcx"},     {NORM "replace~(?=b)~-", "abb", "a-b-b"},
        {NORM "replace~x*~-", "axb", "-a-b-"},        {NORM "replace~a~", "aba", "b"},
        {NORM "surround~[bd]~ ", "abcd", "a b c d "}, {NORM "prepend~> ", "a", "> a"},
        {NORM "strip~left", " \u3000a ", "a "},       {NORM "strip~right", " a\t\u00A0", " a"},
        {NORM "strip~both~prepend~x", "  ", ""},      {NORM "replace~a~b~replace~b~c", "ab", "cc"},
    };
    check_cases(cases, COUNT(cases));
}

/* ---- pieces ---- */

TEST(splits)
{
    static const struct step_case cases[] = {
        {PRE "split~removed~-" SHOW, "a--b-", "[a[b"},
        {PRE "split~isolated~-" SHOW, "a--b-", "[a[-[-[b[-"},
        {PRE "split~previous~-" SHOW, "-a--b-", "[-[a-[-[b-"},
        {PRE "split~next~-" SHOW, "-a--b-", "[-a[-[-b[-"},
        {PRE "split~contiguous~-" SHOW, "-a--b-", "[-[a[--[b[-"},
        {PRE "split~contiguous~-" SHOW, "a--b", "[a[--[b"},
        {PRE "split~not removed~-" SHOW, "a--b-", "[-[-[-"},
        {PRE "split~not previous~-" SHOW, "a--b", "[a[-[-b"},
        {PRE "split~not contiguous~[0-9]" SHOW, "a12b", "[a[12[b"},
        {PRE "split~isolated~(?=[A-Z])" SHOW, "aBcDE", "[a[Bc[D[E"},
        {PRE "split~removed~ ~split~isolated~[0-9]" SHOW, "a1 b", "[a[1[b"},
        {PRE "split~isolated~(?m:^)b" SHOW, "b\nbb", "[b[\n[b[b"},
        {PRE "replace~ ~_~lead~always~_~split~next~_" SHOW, "a b  c", "[_a[_b[_[_c"},
        {PRE "lead~always~_~split~next~_" SHOW, "_a", "[_a"},
        {PRE "split~removed~,~bytes" SHOW, "a,\u00E9", "[a[\u00C3\u00A9"},
    };
    check_cases(cases, COUNT(cases));
}

/* "first" holds at the start of the text, if a step has not removed what was there. */
TEST(first)
{
    static const struct step_case cases[] = {
        {PRE "split~removed~ ~lead~first~_" SHOW, "a b", "[_a[b"},
        {PRE "split~removed~ ~lead~first~_" SHOW, " a", "[a"},
        {PRE "lead~first~_" SHOW, "a<s>b", "[_a<s>[b"},
        {PRE "lead~first~_" SHOW, "<s>b", "<s>[b"},
        {NORM "strip~left; strings mgpt.tokenizer.pre_tokenizers lead~first~_", " a", "a"},
        {NORM "strip~left; strings mgpt.tokenizer.pre_tokenizers lead~first~_", "a", "_a"},
        {NORM "replace~b~x; strings mgpt.tokenizer.pre_tokenizers lead~first~_", "ba", "_xa"},
        {NORM "replace~bb~x; strings mgpt.tokenizer.pre_tokenizers lead~first~_", "bba", "xa"},
        {NORM "map~m; u32s mgpt.tokenizer.map.m 61 61;"
              "strings mgpt.tokenizer.pre_tokenizers lead~first~_",
         "ab", "b"},
    };
    check_cases(cases, COUNT(cases));
}

/* ---- added tokens ---- */

enum { ADDED = 259 }; /* after <unk> <s> </s> and the bytes */

#define WORD "u32s mgpt.tokenizer.map.word 61 7A E9 E9 10400 10400;"

TEST(single_word)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, BYTES WORD
                                  "token cat 3; token at 3; i32s mgpt.tokenizer.single_word 259");
    tok_gives(t, "cat", PARSE, ADDED, -1);
    tok_gives(t, "-cat.", PARSE, 3 + '-', ADDED, 3 + '.', -1);
    tok_gives(t, "cats", PARSE, 3 + 'c', 3 + 'a', 3 + 't', 3 + 's', -1); /* its at does not count */
    tok_gives(t, "\u00E9cat", PARSE, 3 + 0xC3, 3 + 0xA9, 3 + 'c', 3 + 'a', 3 + 't', -1);
    tok_gives(t, "catcat", PARSE, 3 + 'c', 3 + 'a', 3 + 't', 3 + 'c', 3 + 'a', 3 + 't', -1);
    tok_gives(t, "\U00010400cat", PARSE, 3 + 0xF0, 3 + 0x90, 3 + 0x90, 3 + 0x80, 3 + 'c', 3 + 'a',
              3 + 't', -1);
    for (size_t at = 1018; at < 1026; at++) { /* tokens are looked for in blocks of 1024 bytes */
        char text[1031];
        memset(text, '-', sizeof text);
        memcpy(text + at, "<unk>", 5);
        assert_int_equal(tok_encode(t, text, sizeof text, PARSE, NULL, 0, NULL), sizeof text - 4);
    }
    tok_file_free(&f);
}

TEST(normalized)
{
    struct tok_file f;
    struct tok *t = tok_file_make(
        &f, NORM "map~low;" LOWER "token AB 4; token A 4; i32s mgpt.tokenizer.normalized 259");
    tok_gives(t, "xab", MGPT_NO_SPECIAL_TOKENS, 3 + 'x', ADDED, -1);
    tok_gives(t, "aB", MGPT_NO_SPECIAL_TOKENS, ADDED, -1);
    tok_gives(t, "AB", MGPT_NO_SPECIAL_TOKENS, ADDED + 1, 3 + 'b', -1); /* the other comes first */
    tok_file_free(&f);
    t = tok_file_make(&f, NORM "replace~x~; token x 4; i32s mgpt.tokenizer.normalized 259");
    tok_gives(t, "axb", MGPT_NO_SPECIAL_TOKENS, 3 + 'a', 3 + 'b',
              -1); /* an empty text is never found */
    tok_file_free(&f);
}

/* Each token may become longer, all of them together are limited. */
TEST(normalized_limit)
{
    enum { TOKENS = 200, LENGTH = 1000 };
    struct tok_file f;
    int32_t ids[TOKENS];
    char text[20 + 2 * LENGTH], x[LENGTH + 1] = "";
    for (size_t n_tokens = 25; n_tokens <= TOKENS; n_tokens += TOKENS - 25) {
        memset(x, 'x', LENGTH);
        tok_file_begin(&f, NULL, NULL);
        tok_file_edit(&f, BYTES);
        snprintf(text, sizeof text, "prepend~%s~prepend~%s", x, x);
        tok_file_strings(&f, "mgpt.tokenizer.normalizers", text);
        for (size_t i = 0; i < n_tokens; i++) {
            snprintf(text, sizeof text, "T%02zu", i);
            ids[i] = tok_file_token(&f, text, 4, 0);
        }
        tok_file_i32s(&f, "mgpt.tokenizer.normalized", ids, n_tokens);
        if (n_tokens < TOKENS)
            tok_file_open(&f);
        else
            tok_file_refused(&f, "mgpt.tokenizer.normalized: token 399: the normalized text is "
                                 "too long");
        tok_file_free(&f);
    }
}

/* ---- hostile files ---- */

static void refuses_text(const char *file, const char *text, size_t n, const char *message)
{
    struct tok_file f;
    mgpt_error err = {0};
    struct tok *t = tok_file_make(&f, file);
    assert_int_equal(tok_encode(t, text, n, MGPT_NO_SPECIAL_TOKENS, NULL, 0, &err), MGPT_ETEXT);
    assert_string_equal(err.text, message);
    tok_file_free(&f);
}

TEST(texts_are_utf8)
{
    static const struct {
        const char *file, *message;
    } cases[] = {
        {NORM "replace~\xff~a", "mgpt.tokenizer.normalizers[1]: expected UTF-8, found ''"},
        {NORM "replace~a~b\xc3", "mgpt.tokenizer.normalizers[2]: expected UTF-8, found ''"},
        {NORM "prepend~\xed\xa0\x80", "mgpt.tokenizer.normalizers[1]: expected UTF-8, found ''"},
        {PRE "split~removed~a|\x80", "mgpt.tokenizer.pre_tokenizers[2]: expected UTF-8, found ''"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tok_file f;
        char edits[200];
        snprintf(edits, sizeof edits, "%s", cases[i].file);
        tok_file_begin(&f, NULL, NULL);
        tok_file_edit(&f, edits);
        tok_file_refused(&f, cases[i].message);
    }
}

TEST(limits)
{
    char text[20001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    refuses_text(PRE "split~removed~(a+)+[bc]", text, 40,
                 "a pattern of the vocabulary takes too long on this text (PCRE2 error -47)");
    refuses_text(NORM "replace~a~aaaaaaaaaa~replace~a~aaaaaaaaaa~replace~a~aaaaaaaaaa~"
                      "replace~a~aaaaaaaaaa",
                 text, 20000, "the normalized text is too long");
}

/* A text that is put in has at most 1,024 bytes. */
TEST(texts_put_in)
{
    for (size_t n = 1024; n < 1026; n++) {
        struct tok_file f;
        char steps[1200];
        snprintf(steps, sizeof steps, "prepend~%0*d", (int)n, 0);
        tok_file_begin(&f, NULL, NULL);
        tok_file_edit(&f, BYTES);
        tok_file_strings(&f, "mgpt.tokenizer.normalizers", steps);
        if (n > 1024) {
            tok_file_refused(&f, "mgpt.tokenizer.normalizers[1]: expected a shorter text, found '"
                                 "0000000000000000000000000000000000000000'");
            continue;
        }
        assert_int_equal(
            tok_encode(tok_file_open(&f), "a", 1, MGPT_NO_SPECIAL_TOKENS, NULL, 0, NULL), n + 1);
        tok_file_free(&f);
    }
}

/* A text without matches, and one match as long as the text, take no more than others. */
TEST(long_texts)
{
    struct tok_file f;
    static char text[300001];
    memset(text, 'a', sizeof text - 1);
    struct tok *t = tok_file_make(&f, PRE "split~isolated~(?:aa)+b");
    assert_int_equal(tok_encode(t, text, 1000, MGPT_NO_SPECIAL_TOKENS, NULL, 0, NULL), 1000);
    tok_file_free(&f);
    t = tok_file_make(&f, PRE "split~isolated~\\p{N}|(?:aa)+");
    assert_int_equal(tok_encode(t, text, sizeof text - 1, MGPT_NO_SPECIAL_TOKENS, NULL, 0, NULL),
                     sizeof text - 1);
    tok_file_free(&f);
}
