/* Tools: vocabularies of PyTorch models that are pickles: meta.pkl of nanoGPT, tokenizer.pkl of
 * nanochat, and where they are looked for. */
#include "support/torch_made.h"
#include "support/unit.h"

static const char *const tokens[] = {"tok_emb.weight 5 4", NULL};

#define TEXT1(c) "X\1\0\0\0" c
#define ITOS "\x80\2}X\4\0\0\0itos"
#define STOI "\x80\2}X\4\0\0\0stoi"
#define ENCODING(pattern, ranks, specials)                                                         \
    "\x80\3ctiktoken.core\nEncoding\n)\x81}(X\7\0\0\0pat_str" pattern                              \
    "X\17\0\0\0mergeable_ranks}" ranks "X\16\0\0\0special_tokens}" specials "ub."

TEST(vocab_pickles)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *expected; /* NULL: characters a and b, and BOS */
    } rows[] = {
#define ROW(bytes, expected) {bytes, sizeof bytes - 1, expected}
        ROW(ITOS "](" TEXT1("a") TEXT1("b") "es.", NULL),
        ROW(ITOS TEXT1("a") TEXT1("b") "\x86s.", NULL),
        ROW(ITOS "}(K\0" TEXT1("a") "K\1" TEXT1("b") "us.", NULL),
        ROW(STOI "}(" TEXT1("a") "K\0" TEXT1("b") "K\1us.", NULL),
        ROW(ITOS "}(" TEXT1("0") TEXT1("a") TEXT1("1") TEXT1("b") "us.", NULL),
        ROW(ITOS "](" TEXT1("a") "K\1es.", "meta.pkl: expected a list of characters, found an int"),
        ROW(ITOS "}(K\0K\1us.", "meta.pkl: expected characters and ids, found an int"),
        ROW(ITOS "}(" TEXT1("x") TEXT1("a") "us.", "meta.pkl: 'a': its id is not one of 0 to 0"),
        ROW(STOI "}(" TEXT1("a") "K\0" TEXT1("b") "K\0us.",
            "meta.pkl: 'b': its id is not one of 0 to 1 or occurs twice"),
        ROW(STOI "}(" TEXT1("a") "K\0" TEXT1("b") "K\2us.", "meta.pkl: 'b': its id is not one of"),
        ROW(STOI "}(" TEXT1("a") "K\0" TEXT1("b") "J\377\377\377\377us.",
            "'b': its id is not one of 0 to 1"),
        ROW(ITOS "]s.", "vocabulary of 0 entries, the model has 3 tokens"),
        ROW(ITOS "K\5s.", "meta.pkl: expected the characters as a list, a string or an object, "
                          "found an int"),
        ROW("\x80\2}.", "meta.pkl: expected the characters as a list, a string or an object, "
                        "found none"),
        ROW("\x80\2", "side file meta.pkl: "),
        ROW(ENCODING("K\1", "", ""), "not a tiktoken Encoding that holds its own tables"),
        ROW(ENCODING(TEXT1("x"), "(K\1K\2u", ""), "a token that is not bytes with a rank"),
        ROW(ENCODING(TEXT1("x"), "(C\1aC\1bu", ""), "a token that is not bytes with a rank"),
        ROW(ENCODING(TEXT1("x"), "(C\1aK\0u", "(" TEXT1("s") "Nu"),
            "a token that is not bytes with a rank"),
        ROW(ENCODING(TEXT1("x"), "(C\1aK\0u", "(X\7\0\0\0<|eos|>K\1u"),
            "splitting pattern 'x' is not supported"),
        ROW(ENCODING(TEXT1("x"), "(C\1aK\0u", "(X\7\0\0\0<|bos|>K\1u"),
            "splitting pattern 'x' is not supported"),
#undef ROW
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct made f = {.d = {.n = 0}};
        struct ckpt_side side = {"meta.pkl", {(const uint8_t *)rows[i].bytes, rows[i].n}};
        mgpt_error err = {.text = ""};
        make(&f, tokens + COUNT(tokens) - 1, NULL);
        f.c.hp.n_vocab = 3;
        int status = run_made((struct made_step){.m = &f.m, .pickle = &side}, &err);
        must_say("tensors", status, &err, rows[i].expected);
        if (!rows[i].expected) {
            has_token(&f.c, 0, "a", TOKEN_NORMAL);
            has_token(&f.c, 1, "b", TOKEN_NORMAL);
            assert_int_equal(f.c.vocab.bos, 2);
        }
        unmake(&f);
    }
}

