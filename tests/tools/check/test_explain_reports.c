/* Tests of --explain: causes that people reported of converters, whose faults are edits of the file, and
 * of other programs, whose faults are changes of what the float64 oracle computes as the reference.
 * tests/quality/causes.py plants the same in models of transformers. */
#include "check/oracle/oracle.h"
#include "support/planted.h"
#include "support/said.h"
#include "support/sanitized.h"
#include "support/unit.h"

SAID_IN("tests/tools/check/explain_reports.said")

/* ---- other programs ----------------------------------------------------------------------------- */

/* Llama 3.1's scaling by 8 of length 32 with high_freq_factor 8. The first wave is a mix: with
 * m = (32 / 2 pi - 1) / 7 it is m + (1 - m) / 8 = 2 / pi. Those longer than 32 are divided. */
static const double llama3_freq[4] = {2 / 3.14159265358979323846, 0.1 / 8, 0.01 / 8, 0.001 / 8};

/* Positions that begin again at every sixth token. */
static const int32_t restarted_at_6[PLANTED_MOST] = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5,
                                                     0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5};

/* Two tokens share a position. */
static const int32_t shared_by_2[PLANTED_MOST] = {0, 0, 1, 1, 2, 2, 3, 3, 4,  4,  5,  5,
                                                  6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11};

/* Layers that rotate the other way. */
static struct oracle_layer other_way[2];
static double other_freq[4];
static const double *first_freq; /* of layer 0 before it is changed */

/* A change of one member, in all layers or of the model. */
#define PROGRAM(name, change)                                                                      \
    static void name(struct oracle_spec *spec, struct oracle_layer *layers)                        \
    {                                                                                              \
        for (size_t i = 0; i < spec->n_layer; i++) {                                               \
            struct oracle_layer *l = &layers[i];                                                   \
            change;                                                                                \
            (void)l;                                                                               \
        }                                                                                          \
    }
