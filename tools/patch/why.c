/* See why.h. */
#include "patch/why.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "common/progress.h"
#include "patch/grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *unknown(size_t n)
{
    double *values = mem_new(n, sizeof *values);
    for (size_t i = 0; values && i < n; i++)
        values[i] = NAN;
    return values;
}

/* The metric of a prompt without tokens: all logits are equal. */
static int empty_value(const struct why *w, double *value, mgpt_error *err)
{
    float *logits = mem_new(w->metric->n_vocab, sizeof *logits);
    if (!logits)
        return err_memory(err, "the logits", w->metric->n_vocab * sizeof *logits);
    *value = metric_value(w->metric, logits);
    free(logits);
    return MGPT_OK;
}

static int stopped(int status)
{
    return status == MGPT_ESTOP && interrupted() ? MGPT_OK : status;
}

/* ---- without a token ---- */

/* The session holds the prompt up to the token at least. */
static int run_without(struct why *w, mgpt_session *s, size_t token, mgpt_error *err)
{
    size_t last =
        token + 1 == w->n_prompt; /* then the one before it is run again, for its logits */
    const int32_t *rest = last ? w->prompt + token - 1 : w->prompt + token + 1;
    int status = mgpt_rewind(s, token - last, err);
    if (status == MGPT_OK)
        status = engine_feed(w->engine, s, rest, last ? 1 : w->n_prompt - token - 1, NULL, err);
    if (status == MGPT_OK)
        w->tokens[token] = metric_value(w->metric, mgpt_logits(s));
    return status;
}

int why_tokens(struct why *w, mgpt_error *err)
{
    w->tokens = unknown(w->n_prompt);
    if (!w->tokens)
        return err_memory(err, "the tokens", w->n_prompt);
    if (w->n_prompt == 1)
        return empty_value(w, w->tokens, err);
    mgpt_session *s = engine_fork(w->engine, w->engine->session, err);
    int status = s ? MGPT_OK : MGPT_EMEM;
    for (size_t i = w->n_prompt; i > 0 && status == MGPT_OK && !interrupted(); i--)
        status = run_without(w, s, i - 1, err);
    mgpt_session_free(s);
    return stopped(status);
}

/* ---- segments ---- */

static int cannot_cut(size_t n, size_t bos, const char *text)
{
    cli_note(
        "--segments: expected 1 to %zu segments, or the positions where they begin, the first at "
        "%zu, found '%.64s'",
        n, bos, text);
    return EXIT_USAGE;
}

/* Cuts the prompt into segments that begin at the listed positions. The first is the one after BOS. */
static int cut_at(struct why *w, size_t bos, size_t most, const char *text)
{
    int32_t *set = NULL;
    int code = grid_read_set("--segments", text, w->n_prompt, &set);
    size_t n = code == EXIT_OK ? arr_len(set) : 0;
    int good = n > 0 && n <= most && (size_t)set[0] == bos;
    for (size_t i = 0; i < n && good; i++) {
        w->first[i] = (size_t)set[i];
        good = i == 0 || set[i] > set[i - 1];
    }
    w->n_segments = n;
    arr_free(set);
    return code == EXIT_OK && !good ? cannot_cut(most, bos, text) : code;
}

int why_cut(struct why *w, const char *text)
{
    size_t bos = w->prompt[0] == w->engine->info.bos, n = w->n_prompt - bos;
    size_t most = n < WHY_SEGMENTS ? n : WHY_SEGMENTS;
    int32_t wanted = (int32_t)most;
    const struct cli_option number = {
        .kind = CLI_INT, .to = &wanted, .min = 0, .max = WHY_SEGMENTS};
    int is_list = text && strchr(text, ','), code = EXIT_OK;
    if (is_list)
        code = cut_at(w, bos, most, text);
    else if (text && (!cli_set_number(&number, text) || wanted < 1 || (size_t)wanted > most))
        code = cannot_cut(most, bos, text);
    else
        w->n_segments = (size_t)wanted;
    if (code != EXIT_OK)
        return code;
    for (size_t i = 0; i < w->n_segments && !is_list; i++)
        w->first[i] = bos + i * n / w->n_segments;
    w->first[w->n_segments] = w->n_prompt;
    return EXIT_OK;
}

/* ---- coalitions ---- */

/* The first segments: each of their coalitions has a session, and the later segments are appended
 * to all of these together. */
enum { LANE_BITS = 5, MOST_LANES = 1 << LANE_BITS };

struct lanes {
    struct why *why;
    size_t n_bits, n;
    mgpt_session *sessions[MOST_LANES];
    size_t lengths[MOST_LANES]; /* tokens of the first segments */
    struct progress progress;
    size_t n_done;
};

static size_t segment_size(const struct why *w, size_t segment)
{
    return w->first[segment + 1] - w->first[segment];
}

/* Appends a segment to lanes [from, end) in one pass; `set` and the lane's number are the coalition
 * then. */
