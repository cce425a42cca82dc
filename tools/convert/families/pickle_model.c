/* Reader: microgpt in a pickle. See microgpt.h.
 *
 *     {"wte": ndarray, ...}                                          numpy arrays, referenced in place
 *     {"wte": [[0.1, ...], ...], ...}                                rows of numbers
 *     {"wte": [[Value, ...], ...], ...}                              of Value objects: their .data
 *     {"state_dict": {...}, "uchars": [...]}, (state_dict, uchars)   wrapped
 *     [Value, ...], [[[...]]]                                        parameter list
 *
 * Nothing in the pickle runs: see pickle.h. What was described needs the file's bytes, not the pickle.
 */
#include "convert/families/pickle_model.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/containers/torch.h"
#include "convert/families/microgpt_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- parameter lists --------------------------------------------------------------------------- */

static int pickle_model_add_cut(struct mg_parts *m, const char *name, const void *list,
                                uint64_t at_value, uint64_t rows, uint64_t cols)
{
    struct mg_matrix matrix = {.rows = rows,
                               .cols = cols,
                               .type = dtype_find(DTYPE_F32),
                               .bytes = (const uint8_t *)((const float *)list + at_value)};
    return mg_add(m, name, strlen(name), matrix);
}

static int read_params(struct reading *r, pickle_id list)
{
    char name[32];
    size_t n = pm_at(r, list)->n, k = 0;
    if (pm_is_cell(r, pm_first(r, list))) {
        const float *values = pm_gather(r, "params", list, n);
        return values ? mg_add_params(r->m, n, pickle_model_add_cut, values) : r->m->err->status;
    }
    if (mg_check_order(r->m, n) < 0)
        return MGPT_EFILE;
    for (struct pickle_iter i = pickle_items(r->p, list); pickle_next(&i); k++) {
        mg_name_in_order(r->m, k, n, name);
        int status = pm_add(r, name, i.value);
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

/* ---- vocabulary -------------------------------------------------------------------------------- */

static int no_vocabulary(struct reading *r, const char *key)
{
    return err_set(r->m->err, MGPT_EFILE, MGPT_NO_OFFSET,
                   "%.*s: expected characters as a list, a text, or a dict of ids 0 to n - 1",
                   CKPT_CLIP(key, strlen(key)));
}

static int entries_of_text(struct reading *r, const char *key, const struct pickle_node *text)
{
    for (size_t i = 0; i < text->n;) {
        uint32_t code;
        struct gguf_str s = {text->as.text + i, 0};
        s.n = utf8_next(s.p, text->n - i, &code);
        if (code == UTF8_BAD)
            return no_vocabulary(r, key);
        arr_put(r->m->entries, s);
        i += s.n;
    }
    return MGPT_OK;
}

static int entries_of_list(struct reading *r, const char *key, pickle_id list)
{
    for (struct pickle_iter i = pickle_items(r->p, list); pickle_next(&i);) {
        const struct pickle_node *n = pm_at(r, i.value);
        if (n->kind != PICKLE_TEXT)
            return no_vocabulary(r, key);
        arr_put(r->m->entries, ((struct gguf_str){n->as.text, n->n}));
    }
    return MGPT_OK;
}

/* An id: a number, or its digits, which keys become on their way through JSON. */
static int pm_id(const struct reading *r, pickle_id node, int64_t *id)
{
    const struct pickle_node *n = pm_at(r, node);
    if (n->kind != PICKLE_TEXT)
        return pickle_int(r->p, node, id);
    *id = 0;
    for (uint32_t i = 0; i < n->n; i++) {
        if (n->as.text[i] < '0' || n->as.text[i] > '9' || i > 8)
            return 0;
        *id = 10 * *id + (n->as.text[i] - '0');
    }
    return n->n > 0;
}

/* {"a": 0}, {0: "a"} or {"0": "a"} */
static int entries_of_dict(struct reading *r, const char *key, pickle_id dict, size_t n)
{
    for (size_t i = 0; i < n; i++)
        arr_put(r->m->entries, ((struct gguf_str){NULL, 0}));
    for (struct pickle_iter i = pickle_items(r->p, dict); pickle_next(&i);) {
        int by_id = pm_at(r, i.value)->kind == PICKLE_TEXT;
        const struct pickle_node *text = pm_at(r, by_id ? i.value : i.key);
        int64_t id;
        if (text->kind != PICKLE_TEXT || !pm_id(r, by_id ? i.key : i.value, &id) || id < 0 ||
            (uint64_t)id >= n || r->m->entries[id].p)
            return no_vocabulary(r, key);
        r->m->entries[id] = (struct gguf_str){text->as.text, text->n};
    }
    return MGPT_OK;
}

static int read_vocabulary(struct reading *r, const char *key, pickle_id id)
{
    const struct pickle_node *node = pm_at(r, id);
    size_t n = node->n;
    if (r->m->entries || node->kind == PICKLE_NONE)
        return MGPT_OK;
    if (!arr_reserve(r->m->entries, n + 1))
        return err_memory(r->m->err, "the vocabulary", n * sizeof *r->m->entries);
    if (node->kind == PICKLE_TEXT)
        return entries_of_text(r, key, node);
    if (node->kind == PICKLE_DICT)
        return entries_of_dict(r, key, id, n / 2);
    return pm_is_list(r, id) ? entries_of_list(r, key, id) : no_vocabulary(r, key);
}

/* ---- layouts ----------------------------------------------------------------------------------- */

/* Attributes of an object: the dict in its state. */
static pickle_id dict_of(const struct reading *r, pickle_id id)
{
    if ((pm_at(r, id)->kind == PICKLE_OBJECT || pm_at(r, id)->kind == PICKLE_CALL) &&
        pm_at(r, id)->state)
        id = pm_at(r, id)->state;
    for (size_t i = 0; i < 2 && pm_at(r, id)->kind == PICKLE_TUPLE; i++)
        if (pm_at(r, pickle_item(r->p, id, i))->kind == PICKLE_DICT)
            return pickle_item(r->p, id, i);
    return pm_at(r, id)->kind == PICKLE_DICT ? id : 0;
}

static int names_matrices(const struct reading *r, pickle_id dict)
{
    char key[PM_MAX_PATH];
    uint32_t layer;
    for (struct pickle_iter i = pickle_items(r->p, dict); pickle_next(&i);)
        if (pm_key(r, i.key, key) && mg_recognise(key, &layer) == MG_WTE)
            return 1;
    return 0;
}

static int is_container(const struct reading *r, pickle_id id)
{
    uint8_t kind = pm_at(r, id)->kind;
    return pm_is_list(r, id) || kind == PICKLE_DICT || kind == PICKLE_CALL || kind == PICKLE_OBJECT;
}

/* A name of weights or of a configuration counts only with a value of its kind: "params": 4192 is not a
 * list of parameters. */
static enum mg_kind classify(const struct reading *r, const char *key, pickle_id id,
                             enum mg_size *size)
{
    enum mg_kind kind = mg_kind_of(key, size);
    if (kind == MG_WEIGHTS)
        return pm_is_list(r, id) || dict_of(r, id) ? kind : MG_OTHER;
    return kind == MG_CONFIG && !dict_of(r, id) ? MG_OTHER : kind;
}

static int read_dict(struct reading *r, pickle_id dict, int strict, int nesting);

/* As mg_take. */
static int take_scalar(struct reading *r, const char *key, pickle_id id)
{
    const struct pickle_node *node = pm_at(r, id);
    struct mg_value v = {.kind = MG_NUMBER};
    if (node->kind == PICKLE_TEXT) {
        v.kind = MG_TEXT;
        v.text = ckpt_text(r->m->c, node->as.text, node->n);
        if (!v.text)
            return err_memory(r->m->err, "a text", node->n);
    } else if (!pickle_real(r->p, id, &v.number)) {
        return 0;
    }
    if (node->kind == PICKLE_BOOL)
        v.kind = MG_FLAG;
    return mg_take(r->m, key, v);
}

/* A dict whose values are all ids, or whose keys are. */
static int is_map(const struct reading *r, pickle_id dict)
{
    size_t n = 0, n_ids = 0, n_texts = 0;
    int64_t v;
    for (struct pickle_iter i = pickle_items(r->p, dict); pickle_next(&i); n++) {
        n_ids += pickle_int(r->p, i.value, &v) != 0;
        n_texts += pm_at(r, i.value)->kind == PICKLE_TEXT && pm_id(r, i.key, &v);
    }
    return n > 0 && (n_ids == n || n_texts == n);
}

/* As mg_take: a fact, or a dict of them. */
static int pickle_model_take(struct reading *r, const char *key, pickle_id id, int nesting)
{
    enum mg_size size;
    enum mg_kind kind = classify(r, key, id, &size);
    int status = take_scalar(r, key, id);
    if (status != 0)
        return status;
    if (kind == MG_VOCABULARY && (pm_at(r, id)->kind != PICKLE_DICT || is_map(r, id)))
        status = read_vocabulary(r, key, id);
    else if (dict_of(r, id) && (kind == MG_VOCABULARY || kind == MG_CONFIG))
        status = read_dict(r, dict_of(r, id), 0, nesting + 1);
    else
        return 0;
    return status < 0 ? status : 1;
}

static int read_key(struct reading *r, const char *key, pickle_id id, int strict, int nesting)
{
    enum mg_size size;
    enum mg_kind kind = mg_kind_of(key, &size);
    uint32_t layer;
    int is_matrix = strict && is_container(r, id) && mg_recognise(key, &layer) >= 0;
    int status = is_matrix ? 0 : pickle_model_take(r, key, id, nesting);
    if (status != 0)
        return status < 0 ? status : MGPT_OK;
    if (strict && is_container(r, id) && kind != MG_OPTIMIZER)
        return pm_add(r, key, id);
    if (dict_of(r, id) && kind != MG_OPTIMIZER && !names_matrices(r, dict_of(r, id)))
        return read_dict(r, dict_of(r, id), 0, nesting + 1);
    ckpt_note(r->m->c, "ignored: %.*s (%s)", CKPT_CLIP(key, strlen(key)),
              pickle_kind_name(r->p, id));
    return MGPT_OK;
}

static int read_dict(struct reading *r, pickle_id dict, int strict, int nesting)
{
    char key[PM_MAX_PATH];
    if (nesting > PM_MAX_NESTING)
        return err_set(r->m->err, MGPT_EFILE, MGPT_NO_OFFSET, "pickle: nested too deeply");
    for (struct pickle_iter i = pickle_items(r->p, dict); pickle_next(&i);) {
        if (!pm_key(r, i.key, key))
            snprintf(key, sizeof key, "(a key that is no name)");
        int status = read_key(r, key, i.value, strict, nesting);
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

/* The member that has the token embedding in it, or one that is called weights; 0: the dict is the model
 * itself. */
static pickle_id pickle_model_find_weights(const struct reading *r, pickle_id dict)
{
    char key[PM_MAX_PATH];
    enum mg_size size;
    if (names_matrices(r, dict))
        return 0;
    for (struct pickle_iter i = pickle_items(r->p, dict); pickle_next(&i);)
        if (names_matrices(r, dict_of(r, i.value)))
            return i.value;
    for (struct pickle_iter i = pickle_items(r->p, dict); pickle_next(&i);)
        if (pm_key(r, i.key, key) && classify(r, key, i.value, &size) == MG_WEIGHTS)
            return i.value;
    return 0;
}

/* The keys around the weights first: a parameter list needs what they say. */
static int read_root(struct reading *r, pickle_id dict)
{
    char key[PM_MAX_PATH];
    pickle_id weights = pickle_model_find_weights(r, dict);
    if (!weights)
        return read_dict(r, dict, 1, 0);
    for (struct pickle_iter i = pickle_items(r->p, dict); pickle_next(&i);) {
        int named = pm_key(r, i.key, key), status = MGPT_OK;
        if (named && i.value != weights)
            status = read_key(r, key, i.value, 0, 0);
        if (status < 0)
            return status;
    }
    return pm_is_list(r, weights) ? read_params(r, weights)
                                  : read_dict(r, dict_of(r, weights), 1, 0);
}

/* (state_dict, uchars, ...): what a member is shows in its kind. */
static int read_members(struct reading *r, pickle_id list)
{
    for (struct pickle_iter i = pickle_items(r->p, list); pickle_next(&i);) {
        int status = MGPT_OK;
        if (dict_of(r, i.value))
            status = read_root(r, dict_of(r, i.value));
        else if (pm_at(r, i.value)->kind == PICKLE_TEXT ||
                 pm_at(r, pm_first(r, i.value))->kind == PICKLE_TEXT)
            status = read_vocabulary(r, "vocabulary", i.value);
        else
            ckpt_note(r->m->c, "ignored: %s beside the weights", pickle_kind_name(r->p, i.value));
        if (status < 0)
            return status;
    }
    return MGPT_OK;
}

static int read_layout(struct reading *r, pickle_id root)
{
    if (dict_of(r, root) && !(pm_is_list(r, root) && pm_at(r, root)->n > 1))
        return read_root(r, dict_of(r, root));
    for (struct pickle_iter i = pickle_items(r->p, root); pm_is_list(r, root) && pickle_next(&i);)
        if (dict_of(r, i.value) && !pm_is_cell(r, i.value))
            return read_members(r, root);
    if (pm_is_list(r, root) && pm_at(r, root)->n)
        return read_params(r, root);
    return err_set(r->m->err, MGPT_EFILE, MGPT_NO_OFFSET, "a pickle of %s: not a microgpt",
                   pickle_kind_name(r->p, root));
}

int microgpt_pickle(struct checkpoint *c, const struct pickle *p, pickle_id root, size_t n_bytes,
                    const struct ckpt_input *in, mgpt_error *err)
{
    mgpt_error local; /* so that there always is one */
    struct mg_parts m;
    struct reading r = {&m, p, n_bytes};
    mg_parts_init(&m, c, in, &local);
    int status = mg_parts_build(&m, read_layout(&r, root));
    if (status < 0 && err)
        *err = local;
    return status;
}

int mg_add_pickled(struct mg_parts *m, const char *key, const struct pickle *p, pickle_id id,
                   size_t n_bytes)
{
    struct reading r = {m, p, n_bytes};
    enum mg_size size;
    enum mg_kind kind = classify(&r, key, id, &size);
    if (kind == MG_WEIGHTS || (kind == MG_OTHER && is_container(&r, id)))
        return read_layout(&r, id);
    return read_key(&r, key, id, 0, 0);
}

/* As read_dict, but what states nothing is passed over: an optimizer has millions of members. */
static int read_facts(struct reading *r, pickle_id dict, pickle_id weights, int nesting)
{
    char key[PM_MAX_PATH];
    enum mg_size size;
    int status = MGPT_OK;
    for (struct pickle_iter i = pickle_items(r->p, dict); status >= 0 && pickle_next(&i);) {
        pickle_id inner = dict_of(r, i.value);
        if (i.value == weights || !pm_key(r, i.key, key) || mg_kind_of(key, &size) == MG_OPTIMIZER)
            continue;
        status = mg_kind_of(key, &size) == MG_OTHER || mg_kind_of(key, &size) == MG_CONFIG
                     ? 0
                     : pickle_model_take(r, key, i.value, nesting);
        if (status == 0 && inner && nesting < PM_MAX_NESTING)
            status = read_facts(r, inner, weights, nesting + 1);
    }
    return status < 0 ? status : MGPT_OK;
}

int mg_add_facts(struct mg_parts *m, const struct pickle *p, pickle_id dict, pickle_id weights,
                 size_t n_bytes)
{
    struct reading r = {m, p, n_bytes};
    return read_facts(&r, dict_of(&r, dict), weights, 0);
}

/* ---- bare pickles ------------------------------------------------------------------------------ */

/* Lists are ours. A dict is when it has a matrix called wte and not nanoGPT's fused projections, which
 * the reader of PyTorch's files knows. */
static int looks_like(const struct reading *r, pickle_id root)
{
    char key[PM_MAX_PATH];
    pickle_id dict = dict_of(r, root), weights = pickle_model_find_weights(r, dict);
    if (weights)
        dict = pm_is_list(r, weights) ? 0 : dict_of(r, weights);
    for (struct pickle_iter i = pickle_items(r->p, dict); pickle_next(&i);)
        if (pm_key(r, i.key, key) && strstr(key, "c_attn"))
            return 0;
    return names_matrices(r, dict) || pm_is_list(r, root) || !dict;
}

enum ckpt_match microgpt_pickle_sniff(struct span bytes)
{
    return pickle_sniff(bytes) && !torch_legacy_sniff(bytes) ? MATCH_YES : MATCH_NO;
}

int microgpt_pickle_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct pickle p;
    int status = pickle_read(&p, in->bytes, err);
    if (status < 0)
        return status;
    struct reading r = {NULL, &p, in->bytes.size};
    int ours = looks_like(&r, p.root);
    if (ours) {
        c->format = "microgpt pickle";
        if (p.size < in->bytes.size)
            ckpt_note(c, "ignored: %zu bytes behind the first pickle", in->bytes.size - p.size);
        status = microgpt_pickle(c, &p, p.root, in->bytes.size, in, err);
    }
    pickle_free(&p);
    return ours ? status : torch_reader_read(c, in, err);
}
