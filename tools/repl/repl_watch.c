/* /watch: values inside the model that are shown after each step. The passes that make a timeline
 * longer note them (repl_watching), so that a step costs no second pass; logits are those that the
 * session keeps. */
#include "base/mem.h"
#include "common/heat.h"
#include "common/text.h"
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WATCHES = 64 };

/* ---- what is watched ---- */

/* Short names: "0.3[1]" is a weight of head 3, "mlp.0[17]" a neuron. */
static void spell_hook(const char *name, char *out, size_t cap, int *head)
{
    int layer, end = 0;
    *head = -1;
    if (sscanf(name, "mlp.%9d%n", &layer, &end) == 1 && name[end] == 0)
        snprintf(out, cap, "blocks.%d.mlp.hook_post", layer);
    else if (sscanf(name, "%9d.%9d%n", &layer, head, &end) == 2 && name[end] == 0)
        snprintf(out, cap, "blocks.%d.attn.hook_pattern", layer);
    else
        snprintf(out, cap, "%s", name);
}

static int find_watched_hook(struct repl *r, const char *name, struct hook *hook)
{
    const struct hook *all = repl_hooks(r);
    mgpt_error err;
    struct hook *found = all ? hooks_choose(all, name, &err) : NULL;
    size_t n = arr_len(found);
    if (all && !found)
        repl_failed(&err);
    else if (n > 1)
        repl_error("%s names %zu hooks, expected one", name, n);
    else if (n == 1)
        *hook = found[0];
    arr_free(found);
    return n == 1;
}

/* A whole number, from the end when it is negative and `last` allows that. */
static int read_place(char **at, size_t n, int last, int32_t *to, const char *what)
{
    const char *word = repl_cut(at, " \t,");
    const struct cli_option row = {
        .kind = CLI_INT, .to = to, .min = last ? -(double)n : 0, .max = INT32_MAX};
    if (*word && cli_set_number(&row, word) && (*to < 0 || (size_t)*to < n))
        return 1;
    repl_error("%s: expected a whole number from %d to %zu, found '%s'", what, last ? -(int)n : 0,
               n - 1, word);
    return 0;
}

/* "[3,1]" without the brackets, as the hook's shape wants it. */
static int read_places(struct repl *r, struct repl_watched *w, const struct hook *hook, int head,
                       char *at)
{
    size_t n_ctx = mgpt_n_ctx(r->engine.session);
    const uint64_t *dims = hook->dims;
    int attention = hook_is_attention(hook->point), two = attention || hook->n_dims == 3;
    w->row = head;
    if (two && head < 0 &&
        !read_place(&at, (size_t)dims[attention ? 0 : 1], 0, &w->row, "the head"))
        return 0;
    if (head >= 0 && (uint64_t)head >= dims[0]) {
        repl_error("head %d: expected 0 to %d", head, (int)dims[0] - 1);
        return 0;
    }
    if (!read_place(&at, attention ? n_ctx : (size_t)dims[hook->n_dims - 1], attention, &w->col,
                    attention ? "the key" : "the column"))
        return 0;
    if (*at)
        repl_error("%s[...]: '%s' is left over", hook->name, at);
    else if (two)
        snprintf(w->name, sizeof w->name, "%s[%d,%d]", hook->name, (int)w->row, (int)w->col);
    else
        snprintf(w->name, sizeof w->name, "%s[%d]", hook->name, (int)w->col);
    if (!attention && two)
        w->col += w->row * (int32_t)dims[2];
    return !*at;
}

static int read_logit(const struct repl *r, struct repl_watched *w, char *at)
{
    char label[HEAT_LABEL];
    if (!repl_read_token(r, at, strlen(at), &w->col))
        return 0;
    if (!text_token_label(r->engine.model, w->col, 24, label, sizeof label))
        repl_no_memory();
    snprintf(w->name, sizeof w->name, "logits[%d] %s", (int)w->col, label);
    return 1;
}

