/* Reading a session file (repl_save.c says what is in it). The file is hostile: every number is
 * checked against the model before it is used. All of it is built while the present session stays,
 * the current timeline is run, and only then does it take the present session's place; other
 * timelines are run when they are used. What is refused changes nothing.
 */
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "common/jval.h"
#include "engine/layers.h"
#include "repl/repl_args.h"
#include "repl/repl_session.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t MAX_BYTES = (size_t)64 << 20;

struct load {
    struct repl *repl;
    const struct jval *tree;
    struct sampling sampling;
    struct edits edits;
    struct steer steer;
    char *steer_text;             /* malloc'ed; NULL: no steering */
    struct repl_branch *branches; /* stb_ds array; without sessions */
    size_t current;
};

#define bad(err, ...) err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, __VA_ARGS__)

/* ---- values ---- */

static int read_integer(const struct jval *object, const char *key, int32_t min, int32_t max,
                        int64_t *to, mgpt_error *err)
{
    char number[24]; /* err_set prints 32 bits */
    const struct jval *value = jval_get(object, key);
    if (!jval_is(value, JVAL_INTEGER))
        return bad(err, "no whole number called %s", key);
    *to = jval_whole(value);
    if (*to >= min && *to <= max)
        return MGPT_OK;
    snprintf(number, sizeof number, "%" PRId64, *to);
    return bad(err, "%s is %s, expected %d to %d", key, number, (int)min, (int)max);
}

/* A number that is a float again: finite, and within [min, max]. */
static int read_real(const struct jval *value, const char *what, double min, double max, double *to,
                     mgpt_error *err)
{
    if (!jval_is_numeric(value))
        return bad(err, "no number called %s", what);
    *to = jval_number(value);
    return *to >= min && *to <= max ? MGPT_OK : bad(err, "%s is out of range", what);
}

/* 64 bits in a string. */
static int read_u64(const struct jval *object, const char *key, int base, uint64_t *to,
                    mgpt_error *err)
{
    const char *text = jval_text(jval_get(object, key));
    size_t n = text ? strlen(text) : 0;
    const char *digits = base == 16 ? "0123456789abcdef" : "0123456789";
    if (n == 0 || n > 20 || (base == 16 && n != 16) || strspn(text, digits) != n)
        return bad(err, "no number in quotes called %s", key);
    errno = 0;
    *to = strtoull(text, NULL, base);
    return errno == 0 ? MGPT_OK : bad(err, "%s is above 64 bits", key);
}

/* ---- head of the file ---- */

static int other_model(uint64_t theirs, uint64_t ours, mgpt_error *err)
{
    char hashes[2][17];
    snprintf(hashes[0], sizeof hashes[0], "%016" PRIx64, theirs);
    snprintf(hashes[1], sizeof hashes[1], "%016" PRIx64, ours);
    return bad(err, "made with the model of hash %s, this one has %s", hashes[0], hashes[1]);
}

static int check_same_model(struct load *l, mgpt_error *err)
{
    const struct jval *model = jval_get(l->tree, "model");
    const char *kv = jval_text(jval_get(l->tree, "kv"));
    uint64_t theirs = 0, ours;
    if (read_u64(model, "xxh64", 16, &theirs, err) < 0 || repl_model_hash(l->repl, &ours, err) < 0)
        return err->status;
    if (theirs != ours)
        return other_model(theirs, ours, err);
    if (!kv || engine_find_kv(kv) < 0)
        return bad(err, "kv is none of f32, f16, q8_0");
    if (strcmp(kv, engine_kv_type(&l->repl->engine)) != 0)
        return bad(err, "keys and values were in %s, here they are in %s: start with --kv %s", kv,
                   engine_kv_type(&l->repl->engine), kv);
    return MGPT_OK;
}

static int check_format(struct load *l, mgpt_error *err)
{
    const char *format = jval_text(jval_get(l->tree, "format"));
    int64_t version;
    if (!format || strcmp(format, REPL_SESSION_FORMAT) != 0)
        return bad(err, "is not a session file: format is not '%s'", REPL_SESSION_FORMAT);
    return read_integer(l->tree, "version", REPL_SESSION_VERSION, REPL_SESSION_STEERED, &version,
                        err);
}

/* ---- sampling ---- */

