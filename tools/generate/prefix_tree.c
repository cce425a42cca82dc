/* The tree of prefixes. See prefix_tree.h.
 *
 * The prefixes that samples draw are a tree. The samples at one prefix are a group, which draws
 * together (draw_groups.h).
 *
 * Timelines (sessions) walk the tree depth first and step together, one pass over the weights for
 * all. Its session, tokens and text have the prefix of the group that it is at, so a waiting group
 * is its depth and last token: going there rewinds all three. A timeline without work takes the
 * shallowest waiting group of another. When most have none, one takes a group of the block.
 */
#include "generate/prefix_tree.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum {
    AHEAD =
        16, /* prefetch distance: results are stored in tree order and printed in sample order */
    FEW = 4 /* when less than one timeline in FEW has work, a group of the block is taken */
};

static size_t n_seen(const struct prefix_tree *t)
{
    return samples_seen(t->ask);
}

/* ---- drawing ---- */

/* A tree's index in its results, a multiple of 4, as a number among those of all trees. */
static uint32_t result_of(const struct prefix_tree *t, size_t at)
{
    return (uint32_t)(at / 4 * t->block->n_trees + (size_t)(t - t->block->trees));
}

static const char *result_at(const struct prefix_block *b, uint32_t result)
{
    return b->trees[result % b->n_trees].results + result / b->n_trees * 4;
}

/* Stores the text of the line with n_tokens tokens. Returns its result, 0 when out of memory. */
static uint32_t add_result(struct prefix_tree *t, struct timeline *line, size_t n_tokens,
                           enum ending ending)
{
    struct text_out *text = &line->text;
    text_out_end(text);
    size_t before = line->marks[0].length, at = arr_len(t->results);
    struct ended e = {.n_text = (uint32_t)(arr_len(text->buffer) - before), .ending = ending};
    if (ending == END_TEXT)
        e.stop = (uint32_t)(text->stopped - text->stops->list);
    if (t->ask->json)
        e.n_tokens = (uint32_t)n_tokens;
    size_t n_tokens_bytes = e.n_tokens * sizeof *line->path;
    size_t n = sizeof e + n_tokens_bytes + (e.n_text + 3) / 4 * 4; /* tokens are aligned */
    if (text->failed.status < 0 || at / 4 > UINT32_MAX / t->block->n_trees - 1 ||
        !arr_reserve(t->results, at + n))
        return 0;
    memcpy(t->results + at, &e, sizeof e);
    if (e.n_tokens)
        memcpy(t->results + at + sizeof e, line->path, n_tokens_bytes);
    if (e.n_text)
        memcpy(t->results + at + sizeof e + n_tokens_bytes, text->buffer + before, e.n_text);
    arr_set_len(t->results, at + n);
    return result_of(t, at);
}

/* Moves path and text of a line to a prefix whose parent is on its path. */
static void line_goes_to(struct timeline *line, uint32_t depth, int32_t token)
{
    text_out_back(&line->text, line->marks[depth - 1]);
    text_out_token(&line->text, token, 0);
    line->path[depth - 1] = token;
    line->marks[depth] = text_out_mark(&line->text);
}

/* The numbers of a group's samples, ascending. */
static const uint32_t *numbers_of(const struct prefix_tree *t, struct group g)
{
    return t->block->samples.order[g.depth % 2].number + g.from;
}

/* Whether a child of the line's group ends its samples. Then the line goes to their text. */
static enum ending child_ending(struct prefix_tree *t, struct timeline *line, struct group child)
{
    enum ending ending = samples_ending(t->ask, line->path, child.depth - 1, child.token);
    if (ending == END_TOKEN)
        text_out_back(&line->text, line->marks[child.depth - 1]);
    else if (ending != GOES_ON || line->text.stops)
        line_goes_to(line, child.depth, child.token);
    size_t before = (size_t)(line->path - line->history);
    line->path[child.depth - 1] = child.token;
    if (ending == GOES_ON &&
        chooser_is_complete(&t->chooser, line->history, before + child.depth)) {
        line_goes_to(line, child.depth, child.token);
        return END_MATCH;
    }
    return ending != END_TOKEN && line->text.stopped ? END_TEXT : ending;
}

/* A child of the line's group lets its samples wait, or ends them. 0: out of memory. */
static int add_child(struct prefix_tree *t, struct timeline *line, struct group child)
{
    enum ending ending = child_ending(t, line, child);
    const uint32_t *number = numbers_of(t, child);
    t->n_drawn += ending == END_TOKEN ? 0 : child.n;
    if (ending == GOES_ON)
        return arr_push(line->waiting, child);
    uint32_t result = add_result(t, line, child.depth - (ending == END_TOKEN), ending);
    for (uint32_t i = 0; i < child.n; i++)
        t->block->result[number[i]] = result;
    return result > 0;
}

