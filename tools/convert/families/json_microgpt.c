/* Reader: microgpt's weights as JSON, in the layouts people dump.
 *
 *     {"wte": [[...]], ..., "_vocab": [...], "_bos_id": 26}                     flat
 *     {"config": {...}, "chars": [...], "weights": {"wte": [[...]], ...}}       wrapped
 *     {"uchars": [...], "state_dict": {...}}
 *     [0.1, ...]   or   {"params": [0.1, ...], "config": {...}}                 parameter list
 *
 * The weights are the object that has the token embedding in it, however deep; every other object is
 * searched for facts (json_facts.c). In a flat file and inside the weights anything else that holds numbers
 * must be a matrix of the model; elsewhere an unknown key is ignored, with a note. The text is limited to 512 MiB because the tree takes a multiple of it.
 */
#include "base/error.h"
#include "common/json_read.h"
#include "convert/families/json_model.h"
#include "convert/families/microgpt_impl.h"

#include <string.h>

#define MAX_BYTES ((size_t)512 << 20)

enum { MAX_NESTING = 8 };

/* ---- keys of the weights ----------------------------------------------------------------------- */

/* A tensor of the model by its name and none by its value: taken for absent it would make another model
 * (a head that is the embedding). null is absent. */
static int is_spoilt(const char *key, const json_t *v)
{
    uint32_t layer;
    int role = mg_recognise(key, &layer),
        empty = json_is(v, JSON_OBJECT) && json_object_size(v) == 0;
    return (empty || !json_is_container(v)) && !json_is(v, JSON_NULL) &&
           (role == MG_WTE || role == MG_WPE || role == MG_LM_HEAD);
}

/* Lists of numbers, matrices and shapes anywhere in it. */
static int holds_numbers(const json_t *v, int nesting)
{
    const char *key;
    json_t *member;
    if (json_is(v, JSON_ARRAY))
        return json_is_numeric(json_array_get(v, 0)) ||
               holds_numbers(json_array_get(v, 0), nesting + 1);
    if (nesting > MAX_NESTING || (json_object_get(v, "data") && json_object_get(v, "shape")))
        return 1;
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        if (holds_numbers(member, nesting + 1))
            return 1;
    }
    return 0;
}

/* A container among the matrices that is none of them. */
static int is_fact(const char *key, const json_t *v)
{
    enum mg_size size;
    enum mg_kind kind = mg_kind_of(key, &size);
    if (json_is(v, JSON_ARRAY))
        return kind == MG_VOCABULARY && !holds_numbers(v, 0);
    return kind == MG_VOCABULARY || kind == MG_CONFIG || !holds_numbers(v, 0);
}

/* The causal mask that minGPT keeps as a buffer: [1, 1, T, T]. */
static int is_mask(const char *key, const json_t *v)
{
    const char *end = strstr(key, ".attn.bias");
    return end && !end[strlen(".attn.bias")] && json_array_size(json_object_get(v, "shape")) == 4;
}

static int read_weight(struct mg_parts *m, const char *key, const json_t *v)
{
    enum mg_size size;
    if (is_spoilt(key, v))
        return mg_refuse(m, key, "%s, expected a matrix", json_kind(v));
    if (json_is_container(v) && mg_kind_of(key, &size) != MG_OPTIMIZER && !is_fact(key, v))
        return is_mask(key, v) ? MGPT_OK : json_add_matrices(m, key, v);
    int status = json_take(m, key, v);
    if (status == 0)
        json_ignore(m, key, v);
    return status < 0 ? status : MGPT_OK;
}

static int read_weights(struct mg_parts *m, const json_t *object)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        int status = read_weight(m, key, v);
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

/* ---- layouts ----------------------------------------------------------------------------------- */

typedef int is_weights_fn(const char *key, const json_t *v);

static int is_named(const char *key, const json_t *v)
{
    (void)key;
    return json_names_matrices(v);
}

/* Without a token embedding: a list of all parameters, or a model that lacks it. */
static int is_called_so(const char *key, const json_t *v)
{
    enum mg_size size;
    return mg_kind_of(key, &size) == MG_WEIGHTS && json_is_container(v) && holds_numbers(v, 0);
}

/* The first member that passes, those that are called weights first. */
static const json_t *json_microgpt_find(const json_t *object, is_weights_fn *is, int nesting)
{
    const char *key;
    json_t *v;
    enum mg_size size;
    for (int called_so = 1; called_so >= 0; called_so--)
        json_object_foreach((json_t *)(uintptr_t)object, key, v)
        {
            enum mg_kind kind = mg_kind_of(key, &size);
            if ((kind == MG_WEIGHTS) != called_so || kind == MG_OPTIMIZER)
                continue;
            const json_t *found = is(key, v)              ? v
                                  : nesting < MAX_NESTING ? json_microgpt_find(v, is, nesting + 1)
                                                          : NULL;
            if (found)
                return found;
        }
    return NULL;
}

