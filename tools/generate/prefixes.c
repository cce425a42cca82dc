/* Samples that share passes. See prefixes.h; prefix_tree.c draws and runs.
 *
 * Samples are taken in blocks, to bound memory. A model whose passes are too small for threads has
 * a tree per thread. Together they draw the first tokens, until no group has more than a part of the
 * samples; then each takes one group after the other, so no prefix has two passes.
 */
#include "generate/prefixes.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/threads.h"
#include "generate/prefix_tree.h"

#include <stdlib.h>
#include <string.h>

enum {
    TIMELINES = 48,
    FEW_TIMELINES = 8,       /* of a model too small for threads: their caches stay in L1 and L2 */
    BLOCK_BYTES = 64 << 20,  /* most memory of a block of samples */
    SESSION_BYTES = 1 << 30, /* of all caches, with the default number of timelines */
    BLOCK_GROWTH = 32,
    SAMPLES_WORTH_A_TREE = 256,
    GROUPS_PER_TREE = 4 /* a group with a larger part of a block is divided for all trees */
};

/* ---- making and freeing ---- */

/* 1: the passes of one thread are all that is worth having. */
static int is_small(const struct samples *s)
{
    return s->engine->info.bytes_per_token < POOL_WORTH_SPLITTING;
}

static size_t line_count(const struct samples *s, size_t longest)
{
    size_t most = (size_t)s->batch;
    if (most == 0) {
        uint64_t each = longest * s->engine->info.kv_bytes + 1; /* the prompt's are shared */
        most = is_small(s) ? FEW_TIMELINES : TIMELINES;
        most = SESSION_BYTES / each < most ? (size_t)(SESSION_BYTES / each) : most;
    }
    most = most > 0 ? most : 1;
    return (size_t)s->n < most ? (size_t)s->n : most;
}

/* Bytes of a sample in a block besides its text. */
enum { SAMPLE_BYTES = GROUPS_SAMPLE_BYTES + sizeof(uint32_t) };

/* Makes room for n samples. Returns a status. */
static int block_room(struct prefix_block *b, size_t n, mgpt_error *err)
{
    b->n = n;
    if (n <= b->room)
        return MGPT_OK;
    free(b->result);
    b->result = mem_large(n, sizeof *b->result);
    b->room = n;
    return b->result ? draw_samples_room(&b->samples, n, err)
                     : err_memory(err, "the samples", n * SAMPLE_BYTES);
}

static int open_line(struct prefix_tree *t, struct timeline *line, const mgpt_session *prompt,
                     mgpt_error *err)
{
    struct engine *engine = t->ask->engine;
    size_t before = t->chooser.is_on ? t->ask->n_prompt : 0;
    line->history = mem_new(before + t->longest, sizeof *line->history);
    line->marks = mem_new(t->longest + 1, sizeof *line->marks);
    if (!line->history || !line->marks)
        return err_memory(err, "the samples", (t->longest + 1) * sizeof *line->marks);
    memcpy(line->history, t->ask->prompt, before * sizeof *line->history);
    line->path = line->history + before;
    text_out_open(&line->text, engine->model, NULL);
    samples_put_prompt(t->ask, &line->text);
    text_out_drawn(&line->text, t->ask->stops);
    line->marks[0] = text_out_mark(&line->text);
    line->session = engine_fork(engine, prompt, err);
    return line->session ? MGPT_OK : err->status;
}

static int tree_open(struct prefix_tree *t, const mgpt_session *prompt, mgpt_error *err)
{
    t->lines = mem_new(t->n_lines, sizeof *t->lines);
    t->stepped = mem_new(t->n_lines, sizeof *t->stepped);
    t->step = mem_new(t->n_lines, sizeof *t->step);
    if (!t->lines || !t->stepped || !t->step || !arr_reserve(t->results, BLOCK_BYTES >> 10))
        return err_memory(err, "the samples", t->n_lines * sizeof *t->lines);
    int status = groups_open(&t->draw, &t->block->samples, engine_n_choices(t->ask->engine), err);
    if (status == MGPT_OK)
        status = chooser_open(&t->chooser, &t->ask->sampling->rules, err);
    chooser_begin(&t->chooser, t->ask->n_prompt, 0);
    for (size_t i = 0; status == MGPT_OK && i < t->n_lines; i++)
        status = open_line(t, &t->lines[i], prompt, err);
    return status;
}

static void tree_free(struct prefix_tree *t)
{
    for (size_t i = 0; t->lines && i < t->n_lines; i++) {
        struct timeline *line = &t->lines[i];
        text_out_close(&line->text);
        arr_free(line->waiting);
        free(line->history);
        free(line->marks);
        mgpt_session_free(line->session);
    }
    sample_text_close(&t->text);
    groups_free(&t->draw);
    chooser_close(&t->chooser);
    arr_free(t->results);
    free(t->lines);
    free(t->stepped);
    free(t->step);
}

