/* Comparing rows of logits: what is measured, and that nothing which is not finite passes. */
#include "check/compare/compare.h"
#include "support/unit.h"

#include <math.h>

static const double none = (double)INFINITY;

static struct compare_bounds at_most(double max_abs)
{
    return (struct compare_bounds){NULL, max_abs, none, none, none};
}

/* A row of logits. */
static struct compare_row compare(const double *reference, const float *ours, size_t n, double tol)
{
    const struct ref_row about = {.n = n};
    const struct compare_bounds bounds = at_most(tol);
    return compare_row(reference, &about, ours, n, -1, &bounds);
}

static int within(const struct compare_total *total, double tol)
{
    const struct compare_bounds bounds = at_most(tol);
    return compare_judge(total, &bounds) == 0;
}

/* The float64 results below are a few roundings of terms near 1 away from the true ones. */
static void assert_near(double a, double b)
{
    if (!(fabs(a - b) < 1e-14))
        fail_msg("%.17g and %.17g", a, b);
}

TEST(equal_rows_are_the_same)
{
    static const double reference[] = {0.5, -1, 2.25, 0};
    static const float ours[] = {0.5f, -1, 2.25f, 0};
    struct compare_total total = {0};
    struct compare_row row = compare(reference, ours, 4, 0);
    (void)state;
    assert_true(row.max_abs == 0 && row.kl == 0 && row.top == TOP_SAME && row.top_ours == 2);
    assert_true(row.nmse == 0 && row.ulp == 0 && row.rank == 1 && row.top5 == 4 &&
                row.top5_of == 4);
    assert_near(row.cosine, 1);
    assert_false(within(&total, 1)); /* nothing was compared */
    compare_add(&total, &row, 0, 0);
    assert_true(within(&total, 0));
    assert_true(compare_nmse(&total) == 0 && compare_db(compare_nmse(&total)) == -none);
}

TEST(differences_are_measured)
{
    static const double reference[] = {0, 0, 4};
    static const float ours[] = {0, 0.5f, 3};
    struct compare_total total = {0};
    struct compare_row row = compare(reference, ours, 3, 0.1);
    (void)state;
    assert_true(row.max_abs == 1 && row.at == 2);
    /* By hand: p = (1, 1, e^4)/(2 + e^4), q = (1, e^.5, e^3)/(1 + e^.5 + e^3), in float64. */
    double p = exp(4) / (2 + exp(4)), q = exp(3) / (1 + exp(0.5) + exp(3)), side = (1 - p) / 2;
    double kl =
        p * log(p / q) + side * log(side / (q * exp(-3))) + side * log(side / (q * exp(-2.5)));
    assert_near(row.kl, kl);
    assert_near(row.nmse, 1.25 / 16);
    assert_near(row.max_rel, 1 / sqrt(16.0 / 3));
    assert_near(row.cosine, 12 / (4 * sqrt(9.25)));
    compare_add(&total, &row, 5, 7);
    assert_true(total.abs.sequence == 5 && total.abs.position == 7 && total.abs.at == 2);
    assert_near(total.nmse.value, row.nmse);
    assert_near(total.cosine.value, 1 - row.cosine);
    assert_near(compare_nmse(&total), 1.25 / 16);
    assert_true(within(&total, 1));
    assert_false(within(&total, 0.999));
    assert_true(total.first.found); /* 0.1 */
    for (int i = 0; i < 8; i++) {   /* each bound alone, met and just broken */
        double found[] = {row.max_abs, row.max_rel, row.nmse, row.kl},
               most[] = {none, none, none, none};
        most[i / 2] = found[i / 2] * (i % 2 ? 0.999 : 1);
        const struct compare_bounds bounds = {NULL, most[0], most[1], most[2], most[3]};
        const struct ref_row about = {.n = 3};
        assert_int_equal(compare_row(reference, &about, ours, 3, -1, &bounds).breaks, i % 2);
    }
}

TEST(distances_in_floats)
{
    static const double reference[][1] = {{1}, {1}, {-0.0}, {1}, {-0x1p-149}, {1 + 0x1p-30}};
    static const float ours[][1] = {{1 + 0x1p-23f}, {1 - 0x1p-24f}, {0},
                                    {1 + 0x1p-20f}, {0x1p-149f},    {1}};
    static const double distance[] = {1, 1, 0, 8, 2, 0};
    (void)state;
    for (size_t i = 0; i < 6; i++)
        assert_true(compare(reference[i], ours[i], 1, 0).ulp == distance[i]);
}

