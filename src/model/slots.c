/* The tables of roles and slots. See slots.h. */
#include "model/slots.h"

#include "model/model.h"

#include <limits.h>

/* Sets of architectures. */
enum {
    ALL = INT_MAX,
    ATTENTION = ALL & ~ARCH_SHORTCONV,
    LFM2 = ARCH_LFM2 | ARCH_SHORTCONV,
    FUSED = ARCH_GPT1 | ARCH_GPT2 | ARCH_GPTNEOX | ARCH_PHI2 | ARCH_PHI3 | ARCH_BLOOM |
            ARCH_FALCON | ARCH_GLM4 | ARCH_BAILING |
            ARCH_DBRX, /* q, k, v in one tensor, or three */
    NO_INPUT = ARCH_OLMO2 | ARCH_EXAONE4,
    PRE_NORM = ALL & ~(ARCH_MICROGPT | ARCH_OLMO | NO_INPUT | ARCH_NANOCHAT | ARCH_GPT1),
    NORM_BIAS = ARCH_GPT2 | ARCH_GPTNEOX | ARCH_PHI2 | ARCH_STABLELM | ARCH_BLOOM | ARCH_FALCON,
    ONE_NORM = ARCH_PHI2 | ARCH_STABLELM | ARCH_COHERE | ARCH_FALCON, /* may be for both branches */
    GATED = ARCH_LLAMA | ARCH_QWEN2 | ARCH_QWEN3 | ARCH_GEMMA2 | ARCH_GEMMA3 | ARCH_OLMO |
            ARCH_OLMO2 | ARCH_OLMOE | ARCH_SMOLLM3 | ARCH_STABLELM | ARCH_COHERE | ARCH_SEED_OSS |
            ARCH_EXAONE4 | LFM2 | ARCH_GPT_OSS | ARCH_LATENT | ARCH_GEMMA4 | ARCH_BAILING |
            ARCH_DBRX,
    GATED_UP = ARCH_PHI3 | ARCH_GLM4,             /* gate and up in one tensor */
    MLP_NORM_POST = ARCH_SEED_OSS | ARCH_GPT_OSS, /* the MLP's is called post_attention_norm */
    POST_NORM = ARCH_GEMMA2 | ARCH_GEMMA3 | ARCH_GEMMA4 | NO_INPUT | ARCH_GLM4,
    QK_NORMS = ARCH_BAILING | ARCH_QWEN3 | ARCH_GEMMA3 | ARCH_EXAONE4 | ARCH_LFM2 | ARCH_APERTUS,
    QK_OPTIONAL = ARCH_PHI2 | ARCH_SEED_OSS | ARCH_GPTNEOX, /* may have such norms */
    KV = ATTENTION & ~ARCH_LATENT, /* keys and values are projections of h */
    OTHERS_KEYS =
        ARCH_GEMMA4, /* layers may read keys and values of another one, or have keys only */
    ROPED = ALL & ~(ARCH_MICROGPT | ARCH_GPT1 | ARCH_GPT2 | ARCH_BLOOM)
};

/* No architecture is in two sets that give one tensor different meanings, or in the set of a bias
 * without being in that of its gain. */
_Static_assert((GATED & GATED_UP) == 0, "gate and up: two tensors, or one");
_Static_assert((NORM_BIAS & ~PRE_NORM) == 0, "a bias of a norm before branches without its gain");
_Static_assert((ONE_NORM & ~PRE_NORM) == 0, "one norm for both branches where there is none");
_Static_assert((FUSED & ~ATTENTION) == 0, "q, k and v in one tensor of a layer without attention");
_Static_assert((QK_NORMS & ~ATTENTION) == 0, "norms of q and k in a layer without attention");

#define OF_MODEL(type, field) type, offsetof(struct mgpt_model, field)
#define OF_LAYER(type, field) type, offsetof(struct layer, field)

