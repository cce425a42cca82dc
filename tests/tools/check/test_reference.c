/* Reference files: what is read from good ones, and that bad ones are refused.
 *
 * The files are made here, so every field can be wrong. Three tokens, four logits a row.
 */
#include "base/mem.h"
#include "check/reference/reference.h"
#include "common/npy.h"
#include "common/text.h"
#include "support/ref_file.h"
#include "support/unit.h"

#include <math.h>

enum { N_VOCAB = 4, N_IDS = 3, N_LOGITS = N_VOCAB * N_IDS };
static const int32_t ids[N_IDS] = {3, 0, 2};
static const double logits[N_LOGITS] = {0.5, -1, 2.25, 0, 1, 2, 3, 4, -0.125, 7, -8, 0.0625};

/* ---- making files ---- */

/* reference_open with a list of at most 8 ids as people write it, or NULL. */
static struct reference *open_with(const char *path, const char *list, mgpt_error *err)
{
    int32_t given[8];
    struct ref_options options = {.n_vocab = N_VOCAB, .ids = list ? given : NULL};
    for (const char *at = list; list && text_next_id(&at, &given[options.n_ids]) > 0;)
        options.n_ids++;
    return reference_open(path, &options, err);
}

static struct bytes npy_ids(void)
{
    struct bytes b = npy_of("<i4", "(3,)");
    add(&b, ids, sizeof ids);
    return b;
}

static struct bytes npy_logits(const char *shape)
{
    struct bytes b = npy_of("<f8", shape);
    add(&b, logits, sizeof logits);
    return b;
}

/* NULL leaves an entry out. */
static void write_npz(const char *path, const char *ids_name, const struct bytes *ids_entry,
                      const struct bytes *logits_entry, unsigned how)
{
    struct zip_made zip = {0};
    if (ids_entry)
        add_entry(&zip, ids_name, ids_entry, how);
    if (logits_entry)
        add_entry(&zip, "logits.npy", logits_entry, how);
    write_archive(path, &zip);
}

/* ---- good files ---- */

static void assert_is_ours(struct reference *ref, size_t sequence)
{
    struct ref_sequence s = reference_sequence(ref, sequence);
    double row[N_VOCAB];
    assert_int_equal(s.n, N_IDS);
    assert_memory_equal(s.ids, ids, sizeof ids);
    for (size_t i = 0; i < N_IDS; i++) {
        assert_int_equal(reference_row(ref, sequence, i, row, NULL), MGPT_OK);
        assert_memory_equal(row, logits + i * N_VOCAB, sizeof row);
    }
}

static void assert_good(const char *path, const char *list, size_t n_sequences)
{
    mgpt_error err = {0};
    struct reference *ref = open_with(path, list, &err);
    assert_string_equal(err.text, "");
    assert_non_null(ref);
    assert_int_equal(reference_count(ref), n_sequences);
    for (size_t i = 0; i < n_sequences; i++)
        assert_is_ours(ref, i);
    reference_close(ref);
}

static void assert_bad(const char *path, const char *list, int status, const char *text)
{
    mgpt_error err = {0};
    assert_null(open_with(path, list, &err));
    if (!strstr(err.text, text))
        fail_msg("expected '%s' in '%s'", text, err.text);
    assert_int_equal(err.status, status);
}

#define ROWS "[[0.5, -1, 2.25, 0], [1, 2, 3, 4], [-0.125, 7, -8, 0.0625]]"

TEST_ON_FILE(json_in_all_its_spellings)
{
    static const struct {
        const char *text;
        size_t n;
    } good[] = {
        {"{\"input\": [3, 0, 2], \"logits\": " ROWS "}", 1},
        {" \n{\"ids\": [3, 0, 2], \"logits\": " ROWS ", \"more\": {}}", 1},
        {"{\"input_ids\": [[3, 0, 2]], \"logits\": [" ROWS "]}", 1}, /* a batch of one */
        {"[{\"tokens\": [3, 0, 2], \"logits\": " ROWS "},"
         " {\"text\": \"x\", \"ids\": [3, 0, 2], \"logits\": " ROWS "}]",
         2},
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        write_file(*state, good[i].text, strlen(good[i].text));
        assert_good(*state, NULL, good[i].n);
    }
}

TEST_ON_FILE(json_label_is_kept)
{
    const char *text = "{\"text\": \"an\", \"ids\": [3, 0, 2], \"logits\": " ROWS "}";
    write_file(*state, text, strlen(text));
    struct reference *ref = open_with(*state, NULL, NULL);
    assert_non_null(ref);
    assert_string_equal(reference_sequence(ref, 0).label, "an");
    reference_close(ref);
}

