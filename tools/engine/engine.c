/* Opening, feeding, encoding with messages. See engine.h. */
#include "engine/engine.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/files.h"
#include "common/interrupt.h"
#include "common/nfc.h"
#include "convert/core/in_memory.h"
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

enum { UTF8_MOST = 4 };

int engine_choose(struct engine *e, const struct cli_command *command, const char **operands,
                  int n_operands, const char **others, int n_others)
{
    int used = 0;
    if (!e->path && n_operands > 0)
        e->path = operands[used++];
    if (!e->path)
        return cli_usage(command, "which model? Give -m FILE or an operand: %s", command->operands);
    if (n_operands - used < n_others)
        return cli_usage(command, "expected %s", command->operands);
    if (n_operands - used > n_others)
        return cli_usage(command, "unexpected argument '%s'", operands[used + n_others]);
    for (int i = 0; i < n_others; i++)
        others[i] = operands[used + i];
    return EXIT_OK;
}

static mgpt_model *engine_open_model(const struct engine *e, const mgpt_model_params *params,
                                     mgpt_error *err)
{
    if (e->converted)
        return mgpt_open_bytes(e->converted, e->n_converted, params, err);
    return files_note(e->path, err) < 0 ? NULL : mgpt_open(e->path, params, err);
}

mgpt_model *engine_reopen(const struct engine *e, const char *isa, mgpt_error *err)
{
    mgpt_model_params params = {.isa = isa};
    return engine_open_model(e, &params, err);
}

int engine_open(struct engine *e)
{
    mgpt_model_params params = {
        .isa = e->isa, .vocab_only = e->vocab_only, .no_fused = e->no_fused, .top_k = e->top_k};
    mgpt_error err;
    int code = EXIT_OK, applies = in_memory_applies(e->path, &err);
    if (applies < 0)
        return cli_fail(e->path, &err);
    if (applies)
        code = in_memory_convert(e->path, e->vocab_only, &e->converted, &e->n_converted);
    if (code != EXIT_OK)
        return code;
    e->model = engine_open_model(e, &params, &err);
    if (!e->model || mgpt_get_info(e->model, &e->info, &err) < 0)
        return cli_fail(err.status == MGPT_EARG ? "--isa" : e->path, &err);
    e->steer.n_layer = (size_t)e->info.n_layer;
    e->steer.n_embd = (size_t)e->info.n_embd;
    return e->steer_spec ? steer_read(&e->steer, e->steer_spec) : EXIT_OK;
}

int engine_same_tokens(const struct engine *a, const struct engine *b)
{
    if (a->info.n_vocab != b->info.n_vocab) {
        cli_note("%s: %d logits a row, %s has %d", b->path, (int)b->info.n_vocab, a->path,
                 (int)a->info.n_vocab);
        return EXIT_REFUSED;
    }
    for (int32_t id = 0; id < a->info.n_tokens || id < b->info.n_tokens; id++) {
        size_t n_a, n_b;
        const char *text_a = mgpt_token_text(a->model, id, &n_a);
        const char *text_b = mgpt_token_text(b->model, id, &n_b);
        if (n_a != n_b || (n_a && memcmp(text_a, text_b, n_a) != 0)) {
            cli_note("%s: token %d has another text than in %s", b->path, (int)id, a->path);
            return EXIT_REFUSED;
        }
    }
    return EXIT_OK;
}

int engine_parse(struct engine *e, const struct cli_command *command, int argc, char **argv,
                 int *code)
{
    const char *operands[1];
    int n = cli_parse(command, argc, argv, operands);
    *code = n < 0 ? cli_parse_exit(n) : engine_choose(e, command, operands, n, NULL, 0);
    return n >= 0 && *code == EXIT_OK;
}

int engine_start(struct engine *e, struct sampling *sampling, const struct cli_command *command,
                 int argc, char **argv, int *code)
{
    e->needs_finite = 1;
    if (!engine_parse(e, command, argc, argv, code))
        return 0;
    *code = sampling_begin(sampling, command);
    if (e->only_draws)
        e->top_k = sampling->sampler.temperature > 0 ? sampling->sampler.top_k : 1;
    if (*code == EXIT_OK)
        *code = engine_open(e);
    return *code == EXIT_OK;
}

static const char *const kv_names[] = {NULL, "f32", "f16", "q8_0"}; /* by kv_type */

/* What --kv says as a kv_type, -1 for something else. */
static int32_t kv_type(const char *name)
{
    int32_t type = name ? (int32_t)(sizeof kv_names / sizeof *kv_names) - 1 : 0;
    while (type > 0 && strcmp(name, kv_names[type]) != 0)
        type--;
    return type == 0 && name ? -1 : type;
}

