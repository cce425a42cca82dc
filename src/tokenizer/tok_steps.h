/* Private to tok*.c: what happens to a text before the model of the vocabulary gets it, as lists of
 * steps that the file holds. Any kind of tokenizer may have them.
 *
 *   mgpt.tokenizer.normalizers     strings: the steps for a whole part of text
 *   mgpt.tokenizer.pre_tokenizers  strings: the steps for pieces; "split" makes more pieces of one
 *
 * Both are flat lists of names and arguments:
 *     map NAME               every character by mgpt.tokenizer.map.NAME (tok_chars.h)
 *     decompose NAME         the same, and Hangul, then sorted by mgpt.tokenizer.map.classes
 *     compose                canonical composition, by mgpt.tokenizer.map.compositions
 *     replace PATTERN TEXT   every match by the text
 *     surround PATTERN TEXT  the text before and after every match
 *     prepend TEXT           before what is not empty
 *     lead WHEN TEXT         before a piece that does not begin with it; WHEN is "always", or
 *                            "first": only at the start of the whole text
 *     strip SIDE             white space at the "left", "right" or "both" ends
 *     bytes                  bytes as GPT-2's alphabet of visible characters
 *     charsmap               graphemes by tokenizer.ggml.precompiled_charsmap (tok_charsmap.c)
 *     split HOW PATTERN      HOW: removed, isolated, previous, next, contiguous; what becomes of
 *                            matches; with "not " before it, of what does not match
 * Patterns are PCRE2's with UTF and UCP. Texts are valid UTF-8: each ill-formed byte has become
 * U+FFFD before the first step.
 */
#ifndef MGPT_TOK_STEPS_H
#define MGPT_TOK_STEPS_H

#include "gguf/gguf.h"
#include "mgpt.h"

/* Bytes that all steps together may produce for a text of n bytes: a file cannot make a short text
 * grow without end. */
#define STEPS_LIMIT(n) ((uint64_t)(n)*512 + 65536)

struct tok_call;
struct tok_steps;

/* *steps is NULL when the file has neither key. Errors: MGPT_EFILE, MGPT_EMEM. */
int steps_open(struct tok_steps **steps, const struct gguf *g, mgpt_error *err);
void steps_close(struct tok_steps *s);

/* A text after the normalizers; a stb_ds array (NULL: empty). *at_start says whether its first
 * character comes from the first one of the text. `limit` is the number of bytes that all steps
 * may still produce. Errors: MGPT_ETEXT, MGPT_EMEM. */
int steps_normalize(const struct tok_steps *s, const char *p, size_t n, char **out, int *at_start,
                    uint64_t *limit, mgpt_error *err);

/* Cuts n bytes of normalized text by the pre-tokenizers; the kind encodes each piece. `first`: the
 * text begins here. */
int steps_encode(struct tok_call *c, const char *p, size_t n, int first);

#endif
