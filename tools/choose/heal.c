/* Draws a prompt's last bytes again. See heal.h. */
#include "choose/heal.h"

#include "base/error.h"
#include "base/mem.h"
#include "run/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double add_logs(double a, double b)
{
    double large = fmax(a, b);
    return large == -INFINITY ? large : large + log1p(exp(fmin(a, b) - large));
}

/* ---- the vocabulary ---- */

/* The first byte of a token that can be drawn for its bytes; -1: of no such token. */
static int first_byte(const struct heal *h, int32_t token)
{
    size_t n;
    const char *piece = mgpt_piece(h->model, token, &n);
    return n > 0 && !mgpt_is_end(h->model, token) ? (unsigned char)piece[0] : -1;
}

/* Sorts the tokens by their first byte: few are looked at after that. 0: out of memory. */
static int sort_tokens(struct heal *h)
{
    mgpt_info info = {.n_tokens = 0};
    uint32_t next[257] = {0};
    mgpt_get_info(h->model, &info, NULL);
    h->sorted = malloc(((size_t)info.n_tokens + 1) * sizeof *h->sorted);
    for (int32_t i = 0; i < info.n_tokens; i++)
        next[first_byte(h, i) + 1]++;
    next[0] = 0;
    for (int b = 1; b < 257; b++)
        next[b] += next[b - 1];
    memcpy(h->first, next, sizeof next);
    for (int32_t i = 0; h->sorted && i < info.n_tokens; i++) {
        int b = first_byte(h, i);
        if (b >= 0)
            h->sorted[next[b]++] = i;
    }
    return h->sorted != NULL;
}

/* Bytes of a token that continues n bytes, to their end or a part of them; 0: it does not. */
static size_t continues(const struct heal *h, int32_t token, const char *bytes, size_t n)
{
    size_t length;
    const char *piece = mgpt_piece(h->model, token, &length);
    return memcmp(piece, bytes, length < n ? length : n) == 0 ? length : 0;
}

/* ---- the last border ---- */

/* Returns 1 if no token can begin before byte `at` of n bytes and end after it, whatever follows these bytes. */
static int is_border(const struct heal *h, const char *bytes, size_t at, size_t n)
{
    for (size_t start = 0; start < at; start++) {
        const uint32_t *first = &h->first[(unsigned char)bytes[start]];
        for (uint32_t k = first[0]; k < first[1]; k++)
            if (continues(h, h->sorted[k], bytes + start, n - start) > at - start)
                return 0;
    }
    return 1;
}

int heal_open(struct heal *h, const mgpt_model *model, const int32_t *tokens, size_t n,
              mgpt_error *err)
{
    char *bytes = NULL;
    size_t n_piece, begin = n, n_bytes;
    *h = (struct heal){.model = model, .n_kept = n, .n_given = n, .next = -1};
    if (!sort_tokens(h))
        return err_memory(err, "the vocabulary", n);
    for (; begin > 0 && mgpt_piece(model, tokens[begin - 1], &n_piece) && n_piece > 0; begin--)
        ;
    for (size_t i = begin; i < n; i++) {
        const char *piece = mgpt_piece(model, tokens[i], &n_piece);
        if (!arr_append(&bytes, piece, n_piece))
            return arr_free(bytes), err_memory(err, "the prompt", n);
    }
    size_t at = n_bytes = arr_len(bytes);
    while (h->n_kept > begin && h->n_kept > 1 && !is_border(h, bytes, at, n_bytes)) {
        mgpt_piece(model, tokens[h->n_kept - 1], &n_piece);
        if (n_bytes - at + n_piece > HEAL_BYTES)
            break;
        h->n_kept--;
        at -= n_piece;
    }
    h->n_bytes = n_bytes - at;
    h->bytes = malloc(h->n_bytes + 1);
    h->path = malloc((h->n_bytes + 1) * sizeof *h->path);
    if (h->bytes && h->n_bytes > 0)
        memcpy(h->bytes, bytes + at, h->n_bytes);
    arr_free(bytes);
    struct heal_node root = {.parent = -1, .token = -1};
    return h->bytes && h->path && arr_push(h->nodes, root) ? MGPT_OK
                                                           : err_memory(err, "the prompt", n);
}

void heal_close(struct heal *h)
{
    free(h->bytes);
    free(h->sorted);
    free(h->path);
    arr_free(h->nodes);
    *h = (struct heal){.next = -1};
}

/* ---- the sum over paths ---- */