const struct role bind_roles[] = {
    [MGPT_W_E] = {"W_E", OF_MODEL(PLAIN, token_embd)},
    [MGPT_W_POS] = {"W_pos", OF_MODEL(PLAIN, position_embd)},
    [MGPT_LN_EMBD] = {"ln_embd", OF_MODEL(NORM, embd_norm)},
    [MGPT_LN_FINAL] = {"ln_final", OF_MODEL(NORM, final_norm)},
    [MGPT_W_U] = {"W_U", OF_MODEL(LINEAR, head)},
    [MGPT_ROPE_DIVISORS] = {"rope_divisors", PLAIN, 0},
    [MGPT_ROPE_LONG] = {"rope_long", PLAIN, 0},
    [MGPT_ROPE_SHORT] = {"rope_short", PLAIN, 0},
    [MGPT_X_SCALES] = {"x_scales", PLAIN, offsetof(struct layer, x_scale)},
    [MGPT_X0_SCALES] = {"x0_scales", PLAIN, offsetof(struct layer, x0_scale)},
    [MGPT_SMEAR_GATE] = {"smear_gate", OF_MODEL(LINEAR, smear_gate)},
    [MGPT_SMEAR_SCALE] = {"smear_scale", OF_MODEL(PLAIN, smear_scale)},
    [MGPT_BACKOUT] = {"backout", OF_MODEL(PLAIN, backout)},
    [MGPT_INPUT_EMBD] = {"input_embd", OF_MODEL(PLAIN, input_embd)},
    [MGPT_INPUT_PROJ] = {"input_proj", OF_MODEL(LINEAR, input_proj)},
    [MGPT_INPUT_NORM] = {"input_norm", OF_MODEL(NORM, input_norm)},
    [MGPT_W_HEAD] = {"W_head", OF_MODEL(LINEAR, head_dense)},
    [MGPT_LN_HEAD] = {"ln_head", OF_MODEL(NORM, head_norm)},
    [MGPT_LN1] = {"ln1", OF_LAYER(NORM, attn_norm)},
    [MGPT_W_Q] = {"W_Q", OF_LAYER(LINEAR, q)},
    [MGPT_W_K] = {"W_K", OF_LAYER(LINEAR, k)},
    [MGPT_W_V] = {"W_V", OF_LAYER(LINEAR, v)},
    [MGPT_Q_NORM] = {"q_norm", OF_LAYER(NORM, q_norm)},
    [MGPT_K_NORM] = {"k_norm", OF_LAYER(NORM, k_norm)},
    [MGPT_VALUE_EMBD] = {"value_embd", OF_LAYER(PLAIN, value_embd)},
    [MGPT_VALUE_GATE] = {"value_gate", OF_LAYER(LINEAR, value_gate)},
    [MGPT_CONV] = {"conv", OF_LAYER(PLAIN, conv)},
    [MGPT_SINKS] = {"sinks", OF_LAYER(PLAIN, sinks)},
    [MGPT_HEAD_GATE] = {"head_gate", OF_LAYER(LINEAR, head_gate)},
    [MGPT_W_O] = {"W_O", OF_LAYER(LINEAR, o)},
    [MGPT_LN1_POST] = {"ln1_post", OF_LAYER(NORM, post_attn_norm)},
    [MGPT_LN_MID] = {"ln_mid", OF_LAYER(NORM, mid_norm)},
    [MGPT_LN2] = {"ln2", OF_LAYER(NORM, ffn_norm)},
    [MGPT_W_GATE] = {"W_gate", OF_LAYER(LINEAR, gate)},
    [MGPT_W_UP] = {"W_up", OF_LAYER(LINEAR, up)},
    [MGPT_W_DOWN] = {"W_down", OF_LAYER(LINEAR, down)},
    [MGPT_W_ROUTER] = {"W_router", OF_LAYER(LINEAR, router)},
    [MGPT_EXPERTS_GATE] = {"experts_gate", LINEAR, offsetof(struct expert, gate)},
    [MGPT_EXPERTS_UP] = {"experts_up", LINEAR, offsetof(struct expert, up)},
    [MGPT_EXPERTS_DOWN] = {"experts_down", LINEAR, offsetof(struct expert, down)},
    [MGPT_SHARED_GATE] = {"shared_gate", OF_LAYER(LINEAR, shared_gate)},
    [MGPT_LN2_POST] = {"ln2_post", OF_LAYER(NORM, post_ffn_norm)},
    [MGPT_LN_POST] = {"ln_post", OF_LAYER(NORM, end_norm)},
    [MGPT_INPUT_GATE] = {"input_gate", OF_LAYER(LINEAR, input_gate)},
    [MGPT_INPUT_OUT] = {"input_out", OF_LAYER(LINEAR, input_out)},
    [MGPT_LN_INPUT] = {"ln_input", OF_LAYER(NORM, input_norm)},
    [MGPT_OUT_SCALE] = {"out_scale", OF_LAYER(PLAIN, out_scale)},
    [MGPT_EXPERT_BIAS] = {"expert_bias", OF_LAYER(PLAIN, expert_bias)},
    [MGPT_W_Q_DOWN] = {"W_Q_down", OF_LAYER(LINEAR, q_down)},
    [MGPT_Q_DOWN_NORM] = {"q_down_norm", OF_LAYER(NORM, q_down_norm)},
    [MGPT_W_KV_DOWN] = {"W_KV_down", OF_LAYER(LINEAR, kv_down)},
    [MGPT_KV_DOWN_NORM] = {"kv_down_norm", OF_LAYER(NORM, kv_down_norm)},
    [MGPT_W_KV_UP] = {"W_KV_up", OF_LAYER(PLAIN, k_up)},
    [MGPT_W_K_UP] = {"W_K_up", OF_LAYER(PLAIN, k_up)},
    [MGPT_W_V_UP] = {"W_V_up", OF_LAYER(PLAIN, v_up)},
};
_Static_assert(sizeof bind_roles / sizeof *bind_roles == MGPT_N_ROLES, "a row for each role");

