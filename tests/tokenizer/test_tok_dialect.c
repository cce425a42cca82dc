/* what mgpt's own keys say about a tokenizer, and what is known without a key: white space
 * that special tokens swallow, where SentencePiece puts spaces, merging by rank. */
#include "support/tok_file.h"
#include "support/unit.h"

#define SPACE "\xE2\x96\x81"
#define OUR_KEY(name) "mgpt.tokenizer." name
#define PARSE (MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL)

/* ---- white space beside special tokens ------------------------------------------------------- */

enum { LEFT = 256, RIGHT, BOTH, NEITHER }; /* behind the bytes; ' ' is 220, '\n' 198, 'a' 64 */

static struct tok *open_strips(struct tok_file *f)
{
    tok_file_begin(f, "gpt2", "gpt-2");
    tok_file_alphabet(f);
    tok_file_token(f, "<left>", 3, 0);
    tok_file_token(f, "<right>", 3, 0);
    tok_file_token(f, "<both>", 4, 0);
    tok_file_token(f, "<neither>", 3, 0);
    tok_file_i32s(f, OUR_KEY("lstrip"), (const int32_t[]){LEFT, BOTH}, 2);
    tok_file_i32s(f, OUR_KEY("rstrip"), (const int32_t[]){RIGHT, BOTH}, 2);
    return tok_file_open(f);
}

