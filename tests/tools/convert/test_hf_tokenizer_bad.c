/* Tools: tokenizers that are refused, with the words that say why; the files that stand beside one;
 * and hostile files: cut anywhere, any bit changed. */
#include "support/tok_directory.h"
#include "support/unit.h"

/* ---- tokenizer.json -------------------------------------------------------------------------- */

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define VOCAB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}"
#define MERGES "\"merges\":[[\"a\",\"b\"]]"
#define MODEL "{\"type\":\"BPE\"," VOCAB "," MERGES "}"
#define FALLBACK "{\"type\":\"BPE\",\"byte_fallback\":true," VOCAB "," MERGES "}"
#define PREPEND "{\"type\":\"Prepend\",\"prepend\":\"\u2581\"}"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}"
#define NINE(part) part "," part "," part "," part "," part "," part "," part "," part "," part
#define SPLIT(regex, more)                                                                         \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"        \
    "\"" regex "\"}," more                                                                         \
    "},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}"
#define REGEX(digits)                                                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}" digits "| "    \
    "?[^\\\\s\\\\p{L}\\\\p{N}"                                                                     \
    "]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define ISOLATED "\"behavior\":\"Isolated\""
#define IGNORES "{\"type\":\"BPE\",\"ignore_merges\":true," VOCAB "," MERGES "}"

/* A tokenizer.json of parts; NULL: null. */
static char *json_of(const char *normalizer, const char *pre, const char *model, const char *more)
{
    static char text[4096];
    snprintf(text, sizeof text, "{\"normalizer\":%s,\"pre_tokenizer\":%s,\"model\":%s%s%s}",
             normalizer ? normalizer : "null", pre ? pre : "null", model, more ? "," : "",
             more ? more : "");
    return text;
}

