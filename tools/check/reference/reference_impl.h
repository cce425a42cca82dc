/* Inside the reference readers: one struct, filled by the reader that the first bytes name. */
#ifndef MGPT_REFERENCE_IMPL_H
#define MGPT_REFERENCE_IMPL_H

#include "check/reference/reference.h"
#include "common/files.h"
#include "common/jval.h"
#include "common/npy.h"

enum {
    REF_MAX_TOKENS = 1 << 22, /* of a sequence: longer than any context */
    REF_PIECE = 1 << 14       /* bytes that are read at a time */
};

/* Numbers in the file, C order. */
struct ref_array {
    char *name;      /* malloc'ed; NULL where the format has none */
    struct npy npy;  /* kind also B: bfloat16, u: not negative */
    uint64_t offset; /* of the first byte in the file, if there is no member */
    int strided;     /* 1: element [i, j, ...] is i * strides[0] + j * strides[1] + ... */
    uint64_t strides[NPY_MAX_DIMS];
    struct zip_member *member; /* of an archive: the entry that has the data; NULL: none */
    struct zip_stream *stream; /* its bytes; NULL: not read yet */
    int deflated;
    struct ref_array *parts; /* stb_ds array: its rows, each an array of its own, or NULL */
    mgpt_point point;        /* of an inner value */
    int32_t layer;
    size_t rows, cols;
};

struct ref_item {
    const char *label;       /* lives in the JSON tree */
    int32_t *ids;            /* stb_ds array */
    size_t first_row;        /* of the logits: where its rows begin */
    size_t skipped;          /* tokens before the first row */
    const struct jval *rows; /* JSON: lists of logits, unless `partial` */
    /* JSON, if `partial`: stb_ds array, for each token the log-probabilities of some tokens. */
    const struct jval **entries;
    int partial;
    int digits_are_text, of_given;
};

struct ref_piece {
    const char *p;
    size_t n;
    int32_t id;
};

struct reference {
    struct file file;
    struct ref_options options;
    size_t n_vocab;
    struct ref_item *items;      /* stb_ds array */
    const struct jval **json;    /* stb_ds array, JSON only: the values of the file */
    const struct jval *response; /* JSON only: the one whose choices are being read, or NULL */
    char unread[200];           /* a note for the user, as of a field that no reader knows; or "" */
    int32_t *some;              /* of log-probabilities of some: stb_ds array, the ids of a row */
    uint8_t *seen;              /* 1: in `some` */
    struct ref_piece *pieces;   /* sorted; NULL: no text was looked up yet */
    size_t n_pieces, n_unknown; /* n_unknown: entries whose text names no token */
    struct ref_array logits;    /* all but JSON; llama.cpp: the rows begin at its offset */
    struct ref_row about;       /* the row read last */
    struct ref_array *hooks;    /* stb_ds array */
    struct zip_dir *zip;        /* .npz only */
    uint8_t *cache;             /* all data of hook `cached`, a deflated entry */
    size_t cached;
    const struct ref_format *format;
};

/* ---- the readers, one per format; reference.c has their table ---- */

/* Fills the reference, whose first bytes are loaded. */
typedef int ref_open_fn(struct reference *ref, mgpt_error *err);

/* As reference_row; about.n is n_vocab. */
typedef int ref_row_fn(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err);

ref_open_fn reference_json_open, reference_kld_open, reference_llmc_open, reference_raw_open;
ref_open_fn reference_npy_open, reference_npz_open, reference_st_open, reference_torch_open;
ref_row_fn reference_json_row, reference_kld_row, reference_array_row;

/* 1: the first bytes, which are loaded, are those of PyTorch or safetensors. */
int reference_is_torch(const struct reference *ref);
int reference_is_st(const struct reference *ref);

/* ---- what they share ---- */

/* n bytes of the file at `offset`, which the file has; their pages are not kept in memory. */
int reference_bytes(const struct reference *ref, uint64_t offset, size_t n, void *to,
                    mgpt_error *err);

/* The shape of logits: [rows, n_vocab] with an optional 1 in front. Stores rows. */
int reference_shape(const struct reference *ref, const struct ref_array *logits, size_t *rows,
                    mgpt_error *err);

