/* Hooks: the values inside a model by the names of TransformerLens, and patterns over these names.
 *
 * A hook is one point of one layer. Its shape is that of TransformerLens without the batch: q, k, v
 * and z [T, heads, d], scores and pattern [H, T, T], everything else [T, columns].
 */
#ifndef MGPT_HOOKS_H
#define MGPT_HOOKS_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

struct hook {
    mgpt_point point;
    int32_t layer; /* -1 outside the layers */
    char name[64];
    unsigned n_dims;
    uint64_t dims[4]; /* 0: the number of tokens */
};

/* All hooks that this model fires, in the order of the pass, found by running one token in a
 * session of its own. An stb_ds array (mem.h) that the caller frees with arr_free; NULL with
 * *err. */
struct hook *hooks_list(const mgpt_model *model, mgpt_error *err);

/* 1 when one of the patterns, separated by commas, is the whole name. `*` matches any run of
 * characters, dots too, `?` for one. */
int hooks_match(const char *globs, const char *name);

/* The hooks of an array that the patterns choose, in the array's order, as a new array. NULL with
 * *err (MGPT_EARG) when one of the patterns chooses nothing: the text names it and the nearest. */
struct hook *hooks_choose(const struct hook *hooks, const char *globs, mgpt_error *err);

/* The hook of a point and layer in such an array, or NULL. Linear in its length. */
const struct hook *hooks_find(const struct hook *hooks, mgpt_point point, int32_t layer);

/* All their points, as mgpt_tap takes them. */
uint64_t hooks_points(const struct hook *hooks);

/* The shape for n tokens, and the number of elements: 0 when that overflows. */
int hook_shape(const struct hook *hook, uint64_t n_tokens, uint64_t dims[4], uint64_t *n_elements);

/* 1 where a value has a row per head and one query at a time: scores and pattern. */
int hook_is_attention(mgpt_point point);

#endif