static int append(struct lanes *l, size_t from, size_t end, size_t segment, size_t set,
                  mgpt_error *err)
{
    struct why *w = l->why;
    mgpt_run runs[MOST_LANES] = {0};
    for (size_t i = from; i < end; i++)
        runs[i - from] = (mgpt_run){.session = l->sessions[i],
                                    .tokens = w->prompt + w->first[segment],
                                    .n = segment_size(w, segment)};
    int status = engine_feed_many(w->engine, runs, end - from, err);
    for (size_t i = from; i < end && status == MGPT_OK; i++)
        w->coalitions[set | i] = metric_value(w->metric, mgpt_logits(l->sessions[i]));
    l->n_done += end - from;
    progress_show(&l->progress, l->n_done, (uint64_t)1 << w->n_segments);
    return status == MGPT_OK && interrupted() ? MGPT_ESTOP : status;
}

/* The lane without segments: BOS, if the prompt begins with it. */
static int open_first_lane(struct lanes *l, mgpt_error *err)
{
    struct why *w = l->why;
    mgpt_session *s = l->sessions[0] = engine_fork(w->engine, w->engine->session, err);
    int status = s ? mgpt_rewind(s, 0, err) : MGPT_EMEM;
    if (status < 0 || w->first[0] == 0)
        return status < 0 ? status : empty_value(w, w->coalitions, err);
    status = engine_feed(w->engine, s, w->prompt, w->first[0], NULL, err);
    if (status == MGPT_OK)
        w->coalitions[0] = metric_value(w->metric, mgpt_logits(s));
    l->lengths[0] = w->first[0];
    return status;
}

/* Doubles the lanes with each of the first segments. */
static int open_lanes(struct lanes *l, mgpt_error *err)
{
    int status = open_first_lane(l, err);
    for (size_t bit = 0; bit < l->n_bits && status == MGPT_OK; bit++) {
        size_t n = (size_t)1 << bit;
        for (size_t i = 0; i < n && status == MGPT_OK; i++) {
            l->sessions[n + i] = engine_fork(l->why->engine, l->sessions[i], err);
            l->lengths[n + i] = l->lengths[i] + segment_size(l->why, bit);
            status = l->sessions[n + i] ? MGPT_OK : MGPT_EMEM;
        }
        if (status == MGPT_OK)
            status = append(l, n, 2 * n, bit, 0, err);
    }
    return status;
}

/* All lanes hold their first segments and, after them, those of `set`, n tokens: appends each later
 * one, and what may follow it. */
static int append_later(struct lanes *l, size_t next, size_t set, size_t n, mgpt_error *err)
{
    struct why *w = l->why;
    int status = MGPT_OK;
    for (size_t j = next; j < w->n_segments && status == MGPT_OK; j++) {
        size_t with = set | (size_t)1 << j;
        for (size_t i = 0; i < l->n && status == MGPT_OK; i++)
            status = mgpt_rewind(l->sessions[i], l->lengths[i] + n, err);
        if (status == MGPT_OK)
            status = append(l, 0, l->n, j, with, err);
        if (status == MGPT_OK)
            status = append_later(l, j + 1, with, n + segment_size(w, j), err);
    }
    return status;
}

/* s! (n - s - 1)! / n!: how often, among all orders, the segment comes right after these s. */
static double order_share(size_t n, size_t s)
{
    double share = 1.0 / (double)n;
    for (size_t i = 1; i <= s; i++)
        share *= (double)i / (double)(n - i);
    return share;
}

static void find_shapley(struct why *w)
{
    size_t n = w->n_segments;
    for (size_t i = 0; i < n; i++) {
        w->shapley[i] = 0;
        for (size_t set = 0; set < (size_t)1 << n; set++) {
            size_t s = 0;
            for (size_t j = 0; j < n; j++)
                s += set >> j & 1;
            if (!(set >> i & 1))
                w->shapley[i] +=
                    order_share(n, s) * (w->coalitions[set | (size_t)1 << i] - w->coalitions[set]);
        }
    }
}

int why_segments(struct why *w, mgpt_error *err)
{
    struct lanes l = {.why = w,
                      .n_bits = w->n_segments < LANE_BITS ? w->n_segments : (size_t)LANE_BITS};
    l.n = (size_t)1 << l.n_bits;
    w->coalitions = unknown((size_t)1 << w->n_segments);
    if (!w->coalitions)
        return err_memory(err, "the coalitions", (size_t)1 << w->n_segments);
    progress_begin(&l.progress);
    int status = open_lanes(&l, err);
    if (status == MGPT_OK)
        status = append_later(&l, l.n_bits, 0, 0, err);
    progress_end(&l.progress);
    for (size_t i = 0; i < l.n; i++)
        mgpt_session_free(l.sessions[i]);
    find_shapley(w);
    return stopped(status);
}

void why_free(struct why *w)
{
    free(w->tokens);
    free(w->coalitions);
    w->tokens = w->coalitions = NULL;
}
