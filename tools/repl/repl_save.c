/* Writing a session: what is needed to compute it again, not what was computed. The file is JSON:
 *
 *   {"format": "mgpt session", "version": 1,
 *    "model": {"xxh64": 16 hexadecimal digits over all bytes of the file, "bytes": its size},
 *    "kv": "f32", "f16" or "q8_0",
 *    "sampling": {the settings of SAMPLER_SETTINGS, "seed", "rng": decimal, as strings: 64 bits,
 *                 "python": {"skip": decimal, "next", "state": [624 numbers]} with --rng python},
 *    "edits": [{"layer", "head" (none: the MLP), "kind": "zero", "mean" or "scale",
 *               "mean": [numbers], "factor"}],
 *    "branches": [{"name", "position": tokens held, "tokens": [those, and those ahead]}],
 *    "current": name,
 *    "steer": {"text": what it was made from, "layers": [{"layer", "row": [numbers]}]}: in version 2}
 *
 * Numbers have 17 digits, so that floats come back to the bit.
 */
#include "repl/repl_args.h"
#include "repl/repl_session.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/files.h"
#include "common/jtext.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int repl_model_hash(struct repl *r, uint64_t *hash, mgpt_error *err)
{
    uint64_t n;
    if (!r->model_hashed) {
        if (engine_hash(&r->engine, &r->model_hash, &n, err) < 0)
            return err->status;
        r->model_hashed = n == r->engine.info.file_bytes;
    }
    *hash = r->model_hash;
    if (r->model_hashed)
        return MGPT_OK;
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%s has changed since it was opened",
                   r->engine.path);
}

/* ---- the parts ---- */

static struct jtext *hex64(uint64_t x)
{
    char digits[20];
    snprintf(digits, sizeof digits, "%016" PRIx64, x);
    return jtext("s", digits);
}

static struct jtext *decimal64(uint64_t x)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, x);
    return jtext("s", digits);
}

static struct jtext *list_of_floats(const float *values, size_t n)
{
    struct jtext *list = jtext("[]");
    for (size_t i = 0; i < n; i++)
        jtext_add(list, "f", (double)values[i]);
    return list;
}

static struct jtext *python_part(const struct sampling *s)
{
    struct jtext *state = jtext("[]");
    for (size_t i = 0; i < sizeof s->python.state / sizeof *s->python.state; i++)
        jtext_add(state, "I", (int64_t)s->python.state[i]);
    return jtext("{s:o, s:i, s:o}", "skip", decimal64(s->skip), "next", (int)s->python.next,
                 "state", state);
}

static struct jtext *setting_part(const struct repl_setting *setting, struct sampling *s)
{
    const void *at = repl_setting_of(setting, s);
    if (setting->kind == CLI_REAL)
        return jtext("f", *(const double *)at);
    return setting->kind == CLI_U64 ? decimal64(*(const uint64_t *)at)
                                    : jtext("i", (int)*(const int32_t *)at);
}

/* Texts have any length: a pattern can be that of a JSON schema. */
static void add_edit(struct jtext *list, const struct edit_rules *rules, enum edit_id id, size_t i)
{
    int size = edit_rules_print(rules, id, i, NULL, 0) + 1;
    char *text = size > 0 ? mem_new((size_t)size, 1) : NULL;
    if (text && edit_rules_print(rules, id, i, text, (size_t)size) < size)
        jtext_add(list, "s", text);
    else
        jtext_fail(list);
    free(text);
}

/* {"ban": ["x", "y"], "dry": ["0.8"]}: what is on, as /set reads it. */
static struct jtext *edits_of_sampling(const struct edit_rules *rules)
{
    struct jtext *part = jtext("{}");
    for (int id = 0; id < EDIT_N; id++) {
        size_t n = edit_rules_count(rules, (enum edit_id)id);
        struct jtext *list = n > 0 ? jtext("[]") : NULL;
        for (size_t i = 0; i < n; i++)
            add_edit(list, rules, (enum edit_id)id, i);
        if (n > 0)
            jtext_add(part, "s:o", edit_settings[id].name, list);
    }
    return part;
}