static void sum_up(struct heal *h)
{
    for (size_t i = 0; i < arr_len(h->nodes); i++)
        h->nodes[i].sum = h->nodes[i].is_run ? h->nodes[i].covers : -INFINITY;
    for (size_t i = arr_len(h->nodes); i > 1; i--) {
        const struct heal_node *k = &h->nodes[i - 1];
        struct heal_node *parent = &h->nodes[k->parent];
        parent->sum = add_logs(parent->sum, k->logprob - parent->logprob + k->sum);
    }
}

int32_t heal_next(struct heal *h)
{
    double known = -INFINITY, left = -INFINITY;
    int32_t n = 0, at, n_run = 0;
    h->next = -1;
    for (size_t i = 0; i < arr_len(h->nodes); i++) {
        const struct heal_node *k = &h->nodes[i];
        if (k->is_run) {
            known = add_logs(known, k->logprob + k->covers);
            n_run++;
            continue;
        }
        left = add_logs(left, k->logprob);
        if (h->next < 0 || k->logprob > h->nodes[h->next].logprob)
            h->next = (int32_t)i;
    }
    h->left_out = left > -INFINITY ? exp(left - add_logs(left, known)) : 0;
    if (h->n_bytes == 0 || h->next < 0 || h->left_out < HEAL_LEFT_OUT || n_run == HEAL_RUNS) {
        sum_up(h);
        return -1;
    }
    for (at = h->next; at > 0; at = h->nodes[at].parent)
        n++;
    int32_t place = n;
    for (at = h->next; at > 0; at = h->nodes[at].parent)
        h->path[--place] = h->nodes[at].token;
    return n;
}

int heal_learn(struct heal *h, const float *logits, size_t n, mgpt_error *err)
{
    struct heal_node k = h->nodes[h->next];
    double all = logits_log_sum(logits, n);
    k.is_run = 1;
    k.covers = -INFINITY;
    const uint32_t *first = &h->first[(unsigned char)h->bytes[k.at]];
    for (uint32_t i = first[0]; i < first[1] && (size_t)h->sorted[i] < n; i++) {
        int32_t token = h->sorted[i];
        size_t length = continues(h, token, h->bytes + k.at, h->n_bytes - k.at);
        double logprob = (double)logits[token] - all;
        if (length == 0 || !(logprob > -INFINITY))
            continue;
        struct heal_node child = {.parent = h->next,
                                  .token = token,
                                  .at = k.at + (uint32_t)length,
                                  .logprob = k.logprob + logprob};
        if (k.at + length >= h->n_bytes)
            k.covers = add_logs(k.covers, logprob);
        else if (!arr_push(h->nodes, child))
            return err_memory(err, "the prompt", arr_len(h->nodes) * sizeof child);
    }
    h->nodes[h->next] = k;
    return MGPT_OK;
}

/* ---- drawing ---- */

size_t heal_repeats(const struct heal *h, const int32_t *drawn, size_t n, int32_t token)
{
    size_t at = 0, length, i = 0;
    for (; i <= n; i++) {
        mgpt_piece(h->model, i < n ? drawn[i] : token, &length);
        at += length;
        if (at >= h->n_bytes)
            break;
    }
    return i;
}

/* The child of a node by a token; -1: none. */
static int32_t child_of(const struct heal *h, int32_t node, int32_t token)
{
    for (size_t i = (size_t)node + 1; i < arr_len(h->nodes); i++)
        if (h->nodes[i].parent == node && h->nodes[i].token == token)
            return (int32_t)i;
    return -1;
}

void heal_edit(const struct heal *h, float *logits, size_t n, const int32_t *tokens,
               size_t n_tokens)
{
    int32_t node = 0;
    for (size_t i = h->n_kept; i < n_tokens && node >= 0; i++)
        node = child_of(h, node, tokens[i]);
    if (n_tokens < h->n_kept || node < 0 || h->n_bytes == 0)
        return;
    size_t at = h->nodes[node].at;
    const uint32_t *first = &h->first[(unsigned char)h->bytes[at]];
    for (size_t i = 0, k = first[0]; i < n; i++) {
        int is_next = k < first[1] && (size_t)h->sorted[k] == i;
        size_t length = is_next ? continues(h, h->sorted[k++], h->bytes + at, h->n_bytes - at) : 0;
        if (length == 0)
            logits[i] = -INFINITY;
        else if (at + length < h->n_bytes) {
            int32_t child = child_of(h, node, (int32_t)i);
            logits[i] = child < 0 ? -INFINITY : (float)((double)logits[i] + h->nodes[child].sum);
        }
    }
}
