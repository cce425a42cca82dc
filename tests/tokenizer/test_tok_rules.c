/* Splitting rules of byte-level BPE: the published cases of each family, all names,
 * bounded work; and llama.cpp's own cases where its vocabularies are at hand. Ids of many texts in
 * many scripts against Hugging Face's tokenizers: test_hf_tokenizer.c. */
#include "base/file.h"
#include "support/tok_file.h"
#include "support/unit.h"
#include "tokenizer/tok_regex.h"
#include "tokenizer/tok_split.h"

#include <time.h>

/* ---- llama.cpp's cases ---- */

static char *next_line(char **p, const char *separator)
{
    char *line = *p, *end = strstr(line, separator);
    *p = end ? end + strlen(separator) : line + strlen(line);
    if (end)
        *end = 0;
    return line;
}

/* A file as text, NULL when there is none. */
static char *read_text(const char *path, const char *suffix)
{
    char name[640];
    struct file file;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    if (file_open(&file, name, NULL) < 0)
        return NULL;
    char *text = calloc(file.size + 1, 1);
    assert_non_null(text);
    memcpy(text, file.data, file.size);
    file_close(&file);
    return text;
}

/* The texts of PATH.inp, each with its ids in a line of PATH.out. Returns how many there are. */
static size_t check_cases(const struct tok *t, char *in, char *out)
{
    size_t n_cases = 0;
    for (int more = 1; more; n_cases++) {
        more = strstr(in, "\n__ggml_vocab_test__\n") != NULL;
        char *text = next_line(&in, "\n__ggml_vocab_test__\n"), *line = next_line(&out, "\n");
        int32_t ids[512];
        size_t n = 0;
        for (char *end; n < 512; line = end, n++) {
            ids[n] = (int32_t)strtol(line, &end, 10);
            if (end == line)
                break;
        }
        tok_gives_ids(t, text, strlen(text), MGPT_NO_SPECIAL_TOKENS, ids, n);
    }
    assert_int_equal(*out, 0);
    return n_cases;
}

/* 1 when the vocabulary is there and all its cases come out. */
static int check_vocabulary(const char *path)
{
    struct file file;
    struct gguf g;
    mgpt_error err = {0};
    char *in = read_text(path, ".inp"), *out = read_text(path, ".out");
    int there = in && out && file_open(&file, path, NULL) == MGPT_OK;
    if (there) {
        assert_int_equal(gguf_parse(&g, file.data, file.size, NULL), MGPT_OK);
        struct tok *t = tok_open(&g, &err);
        if (!t)
            fail_msg("%s: %s", path, err.text);
        assert_true(check_cases(t, in, out) >= 47);
        tok_free(t);
        gguf_free(&g);
        file_close(&file);
    }
    free(in);
    free(out);
    return there;
}

/* ggml-vocab-NAME.gguf with .inp and .out, as llama.cpp has them in models/. MGPT_VOCABS names a
 * directory of them; ../shared has the first. */
TEST(llama_cpp)
{
    static const char *const names[] = {
        "gpt-2",     "llama-spm",      "phi-3",     "qwen2",        "starcoder", "falcon", "mpt",
        "llama-bpe", "deepseek-coder", "command-r", "deepseek-llm", "refact",    "qwen35"};
    char path[600];
    const char *given = getenv("MGPT_VOCABS");
    int n_found = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/ggml-vocab-%s.gguf",
                 given ? given : unit_path("../shared/cases/gpt2-tokenizer"), names[i]);
        n_found += check_vocabulary(path);
    }
    if (n_found == 0)
        skip();
}

/* ---- splitting ---- */

/* A vocabulary in which every substring of the text is a token and any two neighbours merge: each
 * piece of the split text becomes one token. */
static void add_substrings(struct tok_file *f, const char *text)
{
    size_t n = strlen(text);
    tok_file_alphabet(f);
    for (size_t length = 2; length <= n; length++)
        for (size_t at = 0; at + length <= n; at++)
            for (size_t left = 0; left < length; left++) {
                char line[256] = "";
                for (size_t i = 0; i < length; i++) {
                    char byte[3];
                    tok_file_byte((uint8_t)text[at + i], byte);
                    if (left > 0 && i == left)
                        strcat(line, " ");
                    strcat(line, byte);
                }
                if (left > 0)
                    tok_file_merge(f, line);
                else
                    tok_file_token(f, line, 1, 0);
            }
}

