/* The float64 oracle itself against logits that another program computed, namely the
 * references of weights/, which weights/reference.py made with numpy in float64. Between them both
 * architectures without rope are covered at full size; rope is tested against its definition.
 *
 * The readers of .json and .npz here know the shape of those two files and nothing more. */
#include "check/oracle/oracle_math.h"
#include "support/build_model.h"
#include "support/toy_oracle.h"
#include "support/trace.h"
#include "support/unit.h"

#include <math.h>

enum { MAX_TOKENS = 1024 };

/* The bytes of a file and a NUL; NULL when there is none. */
static char *slurp(const char *name, size_t *size)
{
    FILE *f = fopen(unit_path(name), "rb");
    if (!f)
        return NULL;
    char *text = toy_alloc((size_t)1 << 20, 1);
    *size = fread(text, 1, ((size_t)1 << 20) - 1, f);
    assert_true(feof(f));
    fclose(f);
    return text;
}

/* Both sides sum in float64, in different orders: 1e-12 is some thousand units in the last place of
 * a logit, and a thousandth of what a float32 engine can do. */
static void check_logits(const struct toy *m, const int32_t *tokens, size_t n,
                         const double *expected)
{
    struct trace *t = oracle_run(m, tokens, n, NULL, NULL);
    const struct trace_value *logits = trace_at(t, MGPT_LOGITS, -1);
    for (size_t i = 0; i < n * logits->cols; i++)
        if (!(fabs(logits->data[i] - expected[i]) <= 1e-12 * (1 + fabs(expected[i]))))
            fail_msg("position %zu, token %zu: %.17g, reference %.17g", i / logits->cols,
                     i % logits->cols, logits->data[i], expected[i]);
    trace_free(t);
}

/* The next number after p; *end_of_list becomes 1 when `]` or `]]` comes first. */
static double next_number(const char **p, int depth, int *end_of_list)
{
    int closed = 0;
    for (; **p && !strchr("-0123456789", **p); ++*p) {
        closed += **p == ']';
        if (closed == depth)
            break;
    }
    *end_of_list = closed == depth || !**p;
    if (*end_of_list)
        return 0;
    char *end;
    double v = strtod(*p, &end);
    *p = end;
    return v;
}

TEST(names_reference)
{
    size_t size, n_sequences = 0;
    char *text = slurp("weights/names.ref.json", &size);
    struct toy *m = toy_load(unit_path("weights/names.gguf"));
    if (!text || !m)
        skip();
    size_t n_vocab = (size_t)m->spec.n_vocab;
    double *logits = toy_alloc(MAX_TOKENS * n_vocab, sizeof *logits);
    for (const char *p = text; (p = strstr(p, "\"input\"")) != NULL; n_sequences++) {
        int32_t tokens[MAX_TOKENS];
        size_t n = 0, n_logits = 0;
        int end = 0;
        for (p = strchr(p, '['); n < MAX_TOKENS && !end; n += !end)
            tokens[n] = (int32_t)next_number(&p, 1, &end);
        for (p = strchr(p, '['), end = 0; n_logits < n * n_vocab && !end; n_logits += !end)
            logits[n_logits] = next_number(&p, 2, &end);
        assert_int_equal(n_logits, n * n_vocab);
        check_logits(m, tokens, n, logits);
    }
    assert_true(n_sequences >= 5);
    free(logits);
    free(text);
    toy_free(m);
}

/* The data of the .npy entry in a stored .npz whose header says `descr`; NULL: none. */
static const char *find_array(const char *file, size_t size, const char *descr)
{
    for (size_t i = 0; i + 128 < size; i++) {
        if (memcmp(file + i, "\x93NUMPY\x01", 7) != 0)
            continue;
        size_t header = (unsigned char)file[i + 8] + 256u * (unsigned char)file[i + 9];
        char text[256] = "";
        memcpy(text, file + i + 10, header < 255 ? header : 255);
        if (strstr(text, descr))
            return file + i + 10 + header;
    }
    return NULL;
}

