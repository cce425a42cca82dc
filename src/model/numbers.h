/* The numbers of a model that multiply or limit values of the forward pass: one row each. From it
 * follow
 *   - the field of struct mgpt_model, float, and its reader (hyperparams.c);
 *   - which architectures refuse the key (known_keys.c), and that a model where the number has an
 *     effect takes the general page (fused_model.c);
 *   - mgpt_info's field of this name (INFO; facts.c);
 *   - the field of struct ckpt_hparams and the key that mgpt convert writes (write.c);
 *   - the field of struct oracle_spec, and what it is in an open model (oracle_model.c);
 *   - in tests, the field of struct toy_spec, the key in files of toys, their oracle's number.
 * A new number needs its row and the code that uses it in the page, and in the oracle.
 *
 * X(field, absent, kind, key, least, most, knows, info)
 *   absent  the value where the file has no key, for m, its row a of arch.c and its shape s
 *   kind    FACTOR: 1 has no effect.
 *           LIMIT, CAP: 0 is none, other values are in [least, most]; mgpt convert writes a CAP of 0,
 *           too, for an architecture whose files have another default. OWN: 0 is none; read by bind.c
 *   key     after the architecture's name
 *   knows   a KNOWS_ bit (arch.h): other architectures refuse a value with an effect; KNOWS_ALL:
 *           there are none
 * The converter's fields are 0 where there is no key.
 */
#ifndef MGPT_MODEL_NUMBERS_H
#define MGPT_MODEL_NUMBERS_H

/* clang-format off */
#define ATTENTION_NUMBERS(X)                                                                       \
    /* scores are q . k times it */                                                                \
    X(attn_scale, root_of_width(m), FACTOR, "attention.scale", 1e-6, 1e6, KNOWS_ALL, INFO)         \
    /* q, k and v are clamped to -it .. it */                                                      \
    X(qkv_clamp, 0, LIMIT, "attention.clamp_kqv", 1e-6, 1e6, KNOWS_ALL, )                          \
    /* of values */                                                                                \
    X(value_scale, 1, FACTOR, "attention.value_scale", 1e-6, 1e6, KNOWS_VALUES, INFO)               \
    /* of value embeddings (nanochat): times the sigmoid of their gates */                         \
    X(value_gate_scale, 0, OWN, "attention.value_gate_scale", 1e-6, 1e6, KNOWS_VALUE_GATES, )      \
    /* q at position i is multiplied by 1 + it * log(1 + floor(i / query_context)) */               \
    X(query_beta, 0, LIMIT, "attention.temperature_scale", 1e-6, 1e3, KNOWS_QUERY_SCALE, )         \
    /* q at position i is multiplied by (1 + (i + 1) / 2048)^it in layers without rope */           \
    X(query_power, a->query_power, LIMIT, "attention.temperature_power", 1e-3, 10, KNOWS_QUERY_POWER, )  \
    /* eps of the norms of latents; 0: that of the others */                                       \
    X(latent_eps, 0, LIMIT, "attention.latent_norm_epsilon", 1e-30, 1, KNOWS_LATENT, )            \
    /* ALiBi: the slopes of heads are powers of 2^-it */                                           \
    X(alibi, a->alibi, LIMIT, "attention.max_alibi_bias", 1e-3, 1e3, KNOWS_ALIBI, )

#define MLP_NUMBERS(X)                                                                             \
    /* the gate's product is clamped to at most it, up's to -it .. it */                           \
    X(glu_limit, a->glu_limit, LIMIT, "swiglu_limit", 1e-6, 1e6, KNOWS_CLAMPED_GLU, )              \
    /* is added to up's product before the gate multiplies it */                                   \
    X(up_more, a->up_more, LIMIT, "swiglu_offset", 1e-6, 1e6, KNOWS_CLAMPED_GLU, )                 \
    /* experts are chosen one after the other, each weighed among those whose score is not less    \
     * than the largest by more than 2 it, as a part of the larger magnitude */                    \
    X(expert_jitter, a->expert_jitter, LIMIT, "expert_jitter", 1e-6, 1, KNOWS_SPARSE_MIXER, )

#define STREAM_NUMBERS(X)                                                                          \
    /* of the token embedding */                                                                   \
    X(embd_scale, a->embd_root ? __builtin_sqrt((double)s->n_embd) : minicpm_scale(a, 12),         \
      FACTOR, "embedding_scale", 1e-6, 1e6, KNOWS_SCALES, )                                         \
    /* of what attention and MLP add to the residual stream */                                     \
    X(residual_scale, minicpm_scale(a, 1.4 / __builtin_sqrt((double)(s->n_layer ? s->n_layer : 1))),  \
      FACTOR, "residual_scale", 1e-6, 1e6, KNOWS_SCALES, INFO)                                     \
    /* of the logits; some architectures divide by the file's */                                   \
    X(logit_scale, minicpm_scale(a, (double)s->n_embd / 256),                                      \
      FACTOR, "logit_scale", 1e-6, 1e6, KNOWS_SCALES, INFO)                                        \
    /* scores become cap * tanh(score / cap) */                                                    \
    X(attn_softcap, a->score_cap, CAP, "attn_logit_softcapping", 1e-6, 1e6, KNOWS_SCORE_CAP, INFO) \
    /* logits become cap * tanh(logit / cap) */                                                    \
    X(logit_softcap, a->logit_cap, CAP, "final_logit_softcapping", 1e-6, 1e6, KNOWS_ALL, INFO)
/* clang-format on */

/* In the order in which mgpt convert writes their keys. */
#define MODEL_NUMBERS(X) ATTENTION_NUMBERS(X) MLP_NUMBERS(X) STREAM_NUMBERS(X)

/* The value without effect. */
#define NUMBER_NEUTRAL_FACTOR 1
#define NUMBER_NEUTRAL_LIMIT 0
#define NUMBER_NEUTRAL_CAP 0
#define NUMBER_NEUTRAL_OWN 0

#define NUMBER_FLOAT(field, ...) float field;
#define NUMBER_DOUBLE(field, ...) double field;

#endif
