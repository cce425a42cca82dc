/* References of other programs: llama.cpp's log-probabilities, llm.c's state, raw floats, JSON
 * Lines and log-probabilities of some tokens. Good ones say what is in them, every lie about a size
 * is refused.
 */
#include "base/mem.h"
#include "check/reference/reference.h"
#include "support/ref_file.h"
#include "support/unit.h"

#include <math.h>

enum { V = 5 };

static void add_i32(struct bytes *b, int32_t v)
{
    add(b, &v, sizeof v);
}

static void add_f32(struct bytes *b, float v)
{
    add(b, &v, sizeof v);
}

static struct ref_options plain(void)
{
    return (struct ref_options){.n_vocab = V};
}

static struct reference *open_bytes(const char *path, const struct bytes *b,
                                    const struct ref_options *options)
{
    mgpt_error err = {0};
    write_file(path, b->data, arr_len(b->data));
    struct reference *ref = reference_open(path, options, &err);
    assert_string_equal(err.text, "");
    assert_non_null(ref);
    return ref;
}

static void assert_bad(const char *path, const void *data, size_t n,
                       const struct ref_options *options, int status, const char *text)
{
    mgpt_error err = {0};
    write_file(path, data, n);
    assert_null(reference_open(path, options, &err));
    if (!strstr(err.text, text) || err.status != status)
        fail_msg("expected '%s' (%d) in '%s' (%d)", text, status, err.text, err.status);
}

/* Any shorter file is refused, unless `whole` bytes are all that counts; damage is survived. */
static void assert_robust(const char *path, struct bytes *b, size_t whole,
                          const struct ref_options *options)
{
    for (size_t n = 0; n < whole; n++) {
        write_file(path, b->data, n);
        if (reads_whole(path, options))
            fail_msg("read although it ends after %zu bytes", n);
    }
    for (size_t n = 0; n < arr_len(b->data); n++)
        for (unsigned flip = 1; flip < 256; flip = 4 * flip + 1) {
            b->data[n] ^= (uint8_t)flip;
            write_file(path, b->data, arr_len(b->data));
            reads_whole(path, options);
            b->data[n] ^= (uint8_t)flip;
        }
}

/* ---- llama.cpp ---- */

enum {
    N_CTX = 7, /* odd: the first row is that of position 7 / 2 */
    N_CHUNK = 2,
    FIRST = 3,
    N_ROWS = 3
}; /* rows for positions 3 to 5 of each chunk */

static struct bytes kld_file(int32_t n_ctx, int32_t n_vocab, int32_t n_chunk)
{
    struct bytes b = {0};
    add(&b, "_logits_", 8);
    add_i32(&b, n_ctx);
    add_i32(&b, n_vocab);
    add_i32(&b, n_chunk);
    for (int i = 0; i < N_CTX * N_CHUNK; i++)
        add_i32(&b, i % V);
    for (int r = 0; r < N_ROWS * N_CHUNK; r++) {
        add_f32(&b, 0x1p-13f); /* the step */
        add_f32(&b, -9 - (float)r);
        for (int i = 0; i < V + 1; i++) {                /* one more, as V is odd */
            uint16_t q = (uint16_t)(i * 2500 * (r + 1)); /* up to 60000: no sign */
            add(&b, &q, 2);
        }
    }
    return b;
}

