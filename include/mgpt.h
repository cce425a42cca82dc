/* mgpt: a small GPT engine. A mgpt_model is the weights of a GGUF file: immutable, shared by any
 * number of threads. A mgpt_session is one sequence that a model runs: its tokens, their KV cache,
 * scratch and the last logits; one thread at a time may use it. README.md has a complete program.
 *
 * Promises. Logits depend only on the weights file and the tokens: the same bits for any number of
 * threads, chunking or instruction set; tapped, rewound, forked, with others or not. The library
 * prints nothing, never exits, reads no environment, has no globals. A hostile file is an error,
 * not a crash. Calls need 48 KiB of stack at most, besides taps; a session's threads have 512 KiB.
 *
 * Rules for every call. A params struct that is all zero, or NULL, means the defaults. A call that
 * can fail takes a trailing `mgpt_error *err`, which may be NULL. On failure it returns NULL or a
 * negative mgpt_status, fills *err, and leaves every object unchanged. On success it returns
 * MGPT_OK if nothing else is stated, and *err is unchanged. Freed or foreign pointers are not
 * detected. Calls that fill `cap` elements return the number needed and write at most cap; the
 * buffer may be NULL if cap is 0. Strings live as long as the model. Tokens are int32_t ids. */
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
#define MGPT_VERSION "0.2.0"             /* of this header */
#define MGPT_VERSION_NUMBER 200          /* 0 * 10000 + 2 * 100 + 0 */
MGPT_API const char *mgpt_version(void); /* of the library */

/* ---- errors ---- */
typedef enum mgpt_status {
    MGPT_OK = 0,
    MGPT_EARG = -1,  /* the caller's arguments: NULL; a token, layer or name out of range */
    MGPT_EFILE = -2, /* the file is invalid or not supported */
    MGPT_EMEM = -3,  /* out of memory, or a thread could not be started */
    MGPT_EIO = -4,   /* the operating system failed to open, read or write */
    MGPT_EFULL = -5, /* the context is full */
    MGPT_ETEXT = -6, /* text that the model's vocabulary cannot express */
    MGPT_ESTOP = -7  /* a tap's callback or mgpt_stop asked to stop */
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
    const char *isa; /* instruction set (mgpt_isa), "avx2:1" (kernels.h); NULL: the best one here */
    int vocab_only;  /* 1: only the tokenizer; the file may have no tensors; sessions are refused */
    int32_t n_threads; /* threads that pack the weights at open, up to 256; 0: chosen */
    int no_fused;      /* 1: no fused path for small models. Slower, with the same bits */
    int32_t top_k;  /* 1 to 64: only the top_k largest logits (of ids < n_tokens) have to be exact;
                     * others may be smaller estimates. Sessions are saved without. 0: all */
    int pack_later; /* 1: mgpt_open returns when the file is checked; threads of the model pack its
                     * weights meanwhile. Calls that run tokens, and mgpt_unembed, wait for what they
                     * need, and fail with MGPT_EIO or MGPT_EMEM if packing does */
} mgpt_model_params;

/* Opens a GGUF file (by any part, x-00002-of-00003.gguf), or one in memory (parts at multiples of
 * 65,536), which must stay unchanged until mgpt_close and needs no alignment. Up to 256 MiB are read
 * into memory, more are mapped and must not be truncated meanwhile. With AMX, and isa NULL or "amx",
 * Linux is asked once to permit its tiles (arch_prctl): sigaltstack(2) then requires larger stacks.
 * Errors: MGPT_EIO (open, read), MGPT_EFILE (with offset), MGPT_EMEM, MGPT_EARG. */
MGPT_API mgpt_model *mgpt_open(const char *path, const mgpt_model_params *params, mgpt_error *err);
MGPT_API mgpt_model *mgpt_open_bytes(const void *data, size_t size, const mgpt_model_params *params,
                                     mgpt_error *err);
MGPT_API void mgpt_close(mgpt_model *model); /* NULL is allowed. Free its sessions first */

