/* The usual suspects. See suspects.h. Each names what the reference does and this program does
 * not. */
#include "check/explain/suspects.h"

/* ---- the table --------------------------------------------------------------------------------- */

#define BIT(point) MGPT_POINT_BIT(MGPT_##point)
#define AT_ROPE (BIT(ROT_Q) | BIT(ROT_K))
#define AT_QKV (BIT(Q) | BIT(K) | BIT(V))
#define AT_START (BIT(EMBD) | BIT(POS_EMBD) | BIT(EMBD_NORM) | BIT(RESID_PRE))
#define AT_NORMS (BIT(ATTN_IN) | BIT(MLP_IN) | BIT(FINAL) | BIT(EMBD_NORM))
#define ANYWHERE (MGPT_POINT_BIT(MGPT_N_POINTS) - 1)
#define OF_TENSORS 0

/* Operations: set a number, negate a flag, read tensors otherwise, or a function of
 * whatif_edit.c. */
#define SET_SPEC(name, number)                                                                     \
    .edit = {.apply = edit_spec, .member = offsetof(struct oracle_spec, name), .x = number}
#define SET_LAYERS(name, number)                                                                   \
    .edit = {.apply = edit_layers, .member = offsetof(struct oracle_layer, name), .x = number}
#define CHOOSE(name, value)                                                                        \
    .edit = {.apply = choose_spec, .member = offsetof(struct oracle_spec, name), .a = value}
#define SEE_KEYS(which)                                                                            \
    .edit = {.apply = edit_all_keys, .member = offsetof(struct oracle_spec, mask), .a = which}
#define FLIP_EXPERTS(name)                                                                         \
    .edit = {.apply = flip_experts, .member = offsetof(struct oracle_spec, name)}
#define FLIP_SPEC(name) .edit = {.apply = flip_spec, .member = offsetof(struct oracle_spec, name)}
#define FLIP_LAYERS(name)                                                                          \
    .edit = {.apply = flip_layers, .member = offsetof(struct oracle_layer, name)}
#define DO(function, number) .edit = {.apply = function, .a = number}
#define READ(how, which) .edit = {.apply = edit_tensors, .change = how, .names = which}
#define SWAP(one, two)                                                                             \
    .edit = {.apply = edit_tensors, .change = TENSORS_SWAPPED, .names = one, .other = two}
#define SWAP_BIASES(one, two)                                                                      \
    .edit = {.apply = edit_tensors,                                                                \
             .change = TENSORS_SWAPPED,                                                            \
             .names = one,                                                                         \
             .other = two,                                                                         \
             .kind = ".bias"}
#define FLIP_QK(name) .edit = {.apply = flip_qk_norm, .member = offsetof(struct oracle_spec, name)}

#define IN_LAYERS(function, which) .edit = {.apply = function, .layers = which}
#define READ_KIND(how, which, of)                                                                  \
    .edit = {.apply = edit_tensors, .change = how, .names = which, .kind = of}
#define MOVE_LAYERS(by) .edit = {.apply = edit_tensors, .change = LAYERS_MOVED, .a = by}
#define ADD_TO_GAINS(number, which)                                                                \
    .edit = {.apply = edit_tensors, .change = GAINS_SHIFTED, .x = number, .names = which}
#define COPY(to, from)                                                                             \
    .edit = {.apply = edit_tensors, .change = TENSORS_COPIED, .names = to, .other = from}
#define OF_NORMS EACH_OF("output_norm=the final norm", "attn_q_norm attn_k_norm=norms of q and k")

/* Arguments. */
#define COUNT(type, ...) (sizeof((const type[]){__VA_ARGS__}) / sizeof(type))
#define NUMBERS(...) .numbers = (const double[]){__VA_ARGS__}, .n = COUNT(double, __VA_ARGS__)
#define EACH_OF(...)                                                                               \
    .tensors = (const char *const[]){__VA_ARGS__}, .n = COUNT(char *const, __VA_ARGS__)
#define TIMES(name, to_power) .size = offsetof(struct oracle_spec, name), .power = to_power
#define MATRICES                                                                                   \
    EACH_OF("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up",         \
            "ffn_down")
#define PARTS                                                                                      \
    EACH_OF("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up",         \
            "ffn_down", "attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm",                     \
            "post_attention_norm", "post_ffw_norm")
#define SCALABLE                                                                                   \
    EACH_OF("attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down", "attn_norm", "ffn_norm",    \
            "attn_norm ffn_norm=both norms", "attn_q_norm", "attn_k_norm", "token_embd")
#define SCALABLE_BIASES                                                                            \
    EACH_OF("attn_q attn_k attn_v=q, k and v", "attn_qkv", "attn_q", "attn_k", "attn_v",           \
            "attn_output", "ffn_up", "ffn_gate", "ffn_down", "attn_norm ffn_norm=both norms",      \
            "output_norm")
#define SHAREABLE                                                                                  \
    EACH_OF("attn_norm", "ffn_norm", "attn_norm ffn_norm=both norms", "attn_q_norm",               \
            "attn_k_norm", "attn_q_norm attn_k_norm=norms of q and k",                             \
            "attn_norm attn_qkv attn_q attn_k attn_v attn_output=attention", "attn_q", "attn_k",   \
            "attn_v", "attn_output", "ffn_norm ffn_gate ffn_up ffn_down=the MLP", "ffn_gate",      \
            "ffn_up", "ffn_down")
