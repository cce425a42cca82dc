/* The lab page's module as it is compiled for this machine: its fmaf against the C library's, runs
 * with edits against the engine's own, and what it refuses. What browsers run is compared in
 * tests/lab. */
#include "engine/sampling.h"
#include "lab/module_impl.h"
#include "lab/wasm/fma.h"
#include "support/unit.h"
#undef fmaf

#include "support/toy_zoo.h"

#include <math.h>

/* ---- fmaf ---- */

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static void check_fmaf(float a, float b, float c)
{
    float want = fmaf(a, b, c), got = lab_fmaf(a, b, c);
    if (bits_of(want) != bits_of(got) && !(isnan(want) && isnan(got)))
        fail_msg("fmaf(%a, %a, %a) is %a, not %a", (double)a, (double)b, (double)c, (double)want,
                 (double)got);
}

/* All combinations of what is special: zeros, subnormals, the largest, infinities, NaN. */
TEST(fmaf_special)
{
    static const float values[] = {
        0.0f,      1.0f,     1.5f,          0x1p-149f,       0x1.fffffcp-127f,
        0x1p-126f, 0x1p-75f, 0x1p-74f,      0x1.fffffep127f, 0x1p64f,
        INFINITY,  NAN,      0x1.000002p0f, 0x1.fffffep-1f};
    enum { N = COUNT(values) };
    for (size_t i = 0; i < 8 * N * N * N; i++) {
        size_t k = i / 8;
        check_fmaf(i & 1 ? -values[k % N] : values[k % N],
                   i & 2 ? -values[k / N % N] : values[k / N % N],
                   i & 4 ? -values[k / N / N] : values[k / N / N]);
    }
}

/* Where two roundings to nearest go wrong: the sum of c and the first bits of the product is
 * halfway between two floats, and the product has a little more or less. */
TEST(fmaf_midpoints)
{
    uint64_t rng = 1;
    size_t n_wrong = 0;
    for (int i = 0; i < 200000; i++) {
        uint64_t r = toy_random(&rng);
        float c = float_of(0x3F800000u + (uint32_t)(r & 0xFFFFF)); /* 1 .. 1.125 */
        int tail = (int)(r >> 20 & 15) + 28; /* the product is 2^-24 (1 + or - 2^-tail) */
        float a = 1.0f + ldexpf(1.0f, -(tail / 2)), b = 1.0f - ldexpf(1.0f, -(tail / 2));
        a = r >> 24 & 1 ? 1.0f + ldexpf(1.0f, -23) : a;
        float by = ldexpf(r >> 25 & 1 ? -1.0f : 1.0f, -24);
        int shift = (int)(r >> 32 & 127) - 90; /* down to subnormal sums */
        check_fmaf(a * by, ldexpf(b, shift), ldexpf(c, shift));
        check_fmaf(a, ldexpf(b * by, shift), ldexpf(c, shift));
        double twice = (double)(a * by) * (double)ldexpf(b, shift) + (double)ldexpf(c, shift);
        n_wrong += (float)twice != fmaf(a * by, ldexpf(b, shift), ldexpf(c, shift));
    }
    assert_true(n_wrong > 1000); /* else these are not hard cases */
}

TEST(fmaf_random)
{
    uint64_t rng = 2;
    for (int i = 0; i < 300000; i++) {
        uint64_t r = toy_random(&rng), s = toy_random(&rng);
        float a = float_of((uint32_t)r), b = float_of((uint32_t)(r >> 32));
        check_fmaf(a, b, float_of((uint32_t)s));
        /* A third number near the product, and of numbers with few bits, whose sums are often
         * exact. */
        check_fmaf(a, b, -(a * b) * (1 + ldexpf((float)(s >> 32 & 255), -23)));
        a = (float)(int)(r & 4095) - 2048;
        b = ldexpf((float)(r >> 12 & 4095), -(int)(r >> 24 & 63));
        check_fmaf(a, b, ldexpf((float)(int)(s & 0xFFFFFF), -(int)(s >> 24 & 63)));
    }
}

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