/* clang-format off */
const struct tensor_slot bind_model_slots[] = {
    {"token_embd.weight", LOOKUP, MGPT_W_E, D_E, D_V, ALL, 0, 0},
    {"token_embd_norm.weight", VECTOR, MGPT_LN_EMBD, D_E, D_NONE, ARCH_BLOOM, 0, 0},
    {"token_embd_norm.bias", BIAS, MGPT_LN_EMBD, D_E, D_NONE, 0, ARCH_BLOOM, 0},
    {"token_embd_norm.weight", VECTOR, MGPT_LN_FINAL, D_E, D_NONE, ARCH_LFM2, 0, 0}, /* its name in llama.cpp */
    {"position_embd.weight", LOOKUP, MGPT_W_POS, D_E, D_T, ARCH_GPT1 | ARCH_GPT2, ARCH_MICROGPT, 0},
    {"output_norm.weight", VECTOR, MGPT_LN_FINAL, D_E, D_NONE, 0, (PRE_NORM | ARCH_MICROGPT | NO_INPUT | ARCH_GPT1) & ~ARCH_LFM2, 0},
    {"output_norm.bias", BIAS, MGPT_LN_FINAL, D_E, D_NONE, 0, NORM_BIAS | ARCH_GPT1, 0},
    {"output.weight", MATRIX, MGPT_W_U, D_E, D_V, ARCH_NANOCHAT, ALL, 0},
    {"output.bias", BIAS, MGPT_W_U, D_V, D_NONE, 0, ALL, 0},
    {"rope_freqs.weight", DIVISORS, MGPT_ROPE_DIVISORS, D_ROT2, D_NONE, 0, ROPED, 0},
    {"rope_factors_long.weight", DIVISORS, MGPT_ROPE_LONG, D_ROT2, D_NONE, 0, ROPED, 0},
    {"rope_factors_short.weight", DIVISORS, MGPT_ROPE_SHORT, D_ROT2, D_NONE, 0, ROPED, 0},
    {"resid_lambdas", PER_LAYER, MGPT_X_SCALES, D_L, D_NONE, 0, ARCH_NANOCHAT, 0},
    {"x0_lambdas", PER_LAYER, MGPT_X0_SCALES, D_L, D_NONE, 0, ARCH_NANOCHAT, 0},
    {"smear_gate.weight", GATE, MGPT_SMEAR_GATE, D_COLUMNS, D_ONE, 0, ARCH_NANOCHAT, WITH_NEXT},
    {"smear_lambda", NUMBER, MGPT_SMEAR_SCALE, D_ONE, D_NONE, 0, ARCH_NANOCHAT, 0},
    {"backout_lambda", NUMBER, MGPT_BACKOUT, D_ONE, D_NONE, 0, ARCH_NANOCHAT, 0},
    {"per_layer_token_embd.weight", LOOKUP, MGPT_INPUT_EMBD, D_LP, D_V, 0, ARCH_GEMMA4, INPUTS},
    {"per_layer_model_proj.weight", MATRIX, MGPT_INPUT_PROJ, D_E, D_LP, 0, ARCH_GEMMA4, INPUTS},
    {"per_layer_proj_norm.weight", VECTOR, MGPT_INPUT_NORM, D_P, D_NONE, 0, ARCH_GEMMA4, INPUTS},
    {"token_embd_norm.weight", VECTOR, MGPT_LN_EMBD, D_E, D_NONE, ARCH_STABLELM, 0, DENSE_HEAD},
    {"token_embd_norm.bias", BIAS, MGPT_LN_EMBD, D_E, D_NONE, 0, ARCH_STABLELM, DENSE_HEAD},
    {"cls.weight", MATRIX, MGPT_W_HEAD, D_E, D_E, ARCH_STABLELM, 0, DENSE_HEAD}, /* llama.cpp's names in BERT */
    {"cls.bias", BIAS, MGPT_W_HEAD, D_E, D_NONE, 0, ARCH_STABLELM, DENSE_HEAD},
    {"cls.norm.weight", VECTOR, MGPT_LN_HEAD, D_E, D_NONE, ARCH_STABLELM, 0, DENSE_HEAD},
    {"cls.norm.bias", BIAS, MGPT_LN_HEAD, D_E, D_NONE, 0, ARCH_STABLELM, DENSE_HEAD},
};