TEST_ON_FILE(llama_cpp_is_read)
{
    struct bytes b = kld_file(N_CTX, V, N_CHUNK);
    struct ref_options options = {.n_vocab = V, .add_bos = 1, .bos = 4};
    struct reference *ref = open_bytes(*state, &b, &options);
    double row[V];
    assert_int_equal(reference_count(ref), N_CHUNK);
    for (size_t i = 0; i < N_CHUNK; i++) {
        struct ref_sequence s = reference_sequence(ref, i);
        assert_int_equal(s.n, N_CTX);
        assert_int_equal(s.ids[0], 4); /* llama.cpp puts BOS there */
        assert_int_equal(s.ids[1], (i * N_CTX + 1) % V);
        double slack = 0;
        for (size_t r = 0; r < N_CTX; r++) {
            assert_int_equal(reference_row(ref, i, r, row, NULL), MGPT_OK);
            struct ref_row about = reference_about(ref);
            if (r < FIRST || r == N_CTX - 1) {
                assert_int_equal(about.n, 0);
                continue;
            }
            size_t at = i * N_ROWS + r - FIRST;
            assert_true(about.n == V && about.logprobs && !about.ids);
            assert_true(about.floor == -9 - (double)at);
            assert_true(about.slack > 0x1p-14 && about.slack < 0x1.3p-14);
            assert_true(about.slack > slack); /* larger numbers leave more of their rounding */
            slack = about.slack;
            assert_true(row[2] == 0x1p-13 * 5000 * (double)(at + 1) + about.floor);
            assert_true(row[4] == 0x1p-13 * 10000 * (double)(at + 1) + about.floor);
        }
    }
    reference_close(ref);
    options.add_bos = 0; /* else the first token is the text's own */
    ref = open_bytes(*state, &b, &options);
    for (size_t i = 0; i < N_CHUNK; i++)
        assert_int_equal(reference_sequence(ref, i).ids[0], i * N_CTX % V);
    reference_close(ref);
    drop(&b);
}

TEST_ON_FILE(llama_cpp_is_refused)
{
    static const struct {
        int32_t n_ctx, n_vocab, n_chunk;
        uint64_t offset;
        const char *error;
    } bad[] = {
        {N_CTX, V + 1, N_CHUNK, 12, "6 log-probabilities a row, the model has 5"},
        {N_CTX, -V, N_CHUNK, 12, "-5 log-probabilities"},
        {N_CTX + 1, V, N_CHUNK, 20, "need another number"},
        {N_CTX, V, N_CHUNK + 1, 20, "need another number"},
        {N_CTX, V, INT32_MAX, 20, "need another number"},
        {1 << 22, V, INT32_MAX, 20, "need another number"},
        {INT32_MAX, V, INT32_MAX, 8, "chunks of 2147483647 tokens"},
        {2, V, N_CHUNK, 8, "expected 1 or more of 3 or more"},
        {-N_CTX, V, -N_CHUNK, 8, "expected 1 or more"},
        {N_CTX, V, 0, 8, "expected 1 or more"},
    };
    const struct ref_options options = plain();
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct bytes b = kld_file(bad[i].n_ctx, bad[i].n_vocab, bad[i].n_chunk);
        mgpt_error err = {0};
        assert_bad(*state, b.data, arr_len(b.data), &options, MGPT_EFILE, bad[i].error);
        assert_null(reference_open(*state, &options, &err));
        assert_int_equal(err.offset, bad[i].offset);
        drop(&b);
    }
}

/* A step that is too large would explain any difference. */
TEST_ON_FILE(llama_cpp_steps_are_checked)
{
    static const float steps[] = {-1, NAN, INFINITY, 1, 0x1p-11f};
    static const float least[] = {NAN, INFINITY, -INFINITY};
    const struct ref_options options = plain();
    const size_t at = 20 + 4 * N_CTX * N_CHUNK;
    for (size_t i = 0; i < 8; i++) {
        struct bytes b = kld_file(N_CTX, V, N_CHUNK);
        memcpy(b.data + at + (i < 5 ? 0 : 4), i < 5 ? &steps[i] : &least[i - 5], 4);
        write_file(*state, b.data, arr_len(b.data));
        assert_false(reads_whole(*state, &options));
        drop(&b);
    }
    struct bytes b = kld_file(N_CTX, V, N_CHUNK);
    assert_robust(*state, &b, arr_len(b.data), &options);
    drop(&b);
}

/* ---- llm.c ---- */

