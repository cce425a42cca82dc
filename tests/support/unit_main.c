/* Tests: registration and main, linked into every test program. See unit.h. */
#include "support/unit.h"

#include <unistd.h>

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

int unit_run(const char *group)
{
    static char buffer[BUFSIZ];
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    int before = next_descriptor();
    int failed = _cmocka_run_group_tests(group, tests, n_tests, group_setup, group_teardown);
    int left_open = failed == 0 && next_descriptor() != before;
    if (left_open)
        fprintf(stderr, "a file is left open: descriptor %d\n", before);
    return failed + left_open;
}

/* A file of tests may have a main of its own. */
__attribute__((weak)) int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return unit_run("tests");
}
