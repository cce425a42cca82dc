/* Drawing a token, and many texts that go on after one: exports of a lab page's module. See module.h.
 *
 * The prefixes that they draw are a tree, which one session walks depth first: going to a group
 * rewinds it (generate/draw_groups.h).
 */
#include "lab/module_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/splitmix.h"
#include "engine/sampling.h"
#include "generate/draw_groups.h"

#include <stdlib.h>
#include <string.h>

int lab_sample(const float *logits, size_t n, float temperature, int top_k, float top_p,
               float min_p, uint64_t seed, uint32_t counter)
{
    mgpt_sampler sampler = {.temperature = temperature,
                            .top_k = top_k,
                            .top_p = top_p,
                            .min_p = min_p,
                            .rng = seed + counter * SPLITMIX_STEP};
    int32_t token = mgpt_sample(&sampler, logits, n);
    return token < 0 ? lab_refuse("no logits to draw from") : token;
}

static struct many {
    struct draw_samples samples;
    struct draw_groups draw;
    mgpt_session *session;
    mgpt_sampler sampler;
    size_t n_prompt, longest, n_left; /* longest: most tokens of a text; n_left: texts to end */
    int32_t *path;                    /* [longest] tokens drawn */
    struct group *waiting;            /* stb_ds array, used as a stack */
    int32_t *texts;                   /* stb_ds array: module.h */
} many;

void lab_many_close(void)
{
    mgpt_session_free(many.session);
    groups_free(&many.draw);
    draw_samples_free(&many.samples);
    free(many.path);
    arr_free(many.waiting);
    arr_free(many.texts);
    many = (struct many){0};
}

/* A text of the group's samples, which have its first n tokens. */
static int many_end(struct group g, size_t n)
{
    size_t at = arr_len(many.texts);
    if (!arr_reserve(many.texts, at + 2 + n))
        return err_memory(lab_last_error(), "the texts", (at + 2 + n) * sizeof *many.texts);
    arr_set_len(many.texts, at + 2 + n);
    many.texts[at] = (int32_t)g.n;
    many.texts[at + 1] = (int32_t)n;
    memcpy(many.texts + at + 2, many.path, n * sizeof *many.path);
    many.n_left -= g.n;
    return MGPT_OK;
}

/* Draws for the samples of a group. Groups that go on are pushed on the stack of waiting ones, the one with
 * the lowest token on top. */
static int many_draw(struct group g, const float *logits)
{
    int status = MGPT_OK;
    for (size_t k = groups_draw(&many.draw, g, &many.sampler, logits);
         k > 0 && k-- && status == MGPT_OK;) {
        struct group child = many.draw.children[k];
        int ends = mgpt_is_end(lab_model(), child.token);
        many.path[g.depth] = child.token;
        if (ends || child.depth == many.longest)
            status = many_end(child, ends ? g.depth : child.depth);
        else if (!arr_push(many.waiting, child))
            status = err_memory(lab_last_error(), "the texts", sizeof child);
    }
    return status;
}

static int many_begin(size_t n, size_t n_choices, uint64_t seed)
{
    const struct sampling s = {.sampler = many.sampler, .seed = seed};
    int status = groups_open(&many.draw, &many.samples, n_choices, lab_last_error());
    if (status == MGPT_OK)
        status = draw_samples_room(&many.samples, n, lab_last_error());
    many.path = mem_new(many.longest, sizeof *many.path);
    if (status == MGPT_OK && !many.path)
        status = err_memory(lab_last_error(), "the texts", many.longest * sizeof *many.path);
    for (size_t i = 0; i < n && status == MGPT_OK; i++) {
        many.samples.order[0].rng[i] = sampling_of_sample(&s, i).rng;
        many.samples.order[0].number[i] = (uint32_t)i;
    }
    return status;
}

int lab_many(size_t n_prompt, size_t n, size_t longest, size_t n_choices, float temperature,
             int top_k, float top_p, float min_p, uint64_t seed)
{
    lab_many_close();
    many.session = lab_fork(LAB_SHOWN, n_prompt);
    if (!many.session)
        return lab_last_error()->status;
    many.sampler = (mgpt_sampler){
        .temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p, .rng = seed};
    many.n_prompt = n_prompt;
    many.longest = longest;
    many.n_left = n;
    size_t n_vocab = (size_t)lab_info()->n_vocab;
    int status = many_begin(n, n_choices < n_vocab ? n_choices : n_vocab, seed);
    if (status == MGPT_OK)
        status = many_draw((struct group){.n = (uint32_t)n},
                           lab_value(LAB_SHOWN, MGPT_LOGITS, 0) + (n_prompt - 1) * n_vocab);
    return status < 0 ? status : (int)many.n_left;
}

int lab_many_step(size_t most_passes)
{
    int status = MGPT_OK;
    for (; most_passes > 0 && arr_len(many.waiting) > 0 && status == MGPT_OK; most_passes--) {
        struct group g = many.waiting[arr_len(many.waiting) - 1];
        arr_set_len(many.waiting, arr_len(many.waiting) - 1);
        many.path[g.depth - 1] = g.token;
        mgpt_rewind(many.session, many.n_prompt + g.depth - 1, NULL);
        const float *logits = mgpt_step(many.session, g.token, lab_last_error());
        status = logits ? many_draw(g, logits) : lab_last_error()->status;
    }
    return status < 0 ? status : (int)many.n_left;
}

const int32_t *lab_many_texts(void)
{
    return many.texts;
}

size_t lab_many_size(void)
{
    return arr_len(many.texts);
}
