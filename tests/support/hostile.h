/* Hostile bytes: a file cut at its lengths, and with bytes changed. What is read is in blocks of
 * exactly their size, so that ASan and valgrind see every access. */
#ifndef TESTS_HOSTILE_H
#define TESTS_HOSTILE_H

#include "support/convert_input.h"

typedef int hostile_fn(struct span bytes, void *user); /* the status of a reader */

static inline int hostile_read(const uint8_t *data, size_t n, hostile_fn *read, void *user)
{
    uint8_t *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, data, n);
    int status = read((struct span){exact, n}, user);
    free(exact);
    return status;
}

/* Every cut is refused, the whole is not. A text is whole without its last line end. */
static inline void hostile_cuts(const struct file *f, size_t step, hostile_fn *read, void *user)
{
    size_t whole = f->size;
    while (whole > 0 && f->data[whole - 1] == '\n')
        whole--;
    for (size_t n = 0; n < whole; n += step)
        if (hostile_read(f->data, n, read, user) == MGPT_OK)
            fail_msg("taken although cut at byte %zu", n);
    assert_int_equal(hostile_read(f->data, f->size, read, user), MGPT_OK);
}

/* One to three bytes changed, in every other round among the first `head`; how many rounds were
 * refused. */
static inline int hostile_flips(const struct file *f, int rounds, size_t head, hostile_fn *read,
                                void *user)
{
    uint64_t x = 1;
    uint8_t *copy = malloc(f->size);
    int n_bad = 0;
    assert_non_null(copy);
    for (int round = 0; round < rounds; round++) {
        memcpy(copy, f->data, f->size);
        for (int k = 0; k < 1 + round % 3; k++) {
            x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            copy[(x >> 33) % (round % 2 && f->size > head ? head : f->size)] ^= (uint8_t)(x >> 24);
        }
        n_bad += hostile_read(copy, f->size, read, user) < 0;
    }
    free(copy);
    return n_bad;
}

/* Reads, and when that succeeds every value as well. */
static inline int read_whole(struct span bytes, const struct ckpt_options *options,
                             const struct convert_sides *sides)
{
    struct checkpoint c;
    mgpt_error err = {0};
    float v[64];
    int status = read_bytes(&c, bytes, options, sides, &err);
    if (status < 0)
        assert_true(err.text[0] && err.status == status);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(c.tensors); i++) {
        uint64_t size = c.tensors[i].n_values;
        assert_true(size < 1000000); /* no file here is so large */
        for (uint64_t first = 0; first < size; first += 64)
            ckpt_values(&c.tensors[i], first, size - first < 64 ? (size_t)(size - first) : 64, v);
    }
    if (status == MGPT_OK && c.failed.status < 0)
        status = c.failed.status;
    ckpt_free(&c);
    return status;
}

#endif
