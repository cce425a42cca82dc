/* Tests of Hugging Face models: directories in memory, made of the golden models. */
#ifndef TESTS_HF_DIR_H
#define TESTS_HF_DIR_H

#include "convert/containers/safetensors.h"
#include "convert/core/readers.h"
#include "support/convert.h"

#include <jansson.h>

enum { MAX_FILES = 6 };

struct dir {
    struct {
        const char *name;
        struct span bytes; /* malloc'ed */
    } files[MAX_FILES];
};

static inline struct span copy_of(const void *data, size_t n)
{
    uint8_t *p = malloc(n + !n);
    assert_non_null(p);
    memcpy(p, data, n);
    return (struct span){p, n};
}

static inline struct span *file_in(struct dir *d, const char *name)
{
    for (size_t i = 0; i < MAX_FILES; i++)
        if (d->files[i].name && strcmp(d->files[i].name, name) == 0)
            return &d->files[i].bytes;
    return NULL;
}

static inline void set_file(struct dir *d, const char *name, struct span bytes)
{
    struct span *old = file_in(d, name);
    if (old) {
        free((void *)(uintptr_t)old->data);
        *old = bytes;
        return;
    }
    for (size_t i = 0; i < MAX_FILES; i++)
        if (!d->files[i].name) {
            d->files[i].name = name;
            d->files[i].bytes = bytes;
            return;
        }
    fail_msg("no room for %s", name);
}

static inline void remove_file(struct dir *d, const char *name)
{
    for (size_t i = 0; i < MAX_FILES; i++)
        if (d->files[i].name && strcmp(d->files[i].name, name) == 0) {
            free((void *)(uintptr_t)d->files[i].bytes.data);
            memset(&d->files[i], 0, sizeof d->files[i]);
        }
}

static inline void dir_free(struct dir *d)
{
    for (size_t i = 0; i < MAX_FILES; i++)
        free((void *)(uintptr_t)d->files[i].bytes.data);
}

/* config.json; the caller decrefs it. */
static inline json_t *get_config(struct dir *d)
{
    const struct span *text = file_in(d, "config.json");
    json_t *root = json_loadb((const char *)text->data, text->size, 0, NULL);
    assert_non_null(root);
    return root;
}

static inline void set_config(struct dir *d, const json_t *root)
{
    char *text = json_dumps(root, JSON_SORT_KEYS);
    assert_non_null(text);
    set_file(d, "config.json", copy_of(text, strlen(text)));
    free(text);
}

/* Replaces a value by JSON. */
static inline void set_key(struct dir *d, const char *key, const char *json)
{
    json_t *root = get_config(d), *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    assert_int_equal(json_object_set_new(root, key, value), 0);
    set_config(d, root);
    json_decref(root);
}

static inline struct dir golden(const char *model)
{
    static const char *const names[] = {
        "config.json", "model.safetensors", "model.safetensors.index.json",
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
    struct dir d = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char folder[300];
        struct file f;
        snprintf(folder, sizeof folder, "tests/golden/%s", model);
        if (repo_open(&f, folder, names[i], NULL) < 0)
            continue;
        set_file(&d, names[i], copy_of(f.data, f.size));
        file_close(&f);
    }
    assert_non_null(file_in(&d, "config.json"));
    return d;
}

/* model.safetensors with an edited header; offsets count from its end, so the data stays. */
static inline void set_header(struct dir *d, json_t *header)
{
    const struct span *old = file_in(d, "model.safetensors");
    size_t n_old = 0;
    for (size_t i = 8; i-- > 0;)
        n_old = n_old << 8 | old->data[i];
    char *dump = json_dumps(header, JSON_COMPACT);
    size_t n = strlen(dump), n_data = old->size - 8 - n_old;
    uint8_t *p = malloc(8 + n + n_data);
    assert_non_null(p);
    for (size_t i = 0; i < 8; i++)
        p[i] = (uint8_t)(n >> 8 * i);
    memcpy(p + 8, dump, n);
    memcpy(p + 8 + n, old->data + 8 + n_old, n_data);
    free(dump);
    set_file(d, "model.safetensors", (struct span){p, 8 + n + n_data});
}