#define OF_HEADS                                                                                   \
    EACH_OF("attn_q attn_k attn_v=q, k and v", "attn_q=q", "attn_k attn_v=k and v", "attn_k=k",    \
            "attn_v=v", "attn_output=attention's output")
#define QK_ROWS EACH_OF("attn_q attn_k=q and k", "attn_q=q", "attn_k=k")

/* clang-format off */
/* Text, points, whether one layer alone may have it, operation, arguments. */
const struct suspect_row suspect_rows[] = {
    {"RoPE rotates halves, not adjacent pairs (or rows of q and k are stored so)|"
     "RoPE rotates adjacent pairs, not halves (or rows of q and k are stored so)", AT_ROPE, 1,
     .edit = {.apply = edit_pairs, .member = offsetof(struct oracle_layer, halves)}},
    {"rows of %s permuted once too often, or not at all: in halves' order", OF_TENSORS, 1,
     READ(ORDER_FROM_PAIRS, ""), QK_ROWS},
    {"rows of %s permuted once too often, or not at all: in pairs' order", OF_TENSORS, 1,
     READ(ORDER_TO_PAIRS, ""), QK_ROWS},
    {"q and k recorded as GGUF and llama2.c have them, a pair side by side, not in halves",
     BIT(Q) | BIT(K) | AT_ROPE, 1, DO(edit_as_stored, 0)},
    {"no RoPE at all", AT_ROPE, 1, DO(edit_no_rope, 0)},
    {"RoPE rotates in the other direction", AT_ROPE, 1, .edit = {.apply = edit_rope_factor, .x = -1}},
    {"rope frequencies without scaling or divisors", AT_ROPE, 0, DO(edit_rope_unscaled, 0)},
    {"rope base %.6g, not %.6g", AT_ROPE, 0, IN_LAYERS(edit_rope_base, LAYERS_ALL),
     NUMBERS(1e4, 5e5, 1e6, 5e6, 1e5, 1.5e5, 2e5, 2.5e5, 5e4, 1.6e5, 1e3, 5e3, 2e4, 2.5e4, 4e4,
             7.5e4, 3e5, 4e5, 1.5e6, 2e6, 3e6, 4e6, 8e6, 1e7, 5e7, 1e8, 500), .starts = {1.1e4}},
    {"rope positions divided by %.6g", AT_ROPE, 0, DO(edit_rope_factor, 0),
     NUMBERS(2, 4, 8, 16, 32, 0.5, 0.25, 0.125), .starts = {1.01}},
    {"rope scaled as Llama 3.1 does, factor %.6g, original length %d", AT_ROPE, 0,
     DO(edit_rope_llama3, 0), NUMBERS(8, 32, 4, 16, 2, 64)},
    {"linear rope scaling, factor %.6g", AT_ROPE, 0, DO(edit_rope_linear, 0),
     NUMBERS(2, 4, 8, 16, 32, 64)},
    {"rope scaled as Llama 3.1 does, factor %.6g, original length %d, low_freq_factor 1, "
     "high_freq_factor %d", AT_ROPE, 0, DO(edit_rope_llama3, 1), NUMBERS(8, 32)},
    {"rope scaled as YaRN does, factor %.6g, original length %d", AT_ROPE, 0,
     DO(edit_rope_yarn, 0), NUMBERS(4, 2, 8, 16, 32, 40, 64)},
    {"rope scaled as YaRN does without rounding its bounds, factor %.6g, original length %d", AT_ROPE, 0,
     DO(edit_rope_yarn, 1), NUMBERS(4, 2, 8, 16, 32, 40, 64)},
    {"NTK rope scaling, factor %.6g", AT_ROPE, 0, DO(edit_rope_ntk, 0), NUMBERS(2, 4, 8, 16, 32)},
    {"rope positions of layers without a window divided by %.6g", AT_ROPE, 0,
     IN_LAYERS(edit_rope_factor, LAYERS_GLOBAL), NUMBERS(8, 2, 4, 16, 0.125, 0.5, 0.25)},
    {"rope positions of layers with a window divided by %.6g", AT_ROPE, 0,
     IN_LAYERS(edit_rope_factor, LAYERS_WINDOWED), NUMBERS(8, 2, 4, 16)},
    {"layers with a window have the rope base of the others", AT_ROPE, 0,
     IN_LAYERS(edit_rope_other, LAYERS_WINDOWED)},
    {"layers without a window have the rope base of those with one", AT_ROPE, 0,
     IN_LAYERS(edit_rope_other, LAYERS_GLOBAL)},
    {"rope base %.6g in layers without a window", AT_ROPE, 0,
     IN_LAYERS(edit_rope_base, LAYERS_GLOBAL), NUMBERS(1e4, 1e5, 5e5, 1e6), .starts = {1.1e4}},
    {"rope base %.6g in layers with a window", AT_ROPE, 0,
     IN_LAYERS(edit_rope_base, LAYERS_WINDOWED), NUMBERS(1e4, 1e5, 5e5, 1e6), .starts = {1.1e4}},
    {"no RoPE in layers without a window", AT_ROPE, 0, IN_LAYERS(edit_no_rope, LAYERS_GLOBAL)},
    {"no RoPE in layers with a window", AT_ROPE, 0, IN_LAYERS(edit_no_rope, LAYERS_WINDOWED)},
    {"RoPE turns ", AT_ROPE, 0, DO(edit_rotated, 0)},
    {"RoPE turns a pair (a, b) into ", AT_ROPE, 0, DO(edit_turn_form, 0)},
    {"RoPE turns by the number of the head, not by the position (before heads and positions change places)",
     AT_ROPE, 0, FLIP_SPEC(turn_by_head)},
    {"only the first %d heads of q and k turn", AT_ROPE, 0, DO(edit_turn_heads, 0)},
    {"q is not rotated", AT_ROPE, 0, FLIP_SPEC(no_rope_q)},
    {"k is not rotated", AT_ROPE, 0, FLIP_SPEC(no_rope_k)},
    {"q is rotated twice", AT_ROPE, 0, FLIP_SPEC(rope_again_q)},
    {"k is rotated twice", AT_ROPE, 0, FLIP_SPEC(rope_again_k)},
    {"keys are rotated as one position further on", BIT(ROT_K), 0, CHOOSE(shift_k, 1)},
    {"keys are rotated as one position before", BIT(ROT_K), 0, CHOOSE(shift_k, -1)},
    {"values are rotated, too", BIT(HEADS), 0, DO(edit_rope_values, 0)},
    {"RoPE in all layers", AT_ROPE, 0, DO(edit_rope_everywhere, 0)},
    {"the windows and the RoPE of layer n are those of layer n + 1 here", AT_ROPE | BIT(SCORES), 0,
     DO(edit_layers_pattern, 1)},
    {"the windows and the RoPE of layer n are those of layer n - 1 here", AT_ROPE | BIT(SCORES), 0,
     DO(edit_layers_pattern, -1)},
    {"rows of %s permuted as of %d head%s", OF_TENSORS, 0, READ(ORDER_REBLOCKED, ""),
     QK_ROWS},
    {"rows of %s permuted as of %d head%s", OF_TENSORS, 0, READ(ORDER_UNBLOCKED, ""),
     QK_ROWS},
    {"rows of %s permuted once too often, as of %d head%s", OF_TENSORS, 0,
     READ(ORDER_FROM_PAIRS, ""), QK_ROWS},
    {"rows of %s permuted once too often, as of %d head%s", OF_TENSORS, 0,
     READ(ORDER_TO_PAIRS, ""), QK_ROWS},
    {"rows of %s permuted twice", OF_TENSORS, 0,
     .edit = {.apply = edit_tensors, .change = ORDER_TO_PAIRS, .names = "", .b = 1}, QK_ROWS},
    {"rows of %s permuted back twice", OF_TENSORS, 0,
     .edit = {.apply = edit_tensors, .change = ORDER_FROM_PAIRS, .names = "", .b = 1}, QK_ROWS},
    {"biases of %s in another order than the rows: in halves'", OF_TENSORS, 0,
     READ_KIND(ORDER_FROM_PAIRS, "", ".bias"), QK_ROWS},
    {"biases of %s in another order than the rows: in pairs'", OF_TENSORS, 0,
     READ_KIND(ORDER_TO_PAIRS, "", ".bias"), QK_ROWS},
    {"rows of %s permuted, but not their biases: in halves' order", OF_TENSORS, 0,
     READ_KIND(ORDER_FROM_PAIRS, "", ".weight"), QK_ROWS},
    {"rows of %s permuted, but not their biases: in pairs' order", OF_TENSORS, 0,
     READ_KIND(ORDER_TO_PAIRS, "", ".weight"), QK_ROWS},

    {"only the first query sees the first key", BIT(SCORES), 0,
     CHOOSE(mask, ORACLE_NOT_FIRST_KEY)},
    {"a BOS in front of the tokens (missing here)", ANYWHERE, 0, DO(edit_bos_added, 0)},
    {"no BOS, the first token is not there (doubled here)", ANYWHERE, 0, DO(edit_first_dropped, 0)},
    {"padding in front that the others see: token %d, %d time%s", ANYWHERE, 0, DO(edit_padded, 0)},
    {"the first token is %d in the reference", ANYWHERE, 0, DO(edit_first_token, 0)},
    {"row n of the reference is that of position n + 1", ANYWHERE, 0, DO(edit_rows_shifted, -1)},
    {"row n of the reference is that of position n - 1", ANYWHERE, 0, DO(edit_rows_shifted, 1)},
    {"tokens moved: the reference's token n is the one named n + 1", ANYWHERE, 0,
     DO(edit_tokens_moved, 1)},
    {"tokens moved: the reference's token n is the one named n - 1", ANYWHERE, 0,
     DO(edit_tokens_moved, -1)},
    {"tokens moved: the reference's begin with BOS, and token n is the one named n - 1", ANYWHERE,
     0, .edit = {.apply = edit_tokens_moved, .a = -1, .b = 1}},
    {"token ids larger by one", AT_START, 0, DO(edit_ids_shifted, 1)},
    {"token ids smaller by one", AT_START, 0, DO(edit_ids_shifted, -1)},
    {"positions", AT_START | AT_ROPE, 0, DO(edit_places, 0)},
    {"positions off by one: the first is 1", AT_START | AT_ROPE, 0, DO(edit_positions, 1)},
    {"positions off by one: the first two are 0", AT_START | AT_ROPE, 0, DO(edit_positions, -1)},
    {"positions off by two: the first is 2", AT_START | AT_ROPE, 0, DO(edit_positions, 2)},
    {"positions off by %.6g, as if there were padding in front", AT_START | AT_ROPE, 0, DO(edit_positions, 0),
     NUMBERS(3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)},

    {"no 1/sqrt(d) in attention", BIT(SCORES), 1, SET_LAYERS(attn_scale, 1)},
    {"1/sqrt(d) in attention", BIT(SCORES), 1, SET_LAYERS(attn_scale, 1), TIMES(head_dim, -0.5)},
    {"1/d in attention (scaled twice)", BIT(SCORES), 1, SET_LAYERS(attn_scale, 1),
     TIMES(head_dim, -1)},
    {"1/sqrt(n_embd) in attention", BIT(SCORES), 0, SET_LAYERS(attn_scale, 1), TIMES(n_embd, -0.5)},
    {"attention scores times %.6g", BIT(SCORES), 0, SET_LAYERS(attn_scale, 0), .starts = {0.1, 1}},
    {"cosines and sines of RoPE times %.6g (its attention factor)", AT_ROPE, 0, SET_LAYERS(rope_scale, 0),
     NUMBERS(1), .starts = {0.9, 1.2}},
    {"keys that are not seen have a score of 0, not -infinity", BIT(SCORES) | BIT(WEIGHTS), 0,
     .edit = {.apply = edit_all_keys, .member = offsetof(struct oracle_spec, cap_at), .a = ORACLE_MASKED_0}},
    {"the soft cap on attention scores before they are scaled", BIT(SCORES), 0, CHOOSE(cap_at, ORACLE_CAP_FIRST)},
    {"the soft cap on attention scores after the mask: keys that are not seen count", BIT(SCORES), 0,
     .edit = {.apply = edit_all_keys, .member = offsetof(struct oracle_spec, cap_at), .a = ORACLE_CAP_MASKED}},
    {"no soft cap on attention scores", BIT(SCORES), 0, SET_SPEC(attn_cap, 0)},
    {"a soft cap of %.6g on attention scores", BIT(SCORES), 0, SET_SPEC(attn_cap, 0), NUMBERS(50),
     .starts = {50, 5}},
    {"no ALiBi", BIT(SCORES), 0, SET_SPEC(alibi, 0)},
    {"ALiBi", BIT(SCORES), 0, DO(edit_alibi, 0)},
    {"softmax over all keys, also those after the query, whose weights become 0 after it", BIT(WEIGHTS) | BIT(HEADS), 0,
     .edit = {.apply = edit_all_keys, .member = offsetof(struct oracle_spec, softmax), .a = ORACLE_OF_ALL_KEYS}},
    {"the sum of softmax begins with 1, not 0", BIT(WEIGHTS) | BIT(HEADS), 0, CHOOSE(softmax, ORACLE_SUM_FROM_1)},
    {"softmax has one more score, which is 0", BIT(WEIGHTS) | BIT(HEADS), 0, CHOOSE(softmax, ORACLE_SUM_WITH_0)},
    {"softmax over the heads, not over the keys", BIT(WEIGHTS) | BIT(HEADS), 0,
     .edit = {.apply = edit_all_keys, .member = offsetof(struct oracle_spec, softmax), .a = ORACLE_OVER_HEADS}},
    {"keys and values of positions %d to %d are 0", BIT(ROT_K) | BIT(SCORES) | BIT(HEADS), 0, DO(edit_zero_keys, 0)},
    {"no sliding window", BIT(SCORES), 0, DO(edit_window, 0)},
    {"all layers with a window (and its RoPE)", AT_ROPE | BIT(SCORES), 0,
     IN_LAYERS(edit_layers_alike, LAYERS_GLOBAL)},
    {"no layer with a window (or its RoPE)", AT_ROPE | BIT(SCORES), 0,
     IN_LAYERS(edit_layers_alike, LAYERS_WINDOWED)},
    {"a sliding window of one more", BIT(SCORES), 0, DO(edit_window, 1)},
    {"a sliding window of one less", BIT(SCORES), 0, DO(edit_window, -1)},
    {"a sliding window of %.6g", BIT(SCORES), 0, DO(edit_window_size, 0)},
    {"a query sees its own chunk of %d only, not the keys before it", BIT(SCORES), 0,
     .edit = {.apply = edit_window_all, .b = 1}},
    {"a sliding window of %d in all layers", BIT(SCORES), 0, DO(edit_window_all, 0)},
    {"the first %d keys are seen in spite of the window", BIT(SCORES), 0, DO(edit_first_keys, 0)},
    {"the first %d positions see each other: a prefix without a mask", BIT(SCORES), 0, DO(edit_prefix, 0)},
    {"windows to both sides: a query sees as many keys after it", BIT(SCORES), 0, SEE_KEYS(ORACLE_BOTH_SIDES)},
    {"a query sees the next key, too", ANYWHERE, 0, SEE_KEYS(ORACLE_NEXT_KEY)},
    {"no causal mask: a query sees all keys", ANYWHERE, 0, SEE_KEYS(ORACLE_ALL_KEYS)},
    {"a query does not see its own key", BIT(SCORES), 0, SEE_KEYS(ORACLE_NOT_OWN_KEY)},
    {"windows in chunks: a query sees its own chunk, not the keys before it", BIT(SCORES), 0,
     CHOOSE(mask, ORACLE_CHUNKS)},
    {"attention scores of layer n divided by n + 1", BIT(SCORES), 0, DO(edit_scale_by_layer, 0)},
    {"keys and values one position late: a query sees the one before as its own", BIT(SCORES) | BIT(HEADS),
     1, FLIP_LAYERS(kv_late)},
    {"outputs of heads not transposed, [H][T][d] taken for [T][H d]", BIT(HEADS), 0,
     .edit = {.apply = edit_all_keys, .member = offsetof(struct oracle_spec, heads_first), .a = 1}},
    {"query head h reads KV head h %% G, not h / (H / G)", BIT(SCORES) | BIT(HEADS), 0,
     DO(edit_kv_heads, ORACLE_KV_INTERLEAVED)},
    {"all query heads read KV head 0", BIT(SCORES) | BIT(HEADS), 0,
     DO(edit_kv_heads, ORACLE_KV_FIRST)},
    {"query head h reads KV head h, or the last one", BIT(SCORES) | BIT(HEADS), 0,
     DO(edit_kv_heads, ORACLE_KV_SAME)},
    {"query head h reads KV head h / G, not h / (H / G)", BIT(SCORES) | BIT(HEADS), 0,
     DO(edit_kv_heads, ORACLE_KV_BY_NUMBER)},
    {"no clamp of q, k, v", AT_QKV, 0, SET_SPEC(clamp, 0)},
    {"norms of q and k|no norms of q and k", AT_ROPE | BIT(SCORES), 0, FLIP_SPEC(qk_norm)},
    {"no norm of q", AT_ROPE, 0, FLIP_QK(no_norm_q)},
    {"no norm of k", AT_ROPE, 0, FLIP_QK(no_norm_k)},
    {"norms of q and k after RoPE, not before (or the reverse)", AT_ROPE, 0, FLIP_QK(qk_norm_late)},
    {"norm of q alone after RoPE, not before (or the reverse)", BIT(ROT_Q), 0,
     FLIP_QK(norm_moved_q)},
    {"norm of k alone after RoPE, not before (or the reverse)", BIT(ROT_K), 0,
     FLIP_QK(norm_moved_k)},
    {"norms of q and k over all heads or each head, not as here", AT_ROPE, 0,
     FLIP_QK(qk_norm_other)},
    {"heads of another width", AT_ROPE | BIT(SCORES) | BIT(HEADS), 0, DO(edit_head_width, 0)},

    {"gate and up exchanged", OF_TENSORS, 1, SWAP("ffn_gate", "ffn_up")},
    {"q and k exchanged", OF_TENSORS, 1, SWAP("attn_q", "attn_k")},
    {"k and v exchanged", OF_TENSORS, 1, SWAP("attn_k", "attn_v")},
    {"q and v exchanged", OF_TENSORS, 1, SWAP("attn_q", "attn_v")},
    {"biases of q and k exchanged", OF_TENSORS, 1, SWAP_BIASES("attn_q", "attn_k")},
    {"biases of k and v exchanged", OF_TENSORS, 1, SWAP_BIASES("attn_k", "attn_v")},
    {"biases of q and v exchanged", OF_TENSORS, 1, SWAP_BIASES("attn_q", "attn_v")},
    {"biases of gate and up exchanged", OF_TENSORS, 1, SWAP_BIASES("ffn_gate", "ffn_up")},
    {"q and attention's output exchanged", OF_TENSORS, 1, SWAP("attn_q", "attn_output")},
    {"the two norms of a layer exchanged", OF_TENSORS, 1, SWAP("attn_norm", "ffn_norm")},
    {"the two norms after the branches exchanged", OF_TENSORS, 1,
     SWAP("post_attention_norm", "post_ffw_norm")},
    {"the norms after attention and before the MLP exchanged", OF_TENSORS, 1,
     SWAP("post_attention_norm", "ffn_norm")},
    {"the norms before and after attention exchanged", OF_TENSORS, 1,
     SWAP("attn_norm", "post_attention_norm")},
    {"the norms before and after the MLP exchanged", OF_TENSORS, 1, SWAP("ffn_norm", "post_ffw_norm")},
    {"norms of q and k exchanged", OF_TENSORS, 1, SWAP("attn_q_norm", "attn_k_norm")},
    {"embedding and head exchanged", OF_TENSORS, 1, SWAP("output", "token_embd")},

    {"activation %s", BIT(MLP_POST), 1, DO(edit_activation, 0),
     EACH_OF("gelu_tanh", "gelu_erf", "gelu_quick", "silu", "relu", "relu2", "sigmoid", "tanh",
             "none")},
    {"activation of gate times up, not of gate", BIT(MLP_POST), 1, DO(edit_act_late, 0)},
    {"the activation of gate and of up", BIT(MLP_POST), 1, FLIP_LAYERS(act_both)},
    {"the gate times (up + %.6g), not times up", BIT(MLP_POST), 0, SET_SPEC(up_more, 0), NUMBERS(1, -1)},
    {"gate and up are read from one matrix half by half, whose rows are those of gate and up in turn",
     OF_TENSORS, 1, .edit = {.apply = edit_tensors, .change = ROWS_INTERLEAVED, .names = "ffn_gate ffn_up", .a = 1}},
    {"gate and up are read from one matrix row by row in turn, which has gate, then up", OF_TENSORS, 1,
     .edit = {.apply = edit_tensors, .change = ROWS_INTERLEAVED, .names = "ffn_gate ffn_up"}},
    {"a final norm|no final norm", BIT(FINAL) | BIT(LOGITS), 0, FLIP_SPEC(final_norm)},
    {"the final norm twice", BIT(FINAL) | BIT(LOGITS), 0, CHOOSE(final_norm, 2)},
    {"a norm after the embedding|no norm after the embedding", BIT(EMBD_NORM) | BIT(RESID_PRE), 0,
     FLIP_SPEC(embd_norm)},
    {"LayerNorm, not RMSNorm|RMSNorm, not LayerNorm", AT_NORMS, 0, FLIP_SPEC(layer_norm)},
    {"no norm (or another) before attention", BIT(ATTN_IN), 1, FLIP_LAYERS(attn_norm)},
    {"no norm (or another) before the MLP", BIT(MLP_IN), 1, FLIP_LAYERS(mlp_norm)},
    {"gains of norms + 1", AT_NORMS, 0, ADD_TO_GAINS(1, NULL)},
    {"gains of norms - 1", AT_NORMS, 0, ADD_TO_GAINS(-1, NULL)},
    {"gains of %s + 1", OF_TENSORS, 0, ADD_TO_GAINS(1, ""), OF_NORMS},
    {"gains of %s - 1", OF_TENSORS, 0, ADD_TO_GAINS(-1, ""), OF_NORMS},
    {"epsilon of norms %.6g", AT_NORMS | AT_ROPE, 0, SET_SPEC(eps, 0),
     NUMBERS(1e-5, 1e-6, 1e-8, 1e-12, 1e-4, 1e-3, 1e-2, 1e-7), .starts = {1e-3, 1e-5}},

    {"tied head: the token embedding, not output.weight", OF_TENSORS, 0,
     READ(TENSOR_HIDDEN, "output.weight")},
    {"no soft cap on the logits", BIT(LOGITS), 0, SET_SPEC(softcap, 0)},
    {"a soft cap of %.6g on the logits", BIT(LOGITS), 0, SET_SPEC(softcap, 0),
     NUMBERS(30, 15, 50, 20), .starts = {30}},
    {"logits not multiplied by their scale", BIT(LOGITS), 0, SET_SPEC(logit_scale, 1)},
    {"embeddings times sqrt(n_embd)", BIT(EMBD), 0, SET_SPEC(embd_scale, 1), TIMES(n_embd, 0.5)},
    {"embeddings times n_embd", BIT(EMBD), 0, SET_SPEC(embd_scale, 1), TIMES(n_embd, 1)},
    {"embeddings not multiplied", BIT(EMBD), 0, SET_SPEC(embd_scale, 1)},
    {"embeddings times %.6g", BIT(EMBD) | BIT(RESID_PRE), 0, SET_SPEC(embd_scale, 0),
     .starts = {1, 8}},
    {"position embeddings times %.6g", BIT(POS_EMBD), 0, SET_SPEC(position_times, 0),
     NUMBERS(2, 0.5), .starts = {0.7}},
    {"branches times %.6g", BIT(ATTN_OUT) | BIT(MLP_OUT), 0, SET_SPEC(residual_scale, 0), NUMBERS(1),
     .starts = {0.5, 1}},
    {"attention's output times %.6g", BIT(ATTN_OUT), 0, SET_SPEC(attn_times, 0), NUMBERS(2, 0.5),
     .starts = {0.7}},
    {"the MLP's output times %.6g", BIT(MLP_OUT), 0, SET_SPEC(mlp_times, 0), NUMBERS(2, 0.5),
     .starts = {0.7}},
    {"parallel branches, not sequential|sequential branches, not parallel",
     BIT(RESID_MID) | BIT(MLP_IN), 1, FLIP_LAYERS(parallel)},
    {"norms", AT_NORMS | AT_ROPE | BIT(ATTN_OUT) | BIT(MLP_OUT), 0, DO(edit_norms, 0)},
    {"the norms of a layer follow its branches, whose sums with the residual are not normed",
     BIT(ATTN_IN) | BIT(ATTN_OUT), 0, CHOOSE(norm_order, ORACLE_NORMS_OF_BRANCHES)},
    {"the norms of a layer follow the sums of its branches and the residual (post-norm)",
     BIT(ATTN_IN) | BIT(ATTN_OUT) | BIT(RESID_MID), 0, CHOOSE(norm_order, ORACLE_NORMS_OF_SUMS)},
    {"the norms of a layer come before its branches, not after them", BIT(ATTN_IN) | BIT(ATTN_OUT), 0,
     CHOOSE(norm_order, ORACLE_NORMS_FIRST)},
    {"the products of %s read the residual, not its norm", AT_QKV | BIT(MLP_PRE) | BIT(ROUTER_SCORES), 1,
     DO(edit_raw, 0)},
    {"branches add to what their norm gives, not to what it reads", BIT(RESID_MID) | BIT(RESID_POST),
     1, FLIP_LAYERS(residual_normed)},
    {"attention replaces the residual, it is not added", BIT(RESID_MID), 1, SET_LAYERS(attn_more, -1)},
    {"the MLP's output replaces the residual, it is not added", BIT(RESID_POST), 1, SET_LAYERS(mlp_more, -1)},
    {"the residual counts twice where attention is added", BIT(RESID_MID), 1, SET_LAYERS(attn_more, 1)},
    {"the residual counts twice where the MLP is added", BIT(RESID_POST), 1, SET_LAYERS(mlp_more, 1)},
    {"the MLP is added to the layer's input, not to what attention left", BIT(RESID_POST), 1,
     FLIP_LAYERS(mlp_from_start)},
    {"the weights of a token's experts add up to 1|the weights of a token's experts do not add up to 1",
     BIT(EXPERT_WEIGHTS) | BIT(MLP_OUT), 0, FLIP_EXPERTS(expert_norm)},
    {"experts weighed by sigmoid, not softmax|experts weighed by softmax, not sigmoid",
     BIT(EXPERT_WEIGHTS) | BIT(MLP_OUT), 0, FLIP_EXPERTS(expert_sigmoid)},
    {"weights of experts not multiplied", BIT(EXPERT_WEIGHTS) | BIT(MLP_OUT), 0, SET_SPEC(expert_scale, 1)},
    {"an expert less for each token", BIT(EXPERT_WEIGHTS) | BIT(MLP_OUT), 0, DO(edit_experts_used, -1)},
    {"an expert more for each token", BIT(EXPERT_WEIGHTS) | BIT(MLP_OUT), 0, DO(edit_experts_used, 1)},
    {"all experts for each token", BIT(EXPERT_WEIGHTS) | BIT(MLP_OUT), 0, DO(edit_experts_used, 0)},
    {"the MLP reads the norm of attention|the MLP has a norm of its own", BIT(MLP_IN), 1,
     FLIP_LAYERS(shared_norm)},
    {"", ANYWHERE, 0, DO(edit_rounded, 0)},
    {"weights of %s in %s", ANYWHERE, 0, READ(TENSORS_QUANTISED, "")},
    {"layers in the reverse order", ANYWHERE, 0, MOVE_LAYERS(0)},
    {"layers one further on", ANYWHERE, 0, MOVE_LAYERS(1)},
    {"layers one further back", ANYWHERE, 0, MOVE_LAYERS(-1)},
    {"%s of layer n are those of layer n + 1 here", OF_TENSORS, 0,
     .edit = {.apply = edit_tensors, .change = LAYERS_MOVED, .a = 1}, SHAREABLE},
    {"%s of layer n are those of layer n - 1 here", OF_TENSORS, 0,
     .edit = {.apply = edit_tensors, .change = LAYERS_MOVED, .a = -1}, SHAREABLE},
    {"layer %d runs twice", ANYWHERE, 0, DO(edit_layer_again, 0)},
    {"head %d of layer %d is left out", BIT(HEADS), 0, DO(edit_lost_head, 0)},
    {"layers %d and %d exchanged", ANYWHERE, 0, READ(LAYERS_SWAPPED, "")},
    {"%s of layer %d is that of layer %d", OF_TENSORS, 0, READ(TENSOR_OF_LAYER, ""), PARTS},
    {"%s is 0", OF_TENSORS, 1, READ(TENSORS_ZERO, ""), PARTS},
    {"q is k's matrix", BIT(Q), 1, COPY("attn_q", "attn_k")},
    {"k is v's matrix", BIT(K), 1, COPY("attn_k", "attn_v")},
    {"v is k's matrix", BIT(V), 1, COPY("attn_v", "attn_k")},
    {"q is attention's output matrix", BIT(Q), 1, COPY("attn_q", "attn_output")},
    {"gate is up's matrix", BIT(MLP_PRE), 1, COPY("ffn_gate", "ffn_up")},
    {"up is gate's matrix", BIT(MLP_PRE) | BIT(MLP_PRE_LINEAR), 1, COPY("ffn_up", "ffn_gate")},
    {"the norm before attention is that before the MLP", BIT(ATTN_IN), 1, COPY("attn_norm", "ffn_norm")},
    {"the norm before the MLP is that before attention", BIT(MLP_IN), 1, COPY("ffn_norm", "attn_norm")},
    {"norms of q and k: k's for both", AT_ROPE, 1, COPY("attn_q_norm", "attn_k_norm")},
    {"norms of q and k: q's for both", AT_ROPE, 1, COPY("attn_k_norm", "attn_q_norm")},
    {"weights of %s times %.6g", OF_TENSORS, 0, READ(TENSORS_SCALED, ""), SCALABLE},
    {"biases of %s times %.6g", OF_TENSORS, 0, READ_KIND(TENSORS_SCALED, "", ".bias"), SCALABLE_BIASES},
    {"heads of q, k, v are stored by group, but read as all of q, of k, of v", AT_QKV, 0, READ(QKV_GROUPED, "")},
    {"q, k and v are stored one after the other, but read as heads by group", AT_QKV, 0,
     .edit = {.apply = edit_tensors, .change = QKV_GROUPED, .names = "", .a = 1}},
    {"experts %d and %d exchanged", BIT(MLP_OUT), 1, READ(EXPERTS_SWAPPED, "")},
    {"experts in reverse", BIT(MLP_OUT), 1, READ(EXPERTS_MOVED, "")},
    {"expert n is n + 1 here", BIT(MLP_OUT), 1, .edit = {.apply = edit_tensors, .change = EXPERTS_MOVED, .names = "", .a = 1}},
    {"layer %d has the tensors of layer %d", ANYWHERE, 0, READ(LAYER_OTHER, "")},
    {"all layers have %s of layer 0", OF_TENSORS, 0, READ(LAYERS_SHARED, ""), SHAREABLE},
    {"all layers have %s of the last one", OF_TENSORS, 0,
     .edit = {.apply = edit_tensors, .change = LAYERS_SHARED, .names = "", .a = -1}, SHAREABLE},
    {"layer %d is left out", ANYWHERE, 0, DO(edit_layer_skipped, 0)},
    {"layer %d's attention is left out", ANYWHERE, 0, .edit = {.apply = edit_layer_skipped, .x = -1}},
    {"layer %d's MLP is left out", ANYWHERE, 0, .edit = {.apply = edit_layer_skipped, .x = 1}},
    {"the layers from %d on are left out", ANYWHERE, 0, DO(edit_layers_cut, 0)},

    {"transposed: %s", OF_TENSORS, 1, READ(TENSORS_TRANSPOSED, ""),
     EACH_OF("attn_output", "attn_q attn_k attn_v attn_output", "attn_q attn_k attn_v",
             "attn_q attn_k", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_qkv attn_output",
             "ffn_up", "ffn_gate", "ffn_down", "ffn_up ffn_down", "ffn_gate ffn_up ffn_down",
             "output",
             "attn_qkv attn_output ffn_up ffn_down",
             "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down")},
    {"transposed before the rows were permuted: %s", OF_TENSORS, 1,
     .edit = {.apply = edit_tensors, .change = TENSORS_TRANSPOSED, .names = "", .b = 1},
     QK_ROWS},
    {"without %s", OF_TENSORS, 1, READ(TENSOR_HIDDEN, ""),
     EACH_OF("attn_norm.weight", "ffn_norm.weight", "output_norm.weight", "attn_norm.bias",
             "ffn_norm.bias", "output_norm.bias", "position_embd.weight",
             "post_attention_norm.weight", "post_ffw_norm.weight",
             "post_attention_norm.weight post_ffw_norm.weight=the norms after the branches",
             "attn_norm.bias ffn_norm.bias=the biases of both norms",
             "attn_norm.bias ffn_norm.bias output_norm.bias=the biases of all norms",
             "attn_q_norm.weight attn_k_norm.weight=the gains of q's and k's norms",
             "ffn_gate_inp_shexp.weight=the gate of the shared expert")},
    {"without %s", OF_TENSORS, 1, READ(TENSOR_HIDDEN, ""),
     EACH_OF("attn_q.bias attn_k.bias attn_v.bias=biases of q, k and v", "attn_q.bias=the bias of q",
             "attn_k.bias=the bias of k", "attn_v.bias=the bias of v", "attn_qkv.bias",
             "attn_q.bias attn_k.bias=biases of q and k", "attn_k.bias attn_v.bias=biases of k and v",
             "attn_q.bias attn_v.bias=biases of q and v", "attn_output.bias", "ffn_up.bias",
             "ffn_gate.bias", "ffn_down.bias", "ffn_up.bias ffn_down.bias=biases of up and down",
             "ffn_gate.bias ffn_up.bias=biases of gate and up",
             "ffn_gate.bias ffn_up.bias ffn_down.bias=biases of gate, up and down",
             "attn_output.bias ffn_down.bias=biases of attention's output and down",
             "attn_output.bias ffn_up.bias ffn_down.bias=biases of attention's output, up and down",
             "attn_output.bias ffn_gate.bias ffn_up.bias ffn_down.bias=biases of attention's output, "
             "gate, up and down",
             "attn_q.bias attn_k.bias attn_v.bias attn_output.bias=biases of q, k, v and "
             "attention's output", "output.bias")},
    {"without any bias", ANYWHERE, 1, READ_KIND(TENSOR_HIDDEN, "", ".bias")},
    {"row n of %s is row n + 1 here", OF_TENSORS, 1, READ(ORDER_ROW_NEXT, ""), MATRICES},
    {"row n of %s is row n - 1 here", OF_TENSORS, 1, READ(ORDER_ROW_PREVIOUS, ""), MATRICES},
    {"row n of %s is row n + 1 here", OF_TENSORS, 0, READ(ORDER_ROW_NEXT, ""),
     EACH_OF("position_embd", "output")},
    {"row n of %s is row n - 1 here", OF_TENSORS, 0, READ(ORDER_ROW_PREVIOUS, ""),
     EACH_OF("position_embd", "output")},

    {"attn_qkv read as %s; not as %s", AT_QKV, 0, READ(ORDER_QKV_AXES, "")},
    {"k, v, q in attn_qkv, not q, k, v", AT_QKV, 1,
     .edit = {.apply = edit_tensors, .change = ORDER_QKV_ROLLED, .names = "", .a = 2}},
    {"v, q, k in attn_qkv, not q, k, v", AT_QKV, 1,
     .edit = {.apply = edit_tensors, .change = ORDER_QKV_ROLLED, .names = "", .a = 1}},
    {"rows of %s stored component by component, read head by head", OF_TENSORS, 1, READ(ORDER_COMPONENTS, ""), OF_HEADS},
    {"rows of %s stored head by head, read component by component", OF_TENSORS, 1, READ(ORDER_HEADS, ""), OF_HEADS},
    {"heads of %s in reverse", OF_TENSORS, 1, READ(ORDER_REVERSED, ""), OF_HEADS},
    {"heads of %s %d further on", OF_TENSORS, 1, READ(ORDER_ROLLED, ""), OF_HEADS},
    {"heads of %s counted by group", OF_TENSORS, 1, READ(ORDER_GROUPED, ""), OF_HEADS},
    {"heads of %s counted against groups", OF_TENSORS, 1, READ(ORDER_UNGROUPED, ""), OF_HEADS},
    {"heads %d and %d of %s exchanged", OF_TENSORS, 1, READ(ORDER_SWAPPED, ""), OF_HEADS},
    {"halves of the rows of %s exchanged", OF_TENSORS, 1, READ(ORDER_HALVES, ""), MATRICES},
    {"rows of %s in reverse", OF_TENSORS, 1, READ(ORDER_BACKWARDS, ""), MATRICES},
};
/* clang-format on */
const size_t n_suspect_rows = sizeof suspect_rows / sizeof *suspect_rows;
