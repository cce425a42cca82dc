/* GGUF as a checkpoint format: all metadata as it is, tensors with a change of element type.
 *
 * It must be a model that mgpt would open: what is broken, or of an architecture whose tensors
 * nothing is known about, does not become a file that looks converted. The structure is checked by
 * gguf_parse, which refuses element types that cannot be read by their name.
 */
#include "base/mem.h"
#include "convert/core/readers.h"
#include "model/model.h"

#include <string.h>

static void close_gguf(void *g)
{
    gguf_free(g);
}

static void from_gguf_add_tensor(struct checkpoint *c, const struct gguf_tensor *from)
{
    struct ckpt_tensor t = {.n_dims = from->n_dims,
                            .n_values = from->n_values,
                            .type = from->type,
                            .bytes = from->data,
                            .exact = 1};
    memcpy(t.dims, from->dims, sizeof t.dims);
    memcpy(t.name, from->name, strlen(from->name) + 1); /* gguf_parse: at most 63 bytes */
    ckpt_push(c, c->tensors, t);
}

enum ckpt_match gguf_sniff(struct span bytes)
{
    return bytes.size >= 4 && memcmp(bytes.data, "GGUF", 4) == 0 ? MATCH_YES : MATCH_NO;
}

void gguf_read(struct checkpoint *c, const struct ckpt_input *in)
{
    struct gguf *g = ckpt_new(c, 1, sizeof *g);
    struct gguf_str arch;
    ckpt_must(c, in->file ? gguf_parse_file(g, in->file, c->err)
                          : gguf_parse(g, in->bytes.data, in->bytes.size, c->err));
    c->source = g;
    c->release = close_gguf;
    ckpt_must(c, model_check(g, c->err));
    c->metadata = g;
    for (size_t i = 0; i < arr_len(g->tensors); i++)
        from_gguf_add_tensor(c, &g->tensors[i]);
    if (gguf_string(g, "general.architecture", &arch, NULL) > 0)
        c->hp.arch = ckpt_copy(c, arch.p, arch.n);
}
