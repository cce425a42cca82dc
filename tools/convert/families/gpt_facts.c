/* What the tensors of a GPT do not say: certain by the program, stated, given, or asked for.
 *
 *     fact         certain when
 *     heads        matrices of single heads, or the sizes of GPT-2 under the names of a program of it
 *     activation   the program is (gpt_programs.c)
 *     norms        the program is: before the branches
 *     scale        one head, or nn.MultiheadAttention, or the program is
 *     mask         the file has one, or attention is not PyTorch's own module
 *     norm         a bias of a norm is in the file: LayerNorm
 *     epsilon      LayerNorm: 1e-5, the default of PyTorch and MLX
 *     positions    the file has a table
 *     final norm   it is in the file or there is none
 *     embedding    the table of positions is trained: no factor
 *     head         tied when it is absent or equal to the embedding
 */
#include "convert/core/questions.h"
#include "convert/families/from_gpt.h"
#include "convert/families/gpt_names.h"

#include "base/error.h"
#include "base/mem.h"
#include "model/arch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 1024 }; /* of a model that nothing limits */

/* The answer, NULL: the question is open. */
static const char *settle(const struct gpt *g, enum ckpt_fact fact)
{
    struct checkpoint *c = g->m->c;
    const struct ckpt_options *o = g->m->in->options;
    const char *has = ckpt_given(o, fact);
    if (!has)
        has = ckpt_assumed(c, o, fact);
    if (!has && !(g->r->asks >> fact & 1))
        has = ckpt_program_has(g->r->program, fact);
    if (!has)
        ckpt_ask(c, fact);
    return has;
}

static int is_answer(const char *answer, const char *value)
{
    return answer && strcmp(answer, value) == 0;
}

static void settle_heads(const struct gpt *g)
{
    struct ckpt_hparams *hp = &g->m->c->hp;
    int64_t stated = g->n_part_heads ? g->n_part_heads : g->r->n_head;
    uint32_t published = g->r->is_published ? torch_gpt2_heads(g->m) : 0;
    torch_heads_or_ask(g->m, stated, published, "GPT-2 of these sizes");
    if (g->n_part_heads && hp->n_head != g->n_part_heads)
        ckpt_stop_option(g->m->c, "%u heads are wanted, the file has %u", hp->n_head,
                         g->n_part_heads);
}

/* An option or a statement of the file is a spelling, which is checked. */
static void settle_activation(const struct gpt *g)
{
    struct torch_model *m = g->m;
    const struct ckpt_options *o = m->in->options;
    const char *usual = NULL;
    if (!m->c->hp.n_layer && !(o->given & OPT_ACTIVATION) && !m->parts->facts.activation)
        return;
    if (!(o->given & OPT_ACTIVATION) && !m->parts->facts.activation) {
        const char *assumed = ckpt_assumed(m->c, o, FACT_ACTIVATION);
        if (assumed) {
            m->c->hp.activation = assumed;
            return;
        }
        usual = g->r->asks >> FACT_ACTIVATION & 1
                    ? NULL
                    : ckpt_program_has(g->r->program, FACT_ACTIVATION);
    }
    torch_activation(m, usual, g->r->why);
}

/* ng-video-lecture divided by the root of another number at first, and so do many copies. */
static void settle_scale(const struct gpt *g)
{
    struct ckpt_hparams *hp = &g->m->c->hp;
    const struct ckpt_options *o = g->m->in->options;
    double hd = (double)hp->n_embd / hp->n_head;
    if (o->given & OPT_QK_SCALE && !o->scale_of)
        hp->attn_scale = (float)(o->qk_scale * o->qk_scale / sqrt(hd));
    else if ((hp->n_layer && !g->is_mha &&
              !(hp->n_head == 1 && !(g->m->c->open >> FACT_HEADS & 1))) ||
             o->given & OPT_QK_SCALE) {
        if (is_answer(settle(g, FACT_QK_SCALE), "embd"))
            hp->attn_scale = (float)(1 / sqrt(hp->n_embd));
    }
}

