/* The repl, driven by its own command lines, compared with a model of what it should be: lists of
 * tokens, a sampler and edits, from which every timeline is computed anew in a fresh session. All
 * logits must be equal to the bit, after each line of a thousand random sequences.
 */
#include "base/mem.h"
#include "support/toy_zoo.h"
#include "tools/repl/typed.h"

enum { N_CTX = 16, N_HEADS = 4, WIDTH = 16, HEAD_DIM = 4, MOST_BRANCHES = 4 };

/* ---- what it should be ---- */

struct shadow_edit {
    int used, scale; /* otherwise: set to `value` */
    float factor, value[WIDTH];
};

struct shadow_branch {
    int32_t tokens[N_CTX]; /* held, and ahead */
    size_t held, n;
    char name[8];
};

struct shadow {
    const mgpt_model *model;
    struct shadow_branch branches[MOST_BRANCHES];
    size_t n_branches, current, n_names;
    struct shadow_edit heads[N_HEADS], mlp;
    mgpt_sampler sampler;
};

static void act(const struct shadow_edit *e, float *at, size_t n)
{
    for (size_t i = 0; i < n && e->used; i++)
        at[i] = e->scale ? at[i] * e->factor : e->value[i];
}

static int act_on_value(const mgpt_value *v, void *user)
{
    const struct shadow *s = user;
    for (int32_t row = 0; row < v->rows; row++) {
        float *at = v->data + (size_t)row * v->stride;
        for (size_t h = 0; h < N_HEADS && v->point == MGPT_HEADS; h++)
            act(&s->heads[h], at + h * HEAD_DIM, HEAD_DIM);
        if (v->point == MGPT_MLP_OUT)
            act(&s->mlp, at, WIDTH);
    }
    return 0;
}

/* A fresh session with n tokens, step by step. */
static mgpt_session *fresh(struct shadow *s, const int32_t *tokens, size_t n, mgpt_tap_fn *fn,
                           void *user)
{
    mgpt_session *session = mgpt_session_new(s->model, NULL, NULL);
    uint64_t points = MGPT_POINT_BIT(MGPT_HEADS) | MGPT_POINT_BIT(MGPT_MLP_OUT);
    assert_non_null(session);
    assert_int_equal(mgpt_tap(session, points, fn, user, NULL), MGPT_OK);
    for (size_t i = 0; i < n; i++)
        assert_non_null(mgpt_step(session, tokens[i], NULL));
    return session;
}

static void check(struct repl_fixture *f, struct shadow *s)
{
    const mgpt_session *ours = f->repl.engine.session;
    const struct shadow_branch *b = &s->branches[s->current];
    assert_int_equal(mgpt_pos(ours), b->held);
    assert_memory_equal(mgpt_tokens(ours), b->tokens, b->held * sizeof *b->tokens);
    assert_int_equal(arr_len(f->repl.branches), s->n_branches);
    const struct repl_branch *branch = &f->repl.branches[f->repl.current];
    assert_string_equal(branch->name, b->name);
    assert_int_equal(arr_len(branch->ahead), b->n - b->held);
    if (b->n > b->held)
        assert_memory_equal(branch->ahead, b->tokens + b->held,
                            (b->n - b->held) * sizeof *b->tokens);
    if (b->held == 0)
        return;
    mgpt_session *session = fresh(s, b->tokens, b->held, act_on_value, s);
    assert_non_null(mgpt_logits(ours));
    assert_memory_equal(mgpt_logits(ours), mgpt_logits(session), N_VOCAB * sizeof(float));
    mgpt_session_free(session);
}

/* ---- random lines ---- */

static size_t random_below(uint64_t *rng, size_t n)
{
    return (size_t)(toy_random(rng) % n);
}

static void append(struct shadow_branch *b, int32_t token)
{
    b->tokens[b->held++] = token;
    b->n = b->held;
}

static void type_ids(struct repl_fixture *f, struct shadow *s, uint64_t *rng)
{
    struct shadow_branch *b = &s->branches[s->current];
    size_t n = 1 + random_below(rng, 5);
    char line[128] = "/ids";
    int32_t ids[5];
    for (size_t i = 0; i < n; i++) {
        ids[i] = (int32_t)random_below(rng, N_VOCAB);
        size_t at = strlen(line);
        if (ids[i] < 26 && random_below(rng, 2))
            snprintf(line + at, sizeof line - at, " \"%c\"", 'a' + (int)ids[i]);
        else
            snprintf(line + at, sizeof line - at, " %d,", (int)ids[i]);
    }
    type(f, "%s", line);
    if (b->held + n > N_CTX) {
        assert_true(is_one_line(told(f)));
        return;
    }
    for (size_t i = 0; i < n; i++)
        append(b, ids[i]);
}

static void type_goto(struct repl_fixture *f, struct shadow *s, uint64_t *rng)
{
    struct shadow_branch *b = &s->branches[s->current];
    size_t pos = random_below(rng, b->n + 2), back = 1 + random_below(rng, 3);
    if (random_below(rng, 2)) {
        type(f, "/b %zu", back);
        pos = back <= b->held ? b->held - back : b->n + 1;
    } else {
        type(f, "/goto %zu", pos);
    }
    if (pos <= b->n)
        b->held = pos;
    else
        assert_true(is_one_line(told(f)));
}

static void type_edit(struct repl_fixture *f, struct shadow *s, uint64_t *rng)
{
    struct shadow_branch *b = &s->branches[s->current];
    size_t pos = random_below(rng, b->held + 1);
    int32_t token = (int32_t)random_below(rng, N_VOCAB);
    type(f, "/edit %zu %d", pos, (int)token);
    if (pos < b->held)
        b->tokens[pos] = token;
    else
        assert_true(is_one_line(told(f)));
}

