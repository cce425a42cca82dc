/* WordPiece and WordLevel: the longest tokens, unknown words, limits. Ids of Hugging Face's
 * tokenizers: test_hf_tokenizer.c. What is refused: refused.txt. */
#include "support/tok_file.h"
#include "support/unit.h"

#define PARSE (MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL)
#define OUR "mgpt.tokenizer."
#define WORDS "strings " OUR "normalizers; strings " OUR "pre_tokenizers split~removed~ ;"

enum { UNK, A, AB, IN_B, IN_BA, ABB, IN_HASH, PREFIX, AE };

#define TOKENS                                                                                     \
    "token [UNK] 2; token a; token ab; token ##b; token ##ba; token abb; token ###; token ##;"     \
    "token a\u00E9;"
#define PIECES                                                                                     \
    "model mgpt-wordpiece;" TOKENS WORDS "u32 unknown_token_id 0; string " OUR "prefix ##;"

TEST(wordpiece)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, PIECES);
    assert_string_equal(tok_kind(t), "wordpiece");
    tok_gives(t, "a ab abb", PARSE, A, AB, ABB, -1);
    tok_gives(t, "abbb abbba", PARSE, ABB, IN_B, ABB, IN_BA, -1);
    tok_gives(t, "aba abab", PARSE, UNK, UNK, -1); /* abab: ab, then nothing begins with "a" */
    tok_gives(t, "ab#", PARSE, AB, IN_HASH, -1);
    tok_gives(t, "##", PARSE, PREFIX, -1);
    tok_gives(t, "a##", PARSE, A, IN_HASH, IN_HASH, -1);
    tok_gives(t, "##b b", PARSE, IN_B, UNK, -1); /* as it is written, it begins a word */
    tok_gives(t, "a\u00E9b a\u00E8", PARSE, AE, IN_B, UNK, -1);
    tok_gives(t, "", PARSE, -1);
    tok_file_free(&f);
}

/* The tokens of the beginning of an unknown word do not stay, wherever the buffer ends. */
TEST(rewinds)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, PIECES);
    int32_t ids[3] = {-7, -7, -7};
    assert_int_equal(tok_encode(t, "a abbbbx a", 10, PARSE, ids, 2, NULL), 3);
    assert_int_equal(ids[0], A);
    assert_int_equal(ids[1], UNK);
    assert_int_equal(ids[2], -7);
    tok_file_free(&f);
}

TEST(long_words)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, PIECES "u32 " OUR "word_chars 3");
    tok_gives(t, "abb abbb a\u00E9b", PARSE, ABB, UNK, AE, IN_B, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, PIECES "u32 " OUR "word_chars 0");
    tok_gives(t, "a ab", PARSE, UNK, UNK, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, PIECES);
    char text[102] = "";
    memset(text, 'b', 101);
    text[0] = 'a';
    assert_int_equal(tok_encode(t, text, 100, PARSE, NULL, 0, NULL), 1 + 97); /* abb, ##b ... */
    assert_int_equal(tok_encode(t, text, 101, PARSE, NULL, 0, NULL), 1);
    tok_file_free(&f);
}

/* Without a prefix tokens continue words as they begin them. */
TEST(no_prefix)
{
    struct tok_file f;
    struct tok *t =
        tok_file_make(&f, "model mgpt-wordpiece;" TOKENS WORDS "u32 unknown_token_id 0");
    tok_gives(t, "aab abbab", PARSE, A, AB, ABB, AB, -1);
    tok_gives(t, "a##b", PARSE, A, IN_B, -1);
    tok_file_free(&f);
}

TEST(wordlevel)
{
    struct tok_file f;
    struct tok *t =
        tok_file_make(&f, "model mgpt-wordlevel;" TOKENS WORDS "u32 unknown_token_id 0");
    assert_string_equal(tok_kind(t), "wordlevel");
    tok_gives(t, "ab abb aba abbb ##b", PARSE, AB, ABB, UNK, UNK, IN_B, -1);
    tok_gives(t, "a[UNK]b", PARSE, A, UNK, UNK, -1);
    tok_file_free(&f);
}

/* Tokens of the list of added ones only are found as such, not as parts of words. */
TEST(added)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, PIECES "token ##bb 1; i32s " OUR "added 9");
    tok_gives(t, "abbbb", PARSE, ABB, IN_B, IN_B, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, PIECES "token ##bb 1");
    tok_gives(t, "abbbb", PARSE, ABB, 9, -1);
    tok_file_free(&f);
}

TEST(no_unknown)
{
    static const char *const kinds[] = {"model mgpt-wordpiece; token a;" WORDS,
                                        "model mgpt-wordlevel; token a;" WORDS};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct tok_file f;
        mgpt_error err = {0};
        struct tok *t = tok_file_make(&f, kinds[i]);
        tok_gives(t, "a a", PARSE, 0, 0, -1);
        assert_int_equal(tok_encode(t, "a \u00E9a", 5, PARSE, NULL, 0, &err), MGPT_ETEXT);
        assert_non_null(strstr(err.text, "a word that begins with character '\u00E9' (U+00E9) is "
                                         "not in the vocabulary"));
        tok_file_free(&f);
    }
}

/* Every place of the text agrees with 10,000 bytes of a token that never ends there: the limit of
 * a word bounds the time. */
TEST(hostile)
{
    struct tok_file f;
    static char token[10002], text[200000];
    memset(token, 'a', 10000);
    token[10000] = 'b';
    memset(text, 'a', sizeof text);
    for (size_t i = 99; i < sizeof text; i += 100)
        text[i] = ' ';
    tok_file_begin(&f, NULL, NULL);
    tok_file_edit(&f, "model mgpt-wordpiece; token a; u32 unknown_token_id 0;" WORDS);
    tok_file_token(&f, token, 1, 0);
    struct tok *t = tok_file_open(&f);
    assert_int_equal(tok_encode(t, text, sizeof text, PARSE, NULL, 0, NULL), 2000 * 99);
    tok_file_free(&f);
}
