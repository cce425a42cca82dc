/* The activations of an MLP, X(ID, name). Files, options and messages have the name; act_NAME of
 * kernels/spec/float_tmpl.h computes it. Three programs compute it again, by themselves:
 * math_activate of tools/check/oracle, exact.js of the lab, tests/spec/arithmetic.h. xIELU is not in
 * the list: it has constants in each layer and a function of its own. With a gate, silu is SwiGLU, as is
 * gelu_quick in gpt-oss, and gelu GeGLU.
 */
#ifndef MGPT_ACTIVATIONS_H
#define MGPT_ACTIVATIONS_H

#define ACTIVATIONS(X)                                                                             \
    X(RELU, relu)                                                                                  \
    X(RELU2, relu2) /* relu squared */                                                             \
    X(SILU, silu)                                                                                  \
    X(GELU_TANH, gelu_tanh)   /* the approximation */                                              \
    X(GELU_ERF, gelu_erf)     /* exact */                                                          \
    X(GELU_QUICK, gelu_quick) /* x sigmoid(1.702 x) */                                             \
    X(SIGMOID, sigmoid)

#define ACTIVATION_ID(id, name) ACT_##id,
enum act { ACTIVATIONS(ACTIVATION_ID) ACT_N_KINDS, ACT_XIELU = ACT_N_KINDS };

#define ACTIVATION_NAME(id, name) #name,
#define ACTIVATION_WORD(id, name) " " #name
#define ACTIVATION_NAMES ACTIVATIONS(ACTIVATION_WORD) /* " relu relu2 ..." */

#endif