static int read_python(const struct jval *python, struct sampling *s, mgpt_error *err)
{
    enum { N = sizeof s->python.state / sizeof *s->python.state };
    const struct jval *state = jval_get(python, "state");
    int64_t next = 0;
    if (read_u64(python, "skip", 10, &s->skip, err) < 0 ||
        read_integer(python, "next", 0, N, &next, err) < 0)
        return err->status;
    if (s->skip > (uint64_t)SAMPLING_MAX_SKIP)
        return bad(err, "skip is above %d", (int)SAMPLING_MAX_SKIP);
    if (jval_size(state) != N)
        return bad(err, "state has %zu numbers, expected %d", jval_size(state), (int)N);
    for (size_t i = 0; i < N; i++) {
        const struct jval *word = jval_at(state, i);
        int64_t value = jval_whole(word);
        if (!jval_is(word, JVAL_INTEGER) || value < 0 || value > UINT32_MAX)
            return bad(err, "state, number %zu is not one of 32 bits", i);
        s->python.state[i] = (uint32_t)value;
    }
    s->python.next = (unsigned)next;
    return MGPT_OK;
}

static int read_setting(const struct jval *part, const struct repl_setting *setting,
                        struct sampling *s, mgpt_error *err)
{
    void *to = repl_setting_of(setting, s);
    int64_t whole = 0;
    if (setting->kind == CLI_REAL)
        return read_real(jval_get(part, setting->key), setting->key, 0, setting->max, to, err);
    if (setting->kind == CLI_U64)
        return read_u64(part, setting->key, 10, to, err);
    int status = read_integer(part, setting->key, 0, INT32_MAX, &whole, err);
    *(int32_t *)to = (int32_t)whole;
    return status;
}

static int read_logit_edits(const struct jval *part, struct sampling *s, mgpt_error *err)
{
    mgpt_error refused;
    for (struct jval_iter i = jval_begin(jval_get(part, "edits")); jval_next(&i);) {
        enum edit_id id = edit_setting_named(i.key);
        if (id == EDIT_N)
            return bad(err, "edits has an unknown setting '%.40s'", i.key);
        for (size_t k = 0; k < jval_size(i.value); k++) {
            const char *text = jval_text(jval_at(i.value, k));
            if (!text)
                return bad(err, "%s is not a list of strings", edit_settings[id].name);
            int status = edit_rules_set(&s->rules, id, text, &refused);
            if (status == MGPT_EARG)
                return bad(err, "%s: %.120s", edit_settings[id].name, refused.text);
            if (status < 0)
                return err_memory(err, "the edits", 1);
        }
    }
    return chooser_open(&s->chooser, &s->rules, err);
}

static int read_sampling(struct load *l, mgpt_error *err)
{
    const struct jval *part = jval_get(l->tree, "sampling");
    const struct jval *python = jval_get(part, "python");
    struct sampling *s = &l->sampling;
    for (const struct repl_setting *t = repl_settings; t < repl_settings + REPL_SETTINGS; t++)
        if (read_setting(part, t, s, err) < 0)
            return err->status;
    if (read_u64(part, "rng", 10, &s->sampler.rng, err) < 0)
        return err->status;
    if (read_logit_edits(part, s, err) < 0)
        return err->status;
    sampling_apply(s);
    sampling_use_python(s, python != NULL);
    return python ? read_python(python, s, err) : MGPT_OK;
}

/* ---- edits ---- */

/* The n floats of a list; `name` in messages. */
static int read_floats(const struct jval *list, const char *name, size_t n, float *to,
                       mgpt_error *err)
{
    if (jval_size(list) != n)
        return bad(err, "%s has %zu numbers, expected %zu", name, jval_size(list), n);
    for (size_t i = 0; i < n; i++) {
        double value = 0;
        if (read_real(jval_at(list, i), name, -FLT_MAX, FLT_MAX, &value, err) < 0)
            return err->status;
        to[i] = (float)value;
    }
    return MGPT_OK;
}

static int read_mean(struct load *l, const struct jval *part, struct edit *e, mgpt_error *err)
{
    size_t n = edit_width(&l->edits, e);
    e->mean = mem_new(n, sizeof *e->mean);
    if (!e->mean)
        return err_memory(err, "a mean", n * sizeof *e->mean);
    return read_floats(jval_get(part, "mean"), "mean", n, e->mean, err);
}

