/* Session files: what was saved continues with the bits of a session that ran everything, and a
 * file that is damaged, newer, or another model's changes nothing. */
#include "base/xxh64.h"
#include "run/session.h"
#include "support/place.h"
#include "support/toy_zoo.h"

enum { HEAD = 64 };
static const size_t AT_VERSION = 8, AT_SPEC = 12, AT_MODEL_BYTES = 16, AT_MODEL_HASH = 24,
                    AT_TOKENS = 32, AT_KV = 40, AT_LOGITS = 44, AT_BYTES = 48, AT_HASH = 56;

static mgpt_session *session_with(const mgpt_model *model, const mgpt_session_params *params)
{
    mgpt_session *session = mgpt_session_new(model, params, NULL);
    assert_non_null(session);
    return session;
}

static void save(mgpt_session *session)
{
    mgpt_error err;
    if (mgpt_save_session(session, place.path, &err) < 0)
        fail_msg("%s", err.text);
}

static void load(mgpt_session *session)
{
    mgpt_error err;
    if (mgpt_load_session(session, place.path, &err) < 0)
        fail_msg("%s", err.text);
}

/* ---- what comes back ---- */

/* Saved after n tokens; loaded by a session with other settings, which runs the rest. */
static void check_resumed(const struct subject *s, size_t n)
{
    mgpt_session *from = subject_session(s->model, 5, 1), *to = subject_session(s->model, 7, 2);
    subject_feed(from, s->tokens, n);
    save(from);
    subject_feed(to, s->tokens + 1, s->n - 1); /* what it held is replaced */
    load(to);
    assert_int_equal(mgpt_pos(to), n);
    assert_memory_equal(mgpt_tokens(to), s->tokens, n * sizeof *s->tokens);
    subject_check(s, n - 1, 1, mgpt_logits(to), "loaded", n);
    subject_check_feed(s, to, "resumed", n);
    mgpt_session_free(from);
    mgpt_session_free(to);
}

static void check_resumed_subject(const struct subject *s)
{
    const size_t lengths[] = {1, 15, 16, 17, 48, s->n - 1};
    for (size_t i = 0; i < COUNT(lengths); i++)
        if (lengths[i] < s->n)
            check_resumed(s, lengths[i]);
}

TEST_IN_PLACE(every_model_continues)
{
    subject_each(check_resumed_subject);
}

/* One of the tests that need a single model: 40 tokens fed. */
static struct subject of;
static mgpt_session *session;

static int begin_saved(void **state)
{
    of = subject_zoo(ZOO_LLAMA_DEEP);
    session = subject_session(of.model, 0, 1);
    subject_feed(session, of.tokens, 40);
    return place_make(state);
}

static int end_saved(void **state)
{
    mgpt_session_free(session);
    subject_free(&of);
    return place_remove(state);
}

#define TEST_SAVED(name) TEST_WITH(name, begin_saved, end_saved)

/* Rounded caches, stepped further after loading, against a session that never stopped. */
TEST_SAVED(rounded_caches_continue)
{
    for (int32_t type = MGPT_KV_F16; type <= MGPT_KV_Q8_0; type++) {
        const mgpt_session_params params = {.kv_type = type};
        mgpt_session *a = session_with(of.model, &params), *b = session_with(of.model, &params);
        subject_feed(a, of.tokens, 21);
        save(a);
        load(b);
        for (size_t i = 21; i < of.n; i++)
            assert_memory_equal(mgpt_step(a, of.tokens[i], NULL), mgpt_step(b, of.tokens[i], NULL),
                                of.n_vocab * sizeof(float));
        mgpt_session_free(a);
        mgpt_session_free(b);
    }
}