TEST(the_likeliest_tokens)
{
    static const double reference[] = {7, 6, 5, 4, 3, 2, 1};
    static const float ours[] = {5.5f, 6, 5.5f, 0, 9, 8, 7};
    (void)state;
    struct compare_row row = compare(reference, ours, 7, 0.1);
    assert_true(row.top_reference == 0 && row.top_ours == 4 && row.top == TOP_OTHER);
    assert_int_equal(row.rank, 5); /* 9, 8, 7, 6 are above; equals are not */
    assert_int_equal(row.top5_of, 5);
    assert_int_equal(row.top5, 3); /* {0 1 2 3 4} and {4 5 6 1 0} */
}

TEST(ties_are_told_apart)
{
    static const double reference[] = {1, 1.15, 0}, equal[] = {2, 2, 0};
    static const float ours[] = {1.1f, 1.05f, 0}, other[] = {1, 2, 0};
    (void)state;
    assert_int_equal(compare(reference, ours, 3, 0.1).top, TOP_TIE);
    assert_int_equal(compare(reference, ours, 3, 0.05).top, TOP_OTHER);
    assert_int_equal(compare(equal, other, 3, 0).top, TOP_TIE); /* the reference has two */
}

TEST(the_next_token)
{
    static const double reference[] = {0, 1};
    static const float ours[] = {0, 2};
    const struct ref_row about = {.n = 2};
    const struct compare_bounds bounds = at_most(0);
    struct compare_total total = {0};
    (void)state;
    for (int32_t next = -1; next < 3; next++) {
        struct compare_row row = compare_row(reference, &about, ours, 2, next, &bounds);
        compare_add(&total, &row, 0, 0);
        if (next < 0 || next > 1) {
            assert_true(isnan(row.reference_logprob) && isnan(row.logprob));
            continue;
        }
        assert_near(row.reference_logprob, next - log(1 + exp(1)));
        assert_near(row.logprob, 2 * next - log(1 + exp(2)));
    }
    assert_true(total.n_rows == 4 && total.n_next == 2);
    assert_near(total.reference_nll, 2 * log(1 + exp(1)) - 1);
    assert_near(total.nll, 2 * log(1 + exp(2)) - 2);
    static const double far[] = {0, 800}; /* exp(800) is infinite */
    static const float ours_far[] = {0, 800};
    struct compare_row row = compare_row(far, &about, ours_far, 2, 1, &bounds);
    assert_true(row.reference_logprob == 0 && row.logprob == 0);
}

/* ---- log-probabilities ---- */

TEST(log_probabilities_of_all)
{
    /* p = 1/2, 1/4, 1/4; our logits are theirs and 3, then one is 0.5 off. */
    const double reference[] = {log(0.5), log(0.25), log(0.25)};
    const float ours[] = {3 + 0.69314718f, 3, 3}, off[] = {3 + 0.69314718f, 3.5f, 3};
    const struct ref_row about = {.n = 3, .logprobs = 1};
    const struct compare_bounds bounds = at_most(0);
    (void)state;
    struct compare_row row = compare_row(reference, &about, ours, 3, 0, &bounds);
    assert_true(row.max_abs < 1e-7 && row.kl < 1e-14 && row.ulp == 0); /* log 2 as a float */
    assert_near(row.reference_logprob, log(0.5));
    row = compare_row(reference, &about, off, 3, 0, &bounds);
    assert_int_equal(row.at, 1);
    assert_true(fabs(row.max_abs - (0.5 - log(0.75 + 0.25 * exp(0.5)))) < 1e-7);
}

TEST(coarse_values_explain_small_differences)
{
    static const double reference[] = {-0.25, -1.75, -3};
    const float ours[] = {-0.25f, -1.75f, -5}; /* of which exp adds up to 0.959, a shift by 0.041 */
    struct ref_row about = {.n = 3, .logprobs = 1, .slack = 0.05, .floor = -3};
    const struct compare_bounds bounds = at_most(0);
    (void)state;
    struct compare_row row = compare_row(reference, &about, ours, 3, 2, &bounds);
    assert_true(row.max_abs == 0 && row.nmse == 0);
    assert_true(isnan(row.reference_logprob)); /* "at most -3" is not a number */
    assert_true(row.kl < 1e-14);               /* of the two that it tells apart */
    about.slack = 0.03;
    row = compare_row(reference, &about, ours, 3, 2, &bounds);
    assert_true(row.max_abs > 0.01 && row.max_abs < 0.02);
    const float above[] = {-0.25f, -1.75f, -2};
    about.slack = 0.1;
    row = compare_row(reference, &about, above, 3, 2, &bounds);
    assert_true(row.max_abs > 0.8 && row.at == 2); /* above the floor is a difference */
    const float less[] = {-0.25f, -2.75f, -3}, more[] = {-0.25f, -0.75f, -3};
    about = (struct ref_row){.n = 3, .slack = 0.25};
    row = compare_row(reference, &about, less, 3, 2, &bounds);
    assert_true(row.max_abs == 0.75);
    row = compare_row(reference, &about, more, 3, 2, &bounds);
    assert_true(row.max_abs == 0.75);
}

