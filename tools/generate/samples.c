/* Samples in a batch. See samples.h.
 *
 * A slot is a timeline: a session that holds the prompt, the sampler and the logits to draw
 * from. It works on one sample at a time. Samples wait in a ring, in order, until their turn to
 * be printed has come; its length bounds what a long sample can keep waiting.
 */
#include "generate/samples.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "common/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ending { GOES_ON, END_STOP, END_LENGTH, END_FULL, END_INTERRUPTED };

enum { BATCH_DEFAULT = 48, WAITING_PER_SLOT = 16 };
static const uint64_t CACHE_BYTES = (uint64_t)1 << 30; /* of all slots, for the default batch */

struct sample {
    struct text_out out;
    int32_t *shown; /* stb_ds array: the tokens of the text, for --json */
    enum ending ending;
};

struct slot {
    mgpt_session *session;
    mgpt_sampler sampler;
    const float *logits; /* to draw from */
    struct sample *sample;
    size_t number; /* of the sample, from 0 */
    int32_t n_drawn;
};

struct batch {
    struct samples *ask;
    struct slot *slots; /* the first n_live of n_slots are at work */
    size_t n_live, n_slots;
    mgpt_session **sessions; /* of the live slots, and the tokens that they drew */
    int32_t *tokens;
    float *first_logits; /* after the prompt */
    size_t n_choices;
    struct sample *ring; /* sample i is at i % n_ring while printed <= i < begun */
    size_t n_ring, printed, begun, n;
};

/* ---- a sample ---- */

static void samples_show(const struct batch *b, struct sample *sample, int32_t token, int quietly)
{
    text_out_token(&sample->out, token, quietly);
    if (b->ask->json && !quietly && !arr_push(sample->shown, token))
        err_memory(&sample->out.failed, "the tokens of a sample", arr_len(sample->shown));
}

/* Tokens of the prompt that the model sees. */
static size_t seen(const struct samples *ask)
{
    return ask->n_prompt - ask->n_before;
}

/* Puts the next sample into a slot. 0: there is none, or no room in the ring. */
static int samples_begin(struct batch *b, struct slot *slot)
{
    struct samples *ask = b->ask;
    if (b->begun == b->n || b->begun - b->printed == b->n_ring)
        return 0;
    slot->number = b->begun++;
    slot->sample = &b->ring[slot->number % b->n_ring];
    slot->sampler = sampling_of_sample(ask->sampling, ask->first + slot->number);
    slot->logits = b->first_logits;
    slot->n_drawn = 0;
    mgpt_rewind(slot->session, seen(ask), NULL); /* it holds the prompt and more */
    if (ask->lookup)
        speculate_begin(&ask->speculation);
    slot->sample->ending = GOES_ON;
    text_out_clear(&slot->sample->out);
    if (slot->sample->shown)
        arr_set_len(slot->sample->shown, 0);
    slot->sample->out.hold = slot->number != b->printed;
    for (size_t i = 0; i < ask->n_prompt; i++)
        samples_show(b, slot->sample, ask->prompt[i], ask->no_prompt);
    return 1;
}

/* Draws a token. It needs a pass of its own only if the sample goes on. */
static enum ending samples_draw(struct batch *b, struct slot *slot, int32_t *token)
{
    struct samples *ask = b->ask;
    if (slot->n_drawn == ask->n_predict)
        return END_LENGTH;
    *token = mgpt_sample(&slot->sampler, slot->logits, b->n_choices);
    if (mgpt_is_end(ask->engine->model, *token))
        return END_STOP;
    slot->sample->out.hold = slot->number != b->printed;
    samples_show(b, slot->sample, *token, 0);
    ask->n_drawn++;
    if (++slot->n_drawn == ask->n_predict)
        return END_LENGTH;
    size_t pos = ask->lookup ? speculate_pos(&ask->speculation) : mgpt_pos(slot->session);
    return pos == mgpt_n_ctx(slot->session) && !ask->slide ? END_FULL : GOES_ON;
}

/* ---- printing in order ---- */

/* One line of JSON with OpenAI's names; an interrupted sample has no reason to have finished. */
static int samples_print_json(const struct sample *sample, uint64_t index)
{
    const char *reasons[] = {NULL, "stop", "length", "length", NULL};
    json_t *tokens = json_array();
    size_t n_text = sample->out.ids ? 0 : arr_len(sample->out.buffer);
    for (size_t i = 0; i < arr_len(sample->shown); i++)
        if (json_array_append_new(tokens, json_integer(sample->shown[i])) < 0) {
            json_decref(tokens);
            return text_json_line(NULL);
        }
    return text_json_line(json_pack("{s:I, s:s%, s:o, s:s?}", "index", (json_int_t)index, "text",
                                    n_text ? sample->out.buffer : "", n_text, "tokens", tokens,
                                    "finish_reason", reasons[sample->ending]));
}