TEST(shakespeare_reference)
{
    enum { N = 50 };
    size_t size;
    char *file = slurp("weights/shakespeare.ref.npz", &size);
    struct toy *m = toy_load(unit_path("weights/shakespeare.gguf"));
    if (!file || !m)
        skip();
    const char *ids = find_array(file, size, "<i4"), *values = find_array(file, size, "<f8");
    assert_non_null(ids);
    assert_non_null(values);
    int32_t tokens[N];
    size_t n_logits = N * (size_t)m->spec.n_vocab;
    double *logits = toy_alloc(n_logits, sizeof *logits);
    memcpy(tokens, ids, sizeof tokens);
    assert_true((size_t)(values - file) + n_logits * sizeof *logits <= size);
    memcpy(logits, values, n_logits * sizeof *logits);
    check_logits(m, tokens, N, logits);
    free(logits);
    free(file);
    toy_free(m);
}

/* Rope by its defining property (Su et al. 2021): the score of two equal vectors depends on their
 * distance alone, and rotation keeps lengths. All tokens are equal, so all queries and keys are. */
TEST(rope_scores_depend_on_distance)
{
    enum { N = 12 };
    const struct toy_spec spec = {.label = "rope",
                                  .arch = "llama",
                                  .n_layer = 1,
                                  .n_embd = 16,
                                  .n_head = 1,
                                  .n_ff = 8,
                                  .n_ctx = N,
                                  .n_vocab = 2,
                                  .seed = 4};
    struct toy *m = toy_build(&spec);
    const int32_t tokens[N] = {0};
    struct trace *t = oracle_run(m, tokens, N, NULL, NULL);
    const double *scores = trace_at(t, MGPT_SCORES, 0)->data;
    const double *k = trace_at(t, MGPT_K, 0)->data, *rotated = trace_at(t, MGPT_ROT_K, 0)->data;
    for (size_t i = 1; i < N; i++) {
        double before = 0, after = 0, moved = 0;
        for (size_t j = 1; j <= i; j++)
            assert_true(fabs(scores[i * N + j] - scores[(i - 1) * N + j - 1]) <= 1e-12);
        for (size_t j = 0; j < 16; j++) {
            before += k[i * 16 + j] * k[i * 16 + j];
            after += rotated[i * 16 + j] * rotated[i * 16 + j];
            moved += fabs(rotated[i * 16 + j] - k[i * 16 + j]);
        }
        assert_true(fabs(before - after) <= 1e-12 * before);
        assert_true(moved > 0.01);
    }
    /* The first pair, which is shown in halves, rotates by one radian per position, first component
     * towards the second. */
    assert_true(fabs(rotated[16] - (k[16] * cos(1) - k[24] * sin(1))) <= 1e-12);
    assert_true(fabs(rotated[24] - (k[16] * sin(1) + k[24] * cos(1))) <= 1e-12);
    trace_free(t);
    toy_free(m);
}

/* ---- which KV head a query head reads ---- */

static enum oracle_kv other_kv;

static void read_other_heads(struct oracle_spec *spec, struct oracle_layer *layers)
{
    for (size_t i = 0; i < spec->n_layer; i++)
        layers[i].kv = other_kv;
}

/* The tensors of a model with fewer KV heads. Head h gets the rows of head from[h]. */
static void copy_heads(struct toy *to, const struct toy *m, const size_t *from)
{
    for (size_t i = 0; i < to->n_tensors; i++) {
        struct toy_tensor *t = &to->tensors[i];
        const struct toy_tensor *old = toy_find(m, t->name);
        int is_kv = strstr(t->name, ".attn_k.") || strstr(t->name, ".attn_v.");
        size_t head = is_kv ? t->n / (size_t)to->spec.n_head_kv : t->n;
        for (size_t h = 0; h < t->n / head; h++)
            memcpy(t->values + h * head, old->values + (is_kv ? from[h] : 0) * head,
                   head * sizeof *t->values);
    }
}

