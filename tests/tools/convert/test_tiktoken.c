/* Tools: vocabularies of tiktoken: ranks and files; what comes out, and what is refused. */
#include "convert/core/readers.h"
#include "support/convert.h"
#include "support/tiktoken_run.h"
#include "support/tok_directory.h"
#include "support/unit.h"

#define NANOCHAT                                                                                   \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,2}| ?[^\\s\\p{L}\\p{N}]++"      \
    "[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"

struct ranks {
    char bytes[256];
    struct tiktoken_token tokens[264];
    struct tiktoken_token specials[2];
    struct tiktoken t;
};

/* All bytes, then "ab", "abc", "xyz" (which no merge makes), and two special tokens. */
static void make_ranks(struct ranks *r)
{
    static const char *const more[] = {"ab", "abc", "xyz"};
    for (int b = 0; b < 256; b++) {
        r->bytes[b] = (char)b;
        r->tokens[b] = (struct tiktoken_token){{r->bytes + b, 1}, b};
    }
    for (int i = 0; i < 3; i++)
        r->tokens[256 + i] = (struct tiktoken_token){{more[i], strlen(more[i])}, 256 + i};
    r->specials[0] = (struct tiktoken_token){{"<|bos|>", 7}, 259};
    r->specials[1] = (struct tiktoken_token){{"<|assistant_end|>", 17}, 260};
    r->t = (struct tiktoken){.ranks = r->tokens,
                             .n_ranks = 259,
                             .specials = r->specials,
                             .n_specials = 2,
                             .pattern = {NANOCHAT, strlen(NANOCHAT)},
                             .bos = "<|bos|>",
                             .eos = "<|assistant_end|>"};
}

TEST(tiktoken)
{
    static const char space[] = "\u0120";
    struct ranks r;
    struct checkpoint c;
    mgpt_error err;
    make_ranks(&r);
    ckpt_init(&c);
    assert_int_equal(
        tiktoken_status((struct tiktoken_run){.c = &c, .t = &r.t, .n_rows = 261}, &err), MGPT_OK);
    assert_string_equal(c.vocab.model, "gpt2");
    assert_string_equal(c.vocab.pre, "nanochat");
    assert_int_equal(c.vocab.bos, 259);
    assert_int_equal(c.vocab.eos, 260);
    assert_int_equal(c.vocab.eot, 259);
    assert_int_equal(c.vocab.add_bos, 1);
    has_token(&c, ' ', space, TOKEN_NORMAL);
    has_token(&c, 258, "xyz", TOKEN_NORMAL);
    has_token(&c, 260, "<|assistant_end|>", TOKEN_CONTROL);
    assert_int_equal(arr_len(c.vocab.merges), 2);
    assert_memory_equal(c.vocab.merges[0].p, "a b", 3);
    assert_memory_equal(c.vocab.merges[1].p, "ab c", 4);
    ckpt_free(&c);
}

/* A token of 512 bytes is one. */
TEST(longest_token)
{
    char text[513] = "";
    struct ranks r;
    struct checkpoint c;
    mgpt_error err;
    memset(text, 'z', 512);
    make_ranks(&r);
    r.tokens[258].text = (struct gguf_str){text, 512};
    ckpt_init(&c);
    assert_int_equal(
        tiktoken_status((struct tiktoken_run){.c = &c, .t = &r.t, .n_rows = 261}, &err), MGPT_OK);
    has_token(&c, 258, text, TOKEN_NORMAL);
    ckpt_free(&c);
}

