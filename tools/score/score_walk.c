/* Texts of a small model. See score_walk.h. */
#include "score/score_walk.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/threads.h"
#include "run/session.h"
#include "score/score_tree.h"

#include <stdlib.h>
#include <string.h>

enum {
    LANES = 8,           /* their caches stay in L1 and L2 */
    MOST_ROWS = 1 << 20, /* bytes of the logits that a lane keeps */
    KEY_BITS = 64,
    AHEAD = 8,           /* prefetch distance: texts are in the order of lines in memory */
    MOST_EDGES = 1 << 20 /* of the trees of all threads, of which each takes 48 to 96 bytes */
};

struct walk_lane {
    mgpt_session *session;            /* holds the first `pos` tokens of the current text */
    struct scored_text **text, **end; /* the current one */
    size_t pos;
    float *rows;      /* [n_ctx + 1][n_vocab]: the logits after n tokens of the text */
    double *log_sums; /* [n_ctx + 1] of the rows: logits_log_sum */
    double *logprobs; /* [n_ctx + 1] of its token that follows n tokens */
    double *sums;     /* [n_ctx + 2] of -logprobs of its scored tokens among the first n */
    size_t n_sums;    /* the first sums that are those of the text before, too */
};

/* The first tokens of a text as a number that sorts as they do. */
struct sort_key {
    uint64_t first;
    struct scored_text *text;
    int is_whole;
};

struct score_walk {
    struct engine *engine;
    size_t n_vocab;
    struct walk_lane lanes[LANES];
    struct sort_key *keys; /* stb_ds array */
    struct score_tree tree;
};

static size_t row_bytes(const struct engine *e)
{
    size_t n_ctx = (size_t)(e->session ? mgpt_n_ctx(e->session) : 0);
    return (n_ctx + 1) * (size_t)e->info.n_vocab * sizeof(float);
}

int walk_fits(const struct engine *e)
{
    return e->info.bytes_per_token < POOL_WORTH_SPLITTING && row_bytes(e) <= MOST_ROWS;
}

void walk_close(struct score_walk *w)
{
    for (size_t i = 0; w && i < LANES; i++) {
        mgpt_session_free(w->lanes[i].session);
        free(w->lanes[i].rows);
        free(w->lanes[i].log_sums);
        free(w->lanes[i].logprobs);
        free(w->lanes[i].sums);
    }
    if (w) {
        arr_free(w->keys);
        tree_free(&w->tree);
    }
    free(w);
}

struct score_walk *walk_open(struct engine *e, const mgpt_session *base, size_t n_threads,
                             mgpt_error *err)
{
    struct score_walk *w = mem_new(1, sizeof *w);
    size_t n = mgpt_n_ctx(e->session) + 2;
    int made = w != NULL;
    for (size_t i = 0; made && i < LANES; i++) {
        struct walk_lane *lane = &w->lanes[i];
        lane->rows = mem_new(row_bytes(e), 1);
        lane->log_sums = mem_new(n, sizeof *lane->log_sums);
        lane->logprobs = mem_new(n, sizeof *lane->logprobs);
        lane->sums = mem_new(n, sizeof *lane->sums);
        lane->session = engine_fork(e, base, NULL);
        made = lane->rows && lane->log_sums && lane->logprobs && lane->sums && lane->session;
    }
    if (!made) {
        err_memory(err, "the texts", row_bytes(e));
        walk_close(w);
        return NULL;
    }
    w->engine = e;
    w->n_vocab = (size_t)e->info.n_vocab;
    w->tree.most = MOST_EDGES / n_threads;
    return w;
}

/* ---- sorting ---- */

static size_t text_length(const struct scored_text *t)
{
    return t->n_context + t->n_scored;
}

/* The number of tokens that two texts begin with in common. */
static size_t in_common(const struct scored_text *a, const struct scored_text *b)
{
    size_t n_a = text_length(a), n_b = text_length(b), n = 0, most = n_a < n_b ? n_a : n_b;
    while (n < most && a->tokens[n] == b->tokens[n])
        n++;
    return n;
}

static uint64_t key_of(const struct scored_text *t, unsigned bits)
{
    uint64_t key = 0;
    size_t n = text_length(t);
    for (size_t i = 0; i < KEY_BITS / bits; i++)
        key = key << bits | (i < n ? (uint64_t)t->tokens[i] + 1 : 0);
    return key;
}

/* A key without a token in its last place has all tokens of its text. */
static int compare_keys(const void *left, const void *right)
{
    const struct sort_key *a = left, *b = right;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->is_whole)
        return 0;
    size_t n = in_common(a->text, b->text), n_a = text_length(a->text), n_b = text_length(b->text);
    if (n < n_a && n < n_b)
        return a->text->tokens[n] < b->text->tokens[n] ? -1 : 1;
    return (n_a > n_b) - (n_a < n_b);
}

