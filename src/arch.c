/* Floor 4. Architectures as data. See arch.h. */
#include "arch.h"

#include <string.h>

static const struct arch rows[] = {
    {
        .name = "microgpt", /* RMSNorm without gain, also after the embedding, none at the end */
        .bit = ARCH_MICROGPT,
        .norm = NORM_RMS,
        .eps_key = "attention.layer_norm_rms_epsilon",
        .eps = 1e-5,
        .act = ACT_RELU,
        .embd_norm = 1,
    },
    {
        .name = "llama",
        .bit = ARCH_LLAMA,
        .norm = NORM_RMS,
        .eps_key = "attention.layer_norm_rms_epsilon",
        .act = ACT_SILU,
        .final_norm = 1,
        .rope = 1,
        .pairs = ROPE_ADJACENT,
    },
    {
        .name = "gpt2",
        .bit = ARCH_GPT2,
        .norm = NORM_LAYER,
        .eps_key = "attention.layer_norm_epsilon",
        .act = ACT_GELU_TANH,
        .final_norm = 1,
    },
};

const struct arch *arch_row(size_t i)
{
    return i < sizeof rows / sizeof *rows ? &rows[i] : NULL;
}

const struct arch *arch_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
            return &rows[i];
    return NULL;
}

const struct arch_refused arch_refused[] = {
    {"expert_count", 0},    {"attention.sliding_window", 0}, {"attention.clamp_kqv", 0},
    {"attention.scale", 0}, {"attn_logit_softcapping", 0},   {"final_logit_softcapping", 0},
    {"logit_scale", 1},     {"embedding_scale", 1},          {"residual_scale", 1},
};
const size_t arch_n_refused = sizeof arch_refused / sizeof *arch_refused;

static const char *const act_names[ACT_N_KINDS] = {"relu", "relu2", "silu", "gelu_tanh",
                                                   "gelu_erf"};

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
