/* Tensors of mixtures of experts: "put mlps" of models.txt. See hf_special.h.
 *
 * The matrices of a layer's experts become one tensor of three dimensions. Files have a tensor for
 * each expert, or one for all experts in which gate and up are stacked; both are read for every
 * family. A layer may have a plain MLP instead.
 */
#include "convert/families/hf_special.h"

#include <stdio.h>
#include <string.h>

/* The tensor "layers.LAYER.NAME" with the first of the names, between spaces, that is there; NULL: there
 * is none. */
static const struct state_tensor *find_one(struct hf_model *m, uint32_t layer, const char *names)
{
    const struct state_tensor *t = NULL;
    char name[256];
    for (const char *at = names; !t && *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        snprintf(name, sizeof name, "layers.%u.%.*s", layer, (int)n, at);
        t = state_find(&m->state, name);
        at += n;
    }
    return t;
}

static void put_matrix(struct hf_model *m, uint32_t layer, const char *stem,
                       const struct state_tensor *t, uint64_t n_out, uint64_t n_in)
{
    const struct state_part part = {.tensor = hf_shaped(m, t, n_out, n_in), .n_rows = n_out};
    hf_add(m, layer, stem, n_in, &part, 1);
}

static void put_named(struct hf_model *m, uint32_t layer, const char *stem, const char *from,
                      uint64_t n_out, uint64_t n_in)
{
    put_matrix(m, layer, stem, hf_tensor(m, "layers.%u.%s.weight", layer, from), n_out, n_in);
}

#define GATE_UP                                                                                    \
    "mlp.experts.gate_up_proj block_sparse_moe.experts.gate_up_proj "                              \
    "block_sparse_moe.input_linear.weight feed_forward.experts.gate_up_proj "                      \
    "mlp.experts.fc1.weight"
#define DOWN                                                                                       \
    "mlp.experts.down_proj block_sparse_moe.experts.down_proj "                                    \
    "block_sparse_moe.output_linear.weight feed_forward.experts.down_proj mlp.experts.fc2.weight"

/* One matrix of an expert: part `first` of `of` parts of its rows in the tensor of all experts, or a
 * tensor of its own, in one of two folders. */
static const struct expert_matrix {
    const char *stem, *all;
    uint64_t first, of;
    const char *in_block, *in_mlp; /* "block_sparse_moe.experts.E.w1.weight" */
    int is_down;
} matrices[] = {{"ffn_gate_exps", GATE_UP, 0, 2, "w1", "gate_proj", 0},
                {"ffn_up_exps", GATE_UP, 1, 2, "w3", "up_proj", 0},
                {"ffn_down_exps", DOWN, 0, 1, "w2", "down_proj", 1}};

/* A tensor [n_expert, rows, n_in] as a matrix. */
static struct state_tensor as_matrix(struct hf_model *m, const struct state_tensor *t,
                                     uint64_t rows, uint64_t n_in)
{
    const uint64_t shape[3] = {m->c->hp.n_expert, rows, n_in};
    struct state_tensor matrix = *t;
    if (t->n_dims != 3 || memcmp(t->shape, shape, sizeof shape) != 0 ||
        t->strides[0] != t->strides[1] * rows)
        ckpt_must(m->c,
                  ckpt_refuse_tensor(m->c->err, t->name, "expected a contiguous [%llu, %llu, %llu]",
                                     (unsigned long long)shape[0], (unsigned long long)rows,
                                     (unsigned long long)n_in));
    matrix.n_dims = 2;
    matrix.shape[0] *= rows;
    matrix.shape[1] = n_in;
    matrix.strides[0] = t->strides[1];
    matrix.strides[1] = t->strides[2];
    return matrix;
}

/* What the names of a layer's MLP begin with. */
static const char *folder(struct hf_model *m, uint32_t layer)
{
    if (m->family->put.call == hf_put_lfm2_moe)
        return "feed_forward";
    return find_one(m, layer, "block_sparse_moe.gate.weight") ? "block_sparse_moe" : "mlp";
}

static const struct state_tensor *own_matrix(struct hf_model *m, uint32_t layer, uint32_t expert,
                                             const struct expert_matrix *x)
{
    char names[200];
    snprintf(names, sizeof names,
             "block_sparse_moe.experts.%u.%s.weight mlp.experts.%u.%s.weight "
             "feed_forward.experts.%u.%s.weight",
             expert, x->in_block, expert, x->in_mlp, expert, x->in_block);
    const struct state_tensor *t = find_one(m, layer, names);
    const char *in = folder(m, layer);
    return t ? t
             : hf_tensor(m, "layers.%u.%s.experts.%u.%s.weight", layer, in, expert,
                         strcmp(in, "mlp") == 0 ? x->in_mlp : x->in_block);
}

