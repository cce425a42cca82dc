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
        ckpt_check_options(c, m->in, "Hugging Face .npz", OPT_TOKENIZER | OPT_NO_TOKENIZER);
    state_add_arrays(s, arrays);
    state_seal(s);
    if (is_hf)
        hf_read_state(c, m->in, s);
    return is_hf || torch_map_state(s, m, ".npz");
}

void npz_reader_read(struct checkpoint *c, const struct ckpt_input *in)
{
    struct mg_parts *m = mg_parts_new(c, in);
    int is_hf = hf_is_beside(c, in);
    const struct npz_member *arrays = npz_arrays(c, in->bytes);
    if ((is_hf || are_modules(arrays)) && read_modules(m, arrays, is_hf))
        return;
    ckpt_check_options(c, in, "microgpt .npz", MICROGPT_OPTIONS);
    microgpt_npz(m, arrays);
}
