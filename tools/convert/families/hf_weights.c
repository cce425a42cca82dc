/* Where the tensors of a Hugging Face model are: one safetensors file, several with an index, or a
 * file of PyTorch. See hf.h.
 *
 * The index maps every tensor to the file that holds it. Its file names are untrusted: plain names
 * in the directory of the input, nothing else. Index and files must agree: no tensor missing, none
 * unlisted.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/safetensors.h"
#include "convert/containers/torch.h"
#include "convert/families/hf.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SHARDS = 512, MAX_FILE_NAME = 128 };

/* ---- one file -------------------------------------------------------------------------------- */

/* Element types that can be read; the others may occur in buffers. */
static enum state_type type_of(const char *dtype)
{
    for (int type = 0; type < STATE_OTHER; type++)
        if (strcmp(state_type_name((enum state_type)type), dtype) == 0)
            return (enum state_type)type;
    return STATE_OTHER;
}

static int hf_weights_add_tensor(struct state *s, const struct st_tensor *from, mgpt_error *err)
{
    struct state_tensor t = {.type = type_of(from->dtype),
                             .n_dims = from->n_dims,
                             .bytes = {from->data, (size_t)(from->end - from->begin)}};
    memcpy(t.shape, from->dims, sizeof t.shape);
    state_contiguous(&t);
    return state_add(s, from->name, strlen(from->name), t, err);
}

int hf_add_safetensors(struct state *s, const struct safetensors *st, mgpt_error *err)
{
    int status = MGPT_OK;
    for (size_t i = 0; status == MGPT_OK && i < arr_len(st->tensors); i++)
        status = hf_weights_add_tensor(s, &st->tensors[i], err);
    return status;
}

static int read_safetensors(struct state *s, struct span bytes, mgpt_error *err)
{
    struct safetensors st;
    int status = st_parse(&st, bytes, err);
    if (status == MGPT_OK)
        status = hf_add_safetensors(s, &st, err);
    st_free(&st);
    return status;
}

static int read_torch(struct state *s, struct span bytes, mgpt_error *err)
{
    struct torch_file f;
    int status = torch_open(&f, bytes, err);
    if (status < 0)
        return status;
    status = torch_state(&f, f.pickle.root, s, err);
    torch_close(&f);
    return status;
}

int hf_add_file(struct state *s, struct span bytes, mgpt_error *err)
{
    static const char pointer[] = "version https://git-lfs";
    if (bytes.size >= sizeof pointer && memcmp(bytes.data, pointer, sizeof pointer - 1) == 0)
        return err_set(err, MGPT_EFILE, 0,
                       "a pointer of Git LFS, not the file itself: git lfs pull brings it");
    if (!st_sniff(bytes) && torch_sniff(bytes))
        return read_torch(s, bytes, err);
    return read_safetensors(s, bytes, err);
}

/* ---- several files --------------------------------------------------------------------------- */

/* A file name that cannot leave the directory. */
static int is_plain(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 32 || name[i] == '/' || name[i] == '\\')
            return 0;
    return n > 0 && n < MAX_FILE_NAME && name[0] != '.' && !strstr(name, "..");
}