PROGRAM(norms_late, spec->qk_norm_late = 1)
PROGRAM(norms_over_all, spec->qk_norm_other = 1)
PROGRAM(no_norm_of_k, spec->no_norm_k = 1)
PROGRAM(q_stays, spec->no_rope_q = 1)
PROGRAM(first_kv, l->kv = ORACLE_KV_FIRST)
PROGRAM(second_left_out, layers[1].no_attention = 1; layers[1].no_mlp = 1)
PROGRAM(last_rotate, spec->rot_first = spec->head_dim - spec->n_rot)
PROGRAM(across, spec->rot_apart = spec->head_dim / 2)
PROGRAM(no_mlp, layers[0].no_mlp = 1)
PROGRAM(second_again, layers[1].again = 1)
PROGRAM(normed_residual, l->residual_normed = 3)
PROGRAM(less_one, spec->norm_how = ORACLE_NORM_UNBIASED; spec->norm_where = ORACLE_NORM_ALL)
PROGRAM(outside, spec->norm_how = ORACLE_NORM_EPS_OUTSIDE; spec->norm_where = ORACLE_NORM_ALL)
PROGRAM(mixed, spec->rot_mixed = 1)
PROGRAM(weights_bf16, spec->type = ORACLE_BF16; spec->rounded = ORACLE_WEIGHTS)
PROGRAM(turns_f16, spec->type = ORACLE_F16; spec->rounded = ORACLE_TURNS)
PROGRAM(llama3_high, l->freq = llama3_freq)
PROGRAM(k_twice, spec->rope_again_k = 1)
PROGRAM(q_twice, spec->rope_again_q = 1)
PROGRAM(by_number, l->kv = ORACLE_KV_BY_NUMBER)
PROGRAM(sum_from_1, spec->softmax = ORACLE_SUM_FROM_1)
PROGRAM(sum_with_0, spec->softmax = ORACLE_SUM_WITH_0)
PROGRAM(next_key, spec->mask = ORACLE_NEXT_KEY)
PROGRAM(all_keys, spec->mask = ORACLE_ALL_KEYS)
PROGRAM(not_own_key, spec->mask = ORACLE_NOT_OWN_KEY)
PROGRAM(late_keys, layers[1].kv_late = 1)
PROGRAM(heads_first, spec->heads_first = 1)
PROGRAM(replaced, l->attn_more = -1)
PROGRAM(keys_ahead, spec->shift_k = 1)
PROGRAM(keys_behind, spec->shift_k = -1)
PROGRAM(values_rotate, spec->rope_v = 1)
PROGRAM(not_first_key, spec->mask = ORACLE_NOT_FIRST_KEY)
PROGRAM(chunks, spec->mask = ORACLE_CHUNKS)
PROGRAM(by_layer, l->attn_scale /= (double)(i + 1))
PROGRAM(late_norm_of_k, spec->norm_moved_k = 1)
PROGRAM(act_of_product, l->act_late = 1)
PROGRAM(sum_not_mean, spec->norm_how = ORACLE_NORM_SUM; spec->norm_where = ORACLE_NORM_ALL)
PROGRAM(attention_twice, spec->attn_times = 2)
PROGRAM(positions_by_some, spec->position_times = 0.6)
PROGRAM(mlp_by_some, spec->mlp_times = 1.3)
PROGRAM(normed_twice, spec->final_norm = 2)
PROGRAM(no_caps, spec->attn_softcap = 0)
PROGRAM(no_slopes, spec->alibi = 0)
PROGRAM(slopes_scaled, spec->alibi_times = 0x1.6a09e667f3bcdp-2) /* d = 8 */
PROGRAM(gate_of_sum, spec->shared_gate_late = 1)
PROGRAM(cap_of_x, spec->cap_of_x = 1)
PROGRAM(logits_as_they_are, spec->logit_scale = 1)
PROGRAM(all_of_branches, spec->residual_scale = 1)
PROGRAM(sigmoid, l->activation = "sigmoid")
PROGRAM(far_positions, spec->shift = 5)
PROGRAM(other_windows, l->window = i == 0 ? 0 : 4)
PROGRAM(all_rotate, l->freq = layers[0].freq)
PROGRAM(one_expert, spec->n_expert_used = 1)
PROGRAM(level_queries, spec->query_beta = 0)
PROGRAM(other_sum, spec->expert_norm = 0)
PROGRAM(freq_bf16, spec->type = ORACLE_BF16; spec->rounded = ORACLE_FREQUENCIES)
PROGRAM(cache_f16, spec->type = ORACLE_F16; spec->rounded = ORACLE_CACHE)
PROGRAM(pattern_bf16, spec->type = ORACLE_BF16; spec->rounded = ORACLE_PATTERN)
PROGRAM(variance_bf16, spec->type = ORACLE_BF16; spec->rounded = ORACLE_SQUARES)
PROGRAM(variance_f16, spec->type = ORACLE_F16; spec->rounded = ORACLE_VARIANCE)
PROGRAM(norms_bf16, spec->type = ORACLE_BF16; spec->rounded = ORACLE_NORMS)
PROGRAM(angles_bf16, spec->type = ORACLE_BF16; spec->rounded = ORACLE_ANGLES)
PROGRAM(residual_bf16, spec->type = ORACLE_BF16; spec->rounded = ORACLE_RESIDUAL)
PROGRAM(cache_f8, spec->type = ORACLE_F8_E4M3; spec->rounded = ORACLE_CACHE)
PROGRAM(products_tf32, spec->type = ORACLE_TF32; spec->rounded = ORACLE_PRODUCTS)
PROGRAM(gains_first, spec->norm_how = ORACLE_NORM_GAIN_FIRST; spec->norm_where = ORACLE_NORM_ALL)
PROGRAM(qk_not_normed, spec->norm_how = ORACLE_NORM_GAIN_ONLY;
        spec->norm_where = ORACLE_NORM_Q | ORACLE_NORM_K)
PROGRAM(post_norms, spec->norm_order = ORACLE_NORMS_OF_SUMS)
PROGRAM(branch_norms, spec->norm_order = ORACLE_NORMS_OF_BRANCHES)
PROGRAM(norms_first, spec->norm_order = ORACLE_NORMS_FIRST)
PROGRAM(cap_first, spec->cap_at = ORACLE_CAP_FIRST)
PROGRAM(cap_masked, spec->cap_at = ORACLE_CAP_MASKED)
PROGRAM(over_heads, spec->softmax = ORACLE_OVER_HEADS)
PROGRAM(both_sides, spec->mask = ORACLE_BOTH_SIDES)
PROGRAM(two_first_keys, spec->first_keys = 2)
PROGRAM(prefix_of_4, spec->prefix = 4)
PROGRAM(window_of_6, l->window = 6)
PROGRAM(chunks_of_6, l->window = 6; spec->mask = ORACLE_CHUNKS)
PROGRAM(lost_keys, spec->zero_from = 5; spec->zero_to = 8)
PROGRAM(restarted, spec->places = restarted_at_6)
PROGRAM(sines_of_one_sign, spec->turn_form = 2u << 2)
PROGRAM(turned_by_head, spec->turn_by_head = 1)
PROGRAM(one_head_turns, spec->turn_heads = 1)
PROGRAM(raw_kv, l->raw = ORACLE_RAW_K | ORACLE_RAW_V)
PROGRAM(up_and_one, spec->up_more = 1)
PROGRAM(mlp_replaces, l->mlp_more = -1)
PROGRAM(residual_twice, l->attn_more = 1)
PROGRAM(from_start, l->mlp_from_start = 1)
PROGRAM(logits_by_root, spec->logit_scale = 0.17677669529663687) /* of 32 */
PROGRAM(by_twos, spec->places = shared_by_2)
PROGRAM(k_other_way, for (size_t j = 0; j < 4; j++) other_freq[j] = -l->freq[j]; other_way[i] = *l;
        other_way[i].freq = other_freq; spec->turned = other_way; spec->turned_of = ORACLE_OF_KEYS)
