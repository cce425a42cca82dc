/* Comparing rows of logits: what is measured, and that nothing which is not finite passes. */
#include "compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void equal_rows_are_the_same(void **state)
{
    static const double reference[] = {0.5, -1, 2.25, 0};
    static const float ours[] = {0.5f, -1, 2.25f, 0};
    struct compare_total total = {0};
    struct compare_row row = compare_row(reference, ours, 4, 0);
    (void)state;
    assert_true(row.max_abs == 0 && row.kl == 0 && row.top == TOP_SAME && row.top_ours == 2);
    assert_false(compare_same(&total, 1)); /* nothing was compared */
    compare_add(&total, &row, 0, 0);
    assert_true(compare_same(&total, 0));
    assert_true(compare_nmse(&total) == 0);
}

static void differences_are_measured(void **state)
{
    static const double reference[] = {0, 0, 4};
    static const float ours[] = {0, 0.5f, 3};
    struct compare_total total = {0};
    struct compare_row row = compare_row(reference, ours, 3, 0.1);
    (void)state;
    assert_true(row.max_abs == 1 && row.at == 2);
    /* By hand: p = (1, 1, e^4)/(2 + e^4), q = (1, e^.5, e^3)/(1 + e^.5 + e^3), in float64. */
    double p = exp(4) / (2 + exp(4)), q = exp(3) / (1 + exp(0.5) + exp(3)), side = (1 - p) / 2;
    double kl =
        p * log(p / q) + side * log(side / (q * exp(-3))) + side * log(side / (q * exp(-2.5)));
    assert_true(fabs(row.kl - kl) < 1e-14); /* a few roundings of terms near 0.1 */
    compare_add(&total, &row, 5, 7);
    assert_true(total.sequence == 5 && total.position == 7 && total.at == 2);
    assert_true(compare_nmse(&total) == 1.25 / 16);
    assert_true(compare_same(&total, 1));
    assert_false(compare_same(&total, 0.999));
}

static void ties_are_told_apart(void **state)
{
    static const double reference[] = {1, 1.15, 0};
    static const float ours[] = {1.1f, 1.05f, 0};
    (void)state;
    assert_int_equal(compare_row(reference, ours, 3, 0.1).top, TOP_TIE);
    assert_int_equal(compare_row(reference, ours, 3, 0.05).top, TOP_OTHER);
}

static void nothing_that_is_not_finite_passes(void **state)
{
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    (void)state;
    for (size_t b = 0; b < 3; b++) {
        for (int where = 1; where < 4; where++) { /* reference, ours, both */
            double reference[] = {1, where & 1 ? bad[b] : 2, 3};
            float ours[] = {1, where & 2 ? (float)bad[b] : 2, 3};
            static const float good[] = {1, 2, 3};
            static const double fine[] = {1, 2, 3};
            struct compare_total total = {0};
            struct compare_row row = compare_row(reference, ours, 3, 1e30);
            struct compare_row next = compare_row(fine, good, 3, 1e30);
            assert_true(isnan(row.max_abs) && isnan(row.kl) && row.at == 1);
            compare_add(&total, &next, 0, 0);
            compare_add(&total, &row, 0, 1);
            compare_add(&total, &next, 0, 2); /* good rows around it do not hide it */
            assert_true(isnan(total.max_abs) && total.position == 1 && total.n_bad == 1);
            assert_true(isnan(compare_nmse(&total)));
            assert_false(compare_same(&total, 1e30));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_rows_are_the_same),
        cmocka_unit_test(differences_are_measured),
        cmocka_unit_test(ties_are_told_apart),
        cmocka_unit_test(nothing_that_is_not_finite_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
