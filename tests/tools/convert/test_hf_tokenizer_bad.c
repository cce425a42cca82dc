/* Tools: what hf_tokenizer_read makes of tokenizer.json, vocab.json and the files next to them, or
 * the line with which it refuses them: the rows of hf_tokenizers.json. And hostile files: cut
 * anywhere, any bit changed. */
#include "support/convert.h"
#include "support/tok_directory.h"
#include "support/unit.h"

#include <jansson.h>

/* ---- a row ----------------------------------------------------------------------------------- */

/* {tokenizer.json's base} with the changes: of objects in both, the keys. */
static json_t *changed(const json_t *base, const json_t *changes)
{
    json_t *root = json_deep_copy(base);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)changes, key, value)
    {
        json_t *old = json_object_get(root, key);
        if (strchr(key, '.'))
            continue; /* a file of its own */
        if (json_is_object(old) && json_is_object(value))
            json_object_update(old, value);
        else
            json_object_set(root, key, value);
    }
    return root;
}

static void add_json(struct directory *d, const char *name, const json_t *value)
{
    char *text = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, 0);
    assert_non_null(text);
    add_file(d, name, text);
}

/* The directory of a row: tokenizer.json unless the base is null, and the files that the row
 * names. */
static struct directory directory_of(const json_t *base, const json_t *changes)
{
    struct directory d = {.n = 0};
    const char *name;
    json_t *value;
    if (json_is_object(base)) {
        json_t *root = changed(base, changes);
        add_json(&d, "tokenizer.json", root);
        json_decref(root);
    }
    json_object_foreach((json_t *)(uintptr_t)changes, name, value) if (strchr(name, '.'))
        add_json(&d, name, value);
    return d;
}

static void directory_free(struct directory *d)
{
    for (size_t i = 0; i < d->n; i++)
        free((void *)(uintptr_t)d->members[i].bytes.data);
}

/* ---- what was read --------------------------------------------------------------------------- */

static json_t *texts_of(const struct gguf_str *texts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < arr_len(texts); i++)
        json_array_append_new(list, json_stringn(texts[i].p, texts[i].n));
    return list;
}