static uint64_t kv_numbers(const mgpt_info *i)
{
    return 2 * (uint64_t)i->n_layer * (uint64_t)i->n_head_kv * (uint64_t)i->head_dim;
}

/* kv_bytes tells the default's width; a model without layers keeps nothing. */
const char *engine_kv_type(const struct engine *e)
{
    if (e->kv)
        return e->kv;
    return e->info.kv_bytes < kv_numbers(&e->info) * sizeof(float) ? "f16" : "f32";
}

uint64_t engine_kv_bytes(const struct engine *e)
{
    const mgpt_info *i = &e->info;
    enum kv_type type = (enum kv_type)(kv_type(engine_kv_type(e)) - MGPT_KV_F32);
    return 2 * (uint64_t)i->n_layer * (uint64_t)i->n_head_kv *
           kernels_kv_bytes(type, (size_t)i->head_dim) / PANEL;
}

int engine_read_kv(const struct engine *e, int32_t *type)
{
    *type = kv_type(e->kv);
    if (*type < 0)
        cli_note("--kv: expected f32, f16 or q8_0, found '%s'", e->kv);
    return *type < 0 ? EXIT_USAGE : EXIT_OK;
}

int engine_new_session(struct engine *e, mgpt_session **session)
{
    mgpt_session_params params = {.n_ctx = e->n_ctx, .n_threads = e->n_threads};
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

int engine_session(struct engine *e)
{
    if (e->check_finite)
        e->always = finite_watcher(&e->finite, e->model);
    int code = engine_new_session(e, &e->session);
    if (code == EXIT_OK)
        watch_set(e->session, always(e), NULL);
    return code;
}

/* ---- passes ---- */

static int stop_if_interrupted(const mgpt_value *value, void *user)
{
    (void)value;
    (void)user;
    return interrupted();
}

enum { WATCHED = 32 }; /* a pass over fewer tokens ends too soon to be interrupted */

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

/* A tap that writes nothing changes no bit, and one question per layer and chunk costs nothing. */
static int run_watched(struct engine *e, pass_fn *pass, mgpt_session *session,
                       const int32_t *tokens, size_t n, struct watcher *own, mgpt_error *err)
{
    size_t before = mgpt_pos(session);
    const uint64_t often = MGPT_POINT_BIT(MGPT_EMBD) | MGPT_POINT_BIT(MGPT_RESID_PRE);
    struct watcher stop = {often, stop_if_interrupted, NULL, own}, steering, *last = own;
    while (last && last->next)
        last = last->next;
    int status = own || n >= WATCHED ? engine_watch(e, session, &stop, &steering, err)
                                     : watch_set(session, always(e), err);
    if (status == MGPT_OK)
        status = pass(session, tokens, n, err);
    watch_set(session, always(e), NULL);
    if (own)
        last->next = NULL;
    else if (status == MGPT_OK && n > 0)
        status = check_last(e, session, before, err);
    return finite_told(&e->finite, status, err);
}

int engine_feed(struct engine *e, mgpt_session *session, const int32_t *tokens, size_t n,
                struct watcher *own, mgpt_error *err)
{
    return run_watched(e, mgpt_feed, session, tokens, n, own, err);
}

int engine_sync(struct engine *e, mgpt_session *session, const int32_t *tokens, size_t n)
{
    mgpt_error err;
    int status = run_watched(e, mgpt_sync, session, tokens, n, NULL, &err);
    return status == MGPT_OK ? EXIT_OK : cli_fail(NULL, &err);
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
    const float *logits = mgpt_step(e->session, token, err);
    if (!logits)
        finite_told(&e->finite, e->finite.found ? MGPT_ESTOP : MGPT_OK, err);
    else if (check_step(e, e->session, logits, err) < 0)
        return NULL;
    return logits;
}

int engine_step_many(struct engine *e, mgpt_session *const *sessions, const int32_t *tokens,
                     size_t n, mgpt_error *err)
{
    int status = mgpt_step_many(sessions, tokens, n, err);
    for (size_t i = 0; status == MGPT_OK && i < n; i++)
        status = check_step(e, sessions[i], mgpt_logits(sessions[i]), err);
    return finite_told(&e->finite, status, err);
}

int engine_feed_many(struct engine *e, const mgpt_run *runs, size_t n, mgpt_error *err)
{
    return finite_told(&e->finite, mgpt_feed_many(runs, n, err), err);
}

mgpt_session *engine_fork(struct engine *e, const mgpt_session *session, mgpt_error *err)
{
    mgpt_session *copy = mgpt_fork(session, err);
    if (copy)
        watch_set(copy, always(e), NULL);
    return copy;
}

/* ---- text ---- */

/* Room for n tokens; the old array is freed. */
static int32_t *token_room(int32_t *old, size_t n)
{
    size_t bytes;
    free(old);
    return ck_bytes(n, sizeof *old, &bytes) ? malloc(bytes) : NULL;
}

/* tokens[1 .. n] are a text: puts bos in front, unless the text has it already. */
static void put_bos(int32_t *tokens, size_t *n, int32_t bos)
{
    if (bos < 0)
        return;
    tokens[0] = bos;
    if (*n > 0 && tokens[1] == bos)
        memmove(tokens, tokens + 1, *n * sizeof *tokens);
    else
        ++*n;
}

static int encode_prompt(const struct engine *e, const char *text, size_t n_bytes, unsigned flags,
                         int32_t bos, int32_t **tokens, size_t *n, mgpt_error *err)
{
    size_t front = bos >= 0, cap = n_bytes + 4; /* enough but for odd vocabularies */
    for (;;) {
        *tokens = token_room(*tokens, cap + front + 1);
        if (!*tokens)
            return err_memory(err, "the tokens", cap);
        int64_t count = mgpt_encode(e->model, text, n_bytes, flags, *tokens + front, cap, err);
        if (count < 0)
            return (int)count;
        *n = (size_t)count;
        if (*n <= cap) {
            put_bos(*tokens, n, bos);
            return MGPT_OK;
        }
        cap = *n;
    }
}

int engine_try_encode(const struct engine *e, const char *text, size_t n_bytes, unsigned flags,
                      int32_t bos, int32_t **tokens, size_t *n, mgpt_error *err)
{
    size_t n_normal = n_bytes;
    char *normal = e->info.nfc ? nfc_copy(text, n_bytes, &n_normal) : NULL;
    *tokens = NULL;
    *n = 0;
    if (e->info.nfc && !normal)
        return err_memory(err, "a copy of the text", n_bytes);
    int status = encode_prompt(e, normal ? normal : text, n_normal, flags, bos, tokens, n, err);
    free(normal);
    return status;
}

int engine_encode(const struct engine *e, const char *what, const char *text, size_t n_bytes,
                  unsigned flags, int32_t bos, int32_t **tokens, size_t *n)
{
    mgpt_error err;
    int status = engine_try_encode(e, text, n_bytes, flags, bos, tokens, n, &err);
    return status < 0 ? cli_fail(what, &err) : EXIT_OK;
}

int32_t engine_token_of(const struct engine *e, const char *bytes, size_t n)
{
    for (int32_t i = 0; i < e->info.n_tokens && n > 0; i++) {
        size_t length;
        const char *piece = mgpt_piece(e->model, i, &length);
        if (length == n && memcmp(piece, bytes, n) == 0)
            return i;
    }
    return -1;
}

int engine_fits(const struct engine *e, const char *what, size_t n)
{
    size_t n_ctx = mgpt_n_ctx(e->session);
    if (n <= n_ctx)
        return EXIT_OK;
    cli_note("%s: %zu tokens, but the context holds %zu", what, n, n_ctx);
    return EXIT_FULL;
}

/* The bytes of text that one token can take: its longest piece or name, or a character without a
 * piece. Composing (NFC) makes at most three of a character's bytes one. */
static size_t longest_piece(const struct engine *e)
{
    size_t longest = UTF8_MOST;
    for (int32_t id = 0; id < e->info.n_tokens; id++) {
        size_t n_piece, n_name;
        mgpt_piece(e->model, id, &n_piece);
        mgpt_token_text(e->model, id, &n_name);
        longest = n_piece > longest ? n_piece : longest;
        longest = n_name > longest ? n_name : longest;
    }
    return e->info.nfc ? 3 * longest : longest;
}

size_t engine_text_bytes(const struct engine *e)
{
    size_t n_ctx = (size_t)(e->n_ctx > 0 ? e->n_ctx : e->info.n_ctx), bytes;
    return ck_bytes(n_ctx + 1, longest_piece(e), &bytes) ? bytes : SIZE_MAX; /* and a line's end */
}

size_t engine_n_choices(const struct engine *e)
{
    int32_t n = e->info.n_tokens;
    return (size_t)(n > 0 && n < e->info.n_vocab ? n : e->info.n_vocab);
}

void engine_close(struct engine *e)
{
    mgpt_session_free(e->session);
    mgpt_close(e->model);
    steer_free(&e->steer);
    free(e->converted);
    e->session = NULL;
    e->model = NULL;
    e->converted = NULL;
}
