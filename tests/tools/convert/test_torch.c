/* PyTorch's containers, tensors as views of storages, and named tensors put into a checkpoint. */
#include "support/run.h"
#include "support/torch_input.h"
#include "support/unit.h"

#include "convert/containers/torch.h"

/* ---- helpers --------------------------------------------------------------------------------- */

struct opened {
    struct file file;
    struct torch_file torch;
    struct checkpoint c;
    struct state state;
};

static struct opened open_fixture(const char *name)
{
    struct opened o = {.file = torch_fixture(name)};
    mgpt_error err;
    ckpt_init(&o.c);
    if (torch_open(&o.torch, span_of(&o.file), &err) < 0)
        fail_msg("%s: %s", name, err.text);
    return o;
}

static void fill(struct opened *o)
{
    mgpt_error err;
    state_init(&o->state, &o->c);
    if (run_torch_state(&o->torch, &o->state, &err) < 0)
        fail_msg("%s", err.text);
}

static void close_opened(struct opened *o)
{
    state_free(&o->state);
    ckpt_free(&o->c);
    torch_close(&o->torch);
    file_close(&o->file);
}

/* All values of a checkpoint's tensor, from two calls, which may cut a row. */
static void values_of(const struct ckpt_tensor *t, float *out, size_t n)
{
    assert_true(t->n_values == n);
    size_t half = n / 2;
    ckpt_values(t, 0, half, out);
    ckpt_values(t, half, n - half, out + half);
}

static void expect(const struct checkpoint *c, const float *want, size_t n)
{
    float found[64];
    assert_true(n <= COUNT(found));
    values_of(&c->tensors[arr_len(c->tensors) - 1], found, n);
    assert_memory_equal(found, want, n * sizeof *want);
}

/* state_put of "x". */
struct put_step {
    struct checkpoint *c;
    uint64_t n_in;
    const struct state_part *parts;
    size_t n;
    float plus;
};

static void put_step(void *arg)
{
    const struct put_step *p = arg;
    state_put(p->c, "x", p->n_in, p->parts, p->n, p->plus);
}

static int run_put(struct put_step p, mgpt_error *err)
{
    return ckpt_run(p.c, put_step, &p, err);
}

static void put_parts(struct opened *o, uint64_t n_in, const struct state_part *parts, size_t n,
                      float plus)
{
    mgpt_error err;
    if (run_put((struct put_step){&o->c, n_in, parts, n, plus}, &err) < 0)
        fail_msg("%s", err.text);
}

/* ---- blocks of rows ---- */

enum { ALL_ROWS = 9 };

static uint64_t row_of_block(const struct state_part *p, uint64_t row)
{
    return p->first + row / p->block * p->step + row % p->block;
}

/* The part has the rows that its definition names, or is refused if one of them does not exist. */
static void check_blocks(const struct state_part *p)
{
    struct checkpoint c;
    mgpt_error err;
    float found[ALL_ROWS * 2];
    int exist = p->step >= p->block;
    for (uint64_t i = 0; i < p->n_rows; i++)
        exist &= row_of_block(p, i) < ALL_ROWS;
    ckpt_init(&c);
    int status = run_put((struct put_step){&c, 2, p, 1, 0}, &err);
    assert_int_equal(status, exist ? MGPT_OK : MGPT_EFILE);
    if (exist) {
        ckpt_values(&c.tensors[0], 0, p->n_rows * 2, found);
        for (uint64_t i = 0; i < p->n_rows; i++)
            assert_true(found[2 * i] == (float)(2 * row_of_block(p, i)));
    }
    ckpt_free(&c);
}

TEST(blocks_of_rows)
{
    float values[ALL_ROWS * 2];
    for (size_t i = 0; i < COUNT(values); i++)
        values[i] = (float)i;
    const struct state_tensor t = {.name = "t",
                                   .type = STATE_F32,
                                   .n_dims = 2,
                                   .shape = {ALL_ROWS, 2},
                                   .strides = {2, 1},
                                   .bytes = {(const uint8_t *)values, sizeof values}};
    for (uint64_t first = 0; first < ALL_ROWS; first++)
        for (uint64_t n = 1; n <= ALL_ROWS; n++)
            for (uint64_t block = 1; block <= n; block++)
                for (uint64_t step = block - 1 ? block - 1 : 1; step <= 6; step++)
                    check_blocks(&(struct state_part){
                        .tensor = &t, .first = first, .n_rows = n, .block = block, .step = step});
}