TEST_ON_FILE(npz_stored_and_deflated)
{
    static const char *const names[] = {"tokens.npy", "input_ids.npy", "input.npy", "ids.npy"};
    struct bytes i = npy_ids(), flat = npy_logits("(3, 4)"), batch = npy_logits("(1, 3, 4)");
    for (unsigned deflated = 0; deflated < 2; deflated++) {
        for (size_t k = 0; k < 4; k++) {
            write_npz(*state, names[k], &i, &flat, deflated);
            assert_good(*state, NULL, 1);
        }
        write_npz(*state, "tokens.npy", &i, &batch, deflated);
        assert_good(*state, NULL, 1);
    }
    drop(&i);
    drop(&flat);
    drop(&batch);
}

TEST_ON_FILE(npy_with_ids_from_outside)
{
    struct bytes b = npy_logits("(3, 4)");
    write_file(*state, b.data, arr_len(b.data));
    assert_good(*state, "3,0,2", 1);
    assert_good(*state, " 3 0, 2 ", 1);
    assert_bad(*state, NULL, MGPT_EARG, "the reference has no tokens: give them with --ids");
    assert_bad(*state, "3,0", MGPT_EFILE, "2 tokens, but 3 rows");
    assert_bad(*state, "3,0,4", MGPT_EFILE, "token 2 is 4, the model has ids 0 to 3");
    assert_bad(*state, "3,0,-1", MGPT_EFILE, "token 2 is -1");
    drop(&b);
}

TEST(element_types)
{
    static const uint8_t half[] = {0x00, 0x3C, 0x00, 0xC0, 0x01, 0x00, 0x00, 0x7C};
    static const uint8_t negative[] = {0xFE, 0xFF, 0xFF, 0xFF, 0x01, 0, 0, 0x80};
    float single[] = {1.5f, -0.1f};
    struct npy npy = {.kind = 'f', .width = 2};
    (void)state;
    assert_true(npy_real(&npy, half, 0) == 1.0);
    assert_true(npy_real(&npy, half, 1) == -2.0);
    assert_true(npy_real(&npy, half, 2) == 0x1p-24); /* the smallest subnormal half */
    assert_true(npy_real(&npy, half, 3) == (double)INFINITY);
    npy.width = 4;
    assert_true(npy_real(&npy, (const uint8_t *)single, 1) == (double)-0.1f);
    npy = (struct npy){.kind = 'i', .width = 4};
    assert_int_equal(npy_integer(&npy, negative, 0), -2);
    assert_int_equal(npy_integer(&npy, negative, 1), INT32_MIN + 1);
    npy.width = 8;
    assert_true(npy_integer(&npy, negative, 0) == (int64_t)0x80000001FFFFFFFEu);
}

/* ---- bad files ---- */

TEST_ON_FILE(json_is_refused)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"", "not a reference"},
        {"GGUF", "not a reference"},
        {"{\"input\": [3, 0, 2], \"logits\": " ROWS, "bad JSON"},
        {"{\"input\": [3, 0, 2], \"logits\": [[NaN, 1, 2, 3]]}", "bad JSON"},
        {"{\"input\": [3], \"input\": [3], \"logits\": [[1, 2, 3, 4]]}", "bad JSON"},
        {"{\"input\": [3], \"logits\": [[1, 2, 3, 1e999]]}", "bad JSON"},
        {"{\"logits\": " ROWS "}", "no list of ids"},
        {"{\"input\": [3, 0, 2]}", "no list called logits"},
        {"{\"input\": [3, 0], \"logits\": " ROWS "}", "2 tokens, but 3 rows"},
        {"{\"input\": [3, 0, 4], \"logits\": " ROWS "}", "token 2 is 4, the model has ids 0 to 3"},
        {"{\"input\": [3, 0, 1.5], \"logits\": " ROWS "}", "token 2 is not an integer"},
        {"{\"input\": [3], \"logits\": [[1, 2, 3]]}", "row 0 has 3 logits, the model has 4"},
        {"{\"input\": [3, 1], \"logits\": [[1, 2, 3, 4], [1, 2, 3, 4, 5]]}", "row 1 has 5"},
        {"{\"input\": [3], \"logits\": [[1, 2, 3, \"4\"]]}", "logit 3 is not a number"},
        {"{\"input\": [3], \"logits\": [7]}", "row 0 of logits is not a list"},
        {"{\"input\": [], \"logits\": []}", "no tokens"},
        {"[]", "the list is empty"},
        {"[7]", "not an object"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        write_file(*state, bad[i].text, strlen(bad[i].text));
        assert_bad(*state, NULL, MGPT_EFILE, bad[i].error);
    }
}

