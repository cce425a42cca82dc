/* Named tensors: what PyTorch pickles, safetensors files and .npz archives have in common.
 *
 * A container's reader fills a struct state (state_add, then state_seal): for each tensor its name,
 * element type, shape, strides and where its bytes are. Nothing is copied: bytes stay in the file.
 * A mapping (one per program that trains models) then takes tensors by name, checks their shapes,
 * and puts them into the checkpoint under GGUF's names, stacked, transposed or with rows in another
 * order (state_put). What no mapping took is refused by name at the end (state_check_used).
 *
 * Errors leave the run (checkpoint.h).
 *
 * After state_put the checkpoint refers to the bytes of the file, no more to the struct state.
 */
#ifndef MGPT_CONVERT_STATE_H
#define MGPT_CONVERT_STATE_H

#include "convert/core/checkpoint.h"

enum { STATE_MAX_DIMS = 8 };

/* Element types. Only the first four can be weights; the others occur in buffers. */
enum state_type {
    STATE_F32,
    STATE_F16,
    STATE_BF16,
    STATE_F64,
    STATE_I64,
    STATE_I32,
    STATE_I16,
    STATE_I8,
    STATE_U8,
    STATE_BOOL,
    STATE_U32,
    STATE_F8_E4M3,
    STATE_OTHER, /* known to its container by name only; cannot be read */
    STATE_N_TYPES
};

/* "F32", and the bytes of one element (0 for STATE_OTHER). */
const char *state_type_name(enum state_type type);
size_t state_type_bytes(enum state_type type);

/* A matrix that is stored in a way of its own: quantised. Rows are those of `shape`. */
struct state_packed {
    const struct dtype *type; /* holds all values exactly */
    /* Values [first, first + n) of a row. */
    void (*values)(const struct state_packed *p, uint64_t row, uint64_t first, size_t n,
                   float *out);
    /* Values [first, first + n) of a row as blocks of `type`, both whole blocks. NULL: type is F32. */
    void (*blocks)(const struct state_packed *p, uint64_t row, uint64_t first, size_t n,
                   uint8_t *out);
};

struct state_tensor {
    const char *name; /* NUL-terminated, without the prefixes of state_add */
    enum state_type type;
    uint32_t n_dims;                  /* 0: a scalar */
    uint64_t shape[STATE_MAX_DIMS];   /* slowest first, as PyTorch prints it */
    uint64_t strides[STATE_MAX_DIMS]; /* in elements */
    struct span bytes; /* element [0, ..., 0] is at its start; holds the last one, too */
    int used;          /* 1: a mapping has taken it */
    const char *alias; /* what state_find knows it by; NULL: its name */
    const struct state_packed *packed; /* NULL: values are at `bytes`; else type is STATE_OTHER */
};

struct state_name {
    const char *name;
    uint32_t at;
};

struct state {
    struct checkpoint *c;         /* names live in its memory */
    struct state_tensor *tensors; /* stb_ds array, in the order of the file */
    struct state_name *order;     /* stb_ds array, sorted by name */
};

/* ---- filling --------------------------------------------------------------------------------- */

void state_init(struct state *s, struct checkpoint *c);
void state_free(struct state *s);

/* An empty one that is freed when the run ends (checkpoint.h). */
struct state *state_new(struct checkpoint *c);

/* Strides of a contiguous tensor. */
void state_contiguous(struct state_tensor *t);

/* Shape and strides against the bytes: everything that reads values relies on it. Returns MGPT_EFILE with
 * *err. */
int state_check_extent(const struct state_tensor *t, mgpt_error *err);

/* Appends t under the name of n bytes, less the words of modules that trainers wrap around others:
 * "_orig_mod." (torch.compile), "_fsdp_wrapped_module." and the like, and "module." at the front
 * (data parallel). Checks that name and shape are sane and that bytes.size covers the last element.
 * Tensors without elements are allowed. */
void state_add(struct state *s, const char *name, size_t n, struct state_tensor t);

