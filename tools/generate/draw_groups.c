/* Samples with a common prefix draw together. See draw_groups.h. */
#include "generate/draw_groups.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>

int groups_open(struct draw_groups *d, size_t n_choices, mgpt_error *err)
{
    d->n_choices = n_choices;
    d->of_token = mem_new(n_choices, sizeof *d->of_token);
    d->children = mem_new(n_choices, sizeof *d->children);
    return d->of_token && d->children
               ? MGPT_OK
               : err_memory(err, "the samples", n_choices * sizeof *d->children);
}

static void free_samples(struct draw_groups *d)
{
    for (size_t i = 0; i < 2; i++) {
        free(d->order[i].rng);
        free(d->order[i].number);
    }
    free(d->drawn);
}

int groups_room(struct draw_groups *d, size_t n, mgpt_error *err)
{
    int all = 1;
    free_samples(d);
    for (size_t i = 0; i < 2; i++) {
        d->order[i].rng = mem_new(n, sizeof *d->order[i].rng);
        d->order[i].number = mem_new(n, sizeof *d->order[i].number);
        all = all && d->order[i].rng && d->order[i].number;
    }
    d->drawn = mem_new(n, sizeof *d->drawn);
    return all && d->drawn ? MGPT_OK : err_memory(err, "the samples", n * GROUPS_SAMPLE_BYTES);
}

void groups_free(struct draw_groups *d)
{
    free_samples(d);
    free(d->of_token);
    free(d->children);
    *d = (struct draw_groups){0};
}

/* Counts the tokens that a group has drawn, in of_token, and gives each a child with its place among
 * the group's. Returns their number. */
static size_t place_children(struct draw_groups *d, struct group g)
{
    size_t n_children = 0;
    uint32_t at = g.from;
    for (uint32_t i = 0; i < g.n; i++)
        if (d->of_token[d->drawn[i]]++ == 0)
            d->children[n_children++].token = d->drawn[i];
    for (size_t k = 0; k < n_children; k++) {
        int32_t token = d->children[k].token;
        d->children[k] = (struct group){token, g.depth + 1, at, d->of_token[token]};
        d->of_token[token] = at;
        at += d->children[k].n;
    }
    return n_children;
}

/* Moves the samples of a group to the other array, those of token t to of_token[t] and on. */
static void move_samples(struct draw_groups *d, struct group g)
{
    size_t side = g.depth % 2;
    for (uint32_t i = 0; i < g.n; i++) {
        uint32_t to = d->of_token[d->drawn[i]]++;
        d->order[!side].rng[to] = d->order[side].rng[g.from + i];
        d->order[!side].number[to] = d->order[side].number[g.from + i];
    }
}

size_t groups_draw(struct draw_groups *d, struct group g, const mgpt_sampler *sampler,
                   const float *logits)
{
    mgpt_sample_many(sampler, d->order[g.depth % 2].rng + g.from, g.n, logits, d->n_choices,
                     d->drawn);
    size_t n_children = place_children(d, g);
    move_samples(d, g);
    for (size_t k = 0; k < n_children; k++)
        d->of_token[d->children[k].token] = 0;
    return n_children;
}
