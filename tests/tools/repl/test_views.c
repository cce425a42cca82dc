/* Tests of what the looking commands of the repl compute and draw: direct logit attribution on
 * every kind of model, pictures, colours, cutting. What they print is the business of
 * cli/views.sh. */
#include "common/heat.h"
#include "repl/dla.h"
#include "repl/view.h"
#include "support/toy_oracle.h"
#include "support/toy_zoo.h"
#include "support/trace.h"
#include "support/unit.h"

#include <math.h>

/* ---- attribution ----------------------------------------------------------------------------- */

enum { N = 7, POS = 5 };

struct attributed {
    struct toy *m;
    mgpt_model *model;
    mgpt_info info;
    struct dla dla;
    int32_t tokens[N];
    float *logits; /* of the engine, at POS */
};

static struct attributed attribute(size_t zoo, int32_t token, int32_t other)
{
    struct attributed a;
    struct toy_spec spec = toy_zoo[zoo];
    spec.seed = 90 + zoo;
    a.m = toy_build(&spec);
    a.model = toy_open(a.m, NULL);
    mgpt_session *session = mgpt_session_new(a.model, NULL, NULL);
    assert_int_equal(mgpt_get_info(a.model, &a.info, NULL), MGPT_OK);
    size_t n_vocab = (size_t)a.info.n_vocab;
    a.logits = toy_alloc(n_vocab, sizeof *a.logits);
    toy_tokens(a.m, 3, a.tokens, N);
    assert_int_equal(dla_new(&a.dla, &a.info, POS, NULL), MGPT_OK);
    assert_int_equal(mgpt_tap(session, dla_points(), dla_tap, &a.dla, NULL), MGPT_OK);
    assert_int_equal(mgpt_feed(session, a.tokens, N, NULL), MGPT_OK);
    assert_int_equal(mgpt_sync(session, a.tokens, POS + 1, NULL), MGPT_OK);
    memcpy(a.logits, mgpt_logits(session), n_vocab * sizeof *a.logits);
    assert_int_equal(dla_run(&a.dla, a.model, token, other, n_vocab, NULL), MGPT_OK);
    mgpt_session_free(session);
    return a;
}

static void attributed_free(struct attributed *a)
{
    dla_free(&a->dla);
    free(a->logits);
    mgpt_close(a->model);
    toy_free(a->m);
}

/* The engine's logit before its cap; NaN where the cap leaves too little of it to tell. */
static double uncapped(const struct attributed *a, int32_t token)
{
    double x = (double)a->logits[token], cap = (double)a->info.logit_softcap;
    if (cap > 0 && fabs(x) > 0.9 * cap)
        return NAN;
    return cap > 0 ? cap * atanh(x / cap) : x;
}

/* Float32 rounds each of some hundred additions by 6e-8 of numbers near 1: 1e-5 of the sum of sizes
 * leaves room, and a wrong component is wrong by per cents. Integer types quantise what they
 * multiply to 8 bits, the values before the output matrix and the input of the head: per cents
 * of single products. */
static double tolerance(const struct attributed *a, double sizes)
{
    return (a->m->spec.type >= TOY_Q4_0 && a->m->spec.type != TOY_BF16 ? 0.03 : 1e-5) * (sizes + 1);
}

/* 1 when the engine's logits were compared, too. */
static int check_sum(size_t zoo, int32_t token, int32_t other)
{
    struct attributed a = attribute(zoo, token, other);
    const struct dla *d = &a.dla;
    double sum = d->token_part + d->position_part + d->biases, against = 0;
    double sizes = fabs(d->token_part) + fabs(d->position_part) + fabs(d->biases);
    for (size_t i = 0; i < d->n_layer; i++) {
        sum += d->mlps[i];
        sizes += fabs(d->mlps[i]);
        for (size_t h = 0; h < d->n_head; h++) {
            sum += d->heads[i * d->n_head + h];
            sizes += fabs(d->heads[i * d->n_head + h]);
        }
    }
    for (int32_t t = 0; other == DLA_MEAN && t < a.info.n_vocab; t++)
        against += uncapped(&a, t) / a.info.n_vocab;
    double logit = uncapped(&a, token) - (other == DLA_MEAN ? against : uncapped(&a, other));
    double most = tolerance(&a, sizes);
    if (!(fabs(sum - d->total) <= most) || !(fabs(d->total - logit) <= most || isnan(logit)) ||
        !(fabs(sum + d->rest - d->total) <= 1e-9 * (1 + sizes)))
        fail_msg("%s: parts %.9g, total %.9g, engine %.9g, rest %.3g, allowed %.3g",
                 a.m->spec.label, sum, d->total, logit, d->rest, most);
    attributed_free(&a);
    return !isnan(logit);
}

