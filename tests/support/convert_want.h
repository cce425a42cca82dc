/* Tests of tools/convert: a conversion through the writer, and its tensors against a .want file. */
#ifndef TESTS_CONVERT_WANT_H
#define TESTS_CONVERT_WANT_H

#include "convert/core/write.h"
#include "support/convert_input.h"

#include <unistd.h>

/* ---- files written --------------------------------------------------------------------------- */

struct result {
    char path[64];
    struct file file;
    struct gguf g;
    struct checkpoint c;
};

static inline void result_free(struct result *r)
{
    gguf_free(&r->g);
    file_close(&r->file);
    unlink(r->path);
    ckpt_free(&r->c);
}

static inline void convert(struct result *r, struct span bytes, const struct ckpt_options *options,
                           const char *type)
{
    static const struct ckpt_options none = {0};
    mgpt_error err;
    struct file tokenizer = fixture("tokenizer.bin");
    struct convert_sides sides = {{tokenizer.data, tokenizer.size}, {NULL, 0}};
    strcpy(r->path, "/tmp/mgpt-convert-XXXXXX");
    close(mkstemp(r->path));
    if (read_bytes(&r->c, bytes, options ? options : &none, &sides, &err) < 0 ||
        ckpt_write(&r->c, r->path, type ? dtype_named(type) : NULL, &err) < 0 ||
        file_open(&r->file, r->path, &err) < 0 ||
        gguf_parse(&r->g, r->file.data, r->file.size, &err) < 0)
        fail_msg("%s", err.text);
    file_close(&tokenizer);
}

/* One line of a .want file against one tensor; returns the next line. */
static inline const char *check_line(const char *line, const struct gguf_tensor *t)
{
    char name[64];
    int n, n_dims;
    assert_int_equal(sscanf(line, "%63s %d%n", name, &n_dims, &n), 2);
    line += n;
    assert_string_equal(name, t->name);
    assert_int_equal(n_dims, t->n_dims);
    for (int d = 0; d < n_dims; d++, line += n) {
        unsigned long long dim;
        assert_int_equal(sscanf(line, "%llu%n", &dim, &n), 1);
        assert_int_equal(dim, t->dims[d]);
    }
    for (uint64_t i = 0; i < t->n_values; i++, line += n) {
        unsigned expected, found;
        assert_int_equal(sscanf(line, "%x%n", &expected, &n), 1);
        memcpy(&found, t->data + 4 * i, 4);
        if (found != expected)
            fail_msg("%s[%llu]: %08x, expected %08x", name, (unsigned long long)i, found, expected);
    }
    return line + 1;
}

static inline void check_tensors(const struct gguf *g, const char *directory, const char *want)
{
    struct file f = fixture_in(directory, want);
    char *lines = calloc(1, f.size + 1);
    assert_non_null(lines);
    memcpy(lines, f.data, f.size);
    const char *line = lines;
    for (size_t i = 0; i < arr_len(g->tensors); i++)
        line = check_line(line, &g->tensors[i]);
    assert_int_equal(*line, 0); /* none is missing */
    free(lines);
    file_close(&f);
}

#endif