/* Instruction set i of this build, slowest first: 0 is "scalar", others are as "avx2". NULL past the
 * end. *runs_here (or NULL): 1 if this machine has it. */
MGPT_API const char *mgpt_isa(size_t i, int *runs_here);
typedef struct mgpt_info {
    const char *arch, *name;   /* general.architecture: "microgpt", "llama"; general.name or "" */
    const char *chat_template; /* tokenizer.chat_template, "" when absent; never evaluated */
    const char *tokenizer;     /* its kind: "bpe", "spm"; "none" without a vocabulary */
    const char *isa, *type;    /* instruction set; element type of most weights: "F32", "F16" */
    const char *norm;          /* "rmsnorm" or "layernorm" */
    const char *activation;    /* of the MLPs, as files and options name it: "silu" */
    const char *position, *ignored; /* "none", "learned", "alibi", "rope"; "KEY is ID, ..." or "" */
    int32_t n_vocab, n_tokens; /* length of a row of logits; ids of the tokenizer, or n_vocab */
    int32_t n_ctx;             /* positions the model was trained for */
    int32_t n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff, n_expert, n_expert_used; /* or 0 */
    int32_t n_ff_expert, n_further; /* width of an expert; layers for further tokens, left out */
    int32_t value_dim, n_latent, bos, eos; /* widths of a value, of MLA's latent; ids or -1 */
    int32_t add_bos, nfc, steps; /* encode puts n tokens first (1: bos); form C; own steps */
    int32_t gated, tied, ln_embd, ln_final; /* 1: gated MLP; 1: the head is W_E; kinds of norms */
    float norm_eps, rope_base, attn_scale, value_scale; /* scores = q . k * attn_scale */
    float logit_scale, residual_scale, logit_softcap, attn_softcap; /* cap tanh(x / cap) */
    uint64_t n_params, file_bytes;      /* weights, counted once when tied; size of the file */
    uint64_t bytes_per_token, kv_bytes; /* weights read per step; cache per position, kv_type 0 */
} mgpt_info;
enum { MGPT_NO_NORM, MGPT_RMSNORM, MGPT_LAYERNORM }; /* kinds of norms */
typedef struct mgpt_layer {
    int32_t window;        /* most keys that a query sees, its own included; 0: all */
    int32_t n_rot, n_conv; /* components that rope rotates; tokens of a short convolution; or 0 */
    /* Kinds of the norms, which are named as roles are. */
    int32_t ln1, q_norm, k_norm, ln1_post, ln_mid, ln2, ln2_post, ln_post;
    int32_t n_head, n_head_kv, head_dim, value_dim, n_ff, kv_from; /* kv_from: whose keys it has */
} mgpt_layer;
typedef struct mgpt_tensor {
    const char *name, *type; /* as in the file; "F32", "F16", "BF16", ... */
    uint64_t dims[4];        /* dims[0] varies fastest (the row length); unused ones are 1 */
    uint32_t n_dims;
    uint64_t offset, n_bytes; /* in the file */
    uint64_t first;           /* of a role: where its values begin in the tensor `name`; else 0 */
} mgpt_tensor;

/* Facts of the model, layer i, tensor i in file order, a named tensor. Error: MGPT_EARG. */
MGPT_API int mgpt_get_info(const mgpt_model *model, mgpt_info *info, mgpt_error *err);
MGPT_API int mgpt_get_layer(const mgpt_model *model, size_t i, mgpt_layer *layer, mgpt_error *err);
MGPT_API int mgpt_get_tensor(const mgpt_model *model, size_t i, mgpt_tensor *t, mgpt_error *err);
MGPT_API int mgpt_find_tensor(const mgpt_model *model, const char *name, mgpt_tensor *t,
                              mgpt_error *err);
MGPT_API size_t mgpt_n_tensors(const mgpt_model *model);

/* What a tensor does, whatever its name: E = n_embd and so on as in mgpt_point. In a layer that is a
 * short convolution W_Q, W_K, W_V are those of C, B, x; in a mixture W_GATE, W_UP, W_DOWN are those
 * of the shared expert. Roles from MGPT_LN1 on are of layers. */
