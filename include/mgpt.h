/* mgpt: a small GPT engine.
 *
 * Two opaque types. A mgpt_model is the weights of a GGUF file: immutable, shared by any number of
 * threads. A mgpt_session is one timeline over a model: the tokens so far, their KV cache, scratch
 * and the last logits; it belongs to one thread at a time.
 *
 *     mgpt_error err;
 *     mgpt_model *model = mgpt_open("weights/names.gguf", NULL, &err);
 *     mgpt_session *session = model ? mgpt_session_new(model, NULL, &err) : NULL;
 *     mgpt_sampler sampler = {.temperature = 0.5f, .rng = 42};
 *     mgpt_info info;
 *     if (!session || mgpt_get_info(model, &info, &err) < 0)
 *         return fprintf(stderr, "%s\n", err.text), 1;
 *     const float *logits = mgpt_step(session, info.bos, &err);
 *     while (logits) {                            // NULL: the context is full (err says so)
 *         int32_t token = mgpt_sample(&sampler, logits, (size_t)info.n_tokens);
 *         if (mgpt_is_end(model, token))
 *             break;
 *         size_t n;
 *         const char *piece = mgpt_piece(model, token, &n);
 *         fwrite(piece, 1, n, stdout);
 *         logits = mgpt_step(session, token, &err);
 *     }
 *     mgpt_session_free(session);
 *     mgpt_close(model);
 *
 * Promises. Logits depend on the weights file and the tokens, on nothing else: the same bits for any
 * number of threads, any chunking of the prompt, traced or not, rewound, forked or fresh, and for
 * every instruction set. The library prints nothing, never exits, reads no environment and has no
 * globals. A hostile file gets an error, never a crash.
 *
 * Conventions. A params struct that is all zero, or NULL, means the defaults. A function that can
 * fail takes a trailing `mgpt_error *err`, which may be NULL; it returns NULL or a negative
 * mgpt_status, fills *err, and leaves every object as it was. Wrong arguments (NULL, a token out of
 * range) get MGPT_EARG, not undefined behaviour, except that a freed or foreign pointer cannot be
 * recognised. On success *err is not touched. Tokens are int32_t ids, matrices are row-major.
 *
 * Stack. No call needs more than 48 KiB of its thread's stack, so threads of 64 KiB are enough; what a
 * tap's callback needs comes on top. The session's own threads have stacks of 512 KiB.
 */
#ifndef MGPT_H
#define MGPT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MGPT_API __attribute__((visibility("default")))
#else
#define MGPT_API
#endif

/* ---- errors ------------------------------------------------------------------------------------
 */

typedef enum mgpt_status {
    MGPT_OK = 0,
    MGPT_EARG = -1,  /* the caller's arguments: NULL, token or layer out of range */
    MGPT_EFILE = -2, /* the file is not what it should be, or is not supported */
    MGPT_EMEM = -3,  /* out of memory, or a thread could not be made */
    MGPT_EIO = -4,   /* the operating system failed to open, read or write */
    MGPT_EFULL = -5, /* the context is full */
    MGPT_ETEXT = -6, /* text that the model's vocabulary cannot express */
    MGPT_ESTOP = -7  /* a tap's callback asked to stop */
} mgpt_status;

#define MGPT_NO_OFFSET UINT64_MAX

typedef struct mgpt_error {
    int status;      /* a mgpt_status */
    uint64_t offset; /* byte in the file or text where it happened, or MGPT_NO_OFFSET */
    char text[192];  /* one line without a newline: what, where, expected and found */
} mgpt_error;

/* ---- model -------------------------------------------------------------------------------------
 */

typedef struct mgpt_model mgpt_model;

typedef struct mgpt_model_params {
    const char *isa; /* NULL: the best this machine has; else "scalar", "avx2", "avx512", "amx" */
    int vocab_only; /* 1: only the tokenizer; the file may hold no tensors, no session can be made */
    int32_t n_threads; /* that pack the weights while the file is opened, up to 256; 0: chosen */
    int no_fused;      /* 1: no fused path for small models. Slower; the bits are the same */
} mgpt_model_params;

/* Opens a GGUF file. The file is read into memory up to 256 MiB and mapped above that; a mapped file
 * must not be truncated while the model is open. Every size and shape is checked before it is used;
 * then the weights are packed for the kernels, and the file's own copy of them leaves memory. Where
 * the machine has AMX, Linux is asked once to let the process use its tiles (arch_prctl); from then on
 * sigaltstack(2) wants stacks that hold them. Refused, or with another isa, there is no difference.
 * Errors: MGPT_EIO (cannot open or read), MGPT_EFILE (with byte offset), MGPT_EMEM, MGPT_EARG. */
