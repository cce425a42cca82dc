/* Parameter lists in JSON: microgpt's `params`, which has no names and, when flat, no shapes.
 * See json_model.h.
 *
 * A flat list of N numbers is V*E (wte) + T*E (wpe) + V*E (lm_head) + L * 12*E*E. What neither file
 * nor options say is taken from the published program (E 16, L 1, T 16), V from N, and said aloud; N
 * must then come out exactly.
 */
#include "error.h"
#include "json_model.h"

#define USUAL_EMBD 16
#define USUAL_LAYERS 1
#define USUAL_CONTEXT 16
#define MAX_SIZE (1 << 24) /* of each: keeps the products below within 64 bits */

struct sizes {
    int64_t v, e, l, t; /* -1: not known */
};

static int does_not_fit(struct json_model *m, uint64_t n, const struct sizes *s)
{
    return err_set(m->err, MGPT_EFILE, MGPT_NO_OFFSET,
                   "parameter list: %llu numbers do not fit n_embd %llu, n_layer %llu; give --embd "
                   "--layers --vocab-size --context",
                   (unsigned long long)n, (unsigned long long)s->e, (unsigned long long)s->l);
}

static void assume(struct json_model *m, int64_t *size, enum mg_size which, int64_t usual,
                   const char *option)
{
    if (*size >= 0)
        return;
    *size = usual;
    ckpt_note(m->c, "inferred: %s = %lld (the published program's; set it with %s)",
              mg_size_name(which), (long long)usual, option);
}

/* Settles the sizes so that they need exactly n numbers. */
static int solve(struct json_model *m, uint64_t n, struct sizes *s)
{
    if (s->v < 0)
        assume(m, &s->t, MG_CONTEXT, USUAL_CONTEXT, "--context");
    if (s->e < 1 || s->e > MAX_SIZE || s->l < 0 || s->l > CKPT_MAX_LAYERS || s->t > MAX_SIZE ||
        s->v > MAX_SIZE)
        return does_not_fit(m, n, s);
    uint64_t e = (uint64_t)s->e, used = 12 * e * e * (uint64_t)s->l;
    used += s->v > 0 ? 2 * e * (uint64_t)s->v : 0;
    used += s->t > 0 ? e * (uint64_t)s->t : 0;
    uint64_t left = n - used, each = s->v < 0 ? 2 * e : e;
    if (used > n || left % each || (left == 0) != (s->v >= 0 && s->t >= 0))
        return does_not_fit(m, n, s);
    if (left == 0)
        return MGPT_OK;
    enum mg_size which = s->v < 0 ? MG_VOCAB : MG_CONTEXT;
    int64_t *unknown = s->v < 0 ? &s->v : &s->t;
    *unknown = (int64_t)(left / each);
    ckpt_note(m->c, "inferred: %s = %lld (from the %llu numbers)", mg_size_name(which),
              (long long)*unknown, (unsigned long long)n);
    return MGPT_OK;
}

static int cut(struct json_model *m, const json_t *list, const struct sizes *s)
{
    uint64_t v = (uint64_t)s->v, t = (uint64_t)s->t, e = (uint64_t)s->e, at = 0;
    const uint64_t rows[] = {v, t, v, e, e, e, e, 4 * e, e};
    const uint64_t cols[] = {e, e, e, e, e, e, e, e, 4 * e};
    char name[32];
    size_t n = MG_N_GLOBAL + (size_t)s->l * MG_N_PER_LAYER;
    for (size_t i = 0; i < n; i++) {
        size_t k = i < MG_N_GLOBAL ? i : MG_N_GLOBAL + (i - MG_N_GLOBAL) % MG_N_PER_LAYER;
        mg_name_in_order(i, name);
        int status = json_add_flat(m, name, list, at, rows[k], cols[k]);
        if (status < 0)
            return status;
        at += rows[k] * cols[k];
    }
    return MGPT_OK;
}

static int add_flat_list(struct json_model *m, const json_t *list)
{
    const struct ckpt_options *o = m->in->options;
    struct sizes s = {mg_stated(&m->facts, o, MG_VOCAB), mg_stated(&m->facts, o, MG_EMBD),
                      mg_stated(&m->facts, o, MG_LAYERS), mg_stated(&m->facts, o, MG_CONTEXT)};
    assume(m, &s.e, MG_EMBD, USUAL_EMBD, "--embd");
    assume(m, &s.l, MG_LAYERS, USUAL_LAYERS, "--layers");
    int status = json_check_numbers(m, "params", list);
    if (status == MGPT_OK)
        status = solve(m, json_array_size(list), &s);
    if (status < 0)
        return status;
    if (s.l > 0)
        ckpt_note(m->c, "inferred: the hidden width is 4 * n_embd = %lld", 4 * (long long)s.e);
    return cut(m, list, &s);
}

static int add_matrix_list(struct json_model *m, const json_t *list)
{
    char name[32];
    size_t n = json_array_size(list);
    if (n < MG_N_GLOBAL || (n - MG_N_GLOBAL) % MG_N_PER_LAYER ||
        (n - MG_N_GLOBAL) / MG_N_PER_LAYER > CKPT_MAX_LAYERS)
        return err_set(m->err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "parameter list: %zu matrices, expected 3 and 6 for each layer", n);
    ckpt_note(m->c, "inferred: the matrices are wte, wpe, lm_head, then wq wk wv wo fc1 fc2 of "
                    "each layer (the order of the list)");
    for (size_t i = 0; i < n; i++) {
        mg_name_in_order(i, name);
        int status = json_add_matrices(m, name, json_array_get(list, i));
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

int json_add_params(struct json_model *m, const json_t *list)
{
    if (json_array_size(list) == 0)
        return err_set(m->err, MGPT_EFILE, MGPT_NO_OFFSET, "parameter list: it is empty");
    return json_is_number(json_array_get(list, 0)) ? add_flat_list(m, list)
                                                   : add_matrix_list(m, list);
}
