/* Tests of locate and --explain: bugs planted in toys, one at a time, whose references the float64 oracle
 * computes from the unbroken toy. For each the first bad hook and the cause are stated here; both with
 * inner values and, where `logits` says so, from the logits alone. */
#include "check/compare/locate.h"
#include "support/planted.h"
#include "support/toy_oracle.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

enum { N = 14 };

/* ---- bugs --------------------------------------------------------------------------------------- */

static struct toy_tensor *tensor(struct toy *m, const char *name)
{
    struct toy_tensor *t = toy_find(m, name);
    assert_non_null(t);
    return t;
}

static void swap_values(struct toy *m, const char *a, const char *b)
{
    struct toy_tensor *ta = tensor(m, a), *tb = tensor(m, b);
    assert_int_equal(ta->n, tb->n);
    float *values = ta->values;
    ta->values = tb->values;
    tb->values = values;
}

static void in_layers(struct toy *m, const char *a, const char *b)
{
    for (int i = 0; i < m->spec.n_layer; i++) {
        char na[64], nb[64];
        snprintf(na, sizeof na, "blk.%d.%s", i, a);
        snprintf(nb, sizeof nb, "blk.%d.%s", i, b);
        swap_values(m, na, nb);
    }
}

/* Rows of q and k from pairs' order to halves', as a converter that forgets to permute leaves them. */
static void permute(struct toy *m, const char *name, int heads)
{
    struct toy_tensor *t = tensor(m, name);
    size_t d = (size_t)m->spec.head_dim, w = (size_t)t->dims[0];
    float *copy = toy_alloc(t->n, sizeof *copy);
    memcpy(copy, t->values, t->n * sizeof *copy);
    for (size_t r = 0; r < (size_t)heads * d; r++) {
        size_t j = r % d, from = j < d / 2 ? 2 * j : 2 * (j - d / 2) + 1;
        memcpy(t->values + r * w, copy + (r - j + from) * w, w * sizeof *copy);
    }
    free(copy);
}

static void bug_rows(struct toy *m)
{
    for (int i = 0; i < m->spec.n_layer; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", i);
        permute(m, name, m->spec.n_head);
        snprintf(name, sizeof name, "blk.%d.attn_k.weight", i);
        permute(m, name, m->spec.n_head_kv);
    }
}

static void bug_gate(struct toy *m)
{
    in_layers(m, "ffn_gate.weight", "ffn_up.weight");
}

static void bug_gate_one(struct toy *m)
{
    swap_values(m, "blk.1.ffn_gate.weight", "blk.1.ffn_up.weight");
}

static void bug_norms(struct toy *m)
{
    in_layers(m, "attn_norm.weight", "ffn_norm.weight");
}

static void bug_base(struct toy *m)
{
    toy_put_f32(m, "llama.rope.freq_base", 500000);
}

static void bug_factor(struct toy *m)
{
    toy_put_string(m, "llama.rope.scaling.type", "linear");
    toy_put_f32(m, "llama.rope.scaling.factor", 4);
}

static void bug_scale(struct toy *m)
{
    toy_put_f32(m, "llama.attention.scale", 1);
}

static void bug_eps(struct toy *m)
{
    toy_put_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-3F);
}

static void bug_gelu(struct toy *m)
{
    toy_put_string(m, "mgpt.activation", "gelu_erf");
}

static void bug_relu(struct toy *m)
{
    toy_put_string(m, "mgpt.activation", "relu2");
}

static void turn(struct toy *m, const char *name)
{
    struct toy_tensor *t = tensor(m, name);
    size_t n = (size_t)t->dims[0];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            float v = t->values[i * n + j];
            t->values[i * n + j] = t->values[j * n + i];
            t->values[j * n + i] = v;
        }
}

static void bug_turned(struct toy *m)
{
    for (int i = 0; i < m->spec.n_layer; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_output.weight", i);
        turn(m, name);
    }
}

static void bug_tied(
    struct toy *m) /* the reference's head is the embedding, the file has another */
{
    toy_add(m, "output.weight", TOY_F32, m->spec.n_embd, m->spec.n_vocab, 0, 0.2);
}

