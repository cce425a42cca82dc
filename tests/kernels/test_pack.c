/* Tests of packing. The panels depend on the file only, not on the number of threads or on how the
 * file was opened. Opening needs about the file's size in memory. Rows that are no longer in memory
 * are read from the file again, which may have changed. */
#include "base/file.h"
#include "dtype/dtype.h"
#include "model/model.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* About 17 MB in F32: matrices of several units, larger than the first read of a file, and an
 * untied table. */
static const struct toy_spec large = {.label = "large llama",
                                      .arch = "llama",
                                      .n_layer = 3,
                                      .n_embd = 256,
                                      .n_head = 4,
                                      .n_head_kv = 2,
                                      .n_ff = 771,
                                      .n_ctx = 24,
                                      .n_vocab = 3001,
                                      .seed = 9};

struct pack_place {
    char path[64];
    struct toy *m;
};

static struct pack_place write_toy(const struct toy_spec *spec)
{
    struct pack_place place = {"/tmp/mgpt-pack-XXXXXX", toy_build(spec)};
    int fd = mkstemp(place.path);
    assert_true(fd >= 0);
    toy_encode(place.m);
    assert_int_equal(write(fd, place.m->file, place.m->size), place.m->size);
    close(fd);
    return place;
}

static void remove_toy(struct pack_place *place)
{
    unlink(place->path);
    toy_free(place->m);
}

static mgpt_model *open_with(const struct pack_place *place, int n_threads)
{
    mgpt_error err;
    mgpt_model_params params = {.n_threads = n_threads};
    mgpt_model *model = mgpt_open(place->path, &params, &err);
    if (!model)
        fail_msg("%s", err.text);
    return model;
}

static void check_linear(const struct linear *a, const struct linear *b, const char *what)
{
    assert_int_equal(a->n_out, b->n_out);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->panel_bytes, b->panel_bytes);
    if (a->n_out && memcmp(a->w, b->w, panels_of(a->n_out) * a->panel_bytes) != 0)
        fail_msg("panels of a matrix of %zu rows differ: %s", a->n_out, what);
}

static void check_panels(const mgpt_model *a, const mgpt_model *b, const char *what)
{
    check_linear(&a->head, &b->head, what);
    for (size_t i = 0; i < a->shape.n_layer; i++) {
        const struct layer *x = &a->layers[i], *y = &b->layers[i];
        check_linear(&x->q, &y->q, what);
        check_linear(&x->k, &y->k, what);
        check_linear(&x->v, &y->v, what);
        check_linear(&x->o, &y->o, what);
        check_linear(&x->gate, &y->gate, what);
        check_linear(&x->up, &y->up, what);
        check_linear(&x->down, &y->down, what);
    }
}

static void check_ways(const struct toy_spec *spec)
{
    struct pack_place place = write_toy(spec);
    mgpt_model_params one = {.n_threads = 1};
    mgpt_model *serial = toy_open(place.m, &one);
    for (int n_threads = 0; n_threads <= 3; n_threads++) {
        mgpt_model *model = open_with(&place, n_threads);
        check_panels(serial, model, spec->label);
        mgpt_close(model);
    }
    mgpt_close(serial);
    remove_toy(&place);
}

TEST(threads_and_files_do_not_matter)
{
    struct toy_spec compressed = large;
    compressed.type = TOY_BF16;
    compressed.n_layer = 8;
    check_ways(&compressed);
    check_ways(&large);
    for (size_t i = 0; i < ZOO_SIZE; i++)
        check_ways(&toy_zoo[i]);
}

/* ---- the smallest type -------------------------------------------------------------------------- */

/* A matrix has a type and, for one token, the bits of a product with the tensor's floats. */
static void check_type(const mgpt_model *model, const struct linear *l, const struct toy *m,
                       const char *name, enum weight_type type)
{
    const struct kernels *k = &model->kernels;
    const struct toy_tensor *t = toy_find(m, name);
    float *packed = toy_alloc(panels_of(l->n_out) * PANEL * l->n_in, sizeof *packed);
    float *x = toy_alloc(l->n_in, sizeof *x), *y = toy_alloc(2 * l->n_out, sizeof *y);
    uint64_t rng = 3;
    if (l->type != type)
        fail_msg("%s is packed as %d, expected %d", name, (int)l->type, (int)type);
    for (size_t i = 0; i < l->n_in; i++)
        x[i] = (float)toy_normal(&rng);
    k->pack[WEIGHT_F32](packed, t->values, l->n_in, l->n_out, 0, panels_of(l->n_out));
    struct matmul product = {.y = y,
                             .w = l->w,
                             .x = x,
                             .n = 1,
                             .n_in = l->n_in,
                             .n_out = l->n_out,
                             .p1 = panels_of(l->n_out)};
    k->matmul[l->type](&product);
    product.y = y + l->n_out;
    product.w = packed;
    k->matmul[WEIGHT_F32](&product);
    if (memcmp(y, y + l->n_out, l->n_out * sizeof *y) != 0)
        fail_msg("%s: a product has other bits", name);
    free(packed);
    free(x);
    free(y);
}