typedef enum mgpt_role { /* clang-format off */
    MGPT_W_E, MGPT_W_POS,            /* [V][E], [n_ctx][E]  embeddings of tokens and positions */
    MGPT_LN_EMBD, MGPT_LN_FINAL, MGPT_W_U, /* [E]  of the embedding, before the head; [V][E] the head, or W_E */
    MGPT_ROPE_DIVISORS, MGPT_ROPE_LONG, MGPT_ROPE_SHORT, /* [n_rot / 2]  of frequencies; LongRoPE's */
    MGPT_X_SCALES, MGPT_X0_SCALES,   /* [n_layer]  x = scale x + scale0 x0 before each layer */
    MGPT_SMEAR_GATE, MGPT_SMEAR_SCALE, /* [1][columns], [1]  of the embedding of the token before */
    MGPT_BACKOUT,                    /* [1]  of x after layer n_layer / 2, subtracted at the end */
    MGPT_INPUT_EMBD, MGPT_INPUT_PROJ, MGPT_INPUT_NORM, /* [V][n_layer*P], [n_layer*P][E], [P] of inputs */
    MGPT_W_HEAD, MGPT_LN_HEAD,       /* [E][E], [E]  W_U reads ln_head(act(W_head h)) (ModernBERT) */
    MGPT_LN1, MGPT_W_Q, MGPT_W_K, MGPT_W_V, /* [E], [H*d][E], [G*d][E], [G*d][E] */
    MGPT_Q_NORM, MGPT_K_NORM,        /* [d], [heads][d] or [heads * d] */
    MGPT_VALUE_EMBD, MGPT_VALUE_GATE, /* [V][G*d], [G][columns]  added to values */
    MGPT_CONV, MGPT_SINKS, MGPT_HEAD_GATE, /* [E][n_conv]; [H] scores without a key; [H] or [H*d][E] */
    MGPT_W_O, MGPT_LN1_POST, MGPT_LN_MID, /* [E][H*d], [E]  norms of attention's output, of x after it */
    MGPT_LN2, MGPT_W_GATE, MGPT_W_UP, MGPT_W_DOWN, /* [E], [F][E], [F][E], [E][F] */
    MGPT_W_ROUTER, MGPT_EXPERTS_GATE, MGPT_EXPERTS_UP, MGPT_EXPERTS_DOWN, /* [X][E], [X] of the above */
    MGPT_SHARED_GATE, MGPT_LN2_POST, /* [E]  of the shared expert; norm of the MLP's output */
    MGPT_LN_POST, MGPT_EXPERT_BIAS,  /* [E]  norm of x after the MLP; [X]  of the choice of experts alone */
    MGPT_INPUT_GATE, MGPT_INPUT_OUT, MGPT_LN_INPUT, MGPT_OUT_SCALE, /* [P][E], [E][P], [E]; [1] of x at last */
    MGPT_W_Q_DOWN, MGPT_Q_DOWN_NORM, MGPT_W_KV_DOWN, MGPT_KV_DOWN_NORM, /* MLA: latents; W_Q reads Q's */
    MGPT_W_KV_UP, MGPT_W_K_UP, MGPT_W_V_UP, MGPT_N_ROLES /* its keys and values: one tensor, or two */
} mgpt_role;                                                 /* clang-format on */
typedef enum mgpt_part { MGPT_WEIGHT, MGPT_BIAS } mgpt_part; /* a norm's weight is its gain */

/* The tensor, or the rows of one, that gives a role in `layer` (ignored outside layers) its weight
 * or bias: q, k and v of GPT-2 are rows of one tensor, from element tensor->first on, and dims,
 * offset and n_bytes are those of the rows. One norm before both branches is LN1 and LN2. Error:
 * MGPT_EARG also if the model has none: norms may have no weight. A role's name, "W_Q", or NULL. */