static void bug_final(struct toy *m)
{
    toy_put_bool(m, "mgpt.final_norm", 0);
    toy_drop_tensor(m, "output_norm.weight");
}

static void bug_final_extra(struct toy *m)
{
    toy_put_bool(m, "mgpt.final_norm", 1);
}

static void bug_embd_norm(struct toy *m)
{
    toy_put_bool(m, "mgpt.embedding_norm", 1);
}

static void bug_softcap(struct toy *m)
{
    toy_put_f32(m, "llama.final_logit_softcapping", 3);
}

static void bug_weight(struct toy *m)
{
    struct toy_tensor *t = tensor(m, "blk.1.ffn_down.weight");
    t->values[7 * t->dims[0] + 3] *= -1;
}

/* Row 10 is the third component of the second head as it is stored, the second as it is shown. */
static void bug_weight_k(struct toy *m)
{
    struct toy_tensor *t = tensor(m, "blk.1.attn_k.weight");
    t->values[10 * t->dims[0] + 5] += 0.5F;
}

static void bug_nan(struct toy *m)
{
    tensor(m, "blk.1.attn_k.weight")->values[2 * tensor(m, "blk.1.attn_k.weight")->dims[0] + 5] =
        NAN;
}

static void bug_bias(struct toy *m)
{
    tensor(m, "blk.0.attn_output.bias")->values[4] += 0.25F;
}

static void bug_heads(struct toy *m)
{
    struct toy_tensor *t = tensor(m, "blk.0.attn_v.weight");
    size_t head = (size_t)(m->spec.head_dim * m->spec.n_embd);
    for (int layer = 0; layer < m->spec.n_layer; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_v.weight", layer);
        t = tensor(m, name);
        for (size_t i = 0; i < head; i++) {
            float v = t->values[i];
            t->values[i] = t->values[head + i];
            t->values[head + i] = v;
        }
    }
}

static void bug_positions(struct toy *m) /* a table that begins one further on */
{
    struct toy_tensor *t = tensor(m, "position_embd.weight");
    size_t w = (size_t)t->dims[0];
    memmove(t->values + w, t->values, (t->n - w) * sizeof *t->values);
}

static void bug_head_row(struct toy *m)
{
    struct toy_tensor *t = tensor(m, "output.weight");
    t->values[9 * t->dims[0] + 2] += 1;
}

static void bug_kv(struct toy *m)
{
    in_layers(m, "attn_k.weight", "attn_v.weight");
}

static void put_heads(struct toy *m, unsigned heads, unsigned kv)
{
    char key[64];
    snprintf(key, sizeof key, "%s.attention.head_count", m->spec.arch);
    toy_put_u32(m, key, heads);
    snprintf(key, sizeof key, "%s.attention.head_count_kv", m->spec.arch);
    toy_put_u32(m, key, kv);
    if (strcmp(m->spec.arch, "llama") == 0)
        toy_put_u32(m, "llama.rope.dimension_count", (unsigned)m->spec.n_embd / heads);
}

static void bug_8_heads(struct toy *m)
{
    put_heads(m, 8, 8 * (unsigned)m->spec.n_head_kv / (unsigned)m->spec.n_head);
}

static void bug_2_heads(struct toy *m)
{
    put_heads(m, 2, 1);
}

/* As a converter does that was told of `heads` heads: rows of q and k in pairs of that width. */
static void reblock(struct toy *m, const char *stem, size_t b)
{
    size_t d = (size_t)m->spec.head_dim;
    for (int layer = 0; layer < m->spec.n_layer; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, stem);
        struct toy_tensor *t = tensor(m, name);
        size_t w = (size_t)t->dims[0];
        float *copy = toy_alloc(t->n, sizeof *copy);
        memcpy(copy, t->values, t->n * sizeof *copy);
        for (size_t r = 0; r < t->n / w; r++) {
            size_t i = r % b, row = r - i + i / 2 + i % 2 * (b / 2), j = row % d;
            row += (j < d / 2 ? 2 * j : 2 * (j - d / 2) + 1) - j;
            memcpy(t->values + r * w, copy + row * w, w * sizeof *copy);
        }
        free(copy);
    }
}

