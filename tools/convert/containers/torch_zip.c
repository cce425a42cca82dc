/* PyTorch's zip archives. See torch.h.
 *
 *     R/data.pkl      the pickle
 *     R/data/KEY      the bytes of one storage
 *     R/byteorder     "little" or "big"
 *
 * R is any directory or none. TorchScript archives (R/code/, R/constants.pkl) hold programs.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/torch.h"

#include <string.h>

static struct gguf_str text(const char *s)
{
    return (struct gguf_str){s, strlen(s)};
}

/* The length of R with its slash when the member is R/data.pkl, else -1. */
static long root_of(const struct zip_member *m)
{
    size_t n = strlen("data.pkl");
    if (m->n_name < n || memcmp(m->name + m->n_name - n, "data.pkl", n) != 0)
        return -1;
    if (m->n_name > n && m->name[m->n_name - n - 1] != '/')
        return -1;
    return (long)(m->n_name - n);
}

static struct zip_member *find_pickle(const struct zip_dir *z)
{
    struct zip_member *found = NULL;
    for (size_t i = 0; i < arr_len(z->members); i++)
        if (root_of(&z->members[i]) >= 0 && (!found || z->members[i].n_name < found->n_name))
            found = &z->members[i];
    return found;
}

int torch_zip_sniff(struct span bytes)
{
    struct zip_dir z;
    if (!zip_dir_sniff(bytes))
        return 0;
    if (zip_dir_open(&z, bytes, NULL) < 0)
        return -1;
    int found = find_pickle(&z) != NULL;
    zip_dir_close(&z);
    return found;
}

static int open_root(struct torch_file *f, struct zip_member *m, mgpt_error *err)
{
    struct gguf_str root = {m->name, (size_t)root_of(m)};
    const struct zip_member *order = zip_dir_find(&f->zip, root, text("byteorder"));
    if (zip_dir_find(&f->zip, root, text("constants.pkl")))
        return ckpt_refuse(err,
                           "a TorchScript archive: it holds a program; save model.state_dict()");
    if (order && order->bytes.size >= 3 && memcmp(order->bytes.data, "big", 3) == 0)
        return ckpt_refuse(err, "PyTorch archive: big-endian, which is not supported");
    int status = zip_dir_check(m, err);
    if (status < 0)
        return status;
    /* "R/data.pkl" begins with what the names of the storages begin with, but for the slash */
    f->data = (struct gguf_str){m->name, root.n + strlen("data")};
    return pickle_read(&f->pickle, m->bytes, err);
}

int torch_zip_open(struct torch_file *f, struct span bytes, mgpt_error *err)
{
    *f = (struct torch_file){.container = "PyTorch zip"};
    int status = zip_dir_open(&f->zip, bytes, err);
    if (status < 0)
        return status;
    struct zip_member *m = find_pickle(&f->zip);
    if (!m)
        status = ckpt_refuse(err, "zip: there is no data.pkl in it");
    else
        status = open_root(f, m, err);
    if (status < 0)
        zip_dir_close(&f->zip);
    return status;
}