TEST(npy_headers_are_refused)
{
    static const struct {
        const char *dictionary, *error;
    } bad[] = {
        {"", "expected '{'"},
        {"{}", "descr, fortran_order and shape"},
        {"{'descr': '<f4', 'fortran_order': False}", "descr, fortran_order and shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'x': 1}", "each of descr"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (3, 4)}", "each of descr"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4)}", "'>f4'"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (3, 4)}", "'|O'"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "simple element"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4)}", "C order"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4)}", "expected False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 3}", "a shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 4)}", "a dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}", "',' or ')'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4}", "',' or ')'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1)}", "at most 4"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,)}",
         "a dimension below 2^64"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
         "overflows"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} + 1", "nothing after"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct bytes b = header_of(bad[i].dictionary);
        struct npy npy;
        mgpt_error err = {0};
        assert_int_equal(npy_parse(&npy, b.data, arr_len(b.data), &err), MGPT_EFILE);
        assert_non_null(strstr(err.text, bad[i].error));
        drop(&b);
    }
}

TEST_ON_FILE(npy_shapes_are_refused)
{
    static const char *const shapes[][2] = {
        {"(4, 3)", "shape [4, 3], expected [tokens, 4] of one text: transposed"},
        {"(12,)", "12 logits a row"},
        {"(2, 4)", "96 bytes of data, the header says 64"},
        {"(4, 4)", "96 bytes of data, the header says 128"},
        {"(3, 1, 4)", "logits: shape [3, 1, 4], expected [tokens, 4] of one text"},
        {"()", "logits: shape []"},
        {"(0, 4)", "96 bytes of data, the header says 0"},
        {"(5000000, 4)", "the limit is"},
        {"(576460752303423487, 4)", "the limit is"},
    };
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct bytes b = npy_logits(shapes[i][0]);
        write_file(*state, b.data, arr_len(b.data));
        assert_bad(*state, "3,0,2", MGPT_EFILE, shapes[i][1]);
        drop(&b);
    }
}

TEST_ON_FILE(every_truncated_npy_is_refused)
{
    struct bytes b = npy_logits("(3, 4)");
    for (size_t n = 0; n < arr_len(b.data); n++) {
        mgpt_error err = {0};
        write_file(*state, b.data, n);
        assert_null(open_with(*state, "3,0,2", &err));
        assert_true(err.status < 0 && err.text[0]);
    }
    drop(&b);
}

TEST_ON_FILE(npz_entries_are_refused)
{
    struct bytes i = npy_ids(), l = npy_logits("(3, 4)"), wrong = npy_logits("(4, 3)");
    struct bytes real_ids = npy_of("<f8", "(12,)"), lying = npy_logits("(3000, 4)");
    struct bytes many = npy_of("<i4", "(4000000000,)");
    add(&real_ids, logits, sizeof logits);
    write_npz(*state, "tokens.npy", &i, NULL, 0);
    assert_bad(*state, NULL, MGPT_EFILE, "no array called logits");
    write_npz(*state, "token.npy", &i, &l, 0);
    assert_bad(*state, NULL, MGPT_EFILE, "no array called tokens");
    write_npz(*state, "tokens.npy", &i, &wrong, 0);
    assert_bad(*state, NULL, MGPT_EFILE, "logits: shape [4, 3], expected [tokens, 4]");
    write_npz(*state, "tokens.npy", &real_ids, &l, 0);
    assert_bad(*state, NULL, MGPT_EFILE,
               "tokens: shape [12] of floats, expected a list of integers");
    write_npz(*state, "tokens.npy", &i, &lying, 1);
    assert_bad(*state, NULL, MGPT_EFILE, "logits.npy: 224 bytes, its header says 128 and 96000");
    write_npz(*state, "tokens.npy", &many, &l, 1);
    assert_bad(*state, NULL, MGPT_EFILE, "tokens.npy: 128 bytes");
    drop(&i);
    drop(&l);
    drop(&wrong);
    drop(&real_ids);
    drop(&lying);
    drop(&many);
}

/* No damage crashes, and a checksum guards the logits: a changed bit of them is never passed on. */
TEST_ON_FILE(damaged_npz)
{
    const struct ref_options plain = {.n_vocab = N_VOCAB};
    static const uint8_t changes[] = {0x01, 0x80, 0xFF};
    struct bytes i = npy_ids(), l = npy_logits("(3, 4)");
    write_npz(*state, "tokens.npy", &i, &l, 0);
    struct bytes file = read_file(*state);
    const uint8_t *at = NULL; /* the logits inside the archive */
    for (size_t k = 0; k + sizeof logits <= arr_len(file.data) && !at; k++)
        if (memcmp(file.data + k, logits, sizeof logits) == 0)
            at = file.data + k;
    assert_non_null(at);
    for (size_t k = 0; k < arr_len(file.data); k++) {
        for (size_t c = 0; c < sizeof changes; c++) {
            file.data[k] ^= changes[c];
            write_file(*state, file.data, arr_len(file.data));
            int whole = reads_whole(*state, &plain);
            assert_false(whole && file.data + k >= at && file.data + k < at + sizeof logits);
            file.data[k] ^= changes[c];
        }
        write_file(*state, file.data, k);
        assert_false(reads_whole(*state, &plain));
    }
    drop(&i);
    drop(&l);
    drop(&file);
}