PROGRAM(over_queries, spec->softmax = ORACLE_OVER_QUERIES)
PROGRAM(later_keys, spec->mask = ORACLE_LATER_KEYS)
PROGRAM(values_are_keys, spec->v_is_k = 1)
PROGRAM(v_tiled, l->kv = ORACLE_KV_INTERLEAVED; l->kv_of = ORACLE_OF_VALUES)
PROGRAM(no_head_3, l->lost_head = 4)
PROGRAM(embedded_by_n, spec->embd_scale = (double)spec->n_embd)
PROGRAM(normed_for_attention, l->residual_normed = 1)
PROGRAM(raw_weights, spec->expert_raw = 1)
PROGRAM(even_slopes, spec->alibi_even = 1)
PROGRAM(values_scaled, spec->heads_times = 0.7)
PROGRAM(adjacent, l->adjacent = 1)
PROGRAM(late_biases, spec->qk_bias_late = 1)
PROGRAM(softmax_bf16, spec->type = ORACLE_BF16; spec->rounded = ORACLE_SOFTMAX)
PROGRAM(last_rotates_only, first_freq = i > 0 ? first_freq : l->freq;
        l->freq = i < 3 ? NULL : first_freq)
PROGRAM(mlp_then_attention, l->mlp_first = 1)
PROGRAM(norms_of_sums_after, spec->norm_order = ORACLE_NORMS_AFTER_SUMS)
PROGRAM(less_than_10, spec->cap_at = ORACLE_MASK_ADDS; spec->mask_adds = -10)
PROGRAM(normed_bf16, spec->type = ORACLE_BF16; spec->rounded = ORACLE_NORM_RESULTS)
PROGRAM(gate_alone, l->no_up = 1)
PROGRAM(other_eps, spec->norm_how = ORACLE_NORM_EPS; spec->norm_where = ORACLE_NORM_FINAL;
        spec->norm_eps = 1e-3)

/* The last residuals from position 10 on, whose size the final norm takes out again. */
static void last_ones_larger(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    uint64_t *count = user, first = 99 + 10; /* it begins with 99 */
    if (point != MGPT_RESID_POST || layer != 1 || (*count)++ < first)
        return;
    for (size_t i = 0; i < n; i++)
        row[i] *= 1.05;
}

/* ---- the cases ---------------------------------------------------------------------------------- */

/* clang-format off */
static const struct toy_spec llama = {
    .label = "llama", .arch = "llama", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_head_kv = 2,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .seed = 31};
static const struct toy_spec llama_eps = {
    .label = "llama, a large epsilon", .arch = "llama", .n_layer = 2, .n_embd = 32, .n_head = 4,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .eps = 1e-2, .seed = 35};
static const struct toy_spec gpt2 = {
    .label = "gpt2", .arch = "gpt2", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 64,
    .n_ctx = 40, .n_vocab = 60, .biases = 1, .seed = 32};
static const struct toy_spec qwen3 = {
    .label = "qwen3", .arch = "qwen3", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_head_kv = 2,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .seed = 33};
static const struct toy_spec phi2 = {
    .label = "phi2", .arch = "phi2", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 48,
    .n_ctx = 40, .n_vocab = 60, .rope_dims = 4, .biases = 1, .seed = 34};
static const struct toy_spec llama_8 = {
    .label = "llama, 8 heads", .arch = "llama", .n_layer = 2, .n_embd = 32, .n_head = 8, .n_head_kv = 4,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .seed = 36};
static const struct toy_spec gemma2 = {
    .label = "gemma2", .arch = "gemma2", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 48,
    .n_ctx = 40, .n_vocab = 60, .window = 4, .attn_softcap = 3, .logit_softcap = 4, .seed = 37};
