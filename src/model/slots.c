/* The tables of slots. See slots.h. */
#include "model/slots.h"

#include "model/model.h"

#include <limits.h>

/* Sets of architectures. */
enum {
    ALL = INT_MAX,
    ATTENTION = ALL & ~ARCH_SHORTCONV,
    LFM2 = ARCH_LFM2 | ARCH_SHORTCONV,
    FUSED = ARCH_GPT1 | ARCH_GPT2 | ARCH_GPTNEOX | ARCH_PHI2 | ARCH_PHI3 | ARCH_BLOOM |
            ARCH_FALCON | ARCH_GLM4, /* q, k, v in one tensor, or three */
    NO_INPUT = ARCH_OLMO2 | ARCH_EXAONE4,
    PRE_NORM = ALL & ~(ARCH_MICROGPT | ARCH_OLMO | NO_INPUT | ARCH_NANOCHAT | ARCH_GPT1),
    NORM_BIAS = ARCH_GPT2 | ARCH_GPTNEOX | ARCH_PHI2 | ARCH_STABLELM | ARCH_BLOOM | ARCH_FALCON,
    ONE_NORM = ARCH_PHI2 | ARCH_STABLELM | ARCH_COHERE | ARCH_FALCON, /* may be for both branches */
    GATED = ARCH_LLAMA | ARCH_QWEN2 | ARCH_QWEN3 | ARCH_GEMMA2 | ARCH_GEMMA3 | ARCH_OLMO |
            ARCH_OLMO2 | ARCH_OLMOE | ARCH_SMOLLM3 | ARCH_STABLELM | ARCH_COHERE | ARCH_SEED_OSS |
            ARCH_EXAONE4 | LFM2,
    GATED_UP = ARCH_PHI3 | ARCH_GLM4, /* gate and up in one tensor */
    POST_NORM = ARCH_GEMMA2 | ARCH_GEMMA3 | NO_INPUT | ARCH_GLM4,
    QK_NORMS = ARCH_QWEN3 | ARCH_GEMMA3 | ARCH_EXAONE4 | ARCH_LFM2 | ARCH_APERTUS,
    ROPED = ALL & ~(ARCH_MICROGPT | ARCH_GPT1 | ARCH_GPT2 | ARCH_BLOOM)
};

/* A tensor that two sets of rows name has one meaning in each architecture; a bias has its gain. */
_Static_assert((GATED & GATED_UP) == 0, "gate and up: two tensors, or one");
_Static_assert((NORM_BIAS & ~PRE_NORM) == 0, "a bias of a norm before branches without its gain");
_Static_assert((ONE_NORM & ~PRE_NORM) == 0, "one norm for both branches where there is none");
_Static_assert((FUSED & ~ATTENTION) == 0, "q, k and v in one tensor of a layer without attention");
_Static_assert((QK_NORMS & ~ATTENTION) == 0, "norms of q and k in a layer without attention");

#define M(field) offsetof(struct mgpt_model, field)
#define L(field) offsetof(struct layer, field)

/* clang-format off */
const struct tensor_slot bind_model_slots[] = {
    {"token_embd.weight", LOOKUP, M(token_embd), D_E, D_V, ALL, 0},
    {"token_embd_norm.weight", VECTOR, M(embd_norm.gain), D_E, D_NONE, ARCH_BLOOM, 0},
    {"token_embd_norm.bias", VECTOR, M(embd_norm.bias), D_E, D_NONE, 0, ARCH_BLOOM},
    {"token_embd_norm.weight", VECTOR, M(final_norm.gain), D_E, D_NONE, ARCH_LFM2, 0}, /* its name in llama.cpp */
    {"position_embd.weight", LOOKUP, M(position_embd), D_E, D_T, ARCH_GPT1 | ARCH_GPT2, ARCH_MICROGPT},
    {"output_norm.weight", VECTOR, M(final_norm.gain), D_E, D_NONE, 0, (PRE_NORM | ARCH_MICROGPT | NO_INPUT | ARCH_GPT1) & ~ARCH_LFM2},
    {"output_norm.bias", VECTOR, M(final_norm.bias), D_E, D_NONE, 0, NORM_BIAS | ARCH_GPT1},
    {"output.weight", MATRIX, M(head), D_E, D_V, ARCH_NANOCHAT, ALL},
    {"output.bias", VECTOR, M(head.bias), D_V, D_NONE, 0, ALL},
    {"rope_freqs.weight", DIVISORS, ANY, D_ROT2, D_NONE, 0, ROPED},
    {"rope_factors_long.weight", DIVISORS, LONG, D_ROT2, D_NONE, 0, ROPED},
    {"rope_factors_short.weight", DIVISORS, SHORT, D_ROT2, D_NONE, 0, ROPED},
    {"resid_lambdas", PER_LAYER, L(x_scale), D_L, D_NONE, 0, ARCH_NANOCHAT},
    {"x0_lambdas", PER_LAYER, L(x0_scale), D_L, D_NONE, 0, ARCH_NANOCHAT},
};