MGPT_API int mgpt_find_role(const mgpt_model *model, mgpt_role role, int32_t layer, mgpt_part part,
                            mgpt_tensor *tensor, mgpt_error *err);
MGPT_API const char *mgpt_role_name(mgpt_role role);

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

/* Encodes UTF-8 text (NUL bytes are text) in O(n log n), Unigram in n plus the tokens that it finds.
 * Returns the number of tokens. Errors: MGPT_ETEXT (names the character), MGPT_EARG, MGPT_EMEM. */
MGPT_API int64_t mgpt_encode(const mgpt_model *model, const char *text, size_t n_bytes,
                             unsigned flags, int32_t *tokens, size_t cap, mgpt_error *err);

/* The bytes that a token decodes to: possibly part of a UTF-8 character, possibly NUL bytes, not
 * NUL-terminated; empty for control tokens and ids out of range. Its string in the vocabulary, as
 * "<s>", "Ġthe". 1 when it ends generation: eos, eot, and any other id that the file names. */
MGPT_API const char *mgpt_piece(const mgpt_model *model, int32_t token, size_t *n_bytes);
MGPT_API const char *mgpt_token_text(const mgpt_model *model, int32_t token, size_t *n_bytes);
MGPT_API int mgpt_is_end(const mgpt_model *model, int32_t token);

/* Decodes tokens to whole characters of valid UTF-8; zero it to begin a text. Invalid bytes become
 * U+FFFD. The space that SentencePiece models put before a text is dropped. put appends a token,
 * writes all complete characters, holds the rest; above cap the stream is unchanged, buf undefined
 * (3 * piece length + 9 suffices). end writes U+FFFD if bytes are held. Both return bytes. */
typedef struct mgpt_stream {
    unsigned char held[4];
    uint8_t n_held, started; /* started: a text token has been seen */
} mgpt_stream;
MGPT_API size_t mgpt_stream_put(mgpt_stream *stream, const mgpt_model *model, int32_t token,
                                char *buf, size_t cap);
MGPT_API size_t mgpt_stream_end(mgpt_stream *stream, char *buf, size_t cap);

/* ---- session ---- */
/* Element type of the KV cache. Keys and values are rounded once, when they are appended: F16 to
 * IEEE half (nearest even), with the bits of F32 for values so rounded; Q8_0 to 8 bits in blocks of
 * 32 of a head, queries too (kernels.h). Taps show values before rounding, mgpt_read_kv after. */
enum { MGPT_KV_F32 = 1, MGPT_KV_F16 = 2, MGPT_KV_Q8_0 = 3 };
typedef struct mgpt_session mgpt_session;
typedef struct mgpt_session_params {
    int32_t n_ctx;     /* most positions; 0: the model's, the limit. Memory grows with tokens */
    int32_t n_threads; /* up to 256; 0: chosen from the work per token and the number of cores */
    int32_t n_chunk;   /* tokens per pass over the weights in mgpt_feed, up to 4096; 0: chosen */
    int32_t kv_type;   /* 0: F16 if most weights are not F32 and F32 takes >= 32 KiB a position */
} mgpt_session_params;

/* Makes an empty session; the model must outlive it. fork makes an independent copy, without taps,
 * whose first pass allocates its scratch and threads and may fail. Errors: MGPT_EARG, MGPT_EMEM. */
MGPT_API mgpt_session *mgpt_session_new(const mgpt_model *model, const mgpt_session_params *params,
                                        mgpt_error *err);
MGPT_API mgpt_session *mgpt_fork(const mgpt_session *session, mgpt_error *err);
MGPT_API void mgpt_session_free(mgpt_session *session);

/* step runs one token at position mgpt_pos(). Returns mgpt_logits(), n_vocab floats. feed runs n
 * tokens with the same bits as n steps, but with one pass over the weights per chunk. Only the last
 * token's logits are kept (tap MGPT_LOGITS to see all). n = 0 does nothing. step_many is feed_many
 * of one token each: sessions[i] runs tokens[i]. sync makes the session hold exactly these tokens,
 * reusing the longest common prefix; mgpt_logits() is valid then unless n is 0; a failure can leave
 * a prefix of the tokens. rewind removes all from position pos on, in constant time; mgpt_logits()
 * is NULL then. Errors: MGPT_EARG (token, called by a tap), MGPT_EFULL, MGPT_EMEM, MGPT_ESTOP. */