void hf_split_experts(struct hf_model *m, const struct state_tensor *t, uint64_t n_in,
                      uint64_t n_out, struct state_part *parts)
{
    const uint64_t X = m->c->hp.n_expert;
    struct state_tensor *views = ckpt_new(m->c, X, sizeof *views);
    if (t->n_dims != 3 || t->shape[0] != X || t->shape[1] != n_in || t->shape[2] != n_out)
        ckpt_stop_tensor(m->c, t->name, "expected [%llu, %llu, %llu]", (unsigned long long)X,
                         (unsigned long long)n_in, (unsigned long long)n_out);
    for (uint64_t e = 0; e < X; e++) {
        const uint64_t skipped = e * t->strides[0] * state_type_bytes(t->type);
        views[e] = (struct state_tensor){.name = t->name,
                                         .type = t->type,
                                         .n_dims = 2,
                                         .shape = {n_in, n_out},
                                         .strides = {t->strides[1], t->strides[2]},
                                         .bytes = {t->bytes.data + skipped, 0}};
        parts[e] = *parts;
        parts[e].tensor = &views[e];
        parts[e].transposed = 1;
    }
}

static void put_experts(struct hf_model *m, uint32_t layer, const struct expert_matrix *x)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    uint64_t E = hp->n_embd, F = hp->n_ff_expert ? hp->n_ff_expert : hp->n_ff, n = hp->n_expert;
    uint64_t rows = x->is_down ? E : F, n_in = x->is_down ? F : E;
    const struct state_tensor *all = find_one(m, layer, x->all);
    struct state_part *parts = ckpt_new(m->c, n, sizeof *parts);
    struct state_tensor matrix;
    int apart = !all || m->family->transposed_experts;
    if (all && apart) {
        *parts = (struct state_part){.first = x->first * rows, .n_rows = rows};
        hf_split_experts(m, all, n_in, rows * x->of, parts);
    } else if (all) {
        matrix = as_matrix(m, all, rows * x->of, n_in);
        *parts = (struct state_part){.tensor = &matrix,
                                     .first = x->first * rows,
                                     .n_rows = n * rows,
                                     .block = rows,
                                     .step = rows * x->of};
    }
    for (uint32_t i = 0; !all && i < n; i++)
        parts[i] = (struct state_part){
            .tensor = hf_shaped(m, own_matrix(m, layer, i, x), rows, n_in), .n_rows = rows};
    struct ckpt_tensor *t = hf_add(m, layer, x->stem, n_in, parts, apart ? n : 1);
    t->n_dims = 3;
    t->dims[2] = n;
    t->dims[1] /= n;
}

/* Gate, up and down of an MLP under the first of the gate's names that is there, and the same with other words: "up_proj"
 * for "gate_proj", "w3" for "w1". kind: 1 the shared expert, else a plain MLP. */
static void put_mlp(struct hf_model *m, uint32_t layer, const char *gates, int shared, uint64_t F)
{
    static const char *const stems[][2] = {
        {"ffn_gate", "ffn_gate_shexp"}, {"ffn_up", "ffn_up_shexp"}, {"ffn_down", "ffn_down_shexp"}};
    static const char *const words[][3] = {{"gate_proj", "up_proj", "down_proj"},
                                           {"w1", "w3", "w2"}};
    const uint64_t E = m->c->hp.n_embd;
    size_t n = strcspn(gates, " ");
    const struct state_tensor *found = NULL;
    for (; !found; n = strcspn(gates, " ")) {
        char name[160];
        snprintf(name, sizeof name, "%.*s.weight", (int)n, gates);
        found = find_one(m, layer, name);
        if (found || !gates[n])
            break;
        gates += n + 1;
    }
    size_t prefix = n;
    while (gates[prefix - 1] != '.')
        prefix--;
    const int is_w = n - prefix == 2;
    for (size_t i = 0; i < 3; i++) {
        char name[160];
        snprintf(name, sizeof name, "%.*s%s", (int)prefix, gates, words[is_w][i]);
        put_named(m, layer, stems[i][shared], name, i == 2 ? E : F, i == 2 ? F : E);
    }
}

