/* Parameter lists: microgpt's `params`, which has no names and, when flat, no shapes. See
 * microgpt.h.
 *
 * A flat list of N numbers is V*E (wte) + T*E (wpe) + V*E (lm_head) + L * 12*E*E. What neither file
 * nor options say is taken from the published program (E 16, L 1, T 16), V from N, with a note; N
 * must then come out exactly. lm_head follows wpe, as in the published program, or, with
 * --head-last, the layers.
 */
#include "base/error.h"
#include "convert/families/microgpt.h"

#include <stdio.h>
#include <string.h>

#define USUAL_EMBD 16
#define USUAL_LAYERS 1
#define USUAL_CONTEXT 16
#define MAX_SIZE (1 << 24) /* of each: keeps the products below within 64 bits */

struct param_sizes {
    int64_t v, e, l, t; /* -1: not known */
    int notes[3];       /* assumed: e, l, t */
    int solved;         /* enum mg_size of what the count gave, or -1 */
};

/* ---- order ----------------------------------------------------------------------------------- */

enum { HEAD = 2, N_KINDS = MG_N_GLOBAL + MG_N_PER_LAYER };

static const char *const kinds[] = {"wte",     "wpe",     "lm_head", "attn_wq", "attn_wk",
                                    "attn_wv", "attn_wo", "mlp_fc1", "mlp_fc2"};
_Static_assert(sizeof kinds / sizeof *kinds == N_KINDS, "a row each");

/* Returns the kind of the i-th of n matrices, in the order of microgpt's parameters, and its layer. */
static size_t kind_at(const struct mg_parts *m, size_t i, size_t n, size_t *layer)
{
    *layer = 0;
    if (m->in->options->given & OPT_HEAD_LAST) {
        if (i == n - 1)
            return HEAD;
        if (i >= HEAD)
            i++;
    }
    if (i < MG_N_GLOBAL)
        return i;
    *layer = (i - MG_N_GLOBAL) / MG_N_PER_LAYER;
    return MG_N_GLOBAL + (i - MG_N_GLOBAL) % MG_N_PER_LAYER;
}

void mg_name_in_order(const struct mg_parts *m, size_t i, size_t n, char buf[32])
{
    size_t layer, kind = kind_at(m, i, n, &layer);
    if (kind < MG_N_GLOBAL)
        snprintf(buf, 32, "%s", kinds[kind]);
    else
        snprintf(buf, 32, "layer%zu.%s", layer, kinds[kind]);
}

