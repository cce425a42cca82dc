/* Tests of models that can be said in two ways: an optional key with the value that its absence means, a
 * period or a flag a layer, one tensor or three. Both files must give the same logits, to the bit. */
#include "support/toy_zoo.h"
#include "support/unit.h"

enum { N_TOKENS = 40, GGUF_BOOL_TYPE = 7 };

/* The logits of every position. */
static float *run(struct toy *m, const int32_t *tokens)
{
    size_t n_vocab = (size_t)m->spec.n_vocab;
    float *logits = toy_alloc(N_TOKENS * n_vocab, sizeof *logits);
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *session = subject_session(model, 0, 1);
    for (size_t i = 0; i < N_TOKENS; i++) {
        const float *row = mgpt_step(session, tokens[i], NULL);
        assert_non_null(row);
        memcpy(logits + i * n_vocab, row, n_vocab * sizeof *row);
    }
    mgpt_session_free(session);
    mgpt_close(model);
    return logits;
}

/* ---- ways to say it ----------------------------------------------------------------------------
 */

static void put_flags(struct toy *m, const char *pattern)
{
    char key[80];
    uint8_t flags[32];
    size_t n = strlen(pattern);
    for (size_t i = 0; i < n; i++)
        flags[i] = pattern[i] == 'w';
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", m->spec.arch);
    toy_put_array(m, key, GGUF_BOOL_TYPE, n, flags, n);
}

static void say_every_sixth(struct toy *m)
{
    toy_put_u32(m, "gemma3.attention.sliding_window_pattern", 6);
}

static void say_every_sixth_by_flags(struct toy *m)
{
    put_flags(m, "wwwwwfw");
}

static void say_every_third_by_flags(struct toy *m)
{
    put_flags(m, "wwfw");
}

static void say_windows_of_layers(struct toy *m)
{
    toy_drop_key(m, "llama.attention.sliding_window");
    toy_drop_key(m, "llama.attention.sliding_window_pattern");
    toy_put_windows(m, (const int32_t[]){16, 16, 0, 16}, 4);
}

static void say_windows_of_everything(struct toy *m)
{
    toy_put_windows(m, (const int32_t[]){80, 1 << 30}, 2);
}

static void say_window_of_the_context(struct toy *m)
{
    toy_put_u32(m, "llama.attention.sliding_window", 80);
}

static void say_no_window(struct toy *m)
{
    toy_put_u32(m, "llama.attention.sliding_window", 0);
}

static void say_local_base(struct toy *m)
{
    toy_put_f32(m, "gemma3.rope.freq_base_swa", 10000);
}

static void say_scale_linear(struct toy *m)
{
    toy_drop_key(m, "qwen2.rope.scaling.type");
    toy_drop_key(m, "qwen2.rope.scaling.factor");
    toy_put_f32(m, "qwen2.rope.scale_linear", 4);
}

/* Readers of such files take a factor without a type as linear. */
static void say_factor_without_type(struct toy *m)
{
    toy_drop_key(m, "qwen2.rope.scaling.type");
}

static void say_no_scaling(struct toy *m)
{
    toy_put_string(m, "llama.rope.scaling.type", "none");
}

static void say_divisors(struct toy *m)
{
    toy_drop_key(m, "llama.rope.scaling.type");
    toy_drop_key(m, "llama.rope.scaling.factor");
    struct toy_tensor *t = toy_find(m, "rope_freqs.weight");
    for (size_t i = 0; i < t->n; i++)
        t->values[i] = 2.5f;
}

static void say_factor(struct toy *m)
{
    toy_drop_tensor(m, "rope_freqs.weight");
}

static void say_side_by_side(struct toy *m)
{
    toy_put_bool(m, "gptneox.use_parallel_residual", 1);
}

static void say_in_turn(struct toy *m)
{
    toy_put_bool(m, "llama.use_parallel_residual", 0);
}

static void say_half(struct toy *m)
{
    toy_put_f32(m, "llama.attention.scale", 0.5f);
}

