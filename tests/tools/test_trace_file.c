/* Tests of tools/trace/trace_file.h: archives written out of order are what others read: Python's
 * zipfile tests the .npz, our own parsers read these and the safetensors files. */
#include "support/run.h"
#include "support/unit.h"
#include "trace/trace_file.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/xxh64.h"
#include "convert/containers/npy_state.h"
#include "convert/containers/safetensors.h"

#include <unistd.h>
#include <zlib.h>

enum { H = 3, T = 5 };
#define SMALL 300 /* what is above it counts as above 4 GiB */

static char path[64];

static int make_place(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/mgpt-trace-%ld", (long)getpid());
    return 0;
}

static float trace_value_at(size_t h, size_t t, size_t j)
{
    return (float)(100 * h + 10 * t + j) + 0.5f;
}

/* ids [T], heads [H, T, T] in strands, rows [T, 30] as halves. */
static void plan_three(struct trace_file *f, enum trace_format format, uint64_t zip32_max)
{
    const uint64_t ids[] = {T}, heads[] = {H, T, T}, rows[] = {T, 30};
    trace_file_new(f, format);
    f->zip32_max = zip32_max;
    assert_int_equal(trace_file_add(f, "heads", TRACE_F32, 3, heads, H, NULL), MGPT_OK);
    assert_int_equal(trace_file_add(f, "rows", TRACE_F16, 2, rows, 1, NULL), MGPT_OK);
    assert_int_equal(trace_file_add(f, "ids", TRACE_I64, 1, ids, 1, NULL), MGPT_OK);
    assert_int_equal(trace_file_plan(f, NULL), MGPT_OK);
    assert_int_equal(trace_file_open(f, path, NULL), MGPT_OK);
}

/* Query by query, as a model brings them. */
static void fill_three(struct trace_file *f)
{
    static const int32_t ids[T] = {0, 1, INT32_MAX, -1, INT32_MIN};
    float row[30];
    for (size_t t = 0; t < T; t++) {
        for (size_t h = 0; h < H; h++) {
            for (size_t j = 0; j < T; j++)
                row[j] = trace_value_at(h, t, j);
            trace_file_put(f, 0, h, row, T);
        }
        for (size_t j = 0; j < 30; j++)
            row[j] = (float)j / 8;
        trace_file_put(f, 1, 0, row, 30);
        trace_file_put_ids(f, 2, ids + t, 1);
    }
}

static void write_three(enum trace_format format, uint64_t zip32_max)
{
    struct trace_file f;
    struct file file;
    plan_three(&f, format, zip32_max);
    uint64_t size = f.size;
    fill_three(&f);
    assert_int_equal(trace_file_commit(&f, NULL), MGPT_OK);
    trace_file_discard(&f);
    assert_int_equal(file_open(&file, path, NULL), MGPT_OK);
    assert_int_equal(file.size, size); /* as told beforehand */
    file_close(&file);
}

static void check_heads(const struct npy *npy, const uint8_t *data)
{
    for (size_t i = 0; i < H * T * T; i++)
        assert_true(npy_real(npy, data, i) == (double)trace_value_at(i / T / T, i / T % T, i % T));
}

static void check_rows(const struct npy *npy, const uint8_t *data)
{
    for (size_t i = 0; i < T * 30; i++)
        assert_true(npy_real(npy, data, i) == (double)(i % 30) / 8);
}

static void check_ids(const struct npy *npy, const uint8_t *data)
{
    static const int64_t ids[T] = {0, 1, INT32_MAX, -1, INT32_MIN};
    for (size_t i = 0; i < T; i++)
        assert_true(npy_integer(npy, data, i) == ids[i]);
}

/* The arrays of the file at `path`, which *file and *c hold. */
static struct npz_member *open_npz(struct checkpoint *c, struct file *file)
{
    struct npz_member *arrays = NULL;
    ckpt_init(c);
    assert_int_equal(file_open(file, path, NULL), MGPT_OK);
    assert_int_equal(run_npz(c, (struct span){file->data, file->size}, &arrays, NULL), MGPT_OK);
    return arrays;
}

static void close_npz(struct checkpoint *c, struct file *file, struct npz_member *arrays)
{
    arr_free(arrays);
    ckpt_free(c);
    file_close(file);
    unlink(path);
}

static void check_npz(void)
{
    static const char *const names[] = {"heads", "rows", "ids"};
    static void (*const checks[])(const struct npy *, const uint8_t *) = {check_heads, check_rows,
                                                                          check_ids};
    struct checkpoint c;
    struct file file;
    struct npz_member *arrays = open_npz(&c, &file);
    assert_int_equal(arr_len(arrays), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(arrays[i].name, names[i]);
        assert_int_equal(arrays[i].npy.header % 64, 0);
        checks[i](&arrays[i].npy, arrays[i].data.data);
    }
    close_npz(&c, &file, arrays);
}

