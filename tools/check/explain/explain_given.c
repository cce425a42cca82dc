/* Values that stand for a tensor of the file, and what is said of them. See explain_impl.h. */
#include "check/explain/explain_impl.h"

#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int is_gain(const char *name)
{
    size_t n = strlen(name);
    return n > 12 && strcmp(name + n - 12, "_norm.weight") == 0;
}

struct whatif_tensor *given_new(struct search *s, const char *name, size_t n)
{
    struct whatif_tensor *given = search_new(s, 1, sizeof *given);
    mgpt_tensor t;
    if (!given)
        return NULL;
    text_format(given->name, sizeof given->name, "%s", name);
    given->n = n;
    given->values = search_new(s, n, sizeof *given->values);
    if (!given->values)
        return NULL;
    if (oracle_tensor_find(s->model, name, &t)) {
        if (mgpt_read_tensor(s->model, name, 0, n, given->values, s->err) != MGPT_OK)
            return NULL;
        return given;
    }
    for (size_t i = 0; i < n; i++)
        given->values[i] = is_gain(name) ? 1 : 0;
    return given;
}

/* float32 on both sides leaves about 1e-6 of a value that was solved for. */
static int all_about(const float *x, size_t n, double value)
{
    size_t i = 0;
    while (i < n && fabs((double)x[i] - value) < 1e-3)
        i++;
    return i == n;
}

static int all_equal(const float *x, size_t n, float value)
{
    size_t i = 0;
    while (i < n && !(x[i] < value || x[i] > value))
        i++;
    return i == n;
}

int given_text(struct search *s, const struct whatif_tensor *given, int sure, char *text,
               size_t cap)
{
    mgpt_tensor t;
    size_t differ = 0, n = given->n;
    int there = oracle_tensor_find(s->model, given->name, &t), gain = is_gain(given->name);
    struct whatif_tensor *ours = given_new(s, given->name, n);
    const char *all = gain ? "all ones" : "all zeros", *how = NULL;
    if (!ours)
        return s->err->status;
    for (size_t i = 0; i < n; i++)
        differ += fabs((double)given->values[i] - (double)ours->values[i]) > 1e-4;
    if (!there)
        how = "missing";
    else if (all_equal(ours->values, n, gain ? 1 : 0))
        how = all;
    if (how)
        text_format(text, cap, "%s is another in the reference (here %s)", given->name, how);
    else if (all_about(given->values, n, gain ? 1 : 0))
        text_format(text, cap, "%s is another in the reference (there %s)", given->name, all);
    else if (!sure)
        text_format(text, cap, "%s is another in the reference", given->name);
    else
        text_format(text, cap, "%s is another in the reference (%zu of %zu values differ)",
                    given->name, differ, n);
    return MGPT_OK;
}

const char *say_number(double x, char text[NUMBER])
{
    snprintf(text, NUMBER, "%.6g", x);
    return text;
}
