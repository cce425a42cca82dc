/* Floor 5. A session's insides, and one pass of the model over a few rows (struct run).
 *
 * A pass takes n rows: tokens of one session in order (a chunk), or one token of each of several
 * sessions (a batch). A segment is the rows of one session. Nothing of a session changes until the
 * whole call has succeeded: keys and values are written behind the tokens that count, logits go to
 * the spare buffer; session.c commits both at the end.
 */
#ifndef MGPT_SESSION_H
#define MGPT_SESSION_H

#include "base/threads.h"
#include "model/model.h"
#include "run/kv.h"

enum { BLOCK_ROWS = 24 }; /* queries times heads that a thread attends for at a time */

struct tap {
    uint64_t points;
    mgpt_tap_fn *fn;
    void *user;
};

/* Row buffers of a pass, allocated once for n_chunk rows. */
struct scratch {
    float *x, *h, *a, *q, *k, *v, *o, *gate, *up; /* [n_chunk][E E E n_q n_kv n_kv n_q F F] */
    float *x0; /* [n_chunk][E] what the first layer began with, for a model that blends it in */
    const float **cs; /* [n_chunk] cos and sin of the row's rope angles, in its session's table */
    uint8_t *qx;      /* [n_chunk][model's x_bytes] a matrix's input as integer types take it */
    uint8_t *work;    /* [n_threads][work_bytes] scratch of linear and of the fused step */
    size_t work_bytes;
    float *scores; /* [score_rows][score_stride], stb_ds array */
    size_t score_rows, score_stride;
    float *logits;            /* [rows][n_vocab], stb_ds array, batches and taps */
    struct segment *segments; /* [n_chunk] */
};

struct mgpt_session {
    const mgpt_model *model;
    size_t n_ctx, n_chunk;
    int n_threads;
    enum kv_type kv_type;
    struct pool *pool; /* NULL: one thread */
    int32_t *tokens;   /* stb_ds array; its length is the position */
    struct kv kv;
    float *angles; /* stb_ds array [positions seen][n_cs]: cos and sin of the rope angles */
    struct scratch scratch;
    float *logits, *spare; /* [n_vocab] each */
    int has_logits;
    int ready;  /* scratch and threads are there */
    int in_use; /* a call is running it: taps may read it, mgpt_step_many sees duplicates */
    struct tap tap;
};

struct segment {
    mgpt_session *session;
    size_t row, n;     /* its rows of the pass */
    size_t pos;        /* of its first row */
    size_t out, n_out; /* its rows of logits: the last n_out of its rows, from row `out` */
};

/* n rows of cols floats. */
typedef struct {
    float *at;
    size_t n, cols;
} mat;

typedef struct run {
    const mgpt_model *model;
    const struct kernels *kernels;
    struct pool *pool;
    struct scratch *s;
    const int32_t *tokens; /* [n] */
    size_t n, n_out;
    struct segment *segments;
    size_t n_segments;
    mat x, h, q, k, v, o, a, f, m,
        logits;         /* what the page works on, of the scratch; see page.inc */
    size_t n_layer, il; /* il: the layer at work */
    uint64_t points;    /* tapped by any segment's session; 0 once a callback has asked to stop */
    int stopped;
} pass;

/* Gets scratch and threads at the first pass of a fork: one that is only ever stepped behind others
 * in mgpt_step_many needs none. MGPT_OK or MGPT_EMEM; for any other session it has nothing to do.
 * session.c. */
int session_ready(mgpt_session *s, mgpt_error *err);

/* MGPT_OK, or MGPT_EARG for a session that is in use: a tap is calling. session.c. */
int session_free_for(const mgpt_session *s, const char *what, mgpt_error *err);

/* The page (page.inc), in two compilations. In operations on panels (ops.h): runs p->tokens through the model,
 * fills p->logits. forward.c. */
void panel_forward(pass *p);

/* And the fused one, of a small model, untapped; the logits go to the sessions' spare buffers.
 * fused_rows.c. Which of the two runs: takes_fused_path in tokens.c. */
void fused_forward(pass *p);

/* The fused path for the next token of one session, or of each of several, that have room for it; to
 * their spare logits. The first one's scratch serves all. */
void fused_one(mgpt_session *s, int32_t token);
void fused_many(mgpt_session *const *sessions, const int32_t *tokens, size_t n);

/* Fires a point, if the model has it, for the rows of y: all of the pass, or those that get logits. taps.c. */
void tap_rows(pass *p, mgpt_point point, mat y);

/* Fires a point of one query: one row per head. */
void tap_heads(struct run *r, const struct segment *seg, mgpt_point point, size_t layer, size_t pos,
               float *data, size_t stride);

/* What attention.c shows query by query. */
#define ATTENTION_POINTS (MGPT_POINT_BIT(MGPT_SCORES) | MGPT_POINT_BIT(MGPT_WEIGHTS))

#define TAPPED(r, point) ((r)->points & MGPT_POINT_BIT(point))
#define SEE(point, y)                                                                              \
    do {                                                                                           \
        if (TAPPED(p, MGPT_##point))                                                               \
            tap_rows(p, MGPT_##point, y);                                                          \
    } while (0)

#endif