static json_t *ids_of(const int32_t *ids)
{
    json_t *list = json_array();
    for (size_t i = 0; i < arr_len(ids); i++)
        json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static json_t *types_of(const struct ckpt_vocab *v)
{
    char digits[32] = "";
    for (size_t i = 0; i < arr_len(v->types) && i + 1 < sizeof digits; i++)
        digits[i] = (char)('0' + v->types[i]);
    return json_string(digits);
}

/* Every field of a vocabulary under its name, and its tokens. */
#define ID_JSON(v) json_integer(v)
#define REAL_JSON(v) json_real((double)(v))
#define CHOICE_JSON(v) json_integer(v)
#define SWITCH_JSON(v) json_integer(v)
#define FLAG_JSON(v) json_integer(v)
#define TEXT_JSON(v) json_stringn((v).n ? (v).p : "", (v).n)
#define BYTES_JSON(v) json_integer((json_int_t)(v).n)
#define TEXTS_JSON(v) texts_of(v)
#define IDS_JSON(v) ids_of(v)
#define DOUBLES_JSON(v) json_integer((json_int_t)arr_len(v))
#define FACT(kind, type, field, ...) json_object_set_new(facts, #field, kind##_JSON(v->field));
static json_t *facts_of(const struct ckpt_vocab *v)
{
    json_t *facts = json_object();
    VOCAB_FIELDS(FACT)
    json_object_set_new(facts, "model", v->model ? json_string(v->model) : json_null());
    json_object_set_new(facts, "pre", v->pre ? json_string(v->pre) : json_null());
    json_object_set_new(facts, "template", TEXT_JSON(v->chat_template));
    json_object_set_new(facts, "tokens", texts_of(v->tokens));
    json_object_set_new(facts, "merges", texts_of(v->merges));
    json_object_set_new(facts, "types", types_of(v));
    return facts;
}

/* {"id": score}, as the file's parser reads it. */
static int has_doubles(const struct ckpt_vocab *v, const json_t *scores)
{
    const char *id;
    json_t *score;
    json_object_foreach((json_t *)(uintptr_t)scores, id, score)
    {
        double expected = json_number_value(score);
        if (memcmp(&v->doubles[atoi(id)], &expected, sizeof expected) != 0)
            return 0;
    }
    return 1;
}

/* {"id": score} */
static int has_scores(const struct ckpt_vocab *v, const json_t *scores)
{
    const char *id;
    json_t *score;
    json_object_foreach((json_t *)(uintptr_t)scores, id, score)
    {
        float found = v->scores[atoi(id)], expected = (float)json_number_value(score);
        if (memcmp(&found, &expected, sizeof found) != 0)
            return 0;
    }
    return 1;
}

/* The first key whose expected value is not what was read, or NULL. */
static const char *other_fact(const struct checkpoint *c, const json_t *expected)
{
    json_t *facts = facts_of(&c->vocab), *value;
    const char *key, *wrong = NULL;
    json_object_foreach((json_t *)(uintptr_t)expected, key, value)
    {
        int same = strcmp(key, "note") == 0      ? has_note(c, json_string_value(value))
                   : strcmp(key, "doubles") == 0 ? has_doubles(&c->vocab, value)
                   : strcmp(key, "scores") == 0  ? has_scores(&c->vocab, value)
                                                 : json_equal(value, json_object_get(facts, key));
        wrong = same ? wrong : key;
    }
    json_decref(facts);
    return wrong;
}

/* ---- all rows -------------------------------------------------------------------------------- */

/* [files, message or facts, rows of the embedding: 100 if absent] */
static void check_tokenizer_row(const json_t *base, const json_t *row)
{
    const json_t *expected = json_array_get(row, 1), *n_rows = json_array_get(row, 2);
    struct directory d = directory_of(base, json_array_get(row, 0));
    const char *message = json_string_value(expected), *other = NULL;
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    char *what = json_dumps(row, 0);
    int status = read_directory(&c, &d, n_rows ? (uint64_t)json_integer_value(n_rows) : 100, &err);
    if (status != (message ? MGPT_EFILE : MGPT_OK) || (message && strcmp(err.text, message) != 0))
        fail_msg("%s: found '%s'", what, err.text);
    if (!message && (other = other_fact(&c, expected)))
        fail_msg("%s: other %s", what, other);
    free(what);
    ckpt_free(&c);
    directory_free(&d);
}

static json_t *load_groups(void)
{
    struct file f = repo_file("tests/tools/convert", "hf_tokenizers.json");
    json_error_t e;
    json_t *groups = json_loadb((const char *)f.data, f.size, 0, &e);
    if (!groups)
        fail_msg("hf_tokenizers.json:%d: %s", e.line, e.text);
    file_close(&f);
    return groups;
}

TEST(rows)
{
    json_t *groups = load_groups(), *group, *row;
    size_t i, k, n = 0;
    json_array_foreach(groups, i, group) json_array_foreach(json_object_get(group, "rows"), k, row)
    {
        check_tokenizer_row(json_object_get(group, "tokenizer"), row);
        n++;
    }
    assert_int_equal(n, 250);
    json_decref(groups);
}

/* ---- absent keys ----------------------------------------------------------------------------- */

/* The facts of tokenizer.json (here with ' for ") in which `key` of the part marked @ is absent (NULL) or has a value. */
static json_t *facts_with(const char *json, const char *key, const char *value)
{
    struct directory d = {.n = 0};
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    const char *mark = strchr(json, '@');
    char *text = malloc(strlen(json) + strlen(key) + 400);
    assert_non_null(text);
    sprintf(text, "{%.*s", (int)(mark - json), json);
    if (value)
        sprintf(text + strlen(text), "'%s':%s,", key, value);
    sprintf(text + strlen(text), "%s'vocab':{'a':0,'b':1,'ab':2,'<u>':3},'merges':[['a','b']]}}",
            mark + 1);
    for (char *p = text; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    add_file(&d, "tokenizer.json", text);
    if (read_directory(&c, &d, 100, &err) != MGPT_OK)
        fail_msg("%s: %s", text, err.text);
    json_t *facts = facts_of(&c.vocab);
    ckpt_free(&c);
    free(text);
    return facts;
}

#define FALSE_TRUE "false", "true"
#define TRUE_FALSE "true", "false"
#define BPE "'model':{'type':'BPE',"
#define PRE(keys) "'pre_tokenizer':{@" keys "}," BPE
#define NORM(keys) "'pre_tokenizer':{'type':'WhitespaceSplit'},'normalizer':{@" keys "}," BPE
#define ADDED(rest)                                                                                \
    "'pre_tokenizer':{'type':'WhitespaceSplit'},'added_tokens':[{@'id':3,'content':'<u>'}]," rest  \
        BPE

/* An absent key is what it is in Hugging Face's tokenizers, and the other value gives another file. */
TEST(absent_keys)
{
    static const struct {
        const char *json, *key;
        const char *usual, *other;
    } cases[] = {
        {PRE("'type':'Digits'"), "individual_digits", FALSE_TRUE},
        {PRE("'type':'ByteLevel'"), "add_prefix_space", TRUE_FALSE},
        {PRE("'type':'ByteLevel'"), "use_regex", TRUE_FALSE},
        {PRE("'type':'Metaspace','replacement':'_'"), "add_prefix_space", TRUE_FALSE},
        {PRE("'type':'Metaspace','replacement':'_'"), "split", TRUE_FALSE},
        {PRE("'type':'Split','pattern':{'String':'x'},'behavior':'Isolated'"), "invert",
         FALSE_TRUE},
        {PRE("'type':'Punctuation'"), "behavior", "'Isolated'", "'Contiguous'"},
        {PRE("'type':'Metaspace','replacement':'_'"), "prepend_scheme", "'always'", "'first'"},
        {NORM("'type':'Strip','strip_right':true"), "strip_left", FALSE_TRUE},
        {NORM("'type':'Strip','strip_left':true"), "strip_right", FALSE_TRUE},
        {NORM("'type':'BertNormalizer'"), "clean_text", TRUE_FALSE},
        {NORM("'type':'BertNormalizer'"), "handle_chinese_chars", TRUE_FALSE},
        {NORM("'type':'BertNormalizer'"), "lowercase", TRUE_FALSE},
        {NORM("'type':'BertNormalizer','lowercase':false"), "strip_accents", FALSE_TRUE},
        {NORM("'type':'BertNormalizer','lowercase':true"), "strip_accents", TRUE_FALSE},
        {"'pre_tokenizer':{'type':'WhitespaceSplit'},'decoder':{@'type':'WordPiece','prefix':'##'}"
         "," BPE,
         "cleanup", TRUE_FALSE},
        {ADDED(""), "special", FALSE_TRUE},
        {ADDED(""), "single_word", FALSE_TRUE},
        {ADDED(""), "lstrip", FALSE_TRUE},
        {ADDED(""), "rstrip", FALSE_TRUE},
        {ADDED("'normalizer':{'type':'Lowercase'},"), "normalized", TRUE_FALSE},
        {"'pre_tokenizer':{'type':'WhitespaceSplit'},'model':{@'type':'BPE',", "byte_fallback",
         FALSE_TRUE},
        {"'pre_tokenizer':{'type':'WhitespaceSplit'},'model':{@'type':'BPE','unk_token':'<u>',",
         "fuse_unk", FALSE_TRUE},
        {"'pre_tokenizer':{'type':'WhitespaceSplit'},'model':{@'type':'BPE',", "ignore_merges",
         FALSE_TRUE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *absent = facts_with(cases[i].json, cases[i].key, NULL);
        json_t *usual = facts_with(cases[i].json, cases[i].key, cases[i].usual);
        json_t *other = facts_with(cases[i].json, cases[i].key, cases[i].other);
        if (!json_equal(absent, usual) || json_equal(absent, other))
            fail_msg("%s: absent, it is not %s", cases[i].key, cases[i].usual);
        json_decref(absent);
        json_decref(usual);
        json_decref(other);
    }
}

/* ---- lengths --------------------------------------------------------------------------------- */

/* A merge of n letters in two texts has room up to two tokens of the longest. */
static void merge_of(size_t n, const char *message)
{
    struct directory d = {.n = 0};
    int left = (int)(n / 2), right = (int)n - left;
    char *json = malloc(n + 400);
    assert_non_null(json);
    snprintf(json, n + 400,
             "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":"
             "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"%0*d\",\"%0*d\"]]}}",
             left, 0, right, 0);
    add_file(&d, "tokenizer.json", json);
    refuses(&d, 100, message);
    free(json);
}

#define ZEROS_48 "000000000000000000000000000000000000000000000000"

TEST(long_merges)
{
    merge_of(2 * 65535, "tokenizer.json: merge 0: '" ZEROS_48 "' is not in the vocabulary");
    merge_of(2 * 65535 + 1, "tokenizer.json: merge 0 is not two texts, the left without a space");
}

/* A token of 65,535 bytes is one that the tokenizer takes. */
TEST(long_tokens)
{
    for (int n = 65535; n <= 65536; n++) {
        struct directory d = {.n = 0};
        struct checkpoint c;
        mgpt_error err = {0};
        char *json = malloc((size_t)n + 400);
        assert_non_null(json);
        snprintf(json, (size_t)n + 400,
                 "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":"
                 "{\"type\":\"BPE\",\"vocab\":{\"%0*d\":0},\"merges\":[]}}",
                 n, 0);
        add_file(&d, "tokenizer.json", json);
        assert_int_equal(read_directory(&c, &d, 100, &err), n < 65536 ? MGPT_OK : MGPT_EFILE);
        if (n == 65536)
            assert_string_equal(err.text, "tokenizer.json: token 0: 65536 bytes, at most 65535");
        ckpt_free(&c);
        free(json);
    }
}

/* Braces that are not counts are read once each, not to the end of the pattern. */
TEST(long_patterns)
{
    struct directory d = {.n = 0};
    const size_t n = 2000000;
    char *json = malloc(n + 400);
    assert_non_null(json);
    int at = snprintf(json, n + 400,
                      "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","
                      "\"pattern\":{\"Regex\":\"");
    memset(json + at, '{', n);
    snprintf(json + at + n, 200,
             "\"}},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},"
             "\"merges\":[]}}");
    add_file(&d, "tokenizer.json", json);
    refuses(&d, 100,
            "tokenizer.json: pre_tokenizer Split: a pattern of 4000000 bytes, the limit is 16384");
    free(json);
}

/* 40 groups inside each other. What follows them is wrong in another way. */
TEST(deep_patterns)
{
    for (int n = 39; n <= 42; n++) {
        struct directory d = {.n = 0};
        char json[400], groups[43] = "";
        memset(groups, '(', (size_t)n);
        snprintf(json, sizeof json,
                 "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","
                 "\"pattern\":{\"Regex\":\"%s[a-[b]]\"}},\"model\":{\"type\":\"BPE\","
                 "\"vocab\":{\"a\":0},\"merges\":[]}}",
                 groups);
        add_file(&d, "tokenizer.json", json);
        refuses(&d, 100,
                n > 40 ? "tokenizer.json: pre_tokenizer Split: its pattern has this kind of group"
                       : "tokenizer.json: pre_tokenizer Split: its pattern has a - before a class "
                         "inside a class");
    }
}

/* Lines of merges.txt: at most 2047 bytes. */
TEST(long_lines)
{
    for (size_t n = 2047; n <= 2048; n++) {
        struct directory d = {.n = 0};
        char merge[2049];
        snprintf(merge, sizeof merge, "b %0*d", (int)n - 2, 0);
        add_file(&d, "encoder.json", "{\"a\":0,\"b\":1}");
        add_file(&d, "vocab.bpe", merge);
        refuses(&d, 100,
                n == 2048 ? "merge 0 has 2048 bytes"
                          : "encoder.json: merge 0: '" ZEROS_48 "' is not in the vocabulary");
    }
}

TEST(no_tokenizer)
{
    struct directory d = {.n = 0};
    struct checkpoint c;
    struct ckpt_options none = {.given = OPT_NO_TOKENIZER};
    struct ckpt_input in = {.name = "x", .options = &none, .side = find_member, .user = &d};
    mgpt_error err = {0};
    add_file(&d, "tokenizer.json", "{");
    ckpt_init(&c);
    assert_int_equal(run_tokenizer(&c, &in, 100, &err), MGPT_OK); /* the file is not read */
    assert_null(c.vocab.model);
    assert_string_equal(c.notes[0], "no vocabulary: the model will run on token ids only");
    ckpt_free(&c);
}

/* ---- hostile files --------------------------------------------------------------------------- */

/* The tokenizer with NFC, special tokens and a template. */
TEST(hostile)
{
    json_t *groups = load_groups();
    char *json = json_dumps(json_object_get(json_array_get(groups, 5), "tokenizer"), JSON_COMPACT);
    survive_all("tokenizer.json", (uint8_t *)json, strlen(json));
    free(json);
    json_decref(groups);
}
