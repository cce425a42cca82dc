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

/* Runs n rows through the model. Scores go to the scratch of one session. */
static void run_fused_rows(const struct fused_model *fused, const struct fused_row *rows, size_t n,
                           const struct scratch *s)
{
    fused->kernels->step(fused, rows, n, s->scores, s->score_stride, s->work);
}

void fused_one(mgpt_session *s, int32_t token)
{
    const struct fused_row row = fused_row_at(s, token, arr_len(s->tokens), s->spare);
    run_fused_rows(s->model->fused, &row, 1, &s->scratch);
}

void fused_tokens(mgpt_session *s, const int32_t *tokens, size_t n)
{
    struct fused_row rows[ROWS_AT_A_TIME];
    for (size_t done = 0; done < n; done += ROWS_AT_A_TIME) {
        size_t some = n - done < ROWS_AT_A_TIME ? n - done : ROWS_AT_A_TIME;
        for (size_t i = 0; i < some; i++)
            rows[i] = fused_row_at(s, tokens[done + i], arr_len(s->tokens) + done + i,
                                   done + i + 1 == n ? s->spare : NULL);
        run_fused_rows(s->model->fused, rows, some, &s->scratch);
    }
}

void fused_many(mgpt_session *const *sessions, const int32_t *tokens, size_t n)
{
    const mgpt_session *lead = sessions[0];
    struct fused_row rows[ROWS_AT_A_TIME];
    for (size_t done = 0; done < n; done += ROWS_AT_A_TIME) {
        size_t some = n - done < ROWS_AT_A_TIME ? n - done : ROWS_AT_A_TIME;
        for (size_t i = 0; i < some; i++) {
            const mgpt_session *s = sessions[done + i];
            rows[i] = fused_row_at(s, tokens[done + i], arr_len(s->tokens), s->spare);
        }
        run_fused_rows(lead->model->fused, rows, some, &lead->scratch);
    }
}

void fused_forward(pass *p)
{
    struct fused_row rows[ROWS_AT_A_TIME];
    size_t n = 0, V = p->logits.cols, room = panels_of(V) * PANEL;
    float *logits = p->logits.at;
    for (size_t i = 0; i < p->n_segments; i++) {
        const struct segment *seg = &p->segments[i];
        const mgpt_session *s = seg->session;
        for (size_t j = 0; j < seg->n; j++) {
            int seen = j + seg->n_out >= seg->n;
            rows[n++] =
                fused_row_at(s, s->tokens[seg->pos + j], seg->pos + j, seen ? logits : NULL);
            if (seen) /* there may be none at all, and NULL + 0 is undefined */
                logits += room;
            if (n == ROWS_AT_A_TIME || (j + 1 == seg->n && i + 1 == p->n_segments)) {
                run_fused_rows(p->model->fused, rows, n, p->s);
                n = 0;
            }
        }
    }
    for (size_t i = 1; i < p->n_out; i++)
        memmove(p->logits.at + i * V, p->logits.at + i * room, V * sizeof(float));
    SEE(LOGITS, p->logits);
    keep_logits(p);
}
