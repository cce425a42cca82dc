/* Samples one after the other. See samples.h. */
#include "generate/samples.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "generate/prefixes.h"
#include "generate/sample_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int samples_speculate(const struct samples *s)
{
    return s->lookup || s->draft;
}

size_t samples_seen(const struct samples *s)
{
    return s->n_prompt - s->n_before;
}

enum ending samples_ending(const struct samples *s, int32_t token, size_t n_drawn)
{
    if (!s->ignore_end && mgpt_is_end(s->engine->model, token))
        return END_TOKEN;
    if (s->n_predict >= 0 && n_drawn == (size_t)s->n_predict)
        return END_LENGTH;
    int is_full = samples_seen(s) + n_drawn > mgpt_n_ctx(s->engine->session);
    return is_full && !s->slide ? END_FULL : GOES_ON;
}

struct single {
    struct samples *ask;
    mgpt_session *session;
    mgpt_sampler sampler;
    const float *logits;
    size_t n_choices;
    int32_t n_drawn;
};

/* Draws a token. It needs a pass of its own only if the sample goes on. */
static enum ending single_draw(struct single *t, struct sample_text *text, int32_t *token)
{
    struct samples *ask = t->ask;
    if (t->n_drawn == ask->n_predict)
        return END_LENGTH;
    *token = mgpt_sample(&t->sampler, t->logits, t->n_choices);
    enum ending ending = samples_ending(ask, *token, (size_t)t->n_drawn + 1);
    if (ending == END_TOKEN)
        return END_TOKEN;
    sample_text_put(text, *token);
    ask->n_drawn++;
    t->n_drawn++;
    sample_text_note(text, *token, &t->sampler, t->logits);
    return text->out.stopped ? END_TEXT : ending;
}

static int single_advance(struct single *t, int32_t token)
{
    struct engine *engine = t->ask->engine;
    mgpt_error err = {0};
    if (samples_speculate(t->ask)) {
        size_t left = (size_t)(t->ask->n_predict - t->n_drawn); /* -1: more than there can be */
        t->logits =
            speculate_step(&t->ask->speculation, token, &t->sampler, left > 0 ? left - 1 : 0, &err);
    } else if (t->ask->slide && mgpt_pos(t->session) == mgpt_n_ctx(t->session)) {
        int status = engine_slide(engine, t->session, token, &err);
        t->logits = status < 0 ? NULL : mgpt_logits(t->session);
    } else {
        t->logits = engine_step(engine, token, &err);
    }
    return t->logits ? EXIT_OK : cli_fail(NULL, &err);
}

/* Makes the session hold the prompt; a prefix that it holds already is not run again. */
static int hear_prompt(const struct samples *s)
{
    return engine_sync(s->engine, s->engine->session, s->prompt + s->n_before, samples_seen(s));
}

/* A session that has not slid holds the prompt and what was drawn after it. */
static int begin_at_prompt(const struct single *t)
{
    if (t->ask->slide)
        return hear_prompt(t->ask);
    mgpt_rewind(t->session, samples_seen(t->ask), NULL);
    return EXIT_OK;
}

/* Runs the last token for --session: the next run continues after it. */
static int run_last(struct single *t, int32_t token)
{
    const struct samples *ask = t->ask;
    size_t n = samples_seen(ask) + (size_t)t->n_drawn;
    int keeps = resume_writes(&ask->resume) && ask->n == 1 && t->n_drawn > 0;
    return keeps && n <= mgpt_n_ctx(t->session) ? single_advance(t, token) : EXIT_OK;
}

static int sample_run(struct single *t, struct sample_text *text, uint64_t number)
{
    enum ending ending;
    int32_t token = -1;
    int code = begin_at_prompt(t);
    if (code != EXIT_OK)
        return code;
    t->sampler = sampling_of_sample(t->ask->sampling, number);
    t->logits = t->ask->first_logits;
    t->n_drawn = 0;
    if (samples_speculate(t->ask))
        speculate_begin(&t->ask->speculation);
    sample_text_begin(text);
    while ((ending = single_draw(t, text, &token)) == GOES_ON) {
        code = single_advance(t, token);
        code = code == EXIT_OK ? samples_stopped() : code;
        if (code != EXIT_OK)
            return sample_text_break(text, number, code);
    }
    code = sample_text_end(text, number, ending);
    if (code == EXIT_OK && (ending == END_LENGTH || ending == END_TEXT))
        code = run_last(t, token);
    return code == EXIT_OK ? samples_stopped() : code;
}

int samples_stopped(void)
{
    if (interrupted())
        return EXIT_INTERRUPTED;
    return ferror(stdout) ? EXIT_IO : EXIT_OK;
}

static int run_in_order(struct samples *s)
{
    struct single t = {
        .ask = s, .session = s->engine->session, .n_choices = engine_n_choices(s->engine)};
    struct sample_text text;
    mgpt_error err;
    if (samples_speculate(s) &&
        speculate_open(&s->speculation, s->engine, (size_t)s->lookup, s->draft, &err) < 0)
        return cli_fail(NULL, &err);
    int code = EXIT_OK;
    sample_text_open(&text, s);
    for (uint64_t i = 0; code == EXIT_OK && i < (uint64_t)s->n; i++)
        code = sample_run(&t, &text, s->first + i);
    s->n_full += text.n_full;
    s->after = t.sampler;
    sample_text_close(&text);
    return code;
}

/* Also after Ctrl-C: what was printed is kept. */
static int samples_keep(const struct samples *s, int code)
{
    mgpt_session *session = s->engine->session;
    size_t n = mgpt_pos(session);
    if (!resume_writes(&s->resume) || (code != EXIT_OK && code != EXIT_INTERRUPTED))
        return code;
    if (s->n > 1)
        n = samples_seen(s);
    else if (samples_speculate(s))
        n = speculate_pos(&s->speculation);
    mgpt_rewind(session, n, NULL);
    resume_note(s->engine, s->sampling, s->n > 1 ? NULL : &s->after);
    int kept = resume_save(&s->resume, s->engine);
    return code == EXIT_OK ? kept : code;
}

int samples_run(struct samples *s)
{
    size_t n = (size_t)s->engine->info.n_vocab;
    mgpt_error err;
    int code = hear_prompt(s);
    if (code != EXIT_OK)
        return code;
    s->first_logits = mem_new(n, sizeof *s->first_logits);
    if (!s->first_logits) {
        err_memory(&err, "the samples", n * sizeof *s->first_logits);
        return cli_fail(NULL, &err);
    }
    memcpy(s->first_logits, mgpt_logits(s->engine->session), n * sizeof *s->first_logits);
    int alone = s->n == 1 || s->n_predict == 0 || s->top >= 0 || sampling_is_shared(s->sampling);
    code = alone || s->slide || samples_speculate(s) ? run_in_order(s) : prefixes_run(s);
    free(s->first_logits);
    return samples_keep(s, code);
}
