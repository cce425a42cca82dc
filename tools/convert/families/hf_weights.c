/* Where the tensors of a Hugging Face model are: one safetensors file, several with an index, or a
 * file of PyTorch. See hf.h.
 *
 * The index maps every tensor to the file that holds it. Its file names are untrusted: plain names
 * in the directory of the input, nothing else. Index and files must agree: no tensor missing, none
 * unlisted.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/state_open.h"
#include "convert/families/hf.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SHARDS = 512, MAX_FILE_NAME = 128 };

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

/* Adds the tensors of one file, whose names the map lists, to the model's. */
static void open_shard(struct hf_model *m, const struct jval *map, const char *name)
{
    struct ckpt_side side;
    struct state *s = state_new(m->c);
    if (!ckpt_side(m->c, m->in, 0, &name, 1, &side))
        ckpt_stop(m->c, "side file %.60s, which the index names: there is no such file", name);
    ckpt_within(m->c, name);
    state_open(s, side.bytes);
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        const struct state_tensor *t = &s->tensors[i];
        const char *listed = jval_text(jval_get(map, t->name));
        if (!listed || strcmp(listed, name) != 0)
            ckpt_stop_tensor(m->c, t->name, "in the file, but not by the index");
        state_add(&m->state, t->name, strlen(t->name), *t);
    }
    ckpt_within(m->c, NULL);
}

/* Every tensor of the map was in its file. */
static void check_complete(struct hf_model *m, const struct jval *map)
{
    if (arr_len(m->state.tensors) == jval_members(map))
        return;
    state_seal(&m->state);
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
    if (bytes.data) {
        state_open(&m->state, bytes);
        return;
    }
    if (!ckpt_side(m->c, m->in, 0, names, HF_COUNT(names), &side))
        ckpt_stop(m->c, "no weights: looked for %s, %s and their .index.json", names[0], names[2]);
    if (strstr(side.name, "index")) {
        hf_weights_sharded(m, side.bytes);
        return;
    }
    ckpt_within(m->c, side.name);
    state_open(&m->state, side.bytes);
    ckpt_within(m->c, NULL);
}
