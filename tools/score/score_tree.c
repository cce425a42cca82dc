/* A prefix tree of scored texts. See score_tree.h.
 *
 * A lookup waits for memory, since a tree is larger than the caches near a core. So several texts are read at a time: a
 * reader asks for the slot of its text's next token and comes back to it after the others.
 */
#include "score/score_tree.h"

#include "base/mem.h"
#include "base/splitmix.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 1 << 12, READERS = 12 };

/* Where the search for an edge begins. */
static size_t tree_hash(const struct score_tree *t, uint32_t from, int32_t token)
{
    return (size_t)splitmix_number((uint64_t)from << 32 | (uint32_t)token) & (t->n_slots - 1);
}

/* The slot of an edge, or the free one where it belongs. */
static struct score_edge *tree_slot(const struct score_tree *t, size_t hash, uint32_t from,
                                    int32_t token)
{
    for (size_t i = hash;; i++) {
        struct score_edge *e = &t->edges[i & (t->n_slots - 1)];
        if (e->to == 0 || (e->from == from && e->token == token))
            return e;
    }
}

/* ---- reading ---- */

struct tree_reader {
    struct scored_text *text; /* NULL: it has none */
    size_t at, hash;          /* the next token, and where its edge is looked for */
    uint32_t node;
    double nll;
};

/* Goes to the text's token `at`, which follows `node`. */
static void reader_at(const struct score_tree *t, struct tree_reader *r, size_t at, uint32_t node)
{
    r->at = at;
    r->node = node;
    if (at == r->text->n_context + r->text->n_scored)
        return;
    r->hash = tree_hash(t, node, r->text->tokens[at]);
    __builtin_prefetch(&t->edges[r->hash]);
}

/* Reads a token. 0: the tree does not have it. */
static int reader_goes_on(const struct score_tree *t, struct tree_reader *r)
{
    const struct scored_text *text = r->text;
    const struct score_edge *e = tree_slot(t, r->hash, r->node, text->tokens[r->at]);
    if (e->to && r->at >= text->n_context) {
        r->nll -= e->logprob;
        if (text->logprobs)
            text->logprobs[r->at - text->n_context] = e->logprob;
    }
    if (e->to)
        reader_at(t, r, r->at + 1, e->to);
    return e->to != 0;
}

/* The text has been read to its end. */
static int reader_ends(struct tree_reader *r)
{
    struct scored_text *text = r->text;
    if (r->at < text->n_context + text->n_scored)
        return 0;
    text->nll = r->nll;
    text->is_done = 1;
    r->text = NULL;
    return 1;
}

size_t tree_score(const struct score_tree *tree, struct scored_text **texts, size_t n)
{
    struct tree_reader readers[READERS] = {{0}};
    size_t n_left = 0, n_read = 0, next = 0;
    if (!tree->edges)
        return n;
    for (size_t k = 0; n_read < n; k = (k + 1) % READERS) {
        struct tree_reader *r = &readers[k];
        if (!r->text && next < n) {
            *r = (struct tree_reader){.text = texts[next++]};
            if (next + READERS < n)
                __builtin_prefetch(texts[next + READERS]->tokens);
            reader_at(tree, r, 0, 0);
        } else if (r->text && reader_ends(r)) {
            n_read++;
        } else if (r->text && (r->text->top || r->text->is_greedy || !reader_goes_on(tree, r))) {
            texts[n_left++] = r->text;
            r->text = NULL;
            n_read++;
        }
    }
    return n_left;
}

/* ---- growing ---- */

/* Makes room for one more edge. Returns 0 if the tree is full or there is no memory. */
static int tree_grow(struct score_tree *t)
{
    if (t->n >= t->most)
        return 0;
    if (2 * t->n < t->n_slots)
        return 1;
    struct score_tree larger = *t;
    larger.n_slots = t->n_slots ? 2 * t->n_slots : FIRST_SLOTS;
    if (!(larger.edges = mem_new(larger.n_slots, sizeof *larger.edges)))
        return 0;
    for (size_t i = 0; i < t->n_slots; i++) {
        const struct score_edge *e = &t->edges[i];
        if (e->to)
            *tree_slot(&larger, tree_hash(&larger, e->from, e->token), e->from, e->token) = *e;
    }
    free(t->edges);
    *t = larger;
    return 1;
}

void tree_add(struct score_tree *tree, const struct scored_text *text, const double *logprobs)
{
    uint32_t node = 0;
    for (size_t i = 0; i < text->n_context + text->n_scored && tree_grow(tree); i++) {
        int32_t token = text->tokens[i];
        struct score_edge *e = tree_slot(tree, tree_hash(tree, node, token), node, token);
        if (e->to == 0)
            *e = (struct score_edge){node, (uint32_t)++tree->n, token, i ? logprobs[i] : 0};
        node = e->to;
    }
}

void tree_free(struct score_tree *tree)
{
    free(tree->edges);
    *tree = (struct score_tree){0};
}