/* BOS is fed first to an empty session; with tokens ahead it must be their first. */
static int hear_bos(struct shadow_branch *b)
{
    int32_t bos = 26;
    if (b->held > 0)
        return 1;
    if (b->n > 0 && b->tokens[0] != bos)
        return 0;
    if (b->n > 0)
        b->held = 1;
    else
        append(b, bos);
    return 1;
}

static void type_step(struct repl_fixture *f, struct shadow *s)
{
    struct shadow_branch *b = &s->branches[s->current];
    type(f, "%s", "");
    if (!hear_bos(b) || b->held == N_CTX) {
        assert_true(is_one_line(told(f)));
        return;
    }
    mgpt_session *session = fresh(s, b->tokens, b->held, act_on_value, s);
    int32_t token = mgpt_sample(&s->sampler, mgpt_logits(session), N_VOCAB);
    mgpt_session_free(session);
    if (!mgpt_is_end(s->model, token))
        append(b, token);
}

static void type_branch(struct repl_fixture *f, struct shadow *s, uint64_t *rng)
{
    if (s->n_branches < MOST_BRANCHES && random_below(rng, 2)) {
        struct shadow_branch *b = &s->branches[s->n_branches];
        *b = s->branches[s->current];
        snprintf(b->name, sizeof b->name, "b%zu", ++s->n_names);
        type(f, "/branch %s", b->name);
        s->current = s->n_branches++;
        return;
    }
    s->current = random_below(rng, s->n_branches);
    type(f, "/diff %s", s->branches[s->current].name);
    type(f, "/sw %s", s->branches[s->current].name);
}

struct mean {
    double sums[N_HEADS][HEAD_DIM], mlp[WIDTH];
};

static int add_up(const mgpt_value *v, void *user)
{
    struct mean *m = user;
    for (int32_t row = 0; row < v->rows; row++)
        for (size_t i = 0; i < WIDTH; i++) {
            double *to = v->point == MGPT_HEADS ? &m->sums[i / HEAD_DIM][i % HEAD_DIM] : &m->mlp[i];
            *to += (double)v->data[(size_t)row * v->stride + i];
        }
    return 0;
}

/* The mean over the positions, by the model without edits. */
static void take_mean(struct shadow *s, struct shadow_edit *e, size_t head)
{
    const struct shadow_branch *b = &s->branches[s->current];
    struct mean m = {.mlp = {0}};
    mgpt_session_free(fresh(s, b->tokens, b->held, add_up, &m));
    for (size_t i = 0; i < (head < N_HEADS ? HEAD_DIM : WIDTH); i++) {
        double sum = head < N_HEADS ? m.sums[head][i] : m.mlp[i];
        e->value[i] = (float)(sum / (double)b->held);
    }
}

static void type_ablation(struct repl_fixture *f, struct shadow *s, uint64_t *rng)
{
    size_t head = random_below(rng, N_HEADS + 1), kind = random_below(rng, 5);
    struct shadow_edit *e = head < N_HEADS ? &s->heads[head] : &s->mlp;
    char part[8] = "mlp.0";
    if (head < N_HEADS)
        snprintf(part, sizeof part, "0.%zu", head);
    if (kind == 0) {
        type(f, "/ab off");
        memset(s->heads, 0, sizeof s->heads);
        s->mlp.used = 0;
    } else if (kind == 1) {
        type(f, "/ab %s off", part);
        e->used = 0;
    } else if (kind == 2) {
        *e = (struct shadow_edit){
            .used = 1, .scale = 1, .factor = (float)random_below(rng, 300) / 100};
        type(f, "/scale %s %.9g", part, (double)e->factor);
        e->used = e->factor != 1;
    } else if (kind == 3 && s->branches[s->current].held > 0) {
        type(f, "/ab %s mean", part);
        *e = (struct shadow_edit){.used = 1};
        take_mean(s, e, head);
    } else {
        type(f, "/ab %s zero", part);
        *e = (struct shadow_edit){.used = 1};
    }
}

/* Saved, spoilt, and loaded: all is as it was. */
static void type_session(struct repl_fixture *f)
{
    type(f, "/save %s", f->file);
    assert_string_equal(told(f), "");
    type(f, "/ab off");
    type(f, "/set temp 0");
    type(f, "/s 3");
    type(f, "/branch spoilt");
    type(f, "/reset");
    type(f, "/load %s", f->file);
    assert_string_equal(told(f), "");
}

static void type_random(struct repl_fixture *f, struct shadow *s, uint64_t *rng)
{
    switch (random_below(rng, 10)) {
    case 0:
    case 1:
        type_ids(f, s, rng);
        return;
    case 2:
    case 3:
        type_goto(f, s, rng);
        return;
    case 4:
        type_edit(f, s, rng);
        return;
    case 5:
    case 6:
        type_branch(f, s, rng);
        return;
    case 7:
        type_step(f, s);
        return;
    case 8:
        type_ablation(f, s, rng);
        return;
    default:
        type_session(f);
    }
}

TEST(random_lines)
{
    enum { SEQUENCES = 1000, LINES = 12 };
    uint64_t rng = 5;
    for (size_t i = 0; i < SEQUENCES; i++) {
        struct repl_fixture f;
        open_repl(&f, NULL);
        struct shadow s = {.model = f.repl.engine.model,
                           .branches = {{.name = "main"}},
                           .n_branches = 1,
                           .sampler = {.temperature = 1.25f, .rng = i}};
        type(&f, "/set temp 1.25");
        type(&f, "/set seed %zu", i);
        for (size_t k = 0; k < LINES; k++) {
            type_random(&f, &s, &rng);
            check(&f, &s);
        }
        close_repl(&f);
    }
}
