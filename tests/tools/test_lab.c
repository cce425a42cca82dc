/* The lab page's module as it is compiled for this machine: its values, runs with
 * edits against the engine's own, and what it refuses. What browsers run is compared in
 * tests/lab. */
#include "base/mem.h"
#include "base/xxh64.h"
#include "engine/sampling.h"
#include "lab/module_impl.h"
#include "repl/dla.h"
#include "support/unit.h"

#include "support/ref_file.h"
#include "support/toy_zoo.h"

#include <math.h>

/* ---- runs ---- */

enum { N = 9 };

struct opened_page {
    struct toy *toy;
    const mgpt_model *model;
    mgpt_info info;
    int32_t tokens[N];
};

static struct opened_page open_lab(int zoo)
{
    struct opened_page o = {.toy = toy_build(&toy_zoo[zoo])};
    mgpt_model *model = toy_open(o.toy, NULL);
    assert_int_equal(lab_adopt(model), MGPT_OK);
    assert_int_equal(mgpt_get_info(model, &o.info, NULL), MGPT_OK);
    toy_tokens(o.toy, 5, o.tokens, N);
    o.model = model;
    return o;
}

static void close_lab(struct opened_page *o)
{
    lab_close();
    toy_free(o->toy);
}

static void check_lab_logits(const struct opened_page *o, int lane, size_t n)
{
    mgpt_session *session = subject_session(o->model, 1, 1);
    size_t n_vocab = (size_t)o->info.n_vocab;
    const float *rows = lab_value(lane, MGPT_LOGITS, 0);
    assert_int_equal(lab_n_tokens(lane), n);
    for (size_t i = 0; i < n; i++)
        assert_memory_equal(mgpt_step(session, o->tokens[i], NULL), rows + i * n_vocab,
                            n_vocab * sizeof *rows);
    mgpt_session_free(session);
}

/* A tap of a session of the caller's: the module has kept these rows. */
static int same_rows(const mgpt_value *value, void *n_seen)
{
    const float *rows =
        lab_value(LAB_SHOWN, (int)value->point, value->layer < 0 ? 0 : value->layer);
    size_t pos = (size_t)value->pos, cols = (size_t)value->cols, at = pos * cols;
    assert_non_null(rows);
    if (value->point == MGPT_SCORES || value->point == MGPT_WEIGHTS)
        at = (size_t)value->rows * (pos * (pos + 1) / 2);
    for (size_t i = 0; i < (size_t)value->rows; i++)
        assert_memory_equal(rows + at + i * cols, value->data + i * value->stride,
                            cols * sizeof *rows);
    ++*(size_t *)n_seen;
    return 0;
}

static void check_lab_values(const struct opened_page *o)
{
    size_t n_seen = 0;
    mgpt_session *session = subject_session(o->model, 0, 1);
    assert_int_equal(mgpt_tap(session, MGPT_POINT_BIT(MGPT_N_POINTS) - 1, same_rows, &n_seen, NULL),
                     MGPT_OK);
    assert_int_equal(mgpt_feed(session, o->tokens, N, NULL), MGPT_OK);
    assert_in_range(n_seen, 10 * (uintmax_t)o->info.n_layer, SIZE_MAX);
    mgpt_session_free(session);
}

/* The parts of a logit are those that the REPL prints, and sum to it. */
static void check_lab_dla(const struct opened_page *o, size_t pos, int32_t token)
{
    struct dla d;
    double sum = 0;
    size_t n_head = (size_t)o->info.n_head, n = 5 + (size_t)o->info.n_layer * (n_head + 1);
    const double *parts = lab_dla(LAB_SHOWN, pos, token);
    mgpt_session *session = subject_session(o->model, 0, 1);
    assert_non_null(parts);
    assert_int_equal(dla_new(&d, &o->info, pos, NULL), MGPT_OK);
    assert_int_equal(mgpt_tap(session, dla_points(), dla_tap, &d, NULL), MGPT_OK);
    assert_int_equal(mgpt_feed(session, o->tokens, N, NULL), MGPT_OK);
    assert_int_equal(dla_run(&d, o->model, token, DLA_NONE, 0, NULL), MGPT_OK);
    const double first[] = {d.total, d.token_part, d.position_part, d.biases, d.rest};
    assert_memory_equal(parts, first, sizeof first);
    for (size_t i = 0; i < (size_t)o->info.n_layer; i++) {
        assert_memory_equal(parts + 5 + i * (n_head + 1), d.heads + i * n_head,
                            n_head * sizeof *parts);
        assert_memory_equal(parts + 5 + i * (n_head + 1) + n_head, d.mlps + i, sizeof *parts);
    }
    for (size_t i = 1; i < n; i++)
        sum += parts[i];
    assert_true(fabs(sum - parts[0]) <= 1e-9 * (1 + fabs(sum))); /* float64, a few hundred terms */
    mgpt_session_free(session);
    dla_free(&d);
}

