/* mgpt: a small GPT engine.
 *
 * There are two opaque types. A mgpt_model is the weights of a GGUF file: immutable, shared by any
 * number of threads. A mgpt_session is one sequence that a model runs: its tokens, their KV cache,
 * scratch and the last logits. One thread at a time may use a session.
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
 * Promises. Logits depend only on the weights file and the tokens. They have the same bits for any
 * number of threads, any chunking of the prompt, with or without taps, rewound, forked or fresh,
 * and for every instruction set. The library prints nothing, never exits, reads no environment and
 * has no globals. A hostile file gives an error, never a crash.
 *
 * Conventions. A params struct that is all zero, or NULL, means the defaults. A function that can
 * fail takes a trailing `mgpt_error *err`, which may be NULL. On failure it returns NULL or a
 * negative mgpt_status, fills *err, and leaves every object unchanged. On success *err is
 * unchanged. Wrong arguments (NULL, a token out of range) give MGPT_EARG; freed or foreign pointers
 * are not detected. Tokens are int32_t ids, matrices are row-major.
 *
 * Stack. No call needs more than 48 KiB of its thread's stack, plus what a tap's callback needs. A
 * thread of 64 KiB is enough. The session's own threads have stacks of 512 KiB.
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

/* ---- errors ---- */

typedef enum mgpt_status {
    MGPT_OK = 0,
    MGPT_EARG = -1,  /* the caller's arguments: NULL, token or layer out of range */
    MGPT_EFILE = -2, /* the file is invalid or not supported */
    MGPT_EMEM = -3,  /* out of memory, or a thread could not be started */
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

/* ---- model ---- */

typedef struct mgpt_model mgpt_model;

typedef struct mgpt_model_params {
    const char *isa; /* instruction set: "scalar", "avx2", "avx512", "avx512vnni", "amx" or "neon";
                        NULL: the best that this machine has */
    int vocab_only;  /* 1: only the tokenizer; the file may have no tensors; sessions are refused */
    int32_t n_threads; /* threads that pack the weights at open, up to 256; 0: chosen */
    int no_fused;      /* 1: no fused path for small models. Slower, with the same bits */
} mgpt_model_params;

/* Opens a GGUF file. Files up to 256 MiB are read into memory, larger ones are mapped; a mapped
 * file must not be truncated while the model is open. Every size and shape is checked before it is
 * used. Then the weights are packed for the kernels, and the file's own copy of them is dropped. On
 * machines with AMX the library asks Linux once for permission to use its tiles (arch_prctl); after
 * that sigaltstack(2) requires larger stacks. Nothing changes if Linux refuses, or with another
 * isa. Errors: MGPT_EIO (cannot open or read), MGPT_EFILE (with offset), MGPT_EMEM, MGPT_EARG. */
MGPT_API mgpt_model *mgpt_open(const char *path, const mgpt_model_params *params, mgpt_error *err);

/* The same for a file in memory, which must stay unchanged until mgpt_close. `data` needs no
 * alignment. Errors: MGPT_EFILE (with byte offset), MGPT_EMEM, MGPT_EARG. */
MGPT_API mgpt_model *mgpt_open_bytes(const void *data, size_t size, const mgpt_model_params *params,
                                     mgpt_error *err);

/* Frees a model; NULL is allowed. Free all its sessions first. */
MGPT_API void mgpt_close(mgpt_model *model);

typedef struct mgpt_info {
    const char *arch;          /* general.architecture: "microgpt", "llama", "gpt2" */
    const char *name;          /* general.name, "" when absent */
    const char *chat_template; /* tokenizer.chat_template, "" when absent; never evaluated */
    const char *tokenizer;     /* "char", "bpe", "spm" or "none" */
    const char *isa;           /* instruction set in use (mgpt_model_params) */
    const char *type;          /* element type of most weights: "F32", "F16", ... */
    const char *norm;          /* "rmsnorm" or "layernorm" */
    const char *activation;    /* "relu", "relu2", "silu", "gelu_tanh", "gelu_erf" */
    const char *position;      /* "none", "learned", "rope" */
    int32_t n_vocab;           /* length of a row of logits */
    int32_t n_tokens;          /* ids that the tokenizer has; n_vocab without a tokenizer */
    int32_t n_ctx;             /* positions the model was trained for */
    int32_t n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    int32_t bos, eos;    /* ids, -1 when the model has none */
    int32_t add_bos;     /* 1: mgpt_encode puts bos in front */
    int32_t nfc;         /* 1: the caller should normalise texts to Unicode form C */
    int32_t gated, tied; /* 1: gated MLP; 1: the head is the token embedding */
    float norm_eps;
    float rope_base;
    float attn_scale;         /* scores = q . k * attn_scale; 1 / sqrt(head_dim) by default */
    float logit_softcap;      /* logits are cap * tanh(x / cap); 0: no cap */
    uint64_t n_params;        /* weights, counted once when tied */
    uint64_t file_bytes;      /* size of the file */
    uint64_t bytes_per_token; /* weight bytes that one mgpt_step reads */
    uint64_t kv_bytes;        /* KV cache bytes per position, all layers, with kv_type = 0 */
} mgpt_info;

/* Fills *info. The strings live as long as the model. Error: MGPT_EARG. */
MGPT_API int mgpt_get_info(const mgpt_model *model, mgpt_info *info, mgpt_error *err);

typedef struct mgpt_tensor {
    const char *name; /* as in the file, NUL-terminated; lives as long as the model */
    const char *type; /* "F32", "F16", "BF16", ... */
    uint64_t dims[4]; /* dims[0] varies fastest (the row length); unused ones are 1 */
    uint32_t n_dims;
    uint64_t offset; /* byte offset in the file */
    uint64_t n_bytes;
} mgpt_tensor;

/* Number of tensors in the file, and the i-th one in file order. Error: MGPT_EARG. */
MGPT_API size_t mgpt_n_tensors(const mgpt_model *model);
MGPT_API int mgpt_get_tensor(const mgpt_model *model, size_t i, mgpt_tensor *tensor,
                             mgpt_error *err);

/* Copies elements [first, first + n) of a tensor, in file order, to out as float32. `first` and `n`
 * must be multiples of the type's block (1 for F32, F16, BF16). The file is read again, so it
 * should not have changed. Errors: MGPT_EARG (name, range, block), MGPT_EIO (file truncated). */
MGPT_API int mgpt_read_tensor(const mgpt_model *model, const char *name, uint64_t first, size_t n,
                              float *out, mgpt_error *err);

/* ---- text ---- */

enum {
    MGPT_NO_SPECIAL_TOKENS = 1, /* do not add BOS or EOS, even if the model asks for it */
    MGPT_PARSE_SPECIAL = 2 /* control tokens such as <|endoftext|> in the text become one token */
};

/* Encodes n_bytes of text (UTF-8; NUL bytes are text). Like snprintf: returns the number of tokens
 * and writes at most cap of them; tokens may be NULL if cap is 0. Takes O(n log n) for n bytes.
 * Errors: MGPT_ETEXT (names the missing character and its byte), MGPT_EARG, MGPT_EMEM. */
MGPT_API int64_t mgpt_encode(const mgpt_model *model, const char *text, size_t n_bytes,
                             unsigned flags, int32_t *tokens, size_t cap, mgpt_error *err);

/* The bytes that a token decodes to: possibly part of a UTF-8 character, possibly NUL bytes. Empty
 * for control tokens such as BOS and ids out of range. Not NUL-terminated; the model owns it. */
MGPT_API const char *mgpt_piece(const mgpt_model *model, int32_t token, size_t *n_bytes);

/* The token's string in the vocabulary, also for control tokens: "<s>", "Ġthe", "▁the". */
MGPT_API const char *mgpt_token_text(const mgpt_model *model, int32_t token, size_t *n_bytes);

/* 1 when the token ends generation (eos, eot, or BOS for a model that uses one token as both). */
MGPT_API int mgpt_is_end(const mgpt_model *model, int32_t token);

/* Decodes a stream of tokens to whole characters of valid UTF-8. A character whose bytes are in
 * several tokens is held until it is complete. A byte that no character can contain becomes U+FFFD.
 * The space that SentencePiece models put before a text is dropped. Zero it to begin a text. */
typedef struct mgpt_stream {
    unsigned char held[4];
    uint8_t n_held;
    uint8_t started; /* a text token has been seen */
} mgpt_stream;

/* Appends one token and writes all complete characters. Returns the number of bytes. If that is
 * above cap, the stream is unchanged and buf undefined (3 * piece length + 9 suffices). */
MGPT_API size_t mgpt_stream_put(mgpt_stream *stream, const mgpt_model *model, int32_t token,
                                char *buf, size_t cap);

/* Ends a text: writes U+FFFD (3 bytes) if an incomplete character is held, resets the stream. */
MGPT_API size_t mgpt_stream_end(mgpt_stream *stream, char *buf, size_t cap);

/* ---- session ---- */

typedef struct mgpt_session mgpt_session;

/* Element type of the KV cache. F16: keys and values are rounded to IEEE half (nearest even) once,
 * when they are appended. Attention computes in float32, so the bits are those of F32 with keys and
 * values so rounded. Taps (MGPT_K, MGPT_V, MGPT_ROT_K) show values before rounding, mgpt_read_kv
 * after. */
enum { MGPT_KV_F32 = 1, MGPT_KV_F16 = 2 };

typedef struct mgpt_session_params {
    int32_t n_ctx;     /* most positions, up to the model's; 0: the model's. Memory grows with the
                          tokens, not with n_ctx */
    int32_t n_threads; /* up to 256; 0: chosen from the work per token and the number of cores */
    int32_t n_chunk;   /* tokens per pass over the weights in mgpt_feed, up to 4096; 0: chosen. Does
                          not change the bits */
    /* MGPT_KV_F32 or MGPT_KV_F16. 0: F16 if most weights are not F32 and an F32 cache would take
     * 32 KiB per position or more, otherwise F32. */
    int32_t kv_type;
} mgpt_session_params;

/* Makes an empty session. The model must outlive it. NULL on failure: MGPT_EARG or MGPT_EMEM. */
MGPT_API mgpt_session *mgpt_session_new(const mgpt_model *model, const mgpt_session_params *params,
                                        mgpt_error *err);
MGPT_API void mgpt_session_free(mgpt_session *session);

/* Runs one token at position mgpt_pos(). Returns the logits of the next token, n_vocab floats that
 * are valid until the next call that changes the session. NULL on failure: MGPT_EFULL (context),
 * MGPT_EARG (token, or called by a tap), MGPT_EMEM, MGPT_ESTOP (a tap). */
MGPT_API const float *mgpt_step(mgpt_session *session, int32_t token, mgpt_error *err);

/* Runs n tokens with the same bits as n steps, but with one pass over the weights per chunk. Only
 * the last token's logits are kept (tap MGPT_LOGITS to see all). n = 0 does nothing. Errors: as
 * mgpt_step. */
MGPT_API int mgpt_feed(mgpt_session *session, const int32_t *tokens, size_t n, mgpt_error *err);

/* Makes the session hold exactly these tokens, and reuses the longest common prefix with its
 * current ones. mgpt_logits() is valid afterwards unless n is 0. Errors: those of mgpt_feed. A
 * failure can leave the session with a prefix of the tokens, of length mgpt_pos(). */
MGPT_API int mgpt_sync(mgpt_session *session, const int32_t *tokens, size_t n, mgpt_error *err);

/* Removes all tokens from position pos, in constant time. mgpt_logits() is NULL until the
 * next step. Error: MGPT_EARG. */
MGPT_API int mgpt_rewind(mgpt_session *session, size_t pos, mgpt_error *err);

/* An independent copy: tokens, cache, logits and settings, without taps. The caller frees it. Its
 * first pass allocates scratch and threads, and may fail. Errors: MGPT_EARG, MGPT_EMEM. */
MGPT_API mgpt_session *mgpt_fork(const mgpt_session *session, mgpt_error *err);

/* One step of n different sessions of one model with one pass over the weights. sessions[i] runs
 * tokens[i], with the bits of mgpt_step. On failure all sessions are unchanged.
 * Errors: as mgpt_step. */
MGPT_API int mgpt_step_many(mgpt_session *const *sessions, const int32_t *tokens, size_t n,
                            mgpt_error *err);

/* The number of tokens, and their array, valid until the next call that changes the session. The
 * array may be passed to mgpt_feed and mgpt_sync of the same session. */
MGPT_API size_t mgpt_pos(const mgpt_session *session);
MGPT_API const int32_t *mgpt_tokens(const mgpt_session *session);

/* Logits after the last token, or NULL if the session is empty or was rewound. */
MGPT_API const float *mgpt_logits(const mgpt_session *session);

/* The session's largest number of positions, its number of threads, and its model. */
MGPT_API size_t mgpt_n_ctx(const mgpt_session *session);
MGPT_API int mgpt_n_threads(const mgpt_session *session);
MGPT_API const mgpt_model *mgpt_session_model(const mgpt_session *session);

/* ---- choosing ---- */

/* The caller owns it; all zero is greedy. Order: temperature, top-k, top-p, min-p, each on the
 * distribution that the previous one left; then one draw in order of token id. */
typedef struct mgpt_sampler {
    float temperature; /* <= 0: the largest logit, lowest id on ties */
    int32_t top_k;     /* keep the k largest; <= 0: all */
    float top_p;       /* keep the smallest set of probability >= top_p; <= 0 or >= 1: all */
    float min_p;       /* drop tokens less likely than min_p times the likeliest; <= 0: none */
    uint64_t rng;      /* seed, and afterwards the state (SplitMix64) */
    double (*uniform)(void *); /* source of numbers in [0, 1) instead of rng; NULL: rng */
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

/* Writes the k likeliest tokens, best first, lowest id first on ties. Returns min(k, n). */
MGPT_API size_t mgpt_top(const float *logits, size_t n, mgpt_candidate *top, size_t k);

/* log softmax(logits)[token] in float64; NaN when token is out of range. */
MGPT_API double mgpt_logprob(const float *logits, size_t n, int32_t token);

/* ---- looking inside ---- */

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

/* What a tap sees: `rows` rows of `cols` values, row i at data + i * stride. Row i is of position
 * pos + i; at MGPT_SCORES and MGPT_WEIGHTS it is head i of the query at `pos`. In a chunk, the
 * scores of several queries may come before their weights. `data` is the engine's own buffer: the
 * model continues with the values that the callback writes. It is valid only during the callback.
 *
 * Heads of MGPT_Q, MGPT_K, MGPT_ROT_Q and MGPT_ROT_K, and the keys of mgpt_read_kv, have the order
 * of Hugging Face transformers in every architecture: with n rotated components, i and i + n/2 are
 * a pair. GGUF files differ: llama, olmo and smollm3 store pairs as rows 2i and 2i + 1 of attn_q
 * and attn_k, nanochat stores the two halves of a head swapped; mgpt_read_tensor returns rows as
 * stored. Programs that rotate adjacent components (llama2.c, Meta's) have the order of the llama
 * files: their component 2i is i here, 2i + 1 is i + n/2. */
typedef struct mgpt_value {
    mgpt_point point;
    int32_t layer; /* -1 outside the layers */
    int32_t pos;
    int32_t rows, cols;
    size_t stride; /* in floats */
    float *data;
} mgpt_value;

/* Return 0 to continue; any other value stops the call with MGPT_ESTOP and leaves the session
 * unchanged. The callback runs on the thread that called mgpt_step. It may read the session, in its
 * state before the call; step, feed, sync, rewind, tap and unembed on it fail with MGPT_EARG. */
typedef int mgpt_tap_fn(const mgpt_value *value, void *user);

/* Calls fn at every point in the mask `points` from now on; points = 0 ends that. A session has one
 * tap. A tap that writes nothing changes no bit. With MGPT_FINAL or MGPT_LOGITS every position of a
 * chunk gets logits, otherwise only the last. Error: MGPT_EARG. */
MGPT_API int mgpt_tap(mgpt_session *session, uint64_t points, mgpt_tap_fn *fn, void *user,
                      mgpt_error *err);

/* Name of a point in TransformerLens' terms, e.g. "blocks.0.attn.hook_pattern". Like snprintf. */
MGPT_API size_t mgpt_point_name(mgpt_point point, int32_t layer, char *buf, size_t cap);

/* Copies cached keys (after rope, in the order of MGPT_ROT_K) and values of one KV head, positions
 * [pos, pos + n), as n rows of head_dim. k or v may be NULL. Error: MGPT_EARG. */
MGPT_API int mgpt_read_kv(const mgpt_session *session, int32_t layer, int32_t head, size_t pos,
                          size_t n, float *k, float *v, mgpt_error *err);

/* Applies the final norm and head to a residual vector (n_embd floats): n_vocab logits (the logit
 * lens). Taps do not fire. Uses the session's scratch and threads, not its state. Errors:
 * MGPT_EARG, MGPT_EMEM. */
MGPT_API int mgpt_unembed(mgpt_session *session, const float *residual, float *logits,
                          mgpt_error *err);

#ifdef __cplusplus
}
#endif

#endif
