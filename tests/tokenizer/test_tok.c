/* what all tokenizers share: opening, refusing, ids, special tokens. The kinds:
 * test_tok_char.c, test_tok_bpe.c, test_tok_spm.c. */
#include "support/tok_file.h"
#include "support/unit.h"

#define KEY(name) "tokenizer.ggml." name

/* ---- opening --------------------------------------------------------------------------------- */

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

TEST(refuses_model)
{
    struct tok_file f;
    tok_file_begin(&f, "bert", NULL);
    tok_file_refused(&f, "tokenizer.ggml.model 'bert' is not supported");
    tok_file_begin(&f, NULL, NULL);
    tok_file_token(&f, "a", 1, 0);
    tok_file_refused(&f, "key tokenizer.ggml.model: missing, but there are tokenizer.ggml.tokens");
    tok_file_begin(&f, "gpt2", NULL);
    tok_file_refused(&f, "key tokenizer.ggml.tokens: missing or empty");
    tok_file_begin(&f, NULL, NULL);
    tok_file_u32(&f, KEY("model"), 1);
    tok_file_refused(&f, "key tokenizer.ggml.model: expected a string, found a u32");
    tok_file_begin(&f, "gpt2", NULL);
    tok_file_string(&f, KEY("tokens"), "abc");
    tok_file_refused(&f, "key tokenizer.ggml.tokens: expected an array of strings, found a string");
}

TEST(refuses_types)
{
    struct tok_file f;
    tok_file_begin(&f, "gpt2", NULL);
    tok_file_token(&f, "a", 1, 0);
    tok_file_token(&f, "b", 1, 0);
    arr_set_len(f.types, 1);
    tok_file_refused(&f, "tokenizer.ggml.token_type: 1 entries for 2 tokens");
    tok_file_begin(&f, "gpt2", NULL);
    tok_file_token(&f, "a", 1, 0);
    tok_file_token(&f, "b", 7, 0);
    tok_file_refused(&f, "tokenizer.ggml.token_type[1]: 7, expected 1 to 6");
    tok_file_begin(&f, "gpt2", NULL);
    tok_file_token(&f, "a", -1, 0);
    tok_file_refused(&f, "tokenizer.ggml.token_type[0]: -1, expected 1 to 6");
    tok_file_begin(&f, "llama", NULL);
    tok_file_token(&f, "<0x4>", 6, 0);
    tok_file_refused(&f, "tokenizer.ggml.tokens[0]: '<0x4>' is of type byte, expected <0xHH>");
    tok_file_begin(&f, "llama", NULL);
    tok_file_token(&f, "<0x4G>", 6, 0);
    tok_file_refused(&f, "tokenizer.ggml.tokens[0]: '<0x4G>' is of type byte, expected <0xHH>");
    tok_file_begin(&f, "gpt2", NULL);
    char *longest = calloc(65536, 1);
    tok_file_token(&f, "a", 1, 0);
    tok_file_token_n(&f, longest, 65536, 1, 0);
    tok_file_refused(&f, "tokenizer.ggml.tokens[1]: 65536 bytes, the limit is 65535");
    free(longest);
}

TEST(refuses_ids)
{
    const char *const ids[] = {"bos", "eos", "unknown", "eot", "eom"};
    const char *const flags[] = {"add_bos_token", "add_eos_token", "add_space_prefix"};
    for (size_t i = 0; i < 8; i++) {
        struct tok_file f;
        char key[64], message[128];
        if (i < 5)
            snprintf(key, sizeof key, KEY("%s_token_id"), ids[i]);
        else
            snprintf(key, sizeof key, KEY("%s"), flags[i - 5]);
        snprintf(message, sizeof message, "key %s: expected %s, found a string", key,
                 i < 5 ? "an unsigned integer" : "a bool");
        tok_file_begin(&f, "llama", NULL);
        tok_file_sentencepiece(&f, 1);
        tok_file_string(&f, key, "1");
        tok_file_refused(&f, message);
    }
}

/* ---- ids ------------------------------------------------------------------------------------- */

