/* The private parts of a session, and one pass of the model over n rows (struct pass).
 *
 * Words of this folder:
 *   call     one use of the API that runs tokens: mgpt_step, mgpt_feed, mgpt_step_many, mgpt_feed_many
 *   run      adjacent tokens of one session in a call (mgpt_run)
 *   chunk    at most n_chunk tokens: what one pass takes of a run
 *   pass     one forward pass of the model (page.inc) over n rows, a row for each token
 *   segment  the rows of a pass that are of one run. Decode: one segment of one row; prefill: one of many
 *            rows; a batch: one row for each session, or several runs
 *   tap      the caller's function that sees the values at a point of the pass (mgpt.h)
 *   fork     a session that begins with the tokens, keys and values of another one
 *   fused    the page compiled for small models in one function (page/fused.h)
 *   visible range  the keys that a query may attend to. The causal mask is this range: it ends at the
 *            query's own position, and scores outside of it are never computed
 *
 * A session's state changes only when the whole call
 * has succeeded: tokens, keys and values are written after the session's own, logits go to the
 * spare buffer; feed.c commits them at the end.
 */
#ifndef MGPT_SESSION_H
#define MGPT_SESSION_H

#include "base/mem.h"
#include "base/threads.h"
#include "model/model.h"
#include "run/kv.h"

#include <stdatomic.h>

enum {
    BLOCK_ROWS = 24, /* most rows (queries times heads) of a block of attention */
    LOGIT_ROWS = 72  /* rows of logits computed at a time, except on the fused path: whole tiles */
};

struct tap {
    uint64_t points;
    mgpt_tap_fn *fn;
    void *user;
};

/* Called for each expert that has n rows, before its last product: they are x [n][n_embd], and f
 * [n][n_ff_expert] in front of that product. fn NULL: not called. For tools that measure what matrices
 * multiply; it changes nothing. */
struct experts_seen {
    void (*fn)(void *user, size_t layer, size_t expert, const float *x, const float *f, size_t n);
    void *user;
};

/* Row buffers of a pass, allocated once for n_chunk rows. */
struct scratch {
    float *x, *h, *a; /* [n_chunk][E] residual stream, normed input, attention's output */
    float *q, *o;     /* [n_chunk][n_q] */
    float *k, *v;     /* [n_chunk][n_kv_most] */
    /* Latent attention: what the cache keeps of a row, and the latent of queries; queries and outputs of
     * heads in terms of what is kept. */
    float *latent, *q_latent; /* [n_chunk][kept_dim], [n_chunk][n_q_latent] */
    float *q_kept, *o_kept;   /* [n_chunk][H * kept_dim] */
    int copy_changed;         /* 1: a tap changed keys or values of latent attention */
    float *gate, *up;         /* [n_chunk][F] */
    float *m;      /* [n_chunk][E] the MLP's output, if it is not in h: in mixtures of experts */
    float *x0;     /* [n_chunk][E] x before the first layer, if the model mixes it in (ops.h) */
    float *values; /* [n_chunk][n_kv + n_head_kv] value embeddings and gates, or NULL */
    float *middle; /* [n_chunk][E] x after layer n_layer / 2, if the model subtracts it */
    float *inputs; /* [n_chunk][n_inputs] inputs of all layers, and scratch of them, or NULL */
    float *input;
    const float **cs; /* [n_chunk] each row's cos and sin of rope angles, in session.angles */
    uint8_t *qx;      /* [n_chunk][model's x_bytes] quantised input of integer products */
    uint8_t *work;    /* [n_threads][work_bytes] scratch of the matmul kernels and the fused step */
    size_t work_bytes;
    struct matmul_slots *slots;     /* matmul.c; NULL with one thread */
    struct expert_scratch *experts; /* experts.c; NULL without experts */
    float *scores;                  /* [score_rows][score_stride], stb_ds array */
    size_t score_rows, score_stride;
    float *logits; /* [rows][n_vocab], stb_ds array, for passes with several rows of logits */
    struct segment *segments; /* [n_chunk] */
    /* Only if the head has a screen (screen.c): */
    uint8_t *screen_x; /* quantised input of the head */
    float *bounds;     /* [panels of the head] upper bound of the logits of a panel */
    size_t unscreened; /* tokens since the screen was last abandoned */
};

