/* Which hooks a model has, and choosing among them. See hooks.h.
 *
 * There is no second list of what fires when: one token is run and the names of its taps are kept.
 * Heads are told from columns by the model's sizes.
 */
#include "engine/hooks.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/cli.h"
#include "engine/layers.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

struct collector {
    struct hook *hooks;
    const mgpt_model *model;
    int no_memory;
};

int hook_is_attention(mgpt_point point)
{
    return point == MGPT_SCORES || point == MGPT_WEIGHTS;
}

static int has_heads(mgpt_point point)
{
    return (point >= MGPT_Q && point <= MGPT_ROT_K) || point == MGPT_HEADS;
}

static void set_shape(struct hook *hook, const mgpt_value *value, const mgpt_model *model)
{
    uint64_t cols = (uint64_t)value->cols,
             d = (uint64_t)engine_width(model, value->point, value->layer);
    hook->n_dims = 2;
    hook->dims[1] = cols;
    if (hook_is_attention(value->point)) {
        hook->n_dims = 3;
        hook->dims[0] = (uint64_t)value->rows;
        hook->dims[1] = 0;
    } else if (has_heads(value->point)) {
        hook->n_dims = 3;
        hook->dims[1] = cols / d;
        hook->dims[2] = d;
    }
}

static int collect_hook(const mgpt_value *value, void *user)
{
    struct collector *c = user;
    struct hook hook = {.point = value->point, .layer = value->layer};
    mgpt_point_name(value->point, value->layer, hook.name, sizeof hook.name);
    set_shape(&hook, value, c->model);
    c->no_memory = !arr_push(c->hooks, hook);
    return c->no_memory;
}

struct hook *hooks_list(const mgpt_model *model, mgpt_error *err)
{
    struct collector c = {.model = model};
    mgpt_session_params params = {.n_ctx = 1, .n_chunk = 1};
    mgpt_session *session = mgpt_session_new(model, &params, err);
    int done =
        session &&
        mgpt_tap(session, MGPT_POINT_BIT(MGPT_N_POINTS) - 1, collect_hook, &c, err) == MGPT_OK &&
        mgpt_step(session, 0, err);
    mgpt_session_free(session);
    if (done)
        return c.hooks;
    if (c.no_memory)
        err_memory(err, "the list of hooks", (arr_len(c.hooks) + 1) * sizeof *c.hooks);
    arr_free(c.hooks);
    return NULL;
}

/* ---- patterns ---- */

/* One pattern, [glob, end). fnmatch also knows sets in brackets, which no name needs; a backslash
 * is an ordinary character. Names are shorter than 64 bytes, so a longer pattern than this has
 * nothing to match. */
static int match_one(const char *glob, const char *end, const char *name)
{
    char pattern[256];
    int n = snprintf(pattern, sizeof pattern, "%.*s", (int)(end - glob), glob);
    return n < (int)sizeof pattern && fnmatch(pattern, name, FNM_NOESCAPE) == 0;
}

/* The end of the pattern that begins at glob. */
static const char *pattern_end(const char *glob)
{
    return glob + strcspn(glob, ",");
}

int hooks_match(const char *globs, const char *name)
{
    for (const char *end;; globs = end + 1) {
        end = pattern_end(globs);
        if (match_one(globs, end, name))
            return 1;
        if (!*end)
            return 0;
    }
}

static int matches_any(const char *glob, const char *end, const struct hook *hooks)
{
    for (size_t i = 0; i < arr_len(hooks); i++)
        if (match_one(glob, end, hooks[i].name))
            return 1;
    return 0;
}

/* ---- suggestions ---- */

/* A hook's name with `*` for its layer. */
static void any_layer(const struct hook *hook, char out[64])
{
    const char *rest = hook->layer < 0 ? NULL : strchr(hook->name + strlen("blocks."), '.');
    if (rest)
        snprintf(out, 64, "blocks.*%s", rest);
    else
        memcpy(out, hook->name, 64);
}

/* Finds the name that is nearest to a pattern that matches nothing: one that contains it (a user
 * who knows `hook_pattern` only), else one with a similar spelling. The answer to a pattern is a
 * pattern. */
static int hooks_nearest(const struct hook *hooks, const char *word, char out[64])
{
    size_t n = arr_len(hooks);
    int wild = strpbrk(word, "*?") != NULL || !strchr(word, '.');
    char(*names)[64] = calloc(n, sizeof *names);
    const char **rows = calloc(n, sizeof *rows), *best = NULL;
    for (size_t i = 0; names && rows && i < n; i++) {
        if (wild)
            any_layer(&hooks[i], names[i]);
        else
            memcpy(names[i], hooks[i].name, sizeof names[i]);
        rows[i] = names[i];
        if (!best && *word && strstr(names[i], word))
            best = names[i];
    }
    if (!best && names && rows)
        best = cli_nearest(word, rows, n);
    if (best)
        memcpy(out, best, 64);
    free(names);
    free(rows);
    return best != NULL;
}

static void no_match(const struct hook *hooks, const char *glob, const char *end, mgpt_error *err)
{
    char word[64], name[64];
    snprintf(word, sizeof word, "%.*s", (int)(end - glob < 63 ? end - glob : 63), glob);
    if (hooks_nearest(hooks, word, name))
        err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "no hook is called '%s', did you mean '%s'?", word,
                name);
    else
        err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                "no hook is called '%s' (mgpt trace MODEL --list prints them)", word);
}

/* ---- choosing ---- */

struct hook *hooks_choose(const struct hook *hooks, const char *globs, mgpt_error *err)
{
    struct hook *chosen = NULL;
    for (const char *glob = globs, *end;; glob = end + 1) {
        end = pattern_end(glob);
        if (!matches_any(glob, end, hooks)) {
            no_match(hooks, glob, end, err);
            return NULL;
        }
        if (!*end)
            break;
    }
    if (!arr_reserve(chosen, arr_len(hooks))) {
        err_memory(err, "the list of hooks", arr_len(hooks) * sizeof *chosen);
        return NULL;
    }
    for (size_t i = 0; i < arr_len(hooks); i++)
        if (hooks_match(globs, hooks[i].name))
            arr_put(chosen, hooks[i]);
    return chosen;
}

const struct hook *hooks_find(const struct hook *hooks, mgpt_point point, int32_t layer)
{
    for (size_t i = 0; i < arr_len(hooks); i++)
        if (hooks[i].point == point && hooks[i].layer == layer)
            return &hooks[i];
    return NULL;
}

uint64_t hooks_points(const struct hook *hooks)
{
    uint64_t points = 0;
    for (size_t i = 0; i < arr_len(hooks); i++)
        points |= MGPT_POINT_BIT(hooks[i].point);
    return points;
}

int hook_shape(const struct hook *hook, uint64_t n_tokens, uint64_t dims[4], uint64_t *n_elements)
{
    *n_elements = 1;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t n = hook->dims[i] ? hook->dims[i] : n_tokens;
        dims[i] = i < hook->n_dims ? n : 1;
        if (!ck_mul(*n_elements, dims[i], n_elements))
            return 0;
    }
    return 1;
}