/* After the last state_add, or another change of names: sorts, refuses names that occur twice. */
void state_seal(struct state *s);

/* Bytes of the first word and its dot when all names begin with it and go on; else 0. */
size_t state_first_word(const struct state *s);

/* Takes n bytes off the front of all names, or puts them back: -n. */
void state_cut(struct state *s, ptrdiff_t n);

/* ---- taking ---------------------------------------------------------------------------------- */

/* The tensor of this name, marked as used; NULL when there is none. O(log n). */
const struct state_tensor *state_find(struct state *s, const char *name);

/* A look, and whether there is something to see; neither marks it. */
const struct state_tensor *state_peek(const struct state *s, const char *name);
int state_has(const struct state *s, const char *name);

/* How many layers there are: the number of N from 0 on for which the pattern exists. */
uint32_t state_count_layers(const struct state *s, const char *pattern);

/* Whether the name has an N between dots or at an end: "transformer.h.N.ln_1.weight". */
int state_is_pattern(const char *name);

/* The pattern with its first such N replaced; buf is always NUL-terminated. */
void state_layer_name(char *buf, size_t cap, const char *pattern, uint32_t layer);

/* "tensor NAME: shape [2, 3], expected [4, 5]"; n_out 0 means a vector [n_in]. */
void state_check_shape(struct checkpoint *c, const struct state_tensor *t, uint64_t n_out,
                       uint64_t n_in);

/* "tensor NAME: missing". */
_Noreturn void state_missing(struct checkpoint *c, const char *name);

/* Marks buffers (masks, tables of a forward pass) whose name ends so: they are not weights. */
void state_skip_suffix(struct state *s, const char *suffix);

/* The first tensor that was not used; NULL: none. "tensor NAME: no WHAT has it" if there is one. */
const struct state_tensor *state_unused(const struct state *s);
void state_check_used(const struct state *s, const char *what);

/* ---- putting --------------------------------------------------------------------------------- */

enum state_rows { /* order of the rows of a head */
                  STATE_ROWS_KEEP,
                  STATE_ROWS_PAIRS,  /* halves to pairs: new 2i is old i, 2i + 1 is i + block/2 */
                  STATE_ROWS_HALVES, /* pairs to halves: new i is old 2i, i + block/2 is 2i + 1 */
                  STATE_ROWS_SWAP    /* the two halves change places */
};

/* n_rows rows out of a tensor. Row r of the part is row
 *     first + r / block * step + order(r % block)
 * of the tensor. Zero means: block all rows, step = block, n_rows all from `first` on. `order` is
 * that of the rows inside each `head` rows of a block (0: of the block). Grouped q, k, v of
 * GPT-NeoX: {.tensor = t, .first = i * hd, .n_rows = H * hd, .block = hd, .step = 3 * hd}. A vector
 * is n rows of one value, so that biases are ordered with the same words as matrices. */
struct state_part {
    const struct state_tensor *tensor; /* NULL: n_rows of zeros */
    int transposed;                    /* the tensor is stored [n_in, n_out] (GPT-2's Conv1D) */
    uint64_t first, n_rows, block, step, head;
    enum state_rows order;
};

/* Adds to the checkpoint the tensor that the parts make when stacked, `plus` added to each value
 * (Gemma's norms: 1). All parts are matrices of one width, or all are vectors; n_in is that width,
 * 0 for vectors. The element type is the source's where all parts agree and GGUF has it, otherwise
 * F32. A single part that is contiguous and in order is referenced in place. Errors: MGPT_EFILE
 * naming the tensor. */
void state_put(struct checkpoint *c, const char *gguf_name, uint64_t n_in,
               const struct state_part *parts, size_t n_parts, float plus);

/* GGUF's type of a tensor's values; NULL: it has none. */
const struct dtype *state_dtype(enum state_type type);

/* Where the values of a whole tensor of up to two dimensions come from: type, bytes or values and
 * source. For vectors `at` may be set. Errors: MGPT_EFILE naming the tensor. */
