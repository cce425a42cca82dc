/* The tree of prefixes. See prefix_tree.h.
 *
 * The prefixes that samples draw are a tree. The samples at one prefix are a group, which draws
 * together (draw_groups.h).
 *
 * Timelines (sessions) walk the tree depth first and step together, one pass over the weights for
 * all. Its session, tokens and text have the prefix of the group that it is at, so a waiting group
 * is its depth and last token: going there rewinds all three. A timeline without work takes the
 * shallowest waiting group of another.
 */
#include "generate/prefix_tree.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum { AHEAD = 16 }; /* results are printed in another order than they were stored in */

static size_t n_seen(const struct prefix_tree *t)
{
    return samples_seen(t->ask);
}

/* ---- drawing ---- */

/* Stores the text of the line with n_tokens tokens. Returns its index, 0 when out of memory. */
static uint32_t add_result(struct prefix_tree *t, struct timeline *line, size_t n_tokens,
                           enum ending ending)
{
    struct text_out *text = &line->text;
    text_out_end(text);
    size_t before = line->marks[0].length, at = arr_len(t->results);
    struct ended e = {(uint32_t)(arr_len(text->buffer) - before), 0, ending};
    if (t->ask->json)
        e.n_tokens = (uint32_t)n_tokens;
    size_t n_tokens_bytes = e.n_tokens * sizeof *line->path;
    size_t n = sizeof e + n_tokens_bytes + (e.n_text + 3) / 4 * 4; /* tokens are aligned */
    if (text->failed.status < 0 || at + n > UINT32_MAX || !arr_reserve(t->results, at + n))
        return 0;
    memcpy(t->results + at, &e, sizeof e);
    if (e.n_tokens)
        memcpy(t->results + at + sizeof e, line->path, n_tokens_bytes);
    if (e.n_text)
        memcpy(t->results + at + sizeof e + n_tokens_bytes, text->buffer + before, e.n_text);
    arr_set_len(t->results, at + n);
    return (uint32_t)at;
}

/* Moves path and text of a line to a prefix whose parent is on its path. */
static void line_goes_to(struct timeline *line, uint32_t depth, int32_t token)
{
    text_out_back(&line->text, line->marks[depth - 1]);
    text_out_token(&line->text, token, 0);
    line->path[depth - 1] = token;
    line->marks[depth] = text_out_mark(&line->text);
}

/* A child of the line's group lets its samples wait, or ends them. 0: out of memory. */
static int add_child(struct prefix_tree *t, struct timeline *line, struct group child)
{
    enum ending ending = samples_ending(t->ask, child.token, child.depth);
    const uint32_t *number = t->draw.order[child.depth % 2].number + child.from;
    t->n_drawn += ending == END_STOP ? 0 : child.n;
    if (ending == GOES_ON)
        return arr_push(line->waiting, child);
    if (ending == END_STOP)
        text_out_back(&line->text, line->marks[--child.depth]);
    else
        line_goes_to(line, child.depth, child.token);
    uint32_t result = add_result(t, line, child.depth, ending);
    for (uint32_t i = 0; i < child.n; i++)
        t->result[number[i]] = result;
    return result > 0;
}

/* Each sample of the line's group draws. The child with the lowest sample is the next to run. */
static int draw_group(struct prefix_tree *t, struct timeline *line, mgpt_error *err)
{
    struct group g = line->at;
    const float *logits = g.depth ? mgpt_logits(line->session) : t->ask->first_logits;
    size_t n_children = groups_draw(&t->draw, g, &t->ask->sampling->sampler, logits);
    for (size_t k = n_children; k-- > 0;)
        if (!add_child(t, line, t->draw.children[k]))
            return err_memory(err, "the samples' texts", arr_len(t->results));
    return MGPT_OK;
}

/* ---- timelines ---- */

/* Of the lines with more work than the next pass: the one whose shallowest waiting group has the
 * most samples, or NULL. */