void mg_check_order(struct mg_parts *m, size_t n)
{
    if (n < MG_N_GLOBAL || (n - MG_N_GLOBAL) % MG_N_PER_LAYER ||
        (n - MG_N_GLOBAL) / MG_N_PER_LAYER > CKPT_MAX_LAYERS)
        ckpt_stop(m->c, "parameter list: %zu matrices, expected 3 and 6 for each layer", n);
    int last = (m->in->options->given & OPT_HEAD_LAST) != 0;
    ckpt_note(m->c,
              "inferred: the matrices are wte, wpe,%s then wq wk wv wo fc1 fc2 of each layer%s "
              "(the order of the list)",
              last ? "" : " lm_head,", last ? ", then lm_head" : "");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void assume(int64_t *size, int64_t usual, int *noted)
{
    *noted = *size < 0;
    if (*size < 0)
        *size = usual;
}

/* Settles the sizes so that they need exactly n numbers; 0 when none do. */
static int solve(uint64_t n, struct param_sizes *s)
{
    s->solved = -1;
    assume(&s->e, USUAL_EMBD, &s->notes[0]);
    assume(&s->l, USUAL_LAYERS, &s->notes[1]);
    s->notes[2] = 0;
    if (s->v < 0)
        assume(&s->t, USUAL_CONTEXT, &s->notes[2]);
    if (s->e < 1 || s->e > MAX_SIZE || s->l < 0 || s->l > CKPT_MAX_LAYERS || s->t > MAX_SIZE ||
        s->v > MAX_SIZE)
        return 0;
    uint64_t e = (uint64_t)s->e, used = 12 * e * e * (uint64_t)s->l;
    used += s->v > 0 ? 2 * e * (uint64_t)s->v : 0;
    used += s->t > 0 ? e * (uint64_t)s->t : 0;
    if (used > n)
        return 0;
    uint64_t left = n - used, each = s->v < 0 ? 2 * e : e;
    if (left % each || (left == 0) != (s->v >= 0 && s->t >= 0))
        return 0;
    if (left == 0)
        return 1;
    s->solved = s->v < 0 ? MG_VOCAB : MG_CONTEXT;
    *(s->v < 0 ? &s->v : &s->t) = (int64_t)(left / each);
    return 1;
}

static struct param_sizes stated(const struct mg_parts *m)
{
    const struct ckpt_options *o = m->in->options;
    return (struct param_sizes){.v = mg_stated(&m->facts, o, MG_VOCAB),
                                .e = mg_stated(&m->facts, o, MG_EMBD),
                                .l = mg_stated(&m->facts, o, MG_LAYERS),
                                .t = mg_stated(&m->facts, o, MG_CONTEXT)};
}

int mg_params_fit(const struct mg_parts *m, uint64_t n)
{
    struct param_sizes s = stated(m);
    return solve(n, &s);
}

static void say(struct mg_parts *m, uint64_t n, const struct param_sizes *s)
{
    static const char *const options[] = {"--embd", "--layers", "--context"};
    const int64_t values[] = {s->e, s->l, s->t};
    const enum mg_size sizes[] = {MG_EMBD, MG_LAYERS, MG_CONTEXT};
    for (size_t i = 0; i < 3; i++)
        if (s->notes[i])
            ckpt_note(m->c, "inferred: %s = %lld (the published program's; set it with %s)",
                      mg_size_name(sizes[i]), (long long)values[i], options[i]);
    if (s->solved >= 0)
        ckpt_note(m->c, "inferred: %s = %lld (from the %llu numbers)",
                  mg_size_name((enum mg_size)s->solved),
                  (long long)(s->solved == MG_VOCAB ? s->v : s->t), (unsigned long long)n);
    if (s->l > 0)
        ckpt_note(m->c, "inferred: the hidden width is 4 * n_embd = %lld", 4 * (long long)s->e);
}

/* ---- cutting --------------------------------------------------------------------------------- */

static void microgpt_params_cut(struct mg_parts *m, const struct param_sizes *s,
                                const struct state_tensor *all)
{
    uint64_t v = (uint64_t)s->v, t = (uint64_t)s->t, e = (uint64_t)s->e, at = 0;
    const uint64_t rows[N_KINDS] = {v, t, v, e, e, e, e, 4 * e, e};
    const uint64_t cols[N_KINDS] = {e, e, e, e, e, e, e, e, 4 * e};
    size_t n = MG_N_GLOBAL + (size_t)s->l * MG_N_PER_LAYER, each = state_type_bytes(all->type);
    for (size_t i = 0; i < n; i++) {
        char name[32];
        size_t layer, k = kind_at(m, i, n, &layer);
        mg_name_in_order(m, i, n, name);
        mg_add(m, name, mg_flat(all->bytes.data + at * each, rows[k], cols[k], all->type));
        at += rows[k] * cols[k];
    }
}

void mg_add_params(struct mg_parts *m, const struct state_tensor *all)
{
    uint64_t n = all->n_dims ? all->shape[0] : 1;
    struct param_sizes s = stated(m);
    if (!solve(n, &s))
        ckpt_stop(m->c,
                  "parameter list: %llu numbers do not fit n_embd %llu, n_layer %llu; give "
                  "--embd --layers --vocab-size --context",
                  (unsigned long long)n, (unsigned long long)s.e, (unsigned long long)s.l);
    say(m, n, &s);
    microgpt_params_cut(m, &s, all);
}
