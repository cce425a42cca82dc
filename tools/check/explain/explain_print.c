/* What explain found, for people and for machines. See explain.h. */
#include "check/explain/explain.h"

#include "base/mem.h"
#include "common/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 3, SHORT = 100 }; /* suspects; times a type's noise that is still like it */

/* What a finding is called: the cause, if a whole pass agrees with it; else a hint. */
static const char *called(int proved)
{
    return proved ? "cause" : "hint";
}

static void print_weight(const struct explain_weight *w)
{
    printf("%-32s ", called(w->proved));
    text_print_quoted(stdout, w->tensor, strlen(w->tensor));
    if (w->row >= 0)
        printf(" row %lld", (long long)w->row);
    if (w->col >= 0)
        printf(" column %lld", (long long)w->col);
    if (w->col < 0)
        printf(" differs\n");
    else if (w->not_finite && !w->proved)
        printf(" is %g\n", w->ours);
    else
        printf(": %.9g here, %.9g in the reference\n", w->ours, w->theirs);
}

static void print_pass(const char *with, double logits)
{
    printf("                                 logits of a whole pass with %s: NMSE %.3g\n", with,
           logits);
}

/* Whether the nearest suspect leaves no more than the rounding of the reference's type. */
static int leaves_rounding(const struct explain *e)
{
    const struct explain_precision *p = &e->precision;
    double left = arr_len(e->trials) ? e->trials[0].nmse : INFINITY;
    return p->stored && !p->fits && left < SHORT * p->noise && left * SHORT < e->as_is;
}

/* The best trial as a cause, a hint or what comes nearest, and the next. */
static void print_trials(const struct explain *e)
{
    for (size_t i = 0; i < arr_len(e->trials) && i < SHOWN && !isnan(e->trials[i].nmse); i++) {
        const struct explain_trial *t = &e->trials[i];
        int agrees = t->nmse <= e->bound;
        const char *what = t->approximate                 ? "approximate"
                           : agrees || leaves_rounding(e) ? called(t->proved)
                                                          : "nearest";
        printf("%-32s %s  NMSE %.3g\n", i == 0 ? what : "next", t->cause, t->nmse);
        if (i == 0 && agrees)
            print_pass("it", t->logits);
        if (i == 0 && t->approximate)
            printf("%33sit leaves 10^6 times what the best position has: it is near, but not the "
                   "cause,\n%33sor not the only one\n",
                   "", "");
        else if (i == 0 && agrees && !t->proved)
            printf(
                "                                 it agrees there, but not everywhere: it is not "
                "the cause, or not the only one\n");
    }
}

/* The line that runs the reference again, so that it can be told from a bug. */
static void print_rerun(const char *directory)
{
    printf("run it again in float64          ");
    if (directory) {
        printf("model = transformers.AutoModelForCausalLM.from_pretrained(");
        text_print_quoted(stdout, directory, strlen(directory));
        printf(", dtype=torch.float64)\n");
    } else {
        printf("model = model.double()  # before the lines of mgpt check --help\n");
    }
}

/* What rounding weights leaves, and what rounding values leaves, cannot be told apart by their size. */
static void print_file_type(const struct explain_precision *p)
{
    if (!p->file)
        return;
    printf("%-32s the file's weights are %s numbers, the reference's may not be%s:\n",
           p->fits ? "or" : "precision", p->file, p->as_large ? ", or it ran in that type" : "");
    printf("%33sNMSE %.3g, and weights moved by such rounding have %.3g\n", "", p->error,
           p->file_noise);
}

static void print_precision(const struct explain *e, const char *directory)
{
    const struct explain_precision *p = &e->precision;
    if (p->as_large && !p->file)
        printf(
            "precision                        not that of the reference: NMSE %.3g is as large as "
            "what %s leaves,\n                                 but a pass rounded to it differs "
            "elsewhere; the file's weights may have been rounded\n",
            p->error, p->type);
    const char *numbers = p->stored ? " (its logits are such numbers)" : "";
    if (!p->fits && !p->stored && !p->inside) {
        print_file_type(p);
        return;
    }
    printf("precision                        your reference %s have run in %s%s:\n"
           "                                 ",
           p->stored || p->inside ? "seems to" : "may", p->type, numbers);
    if (p->fits)
        printf("NMSE %.3g, and a pass rounded to it has %.3g\n", p->error, p->noise);
    else if (p->inside && !p->stored)
        printf("the first bad value agrees with weights rounded to it, what follows does not\n");
    else if (leaves_rounding(e))
        printf("a pass rounded to it has NMSE %.3g, about what the hint leaves\n", p->noise);
    else
        printf("NMSE %.3g, but a pass rounded to it has %.3g; no cause can be proved with it\n",
               p->error, p->noise);
    print_file_type(p);
    print_rerun(directory);
}

