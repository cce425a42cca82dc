/* Room for the screen of the head, for models that are opened with top_k (mgpt_model_params).
 *
 * A head of floats is a fifth to a third of the bytes of a token if the vocabulary is large. Its
 * int8 copy is a quarter (F32) or half (F16) of the head's bytes, and excludes nearly all tokens
 * that are not among the top_k likeliest. run/screen.c fills it when it is first used and multiplies
 * the panels of the other tokens. BF16_COMPRESSED heads have none: decoding is 1.07 to 1.10 times as
 * fast with a screen, and unpacking makes the screen take 100 tokens to pay for itself.
 */
#include "base/error.h"
#include "base/mem.h"
#include "model/model.h"

enum { LEAST_PANELS = 8 }; /* of the head for each token of top_k */

/* 1: the head is of a kind that the bounds are for, and the screen is no more than a table of its own
 * would take. A cap could make different logits equal. */
static int may_be_screened(const mgpt_model *m, size_t top_k)
{
    const struct linear *l = &m->head;
    return m->tied && l->type < WEIGHT_N_FLOATS && !l->bias && m->logit_softcap == 0 &&
           m->logit_scale == 1 && top_k <= SCREEN_TOP && l->n_in % 32 == 0 &&
           l->n_in <= SCREEN_COLUMNS && panels_of(l->n_out) / LEAST_PANELS >= top_k;
}

int model_screen(mgpt_model *m, int32_t top_k, mgpt_error *err)
{
    const struct linear *l = &m->head;
    size_t panels = panels_of(l->n_out), bytes = kernels_panel_bytes(WEIGHT_Q8_0, l->n_in);
    if (top_k <= 0 || !may_be_screened(m, (size_t)top_k))
        return MGPT_OK;
    m->screen.w = model_own(m, mem_large(panels, bytes));
    m->screen.rest = model_own(m, mem_large(panels * PANEL, sizeof *m->screen.rest));
    m->screen.norm = model_own(m, mem_large(panels * PANEL, sizeof *m->screen.norm));
    m->screen_state = model_own(m, mem_large(1, sizeof *m->screen_state));
    if (!m->screen.w || !m->screen.rest || !m->screen.norm || !m->screen_state)
        return err_memory(err, "the screen of the head", panels * bytes);
    atomic_init(m->screen_state, SCREEN_EMPTY);
    m->top_k = (size_t)top_k;
    m->n_choices = tok_count(m->tok);
    if (m->n_choices == 0 || m->n_choices > l->n_out)
        m->n_choices = l->n_out;
    return MGPT_OK;
}