/* Qwen's shared expert with its gate, a matrix of one row; Granite's. */
static void put_shared(struct hf_model *m, uint32_t layer)
{
    const uint64_t E = m->c->hp.n_embd, F = m->c->hp.n_ff_shared;
    if (strncmp(m->c->hp.arch, "granite", 7) == 0) {
        hf_put_gate_up(m, layer, F, "ffn_gate_shexp", "ffn_up_shexp");
        put_named(m, layer, "ffn_down_shexp", "shared_mlp.output_linear", E, F);
        return;
    }
    if (strcmp(m->c->hp.arch, "qwen2moe") != 0) {
        put_mlp(m, layer,
                "mlp.shared_mlp.gate_proj mlp.shared_experts.gate_proj mlp.shared_expert.gate_proj",
                1, F);
        return;
    }
    put_named(m, layer, "ffn_gate_shexp", "mlp.shared_expert.gate_proj", F, E);
    put_named(m, layer, "ffn_up_shexp", "mlp.shared_expert.up_proj", F, E);
    put_named(m, layer, "ffn_down_shexp", "mlp.shared_expert.down_proj", E, F);
    const struct state_tensor *gate =
        hf_tensor(m, "layers.%u.mlp.shared_expert_gate.weight", layer);
    struct state_tensor row = *hf_shaped(m, gate, 1, E);
    row.n_dims = 1;
    row.shape[0] = E;
    row.strides[0] = gate->strides[1];
    hf_add(m, layer, "ffn_gate_inp_shexp", 0, &(struct state_part){.tensor = &row, .n_rows = E}, 1);
}

/* What is added to probabilities for the choice: [n_expert], or one row of a matrix. */
static void put_expert_bias(struct hf_model *m, uint32_t layer)
{
    const struct state_tensor *t =
        find_one(m, layer,
                 "mlp.gate.e_score_correction_bias mlp.moe_statics.e_score_correction_bias "
                 "mlp.gate.moe_statics.e_score_correction_bias feed_forward.expert_bias "
                 "mlp.e_score_correction_bias block_sparse_moe.e_score_correction_bias "
                 "mlp.expert_bias mlp.gate.expert_bias moe.router.expert_bias "
                 "mlp.experts.e_score_correction_bias");
    if (!t)
        return;
    struct state_tensor row = *t;
    if (row.n_dims == 2 && row.shape[0] == 1) {
        row.n_dims = 1;
        row.shape[0] = row.shape[1];
        row.strides[0] = row.strides[1];
    }
    char name[64];
    const struct state_part part = {.tensor = hf_shaped(m, &row, 0, m->c->hp.n_expert),
                                    .n_rows = m->c->hp.n_expert};
    int bare = strcmp(m->c->hp.arch, "hy_v3") == 0; /* so called by llama.cpp */
    snprintf(name, sizeof name, "blk.%u.exp_probs_b%s", layer, bare ? "" : ".bias");
    hf_add(m, -1, name, 0, &part, 1);
}

static void put_mixture(struct hf_model *m, uint32_t layer)
{
    const struct state_tensor *router = find_one(
        m, layer,
        "mlp.gate.weight block_sparse_moe.gate.weight block_sparse_moe.router.layer.weight "
        "block_sparse_moe.router.weight feed_forward.gate.weight mlp.gate.wg.weight "
        "mlp.router.gate.weight mlp.router.weight");
    if (!router)
        router = hf_tensor(m, "layers.%u.%s.gate.weight", layer, folder(m, layer));
    put_matrix(m, layer, "ffn_gate_inp", router, m->c->hp.n_expert, m->c->hp.n_embd);
    put_expert_bias(m, layer);
    for (size_t i = 0; i < HF_COUNT(matrices); i++)
        put_experts(m, layer, &matrices[i]);
    if (m->c->hp.n_ff_shared)
        put_shared(m, layer);
}

static void put_plain(struct hf_model *m, uint32_t layer)
{
    int is_w = strcmp(folder(m, layer), "feed_forward") == 0;
    put_mlp(m, layer, is_w ? "feed_forward.w1" : "mlp.gate_proj", 0, m->c->hp.n_ff);
}

/* A.X K1's norm after a mixture. Published files have one in plain layers, too, which is not used. */
static void put_mixture_norm(struct hf_model *m, uint32_t layer, int is_plain)
{
    const struct state_tensor *t =
        find_one(m, layer, "post_mlp_layernorm.weight mlp.post_mlp_layernorm.weight");
    const uint64_t E = m->c->hp.n_embd;
    if (is_plain)
        return;
    if (!t)
        t = hf_tensor(m, "layers.%u.post_mlp_layernorm.weight", layer);
    hf_add(m, layer, "post_ffw_norm", 0,
           &(struct state_part){.tensor = hf_shaped(m, t, 0, E), .n_rows = E}, 1);
}