/* The child with the lowest sample is the next to run. */
static int add_children(struct prefix_tree *t, struct timeline *line, size_t n, mgpt_error *err)
{
    for (size_t k = n; k > 0 && k--;)
        if (!add_child(t, line, t->draw.children[k]))
            return err_memory(err, "the samples' texts", arr_len(t->results));
    return MGPT_OK;
}

int prefix_tree_sampler(struct prefix_tree *t, const struct timeline *line, uint32_t depth,
                        mgpt_sampler *sampler)
{
    size_t before = (size_t)(line->path - line->history);
    *sampler = t->ask->sampling->sampler;
    return chooser_prepare(&t->chooser, sampler, line->history, before + depth, &t->err);
}

/* Draws a token for each sample of the line's group. */
static int draw_group(struct prefix_tree *t, struct timeline *line, mgpt_error *err)
{
    struct group g = line->at;
    const float *logits = g.depth ? mgpt_logits(line->session) : t->ask->first_logits;
    mgpt_sampler sampler;
    if (prefix_tree_sampler(t, line, g.depth, &sampler) < 0)
        return t->err.status;
    size_t n_children = groups_draw(&t->draw, g, &sampler, logits);
    int status = chooser_check(&t->chooser, t->ask->n_prompt + g.depth, err);
    return status == MGPT_OK ? add_children(t, line, n_children, err) : status;
}

/* ---- timelines ---- */

/* The timeline to take work from: among those with more work than the next pass, the one whose
 * shallowest waiting group has the most samples. NULL: no timeline has more. */
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

/* Runs the first n tokens of a path on a line. Returns a status. */
static int follow_path(struct prefix_tree *t, struct timeline *line, const int32_t *path,
                       uint32_t n, mgpt_error *err)
{
    for (uint32_t depth = 1; depth <= n; depth++)
        line_goes_to(line, depth, path[depth - 1]);
    mgpt_rewind(line->session, n_seen(t), NULL);
    return engine_feed(t->ask->engine, line->session, line->path, n, NULL, err);
}

/* Gives a line a group, and runs what comes before its token there. Returns a status. */
static int give_group(struct prefix_tree *t, struct timeline *line, struct group g,
                      const int32_t *path, mgpt_error *err)
{
    if (!arr_push(line->waiting, g))
        return err_memory(err, "the samples' texts", sizeof g);
    return follow_path(t, line, path, g.depth - 1, err);
}

/* Moves the shallowest waiting group of one line to another. Returns a status. */
static int take_group(struct prefix_tree *t, struct timeline *line, struct timeline *from,
                      mgpt_error *err)
{
    struct group g = from->waiting[0];
    size_t n = arr_len(from->waiting) - 1;
    memmove(from->waiting, from->waiting + 1, n * sizeof g);
    arr_set_len(from->waiting, n);
    return give_group(t, line, g, from->path, err);
}

/* When few lines have work, gives another a group of the block, if there is one. Returns a status. */
static int take_shared(struct prefix_tree *t, mgpt_error *err)
{
    struct prefix_block *b = t->block;
    struct timeline *idle = NULL;
    size_t n_idle = 0;
    for (size_t i = 0; i < t->n_lines; i++)
        if (arr_len(t->lines[i].waiting) == 0) {
            idle = &t->lines[i];
            n_idle++;
        }
    if (t->n_lines - n_idle > t->n_lines / FEW)
        return MGPT_OK;
    size_t k = atomic_fetch_add_explicit(&b->n_taken, 1, memory_order_relaxed);
    if (k >= arr_len(b->shared))
        return MGPT_OK;
    return give_group(t, idle, b->shared[k].g, b->shared[k].path, err);
}

/* Lines without work take groups of others. */
static int share_work(struct prefix_tree *t, mgpt_error *err)
{
    int status = take_shared(t, err);
    for (size_t i = 0; i < t->n_lines && status == MGPT_OK; i++) {
        struct timeline *line = &t->lines[i];
        struct timeline *from = arr_len(line->waiting) ? NULL : busiest_line(t);
        if (from)
            status = take_group(t, line, from, err);
    }
    return status;
}

/* Takes the next group of each line and runs their passes. Returns a status. */
static int step_lines(struct prefix_tree *t, mgpt_error *err)
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
    t->n_busy = n;
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
 * keep the order of samples. What may begin a stop text is shown if the sample has been `cut`. */
static void show_group(struct prefix_tree *t, struct timeline *line, struct group g, int cut)
{
    if (g.n == 0 || numbers_of(t, g)[0] != t->n_printed || g.depth == 0)
        return;
    line_goes_to(line, g.depth, g.token);
    size_t at = line->marks[0].length + t->n_shown, end = line->marks[g.depth].length;
    size_t n = end - at - (cut ? 0 : text_out_held(&line->text, end));
    sample_text_add(&t->text, line->text.buffer + at, n, line->path, g.depth);
    t->n_shown += n;
}

