/* Reader: microgpt in a .npy file.
 *
 *     np.save(f, state_dict)                                  an array of one object: a pickled dict
 *     np.save(f, np.concatenate([m.ravel() for m in ...]))    all parameters, flat
 *
 * Numbers are referenced in place. The pickle is data: see pickle.h.
 */
#include "base/error.h"
#include "convert/containers/npy_state.h"
#include "convert/families/tree.h"

#include <string.h>

pickle_id npy_objects(const struct pickle *p)
{
    struct pickle_node array = pickle_at(p, p->root);
    pickle_id shape = pickle_item(p, array.state, 1), list = pickle_item(p, array.state, 4);
    if (!pickle_is_call(p, p->root, NULL, "_reconstruct") || pickle_at(p, list).kind != PICKLE_LIST)
        return 0;
    int is_one = pickle_at(p, shape).kind == PICKLE_TUPLE && pickle_at(p, shape).n == 0;
    return is_one ? pickle_item(p, list, 0) : list;
}

/* ---- the two kinds --------------------------------------------------------------------------- */

static void read_objects(struct checkpoint *c, struct span data, const struct ckpt_input *in)
{
    const struct pickle *p = pickle_owned(c, data);
    pickle_id root = npy_objects(p);
    c->format = "microgpt .npy, pickled";
    if (!root)
        ckpt_stop(c, "npy: an array of objects without them");
    microgpt_pickle(c, p, root, in);
}

static void read_flat(struct checkpoint *c, const struct npy *npy, struct span data,
                      const struct ckpt_input *in)
{
    struct state_tensor all = npy_tensor(npy, data);
    struct mg_parts *m = mg_parts_new(c, in);
    if (npy->kind != 'f' || all.type == STATE_OTHER)
        ckpt_stop(c, "npy: element type '%s', expected <f4, <f8 or <f2", npy->descr);
    if (npy->n_bytes != data.size)
        ckpt_stop_at(c, npy->header, "npy: the header says %llu bytes of data, %zu are there",
                     (unsigned long long)npy->n_bytes, data.size);
    if (npy->n_dims != 1)
        ckpt_stop(c,
                  "npy: one array of %u dimensions; a microgpt is a dict of matrices, or one "
                  "list of all its parameters",
                  npy->n_dims);
    c->format = "microgpt .npy, flat";
    mg_add_params(m, &all);
    mg_parts_build(m);
}

enum ckpt_match npy_sniff(struct span bytes)
{
    return bytes.size >= 6 && memcmp(bytes.data, "\x93NUMPY", 6) == 0 ? MATCH_YES : MATCH_NO;
}

void npy_read(struct checkpoint *c, const struct ckpt_input *in)
{
    struct npy npy;
    ckpt_must(c, npy_header(&npy, in->bytes.data, in->bytes.size, c->err));
    struct span data = {in->bytes.data + npy.header, in->bytes.size - npy.header};
    if (npy.kind == 'O')
        read_objects(c, data, in);
    else
        read_flat(c, &npy, data, in);
}
