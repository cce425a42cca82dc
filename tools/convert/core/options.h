/* The options of mgpt convert that say what a checkpoint does not: one row each, from which follow
 * the bit, the field of struct ckpt_options, the command's option and its help, and how a message
 * shows it. To add one: a row with the next free bit, the bit among those of the formats that it
 * applies to, and the code that reads the field.
 */
#ifndef MGPT_CONVERT_OPTIONS_H
#define MGPT_CONVERT_OPTIONS_H

#include "common/cli.h"
#include "kernels/activations.h"

#include <stddef.h>

/* clang-format off */
/* X(bit, ID, kind, field, group, name, argument, least, most, help), in the order that they have in a group
 * of --help (cli.h). Inputs of the fuzzer hold the bits. Kinds: INT and REAL (`field` is below `least` until it is given), TEXT,
 * CHOICE (one of the answers of a question in questions.c), FLAG. */
#define CKPT_OPTIONS(X)                                                                            \
    X(11, TOKENIZER, TEXT, tokenizer, IN_USED, "--tokenizer", "FILE", 0, 0,                        \
      "vocabulary; default: the format's own file next to IN")                                     \
    X(12, NO_TOKENIZER, FLAG, no_tokenizer, IN_VOCAB, "--no-tokenizer", NULL, 0, 0,                \
      "write no vocabulary")                                                                       \
    X(10, CHARS, TEXT, chars, IN_USED, "--chars", "FILE", 0, 0,                                    \
      "the characters in order, or the training text")                                             \
    X(0, HEADS, INT, n_head, IN_USED, "--heads", "N", 1, INT32_MAX, "attention heads")             \
    X(7, BOS, INT, bos, IN_VOCAB, "--bos", "ID", 0, INT32_MAX, "id of BOS")                        \
    X(5, ACTIVATION, TEXT, activation, IN_FACTS, "--activation", "NAME", 0, 0,                     \
      "one of" ACTIVATION_NAMES)                                                                   \
    X(6, EPS, REAL, eps, IN_FACTS, "--eps", "X", 0, 1, "epsilon of the norms")                     \
    X(13, ROPE, REAL, rope_base, IN_FACTS, "--rope", "BASE", 1, 1e12, "base of the rotation")      \
    X(14, SOFTCAP, REAL, softcap, IN_FACTS, "--softcap", "X", 0, 1e6,                              \
      "soft limit of the logits; 0: none")                                                         \
    X(15, QK_SCALE, TEXT, scale_of, IN_FACTS, "--qk-scale", "HOW", 0, 0,                           \
      "scores by head or embd, or a factor of q and k")                                            \
    X(29, PRE_NORM, FLAG, pre_norm, IN_FACTS, "--pre-norm", NULL, 0, 0,                            \
      "norms before the branches")                                                                 \
    X(21, POST_NORM, FLAG, post_norm, IN_FACTS, "--post-norm", NULL, 0, 0, "norms after the sums") \
    X(22, NORM, CHOICE, norm, IN_FACTS, "--norm", "layer|rms", 0, 0,                               \
      "kind of norms without biases")                                                              \
    X(24, EMBEDDING_SCALE, CHOICE, embedding_scale, IN_FACTS, "--embedding-scale", "none|root", 0, 0,\
      "factor of the embedding: none, or the root of its width")                                   \
    X(26, QKV, CHOICE, qkv, IN_FACTS, "--qkv", "blocks|heads", 0, 0,                               \
      "order of the rows in one matrix of q, k and v")                                             \
    X(27, BARE, CHOICE, bare, IN_FACTS, "--bare", "out-in|in-out", 0, 0,                           \
      "matrices outside modules")                                                                  \
    X(28, GATE, CHOICE, gate, IN_FACTS, "--gate", "first|second", 0, 0,                            \
      "the gate of two matrices, by name")                                                         \
    X(23, CAUSAL, FLAG, causal, IN_FACTS, "--causal", NULL, 0, 0,                                  \
      "attention was trained with a causal mask")                                                  \
    X(25, ASSUME, TEXT, assume, IN_USED, "--assume", "PROGRAM", 0, 0,                              \
      "what the file does not say is as in this program")                                          \
    X(16, WINDOW, INT, window, IN_FACTS, "--window", "N", 1, INT32_MAX,                            \
      "keys that short layers see")                                                                \
    X(17, EMBEDDING_NORM, FLAG, embedding_norm, IN_FACTS, "--embedding-norm", NULL, 0, 0,          \
      "a norm after the embedding")                                                                \
    X(8, NO_EMBEDDING_NORM, FLAG, no_embedding_norm, IN_FACTS, "--no-embedding-norm", NULL, 0, 0,  \
      "no norm after the embedding")                                                               \
    X(9, FINAL_NORM, FLAG, final_norm, IN_FACTS, "--final-norm", NULL, 0, 0,                       \
      "a norm before the head")                                                                    \
    X(18, POSITIONS, TEXT, positions, IN_FACTS, "--positions", "HOW", 0, 0,                        \
      "without wpe: half, adjacent (rotation), sinusoidal, none")                                  \
    X(19, RAW, TEXT, raw, IN_LIST, "--raw", "TYPE", 0, 0, "bare numbers: f32, f64 or f16")         \
    X(20, HEAD_LAST, FLAG, head_last, IN_LIST, "--head-last", NULL, 0, 0,                          \
      "parameter list: lm_head follows the layers")                                                \
    X(1, VOCAB_SIZE, INT, n_vocab, IN_LIST, "--vocab-size", "N", 1, INT32_MAX,                     \
      "parameter list: tokens")                                                                    \
    X(2, EMBD, INT, n_embd, IN_LIST, "--embd", "N", 1, INT32_MAX, "parameter list: width")         \
    X(3, LAYERS, INT, n_layer, IN_LIST, "--layers", "N", 0, 1024, "parameter list: layers")        \
    X(4, CONTEXT, INT, n_ctx, IN_LIST, "--context", "N", 1, INT32_MAX,                             \
      "positions: of a parameter list, or with LongRoPE")