static void settle_norms(struct gpt *g)
{
    struct ckpt_hparams *hp = &g->m->c->hp;
    const struct ckpt_options *o = g->m->in->options;
    const struct mg_facts *f = &g->m->parts->facts;
    const char *norm = "layer";
    if (hp->n_layer)
        g->is_post = is_answer(settle(g, FACT_NORMS), "post");
    if (!g->has_bias || o->given & OPT_NORM)
        norm = settle(g, FACT_NORM);
    if (g->has_bias && is_answer(norm, "rms"))
        ckpt_stop_option(g->m->c,
                         "--norm rms: the norms of this file have biases, they are LayerNorm");
    g->is_rms = is_answer(norm, "rms");
    if ((norm && !g->is_rms) || o->given & OPT_EPS || f->eps >= 0 ||
        (f->some_eps >= 0 && !f->trains)) {
        hp->norm_eps = torch_eps(g->m, 1e-5);
        return;
    }
    const char *eps = settle(g, FACT_EPS);
    hp->norm_eps = eps ? (float)strtod(eps, NULL) : 1e-5F;
}

/* The buffers of a rotation have a column for each value of a head, or for each pair. */
static void check_rotation(const struct state *s, uint64_t head)
{
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        const struct state_tensor *t = &s->tensors[i];
        uint64_t n = t->n_dims ? t->shape[t->n_dims - 1] : 0;
        if (gpt_name_is_rotation(t->name) && n != head && 2 * n != head)
            ckpt_stop_tensor(s->c, t->name, "rotates other widths than heads of %llu",
                             (unsigned long long)head);
    }
}

static void settle_rotation(const struct gpt *g)
{
    struct ckpt_hparams *hp = &g->m->c->hp;
    const struct ckpt_options *o = g->m->in->options;
    double base = o->given & OPT_ROPE ? o->rope_base : g->m->parts->facts.rope_base;
    const char *text = base > 0 ? NULL : settle(g, FACT_ROPE);
    hp->rope_base = (float)(text ? strtod(text, NULL) : base);
    hp->n_rot = hp->n_embd / hp->n_head;
    if (hp->n_rot % 2)
        ckpt_stop(g->m->c, "heads of %u values cannot be rotated", hp->n_rot);
    check_rotation(g->m->state, hp->n_rot);
}

static void settle_positions(struct gpt *g)
{
    static const char *const names[] = {"half", "adjacent", "sinusoidal", "none"};
    const struct ckpt_options *o = g->m->in->options;
    g->positions = GPT_TABLE;
    if (state_has(g->m->state, "position_embd.weight")) {
        unsigned idle = o->given & (OPT_POSITIONS | OPT_ROPE | OPT_CONTEXT);
        if (idle)
            ckpt_stop_option(g->m->c, "%s: the model has a table of positions",
                             ckpt_option_row(idle & (~idle + 1))->name);
        if (g->is_rotated)
            ckpt_stop(g->m->c, "a table of positions and a rotation: no engine part for both");
    } else {
        const char *answer = settle(g, FACT_POSITIONS);
        if (!answer) { /* what follows from it is asked for in the same error */
            if (!(o->given & OPT_ROPE) && !(g->m->parts->facts.rope_base > 0))
                settle(g, FACT_ROPE);
            settle(g, FACT_EMBEDDING);
        }
        for (int i = 0; i < 4; i++)
            if (is_answer(answer, names[i]))
                g->positions = (enum gpt_positions)(GPT_HALVES + i);
        if (answer && g->positions == GPT_TABLE)
            ckpt_stop_option(g->m->c, "--positions: expected half, adjacent, sinusoidal or none");
        if (answer && g->is_rotated && g->positions != GPT_HALVES && g->positions != GPT_ADJACENT)
            ckpt_stop_option(g->m->c, "--positions %s: the file has the frequencies of a rotation",
                             answer);
        ckpt_size(g->m->c, &g->m->c->hp.n_ctx, "block_size",
                  torch_context(g->m, CONTEXT, "nothing limits it"));
        if ((g->positions == GPT_HALVES || g->positions == GPT_ADJACENT) &&
            !(g->m->c->open >> FACT_HEADS & 1))
            settle_rotation(g);
    }
    if (g->is_buffer || g->positions == GPT_SINUSOIDAL || o->given & OPT_EMBEDDING_SCALE)
        g->is_scaled = is_answer(settle(g, FACT_EMBEDDING), "root");
}

