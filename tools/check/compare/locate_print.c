/* What locate found, for people and for machines. See locate.h. */
#include "check/compare/locate.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 3 }; /* stages that are wrong by themselves */

static const char *const stages[] = {
    [MGPT_EMBD] = "the token's row of token_embd",
    [MGPT_POS_EMBD] = "the position's row of position_embd",
    [MGPT_EMBD_NORM] = "the norm after the embedding",
    [MGPT_RESID_PRE] = "the residual that a layer begins with",
    [MGPT_ATTN_IN] = "the norm before attention (attn_norm)",
    [MGPT_Q] = "the product with attn_q",
    [MGPT_K] = "the product with attn_k",
    [MGPT_V] = "the product with attn_v",
    [MGPT_ROT_Q] = "norm and rotation of q",
    [MGPT_ROT_K] = "norm and rotation of k",
    [MGPT_SCORES] = "q k / sqrt(d)",
    [MGPT_WEIGHTS] = "softmax and mask",
    [MGPT_GATES] = "the gates of heads (attn_gate)",
    [MGPT_HEADS] = "the mix of v",
    [MGPT_ATTN_OUT] = "the product with attn_output",
    [MGPT_RESID_MID] = "the sum of residual and attention",
    [MGPT_MLP_IN] = "the norm before the MLP (ffn_norm)",
    [MGPT_MLP_PRE] = "the product with ffn_gate, or ffn_up without a gate",
    [MGPT_MLP_PRE_LINEAR] = "the product with ffn_up",
    [MGPT_MLP_POST] = "the activation (times ffn_up's part)",
    [MGPT_ROUTER_SCORES] = "the product with ffn_gate_inp, the router",
    [MGPT_EXPERT_WEIGHTS] = "the choice of experts and their weights",
    [MGPT_MLP_OUT] = "the product with ffn_down",
    [MGPT_RESID_POST] = "the sum of residual and MLP",
    [MGPT_FINAL] = "the final norm (output_norm)",
    [MGPT_HEAD_IN] = "the matrix before the head (cls), its activation or its norm",
    [MGPT_LOGITS] = "the product with the head (output, or token_embd)",
};
_Static_assert(sizeof stages / sizeof *stages == MGPT_N_POINTS, "points and their stages");

const char *locate_stage(mgpt_point point)
{
    return (unsigned)point < MGPT_N_POINTS ? stages[point] : "";
}

/* The stage of the first bad hook; or, where nothing inside was recorded, the layers and what
 * follows them. */
static void describe_stage(const struct locate *l, const mgpt_model *model, char *text, size_t cap)
{
    static const char *const then[] = {[MGPT_FINAL] = ", or the final norm",
                                       [MGPT_HEAD_IN] =
                                           ", the final norm or what is before the head",
                                       [MGPT_LOGITS] = ", the final norm or the head"};
    mgpt_info info;
    struct ref_hook bad = l->hooks[l->first_bad].hook, good = {.layer = -1};
    mgpt_get_info(model, &info, NULL);
    if (l->last_good >= 0)
        good = l->hooks[l->last_good].hook;
    struct locate_layers layers = locate_layers(l, info.n_layer);
    int whole = bad.point == MGPT_RESID_PRE || bad.point >= MGPT_RESID_POST;
    int inside = good.layer == layers.from && good.point != MGPT_RESID_PRE;
    if (!whole || layers.from > layers.to ||
        (bad.point == MGPT_RESID_POST && inside && good.point == MGPT_MLP_OUT))
        text_format(text, cap, "%s", locate_stage(bad.point));
    else if (layers.from == layers.to)
        text_format(text, cap, "layer %d, %s%s", layers.to,
                    inside ? "after the last good value" : "attention or MLP",
                    bad.point >= MGPT_FINAL ? then[bad.point] : "");
    else
        text_format(text, cap, "layers %d to %d%s", layers.from, layers.to,
                    bad.point >= MGPT_FINAL ? then[bad.point] : "");
}

/* Names in a reference are hostile text. */
static void print_name(const struct locate_hook *h)
{
    text_print_quoted(stdout, h->hook.name, strlen(h->hook.name));
}

