/* References that torch.save wrote: a tensor of logits, a dict of tensors by the names of
 * reference_names.c (a tuple of tensors, as transformers' hidden_states, becomes NAME.0, NAME.1, ...),
 * an output of transformers, or a tuple of logits and such a dict.
 *
 * The file is loaded whole, unless it is mapped. Its pickle is read as data (convert/containers).
 */
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"
#include "convert/containers/torch.h"

#include <string.h>

enum { MAX_NAME = 96 };

/* What is being read. */
struct torch_reference {
    const struct reference *ref;
    struct torch_file file;
    struct ref_named named;
};

int ref_array_of(const struct reference *ref, const char *name, const struct state_tensor *t,
                 struct ref_array *a, mgpt_error *err)
{
    static const char kinds[STATE_N_TYPES] = {
        [STATE_F32] = 'f', [STATE_F16] = 'f', [STATE_BF16] = 'B',
        [STATE_F64] = 'f', [STATE_I64] = 'i', [STATE_I32] = 'i',
        [STATE_I16] = 'i', [STATE_I8] = 'i',  [STATE_U8] = 'u'};
    *a = (struct ref_array){.strided = 1};
    a->npy.kind = kinds[t->type];
    a->npy.width = (unsigned)state_type_bytes(t->type);
    if (!a->npy.kind || t->n_dims > NPY_MAX_DIMS || state_check_extent(t, err) < 0)
        return ckpt_refuse(
            err,
            "%.60s: %s tensor of %u dimensions, expected F32, F16, BF16, F64, I32 or "
            "I64 of at most 4 dimensions within its storage",
            name, state_type_name(t->type), t->n_dims);
    a->npy.n_dims = t->n_dims;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        a->npy.dims[i] = t->shape[i];
        a->strides[i] = t->strides[i];
    }
    a->offset = t->bytes.data ? (uint64_t)(t->bytes.data - ref->file.data) : 0;
    return MGPT_OK;
}

/* Describes the tensor at a node; 0: there is none. *name NULL: an integer tensor is the tokens,
 * another the logits. Shape and type are checked of names that mean something. */
static int find_tensor(struct torch_reference *t, const char **name, pickle_id id,
                       struct ref_array *a, mgpt_error *err)
{
    struct state_tensor tensor;
    int found = torch_tensor(&t->file, id, &tensor, err);
    if (found <= 0)
        return found;
    if (!*name)
        *name = tensor.type >= STATE_I64 && tensor.type <= STATE_I8 ? "tokens" : "logits";
    if (!ref_name_known(*name))
        return 1;
    int status = ref_array_of(t->ref, *name, &tensor, a, err);
    return status < 0 ? status : 1;
}

/* Adds the tensor under a name; 0 when the node is none. */
static int add_tensor(struct torch_reference *t, const char *name, pickle_id id, mgpt_error *err)
{
    struct ref_array a;
    int found = find_tensor(t, &name, id, &a, err);
    if (found <= 0 || !ref_name_known(name))
        return found;
    a.name = strdup(name);
    int status = a.name ? ref_named_add(&t->named, &a, err) : err_memory(err, "a name", MAX_NAME);
    return status < 0 ? status : 1;
}

/* The rows of a tuple of tensors, as of generate's logits and scores. 0: there are none. */
static int add_row_tensors(struct torch_reference *t, const char *name, pickle_id id,
                           mgpt_error *err)
{
    struct ref_array rows = {0}, row;
    int status = 1;
    for (struct pickle_iter i = pickle_items(&t->file.pickle, id); pickle_next(&i) && status > 0;) {
        status = find_tensor(t, &name, i.value, &row, err);
        if (status > 0 && !arr_push(rows.parts, row))
            status = err_memory(err, "rows", arr_len(rows.parts) * sizeof row);
    }
    if (status > 0 && arr_len(rows.parts) > 0 && !(rows.name = strdup(name)))
        status = err_memory(err, "a name", MAX_NAME);
    if (status > 0 && rows.name) {
        status = ref_named_add(&t->named, &rows, err);
        return status < 0 ? status : 1;
    }
    ref_array_close(&rows);
    return status;
}

