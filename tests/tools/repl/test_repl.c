/* The repl, driven by its own command lines, compared with a model of what it should be: lists of
 * tokens, a sampler and edits, from which every timeline is computed anew in a fresh session. All
 * logits must be equal to the bit, after each line of a thousand random sequences. And session
 * files that are not what they should be: each gets one line, and changes nothing.
 */
#include "base/mem.h"
#include "common/xxh64.h"
#include "repl/repl.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <unistd.h>

enum { N_CTX = 16, N_VOCAB = 27, N_HEADS = 4, WIDTH = 16, HEAD_DIM = 4, MOST_BRANCHES = 4 };

/* ---- a repl, and what it prints ---- */

struct repl_fixture {
    struct repl repl;
    char path[512], directory[64], file[96];
    int out, err;      /* the real ones */
    FILE *said, *told; /* what commands wrote to them */
};

static void open_repl(struct repl_fixture *f, const char *rng)
{
    const struct cli_command none = {.name = "test"};
    memset(f, 0, sizeof *f);
    snprintf(f->path, sizeof f->path, "%s/weights/names.gguf", getenv("MGPT_SOURCE_ROOT"));
    f->repl = (struct repl){.engine = {.path = f->path}, .sampling = {.top_p = 1, .rng = rng}};
    assert_int_equal(sampling_begin(&f->repl.sampling, &none), EXIT_OK);
    assert_int_equal(engine_open(&f->repl.engine), EXIT_OK);
    assert_int_equal(engine_session(&f->repl.engine), EXIT_OK);
    assert_true(repl_begin(&f->repl));
    strcpy(f->directory, "/tmp/mgpt-repl-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->file, sizeof f->file, "%s/session", f->directory);
    f->said = tmpfile();
    f->told = tmpfile();
    assert_true(f->said && f->told);
}

static void close_repl(struct repl_fixture *f)
{
    repl_end(&f->repl);
    engine_close(&f->repl.engine);
    unlink(f->file);
    rmdir(f->directory);
    fclose(f->said);
    fclose(f->told);
}

static void redirect(FILE *to, int fd)
{
    assert_int_equal(ftruncate(fileno(to), 0), 0);
    assert_int_equal(lseek(fileno(to), 0, SEEK_SET), 0);
    assert_true(dup2(fileno(to), fd) >= 0);
}

static void restore(int saved, int fd)
{
    assert_true(dup2(saved, fd) >= 0);
    close(saved);
}

/* Types one line. */
__attribute__((format(printf, 2, 3))) static void type(struct repl_fixture *f, const char *fmt, ...)
{
    char line[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fflush(stdout);
    fflush(stderr);
    f->out = dup(STDOUT_FILENO);
    f->err = dup(STDERR_FILENO);
    redirect(f->said, STDOUT_FILENO);
    redirect(f->told, STDERR_FILENO);
    repl_line(&f->repl, line, (size_t)n);
    fflush(stdout);
    fflush(stderr);
    restore(f->out, STDOUT_FILENO);
    restore(f->err, STDERR_FILENO);
}

/* What the last line wrote to stderr, as text. */
static const char *told(struct repl_fixture *f)
{
    static char text[2048];
    ssize_t n = pread(fileno(f->told), text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static int is_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    return end && end > text && end[1] == 0;
}

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
    (void)state;
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

/* ---- session files ---- */

/* The sampler's state comes back too, whichever numbers it draws. */
TEST(numbers_go_on)
{
    static const char *const kinds[] = {NULL, "python"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct repl_fixture f;
        char first[256], again[256];
        open_repl(&f, kinds[i]);
        type(&f, "/set temp 2");
        type(&f, "/s 3");
        type(&f, "/save %s", f.file);
        type(&f, "/s 5");
        memset(first, 0, sizeof first);
        memset(again, 0, sizeof again);
        assert_true(pread(fileno(f.said), first, sizeof first - 1, 0) > 0);
        type(&f, "/set seed 9");
        type(&f, "/reset");
        type(&f, "/load %s", f.file);
        type(&f, "/s 5");
        assert_true(pread(fileno(f.said), again, sizeof again - 1, 0) > 0);
        assert_string_equal(first, again);
        close_repl(&f);
    }
}

static void write_session_file(const char *path, const char *bytes, size_t n)
{
    FILE *to = fopen(path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(bytes, 1, n, to), n);
    assert_int_equal(fclose(to), 0);
}

/* A session with several timelines and edits; its file in a malloc'ed text. */
static char *make_session(struct repl_fixture *f, size_t *n)
{
    mgpt_error err;
    open_repl(f, NULL);
    type(f, "anna");
    type(f, "/branch other");
    type(f, "/b 2");
    type(f, "/ab 0.1 mean");
    type(f, "/scale mlp.0 0.1");
    type(f, "/save %s", f->file);
    assert_string_equal(told(f), "");
    char *text = cli_read(f->file, n, &err);
    assert_non_null(text);
    return text;
}

/* Loads the file as it is now: 1 when it was taken; otherwise one line, and nothing has changed. */
static int load(struct repl_fixture *f)
{
    struct repl before = f->repl;
    float logits[N_VOCAB];
    memcpy(logits, mgpt_logits(f->repl.engine.session), sizeof logits);
    type(f, "/load %s", f->file);
    if (*told(f) == 0)
        return 1;
    assert_true(is_one_line(told(f)));
    assert_true(strlen(told(f)) < 300);
    assert_ptr_equal(f->repl.engine.session, before.engine.session);
    assert_ptr_equal(f->repl.branches, before.branches);
    assert_ptr_equal(f->repl.edits.list, before.edits.list);
    assert_memory_equal(&f->repl.sampling, &before.sampling, sizeof before.sampling);
    assert_memory_equal(mgpt_logits(f->repl.engine.session), logits, sizeof logits);
    return 0;
}

/* The file with the first `from` replaced by `to`. */
static void replace(struct repl_fixture *f, const char *text, const char *from, const char *to)
{
    char changed[4096];
    const char *at = strstr(text, from);
    assert_non_null(at);
    int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to,
                     at + strlen(from));
    assert_in_range(n, 0, sizeof changed - 1);
    write_session_file(f->file, changed, (size_t)n);
}

TEST(bad_sessions)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"mgpt session", "other", "is not a session file"},
        {"\"version\":1", "\"version\":2", "version is 2, expected 1 to 1"},
        {"\"version\":1", "\"version\":true", "no whole number called version"},
        {"\"xxh64\":\"03", "\"xxh64\":\"00", "made with the model of hash 00"},
        {"\"xxh64\":\"", "\"xxh64\":\"+", "no number in quotes called xxh64"},
        {"\"kv\":\"f32\"", "\"kv\":\"f16\"", "start with --kv f16"},
        {"\"kv\":\"f32\"", "\"kv\":7", "kv is neither f32 nor f16"},
        {"\"top_k\":0", "\"top_k\":-1", "top_k is -1, expected 0 to 2147483647"},
        {"\"top_p\":1.0", "\"top_p\":1.5", "top_p is out of range"},
        {"\"temp\":0.0", "\"temp\":\"x\"", "no number called temp"},
        {"\"seed\":\"0\"", "\"seed\":0", "no number in quotes called seed"},
        {"\"seed\":\"0\"", "\"seed\":\"99999999999999999999\"", "seed is above 64 bits"},
        {"\"layer\":0", "\"layer\":1", "layer is 1, expected 0 to 0"},
        {"\"head\":1", "\"head\":4", "head is 4, expected 0 to 3"},
        {"\"kind\":\"mean\"", "\"kind\":\"sum\"", "kind is not one of zero, mean, scale"},
        {"\"mean\":[", "\"mean\":[0,", "mean has 5 numbers, expected 4"},
        {"\"mean\":[", "\"mean\":[1e300,", "mean has 5 numbers"},
        {"\"kind\":\"scale\"", "\"head\":1,\"kind\":\"scale\"", "of the same part"},
        {"\"factor\":", "\"factor\":1e31,\"x\":", "factor is out of range"},
        {"\"tokens\":[26", "\"tokens\":[27", "token 0: expected one of 0 to 26"},
        {"\"tokens\":[26", "\"tokens\":[26.0", "token 0: expected one of 0 to 26"},
        {"\"tokens\":[26", "\"tokens\":[1,1,1,1,1,1,1,1,1,1,1,1,26", "the context holds 16"},
        {"\"position\":5", "\"position\":6", "position is 6, expected 0 to 5"},
        {"\"name\":\"main\"", "\"name\":\"a b\"", "timeline 0: the name"},
        {"\"name\":\"main\"", "\"name\":\"\\u001b[2J\"", "timeline 0: the name"},
        {"\"name\":\"main\"", "\"name\":\"other\"", "two timelines are called other"},
        {"\"current\":\"other\"", "\"current\":\"none\"", "current is the name of no timeline"},
        {"\"branches\":[", "\"branches\":[],\"x\":[", "0 timelines"},
        {"\"kv\"", "\"version\":1,\"kv\"", "bad JSON"},
    };
    struct repl_fixture f;
    size_t n;
    char *text = make_session(&f, &n);
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        replace(&f, text, cases[i].from, cases[i].to);
        if (load(&f) || !strstr(told(&f), cases[i].says))
            fail_msg("%s -> %s: said '%s', expected '%s'", cases[i].from, cases[i].to, told(&f),
                     cases[i].says);
    }
    free(text);
    close_repl(&f);
}