static float *values_of(const struct toy *m, const char *name)
{
    return toy_find(m, name)->values;
}

/* Rounds the values of a tensor to a type. */
static void round_values(const struct toy *m, const char *name, uint32_t id)
{
    const struct dtype *d = dtype_find(id);
    struct toy_tensor *t = toy_find(m, name);
    uint16_t *rounded = toy_alloc(t->n, sizeof *rounded);
    d->from_float(t->values, rounded, t->n);
    d->to_float(rounded, t->values, t->n);
    free(rounded);
}

TEST(the_smallest_type)
{
    struct toy *m = toy_build(&large);
    round_values(m, "blk.0.ffn_up.weight", DTYPE_BF16);   /* 771 rows of 256 */
    round_values(m, "blk.0.ffn_down.weight", DTYPE_BF16); /* rows of 771 are not whole groups */
    round_values(m, "blk.1.ffn_up.weight", DTYPE_F16);
    round_values(m, "blk.1.ffn_gate.weight", DTYPE_BF16);
    round_values(m, "blk.2.ffn_up.weight", DTYPE_BF16);
    round_values(m, "blk.2.ffn_gate.weight", DTYPE_BF16);
    /* In panels that do not choose the type: a value of F32; too many high bytes; a few more. */
    values_of(m, "blk.1.ffn_gate.weight")[256 * 40] += 0x1p-20f;
    for (size_t i = 0; i < 256; i++)
        values_of(m, "blk.2.ffn_up.weight")[256 * 40 + i] = ldexpf(1, -(int)(i % 100));
    for (size_t i = 0; i < 4; i++)
        values_of(m, "blk.2.ffn_gate.weight")[256 * 40 + i] = ldexpf(-1, -(int)(20 + 30 * i));
    toy_encode(m);
    mgpt_error err;
    mgpt_model *model = mgpt_open_bytes(m->file, m->size, NULL, &err);
    assert_non_null(model);
    enum weight_type smallest = model->kernels.compresses ? WEIGHT_BF16_COMPRESSED : WEIGHT_BF16;
    const struct layer *l = model->layers;
    check_type(model, &l[0].gate, m, "blk.0.ffn_gate.weight", WEIGHT_F32);
    check_type(model, &l[0].up, m, "blk.0.ffn_up.weight", smallest);
    check_type(model, &l[0].down, m, "blk.0.ffn_down.weight", WEIGHT_BF16);
    check_type(model, &l[1].up, m, "blk.1.ffn_up.weight", WEIGHT_F16);
    check_type(model, &l[1].gate, m, "blk.1.ffn_gate.weight", WEIGHT_F32);
    check_type(model, &l[2].up, m, "blk.2.ffn_up.weight", WEIGHT_BF16);
    check_type(model, &l[2].gate, m, "blk.2.ffn_gate.weight", smallest);
    mgpt_info info;
    assert_int_equal(mgpt_get_info(model, &info, &err), MGPT_OK);
    assert_true(info.bytes_per_token < m->size - 5 * 256 * 771 * 2 + 4 * 256);
    mgpt_close(model);
    toy_free(m);
}

/* Rows of a float table that is also the head are read from its panels. */
TEST(rows_of_a_tied_table)
{
    static const enum toy_type types[] = {TOY_F32, TOY_F16, TOY_BF16};
    struct toy_spec spec = large;
    spec.tied = 1;
    for (size_t i = 0; i < 3; i++) {
        spec.type = types[i];
        spec.n_layer = types[i] == TOY_F32 ? 3 : 8;
        struct toy *m = toy_build(&spec);
        float *values = values_of(m, "token_embd.weight"), row[256];
        for (size_t j = 0; types[i] == TOY_BF16 && j < 6;
             j++) /* one is not the first patch of a row */
            values[256 * 40 + 37 * j] = ldexpf(-1, -(int)(20 + 9 * j));
        toy_encode(m);
        mgpt_model *model = mgpt_open_bytes(m->file, m->size, NULL, NULL);
        assert_non_null(model);
        for (size_t r = 0; r < 3001; r++) {
            model_table_row(model, model->token_embd, r, row);
            assert_memory_equal(row, values + 256 * r, sizeof row);
        }
        if (types[i] == TOY_BF16) /* a file's BF16 is compressed, too */
            assert_int_equal(model->layers[0].up.type,
                             model->kernels.compresses ? WEIGHT_BF16_COMPRESSED : WEIGHT_BF16);
        mgpt_close(model);
        toy_free(m);
    }
}