static int read_steer(struct load *l, mgpt_error *err)
{
    const struct jval *part = jval_get(l->tree, "steer"), *layers = jval_get(part, "layers");
    const char *text = jval_text(jval_get(part, "text"));
    struct steer *s = &l->steer;
    *s = (struct steer){.n_layer = l->repl->engine.steer.n_layer,
                        .n_embd = l->repl->engine.steer.n_embd};
    if (!part)
        return MGPT_OK;
    if (!text || !jval_is(layers, JVAL_ARRAY))
        return bad(err, "steer: expected text and layers");
    l->steer_text = strdup(text);
    s->rows = mem_new(s->n_layer, s->n_embd * sizeof *s->rows);
    s->has = mem_new(s->n_layer, 1);
    if (!l->steer_text || !s->rows || !s->has)
        return err_memory(err, "steering vectors", s->n_layer * s->n_embd * sizeof *s->rows);
    for (size_t i = 0; i < jval_size(layers); i++) {
        const struct jval *row = jval_at(layers, i);
        int64_t layer = 0;
        if (read_integer(row, "layer", 0, (int32_t)s->n_layer - 1, &layer, err) < 0 ||
            read_floats(jval_get(row, "row"), "row", s->n_embd, s->rows + (size_t)layer * s->n_embd,
                        err) < 0)
            return err->status;
        s->has[layer] = 1;
    }
    return MGPT_OK;
}

/* Kind and place; the mean is read when there is one. */
static int read_edit(struct load *l, const struct jval *part, struct edit *e, mgpt_error *err)
{
    const mgpt_info *info = &l->repl->engine.info;
    const char *kind = jval_text(jval_get(part, "kind"));
    int64_t layer = 0, head = -1;
    double factor = 1;
    if (read_integer(part, "layer", 0, info->n_layer - 1, &layer, err) < 0)
        return err->status;
    int32_t heads = engine_heads(l->repl->engine.model, (int32_t)layer);
    if (jval_get(part, "head") && read_integer(part, "head", 0, heads - 1, &head, err) < 0)
        return err->status;
    *e = (struct edit){.layer = (int32_t)layer, .head = (int32_t)head};
    if (kind && strcmp(kind, "zero") == 0)
        return MGPT_OK;
    if (kind && strcmp(kind, "mean") == 0) {
        e->kind = EDIT_MEAN;
        return read_mean(l, part, e, err);
    }
    if (!kind || strcmp(kind, "scale") != 0)
        return bad(err, "kind is not one of zero, mean, scale");
    if (read_real(jval_get(part, "factor"), "factor", -1e30, 1e30, &factor, err) < 0)
        return err->status;
    e->kind = EDIT_SCALE;
    e->factor = (float)factor;
    return MGPT_OK;
}

static int read_edits(struct load *l, mgpt_error *err)
{
    const struct jval *list = jval_get(l->tree, "edits");
    if (!jval_is(list, JVAL_ARRAY))
        return bad(err, "no list called edits");
    for (size_t i = 0; i < jval_size(list); i++) {
        struct edit e = {.mean = NULL};
        int status = read_edit(l, jval_at(list, i), &e, err);
        if (status == MGPT_OK && !edits_set(&l->edits, e))
            status = err_memory(err, "edits", (i + 1) * sizeof e);
        if (status == MGPT_OK && arr_len(l->edits.list) != i + 1) {
            bad(err, "edit %zu is of the same part as one before it", i);
            return err->status; /* it has taken that one's place: the mean is the list's */
        }
        if (status < 0) {
            free(e.mean);
            return status;
        }
    }
    return MGPT_OK;
}

/* ---- branches ---- */

static int repl_load_read_tokens(struct load *l, const struct jval *list, struct repl_branch *b,
                                 mgpt_error *err)
{
    size_t n = jval_size(list), n_ctx = mgpt_n_ctx(l->repl->engine.session);
    int32_t n_vocab = l->repl->engine.info.n_vocab;
    if (!jval_is(list, JVAL_ARRAY))
        return bad(err, "timeline %s: no list called tokens", b->name);
    if (n > n_ctx)
        return bad(err, "timeline %s: %zu tokens, but the context holds %zu", b->name, n, n_ctx);
    if (!arr_reserve(b->ahead, n))
        return err_memory(err, "tokens", n * sizeof *b->ahead);
    for (size_t i = 0; i < n; i++) {
        const struct jval *value = jval_at(list, i);
        int64_t token = jval_whole(value);
        if (!jval_is(value, JVAL_INTEGER) || token < 0 || token >= n_vocab)
            return bad(err, "timeline %s, token %zu: expected one of 0 to %d", b->name, i,
                       (int)n_vocab - 1);
        arr_put(b->ahead, (int32_t)token);
    }
    return MGPT_OK;
}