/* What a program wants to find again with a session's file: where its random numbers are, where the
 * text that it draws begins, Mirostat's mu. */
struct session_note {
    uint64_t kind, seed, state; /* the program's own; kind 0: no note */
    uint64_t begin;             /* tokens before it */
    double mu;
};
_Static_assert(sizeof(struct session_note) == 40, "the note has no padding");

struct mgpt_session {
    const mgpt_model *model;
    size_t n_ctx, n_chunk;
    int n_threads;
    int threads_asked; /* 0: chosen, so that one thread will do if others cannot be started */
    enum kv_type kv_type;
    struct pool *pool; /* NULL: one thread */
    int32_t *tokens;   /* stb_ds array; its length is the position */
    struct kv kv;
    float *angles; /* stb_ds array [positions seen][n_cs]: cos and sin of the rope angles */
    struct scratch scratch;
    float *logits, *spare; /* [n_vocab] each */
    int has_logits;
    struct session_note note;
    uint64_t model_hash; /* model_hash of the model; 0: not computed yet (session_file.c) */
    int ready;           /* 1: scratch is allocated and threads are started */
    int in_use;          /* 1 during a call: refuses calls from taps, finds duplicates in a batch */
    struct tap tap;
    struct experts_seen seen;
    atomic_int stop; /* 1: mgpt_stop was called; a call that ends for it sets it to 0 */
};

struct segment {
    mgpt_session *session;
    size_t row, n;     /* its rows of the pass */
    size_t pos;        /* of its first row */
    size_t out, n_out; /* its rows of logits: the last n_out of its rows, from row `out` */
    size_t n_last; /* its rows that attention and MLP of the last layer compute: the last ones */
    int is_last;   /* 1: its last token is the session's last of this call */
    size_t begin;  /* 0: with the embedding; l + 1: in layer l with x = resid */
    size_t from;   /* `begin`, or 0: computed before that, too, for backout */
    const float *resid; /* [n][E] */
    uint64_t points;    /* at which the session's tap is called for these rows */
};

/* n rows of cols floats. */
typedef struct {
    float *at;
    size_t n, cols;
} mat;

typedef struct pass {
    const mgpt_model *model;
    const struct kernels *kernels;
    struct pool *pool;
    struct scratch *s;
    size_t n, n_out;
    size_t out;                            /* logits has rows [out, out + logits.n) of n_out */
    struct segment *segments;              /* in order of `begin` and of `from` */
    size_t n_segments, n_all;              /* segments that have begun; all segments */
    mat x, h, q, k, v, o, a, f, m, logits; /* the page's matrices, in the scratch; see page.inc */
    size_t n_layer, il;                    /* il: the current layer */
    uint64_t points; /* tapped by any segment's session; 0 after a callback has asked to stop */
    int stopped;
    const struct feed_call *call; /* the call that the pass is a part of; NULL in mgpt_unembed */
    const mgpt_session *lead;     /* the call's first session */
    int far; /* 1: weights and cache, MEMORY_FROM bytes or more, do not stay in a CPU cache */
} pass;

static inline int session_stop_asked(const mgpt_session *s)
{
    return atomic_load_explicit(&s->stop, memory_order_relaxed);
}

/* 1 if a session of the pass's call is to stop. Once a layer; inside of products and attention only
 * `lead` is asked, since there are many units of work. What is left out then is never seen: run_pass
 * asks again at the end. feed.c. */
int pass_stop_asked(const pass *p);

/* Memory for mixtures of experts in passes of n_chunk rows; NULL when out of memory. experts.c. */
struct expert_scratch *experts_new(const mgpt_model *m, size_t n_chunk);
void experts_free(struct expert_scratch *s);

/* Rows of experts that are computed at a time, of passes of n_chunk rows. */
static inline size_t expert_rows(const struct model_shape *d, size_t n_chunk)
{
    return d->n_expert_used > n_chunk ? d->n_expert_used : n_chunk;
}

/* Allocates scratch and starts threads if the session has none yet. Forks begin without them: a
 * fork that only runs as a follower in mgpt_step_many needs neither. MGPT_OK or MGPT_EMEM. */