/* Every byte replaced by some others, and the file cut there. What is taken is well-formed, so that
 * the next load finds a session that works. */
TEST(mutated_sessions)
{
    static const char others[] = "0\"[{,9-";
    struct repl_fixture f;
    size_t n;
    char *text = make_session(&f, &n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        char was = text[i];
        for (size_t k = 0; k < sizeof others - 1; k++) {
            text[i] = others[k];
            write_session_file(f.file, text, n);
            load(&f);
            type(&f, "/goto 1");
        }
        text[i] = was;
        write_session_file(f.file, text, i);
        assert_true(i == n - 1 || !load(&f)); /* the last byte is the line end */
    }
    free(text);
    close_repl(&f);
}

/* ---- the hash ---- */

/* Known values: the first is in the specification, the others come from xxhsum's own tests. */
TEST(hash)
{
    assert_true(xxh64("", 0) == UINT64_C(0xEF46DB3751D8E999));
    assert_true(xxh64("a", 1) == UINT64_C(0xD24EC4F1A98C6E5B));
    assert_true(xxh64("abc", 3) == UINT64_C(0x44BC2CF5AD770999));
    assert_true(xxh64("Nobody inspects the spammish repetition", 39) ==
                UINT64_C(0xFBCEA83C8A378BF1));
}
