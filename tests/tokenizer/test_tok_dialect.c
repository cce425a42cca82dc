/* mgpt's own keys of a tokenizer, and their defaults: white space that special tokens strip, where
 * SentencePiece puts spaces, merging by rank. */
#include "base/utf8.h"
#include "support/tok_file.h"
#include "support/unit.h"

#define SPACE "\xE2\x96\x81"
#define OUR_KEY(name) "mgpt.tokenizer." name
#define PARSE (MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL)

/* ---- white space next to special tokens ---- */

enum { LEFT = 256, RIGHT, BOTH, NEITHER }; /* after the bytes; ' ' is 220, '\n' 198, 'a' 64 */

TEST(strips)
{
    struct tok_file f;
    struct tok *t =
        tok_file_make(&f, "model gpt2; pre gpt-2; alphabet; token <left> 3; token <right> 3;"
                          "token <both> 4; token <neither> 3;"
                          "i32s mgpt.tokenizer.lstrip 256 258; i32s mgpt.tokenizer.rstrip 257 258");
    tok_gives(t, "a \n<left> a", PARSE, 64, LEFT, 220, 64, -1);
    tok_gives(t, "a <right> \n\ta", PARSE, 64, 220, RIGHT, 64, -1);
    tok_gives(t, "a <both> a", PARSE, 64, BOTH, 64, -1);
    tok_gives(t, "a <neither> a", PARSE, 64, 220, NEITHER, 220, 64, -1);
    tok_gives(t, " <left> <right> ", PARSE, LEFT, 220, RIGHT, -1);
    tok_gives(t, "<right>  <left>", PARSE, RIGHT, LEFT, -1);
    /* white space of all widths, but nothing that only looks like it */
    tok_gives(t, "\u3000\u00A0\u2003<left>", PARSE, LEFT, -1);
    tok_gives(t, "<right>\xC2\x85\u2028a", PARSE, RIGHT, 64, -1);
    tok_gives(t, "<right>\xFF", PARSE, RIGHT, 187, -1);
    tok_gives(t, "\x80<left>", PARSE, 222, LEFT, -1);
    tok_gives(t, "<right>\u200B", PARSE, RIGHT, 158, 222, 233, -1);
    /* a user-defined token counts always */
    tok_gives(t, "a <both> a", MGPT_NO_SPECIAL_TOKENS, 64, BOTH, 64, -1);
    tok_file_free(&f);
}

/* White space is what Unicode says (White_Space), of one to three bytes. */
TEST(strips_white_space)
{
    struct tok_file f;
    struct tok *t =
        tok_file_make(&f, "model gpt2; pre gpt-2; alphabet; token <right> 3;"
                          "i32s mgpt.tokenizer.rstrip 256; i32s mgpt.tokenizer.lstrip 256");
    for (uint32_t code = 1; code < 0x3100; code++) {
        static const uint32_t others[] = {0x20,   0x85,   0xA0,   0x1680, 0x2028,
                                          0x2029, 0x202F, 0x205F, 0x3000};
        int is_white = (code >= 9 && code <= 13) || (code >= 0x2000 && code <= 0x200A);
        char text[40];
        int32_t ids[40];
        size_t n = 0;
        for (size_t i = 0; i < COUNT(others); i++)
            is_white |= code == others[i];
        for (int left = 0; left < 2; left++) {
            n = left ? 0 : (size_t)snprintf(text, sizeof text, "<right>");
            n += utf8_put(code, text + n);
            n += left ? (size_t)snprintf(text + n, sizeof text - n, "<right>") : 0;
            int64_t found = tok_encode(t, text, n, PARSE, ids, 40, NULL);
            if ((found == 1) != is_white)
                fail_msg("U+%04X: %d tokens", code, (int)found);
        }
    }
    tok_file_free(&f);
}

/* ids: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 bytes, then these */
enum { SP = 259, A, B, SPA, SPSP, USER };

#define LETTERS                                                                                    \
    "model llama; pre default; pieces bytes; token " SPACE " 1 -10; token a 1 -11;"                \
    "token b 0 -12; token " SPACE "a 1 -1; token " SPACE SPACE " 1 0; token <|user|> 3;"

/* Files of llama.cpp have no such key: the name of the model decides. */
TEST(phi3)
{
    static const char *const phi[] = {"Phi-3-mini", "microsoft_phi3", "PHI3"};
    struct tok_file f;
    for (size_t i = 0; i < COUNT(phi); i++) {
        tok_file_begin(&f, NULL, NULL);
        tok_file_edit(&f, LETTERS "token <|endoftext|> 3");
        tok_file_string(&f, "general.name", phi[i]);
        tok_gives(tok_file_open(&f), "<|user|>\n a</s> a<s> a<|endoftext|> a", PARSE, USER, SPA, 2,
                  SPA, 1, SPSP, A, USER + 1, SPSP, A, -1);
        tok_file_free(&f);
    }
    size_t n;
    tok_piece(tok_file_make(&f, LETTERS), B, &n); /* type 0, undefined, is normal */
    assert_int_equal(n, 1);
    tok_file_free(&f);
    tok_gives(tok_file_make(&f, LETTERS "string general.name Phi 3 Mini"), "<|user|> a", PARSE,
              USER, SPSP, A, -1); /* not the name of a Phi-3 */
    tok_file_free(&f);
    tok_gives(tok_file_make(&f, LETTERS "string general.name Phi-3; i32s mgpt.tokenizer.rstrip 2"),
              "<|user|> a</s> a", PARSE, USER, SPSP, A, 2, SPA, -1); /* a key overrides the name */
    tok_file_free(&f);
}

