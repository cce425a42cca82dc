/* What all tokenizers share: opening, refusing, ids, special tokens. The kinds:
 * test_tok_char.c, test_tok_bpe.c, test_tok_spm.c. */
#include "support/tok_file.h"
#include "support/unit.h"

#define KEY(name) "tokenizer.ggml." name

/* ---- opening ---- */

TEST(no_vocabulary)
{
    const char *const models[] = {NULL, "none", "no_vocab"};
    for (size_t i = 0; i < 3; i++) {
        struct tok_file f;
        tok_file_begin(&f, models[i], NULL);
        struct tok *t = tok_file_open(&f);
        assert_string_equal(tok_kind(t), "none");
        assert_int_equal(tok_count(t), 0);
        assert_int_equal(tok_bos(t), -1);
        assert_int_equal(tok_eos(t), -1);
        assert_int_equal(tok_adds_bos(t), 0);
        assert_int_equal(tok_is_end(t, 0), 0);
        size_t n = 1;
        tok_piece(t, 0, &n);
        assert_int_equal(n, 0);
        tok_refuses(t, "a", 1, MGPT_NO_OFFSET,
                    "the model file has no vocabulary, so text cannot be encoded");
        tok_file_free(&f);
    }
    tok_free(NULL);
}

static void check_refused(char *row, void *user)
{
    struct tok_file f;
    char *line = strstr(row, " => ");
    (void)user;
    assert_non_null(line);
    *line = 0;
    tok_file_begin(&f, NULL, NULL);
    tok_file_edit(&f, row);
    tok_file_refused(&f, line + 4);
}

TEST(refused)
{
    assert_int_equal(unit_rows("tests/tokenizer/refused.txt", check_refused, NULL), 99);
}

TEST(refuses_a_long_token)
{
    struct tok_file f;
    char *longest = calloc(65536, 1);
    tok_file_begin(&f, "gpt2", NULL);
    tok_file_token(&f, "a", 1, 0);
    tok_file_token_n(&f, longest, 65536, 1, 0);
    tok_file_refused(&f, "tokenizer.ggml.tokens[1]: 65536 bytes, the limit is 65535");
    free(longest);
}

/* ---- ids ---- */

TEST(ids)
{
    static const struct {
        const char *file;
        int bos, eos, adds_bos;
    } rows[] = {
        {"model llama; pieces bytes", 1, 2, 1},
        {"model llama; token a", -1, -1, 0}, /* too small for the default ids */
        {"model llama; token a; token b; token c; token d", -1, -1, 0}, /* ids 1 and 2 are text */
        {"model gpt2; alphabet", -1, -1, 0},
        /* an id beyond the vocabulary is ignored */
        {"model llama; pieces bytes; u32 bos_token_id 2; u32 eos_token_id 259; bool add_bos_token "
         "0",
         2, 2, 0},
        /* without a BOS there is nothing to add */
        {"model gpt2; alphabet; bool add_bos_token 1; bool add_eos_token 1", -1, -1, 0},
    };
    struct tok_file f;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tok *t = tok_file_make(&f, rows[i].file);
        assert_int_equal(tok_bos(t), rows[i].bos);
        assert_int_equal(tok_eos(t), rows[i].eos);
        assert_int_equal(tok_adds_bos(t), rows[i].adds_bos);
        if (i == COUNT(rows) - 1)
            tok_gives(t, "!", 0, 0, -1);
        tok_file_free(&f);
    }
}

TEST(end_tokens)
{
    struct tok_file f;
    tok_file_begin(&f, "gpt2", NULL);
    tok_file_alphabet(&f);
    int32_t eos = tok_file_token(&f, "my end", 3, 0), eot = tok_file_token(&f, "x", 4, 0);
    int32_t eom = tok_file_token(&f, "y", 3, 0), bos = tok_file_token(&f, "<s>", 3, 0);
    int32_t by_text = tok_file_token(&f, "<|im_end|>", 3, 0);
    int32_t not_control = tok_file_token(&f, "<|eot_id|>", 4, 0);
    int32_t longer = tok_file_token(&f, "</s>>", 3, 0);
    tok_file_u32(&f, KEY("bos_token_id"), (uint32_t)bos);
    tok_file_u32(&f, KEY("eos_token_id"), (uint32_t)eos);
    tok_file_u32(&f, KEY("eot_token_id"), (uint32_t)eot);
    tok_file_u32(&f, KEY("eom_token_id"), (uint32_t)eom);
    tok_file_edit(&f, "i32s mgpt.tokenizer.end_token_ids 7 257 9; token [EOS] 3; token [EO] 3");
    struct tok *t = tok_file_open(&f);
    const int32_t ends[] = {eos, eot, eom, by_text, 7, 9, 263},
                  others[] = {0, bos, not_control, longer, -1, 100000, 264};
    for (size_t i = 0; i < COUNT(ends); i++)
        assert_int_equal(tok_is_end(t, ends[i]), 1);
    for (size_t i = 0; i < COUNT(others); i++)
        assert_int_equal(tok_is_end(t, others[i]), 0);
    assert_string_equal(tok_ignored(t), "");
    tok_file_free(&f);
}

