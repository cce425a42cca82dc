/* /with: a second model of the same vocabulary. It has an engine and a session of its own, which gets the
 * current tokens when it is asked, not at each step; what the session has of them already is not run
 * again. Ablations and steering are the first model's. */
#include "base/mem.h"
#include "common/text.h"
#include "repl/held.h"
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FURTHEST = 8 }; /* tokens whose probabilities differ most */

/* ---- which model ---- */

static void close_with(struct engine *e, char *path)
{
    if (e)
        engine_close(e);
    free(e);
    free(path);
}

void repl_with_end(struct repl *r)
{
    close_with(r->with, r->with_path);
    r->with = NULL;
    r->with_path = NULL;
}

/* Opens the second model with the settings of the first. */
static int with_open(const struct engine *a, const char *path, struct engine *e)
{
    *e = (struct engine){.path = path,
                         .isa = a->isa,
                         .kv = a->kv,
                         .n_threads = a->n_threads,
                         .check_finite = a->check_finite,
                         .no_fused = a->no_fused,
                         .needs_finite = 1};
    int code = engine_open(e);
    if (code == EXIT_OK)
        code = engine_same_tokens(a, e);
    return code == EXIT_OK ? engine_session(e) : code;
}

/* Opens a second model and replaces the one before, which stays if this fails. */
static void with_model(struct repl *r, const char *name)
{
    char *path = strdup(name);
    struct engine *e = path ? mem_new(1, sizeof *e) : NULL;
    if (!e) {
        free(path);
        repl_no_memory();
        return;
    }
    fflush(stdout);
    int code = with_open(&r->engine, path, e);
    repl_note_code(code);
    if (code != EXIT_OK) {
        close_with(e, path);
        return;
    }
    repl_with_end(r);
    r->with = e;
    r->with_path = path;
    repl_say("with %s: %s, layers %d, width %d", path, e->info.arch, (int)e->info.n_layer,
             (int)e->info.n_embd);
}

void repl_run_with(struct repl *r, struct repl_args *args)
{
    int off = strcmp(args->rest, "off") == 0;
    if (off)
        repl_with_end(r);
    if (*args->rest && !off)
        with_model(r, args->rest);
    else if (r->with)
        repl_say("with %s", r->with_path);
    else
        puts("no second model");
}

/* ---- its logits ---- */

/* After n tokens; NULL after telling the user. */
static const float *with_logits(struct repl *r, const int32_t *tokens, size_t n)
{
    struct engine *e = r->with;
    if (n > mgpt_n_ctx(e->session)) {
        repl_note_code(EXIT_FULL);
        repl_error("%s: %zu tokens, but it has %zu positions", r->with_path, n,
                   mgpt_n_ctx(e->session));
        return NULL;
    }
    fflush(stdout);
    int code = engine_sync(e, e->session, tokens, n);
    repl_note_code(code);
    return code == EXIT_OK ? mgpt_logits(e->session) : NULL;
}

static const float *with_current(struct repl *r)
{
    const mgpt_session *s = r->engine.session;
    return with_logits(r, mgpt_tokens(s), mgpt_pos(s));
}

/* ---- /top ---- */

struct both {
    const float *here, *with;
    size_t n;
};

static void print_both(const struct repl *r, const struct both *b, int32_t token)
{
    const float *const logits[] = {b->here, b->with};
    for (size_t i = 0; i < 2; i++)
        printf("%5zu     %.6f  %9.4f  ", repl_rank(logits[i], b->n, token),
               exp(mgpt_logprob(logits[i], b->n, token)), (double)logits[i][token]);
    printf("%7d  ", (int)token);
    text_print_token(stdout, r->engine.model, token);
    putchar('\n');
}