/* ---- SentencePiece's spaces ---- */

TEST(spaces)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, LETTERS);
    tok_gives(t, "a", PARSE, SPA, -1);
    tok_gives(t, " a", PARSE, SPSP, A, -1);
    tok_gives(t, "a<s>a", PARSE, SPA, 1, SPA, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, LETTERS "bool add_space_prefix 0"); /* Gemma */
    tok_gives(t, "a", PARSE, A, -1);
    tok_gives(t, " a  b", PARSE, SPA, SPSP, B, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, LETTERS "bool mgpt.tokenizer.space_missing 1"); /* Metaspace, always */
    tok_gives(t, "a", PARSE, SPA, -1);
    tok_gives(t, " a", PARSE, SPA, -1);
    tok_gives(t, SPACE "a", PARSE, SPA, -1);
    tok_gives(t, "a<s>a<s> a", PARSE, SPA, 1, SPA, 1, SPA, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, LETTERS "bool mgpt.tokenizer.space_missing 1;"
                                  "bool mgpt.tokenizer.space_first 1"); /* Metaspace, first */
    tok_gives(t, "a<s>a<s> a", PARSE, SPA, 1, A, 1, SPA, -1);
    tok_gives(t, "<s>a", PARSE, 1, A, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, LETTERS "bool mgpt.tokenizer.space_alone 1"); /* Metaspace, split */
    tok_gives(t, " a  a", PARSE, SP, SPA, SP, SPA, -1);
    tok_file_free(&f);
}

/* The offset of an error counts in the text, with a space in front or without. */
TEST(offsets)
{
    static const char *const files[] = {
        "model llama; pre default; bool add_space_prefix 0; token " SPACE "; token a",
        "model llama; pre default; bool add_space_prefix 1; token " SPACE "; token a"};
    for (size_t i = 0; i < COUNT(files); i++) {
        struct tok_file f;
        tok_refuses(
            tok_file_make(&f, files[i]), "a a\xC3\xA9", 5, 3,
            "character '\xC3\xA9' (U+00E9) at byte 3 is not in the vocabulary (2 tokens, no "
            "bytes)");
        tok_file_free(&f);
    }
}

/* A user-defined token is found where texts have spaces, and decoded to them. */
TEST(user_spaces)
{
    struct tok_file f;
    size_t n;
    struct tok *t = tok_file_make(&f, LETTERS "token " SPACE SPACE SPACE "x 4");
    const int32_t user = USER + 1;
    tok_gives(t, "a   xa", MGPT_NO_SPECIAL_TOKENS, SPA, user, SPA, -1);
    assert_memory_equal(tok_piece(t, user, &n), "   x", 4);
    assert_int_equal(n, 4);
    tok_file_free(&f);
}

/* ---- merging by rank ---- */

enum { R_A = 259, R_B, R_AB, R_ABA, R_BA };

/* By score ab would come first. There is no "ab a". */
#define RANKED                                                                                     \
    "model llama; pre default; bool add_space_prefix 0; pieces bytes; token a 1 -9; token b 1 -9;" \
    "token ab 1 -1; token aba 1 -2; token ba 1 -3; merge b a; merge a b; merge a ba;"

TEST(ranked)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, RANKED "bool mgpt.tokenizer.ranked 1");
    tok_gives(t, "aba", PARSE, R_ABA, -1);
    tok_gives(t, "abab", PARSE, R_ABA, R_B, -1);
    tok_gives(t, "bab", PARSE, R_BA, R_B, -1);
    tok_gives(t,
              "a\xC3\xA9"
              "b",
              PARSE, R_A, 3 + 0xC3, 3 + 0xA9, R_B, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, RANKED "bool mgpt.tokenizer.ranked 0");
    tok_gives(t, "bab", PARSE, R_B, R_AB, -1);
    tok_file_free(&f);
}

/* llama.cpp's Gemma 4: ranks without a key, BOS, no space in front, and runs of newlines are tokens, the
 * longest first, though no merge makes them. */
TEST(gemma4)
{
    struct tok_file f;
    tok_file_begin(&f, NULL, NULL);
    tok_file_edit(&f, "model gemma4; u32 bos_token_id 1; pieces bytes; token a; token b; token ab;"
                      "token aba; token ba; token " SPACE "; token " SPACE
                      "a; merge b a; merge a b; merge a ba; merge " SPACE " a");
    const int32_t newline = 3 + '\n', spa = R_BA + 2, two = tok_file_token(&f, "\n\n", 1, 0);
    size_t n;
    struct tok *t = tok_file_open(&f);
    tok_gives(t, "bab a", 0, 1, R_BA, R_B, spa, -1);
    tok_gives(t, "\n\n\na", 0, 1, two, newline, R_A, -1);
    assert_memory_equal(tok_piece(t, spa, &n), " a", 2);
    tok_file_free(&f);
}

/* The piece as long as the text, once more: 100 kB must not take a quadratic time. */
TEST(ranked_work)
{
    const size_t n = 1000000;
    struct tok_file f;
    struct tok *t = tok_file_make(&f, RANKED "bool mgpt.tokenizer.ranked 1");
    char *text = malloc(n);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = i % 2 ? 'b' : 'a';
    /* every b joins the a that follows it, and the first a the first of these */
    assert_int_equal(tok_encode(t, text, n, PARSE, NULL, 0, NULL), n / 2);
    memset(text, ' ', n);
    assert_int_equal(tok_encode(t, text, n, PARSE, NULL, 0, NULL), 3 * n); /* bytes of U+2581 */
    free(text);
    tok_file_free(&f);
}
