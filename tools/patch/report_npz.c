/* The .npz form: tokens of the prompt that is changed (files.c knows the file by them), of both
 * prompts, and of each grid its values in float64 and what its axes are. */
#include "base/error.h"
#include "base/mem.h"
#include "patch/report.h"
#include "trace/trace_file.h"

#include <stdio.h>
#include <stdlib.h>

/* An array: ids or numbers; one is NULL. */
struct report_array {
    char name[64];
    const int32_t *ids;
    const double *numbers;
    unsigned n_dims;
    uint64_t dims[3];
};

enum { FIXED_ARRAYS = 8, GRID_ARRAYS = 6 };

static struct report_array npz_vector(const char *name, const int32_t *ids, const double *numbers,
                                      size_t n)
{
    struct report_array a = {.ids = ids, .numbers = numbers, .n_dims = 1, .dims = {n}};
    snprintf(a.name, sizeof a.name, "%s", name);
    return a;
}

/* z, z.layers, z.heads, z.positions; of pairs also z.stderr and z.p. */
static size_t list_grid(const struct sweep_grid *g, const struct pairs_grid *pairs,
                        struct report_array *to)
{
    static const char *const axes[] = {"layers", "heads", "positions"};
    int32_t *const sets[] = {g->layers, g->heads, g->positions};
    const int is_axis[] = {1, g->has_heads, g->positions[0] != SWEEP_EVERYWHERE};
    size_t n = 1;
    char name[64];
    to[0] = npz_vector(g->name, NULL, g->values, 0);
    to[0].n_dims = 0;
    for (int i = 0; i < 3; i++)
        if (is_axis[i]) {
            snprintf(name, sizeof name, "%s.%s", g->name, axes[i]);
            to[n++] = npz_vector(name, sets[i], NULL, arr_len(sets[i]));
            to[0].dims[to[0].n_dims++] = arr_len(sets[i]);
        }
    for (size_t i = 0; i < 2 && pairs; i++) {
        to[n] = to[0];
        to[n].numbers = i == 0 ? pairs->stderrs : pairs->p;
        snprintf(to[n++].name, sizeof to->name, "%s.%s", g->name, i == 0 ? "stderr" : "p");
    }
    return n;
}

static size_t list_arrays(const struct report *r, struct report_array *to)
{
    static const char *const tokens[] = {"clean_tokens", "corrupt_tokens"};
    _Static_assert(sizeof tokens / sizeof *tokens == N_RUNS, "a row each");
    const struct report_run *into = &r->runs[r->into];
    size_t n = 0;
    to[n++] = npz_vector("tokens", into->tokens, NULL, into->n_tokens);
    for (int i = 0; i < N_RUNS; i++)
        if (r->runs[i].tokens) {
            to[n++] = npz_vector(tokens[i], r->runs[i].tokens, NULL, r->runs[i].n_tokens);
            to[n++] =
                npz_vector(report_runs[i], NULL, r->pairs ? r->pairs->runs[i] : &r->runs[i].value,
                           r->pairs ? pairs_known(r->pairs) : 1);
        }
    if (r->why && r->why->tokens)
        to[n++] = npz_vector("without_token", NULL, r->why->tokens, r->why->n_prompt);
    if (r->why && r->why->coalitions) {
        to[n++] =
            npz_vector("coalitions", NULL, r->why->coalitions, (size_t)1 << r->why->n_segments);
        to[n++] = npz_vector("shapley", NULL, r->why->shapley, r->why->n_segments);
    }
    for (size_t i = 0; i < arr_len(r->grids); i++)
        n += list_grid(&r->grids[i], r->pairs ? &r->pairs->grids[i] : NULL, to + n);
    return n;
}

static void put_array(struct trace_file *f, size_t i, const struct report_array *a)
{
    uint64_t n = 1;
    for (unsigned j = 0; j < a->n_dims; j++)
        n *= a->dims[j];
    if (a->ids)
        trace_file_put_ids(f, i, a->ids, (size_t)n);
    else
        trace_file_put_doubles(f, i, a->numbers, (size_t)n);
}

static int write_arrays(const struct report_array *arrays, size_t n, const char *path,
                        mgpt_error *err)
{
    struct trace_file f;
    int status = MGPT_OK;
    trace_file_new(&f, TRACE_NPZ);
    for (size_t i = 0; i < n && status == MGPT_OK; i++)
        status = trace_file_add(&f, arrays[i].name, arrays[i].ids ? TRACE_I64 : TRACE_F64,
                                arrays[i].n_dims, arrays[i].dims, 1, err);
    if (status == MGPT_OK)
        status = trace_file_plan(&f, err);
    if (status == MGPT_OK)
        status = trace_file_open(&f, path, err);
    for (size_t i = 0; i < n && status == MGPT_OK; i++)
        put_array(&f, i, &arrays[i]);
    if (status == MGPT_OK)
        status = trace_file_commit(&f, err);
    trace_file_discard(&f);
    return status;
}

int report_npz(const struct report *r, const char *path, mgpt_error *err)
{
    size_t room = FIXED_ARRAYS + GRID_ARRAYS * arr_len(r->grids);
    struct report_array *arrays = mem_new(room, sizeof *arrays);
    if (!arrays)
        return err_memory(err, "the list of arrays", room * sizeof *arrays);
    int status = write_arrays(arrays, list_arrays(r, arrays), path, err);
    free(arrays);
    return status;
}