static void print_place(const struct locate *l, const mgpt_model *model,
                        const struct answer *answer)
{
    const struct locate_hook *h = &l->hooks[l->first_bad];
    const struct locate_at *at = &h->own[h->pos];
    if (h->hook.layer >= 0)
        printf("layer %d, ", (int)h->hook.layer);
    printf("position %zu, token ", h->pos);
    text_print_token(stdout, model, answer->tokens[h->pos]);
    if (answer_is_heads(h->hook.point) || answer_is_attention(h->hook.point))
        printf(", head %zu", at->head);
    printf(", index %zu: ours %.9g, reference %.9g\n", at->index, at->ours, at->theirs);
}

static void print_local(const struct locate *l)
{
    const struct locate_hook *h = &l->hooks[l->first_bad];
    size_t others = 0;
    if (l->n_hooks == 0)
        return;
    printf("fed with the reference's values  NMSE %.3g: %s\n", h->fed_nmse,
           h->fed_bad ? "this stage itself is wrong" : "inherited from a stage before it");
    for (size_t i = (size_t)l->first_bad + 1; i <= l->n_hooks; i++) {
        if (!l->hooks[i].fed_bad)
            continue;
        if (others < SHOWN) {
            printf(others ? ", " : "wrong by themselves as well      ");
            print_name(&l->hooks[i]);
        }
        others++;
    }
    if (others > SHOWN)
        printf(" and %zu more", others - SHOWN);
    if (others)
        putchar('\n');
}

int locate_print(const struct locate *l, const mgpt_model *model, const struct answer *answer)
{
    size_t n_bad = 0;
    for (size_t i = 0; i < l->n_hooks; i++) {
        n_bad += (size_t)(l->hooks[i].bad && !l->hooks[i].elsewhere);
        if (l->hooks[i].elsewhere) {
            printf("recorded elsewhere               ");
            print_name(&l->hooks[i]);
            printf(" differs, what is computed from it does not\n");
        }
    }
    if (answer->other_heads)
        printf("heads                            %zu in the reference's attention, which is not "
               "compared; the model has %zu\n",
               answer->other_heads, answer->own_heads);
    if (l->first_bad < 0) {
        size_t n = 0;
        for (size_t i = 0; i < l->n_hooks; i++)
            n += (size_t)l->hooks[i].fired;
        printf("%zu hooks agree at %zu positions\n", n, l->n);
        return EXIT_OK;
    }
    if (l->last_good >= 0) {
        printf("last good                        ");
        print_name(&l->hooks[l->last_good]);
        printf("  NMSE %.3g\n", l->hooks[l->last_good].nmse);
    }
    const struct locate_hook *h = &l->hooks[l->first_bad];
    printf("first bad                        ");
    print_name(h);
    printf("  NMSE %.3g (%zu of %zu hooks are bad)\n", h->nmse, n_bad, l->n_hooks);
    char stage[160];
    describe_stage(l, model, stage, sizeof stage);
    printf("                                 %s\n                                 ", stage);
    print_place(l, model, answer);
    print_local(l);
    return ferror(stdout) ? EXIT_IO : EXIT_OK;
}

static struct jtext *hook_json(const struct locate_hook *h, const char *stage)
{
    const struct locate_at *at = &h->own[h->pos];
    char point[64];
    mgpt_point_name(h->hook.point, h->hook.layer, point, sizeof point);
    return jtext("{s:s, s:s, s:i, s:f, s:I, s:I, s:I, s:f, s:f, s:b, s:b}", "hook", point, "stage",
                 stage, "layer", (int)h->hook.layer, "nmse", h->nmse, "pos", (int64_t)h->pos,
                 "head", (int64_t)at->head, "index", (int64_t)at->index, "ours", at->ours,
                 "reference", at->theirs, "local", h->fed_bad, "recorded_elsewhere", h->elsewhere);
}

int locate_print_json(const struct locate *l, const mgpt_model *model)
{
    const struct locate_hook *last = l->last_good >= 0 ? &l->hooks[l->last_good] : NULL;
    struct jtext *good = last ? hook_json(last, locate_stage(last->hook.point)) : jtext_null();
    char stage[160];
    if (l->first_bad >= 0)
        describe_stage(l, model, stage, sizeof stage);
    struct jtext *bad =
        l->first_bad >= 0 ? hook_json(&l->hooks[l->first_bad], stage) : jtext_null();
    return text_json_line(jtext("{s:I, s:o, s:o}", "hooks", (int64_t)l->n_hooks, "last_good", good,
                                "first_bad", bad));
}