/* Another program finds n entries and compares the checksums of the first three with their bytes. */
static void check_with_python(unsigned n)
{
    char command[256];
    snprintf(command, sizeof command,
             "python3 -c 'import zipfile; z = zipfile.ZipFile(\"%s\"); n = z.namelist(); "
             "[z.read(i) for i in n[:3]]; assert len(n) == %u'",
             path, n);
    assert_int_equal(system(command), 0);
}

TEST(npz)
{
    write_three(TRACE_NPZ, UINT32_MAX - 1);
    check_with_python(3);
    check_npz();
}

/* Bytes of the first entry: the room of a .npy header, and its data. */
#define FIRST_BYTES (256 + H * T * T * sizeof(float))

/* The first entry has its size in a zip64 record if it is above the limit, and only then. */
static void check_first_size(uint64_t limit)
{
    struct file file;
    assert_int_equal(file_open(&file, path, NULL), MGPT_OK);
    const uint8_t *size = file.data + 18;
    int is_zip64 = size[0] == 255 && size[1] == 255 && size[2] == 255 && size[3] == 255;
    assert_int_equal(is_zip64, FIRST_BYTES > limit);
    file_close(&file);
}

/* Every size and place that is more than a few hundred bytes is in a zip64 record. */
TEST(zip64)
{
    for (uint64_t limit = SMALL; limit < 1200; limit += 50) {
        write_three(TRACE_NPZ, limit);
        check_first_size(limit);
        if (limit % 300 == 0)
            check_with_python(3);
        check_npz();
    }
    for (uint64_t limit = FIRST_BYTES - 1; limit <= FIRST_BYTES + 1; limit++) {
        write_three(TRACE_NPZ, limit);
        check_first_size(limit);
    }
}

/* Every byte, also those that readers do not look at. NumPy and Python's zipfile read these three. */
TEST(bytes_of_npz)
{
    static const struct {
        uint64_t limit, hash;
    } rows[] = {{UINT32_MAX - 1, 0xcf4b4f9d58b9b3a0},
                {700, 0xbad5284bfc2d4472},
                {SMALL, 0xd46fa84871e32a22}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct file file;
        write_three(TRACE_NPZ, rows[i].limit);
        assert_int_equal(file_open(&file, path, NULL), MGPT_OK);
        assert_true(xxh64(file.data, file.size) == rows[i].hash);
        file_close(&file);
        unlink(path);
    }
}

/* More entries than 16 bits can count. */
TEST(many_entries)
{
    enum { N = 65540 };
    struct trace_file f;
    char name[16];
    const uint64_t one = 1;
    trace_file_new(&f, TRACE_NPZ);
    for (size_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "a%zu", i);
        assert_int_equal(trace_file_add(&f, name, TRACE_I64, 1, &one, 1, NULL), MGPT_OK);
    }
    assert_int_equal(trace_file_plan(&f, NULL), MGPT_OK);
    assert_int_equal(trace_file_open(&f, path, NULL), MGPT_OK);
    for (int32_t i = 0; i < N; i++)
        trace_file_put_ids(&f, (size_t)i, &i, 1);
    assert_int_equal(trace_file_commit(&f, NULL), MGPT_OK);
    trace_file_discard(&f);
    check_with_python(N);
    struct checkpoint c;
    struct file file;
    struct npz_member *arrays = open_npz(&c, &file);
    assert_int_equal(arr_len(arrays), N);
    assert_string_equal(arrays[N - 1].name, "a65539");
    assert_true(npy_integer(&arrays[N - 1].npy, arrays[N - 1].data.data, 0) == N - 1);
    close_npz(&c, &file, arrays);
}

TEST(safetensors)
{
    struct file file;
    struct safetensors st;
    write_three(TRACE_SAFETENSORS, UINT32_MAX - 1);
    assert_int_equal(file_open(&file, path, NULL), MGPT_OK);
    assert_int_equal(st_parse(&st, (struct span){file.data, file.size}, NULL), MGPT_OK);
    assert_int_equal(arr_len(st.tensors), 3);
    static const char *const names[] = {"ids", "heads", "rows"}, *const types[] = {"I64", "F32",
                                                                                   "F16"};
    static const struct npy as[] = {
        {.kind = 'i', .width = 8}, {.kind = 'f', .width = 4}, {.kind = 'f', .width = 2}};
    static void (*const checks[])(const struct npy *, const uint8_t *) = {check_ids, check_heads,
                                                                          check_rows};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(st.tensors[i].name, names[i]);
        assert_string_equal(st.tensors[i].dtype, types[i]);
        assert_int_equal((size_t)(st.tensors[i].data - file.data) % as[i].width, 0);
        checks[i](&as[i], st.tensors[i].data);
    }
    assert_int_equal(st.tensors[1].n_dims, 3);
    assert_int_equal(st.tensors[1].dims[0], H);
    st_free(&st);
    file_close(&file);
    unlink(path);
}

