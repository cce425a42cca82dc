/* The table of mgpt check. See check_report.h. */
#include "check/compare/check_report.h"
#include "common/cli.h"
#include "common/interrupt.h"
#include "common/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const top_names[] = {
    [TOP_SAME] = "same", [TOP_TIE] = "tie", [TOP_OTHER] = "DIFFERENT", [TOP_UNKNOWN] = "-"};

void check_table_head(size_t i, const struct ref_sequence *sequence)
{
    printf("%ssequence %zu: %zu tokens", i > 0 ? "\n" : "", i, sequence->n);
    if (sequence->label) {
        putchar(' ');
        text_print_quoted(stdout, sequence->label, strlen(sequence->label));
    }
    printf("\n  pos   token  max|diff|    at id  NMSE dB  KL (nats)   |dlogp|   rank  top-5  top-1"
           "      token\n");
}

/* ---- a position ---- */

enum { TOKEN_COLUMNS = 13 };

/* Columns that a character takes: two in the scripts of East Asia. */
static int columns_of(const unsigned char *p)
{
    return p[0] >= 0xE3 && p[0] < 0xF5 ? 2 : 1; /* from U+3000 up */
}

/* At most TOKEN_COLUMNS of an escaped text. */
static void print_clipped(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    int used = 0;
    for (size_t n; *p; p += n) {
        for (n = 1; (p[n] & 0xC0) == 0x80;)
            n++;
        used += columns_of(p);
        if (used > TOKEN_COLUMNS - 3 && p[n] && strlen((const char *)p) > 3) {
            printf("...");
            return;
        }
        fwrite(p, 1, n, stdout);
    }
}

static int print_token(const mgpt_model *model, int32_t token)
{
    char *text = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&text, &n);
    if (memory)
        text_print_token(memory, model, token);
    int whole = memory && !ferror(memory);
    whole &= memory && fclose(memory) == 0 && text;
    if (whole)
        print_clipped(text);
    free(text);
    return whole;
}

/* A number that a reference need not have, in `width` columns. */
static void print_optional(int width, double value)
{
    if (isnan(value))
        printf("%*s", width, "-");
    else
        printf("%*.2e", width, value);
}

int check_table_row(const mgpt_model *model, const struct check_place *place,
                    const struct compare_row *row)
{
    printf("%5zu %7d  ", place->position, (int)place->token);
    if (row->n == 0)
        printf("%-65s", "not in the reference");
    else if (row->bad)
        printf("%-9s  %7zu  %7s  %9s %9s %6s %6s  %-9s", "NaN", row->at, "-", "-", "-", "-", "-",
               "DIFFERENT");
    else {
        printf("%-9.2e  %7zu  %7.1f  %9.2e", row->max_abs, row->at, compare_db(row->nmse), row->kl);
        print_optional(10, fabs(row->reference_logprob - row->logprob));
        printf(" %6zu   %u/%u  %-9s", row->rank, row->top5, row->top5_of, top_names[row->top]);
    }
    putchar(' ');
    if (!print_token(model, place->token)) {
        cli_note("out of memory: the text of a token");
        return EXIT_FULL;
    }
    putchar('\n');
    return EXIT_OK;
}

/* ---- the verdict ---- */

static void print_where(const struct compare_worst *worst, int with_id)
{
    printf(" at sequence %zu, position %zu", worst->sequence, worst->position);
    if (with_id)
        printf(", id %zu", worst->at);
    putchar('\n');
}

/* The first row that breaks a bound, with the numbers of both sides. */
static void print_first(const struct compare_first *first)
{
    if (!first->found)
        return;
    printf("first bad   sequence %zu, position %zu, %s of id %zu: ours %.9g, reference ",
           first->sequence, first->position, first->logprobs ? "log-probability" : "logit",
           first->at, isnan(first->ours) ? (double)NAN : first->ours); /* without a sign */
    printf(isnan(first->theirs) ? "not a number or absent\n" : "%.9g\n", first->theirs);
}