/* "HOOK[INDICES]" */
static int read_watched(struct repl *r, char *text, struct repl_watched *w)
{
    char *open = strchr(text, '['), *close = strrchr(text, ']'), name[96];
    struct hook hook;
    int head;
    if (!open || !close || close[1]) {
        repl_error("expected a value as L.H[KEY], mlp.L[NEURON], logits[TOKEN] or HOOK[I,J], found "
                   "'%.40s' (/unwatch: show none)",
                   text);
        return 0;
    }
    *open = *close = 0;
    spell_hook(text, name, sizeof name, &head);
    if (!find_watched_hook(r, name, &hook))
        return 0;
    w->point = hook.point;
    w->layer = hook.layer;
    return hook.point == MGPT_LOGITS ? read_logit(r, w, open + 1)
                                     : read_places(r, w, &hook, head, open + 1);
}

/* ---- values ---- */

/* Notes the watched values of the last position that runs: rows come in order, so later ones replace them. */
static int watch_note(const mgpt_value *v, void *user)
{
    struct repl *r = user;
    for (size_t i = 0; i < arr_len(r->watches); i++) {
        struct repl_watched *w = &r->watches[i];
        if (w->point != v->point || w->layer != v->layer)
            continue;
        int attention = hook_is_attention(v->point);
        int32_t col = attention && w->col < 0 ? v->pos + 1 + w->col : w->col;
        int32_t row = attention ? w->row : v->rows - 1;
        int there = col >= 0 && (!attention || col <= v->pos);
        w->value = there ? v->data[(size_t)row * v->stride + (size_t)col] : NAN;
    }
    return 0;
}

struct watcher *repl_watching(struct repl *r, const mgpt_session *session, struct watcher *next)
{
    uint64_t points = 0;
    for (size_t i = 0; i < arr_len(r->watches); i++)
        points |= MGPT_POINT_BIT(r->watches[i].point);
    if (points)
        r->watched_in = session;
    r->watching = (struct watcher){points & ~MGPT_POINT_BIT(MGPT_LOGITS), watch_note, r, next};
    return r->watching.points ? &r->watching : next;
}

static void print_watches(const struct repl *r)
{
    const float *logits = mgpt_logits(r->engine.session);
    for (size_t i = 0; i < arr_len(r->watches); i++) {
        const struct repl_watched *w = &r->watches[i];
        double value = (double)w->value;
        if (w->point == MGPT_LOGITS)
            value = logits ? (double)logits[w->col] : NAN;
        printf("      %-34s ", w->name);
        if (isnan(value))
            puts("none");
        else
            printf("%.6f\n", value);
    }
}

void repl_watch_print(struct repl *r)
{
    if (r->watched_in && r->watched_in == r->engine.session)
        print_watches(r);
    r->watched_in = NULL;
}

/* ---- the commands ---- */

/* Values of the timeline as it is: its tokens run once more. */
static void show_watches(struct repl *r)
{
    for (size_t i = 0; i < arr_len(r->watches); i++)
        r->watches[i].value = NAN;
    const struct watcher *look = repl_watching(r, NULL, NULL);
    if (arr_len(r->watches) == 0)
        puts("no value is watched");
    else if (mgpt_pos(r->engine.session) == 0 || !look ||
             repl_replay(r, look->points, watch_note, r))
        print_watches(r);
}

static size_t find_watched(const struct repl *r, const struct repl_watched *w)
{
    size_t i = 0;
    while (i < arr_len(r->watches) && strcmp(r->watches[i].name, w->name) != 0)
        i++;
    return i;
}

void repl_run_watch(struct repl *r, struct repl_args *args)
{
    struct repl_watched w = {.value = NAN};
    if (*args->rest && !read_watched(r, args->rest, &w))
        return;
    if (*args->rest && find_watched(r, &w) == arr_len(r->watches)) {
        if (arr_len(r->watches) == WATCHES) {
            repl_error("%d values are watched, which is the most: /unwatch ends some", WATCHES);
            return;
        }
        if (!arr_push(r->watches, w)) {
            repl_no_memory();
            return;
        }
    }
    show_watches(r);
}

void repl_run_unwatch(struct repl *r, struct repl_args *args)
{
    struct repl_watched w = {.value = NAN};
    if (!*args->rest) {
        arr_free(r->watches);
        r->watches = NULL;
    } else if (read_watched(r, args->rest, &w)) {
        size_t at = find_watched(r, &w);
        if (at == arr_len(r->watches))
            repl_error("%s is not watched: /watch lists what is", w.name);
        else
            stbds_arrdel(r->watches, at);
    }
}
