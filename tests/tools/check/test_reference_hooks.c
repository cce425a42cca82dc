/* Inner values of references, in .npz and .safetensors: what is found by its name, in which shapes,
 * read in any order; and what is refused. Values are their own indices, so that a wrong place is a
 * wrong value.
 */
#include "base/mem.h"
#include "check/reference/reference.h"
#include "support/ref_file.h"
#include "support/unit.h"

enum { T = 3, V = 4, H = 2, N_LAYER = 2, MOST = 64 };

/* One array of a file: floats counting from `base`, or the ids. */
struct array {
    const char *name, *type, *shape; /* type as in safetensors */
    double base;
};

static size_t n_elements(const char *shape)
{
    size_t n = 1;
    for (const char *p = shape; *p; p++)
        if (*p >= '0' && *p <= '9')
            n *= strtoul(p, (char **)(uintptr_t)&p, 10), p--;
    return n;
}

/* Small integers are exact in all of these. */
static void add_value(struct bytes *b, const char *type, double value)
{
    float f = (float)value;
    int32_t i = (int32_t)value;
    int64_t l = (int64_t)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t top = (uint16_t)(bits >> 16);
    if (strcmp(type, "F64") == 0)
        add(b, &value, 8);
    else if (strcmp(type, "F32") == 0)
        add(b, &f, 4);
    else if (strcmp(type, "BF16") == 0)
        add(b, &top, 2);
    else if (strcmp(type + 1, "64") == 0)
        add(b, &l, 8);
    else
        add(b, &i, 4);
}

static void add_values(struct bytes *b, const struct array *a)
{
    static const int ids[] = {3, 0, 2};
    int is_ids = a->type[0] == 'I';
    size_t n = n_elements(a->shape);
    for (size_t i = 0; i < n; i++)
        add_value(b, a->type, is_ids ? (double)ids[i % 3] : a->base + (double)i);
}

static void write_npz(const char *path, const struct array *arrays, unsigned how)
{
    static const char *const types[][2] = {
        {"F64", "<f8"}, {"F32", "<f4"}, {"I64", "<i8"}, {"I32", "<i4"}, {"U64", "<u8"}};
    struct bytes parts[16] = {{0}};
    struct zip_made zip = {0};
    size_t n = 0;
    for (; arrays[n].name; n++) {
        char name[80], shape[64];
        const char *type = "";
        for (size_t k = 0; k < COUNT(types); k++)
            if (strcmp(types[k][0], arrays[n].type) == 0)
                type = types[k][1];
        snprintf(name, sizeof name, "%s.npy", arrays[n].name);
        snprintf(shape, sizeof shape, "(%s,)", arrays[n].shape);
        parts[n] = npy_of(type, shape);
        add_values(&parts[n], &arrays[n]);
        add_entry(&zip, name, &parts[n], how);
    }
    write_archive(path, &zip);
    while (n-- > 0)
        drop(&parts[n]);
}

static void write_st(const char *path, const struct array *arrays)
{
    struct bytes head = {0}, data = {0}, file = {0};
    for (size_t n = 0; arrays[n].name; n++) {
        char entry[256];
        size_t begin = arr_len(data.data);
        add_values(&data, &arrays[n]);
        snprintf(entry, sizeof entry,
                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                 n > 0 ? "," : "{", arrays[n].name, arrays[n].type, arrays[n].shape, begin,
                 arr_len(data.data));
        add(&head, entry, strlen(entry));
    }
    add(&head, "}", 1);
    uint64_t length = arr_len(head.data);
    add(&file, &length, 8);
    add(&file, head.data, arr_len(head.data));
    add(&file, data.data, arr_len(data.data));
    write_file(path, file.data, arr_len(file.data));
    drop(&head);
    drop(&data);
    drop(&file);
}

static struct reference *open_hooks(const char *path, int32_t n_layer, mgpt_error *err)
{
    struct ref_options options = {.n_vocab = V, .n_layer = n_layer};
    return reference_open(path, &options, err);
}