static int sort_texts(struct score_walk *w, struct scored_text **texts, size_t n)
{
    unsigned bits = 1;
    while (w->n_vocab >> bits)
        bits++;
    if (!arr_reserve(w->keys, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        w->keys[i] = (struct sort_key){key_of(texts[i], bits), texts[i],
                                       text_length(texts[i]) < KEY_BITS / bits};
    if (n > 0) /* a thread may have no texts, and then there are no keys */
        qsort(w->keys, n, sizeof *w->keys, compare_keys);
    for (size_t i = 0; i < n; i++)
        texts[i] = w->keys[i].text;
    return 1;
}

/* ---- walking ---- */

/* The log-probability of token n of the current text, which follows the n tokens before it. */
static void note_next(const struct score_walk *w, struct walk_lane *lane, size_t n)
{
    const struct scored_text *t = *lane->text;
    if (n > 0 && n < text_length(t))
        lane->logprobs[n] =
            (double)lane->rows[n * w->n_vocab + (size_t)t->tokens[n]] - lane->log_sums[n];
}

/* Moves to the text after `before` (NULL: to the first). */
static void begin_text(const struct score_walk *w, struct walk_lane *lane,
                       const struct scored_text *before)
{
    const struct scored_text *t = *lane->text;
    size_t shared = before ? in_common(before, t) : 0;
    lane->n_sums = before && before->n_context == t->n_context ? shared : 0;
    lane->pos = lane->pos < shared ? lane->pos : shared;
    mgpt_rewind(lane->session, lane->pos, NULL);
    if (lane->pos == shared) /* else the text before had this token next, too */
        note_next(w, lane, lane->pos);
}

/* All tokens of the current text have been run that are to be. */
static void finish_text(struct score_walk *w, const struct walk_lane *lane)
{
    struct scored_text *t = *lane->text;
    size_t length = text_length(t), at = lane->n_sums;
    at = at > t->n_context ? at : t->n_context;
    lane->sums[t->n_context] = 0;
    for (; at < length; at++)
        lane->sums[at + 1] = lane->sums[at] - lane->logprobs[at];
    t->nll = lane->sums[length];
    if (t->logprobs)
        memcpy(t->logprobs, lane->logprobs + t->n_context, t->n_scored * sizeof *t->logprobs);
    for (size_t i = 0; i < t->n_scored && (t->top || t->is_greedy); i++)
        score_note_choice(t, i, lane->rows + (t->n_context + i) * w->n_vocab, w->n_vocab);
    t->is_done = 1;
    tree_add(&w->tree, t, lane->logprobs);
}

/* Finishes texts until one needs a pass: 1 with its token. 0: none is left. */
static int lane_moves(struct score_walk *w, struct walk_lane *lane, int32_t *token)
{
    for (const struct scored_text *t; lane->text < lane->end;) {
        t = *lane->text;
        if (lane->pos + 1 < text_length(t)) {
            *token = t->tokens[lane->pos];
            return 1;
        }
        finish_text(w, lane);
        if (lane->end - lane->text > AHEAD)
            __builtin_prefetch(lane->text[AHEAD]);
        if (lane->end - lane->text > AHEAD / 2)
            __builtin_prefetch(lane->text[AHEAD / 2]->tokens);
        if (++lane->text < lane->end)
            begin_text(w, lane, t);
    }
    return 0;
}

/* After a pass. */
static void lane_ran(const struct score_walk *w, struct walk_lane *lane)
{
    lane->pos++;
    const float *logits = mgpt_logits(lane->session);
    memcpy(lane->rows + lane->pos * w->n_vocab, logits, w->n_vocab * sizeof *logits);
    lane->log_sums[lane->pos] = logits_log_sum(logits, w->n_vocab);
    note_next(w, lane, lane->pos);
}

int walk_texts(struct score_walk *w, struct scored_text **texts, size_t n,
               const struct score_shown *shown, mgpt_error *err)
{
    mgpt_session *sessions[LANES];
    int32_t tokens[LANES];
    struct walk_lane *ran[LANES];
    size_t n_ran = 0;
    n = tree_score(&w->tree, texts, n);
    int status =
        sort_texts(w, texts, n) ? MGPT_OK : err_memory(err, "the texts", n * sizeof *w->keys);
    for (int i = 0; i < LANES && status == MGPT_OK; i++) {
        size_t from, to;
        pool_split(n, i, LANES, &from, &to);
        w->lanes[i].text = texts + from;
        w->lanes[i].end = texts + to;
        w->lanes[i].pos = 0;
        if (from < to)
            begin_text(w, &w->lanes[i], NULL);
    }
    do {
        for (size_t i = 0; i < n_ran; i++)
            lane_ran(w, ran[i]);
        n_ran = 0;
        for (size_t i = 0; i < LANES && status == MGPT_OK; i++)
            if (lane_moves(w, &w->lanes[i], &tokens[n_ran])) {
                sessions[n_ran] = w->lanes[i].session;
                ran[n_ran++] = &w->lanes[i];
            }
        if (n_ran > 0)
            status = engine_step_many(w->engine, sessions, tokens, n_ran, err);
        if (shown) /* the lanes have equal shares */
            score_show(shown, (size_t)(w->lanes[0].text - texts),
                       (size_t)(w->lanes[0].end - texts));
    } while (n_ran > 0 && status == MGPT_OK);
    return status;
}
