/* Reader: a safetensors file. With a config.json of Hugging Face next to it, it is a Hugging Face
 * model; else one of the programs whose tensors from_torch.c knows by name (nanoGPT, minGPT,
 * microgpt, ...), with the facts of __metadata__ and of a JSON file next to it.
 *
 * The format lets __metadata__ hold strings only, so a value can be a number or JSON in a string.
 */
#include "base/error.h"
#include "convert/containers/safetensors.h"
#include "convert/families/hf.h"
#include "convert/families/torch_model.h"
#include "convert/families/tree.h"

#include <string.h>

struct named_file {
    const struct ckpt_input *in;
    struct mg_parts parts;
    struct state state;
    struct safetensors st;
    json_t *said, *side; /* __metadata__ with what is in its strings, and the side file */
};

/* ---- facts ----------------------------------------------------------------------------------- */

static json_t *decoded(const json_t *v, mgpt_error *err)
{
    json_error_t e;
    const char *text = json_string_value(v);
    if (!text || (*text != '{' && *text != '['))
        return json_incref((json_t *)(uintptr_t)v);
    json_t *inside = json_read(text, json_string_length(v), JSON_REJECT_DUPLICATES, &e);
    if (!inside && json_read_no_memory(&e, json_string_length(v), err))
        return NULL;
    return inside ? inside : json_incref((json_t *)(uintptr_t)v);
}

static int take_facts(struct named_file *r, const json_t *object)
{
    struct tree_file file;
    uint64_t left;
    struct tree t = tree_of_json(&file, &left, object, r->in->bytes.size);
    return tree_facts(&r->parts, t, (struct tree){0}, 1);
}

static int read_metadata(struct named_file *r)
{
    const char *key;
    json_t *v;
    json_watch();
    r->said = json_object();
    json_object_foreach(json_object_get(r->st.header, "__metadata__"), key, v)
    {
        json_t *value = decoded(v, r->parts.err);
        if (!value)
            return MGPT_EMEM;
        if (json_object_set_new(r->said, key, value) < 0)
            return err_memory(r->parts.err, "the metadata", 1);
    }
    if (!r->said || json_has_lost())
        return err_memory(r->parts.err, "the metadata", 1);
    return take_facts(r, r->said);
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

/* 1; 0: no mapping knows the names; negative */
static int read_named(struct named_file *r, mgpt_error *err)
{
    int status = st_parse(&r->st, r->in->bytes, err);
    if (status == MGPT_OK)
        status = hf_add_safetensors(&r->state, &r->st, err);
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
    int is_hf = hf_is_beside(in, err);
    if (is_hf < 0)
        return is_hf;
    state_init(&r.state, c);
    mg_parts_init(&r.parts, c, in, err);
    int status = is_hf ? 0 : read_named(&r, err);
    mg_parts_free(&r.parts);
    json_decref(r.said);
    json_decref(r.side);
    st_free(&r.st);
    state_free(&r.state);
    if (status != 0)
        return status < 0 ? status : MGPT_OK;
    status = ckpt_check_options("Hugging Face safetensors", OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                in->options, err);
    return status < 0 ? status : hf_safetensors_read(c, in, err);
}
