/* Tests of tools/convert: files of the repository, notes of a checkpoint, what a reader must
 * say. */
#ifndef TESTS_CONVERT_H
#define TESTS_CONVERT_H

#include "base/file.h"
#include "base/mem.h"
#include "convert/core/checkpoint.h"
#include "support/unit.h"

/* A file of the repository, or of one of its folders. */
static inline int repo_open(struct file *f, const char *folder, const char *name, mgpt_error *err)
{
    char path[512];
    const char *root = getenv("MGPT_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/%s/%s", root ? root : ".", folder, name);
    return file_open(f, path, err);
}

static inline struct file repo_file(const char *folder, const char *name)
{
    struct file f;
    mgpt_error err;
    if (repo_open(&f, folder, name, &err) < 0)
        fail_msg("%s/%s: %s", folder, name, err.text);
    return f;
}

static inline int has_note(const struct checkpoint *c, const char *part)
{
    for (size_t i = 0; i < arr_len(c->notes); i++)
        if (strstr(c->notes[i], part))
            return 1;
    return 0;
}

/* The status and text of a reader: an error that holds `expected`, or success where that is
 * NULL. */
static inline void must_say(const char *what, int status, const mgpt_error *err,
                            const char *expected)
{
    if (expected ? status == MGPT_OK || !strstr(err->text, expected) : status != MGPT_OK)
        fail_msg("%.80s: expected '%s', found '%s'", what, expected ? expected : "success",
                 err->text);
}

#endif