static struct bytes llmc_file(int32_t magic, int32_t version, int32_t n, int32_t t)
{
    struct bytes b = {0};
    add_i32(&b, magic);
    add_i32(&b, version);
    add_i32(&b, n);
    add_i32(&b, t);
    for (int i = 4; i < 256; i++)
        add_i32(&b, 0);
    for (int i = 0; i < 6; i++) /* x of 2 texts of 3, */
        add_i32(&b, (i + 1) % V);
    for (int i = 0; i < 6; i++) /* y */
        add_i32(&b, (i + 2) % V);
    for (int i = 0; i < 6 * V; i++)
        add_f32(&b, (float)i);
    add_f32(&b, 1.5f); /* the loss */
    add_f32(&b, 7);    /* a gradient */
    return b;
}

TEST_ON_FILE(llm_c_is_read)
{
    struct bytes b = llmc_file(20240327, 2, 2, 3);
    const struct ref_options options = plain();
    struct reference *ref = open_bytes(*state, &b, &options);
    double row[V];
    assert_int_equal(reference_count(ref), 2);
    for (size_t i = 0; i < 2; i++) {
        struct ref_sequence s = reference_sequence(ref, i);
        assert_int_equal(s.n, 3);
        for (size_t r = 0; r < 3; r++) {
            assert_int_equal(s.ids[r], (3 * i + r + 1) % V);
            assert_int_equal(reference_row(ref, i, r, row, NULL), MGPT_OK);
            assert_true(reference_about(ref).n == V && !reference_about(ref).logprobs);
            assert_true(row[4] == (double)((3 * i + r) * V + 4));
        }
    }
    reference_close(ref);
    assert_robust(*state, &b, arr_len(b.data) - 4, &options); /* gradients may be missing */
    drop(&b);
}

TEST_ON_FILE(llm_c_is_refused)
{
    static const struct {
        int32_t magic, version, n, t;
        const char *error;
    } bad[] = {
        {20240326, 2, 2, 3, "not a reference"},
        {20240327, 3, 2, 3, "version 3"},
        {20240327, 0, 2, 3, "version 0"},
        {20240327, 2, 0, 3, "0 texts"},
        {20240327, 2, 2, 0, "2 texts of 0 tokens"},
        {20240327, 2, 2, -3, "texts of -3 tokens"},
        {20240327, 2, 3, 3, "too few"},
        {20240327, 2, INT32_MAX, 1 << 22, "too few"},
    };
    const struct ref_options options = plain();
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct bytes b = llmc_file(bad[i].magic, bad[i].version, bad[i].n, bad[i].t);
        assert_bad(*state, b.data, arr_len(b.data), &options, MGPT_EFILE, bad[i].error);
        drop(&b);
    }
}

/* ---- raw floats ---- */

TEST_ON_FILE(raw_floats)
{
    static const int32_t ids[] = {4, 0, 1};
    struct bytes b = {0};
    struct ref_options options = {
        .n_vocab = V, .ids = ids, .n_ids = 3, .shape_rows = 3, .shape_cols = V};
    double row[V];
    for (int i = 0; i < 3 * V; i++)
        add_f32(&b, (float)-i);
    struct reference *ref = open_bytes(*state, &b, &options);
    assert_int_equal(reference_row(ref, 0, 2, row, NULL), MGPT_OK);
    assert_true(row[1] == -11);
    assert_int_equal(reference_sequence(ref, 0).ids[0], 4);
    reference_close(ref);
    assert_robust(*state, &b, arr_len(b.data), &options);
    options.shape_cols = V + 1;
    assert_bad(*state, b.data, arr_len(b.data), &options, MGPT_EFILE, "6 logits a row");
    options.shape_cols = V;
    options.shape_rows = UINT64_MAX / 4;
    assert_bad(*state, b.data, arr_len(b.data), &options, MGPT_EFILE,
               "60 bytes, expected those of");
    options.shape_rows = 3;
    options.n_ids = 2;
    assert_bad(*state, b.data, arr_len(b.data), &options, MGPT_EFILE, "2 tokens, but 3 rows");
    options.ids = NULL;
    assert_bad(*state, b.data, arr_len(b.data), &options, MGPT_EARG, "--ids");
    drop(&b);
}