static struct timeline *busiest_line(const struct prefix_tree *t)
{
    struct timeline *busiest = NULL;
    for (size_t i = 0; i < t->n_lines; i++) {
        struct timeline *line = &t->lines[i];
        if (arr_len(line->waiting) > 1 && (!busiest || line->waiting[0].n > busiest->waiting[0].n))
            busiest = line;
    }
    return busiest;
}

/* Moves the shallowest waiting group of one line to another and runs what comes before its token
 * there. A status. */
static int take_group(struct prefix_tree *t, struct timeline *line, struct timeline *from,
                      mgpt_error *err)
{
    struct group g = from->waiting[0];
    size_t n = arr_len(from->waiting) - 1;
    memmove(from->waiting, from->waiting + 1, n * sizeof g);
    arr_set_len(from->waiting, n);
    for (uint32_t depth = 1; depth < g.depth; depth++)
        line_goes_to(line, depth, from->path[depth - 1]);
    mgpt_rewind(line->session, n_seen(t), NULL);
    if (!arr_push(line->waiting, g))
        return err_memory(err, "the samples' texts", sizeof g);
    return engine_feed(t->ask->engine, line->session, line->path, g.depth - 1, NULL, err);
}

/* Lines without work take groups of others. */
static int share_work(struct prefix_tree *t, mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; i < t->n_lines && status == MGPT_OK; i++) {
        struct timeline *line = &t->lines[i];
        struct timeline *from = arr_len(line->waiting) ? NULL : busiest_line(t);
        if (from)
            status = take_group(t, line, from, err);
    }
    return status;
}

/* Takes the next group of each line and runs their passes. Returns a status; *n_busy: the lines with
 * a group. */
static int step_lines(struct prefix_tree *t, size_t *n_busy, mgpt_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_lines; i++) {
        struct timeline *line = &t->lines[i];
        size_t n_waiting = arr_len(line->waiting);
        line->at.n = 0;
        if (n_waiting == 0)
            continue;
        line->at = line->waiting[n_waiting - 1];
        arr_set_len(line->waiting, n_waiting - 1);
        line_goes_to(line, line->at.depth, line->at.token);
        mgpt_rewind(line->session, n_seen(t) + line->at.depth - 1, NULL);
        t->stepped[n] = line->session;
        t->step[n++] = line->at.token;
    }
    *n_busy = n;
    return n ? engine_step_many(t->ask->engine, t->stepped, t->step, n, err) : MGPT_OK;
}

/* ---- printing in order ---- */

static void begin_text(struct prefix_tree *t)
{
    const struct samples *ask = t->ask;
    const struct timeline *line = &t->lines[0];
    sample_text_add(&t->text, line->text.buffer, line->marks[0].length, ask->prompt,
                    ask->no_prompt ? 0 : ask->n_prompt);
    t->n_shown = 0;
}

/* Shows what is new of the next sample to print if it is in the line's group. It is the first: groups
 * keep the order of samples. */
static void show_group(struct prefix_tree *t, struct timeline *line, struct group g)
{
    if (g.n == 0 || t->draw.order[g.depth % 2].number[g.from] != t->n_printed || g.depth == 0)
        return;
    line_goes_to(line, g.depth, g.token);
    size_t at = line->marks[0].length + t->n_shown, n = line->marks[g.depth].length - at;
    sample_text_add(&t->text, line->text.buffer + at, n, line->path, g.depth);
    t->n_shown += n;
}

/* On a terminal a sample is shown while it grows. */
static void show_live(struct prefix_tree *t)
{
    for (size_t i = 0; i < t->n_lines && t->n_printed < t->n && t->text.out.terminal; i++)
        show_group(t, &t->lines[i], t->lines[i].at);
}

