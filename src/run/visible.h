/* Blocks of attention, and the keys that their queries see: the causal mask and windows. For attention.c. */
#ifndef MGPT_VISIBLE_H
#define MGPT_VISIBLE_H

#include "run/ops.h"

struct attend_job {
    pass *p;
    size_t layer;                    /* whose keys and values are read */
    const struct model_shape *shape; /* of this layer, as the window */
    size_t window;                   /* 0: none */
    float *q, *o;                /* queries and outputs of heads, each as wide as what is kept */
    size_t columns;              /* of what is kept that are values */
    size_t group, block_queries; /* query heads per KV head; queries per block */
    /* attend_in_steps: queries [i, i + n_queries) of a segment. */
    const struct segment *seg;
    size_t i, n_queries;
};

/* Queries [i, i + n_queries) of a segment, or the only queries of n_queries segments from `seg` on,
 * which have a prefix in common; query heads [head, head + n_heads) of one KV head. The scores of
 * row r = query * n_heads + head are at scores + r * score_stride. */
struct query_block {
    const struct segment *seg;
    int is_of_several;
    size_t kv_head, head, n_heads, i, n_queries;
    float *scores;
    void *work; /* the worker's scratch */
};

/* Keys, or columns of values: [first, end). */
struct range {
    size_t first, end;
};

/* The keys that a query sees. */
static inline struct range visible_of(const struct attend_job *job, const struct segment *seg,
                                      size_t i)
{
    size_t end = seg->pos + i + 1;
    return (struct range){job->window && end > job->window ? end - job->window : 0, end};
}

static inline const struct segment *segment_of(const struct query_block *b, size_t query)
{
    return b->is_of_several ? b->seg + query : b->seg;
}

/* The keys that a query of the block sees. */
static inline struct range visible_to(const struct attend_job *job, const struct query_block *b,
                                      size_t query)
{
    return visible_of(job, segment_of(b, query), b->is_of_several ? 0 : b->i + query);
}

/* How many keys, from key 0 on, are the same for all queries of the block. */
static inline size_t n_common(const struct query_block *b)
{
    return b->is_of_several ? b->seg->session->kv.n_prefix : SIZE_MAX;
}

/* The keys that any of queries [i0, i1) of the block sees, and those that all see. */
static inline struct range visible_to_any(const struct attend_job *job, const struct query_block *b,
                                          size_t i0, size_t i1)
{
    struct range any = visible_to(job, b, i0);
    for (size_t i = i0 + 1; i < i1; i++) {
        struct range s = visible_to(job, b, i);
        any = (struct range){min_size(any.first, s.first), max_size(any.end, s.end)};
    }
    return any;
}

static inline struct range visible_to_all(const struct attend_job *job, const struct query_block *b,
                                          size_t i0, size_t i1)
{
    struct range all = {0, n_common(b)};
    for (size_t i = i0; i < i1; i++) {
        struct range s = visible_to(job, b, i);
        all = (struct range){max_size(all.first, s.first), min_size(all.end, s.end)};
    }
    return all;
}

#endif
