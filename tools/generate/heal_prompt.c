/* generate --heal: the passes that healing asks for. See choose/heal.h. */
#include "base/error.h"
#include "generate/samples.h"

#include <stdlib.h>
#include <string.h>

int samples_heal(struct heal *h, struct engine *e, const mgpt_session *from, const int32_t *prompt,
                 mgpt_error *err)
{
    mgpt_session *fork = engine_fork(e, from, err);
    int32_t *tokens = malloc((h->n_kept + h->n_bytes + 1) * sizeof *tokens), n;
    int status = fork ? MGPT_OK : err->status;
    if (!tokens)
        status = err_memory(err, "the prompt", h->n_kept * sizeof *tokens);
    else if (h->n_kept > 0)
        memcpy(tokens, prompt, h->n_kept * sizeof *tokens);
    while (status == MGPT_OK && (n = heal_next(h)) >= 0) {
        if (n > 0)
            memcpy(tokens + h->n_kept, h->path, (size_t)n * sizeof *tokens);
        status = engine_hold(e, fork, tokens, h->n_kept + (size_t)n, err);
        if (status == MGPT_OK)
            status = heal_learn(h, mgpt_logits(fork), engine_n_choices(e), err);
    }
    mgpt_session_free(fork);
    free(tokens);
    return status;
}

int samples_heal_prompt(struct samples *s, struct heal *h, struct edit_rules *rules)
{
    mgpt_error err;
    int status = heal_open(h, s->engine->model, s->prompt, s->n_prompt, &err);
    if (status == MGPT_OK && h->n_bytes > 0) {
        status = samples_heal(h, s->engine, s->engine->session, s->prompt, &err);
        s->n_prompt = h->n_kept;
        s->heal = rules->heal = h;
    }
    if (status == MGPT_OK && h->left_out > HEAL_LEFT_OUT)
        cli_note("--heal: what was not run has up to %.2g of the probability", h->left_out);
    return status < 0 ? cli_fail(NULL, &err) : EXIT_OK;
}
