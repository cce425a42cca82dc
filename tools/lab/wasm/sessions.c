/* Exports for programs in JavaScript. See sessions.h. */
#include "lab/wasm/sessions.h"

#include "base/mem.h"
#include "engine/hooks.h"
#include "engine/info_json.h"
#include "engine/sampling.h"
#include "lab/module_impl.h"

#include <stddef.h>

__attribute__((import_module("page"), import_name("tap"))) int page_tap(int point, int layer,
                                                                        int pos, int rows, int cols,
                                                                        size_t stride, float *data);

/* ---- the model ---- */

uint64_t lab_error_offset(void)
{
    return lab_last_error()->offset;
}

static const struct fact {
    char name[18];
    uint16_t at;
} facts[] = {
#define TEXT_FACT(name) {"t" #name, offsetof(mgpt_info, name)},
#define INT_FACT(name) {"i" #name, offsetof(mgpt_info, name)},
#define FLAG_FACT(name) {"f" #name, offsetof(mgpt_info, name)},
#define REAL_FACT(name) {"r" #name, offsetof(mgpt_info, name)},
#define COUNT_FACT(name) {"c" #name, offsetof(mgpt_info, name)},
    INFO_FIELDS(TEXT_FACT, TEXT_FACT, INT_FACT, FLAG_FACT, REAL_FACT, COUNT_FACT)};

const char *lab_fact(size_t i)
{
    return i < sizeof facts / sizeof *facts ? facts[i].name : NULL;
}

const void *lab_fact_at(size_t i)
{
    return (const char *)lab_info() + facts[i].at;
}

/* js/mgpt.js reads these. */
_Static_assert(offsetof(struct hook, layer) == 4 && offsetof(struct hook, name) == 8 &&
                   offsetof(struct hook, n_dims) == 72 && offsetof(struct hook, dims) == 80,
               "a hook in memory");

static struct hook *hooks; /* stb_ds array: of the model, which the module has until it ends */

const struct hook *lab_hook(size_t i)
{
    if (!hooks)
        hooks = hooks_list(lab_model(), lab_last_error());
    return hooks && i < arr_len(hooks) ? &hooks[i] : NULL;
}

/* ---- text ---- */

const char *lab_piece(int what, int token, size_t *n_bytes)
{
    return what ? mgpt_token_text(lab_model(), token, n_bytes)
                : mgpt_piece(lab_model(), token, n_bytes);
}

int lab_is_end(int token)
{
    return mgpt_is_end(lab_model(), token);
}

size_t lab_stream(mgpt_stream *stream, int token, char *to, size_t cap)
{
    return token < 0 ? mgpt_stream_end(stream, to, cap)
                     : mgpt_stream_put(stream, lab_model(), token, to, cap);
}

/* ---- sessions ---- */

mgpt_session *lab_session_new(int n_ctx, int kv_type)
{
    const mgpt_session_params params = {.n_ctx = n_ctx, .kv_type = kv_type};
    return mgpt_session_new(lab_model(), &params, lab_last_error());
}

mgpt_session *lab_session_fork(const mgpt_session *session)
{
    return mgpt_fork(session, lab_last_error());
}

void lab_session_free(mgpt_session *session)
{
    mgpt_session_free(session);
}

int lab_session_ctx(const mgpt_session *session)
{
    return (int)mgpt_n_ctx(session);
}

static int call_tap(const mgpt_value *v, void *user)
{
    (void)user;
    return page_tap((int)v->point, v->layer, v->pos, v->rows, v->cols, v->stride, v->data);
}

int lab_feed(mgpt_session *session, const int32_t *tokens, size_t n, uint64_t points)
{
    int status = mgpt_tap(session, points, call_tap, NULL, lab_last_error());
    if (status == MGPT_OK)
        status = mgpt_feed(session, tokens, n, lab_last_error());
    return status;
}

int lab_rewind(mgpt_session *session, size_t pos)
{
    return mgpt_rewind(session, pos, lab_last_error());
}

size_t lab_pos(const mgpt_session *session)
{
    return mgpt_pos(session);
}

const int32_t *lab_held(const mgpt_session *session)
{
    return mgpt_tokens(session);
}

const float *lab_logits(const mgpt_session *session)
{
    return mgpt_logits(session);
}

uint64_t lab_sample_seed(uint64_t seed, uint64_t sample)
{
    const struct sampling s = {.sampler = {.rng = seed}, .seed = seed};
    return sampling_of_sample(&s, sample).rng;
}
