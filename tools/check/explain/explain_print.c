/* What explain found, for people and for machines. See explain.h. */
#include "check/explain/explain.h"

#include "base/mem.h"
#include "common/text.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 3 }; /* suspects */

static void print_weight(const struct explain_weight *w)
{
    printf("cause                            ");
    text_print_quoted(stdout, w->tensor, strlen(w->tensor));
    if (w->row >= 0)
        printf(" row %lld", (long long)w->row);
    if (w->col >= 0)
        printf(" column %lld", (long long)w->col);
    if (w->not_finite)
        printf(" is %g\n", w->ours);
    else if (w->col >= 0)
        printf(": %.9g here, %.9g in the reference\n", w->ours, w->theirs);
    else
        printf(" differs\n");
}

static void print_trials(const struct explain *e)
{
    size_t n = arr_len(e->trials);
    if (e->head_only)
        printf("cause                            %s\n", e->head);
    else if (!e->restored)
        printf("cause                            none of %zu suspects restores agreement\n",
               e->n_tried);
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        const char *what = i == 0 && e->restored ? "cause" : "next";
        printf("%-32s %s  NMSE %.3g\n", i == 0 && !e->restored ? "nearest" : what,
               e->trials[i].cause, e->trials[i].nmse);
        if (i == 0 && e->restored)
            printf("                                 logits of a whole pass with it: NMSE %.3g%s\n",
                   e->logits, e->logits <= e->bound ? "" : ", so it is not the only one");
    }
    if (e->head[0] && !e->head_only)
        printf("worth a look                     %s\n", e->head);
}

int explain_print(const struct explain *e)
{
    if (e->shape[0])
        printf("shape of the error               %s\n", e->shape);
    if (e->weight.found)
        print_weight(&e->weight);
    else if (e->kernels)
        printf("cause                            the model in float64 agrees with the reference "
               "(NMSE %.3g): see mgpt check --self\n",
               e->as_is);
    else
        print_trials(e);
    return ferror(stdout) ? EXIT_IO : EXIT_OK;
}

static json_t *weight_json(const struct explain_weight *w)
{
    if (!w->found)
        return json_null();
    return json_pack("{s:s, s:I, s:I, s:o?, s:o?}", "tensor", w->tensor, "row", (json_int_t)w->row,
                     "column", (json_int_t)w->col, "ours", json_real(w->ours), "reference",
                     json_real(w->theirs));
}

static json_t *trials_json(const struct explain *e)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < arr_len(e->trials) && i < SHOWN; i++)
        json_array_append_new(list, json_pack("{s:s, s:o?}", "cause", e->trials[i].cause, "nmse",
                                              json_real(e->trials[i].nmse)));
    return list;
}

int explain_print_json(const struct explain *e)
{
    const char *cause = e->restored ? e->trials[0].cause : NULL;
    if (e->head_only)
        cause = e->head;
    if (e->weight.found)
        cause = e->weight.tensor;
    else if (e->kernels)
        cause = "kernels";
    const char *look = e->head[0] && !e->head_only ? e->head : NULL;
    return text_json_line(json_pack(
        "{s:s?, s:b, s:s, s:o, s:o, s:I, s:o?, s:o?, s:s?}", "cause", cause, "restored",
        e->restored || e->weight.found, "shape", e->shape, "weight", weight_json(&e->weight),
        "trials", trials_json(e), "tried", (json_int_t)e->n_tried, "as_is", json_real(e->as_is),
        "logits", json_real(e->logits), "worth_a_look", look));
}
