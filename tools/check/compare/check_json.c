/* The JSON Lines of mgpt check. See check_report.h. */
#include "check/compare/check_report.h"
#include "common/cli.h"
#include "common/text.h"

#include <math.h>

static const char *const top_names[] = {
    [TOP_SAME] = "same", [TOP_TIE] = "tie", [TOP_OTHER] = "different", [TOP_UNKNOWN] = "unknown"};

#define INTEGER(x) ((int64_t)(x))

int check_json_row(const struct check_place *place, const struct compare_row *row)
{
    struct jtext *json =
        jtext("{s:I, s:I, s:i, s:I}", "sequence", INTEGER(place->sequence), "pos",
              INTEGER(place->position), "token", (int)place->token, "values", INTEGER(row->n));
    if (row->n > 0)
        jtext_add(json, "s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:I, s:I, s:I, s:i, s:i, s:f",
                  "max_abs", row->max_abs, "id", INTEGER(row->at), "max_rel", row->max_rel, "nmse",
                  row->nmse, "cosine", row->cosine, "kl", row->kl, "reference_logprob",
                  row->reference_logprob, "logprob", row->logprob, "top1", top_names[row->top],
                  "reference_top", INTEGER(row->top_reference), "top", INTEGER(row->top_ours),
                  "rank", INTEGER(row->rank), "top5", (int)row->top5, "top5_of", (int)row->top5_of,
                  "ulp", row->ulp);
    return text_json_line(json);
}

static struct jtext *place_of(const struct compare_worst *w)
{
    return jtext("{s:f, s:I, s:I, s:I}", "value", w->value, "sequence", INTEGER(w->sequence), "pos",
                 INTEGER(w->position), "id", INTEGER(w->at));
}

/* The names of the bounds that are broken. */
static struct jtext *broken_list(unsigned broken)
{
    static const char *const names[] = {"no_positions", "not_finite", "max_abs",
                                        "max_rel",      "nmse",       "kl"};
    struct jtext *list = jtext("[]");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (broken & 1u << i)
            jtext_add(list, "s", names[i]);
    return list;
}

static struct jtext *bounds_of(const struct compare_bounds *b)
{
    return jtext("{s:s, s:f, s:f, s:f, s:f}", "preset", b->name, "max_abs", b->max_abs, "max_rel",
                 b->max_rel, "nmse", b->max_nmse, "kl", b->max_kl);
}

int check_json_verdict(const struct compare_total *t, const struct compare_bounds *bounds,
                       unsigned broken)
{
    double n_next = (double)t->n_next;
    return text_json_line(jtext(
        "{s:s, s:o, s:o, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f,"
        " s:I, s:I, s:I, s:I, s:{s:o, s:o, s:o, s:o, s:o, s:o, s:o}}",
        "verdict", broken ? "different" : "same", "broken", broken_list(broken), "bounds",
        bounds_of(bounds), "positions", INTEGER(t->n_rows), "not_finite", INTEGER(t->n_bad),
        "masked", INTEGER(t->n_masked), "max_abs", t->abs.value, "sequence",
        INTEGER(t->abs.sequence), "pos", INTEGER(t->abs.position), "id", INTEGER(t->abs.at), "nmse",
        compare_nmse(t), "nmse_db", compare_db(compare_nmse(t)), "cosine", compare_cosine(t), "kl",
        compare_kl(t), "dlogprob", t->sum_logprob / n_next, "reference_perplexity",
        exp(t->reference_nll / n_next), "perplexity", exp(t->nll / n_next), "top1_same",
        INTEGER(t->n_same), "top1_tie", INTEGER(t->n_tie), "top5_same", INTEGER(t->n_top5),
        "top5_of", INTEGER(t->top5_of), "worst", "max_rel", place_of(&t->rel), "nmse",
        place_of(&t->nmse), "cosine_distance", place_of(&t->cosine), "kl", place_of(&t->kl),
        "dlogprob", place_of(&t->logprob), "rank", place_of(&t->rank), "ulp", place_of(&t->ulp)));
}
