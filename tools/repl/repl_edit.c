/* Repl commands that change something and say what follows from it: a token of the timeline, or a
 * part of the model. Both run the tokens again in a session of their own, so that a failure or
 * Ctrl-C leaves all as it was. */
#include "base/mem.h"
#include "common/text.h"
#include "repl/held.h"
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

/* In place of `n` tokens of the timeline from `pos` on, n_new others; the rest is as it was. */
struct splice {
    size_t pos, n, n_new;
    const int32_t *tokens;
};

/* Where the tokens are run again: from the one before the change on, whose logits say what is likely
 * there. */
static size_t splice_first(const struct splice *s)
{
    return s->pos > 0 ? s->pos - 1 : 0;
}

/* The *n tokens as they will be, from splice_first on. malloc'ed. */
static int32_t *spliced(const mgpt_session *session, const struct splice *s, size_t *n)
{
    const int32_t *held = mgpt_tokens(session), *rest = held + s->pos + s->n;
    size_t n_rest = mgpt_pos(session) - s->pos - s->n, before = s->pos > 0;
    *n = before + s->n_new + n_rest;
    int32_t *tokens = mem_new(*n, sizeof *tokens);
    if (!tokens) {
        repl_no_memory();
        return NULL;
    }
    size_t k = 0;
    if (before)
        tokens[k++] = held[splice_first(s)];
    for (size_t i = 0; i < s->n_new; i++)
        tokens[k++] = s->tokens[i];
    for (size_t i = 0; i < n_rest; i++)
        tokens[k++] = rest[i];
    return tokens;
}

/* Runs tokens from splice_first on, in a session of their own, and keeps what the model says of them. */
static mgpt_session *run_spliced(struct repl *r, const struct splice *s, const int32_t *tokens,
                                 size_t n, struct tokens_held *held)
{
    struct watcher look = {MGPT_POINT_BIT(MGPT_LOGITS), held_see, held, NULL};
    *held = held_new(&r->engine, &r->sampling, tokens, n, 0);
    held->first = splice_first(s);
    mgpt_session *session = repl_variant(r, held->first, tokens, n, &look);
    if (!session || !held->is_full)
        return session;
    mgpt_session_free(session);
    repl_no_memory();
    return NULL;
}

/* What the change does to the tokens after it. The first token of a text has no probability. */
static void print_rest(const struct splice *s, const struct tokens_held *was,
                       const struct tokens_held *now)
{
    size_t at = s->pos > 0, none = s->pos == 0 && (s->n == 0 || s->n_new == 0);
    if (was->n <= at + s->n + none)
        return;
    size_t n = was->n - at - s->n - none;
    printf("the %zu token%s after it: log-probability %.4f, now %.4f\n", n, n > 1 ? "s" : "",
           held_sum(was, at + s->n + none), held_sum(now, at + s->n_new + none));
}

static void print_splice(const struct repl *r, const struct splice *s)
{
    const int32_t *was = mgpt_tokens(r->engine.session) + s->pos;
    printf("position %zu:", s->pos);
    repl_print_tokens(r, was, s->n);
    if (s->n > 0)
        fputs(s->n_new > 0 ? " is now" : s->n > 1 ? " are gone" : " is gone", stdout);
    repl_print_tokens(r, s->tokens, s->n_new);
    if (s->n == 0)
        fputs(s->n_new > 1 ? " are new" : " is new", stdout);
    putchar('\n');
}

/* Runs the tokens before and after the change; takes the latter if all goes well. */
static void change_run(struct repl *r, const struct splice *s, const int32_t *tokens, size_t n)
{
    mgpt_session *old = r->engine.session, *again, *changed = NULL;
    struct tokens_held was, now;
    size_t first = splice_first(s);
    again = run_spliced(r, s, mgpt_tokens(old) + first, mgpt_pos(old) - first, &was);
    changed = again ? run_spliced(r, s, tokens, n, &now) : NULL;
    if (changed) {
        print_splice(r, s);
        print_rest(s, &was, &now);
        repl_print_effect(r, "before", mgpt_logits(old), "after", mgpt_logits(changed));
        repl_take_session(r, changed);
    }
    if (again)
        held_free(&now);
    held_free(&was);
    mgpt_session_free(again);
}

static void change_tokens(struct repl *r, const struct splice *s)
{
    const mgpt_session *old = r->engine.session;
    size_t n, n_ctx = mgpt_n_ctx(old);
    if (!repl_compute_logits(r))
        return;
    size_t all = mgpt_pos(old) + arr_len(r->branches[r->current].ahead); /* which are kept */
    if (all - s->n + s->n_new > n_ctx) {
        repl_note_code(EXIT_FULL);
        repl_error("%zu tokens more, but %zu of %zu positions are free", s->n_new - s->n,
                   n_ctx - all, n_ctx);
        return;
    }
    int32_t *tokens = spliced(old, s, &n);
    if (tokens)
        change_run(r, s, tokens, n);
    free(tokens);
}

void repl_run_edit(struct repl *r, struct repl_args *args)
{
    change_tokens(r, &(struct splice){args->pos, 1, 1, &args->token});
}

void repl_run_insert(struct repl *r, struct repl_args *args)
{
    int32_t *tokens = NULL;
    size_t n;
    int64_t length = text_unescape(args->rest, (size_t)(args->end - args->rest));
    if (length < 0) {
        repl_bad_escape();
        return;
    }
    int code = engine_encode(&r->engine, "text", args->rest, (size_t)length, MGPT_NO_SPECIAL_TOKENS,
                             -1, &tokens, &n);
    repl_note_code(code);
    if (code == EXIT_OK && n == 0)
        repl_error("which text? /insert %zu TEXT", args->pos);
    else if (code == EXIT_OK)
        change_tokens(r, &(struct splice){args->pos, 0, n, tokens});
    free(tokens);
}

void repl_run_delete(struct repl *r, struct repl_args *args)
{
    size_t n = args->count ? (size_t)args->count : 1, held = mgpt_pos(r->engine.session);
    if (n > held - args->pos)
        repl_error("%zu tokens from position %zu on, but %zu are held", n, args->pos, held);
    else if (n == held)
        repl_error("no token would be left: /reset begins anew");
    else
        change_tokens(r, &(struct splice){args->pos, n, 0, NULL});
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
    args->rest += off ? 3 : 0;
    if (off && !repl_args_end(args))
        return;
    if (off && arr_len(r->edits.list) > 0)
        end_edits(r, -1, -1);
    else if (off || !*args->rest)
        list_edits(r);
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