/* What makes each unacceptable. */
static const struct {
    const char *normalizer, *pre, *model, *more, *message;
} refused[] = {
    {"{\"type\":\"NFKC\"}", BYTE_LEVEL, MODEL, NULL, "normalizer NFKC: not supported here"},
    {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Lowercase\"}]}",
     BYTE_LEVEL, MODEL, NULL, "normalizer Lowercase: not supported here"},
    {NULL, "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", MODEL, NULL,
     "pre_tokenizer not supported: ByteLevel add_prefix_space"},
    {NULL, "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}", MODEL, NULL,
     "pre_tokenizer not supported: ByteLevel no-regex"},
    {NULL, "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Whitespace\"}," BYTE_LEVEL "]}",
     MODEL, NULL, "pre_tokenizer not supported: Whitespace, ByteLevel"},
    {NULL,
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
     "\"\\\\w+\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":"
     "false,"
     "\"use_regex\":false}]}",
     MODEL, NULL, "pre_tokenizer not supported: Split \\w+ Isolated, ByteLevel no-regex"},
    {NULL, NULL, MODEL, NULL, "pre_tokenizer: neither ByteLevel nor U+2581 for spaces"},
    {REPLACE, NULL, MODEL, NULL, "model: byte_fallback is off"},
    {REPLACE, "{\"type\":\"Digits\"}", FALLBACK, NULL, "pre_tokenizer Digits: not supported here"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"y\"}", NULL, FALLBACK,
     NULL, "normalizer Replace: not supported here"},
    {NULL, BYTE_LEVEL, "{\"type\":\"Unigram\",\"vocab\":[]}", NULL,
     "model Unigram: not supported here"},
    {NULL, BYTE_LEVEL, "{\"type\":\"WordPiece\",\"vocab\":{}}", NULL,
     "model WordPiece: not supported here"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"," VOCAB "," MERGES "}",
     NULL, "model: end_of_word_suffix"},
    {NULL, BYTE_LEVEL, MODEL, "\"post_processor\":{\"type\":\"RobertaProcessing\"}",
     "post_processor RobertaProcessing: not supported here"},
    {NULL, BYTE_LEVEL, MODEL,
     "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{}},"
     "{\"SpecialToken\":{\"id\":\"</s>\"}}]}",
     "post_processor: its special token is not in the vocabulary"},
    {NULL, BYTE_LEVEL, MODEL,
     "\"added_tokens\":[{\"id\":3,\"content\":\"x\",\"single_word\":true}]",
     "added_tokens: single_word"},
    {NULL, BYTE_LEVEL, MODEL, "\"added_tokens\":[{\"content\":\"x\"}]",
     "added_tokens: an entry without id and content"},
    {NULL, BYTE_LEVEL, MODEL, "\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]",
     "id 1 is both 'b' and 'x'"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":-1},\"merges\":[]}", NULL,
     "token 'b': its id is not a number from 0 on"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}", NULL,
     "id 0 is both 'a' and 'b'"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}", NULL,
     "merge 0 is not two texts, the left without a space"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a b\",\"c\"]]}", NULL,
     "merge 0 is not two texts, the left without a space"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"\",\"a\"]]}", NULL,
     "merge 0 is not two texts, the left without a space"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"a\",\"a\"]]}",
     NULL, "merge 0 is not two texts, the left without a space"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}", NULL,
     "merge 0 is not two texts, the left without a space"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a \"]}", NULL,
     "merge 0 is not two texts, the left without a space"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"\"]]}", NULL,
     "merge 0 is not two texts, the left without a space"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}", NULL, "model: no vocab"},
    {NULL, BYTE_LEVEL, "{\"type\":3,\"vocab\":{\"a\":0},\"merges\":[]}", NULL,
     "model: type: expected a text"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}", "\"added_tokens\":[]",
     "model: vocab: expected an object"},
    {NULL, BYTE_LEVEL, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":\"a\"}", NULL,
     "model: merges: expected a list"},
    {NULL, BYTE_LEVEL, MODEL, "\"added_tokens\":3", "added_tokens: expected a list"},
    {"{\"type\":\"Sequence\",\"normalizers\":[" NINE("{\"type\":\"NFC\"}") "]}", BYTE_LEVEL, MODEL,
     NULL, "normalizer: too many parts"},
    {"{\"type\":\"Sequence\",\"normalizers\":[" NINE(PREPEND) "]}", NULL, FALLBACK, NULL,
     "normalizer: too many parts"},
    {NULL, "{\"type\":\"Sequence\",\"pretokenizers\":[" NINE(BYTE_LEVEL) "]}", MODEL, NULL,
     "pre_tokenizer: too many parts"},
    {NULL, BYTE_LEVEL, MODEL,
     "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[" NINE(BYTE_LEVEL) "]}",
     "post_processor: too many parts"},
    {NULL,
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},"
     "\"behavior\":\"Isolated\"}," BYTE_LEVEL "]}",
     MODEL, NULL, "pre_tokenizer not supported: Split, ByteLevel"},
    {NULL, BYTE_LEVEL, MODEL,
     "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{}}]}",
     "post_processor: more than one token on a side"},
    {NULL, SPLIT(REGEX(""), "\"behavior\":\"Removed\""), MODEL, NULL,
     "pre_tokenizer not supported: Split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N, "
     "ByteLevel no-regex"},
    {NULL, SPLIT(REGEX(""), "\"behavior\":\"Isolated\",\"invert\":true"), MODEL, NULL,
     "pre_tokenizer not supported: Split, ByteLevel no-regex"},
    {NULL, "{\"type\":\"Metaspace\",\"replacement\":\"_\"}", FALLBACK, NULL,
     "pre_tokenizer Metaspace: its replacement is not U+2581"},
    {REPLACE, "{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"}}", FALLBACK, NULL,
     "pre_tokenizer Split: not supported here"},
    {NULL, "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"}}", FALLBACK, NULL,
     "pre_tokenizer Split: not supported here"},
    {REPLACE, NULL, "{\"byte_fallback\":true,\"ignore_merges\":true," VOCAB "," MERGES "}", NULL,
     "model: ignore_merges without ByteLevel"},
    {NULL, BYTE_LEVEL, "{" VOCAB "}", NULL, "model: without type and merges"},
    {NULL, BYTE_LEVEL, MODEL, "\"added_tokens\":[{\"id\":\"3\",\"content\":\"x\"}]",
     "added_tokens: an entry without id and content"},
};