/* ---- what is found ---- */

/* In the order of the file, which is not that of the pass. What is not known may be of any type. */
static const struct array good[] = {
    {"logits", "F64", "1, 3, 4", 0},
    {"ln_final.hook_out", "F32", "3, 2", 900},
    {"mlm_head.ln.hook_out", "F32", "3, 2", 910},
    {"blocks.1.attn.hook_pattern", "F32", "1, 2, 3, 3", 500},
    {"blocks.1.hook_resid_pre", "F64", "3, 2", 400},
    {"blocks.0.attn.hook_q", "F32", "1, 3, 2, 5", 300},
    {"blocks.0.attn.hook_attn_scores", "F32", "2, 3, 3", 350},
    {"hook_embed", "F32", "1, 3, 2", 100},
    {"blocks.1.ln1.hook_out", "F32", "3, 2", 820}, /* after the gain: instead of the next one */
    {"blocks.1.ln1.hook_normalized", "F32", "3, 2", 800},
    {"blocks.1.ln2.hook_normalized", "F32", "3, 2", 840},
    {"something.else", "U64", "7", 0},
    {"tokens", "I64", "1, 3", 0},
    {NULL, NULL, NULL, 0},
};

static const struct {
    struct ref_hook hook;
    double base;
} expected[] = {
    {{"hook_embed", MGPT_EMBD, -1, T, 2}, 100},
    {{"blocks.0.attn.hook_q", MGPT_Q, 0, T, 10}, 300},
    {{"blocks.0.attn.hook_attn_scores", MGPT_SCORES, 0, H *T, T}, 350},
    {{"blocks.1.hook_resid_pre", MGPT_RESID_PRE, 1, T, 2}, 400},
    {{"blocks.1.ln1.hook_out", MGPT_ATTN_IN, 1, T, 2}, 820},
    {{"blocks.1.attn.hook_pattern", MGPT_WEIGHTS, 1, H *T, T}, 500},
    {{"blocks.1.ln2.hook_normalized", MGPT_MLP_IN, 1, T, 2}, 840},
    {{"ln_final.hook_out", MGPT_FINAL, -1, T, 2}, 900},
    {{"mlm_head.ln.hook_out", MGPT_HEAD_IN, -1, T, 2}, 910},
};
enum { N_EXPECTED = COUNT(expected) };

/* Rows from the last to the first, then all at once. */
static void assert_values(struct reference *ref, size_t i, const struct ref_hook *h, double base)
{
    double row[MOST];
    for (size_t r = h->rows; r-- > 0;) {
        assert_int_equal(reference_hook_rows(ref, i, r, 1, row, NULL), MGPT_OK);
        for (size_t k = 0; k < h->cols; k++)
            assert_true(row[k] == base + (double)(r * h->cols + k));
    }
    assert_int_equal(reference_hook_rows(ref, i, 0, h->rows, row, NULL), MGPT_OK);
    for (size_t k = 0; k < h->rows * h->cols; k++)
        assert_true(row[k] == base + (double)k);
    assert_int_equal(reference_hook_rows(ref, i, h->rows, 0, row, NULL), MGPT_OK);
    assert_int_equal(reference_hook_rows(ref, i, h->rows, 1, row, NULL), MGPT_EARG);
    assert_int_equal(reference_hook_rows(ref, i, 1, h->rows, row, NULL), MGPT_EARG);
}