uint32_t hf_plain_layers(struct hf_model *m)
{
    const json_t *plain = hf_get(m, "mlp_only_layers");
    if (plain && !json_is(plain, JSON_ARRAY))
        hf_stop(m, "mlp_only_layers: expected a list of layers");
    return hf_count(m, "decoder_sparse_step", 1, 1, INT32_MAX);
}

void hf_put_mlps(struct hf_model *m)
{
    m->c->hp.n_dense = m->first_mixture;
    m->c->hp.expert_step = m->mixture_step;
    const json_t *plain = hf_get(m, "mlp_only_layers");
    uint32_t step = hf_plain_layers(m);
    for (uint32_t i = 0; i < m->c->hp.n_layer; i++) {
        int is_plain = (i + 1) % step != 0 || i < m->first_mixture ||
                       (m->mixture_step && (i + 1) % m->mixture_step != 0) ||
                       (m->mixtures_end && i >= m->mixtures_end);
        const char *type = json_string_value(json_array_get(m->mlp_types, i));
        is_plain |= type && strcmp(type, "dense") == 0;
        for (size_t k = 0; k < json_array_size(plain); k++)
            is_plain |= json_integer_value(json_array_get(plain, k)) == (json_int_t)i;
        (is_plain ? put_plain : put_mixture)(m, i);
        if (m->family->mixture_norms)
            put_mixture_norm(m, i, is_plain);
    }
}

/* The bias of a head's gates becomes one of each of its values. */
void hf_put_beam(struct hf_model *m)
{
    const uint64_t H = m->c->hp.n_head, d = m->c->hp.head_dim;
    hf_put_mlps(m);
    for (uint32_t i = 0; i < m->c->hp.n_layer; i++) {
        char name[48];
        struct state_tensor bias =
            *hf_shaped(m, hf_tensor(m, "layers.%u.self_attn.gate_bias", i), 0, H);
        bias.n_dims = 2;
        bias.shape[1] = d;
        bias.strides[1] = 0;
        snprintf(name, sizeof name, "blk.%u.attn_gate.bias", i);
        struct ckpt_tensor *t =
            hf_add(m, -1, name, d, &(struct state_part){.tensor = &bias, .n_rows = H}, 1);
        t->n_dims = 1;
        t->dims[0] *= H;
        t->dims[1] = 1;
    }
}

void hf_put_lfm2_moe(struct hf_model *m)
{
    hf_put_convolutions(m);
    hf_put_mlps(m);
}

/* Gate and up of all experts are the rows of a matrix; so are the columns of down. */
static void put_dbrx_matrix(struct hf_model *m, uint32_t layer, const char *stem, const char *name,
                            int is_down)
{
    const struct ckpt_hparams *hp = &m->c->hp;
    const uint64_t X = hp->n_expert, E = hp->n_embd, F = hp->n_ff, n = is_down ? X : 1;
    const struct state_tensor *all =
        hf_shaped(m, hf_tensor(m, "blocks.%u.ffn.experts.mlp.%s", layer, name), X * F, E);
    struct state_part *parts = ckpt_new(m->c, n, sizeof *parts);
    struct state_tensor *views = ckpt_new(m->c, n, sizeof *views);
    for (uint64_t i = 0; i < n; i++) {
        views[i] = *all;
        parts[i] = (struct state_part){.tensor = &views[i], .n_rows = X * F};
        if (!is_down)
            continue;
        views[i].packed = NULL;
        views[i].shape[0] = F;
        views[i].bytes.data += i * F * all->strides[0] * state_type_bytes(all->type);
        parts[i].transposed = 1;
        parts[i].n_rows = E;
    }
    struct ckpt_tensor *t = hf_add(m, layer, stem, is_down ? F : E, parts, n);
    t->n_dims = 3;
    t->dims[1] /= X;
    t->dims[2] = X;
}

void hf_put_dbrx(struct hf_model *m)
{
    for (uint32_t i = 0; i < m->c->hp.n_layer; i++) {
        put_matrix(m, i, "ffn_gate_inp", hf_tensor(m, "blocks.%u.ffn.router.layer.weight", i),
                   m->c->hp.n_expert, m->c->hp.n_embd);
        put_dbrx_matrix(m, i, "ffn_gate_exps", "w1", 0);
        put_dbrx_matrix(m, i, "ffn_up_exps", "v1", 0);
        put_dbrx_matrix(m, i, "ffn_down_exps", "w2", 1);
    }
}