/* The parts add up to the engine's logits: every architecture and dialect, tied and untied heads,
 * no final norm, norms after the branches, residuals with x0 mixed in, no layers at all. */
/* Models whose residual is more than the sum of what their parts add. */
static const char *why_refused(size_t zoo)
{
    const char *arch = toy_zoo[zoo].arch;
    if (toy_zoo[zoo].out_scales || strcmp(arch, "beam") == 0)
        return "change the residual stream besides adding to it";
    return strcmp(arch, "gpt1") == 0 ? "normalises the residual stream itself" : NULL;
}

TEST(parts_add_up)
{
    size_t n_compared = 0;
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        if (why_refused(i))
            continue;
        n_compared += (size_t)check_sum(i, 1, 0);
        n_compared += (size_t)check_sum(i, toy_zoo[i].n_vocab - 1, DLA_MEAN);
    }
    assert_true(n_compared > 2 * ZOO_SIZE - 24); /* seven are left out, five cap their logits */
}

/* y = gain * (c - mean c) / deviation of x: a norm of x with its scale frozen, of a part c of x. In
 * place. */
static void frozen_norm(const struct attributed *a, const char *name, const double *x, double *c)
{
    const struct toy_tensor *gain = toy_find(a->m, name);
    int layer_norm = a->m->spec.row->layer_norm, n = a->m->spec.n_embd;
    double mean_x = 0, mean_c = 0, squares = 0;
    for (int i = 0; i < n && layer_norm; i++) {
        mean_x += x[i] / n;
        mean_c += c[i] / n;
    }
    for (int i = 0; i < n; i++)
        squares += (x[i] - mean_x) * (x[i] - mean_x) / n;
    for (int i = 0; i < n; i++)
        c[i] = (c[i] - mean_c) / sqrt(squares + (double)a->info.norm_eps) *
               (gain ? (double)gain->values[i] : 1);
}

/* What head h of a layer writes: W_O z, straight from the toy's weights and the oracle's z. */
static void write_of_head(const struct attributed *a, const struct trace *t, int layer, int head,
                          double *out)
{
    char name[80];
    int d = a->info.head_dim, n_q = d * a->info.n_head;
    const double *z = trace_at(t, MGPT_HEADS, layer)->data + (size_t)POS * (size_t)n_q;
    snprintf(name, sizeof name, "blk.%d.attn_output.weight", layer);
    const float *w = toy_find(a->m, name)->values;
    for (int i = 0; i < a->m->spec.n_embd; i++)
        for (int e = head * d; e < (head + 1) * d; e++)
            out[i] += (double)w[i * n_q + e] * z[e];
}

/* The part of a head in logit[3] - logit[1], forwards: through the norm after the branch, the
 * final norm and the head, all scales frozen. */
