/* Architectures as data. See arch.h. */
#include "model/arch.h"

#include <string.h>

#define RMS .norm = NORM_RMS, .eps_key = "attention.layer_norm_rms_epsilon"
#define LAYERNORM .norm = NORM_LAYER, .eps_key = "attention.layer_norm_epsilon"
#define ROPE(how) .rope = 1, .pairs = how
#define LLAMA(how) RMS, .final_norm = 1, .act = ACT_SILU, ROPE(how) /* what most have in common */

/* clang-format off */
static const struct arch rows[] = {
    {.name = "microgpt", .bit = ARCH_MICROGPT, RMS, .eps = 1e-5, .no_gain = 1, .embd_norm = 1,
     .act = ACT_RELU},
    {.name = "llama", .bit = ARCH_LLAMA, LLAMA(ROPE_ADJACENT), .knows = KNOWS_EXPERTS,
     .expert_norm = 1},
    {.name = "mistral3", .bit = ARCH_LLAMA, LLAMA(ROPE_ADJACENT),
     .knows = KNOWS_EXPERTS | KNOWS_QUERY_SCALE, .expert_norm = 1},
    {.name = "gpt2", .bit = ARCH_GPT2, LAYERNORM, .final_norm = 1, .act = ACT_GELU_TANH},
    {.name = "gpt1", .bit = ARCH_GPT1, LAYERNORM, .no_input = 1, .act = ACT_GELU_TANH},
    {.name = "biogpt", .bit = ARCH_GPT2, LAYERNORM, .final_norm = 1, .act = ACT_GELU_ERF,
     .embd_root = 1, .knows = KNOWS_SCALES},
    {.name = "qwen2", .bit = ARCH_QWEN2, LLAMA(ROPE_HALVES)},
    {.name = "qwen3", .bit = ARCH_QWEN3, LLAMA(ROPE_HALVES)},
    {.name = "gemma3", .bit = ARCH_GEMMA3, RMS, .final_norm = 1, .act = ACT_GELU_TANH,
     ROPE(ROPE_HALVES), .embd_root = 1, .full_every = 6, .local_base = 10000, .wide_scale = 62},
    {.name = "gemma4", .bit = ARCH_GEMMA4, RMS, .final_norm = 1, .act = ACT_GELU_TANH,
     ROPE(ROPE_HALVES), .embd_root = 1, .full_every = 6, .local_base = 10000, .v_norm = 1,
     .window_optional = 1, .unscaled = 1, .logit_cap = 30,
     .knows = KNOWS_LAYER_SHAPES | KNOWS_LAYER_INPUTS},
    {.name = "gptneox", .bit = ARCH_GPTNEOX, LAYERNORM, .final_norm = 1, .act = ACT_GELU_ERF,
     ROPE(ROPE_HALVES), .branches = BRANCHES_PARALLEL},
    {.name = "phi2", .bit = ARCH_PHI2, LAYERNORM, .final_norm = 1, .act = ACT_GELU_TANH,
     ROPE(ROPE_HALVES), .branches = BRANCHES_PARALLEL},
    {.name = "olmo", .bit = ARCH_OLMO, LAYERNORM, .eps = 1e-5, .no_gain = 1, .final_norm = 1,
     .act = ACT_SILU, ROPE(ROPE_ADJACENT)},
    {.name = "olmo2", .bit = ARCH_OLMO2, RMS, .no_input = 1, .final_norm = 1, .act = ACT_SILU,
     ROPE(ROPE_HALVES), .local_unscaled = 1, .knows = KNOWS_EXPERTS},
    {.name = "smollm3", .bit = ARCH_SMOLLM3, LLAMA(ROPE_ADJACENT), .no_rope_every = 4},
    {.name = "starcoder2", .bit = ARCH_GPTNEOX, LAYERNORM, .final_norm = 1, .act = ACT_GELU_TANH,
     ROPE(ROPE_HALVES)},
    {.name = "granite", .bit = ARCH_LLAMA, LLAMA(ROPE_ADJACENT), .knows = KNOWS_SCALES,
     .divides_logits = 1, .rope_finetuned = 1},
    {.name = "gemma", .bit = ARCH_LLAMA, RMS, .final_norm = 1, .act = ACT_GELU_TANH,
     ROPE(ROPE_HALVES), .embd_root = 1},
    {.name = "gemma2", .bit = ARCH_GEMMA2, RMS, .final_norm = 1, .act = ACT_GELU_TANH,
     ROPE(ROPE_HALVES), .embd_root = 1, .full_every = 2, .knows = KNOWS_SCORE_CAP,
     .score_cap = 50, .logit_cap = 30, .wide_scale = 46},
    {.name = "vaultgemma", .bit = ARCH_LLAMA, RMS, .final_norm = 1, .act = ACT_GELU_TANH,
     ROPE(ROPE_HALVES), .embd_root = 1, .full_every = 2, .knows = KNOWS_SCORE_CAP},
    {.name = "phi3", .bit = ARCH_PHI3, LLAMA(ROPE_HALVES)},
    {.name = "stablelm", .bit = ARCH_STABLELM, LAYERNORM, .final_norm = 1, .act = ACT_SILU,
     ROPE(ROPE_HALVES)},
    {.name = "modernbert-decoder", .bit = ARCH_STABLELM, LAYERNORM, .embd_norm = 1, .final_norm = 1,
     .act = ACT_GELU_ERF, ROPE(ROPE_HALVES), .full_every = 3, .full_first = 1, .local_base = 10000,
     .window_optional = 1, .dense_head = 1},
    {.name = "gptj", .bit = ARCH_PHI2, LAYERNORM, .final_norm = 1, .act = ACT_GELU_TANH,
     ROPE(ROPE_ADJACENT), .same_order = 1, .branches = BRANCHES_PARALLEL},
    {.name = "starcoder", .bit = ARCH_GPT2, LAYERNORM, .final_norm = 1, .act = ACT_GELU_TANH},
    {.name = "bloom", .bit = ARCH_BLOOM, LAYERNORM, .embd_norm = 1, .final_norm = 1,
     .act = ACT_GELU_TANH, .alibi = 8, .knows = KNOWS_ALIBI},
    {.name = "mpt", .bit = ARCH_GPTNEOX, LAYERNORM, .final_norm = 1, .act = ACT_GELU_ERF,
     .knows = KNOWS_ALIBI},
    {.name = "command-r", .bit = ARCH_COHERE, LAYERNORM, .final_norm = 1, .act = ACT_SILU,
     ROPE(ROPE_ADJACENT), .same_order = 1, .branches = BRANCHES_PARALLEL, .knows = KNOWS_SCALES},
    {.name = "cohere2", .bit = ARCH_COHERE, LAYERNORM, .final_norm = 1, .act = ACT_SILU,
     ROPE(ROPE_ADJACENT), .same_order = 1, .branches = BRANCHES_PARALLEL, .knows = KNOWS_SCALES,
     .full_every = 4, .rope_windowed = 1},
    {.name = "cohere_compass", .bit = ARCH_COHERE, LAYERNORM, .final_norm = 1, .act = ACT_SILU,
     ROPE(ROPE_HALVES), .branches = BRANCHES_PARALLEL, .knows = KNOWS_SCALES, .full_every = 4,
     .rope_windowed = 1, .window_optional = 1},
    {.name = "falcon", .bit = ARCH_FALCON, LAYERNORM, .final_norm = 1, .act = ACT_GELU_ERF,
     ROPE(ROPE_HALVES), .branches = BRANCHES_PARALLEL, .norm_2_first = 1},
    {.name = "arcee", .bit = ARCH_GPTNEOX, RMS, .final_norm = 1, .act = ACT_RELU2,
     ROPE(ROPE_ADJACENT)},
    {.name = "nemotron", .bit = ARCH_GPTNEOX, LAYERNORM, .final_norm = 1, .act = ACT_RELU2,
     ROPE(ROPE_HALVES)},
    {.name = "jais2", .bit = ARCH_GPTNEOX, LAYERNORM, .final_norm = 1, .act = ACT_RELU2,
     ROPE(ROPE_HALVES)},
    {.name = "ernie4_5", .bit = ARCH_LLAMA, LLAMA(ROPE_ADJACENT), .same_order = 1},
    {.name = "helium", .bit = ARCH_LLAMA, LLAMA(ROPE_ADJACENT), .same_order = 1},
    {.name = "seed_oss", .bit = ARCH_SEED_OSS, LLAMA(ROPE_HALVES)},
    {.name = "chatglm", .bit = ARCH_PHI3, LLAMA(ROPE_ADJACENT), .same_order = 1},
    {.name = "glm4", .bit = ARCH_GLM4, LLAMA(ROPE_ADJACENT), .same_order = 1},
    {.name = "hunyuan-dense", .bit = ARCH_QWEN3, LLAMA(ROPE_HALVES), .rope_first = 1},
    {.name = "exaone", .bit = ARCH_LLAMA, LLAMA(ROPE_HALVES)},
    {.name = "exaone4", .bit = ARCH_EXAONE4, RMS, .no_input = 1, .final_norm = 1, .act = ACT_SILU,
     ROPE(ROPE_HALVES), .full_every = 4, .rope_windowed = 1, .window_optional = 1},
    {.name = "minicpm", .bit = ARCH_LLAMA, LLAMA(ROPE_ADJACENT),
     .knows = KNOWS_SCALES | MINICPM_SCALES, .divides_logits = 1},
    {.name = "olmoe", .bit = ARCH_OLMOE, LLAMA(ROPE_HALVES), .knows = KNOWS_EXPERTS},
    {.name = "qwen2moe", .bit = ARCH_QWEN2, LLAMA(ROPE_HALVES), .knows = KNOWS_EXPERTS},
    {.name = "qwen3moe", .bit = ARCH_QWEN3, LLAMA(ROPE_HALVES), .knows = KNOWS_EXPERTS,
     .expert_norm = 1},
    {.name = "granitemoe", .bit = ARCH_LLAMA, LLAMA(ROPE_ADJACENT),
     .knows = KNOWS_SCALES | KNOWS_EXPERTS, .divides_logits = 1, .expert_norm = 1,
     .rope_finetuned = 1},
    {.name = "glm4moe", .bit = ARCH_SEED_OSS, LLAMA(ROPE_HALVES), .knows = KNOWS_EXPERTS,
     .expert_sigmoid = 1},
    {.name = "dots1", .bit = ARCH_QWEN3, LLAMA(ROPE_HALVES), .knows = KNOWS_EXPERTS,
     .expert_sigmoid = 1},
    {.name = "ernie4_5-moe", .bit = ARCH_LLAMA, LLAMA(ROPE_ADJACENT), .same_order = 1,
     .knows = KNOWS_EXPERTS, .expert_norm = 1},
    {.name = "hunyuan-moe", .bit = ARCH_QWEN3, LLAMA(ROPE_HALVES), .rope_first = 1,
     .knows = KNOWS_EXPERTS, .expert_norm = 1},
    {.name = "minimax-m2", .bit = ARCH_OLMOE, LLAMA(ROPE_HALVES), .knows = KNOWS_EXPERTS,
     .expert_norm = 1, .expert_sigmoid = 1},
    {.name = "exaone-moe", .bit = ARCH_QWEN3, LLAMA(ROPE_HALVES), .full_every = 4,
     .rope_windowed = 1, .window_optional = 1, .knows = KNOWS_EXPERTS, .expert_sigmoid = 1},
    {.name = "hy_v3", .bit = ARCH_QWEN3, LLAMA(ROPE_HALVES), .knows = KNOWS_EXPERTS,
     .expert_norm = 1, .expert_sigmoid = 1},
    {.name = "mellum", .bit = ARCH_QWEN3, LLAMA(ROPE_HALVES), .full_every = 4, .window_optional = 1,
     .local_unscaled = 1, .knows = KNOWS_EXPERTS, .expert_norm = 1},
    {.name = "phimoe", .bit = ARCH_STABLELM, .norm = NORM_LAYER,
     .eps_key = "attention.layer_norm_rms_epsilon", .final_norm = 1, .act = ACT_SILU,
     ROPE(ROPE_HALVES), .knows = KNOWS_EXPERTS | KNOWS_SPARSE_MIXER, .expert_jitter = 0.01},
    {.name = "persimmon", .bit = ARCH_GPTNEOX, LAYERNORM, .final_norm = 1, .act = ACT_RELU2,
     ROPE(ROPE_HALVES)},
    {.name = "hyperclovax", .bit = ARCH_GEMMA2, LLAMA(ROPE_HALVES), .knows = KNOWS_SCALES},
    {.name = "lfm2moe", .bit = ARCH_LFM2, LLAMA(ROPE_HALVES),
     .knows = KNOWS_CONVOLUTIONS | KNOWS_EXPERTS, .expert_norm = 1, .expert_more = 1e-6},
    {.name = "lfm2", .bit = ARCH_LFM2, LLAMA(ROPE_HALVES), .knows = KNOWS_CONVOLUTIONS},
    {.name = "apertus", .bit = ARCH_APERTUS, RMS, .final_norm = 1, .act = ACT_XIELU,
     ROPE(ROPE_HALVES)},
    {.name = "gpt-oss", .bit = ARCH_GPT_OSS, RMS, .final_norm = 1, .act = ACT_GELU_QUICK,
     ROPE(ROPE_HALVES), .full_every = 2, .knows = KNOWS_EXPERTS | KNOWS_CLAMPED_GLU,
     .expert_norm = 1, .glu_limit = 7, .up_more = 1, .sinks = 1},
    {.name = "granite_swa", .bit = ARCH_LLAMA, LLAMA(ROPE_ADJACENT),
     .knows = KNOWS_SCALES | KNOWS_EXPERTS, .divides_logits = 1, .expert_norm = 1, .sinks = 1},
    {.name = "flint", .bit = ARCH_QWEN3, LLAMA(ROPE_HALVES), .full_every = 4, .rope_windowed = 1,
     .knows = KNOWS_EXPERTS, .expert_norm = 1, .expert_sigmoid = 1, .sinks = 1},
    {.name = "mimo2", .bit = ARCH_LLAMA, LLAMA(ROPE_HALVES), .local_unscaled = 1,
     .knows = KNOWS_EXPERTS | KNOWS_LAYER_SHAPES | KNOWS_VALUES, .expert_norm = 1,
     .expert_sigmoid = 1, .sinks = 2},
    {.name = "afmoe", .bit = ARCH_GEMMA3, LLAMA(ROPE_HALVES), .embd_root = 1, .full_every = 4,
     .rope_windowed = 1, .knows = KNOWS_SCALES | KNOWS_EXPERTS, .expert_sigmoid = 1,
     .gates = GATES_OF_VALUES},
    {.name = "laguna", .bit = ARCH_QWEN3, LLAMA(ROPE_HALVES), .full_every = 4, .full_first = 1,
     .window_optional = 1, .local_unscaled = 1, .knows = KNOWS_EXPERTS | KNOWS_LAYER_SHAPES,
     .expert_sigmoid = 1, .gates = GATES_OF_EITHER, .gates_softplus = 1},
    {.name = "lfm3", .bit = ARCH_LFM2, LLAMA(ROPE_HALVES), .knows = KNOWS_CONVOLUTIONS,
     .gates = GATES_OF_HEADS, .sandwich = 1},
    {.name = "kolibri1", .bit = ARCH_GEMMA3, LLAMA(ROPE_HALVES), .full_every = 5,
     .rope_windowed = 1, .window_optional = 1, .knows = KNOWS_EXPERTS, .expert_norm = 1,
     .expert_sigmoid = 1, .bias_of_scores = 1},
    {.name = "cohere2moe", .bit = ARCH_COHERE, LAYERNORM, .final_norm = 1, .act = ACT_SILU,
     ROPE(ROPE_ADJACENT), .same_order = 1, .branches = BRANCHES_PARALLEL,
     .knows = KNOWS_SCALES | KNOWS_EXPERTS, .full_every = 4, .full_first = 1, .rope_windowed = 1,
     .plain_roped = 1, .expert_sigmoid = 1, .half_shared = 1},
    {.name = "beam", .bit = ARCH_GEMMA3, LLAMA(ROPE_HALVES), .full_every = 6, .rope_windowed = 1,
     .window_optional = 1, .knows = KNOWS_EXPERTS | KNOWS_QUERY_POWER, .expert_norm = 1,
     .expert_sigmoid = 1, .gates = GATES_OF_VALUES, .residual_by_depth = 1, .query_power = 0.1},
    {.name = "bailingmoe", .bit = ARCH_LLAMA, LLAMA(ROPE_ADJACENT), .knows = KNOWS_EXPERTS},
    {.name = "bailingmoe2", .bit = ARCH_BAILING, LLAMA(ROPE_HALVES), .knows = KNOWS_EXPERTS},
    {.name = "dbrx", .bit = ARCH_DBRX, LAYERNORM, .final_norm = 1, .act = ACT_SILU,
     ROPE(ROPE_HALVES), .knows = KNOWS_EXPERTS, .expert_norm = 1},
    {.name = "deepseek2", .bit = ARCH_LATENT, LLAMA(ROPE_ADJACENT), .same_order = 1,
     .knows = KNOWS_EXPERTS | KNOWS_LATENT},
    {.name = "minicpm3", .bit = ARCH_LATENT, LLAMA(ROPE_HALVES),
     .knows = KNOWS_SCALES | MINICPM_SCALES | KNOWS_LATENT, .divides_logits = 1},
    {.name = "nanochat", .bit = ARCH_NANOCHAT, RMS, .no_gain = 1, .embd_norm = 1, .final_norm = 1,
     .qk_norm = 1, .act = ACT_RELU2, ROPE(ROPE_HALVES), .halves_exchanged = 1, .rope_first = 2,
     .knows = KNOWS_VALUE_GATES},
};
/* clang-format on */

const struct arch *arch_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
            return &rows[i];
    return NULL;
}

size_t arch_stored_component(const struct arch *arch, size_t n_rot, size_t i)
{
    size_t half = n_rot / 2;
    if (!arch->rope || arch->same_order || i >= n_rot)
        return i;
    if (arch->pairs == ROPE_ADJACENT)
        return i < half ? 2 * i : 2 * (i - half) + 1;
    return arch->halves_exchanged ? (i + half) % n_rot : i;
}

static const char *const act_names[] = {ACTIVATIONS(ACTIVATION_NAME) "xielu"};
_Static_assert(sizeof act_names / sizeof *act_names == ACT_XIELU + 1, "a name for each activation");

const char *act_name(enum act act)
{
    return act_names[act];
}

int act_find(const char *name, size_t n, enum act *act)
{
    for (int i = 0; i < ACT_N_KINDS; i++)
        if (strlen(act_names[i]) == n && memcmp(act_names[i], name, n) == 0) {
            *act = (enum act)i;
            return 1;
        }
    return 0;
}