/* `row` has a '|' between any two pieces. */
static void splits(const char *pre, const char *row)
{
    struct tok_file f;
    char text[64] = "", got[128];
    for (const char *p = row; *p; p++)
        if (*p != '|')
            text[strlen(text)] = *p;
    tok_file_begin(&f, "gpt2", pre);
    add_substrings(&f, text);
    tok_split(tok_file_open(&f), text, got, sizeof got);
    if (strcmp(got, row) != 0)
        fail_msg("%s: '%s', expected '%s'", pre ? pre : "(none)", got, row);
    tok_file_free(&f);
}

/* The table of FORMATS: the cases that tell the families apart. */
TEST(families)
{
    static const char *const pres[] = {"gpt-2", "llama-bpe", "qwen2", "nanochat", "smollm"};
    static const char *const rows[][5] = {
        {"I|'|M| can|'t", "I|'M| can|'t", "I|'M| can|'t", "I|'M| can|'t", "I|'|M| can|'t"},
        {"x| | y|  | z| ", "x| | y|  | z| ", "x| | y|  | z| ", "x| | y|  | z| ", "x| | y|  | z| "},
        {"12345| 6", "123|45| |6", "1|2|3|4|5| |6", "12|34|5| |6", "1|2|3|4|5| |6"},
        {"a|\n\n | b|\n", "a|\n\n| | b|\n", "a|\n\n| | b|\n", "a|\n\n| | b|\n", "a|\n\n | b|\n"},
        {"foo|(|bar|);|\n\n|\t|baz", "foo|(bar|);\n\n|\tbaz", "foo|(bar|);\n\n|\tbaz",
         "foo|(bar|);\n\n|\tbaz", "foo|(|bar|);|\n\n|\t|baz"},
        {"h\u00E9llo| \u65E5\u672C| \u2167\u00BD", "h\u00E9llo| \u65E5\u672C| |\u2167\u00BD",
         "h\u00E9llo| \u65E5\u672C| |\u2167|\u00BD", "h\u00E9llo| \u65E5\u672C| |\u2167\u00BD",
         "h\u00E9llo| \u65E5\u672C| |\u2167|\u00BD"},
        {" '|quoted|'", " '|quoted|'", " '|quoted|'", " '|quoted|'", " '|quoted|'"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t k = 0; k < 5; k++)
            splits(pres[k], rows[i][k]);
}

TEST(gpt2)
{
    static const char *const rows[] = {
        /* the trailing space is a piece, and so is a run of spaces at the end */
        "Once| upon| ",
        "a|   ",
        /* contractions, in lower case only */
        "it|'s| we|'ll| I|'d|'ve",
        "'|S|'re|x",
        /* U+0085, U+00A0, U+3000 are white space */
        "a|\xC2\x85|b",
        "a|\xC2\xA0|b",
        " |\xE3\x80\x80|x",
        /* U+200B, U+FEFF, U+180E are not */
        "a| \xE2\x80\x8B|b",
        "a| \xEF\xBB\xBF|b",
        "a| \xE1\xA0\x8E|b",
        /* a combining mark is not a letter; digits of any script are numbers */
        "e|\xCC\x81|x",
        "\xD9\xA1\xD9\xA2\x33|a",
        /* ill-formed bytes are neither letters, numbers nor space, and stay */
        "a| \xFF| b",
        " | \xFF",
        "a|\xC3(|b",
        "\xED\xA0\x80\xC0\xAF|\xC3\xA9|\xF0\x9F",
        "\x01\x02|a|\x7F",
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        splits(i % 2 ? "gpt-2" : NULL, rows[i]);
}

/* What is particular to a rule. */
TEST(others)
{
    static const struct {
        const char *pre, *row;
    } rows[] = {
        {"llama-bpe", "a|'\xC5\xBF| b"}, /* U+017F is an s in upper case, as \p{L} has it */
        {"llama-bpe", "we|'LL| x|  \r\n\n| | b| "},
        {"llama-bpe", " ...\r\n\n|x|!\n\n| y"},
        {"llama-bpe", "a| \xFF\n|b"},
        {"llama-bpe", "\xC2\x85x|\xE3\x80\x80|\xE3\x80\x80x"},
        {"qwen2", "e|\xCC\x81x"},
        {"qwen35", "e\xCC\x81x"},
        {"starcoder", "a| |1|2| b"},
        {"falcon", "a|,|b| |,| |123|456|7"},
        {"falcon", "x|=+=| y"},
        {"deepseek-coder", "int| x|;|\n|\n|  | y|1|2"},
        {"deepseek-coder", "ab|\xE4\xB8\xAD\xE6\x96\x87"},
        {"deepseek-llm", "x|  | y|12|\n|  "},
        {"deepseek-v3", "123|4| a|.b|,\n|\xE4\xB8\xAD"},
        {"afmoe", "1|234|567| a|.b|,\n|12|345|x|  |12| "},
        {"afmoe", "123|456|ab|\xE4\xB8\xAD\xE3\x81\x8B|1|\xE0\xB9\x81"},
        {"gpt-4o", "Hello|World's| ABCd"},
        {"gpt-4o", "a|/\n/|b"},
        {"tekken", "Hello|World|'s|1|2"},
        {"nanochat", "12|3| x"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        splits(rows[i].pre, rows[i].row);
}

/* ---- names ---- */

enum { ADDS_BOS = 1, WHOLE = 2, NFC = 4 };

static const struct {
    int flags;
    const char *pres;
} known[] = {
    {0,
     "default gpt-2 phi-2 jais smollm starcoder refact command-r codeshell exaone dbrx smaug-bpe "
     "chatglm-bpe falcon deepseek-coder deepseek-llm deepseek-v3 afmoe "
     "gpt-4o"},
    {NFC, "mpt olmo qwen2 deepseek-r1-qwen stablelm2 megrez qwen35"},
    {ADDS_BOS | WHOLE, "llama-bpe llama3 llama-v3 falcon3 pixtral lfm2 tekken"},
    {WHOLE, "glm4 nanochat"},
};

/* A vocabulary with a token, "ab", that no merge makes, and a BOS. */
static struct tok *open_named(struct tok_file *f, const char *pre, int32_t *whole)
{
    tok_file_begin(f, "gpt2", pre);
    tok_file_alphabet(f);
    *whole = tok_file_token(f, "ab", 1, 0);
    tok_file_u32(f, "tokenizer.ggml.bos_token_id", (uint32_t)tok_file_token(f, "<bos>", 3, 0));
    return tok_file_open(f);
}

static void check_name(const char *pre, int flags)
{
    struct tok_file f;
    int32_t whole, ids[4];
    struct tok *t = open_named(&f, pre, &whole);
    assert_int_equal(tok_adds_bos(t), (flags & ADDS_BOS) != 0);
    assert_int_equal(tok_wants_nfc(t), (flags & NFC) != 0);
    int64_t n = tok_encode(t, "ab", 2, MGPT_NO_SPECIAL_TOKENS, ids, 4, NULL);
    assert_int_equal(n, flags & WHOLE ? 1 : 2);
    assert_int_equal(ids[0] == whole, (flags & WHOLE) != 0);
    tok_file_free(&f);
}

TEST(names)
{
    for (size_t i = 0; i < COUNT(known); i++) {
        char pres[256];
        snprintf(pres, sizeof pres, "%s", known[i].pres);
        for (char *pre = strtok(pres, " "); pre; pre = strtok(NULL, " "))
            check_name(pre, known[i].flags);
    }
}

/* Keys of the file override the rule. */
TEST(keys)
{
    struct tok_file f;
    struct tok *t = tok_file_make(
        &f, "model gpt2; pre llama-bpe; bool add_bos_token 0; bool mgpt.tokenizer.whole_pieces 0;"
            "bool mgpt.tokenizer.nfc 1; alphabet; token ab; token <bos> 3; u32 bos_token_id 257");
    assert_int_equal(tok_adds_bos(t), 0);
    assert_int_equal(tok_wants_nfc(t), 1);
    tok_gives(t, "ab", 0, 64, 65, -1); /* bytes 'a' and 'b' */
    tok_file_free(&f);
}

/* A piece counts whole only as a normal token, and only all of it. */
TEST(whole_pieces)
{
    enum { SPACE_A = 257, AB };
    struct tok_file f;
    struct tok *t = tok_file_make(&f, "model gpt2; pre llama-bpe; alphabet; token abc 3;"
                                      "token \u0120a; token ab; merge a b");
    tok_gives(t, "abc", 0, AB, 66, -1);
    tok_gives(t, "ab a", 0, AB, SPACE_A, -1);
    tok_gives(t, " ab", 0, 220, AB, -1);
    tok_file_free(&f);
    t = tok_file_make(&f, "model gpt2; pre llama-bpe; token ab; alphabet"); /* its id is 0 */
    tok_gives(t, "ab", 0, 0, -1);
    tok_file_free(&f);
}

/* ---- work ---- */

/* 100 kB of one character, or of a few, take every rule a time that a quadratic one would exceed a
 * thousandfold; the limit has room for valgrind. */
TEST(bounded_work)
{
    static const char *const pres[] = {"gpt-2",          "smollm",       "llama-bpe",   "nanochat",
                                       "qwen2",          "qwen35",       "gpt-4o",      "tekken",
                                       "deepseek-coder", "deepseek-llm", "deepseek-v3", "falcon"};
    static const char *const units[] = {"a",  "A",    " ",   "\n",   "\r",       "1",
                                        "!",  "'",    " a",  "_",    "'s",       " \n",
                                        "aA", "\t\n", "/\n", "\xFF", "\xCC\x81", "\xE4\xB8\xAD"};
    const size_t n = 100000;
    char *text = malloc(n);
    int32_t whole;
    assert_non_null(text);
    for (size_t i = 0; i < COUNT(pres); i++) {
        struct tok_file f;
        struct tok *t = open_named(&f, pres[i], &whole);
        for (size_t k = 0; k < COUNT(units); k++) {
            size_t length = strlen(units[k]);
            for (size_t at = 0; at < n; at++)
                text[at] = units[k][at % length];
            text[n - 1] = 'x';
            clock_t start = clock();
            assert_true(tok_encode(t, text, n, 0, NULL, 0, NULL) > 0);
            double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            if (seconds > 2)
                fail_msg("%s: %f s for '%s'", pres[i], seconds, units[k]);
        }
        tok_file_free(&f);
    }
    free(text);
}

/* ---- PCRE2's stack --------------------------------------------------------------------------- */

static int count_pieces(void *user, size_t from, size_t to)
{
    size_t *n = user;
    n[0]++;
    n[1] = to - from > n[1] ? to - from : n[1];
    return MGPT_OK;
}

/* A group that is repeated 100,000 times takes more stack than PCRE2's JIT has: then it is interpreted. */
TEST(more_than_the_jit_has)
{
    static const char *const stages[] = {"(?:a|b)*c", NULL};
    const struct gguf_str pattern = {stages[0], strlen(stages[0])};
    enum { N = 100000 };
    char *text = malloc(N);
    size_t n[2] = {0};
    mgpt_error err = {0};
    assert_non_null(text);
    for (size_t i = 0; i < N; i++)
        text[i] = "ab"[i % 2];
    text[N - 2] = 'c';
    struct split *split = split_open(&(struct split_rule){"own", stages, 0}, &err);
    assert_non_null(split);
    assert_int_equal(split_text(split, text, N, count_pieces, n, &err), MGPT_OK);
    assert_true(n[0] == 2 && n[1] == N - 1);
    split_close(split);
    struct span_part *parts = NULL;
    struct tok_regex *regex = regex_open(pattern, &err);
    assert_non_null(regex);
    assert_int_equal(regex_parts(regex, text, N, &parts, &err), MGPT_OK);
    assert_true(arr_len(parts) == 2 && parts[0].is_match && parts[0].to == N - 1);
    regex_close(regex);
    arr_free(parts);
    free(text);
}

/* ---- patterns of files ----------------------------------------------------------------------- */

/* Opens n times `open`, then x and n times `close`. MGPT_OK or the error. */
static int open_pattern(size_t n, const char *open, const char *close)
{
    char *text = calloc(2 * n + 2, 1);
    mgpt_error err = {0};
    assert_non_null(text);
    memset(text, *open, n);
    text[n] = 'x';
    memset(text + n + 1, *close, n * strlen(close));
    struct tok_regex *r = regex_open((struct gguf_str){text, strlen(text)}, &err);
    regex_close(r);
    free(text);
    return r ? MGPT_OK : err.status;
}

/* 50 parentheses in each other and 16,384 bytes: a file that has more could take all of the stack. */
TEST(limits_of_patterns)
{
    assert_int_equal(open_pattern(50, "(", ")"), MGPT_OK);
    assert_int_equal(open_pattern(51, "(", ")"), MGPT_EFILE);
    assert_int_equal(open_pattern(16383, "a", ""), MGPT_OK);
    assert_int_equal(open_pattern(16384, "a", ""), MGPT_EFILE);
}
