/* The readers of checkpoint formats: one row each, chosen by content.
 *
 * To add a format: write a file with a `sniff` and a `read`, declare them here, add a row to the
 * table in readers.c. A reader is a function of bytes and options; a side file (a tokenizer, a
 * config) it asks for by name through the input.
 */
#ifndef MGPT_READERS_H
#define MGPT_READERS_H

#include "convert/core/checkpoint.h"
#include "convert/core/options.h"

/* ---- what there is --------------------------------------------------------------------------- */

struct ckpt_side {
    const char *name; /* for messages */
    struct span bytes;
};

/* Opens a side file: the one that the user gave with `option` (0: it cannot), otherwise the first
 * of the candidates (names, next to the input) that exists. The bytes stay until the conversion
 * ends. Returns 1, 0 when there is none, or negative with *err. */
typedef int ckpt_side_fn(void *user, enum ckpt_option option, const char *const *candidates,
                         size_t n_candidates, struct ckpt_side *side, mgpt_error *err);

/* Leaves the run (checkpoint.h) with MGPT_EARG. */
#define ckpt_stop_option(c, ...)                                                                   \
    ckpt_leave((c), err_set((c)->err, MGPT_EARG, MGPT_NO_OFFSET, __VA_ARGS__))

struct ckpt_input;

/* Finds a side file with in->side; errors leave the run. */
int ckpt_side(struct checkpoint *c, const struct ckpt_input *in, enum ckpt_option option,
              const char *const *candidates, size_t n_candidates, struct ckpt_side *side);

struct ckpt_input {
    struct span bytes;
    const char *name; /* of the model: the input's file name without directory and extension */
    const struct ckpt_options *options;
    ckpt_side_fn *side;
    void *user;
    const char *directory;   /* name of the input's directory, if the format has fixed file names */
    const struct file *file; /* the file of these bytes, split or not (file.h); NULL: none */
};

/* ---- the table ------------------------------------------------------------------------------- */

enum ckpt_match {
    MATCH_NO,
    MATCH_MAYBE, /* looks like it, but something (its size, say) is wrong: the reader will say what */
    MATCH_YES
};

typedef enum ckpt_match ckpt_sniff_fn(struct span bytes);

/* Fills the checkpoint; faults leave the run. */
typedef void ckpt_read_fn(struct checkpoint *c, const struct ckpt_input *in);

struct ckpt_reader {
    const char *name;
    unsigned options; /* the options that apply */
    ckpt_sniff_fn *sniff;
    ckpt_read_fn *read;
};

extern const struct ckpt_reader ckpt_readers[];
extern const size_t ckpt_n_readers;

/* An option that changes nothing would be a silent mistake: leaves the run with MGPT_EARG for one that
 * is not in `apply`. */
void ckpt_check_options(struct checkpoint *c, const struct ckpt_input *in, const char *format,
                        unsigned apply);

/* Notes that a tokenizer was found next to the input; nothing when --tokenizer names it. */
void ckpt_note_tokenizer(struct checkpoint *c, const struct ckpt_input *in, const char *name);

/* formats.c: for people, the model types of Hugging Face, and which formats each option applies to, out
 * of the tables of families, readers and mappings. */
void ckpt_print_formats(void);

/* foreign.c: files of JAX and of TensorFlow, by name; a directory with one is refused, too. */
#define FOREIGN_GONE                                                                               \
    ", which transformers no longer reads; convert the model's safetensors form, which the hub "   \
    "has"
#define FOREIGN_FLAX                                                                               \
    "Flax's msgpack" FOREIGN_GONE ", or with transformers 4: "                                     \
    "AutoModelForCausalLM.from_pretrained(DIR, from_flax=True).save_pretrained(OUT)"
#define FOREIGN_TENSORFLOW "a TensorFlow checkpoint" FOREIGN_GONE

/* What a file is that no reader reads, and what to do; NULL when it is nothing known. */
const char *ckpt_foreign(struct span bytes);

/* Finds the reader and runs it, whose err is not NULL. c has been initialised; after a failure it
 * may hold notes, and the caller frees it in any case. Errors: MGPT_EFILE, MGPT_EARG for an option
 * that does not apply. */
int ckpt_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err);

/* core/from_gguf.c and families/ */
ckpt_sniff_fn gguf_sniff, hf_json_sniff, hf_safetensors_sniff, hf_untyped_sniff, llama2c_sniff,
    llmc_sniff, mgpt_bin_sniff, microgpt_c_sniff, microgpt_json_sniff, microgpt_pickle_sniff,
    npy_sniff, npz_sniff, raw_sniff, torch_reader_sniff;
ckpt_read_fn gguf_read, hf_json_read, hf_safetensors_read, hf_untyped_read, llama2c_read, llmc_read,
    mgpt_bin_read, microgpt_c_read, microgpt_json_read, microgpt_pickle_read, npy_read,
    npz_reader_read, raw_read, safetensors_read, torch_reader_read;

#endif