void state_source(struct checkpoint *c, const struct state_tensor *t, struct ckpt_tensor *from);

/* ---- mapping by a table ---------------------------------------------------------------------- */

enum {
    STATE_OPTIONAL = 1 << 0, /* the weight may be absent */
    STATE_BARE = 1 << 1,     /* the names are whole: ".weight" is not added, and there is no bias */
    STATE_TRANSPOSED = 1 << 2, /* stored [n_in, n_out] */
    STATE_PAIRS = 1 << 3,      /* STATE_ROWS_PAIRS in blocks of head_dim */
    STATE_SWAP = 1 << 4,       /* STATE_ROWS_SWAP in blocks of head_dim */
    STATE_PLUS_ONE = 1 << 5,
    STATE_FIRST_ROWS = 1 << 6, /* may have more rows than n_out: padding of the vocabulary */
    /* The rows of queries, keys or values in a tensor of all three (n_out P): all q, all k, all v; with
     * STATE_GROUPED for each KV head its queries, its key, its value. */
    STATE_Q = 1 << 7,
    STATE_K = 1 << 8,
    STATE_V = 1 << 9,
    STATE_GROUPED = 1 << 10,
    STATE_BIAS = 1 << 11,          /* there is a bias, too: n_out values, of a vector n_in */
    STATE_BIAS_OPTIONAL = 1 << 12, /* the bias may be absent */
    STATE_BIAS_ZEROS = 1 << 13,    /* zeros are written if the bias is absent */
    STATE_ATTENTION = 1 << 14,     /* only in layers that are attention by hp.kv_heads */
    STATE_CONVOLUTION = 1 << 15,   /* only in layers that are short convolutions by hp.kv_heads */
    STATE_HALVES = 1 << 16,        /* STATE_ROWS_HALVES in blocks of head_dim */
    STATE_GATE = 1 << 17,          /* the first n_ff rows of a tensor of gate and up (n_out R) */
    STATE_UP = 1 << 18,            /* the others */
    STATE_IS_PART = STATE_Q | STATE_K | STATE_V | STATE_GATE | STATE_UP,
    STATE_OTHER_FLAGS = 1 << 19 /* from here on: free for families */
};

/* One tensor of the model, or one of every layer when `from` has an N. Rows with the same `to` that
 * follow each other are stacked; n_in and STATE_PLUS_ONE are the first one's. */
struct state_row {
    const char *from, *to; /* "layers.N.attention.wq", "blk.N.attn_q" */
    char n_out, n_in;      /* letters of struct state_sizes; n_out 0: a vector */
    unsigned flags;
};

/* What the letters mean. E: n_embd; V: n_vocab; T: n_ctx; F: n_ff; Q: n_head * head_dim; K:
 * n_head_kv * head_dim; P: Q + 2 K; H: head_dim; A: n_head; G: n_head_kv; L: n_layer;
 * R: 2 F (a gate stacked on an up); B: 3 E; of latent attention C: n_latent; D: C + n_rot; U: n_q_latent;
 * W: n_head * (head_dim - n_rot + value_dim); Z: n_head * value_dim; M: n_head_kv * value_dim. Taken from c->hp. */
uint64_t state_size(const struct ckpt_hparams *hp, char letter);

/* The name of a row's tensor, or of its bias, from its `from` or `to`. */
enum { STATE_MAX_ROW_NAME = 256 };
void state_row_name(char buf[STATE_MAX_ROW_NAME], const char *pattern, const struct state_row *row,
                    uint32_t layer, int is_bias);

/* Sets which rows of a tensor the row takes, in which order: those of q, k or v, pairs, halves. The
 * other members of *part keep what they have. */
void state_row_part(const struct state_row *row, const struct ckpt_hparams *hp,
                    struct state_part *part);

/* Puts the rows without N in the order of the table, and at the place of the first row with an N
 * all rows of layer 0, then of layer 1, ... */
void state_map(struct state *s, const struct state_row *rows, size_t n_rows);

#endif
