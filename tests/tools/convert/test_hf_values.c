/* Hugging Face models: every value of every golden config.json replaced by others. The model is
 * read, or refused by one line; a value of the wrong kind is refused by its name or has no effect. */
#include "support/hf_dir.h"
#include "support/unit.h"

#include <dirent.h>
#include <unistd.h>

/* The first is of the wrong kind for every value that is not an object. */
static const char *const values[] = {"{\"x\":1}", "\"x\"", "-1", "1e300", "0.5", "true", "[]"};

static int is_golden(const char *name)
{
    char path[512];
    const char *root = getenv("MGPT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/golden/%s/config.json", root ? root : ".", name);
    return name[0] != '.' && access(path, R_OK) == 0;
}

/* Reads the model with root as its config.json. `named`: a refusal must hold that name. */
static void try_config(struct dir *d, const json_t *root, const char *what, const char *named)
{
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    set_config(d, root);
    int status = read_dir(&c, d, "config.json", &err);
    if (status != MGPT_OK &&
        (status != MGPT_EFILE || strlen(err.text) < 10 || !strstr(err.text, named)))
        fail_msg("%s: status %d, '%s'", what, status, err.text);
    ckpt_free(&c);
}

/* All values of an object of root, and of objects in it. Returns how many configurations. */
static size_t try_values(struct dir *d, const json_t *root, json_t *object, const char *model)
{
    size_t n = 0;
    void *next;
    for (void *at = json_object_iter(object); at; at = next) {
        const char *key = json_object_iter_key(at);
        json_t *old = json_incref(json_object_iter_value(at));
        next = json_object_iter_next(object, at);
        n += json_is_object(old) ? try_values(d, root, old, model) : 0;
        for (size_t i = 0; i < COUNT(values); i++, n++) {
            char what[400];
            snprintf(what, sizeof what, "%s, %s %s", model, key, values[i]);
            json_object_iter_set_new(object, at, json_loads(values[i], JSON_DECODE_ANY, NULL));
            try_config(d, root, what, i == 0 && !json_is_object(old) ? key : "");
        }
        json_object_iter_set_new(object, at, old);
    }
    return n;
}

TEST(wrong_values)
{
    char path[512];
    const char *source = getenv("MGPT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/golden", source ? source : ".");
    DIR *folder = opendir(path);
    size_t n = 0;
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder));)
        if (is_golden(e->d_name)) {
            struct dir d = golden(e->d_name);
            json_t *root = get_config(&d);
            n += try_values(&d, root, root, e->d_name);
            json_decref(root);
            dir_free(&d);
        }
    closedir(folder);
    assert_true(n > 5000);
}
