/* PyTorch's containers: the zip archive (since 1.6) and the legacy file, as a pickle and storages.
 *
 * torch_open reads the pickle only. A tensor is described when the caller asks for it, so an
 * optimizer's state (three times the model) is never read. Tensors point into the file.
 */
#ifndef MGPT_CONVERT_TORCH_H
#define MGPT_CONVERT_TORCH_H

#include "convert/containers/pickle.h"
#include "convert/containers/zip_dir.h"

struct torch_storage { /* of a legacy file */
    struct gguf_str key;
    enum state_type type;
    struct span bytes;
};

struct torch_file {
    const char *container; /* "PyTorch zip", "PyTorch legacy", "pickle" */
    struct pickle pickle;
    struct zip_dir zip;
    struct gguf_str data;           /* what the names of storages begin with: "archive/data/" */
    struct torch_storage *storages; /* stb_ds array, sorted by key; legacy files */
};

/* 1 yes, 0 no, -1: a damaged zip archive, perhaps one of PyTorch's. */
int torch_sniff(struct span bytes);

/* Opens a zip archive, a legacy file, or a bare pickle. On failure nothing is left to free.
 * Errors: MGPT_EFILE. */
int torch_open(struct torch_file *f, struct span bytes, mgpt_error *err);
void torch_close(struct torch_file *f);

/* Opens a file until the run ends, and leaves the run with errors (checkpoint.h). */
struct torch_file *torch_owned(struct checkpoint *c, struct span bytes);

/* Describes the tensor that the node is; the name is not set. Returns 1, 0 when it is none,
 * negative with *err: ranges are checked against the storage, the storage against the file. */
int torch_tensor(const struct torch_file *f, pickle_id id, struct state_tensor *t, mgpt_error *err);

/* Whether the node would be a tensor, without looking at it closely. */
int torch_is_tensor(const struct torch_file *f, pickle_id id);

/* The element type of a storage class ("FloatStorage") or of a dtype ("float32"). */
enum state_type torch_type(const struct pickle *p, pickle_id global);

/* Adds all tensors and numpy arrays of a dict to s and seals it; other values become notes. Errors leave the
 * run. */
void torch_state(const struct torch_file *f, pickle_id dict, struct state *s);

/* ---- torch_zip.c, torch_legacy.c ------------------------------------------------------------- */

int torch_zip_sniff(struct span bytes); /* as torch_sniff */
int torch_zip_open(struct torch_file *f, struct span bytes, mgpt_error *err);

int torch_legacy_sniff(struct span bytes);
int torch_legacy_open(struct torch_file *f, struct span bytes, mgpt_error *err);

/* The storage of this key; NULL when there is none, or the file is not a legacy one. */
struct torch_storage *torch_legacy_storage(const struct torch_file *f, struct gguf_str key);

#endif
