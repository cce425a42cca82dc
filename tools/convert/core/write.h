/* A described checkpoint to a GGUF file, tensor by tensor. */
#ifndef MGPT_CONVERT_WRITE_H
#define MGPT_CONVERT_WRITE_H

#include "convert/core/checkpoint.h"
#include "convert/core/importance.h"

struct ckpt_written {
    uint64_t n_values, n_bytes; /* weights, and the bytes they take in the file */
    const char *type;           /* element type of most of them */
    uint32_t file_type;         /* general.file_type for `type` */
    int is_quantised;           /* 1: some tensor is quantised */
};

/* 1: the tensor's type can be chosen; 0: it is F32, unless GGUF is copied as it is. */
int ckpt_has_choice(const struct ckpt_tensor *t);

/* The element type that a tensor gets: what is asked for it alone, or else `type`, or the source's when that is NULL. Vectors and the
 * position table are F32, as every other converter has it, unless GGUF is copied as it is. Rows
 * that are not whole blocks of `type` get another (`instead` in dtype/types.h): Q4_K becomes Q5_0,
 * Q6_K becomes Q8_0, these become F16. With a K type, token_embd.weight and output.weight are Q6_K
 * (types.c). */
const struct dtype *ckpt_type_of(const struct ckpt_tensor *t, const struct dtype *type);

/* Says in a note how many tensors get another type because of their rows. */
void ckpt_note_types(struct checkpoint *c, const struct dtype *type);

/* Says in one note which keys llama.cpp would ignore in silence (elsewhere.c). */
void ckpt_note_elsewhere(struct checkpoint *c);

/* Totals, as they will be written. */
void ckpt_measure(const struct checkpoint *c, const struct dtype *type, struct ckpt_written *w);

/* Writes path, whole or not at all; equal input gives equal bytes. Values that are not finite,
 * before or after rounding to the element type, are written as they are and counted in a note. */
int ckpt_write(struct checkpoint *c, const char *path, const struct dtype *type, mgpt_error *err);

/* Writes the file of ckpt_write into malloc'ed memory, one block of exactly its size. */
struct ckpt_memory {
    void *bytes;
    size_t size;
};
int ckpt_write_memory(struct checkpoint *c, const struct dtype *type, struct ckpt_memory *memory,
                      mgpt_error *err);

/* Prints what would be written to stdout (plan.c). */
void ckpt_print_plan(const struct checkpoint *c, const struct dtype *type);

/* gguf_writer.check of a struct checkpoint: refuses what mgpt_open would refuse, with its line.
 * write_check.c. */
int ckpt_check_header(void *checkpoint, struct gguf *header, mgpt_error *err);

/* The width of MLPs; the keys of layers that differ. write_layers.c. */
void write_put_layers(struct gguf_writer *w, const struct ckpt_hparams *hp);

#endif
