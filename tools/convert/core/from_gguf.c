/* GGUF as a checkpoint format: all metadata as it is, tensors with a change of element type.
 *
 * It must be a model that mgpt would open: what is broken, or of an architecture whose tensors
 * nothing is known about, does not become a file that looks converted. The structure is checked by
 * gguf_parse, which refuses element types that cannot be read by their name.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/core/readers.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

static void from_gguf_release(void *source)
{
    gguf_free(source);
    free(source);
}

static int from_gguf_add_tensor(struct checkpoint *c, const struct gguf_tensor *from,
                                mgpt_error *err)
{
    struct ckpt_tensor t = {.n_dims = from->n_dims,
                            .n_values = from->n_values,
                            .type = from->type,
                            .bytes = from->data,
                            .exact = 1};
    memcpy(t.dims, from->dims, sizeof t.dims);
    memcpy(t.name, from->name, strlen(from->name) + 1); /* gguf_parse: at most 63 bytes */
    if (!arr_push(c->tensors, t))
        return err_memory(err, "the list of tensors", sizeof t);
    return MGPT_OK;
}

enum ckpt_match gguf_sniff(struct span bytes)
{
    return bytes.size >= 4 && memcmp(bytes.data, "GGUF", 4) == 0 ? MATCH_YES : MATCH_NO;
}

int gguf_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct gguf *g = calloc(1, sizeof *g);
    if (!g)
        return err_memory(err, "the GGUF reader", sizeof *g);
    int status = in->file ? gguf_parse_file(g, in->file, err)
                          : gguf_parse(g, in->bytes.data, in->bytes.size, err);
    if (status == MGPT_OK && (status = model_check(g, err)) < 0)
        gguf_free(g);
    if (status < 0) {
        free(g);
        return status;
    }
    c->source = g;
    c->release = from_gguf_release;
    c->metadata = g;
    status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < arr_len(g->tensors); i++)
        status = from_gguf_add_tensor(c, &g->tensors[i], err);
    struct gguf_str arch;
    if (gguf_string(g, "general.architecture", &arch, NULL) > 0)
        if (!(c->hp.arch = ckpt_text(c, arch.p, arch.n)) && status == MGPT_OK)
            status = err_memory(err, "a text", arch.n);
    return status;
}