MGPT_API const float *mgpt_step(mgpt_session *session, int32_t token, mgpt_error *err);
MGPT_API int mgpt_feed(mgpt_session *session, const int32_t *tokens, size_t n, mgpt_error *err);
MGPT_API int mgpt_step_many(mgpt_session *const *sessions, const int32_t *tokens, size_t n,
                            mgpt_error *err);
MGPT_API int mgpt_sync(mgpt_session *session, const int32_t *tokens, size_t n, mgpt_error *err);
MGPT_API int mgpt_rewind(mgpt_session *session, size_t pos, mgpt_error *err);

/* Ends the call in which the session runs tokens with MGPT_ESTOP: soon, even in a long prompt. Any
 * thread and a signal handler may call it (NULL: nothing). A call that it misses is not stopped, but
 * the next one that runs tokens; mgpt_rewind, to mgpt_pos too, withdraws it. */
MGPT_API void mgpt_stop(mgpt_session *session);

/* Feeds several sessions of one model in common passes over the weights, with scratch, threads and
 * chunks of the first one. Each has its tap, and the bits it has alone. A run
 * with `resid` begins in `layer`: these rows are its MGPT_RESID_PRE, nothing before it is computed
 * or tapped, and keys and values of the layers before it are copied from `clean`. Runs of a session
 * are adjacent and follow each other: to edit what layer l computes at position p alone, run token
 * p from layer l on with a tap, then the tokens after it untapped from layer l + 1 on. */
typedef struct mgpt_run {
    mgpt_session *session;
    const int32_t *tokens; /* [n], from mgpt_pos() on; not in another session's array */
    size_t n;
    const float *resid;        /* [n, n_embd]; NULL: the run begins with the embedding */
    const mgpt_session *clean; /* if layer > 0: it holds these tokens at these positions */
    int32_t layer;
    int untapped; /* 1: the session's tap is not called for these tokens */
} mgpt_run;
MGPT_API int mgpt_feed_many(const mgpt_run *runs, size_t n, mgpt_error *err);

/* save writes tokens, cache and logits to a file, whole or not at all, and replaces no file of another
 * kind; load makes the session hold them. The file is tied to the model's (its XXH64), kv_type and the
 * arithmetic. Errors: MGPT_EARG, MGPT_EFILE, MGPT_EIO, MGPT_EMEM; load: also MGPT_EFULL. */
MGPT_API int mgpt_save_session(mgpt_session *session, const char *path, mgpt_error *err);
MGPT_API int mgpt_load_session(mgpt_session *session, const char *path, mgpt_error *err);

/* The number of tokens; their array, valid until the next call that changes the session, to which
 * it may be passed; the logits after the last one, or NULL if the session is empty or rewound. */
MGPT_API size_t mgpt_pos(const mgpt_session *session);
MGPT_API const int32_t *mgpt_tokens(const mgpt_session *session);
MGPT_API const float *mgpt_logits(const mgpt_session *session);
MGPT_API size_t mgpt_n_ctx(const mgpt_session *session); /* its largest number of positions */
MGPT_API int mgpt_n_threads(const mgpt_session *session);
MGPT_API const mgpt_model *mgpt_session_model(const mgpt_session *session);

/* ---- choosing ---- */
/* Changes n logits, a copy of the session's, before a draw: repetition penalties, biases, bans. Of
 * the text that tokens[0 .. n_tokens) are, it chooses what follows. No side effects: it may run twice. */
typedef void mgpt_edit_fn(float *logits, size_t n, const int32_t *tokens, size_t n_tokens,
                          void *user);

