/* See importance.h. */
#include "convert/core/importance.h"

#include "base/cursor.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MOST = 4096, NAME_BYTES = 128 };

static const char suffix[] = ".in_sum2";

struct weigh_run {
    struct checkpoint *c;
    struct span bytes;
    struct gguf g;
    size_t n_found, n_others; /* entries with a matrix, and those without */
};

/* The checkpoint's matrix of n bytes' name; NULL, counted, if there is none. */
static struct ckpt_tensor *find_matrix(struct weigh_run *r, const char *name, size_t n)
{
    for (size_t i = 0; i < arr_len(r->c->tensors); i++) {
        struct ckpt_tensor *t = &r->c->tensors[i];
        if (strlen(t->name) == n && memcmp(t->name, name, n) == 0) {
            r->n_found++;
            return t;
        }
    }
    r->n_others++;
    return NULL;
}

/* Value i of little-endian floats at p: finite and not negative. */
static float importance_at(struct weigh_run *r, const char *name, const uint8_t *p, uint64_t i)
{
    struct cursor at = cursor_over(p + 4 * i, 4);
    float v = cursor_f32(&at);
    if (!(v >= 0) || !isfinite(v))
        ckpt_stop_tensor(r->c, name, "value %llu is %g, expected 0 or more", (unsigned long long)i,
                         (double)v);
    return v;
}

/* Sets the means of a matrix: n sums at p; a count for each of its parts, or one for all, at `counts`,
 * or `calls` where that is NULL. A part that was never used has columns that are equal. */
static void set_means(struct weigh_run *r, struct ckpt_tensor *t, const uint8_t *p, uint64_t n,
                      const uint8_t *counts, uint64_t n_counts, float calls)
{
    uint64_t n_parts = t->n_dims > 2 ? t->dims[2] : 1, width = t->dims[0];
    if (n != width * n_parts || (counts && n_counts != 1 && n_counts != n_parts))
        ckpt_stop_tensor(r->c, t->name,
                         "%llu sums and %llu counts, expected %llu columns of %llu matrices",
                         (unsigned long long)n, (unsigned long long)n_counts,
                         (unsigned long long)width, (unsigned long long)n_parts);
    float *means = ckpt_new(r->c, (size_t)n, sizeof *means);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t part = n_counts == n_parts ? i / width : 0;
        float count = counts ? importance_at(r, t->name, counts, part) : calls;
        float mean =
            importance_at(r, t->name, p, i) / (count > 1 ? count : 1); /* a count is no fraction */
        means[i] = counts && !(count > 0) ? 1 : mean;
    }
    t->importance = means;
}

static void weigh_gguf(struct weigh_run *r)
{
    char name[NAME_BYTES];
    for (size_t i = 0; i < arr_len(r->g.tensors); i++) {
        const struct gguf_tensor *sums = &r->g.tensors[i];
        size_t n = strlen(sums->name), end = sizeof suffix - 1;
        if (n <= end || n >= sizeof name || strcmp(sums->name + n - end, suffix) != 0)
            continue;
        struct ckpt_tensor *t = find_matrix(r, sums->name, n - end);
        snprintf(name, sizeof name, "%.*s.counts", (int)(n - end), sums->name);
        const struct gguf_tensor *counts = gguf_tensor(&r->g, name);
        if (!counts || counts->type->id != DTYPE_F32 || sums->type->id != DTYPE_F32)
            ckpt_stop_tensor(r->c, sums->name, "expected F32, with %s in F32", name);
        if (t)
            set_means(r, t, sums->data, sums->n_values, counts->data, counts->n_values, 0);
    }
}

static void weigh_old(struct weigh_run *r)
{
    struct cursor at = cursor_over(r->bytes.data, r->bytes.size);
    uint32_t n_entries = cursor_u32(&at);
    for (uint32_t i = 0; i < n_entries && !at.failed; i++) {
        uint32_t n_name = cursor_u32(&at);
        const char *name = (const char *)cursor_take(&at, n_name);
        int32_t calls = cursor_i32(&at);
        uint32_t n = cursor_u32(&at);
        const uint8_t *sums = cursor_take(&at, 4 * (uint64_t)n);
        if (!sums || n_name < 1 || n_name > NAME_MOST || calls < 0)
            break;
        struct ckpt_tensor *t = find_matrix(r, name, n_name);
        if (t)
            set_means(r, t, sums, n, NULL, 0, (float)calls);
        if (i + 1 == n_entries)
            return;
    }
    ckpt_stop_at(r->c, at.failed ? at.where : at.pos,
                 "not an importance matrix: expected entries, each a name and its sums");
}

static void weigh_tensors(void *arg)
{
    struct weigh_run *r = arg;
    ckpt_within(r->c, "--imatrix");
    if (r->bytes.size >= 4 && memcmp(r->bytes.data, "GGUF", 4) == 0) {
        ckpt_must(r->c, gguf_parse(&r->g, r->bytes.data, r->bytes.size, r->c->err));
        weigh_gguf(r);
    } else {
        weigh_old(r);
    }
    if (!r->n_found)
        ckpt_stop(r->c,
                  r->n_others ? "it is of another model: no matrix has one of its %zu names"
                              : "not an importance matrix: it has %zu tensors NAME.in_sum2",
                  r->n_others);
    ckpt_note(r->c, "%zu matrices are rounded by importance", r->n_found);
}

int ckpt_weigh(struct checkpoint *c, struct span bytes, mgpt_error *err)
{
    struct weigh_run r = {.c = c, .bytes = bytes};
    int status = ckpt_run(c, weigh_tensors, &r, err);
    gguf_free(&r.g);
    return status;
}

void ckpt_encode(const struct ckpt_tensor *t, const struct dtype *type, uint64_t first, size_t n,
                 const float *values, uint8_t *out)
{
    if (!t->importance || !type->from_float_weighted) {
        type->from_float(values, out, n);
        return;
    }
    uint64_t width = t->dims[0], of_part = t->n_dims > 2 ? width * t->dims[1] : t->n_values;
    for (size_t done = 0, some; done < n; done += some) { /* the rest of a row at a time */
        uint64_t i = first + done, column = i % width;
        some = n - done < width - column ? n - done : (size_t)(width - column);
        type->from_float_weighted(values + done, t->importance + i / of_part * width + column,
                                  out + done / type->block * type->block_bytes, some);
    }
}
