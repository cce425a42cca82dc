/* Inside the reference readers: one struct, filled by the reader that the first bytes name. */
#ifndef MGPT_REFERENCE_IMPL_H
#define MGPT_REFERENCE_IMPL_H

#include "file.h"
#include "npy.h"
#include "reference.h"

#include <jansson.h>
#include <zip.h>

enum { REF_MAX_TOKENS = 1 << 22 }; /* of a sequence: longer than any context */

struct ref_item {
    const char *label; /* lives in the JSON tree */
    int32_t *ids;      /* stb_ds array */
    json_t *rows;      /* JSON only; lives in the tree */
};

struct reference {
    struct file file;
    size_t n_vocab;
    struct ref_item *items; /* stb_ds array */
    json_t *json;           /* JSON only */
    struct npy logits;      /* npy and npz */
    const uint8_t *rows;    /* npy: the first row, inside file */
    zip_t *zip;             /* npz */
    zip_file_t *stream;     /* npz: the logits, at the beginning of row `next` */
    size_t next;
    uint8_t *row; /* npz: bytes of one row */
};

int reference_json_open(struct reference *ref, mgpt_error *err);
int reference_json_row(struct reference *ref, size_t i, size_t row, double *out, mgpt_error *err);

int reference_npz_open(struct reference *ref, mgpt_error *err);
int reference_npz_row(struct reference *ref, size_t row, double *out, mgpt_error *err);

/* The shape of logits: [rows, n_vocab] with an optional 1 in front. Stores rows. */
int reference_shape(const struct reference *ref, const struct npy *npy, size_t *rows,
                    mgpt_error *err);

/* Appends an id to an item, with all checks; `where` is its position in the list. */
int reference_add_id(const struct reference *ref, struct ref_item *item, int64_t id,
                     mgpt_error *err);

/* Adds an empty item; NULL when out of memory. */
struct ref_item *reference_add_item(struct reference *ref, mgpt_error *err);

/* n rows for n tokens, at least one. */
int reference_match(size_t n_ids, size_t n_rows, mgpt_error *err);

#endif
