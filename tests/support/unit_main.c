/* Tests: registration and main, linked into every test program. See unit.h. */
#include "support/unit.h"

#include <time.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#if __GLIBC_PREREQ(2, 33)
#define HAS_MALLINFO
#endif
#endif

enum { TESTS_MOST = 64 };

static struct CMUnitTest tests[TESTS_MOST]; /* in the order of their lines */
static int lines[TESTS_MOST];
static size_t n_tests;
static CMFixtureFunction group_setup, group_teardown;

/* Compilers may call the constructors of a file in any order. */
void unit_add(const char *name, CMUnitTestFunction test, CMFixtureFunction setup,
              CMFixtureFunction teardown, int line)
{
    size_t at = n_tests++;
    if (n_tests > TESTS_MOST)
        abort();
    for (; at > 0 && lines[at - 1] > line; at--) {
        tests[at] = tests[at - 1];
        lines[at] = lines[at - 1];
    }
    tests[at] = (struct CMUnitTest){name, test, setup, teardown, NULL};
    lines[at] = line;
}

void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    group_setup = setup;
    group_teardown = teardown;
}

/* The lowest free descriptor: the same after the tests as before, or one of them left a file open. */
static int next_descriptor(void)
{
    int fd = dup(STDERR_FILENO);
    if (fd >= 0)
        close(fd);
    return fd;
}

/* Bytes that are allocated, where tests/meson.build has set that the allocator keeps nothing back; else 0. */
static size_t in_use(void)
{
#ifdef HAS_MALLINFO
    const char *set = getenv("GLIBC_TUNABLES");
    if (set && strstr(set, "tcache_count=0")) {
        void *volatile first = malloc(1); /* the allocator then has what it needs itself */
        free(first);
        tzset(); /* as does the first time of day */
        return mallinfo2().uordblks + mallinfo2().hblkhd;
    }
#endif
    return 0;
}

int unit_run(const char *group)
{
    static char buffer[BUFSIZ];
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    int before = next_descriptor();
    size_t allocated = in_use();
    int failed = _cmocka_run_group_tests(group, tests, n_tests, group_setup, group_teardown);
    int left_open = failed == 0 && next_descriptor() != before;
    if (left_open)
        fprintf(stderr, "a file is left open: descriptor %d\n", before);
    size_t now = in_use();
    int leaked = failed == 0 && now != allocated;
    if (leaked)
        fprintf(stderr, "%zd bytes are still allocated\n", (ssize_t)(now - allocated));
    return failed + left_open + leaked;
}

/* A file of tests may have a main of its own. */
__attribute__((weak)) int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return unit_run("tests");
}
