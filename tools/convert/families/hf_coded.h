/* Matrices of codes with scales in Hugging Face directories: FP8, compressed-tensors, bitsandbytes, HQQ.
 *
 * A weight is (book[code] - zero) * scale * factor, with the scale and the zero of its block: each
 * product is rounded to float32 once. A code has 8 bits, or 4.
 *
 *     X.weight       beside it                    of
 *     F8_E4M3        weight_scale_inv             fp8: blocks, or one for all
 *     F8_E4M3, I8    weight_scale                 compressed-tensors, fbgemm_fp8, modelopt: a scale for
 *                                                 all, for each row, for each group, or block
 *     I8             SCB                          bitsandbytes: scale / 127 for each row
 *     U8             weight.absmax, .quant_map    bitsandbytes, NF4 and FP4: two codes a byte, blocks run
 *                                                 on over rows; absmax may be codes again
 *     weight_packed  weight_scale, weight_shape   compressed-tensors: codes in words, with zeros or
 *                                                 around the middle
 *     U8             weight_scale, weight_scale_2 ModelOpt's NVFP4: scales of 16 times one for all
 *     weight_packed  weight_scale,                compressed-tensors' NVFP4: divided by one for all
 *                    weight_global_scale
 */
#ifndef MGPT_CONVERT_HF_CODED_H
#define MGPT_CONVERT_HF_CODED_H

#include "convert/families/hf.h"

enum { HF_N_CODES = 256 };

/* The grid of scales: row r and column c have scale [r / rows][c / columns], or r * n_in + c (flat)
 * has scale number that / columns. */
struct hf_coded {
    struct state_packed base; /* the first member: base.values gets its address */
    const uint8_t *codes;
    const float *book; /* [HF_N_CODES] */
    unsigned bits;     /* 8 or 4 */
    int high_first;    /* of two codes in a byte */
    uint64_t n_in, n_out, row_bytes;
    uint64_t rows, columns, across; /* of a block; blocks across the matrix */
    int flat;
    const uint8_t *g_idx; /* int32 [n_in], below `across`; NULL: columns are in order */
    const float *scales, *zeros;
    float factor;
};

/* What codes mean: FP8, bytes with a sign, without, and around 8 and 128, FP4. */
enum hf_book {
    HF_BOOK_E4M3,
    HF_BOOK_SIGNED,
    HF_BOOK_COUNTS,
    HF_BOOK_AROUND_8,
    HF_BOOK_AROUND_128,
    HF_BOOK_E2M1,
    HF_N_BOOKS
};

/* Values of a row, as state_packed asks for them. */
void hf_coded_values(const struct state_packed *base, uint64_t row, uint64_t first, size_t n,
                     float *out);
void hf_coded_books(float books[HF_N_BOOKS][HF_N_CODES]);

/* ---- hf_parts.c: the tensor BASE.PART --------------------------------------------------------- */

const struct state_tensor *hf_part_peek(const struct state *s, const char *base, const char *part);

/* It must be there, of this type, in order and without gaps. hf_part_floats: all its values. */
const struct state_tensor *hf_part(struct state *s, const char *base, const char *part,
                                   enum state_type type);
float *hf_part_floats(struct state *s, const char *base, const char *part,
                      const struct state_tensor **tensor);

uint64_t hf_part_size(const struct state_tensor *t); /* the number of values */
int hf_is_vector(const struct state_tensor *t, uint64_t n);

/* ---- hf_hqq.c -------------------------------------------------------------------------------- */

/* Puts the matrices in the place of their codes, BASE.W_q. Returns how many. */
size_t hf_unpack_hqq(struct state *s);

/* ---- hf_coded.c ------------------------------------------------------------------------------ */

/* Whether such a scheme has this name ("fp8"). */
int hf_is_coded(const char *method);

/* Puts the matrices in the place of their parts. `settings`: of config.json. Errors: hf_unpack's. */
void hf_unpack_coded(struct hf_model *m, const json_t *settings);

#endif
