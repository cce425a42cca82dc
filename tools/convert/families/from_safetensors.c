/* Reader: a safetensors file. With a config.json of Hugging Face next to it, it is a Hugging Face
 * model; else one of the programs whose tensors from_torch.c knows by name (nanoGPT, minGPT,
 * microgpt, ...), with the facts of __metadata__ and of a JSON file next to it.
 *
 * The format lets __metadata__ hold strings only, so a value can be a number or JSON in a string.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/state_open.h"
#include "convert/families/hf.h"
#include "convert/families/torch_model.h"
#include "convert/families/tree.h"

#include <string.h>

/* ---- facts ----------------------------------------------------------------------------------- */

/* A member of __metadata__, or what is in it if that is JSON. */
static void take_member(struct mg_parts *m, const char *key, const struct jval *v)
{
    struct jval_error e;
    struct tree_file file;
    uint64_t left;
    const char *text = jval_text(v);
    if (text && (*text == '{' || *text == '[')) {
        const struct jval *inside = jval_read(text, jval_text_size(v), 0, NULL, &e);
        if (inside)
            ckpt_own_json(m->c, inside);
        else if (jval_no_memory(&e, jval_text_size(v), m->c->err))
            ckpt_leave(m->c, MGPT_EMEM);
        v = inside ? inside : v;
    }
    struct tree t = tree_of_json(&file, &left, v, m->in->bytes.size);
    if (!tree_take(m, key, t))
        tree_ignore(m, key, t);
}

static void read_side(struct mg_parts *m)
{
    static const char *const names[] = {"config.json"};
    struct torch_model model = {.c = m->c, .in = m->in};
    struct tree_file file;
    uint64_t left;
    const char *name;
    const struct jval *root = torch_json(&model, names, 1, &name);
    if (root)
        tree_facts(m, tree_of_json(&file, &left, root, m->in->bytes.size), (struct tree){0}, 1);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Reads by the mapping that knows the names. Returns 1, or 0 if no mapping knows them. */
static int read_named(struct checkpoint *c, const struct ckpt_input *in)
{
    struct mg_parts *m = mg_parts_new(c, in);
    struct state *s = state_new(c);
    const struct safetensors *st = state_add_safetensors(s, in->bytes);
    state_seal(s);
    if (!torch_knows(s))
        return 0;
    m->first_wins = 1;
    for (struct jval_iter i = jval_begin(jval_get(st->header, "__metadata__")); jval_next(&i);)
        take_member(m, i.key, i.value);
    read_side(m);
    return torch_map_state(s, m, "safetensors");
}

void safetensors_read(struct checkpoint *c, const struct ckpt_input *in)
{
    if (!hf_is_beside(c, in) && read_named(c, in))
        return;
    ckpt_check_options(c, in, "Hugging Face safetensors", OPT_TOKENIZER | OPT_NO_TOKENIZER);
    hf_safetensors_read(c, in);
}
