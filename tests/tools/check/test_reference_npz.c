/* References in .npz at the level of bytes: entries stored, deflated, written to a pipe and with zip64
 * sizes, read in any order; what is wrong with an entry or with the archive is said with its name.
 *
 * Rows of three logits, <f4; the ids come from outside.
 */
#include "base/mem.h"
#include "check/reference/reference.h"
#include "common/npy.h"
#include "support/ref_file.h"
#include "support/unit.h"

enum { N_VOCAB = 3, MANY = 2000 /* rows: several pieces */ };
static const int32_t zeros[MANY];

static float value_at(size_t row, size_t i)
{
    return (float)(row * N_VOCAB + i) / 8;
}

static struct bytes array_of(const char *shape, size_t n_rows)
{
    struct bytes b = npy_of("<f4", shape);
    for (size_t i = 0; i < n_rows * N_VOCAB; i++)
        add(&b, &(float){value_at(i / N_VOCAB, i % N_VOCAB)}, 4);
    return b;
}

static void write_one(const char *path, const char *name, const struct bytes *b, unsigned how)
{
    struct zip_made z = {0};
    add_entry(&z, name, b, how);
    write_archive(path, &z);
}

/* reference_open with n ids. */
static struct reference *open_npz_with(const char *path, size_t n, mgpt_error *err)
{
    struct ref_options options = {.n_vocab = N_VOCAB, .ids = zeros, .n_ids = n};
    *err = (mgpt_error){.text = ""};
    return reference_open(path, &options, err);
}

static void assert_npz_bad(const char *path, size_t n_ids, const char *text)
{
    mgpt_error err;
    assert_null(open_npz_with(path, n_ids, &err));
    assert_string_equal(err.text, text);
    assert_int_equal(err.status, MGPT_EFILE);
}

static void assert_row(struct reference *ref, size_t i)
{
    double row[N_VOCAB];
    assert_int_equal(reference_row(ref, 0, i, row, NULL), MGPT_OK);
    for (size_t k = 0; k < N_VOCAB; k++)
        assert_true(row[k] == (double)value_at(i, k));
}

/* ---- good archives ---- */

TEST_ON_FILE(entries_written_in_every_way)
{
    static const size_t order[] = {MANY - 1, 0, MANY / 2, 1, MANY - 2, MANY - 1, MANY - 1};
    struct bytes b = array_of("(2000, 3)", MANY);
    for (unsigned how = 0; how < 8; how++) {
        mgpt_error err;
        write_one(*state, "logits.npy", &b, how);
        struct reference *ref = open_npz_with(*state, MANY, &err);
        assert_string_equal(err.text, "");
        for (size_t i = 0; i < COUNT(order); i++)
            assert_row(ref, order[i]);
        for (size_t i = 0; i < MANY; i++)
            assert_row(ref, i);
        reference_close(ref);
    }
    drop(&b);
}

/* A header of any version around a dictionary that is padded with spaces to n bytes. */
static struct bytes versioned(uint8_t version, size_t n)
{
    static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}";
    struct bytes b = {0};
    const uint8_t head[12] = {0x93, 'N',     'U', 'M',        'P',
                              'Y',  version, 0,   (uint8_t)n, (uint8_t)(n >> 8)};
    add(&b, head, version == 1 ? 10 : 12);
    add(&b, text, sizeof text - 1);
    for (size_t i = sizeof text - 1; i < n; i++)
        add(&b, " ", 1);
    return b;
}

static void add_two_rows(struct bytes *b)
{
    for (size_t i = 0; i < 2 * N_VOCAB; i++)
        add(b, &(float){value_at(i / N_VOCAB, i % N_VOCAB)}, 4);
}

/* Every version of the header, and the longest that is read: 4096 bytes with what is in front of it. */
TEST_ON_FILE(headers_of_entries)
{
    for (uint8_t version = 1; version <= 3; version++)
        for (size_t more = 0; more < 2; more++)
            for (unsigned how = 0; how < 2; how++) {
                mgpt_error err;
                char text[160];
                size_t n = NPY_MAX_HEADER - (version == 1 ? 10u : 12u) + more;
                struct bytes b = versioned(version, n);
                add_two_rows(&b);
                write_one(*state, "logits.npy", &b, how);
                struct reference *ref = open_npz_with(*state, 2, &err);
                snprintf(text, sizeof text,
                         "npz entry logits.npy: npy header: says %zu bytes, %zu are there (at most "
                         "4096 are "
                         "read)",
                         n, n - 1);
                assert_string_equal(err.text, more ? text : "");
                if (ref)
                    assert_row(ref, 1);
                reference_close(ref);
                drop(&b);
            }
}

/* ---- entries that are not what they say ---- */

