/* Tools: tokenizer.json through the converter and the library: the ids of Hugging Face's
 * tokenizers, for every family and for texts in many scripts (vectors/tok_split.txt, made by
 * tok_split.py); and what is refused. */
#include "base/file.h"
#include "base/fnv.h"
#include "common/unicode.h"
#include "convert/core/write.h"
#include "support/convert.h"
#include "support/tok_directory.h"
#include "support/unit.h"

#include <jansson.h>
#include <unistd.h>

/* ---- golden files ---------------------------------------------------------------------------- */

static char *read_text(const char *name, size_t *n)
{
    struct file file = repo_file("tests/vectors", name);
    char *text = calloc(file.size + 1, 1);
    assert_non_null(text);
    memcpy(text, file.data, file.size);
    *n = file.size;
    file_close(&file);
    return text;
}

/* The checkpoint's vocabulary as a GGUF file, opened. */
static mgpt_model *open_vocab(struct checkpoint *c)
{
    char path[] = "/tmp/mgpt-tok-XXXXXX";
    int fd = mkstemp(path);
    const mgpt_model_params params = {.vocab_only = 1};
    mgpt_error err = {0};
    assert_true(fd >= 0);
    close(fd);
    c->hp.arch = "llama";
    assert_int_equal(ckpt_write(c, path, NULL, &err), MGPT_OK);
    mgpt_model *model = mgpt_open(path, &params, &err);
    unlink(path);
    if (!model)
        fail_msg("%s", err.text);
    return model;
}

/* The hash of the text's ids; special tokens in it count, as in the original. */
static uint64_t hash_of_ids(const mgpt_model *model, int nfc, struct gguf_str text)
{
    size_t n = text.n;
    char *normal = NULL;
    if (nfc)
        assert_int_equal(nfc_copy(text.p, text.n, &normal, &n, NULL), MGPT_OK);
    const char *p = normal ? normal : text.p;
    const unsigned flags = MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL;
    int64_t count = mgpt_encode(model, p, n, flags, NULL, 0, NULL);
    int32_t *ids = calloc((size_t)count + 1, sizeof *ids);
    assert_true(ids && count >= 0);
    mgpt_encode(model, p, n, flags, ids, (size_t)count, NULL);
    uint64_t h = fnv1a(FNV_START, ids, (size_t)count * sizeof *ids);
    free(ids);
    free(normal);
    return h;
}

/* Vocabularies whose file says that it lacks bytes, which vanish; those that steps of mgpt's own read. */
static int n_dropping, n_steps;