/* Logits of minus infinity are left out of a row. A row that has no others, or NaN or infinity among them, stays whole:
 * it must differ. */
TEST_ON_FILE(masked_tokens)
{
    static const float rows[][V] = {{1, -INFINITY, 3, -INFINITY, 5},
                                    {NAN, -INFINITY, 3, 4, 5},
                                    {1, -INFINITY, 3, 4, INFINITY},
                                    {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
                                    {1, 2, 3, 4, 5}};
    static const int32_t ids[COUNT(rows)] = {4, 0, 2, 1, 3}, kept[] = {0, 2, 4};
    struct ref_options options = {.n_vocab = V, .ids = ids, .n_ids = COUNT(rows)};
    struct bytes b = {0};
    double row[V];
    options.shape_rows = COUNT(rows);
    options.shape_cols = V;
    add(&b, rows, sizeof rows);
    struct reference *ref = open_bytes(*state, &b, &options);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(reference_row(ref, 0, i, row, NULL), MGPT_OK);
        struct ref_row about = reference_about(ref);
        assert_int_equal(about.n, i ? V : 3);
        assert_int_equal(about.masked, i ? 0 : 2);
        if (i == 0)
            assert_memory_equal(about.ids, kept, sizeof kept);
        assert_true(i > 0 || (row[0] == 1 && row[1] == 3 && row[2] == 5));
        assert_true(i == 0 || !about.ids);
    }
    reference_close(ref);
    drop(&b);
}

/* ---- JSON Lines and log-probabilities of some tokens ---- */

static struct reference *open_text(const char *path, const char *text)
{
    struct bytes b = {0};
    const struct ref_options options = plain();
    add(&b, text, strlen(text));
    struct reference *ref = open_bytes(path, &b, &options);
    drop(&b);
    return ref;
}

TEST_ON_FILE(json_lines)
{
    double row[V];
    struct reference *ref =
        open_text(*state, "{\"ids\": [1], \"logits\": [[1, 2, 3, 4, 5]]}\n"
                          "\n{\"ids\": [2], \"logits\": [[6, 7, 8, 9, 10]]}\r\n"
                          "{\"ids\": [3, 4], \"top_logprobs\": [null, {\"0\": -1}]}");
    assert_int_equal(reference_count(ref), 3);
    assert_int_equal(reference_row(ref, 1, 0, row, NULL), MGPT_OK);
    assert_true(row[4] == 10 && reference_about(ref).n == V);
    assert_int_equal(reference_row(ref, 2, 0, row, NULL), MGPT_OK);
    assert_true(row[0] == -1 && reference_about(ref).n == 1);
    reference_close(ref);
}

/* An answer follows its prompt, also where both have as many tokens. */
TEST_ON_FILE(an_answer_as_long_as_its_prompt)
{
    static const char text[] = "{\"logprobs\": {\"content\": [{\"id\": 3, \"logprob\": -1}, "
                               "{\"id\": 0, \"logprob\": -2}]}}";
    static const int32_t prompt[] = {1, 2}, all[] = {1, 2, 3, 0};
    const struct ref_options options = {.n_vocab = V, .ids = prompt, .n_ids = 2};
    struct bytes b = {0};
    double row[V];
    add(&b, text, sizeof text - 1);
    struct reference *ref = open_bytes(*state, &b, &options);
    assert_int_equal(reference_sequence(ref, 0).n, 4);
    assert_memory_equal(reference_sequence(ref, 0).ids, all, sizeof all);
    for (size_t r = 0; r < 4; r++) {
        assert_int_equal(reference_row(ref, 0, r, row, NULL), MGPT_OK);
        assert_int_equal(reference_about(ref).n, r == 1 || r == 2);
        if (r == 1 || r == 2)
            assert_true(row[0] == -(double)r && reference_about(ref).ids[0] == all[r + 1]);
    }
    reference_close(ref);
    drop(&b);
}