static int print(struct batch *b, struct sample *sample)
{
    text_out_end(&sample->out);
    b->ask->n_full += sample->ending == END_FULL;
    if (sample->out.failed.status < 0)
        return cli_fail(NULL, &sample->out.failed);
    if (b->ask->json)
        return samples_print_json(sample, b->ask->first + b->printed);
    putchar('\n');
    return EXIT_OK;
}

/* Prints the samples whose turn has come. */
static int print_ended(struct batch *b)
{
    int code = EXIT_OK;
    while (code == EXIT_OK && b->printed < b->begun) {
        struct sample *sample = &b->ring[b->printed % b->n_ring];
        if (sample->ending == GOES_ON)
            break;
        code = print(b, sample);
        b->printed += code == EXIT_OK; /* else it stays the one whose rest is shown */
    }
    if (code == EXIT_OK && interrupted())
        return EXIT_INTERRUPTED;
    return code == EXIT_OK && ferror(stdout) ? EXIT_IO : code;
}

/* What there is of the sample whose turn it is, when the run ends before it. */
static int print_rest(struct batch *b, int code)
{
    if (b->printed == b->begun)
        return code;
    struct sample *sample = &b->ring[b->printed % b->n_ring];
    sample->ending = END_INTERRUPTED;
    if (code == EXIT_INTERRUPTED) {
        print(b, sample);
    } else {
        text_out_end(&sample->out);
        if (!b->ask->json)
            putchar('\n');
    }
    return code;
}

/* ---- all samples ---- */

/* The session holds the prompt, and nothing else; a prefix that is left of it is not run again. */
static int hear_prompt(struct batch *b, mgpt_session *session)
{
    const struct samples *ask = b->ask;
    return engine_sync(ask->engine, session, ask->prompt + ask->n_before, seen(ask));
}

/* Every live slot draws; those whose sample ends go on with the next, or leave. */
static int draw_all(struct batch *b)
{
    for (size_t i = 0; i < b->n_live;) {
        struct slot *slot = &b->slots[i];
        enum ending ending = samples_draw(b, slot, &b->tokens[i]);
        if (ending == GOES_ON) {
            b->sessions[i++] = slot->session;
            continue;
        }
        slot->sample->ending = ending;
        int code = print_ended(b);
        if (code == EXIT_OK && b->ask->slide)
            code = hear_prompt(b, slot->session);
        if (code != EXIT_OK)
            return code;
        if (!samples_begin(b, slot)) {
            struct slot last = b->slots[--b->n_live];
            b->slots[b->n_live] = *slot;
            *slot = last;
        }
    }
    return EXIT_OK;
}

/* The sessions that are full get their token by a window of their own; *n others are left to be
 * stepped. */
static int slide(struct batch *b, size_t *n)
{
    mgpt_error err;
    *n = 0;
    for (size_t i = 0; i < b->n_live; i++) {
        mgpt_session *session = b->slots[i].session;
        if (mgpt_pos(session) < mgpt_n_ctx(session)) {
            b->sessions[*n] = session;
            b->tokens[(*n)++] = b->tokens[i];
        } else if (engine_slide(b->ask->engine, session, b->tokens[i], &err) < 0) {
            return cli_fail(NULL, &err);
        }
    }
    return EXIT_OK;
}

/* One pass over the weights for all live slots. */
static int advance(struct batch *b)
{
    size_t n = b->n_live;
    int code;
    struct slot *slots = b->slots;
    mgpt_error err;
    if (b->ask->lookup) {
        size_t draws =
            (size_t)(b->ask->n_predict - slots->n_drawn); /* -1: more than there can be */
        slots->logits = speculate_step(&b->ask->speculation, b->tokens[0], draws - 1, &err);
        return slots->logits ? EXIT_OK : cli_fail(NULL, &err);
    }
    if (b->ask->slide && (code = slide(b, &n)) != EXIT_OK)
        return code;
    if (n > 0 && engine_step_many(b->ask->engine, b->sessions, b->tokens, n, &err) < 0)
        return cli_fail(NULL, &err);
    for (size_t i = 0; i < b->n_live; i++)
        slots[i].logits = mgpt_logits(slots[i].session);
    return EXIT_OK;
}