static void bug_8_heads_converted(struct toy *m)
{
    bug_8_heads(m);
    reblock(m, "attn_q", 4);
    reblock(m, "attn_k", 4);
}

static void bug_layers(struct toy *m)
{
    for (size_t i = 0; i < m->n_tensors; i++) {
        char other[80];
        if (strncmp(m->tensors[i].name, "blk.0.", 6) != 0)
            continue;
        snprintf(other, sizeof other, "blk.1.%s", m->tensors[i].name + 6);
        swap_values(m, m->tensors[i].name, other);
    }
}

static const struct toy_spec llama = {.label = "llama",
                                      .arch = "llama",
                                      .n_layer = 2,
                                      .n_embd = 32,
                                      .n_head = 4,
                                      .n_head_kv = 2,
                                      .n_ff = 48,
                                      .n_ctx = 40,
                                      .n_vocab = 60,
                                      .seed = 11};
static const struct toy_spec llama_tied = {.label = "llama, tied",
                                           .arch = "llama",
                                           .n_layer = 2,
                                           .n_embd = 32,
                                           .n_head = 4,
                                           .n_ff = 48,
                                           .n_ctx = 40,
                                           .n_vocab = 60,
                                           .tied = 1,
                                           .seed = 12};
static const struct toy_spec gpt2 = {.label = "gpt2",
                                     .arch = "gpt2",
                                     .n_layer = 2,
                                     .n_embd = 32,
                                     .n_head = 4,
                                     .n_ff = 64,
                                     .n_ctx = 40,
                                     .n_vocab = 60,
                                     .biases = 1,
                                     .seed = 13};
static const struct toy_spec micro = {.label = "microgpt",
                                      .arch = "microgpt",
                                      .n_layer = 2,
                                      .n_embd = 16,
                                      .n_head = 4,
                                      .n_ff = 64,
                                      .n_ctx = 40,
                                      .n_vocab = 27,
                                      .seed = 14};

#define ATTENTION (MGPT_POINT_BIT(MGPT_SCORES) | MGPT_POINT_BIT(MGPT_WEIGHTS))

