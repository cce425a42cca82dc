/* Tests of pickles and PyTorch files: the fixtures, and bytes written in the test. */
#ifndef TESTS_TORCH_INPUT_H
#define TESTS_TORCH_INPUT_H

#include "convert/containers/pickle.h"
#include "support/convert.h"

/* Bytes of a string literal that may hold NULs. */
#define BYTES(s) ((struct span){(const uint8_t *)(s), sizeof(s) - 1})

/* A pickle of protocol 2, 3, ... */
#define P2(s) BYTES("\x80\x02" s)
#define P3(s) BYTES("\x80\x03" s)
#define P4(s) BYTES("\x80\x04" s)
#define P5(s) BYTES("\x80\x05" s)

static inline struct file torch_fixture(const char *name)
{
    return repo_file("tests/fixtures/torch", name);
}

static inline struct span span_of(const struct file *f)
{
    return (struct span){f->data, f->size};
}

/* A copy that ends exactly where its memory ends, so that a sanitizer sees a read beyond it. */
static inline struct span exact_copy(struct span s)
{
    uint8_t *p = malloc(s.size ? s.size : 1);
    assert_non_null(p);
    if (s.size)
        memcpy(p, s.data, s.size);
    return (struct span){p, s.size};
}

static inline void free_copy(struct span s)
{
    free((void *)(uintptr_t)s.data);
}

/* A pickle that is read to its end. */
static inline struct pickle good(struct span bytes)
{
    struct pickle p;
    mgpt_error err;
    if (pickle_read(&p, bytes, &err) < 0)
        fail_msg("refused: %s", err.text);
    assert_int_equal(p.size, bytes.size);
    return p;
}

static inline void assert_file_refused(int status, const mgpt_error *err, const char *text)
{
    if (status >= 0)
        fail_msg("accepted, expected '%s'", text);
    assert_int_equal(status, MGPT_EFILE);
    if (!strstr(err->text, text))
        fail_msg("'%s' does not hold '%s'", err->text, text);
}

/* Refused, in a copy of exact size, with this text in the error. */
static inline void refused(struct span bytes, const char *text)
{
    struct pickle p;
    mgpt_error err;
    struct span copy = exact_copy(bytes);
    int status = pickle_read(&p, copy, &err);
    free_copy(copy);
    assert_file_refused(status, &err, text);
}

/* A small generator for places to damage: reproducible, nothing more. */
static inline uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

#endif
