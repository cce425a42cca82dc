/* Tests: registration and main, linked into every test program. See unit.h. */
#include "support/unit.h"

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

int unit_run(const char *group)
{
    return _cmocka_run_group_tests(group, tests, n_tests, group_setup, group_teardown);
}

/* A file of tests may have a main of its own. */
__attribute__((weak)) int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return unit_run("tests");
}
