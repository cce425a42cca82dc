/* Tests: what the tests know of each architecture. See toy_arch.h. */
#include "support/toy_arch.h"

#include <stddef.h>
#include <string.h>

/* clang-format off */
#define TOY(...)
#define ARCH(arch, ...) {.name = arch, __VA_ARGS__},
static const struct toy_arch rows[] = {
#include "support/toys.inc"
};
/* clang-format on */

const struct toy_arch *toy_arch(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}
