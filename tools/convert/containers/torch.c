/* Tensors of PyTorch: what calls of its rebuild functions describe. See torch.h.
 *
 *     _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks [, metadata])
 *     _rebuild_tensor_v3(..., hooks, dtype [, metadata])      storage counts bytes
 *     _rebuild_parameter(tensor, requires_grad, hooks)
 *     _rebuild_from_type_v2(function, type, arguments, state)
 *     storage: ("storage", class, key, location, count)
 */
#include "convert/containers/torch.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"

#include <string.h>

enum { MAX_WRAPPERS = 4 }; /* parameters of tensors of a type */

/* ---- element types --------------------------------------------------------------------------- */

enum state_type torch_type(const struct pickle *p, pickle_id global)
{
    struct pickle_node n = pickle_at(p, global);
    enum state_type type = STATE_OTHER;
    if (n.kind != PICKLE_GLOBAL)
        return STATE_OTHER;
    if (pickle_is_global(p, global, NULL, "UntypedStorage"))
        return STATE_U8;
    pickle_torch_value(n.as.global.name, &type);
    return type;
}

/* ---- storages -------------------------------------------------------------------------------- */

static int torch_bad(uint32_t at, const char *what, mgpt_error *err)
{
    return err_set(err, MGPT_EFILE, at, "PyTorch tensor at byte %u of the pickle: %s", at, what);
}

/* The bytes of the storage of this key; 1, 0 when there is none, negative. */
static int find_bytes(const struct torch_file *f, struct gguf_str key, struct span *bytes,
                      mgpt_error *err)
{
    const struct torch_storage *s = torch_legacy_storage(f, key);
    if (s)
        *bytes = s->bytes;
    if (s || !f->zip.members)
        return s != NULL;
    char name[32] = "/";
    if (key.n >= sizeof name - 1)
        return 0;
    memcpy(name + 1, key.p, key.n);
    struct zip_member *m = zip_dir_find(&f->zip, f->data, (struct gguf_str){name, key.n + 1});
    if (!m)
        return 0;
    int status = zip_dir_check(m, err);
    *bytes = m->bytes;
    return status < 0 ? status : 1;
}