static void say_wide_clamp(struct toy *m)
{
    toy_put_f32(m, "olmo.attention.clamp_kqv", 1e6f);
}

static void say_no_clamp(struct toy *m)
{
    toy_drop_key(m, "olmo.attention.clamp_kqv");
    toy_put_f32(m, "olmo.attention.clamp_kqv", 0);
}

static void drop_clamp(struct toy *m)
{
    toy_drop_key(m, "olmo.attention.clamp_kqv");
}

static void say_no_cap(struct toy *m)
{
    toy_put_f32(m, "llama.final_logit_softcapping", 0);
}

static void say_head_width(struct toy *m)
{
    toy_put_u32(m, "llama.attention.key_length", 4);
    toy_put_u32(m, "llama.attention.value_length", 4);
}

static void say_neutral_lambdas(struct toy *m)
{
    struct toy_tensor *keep = toy_add(m, "resid_lambdas", TOY_F32, m->spec.n_layer, 0, 1, 0);
    assert_true(keep->values[0] == 1);
    toy_add(m, "x0_lambdas", TOY_F32, m->spec.n_layer, 0, 0, 0);
}

static void say_the_head_again(struct toy *m)
{
    struct toy_tensor *t =
        toy_add(m, "output.weight", m->spec.type, m->spec.n_embd, m->spec.n_vocab, 0, 0);
    memcpy(t->values, toy_find(m, "token_embd.weight")->values, t->n * sizeof *t->values);
}

/* One third of attn_qkv's weight or bias as a tensor of its own. */
static void split(struct toy *m, int layer, const char *part, const char *kind, size_t first,
                  size_t rows)
{
    char from[80], to[80];
    snprintf(from, sizeof from, "blk.%d.attn_qkv.%s", layer, kind);
    snprintf(to, sizeof to, "blk.%d.attn_%s.%s", layer, part, kind);
    size_t width = strcmp(kind, "weight") == 0 ? (size_t)m->spec.n_embd : 1;
    enum toy_type type = toy_find(m, from)->type;
    struct toy_tensor *t = width > 1 ? toy_add(m, to, type, (int)width, (int)rows, 0, 1)
                                     : toy_add(m, to, type, (int)rows, 0, 0, 1);
    const struct toy_tensor *whole = toy_find(m, from);
    memcpy(t->values, whole->values + first * width, t->n * sizeof *t->values);
    if (t->blocks)
        memcpy(t->blocks, whole->blocks + toy_bytes(type, first * width),
               (size_t)toy_bytes(type, t->n));
}

static void say_q_k_v_apart(struct toy *m)
{
    size_t d = (size_t)m->spec.head_dim, q = d * (size_t)m->spec.n_head;
    size_t kv = d * (size_t)m->spec.n_head_kv;
    static const char *const kinds[] = {"weight", "bias"};
    for (int layer = 0; layer < m->spec.n_layer; layer++) {
        for (int i = 0; i < 2; i++) {
            char name[80];
            split(m, layer, "q", kinds[i], 0, q);
            split(m, layer, "k", kinds[i], q, kv);
            split(m, layer, "v", kinds[i], q + kv, kv);
            snprintf(name, sizeof name, "blk.%d.attn_qkv.%s", layer, kinds[i]);
            toy_drop_tensor(m, name);
        }
    }
}