TEST(components)
{
    for (size_t i = 0; i < COUNT(refused); i++) {
        struct directory d = {.n = 0};
        char message[256];
        snprintf(message, sizeof message, "tokenizer.json: %s", refused[i].message);
        add_file(&d, "tokenizer.json",
                 json_of(refused[i].normalizer, refused[i].pre, refused[i].model, refused[i].more));
        refuses(&d, 100, message);
    }
}

TEST(too_large)
{
    struct directory d = {.n = 0};
    struct checkpoint c;
    add_file(&d, "tokenizer.json",
             json_of(NULL, BYTE_LEVEL, MODEL, "\"added_tokens\":[{\"id\":9,\"content\":\"x\"}]"));
    refuses(&d, 9, "tokenizer.json has 10 tokens, the embedding 9 rows");
    reads(&c, &d, 10);
    has_token(&c, 2, "ab", TOKEN_NORMAL);
    has_token(&c, 3, "[PAD3]", TOKEN_UNUSED);
    has_token(&c, 9, "x", TOKEN_USER);
    assert_int_equal(arr_len(c.vocab.tokens), 10);
    assert_string_equal(c.notes[0],
                        "vocabulary: 6 ids without a token in tokenizer.json are marked as unused");
    ckpt_free(&c);
}

/* A merge of n letters in two texts has room up to two tokens of the longest. */
static void merge_of(size_t n, const char *message)
{
    struct directory d = {.n = 0};
    int left = (int)(n / 2), right = (int)n - left;
    char *json = malloc(n + 400);
    assert_non_null(json);
    snprintf(json, n + 400,
             "{\"pre_tokenizer\":" BYTE_LEVEL ",\"model\":{\"type\":\"BPE\"," VOCAB
             ",\"merges\":[[\"%0*d\",\"%0*d\"]]}}",
             left, 0, right, 0);
    add_file(&d, "tokenizer.json", json);
    refuses(&d, 100, message);
    free(json);
}

TEST(long_merges)
{
    merge_of(2 * 65535,
             "tokenizer.json: merge 0: '000000000000000000000000000000000000000000000000' is "
             "not in the vocabulary");
    merge_of(2 * 65535 + 1, "tokenizer.json: merge 0 is not two texts, the left without a space");
}

TEST(sentencepiece_json)
{
    struct directory d = {.n = 0};
    struct checkpoint c;
    add_file(&d, "tokenizer.json",
             json_of("{\"type\":\"Sequence\",\"normalizers\":[" PREPEND "," REPLACE "]}", NULL,
                     "{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"<unk>\",\"vocab\":"
                     "{\"<unk>\":0,\"<0x41>\":1,\"a\":2,\"b\":3,\"ab\":4,\"ba\":5,\"zz\":6},"
                     "\"merges\":[\"b a\",\"a b\"]}",
                     "\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},"
                     "{\"id\":7,\"content\":\"\u2581\u2581\",\"normalized\":true},"
                     "{\"id\":6,\"content\":\"zz\",\"normalized\":false},"
                     "{\"id\":8,\"content\":\"\u2581a\",\"normalized\":false}]"));
    reads(&c, &d, 100);
    assert_string_equal(c.vocab.model, "llama");
    assert_int_equal(c.vocab.add_space_prefix, 1);
    assert_int_equal(c.vocab.ranked, 1);
    assert_int_equal(c.vocab.unknown, 0);
    has_token(&c, 0, "<unk>", TOKEN_UNKNOWN);
    has_token(&c, 1, "<0x41>", TOKEN_BYTE);
    has_token(&c, 6, "zz", TOKEN_USER);
    has_token(&c, 7, "  ", TOKEN_USER);                 /* as texts have it */
    has_token(&c, 8, "\u2581a", TOKEN_NORMAL);          /* which no raw text has */
    assert_true(c.vocab.scores[5] > c.vocab.scores[4]); /* "b a" merges first */
    assert_true(c.vocab.scores[4] > c.vocab.scores[2]); /* no merge makes a letter */
    assert_int_equal(arr_len(c.vocab.scores), 9);
    ckpt_free(&c);
}

