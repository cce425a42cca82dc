/* Sessions of an engine and the passes through them. See engine.h. */
#include "engine/engine.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

static const char *const kv_names[] = {NULL, "f32", "f16", "q8_0"}; /* by kv_type */
_Static_assert(sizeof kv_names / sizeof *kv_names == KV_N_TYPES + 1, "types of keys and values");

int32_t engine_find_kv(const char *name)
{
    int32_t type = name ? (int32_t)(sizeof kv_names / sizeof *kv_names) - 1 : 0;
    while (type > 0 && strcmp(name, kv_names[type]) != 0)
        type--;
    return type == 0 && name ? -1 : type;
}

/* Bytes of a position; a short convolution keeps floats for every KV type. */
static uint64_t kv_bytes_of(const struct engine *e, enum kv_type type)
{
    const mgpt_info *i = &e->info;
    mgpt_tensor latent; /* latent attention keeps its row twice, as key and as value */
    int has_latent =
        mgpt_find_role(e->model, MGPT_W_KV_DOWN, 0, MGPT_WEIGHT, &latent, NULL) == MGPT_OK;
    uint64_t total = 0;
    mgpt_layer layer;
    for (size_t l = 0; mgpt_get_layer(e->model, l, &layer, NULL) == MGPT_OK; l++) {
        uint64_t heads = has_latent ? 1 : (uint64_t)layer.n_head_kv,
                 width = has_latent ? latent.dims[1] : (uint64_t)layer.head_dim;
        if (layer.n_conv)
            total += (uint64_t)i->n_embd * sizeof(float);
        else if ((size_t)layer.kv_from == l)
            total += 2 * heads * kernels_kv_bytes(type, (size_t)width) / PANEL;
    }
    return total;
}

/* kv_bytes tells the default's width; a model without layers keeps nothing. */
const char *engine_kv_type(const struct engine *e)
{
    if (e->kv)
        return e->kv;
    return e->info.kv_bytes < kv_bytes_of(e, KV_F32) ? "f16" : "f32";
}

uint64_t engine_kv_bytes(const struct engine *e)
{
    return kv_bytes_of(e, (enum kv_type)(engine_find_kv(engine_kv_type(e)) - MGPT_KV_F32));
}

int engine_read_kv(const struct engine *e, int32_t *type)
{
    *type = engine_find_kv(e->kv);
    if (*type < 0)
        cli_note("--kv: expected f32, f16 or q8_0, found '%s'", e->kv);
    return *type < 0 ? EXIT_USAGE : EXIT_OK;
}

int engine_new_session(struct engine *e, int n_threads, mgpt_session **session)
{
    mgpt_session_params params = {.n_ctx = e->n_ctx, .n_threads = n_threads};
    mgpt_error err;
    if (engine_read_kv(e, &params.kv_type) != EXIT_OK)
        return EXIT_USAGE;
    *session = mgpt_session_new(e->model, &params, &err);
    return *session ? EXIT_OK : cli_fail(NULL, &err);
}

/* What watches each session at all times. */
static struct watcher *always(struct engine *e)
{
    struct watcher *last = e->check_finite ? &e->always : NULL;
    e->steering = (struct watcher){MGPT_POINT_BIT(MGPT_RESID_POST), steer_add, &e->steer, last};
    return e->steer.rows ? &e->steering : last;
}

void engine_adopt(struct engine *e, mgpt_session *session)
{
    if (e->check_finite)
        e->always = finite_watcher(&e->finite, e->model);
    e->session = session;
    watch_set(session, always(e), NULL);
}

int engine_session(struct engine *e)
{
    mgpt_session *session;
    int code = engine_new_session(e, e->n_threads, &session);
    if (code == EXIT_OK)
        engine_adopt(e, session);
    return code;
}

/* ---- passes ---- */

typedef int pass_fn(mgpt_session *session, const int32_t *tokens, size_t n, mgpt_error *err);

int engine_check(struct engine *e, const float *logits, size_t pos, mgpt_error *err)
{
    if (!e->needs_finite || e->check_finite) /* that finds it, and says more */
        return MGPT_OK;
    return finite_logits(&e->finite, logits, (size_t)e->info.n_vocab, pos, err);
}

/* Refused, the pass leaves the session at position `before`, or with fewer tokens. */
static int check_last(struct engine *e, mgpt_session *session, size_t before, mgpt_error *err)
{
    size_t pos = mgpt_pos(session);
    int status = engine_check(e, mgpt_logits(session), pos - 1, err);
    if (status < 0)
        mgpt_rewind(session, before < pos ? before : pos - 1, NULL);
    return status;
}

