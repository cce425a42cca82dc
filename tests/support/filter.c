/* build/tests/test_forward '*windows*' runs the functions whose names match. glibc hands the arguments of main to
 * constructors; other libraries run all functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if defined(__GLIBC__)
__attribute__((constructor)) static void choose_tests(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
}
#endif