/* The pair of lowest rank in a token is merged first, of equal pairs the first. */
TEST(order_of_ranks)
{
    static const char *const more[] = {"ab", "bc", "cd", "abc", "abcd", "abce", "xx", "xxx"},
                             *const merges[] = {"a b",   "b c",   "c d", "ab c",
                                                "ab cd", "abc e", "x x", "xx x"};
    struct ranks r;
    struct checkpoint c;
    mgpt_error err;
    make_ranks(&r);
    for (int i = 0; i < 8; i++)
        r.tokens[256 + i] = (struct tiktoken_token){{more[i], strlen(more[i])}, 256 + i};
    r.t.n_ranks = 264;
    r.specials[0].rank = 264;
    r.specials[1].rank = 265;
    ckpt_init(&c);
    assert_int_equal(
        tiktoken_status((struct tiktoken_run){.c = &c, .t = &r.t, .n_rows = 266}, &err), MGPT_OK);
    assert_int_equal(arr_len(c.vocab.merges), 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(c.vocab.merges[i].n, strlen(merges[i]));
        assert_memory_equal(c.vocab.merges[i].p, merges[i], strlen(merges[i]));
    }
    ckpt_free(&c);
}

/* A .tiktoken file of n ranks: all bytes, then all texts of two bytes, then texts of three. */
static char *ranks_file(size_t n, size_t *size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc(n * 16), *p = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        size_t two = i - 256, three = i - 256 - 65536;
        uint32_t bits = i < 256       ? (uint32_t)i << 16
                        : two < 65536 ? (uint32_t)two << 8
                                      : (uint32_t)three;
        int pad = i < 256 ? 2 : two < 65536 ? 1 : 0;
        for (int k = 0; k < 4; k++)
            *p++ = k < 4 - pad ? digits[bits >> (18 - 6 * k) & 63] : '=';
        p += sprintf(p, " %zu%s\n", i, i % 2 ? "\r" : "");
    }
    *size = (size_t)(p - text);
    return text;
}

/* The number of ranks says which published vocabulary a file is. */
TEST(known_ranks)
{
    static const struct {
        size_t n_ranks, n;
        const char *pre, *note;
        int bos, eos, eot, add_bos;
        const char *specials; /* from id n_ranks on */
    } all[] = {
        {50256, 50257, "gpt-2", "GPT-2 (50256 ranks)", -1, 50256, -1, 0, "<|endoftext|>"},
        {151643, 151646, "qwen2", "Qwen (151643 ranks)", -1, 151643, -1, 0,
         "<|endoftext|> <|im_start|> <|im_end|>"},
        {151329, 151343, "llama-bpe", "GLM-4 (151329 ranks)", -1, 151329, -1, 0,
         "<|endoftext|> [MASK] [gMASK] [sMASK] <sop> <eop> <|system|> <|user|> <|assistant|> "
         "<|observation|> <|begin_of_image|> <|end_of_image|> <|begin_of_video|> <|end_of_video|>"},
        {128000, 128256, "llama-bpe", "Llama 3 (128000 ranks)", 128000, 128001, -1, 1,
         "<|begin_of_text|> <|end_of_text|> <|reserved_special_token_0|> "
         "<|reserved_special_token_1|> <|finetune_right_pad_id|> <|reserved_special_token_2|> "
         "<|start_header_id|> <|end_header_id|> <|eom_id|> <|eot_id|> <|python_tag|>"},
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        struct checkpoint c;
        mgpt_error err = {0};
        size_t size;
        char *text = ranks_file(all[i].n_ranks, &size);
        struct span bytes = {(const uint8_t *)text, size};
        assert_int_equal(tiktoken_sniff(bytes), 1);
        ckpt_init(&c);
        struct tiktoken_run run = {.c = &c, .file = bytes, .n_rows = all[i].n};
        if (tiktoken_status(run, &err) != MGPT_OK)
            fail_msg("%s", err.text);
        assert_int_equal(arr_len(c.vocab.tokens), all[i].n);
        assert_string_equal(c.vocab.pre, all[i].pre);
        assert_int_equal(c.vocab.bos, all[i].bos);
        assert_int_equal(c.vocab.eos, all[i].eos);
        assert_int_equal(c.vocab.eot, all[i].eot);
        assert_int_equal(c.vocab.add_bos, all[i].add_bos);
        size_t id = all[i].n_ranks;
        char *specials = strdup(all[i].specials);
        for (char *piece = strtok(specials, " "); piece; piece = strtok(NULL, " "))
            has_token(&c, id++, piece, TOKEN_CONTROL);
        free(specials);
        for (size_t n = 3; id < all[i].n; n++) {
            char piece[40];
            snprintf(piece, sizeof piece, "<|reserved_special_token_%zu|>", n);
            has_token(&c, id++, piece, TOKEN_CONTROL);
        }
        has_token(&c, 'A', "A", TOKEN_NORMAL);
        has_token(&c, 256 + 0x4162, "Ab", TOKEN_NORMAL);
        assert_int_equal(arr_len(c.vocab.merges), all[i].n_ranks - 256);
        ckpt_free(&c);
        free(text);
    }
}