/* As a model of ordinary attention with a KV head for each query head. */
TEST(kv_heads_by_definition)
{
    enum { H = 6, N = 9 };
    static const size_t read[][H] = {[ORACLE_KV_GROUPED] = {0, 0, 0, 1, 1, 1},
                                     [ORACLE_KV_INTERLEAVED] = {0, 1, 0, 1, 0, 1},
                                     [ORACLE_KV_FIRST] = {0, 0, 0, 0, 0, 0},
                                     [ORACLE_KV_SAME] = {0, 1, 1, 1, 1, 1},
                                     [ORACLE_KV_BY_NUMBER] = {0, 0, 1, 1, 1, 1}};
    const int32_t tokens[N] = {0, 1, 2, 3, 4, 3, 1, 0, 2};
    struct toy_spec spec = {.label = "KV heads",
                            .arch = "llama",
                            TOY_SIZES(2, 24, H, 8, N, 5),
                            .n_head_kv = 2,
                            .seed = 9};
    struct toy *m = toy_build(&spec);
    m->differs = read_other_heads;
    for (size_t kv = 0; kv < COUNT(read); kv++) {
        spec.n_head_kv = H;
        struct toy *plain = toy_build(&spec);
        copy_heads(plain, m, read[kv]);
        struct trace *t = oracle_run(plain, tokens, N, NULL, NULL);
        other_kv = (enum oracle_kv)kv;
        check_logits(m, tokens, N, trace_at(t, MGPT_LOGITS, -1)->data);
        trace_free(t);
        toy_free(plain);
    }
    toy_free(m);
}

/* A product with one position has the bits of that position in blocks of several. */
TEST(one_position_as_in_a_block)
{
    enum { ROWS = 19, WIDTH = 13 };
    float w[ROWS * WIDTH];
    double x[MATH_ROWS * WIDTH], block[MATH_ROWS * WIDTH], one[ROWS];
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        w[i] = (float)sin((double)i);
    for (size_t i = 0; i < MATH_ROWS * WIDTH; i++)
        x[i] = cos((double)i);
    for (size_t k = 0; k < ROWS; k++)
        one[k] = (double)k;
    math_transpose(block, x, WIDTH, MATH_ROWS);
    math_dots_with_one(w, ROWS, x, WIDTH, one);
    for (size_t n = 1; n <= MATH_ROWS; n++)
        for (size_t k = 0; k < ROWS; k++) {
            size_t n_w = k + MATH_COLS <= ROWS ? MATH_COLS : 1;
            double sum[MATH_COLS][MATH_ROWS] = {{(double)k}};
            math_dots(w + k * WIDTH, n_w, block, WIDTH, n, sum);
            assert_memory_equal(&sum[0][0], &one[k], sizeof one[k]);
        }
}

/* Rounding to a shorter type, by ldexp and rint. */
TEST(rounded_by_definition)
{
    static const struct {
        int bits, least;
        double most;
    } types[] = {[ORACLE_BF16] = {8, -133, 0x1.fep127},
                 [ORACLE_F16] = {11, -24, 65504},
                 [ORACLE_F8_E4M3] = {4, -9, 448},
                 [ORACLE_F8_E5M2] = {3, -16, 57344},
                 [ORACLE_TF32] = {11, -136, 0x1.ffcp127}};
    struct oracle_spec spec = {0};
    for (int i = 0; i < 60000; i++) {
        double x = ldexp(i % 3 ? sin(i) : (double)(i % 4096) / 2048 - 1, i % 300 - 150), to;
        for (int type = ORACLE_BF16; type <= ORACLE_TF32; type++) {
            int e;
            frexp(x, &e);
            e = e - types[type].bits > types[type].least ? e - types[type].bits : types[type].least;
            to = ldexp(rint(ldexp(x, -e)), e);
            to = fabs(to) > types[type].most ? copysign(INFINITY, x) : to;
            spec.type = (enum oracle_type)type;
            double is = math_rounded(&spec, x);
            assert_memory_equal(&is, &to, sizeof to);
        }
    }
}
