/* Reader: microgpt in a pickle. See tree_model.c.
 *
 *     {"wte": ndarray, ...}                                          numpy arrays, referenced in place
 *     {"wte": [[0.1, ...], ...], ...}                                rows of numbers
 *     {"wte": [[Value, ...], ...], ...}                              of Value objects: their .data
 *     {"state_dict": {...}, "uchars": [...]}, (state_dict, uchars)   wrapped
 *     [Value, ...], [[[...]]]                                        parameter list
 *
 * Nothing in the pickle runs: see pickle.h.
 */
#include "base/error.h"
#include "convert/containers/torch.h"
#include "convert/families/tree.h"

void microgpt_pickle(struct checkpoint *c, const struct pickle *p, pickle_id root,
                     const struct ckpt_input *in)
{
    struct mg_parts *m = mg_parts_new(c, in);
    struct tree_file file;
    uint64_t left;
    tree_read(m, tree_of_pickle(&file, &left, p, root, in->bytes.size), NULL);
    mg_parts_build(m);
}

enum ckpt_match microgpt_pickle_sniff(struct span bytes)
{
    return pickle_sniff(bytes) && !torch_legacy_sniff(bytes) ? MATCH_YES : MATCH_NO;
}

static void close_pickle(void *p)
{
    pickle_free(p);
}

struct pickle *pickle_owned(struct checkpoint *c, struct span bytes)
{
    struct pickle *p = ckpt_new(c, 1, sizeof *p);
    ckpt_must(c, pickle_read(p, bytes, c->err));
    ckpt_own(c, p, close_pickle);
    return p;
}

/* Other programs' state dicts are known by the reader of PyTorch's files. */
void microgpt_pickle_read(struct checkpoint *c, const struct ckpt_input *in)
{
    struct pickle *p = pickle_owned(c, in->bytes);
    struct tree_file file;
    uint64_t left;
    if (!tree_is_microgpt(tree_of_pickle(&file, &left, p, p->root, in->bytes.size))) {
        torch_reader_read(c, in);
        return;
    }
    c->format = "microgpt pickle";
    if (p->size < in->bytes.size)
        ckpt_note(c, "ignored: %zu bytes after the first pickle", in->bytes.size - p->size);
    microgpt_pickle(c, p, p->root, in);
}