/* A rewound session has no logits to save, and sync runs its last token again. */
TEST_SAVED(rewound_sessions_come_back_without_logits)
{
    mgpt_session *to = subject_session(of.model, 0, 1);
    assert_int_equal(mgpt_rewind(session, 30, NULL), MGPT_OK);
    save(session);
    load(to);
    assert_int_equal(mgpt_pos(to), 30);
    assert_null(mgpt_logits(to));
    assert_int_equal(mgpt_sync(to, of.tokens, 30, NULL), MGPT_OK);
    subject_check(&of, 29, 1, mgpt_logits(to), "synced", 30);
    mgpt_session_free(to);
}

TEST_SAVED(an_empty_session_is_one_too)
{
    mgpt_session *empty = subject_session(of.model, 0, 1);
    save(empty);
    load(session);
    assert_int_equal(mgpt_pos(session), 0);
    assert_null(mgpt_logits(session));
    subject_check_feed(&of, session, "after an empty file", 0);
    mgpt_session_free(empty);
}

/* ---- the bytes ---- */

struct saved_bytes {
    uint8_t *p;
    size_t n;
};

static struct saved_bytes read_saved(void)
{
    struct file file;
    assert_int_equal(file_open(&file, place.path, NULL), MGPT_OK);
    struct saved_bytes bytes = {malloc(file.size + 1), file.size};
    assert_non_null(bytes.p);
    memcpy(bytes.p, file.data, file.size);
    file_close(&file);
    return bytes;
}

static void write_saved(const uint8_t *p, size_t n)
{
    FILE *f = fopen(place.path, "r+b"); /* "wb" makes ext4 wait for the disk each time */
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fflush(f), 0);
    assert_int_equal(ftruncate(fileno(f), (off_t)n), 0);
    assert_int_equal(fclose(f), 0);
}

/* The bytes depend on the tokens alone: not on what the session held before, nor on how it runs. */
TEST_SAVED(equal_tokens_are_equal_bytes)
{
    for (int32_t type = MGPT_KV_F32; type <= MGPT_KV_Q8_0; type++) {
        const mgpt_session_params params = {.n_chunk = 3, .n_threads = 2, .kv_type = type};
        mgpt_session *fresh = session_with(of.model, &(mgpt_session_params){.kv_type = type});
        mgpt_session *to = session_with(of.model, &params);
        subject_feed(fresh, of.tokens, 40);
        save(fresh);
        struct saved_bytes first = read_saved();
        subject_feed(to, of.tokens, 55);
        assert_int_equal(mgpt_sync(to, of.tokens, 40, NULL), MGPT_OK);
        save(to);
        struct saved_bytes second = read_saved();
        assert_int_equal(first.n, second.n);
        assert_memory_equal(first.p, second.p, first.n);
        free(first.p);
        free(second.p);
        mgpt_session_free(fresh);
        mgpt_session_free(to);
    }
}

/* Rewound to 20, among what a fork shares; the origin goes on unharmed. */
TEST_SAVED(a_fork_has_the_bytes_of_a_session)
{
    mgpt_session *fresh = subject_session(of.model, 0, 1), *fork = mgpt_fork(session, NULL);
    save(session);
    struct saved_bytes want = read_saved();
    save(fork);
    struct saved_bytes got = read_saved();
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.p, want.p, got.n);
    free(got.p);
    free(want.p);
    subject_feed(fresh, of.tokens, 21);
    assert_int_equal(mgpt_rewind(fresh, 20, NULL), MGPT_OK);
    save(fresh);
    want = read_saved();
    assert_int_equal(mgpt_rewind(fork, 20, NULL), MGPT_OK);
    save(fork);
    got = read_saved();
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.p, want.p, got.n);
    free(got.p);
    free(want.p);
    subject_check_feed(&of, session, "the origin of a saved fork", 0);
    mgpt_session_free(fork);
    mgpt_session_free(fresh);
}