TEST(every_model)
{
    for (int zoo = 0; zoo < ZOO_SIZE; zoo++) {
        struct opened_page o = open_lab(zoo);
        for (size_t n = 1; n <= N; n += 4)
            assert_int_equal(lab_run(LAB_SHOWN, o.tokens, n), MGPT_OK);
        check_lab_logits(&o, LAB_SHOWN, N);
        check_lab_values(&o);
        if (strcmp(toy_zoo[zoo].arch, "gpt1") != 0 && strcmp(toy_zoo[zoo].arch, "gemma4") != 0 &&
            strcmp(toy_zoo[zoo].arch, "beam") != 0 && !strstr(toy_zoo[zoo].arch, "modernbert"))
            check_lab_dla(&o, 2, 1);
        else
            assert_null(lab_dla(
                LAB_SHOWN, 2, 1)); /* the residual is normed or scaled, or the head is not linear */
        assert_int_equal(lab_run(LAB_SHOWN, o.tokens, 3), MGPT_OK); /* back */
        check_lab_logits(&o, LAB_SHOWN, 3);
        close_lab(&o);
    }
}

/* What a tap of the caller's makes of the heads, and what it finds. */
struct silence {
    int32_t layer, head, head_dim;
    float factor;
};

static int silence(const mgpt_value *value, void *user)
{
    const struct silence *s = user;
    for (int32_t i = 0; value->layer == s->layer && i < value->rows; i++)
        for (int32_t k = 0; k < s->head_dim; k++)
            value->data[(size_t)i * value->stride + (size_t)(s->head * s->head_dim + k)] *=
                s->factor;
    return 0;
}

TEST(edits)
{
    struct opened_page o = open_lab(ZOO_LLAMA_DEEP);
    struct silence s = {1, 1, o.info.head_dim, 0.25f};
    mgpt_session *session = subject_session(o.model, 4, 1);
    assert_int_equal(lab_run(LAB_SHOWN, o.tokens, N), MGPT_OK);
    assert_int_equal(lab_edit(s.layer, s.head, s.factor, 0), MGPT_OK);
    assert_int_equal(lab_run(LAB_SHOWN, o.tokens, N), MGPT_OK);
    assert_int_equal(mgpt_tap(session, MGPT_POINT_BIT(MGPT_HEADS), silence, &s, NULL), MGPT_OK);
    assert_int_equal(mgpt_feed(session, o.tokens, N, NULL), MGPT_OK);
    const float *rows = lab_value(LAB_SHOWN, MGPT_LOGITS, 0);
    assert_memory_equal(mgpt_logits(session), rows + (N - 1) * (size_t)o.info.n_vocab,
                        (size_t)o.info.n_vocab * sizeof *rows);
    assert_int_equal(lab_draft(LAB_SHOWN, N - 1), MGPT_OK); /* a draft has the edits, too */
    assert_memory_equal(lab_draft_step(LAB_SHOWN, o.tokens[N - 1]), mgpt_logits(session),
                        (size_t)o.info.n_vocab * sizeof *rows);
    mgpt_session_free(session);

    /* An MLP that gives its mean gives the same in every position. */
    lab_edits_clear();
    assert_int_equal(lab_edit(0, -1, 0, 1), MGPT_OK);
    assert_int_equal(lab_run(LAB_SHOWN, o.tokens, N), MGPT_OK);
    size_t E = (size_t)o.info.n_embd;
    const float *out = lab_value(LAB_SHOWN, MGPT_MLP_OUT, 0);
    const float *plain = lab_value(LAB_PLAIN, MGPT_MLP_OUT, 0);
    for (size_t i = 0; i < E; i++) {
        double sum = 0;
        for (size_t pos = 0; pos < N; pos++)
            sum += (double)plain[pos * E + i];
        for (size_t pos = 0; pos < N; pos++)
            assert_true(out[pos * E + i] == (float)(sum / N));
    }
    check_lab_logits(&o, LAB_PLAIN, N);
    lab_edits_clear();
    assert_int_equal(lab_run(LAB_SHOWN, o.tokens, N), MGPT_OK);
    check_lab_logits(&o, LAB_SHOWN, N);
    close_lab(&o);
}

