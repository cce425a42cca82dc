/* Adapters as PEFT saves them: adapter_config.json and adapter_model.safetensors (or .bin). See
 * core/lora.h.
 *
 * Their names are those of the model's Hugging Face form, so the rows of the model's family (hf.h)
 * say which tensor of the checkpoint a module is, and the order of its rows: B's rows (and DoRA's
 * magnitudes) are taken as the rows of the matrix itself would be. The base may also be GGUF: then
 * the family is the one of its architecture that knows all names. Whole tensors in the file
 * (modules_to_save, biases) take the place of the base's.
 */
#include "convert/families/peft.h"
#include "convert/containers/state_open.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* The tensors of one module. */
struct peft_module {
    const char *name; /* without PEFT's words; with the family's prefix */
    const struct state_tensor *a, *b, *magnitude;
    int is_embedding;
};

/* What state_put stacks. */
struct peft_stack {
    const struct state_part *parts;
    size_t n;
    uint64_t n_in;
    float plus;
};

/* ---- the base's sizes ------------------------------------------------------------------------ */

static void sizes_of_gguf(struct peft *p)
{
    const char *arch = p->c->hp.arch;
    const struct {
        const char *name;
        uint32_t *to;
    } keys[] = {
        {"embedding_length", &p->hp.n_embd},           {"block_count", &p->hp.n_layer},
        {"feed_forward_length", &p->hp.n_ff},          {"attention.head_count", &p->hp.n_head},
        {"attention.head_count_kv", &p->hp.n_head_kv}, {"attention.key_length", &p->hp.head_dim}};
    for (size_t i = 0; i < HF_COUNT(keys); i++) {
        char key[128];
        uint64_t v = 0;
        snprintf(key, sizeof key, "%.60s.%s", arch, keys[i].name);
        ckpt_must(p->c, gguf_uint(p->c->metadata, key, INT32_MAX, &v, p->c->err));
        *keys[i].to = (uint32_t)v;
    }
    if (!p->hp.n_head || !p->hp.n_embd)
        ckpt_stop(p->c, "the base does not state its heads and width");
}

/* ---- changes --------------------------------------------------------------------------------- */

/* The tensor that `stacked` puts, not in the checkpoint's list. */
static void take_stacked(struct peft *p, const char *to, const struct peft_stack *stacked,
                         struct ckpt_tensor *t)
{
    state_put(p->c, to, stacked->n_in, stacked->parts, stacked->n, stacked->plus);
    size_t last = arr_len(p->c->tensors) - 1;
    *t = p->c->tensors[last];
    arr_set_len(p->c->tensors, last);
}

/* Which rows of its source a row takes; of a table, all. */
static void set_rows(const struct peft *p, const struct state_row *row, struct state_part *part)
{
    part->n_rows = row->n_out == 'V' ? 0 : state_size(&p->hp, row->n_out);
    state_row_part(row, &p->hp, part);
}

/* Which rows of the base the target is. */
static void place_rows(const struct peft *p, const struct peft_target *target,
                       struct lora_change *change)
{
    struct state_part part = {0};
    change->n_rows = lora_find(p->c, target->to)->dims[1];
    for (size_t i = 0; target->n_stack > 1 && i <= target->at; i++) {
        change->first += part.n_rows;
        set_rows(p, &target->stack[i], &part);
        change->n_rows = part.n_rows;
    }
}

/* The values of a part, which has one row for each of the change's. */
static const float *take_floats(struct peft *p, const struct peft_target *target, uint64_t n_in,
                                struct state_part part)
{
    struct lora_change place = {0};
    struct ckpt_tensor t;
    set_rows(p, &target->row, &part);
    place_rows(p, target, &place);
    const struct peft_stack one = {.parts = &part, .n = 1, .n_in = n_in};
    take_stacked(p, target->to, &one, &t);
    if (t.n_values != place.n_rows * (n_in ? n_in : 1))
        ckpt_stop_tensor(p->c, part.tensor->name, "its shape does not give the rows of %s",
                         target->to);
    return lora_floats(p->c, &t, 0);
}