/* --bos goes with any vocabulary, within the model. */
TEST(bos)
{
    for (int32_t bos = 4; bos <= 5; bos++) {
        struct made f = {.d = {.n = 0}, .o = {.given = OPT_BOS, .bos = bos}};
        mgpt_error err = {.text = ""};
        make(&f, tokens, NULL);
        f.c.hp.n_vocab = 5;
        add_file(&f.d, "meta.pkl", "{}"); /* no pickle: not looked at */
        int status = run_made((struct made_step){.m = &f.m, .dataset = "shakespeare"}, &err);
        assert_int_equal(status, bos < 5 ? MGPT_OK : MGPT_EFILE);
        if (bos < 5)
            assert_int_equal(f.c.vocab.bos, 4);
        else
            assert_string_equal(err.text, "BOS id is 5, the model has 5 tokens");
        unmake(&f);
    }
}

/* nanoGPT names its data set; the name becomes part of a path. */
TEST(data_sets)
{
    static const char *const nanogpt[] = {"transformer.wte.weight 3 4",
                                          "transformer.wpe.weight 8 4", "transformer.ln_f.weight 4",
                                          "transformer.ln_f.bias 4", NULL};
    static const char characters[] = ITOS "](" TEXT1("a") TEXT1("b") "es.";
#define DATASET(value) "\x80\2}X\6\0\0\0config}X\7\0\0\0dataset" value "ss."
#define DIGITS "0123456789012345678901234567890123456789012345678901234567890123"
    static const struct {
        const char *saved;
        size_t n;
        const char *path;
        int is_read;
    } rows[] = {
#define ROW(value, name, is_read)                                                                  \
    {DATASET(value), sizeof DATASET(value) - 1, "../data/" name "/meta.pkl", is_read}
        ROW("X\3\0\0\0owt", "owt", 1),
        ROW("X\13\0\0\0My_data-1.0", "My_data-1.0", 1),
        ROW("X\100\0\0\0" DIGITS, DIGITS, 1),
        ROW("X\101\0\0\0" DIGITS "4", DIGITS "4", 0),
        ROW("X\0\0\0\0", "", 0),
        ROW("X\2\0\0\0..", "..", 0),
        ROW("X\3\0\0\0a/b", "a/b", 0),
        ROW("K\1", "1", 0),
#undef ROW
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct made f = {.o = {.given = OPT_HEADS, .n_head = 2},
                         .saved = {(const uint8_t *)rows[i].saved, rows[i].n}};
        add_bytes(&f.d, rows[i].path, characters, sizeof characters - 1);
        make(&f, nanogpt, NULL);
        map(&f, &nanogpt_mapping, NULL);
        assert_int_equal(arr_len(f.c.vocab.tokens), rows[i].is_read ? 3 : 0);
        unmake(&f);
    }
}

/* tokenizer.pkl is nanochat's where it is a pickle, also when --tokenizer names it. */
TEST(nanochat_vocabulary)
{
    static const char pickle[] = ENCODING(TEXT1("x"), "(C\1aK\0u", "");
    static const unsigned given[] = {0, OPT_TOKENIZER};
    for (size_t i = 0; i < 2; i++) {
        struct made f = {.o = {.given = given[i]}};
        add_file(&f.d, "config.json", "{}");
        add_bytes(&f.d, "tokenizer.pkl", pickle, sizeof pickle - 1);
        make(&f, nanochat, NULL);
        map(&f, &nanochat_mapping, "splitting pattern 'x' is not supported");
        assert_int_equal(has_note(&f.c, "the tokenizer is tokenizer.pkl"), i == 0);
        unmake(&f);
    }
    struct made f = {.d = {.n = 0}};
    add_file(&f.d, "config.json", "{}");
    add_file(&f.d, "tokenizer.pkl", "not a pickle");
    make(&f, nanochat, NULL);
    map(&f, &nanochat_mapping, NULL);
    assert_int_equal(arr_len(f.c.vocab.tokens), 0);
    unmake(&f);
}
