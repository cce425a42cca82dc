/* What the unit tests use besides tools/windows/posix.h. See unit.c. */
#ifndef TESTS_WINDOWS_UNIT_H
#define TESTS_WINDOWS_UNIT_H

#include "windows/posix.h"

/* ---- guard pages: of whole pages ---- */
enum { PROT_NONE = 0, PROT_READ = 1, PROT_WRITE = 2 };
int mprotect(void *at, size_t n, int rights);

/* Of pages as well, unlike the one of base/windows.h. */
static inline void *unit_aligned_alloc(size_t alignment, size_t n)
{
    return _aligned_malloc(n, alignment);
}
#undef aligned_alloc
#define aligned_alloc unit_aligned_alloc

/* ld takes no weak main: the first of two is taken (tests/meson.build). */
#define weak

/* ---- folders ---- */
char *mkdtemp(char *path);

/* The files of one folder, a pattern in the last part. */
typedef struct {
    size_t gl_pathc;
    char *gl_pathv[64];
} glob_t;
int glob(const char *pattern, int flags, void *failed, glob_t *to);
void globfree(glob_t *to);

#endif