static const struct bug bugs[] = {
    {"8 heads, not 4", &gpt2, bug_8_heads, "blocks.0.attn.hook_z",
     "4 heads of width 8, not 8 heads of width 4", 1},
    {"8 heads of microgpt", &micro, bug_8_heads, "blocks.0.attn.hook_z",
     "4 heads of width 4, not 8 heads of width 2", 1},
    {"2 heads of llama", &llama, bug_2_heads, "blocks.0.attn.hook_q",
     "4 heads (2 KV) of width 8, not 2 heads (1 KV) of width 16", 1},
    {"8 heads of llama, and converted so", &llama, bug_8_heads_converted,
     "blocks.0.attn.hook_rot_q",
     "4 heads (2 KV) of width 8, not 8 heads (4 KV) of width 4 (q and k were reordered for those)",
     1},
    {"rows of q and k", &llama, bug_rows, "blocks.0.attn.hook_q", "pairs", 1},
    {"gate and up", &llama, bug_gate, "blocks.0.mlp.hook_pre", "gate and up exchanged", 1},
    {"gate and up of one layer", &llama, bug_gate_one, "blocks.1.mlp.hook_pre", "in layer 1 only",
     1},
    {"norms", &llama, bug_norms, "blocks.0.ln1.hook_normalized", "two norms of a layer", 1},
    {"rope base", &llama, bug_base, "blocks.0.attn.hook_rot_q", "rope base 10000, not 500000", 1},
    {"rope scaling", &llama, bug_factor, "blocks.0.attn.hook_rot_q", "without scaling", 1},
    {"attention scale", &llama, bug_scale, "blocks.0.attn.hook_attn_scores", "1/sqrt(d)", 1},
    {"epsilon", &llama, bug_eps, "blocks.0.ln1.hook_normalized", "epsilon of norms 1e-05", 1},
    {"GELU", &gpt2, bug_gelu, "blocks.0.mlp.hook_post", "activation gelu_tanh", 1},
    {"ReLU", &micro, bug_relu, "blocks.0.mlp.hook_post", "activation relu", 1},
    {"transposed", &llama, bug_turned, "blocks.0.hook_attn_out", "transposed: attn_output", 1},
    {"untied", &llama_tied, bug_tied, "logits", "tied head", 1},
    {"final norm missing", &llama_tied, bug_final, "logits", "a final norm", 0},
    {"final norm extra", &micro, bug_final_extra, "logits", "no final norm", 1},
    {"norm after embedding", &llama, bug_embd_norm, "blocks.0.hook_resid_pre",
     "no norm after the embedding", 1},
    {"soft cap", &llama, bug_softcap, "logits", "no soft cap", 1},
    {"one weight", &llama, bug_weight, "blocks.1.hook_mlp_out", "blk.1.ffn_down.weight", 0},
    {"one weight of k", &llama, bug_weight_k, "blocks.1.attn.hook_k",
     "blk.1.attn_k.weight row 10 column 5", 0},
    {"NaN", &llama, bug_nan, "blocks.1.attn.hook_k", "blk.1.attn_k.weight row 2 column 5", 1},
    {"one bias", &gpt2, bug_bias, "blocks.0.hook_attn_out", "blk.0.attn_output.bias", 0},
    {"heads of v", &llama, bug_heads, "blocks.0.attn.hook_v", "heads of v", 1},
    {"positions", &gpt2, bug_positions, "hook_pos_embed", "the first is 1", 1},
    {"a weight of the head", &llama, bug_head_row, "logits", "output.weight", 1},
    {"k and v", &llama, bug_kv, "blocks.0.attn.hook_k", "k and v exchanged", 1},
    {"order of layers", &llama, bug_layers, "blocks.0.ln1.hook_normalized", "layers", 1},
};
enum { N_BUGS = COUNT(bugs) };

TEST(planted)
{
    size_t by_hooks = 0, by_logits = 0, hoped = 0;
    for (size_t i = 0; i < N_BUGS; i++) {
        const struct bug *bug = &bugs[i];
        int32_t tokens[N];
        struct toy *good = toy_build(bug->spec), *broken = toy_build(bug->spec);
        toy_tokens(good, 5, tokens, N);
        struct told told;
        mgpt_info info;
        bug->plant(broken);
        mgpt_model *model = toy_open(broken, NULL);
        assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
        uint64_t without = info.n_head == good->spec.n_head ? 0 : ATTENTION;
        struct answer a =
            told_answer(&told, oracle_run(good, tokens, N, NULL, NULL), good, tokens, N, without);
        by_hooks += (size_t)planted_found(bug, model, &a, bug->hook);
        a.n_hooks = 0;
        int right = planted_found(bug, model, &a, "logits");
        by_logits += (size_t)(right && bug->logits);
        hoped += (size_t)bug->logits;
        mgpt_close(model);
        told_free(&told);
        toy_free(good);
        toy_free(broken);
    }
    assert_int_equal(by_hooks, N_BUGS);
    assert_int_equal(by_logits, hoped);
}

/* ---- transformers' hidden states ---------------------------------------------------------------- */

static const struct toy_spec deep = {.label = "llama of 3 layers",
                                     .arch = "llama",
                                     .n_layer = 3,
                                     .n_embd = 32,
                                     .n_head = 4,
                                     .n_head_kv = 2,
                                     .n_ff = 48,
                                     .n_ctx = 40,
                                     .n_vocab = 60,
                                     .seed = 15};

static void bug_gate_last(struct toy *m)
{
    swap_values(m, "blk.2.ffn_gate.weight", "blk.2.ffn_up.weight");
}

static void bug_output_norm(struct toy *m)
{
    struct toy_tensor *t = tensor(m, "output_norm.weight");
    for (size_t i = 0; i < t->n; i++)
        t->values[i] = 1;
}