/* Where <|return|> and <|call|> end an answer, <|end|> ends a message; a key may say otherwise. */
TEST(message_end)
{
    static const struct {
        const char *edits;
        int is_end;
    } rows[] = {{"token <|end|> 3", 1},
                {"token <|end|> 3; token <|return|> 3", 1},
                {"token <|end|> 3; token <|return|> 3; token <|call|> 4", 1},
                {"token <|end|> 3; token <|return|> 3; token <|call|> 3", 0},
                {"token <|end|> 3; token <|calls|> 3; token <|flush|> 3", 0},
                {"token <|end|> 3; token <|return|> 3; token <|call|> 3; u32 eos_token_id 256", 1},
                {"token <|end|> 3; token <|return|> 3; token <|call|> 3; i32s "
                 "mgpt.tokenizer.end_token_ids 256",
                 1}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tok_file f;
        char edits[200];
        snprintf(edits, sizeof edits, "model gpt2; alphabet; %s", rows[i].edits);
        struct tok *t = tok_file_make(&f, edits);
        assert_int_equal(tok_is_end(t, 256), rows[i].is_end);
        tok_file_free(&f);
    }
}

/* Ids that no token has are named, in the order of reading, and the defaults stay. */
TEST(ignored_ids)
{
    struct tok_file f;
    struct tok *t = tok_file_make(&f, "model llama; pieces bytes; u32 bos_token_id 259;"
                                      "u32 unknown_token_id 2147483648; u32 eot_token_id 258");
    assert_string_equal(tok_ignored(t),
                        KEY("bos_token_id") " is 259, " KEY("unknown_token_id") " is 2147483648");
    assert_int_equal(tok_bos(t), 1);
    assert_int_equal(tok_is_end(t, 258), 1);
    tok_file_free(&f);
}

/* Several tokens before and after a text; not before one that begins with the first of them. */
TEST(around_texts)
{
    struct tok_file f;
    struct tok *t =
        tok_file_make(&f, "model gpt2; alphabet; token <m> 3; token <s> 3; token <e> 3;"
                          "u32 bos_token_id 256; bool add_bos_token 1; i32s "
                          "mgpt.tokenizer.before 256 257; i32s mgpt.tokenizer.after 258 258");
    assert_int_equal(tok_adds_bos(t), 2);
    tok_gives(t, "!", 0, 256, 257, 0, 258, 258, -1);
    tok_gives(t, "", 0, 256, 257, 258, 258, -1);
    tok_gives(t, "!", MGPT_NO_SPECIAL_TOKENS, 0, -1);
    tok_gives(t, "<m>!", MGPT_PARSE_SPECIAL, 256, 0, 258, 258, -1);
    tok_gives(t, "<s>!", MGPT_PARSE_SPECIAL, 256, 257, 257, 0, 258, 258, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, "model gpt2; alphabet; token <m> 3;" /* the most: 16 */
                          "i32s mgpt.tokenizer.after 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 256");
    tok_gives(t, "!", 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 256, -1);
    tok_file_free(&f);
}

/* ---- special tokens ---- */

enum { A = 0, B, C, BOS, AB, ABC, USER, USER_LONG, UNK, EMPTY, AGAIN };

static struct tok *open_specials(struct tok_file *f)
{
    tok_file_begin(f, "gpt2", NULL);
    tok_file_edit(f,
                  "token a; token b; token c; token <s> 3; token ab 3; token abcab 3; token ca 4;"
                  "token caa 4; token <unk> 2");
    tok_file_token(f, "", 3, 0);
    tok_file_token(f, "ca", 4, 0); /* the same text again: the lower id is the token */
    tok_file_edit(f, "u32 bos_token_id 3; bool add_bos_token 1; u32 eos_token_id 5;"
                     "bool add_eos_token 1");
    return tok_file_open(f);
}

