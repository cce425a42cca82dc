/* Reader: microgpt in a .npy file.
 *
 *     np.save(f, state_dict)                                  an array of one object: a pickled dict
 *     np.save(f, np.concatenate([m.ravel() for m in ...]))    all parameters, flat
 *
 * Numbers are referenced in place. The pickle is data: see pickle.h.
 */
#include "convert/families/npy_model.h"

#include "base/error.h"

#include <string.h>

int npy_weights(const struct npy *npy, enum state_type *type)
{
    if (npy->kind != 'f')
        return 0;
    *type = npy->width == 4 ? STATE_F32 : STATE_F64;
    if (npy->width == 2)
        *type = STATE_F16;
    return npy->width == 2 || npy->width == 4 || npy->width == 8;
}

struct state_tensor npy_tensor(const struct npy *npy, enum state_type type)
{
    struct state_tensor t = {.name = "", .type = type, .n_dims = npy->n_dims};
    uint64_t stride = 1;
    for (unsigned i = 0; i < npy->n_dims; i++)
        t.shape[i] = npy->dims[i];
    state_contiguous(&t);
    for (unsigned i = 0; npy->fortran && i < npy->n_dims; i++) {
        t.strides[i] = stride;
        stride *= t.shape[i]; /* npy_header has multiplied them in this order */
    }
    return t;
}

pickle_id npy_objects(const struct pickle *p)
{
    const struct pickle_node *array = pickle_at(p, p->root);
    pickle_id shape = pickle_item(p, array->state, 1), list = pickle_item(p, array->state, 4);
    if (!pickle_is_call(p, p->root, NULL, "_reconstruct") ||
        pickle_at(p, list)->kind != PICKLE_LIST)
        return 0;
    int is_one = pickle_at(p, shape)->kind == PICKLE_TUPLE && pickle_at(p, shape)->n == 0;
    return is_one ? pickle_item(p, list, 0) : list;
}

/* ---- the two kinds --------------------------------------------------------------------------- */

static int read_objects(struct checkpoint *c, struct span data, const struct ckpt_input *in,
                        mgpt_error *err)
{
    struct pickle p;
    int status = pickle_read(&p, data, err);
    if (status < 0)
        return status;
    pickle_id root = npy_objects(&p);
    c->format = "microgpt .npy, pickled";
    if (root)
        status = microgpt_pickle(c, &p, root, in, err);
    else
        status = ckpt_refuse(err, "npy: an array of objects without them");
    pickle_free(&p);
    return status;
}

static int read_flat(struct checkpoint *c, const struct npy *npy, struct span data,
                     const struct ckpt_input *in, mgpt_error *err)
{
    enum state_type type;
    struct mg_parts m;
    if (!npy_weights(npy, &type))
        return ckpt_refuse(err, "npy: element type '%s', expected <f4, <f8 or <f2", npy->descr);
    if (npy->n_bytes != data.size)
        return err_set(err, MGPT_EFILE, npy->header,
                       "npy: the header says %llu bytes of data, %zu are there",
                       (unsigned long long)npy->n_bytes, data.size);
    if (npy->n_dims != 1)
        return ckpt_refuse(
            err,
            "npy: one array of %u dimensions; a microgpt is a dict of matrices, or one "
            "list of all its parameters",
            npy->n_dims);
    struct mg_matrix all = mg_flat(data.data, npy->dims[0], type);
    c->format = "microgpt .npy, flat";
    mg_parts_init(&m, c, in, err);
    return mg_parts_build(&m, mg_add_params(&m, &all));
}

enum ckpt_match npy_sniff(struct span bytes)
{
    return bytes.size >= 6 && memcmp(bytes.data, "\x93NUMPY", 6) == 0 ? MATCH_YES : MATCH_NO;
}

int npy_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct npy npy;
    int status = npy_header(&npy, in->bytes.data, in->bytes.size, err);
    if (status < 0)
        return status;
    struct span data = {in->bytes.data + npy.header, in->bytes.size - npy.header};
    if (npy.kind == 'O')
        return read_objects(c, data, in, err);
    return read_flat(c, &npy, data, in, err);
}
