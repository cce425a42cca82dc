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

int microgpt_pickle(struct checkpoint *c, const struct pickle *p, pickle_id root,
                    const struct ckpt_input *in, mgpt_error *err)
{
    struct mg_parts m;
    struct tree_file file;
    uint64_t left;
    struct tree tree = tree_of_pickle(&file, &left, p, root, in->bytes.size);
    mg_parts_init(&m, c, in, err);
    return mg_parts_build(&m, tree_read(&m, tree, NULL));
}

enum ckpt_match microgpt_pickle_sniff(struct span bytes)
{
    return pickle_sniff(bytes) && !torch_legacy_sniff(bytes) ? MATCH_YES : MATCH_NO;
}

/* Other programs' state dicts are known by the reader of PyTorch's files. */
int microgpt_pickle_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct pickle p;
    struct tree_file file;
    uint64_t left;
    int status = pickle_read(&p, in->bytes, err);
    if (status < 0)
        return status;
    int ours = tree_is_microgpt(tree_of_pickle(&file, &left, &p, p.root, in->bytes.size));
    if (ours) {
        c->format = "microgpt pickle";
        if (p.size < in->bytes.size)
            ckpt_note(c, "ignored: %zu bytes after the first pickle", in->bytes.size - p.size);
        status = microgpt_pickle(c, &p, p.root, in, err);
    }
    pickle_free(&p);
    return ours ? status : torch_reader_read(c, in, err);
}
