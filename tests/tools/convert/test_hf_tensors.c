/* Hugging Face models: every tensor of every golden model left out, with another element type of its width, with other
 * shapes of its size, and with a row less.
 *
 * hf_tensors.txt has a line for each model: MODEL: TENSOR=HASH... of what the model becomes, or of the lines of refusals. Which
 * tensors may be absent, of which types parts of quantised matrices are, and what shapes are checked shows there.
 * MGPT_SOURCE_ROOT=$PWD MGPT_WRITE=1 build/tests/test_hf_tensors writes it again. */
#include "support/became.h"
#include "support/hf_dir.h"
#include "support/made_rows.h"
#include "support/unit.h"

#include <dirent.h>

struct tensor_sweep {
    struct dir *d;
    json_t *header;
    FILE *to;
};

static void hash_model(struct xxh64 *h, struct tensor_sweep *s)
{
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    set_header(s->d, s->header);
    if (read_dir(&c, s->d, "config.json", &err) == MGPT_OK)
        became_checkpoint(h, &c);
    became_text(h, err.text);
    ckpt_free(&c);
}

/* Other types of the width. */
static void try_types(struct xxh64 *h, struct tensor_sweep *s, json_t *entry)
{
    static const char *const types[][4] = {{"F32", "I32", "U32"},
                                           {"F16", "BF16", "I16"},
                                           {"U8", "I8", "F8_E4M3", "BOOL"},
                                           {"F64", "I64", "U64"}};
    json_t *old = json_incref(json_object_get(entry, "dtype"));
    for (size_t i = 0; i < COUNT(types) * 4; i++) {
        const char *const *group = types[i / 4];
        int is_of_width = 0;
        for (size_t k = 0; k < 4 && group[k]; k++)
            is_of_width |= strcmp(group[k], json_string_value(old)) == 0;
        if (!is_of_width || !group[i % 4] || strcmp(group[i % 4], json_string_value(old)) == 0)
            continue;
        json_object_set_new(entry, "dtype", json_string(group[i % 4]));
        hash_model(h, s);
    }
    json_object_set_new(entry, "dtype", old);
}

/* The shape the other way around, in one dimension, and with one more. */
static void try_shapes(struct xxh64 *h, struct tensor_sweep *s, json_t *entry)
{
    json_t *old = json_incref(json_object_get(entry, "shape")), *more = json_deep_copy(old);
    json_t *back = json_array(), *flat = json_array();
    json_int_t n = 1;
    for (size_t i = json_array_size(old); i-- > 0;) {
        n *= json_integer_value(json_array_get(old, i));
        json_array_append(back, json_array_get(old, i));
    }
    json_array_append_new(flat, json_integer(n));
    json_array_insert_new(more, 0, json_integer(1));
    json_t *const shapes[] = {back, flat, more};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        if (!json_equal(shapes[i], old)) {
            json_object_set(entry, "shape", shapes[i]);
            hash_model(h, s);
        }
        json_decref(shapes[i]);
    }
    json_object_set_new(entry, "shape", old);
}

/* Without the tensor: its bytes have another name, which no reader knows or which all skip. */
static void try_without(struct xxh64 *h, struct tensor_sweep *s, const char *name)
{
    static const char *const others[] = {"none", "model.layers.0.self_attn.rotary_emb.inv_freq"};
    for (size_t i = 0; i < COUNT(others); i++) {
        json_t *header = s->header;
        s->header = json_copy(header);
        rename_tensor(s->header, name, others[i]);
        hash_model(h, s);
        json_decref(s->header);
        s->header = header;
    }
}

/* Without its last row, or its only value: those bytes are of a tensor that all readers skip. */
static void try_less(struct xxh64 *h, struct tensor_sweep *s, const char *name)
{
    json_t *header = s->header;
    s->header = json_deep_copy(header);
    json_t *less = json_object_get(s->header, name), *rest = json_deep_copy(less);
    json_t *shape = json_object_get(less, "shape"), *bytes = json_object_get(less, "data_offsets");
    json_int_t from = json_integer_value(json_array_get(bytes, 0));
    json_int_t to = json_integer_value(json_array_get(bytes, 1));
    json_int_t rows = json_array_size(shape) ? json_integer_value(json_array_get(shape, 0)) : 1;
    json_int_t cut = rows ? to - (to - from) / rows : to;
    if (json_array_size(shape))
        json_array_remove(shape, 0);
    json_array_insert_new(shape, 0, json_integer(rows - 1));
    json_array_set_new(bytes, 1, json_integer(cut));
    shape = json_object_get(rest, "shape");
    if (json_array_size(shape))
        json_array_set_new(shape, 0, json_integer(1));
    json_array_set_new(json_object_get(rest, "data_offsets"), 0, json_integer(cut));
    json_object_set_new(s->header, "model.layers.0.self_attn.rotary_emb.inv_freq", rest);
    hash_model(h, s);
    json_decref(s->header);
    s->header = header;
}

/* Of layers the first and the last: tensors of others are as these. */
static int is_of_layer_between(const json_t *header, const char *name)
{
    char other[200];
    const char *digit = strpbrk(name, "0123456789");
    if (!digit || digit[-1] != '.' || digit[0] == '0')
        return 0;
    snprintf(other, sizeof other, "%.*s%ld%s", (int)(digit - name), name,
             strtol(digit, NULL, 10) + 1, digit + strspn(digit, "0123456789"));
    return json_object_get(header, other) != NULL;
}

static void try_model_tensors(const char *model, FILE *to)
{
    struct dir d = golden(model);
    struct tensor_sweep s = {.d = &d, .header = header_of(&d), .to = to};
    json_t *whole = json_deep_copy(s.header), *v;
    const char *name;
    fprintf(to, "%s:", model);
    json_object_foreach(whole, name, v)
    {
        struct xxh64 h;
        if (strcmp(name, "__metadata__") == 0 || is_of_layer_between(whole, name))
            continue;
        json_t *entry = json_object_get(s.header, name);
        xxh64_begin(&h);
        try_types(&h, &s, entry);
        try_shapes(&h, &s, entry);
        try_without(&h, &s, name);
        try_less(&h, &s, name);
        fprintf(to, " %s=%04x", name, (unsigned)(xxh64_end(&h) >> 48));
    }
    fprintf(to, "\n");
    json_decref(whole);
    json_decref(s.header);
    dir_free(&d);
}

static int is_golden_model(const struct dirent *e)
{
    struct file f;
    char folder[300];
    snprintf(folder, sizeof folder, "tests/golden/%s", e->d_name);
    if (e->d_name[0] == '.' || repo_open(&f, folder, "model.safetensors", NULL) < 0)
        return 0;
    file_close(&f);
    return repo_open(&f, folder, "config.json", NULL) == MGPT_OK ? (file_close(&f), 1) : 0;
}

static int by_model_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

TEST(tensors)
{
    struct dirent **names;
    int n = scandir(unit_path("tests/golden"), &names, is_golden_model, by_model_name);
    assert_true(n > 0);
    FILE *made = made_begin();
    for (int i = 0; i < n; free(names[i++]))
        try_model_tensors(names[i]->d_name, made);
    free(names);
    made_end(made, "tests/tools/convert/hf_tensors.txt");
}
