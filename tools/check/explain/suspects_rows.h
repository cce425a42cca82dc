/* The words that rows of suspects.c are written in: points, operations, arguments. */
#ifndef MGPT_SUSPECTS_ROWS_H
#define MGPT_SUSPECTS_ROWS_H

#include "check/explain/suspects.h"

#define BIT(point) MGPT_POINT_BIT(MGPT_##point)
#define AT_ROPE (BIT(ROT_Q) | BIT(ROT_K))
#define AT_QKV (BIT(Q) | BIT(K) | BIT(V))
#define AT_START (BIT(EMBD) | BIT(POS_EMBD) | BIT(EMBD_NORM) | BIT(RESID_PRE))
#define AT_EXPERTS (BIT(EXPERT_WEIGHTS) | BIT(MLP_OUT))
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
#define FLIP_GATES(name) .edit = {.apply = flip_gates, .member = offsetof(struct oracle_spec, name)}
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
             .other = "W_V",                                                                       \
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
    EACH_OF("ln_final=the final norm", "q_norm k_norm=norms of q and k",                           \
            "ln1 ln2=the norms before branches", "ln1=the norm before attention",                  \
            "ln2=the norm before the MLP", "ln1_post ln2_post=the norms after branches",           \
            "ln1_post=the norm after attention", "ln2_post=the norm after the MLP")

/* Arguments. */
#define COUNT(type, ...) (sizeof((const type[]){__VA_ARGS__}) / sizeof(type))
#define NUMBERS(...) .numbers = (const double[]){__VA_ARGS__}, .n = COUNT(double, __VA_ARGS__)
#define EACH_OF(...)                                                                               \
    .tensors = (const char *const[]){__VA_ARGS__}, .n = COUNT(char *const, __VA_ARGS__)
#define TIMES(name, to_power) .size = offsetof(struct oracle_spec, name), .power = to_power
#define MATRICES EACH_OF("W_Q", "W_K", "W_V", "W_QKV", "W_O", "W_gate", "W_up", "W_down")
#define PARTS                                                                                      \
    EACH_OF("W_Q", "W_K", "W_V", "W_QKV", "W_O", "W_gate", "W_up", "W_down", "ln1", "ln2",         \
            "q_norm", "k_norm", "ln1_post", "ln2_post")
#define SCALABLE                                                                                   \
    EACH_OF("W_V", "W_O", "W_up", "W_gate", "W_down", "ln1", "ln2", "ln1 ln2=both norms",          \
            "q_norm", "k_norm", "W_E")
#define SCALABLE_BIASES                                                                            \
    EACH_OF("W_Q W_K W_V=q, k and v", "W_QKV", "W_Q", "W_K", "W_V", "W_O", "W_up", "W_gate",       \
            "W_down", "ln1 ln2=both norms", "ln_final")
#define SHAREABLE                                                                                  \
    EACH_OF("ln1", "ln2", "ln1 ln2=both norms", "q_norm", "k_norm",                                \
            "q_norm k_norm=norms of q and k", "ln1 W_QKV W_Q W_K W_V W_O=attention", "W_Q", "W_K", \
            "W_V", "W_O", "ln2 W_gate W_up W_down=the MLP", "W_gate", "W_up", "W_down")
#define OF_HEADS                                                                                   \
    EACH_OF("W_Q W_K W_V=q, k and v", "W_Q=q", "W_K W_V=k and v", "W_K=k", "W_V=v",                \
            "W_O=attention's output")
#define QK_ROWS EACH_OF("W_Q W_K=q and k", "W_Q=q", "W_K=k")

#endif