/* The number of texts whose ids are not those of the original; `hash` is a line of hashes. */
static size_t n_wrong_ids(const char *name, const char *json, size_t n_json, char *hash,
                          const struct gguf_str *texts)
{
    struct checkpoint c;
    mgpt_error err = {0};
    mgpt_info info;
    struct directory d = {.n = 0};
    add_bytes(&d, "tokenizer.json", json, n_json);
    if (read_directory(&c, &d, 1000, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    n_dropping += c.vocab.drops_unknown;
    n_steps += c.vocab.has_steps;
    mgpt_model *model = open_vocab(&c);
    assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
    size_t n_wrong = 0;
    for (size_t i = 0; i < arr_len(texts); i++)
        if (hash_of_ids(model, info.nfc, texts[i]) != strtoull(hash, &hash, 16) && n_wrong++ < 5)
            print_error("%s: other ids for '%.*s'\n", name, (int)texts[i].n, texts[i].p);
    mgpt_close(model);
    ckpt_free(&c);
    return n_wrong;
}

/* "family NAME hash hash ...": every text has the ids of the original. */
static void check_family(char *line, const struct gguf_str *texts)
{
    char path[128], *hash, *name = strtok_r(line, " ", &hash);
    size_t n_json;
    snprintf(path, sizeof path, "tok/%s.json", name);
    char *json = read_text(path, &n_json);
    assert_int_equal(n_wrong_ids(name, json, n_json, hash, texts), 0);
    free(json);
}

static struct gguf_str from_hex(char *hex)
{
    struct gguf_str text = {hex, strlen(hex) / 2};
    for (size_t i = 0; i < text.n; i++) {
        const char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
        hex[i] = (char)strtoul(pair, NULL, 16);
    }
    return text;
}

/* Appends the texts of a file of vectors and checks its families with all texts so far. */
static size_t check_families(const char *name, struct gguf_str **texts, char **vectors)
{
    size_t n, n_families = 0;
    char *rest = *vectors = read_text(name, &n);
    for (char *line; (line = strtok_r(rest, "\n", &rest));) {
        if (strncmp(line, "text ", 5) == 0)
            assert_true(arr_push(*texts, from_hex(line + 5)));
        if (strncmp(line, "family ", 7) == 0) {
            check_family(line + 7, *texts);
            n_families++;
        }
    }
    return n_families;
}

/* tok_steps.txt, made by tok_steps.py, has normalizers and pre-tokenizers of all kinds,
 * tok_wordpiece.txt WordPiece and WordLevel, tok_unigram_steps.txt Unigram with such parts. */
TEST(families)
{
    struct gguf_str *texts = NULL;
    char *split, *steps, *words, *unigram;
    assert_int_equal(check_families("tok_split.txt", &texts, &split), 18);
    assert_int_equal(check_families("tok_steps.txt", &texts, &steps), 9);
    assert_int_equal(check_families("tok_wordpiece.txt", &texts, &words), 5);
    assert_int_equal(check_families("tok_unigram_steps.txt", &texts, &unigram), 3);
    assert_int_equal(n_dropping, 0);
    assert_int_equal(n_steps, 9 + 5 + 3); /* not those of tok_split.txt */
    arr_free(texts);
    free(split);
    free(steps);
    free(words);
    free(unigram);
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* "regex PATTERN hash hash ...": what is left of each text when all matches are removed. */
static size_t wrong_of_pattern(const json_t *tokenizer, char *line, const struct gguf_str *texts)
{
    char *hash, *hex = strtok_r(line, " ", &hash);
    struct gguf_str pattern = from_hex(hex);
    json_t *root = json_deep_copy(tokenizer);
    json_t *split = json_object_get(json_object_get(root, "pre_tokenizer"), "pattern");
    hex[pattern.n] = 0;
    assert_int_equal(json_object_set_new(split, "Regex", json_string(hex)), 0);
    char *json = json_dumps(root, 0);
    size_t n_wrong = n_wrong_ids(hex, json, strlen(json), hash, texts);
    free(json);
    json_decref(root);
    return n_wrong;
}

/* tok_regex.txt, made by tok_regex.py: patterns in Oniguruma's syntax. */
TEST(patterns)
{
    size_t n, n_json, n_patterns = 0, n_wrong = 0;
    struct gguf_str *texts = NULL;
    char *text = read_text("tok_regex.txt", &n), *json = read_text("tok/regex.json", &n_json);
    json_t *tokenizer = json_loadb(json, n_json, 0, NULL);
    assert_non_null(tokenizer);
    char *rest = text;
    for (char *line; (line = strtok_r(rest, "\n", &rest));) {
        if (strncmp(line, "text ", 5) == 0)
            assert_true(arr_push(texts, from_hex(line + 5)));
        if (strncmp(line, "regex ", 6) == 0) {
            n_wrong += wrong_of_pattern(tokenizer, line + 6, texts);
            n_patterns++;
        }
    }
    assert_int_equal(n_patterns, 122);
    assert_int_equal(n_wrong, 0);
    json_decref(tokenizer);
    arr_free(texts);
    free(text);
    free(json);
}

/* One space in front is left out of a text; a decoder that strips more is refused. */
#define STRIPS "tokenizer.json: decoder Strip: it strips more than one space in front"

TEST(strip_decoder)
{
    static const struct {
        const char *strip;
        int drops;
        const char *message;
    } rows[] = {
        {"\"content\":\" \",\"start\":1,\"stop\":0", 1, NULL},
        {"\"content\":\" \",\"start\":0,\"stop\":0", 0, NULL},
        {"\"content\":\" \",\"start\":2,\"stop\":0", 0, STRIPS},
        {"\"content\":\" \",\"start\":0,\"stop\":1", 0, STRIPS},
        {"\"content\":\"a\",\"start\":1,\"stop\":0", 0, STRIPS},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct directory d = {.n = 0};
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        char json[400];
        snprintf(
            json, sizeof json,
            "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"decoder\":{\"type\":\"Strip\",%s},"
            "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
            rows[i].strip);
        add_file(&d, "tokenizer.json", json);
        int status = read_directory(&c, &d, 100, &err);
        assert_int_equal(status, rows[i].message ? MGPT_EFILE : MGPT_OK);
        if (rows[i].message)
            assert_string_equal(err.text, rows[i].message);
        else
            assert_int_equal(c.vocab.drops_space, rows[i].drops);
        ckpt_free(&c);
    }
}