TEST(every_model)
{
    for (int zoo = 0; zoo < ZOO_SIZE; zoo++) {
        struct opened_page o = open_lab(zoo);
        for (size_t n = 1; n <= N; n += 4)
            assert_int_equal(lab_run(LAB_SHOWN, o.tokens, n), MGPT_OK);
        check_lab_logits(&o, LAB_SHOWN, N);
        assert_int_equal(lab_run(LAB_SHOWN, o.tokens, 3), MGPT_OK); /* back */
        check_lab_logits(&o, LAB_SHOWN, 3);
        const double *parts = lab_dla(LAB_SHOWN, 2, 1);
        int residual = strcmp(toy_zoo[zoo].arch, "gpt1") == 0; /* norms of it: not attributed */
        assert_int_equal(parts != NULL, !residual);
        double sum = 0;
        for (size_t i = 1;
             !residual && i < 5 + (size_t)o.info.n_layer * ((size_t)o.info.n_head + 1); i++)
            sum += parts[i];
        if (!residual) /* float64, a few hundred terms */
            assert_true(fabs(sum - parts[0]) <= 1e-9 * (1 + fabs(sum)));
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
    const float one = 1;
    assert_int_equal(lab_attend(&one, 1, 1, &one, &one, 1, &one, 1, -1, 0, 1), MGPT_EARG);
    assert_int_equal(lab_attend(&one, 0, 1, &one, &one, 1, &one, 1, 1, 0, 1), MGPT_EARG);
    assert_int_equal(lab_attend(&one, 1, 1, &one, &one, 1, &one, 1, 1, 0, 1), MGPT_OK);
    assert_null(lab_attended('s', 1));
    assert_null(lab_attended('?', 0));
    assert_true(*lab_attended('a', 0) == 1.0f);
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

/* ---- a neuron, a sweep, matrices of one's own ---- */

TEST(neuron)
{
    struct opened_page o = open_lab(ZOO_GPT2);
    size_t E = (size_t)o.info.n_embd, F = (size_t)o.info.n_ff, n = (size_t)o.info.n_vocab;
    float *column = toy_alloc(E + n, sizeof *column), *want = column + E;
    mgpt_session *session = subject_session(o.model, 0, 1);
    for (size_t i = 0; i < E; i++)
        assert_int_equal(
            mgpt_read_tensor(o.model, "blk.1.ffn_down.weight", i * F + F - 1, 1, &column[i], NULL),
            MGPT_OK);
    assert_int_equal(mgpt_unembed(session, column, want, NULL), MGPT_OK);
    assert_memory_equal(lab_neuron(1, (int)F - 1), want, n * sizeof *want);
    assert_null(lab_neuron(1, (int)F));
    mgpt_session_free(session);
    free(column);
    close_lab(&o);
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

/* Two tokens, two heads of one dimension: each matrix has its own place. */
TEST(attend)
{
    static const float x[] = {1, 0, 0, 2}, q[] = {1, 2, 3, 4}, k[] = {5, 6, 7, 8},
                       v[] = {1, 3, 5, 7};
    static const float want_q[] = {1, 2, 6, 8}, want_k[] = {5, 6, 14, 16},
                       want_v[] = {1, 3, 10, 14};
    assert_int_equal(lab_attend(x, 2, 2, q, k, 2, v, 2, 2, 1, 2), MGPT_OK);
    assert_memory_equal(lab_attended('q', 0), want_q, sizeof want_q);
    assert_memory_equal(lab_attended('k', 0), want_k, sizeof want_k);
    assert_memory_equal(lab_attended('v', 0), want_v, sizeof want_v);
    const float s[] = {2 * 6, 2 * 16, 8 * 6, 8 * 16}, *scaled = lab_attended('t', 1);
    assert_memory_equal(lab_attended('s', 1), s, sizeof s);
    assert_true(lab_tau() == 2 && scaled[3] == s[3] / 2);
    assert_true(lab_attended('a', 1)[1] == 0 && lab_attended('h', 1)[0] == want_v[1]);
    assert_true(lab_attended('o', 0)[1] == want_v[1]);
    lab_attend_free();
}