static void assert_found(const char *path)
{
    mgpt_error err = {0};
    struct reference *ref = open_hooks(path, N_LAYER, &err);
    struct ref_hook hook;
    double row[V];
    assert_string_equal(err.text, "");
    assert_non_null(ref);
    assert_int_equal(reference_n_hooks(ref), N_EXPECTED);
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < N_EXPECTED; i++) {
            assert_int_equal(reference_hook(ref, i, &hook), MGPT_OK);
            assert_string_equal(hook.name, expected[i].hook.name);
            assert_int_equal(hook.point, expected[i].hook.point);
            assert_int_equal(hook.layer, expected[i].hook.layer);
            assert_int_equal(hook.rows, expected[i].hook.rows);
            assert_int_equal(hook.cols, expected[i].hook.cols);
            assert_values(ref, i, &hook, expected[i].base);
        }
    assert_int_equal(reference_hook(ref, N_EXPECTED, &hook), MGPT_EARG);
    for (size_t r = T; r-- > 0;) { /* logits in any order, too */
        assert_int_equal(reference_row(ref, 0, r, row, NULL), MGPT_OK);
        assert_true(row[V - 1] == (double)(r * V + V - 1));
    }
    reference_close(ref);
}

TEST_ON_FILE(inner_values_are_found_in_npz)
{
    for (unsigned deflated = 0; deflated < 2; deflated++) {
        write_npz(*state, good, deflated);
        assert_found(*state);
    }
}

TEST_ON_FILE(inner_values_are_found_in_safetensors)
{
    write_st(*state, good);
    assert_found(*state);
}

TEST_ON_FILE(element_types_of_safetensors)
{
    static const char *const types[][2] = {{"F32", "I32"}, {"F64", "I64"}, {"BF16", "I64"}};
    for (size_t t = 0; t < 3; t++) {
        struct array arrays[] = {{"logits", types[t][0], "3, 4", 5},
                                 {"input_ids", types[t][1], "3", 0},
                                 {NULL, NULL, NULL, 0}};
        double row[V];
        write_st(*state, arrays);
        struct reference *ref = open_hooks(*state, N_LAYER, NULL);
        assert_non_null(ref);
        assert_int_equal(reference_sequence(ref, 0).ids[2], 2);
        assert_int_equal(reference_row(ref, 0, 1, row, NULL), MGPT_OK);
        assert_true(row[0] == 9 && row[3] == 12);
        reference_close(ref);
    }
    const struct array other[] = {{"logits", "F32", "3, 4", 0},
                                  {"input_ids", "I32", "3", 0},
                                  {"hook_embed", "U64", "3, 2", 0},
                                  {NULL, NULL, NULL, 0}};
    mgpt_error err = {0};
    write_st(*state, other);
    assert_null(open_hooks(*state, N_LAYER, &err));
    assert_string_equal(err.text, "hook_embed: U64, expected F32 F16 BF16 F64 I32 I64");
    assert_int_equal(err.status, MGPT_EFILE);
}

TEST_ON_FILE(names_of_transformers)
{
    static const struct array arrays[] = {{"hidden_states.0", "F32", "1, 3, 2", 0},
                                          {"hidden_states_1", "F32", "3, 2", 0},
                                          {"hidden_states.2", "F32", "3, 2", 0},
                                          {"attentions.1", "F32", "1, 2, 3, 3", 0},
                                          {"hidden_states.x", "F32", "1", 0},
                                          {"hidden_states.3x", "F32", "1", 0},
                                          {"logits", "F32", "3, 4", 0},
                                          {"input_ids", "I32", "3", 0},
                                          {NULL, NULL, NULL, 0}};
    static const struct {
        mgpt_point point;
        int32_t layer;
    } want[] = {{MGPT_RESID_PRE, 0}, {MGPT_RESID_POST, 0}, {MGPT_WEIGHTS, 1}, {MGPT_FINAL, -1}};
    for (int32_t n_layer = 0; n_layer <= N_LAYER; n_layer += N_LAYER) { /* not known, and known */
        struct ref_hook hook;
        write_st(*state, arrays);
        struct reference *ref = open_hooks(*state, n_layer, NULL);
        assert_non_null(ref);
        assert_int_equal(reference_n_hooks(ref), 4);
        for (size_t i = 0; i < 4; i++) {
            reference_hook(ref, i, &hook);
            assert_int_equal(hook.point, want[i].point);
            assert_int_equal(hook.layer, want[i].layer);
        }
        reference_close(ref);
    }
}