/* Whether a piece that is a token is taken whole: what the key says, where the rule has it otherwise. */
TEST(whole_pieces)
{
    static const struct {
        const char *pre_tokenizer, *model, *pre;
        int whole;
    } rows[] = {
        {SPLIT(REGEX(""), ISOLATED), MODEL, "qwen2", -1},
        {SPLIT(REGEX(""), ISOLATED), IGNORES, "qwen2", 1},
        {SPLIT(REGEX("{1,3}"), ISOLATED), MODEL, "smaug-bpe", -1},
        {SPLIT(REGEX("{1,3}"), ISOLATED), IGNORES, "llama-bpe", -1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct directory d = {.n = 0};
        struct checkpoint c;
        add_file(&d, "tokenizer.json", json_of(NULL, rows[i].pre_tokenizer, rows[i].model, NULL));
        reads(&c, &d, 100);
        assert_string_equal(c.vocab.pre, rows[i].pre);
        assert_int_equal(c.vocab.whole_pieces, rows[i].whole);
        ckpt_free(&c);
    }
}

/* Metaspace: where a space is put in front, and whether a space is a piece of its own. Absent keys are what
 * tokenizers takes for them; lists that are null are none. */
TEST(metaspace)
{
    static const struct {
        const char *keys;
        int prefix, missing, first, alone;
    } rows[] = {
        {"", 1, 1, 0, 1},
        {",\"add_prefix_space\":false", 0, 0, 0, 1},
        {",\"add_prefix_space\":true,\"split\":false", 1, 1, 0, 0},
        {",\"prepend_scheme\":\"first\",\"split\":true", 1, 1, 1, 1},
        {",\"prepend_scheme\":\"never\",\"split\":false", 0, 0, 0, 0},
        {",\"prepend_scheme\":\"always\"", 1, 1, 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct directory d = {.n = 0};
        struct checkpoint c;
        char part[200];
        snprintf(part, sizeof part, "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"%s}",
                 rows[i].keys);
        add_file(&d, "tokenizer.json",
                 json_of(NULL, part,
                         "{\"type\":null,\"byte_fallback\":true,\"vocab\":{\"a\":0,\"<0x4G>\":1,"
                         "\"<0xG4>\":2,\"<0x411\":3,\"x0x41>\":4,\"<0x41>\":5},\"merges\":[]}",
                         "\"added_tokens\":null"));
        add_file(&d, "tokenizer_config.json", "{\"bos_token\":\"a\"}");
        reads(&c, &d, 6);
        assert_true(c.vocab.bos == 0 && c.vocab.add_bos == 1); /* nobody says otherwise */
        assert_int_equal(c.vocab.add_space_prefix, rows[i].prefix);
        assert_int_equal(c.vocab.space_missing, rows[i].missing);
        assert_int_equal(c.vocab.space_first, rows[i].first);
        assert_int_equal(c.vocab.space_alone, rows[i].alone);
        for (size_t id = 1; id < 6; id++)
            assert_int_equal(c.vocab.types[id], id < 5 ? TOKEN_NORMAL : TOKEN_BYTE);
        ckpt_free(&c);
    }
}

/* ---- the files beside it --------------------------------------------------------------------- */

#define SPECIALS                                                                                   \
    "\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true},{\"id\":4,\"content\":"     \
    "\"</s>\",\"special\":true},{\"id\":5,\"content\":\"<end>\",\"special\":true}]"
#define TEMPLATE                                                                                   \
    ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"  \
    "\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}]}"

#define TEMPLATE_END                                                                               \
    ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":"      \
    "\"A\"}},{\"SpecialToken\":{\"id\":\"</s>\"}}]}"

#define TEMPLATE_FIRST /* id 0 ends a text */                                                      \
    ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":"      \
    "\"A\"}},{\"SpecialToken\":{\"id\":\"a\"}}]}"