/* The caller owns it; all zero is greedy. Order: edit, temperature, top-k, top-p, min-p, each on the
 * distribution that the previous one left; then one draw in order of token id. */
typedef struct mgpt_sampler {
    float temperature; /* <= 0: the largest logit, lowest id on ties */
    int32_t top_k;     /* keep the k largest; <= 0: all */
    float top_p;       /* keep the smallest set of probability >= top_p; <= 0 or >= 1: all */
    float min_p;       /* drop tokens less likely than min_p times the likeliest; <= 0: none */
    uint64_t rng;      /* seed, and afterwards the state (SplitMix64) */
    double (*uniform)(void *); /* NULL, or numbers in [0, 1) instead of rng's */
    void *uniform_user;
    mgpt_edit_fn *edit; /* NULL: the logits as they are; then the fields below are not read */
    void *edit_user;
    float *copy;           /* the caller's, as many floats as there are logits: what edit gets */
    const int32_t *tokens; /* [n_tokens] the text so far, for edit */
    size_t n_tokens;
} mgpt_sampler;
typedef struct mgpt_candidate {
    int32_t token;
    float logit;
    double logprob; /* natural logarithm of the softmax probability at temperature 1 */
} mgpt_candidate;

/* sample chooses one of n tokens; NaN counts as minus infinity. sample_many draws n_draws tokens
 * from the same logits, token i as sample does with rng[i] for sampler->rng. Both return MGPT_EARG
 * for NULL, n = 0 or edit without copy, sample_many also for `uniform`. top writes the k likeliest, best first, lowest
 * id first on ties; returns min(k, n). logprob is log softmax(logits)[token] in float64, or NaN.
 * draw_prob is the probability with which sample chooses a token: of the integer weights that it
 * draws from, after edit, temperature and filters; NaN for wrong arguments. */
MGPT_API int32_t mgpt_sample(mgpt_sampler *sampler, const float *logits, size_t n);
MGPT_API int mgpt_sample_many(const mgpt_sampler *sampler, uint64_t *rng, size_t n_draws,
                              const float *logits, size_t n, int32_t *tokens);
MGPT_API size_t mgpt_top(const float *logits, size_t n, mgpt_candidate *top, size_t k);
MGPT_API double mgpt_logprob(const float *logits, size_t n, int32_t token);
MGPT_API double mgpt_draw_prob(const mgpt_sampler *sampler, const float *logits, size_t n,
                               int32_t token);

/* ---- looking inside ---- */
/* Points of the forward pass in order, with shapes and TransformerLens' names (mgpt_point_name),
 * those of a layer without "blocks.n.". A chunk has T tokens; E = n_embd, F = n_ff, V = n_vocab,
 * H = n_head, G = n_head_kv, d = head_dim, X = n_expert: where layers differ, mgpt_layer's. A point
 * that a layer lacks (K, V, ROT_K of one with another layer's keys) never fires; of a mixture,
 * [T, F] is the shared expert. An expert whose weight a tap sets to 0 is not computed. Of a short
 * convolution (LFM2) Q, K, V are C, B, x, and HEADS is C * conv(B * x): all [T, H*d]. MLA: V, HEADS
 * have value_dim for d; K, ROT_K, V are copies. */
