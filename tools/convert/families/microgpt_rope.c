/* microgpt's forks without a table of positions: they rotate q and k. See microgpt_impl.h.
 *
 * How (the two halves of a head against each other, or adjacent pairs) and with which base, the
 * file says or the user: there is no program that fixes it. With the gate and the norms that they
 * have, such a model is architecture "llama", for which rows of q and k move from halves to
 * adjacent pairs.
 */
#include "convert/families/microgpt_impl.h"

#include "base/error.h"

#include <string.h>

static int find_positions(const char *said, enum mg_positions *to)
{
    static const struct {
        const char *name;
        enum mg_positions positions;
    } names[] = {{"half", MG_POS_HALF},
                 {"neox", MG_POS_HALF},
                 {"rotate_half", MG_POS_HALF},
                 {"adjacent", MG_POS_ADJACENT},
                 {"interleaved", MG_POS_ADJACENT},
                 {"gptj", MG_POS_ADJACENT},
                 {"none", MG_POS_NONE}};
    for (size_t i = 0; said && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, said) == 0) {
            *to = names[i].positions;
            return 1;
        }
    return 0;
}

/* What rotates comes out as "llama", which has a gate and a final norm. */
static void check_llama(struct mg_build *b)
{
    if (b->c->hp.n_layer > 0 && !mg_has(b, MG_GATE))
        ckpt_stop(b->c, "tensor layer0.mlp_gate: missing (a microgpt that rotates q and k needs a "
                        "gate; --positions none?)");
    if (!mg_has(b, MG_FINAL_NORM))
        ckpt_stop(b->c, "tensor rms_final: missing (a microgpt that rotates q and k needs a final "
                        "norm; --positions none?)");
}

static void settle_rotation(struct mg_build *b)
{
    const struct ckpt_options *o = b->in->options;
    struct ckpt_hparams *hp = &b->c->hp;
    if (o->given & OPT_POSITIONS && !find_positions(o->positions, &b->positions))
        ckpt_leave(b->c, err_set(b->c->err, MGPT_EARG, MGPT_NO_OFFSET,
                                 "--positions: expected half, adjacent or none, found '%.*s'",
                                 CKPT_CLIP(o->positions, strlen(o->positions))));
    if (!(o->given & OPT_POSITIONS) && !find_positions(b->facts->positions, &b->positions)) {
        if (!mg_has(b, MG_ATTN_NORM) && !mg_has(b, MG_FINAL_NORM) && !mg_has(b, MG_GATE))
            ckpt_stop(b->c, "tensor wpe: missing (say --positions half, adjacent or none if the "
                            "model has no such table)");
        b->positions = MG_POS_HALF;
        mg_want(b, "--positions half, adjacent or none (no wpe)");
    }
    if (b->positions == MG_POS_NONE)
        return;
    hp->arch = "llama";
    hp->rope_base = (float)(o->given & OPT_ROPE ? o->rope_base : b->facts->rope_base);
    if (!(hp->rope_base > 0)) {
        hp->rope_base = 0;
        mg_want(b, "--rope BASE");
    }
    check_llama(b);
}

void mg_settle_positions(struct mg_build *b)
{
    b->c->hp.arch = "microgpt";
    b->positions = MG_POS_LEARNED;
    if (!mg_has(b, MG_WPE))
        settle_rotation(b);
    else if (b->in->options->given & (OPT_POSITIONS | OPT_ROPE))
        ckpt_leave(b->c, err_set(b->c->err, MGPT_EARG, MGPT_NO_OFFSET,
                                 "--positions, --rope: the model has a table of positions (wpe)"));
}
