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

struct named_file {
    const struct ckpt_input *in;
    struct mg_parts parts;
    struct state state;
    struct safetensors st;
    const struct jval *side, **inside; /* the side file; stb_ds array: JSON in __metadata__ */
};

/* ---- facts ----------------------------------------------------------------------------------- */

static int take_facts(struct named_file *r, const struct jval *object)
{
    struct tree_file file;
    uint64_t left;
    struct tree t = tree_of_json(&file, &left, object, r->in->bytes.size);
    return tree_facts(&r->parts, t, (struct tree){0}, 1);
}

/* A member of __metadata__, or what is in it if that is JSON. */
static int take_member(struct named_file *r, const char *key, const struct jval *v)
{
    struct jval_error e;
    struct tree_file file;
    uint64_t left;
    const char *text = jval_text(v);
    const struct jval *inside = NULL;
    if (text && (*text == '{' || *text == '['))
        inside = jval_read(text, jval_text_size(v), 0, NULL, &e);
    if (inside && !arr_push(r->inside, inside)) {
        jval_free(inside);
        return err_memory(r->parts.err, "the metadata", 1);
    }
    if (text && !inside && (*text == '{' || *text == '[') &&
        jval_no_memory(&e, jval_text_size(v), r->parts.err))
        return MGPT_EMEM;
    struct tree t = tree_of_json(&file, &left, inside ? inside : v, r->in->bytes.size);
    int status = tree_take(&r->parts, key, t);
    if (status == 0)
        tree_ignore(&r->parts, key, t);
    return status;
}

static int read_metadata(struct named_file *r)
{
    int status = MGPT_OK;
    struct jval_iter i = jval_begin(jval_get(r->st.header, "__metadata__"));
    while (status >= 0 && jval_next(&i))
        status = take_member(r, i.key, i.value);
    return status < 0 ? status : MGPT_OK;
}

static int read_side(struct named_file *r)
{
    static const char *const names[] = {"config.json"};
    struct torch_model m = {.c = r->parts.c, .in = r->in};
    const char *name;
    int found = torch_json(&m, names, 1, &r->side, &name, r->parts.err);
    return found > 0 ? take_facts(r, r->side) : found;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Reads by the mapping that knows the names. Returns 1, 0 if no mapping knows them, or negative. */
static int read_named(struct named_file *r, mgpt_error *err)
{
    int status = st_parse(&r->st, r->in->bytes, err);
    if (status == MGPT_OK)
        status = state_add_safetensors(&r->state, &r->st, err);
    if (status == MGPT_OK)
        status = state_seal(&r->state, err);
    if (status == MGPT_OK)
        status = torch_knows(&r->state, err);
    if (status <= 0)
        return status;
    r->parts.first_wins = 1;
    status = read_metadata(r);
    if (status == MGPT_OK)
        status = read_side(r);
    return status < 0 ? status : torch_map_state(&r->state, &r->parts, "safetensors", err);
}

int safetensors_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct named_file r = {.in = in};
    int is_hf = hf_is_beside(c, in, err);
    if (is_hf < 0)
        return is_hf;
    state_init(&r.state, c);
    mg_parts_init(&r.parts, c, in, err);
    int status = is_hf ? 0 : read_named(&r, err);
    mg_parts_free(&r.parts);
    for (size_t i = 0; i < arr_len(r.inside); i++)
        jval_free(r.inside[i]);
    arr_free(r.inside);
    jval_free(r.side);
    st_free(&r.st);
    state_free(&r.state);
    if (status != 0)
        return status < 0 ? status : MGPT_OK;
    status = ckpt_check_options("Hugging Face safetensors", OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                in->options, err);
    return status < 0 ? status : hf_safetensors_read(c, in, err);
}