/* The hidden state after the last layer is what the head reads. The first one is that only of a model without layers. */
TEST_ON_FILE(last_hidden_state)
{
    static const struct {
        int32_t n_layer; /* 0: not known */
        const char *names[2];
        mgpt_point points[2];
    } rows[] = {
        {1, {"hidden_states.0", "hidden_states.1"}, {MGPT_RESID_PRE, MGPT_FINAL}},
        {2, {"hidden_states.0", "hidden_states.1"}, {MGPT_RESID_PRE, MGPT_RESID_POST}},
        {0, {"hidden_states.0", "hidden_states.1"}, {MGPT_RESID_PRE, MGPT_FINAL}},
        {0, {"hidden_states.1", "hidden_states.2"}, {MGPT_RESID_POST, MGPT_FINAL}},
        {0, {"hidden_states.0"}, {MGPT_FINAL}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct array arrays[] = {{"logits", "F32", "3, 4", 0},
                                       {"input_ids", "I32", "3", 0},
                                       {rows[i].names[0], "F32", "3, 2", 0},
                                       {rows[i].names[1], "F32", "3, 2", 0},
                                       {NULL, NULL, NULL, 0}};
        const size_t n = rows[i].names[1] ? 2 : 1;
        struct ref_hook hook;
        write_st(*state, arrays);
        struct reference *ref = open_hooks(*state, rows[i].n_layer, NULL);
        assert_non_null(ref);
        assert_int_equal(reference_n_hooks(ref), n);
        for (size_t k = 0; k < n; k++) {
            reference_hook(ref, k, &hook);
            if (hook.point != rows[i].points[k])
                fail_msg("row %zu: %s is point %d", i, hook.name, hook.point);
        }
        reference_close(ref);
    }
}

TEST_ON_FILE(layers_of_several_digits)
{
    static const struct {
        struct array array;
        mgpt_point point;
        int32_t layer;
    } rows[] = {{{"blocks.10.hook_resid_pre", "F32", "3, 2", 0}, MGPT_RESID_PRE, 10},
                {{"blocks.111.attn.hook_z", "F32", "3, 2, 1", 0}, MGPT_HEADS, 111},
                {{"hidden_states.12", "F32", "3, 2", 0}, MGPT_RESID_POST, 11},
                {{"hidden_states_103", "F32", "3, 2", 0}, MGPT_RESID_POST, 102},
                {{"attentions.20", "F32", "2, 3, 3", 0}, MGPT_WEIGHTS, 20},
                {{"attentions_109", "F32", "2, 3, 3", 0}, MGPT_WEIGHTS, 109}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct array arrays[] = {{"logits", "F32", "3, 4", 0},
                                       {"input_ids", "I32", "3", 0},
                                       rows[i].array,
                                       {NULL, NULL, NULL, 0}};
        struct ref_hook hook;
        write_st(*state, arrays);
        struct reference *ref = open_hooks(*state, 112, NULL);
        assert_non_null(ref);
        assert_int_equal(reference_n_hooks(ref), 1);
        reference_hook(ref, 0, &hook);
        assert_int_equal(hook.point, rows[i].point);
        assert_int_equal(hook.layer, rows[i].layer);
        reference_close(ref);
    }
}

/* A reference of one token is read with a first axis for the batch and without, also where a value has more dimensions. */
TEST_ON_FILE(one_token)
{
    static const char *const shapes[] = {"1, 6", "1, 1, 6", "1, 2, 3", "1, 1, 2, 3"};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const struct array arrays[] = {{"logits", "F32", "1, 4", 0},
                                       {"tokens", "I32", "1", 0},
                                       {"blocks.0.attn.hook_z", "F32", shapes[i], 7},
                                       {NULL, NULL, NULL, 0}};
        struct ref_hook hook;
        double row[6];
        write_st(*state, arrays);
        struct reference *ref = open_hooks(*state, N_LAYER, NULL);
        assert_non_null(ref);
        assert_int_equal(reference_hook(ref, 0, &hook), MGPT_OK);
        assert_true(hook.rows == 1 && hook.cols == 6);
        assert_int_equal(reference_hook_rows(ref, 0, 0, 1, row, NULL), MGPT_OK);
        assert_true(row[0] == 7 && row[5] == 12);
        reference_close(ref);
    }
}