/* Sizes of both factors: A [r, n_in] and B [n_out, r]; of a table A [r, n_vocab], B [n_embd, r]. */
static void check_factors(const struct peft *p, const struct peft_target *target,
                          const struct peft_module *m)
{
    const struct ckpt_tensor *base = lora_find(p->c, target->to);
    if (m->a->n_dims != 2 || m->b->n_dims != 2 || base->n_dims != 2)
        ckpt_stop_tensor(p->c, m->name, "expected matrices");
    int is_split = target->row.flags & STATE_IS_PART;
    const uint64_t found[2] = {m->is_embedding ? m->a->shape[1] : m->b->shape[0],
                               m->is_embedding ? m->b->shape[0] : m->a->shape[1]};
    const uint64_t expected[2] = {is_split ? state_size(&p->hp, target->row.n_out) : base->dims[1],
                                  base->dims[0]};
    if (target->n_stack > 1 && !is_split)
        ckpt_stop_tensor(p->c, m->name, "is stacked with others in %s", target->to);
    lora_check_size(p->c, m->name, found, expected);
    lora_check_rank(p->c, m->name, m->a->shape[0], m->b->shape[1]);
}

static void read_factors(struct peft *p, const struct peft_target *target,
                         const struct peft_module *m, struct lora_change *change)
{
    const struct state_tensor *rows = m->is_embedding ? m->a : m->b;
    const struct state_tensor *columns = m->is_embedding ? m->b : m->a;
    struct ckpt_tensor from;
    change->b = take_floats(p, target, change->rank,
                            (struct state_part){.tensor = rows, .transposed = m->is_embedding});
    state_source(p->c, columns, &from);
    if (m->magnitude)
        change->magnitude = take_floats(p, target, 0, (struct state_part){.tensor = m->magnitude});
    from.n_dims = 2;
    from.dims[0] = columns->shape[1];
    from.n_values = columns->shape[0] * columns->shape[1]; /* state_check_extent */
    change->a = lora_floats(p->c, &from, m->is_embedding);
}

static void change_target(struct peft *p, const struct peft_target *target,
                          const struct peft_module *m)
{
    struct lora_change change = {.rank = m->a->shape[0]};
    if (target->is_bias)
        ckpt_stop_tensor(p->c, m->name, "is a bias");
    lora_check_tied(p->c, m->name, target->to);
    check_factors(p, target, m);
    change.scale = peft_scale(p, m->name, change.rank) * p->adapter->scale;
    read_factors(p, target, m, &change);
    place_rows(p, target, &change);
    p->n_changed += target->at == 0;
    lora_change(p->c, lora_find(p->c, target->to), &change);
}

static void check_dora(const struct peft *p, const struct peft_module *m)
{
    if (!m->magnitude != !p->cfg.is_dora)
        ckpt_stop_tensor(p->c, m->name, "use_dora is %s, but lora_magnitude_vector is %s",
                         p->cfg.is_dora ? "true" : "false", m->magnitude ? "there" : "missing");
    if (m->magnitude && m->is_embedding)
        ckpt_stop_tensor(p->c, m->name, "DoRA of an embedding is not supported");
}

static const struct state_tensor *factor_of(struct peft *p, const char *module, const char *factor)
{
    char name[STATE_MAX_ROW_NAME + 32];
    snprintf(name, sizeof name, "%s.%s", module, factor);
    return state_find(p->state, name);
}

/* A module by its A. */
static void change_module(struct peft *p, const struct state_tensor *a)
{
    char name[STATE_MAX_ROW_NAME], target_name[STATE_MAX_ROW_NAME];
    struct peft_target target;
    struct peft_module m = {.name = name, .a = a};
    peft_target_name(target_name, a);
    snprintf(name, sizeof name, "%.*s", (int)(strlen(target_name) - strlen(".weight")),
             target_name);
    m.is_embedding = strstr(a->alias, ".lora_embedding_A") != NULL;
    m.b = factor_of(p, name, m.is_embedding ? "lora_embedding_B" : "lora_B");
    m.magnitude = factor_of(p, name, "lora_magnitude_vector");
    if (!m.b)
        ckpt_stop_tensor(p->c, a->name, "its B is missing");
    check_dora(p, &m);
    for (size_t row = 0; peft_next_target(p, p->family, target_name, &row, &target);)
        change_target(p, &target, &m);
}

/* ---- whole tensors --------------------------------------------------------------------------- */

/* The head of a model that had none of its own, or a tensor in the place of the base's. */
static void put_replaced(struct peft *p, const struct ckpt_tensor *t, const char *from)
{
    struct ckpt_tensor *base = lora_find(p->c, t->name);
    const struct ckpt_tensor *table = lora_find(p->c, "token_embd.weight");
    const struct ckpt_tensor *like = base ? base : table;
    if (!like || like->n_dims != t->n_dims || memcmp(like->dims, t->dims, sizeof t->dims) != 0)
        ckpt_stop_tensor(p->c, from, "%llu x %llu, the model has %llu x %llu: another base",
                         (unsigned long long)t->dims[1], (unsigned long long)t->dims[0],
                         (unsigned long long)(like ? like->dims[1] : 0),
                         (unsigned long long)(like ? like->dims[0] : 0));
    if (!base && (strstr(from, ".base_layer.") || strcmp(t->name, "output.weight") != 0)) {
        lora_check_tied(p->c, from, "output.weight");
        return;
    }
    if (base)
        *base = *t;
    else
        ckpt_push(p->c, p->c->tensors, *t);
    p->n_replaced++;
}

