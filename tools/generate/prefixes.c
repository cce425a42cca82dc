/* Samples that share passes. See prefixes.h; prefix_tree.c draws and runs.
 *
 * Samples are taken in blocks, to bound memory. A model whose passes are too small for threads has
 * a tree per thread, each with its part of the block's samples.
 */
#include "generate/prefixes.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/threads.h"
#include "generate/prefix_tree.h"

#include <stdlib.h>

enum {
    TIMELINES = 48,
    BLOCK_BYTES = 64 << 20,  /* most memory of a block of samples */
    SESSION_BYTES = 1 << 30, /* of all caches, with the default number of timelines */
    BLOCK_GROWTH = 32,
    SAMPLES_WORTH_A_TREE = 256
};

/* ---- making and freeing ---- */

static size_t line_count(const struct samples *s, size_t longest)
{
    size_t most = (size_t)s->batch;
    if (most == 0) {
        uint64_t each = longest * s->engine->info.kv_bytes + 1; /* the prompt's are shared */
        most = SESSION_BYTES / each < TIMELINES ? (size_t)(SESSION_BYTES / each) : TIMELINES;
    }
    most = most > 0 ? most : 1;
    return (size_t)s->n < most ? (size_t)s->n : most;
}

/* Bytes of a sample in a block besides its text. */
enum { SAMPLE_BYTES = GROUPS_SAMPLE_BYTES + sizeof(uint32_t) };

/* Makes room for a block of n samples. A status. */
static int block_room(struct prefix_tree *t, size_t n, mgpt_error *err)
{
    t->n = n;
    if (n <= t->room)
        return MGPT_OK;
    free(t->result);
    t->result = mem_new(n, sizeof *t->result);
    t->room = n;
    return t->result ? groups_room(&t->draw, n, err)
                     : err_memory(err, "the samples", n * SAMPLE_BYTES);
}

static int open_line(struct prefix_tree *t, struct timeline *line, mgpt_error *err)
{
    struct engine *engine = t->ask->engine;
    line->path = mem_new(t->longest, sizeof *line->path);
    line->marks = mem_new(t->longest + 1, sizeof *line->marks);
    if (!line->path || !line->marks)
        return err_memory(err, "the samples", (t->longest + 1) * sizeof *line->marks);
    text_out_open(&line->text, engine->model, NULL);
    for (size_t i = 0; i < t->ask->n_prompt; i++)
        text_out_token(&line->text, t->ask->prompt[i], t->ask->no_prompt);
    line->marks[0] = text_out_mark(&line->text);
    line->session = engine_fork(engine, engine->session, err);
    return line->session ? MGPT_OK : err->status;
}

static int tree_open(struct prefix_tree *t, mgpt_error *err)
{
    t->lines = mem_new(t->n_lines, sizeof *t->lines);
    t->stepped = mem_new(t->n_lines, sizeof *t->stepped);
    t->step = mem_new(t->n_lines, sizeof *t->step);
    if (!t->lines || !t->stepped || !t->step || !arr_reserve(t->results, BLOCK_BYTES >> 10))
        return err_memory(err, "the samples", t->n_lines * sizeof *t->lines);
    int status = groups_open(&t->draw, engine_n_choices(t->ask->engine), err);
    for (size_t i = 0; status == MGPT_OK && i < t->n_lines; i++)
        status = open_line(t, &t->lines[i], err);
    return status;
}

static void tree_free(struct prefix_tree *t)
{
    for (size_t i = 0; t->lines && i < t->n_lines; i++) {
        struct timeline *line = &t->lines[i];
        text_out_close(&line->text);
        arr_free(line->waiting);
        free(line->path);
        free(line->marks);
        mgpt_session_free(line->session);
    }
    sample_text_close(&t->text);
    groups_free(&t->draw);
    free(t->result);
    arr_free(t->results);
    free(t->lines);
    free(t->stepped);
    free(t->step);
}

static void run_tree(void *trees, int worker, int n_workers)
{
    (void)n_workers;
    prefix_tree_run((struct prefix_tree *)trees + worker);
}

/* Shares n samples from number `first` among the trees and runs them. */
static int run_trees(struct prefix_tree *trees, struct pool *pool, uint64_t first, size_t n)
{
    int n_trees = pool_size(pool), code = EXIT_OK;
    for (int i = 0; i < n_trees; i++) {
        mgpt_error err;
        size_t from, to;
        pool_split(n, i, n_trees, &from, &to);
        trees[i].first = first + from;
        trees[i].prints = n_trees == 1;
        trees[i].holds = i > 0;
        if (block_room(&trees[i], to - from, &err) < 0)
            return cli_fail(NULL, &err);
    }
    pool_run(pool, run_tree, trees);
    for (int i = 0; i < n_trees && code == EXIT_OK; i++)
        code = prefix_tree_end(&trees[i]);
    return code;
}

/* Small blocks come first: a sample is printed when those before it have ended. A block expects as
 * many bytes of text per sample as the one before had: a larger block has fewer. */
static int run_blocks(struct prefix_tree *trees, struct pool *pool)
{
    const struct samples *ask = trees->ask;
    const struct prefix_tree *last = trees + pool_size(pool) - 1; /* holds what it prints */
    size_t left = (size_t)ask->n, least = trees->n_lines * (size_t)pool_size(pool), n = least;
    uint64_t first = ask->first;
    int code = EXIT_OK;
    while (code == EXIT_OK && left > 0) {
        n = left < n ? left : n;
        code = run_trees(trees, pool, first, n);
        left -= n;
        first += n;
        /* twice the text: its array grows by doubling */
        size_t text_bytes = 2 * arr_len(trees->results) + arr_cap(last->text.out.buffer);
        size_t most = BLOCK_BYTES / (SAMPLE_BYTES + text_bytes / trees->n + 1);
        most = most > least ? most : least;
        n = n * BLOCK_GROWTH < most ? n * BLOCK_GROWTH : most;
    }
    return code;
}

/* Threads that help: one for each tree. */
static int tree_count(const struct samples *s)
{
    const struct engine *engine = s->engine;
    if (engine->info.bytes_per_token >= POOL_WORTH_SPLITTING || engine->check_finite)
        return 1;
    int n = engine->n_threads > 0 ? engine->n_threads : pool_cores();
    return n < s->n / SAMPLES_WORTH_A_TREE ? n : s->n / SAMPLES_WORTH_A_TREE + 1;
}

int prefixes_run(struct samples *s)
{
    size_t room = mgpt_n_ctx(s->engine->session) - samples_seen(s) + 1;
    size_t longest = s->n_predict >= 0 && (size_t)s->n_predict < room ? (size_t)s->n_predict : room;
    mgpt_error err = {0};
    int n_trees = tree_count(s), code = EXIT_OK;
    struct prefix_tree *trees = mem_new((size_t)n_trees, sizeof *trees);
    struct pool *pool = pool_new(n_trees, &err);
    for (int i = 0; trees && pool && i < n_trees && err.status == MGPT_OK; i++) {
        trees[i] =
            (struct prefix_tree){.ask = s, .longest = longest, .n_lines = line_count(s, longest)};
        sample_text_open(&trees[i].text, s);
        tree_open(&trees[i], &err);
    }
    if (!trees)
        err_memory(&err, "the samples", (size_t)n_trees * sizeof *trees);
    code = err.status < 0 ? cli_fail(NULL, &err) : run_blocks(trees, pool);
    for (int i = 0; trees && i < n_trees; i++)
        tree_free(&trees[i]);
    pool_free(pool);
    free(trees);
    return code;
}
