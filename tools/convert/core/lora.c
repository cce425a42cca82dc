/* Values of a matrix with a change of low rank. See lora.h. */
#include "convert/core/lora.h"

#include "base/error.h"
#include "base/mem.h"
#include "convert/core/readers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LORA_TILE = 256 }; /* values: whole blocks of every element type */

struct lora_tensor {
    struct ckpt_tensor base;
    struct lora_change change;
    struct row_cache {
        uint64_t row; /* the row of the change that `factor` is of; UINT64_MAX: none */
        double factor;
    } * last; /* DoRA: a row is asked for in pieces */
};

/* ---- values ---------------------------------------------------------------------------------- */

/* n values of W + s B A of row r of the change, from column `first` on; out has those of W. */
static void add_low_rank(const struct lora_tensor *l, uint64_t r, uint64_t first, size_t n,
                         double *out)
{
    const struct lora_change *change = &l->change;
    const float *b = change->b + r * change->rank, *a = change->a + first;
    double sum[LORA_TILE] = {0};
    for (uint64_t k = 0; k < change->rank; k++, a += l->base.dims[0])
        for (size_t i = 0; i < n; i++)
            sum[i] += (double)b[k] * (double)a[i];
    for (size_t i = 0; i < n; i++)
        out[i] += change->scale * sum[i];
}

/* DoRA: the magnitude over the norm of the whole row. */
static double row_factor(const struct lora_tensor *l, uint64_t r)
{
    double squares = 0, wide[LORA_TILE];
    float w[LORA_TILE];
    if (l->last->row == r)
        return l->last->factor;
    const uint64_t width = l->base.dims[0], start = (l->change.first + r) * width;
    for (uint64_t at = 0; at < width; at += LORA_TILE) {
        size_t n = width - at < LORA_TILE ? (size_t)(width - at) : LORA_TILE;
        ckpt_values(&l->base, start + at, n, w);
        for (size_t i = 0; i < n; i++)
            wide[i] = (double)w[i];
        add_low_rank(l, r, at, n, wide);
        for (size_t i = 0; i < n; i++)
            squares += wide[i] * wide[i];
    }
    *l->last = (struct row_cache){r, (double)l->change.magnitude[r] / sqrt(squares)};
    return l->last->factor;
}

/* n values of row r of the change, from column `first` on: in, those of W; out, those of W'. */
static void change_row(const struct lora_tensor *l, uint64_t r, uint64_t first, size_t n, float *v)
{
    double wide[LORA_TILE], factor = l->change.magnitude ? row_factor(l, r) : 1;
    for (size_t done = 0, now; done < n; done += now) {
        now = n - done < LORA_TILE ? n - done : LORA_TILE;
        for (size_t i = 0; i < now; i++)
            wide[i] = (double)v[done + i];
        add_low_rank(l, r, first + done, now, wide);
        for (size_t i = 0; i < now; i++)
            v[done + i] = (float)(l->change.magnitude ? factor * wide[i] : wide[i]);
    }
}

static void lora_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    const struct lora_tensor *l = t->source;
    const uint64_t width = t->dims[0];
    ckpt_values(&l->base, first, n, out);
    for (size_t done = 0; done < n;) {
        uint64_t row = (first + done) / width, column = (first + done) % width;
        size_t run = width - column < n - done ? (size_t)(width - column) : n - done;
        if (row >= l->change.first && row - l->change.first < l->change.n_rows)
            change_row(l, row - l->change.first, column, run, out + done);
        done += run;
    }
}

/* ---- changes --------------------------------------------------------------------------------- */

struct ckpt_tensor *lora_find(struct checkpoint *c, const char *name)
{
    for (size_t i = 0; i < arr_len(c->tensors); i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    return NULL;
}

void lora_change(struct checkpoint *c, struct ckpt_tensor *t, const struct lora_change *change)
{
    struct lora_tensor *l = ckpt_new(c, 1, sizeof *l);
    struct row_cache *last = ckpt_new(c, 1, sizeof *last);
    last->row = UINT64_MAX;
    *l = (struct lora_tensor){.base = *t, .change = *change, .last = last};
    t->type = dtype_find(DTYPE_F32);
    t->bytes = NULL;
    t->blocks = NULL;
    t->values = lora_values;
    t->source = l;
    t->at = 0;
}

float *lora_floats(struct checkpoint *c, const struct ckpt_tensor *t, int transposed)
{
    const uint64_t width = t->dims[0];
    ckpt_pushed(c, t->n_values <= SIZE_MAX / 8, SIZE_MAX);
    float *all = ckpt_new(c, (size_t)t->n_values, sizeof *all);
    ckpt_values(t, 0, (size_t)t->n_values, all);
    if (!transposed)
        return all;
    float *to = ckpt_new(c, (size_t)t->n_values, sizeof *to);
    for (uint64_t i = 0; i < t->n_values; i++)
        to[i % width * (t->n_values / width) + i / width] = all[i];
    return to;
}

void lora_check_rank(struct checkpoint *c, const char *name, uint64_t rank_a, uint64_t rank_b)
{
    if (rank_a != rank_b)
        ckpt_stop_tensor(c, name, "A has rank %llu, B has rank %llu", (unsigned long long)rank_a,
                         (unsigned long long)rank_b);
    if (rank_a < 1 || rank_a > LORA_MAX_RANK)
        ckpt_stop_tensor(c, name, "rank %llu, expected 1 to %d", (unsigned long long)rank_a,
                         LORA_MAX_RANK);
}

void lora_check_size(struct checkpoint *c, const char *name, const uint64_t found[2],
                     const uint64_t expected[2])
{
    if (found[0] == expected[0] && found[1] == expected[1])
        return;
    ckpt_stop_tensor(c, name,
                     "the adapter is of %llu x %llu, the model has %llu x %llu: another base",
                     (unsigned long long)found[0], (unsigned long long)found[1],
                     (unsigned long long)expected[0], (unsigned long long)expected[1]);
}

void lora_check_tied(struct checkpoint *c, const char *name, const char *to)
{
    int is_table = strcmp(to, "token_embd.weight") == 0, is_head = strcmp(to, "output.weight") == 0;
    if ((!is_table && !is_head) || lora_find(c, "output.weight"))
        return;
    ckpt_stop_tensor(c, name, "the model's head is the token table, and both would change");
}

const char *lora_name(const struct lora_adapter *adapter)
{
    const char *slash = strrchr(adapter->path, '/');
    return slash && slash[1] ? slash + 1 : adapter->path;
}

struct lora_run {
    struct checkpoint *c;
    const struct lora_adapter *adapter;
};

static void lora_read(void *arg)
{
    const struct lora_run *run = arg;
    char who[60];
    snprintf(who, sizeof who, "adapter %.40s", lora_name(run->adapter));
    ckpt_within(run->c, ckpt_copy(run->c, who, strlen(who)));
    if (run->adapter->config.data)
        lora_apply_peft(run->c, run->adapter);
    else if (gguf_sniff(run->adapter->weights) == MATCH_YES)
        lora_apply_gguf(run->c, run->adapter);
    else
        ckpt_stop_at(run->c, 0,
                     "not an adapter: expected a directory with adapter_config.json, or GGUF");
}

int lora_apply(struct checkpoint *c, const struct lora_adapter *adapter, mgpt_error *err)
{
    struct lora_run run = {c, adapter};
    return ckpt_run(c, lora_read, &run, err);
}