/* Adds the tensors of a tuple or list as NAME.0, NAME.1, ... */
static int add_numbered(struct torch_reference *t, const char *name, pickle_id id, mgpt_error *err)
{
    char numbered[MAX_NAME];
    int n = 0, status = 1;
    if (pickle_at(&t->file.pickle, id).kind == PICKLE_DICT)
        return 1;
    for (struct pickle_iter i = pickle_items(&t->file.pickle, id); pickle_next(&i) && status > 0;) {
        text_format(numbered, sizeof numbered, "%s.%d", name, n++);
        status = add_tensor(t, numbered, i.value, err);
    }
    return status;
}

static int add_dict(struct torch_reference *t, pickle_id dict, mgpt_error *err)
{
    const struct pickle *p = &t->file.pickle;
    char name[MAX_NAME];
    int status = MGPT_OK;
    for (struct pickle_iter i = pickle_items(p, dict); pickle_next(&i) && status >= 0;) {
        struct pickle_node key = pickle_at(p, i.key);
        if (key.kind != PICKLE_TEXT || key.n >= sizeof name - 12 || memchr(key.as.text, 0, key.n))
            continue;
        text_format(name, sizeof name, "%.*s", (int)key.n, key.as.text);
        status = add_tensor(t, name, i.value, err);
        if (status == 0 && (strcmp(name, "logits") == 0 || strcmp(name, "scores") == 0))
            status = add_row_tensors(t, name, i.value, err);
        else if (status == 0)
            status = add_numbered(t, name, i.value, err);
    }
    return status;
}

/* A value that is not a tensor: a dict, or an object whose state is one. */
static int add_fields(struct torch_reference *t, pickle_id id, mgpt_error *err)
{
    struct pickle_node n = pickle_at(&t->file.pickle, id);
    int has_state = n.kind == PICKLE_CALL || n.kind == PICKLE_OBJECT;
    return add_dict(t, has_state ? n.state : id, err);
}

static int add_root(struct torch_reference *t, mgpt_error *err)
{
    const struct pickle *p = &t->file.pickle;
    struct pickle_node root = pickle_at(p, p->root);
    int status = add_tensor(t, NULL, p->root, err);
    if (status == 0 && root.kind != PICKLE_TUPLE && root.kind != PICKLE_LIST)
        return add_fields(t, p->root, err);
    for (struct pickle_iter i = pickle_items(p, p->root); status >= 0 && pickle_next(&i);) {
        status = add_tensor(t, NULL, i.value, err);
        if (status == 0)
            status = add_fields(t, i.value, err);
    }
    return status;
}

/* An archive of .npy arrays is none of PyTorch's: only the first name in it is needed to tell. */
int reference_is_torch(const struct reference *ref)
{
    const struct span all = {ref->file.data, ref->file.size};
    struct cursor c = cursor_over(all.data, all.size < NPY_MAX_HEADER ? all.size : NPY_MAX_HEADER);
    cursor_take(&c, 26);
    size_t n = (size_t)cursor_uint(&c, 4) & 0xFFFF; /* and the length of what follows the name */
    const uint8_t *name = cursor_take(&c, n);
    int is_npz = name && n > 4 && memcmp(name + n - 4, ".npy", 4) == 0;
    if (!zip_dir_sniff(all))
        return torch_sniff(all);
    /* the reader says what could not be loaded, or is damaged */
    return !is_npz && (file_load(&ref->file, 0, all.size, NULL) < 0 || torch_sniff(all) != 0);
}

int reference_torch_open(struct reference *ref, mgpt_error *err)
{
    struct torch_reference t = {.ref = ref};
    int status = file_load(&ref->file, 0, ref->file.size, err);
    if (status == MGPT_OK)
        status = torch_open(&t.file, (struct span){ref->file.data, ref->file.size}, err);
    if (status < 0)
        return status;
    status = add_root(&t, err);
    torch_close(&t.file);
    if (status >= 0)
        return ref_named_use(ref, &t.named, err);
    ref_named_free(&t.named);
    return status;
}
