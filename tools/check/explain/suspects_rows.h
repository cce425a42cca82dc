/* The words that rows of suspects.c are written in: points, operations, arguments. */
#ifndef MGPT_SUSPECTS_ROWS_H
#define MGPT_SUSPECTS_ROWS_H

#include "check/explain/suspects.h"

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
#define SWAP_EARLY(one, of)                                                                        \
    .edit = {.apply = edit_tensors,                                                                \
             .change = TENSORS_SWAPPED,                                                            \
             .names = one,                                                                         \
             .other = "attn_v",                                                                    \
             .kind = of,                                                                           \
             .b = 1}
#define CHOOSE_LAYERS(name, value)                                                                 \
    .edit = {.apply = choose_layers, .member = offsetof(struct oracle_layer, name), .a = value}
#define TURN_ONE(of, how) .edit = {.apply = edit_turn_one, .x = -1, .a = of, .b = how}
#define FLIP_QK(name) .edit = {.apply = flip_qk_norm, .member = offsetof(struct oracle_spec, name)}

#define IN_LAYERS(function, which) .edit = {.apply = function, .layers = which}
#define READ_KIND(how, which, of)                                                                  \
    .edit = {.apply = edit_tensors, .change = how, .names = which, .kind = of}
#define MOVE_LAYERS(by) .edit = {.apply = edit_tensors, .change = LAYERS_MOVED, .a = by}
#define ADD_TO_GAINS(number, which)                                                                \
    .edit = {.apply = edit_tensors, .change = GAINS_SHIFTED, .x = number, .names = which}
#define COPY(to, from)                                                                             \
    .edit = {.apply = edit_tensors, .change = TENSORS_COPIED, .names = to, .other = from}
#define COPY_BIAS(to, from)                                                                        \
    .edit = {.apply = edit_tensors,                                                                \
             .change = TENSORS_COPIED,                                                             \
             .names = to,                                                                          \
             .other = from,                                                                        \
             .kind = ".bias"}
#define OF_NORMS                                                                                   \
    EACH_OF("output_norm=the final norm", "attn_q_norm attn_k_norm=norms of q and k",              \
            "attn_norm ffn_norm=the norms before branches", "attn_norm=the norm before attention", \
            "ffn_norm=the norm before the MLP",                                                    \
            "post_attention_norm post_ffw_norm=the norms after branches",                          \
            "post_attention_norm=the norm after attention",                                        \
            "post_ffw_norm=the norm after the MLP")

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

#endif
