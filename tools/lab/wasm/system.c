/* What a web page has not: threads, files, advice to a system about its memory, a clock. In place of
 * background.c, threads.c, file.c, mem_pages.c and tune.c of the library. A model is opened from memory
 * (mgpt_open_bytes).
 */
#include "base/background.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/threads.h"
#include "model/model.h"

/* ---- one worker: the caller ---- */

struct pool *pool_new(int n_threads, mgpt_error *err)
{
    err_set(err, MGPT_EMEM, MGPT_NO_OFFSET, "%d threads: a page has one", n_threads);
    return NULL;
}

void pool_free(struct pool *pool)
{
    (void)pool;
}

int pool_cores(char *why, size_t cap)
{
    if (why)
        text_format(why, cap, "a page has one");
    return 1;
}

int pool_size(const struct pool *pool)
{
    (void)pool;
    return 1;
}

void pool_run(struct pool *pool, pool_fn *fn, void *ctx)
{
    (void)pool;
    fn(ctx, 0, 1);
}

void pool_run_sized(struct pool *pool, size_t bytes, pool_fn *fn, void *ctx)
{
    (void)bytes;
    pool_run(pool, fn, ctx);
}

int pool_free_slot(const struct pool *pool)
{
    (void)pool;
    return 0;
}

void pool_deal(struct pool *pool, const struct pool_units *job)
{
    (void)pool;
    job->fn(job->ctx, 0, 0, job->n);
}

void pool_wake(struct pool *pool)
{
    (void)pool;
}

/* ---- no files ---- */

int file_open(struct file *file, const char *path, mgpt_error *err)
{
    *file = (struct file){0};
    return err_set(err, MGPT_EIO, MGPT_NO_OFFSET, "%s: a page has no files", path);
}

int file_open_partly(struct file *file, const char *path, size_t n, mgpt_error *err)
{
    (void)n;
    return file_open(file, path, err);
}

int file_open_parts(struct file *file, file_part_path *path, void *user, size_t n_parts, size_t n,
                    mgpt_error *err)
{
    (void)path;
    (void)user;
    (void)n_parts;
    (void)n;
    return file_open(file, "a model", err);
}

int file_open_unread(struct file *file, const char *path, mgpt_error *err)
{
    return file_open(file, path, err);
}

void file_close(struct file *file)
{
    *file = (struct file){0};
}

int file_load(const struct file *file, uint64_t offset, size_t n, mgpt_error *err)
{
    (void)file;
    (void)offset;
    (void)n;
    (void)err;
    return MGPT_OK;
}

int file_read(const struct file *file, uint64_t offset, size_t n, void *to, mgpt_error *err)
{
    (void)file;
    (void)n;
    (void)to;
    return err_set(err, MGPT_EIO, offset, "a page has no files");
}

/* ---- no pages of memory ---- */

void mem_hint_huge(const void *p, size_t n)
{
    (void)p;
    (void)n;
}

void mem_drop(void *p, size_t n)
{
    (void)p;
    (void)n;
}

/* ---- no background ---- */

struct background *background_new(void)
{
    return NULL;
}

int background_start(struct background *background, background_fn *fn, void *ctx)
{
    (void)background;
    (void)fn;
    (void)ctx;
    return 0;
}

void background_free(struct background *background)
{
    (void)background;
}

void background_wait(struct background *background, const atomic_size_t *done, size_t at)
{
    (void)background;
    (void)done;
    (void)at;
}

void background_tell(struct background *background)
{
    (void)background;
}

/* ---- no clock ---- */

void model_tune(mgpt_model *m, int n_threads)
{
    (void)m;
    (void)n_threads;
}