TEST(default_ids)
{
    struct tok_file f;
    tok_file_begin(&f, "llama", NULL);
    tok_file_sentencepiece(&f, 1);
    struct tok *t = tok_file_open(&f);
    assert_int_equal(tok_bos(t), 1);
    assert_int_equal(tok_eos(t), 2);
    assert_int_equal(tok_adds_bos(t), 1);
    tok_file_free(&f);
    tok_file_begin(&f, "llama", NULL); /* too small for the default ids */
    tok_file_token(&f, "a", 1, 0);
    t = tok_file_open(&f);
    assert_int_equal(tok_bos(t), -1);
    assert_int_equal(tok_eos(t), -1);
    assert_int_equal(tok_adds_bos(t), 0);
    tok_file_free(&f);
    tok_file_begin(&f, "llama", NULL); /* ids 1 and 2 are text */
    for (int i = 0; i < 4; i++)
        tok_file_token(&f, (char[]){(char)(97 + i), 0}, 1, 0);
    t = tok_file_open(&f);
    assert_int_equal(tok_bos(t), -1);
    assert_int_equal(tok_eos(t), -1);
    tok_file_free(&f);
    tok_file_begin(&f, "gpt2", NULL);
    tok_file_alphabet(&f);
    t = tok_file_open(&f);
    assert_int_equal(tok_bos(t), -1);
    assert_int_equal(tok_eos(t), -1);
    assert_int_equal(tok_adds_bos(t), 0);
    tok_file_free(&f);
}

TEST(ids_from_keys)
{
    struct tok_file f;
    tok_file_begin(&f, "llama", NULL);
    tok_file_sentencepiece(&f, 1);
    tok_file_u32(&f, KEY("bos_token_id"), 2);
    tok_file_u32(&f, KEY("eos_token_id"), 259); /* beyond the vocabulary: ignored */
    tok_file_bool(&f, KEY("add_bos_token"), 0);
    struct tok *t = tok_file_open(&f);
    assert_int_equal(tok_bos(t), 2);
    assert_int_equal(tok_eos(t), 2);
    assert_int_equal(tok_adds_bos(t), 0);
    tok_file_free(&f);
    tok_file_begin(&f, "gpt2", NULL);
    tok_file_alphabet(&f);
    tok_file_bool(&f, KEY("add_bos_token"), 1); /* without a BOS there is nothing to add */
    tok_file_bool(&f, KEY("add_eos_token"), 1);
    t = tok_file_open(&f);
    assert_int_equal(tok_adds_bos(t), 0);
    tok_gives(t, "!", 0, 0, -1);
    tok_file_free(&f);
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
    struct tok *t = tok_file_open(&f);
    const int32_t ends[] = {eos, eot, eom, by_text},
                  others[] = {0, bos, not_control, longer, -1, 100000};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(tok_is_end(t, ends[i]), 1);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(tok_is_end(t, others[i]), 0);
    tok_file_free(&f);
}

/* ---- special tokens -------------------------------------------------------------------------- */

enum { A = 0, B, C, BOS, AB, ABC, USER, USER_LONG, UNK, EMPTY, AGAIN };

static struct tok *open_specials(struct tok_file *f)
{
    tok_file_begin(f, "gpt2", NULL);
    tok_file_token(f, "a", 1, 0);
    tok_file_token(f, "b", 1, 0);
    tok_file_token(f, "c", 1, 0);
    tok_file_token(f, "<s>", 3, 0);
    tok_file_token(f, "ab", 3, 0);
    tok_file_token(f, "abcab", 3, 0);
    tok_file_token(f, "ca", 4, 0);
    tok_file_token(f, "caa", 4, 0);
    tok_file_token(f, "<unk>", 2, 0);
    tok_file_token(f, "", 3, 0);
    tok_file_token(f, "ca", 4, 0); /* the same text again: the lower id is the token */
    tok_file_u32(f, KEY("bos_token_id"), BOS);
    tok_file_bool(f, KEY("add_bos_token"), 1);
    tok_file_u32(f, KEY("eos_token_id"), ABC);
    tok_file_bool(f, KEY("add_eos_token"), 1);
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

/* ---- hostile files --------------------------------------------------------------------------- */

/* Opens whatever still parses and uses it; a sanitizer or valgrind judges. Returns 1 if it opened.
 */
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
        for (const char *p = "a\0b\0ab\0ba\0abba\0\xE2\x96\x81\0<0x41>\0"; *p; p += strlen(p) + 1)
            tok_file_token(&f, p, *p == '<' ? 6 : 1, -1);
        tok_file_merge(&f, "a b");
        tok_file_merge(&f, "b a");
        tok_file_merge(&f, "ab ba");
        tok_file_u32(&f, KEY("eos_token_id"), 2);
        tok_file_bool(&f, KEY("add_bos_token"), 1);
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
