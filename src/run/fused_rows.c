/* The fused path: describes the rows of a pass and runs them in one call (fused.h). The call is the
 * second compilation of page.inc. Taps of the pass see logits only. */
#include "base/mem.h"
#include "page/fused.h"
#include "run/session.h"

#include <string.h>

enum { ROWS_AT_A_TIME = 24 }; /* a multiple of the kernel's rows per tile */

static struct fused_row fused_row_at(const mgpt_session *s, int32_t token, size_t pos,
                                     float *logits)
{
    const struct fused_model *fused = s->model->fused;
    size_t t = (size_t)token, E = fused->widths.E;
    const float *table = fused->first_qkv;
    return (struct fused_row){
        .first_qkv = table ? table + (t * fused->n_ctx + pos) * fused->n_first_qkv : NULL,
        .token = fused->tokens + t * E,
        .position = fused->positions ? fused->positions + pos * E : NULL,
        .pos = pos,
        .k = s->kv.own->k,
        .v = s->kv.own->v,
        .logits = logits};
}

/* Rows that wait for the next call. */
struct fused_rows {
    const struct fused_model *fused;
    const struct scratch *scratch; /* of one session, for scores */
    size_t n;
    struct fused_row at[ROWS_AT_A_TIME];
};

static inline void rows_begin(struct fused_rows *rows, const mgpt_model *m,
                              const struct scratch *scratch)
{
    rows->fused = m->fused;
    rows->scratch = scratch;
    rows->n = 0; /* the rows themselves are not set: there are up to 24 for one token */
}

/* Runs the rows through the model. */
static inline void rows_run(struct fused_rows *rows)
{
    const struct scratch *s = rows->scratch;
    if (rows->n > 0)
        rows->fused->kernels->step(rows->fused, rows->at, rows->n, s->scores, s->score_stride,
                                   s->work);
    rows->n = 0;
}

static inline void rows_add(struct fused_rows *rows, const mgpt_session *s, int32_t token,
                            size_t pos, float *logits)
{
    rows->at[rows->n++] = fused_row_at(s, token, pos, logits);
    if (rows->n == ROWS_AT_A_TIME)
        rows_run(rows);
}

void fused_one(mgpt_session *s, int32_t token)
{
    struct fused_rows rows;
    rows_begin(&rows, s->model, &s->scratch);
    rows_add(&rows, s, token, arr_len(s->tokens), s->spare);
    rows_run(&rows);
}

void fused_tokens(mgpt_session *s, const int32_t *tokens, size_t n)
{
    struct fused_rows rows;
    rows_begin(&rows, s->model, &s->scratch);
    for (size_t i = 0; i < n; i++)
        rows_add(&rows, s, tokens[i], arr_len(s->tokens) + i, i + 1 == n ? s->spare : NULL);
    rows_run(&rows);
}

void fused_many(mgpt_session *const *sessions, const int32_t *tokens, size_t n)
{
    struct fused_rows rows;
    rows_begin(&rows, sessions[0]->model, &sessions[0]->scratch);
    for (size_t i = 0; i < n; i++)
        rows_add(&rows, sessions[i], tokens[i], arr_len(sessions[i]->tokens), sessions[i]->spare);
    rows_run(&rows);
}

void fused_forward(pass *p)
{
    struct fused_rows rows;
    size_t V = p->logits.cols, room = panels_of(V) * PANEL;
    float *logits = p->logits.at;
    rows_begin(&rows, p->model, p->s);
    for (size_t i = 0; i < p->n_segments; i++) {
        const struct segment *seg = &p->segments[i];
        const mgpt_session *s = seg->session;
        for (size_t j = 0; j < seg->n; j++) {
            int seen = j + seg->n_out >= seg->n;
            rows_add(&rows, s, s->tokens[seg->pos + j], seg->pos + j, seen ? logits : NULL);
            if (seen) /* there may be none at all, and NULL + 0 is undefined */
                logits += room;
        }
    }
    rows_run(&rows);
    for (size_t i = 1; i < p->n_out; i++)
        memmove(p->logits.at + i * V, p->logits.at + i * room, V * sizeof(float));
    SEE(LOGITS, p->logits);
    keep_logits(p);
}
