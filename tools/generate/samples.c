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

/* Counts n_drawn tokens and one more as -n does: without those that leave bytes of the prompt to be drawn. */
static size_t count_drawn(const struct samples *s, const int32_t *drawn, size_t n_drawn,
                          int32_t token)
{
    return n_drawn + 1 - (s->heal ? heal_repeats(s->heal, drawn, n_drawn, token) : 0);
}

void samples_put_prompt(const struct samples *s, struct text_out *out)
{
    for (size_t i = 0; i < s->n_prompt; i++)
        text_out_token(out, s->prompt[i], s->no_prompt);
    if (s->heal)
        text_out_before(out, s->prompt + s->n_prompt, s->heal->n_given - s->n_prompt, s->no_prompt);
}

enum ending samples_ending(const struct samples *s, const int32_t *drawn, size_t n_drawn,
                           int32_t token)
{
    if (!s->ignore_end && mgpt_is_end(s->engine->model, token))
        return END_TOKEN;
    if (s->n_predict >= 0 && count_drawn(s, drawn, n_drawn, token) == (size_t)s->n_predict)
        return END_LENGTH;
    n_drawn++;
    int is_full = samples_seen(s) + n_drawn > mgpt_n_ctx(s->engine->session);
    return is_full && !s->slide ? END_FULL : GOES_ON;
}

struct single {
    struct samples *ask;
    mgpt_session *session;
    mgpt_sampler sampler;
    struct chooser chooser;
    int32_t *history; /* stb_ds array: the prompt and what was drawn, if the chooser is on */
    size_t n_put;     /* of them: those in the text. Others may be taken back */
    const float *logits;
    size_t n_choices;
    int32_t n_drawn;
    int code;
};

/* Puts the next tokens of the history into the text. */
static void put_until(struct single *t, struct sample_text *text, size_t end)
{
    for (; t->n_put < end && !text->out.stopped; t->n_put++)
        sample_text_put(text, t->history[t->n_put]);
}

static int single_advance(struct single *t, int32_t token);

/* Takes back all tokens from position `to` on. The session then holds those before to - 1. */
static void take_back(struct single *t, struct sample_text *text, size_t to)
{
    struct samples *ask = t->ask;
    size_t n = arr_len(t->history) - to;
    t->n_drawn -= (int32_t)n;
    ask->n_drawn -= n;
    arr_set_len(t->history, to);
    drawn_cut(&text->drawn, (size_t)t->n_drawn);
    if (mgpt_pos(t->session) >= to)
        mgpt_rewind(t->session, to - 1, NULL);
    if (samples_speculate(ask))
        speculate_begin(&ask->speculation);
}

/* A token has been drawn: it is kept, or with a banned text the text goes back. */
static void single_keep(struct single *t, struct sample_text *text, int32_t token)
{
    mgpt_error err;
    size_t n = arr_len(t->history) + 1;
    int64_t to =
        arr_push(t->history, token) ? chooser_back(&t->chooser, t->history, n, NULL) : MGPT_EMEM;
    if (to < 0) {
        err_memory(&err, "the text", n * sizeof token);
        t->code = cli_fail(NULL, &err);
    } else if ((size_t)to == n) {
        put_until(t, text, chooser_final(&t->chooser, t->history, n));
    } else if ((size_t)to + 1 == n) { /* the same logits again */
        arr_set_len(t->history, n - 1);
        t->n_drawn--;
        t->ask->n_drawn--;
        drawn_cut(&text->drawn, (size_t)t->n_drawn);
    } else {
        take_back(t, text, (size_t)to);
        t->code = single_advance(t, t->history[to - 1]);
    }
}

/* Draws a token. It needs a pass of its own only if the sample goes on. */
static enum ending draw_once(struct single *t, struct sample_text *text, int32_t *token)
{
    struct samples *ask = t->ask;
    mgpt_error err;
    *token = chooser_draw(&t->chooser, &t->sampler, t->logits, t->n_choices, t->history,
                          arr_len(t->history), &err);
    if (*token < 0) {
        t->code = cli_fail(NULL, &err);
        return GOES_ON;
    }
    const int32_t *drawn = t->history ? t->history + ask->n_prompt : NULL;
    enum ending ending = samples_ending(ask, drawn, (size_t)t->n_drawn, *token);
    if (ending == END_TOKEN)
        return END_TOKEN;
    ask->n_drawn++;
    t->n_drawn++;
    sample_text_note(text, *token, &t->sampler, t->logits);
    if (t->chooser.is_on)
        single_keep(t, text, *token);
    else
        sample_text_put(text, *token);
    if (ending == GOES_ON && t->code == EXIT_OK &&
        chooser_is_complete(&t->chooser, t->history, arr_len(t->history)))
        ending = END_MATCH;
    return text->out.stopped ? END_TEXT : ending;
}

/* Draws tokens until one is kept, or there is an end. */
static enum ending single_draw(struct single *t, struct sample_text *text, int32_t *token)
{
    enum ending ending = GOES_ON;
    int32_t before;
    do {
        before = t->n_drawn;
        if (t->n_drawn == t->ask->n_predict && !t->ask->heal)
            return END_LENGTH;
        if (t->ask->has_ended && !t->ask->ignore_end)
            return END_TOKEN;
        if (t->n_drawn == 0 && chooser_is_complete(&t->chooser, t->history, arr_len(t->history)))
            return END_MATCH; /* of --session: there is nothing to go on with */
        ending = draw_once(t, text, token);
    } while (t->code == EXIT_OK && ending != END_TOKEN && t->n_drawn <= before);
    return t->code == EXIT_OK ? ending : GOES_ON;
}

