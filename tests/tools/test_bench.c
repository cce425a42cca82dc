/* Parts of `mgpt bench` that are functions: shares, and the loops that read. */
#include "bench/bench.h"
#include "bench/bench_peak.h"
#include "support/unit.h"

#include <string.h>

static void same_cell(double share, const char *want)
{
    char cell[32];
    struct series s = {.v = {share}, .n = 1}, none = {0};
    assert_string_equal(bench_share(cell, sizeof cell, &s), want);
    int fault = strchr(want, '!') != NULL;
    assert_int_equal(share_faults(&s, &none), fault);
    assert_int_equal(share_faults(&none, &s), fault);
}

TEST(shares)
{
    char cell[32];
    struct series none = {0};
    assert_string_equal(bench_share(cell, sizeof cell, &none), "-");
    same_cell(0.9994, "99.9%");
    same_cell(1.0004, "100.0%");
    same_cell(1.0006, "100.1%!");
    same_cell(1.52, "152.0%!");
}

/* Every loop of an ISA level reads each byte once: their sums are equal. */
TEST(read_loops)
{
    enum { N = 3 * PEAK_READ_UNIT };
    static _Alignas(64) char data[N];
    const char *isa;
    int runs;
    for (size_t i = 0; i < N; i++)
        data[i] = (char)(i * 131 + i / 64 * 17);
    for (size_t i = 0; (isa = mgpt_isa(i, &runs)); i++)
        for (int way = 1; runs && way < PEAK_READ_WAYS; way++)
            assert_int_equal(peak_find(isa)->read(data, N, way), peak_find(isa)->read(data, N, 0));
}
