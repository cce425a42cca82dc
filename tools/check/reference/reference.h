/* References: what another program computed for some tokens, in the files people make.
 *
 *   .npz, .safetensors  tokens (or input_ids, input, ids), logits, and inner values by the names of
 *                       TransformerLens or transformers; .npz stored or deflated
 *   .pt                 the same in a dict, as torch.save writes it; or logits only; or what generate
 *                       of transformers returns: sequences, and logits (or scores) of what was drawn
 *   .npy                logits only; the ids come from the caller
 *   JSON                {"input": [ids], "logits": [[...], ...]}; input may be called ids, input_ids or
 *                       tokens; "text" is a label. Or log-probabilities of some tokens, as servers give
 *                       them (reference_partial.c). Also a list of these, or JSON Lines
 *   llama.cpp           what llama-perplexity --kl-divergence-base writes: tokens, and coarse
 *                       log-probabilities for the second half of each chunk
 *   llm.c               debug_state.bin
 *   raw float32         when a shape is given, or the size is that of the logits of the ids that
 *                       come from the caller, or of the last of them
 *
 * Which one it is its first bytes say. There is a row per token, or one for the last. A leading
 * dimension of 1 (a batch) is accepted everywhere. Files are untrusted: every shape is checked against the model before
 * anything is allocated for it. All but JSON and .pt are read piece by piece, so that a file of any size
 * takes the memory of a row.
 */
#ifndef MGPT_REFERENCE_H
#define MGPT_REFERENCE_H

#include "mgpt.h"

struct reference;

struct ref_options {
    int32_t n_vocab; /* of the model: logits in a row */
    int32_t n_layer; /* of the model; 0: not known */
    /* Tokens that the caller gives for a file without tokens; NULL: none. A file that has tokens is
     * refused with them. Borrowed until reference_open returns. */
    const int32_t *ids;
    size_t n_ids;
    const mgpt_model *model; /* for tokens named by their text; NULL: such files are refused */
    /* 1: the model wants `bos`. llama.cpp puts it in the place of the first token of a chunk. */
    int add_bos;
    int32_t bos;
    /* shape_rows > 0: the file is float32 and nothing else, in this shape. */
    uint64_t shape_rows, shape_cols;
};

/* One sequence: ids[0 .. n). */
struct ref_sequence {
    const char *label; /* may be NULL; UTF-8, any character */
    const int32_t *ids;
    size_t n;
};

struct reference *reference_open(const char *path, const struct ref_options *options,
                                 mgpt_error *err);
void reference_close(struct reference *ref);

size_t reference_count(const struct reference *ref);
struct ref_sequence reference_sequence(const struct reference *ref, size_t i);

/* Copies row `row` of sequence i to out (room for n_vocab doubles). In any order, but going back in
 * a deflated .npz means to inflate it again. NaN and infinities are passed on as they are, but for
 * -inf next to finite logits: those tokens are masked (struct ref_row). */
int reference_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err);

/* What the values of a row are. */
struct ref_row {
    size_t n;           /* how many; 0: the reference has none for this token */
    const int32_t *ids; /* their tokens, n different ones; NULL: all tokens in order */
    int logprobs;       /* 1: log-probabilities, 0: logits */
    double slack;       /* how far each value may be off because it is stored coarsely */
    int of_given;       /* 1: the row has the token that follows only, likeliest or not */
    double floor;       /* below 0: values that are not above it mean "at most this" */
    size_t masked;      /* logits of -inf, which are left out: `ids` has the other tokens */
};

/* What is known about the row that was read last; valid until the next one is read. */
struct ref_row reference_about(const struct reference *ref);

/* A sentence about what the reference holds or about its first field that is not read, or "". */
const char *reference_unread(const struct reference *ref);

/* ---- inner values of the (one) sequence of an .npz or .safetensors ----
 *
 * Names understood: mgpt_point_name's, TransformerLens' hook_out of norms, and transformers' hidden_states.N or hidden_states_N (resid_pre
 * of layer N; the last one follows the final norm) and attentions.N or attentions_N (pattern). Other
 * names are passed over. Shapes are [T, ...], or [H, T, T] for scores and pattern. */
struct ref_hook {
    const char *name; /* as in the file */
    mgpt_point point;
    int32_t layer;     /* -1 outside the layers */
    size_t rows, cols; /* T and the product of the other dimensions; H * T, head by head, and T */
};

/* They are in the order of the pass. */
size_t reference_n_hooks(const struct reference *ref);
int reference_hook(const struct reference *ref, size_t i, struct ref_hook *out);

/* Copies rows [first, first + n) of hook i to out, n * cols doubles; in any order. */
int reference_hook_rows(struct reference *ref, size_t i, size_t first, size_t n, double *out,
                        mgpt_error *err);

#endif