const struct tensor_slot bind_layer_slots[] = {
    {"ffn_gate_inp.weight", MATRIX, MGPT_W_ROUTER, D_E, D_X, ALL, 0, MIXTURE},
    {"exp_probs_b.bias", VECTOR, MGPT_EXPERT_BIAS, D_X, D_NONE, 0, ALL, MIXTURE},
    {"exp_probs_b", VECTOR, MGPT_EXPERT_BIAS, D_X, D_NONE, 0, ARCH_QWEN3, MIXTURE}, /* hy_v3's in llama.cpp */
    {"ffn_gate_up_exps.weight", EXPERTS, MGPT_EXPERTS_GATE, D_E, D_2FX, 0, ALL, MIXTURE},
    {"ffn_gate_up_exps.weight", EXPERTS, MGPT_EXPERTS_UP, D_E, D_2FX, 0, ALL, MIXTURE},
    {"ffn_gate_exps.weight", EXPERTS, MGPT_EXPERTS_GATE, D_E, D_FX, ALL, 0, MIXTURE},
    {"ffn_up_exps.weight", EXPERTS, MGPT_EXPERTS_UP, D_E, D_FX, ALL, 0, MIXTURE},
    {"ffn_down_exps.weight", EXPERTS, MGPT_EXPERTS_DOWN, D_FX, D_E, ALL, 0, MIXTURE},
    {"ffn_gate_inp.bias", BIAS, MGPT_W_ROUTER, D_X, D_NONE, 0, ARCH_GPT_OSS, MIXTURE},
    {"ffn_gate_exps.bias", EXPERT_BIASES, MGPT_EXPERTS_GATE, D_FX, D_X, 0, ARCH_GPT_OSS, MIXTURE},
    {"ffn_up_exps.bias", EXPERT_BIASES, MGPT_EXPERTS_UP, D_FX, D_X, 0, ARCH_GPT_OSS, MIXTURE},
    {"ffn_down_exps.bias", EXPERT_BIASES, MGPT_EXPERTS_DOWN, D_E, D_X, 0, ARCH_GPT_OSS, MIXTURE},
    {"ffn_gate_shexp.weight", MATRIX, MGPT_W_GATE, D_E, D_FS, 0, ALL, MIXTURE | SHARED_EXPERT},
    {"ffn_up_shexp.weight", MATRIX, MGPT_W_UP, D_E, D_FS, 0, ALL, MIXTURE | SHARED_EXPERT},
    {"ffn_up_shexp.weight", GATE_UP, MGPT_W_GATE, D_E, D_2FS, 0, ALL, MIXTURE | SHARED_EXPERT},
    {"ffn_down_shexp.weight", MATRIX, MGPT_W_DOWN, D_FS, D_E, 0, ALL, MIXTURE | SHARED_EXPERT},
    {"ffn_gate_inp_shexp.weight", MATRIX, MGPT_SHARED_GATE, D_E, D_NONE, 0, ALL, MIXTURE},
    {"attn_norm.weight", VECTOR, MGPT_LN1, D_E, D_NONE, PRE_NORM, ARCH_MICROGPT, 0},
    {"attn_norm.bias", BIAS, MGPT_LN1, D_E, D_NONE, 0, NORM_BIAS, 0},
    {"attn_q.weight", MATRIX, MGPT_W_Q, D_E, D_Q, KV & ~FUSED, FUSED | ARCH_LATENT, 0},
    {"attn_k.weight", MATRIX, MGPT_W_K, D_E, D_KV, KV & ~(FUSED | OTHERS_KEYS), FUSED | OTHERS_KEYS, 0},
    {"attn_v.weight", MATRIX, MGPT_W_V, D_E, D_VALUES, KV & ~(FUSED | OTHERS_KEYS), FUSED | OTHERS_KEYS, 0},
    {"attn_q_a.weight", MATRIX, MGPT_W_Q_DOWN, D_E, D_QR, 0, ARCH_LATENT, 0},
    {"attn_q_a.bias", BIAS, MGPT_W_Q_DOWN, D_QR, D_NONE, 0, ARCH_LATENT, 0},
    {"attn_q_a_norm.weight", VECTOR, MGPT_Q_DOWN_NORM, D_QR, D_NONE, 0, ARCH_LATENT, 0},
    {"attn_q_b.weight", MATRIX, MGPT_W_Q, D_QR, D_Q, 0, ARCH_LATENT, 0},
    {"attn_kv_a_mqa.weight", MATRIX, MGPT_W_KV_DOWN, D_E, D_KEPT, ARCH_LATENT, 0, 0},
    {"attn_kv_a_mqa.bias", BIAS, MGPT_W_KV_DOWN, D_KEPT, D_NONE, 0, ARCH_LATENT, 0},
    {"attn_kv_a_norm.weight", VECTOR, MGPT_KV_DOWN_NORM, D_R, D_NONE, ARCH_LATENT, 0, 0},
    {"attn_kv_b.weight", LATENT_UP, MGPT_W_KV_UP, D_R, D_KV_UP, 0, ARCH_LATENT, 0},
    {"attn_k_b.weight", LATENT_UP, MGPT_W_K_UP, D_NOPE, D_R, 0, ARCH_LATENT, 0},
    {"attn_v_b.weight", LATENT_UP, MGPT_W_V_UP, D_R, D_VALUE, 0, ARCH_LATENT, 0},
    {"attn_q.bias", BIAS, MGPT_W_Q, D_Q, D_NONE, ARCH_QWEN2, ATTENTION, 0},
    {"attn_k.bias", BIAS, MGPT_W_K, D_KV, D_NONE, ARCH_QWEN2, KV, 0},
    {"attn_v.bias", BIAS, MGPT_W_V, D_VALUES, D_NONE, ARCH_QWEN2, KV, 0},
    {"attn_qkv.weight", QKV_MATRIX, MGPT_W_Q, D_E, D_QKV, 0, FUSED, 0},
    {"attn_qkv.bias", QKV_BIAS, MGPT_W_Q, D_QKV, D_NONE, 0, FUSED, 0},
    {"attn_q_norm.weight", GAINS, MGPT_Q_NORM, D_HEAD, D_NONE, QK_NORMS | OTHERS_KEYS, QK_OPTIONAL, 0},
    {"attn_k_norm.weight", GAINS, MGPT_K_NORM, D_HEAD, D_NONE, QK_NORMS, QK_OPTIONAL | OTHERS_KEYS, 0},
    {"attn_q_norm.bias", BIAS, MGPT_Q_NORM, D_HEAD, D_NONE, 0, ARCH_PHI2 | ARCH_GPTNEOX, 0},
    {"attn_k_norm.bias", BIAS, MGPT_K_NORM, D_HEAD, D_NONE, 0, ARCH_PHI2 | ARCH_GPTNEOX, 0},
    {"attn_q_norm.weight", GAINS, MGPT_Q_NORM, D_Q, D_NONE, ARCH_OLMO2 | ARCH_OLMOE, 0, 0},
    {"attn_k_norm.weight", GAINS, MGPT_K_NORM, D_KV, D_NONE, ARCH_OLMO2 | ARCH_OLMOE, 0, 0},
    {"attn_q_norm.weight", GAINS, MGPT_Q_NORM, D_HEAD, D_H, 0, ARCH_STABLELM | ARCH_COHERE, 0},
    {"attn_k_norm.weight", GAINS, MGPT_K_NORM, D_HEAD, D_G, 0, ARCH_STABLELM | ARCH_COHERE, 0},
    {"attn_sinks.weight", VECTOR, MGPT_SINKS, D_H, D_NONE, ATTENTION, 0, SINKS},
    {"attn_gate.weight", MATRIX, MGPT_HEAD_GATE, D_E, D_GATE, ATTENTION, 0, HEAD_GATES},
    {"attn_gate.bias", BIAS, MGPT_HEAD_GATE, D_GATE, D_NONE, 0, ATTENTION, HEAD_GATES},
    {"attn_output.weight", MATRIX, MGPT_W_O, D_Z, D_E, ATTENTION, 0, 0},
    {"attn_output.bias", BIAS, MGPT_W_O, D_E, D_NONE, 0, ATTENTION, 0},
    {"shortconv.in_proj.weight", BCX_MATRIX, MGPT_W_Q, D_E, D_3E, ARCH_SHORTCONV, 0, 0},
    {"shortconv.conv.weight", VECTOR, MGPT_CONV, D_CONV, D_E, ARCH_SHORTCONV, 0, 0},
    {"shortconv.out_proj.weight", MATRIX, MGPT_W_O, D_E, D_E, ARCH_SHORTCONV, 0, 0},
    {"attn_output_norm.weight", VECTOR, MGPT_LN_MID, D_E, D_NONE, ARCH_GPT1, 0, 0},
    {"attn_output_norm.bias", BIAS, MGPT_LN_MID, D_E, D_NONE, 0, ARCH_GPT1, 0},
    {"layer_output_norm.weight", VECTOR, MGPT_LN_POST, D_E, D_NONE, ARCH_GPT1, 0, 0},
    {"layer_output_norm.bias", BIAS, MGPT_LN_POST, D_E, D_NONE, 0, ARCH_GPT1, 0},
    {"post_attention_norm.weight", VECTOR, MGPT_LN1_POST, D_E, D_NONE, POST_NORM, 0, 0},
    {"post_attention_norm.weight", VECTOR, MGPT_LN1_POST, D_E, D_NONE, LFM2, 0, SANDWICH},
    {"ffn_norm.weight", VECTOR, MGPT_LN2, D_E, D_NONE, PRE_NORM & ~(ONE_NORM | MLP_NORM_POST | ARCH_DBRX), ARCH_MICROGPT | ARCH_STABLELM, 0},
    {"post_attention_norm.weight", VECTOR, MGPT_LN2, D_E, D_NONE, MLP_NORM_POST, 0, 0},
    {"attn_output_norm.weight", VECTOR, MGPT_LN2, D_E, D_NONE, ARCH_DBRX, 0, 0},
    {"ffn_norm.bias", BIAS, MGPT_LN2, D_E, D_NONE, 0, NORM_BIAS & ~(ARCH_PHI2 | ARCH_FALCON), 0},
    {"attn_norm_2.weight", VECTOR, MGPT_LN2, D_E, D_NONE, 0, ARCH_FALCON, 0},
    {"attn_norm_2.bias", BIAS, MGPT_LN2, D_E, D_NONE, 0, ARCH_FALCON, 0},
    {"ffn_gate.weight", MATRIX, MGPT_W_GATE, D_E, D_F, GATED, ARCH_MICROGPT, NOT_MIXTURE},
    {"ffn_gate.bias", BIAS, MGPT_W_GATE, D_F, D_NONE, 0, GATED, NOT_MIXTURE},
    {"ffn_up.weight", MATRIX, MGPT_W_UP, D_E, D_F, ALL & ~GATED_UP, 0, NOT_MIXTURE},
    {"ffn_up.weight", GATE_UP, MGPT_W_GATE, D_E, D_2F, GATED_UP, 0, NOT_MIXTURE},
    {"ffn_up.bias", BIAS, MGPT_W_UP, D_F, D_NONE, 0, ALL & ~GATED_UP, NOT_MIXTURE},
    {"ffn_down.weight", MATRIX, MGPT_W_DOWN, D_F, D_E, ALL, 0, NOT_MIXTURE},
    {"ffn_down.bias", BIAS, MGPT_W_DOWN, D_E, D_NONE, 0, ALL, NOT_MIXTURE},
    {"post_ffw_norm.weight", VECTOR, MGPT_LN2_POST, D_E, D_NONE, POST_NORM, ARCH_LATENT, 0},
    {"post_ffw_norm.weight", VECTOR, MGPT_LN2_POST, D_E, D_NONE, LFM2, 0, SANDWICH},
    {"inp_gate.weight", MATRIX, MGPT_INPUT_GATE, D_E, D_P, 0, ARCH_GEMMA4, INPUTS},
    {"proj.weight", MATRIX, MGPT_INPUT_OUT, D_P, D_E, 0, ARCH_GEMMA4, INPUTS},
    {"post_norm.weight", VECTOR, MGPT_LN_INPUT, D_E, D_NONE, 0, ARCH_GEMMA4, INPUTS},
    {"layer_output_scale.weight", NUMBER, MGPT_OUT_SCALE, D_ONE, D_NONE, 0, ARCH_GEMMA4, 0},
    {"attn_value_embd.weight", LOOKUP, MGPT_VALUE_EMBD, D_KV, D_V, 0, ARCH_NANOCHAT, WITH_NEXT},
    {"attn_value_gate.weight", GATE, MGPT_VALUE_GATE, D_COLUMNS, D_G, 0, ARCH_NANOCHAT, 0},
};
/* clang-format on */

