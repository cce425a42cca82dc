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

/* Leaves with the error of a file, and its name. */
_Noreturn static void leave_file(struct hf_model *m, const char *name, const mgpt_error *why)
{
    ckpt_leave(m->c, err_set(m->c->err, why->status, why->offset, "%.40s: %s", name, why->text));
}

/* Adds the tensors of one file, whose names the map lists, to the model's. */
static void open_shard(struct hf_model *m, const struct jval *map, const char *name)
{
    struct ckpt_side side;
    struct state *s = state_new(m->c);
    mgpt_error why = {0};
    if (!ckpt_side(m->c, m->in, 0, &name, 1, &side))
        ckpt_stop(m->c, "side file %.60s, which the index names: there is no such file", name);
    if (hf_add_file(s, side.bytes, &why) < 0)
        leave_file(m, name, &why);
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        const struct state_tensor *t = &s->tensors[i];
        const char *listed = jval_text(jval_get(map, t->name));
        if (!listed || strcmp(listed, name) != 0)
            ckpt_refuse_tensor(&why, t->name, "in the file, but not by the index");
        if (why.status < 0 || state_add(&m->state, t->name, strlen(t->name), *t, &why) < 0)
            leave_file(m, name, &why);
    }
}

/* Every tensor of the map was in its file. */
static void check_complete(struct hf_model *m, const struct jval *map)
{
    if (arr_len(m->state.tensors) == jval_members(map))
        return;
    ckpt_must(m->c, state_seal(&m->state, m->c->err));
    for (struct jval_iter i = jval_begin(map); jval_next(&i);)
        if (!state_has(&m->state, i.key))
            ckpt_stop_tensor(m->c, i.key, "missing from %.40s", jval_text(i.value));
}

/* Opens the files that the map names, in its order, each once. */
void hf_weights_sharded(struct hf_model *m, struct span index)
{
    const char **names = ckpt_new(m->c, MAX_SHARDS, sizeof *names);
    size_t n = 0, known;
    const struct jval *map = jval_get(hf_values(m->c, index, "the index", 0), "weight_map");
    if (!jval_is(map, JVAL_OBJECT))
        ckpt_stop(m->c, "the index: weight_map: expected an object of tensors and files");
    for (struct jval_iter i = jval_begin(map); jval_next(&i);) {
        const char *name = jval_text(i.value);
        if (!name || !is_plain(name))
            ckpt_stop(m->c, "weight_map: %.*s: expected the plain name of a file, found %.40s",
                      CKPT_CLIP(i.key, strlen(i.key)), name ? name : "none");
        for (known = 0; known < n && strcmp(names[known], name) != 0;)
            known++;
        if (known == MAX_SHARDS)
            ckpt_stop(m->c, "weight_map: more than %d files", MAX_SHARDS);
        if (known == n)
            names[n++] = ckpt_copy(m->c, name, strlen(name));
    }
    for (size_t i = 0; i < n; i++)
        open_shard(m, map, names[i]);
    check_complete(m, map);
}

/* ---- the files ------------------------------------------------------------------------------- */

void hf_weights(struct hf_model *m, struct span bytes)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    struct ckpt_side side;
    mgpt_error why = {0};
    if (bytes.data) {
        ckpt_must(m->c, hf_add_file(&m->state, bytes, m->c->err));
        return;
    }
    if (!ckpt_side(m->c, m->in, 0, names, HF_COUNT(names), &side))
        ckpt_stop(m->c, "no weights: looked for %s, %s and their .index.json", names[0], names[2]);
    if (strstr(side.name, "index"))
        hf_weights_sharded(m, side.bytes);
    else if (hf_add_file(&m->state, side.bytes, &why) < 0)
        leave_file(m, side.name, &why);
}
