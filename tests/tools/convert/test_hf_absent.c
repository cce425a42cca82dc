/* Hugging Face models without a key of config.json: the model is that of the value which the class of
 * transformers takes then (vectors/hf_absent.txt), or the key is asked for. */
#include "base/mem.h"
#include "support/hf_dir.h"
#include "support/unit.h"

/* Whether both have the same n numbers, or neither any. */
static int same_list(const int32_t *a, const int32_t *b, size_t n)
{
    return a && b ? memcmp(a, b, n * sizeof *a) == 0 : a == b;
}

static int same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static int same_hparams(struct ckpt_hparams a, struct ckpt_hparams b)
{
    int same = same_list(a.windows, b.windows, a.n_layer) &&
               same_list(a.kv_heads, b.kv_heads, a.n_layer) && same_text(a.arch, b.arch) &&
               same_text(a.activation, b.activation) && same_text(a.rope_scaling, b.rope_scaling);
    for (size_t i = 0; i < COUNT(a.xielu); i++)
        a.xielu[i] = b.xielu[i] = NULL;
    a.windows = b.windows = a.kv_heads = b.kv_heads = NULL;
    a.arch = b.arch = a.activation = b.activation = a.rope_scaling = b.rope_scaling = NULL;
    return same && memcmp(&a, &b, sizeof a) == 0;
}

static int same_tensor(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
    float x[8], y[8];
    size_t n = a->n_values < 8 ? (size_t)a->n_values : 8;
    if (strcmp(a->name, b->name) != 0 || a->n_values != b->n_values)
        return 0;
    ckpt_values(a, 0, n, x);
    ckpt_values(b, 0, n, y);
    return memcmp(x, y, n * sizeof *x) == 0;
}

static int same_checkpoint(const struct checkpoint *a, const struct checkpoint *b)
{
    if (!same_hparams(a->hp, b->hp) || arr_len(a->tensors) != arr_len(b->tensors))
        return 0;
    for (size_t i = 0; i < arr_len(a->tensors); i++)
        if (!same_tensor(&a->tensors[i], &b->tensors[i]))
            return 0;
    return 1;
}

/* MODEL KEY VALUE CHANGES. What is not read without the key asks for it. */
static void check_absent(char *line, void *user)
{
    struct checkpoint a, b;
    mgpt_error without = {.text = ""}, with = {.text = ""};
    char model[64], key[64], value[1024], changes[256];
    assert_int_equal(sscanf(line, "%63s %63s %1023s %255s", model, key, value, changes), 4);
    struct dir d = golden(model);
    json_t *root = get_config(&d), *more = json_loads(changes, 0, NULL);
    assert_int_equal(json_object_update(root, more), 0);
    json_object_del(root, key);
    set_config(&d, root);
    json_decref(more);
    json_decref(root);
    int absent = read_dir(&a, &d, "config.json", &without);
    set_key(&d, key, value);
    int stated = read_dir(&b, &d, "config.json", &with);
    int same = absent == stated &&
               (absent < 0 ? strcmp(without.text, with.text) == 0 : same_checkpoint(&a, &b));
    if (!same && !(absent < 0 && strstr(without.text, ": missing")))
        fail_msg("%s without %s is not as with %s: '%s', '%s'", model, key, value, without.text,
                 with.text);
    *(size_t *)user += absent == MGPT_OK;
    ckpt_free(&a);
    ckpt_free(&b);
    dir_free(&d);
}

TEST(absent_keys)
{
    size_t n_read = 0;
    assert_true(unit_rows("tests/vectors/hf_absent.txt", check_absent, &n_read) > 600);
    assert_true(n_read > 300);
}
