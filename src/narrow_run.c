/* Floor 5. A pass of a narrow model: the rows' places in their sessions, and one call
 * (kernels_step.h). The step is the page (page.h) in its second
 * compilation; it runs where nothing is tapped. */
#include "mem.h"
#include "narrow.h"
#include "session.h"

enum { ROWS_AT_A_TIME = 24 }; /* a multiple of what the kernel takes */

static struct narrow_row row_of(const mgpt_session *s, int32_t token, size_t pos, float *logits)
{
    const struct narrow *narrow = s->model->narrow;
    size_t t = (size_t)token, E = narrow->n_embd;
    return (struct narrow_row){
        .begun = narrow->begun ? narrow->begun + (t * narrow->n_ctx + pos) * narrow->n_begun : NULL,
        .token = narrow->tokens + t * E,
        .position = narrow->positions ? narrow->positions + pos * E : NULL,
        .pos = pos,
        .k = s->kv.k,
        .v = s->kv.v,
        .logits = logits};
}

void narrow_one(mgpt_session *s, int32_t token)
{
    const struct narrow_row row = row_of(s, token, arr_len(s->tokens), s->spare);
    s->model->kernels.narrow_step(s->model->narrow, &row, 1, s->scratch.scores,
                                  s->scratch.score_stride);
}

void narrow_many(mgpt_session *const *sessions, const int32_t *tokens, size_t n)
{
    const mgpt_session *lead = sessions[0];
    struct narrow_row rows[ROWS_AT_A_TIME];
    for (size_t done = 0; done < n; done += ROWS_AT_A_TIME) {
        size_t some = n - done < ROWS_AT_A_TIME ? n - done : ROWS_AT_A_TIME;
        for (size_t i = 0; i < some; i++) {
            const mgpt_session *s = sessions[done + i];
            rows[i] = row_of(s, tokens[done + i], arr_len(s->tokens), s->spare);
        }
        lead->model->kernels.narrow_step(lead->model->narrow, rows, some, lead->scratch.scores,
                                         lead->scratch.score_stride);
    }
}

void narrow_forward(struct run *r)
{
    const struct narrow *narrow = r->model->narrow;
    struct narrow_row rows[ROWS_AT_A_TIME];
    size_t n = 0;
    for (size_t i = 0; i < r->n_segments; i++) {
        const struct segment *seg = &r->segments[i];
        mgpt_session *s = seg->session;
        for (size_t j = 0; j < seg->n; j++) {
            float *logits = seg->n_out && j + 1 == seg->n ? s->spare : NULL;
            rows[n++] = row_of(s, r->tokens[seg->row + j], seg->pos + j, logits);
            if (n == ROWS_AT_A_TIME || (j + 1 == seg->n && i + 1 == r->n_segments)) {
                r->kernels->narrow_step(narrow, rows, n, r->s->scores, r->s->score_stride);
                n = 0;
            }
        }
    }
}