MGPT_API mgpt_model *mgpt_open(const char *path, const mgpt_model_params *params, mgpt_error *err);

/* The same for a file in memory. The bytes are borrowed: they must stay, unchanged, until mgpt_close.
 * `data` needs no alignment. */
MGPT_API mgpt_model *mgpt_open_bytes(const void *data, size_t size, const mgpt_model_params *params,
                                     mgpt_error *err);

/* Frees a model; NULL is allowed. All its sessions must have been freed before. */
MGPT_API void mgpt_close(mgpt_model *model);

typedef struct mgpt_info {
    const char *arch;          /* general.architecture: "microgpt", "llama", "gpt2" */
    const char *name;          /* general.name, "" when absent */
    const char *chat_template; /* tokenizer.chat_template, "" when absent; never evaluated */
    const char *tokenizer;     /* "char", "bpe", "spm" or "none" */
    const char *isa;           /* rung of the kernel ladder in use */
    const char *type;          /* element type of most weights: "F32", "F16", ... */
    const char *norm;          /* "rmsnorm" or "layernorm" */
    const char *activation;    /* "relu", "relu2", "silu", "gelu_tanh", "gelu_erf" */
    const char *position;      /* "none", "learned", "rope" */
    int32_t n_vocab;           /* length of a row of logits */
    int32_t n_tokens; /* ids that mean something: those of the tokenizer, n_vocab without one */
    int32_t n_ctx;    /* positions the model was trained for */
    int32_t n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    int32_t bos, eos;    /* ids, -1 when the model has none */
    int32_t add_bos;     /* 1: mgpt_encode puts bos in front */
    int32_t nfc;         /* 1: texts are to be in Unicode's normal form C: the caller's task */
    int32_t gated, tied; /* 1: gated MLP; 1: the head is the token embedding */
    float norm_eps;
    float rope_base;
    float attn_scale; /* scores are q . k times this: 1 / sqrt(head_dim) unless the file differs */
    float logit_softcap;      /* logits are cap * tanh(x / cap); 0: no cap */
    uint64_t n_params;        /* weights, counted once when tied */
    uint64_t file_bytes;      /* size of the file */
    uint64_t bytes_per_token; /* weight bytes that one mgpt_step reads */
    uint64_t kv_bytes; /* KV cache bytes per position, all layers, of the type chosen for 0 */
} mgpt_info;

/* Fills *info. The strings live as long as the model. */
MGPT_API int mgpt_get_info(const mgpt_model *model, mgpt_info *info, mgpt_error *err);

typedef struct mgpt_tensor {
    const char *name; /* as in the file, NUL-terminated; lives as long as the model */
    const char *type; /* "F32", "F16", "BF16", ... */
    uint64_t dims[4]; /* dims[0] varies fastest (the row length); unused ones are 1 */
    uint32_t n_dims;
    uint64_t offset; /* byte offset in the file */
    uint64_t n_bytes;
} mgpt_tensor;

/* Number of tensors in the file, and the i-th of them, in file order. */
MGPT_API size_t mgpt_n_tensors(const mgpt_model *model);
MGPT_API int mgpt_get_tensor(const mgpt_model *model, size_t i, mgpt_tensor *tensor,
                             mgpt_error *err);

/* Copies elements [first, first + n) of a tensor, counted in file order, to out as float32. `first`
 * and `n` must be multiples of the type's block (1 for F32, F16, BF16). They come from the file again:
 * MGPT_EIO when it has become shorter, what then stands there when it was overwritten. */
MGPT_API int mgpt_read_tensor(const mgpt_model *model, const char *name, uint64_t first, size_t n,
                              float *out, mgpt_error *err);

/* ---- text --------------------------------------------------------------------------------------
 */

enum {
    MGPT_NO_SPECIAL_TOKENS = 1, /* do not add BOS or EOS although the model asks for it */
    MGPT_PARSE_SPECIAL = 2 /* control tokens such as <|endoftext|> in the text are recognised */
};

/* Tokens of n_bytes of text (UTF-8; NUL bytes are text). Like snprintf: returns the number of tokens,
 * of which at most cap are written; tokens may be NULL when cap is 0. Linear-logarithmic in n_bytes.
 * Errors: MGPT_ETEXT names the character and its byte offset when the vocabulary lacks it. */