TEST_ON_FILE(entries_that_end_early)
{
    static const struct {
        size_t n;
        const char *text;
    } cases[] = {
        {0, "not a .npy array: no \\x93NUMPY at its beginning"},
        {9, "npy header: says 0 bytes, 1 are there (at most 4096 are read)"},
        {12, "npy header: says 80 bytes, 0 are there (at most 4096 are read)"},
        {91, "npy header: says 80 bytes, 79 are there (at most 4096 are read)"},
        {92, "92 bytes, its header says 92 and 24 of data"},
        {115, "115 bytes, its header says 92 and 24 of data"},
        {117, "117 bytes, its header says 92 and 24 of data"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (unsigned how = 0; how < 2; how++) {
            char text[192];
            struct bytes b = versioned(2, 80), part = {0};
            add_two_rows(&b);
            add(&b, "", 1);
            add(&part, b.data, cases[i].n);
            write_one(*state, "logits.npy", &part, how);
            snprintf(text, sizeof text, "npz entry logits.npy: %s", cases[i].text);
            assert_npz_bad(*state, 2, text);
            drop(&b);
            drop(&part);
        }
}

TEST_ON_FILE(types_and_order_are_named)
{
    struct bytes b = npy_of(">f4", "(2, 3)");
    write_one(*state, "logits.npy", &b, 0);
    assert_npz_bad(
        *state, 2,
        "npz entry logits.npy: npy header: element type '>f4', expected <f2 <f4 <f8 <i4 <i8");
    drop(&b);
}

TEST_ON_FILE(entries_that_cannot_be_read)
{
    struct bytes b = array_of("(2, 3)", 2);
    for (unsigned how = ZIP_SECRET; how <= ZIP_BZIP2; how *= 2) {
        write_one(*state, "logits.npy", &b, how);
        assert_npz_bad(
            *state, 2,
            "zip: logits.npy is compressed or encrypted: unpack it and pack it again with zip -0");
        write_one(*state, "another.npy", &b, how); /* nothing that is needed */
        assert_npz_bad(*state, 2, "no array called logits");
    }
    drop(&b);
}

TEST_ON_FILE(names_that_occur_twice)
{
    struct bytes b = array_of("(2, 3)", 2);
    struct zip_made z = {0};
    add_entry(&z, "logits.npy", &b, 0);
    add_entry(&z, "logits.npy", &b, 0);
    write_archive(*state, &z);
    assert_npz_bad(*state, 2, "zip: logits.npy occurs twice");
    drop(&b);
}

/* ---- damage ---- */

/* The archive with one byte changed, `back` bytes before its end. */
static void change_byte(const char *path, size_t back, uint8_t by)
{
    struct bytes file = read_file(path);
    file.data[arr_len(file.data) - back] ^= by;
    write_file(path, file.data, arr_len(file.data));
    drop(&file);
}

enum { END = 22, NAME = 10, ENTRY = 46 + NAME, SUM = END + ENTRY - 16, SIZE = END + ENTRY - 24 };

/* Asserts that nothing but the damage is told: the name and these words. */
static void assert_damaged(const char *path, const char *words)
{
    mgpt_error err;
    assert_null(open_npz_with(path, 2, &err));
    if (strncmp(err.text, "zip: logits.npy: ", 17) != 0 || !strstr(err.text, words))
        fail_msg("expected '%s' in '%s'", words, err.text);
    assert_int_equal(err.status, MGPT_EFILE);
}

TEST_ON_FILE(sums_are_compared)
{
    struct bytes b = array_of("(2, 3)", 2);
    for (unsigned how = 0; how < 2; how++) {
        write_one(*state, "logits.npy", &b, how);
        change_byte(*state, SUM, 1);
        assert_damaged(*state, "the file is damaged");
    }
    write_one(*state, "logits.npy", &b, 0);
    change_byte(*state, END + ENTRY + 1, 1); /* the last of the data */
    assert_damaged(*state, "its checksum is ");
    drop(&b);
}

/* A deflated entry has more bytes, or fewer, than the directory and the header of the array say. */
TEST_ON_FILE(deflated_entries_of_another_size)
{
    static const char *const shapes[] = {"(1, 3)", "(3, 3)"};
    for (size_t i = 0; i < 2; i++) {
        struct bytes b = array_of(shapes[i], 2);
        write_one(*state, "logits.npy", &b, ZIP_DEFLATE);
        change_byte(*state, SIZE + 0,
                    (uint8_t)(arr_len(b.data) ^ (arr_len(b.data) + (i ? 12 : 0) - (i ? 0 : 12))));
        assert_damaged(*state, "its data do not inflate to ");
        drop(&b);
    }
}

/* The logits are whole: only reading the damaged value fails. */
TEST_ON_FILE(damaged_inner_values)
{
    for (unsigned how = 0; how < 2; how++) {
        struct bytes b = array_of("(2, 3)", 2), inner = npy_of("<f4", "(2, 1500)");
        struct zip_made z = {0};
        double row[1500];
        mgpt_error err;
        for (size_t i = 0; i < 3000; i++)
            add(&inner, &(float){1}, 4);
        add_entry(&z, "logits.npy", &b, 0);
        add_entry(&z, "hook_embed.npy", &inner, how);
        z.directory.data[ENTRY + 16] ^= 1; /* its checksum */
        write_archive(*state, &z);
        struct reference *ref = open_npz_with(*state, 2, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(reference_n_hooks(ref), 1);
        assert_int_equal(reference_hook_rows(ref, 0, 1, 1, row, &err), MGPT_EFILE);
        assert_non_null(strstr(err.text, "zip: hook_embed.npy: its checksum is "));
        reference_close(ref);
        drop(&b);
        drop(&inner);
    }
}

TEST_ON_FILE(archives_that_are_none)
{
    static const uint8_t empty[22] = "PK\5\6";
    write_file(*state, "PK\3\4nothing", 11);
    assert_npz_bad(*state, 2, "zip: there is no end record: the file is cut off, or not a zip");
    write_file(*state, empty, sizeof empty);
    assert_npz_bad(*state, 2, "zip: the archive is empty");
}