/* Names of 1 to 255 bytes. */
TEST(lengths_of_names)
{
    static const float values[2];
    const struct state_tensor t = {.type = STATE_F32,
                                   .n_dims = 1,
                                   .shape = {2},
                                   .strides = {1},
                                   .bytes = {(const uint8_t *)values, sizeof values}};
    char name[300] = "";
    for (size_t n = 0; n < 258; n++) {
        struct checkpoint c;
        struct state s;
        mgpt_error err;
        ckpt_init(&c);
        state_init(&s, &c);
        assert_int_equal(run_add(&s, name, t, &err), n > 0 && n <= 255 ? MGPT_OK : MGPT_EFILE);
        state_free(&s);
        ckpt_free(&c);
        name[n] = 'a';
    }
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Each is a view of 0, 1, 2, ..., 23. */
static void check_views(struct opened *o)
{
    static const struct {
        const char *name;
        uint64_t n_in;
        size_t n;
        float want[24];
    } views[] = {
        {"whole", 6, 24, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                          12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
        {"transposed", 4, 24, {0, 6, 12, 18, 1, 7,  13, 19, 2, 8,  14, 20,
                               3, 9, 15, 21, 4, 10, 16, 22, 5, 11, 17, 23}},
        {"inner", 3, 6, {8, 9, 10, 14, 15, 16}},
        {"columns", 3, 12, {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}},
        {"vector", 0, 4, {5, 6, 7, 8}},
        {"spread", 0, 3, {0, 8, 16}},
        {"repeated", 3, 6, {3, 3, 3, 3, 3, 3}},
        {"double", 6, 24, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                           12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
        {"half", 0, 24, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                         12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
        {"bfloat", 0, 24, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                           12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
    };
    for (size_t i = 0; i < COUNT(views); i++) {
        struct state_part part = {.tensor = state_find(&o->state, views[i].name)};
        assert_non_null(part.tensor);
        put_parts(o, views[i].n_in, &part, 1, 0);
        expect(&o->c, views[i].want, views[i].n);
    }
}

static void check_types(struct opened *o)
{
    static const struct {
        const char *name;
        enum state_type type;
    } types[] = {
        {"half", STATE_F16},  {"bfloat", STATE_BF16}, {"double", STATE_F64}, {"long", STATE_I64},
        {"bool", STATE_BOOL}, {"byte", STATE_U8},     {"scalar", STATE_F32}, {"empty", STATE_F32},
    };
    for (size_t i = 0; i < COUNT(types); i++)
        assert_int_equal(state_peek(&o->state, types[i].name)->type, types[i].type);
    assert_int_equal(state_peek(&o->state, "scalar")->n_dims, 0);
    assert_true(state_peek(&o->state, "empty")->shape[0] == 0);
    struct state_part part = {.tensor = state_find(&o->state, "long")};
    mgpt_error err;
    assert_int_equal(run_put((struct put_step){&o->c, 0, &part, 1, 0}, &err), MGPT_EFILE);
    assert_non_null(strstr(err.text, "tensor long: element type I64"));
}

TEST(views)
{
    static const char *const names[] = {"views/views.pt", "views/legacy.pt"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct opened o = open_fixture(names[i]);
        fill(&o);
        assert_int_equal(arr_len(o.state.tensors), 17);
        check_views(&o);
        check_types(&o);
        close_opened(&o);
    }
}

/* Tensors that are in the file as they will be written are not copied. */
TEST(in_place)
{
    struct opened o = open_fixture("views/views.pt");
    fill(&o);
    const uint8_t *data = state_peek(&o.state, "whole")->bytes.data;
    assert_true(data > o.file.data && data < o.file.data + o.file.size);
    assert_true((data - o.file.data) % 64 == 0); /* PyTorch aligns storages */
    assert_ptr_equal(state_peek(&o.state, "again")->bytes.data, data);
    assert_ptr_equal(state_peek(&o.state, "parameter")->bytes.data, data);
    struct state_part part = {.tensor = state_find(&o.state, "whole"), .first = 1, .n_rows = 2};
    put_parts(&o, 6, &part, 1, 0);
    assert_ptr_equal(o.c.tensors[0].bytes, data + 6 * sizeof(float));
    part = (struct state_part){.tensor = state_find(&o.state, "transposed"), .transposed = 1};
    put_parts(&o, 6, &part, 1, 0); /* transposed twice */
    assert_ptr_equal(o.c.tensors[1].bytes, data);
    close_opened(&o);
}

/* ---- rows ------------------------------------------------------------------------------------ */

TEST(row_orders)
{
    static const float pairs[] = {0, 12, 6, 18}, swapped[] = {12, 18, 0, 6};
    struct opened o = open_fixture("views/views.pt");
    fill(&o);
    const struct state_tensor *whole = state_find(&o.state, "whole");
    struct state_part part = {.tensor = whole, .order = STATE_ROWS_PAIRS};
    put_parts(&o, 6, &part, 1, 0);
    part.order = STATE_ROWS_SWAP;
    put_parts(&o, 6, &part, 1, 0);
    for (size_t row = 0; row < 4; row++) {
        float v[24];
        values_of(&o.c.tensors[0], v, 24);
        assert_true(v[6 * row] == pairs[row] && v[6 * row + 5] == pairs[row] + 5);
        values_of(&o.c.tensors[1], v, 24);
        assert_true(v[6 * row] == swapped[row] && v[6 * row + 5] == swapped[row] + 5);
    }
    /* two heads of q, k, v, one row each: the rows 0 3, 1 4, 2 5 of six */
    const struct state_tensor *t = state_find(&o.state, "transposed");
    struct state_part groups[3];
    for (size_t i = 0; i < 3; i++)
        groups[i] =
            (struct state_part){.tensor = t, .first = i, .n_rows = 2, .block = 1, .step = 3};
    put_parts(&o, 4, groups, 3, 0);
    static const float grouped[] = {0, 6,  12, 18, 3, 9, 15, 21, 1, 7,  13, 19,
                                    4, 10, 16, 22, 2, 8, 14, 20, 5, 11, 17, 23};
    expect(&o.c, grouped, 24);
    /* a vector, zeros, a vector, and one more than each */
    struct state_part mixed[] = {{.tensor = state_find(&o.state, "vector"), .first = 2},
                                 {.n_rows = 2},
                                 {.tensor = state_find(&o.state, "half"), .n_rows = 1}};
    put_parts(&o, 0, mixed, 3, 1);
    static const float plus[] = {8, 9, 1, 1, 1};
    expect(&o.c, plus, 5);
    close_opened(&o);
}

TEST(parts_that_do_not_fit)
{
    struct opened o = open_fixture("views/views.pt");
    mgpt_error err;
    fill(&o);
    const struct state_tensor *whole = state_find(&o.state, "whole"); /* [4, 6] */
    const struct state_tensor *vector = state_find(&o.state, "vector");
    const struct {
        uint64_t n_in;
        struct state_part part;
    } bad[] = {
        {5, {.tensor = whole}},
        {4, {.tensor = whole}},
        {6, {.tensor = whole, .transposed = 1}},
        {0, {.tensor = whole}},
        {6, {.tensor = vector}},
        {0, {.tensor = vector, .transposed = 1}},
        {0, {.n_rows = 0}},
        {6, {.tensor = whole, .n_rows = 5}},
        {6, {.tensor = whole, .first = 4}},
        {6, {.tensor = whole, .first = 1, .n_rows = 4}},
        {6, {.tensor = whole, .first = UINT64_MAX, .n_rows = 1}},
        {6, {.tensor = whole, .n_rows = UINT64_MAX}},
        {6, {.tensor = whole, .n_rows = 4, .block = 2, .step = 3}},
        {6, {.tensor = whole, .n_rows = 4, .block = 2, .step = 1}},
        {6, {.tensor = whole, .n_rows = 2, .block = 1, .step = UINT64_MAX}},
        {6, {.tensor = whole, .n_rows = 3, .block = 1, .step = UINT64_MAX}},
        {6, {.tensor = whole, .first = 2, .n_rows = 2, .block = 1, .step = UINT64_MAX}},
        {6, {.tensor = whole, .n_rows = 3, .order = STATE_ROWS_SWAP}},
        {6, {.tensor = whole, .n_rows = 3, .block = 3, .head = 2, .order = STATE_ROWS_SWAP}},
        {6, {.tensor = whole, .n_rows = 3, .block = 2, .order = STATE_ROWS_PAIRS}},
        {6, {.tensor = state_find(&o.state, "empty")}},
        {6, {.tensor = state_find(&o.state, "scalar")}},
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        if (run_put((struct put_step){&o.c, bad[i].n_in, &bad[i].part, 1, 0}, &err) != MGPT_EFILE)
            fail_msg("part %zu fits", i);
    assert_int_equal(arr_len(o.c.tensors), 0);
    close_opened(&o);
}

/* ---- names ----------------------------------------------------------------------------------- */

static int add_named(struct state *s, const char *name, mgpt_error *err)
{
    static const float values[4] = {1, 2, 3, 4};
    struct state_tensor t = {.n_dims = 1, .shape = {4}};
    t.bytes = (struct span){(const uint8_t *)values, sizeof values};
    state_contiguous(&t);
    return run_add(s, name, t, err);
}

TEST(names)
{
    struct checkpoint c;
    struct state s;
    mgpt_error err;
    char name[64];
    ckpt_init(&c);
    state_init(&s, &c);
    assert_int_equal(add_named(&s, "module._orig_mod.h.0.w", &err), MGPT_OK);
    assert_int_equal(add_named(&s, "_orig_mod.h.1.w", &err), MGPT_OK);
    assert_int_equal(add_named(&s, "h.10.w", &err), MGPT_OK);
    assert_int_equal(add_named(&s, "modules.x", &err), MGPT_OK);
    assert_int_equal(run_seal(&s, &err), MGPT_OK);
    assert_true(state_has(&s, "h.0.w") && state_has(&s, "modules.x") && !state_has(&s, "h.2.w"));
    assert_int_equal(state_count_layers(&s, "h.N.w"), 2);
    assert_ptr_equal(state_find(&s, "h.10.w"), &s.tensors[2]);
    assert_string_equal(state_unused(&s)->name, "h.0.w");
    state_skip_suffix(&s, ".w");
    state_skip_suffix(&s, ".x");
    assert_null(state_unused(&s));
    state_layer_name(name, sizeof name, "N.Nx.N.blk", 7);
    assert_string_equal(name, "7.Nx.N.blk");
    assert_false(state_is_pattern("wNorm.N2.weight"));
    state_free(&s);

    state_init(&s, &c);
    assert_int_equal(add_named(&s, "w", &err), MGPT_OK);
    assert_int_equal(add_named(&s, "module.w", &err), MGPT_OK);
    assert_int_equal(run_seal(&s, &err), MGPT_EFILE);
    assert_non_null(strstr(err.text, "tensor w: the name occurs twice"));
    assert_int_equal(add_named(&s, "", &err), MGPT_EFILE);
    state_free(&s);
    ckpt_free(&c);
}

/* Shapes and strides that exceed the bytes. */
TEST(extents)
{
    static const float values[4] = {1, 2, 3, 4};
    static const struct {
        uint32_t n_dims;
        uint64_t shape[3], strides[3];
        int fits;
    } all[] = {
        {1, {4}, {1}, 1},
        {1, {5}, {1}, 0},
        {1, {2}, {3}, 1},
        {1, {2}, {4}, 0},
        {2, {2, 2}, {2, 1}, 1},
        {2, {2, 2}, {3, 1}, 0},
        {2, {2, 2}, {1, 1}, 1},
        {0, {0}, {0}, 1},
        {2, {1000, 65}, {0, 0}, 1},      /* a repeated value: within what a model may need, */
        {2, {1000, 66}, {0, 0}, 0},      /* or more than that */
        {2, {0, UINT64_MAX}, {1, 1}, 1}, /* no values */
        {3, {1ull << 32, 1ull << 32, 1}, {0, 0, 0}, 0},
        {2, {3, 3}, {1ull << 63, 1}, 0},
        {1, {2}, {UINT64_MAX}, 0},
        {3, {UINT64_MAX, 2, 1}, {1, 1, 1}, 0},
    };
    struct checkpoint c;
    struct state s;
    mgpt_error err;
    ckpt_init(&c);
    state_init(&s, &c);
    for (size_t i = 0; i < COUNT(all); i++) {
        struct state_tensor t = {.n_dims = all[i].n_dims};
        memcpy(t.shape, all[i].shape, sizeof all[i].shape);
        memcpy(t.strides, all[i].strides, sizeof all[i].strides);
        t.bytes = (struct span){(const uint8_t *)values, sizeof values};
        if ((run_add(&s, "w", t, &err) == MGPT_OK) != all[i].fits)
            fail_msg("extent %zu", i);
    }
    state_free(&s);
    ckpt_free(&c);
}