static int run_samples(struct batch *b)
{
    int code = EXIT_OK;
    for (;;) {
        while (b->n_live < b->n_slots && samples_begin(b, &b->slots[b->n_live]))
            b->n_live++;
        if (b->n_live == 0)
            return code;
        code = draw_all(b);
        if (code == EXIT_OK && b->n_live > 0)
            code = advance(b);
        if (code == EXIT_OK && interrupted())
            code = EXIT_INTERRUPTED;
        if (code == EXIT_OK && ferror(stdout))
            code = EXIT_IO;
        if (code != EXIT_OK)
            return print_rest(b, code);
    }
}

/* ---- making and freeing ---- */

/* As many as asked for. The default is what fills the rows of a pass, within bounds of memory. */
static size_t batch_size(const struct samples *s)
{
    size_t n = (size_t)s->n, most = (size_t)s->batch;
    if (sampling_is_shared(s->sampling) || s->lookup)
        return 1;
    if (most == 0) {
        size_t n_ctx = mgpt_n_ctx(s->engine->session), room = n_ctx - seen(s);
        size_t drawn =
            s->n_predict >= 0 && (size_t)s->n_predict < room ? (size_t)s->n_predict : room;
        uint64_t each = (seen(s) + drawn) * s->engine->info.kv_bytes + 1;
        most = CACHE_BYTES / each < BATCH_DEFAULT ? (size_t)(CACHE_BYTES / each) : BATCH_DEFAULT;
    }
    most = most > 0 ? most : 1;
    return n < most ? n : most;
}

static int samples_allocate(struct batch *b, mgpt_error *err)
{
    size_t n_vocab = (size_t)b->ask->engine->info.n_vocab;
    b->n_ring = b->n_slots > 1 ? b->n_slots * WAITING_PER_SLOT : 1;
    b->slots = mem_new(b->n_slots, sizeof *b->slots);
    b->sessions = mem_new(b->n_slots, sizeof *b->sessions);
    b->tokens = mem_new(b->n_slots, sizeof *b->tokens);
    b->ring = mem_new(b->n_ring, sizeof *b->ring);
    b->first_logits = mem_new(n_vocab, sizeof *b->first_logits);
    if (!b->slots || !b->sessions || !b->tokens || !b->ring || !b->first_logits)
        return err_memory(err, "the samples", b->n_ring * sizeof *b->ring);
    for (size_t i = 0; i < b->n_ring; i++)
        text_out_open(&b->ring[i].out, b->ask->engine->model, b->ask->json ? NULL : stdout);
    return MGPT_OK;
}

/* Feeds the prompt and forks it. */
static int open_slots(struct batch *b)
{
    struct engine *engine = b->ask->engine;
    mgpt_error err;
    int code = hear_prompt(b, engine->session);
    if (code != EXIT_OK)
        return code;
    memcpy(b->first_logits, mgpt_logits(engine->session),
           (size_t)engine->info.n_vocab * sizeof *b->first_logits);
    b->slots[0].session = engine->session;
    for (size_t i = 1; i < b->n_slots; i++)
        if (!(b->slots[i].session = engine_fork(engine, engine->session, &err)))
            return cli_fail(NULL, &err);
    if (b->ask->lookup &&
        speculate_open(&b->ask->speculation, engine, (size_t)b->ask->lookup, &err) < 0)
        return cli_fail(NULL, &err);
    return EXIT_OK;
}

static void samples_release(struct batch *b)
{
    for (size_t i = 0; b->slots && i < b->n_slots; i++)
        if (b->slots[i].session != b->ask->engine->session)
            mgpt_session_free(b->slots[i].session);
    for (size_t i = 0; b->ring && i < b->n_ring; i++) {
        text_out_close(&b->ring[i].out);
        arr_free(b->ring[i].shown);
    }
    free(b->slots);
    free(b->sessions);
    free(b->tokens);
    free(b->ring);
    free(b->first_logits);
}

int samples_run(struct samples *s)
{
    struct batch b = {.ask = s, .n = (size_t)s->n, .n_slots = batch_size(s)};
    mgpt_error err;
    b.n_choices = engine_n_choices(s->engine);
    int code = samples_allocate(&b, &err) < 0 ? cli_fail(NULL, &err) : open_slots(&b);
    if (code == EXIT_OK)
        code = run_samples(&b);
    samples_release(&b);
    return code;
}