static inline json_t *header_of(struct dir *d)
{
    const struct span *file = file_in(d, "model.safetensors");
    size_t n = file->data[0] | (size_t)file->data[1] << 8 | (size_t)file->data[2] << 16;
    json_t *header = json_loadb((const char *)file->data + 8, n, 0, NULL);
    assert_non_null(header);
    return header;
}

static inline void rename_tensor(json_t *header, const char *from, const char *to)
{
    json_t *entry = json_object_get(header, from);
    assert_non_null(entry);
    assert_int_equal(json_object_set(header, to, entry), 0);
    assert_int_equal(json_object_del(header, from), 0);
}

/* Appends a tensor of n float32. */
static inline void append_tensor(struct dir *d, const char *name, int rows, int columns,
                                 const float *values)
{
    const struct span *old = file_in(d, "model.safetensors");
    json_t *header = header_of(d), *entry;
    size_t n_old = 0, n = (size_t)(rows * columns) * sizeof *values, end = 0;
    const char *key;
    json_object_foreach(header, key, entry)
    {
        json_t *to = json_array_get(json_object_get(entry, "data_offsets"), 1);
        end = (size_t)json_integer_value(to) > end ? (size_t)json_integer_value(to) : end;
    }
    for (size_t i = 8; i-- > 0;)
        n_old = n_old << 8 | old->data[i];
    assert_true(old->size == 8 + n_old + end);
    uint8_t *p = malloc(old->size + n);
    assert_non_null(p);
    memcpy(p, old->data, old->size);
    memcpy(p + old->size, values, n);
    struct span bytes = {p, old->size + n};
    set_file(d, "model.safetensors", bytes);
    entry = json_pack("{s:s,s:[i,i],s:[i,i]}", "dtype", "F32", "shape", rows, columns,
                      "data_offsets", (int)end, (int)(end + n));
    assert_int_equal(json_object_set_new(header, name, entry), 0);
    set_header(d, header);
    json_decref(header);
}

static inline int find_in_dir(void *user, enum ckpt_option option, const char *const *candidates,
                              size_t n, struct ckpt_side *side, mgpt_error *err)
{
    (void)option;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        const struct span *bytes = file_in(user, candidates[i]);
        if (bytes) {
            *side = (struct ckpt_side){candidates[i], *bytes};
            return 1;
        }
    }
    return 0;
}

static inline int read_dir(struct checkpoint *c, struct dir *d, const char *input, mgpt_error *err)
{
    static const struct ckpt_options options = {.given = OPT_NO_TOKENIZER};
    struct ckpt_input in = {*file_in(d, input), "model", &options, find_in_dir, d,
                            "directory",        NULL};
    ckpt_init(c);
    return ckpt_read(c, &in, err);
}

/* expected NULL: it must be read. */
static inline void assert_read(struct dir *d, const char *input, const char *what,
                               const char *expected)
{
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    int status = read_dir(&c, d, input, &err);
    must_say(what, status, &err, expected);
    ckpt_free(&c);
}

/* Reads the directory, which must succeed. */
static inline void must_read(struct checkpoint *c, struct dir *d, const char *what)
{
    mgpt_error err = {.text = ""};
    must_say(what, read_dir(c, d, "config.json", &err), &err, NULL);
}

/* A note that holds `text`; NULL: no note at all. */
static inline void must_note(const struct checkpoint *c, const char *what, const char *text)
{
    if (text ? !has_note(c, text) : arr_len(c->notes) > 0)
        fail_msg("%s: expected %s, found %zu notes, first: %s", what, text ? text : "no note",
                 arr_len(c->notes), arr_len(c->notes) ? c->notes[0] : "");
}

static inline const struct ckpt_tensor *tensor_of(const struct checkpoint *c, const char *name)
{
    for (size_t i = 0; i < arr_len(c->tensors); i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    return NULL;
}

static inline void without_key(struct dir *d, const char *key)
{
    json_t *root = get_config(d);
    assert_int_equal(json_object_del(root, key), 0);
    set_config(d, root);
    json_decref(root);
}

#endif