/* The order of values in matrices. A bare matrix of the MLP has its layout in its shape. */
static void settle_layout(struct gpt *g)
{
    const struct ckpt_hparams *hp = &g->m->c->hp;
    int heads_open = g->m->c->open >> FACT_HEADS & 1;
    if (g->has_qkv && (hp->n_head > 1 || heads_open))
        g->is_grouped = is_answer(settle(g, FACT_QKV), "heads");
    if (g->has_two_ups)
        settle(g, FACT_GATE);
    if (g->has_bare && !g->is_conv1d)
        g->is_in_out = is_answer(settle(g, FACT_BARE), "in-out");
}

/* ---- the architecture ------------------------------------------------------------------------ */

/* Each combination that a row of the engine computes; the others are refused. */
static const struct {
    int is_rms, is_post, has_gate, rotates;
    const char *arch;
} archs[] = {
    {0, 0, 0, 0, "gpt2"},     {0, 1, 0, 0, "gpt1"},     {0, 0, 0, 1, "starcoder2"},
    {0, 0, 1, 1, "stablelm"}, {1, 0, 0, 0, "microgpt"}, {1, 0, 1, 0, "microgpt"},
    {1, 0, 0, 1, "arcee"},    {1, 0, 1, 1, "llama"},
};

static void gpt_choose_arch(struct gpt *g)
{
    struct ckpt_hparams *hp = &g->m->c->hp;
    int rotates = g->positions == GPT_HALVES || g->positions == GPT_ADJACENT;
    hp->arch = NULL;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (archs[i].is_rms == g->is_rms && archs[i].is_post == g->is_post &&
            archs[i].has_gate == g->has_gate && archs[i].rotates == rotates)
            hp->arch = archs[i].arch;
    const struct arch *arch = hp->arch ? arch_find(hp->arch, strlen(hp->arch)) : NULL;
    if (!arch)
        ckpt_stop(g->m->c, "no engine part for %s%s%s with %s norms",
                  g->is_rms ? "RMSNorm" : "LayerNorm", g->has_gate ? ", an MLP with a gate" : "",
                  rotates ? ", rotation" : "", g->is_post ? "post" : "pre");
    if (hp->activation && strcmp(act_name(arch->act), hp->activation) == 0)
        hp->activation = NULL;
    g->turns = g->positions == GPT_HALVES && arch->pairs == ROPE_ADJACENT     ? STATE_PAIRS
               : g->positions == GPT_ADJACENT && arch->pairs != ROPE_ADJACENT ? STATE_HALVES
                                                                              : 0U;
    hp->final_norm = state_has(g->m->state, "output_norm.weight");
    hp->no_final_norm = !hp->final_norm && arch->final_norm;
    if (hp->n_layer && !hp->final_norm)
        ckpt_note(g->m->c, "inferred: no norm before the head (none in the file)");
}

void gpt_facts(struct gpt *g)
{
    struct checkpoint *c = g->m->c;
    c->likely = g->r->likely;
    ckpt_check_assume(c, g->m->in->options);
    settle_heads(g);
    settle_activation(g);
    settle_norms(g);
    settle_positions(g);
    settle_scale(g);
    settle_layout(g);
    if (g->is_mha && !g->has_mask)
        settle(g, FACT_MASK);
    ckpt_answered(c);
    gpt_choose_arch(g);
}