static void block_free(struct prefix_block *b)
{
    for (size_t i = 0; b->trees && i < b->n_trees; i++)
        tree_free(&b->trees[i]);
    draw_samples_free(&b->samples);
    free(b->result);
    free(b->trees);
    arr_free(b->shared);
}

/* ---- what all trees draw together ---- */

static void begin_part(void *block, int worker, int n_workers)
{
    struct prefix_block *b = block;
    size_t from, to;
    pool_split(b->n, worker, n_workers, &from, &to);
    for (size_t i = from; i < to; i++) {
        b->samples.order[0].rng[i] = sampling_of_sample(b->ask->sampling, b->first + i).rng;
        b->samples.order[0].number[i] = (uint32_t)i;
        b->result[i] = 0;
    }
}

struct common_draw {
    struct prefix_block *block;
    struct group g;
    const float *logits;
};

static void draw_part(void *ctx, int worker, int n_workers)
{
    const struct common_draw *d = ctx;
    size_t from, to;
    pool_split(d->g.n, worker, n_workers, &from, &to);
    struct group part = {d->g.token, d->g.depth, d->g.from + (uint32_t)from, (uint32_t)(to - from)};
    struct prefix_tree *t = &d->block->trees[worker];
    mgpt_sampler sampler;
    if (prefix_tree_sampler(t, &d->block->trees[0].lines[0], d->g.depth, &sampler) == MGPT_OK)
        groups_draw_part(&t->draw, part, &sampler, d->logits);
}

/* All threads draw for a group, whose children wait at the first line. Returns a status. */
static int draw_together(struct prefix_block *b, struct pool *pool, struct shared_group s)
{
    struct common_draw draw = {b, s.g, prefix_tree_go(b->trees, s)};
    if (!draw.logits)
        return b->trees->err.status;
    pool_run(pool, draw_part, &draw);
    for (size_t i = 0; i < b->n_trees; i++)
        if (b->trees[i].err.status < 0)
            return b->trees[i].err.status;
    return prefix_tree_divide(b->trees, s.g);
}

/* Draws the samples of a group with draw_together and makes shared groups of its children. */
static int draw_and_share(struct prefix_block *b, struct pool *pool, struct shared_group s)
{
    struct timeline *line = &b->trees->lines[0];
    int status = draw_together(b, pool, s);
    for (; status == MGPT_OK && arr_len(line->waiting) > 0;
         arr_set_len(line->waiting, arr_len(line->waiting) - 1)) {
        s.g = line->waiting[arr_len(line->waiting) - 1];
        s.path[s.g.depth - 1] = s.g.token;
        if (!arr_push(b->shared, s))
            status = err_memory(&b->trees->err, "the samples' texts", sizeof s);
    }
    return status;
}

static int larger_group_first(const void *a, const void *b)
{
    const struct shared_group *x = a, *y = b;
    return x->g.n != y->g.n ? (x->g.n < y->g.n ? 1 : -1) : x->g.from < y->g.from ? -1 : 1;
}

/* Divides groups until there are enough of similar size; for one tree only the first. Returns a status. */
static int draw_first_tokens(struct prefix_block *b, struct pool *pool)
{
    size_t most = b->n / (GROUPS_PER_TREE * b->n_trees);
    struct shared_group root = {.g.n = (uint32_t)b->n};
    if (b->n_trees == 1)
        return draw_together(b, pool, root);
    int status = draw_and_share(b, pool, root);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(b->shared);) {
        struct shared_group s = b->shared[i];
        if (s.g.n <= most || s.g.depth == SHARED_DEPTH) {
            i++;
            continue;
        }
        b->shared[i] = b->shared[arr_len(b->shared) - 1];
        arr_set_len(b->shared, arr_len(b->shared) - 1);
        status = draw_and_share(b, pool, s);
    }
    if (arr_len(b->shared) > 1)
        qsort(b->shared, arr_len(b->shared), sizeof *b->shared, larger_group_first);
    return status;
}

/* ---- blocks ---- */

static void run_tree(void *block, int worker, int n_workers)
{
    (void)n_workers;
    prefix_tree_run(((struct prefix_block *)block)->trees + worker);
}

static void print_tree(void *block, int worker, int n_workers)
{
    (void)n_workers;
    prefix_tree_print(((struct prefix_block *)block)->trees + worker);
}

/* Copies the error of the first tree that failed to tree 0, which prints what is complete and then the
 * error. */
static void gather(struct prefix_block *b)
{
    struct prefix_tree *first = b->trees;
    for (size_t i = 0; i < b->n_trees; i++) {
        struct prefix_tree *t = &b->trees[i];
        if (first->err.status == MGPT_OK && t->err.status < 0)
            first->err = t->err;
        first->code = first->code == EXIT_OK ? t->code : first->code;
        b->ask->n_drawn += t->n_drawn;
        t->n_drawn = 0;
    }
}