static void say_one_norm_twice(struct toy *m)
{
    for (int layer = 0; layer < m->spec.n_layer; layer++) {
        for (int i = 0; i < 2; i++) {
            char from[80], to[80];
            snprintf(from, sizeof from, "blk.%d.attn_norm.%s", layer, i ? "bias" : "weight");
            snprintf(to, sizeof to, "blk.%d.ffn_norm.%s", layer, i ? "bias" : "weight");
            struct toy_tensor *t = toy_find(m, to);
            memcpy(t->values, toy_find(m, from)->values, t->n * sizeof *t->values);
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 */

static const struct {
    size_t zoo;
    void (*one)(struct toy *m); /* NULL: as the zoo has it */
    void (*other)(struct toy *m);
} pairs[] = {
    {ZOO_GEMMA3, NULL, say_every_sixth},
    {ZOO_GEMMA3, NULL, say_every_sixth_by_flags},
    {ZOO_GEMMA3, NULL, say_local_base},
    {ZOO_LLAMA_PATTERN, NULL, say_every_third_by_flags},
    {ZOO_LLAMA_PATTERN, NULL, say_windows_of_layers},
    {ZOO_LLAMA_TIED, NULL, say_windows_of_everything},
    {ZOO_LLAMA_TIED, NULL, say_window_of_the_context},
    {ZOO_LLAMA_TIED, NULL, say_no_window},
    {ZOO_LLAMA_TIED, NULL, say_no_scaling},
    {ZOO_LLAMA_TIED, NULL, say_in_turn},
    {ZOO_LLAMA_TIED, NULL, say_no_cap},
    {ZOO_LLAMA_TIED, NULL, say_the_head_again},
    {ZOO_QWEN2_SCALED, NULL, say_scale_linear},
    {ZOO_QWEN2_SCALED, NULL, say_factor_without_type},
    {ZOO_LLAMA_SCALED, say_divisors, say_factor},
    {ZOO_LLAMA, NULL, say_half},
    {ZOO_LLAMA, NULL, say_head_width},
    {ZOO_OLMO, drop_clamp, say_no_clamp},
    {ZOO_OLMO, drop_clamp, say_wide_clamp},
    {ZOO_NANOCHAT_2025, NULL, say_neutral_lambdas},
    {ZOO_GPTNEOX, NULL, say_side_by_side},
    {ZOO_GPTNEOX, NULL, say_q_k_v_apart},
    {ZOO_GPTNEOX_Q4_K, NULL, say_q_k_v_apart},
    {ZOO_GPT2, NULL, say_q_k_v_apart},
    {ZOO_PHI2, NULL, say_q_k_v_apart},
};

static struct toy *build(size_t i, void change(struct toy *m))
{
    struct toy_spec spec = toy_zoo[pairs[i].zoo];
    spec.seed = 800 + i;
    struct toy *m = toy_build(&spec);
    if (change)
        change(m);
    return m;
}

TEST(two_ways_to_say_it)
{
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct toy *a = build(i, pairs[i].one), *b = build(i, pairs[i].other);
        int32_t tokens[N_TOKENS];
        toy_tokens(a, i, tokens, N_TOKENS);
        float *one = run(a, tokens), *other = run(b, tokens);
        if (memcmp(one, other, N_TOKENS * (size_t)a->spec.n_vocab * sizeof *one) != 0)
            fail_msg("%s: pair %zu differs", a->spec.label, i);
        free(one);
        free(other);
        toy_free(a);
        toy_free(b);
    }
}

/* Phi's shared norm is GPT-NeoX's two norms when they are equal: the same tensors otherwise, under
 * another name. */
TEST(a_shared_norm_is_two_equal_ones)
{
    struct toy_spec spec = toy_zoo[ZOO_GPTNEOX];
    spec.seed = 900;
    struct toy *two = toy_build(&spec), *shared;
    say_one_norm_twice(two);
    spec.arch = "phi2";
    spec.activation = "gelu_erf";
    shared = toy_build(&spec);
    for (size_t i = 0; i < shared->n_tensors; i++) {
        struct toy_tensor *t = &shared->tensors[i];
        memcpy(t->values, toy_find(two, t->name)->values, t->n * sizeof *t->values);
    }
    int32_t tokens[N_TOKENS];
    toy_tokens(two, 1, tokens, N_TOKENS);
    float *a = run(two, tokens), *b = run(shared, tokens);
    assert_memory_equal(a, b, N_TOKENS * (size_t)spec.n_vocab * sizeof *a);
    free(a);
    free(b);
    toy_free(two);
    toy_free(shared);
}
