/* Several continuations of one prompt.
 *
 * Results come out whole and in order. A sample's tokens depend on prompt, seed and its number only
 * (sampling.h): not on the batch, the threads or the other samples. Samples share the passes of
 * their common prefixes (prefixes.h), except with --slide, --lookup, --draft and --rng python,
 * where one follows the other.
 */
#ifndef MGPT_SAMPLES_H
#define MGPT_SAMPLES_H

#include "common/jval.h"
#include "common/text.h"
#include "engine/engine.h"
#include "engine/sampling.h"
#include "generate/choices.h"
#include "generate/resume.h"
#include "generate/speculate.h"

/* What is asked for, and at the end what came of it. */
struct samples {
    struct engine *engine; /* with a session */
    const struct sampling *sampling;
    const int32_t *prompt; /* n_prompt > 0 tokens */
    size_t n_prompt;
    size_t n_before;   /* tokens at the prompt's start that do not fit into the context, not seen */
    int32_t n_predict; /* most tokens to draw for each; -1: until the end */
    int32_t n;         /* how many samples */
    uint64_t first;    /* number of the first */
    int32_t batch;     /* most timelines; 0: chosen */
    int32_t lookup;    /* most tokens that a look-up proposes; 0: none */
    size_t begin;      /* of n_prompt: tokens before the text that goes on (--session) */
    double mu;         /* Mirostat's, of a text that goes on; 0: none */
    int ignore_end;    /* end tokens are drawn as others are */
    int has_ended; /* --session: an end token was drawn after the prompt; then: after the last sample */
    const struct stops *stops;
    struct choices *choices; /* one of them goes on; NULL: tokens are drawn */
    int heals;               /* --heal */
    const struct heal *heal; /* what comes after the n_prompt tokens is drawn again; or NULL */
    int slide;     /* beyond the context with a window of its last tokens (engine_slide) */
    int no_prompt; /* the continuation only */
    int json;      /* a JSON object for each, not a line */
    int is_record; /* of --records: its JSON has the id, not the number */
    const struct jval *id;
    int64_t drawn_seed; /* of a record that asks for one; -1: not drawn */
    int32_t top; /* with so many likeliest tokens for each that was drawn; -1: without numbers */
    /* --session: has the prompt and, of a single sample, what was drawn. */
    struct resume resume;
    struct draft *draft; /* open; NULL: none */

    mgpt_sampler after;             /* of a single sample: at its end */
    double after_mu;                /* the same, Mirostat's; 0: none */
    float *first_logits;            /* after the prompt, while samples_run runs */
    size_t n_drawn, n_full;         /* tokens; samples printed that ended with the context */
    struct speculation speculation; /* its counts, when there was one */
};

/* Draws and prints all samples. Returns an exit code; after Ctrl-C the sample whose turn it was
 * has been printed as far as it got. */
int samples_run(struct samples *s);

/* 1: passes run ahead (speculate.h). */
int samples_speculate(const struct samples *s);

/* Tokens of the prompt that the model sees. */
size_t samples_seen(const struct samples *s);

/* What a sample does after `token`, which comes after `drawn` (not read without --heal). END_TEXT, END_MATCH: a stop text or the end of a match of
 * --regex, which samples_ending does not see. */
enum ending { GOES_ON, END_TOKEN, END_TEXT, END_MATCH, END_LENGTH, END_FULL, END_INTERRUPTED };
enum ending samples_ending(const struct samples *s, const int32_t *drawn, size_t n_drawn,
                           int32_t token);

/* Runs what an open heal asks for after its prompt, in a fork of a session that holds a beginning of it. Returns a status. */
int samples_heal(struct heal *h, struct engine *e, const mgpt_session *from, const int32_t *prompt,
                 mgpt_error *err);

/* Runs an open heal for the prompt of samples, which then goes on from its kept tokens. Returns an exit code. */
int samples_heal_prompt(struct samples *s, struct heal *h, struct edit_rules *rules);

/* Adds the prompt to a text. */
void samples_put_prompt(const struct samples *s, struct text_out *out);

/* EXIT_OK, EXIT_INTERRUPTED after Ctrl-C, EXIT_IO after a failed write. */
int samples_stopped(void);

#endif
