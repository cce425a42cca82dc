/* Tests: the library's calls one after the other, where any may fail once. See tour.h. */
#include "faults/tour.h"

#include "base/fnv.h"
#include "faults/faults.h"
#include "mgpt.h"

#include <stdio.h>
#include <string.h>

enum { N_TOKENS = 5, N_SESSIONS = 2, WRONG = 99 };

struct tour {
    const char *path;
    mgpt_model *model;
    mgpt_session *sessions[N_SESSIONS]; /* the second is a fork of the first */
    mgpt_info info;
    float values[512]; /* logits of an unembedding */
    mgpt_error err;
};

/* A hash of everything that sessions show. */
static uint64_t seen(const struct tour *t)
{
    uint64_t h = 1;
    for (int i = 0; i < N_SESSIONS; i++) {
        const mgpt_session *s = t->sessions[i];
        if (!s)
            continue;
        size_t pos = mgpt_pos(s);
        h = fnv1a(h, &pos, sizeof pos);
        h = fnv1a(h, mgpt_tokens(s), pos * sizeof(int32_t));
        if (mgpt_logits(s))
            h = fnv1a(h, mgpt_logits(s), (size_t)t->info.n_vocab * sizeof(float));
    }
    return h;
}

static void tokens_from(int32_t tokens[N_TOKENS], int32_t first)
{
    for (int32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = first + i;
}

/* ---- stages: a status each ------------------------------------------------------------------- */

static int open_model(struct tour *t)
{
    mgpt_model_params params = {.n_threads = 2};
    t->model = mgpt_open(t->path, &params, &t->err);
    return t->model ? mgpt_get_info(t->model, &t->info, &t->err) : t->err.status;
}

static int new_session(struct tour *t)
{
    mgpt_session_params params = {.n_threads = 2, .n_chunk = 4};
    t->sessions[0] = mgpt_session_new(t->model, &params, &t->err);
    return t->sessions[0] ? MGPT_OK : t->err.status;
}

static int feed(struct tour *t)
{
    int32_t tokens[N_TOKENS];
    tokens_from(tokens, 3);
    return mgpt_feed(t->sessions[0], tokens, N_TOKENS, &t->err);
}

static int fork_session(struct tour *t)
{
    t->sessions[1] = mgpt_fork(t->sessions[0], &t->err);
    return t->sessions[1] ? MGPT_OK : t->err.status;
}

static int step_fork(struct tour *t)
{
    return mgpt_step(t->sessions[1], 7, &t->err) ? MGPT_OK : t->err.status;
}

static int step_both(struct tour *t)
{
    const int32_t tokens[N_SESSIONS] = {9, 4};
    return mgpt_step_many(t->sessions, tokens, N_SESSIONS, &t->err);
}

static int save_session(struct tour *t)
{
    return mgpt_save_session(t->sessions[0], "tour.session", &t->err);
}

/* The fork becomes its origin. No file is left. */
static int load_session(struct tour *t)
{
    int status = mgpt_load_session(t->sessions[1], "tour.session", &t->err);
    if (status == MGPT_OK)
        remove("tour.session");
    return status;
}

static int tour_unembed(struct tour *t)
{
    float residual[512];
    for (size_t i = 0; i < sizeof residual / sizeof *residual; i++)
        residual[i] = (float)i / 512.0f;
    return mgpt_unembed(t->sessions[0], residual, t->values, &t->err);
}

static int tour_encode(struct tour *t)
{
    int32_t tokens[16];
    if (strcmp(t->info.tokenizer, "none") == 0)
        return MGPT_OK;
    int64_t n = mgpt_encode(t->model, "nanna", 5, 0, tokens, 16, &t->err);
    return n < 0 ? (int)n : MGPT_OK;
}

static int rewind_and_feed(struct tour *t)
{
    int32_t tokens[N_TOKENS];
    tokens_from(tokens, 11);
    if (mgpt_pos(t->sessions[1]) != 2) /* it stays so when the feed fails */
        mgpt_rewind(t->sessions[1], 2, NULL);
    return mgpt_feed(t->sessions[1], tokens, N_TOKENS, &t->err);
}

static const struct {
    const char *name;
    int (*run)(struct tour *t);
    int changes; /* 1: its failure may change the state */
} stages[] = {
    {"open", open_model, 1},    {"session", new_session, 0},    {"feed", feed, 0},
    {"fork", fork_session, 0},  {"step", step_fork, 0},         {"step many", step_both, 0},
    {"save", save_session, 0},  {"load", load_session, 0},      {"unembed", tour_unembed, 0},
    {"encode", tour_encode, 0}, {"rewind", rewind_and_feed, 1},
};

/* Runs the stage. If it fails, runs it again without faults. Returns a status; WRONG when the
 * failure changed the state or the second run failed. */
static int pass(struct tour *t, size_t i)
{
    uint64_t before = seen(t);
    int status = stages[i].run(t);
    if (status == MGPT_OK)
        return MGPT_OK;
    faults_disarm();
    if (status != t->err.status || !t->err.text[0] || (!stages[i].changes && seen(t) != before)) {
        fprintf(stderr, "%s: not as before, or status %d, %d: %s\n", stages[i].name, status,
                t->err.status, t->err.text);
        return WRONG;
    }
    mgpt_error err = t->err;
    if (stages[i].run(t) != MGPT_OK) {
        fprintf(stderr, "%s: again: %s\n", stages[i].name, t->err.text);
        return WRONG;
    }
    fprintf(stderr, "mgpt: %s\n", err.text);
    return status;
}

static int exit_code(int status)
{
    if (status == MGPT_OK || status == WRONG)
        return status;
    return status == MGPT_EMEM ? 4 : 5 + (status != MGPT_EIO);
}

int tour_run(int argc, char **argv)
{
    struct tour t = {.path = argv[argc - 1]};
    int status = MGPT_OK;
    for (size_t i = 0; i < sizeof stages / sizeof *stages && status != WRONG; i++) {
        int now = pass(&t, i);
        status = now == MGPT_OK ? status : now;
    }
    faults_disarm();
    uint64_t h = fnv1a(seen(&t), t.values, sizeof t.values);
    printf("%016llx\n", (unsigned long long)h);
    mgpt_session_free(t.sessions[1]);
    mgpt_session_free(t.sessions[0]);
    mgpt_close(t.model);
    return exit_code(status);
}