/* weights/names.gguf, whose texts end with BOS. */
static void lab_open_names(void)
{
    FILE *from = fopen(unit_path("weights/names.gguf"), "rb");
    assert_non_null(from);
    assert_int_equal(fseek(from, 0, SEEK_END), 0);
    size_t n = (size_t)ftell(from);
    uint8_t *bytes = lab_room(n);
    rewind(from);
    assert_int_equal(fread(bytes, 1, n, from), n);
    assert_int_equal(fclose(from), 0);
    assert_int_equal(lab_open(bytes, n), MGPT_OK);
}

/* ---- steering, drafts ---- */

struct added_row {
    int32_t layer;
    const float *row;
};

static int add_row(const mgpt_value *value, void *user)
{
    const struct added_row *a = user;
    for (size_t i = 0; value->layer == a->layer && i < (size_t)value->rows; i++)
        for (size_t k = 0; k < (size_t)value->cols; k++)
            value->data[i * value->stride + k] += a->row[k];
    return 0;
}

/* The shown lane and a draft of it have the logits of a session to which a row is added. */
static void check_steered(const struct opened_page *o, const struct added_row *added)
{
    size_t row_bytes = (size_t)o->info.n_vocab * sizeof(float);
    mgpt_session *session = subject_session(o->model, 0, 1);
    assert_int_equal(
        mgpt_tap(session, MGPT_POINT_BIT(MGPT_RESID_POST), add_row, (void *)(uintptr_t)added, NULL),
        MGPT_OK);
    assert_int_equal(mgpt_feed(session, o->tokens, N, NULL), MGPT_OK);
    assert_int_equal(lab_run(LAB_SHOWN, o->tokens, N), MGPT_OK);
    const float *rows = lab_value(LAB_SHOWN, MGPT_LOGITS, 0);
    assert_memory_equal(rows + (N - 1) * row_bytes / sizeof *rows, mgpt_logits(session), row_bytes);
    assert_int_equal(lab_draft(LAB_SHOWN, N - 1), MGPT_OK);
    assert_memory_equal(lab_draft_step(LAB_SHOWN, o->tokens[N - 1]), mgpt_logits(session),
                        row_bytes);
    assert_int_equal(lab_n_tokens(LAB_SHOWN), N);
    mgpt_session_free(session);
}

TEST(steering)
{
    struct opened_page o = open_lab(ZOO_GPT2);
    size_t E = (size_t)o.info.n_embd;
    char shape[32];
    snprintf(shape, sizeof shape, "(%zu,)", E);
    struct bytes file = npy_of("<f4", shape);
    float *row = toy_alloc(E, sizeof *row);
    for (size_t i = 0; i < E; i++)
        row[i] = (float)(i + 1);
    add(&file, row, E * sizeof *row);
    for (size_t i = 0; i < E; i++)
        row[i] /= 4;
    assert_int_equal(lab_steer(1), MGPT_EARG); /* there is nothing to add */
    assert_int_equal(lab_steer_read(file.data, arr_len(file.data), o.info.n_layer), MGPT_EARG);
    assert_int_equal(lab_steer_read(file.data, arr_len(file.data) - 1, 1), MGPT_EFILE);
    assert_int_equal(lab_run(LAB_SHOWN, o.tokens, N), MGPT_OK);
    for (int32_t layer = 0; layer < 2; layer++) {
        assert_int_equal(lab_steer_read(file.data, arr_len(file.data), layer), MGPT_OK);
        assert_int_equal(lab_steer(0.25f), MGPT_OK);
        check_steered(&o, &(struct added_row){layer, row});
    }
    lab_edits_clear();
    assert_int_equal(lab_run(LAB_SHOWN, o.tokens, N), MGPT_OK);
    check_lab_logits(&o, LAB_SHOWN, N);
    assert_int_equal(lab_steer(0.25f), MGPT_OK); /* the last file's */
    check_steered(&o, &(struct added_row){1, row});
    drop(&file);
    free(row);
    close_lab(&o);
}

