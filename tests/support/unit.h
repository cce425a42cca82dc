/* Tests: cmocka with tests that register themselves.
 *
 *     TEST(windows_end) { ... }   a test; the tests of a file run in the order of their lines
 *     GROUP(setup, teardown)      cmocka's fixture around all tests of the file, *state in each
 *
 * unit_main.c has main: build/tests/test_forward '*windows*' runs the tests whose names match.
 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* setup and teardown run around this test alone. */
#define TEST_WITH(name, setup, teardown)                                                           \
    static void test_##name(void **state);                                                         \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        unit_add(#name, test_##name, setup, teardown, __LINE__);                                   \
    }                                                                                              \
    static void test_##name(void **state __attribute__((unused)))

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* A test of every member of a set: `each` calls the body, a function of `parameter`, for all. */
#define TEST_EACH(each, name, parameter)                                                           \
    static void each_##name(parameter);                                                            \
    TEST(name)                                                                                     \
    {                                                                                              \
        each(each_##name);                                                                         \
    }                                                                                              \
    static void each_##name(parameter)

#define GROUP(setup, teardown)                                                                     \
    __attribute__((constructor)) static void add_group(void)                                       \
    {                                                                                              \
        unit_group(setup, teardown);                                                               \
    }

void unit_add(const char *name, CMUnitTestFunction test, CMFixtureFunction setup,
              CMFixtureFunction teardown, int line);
void unit_group(CMFixtureFunction setup, CMFixtureFunction teardown);

/* Runs all tests under the name of a group; returns the number that failed. */
int unit_run(const char *group);

/* The path of a file of the source tree; good until the next call. */
const char *unit_path(const char *name);

/* Calls row for every line of such a file that is neither empty nor a comment (#), without its line
 * end. Returns how many there are. */
size_t unit_rows(const char *name, void row(char *line, void *user), void *user);

#endif
