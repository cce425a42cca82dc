/* Samples with a common prefix draw together. See draw_groups.h. */
#include "generate/draw_groups.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>

int groups_open(struct draw_groups *d, struct draw_samples *samples, size_t n_choices,
                mgpt_error *err)
{
    d->samples = samples;
    d->n_choices = n_choices;
    d->of_token = mem_new(n_choices, sizeof *d->of_token);
    d->children = mem_new(n_choices, sizeof *d->children);
    return d->of_token && d->children
               ? MGPT_OK
               : err_memory(err, "the samples", n_choices * sizeof *d->children);
}

void draw_samples_free(struct draw_samples *s)
{
    for (size_t i = 0; i < 2; i++) {
        free(s->order[i].rng);
        free(s->order[i].number);
    }
    free(s->drawn);
    *s = (struct draw_samples){0};
}

int draw_samples_room(struct draw_samples *s, size_t n, mgpt_error *err)
{
    int all = 1;
    draw_samples_free(s);
    for (size_t i = 0; i < 2; i++) {
        s->order[i].rng = mem_large(n, sizeof *s->order[i].rng);
        s->order[i].number = mem_large(n, sizeof *s->order[i].number);
        all = all && s->order[i].rng && s->order[i].number;
    }
    s->drawn = mem_large(n, sizeof *s->drawn);
    return all && s->drawn ? MGPT_OK : err_memory(err, "the samples", n * GROUPS_SAMPLE_BYTES);
}

void groups_free(struct draw_groups *d)
{
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
    const int32_t *drawn = d->samples->drawn + g.from;
    for (uint32_t i = 0; i < g.n; i++)
        if (d->of_token[drawn[i]]++ == 0)
            d->children[n_children++].token = drawn[i];
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
    const struct draw_samples *s = d->samples;
    size_t side = g.depth % 2;
    for (uint32_t i = g.from; i < g.from + g.n; i++) {
        uint32_t to = d->of_token[s->drawn[i]]++;
        s->order[!side].rng[to] = s->order[side].rng[i];
        s->order[!side].number[to] = s->order[side].number[i];
    }
}

void groups_draw_part(const struct draw_groups *d, struct group part, const mgpt_sampler *sampler,
                      const float *logits)
{
    const struct draw_samples *s = d->samples;
    mgpt_sample_many(sampler, s->order[part.depth % 2].rng + part.from, part.n, logits,
                     d->n_choices, s->drawn + part.from);
}

size_t groups_divide(struct draw_groups *d, struct group g)
{
    size_t n_children = place_children(d, g);
    move_samples(d, g);
    for (size_t k = 0; k < n_children; k++)
        d->of_token[d->children[k].token] = 0;
    return n_children;
}

size_t groups_draw(struct draw_groups *d, struct group g, const mgpt_sampler *sampler,
                   const float *logits)
{
    groups_draw_part(d, g, sampler, logits);
    return groups_divide(d, g);
}
