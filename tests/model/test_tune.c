/* The measurement when a model is opened: who measures, what is chosen, how to fix the choice. */
#include "base/mem.h"
#include "model/model.h"
#include "support/unit.h"

#include <stdlib.h>

enum { LAYERS = 6, IN = 1024, OUT = 1024 }; /* a matrix is a slice: three rounds of four */

/* A model of matrices `up` and `gate` alone, of zeros. */
struct tuned {
    mgpt_model m;
    struct layer layers[2 * LAYERS];
    void *w;
};

static void tune_make(struct tuned *t, const char *isa, enum weight_type type)
{
    *t = (struct tuned){.m = {.shape.n_layer = LAYERS, .layers = t->layers}};
    assert_true(kernels_init(&t->m.kernels, isa));
    size_t panel_bytes = kernels_panel_bytes(type, IN);
    t->m.x_bytes = weight_is_integer(type) ? kernels_x_bytes(type, IN) : 0;
    t->m.packed_bytes = TUNE_LEAST;
    t->w = mem_new(panels_of(OUT), panel_bytes);
    assert_non_null(t->w);
    for (size_t i = 0; i < 2 * LAYERS; i++)
        t->layers[i].up = t->layers[i].gate = (struct linear){
            .w = t->w, .type = type, .n_in = IN, .n_out = OUT, .panel_bytes = panel_bytes};
}

static size_t tune_measured(struct tuned *t, int n_threads)
{
    size_t n = 0;
    model_tune(&t->m, n_threads);
    for (size_t i = 0; i < N_STREAMINGS; i++)
        n += t->m.streaming_rate[i] > 0;
    free(t->w);
    return n;
}

static void tune_check(const mgpt_model *m)
{
    const double *rate = m->streaming_rate;
    size_t chosen = m->kernels.streaming;
    assert_true(chosen == 0 || rate[chosen] > 1.05 * rate[0]);
    for (size_t i = 0; i < N_STREAMINGS; i++)
        assert_true(rate[i] <= rate[chosen] || (chosen == 0 && rate[i] <= 1.05 * rate[0]));
}

TEST(measures)
{
    struct tuned t;
    for (int i = 0; i < 5; i++) {
        tune_make(&t, NULL, WEIGHT_Q8_0);
        assert_int_equal(tune_measured(&t, 1), N_STREAMINGS);
        tune_check(&t.m);
        tune_make(&t, NULL, WEIGHT_Q4_K);
        assert_int_equal(tune_measured(&t, 1), 3); /* two panels: 8 bits */
        tune_check(&t.m);
        tune_make(&t, NULL, WEIGHT_F32);
        assert_int_equal(tune_measured(&t, 1), 2);
        tune_check(&t.m);
    }
}

/* Each thread reads slices of its own. */
TEST(measures_with_the_threads_that_read)
{
    struct tuned t;
    tune_make(&t, NULL, WEIGHT_Q8_0);
    t.m.shape.n_layer = 2 * LAYERS;
    assert_int_equal(tune_measured(&t, 2), N_STREAMINGS);
    tune_check(&t.m);
    tune_make(&t, NULL, WEIGHT_Q8_0);
    assert_int_equal(tune_measured(&t, 2), 0); /* too few slices for two */
    assert_int_equal(t.m.kernels.streaming, 0);
}

TEST(does_not_measure)
{
    struct tuned t;
    tune_make(&t, NULL, WEIGHT_Q8_0);
    t.m.packed_bytes--; /* a small model */
    assert_int_equal(tune_measured(&t, 1), 0);
    tune_make(&t, NULL, WEIGHT_BF16_COMPRESSED); /* read in one way */
    assert_int_equal(tune_measured(&t, 1), 0);
    tune_make(&t, NULL, WEIGHT_Q8_0);
    t.m.shape.n_layer = 0;
    assert_int_equal(tune_measured(&t, 1), 0);
    tune_make(&t, NULL, WEIGHT_Q8_0);
    t.layers[LAYERS - 1].gate.w = NULL; /* too few slices */
    assert_int_equal(tune_measured(&t, 1), 0);
    tune_make(&t, "scalar:1", WEIGHT_Q8_0); /* fixed */
    assert_int_equal(tune_measured(&t, 1), 0);
    assert_int_equal(t.m.kernels.streaming, 1);
}

TEST(fixed_by_name)
{
    static const char *const refused[] = {"scalar:", "scalar:4", "scalar:10", "scalar:x",
                                          ":1",      "scala:1",  "scalarr:1"};
    struct kernels k;
    assert_true(kernels_init(&k, "scalar:2") && k.streaming == 2 && k.streaming_is_fixed);
    assert_true(kernels_init(&k, "scalar") && k.streaming == 0 && !k.streaming_is_fixed);
    for (size_t i = 0; i < COUNT(refused); i++)
        assert_false(kernels_init(&k, refused[i]));
}
