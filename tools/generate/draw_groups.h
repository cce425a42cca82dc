/* Samples with a common prefix draw together.
 *
 * The samples at one prefix are a group, a range of an array that holds their random states and
 * numbers. A group draws, and its samples move to the same range of the other array, sorted by
 * token: the groups of the children. Arrays alternate with depth, and each group keeps the order of
 * samples.
 */
#ifndef MGPT_DRAW_GROUPS_H
#define MGPT_DRAW_GROUPS_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

/* The samples of a prefix of `depth` drawn tokens: [from, from + n) of order[depth % 2]. */
struct group {
    int32_t token; /* the prefix's last */
    uint32_t depth, from, n;
};

struct draw_samples {
    struct {
        uint64_t *rng;
        uint32_t *number; /* of the sample */
    } order[2];
    int32_t *drawn; /* by a group that draws, in its range */
};

/* What a thread needs to divide groups. Several may share the samples. */
struct draw_groups {
    struct draw_samples *samples;
    size_t n_choices;       /* tokens that can be drawn */
    uint32_t *of_token;     /* [n_choices] 0 between draws */
    struct group *children; /* [n_choices] of the group that drew last, as first drawn */
};

/* Makes room for n samples, in place of those before. MGPT_OK or MGPT_EMEM. Zero it before. */
int draw_samples_room(struct draw_samples *s, size_t n, mgpt_error *err);
void draw_samples_free(struct draw_samples *s);

/* For tokens below n_choices. MGPT_OK or MGPT_EMEM. Zero it before. */
int groups_open(struct draw_groups *d, struct draw_samples *samples, size_t n_choices,
                mgpt_error *err);
void groups_free(struct draw_groups *d);

/* Bytes of a sample. */
enum { GROUPS_SAMPLE_BYTES = 2 * (sizeof(uint64_t) + sizeof(uint32_t)) + sizeof(int32_t) };

/* Each sample of a group draws. Returns the number of children. */
size_t groups_draw(struct draw_groups *d, struct group g, const mgpt_sampler *sampler,
                   const float *logits);

/* The two halves of it. Parts of a group, with its token and depth, can draw in several threads. */
void groups_draw_part(const struct draw_groups *d, struct group part, const mgpt_sampler *sampler,
                      const float *logits);
size_t groups_divide(struct draw_groups *d, struct group g);

#endif