static int read_branch(struct load *l, const struct jval *part, size_t i, mgpt_error *err)
{
    const char *name = jval_text(jval_get(part, "name"));
    int64_t position = 0;
    if (!name || !repl_is_name(name))
        return bad(err, "timeline %zu: the name is not 1 to %d letters, digits, or _ . -", i,
                   REPL_NAME - 1);
    if (repl_find_branch(l->branches, name) < i)
        return bad(err, "two timelines are called %s", name);
    if (!arr_push(l->branches, (struct repl_branch){.resume = 0}))
        return err_memory(err, "timelines", (i + 1) * sizeof *l->branches);
    struct repl_branch *b = &l->branches[i];
    memcpy(b->name, name, strlen(name) + 1);
    if (repl_load_read_tokens(l, jval_get(part, "tokens"), b, err) < 0 ||
        read_integer(part, "position", 0, (int32_t)arr_len(b->ahead), &position, err) < 0)
        return err->status;
    b->resume = (size_t)position;
    return MGPT_OK;
}

static int read_branches(struct load *l, mgpt_error *err)
{
    const struct jval *list = jval_get(l->tree, "branches");
    const char *current = jval_text(jval_get(l->tree, "current"));
    size_t n = jval_size(list);
    if (n == 0 || n > REPL_BRANCHES)
        return bad(err, "%zu timelines, expected 1 to %d", n, REPL_BRANCHES);
    for (size_t i = 0; i < n; i++)
        if (read_branch(l, jval_at(list, i), i, err) < 0)
            return err->status;
    l->current = current ? repl_find_branch(l->branches, current) : n;
    return l->current < n ? MGPT_OK : bad(err, "current is the name of no timeline");
}

/* ---- all of it ---- */

static int read_tree(struct load *l, const char *path, mgpt_error *err)
{
    struct file file;
    struct jval_error failed;
    if (file_open(&file, path, err) < 0)
        return err->status;
    if (file.size <= MAX_BYTES)
        l->tree = jval_read(file.data, file.size, 0, NULL, &failed);
    size_t n = file.size;
    file_close(&file);
    if (n > MAX_BYTES)
        return bad(err, "is larger than a session file can be, %zu MiB", MAX_BYTES >> 20);
    if (l->tree)
        return MGPT_OK;
    if (jval_no_memory(&failed, n, err))
        return MGPT_EMEM;
    return err_set(err, MGPT_EFILE, failed.offset, "bad JSON: %.120s", failed.text);
}

static int repl_load_read_all(struct load *l, const char *path, mgpt_error *err)
{
    if (read_tree(l, path, err) < 0 || check_format(l, err) < 0 || check_same_model(l, err) < 0 ||
        read_sampling(l, err) < 0 || read_edits(l, err) < 0 || read_steer(l, err) < 0)
        return err->status;
    return read_branches(l, err);
}

static void repl_load_release(struct load *l)
{
    jval_free(l->tree);
    edits_clear(&l->edits);
    steer_free(&l->steer);
    free(l->steer_text);
    sampling_end(&l->sampling);
    repl_free_branches(l->branches, NULL);
}

/* What l holds and what the repl holds change places. */
static void exchange(struct load *l)
{
    struct repl *r = l->repl;
    struct load old = {.sampling = r->sampling,
                       .edits = r->edits,
                       .branches = r->branches,
                       .current = r->current,
                       .steer = r->engine.steer,
                       .steer_text = r->steer_text};
    r->engine.steer = l->steer;
    r->steer_text = l->steer_text;
    l->steer = old.steer;
    l->steer_text = old.steer_text;
    r->edits = l->edits;
    r->branches = l->branches;
    r->current = l->current;
    r->sampling = l->sampling;
    sampling_moved(&r->sampling);
    l->edits = old.edits;
    l->branches = old.branches;
    l->current = old.current;
    l->sampling = old.sampling;
}

void repl_run_load(struct repl *r, struct repl_args *args)
{
    const char *path = args->rest;
    struct load l = {.repl = r, .sampling = r->sampling};
    mgpt_error err;
    l.sampling.chooser = (struct chooser){.is_on = 0};
    edit_rules_begin(&l.sampling.rules, r->engine.model);
    if (!*path) {
        repl_error("from which file? /load FILE");
        return;
    }
    l.edits = (struct edits){.model = r->edits.model, .n_embd = r->edits.n_embd};
    if (repl_load_read_all(&l, path, &err) < 0) {
        repl_file_failed(path, &err);
        repl_load_release(&l);
        return;
    }
    exchange(&l);
    r->drawn_session = NULL;
    if (repl_open_branch(r, r->current)) {
        r->engine.session = r->branches[r->current].session;
        printf("on %s: ", r->branches[r->current].name);
        repl_print_place(r);
        if (r->steer_text)
            repl_say("steering: %s", r->steer_text);
    } else {
        exchange(&l);
    }
    repl_load_release(&l);
}