const struct tensor_slot bind_layer_slots[] = {
    {"attn_norm.weight", VECTOR, L(attn_norm.gain), D_E, D_NONE, PRE_NORM, ARCH_MICROGPT},
    {"attn_norm.bias", VECTOR, L(attn_norm.bias), D_E, D_NONE, 0, NORM_BIAS},
    {"attn_q.weight", MATRIX, L(q), D_E, D_Q, ATTENTION & ~FUSED, FUSED},
    {"attn_k.weight", MATRIX, L(k), D_E, D_KV, ATTENTION & ~FUSED, FUSED},
    {"attn_v.weight", MATRIX, L(v), D_E, D_KV, ATTENTION & ~FUSED, FUSED},
    {"attn_q.bias", VECTOR, L(q.bias), D_Q, D_NONE, ARCH_QWEN2, ATTENTION},
    {"attn_k.bias", VECTOR, L(k.bias), D_KV, D_NONE, ARCH_QWEN2, ATTENTION},
    {"attn_v.bias", VECTOR, L(v.bias), D_KV, D_NONE, ARCH_QWEN2, ATTENTION},
    {"attn_qkv.weight", QKV_MATRIX, L(q), D_E, D_QKV, 0, FUSED},
    {"attn_qkv.bias", QKV_VECTOR, L(q), D_QKV, D_NONE, 0, FUSED},
    {"attn_q_norm.weight", QK_NORM, L(q_norm), D_HEAD, D_NONE, QK_NORMS, ARCH_PHI2},
    {"attn_k_norm.weight", QK_NORM, L(k_norm), D_HEAD, D_NONE, QK_NORMS, ARCH_PHI2},
    {"attn_q_norm.bias", VECTOR, L(q_norm.bias), D_HEAD, D_NONE, 0, ARCH_PHI2},
    {"attn_k_norm.bias", VECTOR, L(k_norm.bias), D_HEAD, D_NONE, 0, ARCH_PHI2},
    {"attn_q_norm.weight", QK_NORM, L(q_norm), D_Q, D_NONE, ARCH_OLMO2 | ARCH_OLMOE, 0},
    {"attn_k_norm.weight", QK_NORM, L(k_norm), D_KV, D_NONE, ARCH_OLMO2 | ARCH_OLMOE, 0},
    {"attn_q_norm.weight", QK_NORM, L(q_norm), D_HEAD, D_H, 0, ARCH_STABLELM | ARCH_COHERE},
    {"attn_k_norm.weight", QK_NORM, L(k_norm), D_HEAD, D_G, 0, ARCH_STABLELM | ARCH_COHERE},
    {"attn_output.weight", MATRIX, L(o), D_Q, D_E, ATTENTION, 0},
    {"attn_output.bias", VECTOR, L(o.bias), D_E, D_NONE, 0, ATTENTION},
    {"shortconv.in_proj.weight", BCX_MATRIX, L(q), D_E, D_3E, ARCH_SHORTCONV, 0},
    {"shortconv.conv.weight", VECTOR, L(conv), D_CONV, D_E, ARCH_SHORTCONV, 0},
    {"shortconv.out_proj.weight", MATRIX, L(o), D_E, D_E, ARCH_SHORTCONV, 0},
    {"attn_output_norm.weight", VECTOR, L(mid_norm.gain), D_E, D_NONE, ARCH_GPT1, 0},
    {"attn_output_norm.bias", VECTOR, L(mid_norm.bias), D_E, D_NONE, 0, ARCH_GPT1},
    {"layer_output_norm.weight", VECTOR, L(end_norm.gain), D_E, D_NONE, ARCH_GPT1, 0},
    {"layer_output_norm.bias", VECTOR, L(end_norm.bias), D_E, D_NONE, 0, ARCH_GPT1},
    {"post_attention_norm.weight", VECTOR, L(post_attn_norm.gain), D_E, D_NONE, POST_NORM, 0},
    {"ffn_norm.weight", VECTOR, L(ffn_norm.gain), D_E, D_NONE, PRE_NORM & ~(ONE_NORM | ARCH_SEED_OSS), ARCH_MICROGPT | ARCH_STABLELM},
    {"post_attention_norm.weight", VECTOR, L(ffn_norm.gain), D_E, D_NONE, ARCH_SEED_OSS, 0},
    {"ffn_norm.bias", VECTOR, L(ffn_norm.bias), D_E, D_NONE, 0, NORM_BIAS & ~(ARCH_PHI2 | ARCH_FALCON)},
    {"attn_norm_2.weight", VECTOR, L(ffn_norm.gain), D_E, D_NONE, 0, ARCH_FALCON},
    {"attn_norm_2.bias", VECTOR, L(ffn_norm.bias), D_E, D_NONE, 0, ARCH_FALCON},
    {"ffn_gate.weight", MATRIX, L(gate), D_E, D_F, GATED, ARCH_MICROGPT},
    {"ffn_gate.bias", VECTOR, L(gate.bias), D_F, D_NONE, 0, GATED},
    {"ffn_up.weight", MATRIX, L(up), D_E, D_F, ALL & ~GATED_UP, 0},
    {"ffn_up.weight", GATE_UP, L(gate), D_E, D_2F, GATED_UP, 0},
    {"ffn_up.bias", VECTOR, L(up.bias), D_F, D_NONE, 0, ALL & ~GATED_UP},
    {"ffn_down.weight", MATRIX, L(down), D_F, D_E, ALL, 0},
    {"ffn_down.bias", VECTOR, L(down.bias), D_E, D_NONE, 0, ALL},
    {"post_ffw_norm.weight", VECTOR, L(post_ffn_norm.gain), D_E, D_NONE, POST_NORM, 0},
};
/* clang-format on */

const size_t bind_n_model_slots = sizeof bind_model_slots / sizeof *bind_model_slots;
const size_t bind_n_layer_slots = sizeof bind_layer_slots / sizeof *bind_layer_slots;
