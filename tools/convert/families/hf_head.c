/* The head of a Hugging Face model, and tensors that are no weights. See hf.h.
 *
 * config.json says whether the head is the token table. A file that has a head all the same means it:
 * where the two differ, the head is used.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf_special.h"

#include <stdio.h>
#include <string.h>

enum { COMPARED = 4096 }; /* values at a time */

/* Reads tie_word_embeddings. If the text model is a part of another one, the key may be at the root only,
 * or true there because the file has no head. */
static int read_tied(struct hf_model *m)
{
    static const char key[] = "tie_word_embeddings";
    if (!m->wrapper || m->cfg.text == m->cfg.root)
        return hf_on(m, key, m->family->tied);
    m->at = m->cfg.root;
    int root = hf_on(m, key, m->wrapper->tied);
    m->at = m->cfg.text;
    int tied = hf_on(m, key, root);
    return tied || (root && !state_has(&m->state, m->family->head));
}

/* Whether config.json itself says so. */
static int says_tied(const struct hf_model *m)
{
    static const char key[] = "tie_word_embeddings";
    return json_is(hf_value(m->cfg.text, key), JSON_TRUE) ||
           json_is(hf_value(m->cfg.root, key), JSON_TRUE);
}

/* The token table's name in files; NULL: the family has no row of it. */
static const char *table_name(const struct hf_model *m, char name[STATE_MAX_ROW_NAME])
{
    for (size_t i = 0; i < m->family->n_rows; i++)
        if (strcmp(m->family->rows[i].to, "token_embd") == 0) {
            state_row_name(name, m->family->rows[i].from, &m->family->rows[i], 0, 0);
            return name;
        }
    return NULL;
}

void hf_name_tied(struct hf_model *m)
{
    char name[STATE_MAX_ROW_NAME];
    if (!read_tied(m) || !table_name(m, name) || state_has(&m->state, name))
        return;
    for (size_t i = 0; i < arr_len(m->state.tensors); i++) {
        struct state_tensor *t = &m->state.tensors[i];
        if (strcmp(t->name, m->family->head) != 0)
            continue;
        ckpt_note(m->c, "%s is the token table, too (tie_word_embeddings; there is no %s)", t->name,
                  name);
        t->name = ckpt_copy(m->c, name, strlen(name));
        state_seal(&m->state);
        return;
    }
}

void hf_check_table(struct hf_model *m)
{
    char name[STATE_MAX_ROW_NAME];
    if (m->n_rows)
        hf_shaped(m, hf_tensor(m, "%s", table_name(m, name)), m->n_rows, m->c->hp.n_embd);
}

static int same_values(const struct ckpt_tensor *a, const struct ckpt_tensor *b, uint64_t n)
{
    float x[COMPARED], y[COMPARED];
    for (uint64_t i = 0; i < n; i += COMPARED) {
        size_t part = n - i < COMPARED ? (size_t)(n - i) : COMPARED;
        ckpt_values(a, i, part, x);
        ckpt_values(b, i, part, y);
        if (memcmp(x, y, part * sizeof *x) != 0)
            return 0;
    }
    return 1;
}

/* Whether the head has the values of the token table; a table that is not there differs. */
static int is_table(struct hf_model *m, const struct state_tensor *head)
{
    char name[STATE_MAX_ROW_NAME];
    const struct state_tensor *table = table_name(m, name) ? state_peek(&m->state, name) : NULL;
    struct ckpt_tensor a, b;
    if (!table || table->n_dims != 2 || head->n_dims != 2 ||
        memcmp(table->shape, head->shape, 2 * sizeof *table->shape) != 0)
        return 0;
    state_source(m->c, table, &a);
    state_source(m->c, head, &b);
    return same_values(&a, &b, table->shape[0] * table->shape[1]);
}

int hf_head_row(struct hf_model *m, struct state_row *row)
{
    const struct state_tensor *t = state_peek(&m->state, m->family->head);
    int tied = read_tied(m), same = tied && t && is_table(m, t);
    *row = (struct state_row){m->family->head, "output.weight", 'V', 'E', STATE_BARE};
    if (tied && t && !same && m->projected)
        ckpt_stop_tensor(m->c, m->family->head,
                         "it is not the token table, whose projection is the head");
    if (same)
        state_find(&m->state, m->family->head); /* used */
    else if (tied && t && says_tied(m))
        ckpt_note(m->c, "%s is not the token table: used, although tie_word_embeddings is true",
                  m->family->head);
    return !tied || (t && !same);
}

void hf_number_layers(struct hf_model *m)
{
    for (size_t i = 0; m->left_out && i < arr_len(m->state.tensors); i++) {
        struct state_tensor *t = &m->state.tensors[i];
        unsigned layer = 0, now = 0;
        int at = 0;
        if (sscanf(t->name, "layers.%9u.%n", &layer, &at) != 1 || !at || layer >= m->n_layer)
            continue;
        for (uint32_t k = 0; k < layer; k++)
            now += !m->left_out[k];
        size_t size = strlen(t->name) + 16;
        char *name = ckpt_new(m->c, size, 1);
        t->used |= m->left_out[layer];
        snprintf(name, size, "%s.%u.%s", t->used ? "left_out" : "layers", t->used ? layer : now,
                 t->name + at);
        t->name = name;
    }
}

void hf_skip_buffers(struct state *s)
{
    static const char *const suffixes[] = {".attn.bias",
                                           ".attn.masked_bias",
                                           ".attn.causal_mask",
                                           ".attn.scale_attn",
                                           ".attention.bias",
                                           ".attention.masked_bias",
                                           ".attn.embed_positions",
                                           ".rotary_emb.inv_freq",
                                           ".rotary_emb.cos_cached",
                                           ".rotary_emb.sin_cached",
                                           ".rotary.inv_freq",
                                           "embed_positions.weights"};
    for (size_t i = 0; i < HF_COUNT(suffixes); i++)
        state_skip_suffix(s, suffixes[i]);
}