int session_ready(mgpt_session *s, mgpt_error *err);

/* Returns MGPT_OK, or MGPT_EARG if the session is running (a tap called `what`). See session.c. */
int session_free_for(const mgpt_session *s, const char *what, mgpt_error *err);

/* What a call runs: n runs, or `runs` is NULL and it is a token of each of n sessions. */
struct feed_call {
    const char *call; /* its name for messages */
    const mgpt_run *runs;
    mgpt_session *const *sessions;
    const int32_t *tokens;
    size_t n; /* > 0 */
};

/* Does what mgpt_feed_many does. The first session is not NULL. feed.c. */
int feed_runs(const struct feed_call *f, mgpt_error *err);

/* Appends the n tokens that are after the session's own and swaps its logits with the spare ones. */
static inline void feed_commit(mgpt_session *s, size_t n)
{
    arr_set_len(s->tokens, arr_len(s->tokens) + n);
    float *logits = s->spare;
    s->spare = s->logits;
    s->logits = logits;
    s->has_logits = 1;
}

/* Chooses between the two compilations of the page, for rows that a tap watches at `points`; no
 * other place does. */
static inline int takes_fused_path(const mgpt_session *s, uint64_t points)
{
    return s->model->fused && s->kv.type == KV_F32 && !(points & ~MGPT_POINT_BIT(MGPT_LOGITS));
}

/* A segment's rows of logits among those that p->logits has: n from row `at` of it, which are its
 * n last but `after`. */
struct out_rows {
    size_t at, n, after;
};
static inline struct out_rows out_rows(const pass *p, const struct segment *seg)
{
    size_t from = seg->out > p->out ? seg->out : p->out, end = seg->out + seg->n_out;
    size_t to = end < p->out + p->logits.n ? end : p->out + p->logits.n;
    return (struct out_rows){from - p->out, to > from ? to - from : 0, end - to};
}

/* page.inc with the operations of ops.h: the segments' rows through the model to p->logits. Their
 * tokens are in the sessions' arrays, committed or not. forward.c. */
void panel_forward(pass *p);

/* Copies the last logits of each session, if they are in p->logits, to its spare buffer. A single
 * row is there already. forward.c. */
void keep_logits(const pass *p);

/* The threads of a session that asks for none, and why, such as "2" and "the cores of this
 * machine". */
int session_threads_why(const mgpt_model *model, char *why, size_t cap);

/* The page compiled for small models (fused.h), which calls taps with the logits only.
 * fused_rows.c. */
void fused_forward(pass *p);

/* The fused path for the next token of one session, its next n tokens, or the next token of n
 * sessions, with room reserved. A session's last logits go to its spare buffer. The scratch is the first
 * session's. */
void fused_one(mgpt_session *s, int32_t token);
void fused_tokens(mgpt_session *s, const int32_t *tokens, size_t n);
void fused_many(mgpt_session *const *sessions, const int32_t *tokens, size_t n);

/* Calls the taps of a point, if the model has it, with the rows of y: all rows of the pass, or
 * those with logits. taps.c. */
void tap_rows(pass *p, mgpt_point point, mat y);

/* Calls the tap of a point for one query: one row per head, `stride` floats apart. */
void tap_heads(pass *p, const struct segment *seg, mgpt_point point, size_t layer, size_t pos,
               float *data, size_t stride);

/* Points that attention.c fires for one query at a time. */
#define ATTENTION_POINTS (MGPT_POINT_BIT(MGPT_SCORES) | MGPT_POINT_BIT(MGPT_WEIGHTS))

/* Points that show rows of logits, or of what they are made of: from the final norm on. */
#define OUT_POINTS (MGPT_POINT_BIT(MGPT_N_POINTS) - MGPT_POINT_BIT(MGPT_FINAL))

#define TAPPED(p, point) ((p)->points & MGPT_POINT_BIT(point))
#define SEE(point, y)                                                                              \
    do {                                                                                           \
        if (TAPPED(p, MGPT_##point))                                                               \
            tap_rows(p, MGPT_##point, y);                                                          \
    } while (0)

/* The logarithm of the sum of exp(logits), in float64: what mgpt_logprob takes from a logit (sample.c). */
double logits_log_sum(const float *logits, size_t n);

#endif