/* Runs n samples from number `first` on. Returns an exit code. */
static int run_block(struct prefix_block *b, struct pool *pool, uint64_t first, size_t n)
{
    mgpt_error err;
    int code = EXIT_OK;
    if (block_room(b, n, &err) < 0)
        return cli_fail(NULL, &err);
    b->first = first;
    if (b->shared)
        arr_set_len(b->shared, 0);
    atomic_store(&b->n_taken, 0);
    pool_run(pool, begin_part, b);
    for (size_t i = 0; i < b->n_trees; i++) {
        size_t from, to;
        pool_split(n, (int)i, (int)b->n_trees, &from, &to);
        prefix_tree_begin(&b->trees[i], from, to);
    }
    if (draw_first_tokens(b, pool) == MGPT_OK)
        pool_run(pool, run_tree, b);
    gather(b);
    pool_run(pool, print_tree, b);
    for (size_t i = 0; i < b->n_trees && code == EXIT_OK; i++)
        code = prefix_tree_end(&b->trees[i]);
    return code;
}

/* Bytes of the block's texts: as they were ended with, and as they are held until they are printed. */
static size_t text_bytes(const struct prefix_block *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_trees; i++)
        n += 2 * arr_len(b->trees[i].results) + arr_cap(b->trees[i].text.out.buffer);
    return n; /* twice the text: its array grows by doubling */
}

/* Small blocks come first: a sample is printed when those before it have ended. A block expects as
 * many bytes of text per sample as the one before had: a larger block has fewer. */
static int run_blocks(struct prefix_block *b, struct pool *pool)
{
    size_t left = (size_t)b->ask->n, least = b->trees->n_lines * b->n_trees, n = least;
    uint64_t first = b->ask->first;
    int code = EXIT_OK;
    while (code == EXIT_OK && left > 0) {
        n = left < n ? left : n;
        code = run_block(b, pool, first, n);
        left -= n;
        first += n;
        size_t most = BLOCK_BYTES / (SAMPLE_BYTES + text_bytes(b) / b->n + 1);
        most = most > least ? most : least;
        n = n * BLOCK_GROWTH < most ? n * BLOCK_GROWTH : most;
    }
    return code;
}

/* Threads that help: one for each tree. */
static int tree_count(const struct samples *s)
{
    const struct engine *engine = s->engine;
    if (!is_small(s) || engine->check_finite)
        return 1;
    int n = engine->n_threads > 0 ? engine->n_threads : pool_cores(NULL, 0);
    return n <= s->n / SAMPLES_WORTH_A_TREE ? n : s->n / SAMPLES_WORTH_A_TREE + 1;
}

static int block_open(struct prefix_block *b, const mgpt_session *prompt, mgpt_error *err)
{
    size_t room = mgpt_n_ctx(prompt) - samples_seen(b->ask) + 1;
    int32_t most = b->ask->n_predict;
    size_t again =
        b->ask->heal ? b->ask->heal->n_bytes : 0; /* most tokens that -n does not count */
    size_t longest = most >= 0 && (size_t)most + again < room ? (size_t)most + again : room;
    b->trees = mem_new(b->n_trees, sizeof *b->trees);
    if (!b->trees)
        return err_memory(err, "the samples", b->n_trees * sizeof *b->trees);
    int status = MGPT_OK;
    for (size_t i = 0; i < b->n_trees && status == MGPT_OK; i++) {
        b->trees[i] = (struct prefix_tree){
            .ask = b->ask, .block = b, .longest = longest, .n_lines = line_count(b->ask, longest)};
        sample_text_open(&b->trees[i].text, b->ask);
        status = tree_open(&b->trees[i], prompt, err);
    }
    return status;
}

static int run_after(struct samples *s, int n_trees, const mgpt_session *prompt)
{
    struct prefix_block b = {.ask = s, .n_trees = (size_t)n_trees};
    mgpt_error err;
    struct pool *pool = n_trees > 1 ? pool_new(n_trees, &err) : NULL;
    int is_alone = n_trees > 1 && !pool &&
                   s->engine->n_threads == 0; /* the number of threads is ours to choose */
    if (is_alone)
        b.n_trees = 1;
    int failed = (n_trees > 1 && !pool && !is_alone) || block_open(&b, prompt, &err) < 0;
    int code = failed ? cli_fail(NULL, &err) : run_blocks(&b, pool);
    block_free(&b);
    pool_free(pool);
    return code;
}

/* A fork has as many threads as its origin. Timelines of several trees need one each, so they are
 * forks of a session with one. */
int prefixes_run(struct samples *s)
{
    struct engine *engine = s->engine;
    int n_trees = tree_count(s);
    if (n_trees == 1 || mgpt_n_threads(engine->session) == 1)
        return run_after(s, n_trees, engine->session);
    mgpt_session *prompt;
    int code = engine_new_session(engine, 1, &prompt);
    if (code != EXIT_OK)
        return code;
    code = engine_sync(engine, prompt, s->prompt + s->n_before, samples_seen(s));
    if (code == EXIT_OK)
        code = run_after(s, n_trees, prompt);
    mgpt_session_free(prompt);
    return code;
}