MGPT_API int64_t mgpt_encode(const mgpt_model *model, const char *text, size_t n_bytes,
                             unsigned flags, int32_t *tokens, size_t cap, mgpt_error *err);

/* The bytes that a token stands for; may be half a UTF-8 character, may hold NUL. Empty for control
 * tokens such as BOS and for ids that are out of range. Not NUL-terminated; lives as long as the
 * model. */
MGPT_API const char *mgpt_piece(const mgpt_model *model, int32_t token, size_t *n_bytes);

/* The token's own text in the vocabulary, control tokens included: "<s>", "Ġthe", "▁the". */
MGPT_API const char *mgpt_token_text(const mgpt_model *model, int32_t token, size_t *n_bytes);

/* 1 when the token ends generation (eos, eot, or BOS for a model that uses one token as both). */
MGPT_API int mgpt_is_end(const mgpt_model *model, int32_t token);

/* Turns a stream of tokens into whole characters of valid UTF-8: a character whose bytes are spread
 * over several tokens is held back until it is complete, a byte that can belong to none becomes
 * U+FFFD, and the space that a SentencePiece model puts in front of a text is dropped. Zero it to
 * begin a text. */
typedef struct mgpt_stream {
    unsigned char held[4];
    uint8_t n_held;
    uint8_t started; /* a text token has been seen */
} mgpt_stream;

/* Appends one token and writes what is complete by now. Returns the number of bytes; when that is
 * above cap, nothing was written and the stream is as before (3 * the piece's length + 9 suffices). */
MGPT_API size_t mgpt_stream_put(mgpt_stream *stream, const mgpt_model *model, int32_t token,
                                char *buf, size_t cap);

/* Ends a text: writes U+FFFD (3 bytes) if an incomplete character is held, resets the stream. */
MGPT_API size_t mgpt_stream_end(mgpt_stream *stream, char *buf, size_t cap);

/* ---- session -----------------------------------------------------------------------------------
 */

typedef struct mgpt_session mgpt_session;

/* What keys and values are kept as. They are rounded to IEEE halves (nearest even) once, when they are
 * appended, and everything is computed in float32: F16 gives the bits that F32 gives for keys and values
 * so rounded. The taps MGPT_K, MGPT_V and MGPT_ROT_K show them before, mgpt_read_kv after rounding. */
enum { MGPT_KV_F32 = 1, MGPT_KV_F16 = 2 };

typedef struct mgpt_session_params {
    int32_t n_ctx;     /* most positions, up to the model's; 0: the model's. Memory is that of the
                          tokens seen, not of n_ctx */
    int32_t n_threads; /* up to 256; 0: chosen from the work per token and the cores present */
    int32_t n_chunk; /* tokens per pass over the weights in mgpt_feed, up to 4096; 0: chosen. Never
                          changes a bit */
    /* MGPT_KV_F32 or MGPT_KV_F16. 0: F32, or F16 where most weights are narrower than F32 and an F32
     * cache would take 32 KiB per position or more. */
    int32_t kv_type;
} mgpt_session_params;

/* Makes an empty session. The model must outlive it. */
MGPT_API mgpt_session *mgpt_session_new(const mgpt_model *model, const mgpt_session_params *params,
                                        mgpt_error *err);
MGPT_API void mgpt_session_free(mgpt_session *session);

/* One function is the model: runs one token at position mgpt_pos() and returns the logits of the
 * next one, n_vocab floats that live until the next call that changes the session. NULL on failure:
 * MGPT_EFULL (context), MGPT_EARG (token), MGPT_EMEM, MGPT_ESTOP (a tap). */
MGPT_API const float *mgpt_step(mgpt_session *session, int32_t token, mgpt_error *err);

/* The same as n steps, to the bit, but with one pass over the weights per chunk. Only the last
 * token's logits are kept (tap MGPT_LOGITS to see all). n = 0 is allowed and does nothing. On failure
 * the session is as before the call. */
MGPT_API int mgpt_feed(mgpt_session *session, const int32_t *tokens, size_t n, mgpt_error *err);

/* Makes the session hold exactly these tokens, reusing the longest common prefix of what it holds.
 * mgpt_logits() is valid afterwards unless n is 0. Returns MGPT_OK or a negative status; on failure
 * the session holds some prefix of the tokens (mgpt_pos() says how much). */
MGPT_API int mgpt_sync(mgpt_session *session, const int32_t *tokens, size_t n, mgpt_error *err);