/* All spellings of a token, an empty entry, and the last token, which nothing follows. */
TEST_ON_FILE(some_log_probabilities)
{
    double row[V];
    struct reference *ref = open_text(
        *state, "{\"tokens\": [3, 0, 1, 2], \"logprobs\": {\"top_logprobs\": [null,"
                " {\"3\": -0.5, \"token_id:1\": -2},"
                " [{\"id\": 4, \"logprob\": -0.25}, {\"token\": \"2\", \"logprob\": -3}], {}]}}");
    static const int32_t ids[][2] = {{3, 1}, {4, 2}};
    static const double values[][2] = {{-0.5, -2}, {-0.25, -3}};
    for (size_t r = 0; r < 2; r++) {
        assert_int_equal(reference_row(ref, 0, r, row, NULL), MGPT_OK);
        struct ref_row about = reference_about(ref);
        assert_true(about.n == 2 && about.logprobs && about.slack == 0x1p-18 && about.floor == 0);
        assert_memory_equal(about.ids, ids[r], sizeof ids[r]);
        assert_memory_equal(row, values[r], sizeof values[r]);
    }
    for (size_t r = 2; r < 4; r++) {
        assert_int_equal(reference_row(ref, 0, r, row, NULL), MGPT_OK);
        assert_int_equal(reference_about(ref).n, 0);
    }
    reference_close(ref);
}

TEST_ON_FILE(json_is_refused)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"{\"ids\": [1], \"top_logprobs\": []}", "0 entries, expected one for each of 1"},
        {"{\"ids\": [], \"top_logprobs\": []}", "no tokens"},
        {"{\"top_logprobs\": [null]}", "no list of ids"},
        {"{\"ids\": [\"a\"], \"top_logprobs\": [null]}", "token 0 is not an integer"},
        {"{\"ids\": [1], \"top_logprobs\": [7]}", "expected null, an object or a list"},
        {"{\"ids\": [1], \"top_logprobs\": [{\"5\": -1}]}", "entry 0 names no id from 0 to 4"},
        {"{\"ids\": [1], \"top_logprobs\": [{\"a\": -1}]}", "text is not enough"},
        {"{\"ids\": [1], \"top_logprobs\": [{\"\": -1}]}", "names no id"},
        {"{\"ids\": [1], \"top_logprobs\": [{\"99999999999999999999\": -1}]}", "names no id"},
        {"{\"ids\": [1], \"top_logprobs\": [{\"1\": 1}]}", "no log-probability"},
        {"{\"ids\": [1], \"top_logprobs\": [{\"1\": null}]}", "no log-probability"},
        {"{\"ids\": [1], \"top_logprobs\": [{\"1\": -1, \"token_id:1\": -1}]}",
         "id 1 is there twice"},
        {"{\"ids\": [1], \"top_logprobs\": [[7]]}", "names no id"},
        {"{\"ids\": [1], \"logits\": [[1, 2, 3, 4, 5]]} x", "bad JSON"},
        {"{\"ids\": [1], \"logits\": [[1, 2, 3, 4, 5]]}\n{\"ids\"", "bad JSON"},
        {"{\"ids\": [1], \"logits\": [[1, 2, 3, 4, 5]]}\n7", "bad JSON"},
    };
    const struct ref_options options = plain();
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_bad(*state, bad[i].text, strlen(bad[i].text), &options, MGPT_EFILE, bad[i].error);
}

TEST_ON_FILE(tokens_from_outside_are_refused_where_there_are_some)
{
    static const int32_t ids[] = {1};
    struct ref_options options = {.n_vocab = V, .ids = ids, .n_ids = 1};
    struct bytes b = kld_file(N_CTX, V, N_CHUNK), c = llmc_file(20240327, 2, 2, 3);
    const char *json = "{\"ids\": [1], \"logits\": [[1, 2, 3, 4, 5]]}";
    assert_bad(*state, b.data, arr_len(b.data), &options, MGPT_EARG, "tokens of its own");
    assert_bad(*state, c.data, arr_len(c.data), &options, MGPT_EARG, "tokens of its own");
    assert_bad(*state, json, strlen(json), &options, MGPT_EARG, "tokens of its own");
    drop(&b);
    drop(&c);
}