static int has_name(char *const *names, const char *name)
{
    for (size_t i = 0; i < arr_len(names); i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

/* The files that the map names, in its order, each once; *names is an stb_ds array. */
static int list_shards(struct hf_model *m, const struct jval *map, char ***names, mgpt_error *err)
{
    for (struct jval_iter i = jval_begin(map); jval_next(&i);) {
        const char *name = jval_text(i.value);
        if (!name || !is_plain(name))
            return ckpt_refuse(err,
                               "weight_map: %.*s: expected the plain name of a file, found %.40s",
                               CKPT_CLIP(i.key, strlen(i.key)), name ? name : "none");
        if (has_name(*names, name))
            continue;
        if (arr_len(*names) == MAX_SHARDS)
            return ckpt_refuse(err, "weight_map: more than %d files", MAX_SHARDS);
        char *copy = ckpt_text(m->c, name, strlen(name));
        if (!copy || !arr_push(*names, copy))
            return err_memory(err, "the list of files", strlen(name));
    }
    return MGPT_OK;
}

/* Adds the tensors of one file, which the map lists, to the model's. */
static int take_listed(struct hf_model *m, const struct jval *map, const char *name,
                       const struct state *s, mgpt_error *err)
{
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        const struct state_tensor *t = &s->tensors[i];
        const char *listed = jval_text(jval_get(map, t->name));
        if (!listed || strcmp(listed, name) != 0)
            return ckpt_refuse_tensor(err, t->name, "in the file, but not by the index");
        if (state_add(&m->state, t->name, strlen(t->name), *t, err) < 0)
            return err->status;
    }
    return MGPT_OK;
}

static int open_shard(struct hf_model *m, const struct jval *map, const char *name, mgpt_error *err)
{
    struct ckpt_side side;
    struct state s;
    mgpt_error why = {0};
    int found = m->in->side(m->in->user, 0, &name, 1, &side, err);
    if (found < 0)
        return found;
    if (!found)
        return ckpt_refuse(err, "side file %.60s, which the index names: there is no such file",
                           name);
    state_init(&s, m->c);
    int status = hf_add_file(&s, side.bytes, &why);
    if (status == MGPT_OK)
        status = take_listed(m, map, name, &s, &why);
    state_free(&s);
    return status < 0 ? err_set(err, why.status, why.offset, "%.40s: %s", name, why.text) : status;
}

/* Every tensor of the map was in its file. */
static int check_complete(struct hf_model *m, const struct jval *map, mgpt_error *err)
{
    if (arr_len(m->state.tensors) == jval_members(map))
        return MGPT_OK;
    if (state_seal(&m->state, err) < 0)
        return err->status;
    for (struct jval_iter i = jval_begin(map); jval_next(&i);)
        if (!state_has(&m->state, i.key))
            return ckpt_refuse_tensor(err, i.key, "missing from %.40s", jval_text(i.value));
    return MGPT_OK;
}

int hf_weights_sharded(struct hf_model *m, struct span index, mgpt_error *err)
{
    char **names = NULL;
    const struct jval *root = hf_values(index, "the index", 0, err);
    if (!root)
        return err->status;
    const struct jval *map = jval_get(root, "weight_map");
    int status = MGPT_OK;
    if (!jval_is(map, JVAL_OBJECT))
        status = ckpt_refuse(err, "the index: weight_map: expected an object of tensors and files");
    if (status == MGPT_OK)
        status = list_shards(m, map, &names, err);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(names); i++)
        status = open_shard(m, map, names[i], err);
    if (status == MGPT_OK)
        status = check_complete(m, map, err);
    arr_free(names);
    jval_free(root);
    return status;
}

/* ---- the files ------------------------------------------------------------------------------- */

static int hf_weights_find_weights(struct hf_model *m, struct ckpt_side *side, mgpt_error *err)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    int found = m->in->side(m->in->user, 0, names, HF_COUNT(names), side, err);
    if (found)
        return found;
    return ckpt_refuse(err, "no weights: looked for %s, %s and their .index.json", names[0],
                       names[2]);
}

int hf_weights(struct hf_model *m, struct span bytes, mgpt_error *err)
{
    struct ckpt_side side;
    mgpt_error why = {0};
    if (bytes.data)
        return hf_add_file(&m->state, bytes, err);
    int status = hf_weights_find_weights(m, &side, err);
    if (status < 0)
        return status;
    if (strstr(side.name, "index"))
        return hf_weights_sharded(m, side.bytes, err);
    status = hf_add_file(&m->state, side.bytes, &why);
    return status < 0 ? err_set(err, why.status, why.offset, "%.40s: %s", side.name, why.text)
                      : status;
}