/* Leaves what transformers has: the input of every layer, the last as it leaves the final norm. */
static void keep_hidden(struct told *t, int n_layer)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_hooks; i++) {
        struct ref_hook h = t->hooks[i];
        int keep = (h.point == MGPT_RESID_PRE && h.layer == 0) || h.point == MGPT_FINAL ||
                   (h.point == MGPT_RESID_POST && h.layer + 1 < n_layer);
        if (keep)
            t->hooks[n++] = h;
        else
            free((void *)(uintptr_t)h.name);
    }
    t->n_hooks = n;
}

/* Where the last entry holds the residual before the final norm. */
static int raw_row(void *user, size_t i, size_t row, double *out, mgpt_error *err)
{
    struct told *t = user;
    struct ref_hook last = t->hooks[i];
    (void)err;
    if (i + 1 == t->n_hooks)
        last = (struct ref_hook){.point = MGPT_RESID_POST, .layer = 2};
    const struct trace_value *v = trace_at(t->trace, last.point, last.layer);
    memcpy(out, v->data + row * v->cols, v->cols * sizeof *out);
    return 0;
}

static void check_layers(const mgpt_model *model, const struct answer *a, int from, int to)
{
    struct locate l;
    assert_int_equal(locate_run(&l, model, a, 1e-9, NULL), MGPT_OK);
    struct locate_layers layers = locate_layers(&l, 3);
    assert_int_equal(layers.from, from);
    assert_int_equal(layers.to, to);
    locate_free(&l);
}

TEST(hidden_states)
{
    static const struct {
        struct bug bug;
        const char *raw; /* first bad hook where the last entry is before the norm */
        int from, to, raw_from;
    } cases[] = {
        {{"first layer", &deep, bug_norms, "blocks.0.hook_resid_post", "two norms of a layer", 0},
         "blocks.0.hook_resid_post",
         0,
         0,
         0},
        {{"second layer", &deep, bug_gate_one, "blocks.1.hook_resid_post", "in layer 1 only", 0},
         "blocks.1.hook_resid_post",
         1,
         1,
         1},
        {{"last layer", &deep, bug_gate_last, "ln_final.hook_normalized", "in layer 2 only", 0},
         "blocks.2.hook_resid_post",
         2,
         2,
         2},
        {{"final norm", &deep, bug_output_norm, "ln_final.hook_normalized", "output_norm.weight",
          0},
         "logits",
         2,
         2,
         3},
    };
    (void)state;
    size_t right = 0, n = COUNT(cases);
    for (size_t i = 0; i < n; i++) {
        int32_t tokens[N];
        struct toy *good = toy_build(&deep), *broken = toy_build(&deep);
        struct told told;
        toy_tokens(good, 5, tokens, N);
        struct answer a =
            told_answer(&told, oracle_run(good, tokens, N, NULL, NULL), good, tokens, N, 0);
        keep_hidden(&told, 3);
        a.n_hooks = told.n_hooks;
        free((void *)(uintptr_t)told.hooks[3].name);
        told.hooks[3].name = strcpy(toy_alloc(16, 1), "hidden_states.3");
        mgpt_model *model = toy_open(good, NULL);
        assert_int_equal(answer_place_last(&a, model, NULL), MGPT_OK);
        assert_int_equal(a.hooks[3].point, MGPT_FINAL);
        mgpt_close(model);
        cases[i].bug.plant(broken);
        model = toy_open(broken, NULL);
        right += (size_t)planted_found(&cases[i].bug, model, &a, cases[i].bug.hook);
        check_layers(model, &a, cases[i].from, cases[i].to);
        a.row = raw_row;
        mgpt_model *whole = toy_open(good, NULL);
        assert_int_equal(answer_place_last(&a, whole, NULL), MGPT_OK);
        assert_int_equal(a.hooks[3].point, MGPT_RESID_POST);
        assert_int_equal(a.hooks[3].layer, 2);
        mgpt_close(whole);
        right += (size_t)planted_found(&cases[i].bug, model, &a, cases[i].raw);
        check_layers(model, &a, cases[i].raw_from, cases[i].to);
        mgpt_close(model);
        told_free(&told);
        toy_free(good);
        toy_free(broken);
    }
    assert_int_equal(right, 2 * n);
}
