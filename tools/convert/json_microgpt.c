/* Reader: microgpt's weights as JSON, in the layouts people dump.
 *
 *     {"wte": [[...]], ..., "_vocab": [...], "_bos_id": 26}                     flat
 *     {"config": {...}, "chars": [...], "weights": {"wte": [[...]], ...}}       wrapped
 *     {"uchars": [...], "state_dict": {...}}
 *     [0.1, ...]   or   {"params": [0.1, ...], "config": {...}}                 parameter list
 *
 * A key is a stated size, the vocabulary, BOS, a container, or a matrix. In a flat file and inside the
 * weights anything else that holds numbers must be a matrix of the model; elsewhere an unknown key is
 * ignored, with a note. The text is limited to 512 MiB because the tree takes a multiple of it.
 */
#include "error.h"
#include "json_model.h"
#include "json_read.h"
#include "microgpt_impl.h"

#include <string.h>

#define MAX_BYTES ((size_t)512 << 20)

static int is_container(const json_t *v)
{
    return json_is(v, JSON_OBJECT) || json_is(v, JSON_ARRAY);
}

/* A name counts only with a value of its kind: "params": 4192 is not a list of parameters. */
static enum mg_kind classify(const char *key, const json_t *v, enum mg_size *size)
{
    enum mg_kind kind = mg_kind_of(key, size);
    switch (kind) {
    case MG_SIZE:
    case MG_BOS:
    case MG_EPS:
    case MG_ROPE_BASE:
        return json_is_numeric(v) ? kind : MG_OTHER;
    case MG_VOCABULARY:
        *size = MG_VOCAB;
        return json_is_numeric(v) ? MG_SIZE : kind;
    case MG_ACTIVATION:
        return json_is(v, JSON_STRING) ? kind : MG_OTHER;
    case MG_CONFIG:
        return json_is(v, JSON_OBJECT) ? kind : MG_OTHER;
    case MG_WEIGHTS:
        return is_container(v) ? kind : MG_OTHER;
    default:
        return MG_OTHER;
    }
}

/* A tensor of the model by its name and none by its value: taken for absent it would make another model
 * (a head that is the embedding). null is absent. */
static int is_spoilt(const char *key, const json_t *v)
{
    uint32_t layer;
    int role = mg_recognise(key, &layer),
        empty = json_is(v, JSON_OBJECT) && json_object_size(v) == 0;
    return (empty || !is_container(v)) && !json_is(v, JSON_NULL) &&
           (role == MG_WTE || role == MG_WPE || role == MG_LM_HEAD);
}

/* ---- keys -------------------------------------------------------------------------------------- */

static int read_object(struct mg_parts *m, const json_t *object, int strict);

static int read_key(struct mg_parts *m, const char *key, const json_t *v, int strict)
{
    enum mg_size size = MG_VOCAB;
    enum mg_kind kind = classify(key, v, &size);
    switch (kind) {
    case MG_SIZE:
    case MG_BOS:
    case MG_EPS:
    case MG_ROPE_BASE:
        return mg_state(m, key, json_number_value(v), kind, size);
    case MG_VOCABULARY:
        if (json_is(json_object_get(v, "itos"), JSON_OBJECT) ||
            json_is(json_object_get(v, "stoi"), JSON_OBJECT))
            return read_object(m, v, 0);
        return m->entries || json_is(v, JSON_NULL) ? MGPT_OK : json_vocabulary(m, key, v);
    case MG_ACTIVATION:
        m->facts.activation = json_string_value(v);
        return MGPT_OK;
    case MG_CONFIG:
        return read_object(m, v, 0);
    case MG_WEIGHTS: /* the root has taken its own out: two of them, or one inside the other */
    case MG_OTHER:
        break;
    }
    if (strict && is_spoilt(key, v))
        return mg_refuse(m, key, "%s, expected a matrix", json_kind(v));
    if (strict && is_container(v))
        return json_add_matrices(m, key, v);
    ckpt_note(m->c, "ignored: %s (%s)", key, json_kind(v));
    return MGPT_OK;
}

static int read_object(struct mg_parts *m, const json_t *object, int strict)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        int status = read_key(m, key, v, strict);
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

/* ---- layouts ----------------------------------------------------------------------------------- */

static const json_t *find_weights(const json_t *root, const char **name)
{
    json_t *v;
    enum mg_size size;
    json_object_foreach((json_t *)(uintptr_t)root, *name, v)
    {
        if (classify(*name, v, &size) == MG_WEIGHTS)
            return v;
    }
    return NULL;
}

/* The keys around the weights first: a parameter list needs what they say. */
static int read_wrapped(struct mg_parts *m, const json_t *root, const json_t *weights,
                        const char *name)
{
    const char *key;
    json_t *v;
    int status = MGPT_OK;
    json_object_foreach((json_t *)(uintptr_t)root, key, v)
    {
        if (strcmp(key, name) != 0)
            status = read_key(m, key, v, 0);
        if (status < 0)
            return status;
    }
    return json_is(weights, JSON_ARRAY) ? json_add_params(m, weights) : read_object(m, weights, 1);
}

static int read_layout(struct mg_parts *m, const json_t *root)
{
    const char *name = NULL;
    if (json_is(root, JSON_ARRAY)) {
        m->c->format = "microgpt JSON, parameter list";
        return json_add_params(m, root);
    }
    const json_t *weights = find_weights(root, &name);
    m->c->format = weights ? "microgpt JSON, wrapped" : "microgpt JSON, flat";
    return weights ? read_wrapped(m, root, weights, name) : read_object(m, root, 1);
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

static void release(void *source)
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
    c->release = release;
    struct mg_parts m;
    mg_parts_init(&m, c, in, err);
    return mg_parts_build(&m, read_layout(&m, root));
}