void repl_with_top(struct repl *r, const float *logits, const mgpt_candidate *top, size_t n)
{
    struct both b = {logits, with_current(r), repl_n_logits(r)};
    mgpt_candidate *others = b.with ? mem_new(n, sizeof *others) : NULL;
    if (b.with && !others)
        repl_no_memory();
    if (!others)
        return;
    puts(" rank  probability      logit   with  probability      logit       id  token");
    for (size_t i = 0; i < n; i++)
        print_both(r, &b, top[i].token);
    size_t n_others = mgpt_top(b.with, b.n, others, n);
    for (size_t i = 0; i < n_others; i++)
        if (repl_rank(logits, b.n, others[i].token) > n)
            print_both(r, &b, others[i].token);
    if (n > 0 && n_others > 0)
        printf("entropy %.4f nats, with %.4f nats\n", repl_entropy(logits, b.n, top),
               repl_entropy(b.with, b.n, others));
    free(others);
}

/* ---- /diff ---- */

/* The tokens held, as the second model sees them. */
static int with_held(struct repl *r, struct tokens_held *h)
{
    const mgpt_session *s = r->engine.session;
    struct watcher look = {MGPT_POINT_BIT(MGPT_LOGITS), held_see, h, NULL};
    mgpt_error err;
    *h = held_new(r->with, &r->sampling, mgpt_tokens(s), mgpt_pos(s), 0);
    mgpt_session *copy = mgpt_fork(r->with->session, &err);
    int done = copy && mgpt_rewind(copy, 0, &err) == MGPT_OK &&
               engine_feed(r->with, copy, h->tokens, h->n, &look, &err) == MGPT_OK;
    if (!done)
        repl_failed(&err);
    else if (h->is_full)
        repl_no_memory();
    if (!done || h->is_full)
        held_free(h);
    mgpt_session_free(copy);
    return done && !h->is_full;
}

static void print_furthest(const struct repl *r, const struct tokens_held *a,
                           const struct tokens_held *b)
{
    size_t n = a->n - 1;
    uint8_t *taken = mem_new(n, 1);
    if (!taken) {
        repl_no_memory();
        return;
    }
    puts(" pos     id       here       with  token");
    for (size_t k = 0; k < n && k < FURTHEST; k++) {
        size_t best = n;
        double most = -1;
        for (size_t i = 0; i < n; i++) {
            double d = fabs(a->drawn.logprobs[i] - b->drawn.logprobs[i]);
            if (!taken[i] && d > most) {
                most = d;
                best = i;
            }
        }
        if (best == n)
            break;
        taken[best] = 1;
        printf("%4zu: %6d %10.4f %10.4f  ", best + 1, (int)a->tokens[best + 1],
               a->drawn.logprobs[best], b->drawn.logprobs[best]);
        text_print_token(stdout, r->engine.model, a->tokens[best + 1]);
        putchar('\n');
    }
    free(taken);
}

void repl_with_diff(struct repl *r)
{
    struct tokens_held here, with;
    const float *logits = repl_logits(r), *others = logits ? with_current(r) : NULL;
    if (!others || !repl_held(r, 0, &here))
        return;
    if (here.n > 1 && with_held(r, &with)) {
        printf("log-probability of %zu tokens: here %.4f, with %.4f\n", here.n - 1,
               held_sum(&here, 0), held_sum(&with, 0));
        print_furthest(r, &here, &with);
        held_free(&with);
    }
    held_free(&here);
    repl_print_effect(r, "here", logits, "with", others);
}

void repl_with_diff_branch(struct repl *r, const struct repl_branch *b)
{
    size_t n = repl_n_logits(r);
    const float *logits = with_current(r);
    float *here = logits ? mem_new(n, sizeof *here) : NULL;
    if (logits && !here)
        repl_no_memory();
    if (!here)
        return;
    memcpy(here, logits, n * sizeof *here);
    logits = with_logits(r, mgpt_tokens(b->session), mgpt_pos(b->session));
    if (logits) {
        repl_say("with %s:", r->with_path);
        repl_print_effect(r, r->branches[r->current].name, here, b->name, logits);
    }
    free(here);
}
