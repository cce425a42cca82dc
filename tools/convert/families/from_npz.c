/* Reader: .npz archives. With config.json of Hugging Face next to it and the names of modules ("....weight",
 * "....bias") it holds such a model, as mx.savez of MLX and np.savez write it; with such names alone a
 * training program's (from_torch.c); else a microgpt (npz_model.c).
 *
 * The arrays of a model must be stored, not deflated: they are read where they are.
 */
#include "base/error.h"
#include "base/mem.h"
#include "common/npy.h"
#include "convert/containers/zip_dir.h"
#include "convert/families/hf.h"
#include "convert/families/npy_model.h"
#include "convert/families/torch_model.h"

#include <string.h>

/* "NAME.weight.npy" or "NAME.bias.npy". */
static int is_module(const struct zip_member *m)
{
    static const char *const ends[] = {".weight.npy", ".bias.npy"};
    for (size_t i = 0; i < HF_COUNT(ends); i++) {
        size_t n = strlen(ends[i]);
        if (m->n_name > n && memcmp(m->name + m->n_name - n, ends[i], n) == 0)
            return 1;
    }
    return 0;
}

static int are_modules(const struct zip_dir *z)
{
    for (size_t i = 0; i < arr_len(z->members); i++)
        if (!is_module(&z->members[i]))
            return 0;
    return arr_len(z->members) > 0;
}

/* Element types of NumPy, and "V2", MLX's bfloat16. */
static enum state_type npz_type(const struct npy *npy)
{
    enum state_type type;
    if (npy_weights(npy, &type))
        return type;
    return npy->kind == 'V' && npy->width == 2 ? STATE_BF16 : STATE_OTHER;
}

static int npz_add_member(struct state *s, struct zip_member *m, mgpt_error *err)
{
    struct npy npy;
    mgpt_error why = {0};
    int status = zip_dir_check(m, err);
    if (status < 0)
        return status;
    status = npy_header(&npy, m->bytes.data, m->bytes.size, &why);
    if (status < 0)
        return err_set(err, status, MGPT_NO_OFFSET, "%.*s: %s", CKPT_CLIP(m->name, m->n_name),
                       why.text);
    if (npy.n_bytes != m->bytes.size - npy.header)
        return ckpt_refuse(err, "%.*s: the header says %llu bytes of data, %zu are there",
                           CKPT_CLIP(m->name, m->n_name), (unsigned long long)npy.n_bytes,
                           m->bytes.size - npy.header);
    struct state_tensor t = npy_tensor(&npy, npz_type(&npy));
    t.bytes = (struct span){m->bytes.data + npy.header, m->bytes.size - npy.header};
    return state_add(s, m->name, m->n_name - strlen(".npy"), t, err);
}

static int npz_state(struct state *s, struct zip_dir *z, mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < arr_len(z->members); i++)
        status = npz_add_member(s, &z->members[i], err);
    return status == MGPT_OK ? state_seal(s, err) : status;
}

/* A model of Hugging Face by its config.json; without one, the names of a training program: 1, or
 * 0 when none has them. */
static int read_modules(struct checkpoint *c, const struct ckpt_input *in, struct zip_dir *z,
                        int is_hf, mgpt_error *err)
{
    struct state s;
    struct mg_parts parts;
    state_init(&s, c);
    int status = npz_state(&s, z, err);
    if (status == MGPT_OK && is_hf) {
        status = hf_read_state(c, in, &s, err);
        status = status < 0 ? status : 1;
    } else if (status == MGPT_OK) {
        mg_parts_init(&parts, c, in, err);
        status = torch_map_state(&s, &parts, ".npz", err);
        mg_parts_free(&parts);
    }
    state_free(&s);
    return status;
}

int npz_reader_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct zip_dir z = {NULL};
    int is_hf = hf_is_beside(c, in, err), status = is_hf < 0 ? is_hf : 0;
    if (status < 0)
        return status;
    int opened = zip_dir_open(&z, in->bytes, err);
    if (opened == MGPT_EMEM)
        return opened;
    if (opened == MGPT_OK && are_modules(&z)) {
        if (is_hf)
            status = ckpt_check_options("Hugging Face .npz", OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                        in->options, err);
        if (status == MGPT_OK)
            status = read_modules(c, in, &z, is_hf, err);
    } else if (is_hf && opened < 0) {
        status = opened;
    }
    zip_dir_close(&z);
    if (status != 0)
        return status < 0 ? status : MGPT_OK;
    status = ckpt_check_options("microgpt .npz", MICROGPT_OPTIONS, in->options, err);
    return status < 0 ? status : npz_read(c, in, err);
}