static double part_of_head(const struct attributed *a, const struct trace *t, int layer, int head)
{
    char name[80], bias[80];
    size_t n = (size_t)a->m->spec.n_embd;
    double *c = toy_alloc(n, sizeof *c), *all = toy_alloc(n, sizeof *all), sum = 0;
    snprintf(name, sizeof name, "blk.%d.post_attention_norm.weight", layer);
    snprintf(bias, sizeof bias, "blk.%d.attn_output.bias", layer);
    write_of_head(a, t, layer, head, c);
    for (int h = 0; h < a->info.n_head; h++)
        write_of_head(a, t, layer, h, all);
    for (size_t i = 0; toy_find(a->m, bias) && i < n; i++)
        all[i] += (double)toy_find(a->m, bias)->values[i];
    if (toy_find(a->m, name))
        frozen_norm(a, name, all, c);
    const struct toy_tensor *keep = toy_find(a->m, "resid_lambdas");
    const struct toy_tensor *backout = toy_find(a->m, "backout_lambda");
    int middle = a->m->spec.n_layer / 2;
    double to_end = 1, to_middle = layer <= middle ? 1 : 0;
    for (int l = layer + 1; keep && l < a->m->spec.n_layer; l++) {
        to_end *= (double)keep->values[l];
        to_middle *= l <= middle ? (double)keep->values[l] : 1;
    }
    for (size_t i = 0; i < n; i++)
        c[i] *= to_end - (backout ? (double)backout->values[0] * to_middle : 0);
    const double *last = trace_at(t, MGPT_RESID_POST, a->m->spec.n_layer - 1)->data + POS * n;
    if (trace_at(t, MGPT_FINAL, -1)->data)
        frozen_norm(a, "output_norm.weight", last, c);
    const struct toy_tensor *head_w = toy_find(a->m, "output.weight");
    const float *w = (head_w ? head_w : toy_find(a->m, "token_embd.weight"))->values;
    for (size_t i = 0; i < n; i++)
        sum += ((double)w[3 * n + i] - (double)w[n + i]) * c[i];
    free(c);
    free(all);
    return sum;
}

/* Each head's part, forwards and from the oracle's values. 1e-4: the engine's z is float32. */
TEST(heads_against_the_oracle)
{
    static const size_t kinds[] = {ZOO_MICROGPT_DEEP, ZOO_LLAMA_BIASES, ZOO_LLAMA_DIALECT,
                                   ZOO_GPT2,          ZOO_GEMMA3,       ZOO_OLMO,
                                   ZOO_OLMO2,         ZOO_GPTNEOX,      ZOO_NANOCHAT_2026,
                                   ZOO_NANOCHAT_SMEAR};
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        struct attributed a = attribute(kinds[k], 3, 1);
        struct trace *t = oracle_run(a.m, a.tokens, N, NULL, NULL);
        for (int l = 0; l < a.m->spec.n_layer; l++)
            for (int h = 0; h < a.info.n_head; h++) {
                double want = part_of_head(&a, t, l, h);
                double got = a.dla.heads[(size_t)l * a.dla.n_head + (size_t)h];
                if (!(fabs(got - want) <= 1e-4 * (1 + fabs(want))))
                    fail_msg("%s: head %d.%d: %.9g, expected %.9g", a.m->spec.label, l, h, got,
                             want);
            }
        trace_free(t);
        attributed_free(&a);
    }
}

TEST(no_plain_sum)
{
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        if (!why_refused(i))
            continue;
        struct toy *m = toy_build(&toy_zoo[i]);
        mgpt_model *model = toy_open(m, NULL);
        mgpt_info info;
        mgpt_error err;
        struct dla d;
        assert_int_equal(mgpt_get_info(model, &info, NULL), MGPT_OK);
        assert_int_equal(dla_new(&d, &info, 0, NULL), MGPT_OK);
        assert_int_equal(dla_run(&d, model, 1, 0, 2, &err), MGPT_EARG);
        assert_non_null(strstr(err.text, why_refused(i)));
        assert_non_null(strstr(err.text, toy_zoo[i].arch));
        dla_free(&d);
        mgpt_close(model);
        toy_free(m);
    }
}

/* ---- pictures -------------------------------------------------------------------------------- */

static char *drawn(const struct heat *heat, const struct screen *screen)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    heat_print(heat, screen, to);
    fclose(to);
    return text;
}

static struct heat filled(size_t rows, size_t cols, size_t max, enum heat_cell cell)
{
    struct heat heat = {
        .rows = {rows, "r", NULL, NULL, 0}, .cols = {cols, "c", NULL, NULL, 0}, .cell = cell};
    assert_true(heat_open(&heat, max, max));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j <= i && j < cols; j++)
            heat_put(&heat, i, j, (double)i - 3 * (double)j);
    heat_end(&heat);
    return heat;
}