static struct jtext *sampling_part(struct sampling *s)
{
    struct jtext *part = jtext("{}");
    for (const struct repl_setting *t = repl_settings; t < repl_settings + REPL_SETTINGS; t++)
        jtext_add(part, "s:o", t->key, setting_part(t, s));
    jtext_add(part, "s:o", "rng", decimal64(s->sampler.rng));
    if (edit_rules_any(&s->rules))
        jtext_add(part, "s:o", "edits", edits_of_sampling(&s->rules));
    if (sampling_is_shared(s))
        jtext_add(part, "s:o", "python", python_part(s));
    return part;
}

static struct jtext *edit_part(const struct edits *edits, const struct edit *e)
{
    static const char *const kinds[] = {[EDIT_ZERO] = "zero", "mean", "scale"};
    struct jtext *part = jtext("{s:i, s:s}", "layer", (int)e->layer, "kind", kinds[e->kind]);
    if (e->head >= 0)
        jtext_add(part, "s:i", "head", (int)e->head);
    if (e->kind == EDIT_MEAN)
        jtext_add(part, "s:o", "mean", list_of_floats(e->mean, edit_width(edits, e)));
    if (e->kind == EDIT_SCALE)
        jtext_add(part, "s:f", "factor", (double)e->factor);
    return part;
}

static struct jtext *branch_part(const struct repl_branch *b)
{
    const int32_t *held;
    size_t n_ahead, n = repl_branch_tokens(b, &held, &n_ahead);
    struct jtext *tokens = jtext_ids(held, n);
    for (size_t i = arr_len(b->ahead) - n_ahead; i < arr_len(b->ahead); i++)
        jtext_add(tokens, "i", (int)b->ahead[i]);
    return jtext("{s:s, s:I, s:o}", "name", b->name, "position", (int64_t)n, "tokens", tokens);
}

static struct jtext *steer_part(const struct repl *r)
{
    const struct steer *s = &r->engine.steer;
    struct jtext *layers = jtext("[]");
    for (size_t i = 0; i < s->n_layer; i++)
        if (s->has[i])
            jtext_add(layers, "{s:I, s:o}", "layer", (int64_t)i, "row",
                      list_of_floats(s->rows + i * s->n_embd, s->n_embd));
    return jtext("{s:s, s:o}", "text", r->steer_text ? r->steer_text : r->engine.steer_spec,
                 "layers", layers);
}

static struct jtext *session_object(struct repl *r, uint64_t hash)
{
    struct jtext *edits = jtext("[]"), *branches = jtext("[]");
    for (size_t i = 0; i < arr_len(r->edits.list); i++)
        jtext_add(edits, "o", edit_part(&r->edits, &r->edits.list[i]));
    for (size_t i = 0; i < arr_len(r->branches); i++)
        jtext_add(branches, "o", branch_part(&r->branches[i]));
    int steers = r->engine.steer.rows != NULL;
    struct jtext *session =
        jtext("{s:s, s:i, s:{s:o, s:I}, s:s, s:o, s:o, s:o, s:s}", "format", REPL_SESSION_FORMAT,
              "version", steers ? REPL_SESSION_STEERED : REPL_SESSION_VERSION, "model", "xxh64",
              hex64(hash), "bytes", (int64_t)r->engine.info.file_bytes, "kv",
              engine_kv_type(&r->engine), "sampling", sampling_part(&r->sampling), "edits", edits,
              "branches", branches, "current", r->branches[r->current].name);
    if (steers)
        jtext_add(session, "s:o", "steer", steer_part(r));
    return session;
}

/* ---- the file ---- */

void repl_run_save(struct repl *r, struct repl_args *args)
{
    const char *path = args->rest;
    uint64_t hash;
    mgpt_error err;
    if (!*path) {
        repl_error("to which file? /save FILE");
        return;
    }
    if (repl_model_hash(r, &hash, &err) < 0) {
        repl_failed(&err);
        return;
    }
    struct jtext *session = session_object(r, hash);
    int status = jtext_write(session, path, FILES_SESSION, &err);
    jtext_free(session);
    if (status < 0)
        repl_file_failed(path, &err);
    else
        printf("saved %zu timelines\n", arr_len(r->branches));
}