/* A file of today is read tomorrow, or SPEC_VERSION or the version of the format is raised. */
TEST_IN_PLACE(the_format_and_the_arithmetic_are_these)
{
    static const struct {
        struct session_note note;
        uint64_t hash;
    } rows[] = {
        {{0}, UINT64_C(0x91de6612afb226b5)},
        {{.kind = 1, .seed = 2, .state = 3}, UINT64_C(0x7532a8c2f0c46439)},
        {{.kind = 1, .seed = 2, .state = 3, .begin = 4, .mu = 5}, UINT64_C(0x1566a46ba5e6a06a)},
        {{.kind = 1, .mu = 5}, UINT64_C(0x97b9b6e844750897)}};
    const int32_t anna[] = {26, 0, 13, 13, 0};
    mgpt_model *names = mgpt_open(unit_path("weights/names.gguf"), NULL, NULL);
    mgpt_session *s = session_with(names, NULL);
    subject_feed(s, anna, 5);
    for (size_t i = 0; i < COUNT(rows); i++) {
        s->note = rows[i].note;
        save(s);
        struct saved_bytes bytes = read_saved();
        uint64_t hash = xxh64(bytes.p, bytes.n);
        if (hash != rows[i].hash)
            fail_msg("row %zu: %zu bytes with hash %016llx", i, bytes.n, (unsigned long long)hash);
        free(bytes.p);
    }
    mgpt_session_free(s);
    mgpt_close(names);
}

/* ---- what is refused ---- */

static mgpt_error err;

/* Loading fails, and the session is as it was: it continues. */
static void refuses_file(int status, const char *part)
{
    memset(&err, 0, sizeof err);
    int got = mgpt_load_session(session, place.path, &err);
    if (got != status || err.status != status || !strstr(err.text, part))
        fail_msg("status %d, '%s', expected %d with '%s'", got, err.text, status, part);
    assert_int_equal(mgpt_pos(session), 40);
    assert_memory_equal(mgpt_tokens(session), of.tokens, 40 * sizeof *of.tokens);
    subject_check(&of, 39, 1, mgpt_logits(session), part, 0);
}

static void put_u32(struct saved_bytes b, size_t at, uint32_t v)
{
    memcpy(b.p + at, &v, sizeof v);
}

/* Computes both hashes of the bytes again and stores them. */
static void seal(struct saved_bytes b)
{
    uint64_t hash = xxh64(b.p, AT_HASH);
    memcpy(b.p + AT_HASH, &hash, sizeof hash);
    hash = xxh64(b.p, b.n - sizeof hash);
    memcpy(b.p + b.n - sizeof hash, &hash, sizeof hash);
}

/* 4 bytes of a file of 40 tokens are changed, and its hashes are set again. */
TEST_SAVED(heads_that_do_not_fit)
{
    const struct {
        size_t at;
        uint32_t value;
        int status;
        const char *part;
    } changes[] = {
        {0, 0x46554747, MGPT_EFILE, "does not begin with 'mgptsess'"},
        {AT_VERSION, 4, MGPT_EFILE, "format 4, this program reads formats 1 to 3"},
        {AT_VERSION, 2, MGPT_EFILE, "do not take"},
        {AT_VERSION, 0, MGPT_EFILE, "format 0"},
        {AT_SPEC, 3, MGPT_EFILE, "version 3 of the specification, this program has 2"},
        {AT_MODEL_BYTES, 7, MGPT_EFILE, "of a model of 7 bytes"},
        {AT_MODEL_HASH, 7, MGPT_EFILE, "of another model"},
        {AT_TOKENS, 81, MGPT_EFULL, "81 tokens, the context holds 80"},
        {AT_TOKENS, 41, MGPT_EFILE, "41 tokens do not take"},
        {AT_TOKENS, 0, MGPT_EFILE, "0 tokens do not take"},
        {AT_TOKENS + 4, 0x80000000, MGPT_EFULL, "tokens, the context holds 80"},
        {AT_KV, MGPT_KV_F16, MGPT_EFILE, "keys and values F16, here they are F32"},
        {AT_KV, MGPT_KV_Q8_0, MGPT_EFILE, "keys and values Q8_0, here they are F32"},
        {AT_KV, 77, MGPT_EFILE, "of an unknown type"},
        {AT_LOGITS, 0, MGPT_EFILE, "do not take"},
        {AT_LOGITS, 26, MGPT_EFILE, "do not take"},
        {AT_BYTES, 72, MGPT_EFILE, "is a session of 72 bytes, but the file has"},
        {HEAD, 27, MGPT_EFILE, "token 27 is not in the vocabulary of 27"},
        {HEAD + 4, UINT32_MAX, MGPT_EFILE, "token -1 is not"},
    };
    save(session);
    struct saved_bytes good = read_saved(), bad = {malloc(good.n), good.n};
    for (size_t i = 0; i < COUNT(changes); i++) {
        memcpy(bad.p, good.p, good.n);
        put_u32(bad, changes[i].at, changes[i].value);
        seal(bad);
        write_saved(bad.p, bad.n);
        refuses_file(changes[i].status, changes[i].part);
    }
    write_saved(good.p, good.n);
    load(session);
    free(good.p);
    free(bad.p);
}

