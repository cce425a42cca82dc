/* Tests: a directory of files in memory, and the tokenizer that hf_tokenizer_read makes of it. */
#ifndef TESTS_TOK_DIRECTORY_H
#define TESTS_TOK_DIRECTORY_H

#include "base/mem.h"
#include "mgpt.h"
#include "support/run.h"
#include "support/unit.h"

struct member {
    const char *name;
    struct span bytes;
};

struct directory {
    struct member members[6];
    size_t n;
};

static inline int find_member(void *user, enum ckpt_option option, const char *const *candidates,
                              size_t n_candidates, struct ckpt_side *side, mgpt_error *err)
{
    const struct directory *d = user;
    (void)option;
    (void)err;
    for (size_t i = 0; i < n_candidates; i++)
        for (size_t k = 0; k < d->n; k++)
            if (strcmp(d->members[k].name, candidates[i]) == 0) {
                *side = (struct ckpt_side){d->members[k].name, d->members[k].bytes};
                return 1;
            }
    return 0;
}

static inline void add_bytes(struct directory *d, const char *name, const void *p, size_t n)
{
    d->members[d->n++] = (struct member){name, {p, n}};
}

static inline void add_file(struct directory *d, const char *name, const char *text)
{
    add_bytes(d, name, text, strlen(text));
}

static inline int read_directory(struct checkpoint *c, struct directory *d, uint64_t n_rows,
                                 mgpt_error *err)
{
    static const struct ckpt_options options;
    struct ckpt_input in = {.name = "x", .options = &options, .side = find_member, .user = d};
    ckpt_init(c);
    return run_tokenizer(c, &in, n_rows, err);
}

/* Reads what must be read; the caller frees. */
static inline void reads(struct checkpoint *c, struct directory *d, uint64_t n_rows)
{
    mgpt_error err = {0};
    if (read_directory(c, d, n_rows, &err) < 0)
        fail_msg("%s", err.text);
}

static inline void refuses(struct directory *d, uint64_t n_rows, const char *message)
{
    struct checkpoint c;
    mgpt_error err = {0};
    assert_int_equal(read_directory(&c, d, n_rows, &err), MGPT_EFILE);
    assert_string_equal(err.text, message);
    ckpt_free(&c);
}

static inline void has_token(const struct checkpoint *c, size_t id, const char *text, int type)
{
    assert_true(id < arr_len(c->vocab.tokens));
    assert_int_equal(c->vocab.tokens[id].n, strlen(text));
    assert_memory_equal(c->vocab.tokens[id].p, text, strlen(text));
    assert_int_equal(c->vocab.types[id], type);
}

/* Reads it cut off anywhere, and with any bit changed; a sanitizer judges. */
static inline void survive(const char *name, uint8_t *bytes, size_t n)
{
    struct directory d = {.n = 0};
    struct checkpoint c;
    uint8_t *copy = malloc(n ? n : 1); /* exactly as long: reading beyond it is seen */
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    add_bytes(&d, name, copy, n);
    read_directory(&c, &d, 300, NULL);
    ckpt_free(&c);
    free(copy);
}

static inline void survive_all(const char *name, uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        survive(name, bytes, i);
    for (size_t i = 0; i < n; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1u << bit);
            survive(name, bytes, n);
            bytes[i] ^= (uint8_t)(1u << bit);
        }
}

#endif