/* What was measured where all values are finite. */
static void print_measures(const struct compare_total *t)
{
    printf("max|diff|   %.6g", t->abs.value);
    print_where(&t->abs, 1);
    printf("NMSE        %.3g (%.1f dB), at most %.3g", compare_nmse(t), compare_db(compare_nmse(t)),
           t->nmse.value);
    print_where(&t->nmse, 0);
    printf("max/rms     %.3g", t->rel.value);
    print_where(&t->rel, 0);
    printf("cosine      %.10g, at least %.10g", compare_cosine(t), 1 - t->cosine.value);
    print_where(&t->cosine, 0);
    printf("mean KL     %.3g nats, at most %.3g", compare_kl(t), t->kl.value);
    print_where(&t->kl, 0);
    if (t->n_next > 0) {
        printf("|dlogp|     %.3g nats on average, at most %.3g", t->sum_logprob / (double)t->n_next,
               t->logprob.value);
        print_where(&t->logprob, 0);
        printf("perplexity  %.8g in the reference, %.8g here (%zu tokens)\n",
               exp(t->reference_nll / (double)t->n_next), exp(t->nll / (double)t->n_next),
               t->n_next);
    }
    if (t->ulp.value > 0)
        printf("ULP         at most %.0f\n", t->ulp.value);
    printf("top-1       %zu of %zu the same", t->n_same, t->n_top);
    if (t->n_tie > 0)
        printf(", %zu tied", t->n_tie);
    printf("\ntop-5       %zu of %zu the same\n", t->n_top5, t->top5_of);
    printf("rank        %.0f at most, of the reference's likeliest token\n", t->rank.value);
}

static void print_bounds(const struct compare_bounds *b)
{
    const struct {
        const char *name;
        double value;
    } bounds[] = {{"max|diff|", b->max_abs},
                  {"max/rms", b->max_rel},
                  {"NMSE", b->max_nmse},
                  {"KL", b->max_kl}};
    const char *separator = "";
    printf("bounds      ");
    if (b->name)
        printf("%s: ", b->name);
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (isfinite(bounds[i].value)) {
            printf("%s%s %g", separator, bounds[i].name, bounds[i].value);
            separator = ", ";
        }
    putchar('\n');
}

static void print_broken(unsigned broken)
{
    static const char *const names[] = {
        "no position was compared", "not finite", "max|diff|", "max/rms", "NMSE", "KL"};
    const char *separator = " (";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (broken & 1u << i) {
            printf("%s%s", separator, names[i]);
            separator = ", ";
        }
    if (broken)
        putchar(')');
}

/* Tokens that a filter of the reference's program has left out. */
static void print_masked(const struct compare_total *t)
{
    if (t->n_masked == 0)
        return;
    printf("masked      the reference has -inf at ");
    if (t->kept_most < t->masked_most && t->kept_least == t->kept_most)
        printf("all but %zu ids: scores after top-k or another filter", t->kept_most);
    else if (t->kept_most < t->masked_most)
        printf("all but %zu to %zu ids: scores after top-p or another filter", t->kept_least,
               t->kept_most);
    else
        printf("%zu id%s at most: suppressed tokens", t->masked_most,
               t->masked_most == 1 ? "" : "s");
    printf(" (%zu positions); the others are compared\n", t->n_masked);
}

int check_table_verdict(const struct compare_total *total, const struct compare_bounds *bounds,
                        unsigned broken)
{
    printf("\npositions   %zu\n", total->n_rows);
    if (total->n_bad > 0) {
        printf("not finite  %zu positions, the first", total->n_bad);
        print_where(&total->abs, 1);
    } else if (total->n_rows > 0) {
        print_measures(total);
    }
    print_masked(total);
    print_bounds(bounds);
    printf("verdict     %s", broken ? "DIFFERENT" : "same");
    print_broken(broken);
    putchar('\n');
    if (broken)
        print_first(&total->first);
    return EXIT_OK;
}

/* ---- the report -------------------------------------------------------------------------------- */

int check_report_row(struct check_report *r, const struct check_place *place, const double *values,
                     const struct ref_row *about, const float *ours)
{
    mgpt_info info;
    mgpt_get_info(r->model, &info, NULL);
    struct compare_row row =
        compare_row(values, about, ours, (size_t)info.n_vocab, place->next, r->bounds);
    compare_add(&r->total, &row, place->sequence, place->position);
    int code = r->json ? check_json_row(place, &row) : check_table_row(r->model, place, &row);
    if (interrupted())
        return EXIT_INTERRUPTED;
    return ferror(stdout) ? EXIT_IO : code;
}

int check_report_verdict(const struct check_report *r, unsigned *broken)
{
    *broken = compare_judge(&r->total, r->bounds);
    return r->json ? check_json_verdict(&r->total, r->bounds, *broken)
                   : check_table_verdict(&r->total, r->bounds, *broken);
}
