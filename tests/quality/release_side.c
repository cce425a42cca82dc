/* One of two builds for compare_release.sh: what is measured, compiled against the build's own
 * mgpt.h and linked with its library. Exports SIDE_OPEN and SIDE_RUN alone. */
#include "mgpt.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { MOST_SESSIONS = 16, DEPTH = 32, MOST_PROMPT = 192 };

struct release_model {
    const char *path;
    int n_threads;
    mgpt_model *model;
    mgpt_session *sessions[MOST_SESSIONS];
    int32_t tokens[MOST_PROMPT];
    int32_t n_vocab;
};

EXPORT void *side_open(const char *path, int n_threads);
EXPORT int side_run(void *opened, int n_sessions, int n);

static int32_t side_token(const struct release_model *s, int i)
{
    return (int32_t)(((unsigned)i * 7919u + 3) % (unsigned)s->n_vocab);
}

/* NULL: it has printed why. The process ends with the side. */
void *side_open(const char *path, int n_threads)
{
    mgpt_error err = {0};
    mgpt_info info;
    const mgpt_session_params params = {.n_threads = n_threads};
    struct release_model *s = calloc(1, sizeof *s);
    s->path = path;
    s->n_threads = n_threads;
    s->model = mgpt_open(path, NULL, &err);
    int good = s->model && mgpt_get_info(s->model, &info, &err) == MGPT_OK;
    s->n_vocab = good ? info.n_vocab : 1;
    for (int i = 0; i < MOST_PROMPT; i++)
        s->tokens[i] = side_token(s, i);
    for (int i = 0; good && i < MOST_SESSIONS; i++) {
        s->sessions[i] =
            i ? mgpt_fork(s->sessions[0], &err) : mgpt_session_new(s->model, &params, &err);
        good =
            s->sessions[i] && (i || mgpt_feed(s->sessions[0], s->tokens, DEPTH, &err) == MGPT_OK);
    }
    if (!good)
        fprintf(stderr, "%s: %s\n", path, err.text);
    return good ? s : NULL;
}

/* Opens the model another time, runs a token and closes it. */
static int side_start(const struct release_model *s)
{
    const mgpt_model_params open_params = {.n_threads = s->n_threads};
    const mgpt_session_params params = {.n_threads = s->n_threads};
    mgpt_model *model = mgpt_open(s->path, &open_params, NULL);
    mgpt_session *session = model ? mgpt_session_new(model, &params, NULL) : NULL;
    int good = session && mgpt_step(session, s->tokens[0], NULL);
    mgpt_session_free(session);
    mgpt_close(model);
    return good ? MGPT_OK : MGPT_EARG;
}

/* n steps of n_sessions at once from position DEPTH; with n_sessions 0 a prompt of n tokens, below 0
 * n starts. */
int side_run(void *opened, int n_sessions, int n)
{
    struct release_model *s = opened;
    int32_t next[MOST_SESSIONS];
    int status = MGPT_OK;
    for (int i = 0; n_sessions < 0 && i < n && status == MGPT_OK; i++)
        status = side_start(s);
    if (n_sessions < 0)
        return status;
    if (n_sessions == 0) {
        mgpt_rewind(s->sessions[0], 0, NULL);
        return mgpt_feed(s->sessions[0], s->tokens, (size_t)n, NULL);
    }
    for (int k = 0; k < n_sessions; k++)
        status |= mgpt_rewind(s->sessions[k], DEPTH, NULL);
    for (int i = 0; i < n && status == MGPT_OK; i++) {
        for (int k = 0; k < n_sessions; k++)
            next[k] = side_token(s, i + k);
        if (n_sessions == 1)
            status = mgpt_step(s->sessions[0], next[0], NULL) ? MGPT_OK : MGPT_EARG;
        else
            status = mgpt_step_many(s->sessions, next, (size_t)n_sessions, NULL);
    }
    return status;
}
