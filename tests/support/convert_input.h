/* Tests of tools/convert: the fixtures, and readers called without a command line. */
#ifndef TESTS_CONVERT_INPUT_H
#define TESTS_CONVERT_INPUT_H

#include "convert/core/readers.h"
#include "support/convert.h"

#define FIXTURES "convert" /* the directory in tests/fixtures */

static inline struct file fixture_in(const char *directory, const char *name)
{
    char folder[64];
    snprintf(folder, sizeof folder, "tests/fixtures/%s", directory);
    return repo_file(folder, name);
}

static inline struct file fixture(const char *name)
{
    return fixture_in(FIXTURES, name);
}

struct convert_sides {
    struct span tokenizer, chars;
};

static inline int convert_side(void *user, enum ckpt_option option, const char *const *candidates,
                               size_t n, struct ckpt_side *side, mgpt_error *err)
{
    const struct convert_sides *s = user;
    struct span bytes = option == OPT_CHARS ? s->chars : s->tokenizer;
    (void)candidates;
    (void)n;
    (void)err;
    *side = (struct ckpt_side){option == OPT_CHARS ? "chars.txt" : "tokenizer.bin", bytes};
    return bytes.data != NULL;
}

static inline int read_bytes(struct checkpoint *c, struct span bytes,
                             const struct ckpt_options *options, const struct convert_sides *sides,
                             mgpt_error *err)
{
    struct ckpt_input in = {bytes, "name", options, convert_side, (void *)(uintptr_t)sides,
                            NULL,  NULL};
    ckpt_init(c);
    return ckpt_read(c, &in, err);
}

/* The bytes are refused with these words. options, sides: NULL: none. */
static inline void assert_refused(struct span bytes, const struct ckpt_options *options,
                                  const struct convert_sides *sides, const char *expected)
{
    static const struct ckpt_options no_options;
    static const struct convert_sides no_sides;
    struct checkpoint c;
    mgpt_error err = {.text = ""};
    int status =
        read_bytes(&c, bytes, options ? options : &no_options, sides ? sides : &no_sides, &err);
    if (status == MGPT_OK || !strstr(err.text, expected))
        fail_msg("expected '%s', found '%s'", expected, err.text);
    ckpt_free(&c);
}

static inline struct span text(const char *s)
{
    return (struct span){(const uint8_t *)s, strlen(s)};
}

#endif
