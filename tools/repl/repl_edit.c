/* Repl commands that change something and say what follows from it: a token of the timeline, or a
 * part of the model. Both run the tokens again in a session of their own, so that a failure or
 * Ctrl-C leaves all as it was. */
#include "base/mem.h"
#include "common/text.h"
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

/* The session's tokens from pos on, the first of them replaced: malloc'ed. */
static int32_t *replaced(const mgpt_session *session, size_t pos, int32_t token)
{
    size_t n = mgpt_pos(session) - pos;
    int32_t *rest = mem_new(n, sizeof *rest);
    if (!rest)
        return NULL;
    memcpy(rest, mgpt_tokens(session) + pos, n * sizeof *rest);
    rest[0] = token;
    return rest;
}

static void replace_token(struct repl *r, size_t pos, int32_t token)
{
    mgpt_session *old = r->engine.session, *changed;
    int32_t *rest = replaced(old, pos, token), was = mgpt_tokens(old)[pos];
    if (!rest) {
        repl_no_memory();
        return;
    }
    changed = repl_variant(r, pos, rest, mgpt_pos(old) - pos);
    free(rest);
    if (!changed)
        return;
    printf("position %zu: ", pos);
    text_print_token(stdout, r->engine.model, was);
    fputs(" is now ", stdout);
    text_print_token(stdout, r->engine.model, token);
    putchar('\n');
    repl_print_effect(r, "before", mgpt_logits(old), "after", mgpt_logits(changed));
    repl_take_session(r, changed);
}

void repl_run_edit(struct repl *r, struct repl_args *args)
{
    if (repl_compute_logits(r))
        replace_token(r, args->pos, args->token);
}

/* ---- parts of the model ---- */

static void print_edit(const struct edit *e)
{
    if (e->head < 0)
        printf("mlp.%d ", (int)e->layer);
    else
        printf("%d.%d ", (int)e->layer, (int)e->head);
    if (e->kind == EDIT_SCALE)
        printf("scale %g\n", (double)e->factor);
    else
        puts(e->kind == EDIT_MEAN ? "mean" : "zero");
}

static void list_edits(const struct repl *r)
{
    for (size_t i = 0; i < arr_len(r->edits.list); i++)
        print_edit(&r->edits.list[i]);
    if (arr_len(r->edits.list) == 0)
        puts("no edits");
}

struct mean_sums {
    const struct edits *edits;
    const struct edit *edit;
    double *sums; /* one per column */
};

static int add_value(const mgpt_value *value, void *user)
{
    const struct mean_sums *s = user;
    if (value->layer != s->edit->layer)
        return 0;
    const float *at = value->data + edit_first(s->edits, s->edit);
    for (int32_t row = 0; row < value->rows; row++, at += value->stride)
        for (size_t i = 0; i < edit_width(s->edits, s->edit); i++)
            s->sums[i] += (double)at[i];
    return 0;
}

/* The mean of what the part gives in the current timeline, as the model is without any edit. */
static int find_mean(struct repl *r, struct edit *edit)
{
    struct edits kept = r->edits;
    size_t n = edit_width(&kept, edit), n_rows = mgpt_pos(r->engine.session);
    struct mean_sums s = {&kept, edit, mem_new(n, sizeof *s.sums)};
    edit->mean = mem_new(n, sizeof *edit->mean);
    int found = s.sums && edit->mean;
    if (!found)
        repl_no_memory();
    r->edits.list = NULL;
    found = found && repl_replay(r, MGPT_POINT_BIT(edit_point(edit)), add_value, &s);
    r->edits = kept;
    for (size_t i = 0; i < n && found; i++)
        edit->mean[i] = (float)(s.sums[i] / (double)n_rows);
    free(s.sums);
    if (!found)
        free(edit->mean);
    return found;
}

/* Puts one more edit in force; owns its mean. */
static void repl_edit_add(struct repl *r, struct edit edit)
{
    struct edits next;
    if (!edits_copy(&next, &r->edits)) {
        repl_no_memory();
        free(edit.mean);
        return;
    }
    if (!edits_set(&next, edit)) {
        repl_no_memory();
        free(edit.mean);
        edits_clear(&next);
        return;
    }
    if (repl_set_edits(r, next))
        print_edit(&edit);
}

/* Ends one edit, or with layer -1 all. */
static void end_edits(struct repl *r, int32_t layer, int32_t head)
{
    struct edits next;
    if (!edits_copy(&next, &r->edits)) {
        repl_no_memory();
        return;
    }
    if (layer < 0)
        edits_clear(&next);
    else if (!edits_remove(&next, layer, head))
        repl_error("there is no edit of it: /ab lists them");
    if (arr_len(next.list) == arr_len(r->edits.list))
        edits_clear(&next);
    else if (repl_set_edits(r, next))
        list_edits(r);
}

static void ablate(struct repl *r, const struct repl_args *args)
{
    struct edit edit = {EDIT_ZERO, args->layer, args->head, 0, NULL};
    if (strcmp(args->rest, "off") == 0) {
        end_edits(r, edit.layer, edit.head);
    } else if (strcmp(args->rest, "zero") == 0) {
        repl_edit_add(r, edit);
    } else if (strcmp(args->rest, "mean") == 0) {
        edit.kind = EDIT_MEAN;
        if (find_mean(r, &edit))
            repl_edit_add(r, edit);
    } else {
        repl_error("expected zero, mean or off, found '%s'", args->rest);
    }
}

void repl_run_ablate(struct repl *r, struct repl_args *args)
{
    int off = strncmp(args->rest, "off", 3) == 0 && strcspn(args->rest, " \t") == 3;
    if (!*args->rest || (off && arr_len(r->edits.list) == 0))
        list_edits(r);
    else if (off)
        end_edits(r, -1, -1);
    else if (repl_read_part(args))
        ablate(r, args);
}

void repl_run_scale(struct repl *r, struct repl_args *args)
{
    const struct edit edit = {EDIT_SCALE, args->layer, args->head, (float)args->factor, NULL};
    if (edit.factor == 1)
        end_edits(r, edit.layer, edit.head);
    else
        repl_edit_add(r, edit);
}