/* Given up, incomplete or too large for the disk: no file. */
/* Arrays of more values than are converted at a time. */
TEST(more_than_a_buffer)
{
    enum { N = 70000 };
    static double doubles[N];
    static int32_t ids[N];
    static int64_t wide[N];
    static float floats[N];
    const uint64_t dims[] = {N};
    struct trace_file f;
    struct file file;
    trace_file_new(&f, TRACE_SAFETENSORS);
    for (size_t i = 0; i < N; i++)
        doubles[i] = floats[i] = (float)(wide[i] = ids[i] = (int32_t)(i * 7) - 9);
    assert_int_equal(trace_file_add(&f, "ids", TRACE_I64, 1, dims, 1, NULL), MGPT_OK);
    assert_int_equal(trace_file_add(&f, "numbers", TRACE_F64, 1, dims, 1, NULL), MGPT_OK);
    assert_int_equal(trace_file_add(&f, "floats", TRACE_F32, 1, dims, 1, NULL), MGPT_OK);
    assert_int_equal(trace_file_plan(&f, NULL), MGPT_OK);
    assert_int_equal(trace_file_open(&f, path, NULL), MGPT_OK);
    trace_file_put_ids(&f, 0, ids, N);
    trace_file_put_doubles(&f, 1, doubles, N);
    trace_file_put(&f, 2, 0, floats, N);
    assert_int_equal(trace_file_commit(&f, NULL), MGPT_OK);
    trace_file_discard(&f);
    assert_int_equal(file_open(&file, path, NULL), MGPT_OK);
    const uint8_t *end = file.data + file.size;
    assert_memory_equal(end - sizeof doubles, doubles, sizeof doubles);
    assert_memory_equal(end - sizeof doubles - sizeof floats, floats, sizeof floats);
    assert_memory_equal(end - sizeof doubles - sizeof floats - sizeof wide, wide, sizeof wide);
    file_close(&file);
    unlink(path);
}

TEST(nothing_left)
{
    struct trace_file f;
    mgpt_error err = {0};
    const uint64_t huge[] = {UINT64_C(1) << 56}, beyond[] = {UINT64_C(1) << 40, 1 << 30};
    plan_three(&f, TRACE_NPZ, UINT32_MAX - 1);
    trace_file_put_ids(&f, 2, (const int32_t[]){1}, 1);
    assert_int_equal(trace_file_commit(&f, &err), MGPT_EARG);
    trace_file_discard(&f);
    assert_int_equal(access(path, F_OK), -1);
    for (int format = TRACE_NPZ; format <= TRACE_SAFETENSORS; format++) {
        trace_file_new(&f, (enum trace_format)format);
        assert_int_equal(trace_file_add(&f, "beyond", TRACE_F32, 2, beyond, 1, &err), MGPT_EMEM);
        assert_int_equal(trace_file_add(&f, "huge", TRACE_F32, 1, huge, 1, NULL), MGPT_OK);
        assert_int_equal(trace_file_plan(&f, NULL), MGPT_OK);
        assert_true(f.size > huge[0] * 4);
        assert_int_equal(trace_file_open(&f, path, &err), MGPT_EIO);
        assert_non_null(strstr(err.text, "cannot reserve: "));
        trace_file_discard(&f);
        assert_int_equal(access(path, F_OK), -1);
    }
    trace_file_new(&f, TRACE_NPZ);
    for (int i = 0; i < 64; i++)
        trace_file_add(&f, "huge", TRACE_F32, 1, huge, 1, NULL);
    assert_int_equal(trace_file_plan(&f, &err), MGPT_EMEM);
    trace_file_discard(&f);
}

GROUP(make_place, NULL)

TEST(checksums_are_those_of_zlib)
{
    struct crc_table table;
    uint8_t bytes[600];
    crc_table_fill(&table);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i + i / 7);
    for (size_t n = 0; n < sizeof bytes; n += n < 20 ? 1 : 97)
        for (size_t cut = 0; cut <= n; cut += cut < 20 ? 1 : 61) {
            uint32_t all = (uint32_t)crc32(0, bytes, (uInt)n);
            uint32_t first = crc_append(&table, 0, bytes, cut);
            assert_int_equal(crc_append(&table, first, bytes + cut, n - cut), all);
            uint32_t second = crc_append(&table, 0, bytes + cut, n - cut);
            assert_int_equal(crc_join(first, second, n - cut), all);
        }
    uint32_t a = 0x12345678, b = 0x9ABCDEF0; /* beyond 32 bits */
    assert_int_equal(crc_join(a, b, 5ull << 32), crc32_combine(a, b, (z_off_t)(5ull << 32)));
}
