/* How often --explain is right, on random models: verdicts COUNT [SEED]. Each is healthy, has one
 * bug, two bugs, or a difference that has no name; its reference is a float64 pass with float32's
 * noise, of all inner values, the layers' ends, or the logits alone. A cause that is named must be
 * the one that was planted; a healthy model must be the same. Prints what is not so and how often
 * each happened; exit code 1 if a cause was false.
 */
#include "base/mem.h"
#include "check/explain/explain.h"
#include "support/planted.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

enum { BUGS_MOST = 2, POSITIONS_MOST = 24, EDITS = 400 };

/* ---- bugs --------------------------------------------------------------------------------------- */

/* ARCH is the model's, L a layer, D the width of a head, N a value's place. It applies where the
 * model has the tensor (with L) and, at 'r', rotates, at 'p' does not. */
struct planted_bug {
    const char *edits, *tensor, *named; /* named: words of the cause, separated by | */
    char where;
};

/* clang-format off */
static const struct planted_bug planted_bugs[] = {
    {"swap blk.*.ffn_gate.weight blk.*.ffn_up.weight", "ffn_gate.weight", "gate and up", 0},
    {"swap blk.L.ffn_gate.weight blk.L.ffn_up.weight", "ffn_gate.weight", "gate and up", 0},
    {"swap blk.*.attn_k.weight blk.*.attn_v.weight", "attn_v.weight", "k and v exchanged", 0},
    {"swap blk.*.attn_norm.weight blk.*.ffn_norm.weight", "ffn_norm.weight", "two norms|_norm.weight differs",
     0},
    {"f32 ARCH.rope.freq_base 77777", "attn_norm.weight", "rope base", 'r'},
    {"f32 ARCH.attention.layer_norm_rms_epsilon 3e-2", "ffn_gate.weight", "epsilon", 0},
    {"value blk.L.ffn_norm.weight all 1", "ffn_norm.weight", "ffn_norm", 0},
    {"value blk.L.attn_norm.weight all 1", "attn_norm.weight", "attn_norm", 0},
    {"value blk.L.post_ffw_norm.weight all 1", "post_ffw_norm.weight", "post_ffw_norm.weight", 0},
    {"value blk.L.attn_output.bias all 0", "attn_output.bias", "attn_output.bias|attn_qkv.bias", 0},
    {"value blk.L.ffn_up.bias all 0", "ffn_up.bias", "ffn_up.bias", 0},
    {"value blk.L.ffn_down.bias all 0", "ffn_down.bias", "ffn_down.bias", 0},
    {"roll position_embd.weight 1", NULL, "positions|position_embd", 'p'},
    {"roll blk.*.ffn_up.weight 1", "ffn_up.weight", "row n of ffn_|ffn_up.weight is a different", 0},
    {"times blk.L.ffn_down.weight N -9", "ffn_down.weight", "ffn_down.weight", 0},
    {"plus blk.L.ffn_up.weight N 2", "ffn_up.weight", "ffn_up.weight", 0},
    {"times output.weight all 1.5", "output.weight", "output.weight", 0},
    {"f32 ARCH.attention.scale 0.9", "attn_norm.weight", "attention", 0},
    {"swap blk.0. blk.1.", "ffn_up.weight", "layers", 0},
};
/* clang-format on */

static const int kinds_of_model[] = {
    ZOO_MICROGPT_DEEP, ZOO_LLAMA,    ZOO_LLAMA_TIED,    ZOO_LLAMA_DEEP, ZOO_LLAMA_BIASES,
    ZOO_GPT2,          ZOO_GPT2_ERF, ZOO_QWEN2,         ZOO_QWEN3,      ZOO_GPTNEOX,
    ZOO_OLMO2,         ZOO_SMOLLM3,  ZOO_GEMMA3_PERIOD, ZOO_PHI2,       ZOO_LLAMA_SCALED};

static size_t pick(uint64_t *rng, size_t n)
{
    return (size_t)(toy_random(rng) % n);
}