static int print_ended(struct prefix_tree *t)
{
    int code = EXIT_OK;
    while (code == EXIT_OK && t->n_printed < t->n && t->result[t->n_printed]) {
        const char *at = t->results + t->result[t->n_printed];
        struct ended e;
        if (t->n_printed + AHEAD < t->n)
            __builtin_prefetch(t->results + t->result[t->n_printed + AHEAD]);
        memcpy(&e, at, sizeof e);
        at += sizeof e;
        const int32_t *tokens = (const int32_t *)(const void *)at;
        const char *bytes = (const char *)(tokens + e.n_tokens);
        sample_text_add(&t->text, bytes + t->n_shown, e.n_text - t->n_shown, tokens, e.n_tokens);
        code = sample_text_end(&t->text, t->first + t->n_printed, e.ending);
        if (code == EXIT_OK && ++t->n_printed < t->n)
            begin_text(t);
    }
    return code;
}

/* The run ends early: shows what there is of the next sample to print. */
static int print_rest(struct prefix_tree *t, int code)
{
    for (size_t i = 0; i < t->n_lines; i++) {
        struct timeline *line = &t->lines[i];
        show_group(t, line, line->at);
        for (size_t j = arr_len(line->waiting); j-- > 0;)
            show_group(t, line, line->waiting[j]);
    }
    return sample_text_break(&t->text, t->first + t->n_printed, code);
}

/* ---- a block ---- */

static void begin_block(struct prefix_tree *t)
{
    struct samples *ask = t->ask;
    for (size_t i = 0; i < t->n; i++) {
        t->draw.order[0].rng[i] = sampling_of_sample(ask->sampling, t->first + i).rng;
        t->draw.order[0].number[i] = (uint32_t)i;
        t->result[i] = 0;
    }
    arr_set_len(t->results, sizeof(struct ended));
    for (size_t i = 0; i < t->n_lines; i++)
        t->lines[i].at.n = 0;
    t->lines[0].at = (struct group){.n = (uint32_t)t->n};
    t->n_printed = 0;
    if (t->holds)
        sample_text_hold(&t->text);
    begin_text(t);
}

/* One draw of all lines, and the pass that follows. A status. */
static int run_round(struct prefix_tree *t, size_t *n_busy)
{
    int status = MGPT_OK;
    for (size_t i = 0; i < t->n_lines && status == MGPT_OK; i++)
        if (t->lines[i].at.n > 0)
            status = draw_group(t, &t->lines[i], &t->err);
    if (status == MGPT_OK && t->prints)
        t->code = print_ended(t);
    if (status == MGPT_OK)
        status = share_work(t, &t->err);
    return status == MGPT_OK ? step_lines(t, n_busy, &t->err) : status;
}

void prefix_tree_run(struct prefix_tree *t)
{
    size_t n_busy = 1;
    begin_block(t);
    while (n_busy > 0 && t->code == EXIT_OK && t->err.status == MGPT_OK) {
        t->err.status = run_round(t, &n_busy);
        if (t->prints && t->err.status == MGPT_OK && t->code == EXIT_OK)
            show_live(t);
        t->code = t->code == EXIT_OK ? samples_stopped() : t->code;
    }
    if (t->code == EXIT_OK && t->err.status == MGPT_OK && !t->ask->json)
        t->code = print_ended(t);
}

/* Prints what the block has left to print. Returns its exit code. */
int prefix_tree_end(struct prefix_tree *t)
{
    sample_text_release(&t->text);
    const mgpt_error *lost = &t->text.out.failed; /* no memory for a text: its error is printed */
    int code = lost->status < 0 ? t->code : print_ended(t);
    if (t->err.status < 0 && lost->status == MGPT_OK)
        t->code = cli_fail(NULL, &t->err);
    t->code = t->code == EXIT_OK ? code : t->code;
    t->ask->n_drawn += t->n_drawn;
    t->ask->n_full += t->text.n_full;
    t->n_drawn = t->text.n_full = 0;
    int is_done = t->code == EXIT_OK || lost->status < 0 || t->n_printed == t->n;
    return is_done ? t->code : print_rest(t, t->code);
}