static const struct toy_spec granite = {
    .label = "granite", .arch = "granite", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 48,
    .n_ctx = 40, .n_vocab = 60, .residual_scale = 0.4, .logit_scale = 3, .seed = 41};
static const struct toy_spec bloom = {
    .label = "bloom", .arch = "bloom", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 64,
    .n_ctx = 40, .n_vocab = 60, .biases = 1, .seed = 38};
static const struct toy_spec bloom_6 = {
    .label = "bloom, 6 heads", .arch = "bloom", .n_layer = 2, .n_embd = 36, .n_head = 6, .n_ff = 64,
    .n_ctx = 40, .n_vocab = 60, .biases = 1, .seed = 45};
static const struct toy_spec smollm3 = {
    .label = "smollm3", .arch = "smollm3", .n_layer = 4, .n_embd = 32, .n_head = 4, .n_head_kv = 2,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .seed = 39};
static const struct toy_spec mixture = {
    .label = "mixture", .arch = "qwen3moe", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_head_kv = 2, .n_ff = 24,
    .n_expert = 6, .n_expert_used = 2, .n_ctx = 40, .n_vocab = 60, .seed = 40};
static const struct toy_spec mistral3 = {.arch = "mistral3", TOY_SIZES(2, 32, 4, 48, 40, 60), .rope_factor = 4, .yarn = 6, .query_beta = 0.4};
static const struct toy_spec shared = {
    .label = "shared", .arch = "qwen2moe", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 24, .n_expert = 4,
    .n_expert_used = 2, .n_ff_expert = 24, .n_ff_shared = 24, .n_ctx = 40, .n_vocab = 60, .seed = 43};
static const struct toy_spec olmo2 = {
    .label = "olmo2", .arch = "olmo2", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 48,
    .n_ctx = 40, .n_vocab = 60, .seed = 42};

static void other_first(int32_t *tokens, size_t n)
{
    (void)n;
    tokens[0] = (tokens[0] + 7) % 60;
}

#define QKV_ROWS(order) \
    "rows blk.*.attn_qkv.weight 8 " order "; rows blk.*.attn_qkv.bias 8 " order

