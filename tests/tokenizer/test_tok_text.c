/* BPE of characters: unknown ones, bytes, prefixes and suffixes; and decoding by steps. */
#include "support/tok_file.h"
#include "support/unit.h"

#define PARSE (MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL)
#define OUR "mgpt.tokenizer."

enum { A, B, AB, UNK, C3, A9, ABA };

#define TOKENS                                                                                     \
    "model mgpt-bpe; token a; token b; token ab; token <unk> 2; token <0xC3> 6; token <0xA9> 6;"   \
    "token aba; i32s " OUR "merge_ids 0 1 2 2 0 6;"
#define WITH_UNK TOKENS "u32 unknown_token_id 3;"

TEST(unknown)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, TOKENS);
    assert_string_equal(tok_kind(t), "bpe");
    tok_gives(t, "abab", PARSE, AB, AB, -1);
    tok_gives(t, "aba", PARSE, ABA, -1);
    tok_gives(t, "axb", PARSE, AB, -1); /* x vanishes */
    tok_gives(t, "xyz", PARSE, -1);
    tok_gives(t, "\xFF", PARSE, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, WITH_UNK);
    tok_gives(t, "axyb", PARSE, A, UNK, UNK, B, -1);
    tok_gives(t, "\u00E9", PARSE, UNK, -1);
    tok_gives(t, "<unk>a", PARSE, UNK, A, -1);
    tok_gives(t, "<unk>a", MGPT_NO_SPECIAL_TOKENS, UNK, UNK, UNK, UNK, UNK, A, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, WITH_UNK "bool " OUR "fuse_unknown 1");
    tok_gives(t, "xyaxyz", PARSE, UNK, A, UNK, -1);
    tok_file_free(&f);
}

TEST(bytes)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, WITH_UNK "bool " OUR "byte_fallback 1");
    tok_gives(t, "a\u00E9b", PARSE, A, C3, A9, B, -1);
    tok_gives(t, "\u00E8", PARSE, UNK, -1);          /* not all of its bytes are tokens */
    tok_gives(t, "x\u00E9", PARSE, C3, A9, UNK, -1); /* Hugging Face's order */
    tok_file_free(&f);
}

TEST(affixes)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, "model mgpt-bpe; token a; token ##a; token ##a/; token a/;"
                                      "token aa/; string " OUR "prefix ##; string " OUR "suffix /;"
                                      "i32s " OUR "merge_ids 0 2 4");
    tok_gives(t, "a", PARSE, 3, -1);
    tok_gives(t, "aa", PARSE, 4, -1);
    tok_gives(t, "aaa", PARSE, 0, 1, 2, -1);
    tok_file_free(&f);
}

TEST(whole)
{
    struct tok_file f;
    const char *edits = "model mgpt-bpe; token a; token b; token ba; token abab; token x 4;"
                        "i32s " OUR "added 4; bool " OUR "whole_pieces 1;";
    struct tok *t = tok_file_make(&f, edits);
    tok_gives(t, "abab", PARSE, 3, -1);
    tok_gives(t, "ba", PARSE, 2, -1);
    tok_gives(t, "aba", PARSE, 0, 1, 0, -1);
    tok_gives(t, "axa", PARSE, 0, 4, 0, -1);
    tok_file_free(&f);
}

/* The last of equal merges counts. */
TEST(equal_merges)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, "model mgpt-bpe; token a; token b; token ab; token ba;"
                                      "i32s " OUR "merge_ids 0 1 2 1 0 3 0 1 2");
    tok_gives(t, "aba", PARSE, 0, 3, -1);
    tok_file_free(&f);
}

/* A piece as long as the text. */
TEST(long_piece)
{
    struct tok_file f;
    static char text[200000];
    memset(text, 'a', sizeof text);
    struct tok *t = tok_file_make(&f, "model mgpt-bpe; token a; token aa; token aaaa;"
                                      "i32s " OUR "merge_ids 0 0 1 1 1 2");
    assert_int_equal(tok_encode(t, text, sizeof text, PARSE, NULL, 0, NULL), sizeof text / 4);
    tok_file_free(&f);
}

/* ---- byte-level BPE without all bytes ---- */

TEST(dropped_bytes)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, "model gpt2; pre gpt-2; token a; token b; token ab;"
                                      "merge a b; bool " OUR "drops_unknown 1");
    tok_gives(t, "axb", PARSE, 2, -1);
    tok_gives(t, "xx", PARSE, -1);
    tok_file_free(&f);
}

/* ---- decoding ---- */

static void decodes(const char *edits, const char *token, int type, const char *want)
{
    struct tok_file f;
    size_t n;
    tok_file_begin(&f, NULL, NULL);
    tok_file_edit(&f, edits);
    tok_file_token(&f, token, type, 0);
    const char *piece = tok_piece(tok_file_open(&f), 0, &n);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(piece, want, n);
    tok_file_free(&f);
}

TEST(decoders)
{
#define DECODE "model mgpt-bpe; strings " OUR "decoders "
#define NORMAL DECODE "bytes; strings " OUR "normalizers replace~A~\u0120; i32s " OUR "normalized "
    decodes("model mgpt-bpe", "ab", 1, "ab");
    decodes(DECODE "replace~</w>~ ", "ab</w>", 1, "ab ");
    decodes(DECODE "replace~_~ ~replace~a~", "_aa_b", 1, "  b");
    decodes(DECODE "bytes", "\u0120\u00C3\u00A9", 1, " \u00E9");
    decodes(DECODE "bytes", "\u0120\u65E5", 1, "\u0120\u65E5");
    decodes(DECODE "bytes", "\u0120", 4, "\u0120");
    decodes(DECODE "lead~ ", "a", 4, " a");
    decodes(DECODE "unprefix~##", "##a", 1, "a");
    decodes(DECODE "unprefix~##", "a#", 1, " a#");
    decodes(DECODE "unprefix~##~cleanup", ".", 1, ".");
    decodes(DECODE "unprefix~##~cleanup", "n't", 1, "n't");
    decodes(DECODE "unprefix~##~cleanup", "nt", 1, " nt");
    decodes(DECODE "cleanup", "a . ! ' I do not 've .", 1, "a.!'I don't've.");
    decodes(DECODE "cleanup", "a ? b , c n't d 'm e 's f 're g 've", 1,
            "a? b, cn't d'm e's f're g've");
    decodes(DECODE "lead~ ", "<s>", 3, "");
    decodes(NORMAL "0", "Ab", 4, " b");
    decodes(NORMAL "0", "A\u0120", 4, "  ");
    decodes(NORMAL "0", "b\u0120", 4, "b\u0120"); /* which the normalizer does not change */
    decodes(DECODE "lead~ ", "<0x41>", 6, "A");
}

TEST(drops_space)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, "model mgpt-bpe; strings " OUR "decoders lead~ ; token a;"
                                      "token b 4; bool " OUR "drops_space 1");
    assert_int_equal(tok_drops_space(t, 0), 1);
    assert_int_equal(tok_drops_space(t, 1), 0);
    tok_file_free(&f);
}