/* Type and bytes of a storage; at most as many bytes as its count implies. */
static int storage(const struct torch_file *f, pickle_id persistent, struct state_tensor *t,
                   mgpt_error *err)
{
    const struct pickle *p = &f->pickle;
    struct pickle_node n = pickle_at(p, persistent);
    pickle_id id = n.kind == PICKLE_PERSISTENT ? pickle_item(p, persistent, 0) : 0;
    struct pickle_node key = pickle_at(p, pickle_item(p, id, 2));
    int64_t count = -1;
    size_t size = 0;
    if (!pickle_is_text(p, pickle_item(p, id, 0), "storage") || key.kind != PICKLE_TEXT ||
        !pickle_int(p, pickle_item(p, id, 4), &count) || count < 0)
        return torch_bad(n.at, "it has no storage", err);
    t->type = torch_type(p, pickle_item(p, id, 1));
    if (count == 0) { /* its data may be left out */
        t->bytes = (struct span){0};
        return MGPT_OK;
    }
    int found = find_bytes(f, (struct gguf_str){key.as.text, key.n}, &t->bytes, err);
    if (found < 0)
        return found;
    if (!found)
        return err_set(err, MGPT_EFILE, n.at, "PyTorch storage %.*s is not in the file",
                       CKPT_CLIP(key.as.text, key.n));
    if (!ck_bytes((uint64_t)count, state_type_bytes(t->type), &size) || size > t->bytes.size)
        return err_set(err, MGPT_EFILE, n.at,
                       "PyTorch storage %.*s: %lld elements of %s, the file holds %zu bytes",
                       CKPT_CLIP(key.as.text, key.n), (long long)count, state_type_name(t->type),
                       t->bytes.size);
    if (t->type != STATE_OTHER)
        t->bytes.size = size;
    return MGPT_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int is_rebuild(const struct pickle *p, pickle_id function)
{
    return pickle_is_global(p, function, "torch._utils", "_rebuild_tensor") ||
           pickle_is_global(p, function, "torch._utils", "_rebuild_tensor_v2") ||
           pickle_is_global(p, function, "torch._utils", "_rebuild_tensor_v3");
}

/* The function and arguments that make the tensor, inside parameters and typed tensors. */
static int unwrap(const struct pickle *p, pickle_id id, pickle_id *function, pickle_id *args)
{
    for (int depth = 0; depth < MAX_WRAPPERS; depth++) {
        struct pickle_node n = pickle_at(p, id);
        if (n.kind != PICKLE_CALL)
            return 0;
        *function = n.as.call.callee;
        *args = n.as.call.args;
        if (is_rebuild(p, *function))
            return 1;
        if (pickle_is_global(p, *function, "torch._tensor", "_rebuild_from_type_v2")) {
            *args = pickle_arg(p, id, 2);
            *function = pickle_arg(p, id, 0);
            return is_rebuild(p, *function);
        }
        if (!pickle_is_global(p, *function, "torch._utils", "_rebuild_parameter") &&
            !pickle_is_global(p, *function, "torch._utils", "_rebuild_parameter_with_state"))
            return 0;
        id = pickle_arg(p, id, 0);
    }
    return 0;
}

int torch_is_tensor(const struct torch_file *f, pickle_id id)
{
    pickle_id function, args;
    return unwrap(&f->pickle, id, &function, &args);
}

int torch_tensor(const struct torch_file *f, pickle_id id, struct state_tensor *t, mgpt_error *err)
{
    const struct pickle *p = &f->pickle;
    struct pickle_node n = pickle_at(p, id);
    pickle_id function, args;
    uint32_t n_strides;
    int64_t offset;
    uint64_t skip = 0;
    if (!unwrap(p, id, &function, &args))
        return 0;
    *t = (struct state_tensor){.name = ""};
    int status = storage(f, pickle_item(p, args, 0), t, err);
    if (status < 0)
        return status;
    if (pickle_is_global(p, function, NULL, "_rebuild_tensor_v3"))
        t->type = torch_type(p, pickle_item(p, args, 6));
    if (!pickle_sizes(p, pickle_item(p, args, 2), t->shape, &t->n_dims) ||
        !pickle_sizes(p, pickle_item(p, args, 3), t->strides, &n_strides) || n_strides != t->n_dims)
        return torch_bad(n.at, "its size and stride are not two tuples of up to 8 numbers", err);
    if (!pickle_int(p, pickle_item(p, args, 1), &offset) || offset < 0 ||
        !ck_mul((uint64_t)offset, state_type_bytes(t->type), &skip) || skip > t->bytes.size)
        return torch_bad(n.at, "its offset is not inside its storage", err);
    if (t->bytes.data)
        t->bytes.data += skip;
    t->bytes.size -= (size_t)skip;
    return 1;
}

/* ---- state dicts ----------------------------------------------------------------------------- */

static int is_list(struct pickle_node n)
{
    return n.kind == PICKLE_LIST || n.kind == PICKLE_TUPLE;
}

void torch_state(const struct torch_file *f, pickle_id dict, struct state *s)
{
    struct checkpoint *c = s->c;
    for (struct pickle_iter i = pickle_items(&f->pickle, dict); pickle_next(&i);) {
        struct pickle_node key = pickle_at(&f->pickle, i.key),
                           value = pickle_at(&f->pickle, i.value);
        struct state_tensor t;
        int found = torch_tensor(f, i.value, &t, c->err);
        if (found == 0)
            found = pickle_ndarray(&f->pickle, i.value, c, &t, c->err);
        ckpt_must(c, found);
        if (key.kind != PICKLE_TEXT)
            ckpt_leave(c, torch_bad(key.at ? key.at : value.at, "its name is not text", c->err));
        if (found)
            state_add(s, key.as.text, key.n, t);
        else if (!is_list(value)) /* microgpt's matrices may be lists */
            ckpt_note(c, "ignored: %.*s (%s)", CKPT_CLIP(key.as.text, key.n),
                      pickle_kind_name(&f->pickle, i.value));
    }
    state_seal(s);
}

/* ---- files ----------------------------------------------------------------------------------- */

int torch_sniff(struct span bytes)
{
    return torch_legacy_sniff(bytes) || pickle_sniff(bytes) ? 1 : torch_zip_sniff(bytes);
}

int torch_open(struct torch_file *f, struct span bytes, mgpt_error *err)
{
    if (zip_dir_sniff(bytes))
        return torch_zip_open(f, bytes, err);
    if (torch_legacy_sniff(bytes))
        return torch_legacy_open(f, bytes, err);
    *f = (struct torch_file){.container = "pickle"};
    return pickle_read(&f->pickle, bytes, err);
}

static void close_file(void *f)
{
    torch_close(f);
}

struct torch_file *torch_owned(struct checkpoint *c, struct span bytes)
{
    struct torch_file *f = ckpt_new(c, 1, sizeof *f);
    ckpt_must(c, torch_open(f, bytes, c->err));
    ckpt_own(c, f, close_file);
    return f;
}

void torch_close(struct torch_file *f)
{
    pickle_free(&f->pickle);
    zip_dir_close(&f->zip);
    arr_free(f->storages);
    *f = (struct torch_file){0};
}