/* Writes the edits for a model; 0: they do not apply to it. */
static int edits_for(const struct planted_bug *b, struct toy *m, uint64_t *rng, char out[EDITS])
{
    char name[80], layer[4], arch[24], place[24];
    int l = (int)pick(rng, (size_t)m->spec.n_layer), rotates = !toy_find(m, "position_embd.weight");
    snprintf(name, sizeof name, "blk.%d.%s", l, b->tensor ? b->tensor : "");
    struct toy_tensor *t = toy_find(m, name);
    t = t || !b->tensor ? t : toy_find(m, b->tensor);
    if ((b->tensor && !t) || (b->where == 'r' && !rotates) || (b->where == 'p' && rotates))
        return 0;
    if (strstr(b->edits, "attn_v") && m->spec.n_head_kv < 1)
        return 0;
    if (strstr(b->edits, "blk.1.") && m->spec.n_layer < 2)
        return 0;
    snprintf(layer, sizeof layer, "%d", l);
    snprintf(arch, sizeof arch, "%s", m->spec.arch);
    snprintf(place, sizeof place, "%zu", t ? pick(rng, t->n) : 0);
    size_t n = 0;
    for (const char *at = b->edits; *at && n + 24 < EDITS; at++) {
        const char *put = NULL;
        if (strncmp(at, "ARCH", 4) == 0)
            put = arch, at += 3;
        else if (*at == 'L' && at[-1] == '.')
            put = layer;
        else if (*at == 'N' && at[-1] == ' ')
            put = place;
        n += (size_t)snprintf(out + n, EDITS - n, "%.*s", put ? 99 : 1, put ? put : at);
    }
    return 1;
}

/* ---- the reference ------------------------------------------------------------------------------ */

/* What float32 leaves: about 1e-6 of the row's size. */
static void add_noise(const struct trace_value *v, size_t n, uint64_t *rng)
{
    for (size_t t = 0; v->data && t < n; t++) {
        double *row = v->data + t * v->cols, square = 0;
        for (size_t i = 0; i < v->cols; i++)
            square += isfinite(row[i]) ? row[i] * row[i] / (double)v->cols : 0;
        for (size_t i = 0; i < v->cols; i++)
            row[i] += 5e-7 * sqrt(square) * toy_normal(rng);
    }
}

static void noisy(struct trace *trace, size_t n, uint64_t *rng)
{
    for (int layer = -1; layer < trace->n_layer; layer++)
        for (int p = 0; p < MGPT_N_POINTS; p++)
            if (!trace_is_attention((mgpt_point)p))
                add_noise(trace_at(trace, (mgpt_point)p, layer), n, rng);
}

/* A difference that has no name: the reference's MLP of layer 0 is another function. */
static void bent(mgpt_point point, int layer, double *row, size_t n, void *user)
{
    (void)user;
    for (size_t i = 0; i < n && point == MGPT_MLP_OUT && layer == 0; i++)
        row[i] += 0.2 * sin(7 * row[i]) + 0.1 * row[i] * row[i];
}

/* ---- one model ---------------------------------------------------------------------------------- */

enum outcome { RIGHT, HINT, NOTHING, FALSE_CAUSE, DIFFERENT, UNSEEN, N_OUTCOMES };
static const char *const outcomes[] = {"right", "hint", "nothing", "FALSE", "DIFFERENT", "unseen"};

struct model_case {
    struct toy *good, *broken;
    const struct planted_bug *bugs[BUGS_MOST];
    size_t n_bugs, n;
    int unnamed, layers_ends, logits_only;
    uint64_t rng;
};

static int says_one(const char *cause, const struct planted_bug *bug)
{
    char words[80], *save, *word;
    snprintf(words, sizeof words, "%s", bug->named);
    for (word = strtok_r(words, "|", &save); word; word = strtok_r(NULL, "|", &save))
        if (strstr(cause, word))
            return 1;
    return 0;
}

/* Where the norms are exchanged, too, one of them goes by the other's name. */
static int says_other_norm(const struct model_case *c, const char *cause)
{
    int exchanged = 0, of_norms = 0;
    for (size_t i = 0; i < c->n_bugs; i++) {
        const struct planted_bug *b = c->bugs[i];
        int swaps = strncmp(b->edits, "swap blk.*.attn_norm", 20) == 0;
        exchanged |= swaps;
        of_norms |= !swaps && b->tensor && strstr(b->tensor, "_norm");
    }
    return exchanged && of_norms && strstr(cause, "_norm.weight") != NULL;
}

/* Compares the cause that is named with the bugs that were planted. */
static enum outcome judge(const struct model_case *c, const struct explain *e)
{
    const char *cause = explain_cause(e), *with = e->with[0] ? e->with : NULL;
    size_t n_right = 0; /* bugs that are named; one line may name both */
    if (!cause)
        return arr_len(e->trials) && e->trials[0].nmse <= e->bound ? HINT : NOTHING;
    for (size_t i = 0; i < c->n_bugs; i++)
        n_right += (size_t)(says_one(cause, c->bugs[i]) || (with && says_one(with, c->bugs[i])));
    if (n_right + 1 == c->n_bugs && with && says_other_norm(c, with))
        n_right++;
    return n_right == c->n_bugs && !c->unnamed ? RIGHT : FALSE_CAUSE;
}