/* What a residual says, the hash of all logits, the draw of a counter, and tokens. */
TEST(looks)
{
    struct opened_page o = open_lab(ZOO_GPT2);
    size_t n_vocab = (size_t)o.info.n_vocab;
    assert_int_equal(lab_run(LAB_SHOWN, o.tokens, N), MGPT_OK);
    const float *rows = lab_value(LAB_SHOWN, MGPT_LOGITS, 0);
    assert_true(lab_hash(LAB_SHOWN) == xxh64(rows, N * n_vocab * sizeof *rows));
    for (size_t pos = 0; pos < N; pos++)
        assert_memory_equal(lab_lens(LAB_SHOWN, MGPT_RESID_POST, o.info.n_layer - 1, pos),
                            rows + pos * n_vocab, n_vocab * sizeof *rows);
    const struct sampling s = {.sampler = {.temperature = 1.5f, .top_k = 5, .top_p = 1, .rng = 7},
                               .seed = 7};
    mgpt_sampler sampler = s.sampler;
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(lab_sample(rows, n_vocab, 1.5f, 5, 1, 0, s.seed, i),
                         mgpt_sample(&sampler, rows, n_vocab));
    close_lab(&o);
    lab_open_names();
    assert_int_equal(lab_encode("anna", 4), 4);
    assert_memory_equal(lab_tokens(), ((const int32_t[]){0, 13, 13, 0}), 4 * sizeof(int32_t));
    assert_int_equal(lab_n_ctx(), 16);
    lab_close();
}

TEST(refusals)
{
    assert_int_equal(lab_run(LAB_SHOWN, NULL, 0), MGPT_EARG);
    assert_string_equal(lab_error(), "no model is open");
    assert_int_equal(lab_encode("a", 1), MGPT_EARG);
    assert_null(lab_value(LAB_SHOWN, MGPT_LOGITS, 0));
    assert_int_equal(lab_sample(NULL, 0, 1, 0, 1, 0, 0, 0), MGPT_EARG);
    uint8_t *bytes = lab_room(4);
    memcpy(bytes, "GGUF", 4);
    assert_int_equal(lab_open(bytes, 4), MGPT_EFILE); /* still the caller's */
    lab_free(bytes);
    struct opened_page o = open_lab(ZOO_GPT2);
    assert_null(lab_value(LAB_SHOWN, MGPT_LOGITS, 0)); /* nothing has run */
    assert_int_equal(lab_open(NULL, 0), MGPT_EARG);
    assert_int_equal(lab_run(LAB_SHOWN, (const int32_t[]){o.info.n_vocab}, 1), MGPT_EARG);
    assert_int_equal(lab_run(LAB_SHOWN, o.tokens, N), MGPT_OK);
    assert_null(lab_value(LAB_SHOWN, MGPT_ROT_Q, 0)); /* it has no rope */
    assert_null(lab_value(LAB_SHOWN, MGPT_LOGITS, o.info.n_layer));
    assert_null(lab_value(LAB_LANES, MGPT_LOGITS, 0));
    assert_null(lab_lens(LAB_SHOWN, MGPT_RESID_POST, 0, N));
    assert_null(lab_lens(LAB_SHOWN, MGPT_LOGITS, 0, 0));
    assert_null(lab_dla(LAB_SHOWN, 0, o.info.n_vocab));
    assert_int_equal(lab_edit(o.info.n_layer, 0, 0, 0), MGPT_EARG);
    assert_int_equal(lab_edit(0, o.info.n_head, 0, 0), MGPT_EARG);
    close_lab(&o);
}

TEST(weights)
{
    struct opened_page o = open_lab(ZOO_GPT2);
    size_t E = (size_t)o.info.n_embd;
    float *want = lab_room(E * sizeof *want);
    assert_int_equal(mgpt_read_tensor(o.model, "token_embd.weight", 2 * E, E, want, NULL), MGPT_OK);
    assert_memory_equal(lab_weights("token_embd.weight", 2 * E, E), want, E * sizeof *want);
    assert_null(lab_weights("token_embd.weight", 0, (size_t)o.info.n_vocab * E + 1));
    assert_null(lab_weights("none", 0, 1));
    lab_free(want);
    close_lab(&o);
}

/* ---- many texts ---- */

enum { SAMPLES = 60, LONGEST = 6, NAMES = 27, BOS = 26 };

struct many_text {
    int32_t tokens[LONGEST];
    size_t n;
};

/* Sample i of a seed, drawn by itself. */
static struct many_text lone_text(const mgpt_model *model, const struct sampling *s, uint64_t i)
{
    struct many_text text = {.n = 0};
    mgpt_sampler sampler = sampling_of_sample(s, i);
    mgpt_session *session = subject_session(model, 0, 1);
    const float *logits = mgpt_step(session, BOS, NULL);
    while (text.n < LONGEST) {
        int32_t token = mgpt_sample(&sampler, logits, NAMES);
        if (token == BOS)
            break;
        text.tokens[text.n++] = token;
        logits = mgpt_step(session, token, NULL);
    }
    mgpt_session_free(session);
    return text;
}

