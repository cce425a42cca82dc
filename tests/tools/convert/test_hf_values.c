/* Hugging Face models: every value of every golden config.json replaced by others. The model is
 * read, or refused by one line; a value of the wrong kind is refused by its name or has no effect.
 *
 * What it becomes is in hf_values.txt: MODEL, then KEY=HASH of each key, the lines of refusals and the headers and
 * first values of models that are read, in one hash. A changed table of a reader, key, limit or message shows there.
 * MGPT_SOURCE_ROOT=$PWD MGPT_WRITE=1 build/tests/test_hf_values writes it again; fresh.py compares with transformers. */
#include "support/became.h"
#include "support/hf_dir.h"
#include "support/made_rows.h"
#include "support/unit.h"

#include <dirent.h>

/* The first is of the wrong kind for every value that is not an object. */
static const char *const values[] = {"{\"x\":1}", "\"x\"", "-1", "1e300", "0.5", "true",
                                     "[]",        "false", "0",  "3",     "null"};

enum { WAYS = 3, CASES = COUNT(values) + WAYS };

/* Value i of a key: of the list, or made of the old one; NULL: the key is removed. */
static json_t *other_value(const json_t *old, size_t i)
{
    if (i < COUNT(values))
        return json_loads(values[i], JSON_DECODE_ANY, NULL);
    size_t way = i - COUNT(values);
    if (way == 0)
        return NULL;
    if (json_is_integer(old))
        return json_integer(json_integer_value(old) * (way == 1 ? 2 : 1) + (way == 1 ? 0 : 1));
    if (json_is_real(old))
        return json_real(json_real_value(old) * (way == 1 ? 0.75 : 64));
    json_t *list = json_deep_copy(old);
    if (json_is_array(old) && way == 1)
        json_array_remove(list, json_array_size(list) - 1);
    if (json_is_array(old) && way == 2)
        json_array_append(list, json_array_get(list, 0));
    return list;
}

/* ---- what a configuration becomes ---- */

struct value_sweep {
    struct dir *d;
    json_t *root;
    const char *model;
    struct xxh64 hash; /* of a key */
    size_t n;
    int is_less; /* a refusal may be that of another key */
    FILE *to;
};

/* Reads the model with root as its config.json. `named`: a refusal must hold that name. */
static void try_config(struct value_sweep *s, const char *what, const char *named)
{
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    set_config(s->d, s->root);
    int status = read_dir(&c, s->d, "config.json", &err);
    if (status != MGPT_OK &&
        (status != MGPT_EFILE || strlen(err.text) < 10 || !strstr(err.text, named)))
        fail_msg("%s: status %d, '%s'", what, status, err.text);
    if (status == MGPT_OK)
        became_checkpoint(&s->hash, &c);
    became_text(&s->hash, err.text);
    ckpt_free(&c);
    s->n++;
}

static void try_key(struct value_sweep *s, json_t *object, const char *key)
{
    json_t *old = json_incref(json_object_get(object, key));
    xxh64_begin(&s->hash);
    for (size_t i = 0; i < CASES; i++) {
        char what[400];
        json_t *value = other_value(old, i);
        snprintf(what, sizeof what, "%s, %s value %zu", s->model, key, i);
        if (value)
            json_object_set_new(object, key, value);
        else
            json_object_del(object, key);
        try_config(s, what, i == 0 && !json_is_object(old) && !s->is_less ? key : "");
    }
    json_object_set_new(object, key, old);
    fprintf(s->to, " %s=%04x", key, (unsigned)(xxh64_end(&s->hash) >> 48));
}

/* All values of an object of root, and of objects in it. */
static void try_values(struct value_sweep *s, json_t *object)
{
    const char *keys[100];
    size_t n = 0;
    json_t *v;
    const char *key;
    json_object_foreach(object, key, v) if (n < COUNT(keys)) keys[n++] = key;
    for (size_t i = 0; i < n; i++) {
        char name[100];
        snprintf(name, sizeof name, "%s", keys[i]);
        json_t *inner = json_object_get(object, name);
        if (json_is_object(inner))
            try_values(s, inner);
        try_key(s, object, name);
    }
}

static int is_golden(const struct dirent *e)
{
    char path[512];
    const char *root = getenv("MGPT_SOURCE_ROOT");
    struct file f;
    snprintf(path, sizeof path, "%s/tests/golden/%s/config.json", root ? root : ".", e->d_name);
    if (e->d_name[0] == '.' || file_open(&f, path, NULL) < 0)
        return 0;
    file_close(&f);
    return 1;
}

static int by_file_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The model as the text part of another: no reader may look for its keys outside. */
static void try_part(struct value_sweep *s)
{
    json_t *text = s->root;
    s->root = json_pack("{s:s, s:O}", "model_type", "some_vl", "text_config", text);
    xxh64_begin(&s->hash);
    try_config(s, "as a text part", "");
    fprintf(s->to, " as-part=%04x", (unsigned)(xxh64_end(&s->hash) >> 48));
    json_decref(s->root);
    s->root = text;
}

static size_t try_model(const char *model, FILE *to)
{
    struct dir d = golden(model);
    struct value_sweep s = {.d = &d, .root = get_config(&d), .model = model, .to = to};
    fprintf(to, "%s", model);
    try_part(&s);
    try_values(&s, s.root);
    fprintf(to, "\n");
    if (json_object_del(s.root, "layer_types") == 0) { /* what other keys mean without the list */
        s.is_less = 1;
        fprintf(to, "%s-without-layer_types", model);
        try_values(&s, s.root);
        fprintf(to, "\n");
    }
    json_decref(s.root);
    dir_free(&d);
    return s.n;
}

TEST(wrong_values)
{
    struct dirent **names;
    size_t n = 0;
    int n_names = scandir(unit_path("tests/golden"), &names, is_golden, by_file_name);
    assert_true(n_names > 0);
    FILE *made = made_begin();
    for (int i = 0; i < n_names; free(names[i++]))
        n += try_model(names[i]->d_name, made);
    free(names);
    assert_true(n > 10000);
    made_end(made, "tests/tools/convert/hf_values.txt");
}