/* The text has ended: what could have been taken back is put, and may have a stop text. */
static enum ending single_end(struct single *t, struct sample_text *text, enum ending ending,
                              int32_t *token)
{
    size_t n = arr_len(t->history);
    put_until(t, text, n);
    if (text->out.stopped && t->n_put < n) {
        take_back(t, text, t->n_put);
        *token = t->history[t->n_put - 1];
    }
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

/* The history begins with the prompt. Returns 0 after telling the user that memory is short. */
static int begin_history(struct single *t)
{
    const struct samples *ask = t->ask;
    mgpt_error err;
    chooser_begin(&t->chooser, ask->begin ? ask->begin : ask->n_prompt, ask->mu);
    t->n_put = ask->n_prompt;
    t->code = EXIT_OK;
    if (!t->chooser.is_on)
        return 1;
    if (!arr_reserve(t->history, ask->n_prompt + 1)) {
        err_memory(&err, "the text", ask->n_prompt * sizeof *t->history);
        return cli_fail(NULL, &err) == EXIT_OK;
    }
    arr_set_len(t->history, ask->n_prompt);
    memcpy(t->history, ask->prompt, ask->n_prompt * sizeof *t->history);
    return 1;
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
    if (!begin_history(t))
        return EXIT_FULL;
    if (samples_speculate(t->ask))
        speculate_begin(&t->ask->speculation);
    sample_text_begin(text);
    while ((ending = single_draw(t, text, &token)) == GOES_ON) {
        code = t->code == EXIT_OK ? single_advance(t, token) : t->code;
        code = code == EXIT_OK ? samples_stopped() : code;
        if (code != EXIT_OK)
            return sample_text_break(text, number, code);
    }
    ending = single_end(t, text, ending, &token);
    if (t->ask->n == 1 && (ending == END_TOKEN || t->n_drawn > 0))
        t->ask->has_ended = ending == END_TOKEN;
    code = sample_text_end(text, number, ending);
    if (code == EXIT_OK && (ending == END_LENGTH || ending == END_TEXT || ending == END_MATCH))
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
    int code =
        chooser_open(&t.chooser, &s->sampling->rules, &err) < 0 ? cli_fail(NULL, &err) : EXIT_OK;
    sample_text_open(&text, s);
    for (uint64_t i = 0; code == EXIT_OK && i < (uint64_t)s->n; i++)
        code = sample_run(&t, &text, s->first + i);
    s->n_full += text.n_full;
    s->after = t.sampler;
    s->after_mu = edit_rules_is_on(&s->sampling->rules, EDIT_MIROSTAT) ? t.chooser.mu : 0;
    sample_text_close(&text);
    chooser_close(&t.chooser);
    arr_free(t.history);
    return code;
}

/* Each sample is the prompt and one of the choices. */
static int run_chosen(struct samples *s)
{
    struct sample_text text;
    mgpt_error err;
    int code = choices_score(s->choices, s->engine, s->engine->session, 0, &err) < 0
                   ? cli_fail(NULL, &err)
                   : EXIT_OK;
    sample_text_open(&text, s);
    for (uint64_t i = 0; code == EXIT_OK && i < (uint64_t)s->n; i++) {
        s->after = sampling_of_sample(s->sampling, s->first + i);
        int taken = choices_draw(s->choices, &s->after, &err);
        if (taken < 0) {
            code = cli_fail(NULL, &err);
            break;
        }
        sample_text_choice(&text, taken);
        code = sample_text_end(&text, s->first + i, END_MATCH);
        const struct choice *k = &s->choices->list[taken];
        if (code == EXIT_OK && s->n == 1 && resume_writes(&s->resume))
            code = engine_sync(s->engine, s->engine->session, k->tokens, k->n_tokens);
        code = code == EXIT_OK ? samples_stopped() : code;
    }
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
    if (s->n > 1 && s->heal &&
        engine_sync(s->engine, session, s->prompt, s->heal->n_given) != EXIT_OK)
        return code;
    if (s->n > 1)
        n = s->heal ? s->heal->n_given : samples_seen(s);
    else if (samples_speculate(s))
        n = speculate_pos(&s->speculation);
    mgpt_rewind(session, n, NULL);
    resume_note(s->engine, s->sampling, s->n > 1 ? NULL : &s->after);
    if (s->heals && (s->n > 1 || s->n_predict == 0))
        resume_note_edits(s->engine, n, 0);
    else if (s->n == 1 && edit_rules_any(&s->sampling->rules))
        resume_note_edits(s->engine, s->begin ? s->begin : s->n_prompt, s->after_mu);
    if (s->n == 1 && s->has_ended)
        resume_note_end(s->engine);
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
    if (s->choices)
        return samples_keep(s, run_chosen(s));
    s->first_logits = mem_new(n, sizeof *s->first_logits);
    if (!s->first_logits) {
        err_memory(&err, "the samples", n * sizeof *s->first_logits);
        return cli_fail(NULL, &err);
    }
    memcpy(s->first_logits, mgpt_logits(s->engine->session), n * sizeof *s->first_logits);
    int alone = s->n == 1 || s->n_predict == 0 || s->top >= 0 || s->has_ended ||
                sampling_is_shared(s->sampling) || edit_rules_is_own(&s->sampling->rules);
    code = alone || s->slide || samples_speculate(s) ? run_in_order(s) : prefixes_run(s);
    free(s->first_logits);
    return samples_keep(s, code);
}