/* clang-format on */

/* OPT_HEADS, ...: bits of ckpt_options.given and of ckpt_reader.options. */
#define CKPT_OPTION_BIT(bit, id, ...) OPT_##id = 1 << (bit),
enum ckpt_option { CKPT_OPTIONS(CKPT_OPTION_BIT) OPT_NORMS = OPT_PRE_NORM | OPT_POST_NORM };

#define MICROGPT_OPTIONS                                                                           \
    (OPT_HEADS | OPT_VOCAB_SIZE | OPT_EMBD | OPT_LAYERS | OPT_CONTEXT | OPT_ACTIVATION | OPT_EPS | \
     OPT_BOS | OPT_EMBEDDING_NORM | OPT_NO_EMBEDDING_NORM | OPT_FINAL_NORM | OPT_CHARS |           \
     OPT_ROPE | OPT_POSITIONS | OPT_HEAD_LAST)

/* Options of all mappings (from_torch.c); each mapping checks its own. */
#define TORCH_OPTIONS                                                                              \
    (MICROGPT_OPTIONS | OPT_TOKENIZER | OPT_NO_TOKENIZER | OPT_ROPE | OPT_SOFTCAP | OPT_QK_SCALE | \
     OPT_WINDOW | OPT_NORMS | OPT_NORM | OPT_CAUSAL | OPT_EMBEDDING_SCALE | OPT_ASSUME | OPT_QKV | \
     OPT_BARE | OPT_GATE)

#define CKPT_TYPE_INT int32_t
#define CKPT_TYPE_REAL double
#define CKPT_TYPE_TEXT const char *
#define CKPT_TYPE_CHOICE const char *
#define CKPT_TYPE_FLAG int
#define CKPT_OPTION_FIELD(bit, id, kind, field, ...) CKPT_TYPE_##kind field;
struct ckpt_options {
    unsigned given;                 /* bits of the options that were given */
    CKPT_OPTIONS(CKPT_OPTION_FIELD) /* scale_of NULL: qk_scale is a number */
    double qk_scale;
    const char *norms; /* "pre" or "post" */
};

/* What is in effect when no option is given. */
extern const struct ckpt_options ckpt_no_options;

enum ckpt_option_kind { CKPT_INT, CKPT_REAL, CKPT_TEXT, CKPT_CHOICE, CKPT_FLAG };
extern const struct ckpt_option_row {
    enum ckpt_option option;
    enum ckpt_option_kind kind;
    size_t at;                   /* offset of the field */
    const char *name, *argument; /* "--heads", "N"; NULL for a flag */
    double least, most;
} ckpt_option_rows[];
extern const size_t ckpt_n_option_rows;

/* The kinds of the command's option table. */
#define CKPT_CLI_INT CLI_INT
#define CKPT_CLI_REAL CLI_REAL
#define CKPT_CLI_TEXT CLI_TEXT
#define CKPT_CLI_CHOICE CLI_TEXT
#define CKPT_CLI_FLAG CLI_FLAG

/* The row of an option such as OPT_HEADS; of a set of options, the row of the first one. */
const struct ckpt_option_row *ckpt_option_row(unsigned option);

/* "--heads" for OPT_HEADS. */
const char *ckpt_option_name(enum ckpt_option option);

/* The field of *o that the row describes. */
void *ckpt_option_field(const struct ckpt_option_row *row, struct ckpt_options *o);

/* Sets the bits of the options whose fields were set. */
void ckpt_mark_given(struct ckpt_options *o);

#endif
