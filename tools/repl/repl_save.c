/* Writing a session: what is needed to compute it again, not what was computed. The file is JSON:
 *
 *   {"format": "mgpt session", "version": 1,
 *    "model": {"xxh64": 16 hexadecimal digits over all bytes of the file, "bytes": its size},
 *    "kv": "f32" or "f16",
 *    "sampling": {"temp", "top_k", "top_p", "min_p": as in /set, "seed", "rng": decimal, as strings: 64 bits,
 *                 "python": {"skip": decimal, "next", "state": [624 numbers]} with --rng python},
 *    "edits": [{"layer", "head" (none: the MLP), "kind": "zero", "mean" or "scale",
 *               "mean": [numbers], "factor"}],
 *    "branches": [{"name", "position": tokens held, "tokens": [those, and those ahead]}],
 *    "current": name}
 *
 * Numbers have 17 digits, so that floats come back to the bit.
 */
#include "repl/repl_args.h"
#include "repl/repl_session.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/files.h"
#include "common/json_read.h"

#include <inttypes.h>
#include <stdio.h>

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

/* ---- the parts; NULL when out of memory ---- */

static json_t *hex64(uint64_t x)
{
    return json_sprintf("%016" PRIx64, x);
}

static json_t *decimal64(uint64_t x)
{
    return json_sprintf("%" PRIu64, x);
}

static json_t *list_of_floats(const float *values, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_real((double)values[i])) < 0)
            break;
    if (json_array_size(list) == n)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *python_part(const struct sampling *s)
{
    enum { N = sizeof s->python.state / sizeof *s->python.state };
    json_t *state = json_array();
    for (size_t i = 0; i < N; i++)
        json_array_append_new(state, json_integer(s->python.state[i]));
    if (json_array_size(state) != N) {
        json_decref(state);
        return NULL;
    }
    return json_pack("{so si so}", "skip", decimal64(s->skip), "next", (int)s->python.next, "state",
                     state);
}

static json_t *setting_part(const struct repl_setting *setting, struct sampling *s)
{
    const void *at = repl_setting_of(setting, s);
    if (setting->kind == CLI_REAL)
        return json_real(*(const double *)at);
    return setting->kind == CLI_U64 ? decimal64(*(const uint64_t *)at)
                                    : json_integer(*(const int32_t *)at);
}

static json_t *sampling_part(struct sampling *s)
{
    json_t *part = json_object();
    int failed = 0;
    for (const struct repl_setting *t = repl_settings; t < repl_settings + REPL_SETTINGS; t++)
        failed |= json_object_set_new(part, t->key, setting_part(t, s));
    failed |= json_object_set_new(part, "rng", decimal64(s->sampler.rng));
    if (sampling_is_shared(s))
        failed |= json_object_set_new(part, "python", python_part(s));
    if (!failed)
        return part;
    json_decref(part);
    return NULL;
}

static json_t *edit_part(const struct edits *edits, const struct edit *e)
{
    static const char *const kinds[] = {[EDIT_ZERO] = "zero", "mean", "scale"};
    json_t *part = json_pack("{si ss}", "layer", (int)e->layer, "kind", kinds[e->kind]);
    int status = part ? 0 : -1;
    if (status == 0 && e->head >= 0)
        status = json_object_set_new(part, "head", json_integer(e->head));
    if (status == 0 && e->kind == EDIT_MEAN)
        status = json_object_set_new(part, "mean", list_of_floats(e->mean, edit_width(edits, e)));
    if (status == 0 && e->kind == EDIT_SCALE)
        status = json_object_set_new(part, "factor", json_real((double)e->factor));
    if (status == 0)
        return part;
    json_decref(part);
    return NULL;
}

static json_t *branch_part(const struct repl_branch *b)
{
    const int32_t *held;
    size_t n_ahead, n = repl_branch_tokens(b, &held, &n_ahead);
    json_t *tokens = json_ids(held, n);
    json_t *ahead = json_ids(n_ahead ? b->ahead + arr_len(b->ahead) - n_ahead : NULL, n_ahead);
    int failed = json_array_extend(tokens, ahead);
    json_decref(ahead);
    if (failed) {
        json_decref(tokens);
        return NULL;
    }
    return json_pack("{ss sI so}", "name", b->name, "position", (json_int_t)n, "tokens", tokens);
}

static json_t *session_tree(struct repl *r, uint64_t hash)
{
    json_t *edits = json_array(), *branches = json_array();
    int status = 0;
    for (size_t i = 0; i < arr_len(r->edits.list) && status == 0; i++)
        status = json_array_append_new(edits, edit_part(&r->edits, &r->edits.list[i]));
    for (size_t i = 0; i < arr_len(r->branches) && status == 0; i++)
        status = json_array_append_new(branches, branch_part(&r->branches[i]));
    if (status < 0) {
        json_decref(edits);
        json_decref(branches);
        return NULL;
    }
    return json_pack("{ss si s{so sI} ss so so so ss}", "format", REPL_SESSION_FORMAT, "version",
                     REPL_SESSION_VERSION, "model", "xxh64", hex64(hash), "bytes",
                     (json_int_t)r->engine.info.file_bytes, "kv", engine_kv_type(&r->engine),
                     "sampling", sampling_part(&r->sampling), "edits", edits, "branches", branches,
                     "current", r->branches[r->current].name);
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
    json_watch();
    json_t *tree = session_tree(r, hash);
    int status = json_write(tree, path, FILES_SESSION, &err);
    json_decref(tree);
    if (status < 0)
        repl_file_failed(path, &err);
    else
        printf("saved %zu timelines\n", arr_len(r->branches));
}