/* Files of ranks in a directory of Hugging Face: its generation_config.json or config.json has the ids that end texts, and GLM-4's class
 * puts [gMASK] and <sop> before a text. */
TEST(ranks_in_directories)
{
    static const struct {
        size_t n_ranks, n;
        const char *name, *class, *ends;
        int bos, add_bos, eos, eot;
        int32_t before[2];
        size_t n_before, n_ends;
    } all[] = {
        {151329,
         151343,
         "tokenizer.model",
         "ChatGLM4Tokenizer",
         "[151329,151336,151338]",
         151331,
         1,
         151329,
         151336,
         {151331, 151333},
         2,
         1},
        {151643,
         151646,
         "qwen.tiktoken",
         "QWenTokenizer",
         "151645",
         -1,
         0,
         151643,
         151645,
         {0},
         0,
         0},
        {50256,
         50257,
         "vocab.tiktoken",
         "ChatGLM4Tokenizer",
         "[7,50256]",
         -1,
         0,
         50256,
         -1,
         {0},
         0,
         0},
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        struct checkpoint c;
        struct directory d = {.n = 0};
        char config[100], generation[100];
        size_t size;
        char *text = ranks_file(all[i].n_ranks, &size);
        snprintf(config, sizeof config, "{\"tokenizer_class\":\"%s\"}", all[i].class);
        snprintf(generation, sizeof generation, "{\"eos_token_id\":%s}", all[i].ends);
        add_bytes(&d, all[i].name, text, size);
        add_file(&d, "tokenizer_config.json", config);
        add_file(&d, i == 1 ? "config.json" : "generation_config.json", generation);
        reads(&c, &d, all[i].n);
        assert_int_equal(c.vocab.bos, all[i].bos);
        assert_int_equal(c.vocab.add_bos, all[i].add_bos);
        assert_int_equal(c.vocab.eos, all[i].eos);
        assert_int_equal(c.vocab.eot, all[i].eot);
        assert_int_equal(arr_len(c.vocab.ends), all[i].n_ends);
        assert_int_equal(arr_len(c.vocab.before), all[i].n_before);
        for (size_t k = 0; k < all[i].n_before; k++)
            assert_int_equal(c.vocab.before[k], all[i].before[k]);
        ckpt_free(&c);
        free(text);
    }
}

static void bad_tiktoken(struct ranks *r, uint64_t n_rows, const char *message)
{
    struct checkpoint c;
    mgpt_error err = {0};
    ckpt_init(&c);
    assert_int_equal(
        tiktoken_status((struct tiktoken_run){.c = &c, .t = &r->t, .n_rows = n_rows}, &err),
        MGPT_EFILE);
    assert_string_equal(err.text, message);
    ckpt_free(&c);
    make_ranks(r);
}

