/* The author's settings, as texts that options take. See author.h. */
#include "choose/author.h"

#include "base/error.h"
#include "choose/shortest.h"
#include "model/model.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "general.sampling."
enum { PARTS = 3 };

/* An option and the keys of its numbers; without the first key there is no setting. */
static const struct {
    const char *name, *keys[PARTS];
} rows[AUTHOR_MOST] = {
    {"temp", {PREFIX "temp"}},
    {"top-k", {PREFIX "top_k"}},
    {"top-p", {PREFIX "top_p"}},
    {"min-p", {PREFIX "min_p"}},
    {"repeat-penalty", {PREFIX "penalty_repeat"}},
    {"repeat-last", {PREFIX "penalty_last_n"}},
    {"xtc", {PREFIX "xtc_probability", PREFIX "xtc_threshold"}},
    {"mirostat", {PREFIX "mirostat", PREFIX "mirostat_tau", PREFIX "mirostat_eta"}}};

/* The fewest digits that read as the number, or as the float that it is: 0.6 for a float's 0.60000002384; a whole number
 * has all. As snprintf. */
static int print_setting(char *to, size_t cap, double x)
{
    if (fabs(x) < 1e15 && x == floor(x))
        return snprintf(to, cap, "%.0f", x);
    return shortest_number(to, cap, x, 6, fabs(x) <= (double)FLT_MAX && (double)(float)x == x);
}

/* Appends a number of the file, after a colon if it is not the first. 1; 0: there is none; or MGPT_EFILE. */
static int add_number(const mgpt_model *model, const char *key, struct author_setting *s,
                      mgpt_error *err)
{
    const struct gguf_kv *kv = key ? gguf_find(&model->gguf, key) : NULL;
    size_t n = strlen(s->text);
    double x;
    if (!kv)
        return 0;
    if (kv->type == GGUF_ARRAY || kv->type == GGUF_BOOL || !gguf_number(kv, 0, &x))
        return err_set(err, MGPT_EFILE, kv->offset, "key %s: expected a number", key);
    if (strcmp(key, PREFIX "top_k") == 0 && x < 0)
        x = 0; /* both are all */
    n += (size_t)snprintf(s->text + n, sizeof s->text - n, "%s", n ? ":" : "");
    print_setting(s->text + n, sizeof s->text - n, x);
    return 1;
}

int author_read(const mgpt_model *model, struct author_setting settings[AUTHOR_MOST],
                mgpt_error *err)
{
    int n = 0;
    for (int i = 0; i < AUTHOR_MOST; i++) {
        int found = 1, n_found = 0;
        settings[n] = (struct author_setting){.name = rows[i].name};
        for (int k = 0; k < PARTS && found == 1; k++) {
            found = add_number(model, rows[i].keys[k], &settings[n], err);
            n_found += found == 1;
        }
        if (found < 0)
            return found;
        n += n_found > 0;
    }
    return n;
}

int author_orders(const mgpt_model *model)
{
    return gguf_find(&model->gguf, PREFIX "sequence") != NULL;
}

void author_needs_all(mgpt_model *model)
{
    model->screen.w = NULL;
}
