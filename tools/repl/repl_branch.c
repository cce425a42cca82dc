/* Repl commands for several timelines: copies under names, and what tells two of them apart. */
#include "base/mem.h"
#include "common/text.h"
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_END = 8 }; /* tokens of a branch in the list */

int repl_is_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t n = strlen(name);
    return n > 0 && n < REPL_NAME && strspn(name, letters) == n;
}

size_t repl_find_branch(const struct repl_branch *branches, const char *name)
{
    size_t i = 0;
    while (i < arr_len(branches) && strcmp(branches[i].name, name) != 0)
        i++;
    return i;
}

int repl_choose_branch(const struct repl *r, const char *name, size_t *branch)
{
    const char *names[REPL_BRANCHES], *near;
    size_t n = arr_len(r->branches);
    *branch = repl_find_branch(r->branches, name);
    if (*branch < n)
        return 1;
    for (size_t i = 0; i < n; i++)
        names[i] = r->branches[i].name;
    near = cli_nearest(name, names, n);
    if (!*name)
        repl_error("which timeline? /branches lists them");
    else if (near)
        repl_error("no timeline %s, did you mean %s?", name, near);
    else
        repl_error("no timeline %s: /branches lists them, /branch makes one", name);
    return 0;
}

static void use(struct repl *r, size_t branch)
{
    r->current = branch;
    r->engine.session = r->branches[branch].session;
}

/* ---- making and switching ---- */

static void go_to_branch(struct repl *r, size_t branch)
{
    use(r, branch);
    printf("on %s: ", r->branches[branch].name);
    repl_print_place(r);
}

static int may_branch(const struct repl *r, const char *name)
{
    if (!repl_is_name(name))
        repl_error("a name is 1 to %d letters, digits, or any of _ . -, found '%s'", REPL_NAME - 1,
                   name);
    else if (repl_find_branch(r->branches, name) < arr_len(r->branches))
        repl_error("there is a timeline %s already: /sw %s goes there", name, name);
    else if (arr_len(r->branches) == REPL_BRANCHES)
        repl_error("there are %d timelines, which is the most", REPL_BRANCHES);
    else
        return 1;
    return 0;
}

static int copy_tokens(int32_t **to, const int32_t *from)
{
    *to = NULL;
    if (!arr_reserve(*to, arr_len(from)))
        return 0;
    for (size_t i = 0; i < arr_len(from); i++)
        arr_put(*to, from[i]);
    return 1;
}

void repl_run_branch(struct repl *r, struct repl_args *args)
{
    struct repl_branch copy = {.resume = 0};
    mgpt_error err;
    const char *name = args->rest;
    if (!may_branch(r, name))
        return;
    copy.session = mgpt_fork(r->engine.session, &err);
    if (!copy.session) {
        repl_failed(&err);
        return;
    }
    memcpy(copy.name, name, strlen(name) + 1);
    if (!copy_tokens(&copy.ahead, r->branches[r->current].ahead) || !arr_push(r->branches, copy)) {
        repl_no_memory();
        arr_free(copy.ahead);
        mgpt_session_free(copy.session);
        return;
    }
    go_to_branch(r, arr_len(r->branches) - 1);
}

void repl_run_switch(struct repl *r, struct repl_args *args)
{
    if (repl_open_branch(r, args->branch))
        go_to_branch(r, args->branch);
}

/* ---- the list ---- */

size_t repl_branch_tokens(const struct repl_branch *b, const int32_t **held, size_t *n_ahead)
{
    size_t n = b->session ? mgpt_pos(b->session) : b->resume;
    *held = b->session ? mgpt_tokens(b->session) : b->ahead;
    *n_ahead = arr_len(b->ahead) - (b->session ? 0 : b->resume);
    return n;
}

void repl_run_branches(struct repl *r, struct repl_args *args)
{
    (void)args;
    for (size_t i = 0; i < arr_len(r->branches); i++) {
        const struct repl_branch *b = &r->branches[i];
        const int32_t *held;
        size_t n_ahead, n_held = repl_branch_tokens(b, &held, &n_ahead);
        printf("%c %-12s %zu of %zu", i == r->current ? '*' : ' ', b->name, n_held,
               mgpt_n_ctx(r->engine.session));
        if (n_ahead > 0)
            printf(", %zu ahead", n_ahead);
        fputs(n_held > SHOWN_END ? ": ..." : ":", stdout);
        for (size_t k = n_held > SHOWN_END ? n_held - SHOWN_END : 0; k < n_held; k++) {
            putchar(' ');
            text_print_token(stdout, r->engine.model, held[k]);
        }
        putchar('\n');
    }
}

/* ---- differences ---- */

static void print_one(const struct repl *r, const char *name, const mgpt_session *s, size_t at)
{
    printf("%s ", name);
    if (at < mgpt_pos(s))
        text_print_token(stdout, r->engine.model, mgpt_tokens(s)[at]);
    else
        fputs("ends", stdout);
}

/* Where the tokens of two sessions part, which may be the end of one of them. */
static void print_parting(const struct repl *r, const struct repl_branch *a,
                          const struct repl_branch *b)
{
    size_t at = 0, n_a = mgpt_pos(a->session), n_b = mgpt_pos(b->session);
    while (at < n_a && at < n_b && mgpt_tokens(a->session)[at] == mgpt_tokens(b->session)[at])
        at++;
    if (at == n_a && at == n_b) {
        printf("the same %zu tokens\n", at);
        return;
    }
    printf("first difference at position %zu: ", at);
    print_one(r, a->name, a->session, at);
    fputs(", ", stdout);
    print_one(r, b->name, b->session, at);
    putchar('\n');
}

/* Computes the logits of another branch as if it were the current one. */
static int compute_other_logits(struct repl *r, size_t branch)
{
    size_t here = r->current;
    if (!repl_open_branch(r, branch))
        return 0;
    use(r, branch);
    int done = repl_compute_logits(r);
    use(r, here);
    return done;
}

void repl_run_diff(struct repl *r, struct repl_args *args)
{
    if (args->branch == SIZE_MAX) {
        repl_with_diff(r);
        return;
    }
    const struct repl_branch *here = &r->branches[r->current], *there = &r->branches[args->branch];
    if (!repl_compute_logits(r) || !compute_other_logits(r, args->branch))
        return;
    const float *a = mgpt_logits(here->session), *b = mgpt_logits(there->session);
    print_parting(r, here, there);
    if (a && b)
        repl_print_effect(r, here->name, a, there->name, b);
    if (r->with)
        repl_with_diff_branch(r, there);
}
