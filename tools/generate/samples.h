/* Several continuations of one prompt, run as timelines that are stepped together.
 *
 * The prompt is fed once and forked. Each step is one pass over the weights for all timelines;
 * one that has come to its end makes room at once for the next sample, so that passes stay full.
 * Results come out whole and in order. A sample's tokens depend on prompt, seed and its number
 * only (sampling.h): neither on the batch nor on the threads nor on the other samples of the batch.
 */
#ifndef MGPT_SAMPLES_H
#define MGPT_SAMPLES_H

#include "engine/engine.h"
#include "engine/sampling.h"
#include "generate/speculate.h"

/* What is asked for, and at the end what came of it. */
struct samples {
    struct engine *engine; /* with a session */
    const struct sampling *sampling;
    const int32_t *prompt; /* n_prompt > 0 tokens */
    size_t n_prompt;
    size_t n_before; /* of them the model does not see the first: the others fit into the context */
    int32_t n_predict; /* most tokens to draw for each; -1: until the end */
    int32_t n;         /* how many samples */
    uint64_t first;    /* number of the first */
    int32_t batch;     /* most timelines; 0: chosen */
    int32_t lookup;    /* most tokens to propose; 0: no speculation */
    int slide;         /* beyond the context with a window of its last tokens (engine_slide) */
    int no_prompt;     /* the continuation only */
    int json;          /* a JSON object for each, not a line */

    size_t n_drawn, n_full;         /* tokens; samples printed that ended with the context */
    struct speculation speculation; /* its counts, when there was one */
};

/* Draws and prints all samples. Returns an exit code; after Ctrl-C the sample whose turn it was
 * has been printed as far as it got. */
int samples_run(struct samples *s);

#endif
