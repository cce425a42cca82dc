/* Hugging Face families that are Llama's with one or two parts exchanged. See hf.h.
 *
 * Plain MLP with ReLU²: Arcee (AFM), Nemotron and Jais 2, whose norms are LayerNorms. Rotation of
 * adjacent components in the program, too, so that no rows are reordered: ERNIE 4.5, Helium, and
 * GLM-4, whose gate and up are one matrix. Other biases: Seed-OSS.
 */
#include "convert/families/hf_llama.h"

/* clang-format off */
#define PLAIN_MLP                                                                                  \
    {"layers.N.mlp.up_proj", "blk.N.ffn_up", 'F', 'E', HF_MLP_BIAS},                               \
    {"layers.N.mlp.down_proj", "blk.N.ffn_down", 'E', 'F', HF_MLP_BIAS}
#define GATE_UP_MLP                                                                                \
    {"layers.N.mlp.gate_up_proj", "blk.N.ffn_up", 'R', 'E', 0},                                    \
    {"layers.N.mlp.down_proj", "blk.N.ffn_down", 'E', 'F', 0}
/* clang-format on */

/* ---- tensors --------------------------------------------------------------------------------- */

static const struct state_row arcee_rows[] = {
    EMBD, PRE_NORMS, ATTENTION(STATE_PAIRS, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS), PLAIN_MLP,
    NORM(0)};

/* Nemotron's norms multiply by 1 + w. */
#define LAYERNORM_ROWS(flags)                                                                      \
    {                                                                                              \
        EMBD, POST_NORM("input", "attn_norm", flags),                                              \
            POST_NORM("post_attention", "ffn_norm", flags),                                        \
            ATTENTION(0, HF_ATTENTION_BIAS, HF_ATTENTION_BIAS), PLAIN_MLP, NORM(flags)             \
    }
static const struct state_row nemotron_rows[] = LAYERNORM_ROWS(STATE_BIAS | STATE_PLUS_ONE);
static const struct state_row jais2_rows[] = LAYERNORM_ROWS(STATE_BIAS);

static const struct state_row ernie_rows[] = {
    EMBD, PRE_NORMS, ATTENTION(0, HF_USE_BIAS, HF_USE_BIAS), GATED_MLP(HF_USE_BIAS), NORM(0)};

static const struct state_row helium_rows[] = {EMBD, PRE_NORMS, ATTENTION(0, HF_ATTENTION_BIAS, 0),
                                               GATED_MLP(HF_MLP_BIAS), NORM(0)};

/* In GGUF the norm before the MLP has the name that it has in the program. */
static const struct state_row seed_oss_rows[] = {
    EMBD,
    POST_NORM("input", "attn_norm", 0),
    POST_NORM("post_attention", "post_attention_norm", 0),
    ATTENTION(0, HF_ATTENTION_BIAS, HF_OUT_BIAS),
    GATED_MLP(HF_MLP_BIAS),
    NORM(0)};

static const struct state_row glm_rows[] = {EMBD, PRE_NORMS, ATTENTION(0, HF_ATTENTION_BIAS, 0),
                                            GATE_UP_MLP, NORM(0)};

static const struct state_row glm4_rows[] = {EMBD,
                                             PRE_NORMS,
                                             ATTENTION(0, HF_ATTENTION_BIAS, 0),
                                             POST_NORM("post_self_attn", "post_attention_norm", 0),
                                             GATE_UP_MLP,
                                             POST_NORM("post_mlp", "post_ffw_norm", 0),
                                             NORM(0)};

/* ---- the families ---------------------------------------------------------------------------- */

static const struct hf_keys nemotron_keys = LLAMA_KEYS("norm_eps", "hidden_act");
static const struct hf_keys jais2_keys = LLAMA_KEYS("layer_norm_eps", "hidden_act");

static const struct hf_rope_keys half_rotated = {"rope_theta", "partial_rotary_factor", 10000, 0.5};
static const struct hf_rope_keys rope_100000 = {"rope_theta", "partial_rotary_factor", 100000, 1};

const struct hf_family hf_variant_families[] = {
    {"arcee", "arcee", &hf_llama_keys, "relu2", COMMON, .rope = &hf_rope_10000,
     HF_ROWS(arcee_rows)},
    {"nemotron", "nemotron", &nemotron_keys, "relu2", COMMON, .rope = &half_rotated,
     HF_ROWS(nemotron_rows)},
    {"jais2", "jais2", &jais2_keys, "relu2", COMMON, .rope = &hf_rope_10000, HF_ROWS(jais2_rows),
     .biases = HF_ATTENTION_BIAS | HF_MLP_BIAS},
    {"ernie4_5", "ernie4_5", &hf_llama_keys, "silu", COMMON, .tied = 1, .rope = &hf_rope_500000,
     HF_ROWS(ernie_rows)},
    {"helium", "helium", &hf_llama_keys, "silu", COMMON, .rope = &rope_100000,
     HF_ROWS(helium_rows)},
    {"seed_oss", "seed_oss", &hf_llama_keys, "silu", COMMON, .rope = &hf_rope_10000,
     HF_ROWS(seed_oss_rows), .biases = HF_ATTENTION_BIAS},
    {"glm", "chatglm", &hf_llama_keys, "silu", COMMON, .rope = &half_rotated, HF_ROWS(glm_rows),
     .biases = HF_ATTENTION_BIAS},
    {"glm4", "glm4", &hf_llama_keys, "silu", COMMON, .rope = &half_rotated, HF_ROWS(glm4_rows),
     .biases = HF_ATTENTION_BIAS},
};
const size_t hf_n_variant_families = HF_COUNT(hf_variant_families);
