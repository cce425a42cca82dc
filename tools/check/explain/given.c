/* Values used instead of a tensor of the file, and what is said of them. See explain_impl.h. */
#include "check/explain/explain_impl.h"

#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEMS_MOST = 3 };

int given_is_gain(const char *name)
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
        given->values[i] = given_is_gain(name) ? 1 : 0;
    return given;
}

/* Whether all are this value. float32 on both sides leaves about 1e-6 of a value that was solved
 * for. */
static int all_about(const float *x, size_t n, double value, double within)
{
    size_t i = 0;
    while (i < n && fabs((double)x[i] - value) <= within)
        i++;
    return i == n;
}

int given_differ(struct search *s, const struct whatif_tensor *given, size_t *differ)
{
    struct whatif_tensor *ours = given_new(s, given->name, given->n);
    *differ = 0;
    for (size_t i = 0; ours && i < given->n; i++)
        *differ += fabs((double)given->values[i] - (double)ours->values[i]) > 1e-4;
    return ours ? MGPT_OK : s->err->status;
}

int given_how(struct search *s, const struct whatif_tensor *given, int sure, char how[GIVEN_HOW])
{
    mgpt_tensor t;
    size_t differ, n = given->n;
    float plain = given_is_gain(given->name) ? 1 : 0;
    const char *all = plain > 0 ? "all ones" : "all zeros";
    how[0] = 0;
    int status = given_differ(s, given, &differ);
    struct whatif_tensor *ours = status == MGPT_OK ? given_new(s, given->name, n) : NULL;
    if (!ours)
        return s->err->status;
    if (!oracle_tensor_find(s->model, given->name, &t))
        text_format(how, GIVEN_HOW, " (here missing)");
    else if (all_about(ours->values, n, (double)plain, 0))
        text_format(how, GIVEN_HOW, " (here %s)", all);
    else if (all_about(given->values, n, (double)plain, 1e-3))
        text_format(how, GIVEN_HOW, " (there %s)", all);
    else if (sure)
        text_format(how, GIVEN_HOW, " (%zu of %zu values differ)", differ, n);
    return MGPT_OK;
}

int given_propose(struct search *s, const struct whatif_tensor *given, int sure)
{
    char how[GIVEN_HOW];
    int status = given_how(s, given, sure, how);
    return status != MGPT_OK
               ? status
               : search_propose(s, given_edit(given), "%s differs in the reference%s%s",
                                given->name, how, given->next ? ", and its bias" : "");
}

/* The name without its layer. */
static const char *stem_of(const char *name)
{
    oracle_layer_of(name, &name);
    return name;
}

/* The names without their layers, in the order in which they were found. Returns their number. */
static size_t given_stems(const struct whatif_tensor *list, char *text, size_t cap)
{
    const char *stems[STEMS_MOST];
    size_t n = 0, at = 0;
    for (; list; list = list->next) {
        size_t k = 0;
        while (k < n && k < STEMS_MOST && strcmp(stems[k], stem_of(list->name)) != 0)
            k++;
        if (k == n && n < STEMS_MOST)
            stems[n] = stem_of(list->name);
        n += k == n;
    }
    text[0] = 0;
    for (size_t k = n < STEMS_MOST ? n : STEMS_MOST; k > 0; k--)
        at += (size_t)text_format(text + at, cap - at, "%s%s", at ? ", " : "", stems[k - 1]);
    if (n > STEMS_MOST)
        text_format(text + at, cap - at, " and others");
    return n;
}

int given_propose_list(struct search *s, const struct whatif_tensor *list, int matrices)
{
    char stems[100], how[GIVEN_HOW], other[GIVEN_HOW];
    size_t n = 0, one = given_stems(list, stems, sizeof stems) == 1;
    const char *differs = one ? "differs" : "differ";
    int status = given_how(s, list, 0, how);
    for (const struct whatif_tensor *g = list; g && status == MGPT_OK; g = g->next, n++) {
        status = given_how(s, g, 0, other);
        if (strcmp(other, how) != 0)
            how[0] = 0;
    }
    if (matrices)
        differs = one ? "is a different matrix" : "are different matrices";
    return status != MGPT_OK
               ? status
               : search_propose(s, given_edit(list), "%s %s in the reference, %s%zu %s%s", stems,
                                differs, one ? "in " : "", n, one ? "layers" : "tensors", how);
}

const char *say_number(double x, char text[NUMBER])
{
    snprintf(text, NUMBER, "%.6g", x);
    return text;
}