/* Forgets all tokens from position pos on; constant time. mgpt_logits() is NULL until the next step. */
MGPT_API int mgpt_rewind(mgpt_session *session, size_t pos, mgpt_error *err);

/* An independent copy: tokens, cache, logits and settings, without taps. The caller frees it. Its scratch
 * and threads come with its first pass of its own (which can then fail with MGPT_EMEM). */
MGPT_API mgpt_session *mgpt_fork(const mgpt_session *session, mgpt_error *err);

/* One step of n different sessions of one model with one pass over the weights: sessions[i] gets
 * tokens[i] and the bits that mgpt_step would give it. On failure all sessions are as before. */
MGPT_API int mgpt_step_many(mgpt_session *const *sessions, const int32_t *tokens, size_t n,
                            mgpt_error *err);

/* Tokens held, and the array of them, valid until the next call that changes the session. It may be given
 * to mgpt_feed and mgpt_sync of the same session. */
MGPT_API size_t mgpt_pos(const mgpt_session *session);
MGPT_API const int32_t *mgpt_tokens(const mgpt_session *session);

/* Logits after the last token, or NULL when there are none (empty, rewound). */
MGPT_API const float *mgpt_logits(const mgpt_session *session);

/* The most positions this session can hold, the threads it works with, and its model. */
MGPT_API size_t mgpt_n_ctx(const mgpt_session *session);
MGPT_API int mgpt_n_threads(const mgpt_session *session);
MGPT_API const mgpt_model *mgpt_session_model(const mgpt_session *session);

/* ---- choosing ----------------------------------------------------------------------------------
 */

/* Plain and caller-owned; all zero is greedy. Order: temperature, then top-k, top-p, min-p, each on
 * the distribution that the one before left, then one draw in order of token id. */
typedef struct mgpt_sampler {
    float temperature; /* <= 0: the largest logit, lowest id on ties */
    int32_t top_k;     /* keep the k largest; <= 0: all */
    float top_p;       /* keep the smallest set of probability >= top_p; <= 0 or >= 1: all */
    float min_p;       /* drop tokens less likely than min_p times the likeliest; <= 0: none */
    uint64_t rng;      /* seed, and afterwards the state (SplitMix64) */
    double (*uniform)(void *); /* NULL, or a source of numbers in [0, 1) used instead of rng */
    void *uniform_user;
} mgpt_sampler;

/* Chooses a token from n logits; they are not changed. NaN counts as minus infinity. Allocates
 * nothing; O(n). Returns MGPT_EARG for NULL or n = 0. */
MGPT_API int32_t mgpt_sample(mgpt_sampler *sampler, const float *logits, size_t n);

typedef struct mgpt_candidate {
    int32_t token;
    float logit;
    double logprob; /* natural logarithm of the softmax probability at temperature 1 */
} mgpt_candidate;

/* The k likeliest tokens, best first, lowest id first on ties. Returns how many (min(k, n)). */
MGPT_API size_t mgpt_top(const float *logits, size_t n, mgpt_candidate *top, size_t k);

/* log softmax(logits)[token] in float64; NaN when token is out of range. */
MGPT_API double mgpt_logprob(const float *logits, size_t n, int32_t token);

/* ---- looking inside ----------------------------------------------------------------------------
 */

/* Points of the forward pass, in order. Shapes for a chunk of T tokens: E = n_embd, H = n_head,
 * G = n_head_kv, d = head_dim, F = n_ff, V = n_vocab. A point that a model lacks never fires. */
