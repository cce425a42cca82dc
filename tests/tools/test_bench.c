/* Parts of `mgpt bench` that are functions: shares, and the loops that read. */
#include "bench/bench.h"
#include "bench/bench_cases.h"
#include "bench/bench_peak.h"
#include "support/unit.h"

#include <math.h>
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

/* Quantiles are between two samples by proportion. */
TEST(numbers_of_samples)
{
    struct series s = {.n = 0};
    assert_true(series_median(&s) == 0 && series_spread(&s) == 0);
    for (int i = 0; i < 5; i++)
        series_add(&s, (int[]){8, 1, 2, 16, 4}[i]);
    assert_true(series_median(&s) == 4 && series_spread(&s) == (8.0 - 2) / 4);
    assert_true(series_mean(&s) == 6.2 && fabs(series_deviation(&s) - sqrt(37.2)) < 1e-12);
    series_add(&s, 6);
    assert_true(series_median(&s) == 5 && series_spread(&s) == (7.5 - 2.5) / 5);
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
        for (int way = 0; runs && way < PEAK_READ_WAYS; way++) {
            uint64_t sum = peak_find(isa)->read(data, N, way);
            assert_int_equal(sum, peak_find(isa)->read(data, N, 0));
            data[N - 4096] ^= 1;
            assert_int_not_equal(sum, peak_find(isa)->read(data, N, way));
            data[N - 4096] ^= 1;
        }
}

/* A thread's bytes are said to be in a cache if they fill three quarters of it or less. */
TEST(levels_of_memory)
{
    const struct machine m = {.l1 = 32 << 10, .l2 = 1 << 20, .l3 = 8 << 20};
    assert_string_equal(machine_level(&m, 24 << 10, 1), "L1");
    assert_string_equal(machine_level(&m, 48 << 10, 2), "L1");
    assert_string_equal(machine_level(&m, 25 << 10, 1), "L2");
    assert_string_equal(machine_level(&m, 768 << 10, 1), "L2");
    assert_string_equal(machine_level(&m, 769 << 10, 1), "L3");
    assert_string_equal(machine_level(&m, 6 << 20, 1), "L3");
    assert_string_equal(machine_level(&m, (6 << 20) + 1, 1), "DRAM");
}

static size_t cache_number(const char *path)
{
    size_t n = 0;
    FILE *f = fopen(path, "r");
    int got = f ? fscanf(f, "%zu", &n) : 0;
    if (f)
        fclose(f);
    return got == 1 ? n : 0;
}

/* The fourth cache that Linux lists is of level 3, on machines that have one. */
TEST(caches)
{
    struct machine m;
    size_t level = cache_number("/sys/devices/system/cpu/cpu0/cache/index3/level");
    size_t kib = cache_number("/sys/devices/system/cpu/cpu0/cache/index3/size");
    machine_look(&m);
    if (level == 3 && kib > 0)
        assert_int_equal(m.l3, kib << 10);
    assert_true(m.l2 > 0 && m.l3 > 0 && m.n_cpus > 0);
}

static double best_rate(int n_threads)
{
    const struct machine no_caches = {0};
    struct limits l;
    double best = 0;
    assert_true(limits_open(&l, &no_caches, "scalar", n_threads, 1));
    for (int i = 0; i < 3; i++) {
        limits_sample(&l);
        best = l.fma.v[i] > best ? l.fma.v[i] : best;
    }
    limits_close(&l);
    return best;
}

/* The limit of n threads is what all of them compute: more threads than CPUs compute as much as the CPUs. Other programs
 * can take the CPUs from one of the two, not each time. */
TEST(operations_of_all_threads)
{
    struct machine m;
    machine_look(&m);
    int as_much = 0;
    for (int i = 0; i < 20 && !as_much; i++)
        as_much = best_rate(m.n_cpus < 8 ? 4 * m.n_cpus : 32) > best_rate(1) / 2;
    assert_true(as_much);
}

/* A multiplication and an addition for every number of a matrix and every token or query. */
TEST(operations_of_cases)
{
    const struct machine m = {.l1 = 1 << 15, .l2 = 1 << 16, .l3 = 1 << 18};
    static const int types[] = {WEIGHT_F32, WEIGHT_Q8_0};
    static struct limits l;
    static struct case_list list;
    struct kernels k;
    struct bank bank;
    assert_true(kernels_init(&k, "scalar") && bank_open(&bank, &m));
    for (size_t i = 0; i < 3; i++) {
        size_t n, n_in, n_out, n_matrices = 0;
        if (i < 2)
            cases_linear(&list, &k, &bank, &l, types[i], NULL);
        else
            cases_attention(&list, &k, &bank, &l, KV_F32);
        for (const struct kernel_case *c = list.c; c < list.c + list.n; c++) {
            int is_linear = sscanf(c->shape, "%zu token%*[s,] %zu to %zu", &n, &n_in, &n_out) == 3;
            if (!is_linear &&
                sscanf(c->shape, "%zu quer%*[yies], %zu keys of %zu", &n, &n_in, &n_out) != 3)
                continue;
            assert_true(c->ops == 2.0 * (double)n * (double)n_in * (double)n_out);
            double each = is_linear && types[i] == WEIGHT_Q8_0 ? 1 : 4; /* bytes at least */
            assert_true(n > 1 ? c->bytes == 0 : c->bytes >= each * (double)n_in * (double)n_out);
            n_matrices++;
        }
        assert_true(n_matrices >= 3);
    }
    bank_free(&bank);
}