/* On a terminal a sample is shown while it grows. */
static void show_live(struct prefix_tree *t)
{
    for (size_t i = 0; i < t->n_lines && t->n_printed < t->end && t->text.out.terminal; i++)
        show_group(t, &t->lines[i], t->lines[i].at, 0);
}

static int print_ended(struct prefix_tree *t)
{
    const struct prefix_block *b = t->block;
    int code = EXIT_OK;
    while (code == EXIT_OK && t->n_printed < t->end && b->result[t->n_printed]) {
        const char *at = result_at(b, b->result[t->n_printed]);
        struct ended e;
        if (t->n_printed + AHEAD < t->end)
            __builtin_prefetch(result_at(b, b->result[t->n_printed + AHEAD]));
        memcpy(&e, at, sizeof e);
        at += sizeof e;
        const int32_t *tokens = (const int32_t *)(const void *)at;
        const char *bytes = (const char *)(tokens + e.n_tokens);
        sample_text_add(&t->text, bytes + t->n_shown, e.n_text - t->n_shown, tokens, e.n_tokens);
        t->text.out.stopped = e.ending == END_TEXT ? &t->ask->stops->list[e.stop] : NULL;
        code = sample_text_end(&t->text, b->first + t->n_printed, e.ending);
        if (code == EXIT_OK && ++t->n_printed < t->end)
            begin_text(t);
    }
    return code;
}

/* The run ends early: shows what there is of the next sample to print, whichever tree has it. */
static int print_rest(struct prefix_tree *t, int code)
{
    const struct prefix_block *b = t->block;
    struct timeline *own = &t->lines[0];
    for (size_t i = 0; i < b->n_trees * t->n_lines; i++) {
        struct timeline *line = &b->trees[i / t->n_lines].lines[i % t->n_lines];
        show_group(t, line, line->at, 1);
        for (size_t j = arr_len(line->waiting); j > 0 && j--;)
            show_group(t, line, line->waiting[j], 1);
    }
    for (size_t i = b->n_taken; i < arr_len(b->shared); i++) {
        for (uint32_t depth = 1; depth < b->shared[i].g.depth; depth++)
            line_goes_to(own, depth, b->shared[i].path[depth - 1]);
        show_group(t, own, b->shared[i].g, 1);
    }
    return sample_text_break(&t->text, b->first + t->n_printed, code);
}

/* ---- a block ---- */

/* 1: it prints while it runs. */
static int prints_early(const struct prefix_tree *t)
{
    return t->block->n_trees == 1;
}

void prefix_tree_begin(struct prefix_tree *t, size_t from, size_t to)
{
    arr_set_len(t->results, sizeof(struct ended));
    for (size_t i = 0; i < t->n_lines; i++)
        t->lines[i].at.n = 0;
    t->n_busy = 0;
    t->n_printed = from;
    t->end = to;
    if (t != t->block->trees)
        sample_text_hold(&t->text);
    if (from < to)
        begin_text(t);
}

int prefix_tree_divide(struct prefix_tree *t, struct group g)
{
    size_t n_children = groups_divide(&t->draw, g);
    if (chooser_check(&t->chooser, t->ask->n_prompt + g.depth, &t->err) < 0)
        return t->err.status;
    t->err.status = add_children(t, &t->lines[0], n_children, &t->err);
    return t->err.status;
}

const float *prefix_tree_go(struct prefix_tree *t, struct shared_group to)
{
    struct timeline *line = &t->lines[0];
    if (to.g.depth == 0)
        return t->ask->first_logits;
    t->err.status = follow_path(t, line, to.path, to.g.depth, &t->err);
    return t->err.status == MGPT_OK ? mgpt_logits(line->session) : NULL;
}

/* Draws for all lines, then runs the next pass. Returns a status. */
static int run_round(struct prefix_tree *t)
{
    int status = MGPT_OK;
    for (size_t i = 0; i < t->n_lines && status == MGPT_OK; i++)
        if (t->lines[i].at.n > 0)
            status = draw_group(t, &t->lines[i], &t->err);
    if (status == MGPT_OK && prints_early(t))
        t->code = print_ended(t);
    if (status == MGPT_OK)
        status = share_work(t, &t->err);
    return status == MGPT_OK ? step_lines(t, &t->err) : status;
}

void prefix_tree_run(struct prefix_tree *t)
{
    do {
        t->err.status = run_round(t);
        if (prints_early(t) && t->err.status == MGPT_OK && t->code == EXIT_OK)
            show_live(t);
        t->code = t->code == EXIT_OK ? samples_stopped() : t->code;
    } while (t->n_busy > 0 && t->code == EXIT_OK && t->err.status == MGPT_OK);
}

void prefix_tree_print(struct prefix_tree *t)
{
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
    t->ask->n_full += t->text.n_full;
    t->text.n_full = 0;
    int is_done = t->code == EXIT_OK || lost->status < 0 || t->n_printed == t->end;
    return is_done ? t->code : print_rest(t, t->code);
}