/* The reference keeps two tokens, as top-k does: ours are compared over these. */
TEST(log_probabilities_of_those_that_are_kept)
{
    static const int32_t ids[] = {0, 2};
    const double reference[] = {log(1 / 3.0), log(2 / 3.0)};
    const float ours[] = {0, 5, 0.69314718f, 7};
    const struct ref_row about = {.n = 2, .logprobs = 1, .ids = ids, .masked = 2};
    const struct compare_bounds bounds = at_most(0);
    (void)state;
    struct compare_row row = compare_row(reference, &about, ours, 4, 2, &bounds);
    assert_true(row.max_abs < 1e-7 && row.kl < 1e-14 && row.rank == 1 && row.top == TOP_SAME);
    assert_true(fabs(row.logprob - log(2 / 3.0)) < 1e-7);
}

TEST(log_probabilities_of_some)
{
    /* p = 1/2 for token 2, 1/4 for token 0, 1/4 for all others; ours are 1/4, 1/2 and 1/4. */
    static const int32_t ids[] = {2, 0};
    const double reference[] = {log(0.5), log(0.25)};
    const float ours[] = {1.38629436f, 0, 0.69314718f, 0};
    const struct ref_row about = {.n = 2, .logprobs = 1, .ids = ids};
    const struct compare_bounds bounds = at_most(0);
    (void)state;
    struct compare_row row = compare_row(reference, &about, ours, 4, 0, &bounds);
    /* ours: e^1.386 = 4, 1, 2, 1 of 8. */
    assert_true(fabs(row.max_abs - log(2)) < 1e-7);
    assert_true(fabs(row.kl - (0.5 * log(2) + 0.25 * log(0.5))) < 1e-7);
    assert_true(fabs(row.reference_logprob - log(0.25)) < 1e-7);
    assert_true(fabs(row.logprob - log(0.5)) < 1e-7);
    assert_true(row.top_reference == 2 && row.top_ours == 0 && row.rank == 2);
    assert_true(row.top5_of == 2 && row.top5 == 2);
    row = compare_row(reference, &about, ours, 4, 3, &bounds);
    assert_true(isnan(row.reference_logprob)); /* it is not among them */
    static const float elsewhere[] = {1, 9, 2, 0};
    row = compare_row(reference, &about, elsewhere, 4, -1, &bounds);
    assert_int_equal(row.top, TOP_OTHER);
    assert_true(row.kl > 1); /* all of ours is in the rest */
    static const float nowhere_else[] = {1, -900, 2, -900};
    row = compare_row(reference, &about, nowhere_else, 4, -1, &bounds);
    assert_true(row.kl > 6); /* nothing of ours is: 1e-12 in its place */
}

/* ---- bounds ---- */

TEST(presets)
{
    static const struct compare_bounds presets[] = {
        {"f32", (double)INFINITY, 1e-4, 1e-10, 1e-8},
        {"f16", (double)INFINITY, 3e-2, 1e-5, 1e-4},
        {"q8", (double)INFINITY, (double)INFINITY, 1e-3, 1e-2},
        {"q4", (double)INFINITY, (double)INFINITY, 1e-1, 2.5e-1}};
    static const double reference[] = {1, -1, 1, -1};
    struct compare_bounds bounds, narrower = {0};
    (void)state;
    assert_false(compare_preset(&bounds, "f8"));
    assert_false(compare_preset(&bounds, ""));
    for (size_t i = 0; i < 4; i++) {
        const struct compare_bounds *want = &presets[i];
        assert_true(compare_preset(&bounds, want->name));
        assert_string_equal(bounds.name, want->name);
        assert_true(bounds.max_abs == want->max_abs && bounds.max_rel == want->max_rel &&
                    bounds.max_nmse == want->max_nmse && bounds.max_kl == want->max_kl);
        assert_true(bounds.max_nmse > narrower.max_nmse && bounds.max_kl > narrower.max_kl &&
                    bounds.max_rel >= narrower.max_rel);
        /* An error of the same share everywhere, just inside and just outside of NMSE. */
        for (int outside = 0; outside < 2; outside++) {
            float ours[4];
            struct compare_total total = {0};
            const struct ref_row about = {.n = 4};
            double e = sqrt(bounds.max_nmse) * (outside ? 1.1 : 0.9);
            for (size_t k = 0; k < 4; k++)
                ours[k] = (float)(reference[k] + (k < 2 ? e : -e));
            struct compare_row row = compare_row(reference, &about, ours, 4, -1, &bounds);
            compare_add(&total, &row, 0, 0);
            unsigned broken = compare_judge(&total, &bounds);
            assert_int_equal(broken & COMPARE_NMSE, outside ? COMPARE_NMSE : 0);
            assert_int_equal(broken & ~(unsigned)COMPARE_NMSE, 0);
        }
        narrower = bounds;
    }
}