TEST(special_tokens)
{
    struct tok_file f;
    struct tok *t = open_specials(&f);
    const unsigned parse = MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL;
    assert_string_equal(tok_kind(t), "char");
    tok_gives(t, "ab", MGPT_NO_SPECIAL_TOKENS, A, B, -1); /* control: only when allowed */
    tok_gives(t, "ab", parse, AB, -1);
    tok_gives(t, "abcab", parse, ABC, -1);             /* the longest */
    tok_gives(t, "abca", parse, AB, USER, -1);         /* it does not fit: the next longest */
    tok_gives(t, "babb", parse, B, AB, B, -1);         /* in the middle */
    tok_gives(t, "acaab", parse, A, USER_LONG, B, -1); /* leftmost: not "ab" */
    tok_gives(t, "acaab", MGPT_NO_SPECIAL_TOKENS, A, USER_LONG, B, -1); /* user-defined: always */
    tok_gives(t, "cac", MGPT_NO_SPECIAL_TOKENS, USER, C, -1);
    tok_gives(t, "<s><unk>ab", parse, BOS, UNK, AB, -1);
    tok_gives(t, "", parse, -1);
    tok_refuses(t, "a<s>", 4, 1,
                "character '<' (U+003C) at byte 1 is not in the vocabulary (11 tokens: a-c)");
    tok_file_free(&f);
}

TEST(bos_and_eos)
{
    struct tok_file f;
    struct tok *t = open_specials(&f);
    tok_gives(t, "b", 0, BOS, B, ABC, -1);
    tok_gives(t, "", 0, BOS, ABC, -1);
    tok_gives(t, "", MGPT_NO_SPECIAL_TOKENS, -1);
    tok_gives(t, "<s>b", MGPT_PARSE_SPECIAL, BOS, B, ABC, -1); /* not a second BOS */
    tok_gives(t, "b<s>", MGPT_PARSE_SPECIAL, BOS, B, BOS, ABC, -1);
    tok_file_free(&f);
}

/* Any byte string may be a special token, and any number may share a beginning. */
TEST(many_special_tokens)
{
    struct tok_file f;
    char text[300];
    tok_file_begin(&f, "gpt2", NULL);
    tok_file_alphabet(&f);
    memset(text, '<', sizeof text);
    for (size_t n = 1; n <= 256; n *= 2)
        tok_file_token_n(&f, text, n, 4, 0);
    int32_t nul = tok_file_token_n(&f, "\xFF\0\x80", 3, 4, 0);
    struct tok *t = tok_file_open(&f);
    const int32_t ids[] = {264, 261, 259, 258, nul}; /* 300 = 256 + 32 + 8 + 4 */
    char line[304];
    memcpy(line, text, 300);
    memcpy(line + 300, "\xFF\0\x80", 3);
    tok_gives_ids(t, line, 303, 0, ids, 5);
    size_t n;
    assert_memory_equal(tok_piece(t, nul, &n), "\xFF\0\x80", 3);
    assert_int_equal(n, 3);
    tok_file_free(&f);
}

/* ---- hostile files ---- */

/* Opens what still parses and uses it; a sanitizer or valgrind judges. Returns 1 if it opened. */
static int survive(const uint8_t *bytes, size_t n)
{
    struct gguf g;
    if (gguf_parse(&g, bytes, n, NULL) < 0)
        return 0;
    struct tok *t = tok_open(&g, NULL);
    int opened = t != NULL;
    static const char text[] = "ab <s> \xE2\x96\x81 \xFF abba";
    for (unsigned flags = 0; t && flags < 4; flags++)
        tok_encode(t, text, sizeof text - 1, flags, NULL, 0, NULL);
    for (int32_t id = 0; t && id < (int32_t)tok_count(t); id++) {
        size_t n_piece;
        const char *p = tok_piece(t, id, &n_piece);
        for (size_t i = 0; i < n_piece; i++)
            opened += p[i] & 0;
    }
    tok_free(t);
    gguf_free(&g);
    return opened;
}

TEST(every_byte_changed)
{
    for (int kind = 0; kind < 2; kind++) {
        struct tok_file f;
        tok_file_begin(&f, kind ? "llama" : "gpt2", "gpt-2");
        tok_file_sentencepiece(&f, 0);
        tok_file_edit(&f,
                      "token a 1 -1; token b 1 -1; token ab 1 -1; token ba 1 -1; token abba 1 -1;"
                      "token \xE2\x96\x81 1 -1; token <0x41> 6 -1; merge a b; merge b a;"
                      "merge ab ba; u32 eos_token_id 2; bool add_bos_token 1");
        tok_file_open(&f);
        int opened = 0;
        for (size_t i = 0; i < f.g.size; i++)
            for (unsigned bit = 0; bit < 8; bit++) {
                f.bytes[i] ^= (uint8_t)(1u << bit);
                opened += survive(f.bytes, f.g.size);
                f.bytes[i] ^= (uint8_t)(1u << bit);
            }
        assert_true(opened > 100); /* changes inside texts do no harm */
        tok_file_free(&f);
    }
}