static void print_search(const struct explain *e)
{
    if (!e->proved && (e->n_tried > 0 || e->interrupted))
        printf("cause                            %snone of %zu suspects restores agreement\n",
               e->interrupted ? "interrupted: so far " : "", e->n_tried);
    if (e->weight.found)
        print_weight(&e->weight);
    if (e->head[0])
        printf("%-32s %s\n", called(0), e->head);
    print_trials(e);
}

static void print_both(const struct explain *e)
{
    printf("causes, %-24s %s\n%33s%s\n", e->third[0] ? "three at once" : "two at once", e->first,
           "", e->with);
    if (e->third[0])
        printf("%33s%s\n", "", e->third);
    print_pass(e->third[0] ? "all three" : "both", e->logits);
}

int explain_print(const struct explain *e, const char *directory)
{
    if (e->shape[0])
        printf("shape of the error               %s\n", e->shape);
    if (e->weight.proved) {
        print_weight(&e->weight);
        print_pass("it", e->logits);
    } else if (e->kernels) {
        printf("cause                            the model in float64 agrees with the reference "
               "(NMSE %.3g): see mgpt check --self\n",
               e->logits);
    } else if (e->with[0]) {
        print_both(e);
    } else {
        print_precision(e, directory);
        print_search(e);
    }
    return ferror(stdout) ? EXIT_IO : EXIT_OK;
}

static struct jtext *weight_json(const struct explain_weight *w)
{
    if (!w->found)
        return jtext_null();
    return jtext("{s:s, s:I, s:I, s:f, s:f}", "tensor", w->tensor, "row", (int64_t)w->row, "column",
                 (int64_t)w->col, "ours", w->ours, "reference", w->theirs);
}

static struct jtext *trials_json(const struct explain *e)
{
    struct jtext *list = jtext("[]");
    for (size_t i = 0; i < arr_len(e->trials) && i < SHOWN; i++)
        jtext_add(list, "{s:s, s:f, s:b, s:b}", "cause", e->trials[i].cause, "nmse",
                  e->trials[i].nmse, "proved", e->trials[i].proved, "approximate",
                  e->trials[i].approximate);
    return list;
}

const char *explain_cause(const struct explain *e)
{
    if (!e->proved)
        return NULL;
    if (e->weight.proved)
        return e->weight.tensor;
    if (e->kernels)
        return "kernels";
    return e->with[0] ? e->first : e->trials[0].cause;
}

static const char *hint_of(const struct explain *e)
{
    if (e->proved)
        return NULL;
    if (e->weight.found)
        return e->weight.tensor;
    if (e->head[0])
        return e->head;
    return arr_len(e->trials) && e->trials[0].nmse <= e->bound ? e->trials[0].cause : NULL;
}

static struct jtext *precision_json(const struct explain_precision *p)
{
    if (!p->type || !(p->fits || p->stored || p->inside || p->file))
        return jtext_null();
    return jtext("{s:s, s:b, s:b, s:s, s:f, s:f}", "type", p->file && !p->fits ? p->file : p->type,
                 "stored", p->stored, "fits", p->fits, "file", p->file, "nmse", p->error, "noise",
                 p->file && !p->fits ? p->file_noise : p->noise);
}

int explain_print_json(const struct explain *e)
{
    return text_json_line(jtext("{s:s, s:s, s:s, s:b, s:s, s:o, s:s, s:o, s:o, s:I, s:f, s:f, s:b}",
                                "cause", explain_cause(e), "with", e->with[0] ? e->with : NULL,
                                "third", e->third[0] ? e->third : NULL, "restored", e->proved,
                                "hint", hint_of(e), "precision", precision_json(&e->precision),
                                "shape", e->shape, "weight", weight_json(&e->weight), "trials",
                                trials_json(e), "tried", (int64_t)e->n_tried, "as_is", e->as_is,
                                "logits", e->logits, "interrupted", e->interrupted));
}