TEST(small_pictures_have_numbers)
{
    struct heat heat = filled(3, 3, 10, HEAT_LARGEST);
    char *text = drawn(&heat, &(struct screen){SCREEN_PLAIN, 80});
    assert_string_equal(text, "r \\ c                  0       1       2\n"
                              "0                 0.0000       ·       ·\n"
                              "1                 1.0000 -2.0000       ·\n"
                              "2                 2.0000 -1.0000 -4.0000\n"
                              "scale -4.0000  ..::-==++*##%%@ 2.0000\n");
    free(text);
    heat_close(&heat);
}

/* 100 x 100 in cells: each the largest, or the largest in size. Above: every tenth. */
TEST(large_pictures_have_cells)
{
    struct heat heat = filled(100, 100, 10, HEAT_LARGEST);
    assert_true(heat.n_rows == 10 && heat.per_col == 10 && heat.high == 99 && heat.low == -171);
    char *text = drawn(&heat, &(struct screen){SCREEN_PLAIN, 80});
    assert_non_null(strstr(text, "\na cell: largest of 10 x 10; all 100 x 100: -o FILE\n"));
    free(text);
    heat_close(&heat);
    heat = filled(100, 100, 34, HEAT_LARGEST_SIZE);
    assert_true(heat.low == 99 - 3 * 99);
    text = drawn(&heat, &(struct screen){SCREEN_PLAIN, 80});
    assert_non_null(strstr(text, "  0         30        60        90  \n"));
    free(text);
    heat_close(&heat);
}

/* A number that is not finite is shown, also when its cell has others. */
TEST(not_finite_shows)
{
    for (int first = 0; first < 2; first++) {
        struct heat heat = {.rows = {2, "r", NULL, NULL, 0}, .cols = {1, "c", NULL, NULL, 0}};
        assert_true(heat_open(&heat, 1, 1));
        heat_put(&heat, 0, 0, first ? NAN : 5);
        heat_put(&heat, 1, 0, first ? 5 : INFINITY);
        heat_end(&heat);
        char *text = drawn(&heat, &(struct screen){SCREEN_PLAIN, 80});
        assert_non_null(strstr(text, "?"));
        free(text);
        heat_close(&heat);
    }
}

/* Two rows share a line of half blocks; the last of an odd number is alone; nothing is a
 * dot. */
TEST(half_blocks)
{
    struct heat heat = filled(3, 2, 10, HEAT_LARGEST);
    const struct screen screen = {SCREEN_TRUECOLOR, 80};
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    assert_int_equal(heat_lines(&heat, &screen), 2);
    heat_line(&heat, &screen, 0, to);
    fclose(to);
    assert_non_null(strstr(text, "▀"));
    assert_non_null(strstr(text, "▄")); /* key 1 is there for the second row only */
    assert_true(strcmp(text + n - 4, "\033[0m") == 0);
    free(text);
    heat_close(&heat);
}

/* ---- screens --------------------------------------------------------------------------------- */

/* Relative luminance of the background of a value. */
static double luminance(enum screen_mode mode, double value)
{
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    char *text = NULL;
    size_t n;
    int r, g, b, index;
    FILE *to = open_memstream(&text, &n);
    screen_ground(&(struct screen){mode, 80}, to, SCREEN_SIZES, value);
    fclose(to);
    if (mode == SCREEN_256) {
        assert_int_equal(sscanf(text, "\033[48;5;%dm", &index), 1);
        assert_in_range(index, 16, 231);
        index -= 16;
        r = levels[index / 36];
        g = levels[index / 6 % 6];
        b = levels[index % 6];
    } else {
        assert_int_equal(sscanf(text, "\033[48;2;%d;%d;%dm", &r, &g, &b), 3);
    }
    free(text);
    return 0.2126 * pow(r / 255.0, 2.2) + 0.7152 * pow(g / 255.0, 2.2) +
           0.0722 * pow(b / 255.0, 2.2);
}

/* The background of a value as it is written, for 24 bits. */
static void ground(enum screen_scale scale, double value, int rgb[3])
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    screen_ground(&(struct screen){SCREEN_TRUECOLOR, 80}, to, scale, value);
    fclose(to);
    assert_int_equal(sscanf(text, "\033[48;2;%d;%d;%dm", &rgb[0], &rgb[1], &rgb[2]), 3);
    free(text);
}

