/* Models that can be written in two ways: an optional key with the value that its absence means, a
 * period or a flag per layer, one tensor or three. Both files must give the same logits, to the
 * bit. */
#include "support/toy_zoo.h"
#include "support/unit.h"

enum { N_TOKENS = 40 };

/* The logits of every position. */
static float *run_steps(struct toy *m, const int32_t *tokens)
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

/* ---- changes that no list of edits can express
 * ---------------------------------------------------------- */

static void repeat_the_head(struct toy *m)
{
    struct toy_tensor *t =
        toy_add(m, "output.weight", m->spec.type, m->spec.n_embd, m->spec.n_vocab, 0, 0);
    memcpy(t->values, toy_find(m, "token_embd.weight")->values, t->n * sizeof *t->values);
}

/* One third of attn_qkv's weight or bias as a tensor of its own. */
static void split_one(struct toy *m, int layer, const char *part, const char *kind, size_t first,
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

static void split_q_k_v(struct toy *m)
{
    size_t d = (size_t)m->spec.head_dim, q = d * (size_t)m->spec.n_head;
    size_t kv = d * (size_t)m->spec.n_head_kv;
    static const char *const kinds[] = {"weight", "bias"};
    for (int layer = 0; layer < m->spec.n_layer; layer++) {
        for (int i = 0; i < 2; i++) {
            char name[80];
            split_one(m, layer, "q", kinds[i], 0, q);
            split_one(m, layer, "k", kinds[i], q, kv);
            split_one(m, layer, "v", kinds[i], q + kv, kv);
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

#define NO_SCALING "no_key llama.rope.scaling.type; no_key llama.rope.scaling.factor;"
#define NO_CLAMP "no_key olmo.attention.clamp_kqv;"

static const struct {
    size_t zoo;
    const char *one; /* edits; "": as the zoo has it */
    const char *other;
    void (*change)(struct toy *m); /* of the other one, NULL: edits only */
} pairs[] = {
    {ZOO_GEMMA3, "", "u32 gemma3.attention.sliding_window_pattern 6", NULL},
    {ZOO_GEMMA3, "", "bools gemma3.attention.sliding_window_pattern 1 1 1 1 1 0 1", NULL},
    {ZOO_GEMMA3, "", "f32 gemma3.rope.freq_base_swa 10000", NULL},
    {ZOO_LLAMA_PATTERN, "", "bools llama.attention.sliding_window_pattern 1 1 0 1", NULL},
    {ZOO_LLAMA_PATTERN, "",
     "no_key llama.attention.sliding_window; no_key llama.attention.sliding_window_pattern;"
     "i32s mgpt.attention.windows 16 16 0 16",
     NULL},
    {ZOO_LLAMA_TIED, "", "i32s mgpt.attention.windows 80 1073741824", NULL},
    {ZOO_LLAMA_TIED, "", "u32 llama.attention.sliding_window 80", NULL},
    {ZOO_LLAMA_TIED, "", "u32 llama.attention.sliding_window 0", NULL},
    {ZOO_LLAMA_TIED, "", "string llama.rope.scaling.type none", NULL},
    {ZOO_LLAMA_TIED, "", "bool llama.use_parallel_residual 0", NULL},
    {ZOO_LLAMA_TIED, "", "f32 llama.final_logit_softcapping 0", NULL},
    {ZOO_LLAMA_TIED, "", "", repeat_the_head},
    {ZOO_QWEN2_SCALED, "",
     "no_key qwen2.rope.scaling.type; no_key qwen2.rope.scaling.factor;"
     "f32 qwen2.rope.scale_linear 4",
     NULL},
    /* a factor without a type is linear for readers of such files */
    {ZOO_QWEN2_SCALED, "", "no_key qwen2.rope.scaling.type", NULL},
    {ZOO_LLAMA_SCALED, NO_SCALING "value rope_freqs.weight all 2.5", "drop rope_freqs.weight",
     NULL},
    {ZOO_LLAMA, "", "f32 llama.attention.scale 0.5", NULL},
    {ZOO_LLAMA, "", "u32 llama.attention.key_length 4; u32 llama.attention.value_length 4", NULL},
    {ZOO_OLMO, NO_CLAMP, "f32 olmo.attention.clamp_kqv 0", NULL},
    {ZOO_OLMO, NO_CLAMP, "f32 olmo.attention.clamp_kqv 1e6", NULL},
    {ZOO_NANOCHAT_2025, "",
     "add resid_lambdas 2; value resid_lambdas all 1; add x0_lambdas 2; value x0_lambdas all 0",
     NULL},
    {ZOO_GPTNEOX, "", "bool gptneox.use_parallel_residual 1", NULL},
    {ZOO_GPTNEOX, "", "", split_q_k_v},
    {ZOO_GPTNEOX_Q4_K, "", "", split_q_k_v},
    {ZOO_GPT2, "", "", split_q_k_v},
    {ZOO_PHI2, "", "", split_q_k_v},
};

static struct toy *build_pair(size_t i, const char *edits, void change(struct toy *m))
{
    struct toy_spec spec = toy_zoo[pairs[i].zoo];
    spec.seed = 800 + i;
    struct toy *m = toy_build(&spec);
    toy_edit(m, edits);
    if (change)
        change(m);
    return m;
}

TEST(two_ways_to_say_it)
{
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct toy *a = build_pair(i, pairs[i].one, NULL),
                   *b = build_pair(i, pairs[i].other, pairs[i].change);
        int32_t tokens[N_TOKENS];
        toy_tokens(a, i, tokens, N_TOKENS);
        float *one = run_steps(a, tokens), *other = run_steps(b, tokens);
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
    float *a = run_steps(two, tokens), *b = run_steps(shared, tokens);
    assert_memory_equal(a, b, N_TOKENS * (size_t)spec.n_vocab * sizeof *a);
    free(a);
    free(b);
    toy_free(two);
    toy_free(shared);
}