/* Appends an id to an item, with all checks. */
int reference_add_id(const struct reference *ref, struct ref_item *item, int64_t id,
                     mgpt_error *err);

/* Adds an empty item; NULL when out of memory. */
struct ref_item *reference_add_item(struct reference *ref, mgpt_error *err);

/* Adds the one item of a file of n_rows rows: its ids are those of `tokens`, or (NULL) come from
 * outside. */
int reference_add_only(struct reference *ref, struct ref_array *tokens, size_t n_rows,
                       mgpt_error *err);

/* Adds n items of n_ids ids each, int32 at `offset` of the file, which holds them; each has `rows`
 * rows. */
int reference_add_texts(struct reference *ref, size_t n, size_t n_ids, uint64_t offset, size_t rows,
                        mgpt_error *err);

/* Adds what transformers' generate returns, as one item: `tokens` are the prompt and the drawn tokens,
 * the n_rows rows are the logits that they were drawn from. */
int reference_add_generated(struct reference *ref, struct ref_array *tokens, size_t n_rows,
                            mgpt_error *err);

/* n rows for n tokens, at least one. A single row is that of the last token. */
int reference_match(struct ref_item *item, size_t n_rows, mgpt_error *err);

/* "NAME: shape [2, 16, 27]": the beginning of an error line, in buf. */
const char *reference_shape_text(const struct ref_array *a, char *buf, size_t cap);

/* Accepts the element types of NumPy that references have; bfloat16 is <V2. */
int reference_npy_type(struct npy *npy, mgpt_error *err);

/* ---- reference_partial.c: sequences of JSON with log-probabilities of some tokens ---- */

/* A field of an object, or of the response that it is a choice of, which has what is about the
 * prompt. */
const struct jval *reference_field(const struct reference *ref, const struct jval *object,
                                   const char *name);

/* Whether an object has some. */
int reference_is_partial(const struct reference *ref, const struct jval *object);

/* Makes item->entries of them, and adds the tokens that they name. has_ids: the file's ids are those of
 * the whole text. */
int reference_partial_item(struct reference *ref, struct ref_item *item, const struct jval *object,
                           int has_ids, mgpt_error *err);
ref_row_fn reference_partial_row;

/* ---- reference_torch.c ---- */

struct state_tensor;

/* A tensor of the file (convert/core/state.h) as an array without a name, which is for errors. */
int ref_array_of(const struct reference *ref, const char *name, const struct state_tensor *t,
                 struct ref_array *a, mgpt_error *err);

/* ---- reference_array.c: reading arrays ---- */

static inline int ref_array_is_real(const struct ref_array *a)
{
    return a->npy.kind == 'f' || a->npy.kind == 'B';
}

/* Elements [first, first + n), which the array has. */
int ref_array_reals(struct reference *ref, struct ref_array *a, uint64_t first, size_t n,
                    double *out, mgpt_error *err);

/* Appends all of it, a list of integers, to an item. */
int ref_array_ids(struct reference *ref, struct ref_array *a, struct ref_item *item,
                  mgpt_error *err);
void ref_array_close(struct ref_array *a);

/* ---- reference_npz.c: entries of archives ---- */

/* Reads n bytes at `at` of the data of an array's entry, which has them. */
int reference_entry_bytes(struct ref_array *a, uint64_t at, size_t n, void *to, mgpt_error *err);
void reference_entry_close(struct ref_array *a);
void reference_npz_close(struct reference *ref);

/* ---- reference_names.c: arrays that have names ---- */

/* What has been found in a file. Owns its arrays until they are handed on. */
struct ref_named {
    struct ref_array tokens, logits;
    struct ref_array *hooks; /* stb_ds array */
};

/* 1 when the name means something to us. */
int ref_name_known(const char *name);

/* Files an array away by its name, and owns it (also on failure). `n_same` names of tokens: the
 * best one counts. */
int ref_named_add(struct ref_named *named, struct ref_array *a, mgpt_error *err);

/* Makes the (one) sequence of a file out of them; what it does not hand on it releases. */
int ref_named_use(struct reference *ref, struct ref_named *named, mgpt_error *err);
void ref_named_free(struct ref_named *named);

#endif