/* Minus is blue and plus is rust, as in the lab, in notebooks and in patch --html. */
TEST(signs_have_their_colours)
{
    int between[3], minus[3], none[3], plus[3];
    ground(SCREEN_SIGNS, 0.125, between); /* 0xb5dafb and 0x5f9fdb, 1 to 3: 116.5, 173.75, 227 */
    ground(SCREEN_SIGNS, 1.0 / 6, minus);
    ground(SCREEN_SIGNS, 0.5, none);
    ground(SCREEN_SIGNS, 5.0 / 6, plus);
    const int want[3][3] = {{0x5f, 0x9f, 0xdb}, {0x22, 0x24, 0x2b}, {0xdd, 0x86, 0x42}};
    const int mixed[3] = {117, 174, 227};
    assert_memory_equal(between, mixed, sizeof between);
    assert_memory_equal(minus, want[0], sizeof minus);
    assert_memory_equal(none, want[1], sizeof none);
    assert_memory_equal(plus, want[2], sizeof plus);
}

/* A picture with a number below zero has the colours of signs: zero is in the middle. */
TEST(pictures_below_zero_have_signs)
{
    struct heat heat = {.rows = {1, "row", NULL, NULL, 0}, .cols = {3, "column", NULL, NULL, 0}};
    const struct screen screen = {SCREEN_TRUECOLOR, 80};
    char *text = NULL;
    size_t n;
    assert_true(heat_open(&heat, 1, 3));
    heat_put(&heat, 0, 0, -1);
    heat_put(&heat, 0, 1, 0);
    heat_put(&heat, 0, 2, 3);
    heat_end(&heat);
    FILE *to = open_memstream(&text, &n);
    heat_print(&heat, &screen, to);
    fclose(to);
    assert_non_null(strstr(text, "\033[48;2;34;36;43m"));    /* 0 */
    assert_non_null(strstr(text, "\033[48;2;255;210;166m")); /* 3 */
    assert_non_null(strstr(text, "scale -3.0000"));
    free(text);
    heat_close(&heat);
}

/* Larger is lighter, all along: who does not see the hues sees the order. */
TEST(colors_grow_lighter)
{
    for (int mode = SCREEN_256; mode <= SCREEN_TRUECOLOR; mode++) {
        double last = -1;
        for (int i = 0; i <= 64; i++) {
            double now = luminance((enum screen_mode)mode, i / 64.0);
            if (now < last)
                fail_msg("mode %d, value %d/64: %.4f after %.4f", mode, i, now, last);
            last = now;
        }
        assert_true(last > 0.6);
    }
}

/* What is printed as 0 has no sign; other numbers are as they are. */
TEST(numbers_near_0)
{
    double found[] = {view_fixed(-0.0049, 2), view_fixed(0.0051, 2)};
    assert_memory_equal(found, ((double[]){0, 0.0051}), sizeof found);
}

TEST(text_is_cut_by_columns)
{
    static const struct {
        const char *text;
        size_t columns;
        const char *cut;
    } cases[] = {
        {"abc", 3, "abc"},
        {"abcd", 3, "ab~"},
        {"漢字語", 6, "漢字語"},
        {"漢字語", 5, "漢字~"},
        {"漢字語", 4, "漢~"},
        {"éé", 1, "~"},
        {"", 0, ""},
        {"abc", 0, ""},
        {"e\u0301x", 2, "e\u0301x"},
    };
    char text[64];
    for (size_t i = 0; i < COUNT(cases); i++) {
        strcpy(text, cases[i].text);
        screen_cut(text, cases[i].columns);
        assert_string_equal(text, cases[i].cut);
        assert_true(screen_columns(text) <= cases[i].columns);
    }
}

TEST(modes_by_name)
{
    struct screen screen;
    assert_true(screen_look(&screen, "256", 33));
    assert_int_equal(screen.mode, SCREEN_256);
    assert_int_equal(screen.width, 33);
    assert_true(screen_look(&screen, "truecolor", 0));
    assert_int_equal(screen.mode, SCREEN_TRUECOLOR);
    assert_false(screen_look(&screen, "colour", 0));
}
