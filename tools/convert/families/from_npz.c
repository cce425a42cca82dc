/* Reader: .npz archives. With config.json of Hugging Face next to it and the names of modules ("....weight",
 * "....bias") it holds such a model, as mx.savez of MLX and np.savez write it; with such names alone a
 * training program's (from_torch.c); else a microgpt (npz_model.c).
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/state_open.h"
#include "convert/families/hf.h"
#include "convert/families/torch_model.h"
#include "convert/families/tree.h"

#include <string.h>

/* "NAME.weight" or "NAME.bias". */
static int is_module(const char *name)
{
    const char *end = strrchr(name, '.');
    return end && (strcmp(end, ".weight") == 0 || strcmp(end, ".bias") == 0);
}

static int are_modules(const struct npz_member *arrays)
{
    for (size_t i = 0; i < arr_len(arrays); i++)
        if (!is_module(arrays[i].name))
            return 0;
    return arr_len(arrays) > 0;
}

enum ckpt_match npz_sniff(struct span bytes)
{
    return npz_begins(bytes) ? MATCH_YES : MATCH_NO;
}

/* A model of Hugging Face by its config.json; without one, the names of a training program: 1, or
 * 0 when none has them. */
static int read_modules(struct mg_parts *m, const struct npz_member *arrays, int is_hf)
{
    struct state s;
    int status = is_hf ? ckpt_check_options("Hugging Face .npz", OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                            m->in->options, m->err)
                       : MGPT_OK;
    state_init(&s, m->c);
    if (status == MGPT_OK)
        status = state_add_arrays(&s, arrays, m->err);
    if (status == MGPT_OK)
        status = state_seal(&s, m->err);
    if (status == MGPT_OK && is_hf) {
        status = hf_read_state(m->c, m->in, &s, m->err);
        status = status < 0 ? status : 1;
    } else if (status == MGPT_OK) {
        status = torch_map_state(&s, m, ".npz", m->err);
    }
    state_free(&s);
    return status;
}

int npz_reader_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct npz_member *arrays = NULL;
    struct mg_parts m;
    int is_hf = hf_is_beside(c, in, err), status = is_hf < 0 ? is_hf : 0;
    mg_parts_init(&m, c, in, err);
    if (status == 0)
        status = npz_arrays(c, in->bytes, &arrays, err);
    if (status == 0 && are_modules(arrays))
        status = read_modules(&m, arrays, is_hf);
    if (status == 0) {
        status = ckpt_check_options("microgpt .npz", MICROGPT_OPTIONS, in->options, err);
        status = status < 0 ? status : microgpt_npz(&m, arrays);
    } else {
        mg_parts_free(&m);
    }
    arr_free(arrays);
    return status < 0 ? status : MGPT_OK;
}
