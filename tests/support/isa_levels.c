/* ISA levels and guarded memory for the tests of kernels. See isa_levels.h. */
#include "support/isa_levels.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

size_t isa_levels_here(struct kernels k[ISA_LEVELS_MOST])
{
    size_t n = 0;
    int runs;
    const char *name;
    for (size_t i = 0; (name = kernels_isa_level(i, &runs)) != NULL; i++) {
        if (!runs) {
            print_message("ISA level %s: UNAVAILABLE on this machine\n", name);
            continue;
        }
        assert_true(n < ISA_LEVELS_MOST);
        assert_true(kernels_init(&k[n++], name));
    }
    return n;
}

struct guarded guard_new(size_t n_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guarded g = {.size = (n_bytes + page - 1) / page * page};
    g.block = aligned_alloc(page, g.size + page);
    assert_non_null(g.block);
    memset(g.block, 0, g.size);
    assert_int_equal(mprotect(g.block + g.size, page, PROT_NONE), 0);
    g.at = guard_last(&g, n_bytes);
    return g;
}

void guard_free(struct guarded *g)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(mprotect(g->block + g->size, page, PROT_READ | PROT_WRITE), 0);
    free(g->block);
}

void *guard_last(const struct guarded *g, size_t n_bytes)
{
    assert_true(n_bytes <= g->size);
    return g->block + g->size - n_bytes;
}
