/* Reader: PyTorch files and pickles. It finds the weights in what was saved, and the mapping that
 * knows their names.
 *
 * The weights are a dict of tensors: the whole, or a member of a training checkpoint under one of
 * the usual names. Everything else in the file is ignored.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/hf.h"
#include "convert/families/torch_model.h"

#include <stdio.h>
#include <string.h>

static void hf_map(struct torch_model *m)
{
    hf_read_state(m->c, m->in, m->state);
}

/* No names of its own tell it: read_model does. */
static const struct torch_mapping hf_mapping = {"Hugging Face", OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                                NULL, hf_map};

/* microgpt last: it refuses what it does not know. */
static const struct torch_mapping *const mappings[] = {
    &hf_mapping,     &nanogpt_mapping,       &mingpt_mapping,   &llama2c_pt_mapping,
    &litgpt_mapping, &scratch_mapping,       &nanochat_mapping, &gpt_mapping,
    &bigram_mapping, &microgpt_state_mapping};

enum { N_MAPPINGS = sizeof mappings / sizeof *mappings };

const struct torch_mapping *torch_mapping_at(size_t i)
{
    return i < N_MAPPINGS ? mappings[i] : NULL;
}

enum ckpt_match torch_reader_sniff(struct span bytes)
{
    int is = torch_sniff(bytes);
    if (is < 0)
        return MATCH_MAYBE;
    return is ? MATCH_YES : MATCH_NO;
}

/* A dict that holds a tensor or an array. */
static int is_weights(const struct torch_model *m, pickle_id id)
{
    const struct pickle *p = &m->file->pickle;
    if (pickle_at(p, id).kind != PICKLE_DICT)
        return 0;
    for (struct pickle_iter i = pickle_items(p, id); pickle_next(&i);)
        if (torch_is_tensor(m->file, i.value) || pickle_is_call(p, i.value, NULL, "_reconstruct") ||
            pickle_is_call(p, i.value, NULL, "_frombuffer"))
            return 1;
    return 0;
}

/* Returns 0 if there is no state dict: the model is in lists, or there is no model. */
static int from_torch_find_weights(struct torch_model *m)
{
    static const char *const names[] = {"model",  "model_state_dict", "state_dict", "model_state",
                                        "module", "weights",          "params",     "parameters"};
    m->root = m->file->pickle.root;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        m->weights = torch_member(m, names[i]);
        if (is_weights(m, m->weights))
            return 1;
    }
    m->weights = m->root;
    if (is_weights(m, m->weights) || pickle_at(&m->file->pickle, m->root).kind != PICKLE_DICT)
        return is_weights(m, m->weights);
    for (struct pickle_iter i = pickle_items(&m->file->pickle, m->root); pickle_next(&i);)
        if (is_weights(m, i.value)) { /* under a name of the user's */
            m->weights = i.value;
            return 1;
        }
    return 0;
}

_Noreturn static void no_weights(const struct torch_model *m)
{
    const struct pickle *p = &m->file->pickle;
    int is_object = pickle_at(p, m->root).kind == PICKLE_OBJECT;
    ckpt_stop(m->c, "%s: no state dict in it: it holds %s%s", m->file->container,
              pickle_kind_name(p, m->root),
              is_object ? "; save model.state_dict(), not the model" : "");
}

_Noreturn static void from_torch_unknown(const struct torch_model *m)
{
    const char *first = arr_len(m->state->tensors) ? m->state->tensors[0].name : "";
    if (torch_is_hugging_face(m->state))
        ckpt_stop(m->c, "Llama's names in transformers, which many models have: config.json of "
                        "this one, with model_type, must be next to the file");
    ckpt_stop_tensor(m->c, first,
                     "not a name of a model that mgpt knows (mgpt convert --help lists "
                     "the programs)");
}

static void run_mapping(struct torch_model *m, const struct torch_mapping *mapping)
{
    char format[80];
    int n = snprintf(format, sizeof format, "%s (%s)", mapping->name, m->file->container);
    m->c->format = ckpt_copy(m->c, format, (size_t)n);
    ckpt_check_options(m->c, m->in, mapping->name, mapping->options);
    mapping->map(m);
}

/* The mapping among [first, end) that knows the names, or NULL. A module that holds the model puts its own
 * word before all names (Lightning's "model.", "net."): it is taken off, and put back if no mapping
 * is found. */
static const struct torch_mapping *known_mapping(struct torch_model *m, size_t first, size_t end)
{
    size_t n = 0, all = 0;
    do {
        for (size_t i = first; i < end; i++)
            if (mappings[i]->match && mappings[i]->match(m))
                return mappings[i];
        n = state_first_word(m->state);
        state_cut(m->state, (ptrdiff_t)n);
        all += n;
    } while (n > 0);
    state_cut(m->state, -(ptrdiff_t)all);
    return NULL;
}

/* Names of one program each count before those that are known by their words alone. */
static const struct torch_mapping *find_mapping(struct torch_model *m)
{
    size_t by_words = 0;
    while (mappings[by_words] != &gpt_mapping)
        by_words++;
    const struct torch_mapping *mapping = known_mapping(m, 0, by_words);
    return mapping ? mapping : known_mapping(m, by_words, N_MAPPINGS);
}

void torch_reader_read(struct checkpoint *c, const struct ckpt_input *in)
{
    struct torch_model m = {.c = c, .in = in, .file = torch_owned(c, in->bytes)};
    const struct torch_mapping *mapping = &microgpt_state_mapping;
    m.state = state_new(c);
    m.parts = mg_parts_new(c, in);
    int found = from_torch_find_weights(&m);
    if (!found && strcmp(m.file->container, "pickle") != 0)
        no_weights(&m);
    if (found) {
        torch_state(m.file, m.weights, m.state);
        torch_facts(&m);
        /* pytorch_model.bin: its names mean what config.json next to it says. A training checkpoint
         * wraps the weights; a file of Hugging Face is the weights. */
        int is_hf = m.weights == m.root && hf_is_beside(c, in);
        mapping = is_hf ? &hf_mapping : find_mapping(&m);
    }
    if (!mapping)
        from_torch_unknown(&m);
    run_mapping(&m, mapping);
}

int torch_knows(struct state *s)
{
    const struct torch_file none = {.container = ""};
    struct torch_model m = {.c = s->c, .file = &none, .state = s};
    return find_mapping(&m) != NULL;
}

int torch_map_state(struct state *s, struct mg_parts *parts, const char *container)
{
    const struct torch_file none = {.container = container};
    struct torch_model m = {
        .c = parts->c, .in = parts->in, .file = &none, .state = s, .parts = parts};
    const struct torch_mapping *mapping = find_mapping(&m);
    if (mapping)
        run_mapping(&m, mapping);
    return mapping != NULL;
}