static int is_inside(const json_t *v, const json_t *weights, int nesting)
{
    const char *key;
    json_t *member;
    if (v == weights)
        return 1;
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        if (nesting < MAX_NESTING && is_inside(member, weights, nesting + 1))
            return 1;
    }
    return 0;
}

/* The facts around the weights, which a parameter list needs first. */
static int read_around(struct mg_parts *m, const json_t *object, const json_t *weights)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        int status = 1;
        if (!is_inside(v, weights, 0))
            status = json_take(m, key, v);
        else if (v != weights && read_around(m, v, weights) < 0)
            status = m->err->status;
        if (status < 0)
            return status;
        if (status == 0)
            json_ignore(m, key, v);
    }
    return MGPT_OK;
}

static int read_layout(struct mg_parts *m, const json_t *root)
{
    if (json_is(root, JSON_ARRAY)) {
        m->c->format = "microgpt JSON, parameter list";
        return json_add_params(m, root);
    }
    const json_t *weights =
        json_names_matrices(root) ? root : json_microgpt_find(root, is_named, 0);
    if (!weights)
        weights = json_microgpt_find(root, is_called_so, 0);
    m->c->format = weights && weights != root ? "microgpt JSON, wrapped" : "microgpt JSON, flat";
    if (!weights || weights == root)
        return read_weights(m, root);
    int status = read_around(m, root, weights);
    if (status < 0)
        return status;
    return json_is(weights, JSON_ARRAY) ? json_add_params(m, weights) : read_weights(m, weights);
}

/* ---- the text ---------------------------------------------------------------------------------- */

static struct span without_bom(struct span s)
{
    if (s.size >= 3 && memcmp(s.data, "\xEF\xBB\xBF", 3) == 0)
        return (struct span){s.data + 3, s.size - 3};
    return s;
}

static int stands_at(struct span s, size_t at, const char *word)
{
    size_t n = strlen(word);
    return at <= s.size && n <= s.size - at && memcmp(s.data + at, word, n) == 0;
}

/* Python writes these for numbers that are not finite; JSON has no such thing. jansson stops behind
 * the word, or behind the minus in front of it. */
static int is_not_finite(struct span s, size_t at)
{
    return (at >= 3 && stands_at(s, at - 3, "NaN")) ||
           (at >= 8 && stands_at(s, at - 8, "Infinity")) || stands_at(s, at, "Infinity");
}

/* `base`: where s begins in the file. */
static int syntax_error(struct span s, size_t base, const json_error_t *e, mgpt_error *err)
{
    size_t at = (size_t)json_read_offset(e);
    if (json_read_no_memory(e, s.size, err))
        return MGPT_EMEM;
    if (is_not_finite(s, at))
        return err_set(err, MGPT_EFILE, base + at,
                       "line %d column %d: NaN or Infinity is not JSON (Python writes it); the "
                       "weights are not finite",
                       e->line, e->column);
    return err_set(err, MGPT_EFILE, base + at, "JSON: line %d column %d: %s", e->line, e->column,
                   e->text);
}

enum ckpt_match microgpt_json_sniff(struct span bytes)
{
    struct span s = without_bom(bytes);
    size_t i = 0;
    while (i < s.size && (s.data[i] == ' ' || (s.data[i] >= 9 && s.data[i] <= 13)))
        i++;
    return i < s.size && (s.data[i] == '{' || s.data[i] == '[') ? MATCH_YES : MATCH_NO;
}

static void json_microgpt_release(void *source)
{
    json_decref(source);
}

int microgpt_json_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct span text = without_bom(in->bytes);
    json_error_t e;
    if (text.size > MAX_BYTES)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "JSON of %zu bytes, the limit is %zu",
                       text.size, MAX_BYTES);
    json_t *root = json_read(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!root)
        return syntax_error(text, in->bytes.size - text.size, &e, err);
    c->source = root;
    c->release = json_microgpt_release;
    struct mg_parts m;
    mgpt_error local = {0}; /* so that there always is one */
    mg_parts_init(&m, c, in, &local);
    int status = read_layout(&m, root);
    if (status == MGPT_OK && json_is_other(&m)) {
        status = json_map_other(&m);
        mg_parts_free(&m);
    } else {
        if (status == MGPT_OK)
            status = ckpt_check_options("microgpt JSON", MICROGPT_OPTIONS, in->options, &local);
        status = mg_parts_build(&m, status);
    }
    if (status < 0 && err)
        *err = local;
    return status;
}