/* After one step: quick, for models whose step takes some hundred nanoseconds. */
static int check_step(struct engine *e, mgpt_session *session, const float *logits, mgpt_error *err)
{
    if (!e->needs_finite || finite_sum(logits, (size_t)e->info.n_vocab))
        return MGPT_OK;
    return check_last(e, session, mgpt_pos(session) - 1, err);
}

int engine_watches(const struct engine *e)
{
    return e->check_finite || e->steer.rows;
}

int engine_watch(struct engine *e, mgpt_session *session, struct watcher *own,
                 struct watcher *steering, mgpt_error *err)
{
    struct watcher *last = own;
    while (last->next && last->next != &e->always)
        last = last->next;
    last->next = e->check_finite ? &e->always : NULL;
    *steering = (struct watcher){MGPT_POINT_BIT(MGPT_RESID_POST), steer_add, &e->steer, own};
    return watch_set(session, e->steer.rows ? steering : own, err);
}

static int run_watched(struct engine *e, pass_fn *pass, mgpt_session *session,
                       const int32_t *tokens, size_t n, struct watcher *own, mgpt_error *err)
{
    size_t before = mgpt_pos(session);
    struct watcher steering, *last = own;
    while (last && last->next)
        last = last->next;
    int status =
        own ? engine_watch(e, session, own, &steering, err) : watch_set(session, always(e), err);
    if (status == MGPT_OK) {
        interrupt_stops(session);
        status = pass(session, tokens, n, err);
        interrupt_stops_end(session);
    }
    watch_set(session, always(e), NULL);
    if (own)
        last->next = NULL;
    else if (status == MGPT_OK && n > 0)
        status = check_last(e, session, before, err);
    return finite_told(&e->finite, status, err);
}

size_t engine_n_common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

int engine_feed(struct engine *e, mgpt_session *session, const int32_t *tokens, size_t n,
                struct watcher *own, mgpt_error *err)
{
    return run_watched(e, mgpt_feed, session, tokens, n, own, err);
}

int engine_hold(struct engine *e, mgpt_session *session, const int32_t *tokens, size_t n,
                mgpt_error *err)
{
    return run_watched(e, mgpt_sync, session, tokens, n, NULL, err);
}

int engine_sync(struct engine *e, mgpt_session *session, const int32_t *tokens, size_t n)
{
    mgpt_error err;
    int status = engine_hold(e, session, tokens, n, &err);
    return status == MGPT_OK ? EXIT_OK : cli_fail(status == MGPT_EFILE ? e->path : NULL, &err);
}

int engine_slide(struct engine *e, mgpt_session *session, int32_t token, mgpt_error *err)
{
    size_t n = mgpt_pos(session);
    int32_t *window = mem_new(n, sizeof *window);
    if (!window)
        return err_memory(err, "the window", n * sizeof *window);
    memcpy(window, mgpt_tokens(session) + 1, (n - 1) * sizeof *window);
    window[n - 1] = token;
    int status = run_watched(e, mgpt_sync, session, window, n, NULL, err);
    free(window);
    return status;
}

const float *engine_step(struct engine *e, int32_t token, mgpt_error *err)
{
    interrupt_stops(e->session);
    const float *logits = mgpt_step(e->session, token, err);
    interrupt_stops_end(e->session);
    if (!logits)
        finite_told(&e->finite, e->finite.found ? MGPT_ESTOP : MGPT_OK, err);
    else if (check_step(e, e->session, logits, err) < 0)
        return NULL;
    return logits;
}

int engine_step_many(struct engine *e, mgpt_session *const *sessions, const int32_t *tokens,
                     size_t n, mgpt_error *err)
{
    interrupt_stops(sessions[0]);
    int status = mgpt_step_many(sessions, tokens, n, err);
    interrupt_stops_end(sessions[0]);
    for (size_t i = 0; status == MGPT_OK && i < n; i++)
        status = check_step(e, sessions[i], mgpt_logits(sessions[i]), err);
    return finite_told(&e->finite, status, err);
}

int engine_feed_many(struct engine *e, const mgpt_run *runs, size_t n, mgpt_error *err)
{
    interrupt_stops(runs[0].session);
    int status = mgpt_feed_many(runs, n, err);
    interrupt_stops_end(runs[0].session);
    return finite_told(&e->finite, status, err);
}

mgpt_session *engine_fork(struct engine *e, const mgpt_session *session, mgpt_error *err)
{
    mgpt_session *copy = mgpt_fork(session, err);
    if (copy)
        watch_set(copy, always(e), NULL);
    return copy;
}