TEST(many_texts)
{
    const struct sampling s = {.sampler = {.temperature = 1, .top_p = 1, .rng = 7}, .seed = 7};
    const int32_t bos = BOS;
    struct many_text want[SAMPLES];
    lab_open_names();
    for (uint64_t i = 0; i < SAMPLES; i++)
        want[i] = lone_text(lab_model(), &s, i);
    assert_int_equal(lab_run(LAB_SHOWN, &bos, 1), MGPT_OK);
    int left = lab_many(1, SAMPLES, LONGEST, NAMES, 1, 0, 1, 0, s.seed);
    for (int before = left; left > 0; before = left) {
        left = lab_many_step(3);
        assert_in_range(left, 0, before);
    }
    size_t n_all = 0;
    const int32_t *at = lab_many_texts(), *end = at + lab_many_size();
    for (size_t n_same; at < end; at += 2 + at[1]) {
        n_same = 0;
        for (size_t i = 0; i < SAMPLES; i++)
            n_same += want[i].n == (size_t)at[1] &&
                      memcmp(want[i].tokens, at + 2, want[i].n * sizeof *at) == 0;
        assert_int_equal(n_same, at[0]);
        n_all += n_same;
    }
    assert_int_equal(n_all, SAMPLES);
    lab_close();
}

/* ---- a neuron, a sweep ---- */

/* The last one of each layer. Gemma 4's last layers are twice as wide as its first ones. */
TEST(neuron)
{
    for (size_t k = 0; k < 2; k++) {
        struct opened_page o = open_lab(k ? ZOO_GEMMA4_INPUTS : ZOO_GPT2);
        size_t E = (size_t)o.info.n_embd, n = (size_t)o.info.n_vocab;
        float *column = toy_alloc(E + n, sizeof *column), *want = column + E;
        mgpt_session *session = subject_session(o.model, 0, 1);
        for (int layer = 0; layer < o.info.n_layer; layer++) {
            mgpt_layer l;
            char name[40];
            snprintf(name, sizeof name, "blk.%d.ffn_down.weight", layer);
            mgpt_get_layer(o.model, (size_t)layer, &l, NULL);
            size_t F = (size_t)l.n_ff;
            for (size_t i = 0; i < E; i++)
                mgpt_read_tensor(o.model, name, i * F + F - 1, 1, &column[i], NULL);
            assert_int_equal(mgpt_unembed(session, column, want, NULL), MGPT_OK);
            assert_memory_equal(lab_neuron(layer, l.n_ff - 1), want, n * sizeof *want);
            assert_null(lab_neuron(layer, l.n_ff));
        }
        mgpt_session_free(session);
        free(column);
        close_lab(&o);
    }
}

static double lone_logprob(const struct opened_page *o, const int32_t *tokens)
{
    mgpt_session *session = subject_session(o->model, 0, 1);
    subject_feed(session, tokens, N);
    double value = mgpt_logprob(mgpt_logits(session), (size_t)o->info.n_vocab, 1);
    mgpt_session_free(session);
    return value;
}

/* Prompts that differ in one token: its residual, patched, makes one the other. */
TEST(patch)
{
    enum { AT = 4 };
    struct opened_page o = open_lab(ZOO_LLAMA_DEEP);
    int32_t other[N];
    memcpy(other, o.tokens, sizeof other);
    other[AT] = (other[AT] + 1) % o.info.n_vocab;
    double clean = lone_logprob(&o, o.tokens), corrupt = lone_logprob(&o, other);
    assert_true(lab_patch(o.tokens, N, other, N, "resid_pre", "patch", "logprob:1") > 0);
    while (lab_patch_step(20) > 0)
        continue;
    assert_memory_equal(&(double){lab_patch_metric(0)}, &clean, sizeof clean);
    assert_memory_equal(&(double){lab_patch_metric(1)}, &corrupt, sizeof corrupt);
    assert_int_equal(lab_patch_heads(), 0);
    for (size_t pos = 0; pos < N; pos++)
        assert_memory_equal(&lab_patch_values()[pos], pos == AT ? &clean : &corrupt, sizeof clean);
    assert_int_equal(lab_patch_apply(AT), MGPT_OK); /* of what runs next: the corrupted prompt */
    assert_int_equal(lab_run(LAB_SHOWN, other, N), MGPT_OK);
    const float *rows = lab_value(LAB_SHOWN, MGPT_LOGITS, 0);
    size_t n_vocab = (size_t)o.info.n_vocab;
    assert_true(mgpt_logprob(rows + (N - 1) * n_vocab, n_vocab, 1) == clean);
    close_lab(&o);
}