static enum outcome explain_case(const struct model_case *c, const struct answer *a, double bound)
{
    struct locate l;
    struct explain e;
    mgpt_error err;
    mgpt_model *model = toy_open(c->broken, NULL);
    enum outcome outcome = c->n_bugs || c->unnamed ? UNSEEN : RIGHT;
    if (locate_run(&l, model, a, bound, &err) != MGPT_OK)
        fail_msg("%s: %s", c->good->spec.label, err.text);
    if (l.first_bad >= 0 && outcome == RIGHT) {
        outcome = DIFFERENT;
    } else if (l.first_bad >= 0) {
        if (explain_run(&e, model, a, &l, &err) != MGPT_OK)
            fail_msg("%s: %s", c->good->spec.label, err.text);
        outcome = judge(c, &e);
        if (outcome == FALSE_CAUSE)
            print_message("FALSE: %s and %s\n", explain_cause(&e), e.with);
        explain_free(&e);
    }
    locate_free(&l);
    mgpt_close(model);
    return outcome;
}

/* Plants n bugs that are not of one kind. */
static void plant(struct model_case *c, size_t n)
{
    for (int k = 0; k < 200 && c->n_bugs < n; k++) {
        char edits[EDITS];
        const struct planted_bug *b = &planted_bugs[pick(&c->rng, COUNT(planted_bugs))];
        if ((c->n_bugs && b == c->bugs[0]) || !edits_for(b, c->broken, &c->rng, edits))
            continue;
        toy_edit(c->broken, edits);
        c->bugs[c->n_bugs++] = b;
    }
}

static enum outcome run_case(uint64_t seed, size_t kind)
{
    struct model_case c = {.rng = seed * 7919 + 1, .unnamed = kind == 3};
    struct toy_spec spec = toy_zoo[kinds_of_model[pick(&c.rng, COUNT(kinds_of_model))]];
    int32_t tokens[POSITIONS_MOST];
    struct told told;
    uint64_t without = 0;
    spec.seed = toy_random(&c.rng);
    spec.type = TOY_F32;
    c.good = toy_build(&spec), c.broken = toy_build(&spec);
    c.n = 5 + pick(&c.rng, POSITIONS_MOST - 4);
    c.layers_ends = pick(&c.rng, 3) == 1, c.logits_only = pick(&c.rng, 2) == 1;
    plant(&c, kind == 3 ? 0 : kind);
    toy_tokens(c.good, seed, tokens, c.n);
    struct trace *trace = oracle_run(c.good, tokens, c.n, c.unnamed ? bent : NULL, NULL);
    noisy(trace, c.n, &c.rng);
    if (c.layers_ends)
        without = ~(MGPT_POINT_BIT(MGPT_RESID_PRE) | MGPT_POINT_BIT(MGPT_FINAL));
    struct answer a = told_answer(&told, trace, c.good, tokens, c.n, without);
    a.n_hooks = c.logits_only ? 0 : a.n_hooks;
    enum outcome outcome = explain_case(&c, &a, 1e-9);
    if (outcome == FALSE_CAUSE || outcome == DIFFERENT || getenv("VERBOSE"))
        print_message("%-9s seed %llu, kind %zu: %s, %zu positions, %s: %s; %s\n",
                      outcomes[outcome], (unsigned long long)seed, kind, spec.label, c.n,
                      c.logits_only ? "logits" : (c.layers_ends ? "layers' ends" : "hooks"),
                      c.n_bugs > 0 ? c.bugs[0]->edits : "-", c.n_bugs > 1 ? c.bugs[1]->edits : "-");
    told_free(&told);
    toy_free(c.good);
    toy_free(c.broken);
    return outcome;
}

static uint64_t first_seed = 1;
static size_t n_models = 16;

TEST(verdicts)
{
    static const char *const kinds[] = {"healthy", "one bug", "two bugs", "no name"};
    size_t counts[4][N_OUTCOMES] = {{0}}, wrong = 0;
    for (size_t i = 0; i < n_models; i++)
        counts[i % 4][run_case(first_seed + i, i % 4)]++;
    for (size_t kind = 0; kind < 4; kind++) {
        print_message("%-9s", kinds[kind]);
        for (int o = 0; o < N_OUTCOMES; o++)
            print_message("  %s %zu", outcomes[o], counts[kind][o]);
        print_message("\n");
        wrong += counts[kind][FALSE_CAUSE] + counts[kind][DIFFERENT];
    }
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    n_models = argc > 1 ? strtoul(argv[1], NULL, 10) : n_models;
    first_seed = argc > 2 ? strtoul(argv[2], NULL, 10) : first_seed;
    return unit_run("verdicts");
}