typedef enum mgpt_point {
    MGPT_EMBD,      /* [T, E]      hook_embed */
    MGPT_POS_EMBD,  /* [T, E]      hook_pos_embed */
    MGPT_EMBD_NORM, /* [T, E]      ln_embed.hook_normalized */
    MGPT_RESID_PRE, /* [T, E]      blocks.n.hook_resid_pre */
    MGPT_ATTN_IN,   /* [T, E]      blocks.n.ln1.hook_normalized */
    MGPT_Q,         /* [T, H*d]    blocks.n.attn.hook_q */
    MGPT_K,         /* [T, G*d]    blocks.n.attn.hook_k */
    MGPT_V,         /* [T, G*d]    blocks.n.attn.hook_v */
    MGPT_ROT_Q,     /* [T, H*d]    blocks.n.attn.hook_rot_q */
    MGPT_ROT_K,     /* [T, G*d]    blocks.n.attn.hook_rot_k */
    MGPT_SCORES,    /* [H, pos+1]  blocks.n.attn.hook_attn_scores, one query at a time, scaled */
    MGPT_WEIGHTS,   /* [H, pos+1]  blocks.n.attn.hook_pattern, one query at a time */
    MGPT_HEADS,     /* [T, H*d]    blocks.n.attn.hook_z */
    MGPT_ATTN_OUT,  /* [T, E]      blocks.n.hook_attn_out */
    MGPT_RESID_MID, /* [T, E]      blocks.n.hook_resid_mid */
    MGPT_MLP_IN,    /* [T, E]      blocks.n.ln2.hook_normalized */
    MGPT_MLP_PRE,   /* [T, F]      blocks.n.mlp.hook_pre (the gate's input when gated) */
    MGPT_MLP_PRE_LINEAR, /* [T, F]      blocks.n.mlp.hook_pre_linear (gated only) */
    MGPT_MLP_POST,       /* [T, F]      blocks.n.mlp.hook_post */
    MGPT_MLP_OUT,        /* [T, E]      blocks.n.hook_mlp_out */
    MGPT_RESID_POST,     /* [T, E]      blocks.n.hook_resid_post */
    MGPT_FINAL,          /* [T, E]      ln_final.hook_normalized */
    MGPT_LOGITS,         /* [T, V]      logits */
    MGPT_N_POINTS
} mgpt_point;

#define MGPT_POINT_BIT(point) (UINT64_C(1) << (point))

/* What a tap sees: `rows` rows of `cols` values, row i at data + i * stride. Row i belongs to position
 * pos + i, except at MGPT_SCORES and MGPT_WEIGHTS, where row i is head i of the query at `pos`; of a
 * chunk, the scores of several queries may come before their weights. `data` is the engine's own buffer:
 * what the callback writes is what the model goes on with. It is valid during the callback only.
 *
 * Heads of MGPT_Q, MGPT_K, MGPT_ROT_Q and MGPT_ROT_K, and the keys of mgpt_read_kv, have transformers'
 * order in every architecture: of the rotated components, i and i + n/2 turn together, n of them. GGUF
 * files of llama, olmo and smollm3 hold the rows of attn_q and attn_k otherwise, a pair side by side
 * (2i, 2i + 1), and those of nanochat with the two halves of a head exchanged; mgpt_read_tensor gives rows
 * as the file has them. Programs that rotate adjacent components themselves (llama2.c, Meta's) have the
 * files' order: their component 2i is i here, 2i + 1 is i + n/2. */
typedef struct mgpt_value {
    mgpt_point point;
    int32_t layer; /* -1 outside the layers */
    int32_t pos;
    int32_t rows, cols;
    size_t stride; /* in floats */
    float *data;
} mgpt_value;

/* Return 0 to go on; anything else stops the call with MGPT_ESTOP, the session as before it. The
 * callback runs on the thread that called mgpt_step. It may read the session, which is as before the call;
 * what would change it (step, feed, sync, rewind, tap, unembed) fails with MGPT_EARG. */
typedef int mgpt_tap_fn(const mgpt_value *value, void *user);

/* Calls fn at every point in the mask `points` from now on; points = 0 ends it. One tap a session. A
 * tap that writes nothing changes no bit. With MGPT_FINAL or MGPT_LOGITS every position of a chunk
 * gets logits, otherwise only the last. */
MGPT_API int mgpt_tap(mgpt_session *session, uint64_t points, mgpt_tap_fn *fn, void *user,
                      mgpt_error *err);

/* Name of a point in TransformerLens' terms, e.g. "blocks.0.attn.hook_pattern". Like snprintf. */
MGPT_API size_t mgpt_point_name(mgpt_point point, int32_t layer, char *buf, size_t cap);

/* Copies cached keys (after rope, in the order of MGPT_ROT_K) and values of one KV head, positions
 * [pos, pos + n), as n rows of head_dim. k or v may be NULL. */
MGPT_API int mgpt_read_kv(const mgpt_session *session, int32_t layer, int32_t head, size_t pos,
                          size_t n, float *k, float *v, mgpt_error *err);

/* Final norm and head on any residual vector (n_embd floats) to n_vocab logits: the logit lens. Taps do
 * not fire. The session lends its scratch and its threads; its state does not change. */
MGPT_API int mgpt_unembed(mgpt_session *session, const float *residual, float *logits,
                          mgpt_error *err);

#ifdef __cplusplus
}
#endif

#endif
