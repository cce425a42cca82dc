/* Samples that share a prefix share its pass.
 *
 * The logits after a prefix are the same for every sample that begins with it. So the pass of a
 * prefix runs once, and each of its samples draws from the logits with its own random numbers. A
 * million names of weights/names.gguf are 6.9 million tokens, but 170,000 prefixes.
 */
#ifndef MGPT_PREFIXES_H
#define MGPT_PREFIXES_H

#include "generate/samples.h"

/* Draws and prints samples [0, n) of s, whose session holds the prompt; in order, the bytes that
 * one sample after the other gives. Not for --slide, --lookup, --draft, and samplers with a shared stream.
 * Returns an exit code. */
int prefixes_run(struct samples *s);

#endif