TEST(ids)
{
    static const struct {
        const char *post, *tokenizer, *generation, *model;
        int bos, eos, eot, add_bos;
    } rows[] = {
        {"", NULL, NULL, NULL, -1, -1, -1, 0},
        {"", NULL, NULL, "{\"bos_token_id\":3,\"eos_token_id\":4}", 3, 4, -1, 0},
        {"", NULL, "{\"eos_token_id\":[5,4]}", "{\"eos_token_id\":4}", -1, 5, 4, 0},
        {"", "{\"eos_token\":\"</s>\",\"bos_token\":{\"content\":\"<s>\"}}",
         "{\"eos_token_id\":[5,4]}", NULL, 3, 4, 5, 0},
        {"", "{\"bos_token\":\"<s>\",\"add_bos_token\":true}", NULL, NULL, 3, -1, -1, 1},
        {"", "{\"bos_token\":null,\"model_max_length\":1000000000000000019884624838656}", NULL,
         "{\"bos_token_id\":99,\"eos_token_id\":null}", -1, -1, -1, 0},
        {TEMPLATE, NULL, NULL, NULL, 3, -1, -1, 1},
        {"", "{\"eos_token\":\"</s>\"}", NULL, "{\"eos_token_id\":[4,5]}", -1, 4, 5, 0},
        {"", NULL, NULL, "{\"eos_token_id\":[4,0]}", -1, 4, 0, 0},
        {TEMPLATE_END, NULL, NULL, "{\"eos_token_id\":5}", -1, 4, 5, 0},
        {TEMPLATE_END, NULL, NULL, "{\"eos_token_id\":4}", -1, 4, -1, 0},
        {TEMPLATE_FIRST, NULL, NULL, NULL, -1, 0, -1, 0},
        {TEMPLATE, "{\"add_bos_token\":false}", NULL, NULL, 3, -1, -1, 1},
        {TEMPLATE, "{\"add_bos_token\":false,\"tokenizer_class\":\"LlamaTokenizer\"}", NULL, NULL,
         3, -1, -1, 0},
        {TEMPLATE, "{\"add_bos_token\":false,\"tokenizer_class\":\"CodeLlamaTokenizer\"}", NULL,
         NULL, 3, -1, -1, 0},
        {TEMPLATE, "{\"add_bos_token\":false,\"tokenizer_class\":\"GemmaTokenizer\"}", NULL, NULL,
         3, -1, -1, 0},
        {TEMPLATE, "{\"add_bos_token\":false,\"tokenizer_class\":\"GPT2Tokenizer\"}", NULL, NULL, 3,
         -1, -1, 1},
        {"", NULL, NULL, "{\"text_config\":{\"eos_token_id\":5}}", -1, 5, -1, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct directory d = {.n = 0};
        struct checkpoint c;
        char more[600];
        snprintf(more, sizeof more, SPECIALS "%s", rows[i].post);
        add_file(&d, "tokenizer.json", json_of(NULL, BYTE_LEVEL, MODEL, more));
        if (rows[i].tokenizer)
            add_file(&d, "tokenizer_config.json", rows[i].tokenizer);
        if (rows[i].generation)
            add_file(&d, "generation_config.json", rows[i].generation);
        if (rows[i].model)
            add_file(&d, "config.json", rows[i].model);
        reads(&c, &d, 100);
        assert_int_equal(c.vocab.bos, rows[i].bos);
        assert_int_equal(c.vocab.eos, rows[i].eos);
        assert_int_equal(c.vocab.eot, rows[i].eot);
        assert_int_equal(c.vocab.add_bos, rows[i].add_bos);
        assert_int_equal(c.vocab.add_eos, strstr(rows[i].post, "[{\"Sequence") != NULL);
        assert_int_equal(c.vocab.types[0], TOKEN_NORMAL); /* "a" is text, whatever ends a text */
        ckpt_free(&c);
    }
}

/* Ids of config.json: a piece of text stays text, and is said; so is an id that no token has. */
TEST(odd_ids)
{
    static const struct {
        const char *config, *tokenizer, *note;
        int bos, eos, type_0;
    } rows[] = {
        {"{\"bos_token_id\":0}", NULL, "bos_token_id of config.json is 0, 'a', which stays text", 0,
         -1, TOKEN_NORMAL},
        {"{\"eos_token_id\":[4,2]}", NULL,
         "eos_token_id of config.json is 2, 'ab', which stays text", -1, 4, TOKEN_NORMAL},
        {"{\"bos_token_id\":50256}", NULL,
         "ignored: bos_token_id of config.json is 50256, tokenizer.json has no such token", -1, -1,
         TOKEN_NORMAL},
        {"{\"bos_token_id\":0}", "{\"bos_token\":\"a\"}", "0, 'a'", 0, -1, TOKEN_CONTROL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct directory d = {.n = 0};
        struct checkpoint c;
        int noted = 0;
        add_file(&d, "tokenizer.json", json_of(NULL, BYTE_LEVEL, MODEL, SPECIALS));
        add_file(&d, "config.json", rows[i].config);
        if (rows[i].tokenizer)
            add_file(&d, "tokenizer_config.json", rows[i].tokenizer);
        reads(&c, &d, 100);
        for (size_t k = 0; k < arr_len(c.notes); k++)
            noted |= strstr(c.notes[k], rows[i].note) != NULL;
        assert_true(noted);
        assert_true(c.vocab.bos == rows[i].bos && c.vocab.eos == rows[i].eos);
        assert_int_equal(c.vocab.types[0], rows[i].type_0);
        assert_int_equal(c.vocab.types[2], TOKEN_NORMAL);
        ckpt_free(&c);
    }
}

static void check_template(const char *config, const char *file, const char *expected)
{
    struct directory d = {.n = 0};
    struct checkpoint c;
    add_file(&d, "tokenizer.json", json_of(NULL, BYTE_LEVEL, MODEL, NULL));
    add_file(&d, "tokenizer_config.json", config);
    if (file)
        add_file(&d, "chat_template.jinja", file);
    reads(&c, &d, 100);
    assert_int_equal(c.vocab.chat_template.n, strlen(expected));
    if (*expected)
        assert_string_equal(c.vocab.chat_template.p, expected);
    ckpt_free(&c);
}

TEST(chat_templates)
{
    check_template("{}", NULL, "");
    check_template("{\"chat_template\":\"{{x}}\"}", "other", "{{x}}");
    check_template("{}", "{{ file }}", "{{ file }}");
    check_template("{\"chat_template\":[{\"name\":\"tool\",\"template\":\"t\"},{\"name\":"
                   "\"default\",\"template\":\"d\"}]}",
                   NULL, "d");
}

TEST(broken_sides)
{
    struct directory d = {.n = 0};
    add_file(&d, "tokenizer.json", json_of(NULL, BYTE_LEVEL, MODEL, NULL));
    add_file(&d, "tokenizer_config.json", "{\"eos_token\":");
    refuses(&d, 100, "tokenizer_config.json: line 1 column 13: unexpected token near end of file");
}

/* ---- vocab.json and merges.txt --------------------------------------------------------------- */

TEST(lists)
{
    struct directory d = {.n = 0};
    struct checkpoint c;
    add_file(&d, "vocab.json", "{\"a\":0,\"b\":1,\"ab\":2,\"<|endoftext|>\":3}");
    refuses(&d, 100, "vocab.json needs merges.txt or vocab.bpe beside the input: neither is there");
    add_file(&d, "merges.txt", "#version: 0.2\na b\r\n\n");
    add_file(&d, "added_tokens.json", "{\"  \":5,\"<x>\":4}");
    reads(&c, &d, 6);
    assert_string_equal(c.vocab.pre, "gpt-2");
    assert_int_equal(arr_len(c.vocab.merges), 1);
    assert_int_equal(c.vocab.merges[0].n, 3);
    has_token(&c, 3, "<|endoftext|>", TOKEN_CONTROL);
    has_token(&c, 4, "<x>", TOKEN_CONTROL);
    has_token(&c, 5, "  ", TOKEN_USER);
    ckpt_free(&c);
    refuses(&d, 5, "vocab.json has 6 tokens, the embedding 5 rows");
    add_file(&d, "tokenizer_config.json", "{\"tokenizer_class\":\"Qwen2Tokenizer\"}");
    reads(&c, &d, 6);
    assert_string_equal(c.vocab.pre, "qwen2");
    assert_int_equal(c.vocab.nfc, 1);
    ckpt_free(&c);
    d.n -= 2;
    add_file(&d, "added_tokens.json", "{\"<x\":4,\"[y]\":5,\"[z\":6,\"<>\":7}");
    reads(&c, &d, 8);
    has_token(&c, 4, "<x", TOKEN_USER);
    has_token(&c, 5, "[y]", TOKEN_CONTROL);
    has_token(&c, 6, "[z", TOKEN_USER);
    has_token(&c, 7, "<>", TOKEN_USER);
    ckpt_free(&c);
    d.n--;
    add_file(&d, "added_tokens.json", "{\"<x>\":\"4\"}");
    refuses(&d, 8, "vocab.json: token '<x>' has id -1, expected 0 to 3");
    d.n--;
    add_file(&d, "added_tokens.json", "{\"<x>\":9223372036854775807}");
    refuses(&d, 8, "vocab.json: token '<x>' has id 2147483647, expected 0 to 3");
    d.n--;
    add_file(&d, "added_tokens.json", "{\"<x>\":-9223372036854775807}");
    refuses(&d, 8, "vocab.json: token '<x>' has id -2147483648, expected 0 to 3");
    d.n--;
    add_file(&d, "added_tokens.json", "[");
    refuses(&d, 8, "added_tokens.json: line 1 column 1: ']' expected near end of file");
    d.n--;
    add_file(&d, "tokenizer_config.json", "{\"tokenizer_class\":\"RobertaTokenizer\"}");
    refuses(&d, 6,
            "vocab.json: how a RobertaTokenizer splits texts is not known; tokenizer.json "
            "would say");
    d = (struct directory){.n = 0};
    add_file(&d, "encoder.json", "{\"a\":0,\"b\":1,\"ab\":2}");
    add_file(&d, "vocab.bpe", "a b\nab");
    refuses(&d, 100, "side file vocab.bpe: line 2 is not two tokens");
    d.n--;
    add_file(&d, "vocab.bpe", "a b\nb a");
    refuses(&d, 100, "encoder.json: merge 1: 'ba' is not in the vocabulary");
    d.n--;
    add_file(&d, "vocab.bpe", "a c");
    refuses(&d, 100, "encoder.json: merge 0: 'c' is not in the vocabulary");
    for (size_t n = 2047; n <= 2048; n++) { /* a merge of n bytes */
        char merge[2049];
        snprintf(merge, sizeof merge, "b %0*d", (int)n - 2, 0);
        d.n--;
        add_file(&d, "vocab.bpe", merge);
        refuses(&d, 100,
                n == 2048 ? "merge 0 has 2048 bytes"
                          : "encoder.json: merge 0: "
                            "'000000000000000000000000000000000000000000000000' is not "
                            "in the vocabulary");
    }
}

TEST(none)
{
    struct directory d = {.n = 0};
    struct checkpoint c;
    reads(&c, &d, 100);
    assert_null(c.vocab.model);
    assert_int_equal(arr_len(c.notes), 1);
    ckpt_free(&c);
    struct ckpt_options none = {.given = OPT_NO_TOKENIZER};
    struct ckpt_input in = {.name = "x", .options = &none, .side = find_member, .user = &d};
    mgpt_error err = {0};
    add_file(&d, "tokenizer.json", "{");
    ckpt_init(&c);
    assert_int_equal(hf_tokenizer_read(&c, &in, 100, &err), MGPT_OK); /* it is not looked at */
    assert_null(c.vocab.model);
    assert_string_equal(c.notes[0], "no vocabulary: the model will run on token ids only");
    ckpt_free(&c);
}

/* ---- hostile files --------------------------------------------------------------------------- */

TEST(hostile)
{
    char *json = json_of("{\"type\":\"NFC\"}", BYTE_LEVEL, MODEL, SPECIALS TEMPLATE);
    survive_all("tokenizer.json", (uint8_t *)json, strlen(json));
}