/* Each byte changed, and each length. */
TEST_SAVED(damage)
{
    save(session);
    struct saved_bytes b = read_saved();
    for (size_t i = 0; i < b.n; i++) {
        b.p[i] ^= (uint8_t)(1 + i % 255);
        write_saved(b.p, b.n);
        refuses_file(MGPT_EFILE, "session");
        b.p[i] ^= (uint8_t)(1 + i % 255);
    }
    for (size_t n = 0; n < b.n; n++) {
        write_saved(b.p, n);
        refuses_file(MGPT_EFILE, n < HEAD ? "is not a session" : "but the file has");
    }
    write_saved(b.p, b.n);
    load(session);
    free(b.p);
}

TEST_SAVED(files_that_are_not_there)
{
    refuses_file(MGPT_EIO, "No such file");
    assert_int_equal(mgpt_load_session(session, place.dir, &err), MGPT_EIO);
    assert_int_equal(mgpt_save_session(session, place.dir, &err), MGPT_EIO);
    assert_int_equal(mgpt_save_session(session, "/nonexistent/x", &err), MGPT_EIO);
    assert_int_equal(mgpt_save_session(NULL, place.path, &err), MGPT_EARG);
    assert_int_equal(mgpt_load_session(NULL, place.path, &err), MGPT_EARG);
    assert_int_equal(mgpt_save_session(session, NULL, &err), MGPT_EARG);
    assert_int_equal(mgpt_load_session(session, NULL, &err), MGPT_EARG);
}

/* A file of another kind is not replaced: the model above all. */
TEST_SAVED(replaces_sessions_only)
{
    const struct saved_bytes before = {(uint8_t *)"mgptsesX and more", 17};
    save(session);
    write_saved(before.p, before.n);
    assert_int_equal(mgpt_save_session(session, place.path, &err), MGPT_EFILE);
    assert_non_null(strstr(err.text, "not a session"));
    assert_file(place.path, "mgptsesX and more");
    write_saved(before.p, 3);
    assert_int_equal(mgpt_save_session(session, place.path, NULL), MGPT_EFILE);
    write_saved(before.p, 0);
    save(session);
    save(session);
}

static int save_and_load(const mgpt_value *value, void *user)
{
    (void)value;
    assert_int_equal(mgpt_save_session(user, place.path, NULL), MGPT_EARG);
    assert_int_equal(mgpt_load_session(user, place.path, NULL), MGPT_EARG);
    return 0;
}

TEST_SAVED(taps_may_not_call_them)
{
    const uint64_t last = MGPT_POINT_BIT(MGPT_LOGITS);
    assert_int_equal(mgpt_tap(session, last, save_and_load, session, NULL), MGPT_OK);
    assert_non_null(mgpt_step(session, of.tokens[40], NULL));
    assert_int_equal(access(place.path, F_OK), -1);
}