TEST(threads_out_of_range)
{
    struct pack_place place = write_toy(&toy_zoo[ZOO_MICROGPT]);
    const int32_t wrong[] = {-1, 257};
    for (size_t i = 0; i < 2; i++) {
        mgpt_error err = {0};
        mgpt_model_params params = {.n_threads = wrong[i]};
        assert_null(mgpt_open(place.path, &params, &err));
        assert_int_equal(err.status, MGPT_EARG);
    }
    remove_toy(&place);
}

/* ---- memory -------------------------------------------------------------------------------------
 */

/* A number in KiB from /proc/self/status; 0 if absent. */
static size_t memory_of(const char *key)
{
    char line[256];
    size_t n = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            n = strtoul(line + strlen(key), NULL, 10) << 10;
    if (f)
        fclose(f);
    return n;
}

/* Resets the peak; returns 0 if the system cannot. */
static int reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    int done = f && fputs("5", f) >= 0;
    return f && fclose(f) == 0 && done;
}

/* Peak while the file is open, less what was there before: the panels, an untied token table, and
 * buffers of a unit (512 KiB) for each of two workers, with their stacks and rounding to huge pages
 * less than 8 MiB. */
static void check_peak(int tied, enum toy_type type, int n_vocab)
{
    struct toy_spec spec = large;
    spec.tied = tied;
    spec.type = type;
    spec.n_vocab = n_vocab;
    struct pack_place place = write_toy(&spec);
    size_t before = memory_of("VmRSS:");
    if (SANITIZED || before == 0 || !reset_peak()) {
        remove_toy(&place);
        skip();
    }
    mgpt_model *model = open_with(&place, 2);
    size_t peak = memory_of("VmHWM:"), allowed = place.m->size + ((size_t)8 << 20);
    if (peak > before + allowed)
        fail_msg("%zu bytes of memory for a file of %zu", peak - before, place.m->size);
    mgpt_close(model);
    remove_toy(&place);
}

TEST(opening_needs_the_file_once)
{
    check_peak(0, TOY_F32, 20001);
    check_peak(1, TOY_F32, 20001);
    check_peak(1, TOY_Q8_0, 60001);
}

/* ---- the file afterwards ------------------------------------------------------------------------
 */

TEST(a_file_that_became_shorter)
{
    struct pack_place place = write_toy(&large);
    mgpt_model *model = open_with(&place, 2);
    const struct toy_tensor *t = toy_find(place.m, "blk.1.ffn_down.weight");
    mgpt_error err = {0};
    float *values = toy_alloc(t->n, sizeof *values);
    assert_int_equal(mgpt_read_tensor(model, t->name, 0, t->n, values, &err), MGPT_OK);
    assert_memory_equal(values, t->values, t->n * sizeof *values);
    mgpt_session *session = mgpt_session_new(model, NULL, NULL);
    assert_non_null(session);
    assert_int_equal(truncate(place.path, 4096), 0);
    assert_int_equal(mgpt_read_tensor(model, t->name, 0, t->n, values, &err), MGPT_EIO);
    if (!strstr(err.text, "the file ended at byte"))
        fail_msg("%s", err.text);
    for (int32_t token = 0; token < 3001; token += 500) /* their rows are in memory */
        assert_non_null(mgpt_step(session, token, &err));
    mgpt_session_free(session);
    mgpt_close(model);
    free(values);
    remove_toy(&place);
}

/* A truncated file is refused before packing, with the message for the same bytes in memory. */
TEST(a_file_cut_short)
{
    struct pack_place place = write_toy(&large);
    mgpt_error err = {0}, whole = {0};
    assert_null(mgpt_open_bytes(place.m->file, place.m->size - 4000, NULL, &whole));
    assert_int_equal(truncate(place.path, (off_t)place.m->size - 4000), 0);
    assert_null(mgpt_open(place.path, NULL, &err));
    assert_int_equal(err.status, MGPT_EFILE);
    assert_string_equal(err.text, whole.text);
    remove_toy(&place);
}