TEST(bad_tiktoken)
{
    struct ranks r;
    make_ranks(&r);
    bad_tiktoken(&r, 260, "the tokenizer has 261 tokens, the embedding 260 rows");
    r.tokens[3].rank = 4;
    bad_tiktoken(&r, 300, "the tokenizer: rank 4 occurs twice");
    r.tokens[3].rank = 259;
    bad_tiktoken(&r, 300, "the tokenizer: a token has rank 259, expected 0 to 258 without a hole");
    r.tokens[3].rank = -1;
    bad_tiktoken(&r, 300, "the tokenizer: a token has rank -1, expected 0 to 258 without a hole");
    r.tokens[258].text = r.tokens[257].text;
    bad_tiktoken(&r, 300, "the tokenizer: ranks 257 and 258 are one text");
    r.tokens[65].text.n = 0;
    bad_tiktoken(&r, 300, "the tokenizer: token 65 has 0 bytes, expected 1 to 512");
    static const char longer[513] = {0};
    r.tokens[258].text = (struct gguf_str){longer, 513};
    bad_tiktoken(&r, 300, "the tokenizer: token 258 has 513 bytes, expected 1 to 512");
    r.tokens[65].text = (struct gguf_str){"longer", 6};
    bad_tiktoken(&r, 300, "the tokenizer: byte 65 has no rank");
    r.t.pattern = (struct gguf_str){"\\w+", 3};
    bad_tiktoken(&r, 300, "the tokenizer: splitting pattern '\\w+' is not supported");
    r.t.bos = "<none>";
    bad_tiktoken(&r, 300, "the tokenizer: special token <none> is missing");
    r.specials[1].rank = 259;
    bad_tiktoken(&r, 300, "the tokenizer: id 259 is both '<|bos|>' and '<|assistant_end|>'");
    r.specials[1].rank = 999;
    bad_tiktoken(&r, 300, "the tokenizer: token '<|assistant_end|>' has id 999, expected 0 to 260");
}

TEST(tiktoken_files)
{
    struct directory d = {.n = 0};
    add_file(&d, "tokenizer.model", "IQ== 0\nIg== 1\nIyM= 2\n");
    refuses(&d, 100,
            "tokenizer.model: 3 ranks; without a pattern only 128000 (Llama 3), 151643 "
            "(Qwen), 151329 (GLM-4) and 50256 (GPT-2) are known");
    static const char *const bad[] = {"I===",    "I",     "",       "IQ== ",           "IQ== x",
                                      "IQ== 1x", "IQ= 1", "=Q== 1", "IQ== 99999999999"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[32];
        snprintf(text, sizeof text, "IQ== 0\n%s%s\n", bad[i], strchr(bad[i], ' ') ? "" : " 1");
        d.n = 0;
        add_file(&d, "tokenizer.model", text);
        refuses(&d, 100, "tokenizer.model: line 2 is not base64, a space and a rank");
    }
    d.n = 0;
    add_file(&d, "tokenizer.model", "IQ== 0\nIQ==\n");
    refuses(&d, 100, "tokenizer.model: line 2 is not base64, a space and a rank");
}

/* llm.c's tokens, of which version 1 does not say which is the end of text: the last. */
TEST(llmc_tokens)
{
    struct file model = repo_file("tests/fixtures/llmc", "v1.bin");
    struct file tokens = repo_file("tests/fixtures/llmc", "gpt2_tokenizer.bin");
    for (uint8_t version = 1; version <= 2; version++) {
        struct directory d = {.n = 0};
        struct ckpt_options options = {.given = 0};
        struct ckpt_input in = {.bytes = {model.data, model.size},
                                .name = "v1",
                                .options = &options,
                                .side = find_member,
                                .user = &d};
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        uint8_t *copy = malloc(tokens.size);
        assert_non_null(copy);
        memcpy(copy, tokens.data, tokens.size);
        copy[4] = version;
        if (version == 1)
            memset(copy + 12, 0, 4);
        add_bytes(&d, "gpt2_tokenizer.bin", copy, tokens.size);
        ckpt_init(&c);
        if (ckpt_read(&c, &in, &err) != MGPT_OK)
            fail_msg("version %u: %s", version, err.text);
        has_token(&c, 260, "<|endoftext|>", TOKEN_CONTROL);
        assert_int_equal(c.vocab.eos, 260);
        assert_int_equal(c.vocab.bos, 260);
        assert_int_equal(c.vocab.add_bos, 0);
        assert_int_equal(c.vocab.whole_pieces, -1);
        ckpt_free(&c);
        free(copy);
    }
    file_close(&model);
    file_close(&tokens);
}