/* One wrong value among very many hardly moves NMSE. */
TEST(a_single_value_counts_in_f32)
{
    enum { N = 100000 };
    static double reference[N];
    static float ours[N];
    struct compare_bounds bounds;
    struct compare_total total = {0};
    const struct ref_row about = {.n = N};
    (void)state;
    for (size_t i = 0; i < N; i++)
        ours[i] = (float)(reference[i] = i % 2 ? 1 : -1);
    ours[777] += 1e-3f;
    compare_preset(&bounds, "f32");
    struct compare_row row = compare_row(reference, &about, ours, N, -1, &bounds);
    compare_add(&total, &row, 0, 0);
    assert_int_equal(compare_judge(&total, &bounds), COMPARE_REL);
    assert_int_equal(total.rel.at, 777);
}

TEST(nothing_that_is_not_finite_passes)
{
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    static const struct compare_bounds unbound = {NULL, 1e30, 1e30, 1e30, 1e30};
    static const struct ref_row rows[] = {{.n = 3},
                                          {.n = 3, .logprobs = 1, .slack = 1, .floor = -9}};
    (void)state;
    for (size_t b = 0; b < 3; b++) {
        for (int where = 1; where < 8;
             where++) { /* reference, ours, both; logits, log-probabilities */
            double reference[] = {1, where & 1 ? bad[b] : 2, 3};
            float ours[] = {1, where & 2 ? (float)bad[b] : 2, 3};
            static const float good[] = {1, 2, 3};
            static const double fine[] = {1, 2, 3};
            struct compare_total total = {0};
            if ((where & 3) == 0)
                continue;
            struct compare_row row =
                compare_row(reference, &rows[where >> 2], ours, 3, 1, &unbound);
            struct compare_row next = compare(fine, good, 3, 1e30);
            assert_true(isnan(row.max_abs) && isnan(row.kl) && row.at == 1 && row.bad);
            compare_add(&total, &next, 0, 0);
            compare_add(&total, &row, 0, 1);
            compare_add(&total, &next, 0, 2); /* good rows around it do not hide it */
            assert_true(isnan(total.abs.value) && total.abs.position == 1 && total.n_bad == 1);
            assert_true(isnan(compare_nmse(&total)) && isnan(compare_kl(&total)));
            assert_int_equal(compare_judge(&total, &unbound), COMPARE_BAD);
        }
    }
}

/* Where the reference's log-probability is not finite, ours is shown as one, too, not as a logit. */
TEST(what_is_not_finite_is_shown_as_the_reference_has_it)
{
    static const double reference[] = {-1, NAN, -2};
    static const float ours[] = {1, 2, 3};
    const struct ref_row about = {.n = 3, .logprobs = 1};
    const struct compare_bounds bounds = at_most(1e30);
    (void)state;
    struct compare_row row = compare_row(reference, &about, ours, 3, -1, &bounds);
    assert_true(row.bad && row.at == 1 && row.logprobs);
    assert_near(row.ours, 2 - log(exp(1) + exp(2) + exp(3)));
}

/* If a reference has some tokens only, all our logits must be finite. */
TEST(not_finite_where_the_reference_has_nothing)
{
    static const int32_t ids[] = {0};
    static const double reference[] = {-1};
    static const float ours[] = {1, 2, NAN};
    const struct ref_row about = {.n = 1, .logprobs = 1, .ids = ids}, nothing = {.n = 0};
    const struct compare_bounds bounds = at_most(1e30);
    struct compare_total total = {0};
    (void)state;
    struct compare_row row = compare_row(reference, &nothing, ours, 3, -1, &bounds);
    compare_add(&total, &row, 0, 0);
    assert_int_equal(compare_judge(&total, &bounds), COMPARE_NOTHING);
    row = compare_row(reference, &about, ours, 3, -1, &bounds);
    compare_add(&total, &row, 0, 1);
    assert_int_equal(compare_judge(&total, &bounds), COMPARE_BAD);
    assert_int_equal(total.abs.at, 2);
}
