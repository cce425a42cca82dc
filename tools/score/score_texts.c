/* Log-probabilities of many texts. See score_texts.h. */
#include "score/score_texts.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"

#include <stdlib.h>

/* From this number of tokens on, a text's own pass is as fast as one over many texts. */
enum { SLOTS = 48, SHORT = 16 };

/* These logits are what the model expects after token i. */
static void score_texts_note(struct scored_text *text, size_t i, const float *logits,
                             size_t n_vocab)
{
    double logprob = mgpt_logprob(logits, n_vocab, text->tokens[i + 1]);
    text->nll -= logprob;
    if (text->logprobs)
        text->logprobs[i] = logprob;
    if (text->top)
        mgpt_top(logits, n_vocab, text->top + i * text->n_top, text->n_top);
}

/* ---- long texts ---- */

struct scoring {
    struct engine *engine;
    struct scored_text *text;
    mgpt_error refused;
};

static int score_logits(const mgpt_value *value, void *user)
{
    struct scoring *scoring = user;
    for (size_t i = 0; i < (size_t)value->rows; i++) {
        const float *logits = value->data + i * value->stride;
        size_t pos = (size_t)value->pos + i;
        if (engine_check(scoring->engine, logits, pos, &scoring->refused) < 0)
            return 1;
        score_texts_note(scoring->text, pos, logits, (size_t)value->cols);
    }
    return 0;
}

static int score_long(struct engine *e, struct scored_text *text)
{
    struct scoring scoring = {.engine = e, .text = text};
    struct watcher watcher = {MGPT_POINT_BIT(MGPT_LOGITS), score_logits, &scoring, NULL};
    mgpt_error err;
    int status = mgpt_rewind(e->session, 0, &err);
    if (status == MGPT_OK)
        status = engine_feed(e, e->session, text->tokens, text->n_scored, &watcher, &err);
    if (status == MGPT_ESTOP && scoring.refused.status < 0)
        err = scoring.refused;
    return status < 0 ? cli_fail(NULL, &err) : EXIT_OK;
}

/* ---- short texts, side by side ---- */

struct round {
    struct scorer *scorer;
    struct scored_text *texts; /* those before `next` have been started */
    size_t n, next;
    struct scored_text *at_work[SLOTS]; /* by slot; the first n_live */
    int32_t tokens[SLOTS];
    size_t n_live;
};

static int is_short(const struct scored_text *text)
{
    return text->n_scored > 0 && text->n_scored <= SHORT;
}

/* Puts the next short text into slot i; 0 when there is none. */
static int score_texts_begin(struct round *r, size_t i)
{
    while (r->next < r->n && !is_short(&r->texts[r->next]))
        r->next++;
    if (r->next == r->n)
        return 0;
    r->at_work[i] = &r->texts[r->next++];
    mgpt_rewind(r->scorer->slots[i], 0, NULL);
    return 1;
}

/* The slot of a text that has ended goes on with the next text, or changes place with the last. */
static int replace(struct round *r, size_t i)
{
    if (score_texts_begin(r, i))
        return 1;
    mgpt_session *session = r->scorer->slots[i];
    r->n_live--;
    r->scorer->slots[i] = r->scorer->slots[r->n_live];
    r->scorer->slots[r->n_live] = session;
    r->at_work[i] = r->at_work[r->n_live];
    return 0;
}

/* One pass: a token of each text at work. */
static int advance(struct round *r)
{
    mgpt_session **slots = r->scorer->slots;
    size_t n_vocab = (size_t)r->scorer->engine->info.n_vocab;
    mgpt_error err;
    for (size_t i = 0; i < r->n_live; i++)
        r->tokens[i] = r->at_work[i]->tokens[mgpt_pos(slots[i])];
    if (engine_step_many(r->scorer->engine, slots, r->tokens, r->n_live, &err) < 0)
        return cli_fail(NULL, &err);
    for (size_t i = 0; i < r->n_live;) {
        struct scored_text *text = r->at_work[i];
        size_t pos = mgpt_pos(slots[i]);
        score_texts_note(text, pos - 1, mgpt_logits(slots[i]), n_vocab);
        i += pos < text->n_scored || replace(r, i);
    }
    return EXIT_OK;
}

static int open_slots(struct scorer *s)
{
    mgpt_error err;
    if (mgpt_rewind(s->engine->session, 0, &err) < 0)
        return cli_fail(NULL, &err);
    s->slots = mem_new(SLOTS, sizeof *s->slots);
    if (!s->slots) {
        err_memory(&err, "the texts", SLOTS * sizeof *s->slots);
        return cli_fail(NULL, &err);
    }
    for (; s->n_slots < SLOTS; s->n_slots++)
        if (!(s->slots[s->n_slots] = engine_fork(s->engine, s->engine->session, &err)))
            return cli_fail(NULL, &err);
    return EXIT_OK;
}

static int score_short(struct scorer *s, struct scored_text *texts, size_t n)
{
    struct round r = {.scorer = s, .texts = texts, .n = n};
    int code = s->slots ? EXIT_OK : open_slots(s);
    if (code != EXIT_OK)
        return code;
    while (r.n_live < SLOTS && score_texts_begin(&r, r.n_live))
        r.n_live++;
    while (r.n_live > 0 && code == EXIT_OK)
        code = interrupted() ? EXIT_INTERRUPTED : advance(&r);
    return code;
}

/* ---- both ---- */

int score_texts(struct scorer *s, struct scored_text *texts, size_t n)
{
    size_t n_short = 0;
    int code = EXIT_OK;
    for (size_t i = 0; i < n; i++) {
        texts[i].nll = 0;
        n_short += (size_t)is_short(&texts[i]);
    }
    int together = n_short > 1;
    if (together)
        code = score_short(s, texts, n);
    for (size_t i = 0; i < n && code == EXIT_OK; i++)
        if (texts[i].n_scored > 0 && !(together && is_short(&texts[i])))
            code = score_long(s->engine, &texts[i]);
    return code;
}

void score_close(struct scorer *s)
{
    for (size_t i = 0; i < s->n_slots; i++)
        mgpt_session_free(s->slots[i]);
    free(s->slots);
    *s = (struct scorer){0};
}
