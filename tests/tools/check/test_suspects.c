/* What every suspect of --explain is and does: its text, the points where it shows first, what it is tried for, and
 * how far the logits move when it is applied in float64, in all layers and in each. The lists and the numbers
 * are suspects.said: a row that is lost, applies to another model or does something else is a line. */
#include "base/mem.h"
#include "check/explain/explain_impl.h"
#include "support/planted.h"
#include "support/said.h"
#include "support/sanitized.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <inttypes.h>
#include <math.h>

SAID_IN("tests/tools/check/suspects.said")

/* clang-format off */
static const struct toy_spec toys[] = {
    {.label = "llama", .arch = "llama", TOY_SIZES(2, 16, 4, 24, 40, 12), .n_head_kv = 2, .seed = 11},
    {.label = "gpt2", .arch = "gpt2", TOY_SIZES(2, 16, 4, 24, 40, 12), .biases = 1, .seed = 13},
    {.label = "microgpt", .arch = "microgpt", TOY_SIZES(1, 16, 4, 24, 40, 11), .seed = 14},
    {.label = "qwen3moe", .arch = "qwen3moe", TOY_SIZES(2, 16, 4, 12, 40, 12), .n_head_kv = 2, .n_expert = 4, .n_expert_used = 2, .seed = 40},
    {.label = "gemma2", .arch = "gemma2", TOY_SIZES(2, 16, 4, 24, 40, 12), .window = 4, .attn_softcap = 3, .logit_softcap = 4, .seed = 37},
    {.label = "bloom", .arch = "bloom", TOY_SIZES(1, 18, 6, 24, 40, 12), .biases = 1, .seed = 38},
    {.label = "phi2", .arch = "phi2", TOY_SIZES(1, 16, 2, 24, 40, 12), .rope_dims = 4, .biases = 1, .seed = 34},
    {.label = "gpt-oss", .arch = "gpt-oss", TOY_SIZES(2, 16, 4, 12, 40, 12), .n_head_kv = 2, .n_expert = 4, .n_expert_used = 2, .window = 4,
     .glu_limit = 1, .rope_factor = 4, .yarn = 16, .seed = 46},
    {.label = "granite", .arch = "granite", TOY_SIZES(1, 16, 4, 24, 40, 12), .residual_scale = 0.4, .logit_scale = 3, .seed = 41},
    {.label = "deepseek2", .arch = "deepseek2", TOY_SIZES(2, 16, 4, 24, 40, 12), .head_dim = 20, .rope_dims = 8, .value_dim = 12,
     .n_latent = 24, .n_q_latent = 16, .rope_factor = 8, .yarn = 16, .yarn_less = 0.1, .seed = 47},
    {.label = "phi3", .arch = "phi3", TOY_SIZES(2, 16, 4, 24, 80, 12), .n_head_kv = 2, .rope_dims = 4, .longrope = 80, .seed = 48},
    {.label = "no layers", .arch = "gpt2", TOY_SIZES(0, 16, 4, 24, 40, 12), .biases = 1, .seed = 49},
};
/* clang-format on */

/* How far an edit moves the logits, and how many positions stay as they are; - where it does not apply. */
static void print_effect(struct search *s, const struct whatif_edit *edit, int layer)
{
    double nmse;
    *s->err = (mgpt_error){.status = MGPT_OK};
    assert_int_equal(search_score(s, edit, layer, 0, 0, &nmse), MGPT_OK);
    if (isinf(nmse))
        printf(" -");
    else
        printf(s->good ? " %.3g/%zu" : " %.3g", nmse, s->good);
}

/* The text without what it shares with the one before, ~; the points, = where they are the same, which is often so;
 * the effects. */
static void print_suspect(struct search *s, const struct suspect *suspect,
                          const struct suspect *before, int n_layer)
{
    size_t same = 0;
    while (before && suspect->cause[same] && suspect->cause[same] == before->cause[same])
        same++;
    same = same < 4 ? 0 : same;
    printf("%s%s|", same ? "~" : "", suspect->cause + same);
    if (before && before->points == suspect->points)
        printf("=");
    else
        printf("%" PRIx64, suspect->points);
    printf("%s%s|", suspect->common ? "c" : "", suspect->is_switch ? "s" : "");
    print_effect(s, &suspect->edit, -1);
    for (int i = 0; suspect->per_layer && i < n_layer; i++)
        print_effect(s, &suspect->edit, i);
    printf("\n");
}

/* Whether it applies, in all layers or in one. */
static int applies(struct search *s, const struct suspect *suspect, int n_layer)
{
    double nmse;
    for (int i = -1; i < (suspect->per_layer ? n_layer : 0); i++) {
        assert_int_equal(search_score(s, &suspect->edit, i, 0, 0, &nmse), MGPT_OK);
        if (!isinf(nmse))
            return 1;
    }
    return 0;
}

static int list_alike(const struct toy_spec *spec, size_t first_bad)
{
    int32_t tokens[PLANTED_N];
    struct toy *toy = toy_build(spec);
    mgpt_model *model = toy_open(toy, NULL);
    mgpt_error err = {.status = MGPT_OK};
    struct told told;
    struct explain e = {.bound = 1e-9};
    struct locate l = {.n = PLANTED_N};
    toy_tokens(toy, 5, tokens, PLANTED_N);
    struct answer a = told_answer(&told, oracle_run(toy, tokens, PLANTED_N, NULL, NULL), toy,
                                  tokens, PLANTED_N, 0);
    a.n_hooks = 0;
    struct search s = {
        .e = &e, .model = model, .a = &a, .l = &l, .base = &s.as_is, .n = PLANTED_N, .err = &err};
    assert_int_equal(whatif_open(&s.as_is, model, tokens, PLANTED_N, &err), MGPT_OK);
    s.suspects = suspects_list(&s.as_is, first_bad, &err);
    assert_non_null(s.suspects);
    double none;
    assert_int_equal(search_as_is(&s, &none), MGPT_OK); /* passes of one layer begin there */
    assert_true(none < e.bound);
    said_begin();
    const struct suspect *before = NULL;
    size_t n = arr_len(s.suspects);
    for (size_t i = 0; i < n; i++)
        if ((spec == toys || s.suspects[i].edit.apply != edit_turn_form) && /* 200 of each model */
            (!spec->longrope || s.suspects[i].edit.apply == edit_rope_factors) &&
            applies(&s, &s.suspects[i], spec->n_layer)) {
            print_suspect(&s, &s.suspects[i], before, spec->n_layer);
            before = &s.suspects[i];
        }
    int alike = said_as("%s, %zu", spec->label, first_bad);
    for (size_t i = 0; i < arr_len(s.owned); i++)
        free(s.owned[i]);
    arr_free(s.owned);
    arr_free(s.suspects);
    whatif_close(&s.as_is);
    told_free(&told);
    mgpt_close(model);
    toy_free(toy);
    return alike;
}

TEST(suspects)
{
    size_t missed = 0;
    for (size_t i = 0; i < COUNT(toys); i += SANITIZED ? 3 : 1)
        missed += !list_alike(&toys[i], i % 3 * 5);
    assert_int_equal(missed, 0);
}
