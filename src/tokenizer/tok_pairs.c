/* The merge list as a hash table: two adjacent tokens to their rank and merged token.
 *
 * Byte-level BPE needs it. SentencePiece vocabularies have one if their file ranks merges instead
 * of scoring tokens. Open addressing, linear probing, at most half full; seeded like struct
 * tok_map.
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <stdlib.h>
#include <string.h>

#define KEY_MERGES "tokenizer.ggml.merges"
#define KEY_MERGE_IDS "mgpt.tokenizer.merge_ids"

struct pair_row {
    uint64_t key; /* left id, right id */
    uint32_t rank;
    int32_t id; /* -1: the slot is free */
};

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* The slot of a pair, or the free one where it belongs. */
static struct pair_row *find_row(const struct tok_pairs *m, uint64_t key)
{
    uint64_t h = (key ^ m->seed) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    size_t i = (size_t)(h ^ h >> 32) & m->mask;
    while (m->rows[i].id >= 0 && m->rows[i].key != key)
        i = (i + 1) & m->mask;
    return &m->rows[i];
}

int tok_pairs_find(const struct tok_pairs *m, int32_t left, int32_t right, struct merge_pair *pair)
{
    const struct pair_row *row = find_row(m, pair_key(left, right));
    *pair = (struct merge_pair){row->rank, row->id};
    return row->id >= 0;
}

/* A line is "left right", separated by the first space at or after byte 1. Merges whose parts or
 * result are not in the vocabulary occur in converted files and are ignored. The first of equal
 * pairs counts. */
static void add_merge_line(struct tok_pairs *m, const struct tok *t, const struct tok_map *map,
                           struct gguf_str line, uint32_t rank)
{
    const char *space = line.n > 1 ? memchr(line.p + 1, ' ', line.n - 1) : NULL;
    if (!space)
        return;
    struct gguf_str left = {line.p, (size_t)(space - line.p)};
    struct gguf_str right = {space + 1, line.n - left.n - 1}, none = {space, 0};
    int32_t left_id = tok_map_find(map, t, left, none),
            right_id = tok_map_find(map, t, right, none);
    int32_t id = tok_map_find(map, t, left, right);
    if (left_id < 0 || right_id < 0 || id < 0)
        return;
    struct pair_row *row = find_row(m, pair_key(left_id, right_id));
    if (row->id < 0)
        *row = (struct pair_row){pair_key(left_id, right_id), rank, id};
}

static int init_rows(struct tok_pairs *m, size_t n, mgpt_error *err)
{
    size_t size = tok_table_size(n);
    m->rows = size ? mem_new(size, sizeof *m->rows) : NULL;
    if (!m->rows)
        return err_memory(err, "the merges", size * sizeof *m->rows);
    m->mask = size - 1;
    m->seed = (uint64_t)(uintptr_t)m->rows;
    for (size_t i = 0; i < size; i++)
        m->rows[i].id = -1;
    return MGPT_OK;
}

int tok_pairs_load(struct tok_pairs *m, const struct tok *t, const struct tok_map *map,
                   const struct gguf *g, mgpt_error *err)
{
    const struct gguf_kv *kv = NULL;
    int there = gguf_array(g, KEY_MERGES, GGUF_STRING, &kv, err);
    if (there < 0)
        return there;
    size_t n = there ? (size_t)kv->n : 0;
    int status = init_rows(m, n, err);
    if (status < 0)
        return status;
    struct cursor c = cursor_over(there ? kv->value : NULL, there ? kv->value_bytes : 0);
    for (size_t i = 0; i < n; i++)
        add_merge_line(m, t, map, gguf_next_string(&c), (uint32_t)i);
    return MGPT_OK;
}

/* The last of equal pairs counts, as in Hugging Face's tokenizers. */
int tok_pairs_load_ids(struct tok_pairs *m, const struct tok *t, const struct gguf *g,
                       mgpt_error *err)
{
    const struct gguf_kv *kv = NULL;
    int there = gguf_array(g, KEY_MERGE_IDS, GGUF_I32, &kv, err);
    if (there < 0)
        return there;
    size_t n = there ? (size_t)kv->n : 0;
    if (n % 3 != 0)
        return err_set(err, MGPT_EFILE, kv->offset, KEY_MERGE_IDS ": %zu ids, expected triples", n);
    int status = init_rows(m, n / 3, err);
    if (status < 0)
        return status;
    struct cursor c = cursor_over(there ? kv->value : NULL, there ? kv->value_bytes : 0);
    for (size_t i = 0; i < n; i += 3) {
        int32_t ids[3];
        for (size_t k = 0; k < 3; k++) {
            ids[k] = cursor_i32(&c);
            if (ids[k] < 0 || (size_t)ids[k] >= t->n)
                return err_set(err, MGPT_EFILE, kv->offset,
                               KEY_MERGE_IDS "[%zu]: %d, the vocabulary has %zu", i + k, ids[k],
                               t->n);
        }
        uint64_t key = pair_key(ids[0], ids[1]);
        *find_row(m, key) = (struct pair_row){key, (uint32_t)(i / 3), ids[2]};
    }
    return MGPT_OK;
}

void tok_pairs_free(struct tok_pairs *m)
{
    free(m->rows);
    m->rows = NULL;
}
