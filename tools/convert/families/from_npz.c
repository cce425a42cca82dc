/* Reader: .npz archives. With config.json of Hugging Face next to it and the names of modules ("....weight",
 * "....bias") it holds such a model, as mx.savez of MLX and np.savez write it; with such names alone a
 * training program's (from_torch.c); else a microgpt (npz_model.c).
 */
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
    struct checkpoint *c = m->c;
    struct state *s = state_new(c);
    if (is_hf)
        ckpt_must(c, ckpt_check_options("Hugging Face .npz", OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                        m->in->options, c->err));
    ckpt_must(c, state_add_arrays(s, arrays, c->err));
    ckpt_must(c, state_seal(s, c->err));
    int status = is_hf ? hf_read_state(c, m->in, s, c->err) : torch_map_state(s, m, ".npz", c->err);
    ckpt_must(c, status);
    return is_hf || status;
}

static void free_arrays(void *arrays)
{
    arr_free(*(struct npz_member **)arrays);
}

int npz_reader_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct mg_parts *m = mg_parts_new(c, in);
    struct npz_member **arrays = ckpt_new(c, 1, sizeof *arrays);
    int is_hf = hf_is_beside(c, in, err);
    ckpt_must(c, is_hf);
    ckpt_own(c, arrays, free_arrays);
    ckpt_must(c, npz_arrays(c, in->bytes, arrays, c->err));
    if (are_modules(*arrays) && read_modules(m, *arrays, is_hf))
        return MGPT_OK;
    ckpt_must(c, ckpt_check_options("microgpt .npz", MICROGPT_OPTIONS, in->options, c->err));
    microgpt_npz(m, *arrays);
    return MGPT_OK;
}