const size_t bind_n_model_slots = sizeof bind_model_slots / sizeof *bind_model_slots;
const size_t bind_n_layer_slots = sizeof bind_layer_slots / sizeof *bind_layer_slots;

const struct slot_part *bind_parts(const struct tensor_slot *slot, size_t *n)
{
    static const struct slot_part qkv[] = {{MGPT_W_Q, D_Q}, {MGPT_W_K, D_KV}, {MGPT_W_V, D_VALUES}};
    static const struct slot_part bcx[] = {{MGPT_W_K, D_E}, {MGPT_W_Q, D_E}, {MGPT_W_V, D_E}};
    static const struct slot_part gate_up[] = {{MGPT_W_GATE, D_F}, {MGPT_W_UP, D_F}};
    static const struct slot_part shared[] = {{MGPT_W_GATE, D_FS}, {MGPT_W_UP, D_FS}};
    *n = slot->kind == QKV_MATRIX || slot->kind == QKV_BIAS || slot->kind == BCX_MATRIX ? 3
         : slot->kind == GATE_UP                                                        ? 2
                                                                                        : 0;
    if (*n == 0)
        return NULL;
    if (slot->kind == GATE_UP)
        return slot->out == D_2FS ? shared : gate_up;
    return slot->kind == BCX_MATRIX ? bcx : qkv;
}