typedef enum mgpt_point { /* clang-format off */
    MGPT_EMBD, MGPT_POS_EMBD,  /* [T, E]      hook_embed, hook_pos_embed */
    MGPT_EMBD_NORM,            /* [T, E]      ln_embed.hook_normalized */
    MGPT_RESID_PRE, MGPT_ATTN_IN, /* [T, E]   hook_resid_pre, ln1.hook_normalized */
    MGPT_Q, MGPT_K, MGPT_V,    /* [T, H*d], [T, G*d], [T, G*d]  attn.hook_q, hook_k, hook_v */
    MGPT_ROT_Q, MGPT_ROT_K,    /* [T, H*d], [T, G*d]  attn.hook_rot_q, hook_rot_k */
    MGPT_SCORES, MGPT_WEIGHTS, /* [H, pos+1]  attn.hook_attn_scores (scaled), hook_pattern */
    MGPT_GATES, MGPT_HEADS,    /* [T, H] or [T, H*d], [T, H*d]  attn.hook_gate (of heads), hook_z (times them) */
    MGPT_ATTN_OUT, MGPT_RESID_MID, /* [T, E]  hook_attn_out, hook_resid_mid */
    MGPT_MLP_IN, MGPT_MLP_PRE, /* [T, E], [T, F]  ln2.hook_normalized, mlp.hook_pre (the gate's) */
    MGPT_MLP_PRE_LINEAR, MGPT_MLP_POST, /* [T, F]  mlp.hook_pre_linear (gated only), hook_post */
    MGPT_ROUTER_SCORES, MGPT_EXPERT_WEIGHTS, /* [T, X]  mlp.hook_router_scores, hook_expert_weights */
    MGPT_MLP_OUT, MGPT_RESID_POST, /* [T, E]  hook_mlp_out, hook_resid_post */
    MGPT_FINAL, MGPT_HEAD_IN,  /* [T, E]  ln_final.hook_normalized; mlm_head.ln.hook_normalized (ModernBERT) */
    MGPT_LOGITS, MGPT_N_POINTS /* [T, V]      logits */
} mgpt_point; /* clang-format on */
#define MGPT_POINT_BIT(point) (UINT64_C(1) << (point))

/* What a tap sees: `rows` rows of `cols` values, row i at data + i * stride. Row i is of position
 * pos + i; at MGPT_SCORES and MGPT_WEIGHTS it is head i of the query at `pos`. In a chunk, the
 * scores of several queries may come before their weights. `data` is the engine's own buffer, valid
 * during the callback. The model uses what a tap writes there, or MGPT_EARG if `copied` is not 0.
 * Heads of MGPT_Q, MGPT_K, MGPT_ROT_Q and MGPT_ROT_K, and the keys of mgpt_read_kv, have the order
 * of Hugging Face transformers in every architecture: of n rotated components i and i + n/2 are a
 * pair. mgpt_read_tensor returns rows as stored: in llama, olmo and smollm3 a pair is rows 2i and
 * 2i + 1 of attn_q and attn_k; in nanochat the two halves of a head are swapped. */
typedef struct mgpt_value {
    mgpt_point point;
    int32_t layer, pos, rows, cols, copied; /* layer: -1 outside the layers */
    size_t stride;                          /* in floats */
    float *data;
} mgpt_value;

/* Calls fn, the session's only tap, at every point in the mask `points` from now on; 0 ends that.
 * With MGPT_FINAL or MGPT_LOGITS every position of a chunk gets logits, some at a time; otherwise
 * only the last. fn runs on the caller's thread and returns 0 to continue; any other value stops
 * the call with MGPT_ESTOP. It may read the session, not change it. Error: MGPT_EARG. */
typedef int mgpt_tap_fn(const mgpt_value *value, void *user);
MGPT_API int mgpt_tap(mgpt_session *session, uint64_t points, mgpt_tap_fn *fn, void *user,
                      mgpt_error *err);
MGPT_API size_t mgpt_point_name(mgpt_point point, int32_t layer, char *buf, size_t cap);

/* read_kv copies cached keys (after rope, in the order of MGPT_ROT_K) and values of one KV head,
 * positions [pos, pos + n), n rows of head_dim or value_dim. k, v may be NULL. MGPT_EARG, MGPT_EMEM.
 * unembed applies the final norm and head to x, a row of the residual stream: n_vocab logits (the
 * logit lens). It fires no tap and leaves the session's state. Errors: MGPT_EARG, MGPT_EMEM. */
MGPT_API int mgpt_read_kv(const mgpt_session *session, int32_t layer, int32_t head, size_t pos,
                          size_t n, float *k, float *v, mgpt_error *err);
MGPT_API int mgpt_unembed(mgpt_session *session, const float *x, float *logits, mgpt_error *err);
#ifdef __cplusplus
}
#endif
#endif