/* ---- what is refused ---- */

TEST_ON_FILE(wrong_shapes_are_refused)
{
    static const struct {
        struct array array;
        const char *error;
    } bad[] = {
        {{"hook_embed", "F32", "2, 3", 0}, "hook_embed: shape [2, 3], expected [T, ...]"},
        {{"hook_embed", "F32", "3", 0}, "with T = 3"},
        {{"hook_embed", "F32", "3, 0", 0}, "expected values"},
        {{"hook_embed", "F32", "2, 3, 2", 0}, "shape [2, 3, 2]"}, /* a batch of two */
        {{"hook_embed", "I32", "3, 2", 0}, "integers"},
        {{"blocks.0.attn.hook_pattern", "F32", "3, 3", 0}, "expected [heads, T, T]"},
        {{"blocks.0.attn.hook_pattern", "F32", "2, 3, 4", 0}, "shape [2, 3, 4]"},
        {{"blocks.0.attn.hook_pattern", "F32", "2, 4, 3", 0}, "shape [2, 4, 3]"},
        {{"blocks.0.attn.hook_pattern", "F32", "2, 2, 3, 3", 0}, "shape [2, 2, 3, 3]"},
        {{"blocks.0.attn.hook_pattern", "F32", "0, 3, 3", 0}, "expected [heads, T, T]"},
        {{"blocks.2.hook_resid_pre", "F32", "3, 2", 0}, "the model has 2 layers"},
        {{"hidden_states.3", "F32", "3, 2", 0}, "the model has 2 layers"},
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        for (int st = 0; st < 2; st++) {
            struct array arrays[] = {{"logits", "F32", "3, 4", 0},
                                     {"tokens", "I32", "3", 0},
                                     bad[i].array,
                                     {NULL, NULL, NULL, 0}};
            mgpt_error err = {0};
            if (st)
                write_st(*state, arrays);
            else
                write_npz(*state, arrays, 1);
            assert_null(open_hooks(*state, N_LAYER, &err));
            if (err.status != MGPT_EFILE || !strstr(err.text, bad[i].error))
                fail_msg("expected '%s' in '%s'", bad[i].error, err.text);
        }
}

TEST_ON_FILE(tokens_of_several_texts_are_refused)
{
    static const char *const shapes[] = {"2, 3", "1, 1, 3", "3, 1", "1, 3, 1"};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const struct array arrays[] = {
            {"logits", "F32", "3, 4", 0}, {"tokens", "I64", shapes[i], 0}, {NULL, NULL, NULL, 0}};
        mgpt_error err = {0};
        write_st(*state, arrays);
        assert_null(open_hooks(*state, N_LAYER, &err));
        if (!strstr(err.text, "expected a list of integers for one text"))
            fail_msg("%s: %s", shapes[i], err.text);
    }
}

/* A file cut anywhere is refused or fails while it is read; any changed byte is survived. */
TEST_ON_FILE(damaged_files)
{
    const struct ref_options options = {.n_vocab = V, .n_layer = N_LAYER};
    for (unsigned kind = 0; kind < 3; kind++) {
        if (kind == 2)
            write_st(*state, good);
        else
            write_npz(*state, good, kind);
        struct bytes file = read_file(*state);
        assert_true(reads_whole(*state, &options));
        for (size_t n = 0; n < arr_len(file.data); n += 1 + n / 64) {
            write_file(*state, file.data, n);
            assert_false(reads_whole(*state, &options));
        }
        for (size_t n = 0; n < arr_len(file.data); n += 1 + n / 256) {
            file.data[n] ^= 0x85;
            write_file(*state, file.data, arr_len(file.data));
            reads_whole(*state, &options);
            file.data[n] ^= 0x85;
        }
        drop(&file);
    }
}