static const struct bug cases[] = {
    {"heads of the output", &llama,
     "transpose blk.*.attn_output.weight; rows blk.*.attn_output.weight 8 1 2 3 0; "
     "transpose blk.*.attn_output.weight", "blocks.0.hook_attn_out",
     "heads of attention's output 3 further on", BY_LOGITS},
    {"interleaved", &gpt2, QKV_ROWS("0 4 8 1 5 9 2 6 10 3 7 11"), "blocks.0.attn.hook_q",
     "attn_qkv read as q, k, v of head 0", BY_LOGITS},
    {"norms after RoPE", &qwen3, NULL, "blocks.0.attn.hook_rot_q",
     "norms of q and k after RoPE", BY_LOGITS, .differs = norms_late},
    {"norms over all heads", &qwen3, NULL, "blocks.0.attn.hook_rot_q",
     "over all heads or each head", BY_LOGITS, .differs = norms_over_all},
    {"k without its norm", &qwen3, NULL, "blocks.0.attn.hook_rot_k", "no norm of k", BY_LOGITS,
     .differs = no_norm_of_k},
    {"q not rotated", &llama, NULL, "blocks.0.attn.hook_rot_q", "q is not rotated", BY_LOGITS, .differs = q_stays},
    {"KV head 0", &llama, NULL, "blocks.0.attn.hook_attn_scores", "all query heads read KV head 0",
     BY_LOGITS, .differs = first_kv},
    {"one layer", &llama, NULL, "blocks.1.hook_resid_mid", "layer 1 is left out", BY_LOGITS,
     .differs = second_left_out},
    {"the last components", &phi2, NULL, "blocks.0.attn.hook_rot_q", "the last ones", BY_LOGITS,
     .differs = last_rotate},
    {"pairs across the head", &phi2, NULL, "blocks.0.attn.hook_rot_q", "in pairs i and i + 4",
     BY_LOGITS, .differs = across},
    {"one MLP", &gpt2, NULL, "blocks.0.hook_resid_post", "layer 0's MLP is left out", BY_LOGITS, .differs = no_mlp},
    {"residual of what was normed", &llama, NULL, "blocks.0.hook_resid_mid",
     "branches add to what their norm gives", BY_LOGITS, .differs = normed_residual},
    {"n - 1", &gpt2, NULL, "blocks.0.ln1.hook_normalized", "n - 1, not n", BY_LOGITS, .differs = less_one},
    {"epsilon outside", &llama_eps, NULL, "blocks.0.ln1.hook_normalized", "after the square root",
     BY_LOGITS, .differs = outside},
    {"cosines of other pairs", &qwen3, NULL, "blocks.0.attn.hook_rot_q",
     "with the cosines of the other pairs", BY_LOGITS, .differs = mixed},
    {"weights in bfloat16", &llama, NULL, "hook_embed", "weights rounded to bfloat16", BY_LOGITS,
     .differs = weights_bf16},
    {"cosines in float16", &qwen3, NULL, "blocks.0.attn.hook_rot_q",
     "cosines and sines of RoPE in float16", BY_LOGITS, .differs = turns_f16},
    {"high_freq_factor 8", &llama, NULL, "blocks.0.attn.hook_rot_q",
     "factor 8, original length 32, low_freq_factor 1, high_freq_factor 8", BY_LOGITS,
     .differs = llama3_high},
    {"squares in bfloat16", &llama, NULL, "blocks.0.ln1.hook_normalized",
     "norms' squares and variances in bfloat16", BY_LOGITS, .differs = variance_bf16},
    {"variances in float16", &llama, NULL, "blocks.0.ln1.hook_normalized",
     "norms' variances in float16", BY_LOGITS, .differs = variance_f16},
    {"k rotated twice", &qwen3, NULL, "blocks.0.attn.hook_rot_k", "k is rotated twice", BY_LOGITS, .differs = k_twice},
    {"q rotated twice", &llama, NULL, "blocks.0.attn.hook_rot_q", "q is rotated twice", BY_LOGITS, .differs = q_twice},
    {"KV head h / G", &llama_8, NULL, "blocks.0.attn.hook_attn_scores", "KV head h / G", BY_LOGITS,
     .differs = by_number},
    {"sum of softmax from 1", &llama, NULL, "blocks.0.attn.hook_pattern", "begins with 1", BY_LOGITS,
     .differs = sum_from_1},
    {"a score of 0 more", &gpt2, NULL, "blocks.0.attn.hook_pattern", "one more score", BY_LOGITS,
     .differs = sum_with_0},
    {"the next key", &llama, NULL, "blocks.0.attn.hook_pattern", "sees the next key", BY_LOGITS, .differs = next_key},
    {"no mask", &gpt2, NULL, "blocks.0.attn.hook_pattern", "a query sees all keys", BY_LOGITS, .differs = all_keys},
    {"without its own key", &llama, NULL, "blocks.0.attn.hook_attn_scores", "does not see its own key",
     BY_LOGITS, .differs = not_own_key},
    {"keys late in layer 1", &llama, NULL, "blocks.1.attn.hook_attn_scores",
     "keys and values one position late", BY_LOGITS, .differs = late_keys},
    {"heads not transposed", &gpt2, NULL, "blocks.0.attn.hook_z", "outputs of heads not transposed",
     BY_LOGITS, .differs = heads_first},
    {"no residual", &llama, NULL, "blocks.0.hook_resid_mid", "attention replaces the residual", BY_LOGITS,
     .differs = replaced},
    {"keys ahead", &llama, NULL, "blocks.0.attn.hook_rot_k", "keys are rotated as one position further on",
     BY_LOGITS, .differs = keys_ahead},
    {"keys behind", &llama, NULL, "blocks.0.attn.hook_rot_k", "keys are rotated as one position before", BY_LOGITS,
     .differs = keys_behind},
    {"values rotated", &llama, NULL, "blocks.0.attn.hook_z", "values are rotated, too", BY_LOGITS,
     .differs = values_rotate},
    {"the first key unseen", &llama, NULL, "blocks.0.attn.hook_attn_scores",
     "only the first query sees the first key", BY_LOGITS, .differs = not_first_key},
    {"chunks", &gemma2, NULL, "blocks.0.attn.hook_attn_scores", "windows in chunks", BY_LOGITS, .differs = chunks},
    {"scores by layer", &gpt2, NULL, "blocks.1.attn.hook_attn_scores", "of layer n divided by n + 1",
     BY_LOGITS, .differs = by_layer},
    {"norm of k after RoPE", &qwen3, NULL, "blocks.0.attn.hook_rot_k", "norm of k alone after RoPE",
     BY_LOGITS, .differs = late_norm_of_k},
    {"activation of the product", &llama, NULL, "blocks.0.mlp.hook_post", "of gate times up, not of gate",
     BY_LOGITS, .differs = act_of_product},
    {"sum of squares", &llama, NULL, "blocks.0.ln1.hook_normalized", "of the sum of squares", BY_LOGITS,
     .differs = sum_not_mean},
    {"attention twice", &gpt2, NULL, "blocks.0.hook_attn_out", "attention's output times 2", BY_LOGITS,
     .differs = attention_twice},
    {"position embeddings times 0.6", &gpt2, NULL, "hook_pos_embed", "times 0.6",
     BY_LOGITS, .differs = positions_by_some},
    {"MLP times 1.3", &llama, NULL, "blocks.0.hook_mlp_out", "the MLP's output times 1.3", BY_LOGITS,
     .differs = mlp_by_some},
    {"the final norm twice", &llama, NULL, "ln_final.hook_normalized", "the final norm twice", BY_LOGITS,
     .differs = normed_twice},
    {"no caps", &gemma2, NULL, "blocks.0.attn.hook_attn_scores", "no soft cap on attention", BY_LOGITS,
     .differs = no_caps},
    {"residual scale", &granite, NULL, "blocks.0.hook_attn_out", "branches times 1", BY_LOGITS,
     .differs = all_of_branches},
    {"logit scale", &granite, NULL, "logits", "logits not multiplied", BY_LOGITS, .differs = logits_as_they_are},
    {"windows of other layers", &gemma2, NULL, "blocks.0.attn.hook_attn_scores",
     "the windows and the RoPE of layer n", BY_LOGITS, .differs = other_windows},
    {"logits by sqrt(n_embd)", &qwen3, NULL, "logits", "logits divided by sqrt", BY_LOGITS, .differs = logits_by_root},
    {"positions by twos", &llama, NULL, "blocks.0.attn.hook_rot_q", "at every multiple of 2 only", BY_LOGITS,
     .differs = by_twos},
    {"k the other way", &llama, NULL, "blocks.0.attn.hook_rot_k", "k alone in the other direction", BY_LOGITS,
     .differs = k_other_way},
    {"softmax over queries", &llama, NULL, "blocks.0.attn.hook_pattern", "softmax over the queries", BY_LOGITS,
     .differs = over_queries},
    {"mask transposed", &llama, NULL, "blocks.0.attn.hook_attn_scores", "the mask transposed", BY_LOGITS,
     .differs = later_keys},
    {"v is k", &llama, NULL, "blocks.0.attn.hook_z", "are the rotated keys", BY_LOGITS, .differs = values_are_keys},
    {"values of other heads", &llama_8, NULL, "blocks.0.attn.hook_z", "the values of KV head h % G", BY_LOGITS,
     .differs = v_tiled},
    {"no head 3", &llama, NULL, "blocks.0.attn.hook_z", "head 3 of all layers is left out", BY_LOGITS,
     .differs = no_head_3},
    {"embeddings by n_embd", &gemma2, NULL, "hook_embed", "embeddings times n_embd", BY_LOGITS,
     .differs = embedded_by_n},
    {"no ALiBi", &bloom, NULL, "blocks.0.attn.hook_attn_scores", "no ALiBi", BY_LOGITS, .differs = no_slopes},
    {"all layers rotate", &smollm3, NULL, "blocks.3.attn.hook_rot_q", "RoPE in all layers", BY_LOGITS,
     .differs = all_rotate},
    {"RoPE where there is none", &smollm3, NULL, "blocks.0.attn.hook_rot_q", "layers n with n % 4 = 3 have RoPE",
     BY_LOGITS, .differs = last_rotates_only},
    {"residual of what attention reads", &llama, NULL, "blocks.0.hook_resid_mid", "attention adds to what its norm",
     BY_LOGITS, .differs = normed_for_attention},
    {"biases after RoPE", &phi2, NULL, "blocks.0.attn.hook_q", "added after RoPE", BY_LOGITS, .differs = late_biases},
    {"softmax in bfloat16", &llama, NULL, "blocks.0.attn.hook_attn_scores",
     "attention scores and their softmax in bfloat16", BY_LOGITS, .differs = softmax_bf16},
    {"the MLP first", &llama, NULL, "blocks.0.ln1.hook_normalized", "the MLP comes before attention", BY_LOGITS,
     .differs = mlp_then_attention},
    {"norms of the sums", &gemma2, NULL, "blocks.0.hook_attn_out", "norms after branches follow the sums", BY_LOGITS,
     .differs = norms_of_sums_after},
    {"a mask of -10", &llama, NULL, "blocks.0.attn.hook_pattern", "have -10 added", BY_LOGITS,
     .differs = less_than_10},
    {"norms stored in bfloat16", &llama, NULL, "blocks.0.ln1.hook_normalized", "results of norms in bfloat16",
     BY_LOGITS, .differs = normed_bf16},
    {"no up", &llama, NULL, "blocks.0.mlp.hook_pre_linear", "the gate alone", BY_LOGITS, .differs = gate_alone},
    {"epsilon of the final norm", &llama, NULL, "ln_final.hook_normalized", "epsilon 0.001 of the final norm",
     BY_LOGITS, .differs = other_eps},
    {"raw weights of experts", &mixture, NULL, "blocks.0.mlp.hook_expert_weights", "by their scores", BY_LOGITS,
     .differs = raw_weights},
    {"rows of the router", &mixture, "rows blk.*.ffn_gate_inp.weight 1 5 0 1 2 3 4", "blocks.0.mlp.hook_router_scores",
     "the router: rows shifted by 1", BY_LOGITS, .told = "expert n is n - 1 here"},
    {"slopes of 6 heads", &bloom_6, NULL, "blocks.0.attn.hook_attn_scores", "though 6 is not a power of 2", BY_LOGITS,
     .differs = even_slopes},
    {"values of attention", &llama, NULL, "blocks.0.attn.hook_z", "the values of attention times 0.7", BY_LOGITS,
     .differs = values_scaled},
    {"adjacent pairs", &llama, NULL, "blocks.0.attn.hook_rot_q", "RoPE rotates adjacent pairs of q and k", BY_HOOKS,
     .differs = adjacent},
    {"sigmoid", &llama, NULL, "blocks.0.mlp.hook_post", "activation sigmoid", BY_LOGITS, .differs = sigmoid},
    {"positions from 5", &gpt2, NULL, "hook_pos_embed", "positions off by 5", BY_LOGITS, .differs = far_positions},
    {"the first token", &llama, NULL, "hook_embed", "the first token is", BY_LOGITS, .rename = other_first},
    {"one expert", &mixture, NULL, "blocks.0.mlp.hook_expert_weights", "an expert less", BY_LOGITS,
     .differs = one_expert},
    {"level queries", &mistral3, NULL, "blocks.0.attn.hook_rot_q", "queries do not grow", BY_LOGITS, .differs = level_queries},
    {"sum of experts", &mixture, NULL, "blocks.0.mlp.hook_expert_weights", "weights of a token's experts",
     BY_LOGITS, .differs = other_sum},
    {"gains of q and k", &qwen3, "plus blk.*.attn_q_norm.weight all 1; plus blk.*.attn_k_norm.weight all 1",
     "blocks.0.attn.hook_rot_q", "gains of norms of q and k - 1", BY_LOGITS},
    {"frequencies in bfloat16", &llama, NULL, "blocks.0.attn.hook_rot_q", "frequencies of RoPE in bfloat16",
     BY_LOGITS, .differs = freq_bf16},
    {"cache in float16", &qwen3, NULL, "blocks.0.attn.hook_attn_scores", "keys and values in float16",
     BY_LOGITS, .differs = cache_f16},
    {"pattern in bfloat16", &llama, NULL, "blocks.0.attn.hook_pattern", "weights of attention in bfloat16",
     BY_LOGITS, .differs = pattern_bf16},
    /* the logits of a pass so rounded agree, an inner value does not: no cause */
    {"norms in bfloat16, and more", &llama, NULL, "blocks.0.ln1.hook_normalized", NULL, BY_HOOKS,
     .differs = norms_bf16, .patch = last_ones_larger},
    {"weights in bfloat16, and more", &llama, NULL, "hook_embed", "ran in bfloat16", BY_HOOKS,
     .differs = weights_bf16, .patch = last_ones_larger},
    {"norms in bfloat16", &llama, NULL, "blocks.0.ln1.hook_normalized", "norms in bfloat16",
     BY_LOGITS, .differs = norms_bf16},
    {"angles in bfloat16", &llama, NULL, "blocks.0.attn.hook_rot_q", "angles of RoPE in bfloat16",
     BY_LOGITS, .differs = angles_bf16},
    {"the residual in bfloat16", &llama, NULL, "blocks.0.hook_resid_post", "the residual in bfloat16",
     BY_LOGITS, .differs = residual_bf16},
    {"a cache in float8", &llama, NULL, "blocks.0.attn.hook_attn_scores", "keys and values in float8 (E4M3)",
     BY_LOGITS, .differs = cache_f8},
    {"products in TF32", &llama, NULL, "blocks.0.attn.hook_q", "both sides of products in TF32", BY_LOGITS,
     .differs = products_tf32},
    {"gains before the norm", &llama, NULL, "blocks.0.ln1.hook_normalized", "multiplied before normalising",
     BY_LOGITS, .differs = gains_first},
    {"gains of q and k alone", &qwen3, NULL, "blocks.0.attn.hook_rot_q",
     "without normalising (norms of q and k)", BY_LOGITS, .differs = qk_not_normed},
    {"post-norm", &llama, NULL, "blocks.0.ln1.hook_normalized", "(post-norm)", BY_LOGITS, .differs = post_norms},
    {"norms of branches", &llama, NULL, "blocks.0.ln1.hook_normalized", "follow its branches", BY_LOGITS,
     .differs = branch_norms},
    {"norms before, not after", &olmo2, NULL, "blocks.0.ln1.hook_normalized", "come before its branches", BY_LOGITS,
     .differs = norms_first},
    {"the cap first", &gemma2, NULL, "blocks.0.attn.hook_attn_scores", "before they are scaled", BY_LOGITS,
     .differs = cap_first},
    {"the cap after the mask", &gemma2, NULL, "blocks.0.attn.hook_attn_scores", "after the mask", BY_LOGITS,
     .differs = cap_masked},
    {"softmax over heads", &gpt2, NULL, "blocks.0.attn.hook_pattern", "softmax over the heads", BY_LOGITS,
     .differs = over_heads},
    {"windows to both sides", &gemma2, NULL, "blocks.0.attn.hook_pattern", "windows to both sides", BY_LOGITS,
     .differs = both_sides},
    {"two first keys", &gemma2, NULL, "blocks.0.attn.hook_attn_scores", "the first 2 keys are seen", BY_LOGITS,
     .differs = two_first_keys},
    {"a prefix", &llama, NULL, "blocks.0.attn.hook_pattern", "the first 4 positions see each other", BY_LOGITS,
     .differs = prefix_of_4},
    {"a window of 6", &llama, NULL, "blocks.0.attn.hook_attn_scores", "a sliding window of 6 in all layers", BY_LOGITS,
     .differs = window_of_6},
    {"chunks of 6", &llama, NULL, "blocks.0.attn.hook_attn_scores", "its own chunk of 6 only", BY_LOGITS,
     .differs = chunks_of_6},
    {"lost keys", &llama, NULL, "blocks.0.attn.hook_attn_scores", "positions 5 to 7 are 0", BY_LOGITS,
     .differs = lost_keys},
    {"positions begin again", &llama, NULL, "blocks.0.attn.hook_rot_q", "begin again at every token that is a multiple of 6",
     BY_LOGITS, .differs = restarted},
    {"a layer again", &llama, NULL, "blocks.1.hook_resid_pre", NULL, "layer 1 runs twice", 1, .differs = second_again},
    {"both sines of one sign", &llama, NULL, "blocks.0.attn.hook_rot_q", "(a cos + b sin, a sin + b cos)", BY_LOGITS,
     .differs = sines_of_one_sign},
    {"turned by the head", &qwen3, NULL, "blocks.0.attn.hook_rot_q", "by the number of the head", BY_LOGITS,
     .differs = turned_by_head},
    {"one head turns", &llama, NULL, "blocks.0.attn.hook_rot_q", "only head 0 of q and k turns", BY_LOGITS,
     .differs = one_head_turns},
    {"k and v of the residual", &llama, NULL, "blocks.0.attn.hook_k", "products of k and v read the residual", BY_LOGITS,
     .differs = raw_kv},
    {"up + 1", &llama, NULL, "blocks.0.mlp.hook_post", "(up + 1)", BY_LOGITS, .differs = up_and_one},
    {"the MLP replaces", &llama, NULL, "blocks.0.hook_resid_post", "the MLP's output replaces", BY_LOGITS,
     .differs = mlp_replaces},
    {"the residual twice", &llama, NULL, "blocks.0.hook_resid_mid", "counts twice where attention", BY_LOGITS,
     .differs = residual_twice},
    {"the MLP adds to the input", &llama, NULL, "blocks.0.hook_resid_post", "added to the layer's input", BY_LOGITS,
     .differs = from_start},
    {"ALiBi before the scale", &bloom, NULL, "blocks.0.attn.hook_attn_scores", "times 1/sqrt(d)", BY_LOGITS,
     .differs = slopes_scaled},
    {"a gate of the sum", &shared, NULL, "blocks.0.hook_mlp_out", "weighs the sum", BY_LOGITS, .differs = gate_of_sum},
    {"a cap of x", &gemma2, NULL, "logits", "x tanh(x / c)", BY_LOGITS, .differs = cap_of_x},
};
/* clang-format on */

TEST(reports)
{
    size_t missed = 0;
    for (size_t i = 0; i < COUNT(cases); i += SANITIZED ? 3 : 1)
        missed += planted_missed(&cases[i], 0);
    assert_int_equal(missed, 0);
}