/* Sets the source of one row of a stack. The adapter must have all rows. */
static void replaced_part(struct peft *p, const struct peft_target *target,
                          const struct state_row *row, const struct state_tensor *from,
                          struct state_part *part)
{
    int is_vector = !row->n_out || target->is_bias;
    if (strcmp(row->from, target->row.from) != 0)
        ckpt_stop_tensor(p->c, from->name, "is stacked with others in %s", target->to);
    if (from->n_dims != (is_vector ? 1U : 2U))
        ckpt_stop_tensor(p->c, from->name, "expected a %s", is_vector ? "vector" : "matrix");
    *part = (struct state_part){.tensor = from};
    part->transposed = !is_vector && row->flags & STATE_TRANSPOSED;
    state_row_part(row, &p->hp, part);
}

/* Puts a tensor of the adapter in the place of the base model's: modules_to_save and trained
 * biases. */
static void replace(struct peft *p, const struct state_tensor *from)
{
    struct peft_target target;
    struct state_part parts[PEFT_MOST_STACKED];
    struct ckpt_tensor t;
    for (size_t i = 0; peft_next_target(p, p->family, from->alias, &i, &target);) {
        int is_vector = !target.row.n_out || target.is_bias;
        if (target.at > 0)
            continue; /* done with the first of its stack */
        for (size_t k = 0; k < target.n_stack; k++)
            replaced_part(p, &target, target.stack ? &target.stack[k] : &target.row, from,
                          &parts[k]);
        const struct peft_stack all = {
            .parts = parts,
            .n = target.n_stack,
            .n_in = is_vector ? 0 : from->shape[parts[0].transposed ? 0 : 1],
            .plus = target.row.flags & STATE_PLUS_ONE && !target.is_bias ? 1.0F : 0.0F};
        take_stacked(p, target.to, &all, &t);
        put_replaced(p, &t, from->name);
    }
}

/* A new table of a model whose head is the table needs a new head. */
static void check_new_table(struct peft *p)
{
    struct peft_target target;
    for (size_t i = 0; i < arr_len(p->state->tensors); i++) {
        const struct state_tensor *t = &p->state->tensors[i];
        size_t row = 0;
        if (!strstr(t->alias, ".lora_") && peft_next_target(p, p->family, t->alias, &row, &target))
            lora_check_tied(p->c, t->name, target.to);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void peft_apply_all(struct peft *p)
{
    if (arr_len(p->state->tensors) == 0)
        ckpt_stop(p->c, "it has no tensors");
    for (size_t i = 0; i < arr_len(p->state->tensors); i++) {
        struct state_tensor *t = &p->state->tensors[i];
        if (strstr(t->alias, ".lora_"))
            continue;
        t->used = 1;
        replace(p, t);
    }
    check_new_table(p);
    for (size_t i = 0; i < arr_len(p->state->tensors); i++) {
        struct state_tensor *t = &p->state->tensors[i];
        const char *factor = strstr(t->alias, ".lora_");
        if (!factor || !ckpt_is_one_of(factor + 1, " lora_A lora_embedding_A "))
            continue;
        t->used = 1;
        change_module(p, t);
    }
    state_check_used(p->state, "LoRA with both A and B");
}

void lora_apply_peft(struct checkpoint *c, const struct lora_adapter *adapter)
{
    struct peft p = {.c = c, .adapter = adapter, .hp = c->hp, .state = state_new(c)};
    if (c->is_renumbered)
        ckpt_stop(c,
                  "adapters of PEFT are not supported for %s, whose layers have other numbers here",
                  c->model_type);
    peft_config_read(c, &p.cfg, adapter->config);
    state_open(p.state, adapter->weights);
    peft_add_aliases(&p);
    if (c->metadata)
        sizes_of_gguf(&p);
    peft_choose_family(&p);
    peft_apply_all(&p);
    ckpt_note(c, "adapter %.40s: %s%zu matrices changed, in F32, %zu tensors replaced, scale %g",
              lora_name(adapter), p.cfg.is_dora ? "DoRA, " : "", p.n_changed, p.n_replaced,
              adapter->scale);
}