TEST(strips)
{
    struct tok_file f;
    struct tok *t = open_strips(&f);
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

TEST(bad_strips)
{
    struct tok_file f;
    tok_file_begin(&f, "gpt2", "gpt-2");
    tok_file_alphabet(&f);
    tok_file_i32s(&f, OUR_KEY("rstrip"), (const int32_t[]){0, 256}, 2);
    tok_file_refused(&f, OUR_KEY("rstrip") "[1]: 256, the vocabulary has 256");
    tok_file_begin(&f, "gpt2", "gpt-2");
    tok_file_alphabet(&f);
    tok_file_i32s(&f, OUR_KEY("lstrip"), (const int32_t[]){-1}, 1);
    tok_file_refused(&f, OUR_KEY("lstrip") "[0]: -1, the vocabulary has 256");
}

/* ids: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 bytes, then these */
enum { SP = 259, A, B, SPA, SPSP, USER };

static void add_letters(struct tok_file *f)
{
    tok_file_sentencepiece(f, 1);
    tok_file_token(f, SPACE, 1, -10);
    tok_file_token(f, "a", 1, -11);
    tok_file_token(f, "b", 1, -12);
    tok_file_token(f, SPACE "a", 1, -1);
    tok_file_token(f, SPACE SPACE, 1, 0);
    tok_file_token(f, "<|user|>", 3, 0);
}

/* Files of llama.cpp say nothing, so the name does. */
TEST(phi3)
{
    static const char *const phi[] = {"Phi 3 Mini", "Phi-3-mini", "microsoft_phi3", "PHI3"};
    struct tok_file f;
    for (size_t i = 1; i < 4; i++) {
        tok_file_begin(&f, "llama", "default");
        tok_file_string(&f, "general.name", phi[i]);
        add_letters(&f);
        struct tok *t = tok_file_open(&f);
        tok_gives(t, "<|user|>\n a</s> a<s> a", PARSE, USER, SPA, 2, SPA, 1, SPSP, A, -1);
        tok_file_free(&f);
    }
    tok_file_begin(&f, "llama", "default");
    tok_file_string(&f, "general.name", phi[0]);
    add_letters(&f);
    tok_gives(tok_file_open(&f), "<|user|> a", PARSE, USER, SPSP, A, -1);
    tok_file_free(&f);
    tok_file_begin(&f, "llama", "default"); /* the key says it all */
    tok_file_string(&f, "general.name", "Phi-3");
    tok_file_i32s(&f, OUR_KEY("rstrip"), (const int32_t[]){2}, 1);
    add_letters(&f);
    tok_gives(tok_file_open(&f), "<|user|> a</s> a", PARSE, USER, SPSP, A, 2, SPA, -1);
    tok_file_free(&f);
}

/* ---- SentencePiece's spaces ------------------------------------------------------------------ */

static struct tok *open_spaces(struct tok_file *f, const char *key, const char *other)
{
    tok_file_begin(f, "llama", "default");
    if (key)
        tok_file_bool(f, key, strcmp(key, "tokenizer.ggml.add_space_prefix") != 0);
    if (other)
        tok_file_bool(f, other, 1);
    add_letters(f);
    return tok_file_open(f);
}

TEST(spaces)
{
    struct tok_file f;
    struct tok *t = open_spaces(&f, NULL, NULL);
    tok_gives(t, "a", PARSE, SPA, -1);
    tok_gives(t, " a", PARSE, SPSP, A, -1);
    tok_gives(t, "a<s>a", PARSE, SPA, 1, SPA, -1);
    tok_file_free(&f);
    t = open_spaces(&f, "tokenizer.ggml.add_space_prefix", NULL); /* Gemma */
    tok_gives(t, "a", PARSE, A, -1);
    tok_gives(t, " a  b", PARSE, SPA, SPSP, B, -1);
    tok_file_free(&f);
    t = open_spaces(&f, OUR_KEY("space_missing"), NULL); /* Metaspace, always */
    tok_gives(t, "a", PARSE, SPA, -1);
    tok_gives(t, " a", PARSE, SPA, -1);
    tok_gives(t, SPACE "a", PARSE, SPA, -1);
    tok_gives(t, "a<s>a<s> a", PARSE, SPA, 1, SPA, 1, SPA, -1);
    tok_file_free(&f);
    t = open_spaces(&f, OUR_KEY("space_missing"), OUR_KEY("space_first")); /* Metaspace, first */
    tok_gives(t, "a<s>a<s> a", PARSE, SPA, 1, A, 1, SPA, -1);
    tok_gives(t, "<s>a", PARSE, 1, A, -1);
    tok_file_free(&f);
    t = open_spaces(&f, OUR_KEY("space_alone"), NULL); /* Metaspace, split */
    tok_gives(t, " a  a", PARSE, SP, SPA, SP, SPA, -1);
    tok_file_free(&f);
}

/* The offset of an error counts in the text, with a space in front or without. */
TEST(offsets)
{
    struct tok_file f;
    for (int in_front = 0; in_front < 2; in_front++) {
        tok_file_begin(&f, "llama", "default");
        tok_file_bool(&f, "tokenizer.ggml.add_space_prefix", in_front);
        tok_file_token(&f, SPACE, 1, 0);
        tok_file_token(&f, "a", 1, 0);
        tok_refuses(
            tok_file_open(&f), "a a\xC3\xA9", 5, 3,
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
    tok_file_begin(&f, "llama", "default");
    add_letters(&f);
    int32_t user = tok_file_token(&f, SPACE SPACE SPACE "x", 4, 0);
    struct tok *t = tok_file_open(&f);
    tok_gives(t, "a   xa", MGPT_NO_SPECIAL_TOKENS, SPA, user, SPA, -1);
    assert_memory_equal(tok_piece(t, user, &n), "   x", 4);
    assert_int_equal(n, 4);
    tok_file_free(&f);
}

/* ---- merging by rank ------------------------------------------------------------------------- */

enum { R_A = 259, R_B, R_AB, R_ABA, R_BA };

static struct tok *open_ranked(struct tok_file *f, int ranked)
{
    tok_file_begin(f, "llama", "default");
    tok_file_bool(f, OUR_KEY("ranked"), ranked);
    tok_file_bool(f, "tokenizer.ggml.add_space_prefix", 0);
    tok_file_sentencepiece(f, 1);
    tok_file_token(f, "a", 1, -9);
    tok_file_token(f, "b", 1, -9);
    tok_file_token(f, "ab", 1, -1); /* by score it would come first */
    tok_file_token(f, "aba", 1, -2);
    tok_file_token(f, "ba", 1, -3);
    tok_file_merge(f, "b a");
    tok_file_merge(f, "a b");
    tok_file_merge(f, "a ba"); /* but there is no "ab a" */
    return tok_file_open(f);
}

TEST(ranked)
{
    struct tok_file f;
    struct tok *t = open_ranked(&f, 1);
    tok_gives(t, "aba", PARSE, R_ABA, -1);
    tok_gives(t, "abab", PARSE, R_ABA, R_B, -1);
    tok_gives(t, "bab", PARSE, R_BA, R_B, -1);
    tok_gives(t,
              "a\xC3\xA9"
              "b",
              PARSE, R_A, 3 + 0xC3, 3 + 0xA9, R_B, -1);
    tok_file_free(&f);
    t = open_ranked(&f, 0);
    tok_gives(t, "bab", PARSE, R_B, R_AB, -1);
    tok_file_free(&f);
}

TEST(bad_ranked)
{
    struct tok_file f;
    tok_file_begin(&f, "llama", NULL);
    tok_file_string(&f, OUR_KEY("ranked"), "yes");
    tok_file_sentencepiece(&f, 1);
    tok_file_refused(&f, "key " OUR_KEY("ranked") ": expected a bool, found a string");
    tok_file_free(&f);
}

/* The piece as long as the text, once more: 100 kB must not take a quadratic time. */
TEST(ranked_work)
{
    const size_t n = 1000000;
    struct tok_file f;
    struct tok *t = open_ranked(&f, 1);
    char *text = malloc(n);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = i % 2 ? 'b' : 'a';
    /* every b joins the a behind it, and the first a the first of these */
    assert_int_equal(tok_encode(t, text, n, PARSE, NULL, 0, NULL), n / 2);
    memset(text, ' ', n);
    assert_int_equal(tok_encode(t, text, n, PARSE, NULL, 0, NULL), 3 * n); /* bytes of U+2581 */
    free(text);
    tok_file_free(&f);
}
