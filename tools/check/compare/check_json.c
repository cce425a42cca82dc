/* The JSON Lines of mgpt check. See check_report.h. */
#include "check/compare/check_report.h"
#include "common/cli.h"
#include "common/text.h"

#include <jansson.h>
#include <math.h>

static const char *const top_names[] = {
    [TOP_SAME] = "same", [TOP_TIE] = "tie", [TOP_OTHER] = "different", [TOP_UNKNOWN] = "unknown"};

/* json_real refuses what is not finite, and the format below makes null of that. */
#define REAL(x) json_real(x)
#define INTEGER(x) ((json_int_t)(x))

int check_json_row(const struct check_place *place, const struct compare_row *row)
{
    json_t *json =
        json_pack("{s:I, s:I, s:i, s:I}", "sequence", INTEGER(place->sequence), "pos",
                  INTEGER(place->position), "token", (int)place->token, "values", INTEGER(row->n));
    if (!json || row->n == 0)
        return text_json_line(json);
    json_t *more = json_pack(
        "{s:o?, s:I, s:o?, s:o?, s:o?, s:o?, s:o?, s:o?, s:s, s:I, s:I, s:I, s:i, s:i, s:o?}",
        "max_abs", REAL(row->max_abs), "id", INTEGER(row->at), "max_rel", REAL(row->max_rel),
        "nmse", REAL(row->nmse), "cosine", REAL(row->cosine), "kl", REAL(row->kl),
        "reference_logprob", REAL(row->reference_logprob), "logprob", REAL(row->logprob), "top1",
        top_names[row->top], "reference_top", INTEGER(row->top_reference), "top",
        INTEGER(row->top_ours), "rank", INTEGER(row->rank), "top5", (int)row->top5, "top5_of",
        (int)row->top5_of, "ulp", REAL(row->ulp));
    if (!more || json_object_update(json, more) < 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(more);
    return text_json_line(json);
}

static json_t *place_of(const struct compare_worst *w)
{
    return json_pack("{s:o?, s:I, s:I, s:I}", "value", REAL(w->value), "sequence",
                     INTEGER(w->sequence), "pos", INTEGER(w->position), "id", INTEGER(w->at));
}

/* The names of the bounds that are broken. */
static json_t *broken_list(unsigned broken)
{
    static const char *const names[] = {"no_positions", "not_finite", "max_abs",
                                        "max_rel",      "nmse",       "kl"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (broken & 1u << i)
            json_array_append_new(list, json_string(names[i]));
    return list;
}

static json_t *bounds_of(const struct compare_bounds *b)
{
    return json_pack("{s:s?, s:o?, s:o?, s:o?, s:o?}", "preset", b->name, "max_abs",
                     REAL(b->max_abs), "max_rel", REAL(b->max_rel), "nmse", REAL(b->max_nmse), "kl",
                     REAL(b->max_kl));
}

int check_json_verdict(const struct compare_total *t, const struct compare_bounds *bounds,
                       unsigned broken)
{
    double n_next = (double)t->n_next;
    return text_json_line(json_pack(
        "{s:s, s:o, s:o, s:I, s:I, s:I, s:o?, s:I, s:I, s:I, s:o?, s:o?, s:o?, s:o?, s:o?, s:o?, "
        "s:o?,"
        " s:I, s:I, s:I, s:I, s:{s:o, s:o, s:o, s:o, s:o, s:o, s:o}}",
        "verdict", broken ? "different" : "same", "broken", broken_list(broken), "bounds",
        bounds_of(bounds), "positions", INTEGER(t->n_rows), "not_finite", INTEGER(t->n_bad),
        "masked", INTEGER(t->n_masked), "max_abs", REAL(t->abs.value), "sequence",
        INTEGER(t->abs.sequence), "pos", INTEGER(t->abs.position), "id", INTEGER(t->abs.at), "nmse",
        REAL(compare_nmse(t)), "nmse_db", REAL(compare_db(compare_nmse(t))), "cosine",
        REAL(compare_cosine(t)), "kl", REAL(compare_kl(t)), "dlogprob",
        REAL(t->sum_logprob / n_next), "reference_perplexity", REAL(exp(t->reference_nll / n_next)),
        "perplexity", REAL(exp(t->nll / n_next)), "top1_same", INTEGER(t->n_same), "top1_tie",
        INTEGER(t->n_tie), "top5_same", INTEGER(t->n_top5), "top5_of", INTEGER(t->top5_of), "worst",
        "max_rel", place_of(&t->rel), "nmse", place_of(&t->nmse), "cosine_distance",
        place_of(&t->cosine), "kl", place_of(&t->kl), "dlogprob", place_of(&t->logprob), "rank",
        place_of(&t->rank), "ulp", place_of(&t->ulp)));
}
