/* Mapping: nanochat's model_NNNNNN.pt with meta_NNNNNN.json and tokenizer/tokenizer.pkl.
 *
 * The file does not record its constants; which generation it is from follows from its tensors:
 *
 *                                              from              rope    q, k  gate  short windows
 *     no resid_lambdas                         October 2025      10,000  1           none
 *     resid_lambdas                            11 January 2026   10,000  1           1/2
 *     value_embeds, ve_gate of 32 columns      16 January 2026   10,000  1     2     1/2
 *     value_embeds, ve_gate of 12 columns      9 March 2026      100,000 1.15  3     1/3
 *     smear_gate, backout_lambda               14 March 2026     100,000 1.2   3     1/4
 *
 * Windows are parts of the context, the last two rounded up to multiples of 128. What the project
 * had for a few days only (value embeddings without gates, bigrams) is refused by name.
 *
 * The rotation has the opposite sign of other programs'; with the halves of every head
 * swapped in the rows of queries and keys it is the usual one. Queries and keys are multiplied by m
 * after their norm: a score scale of m * m / sqrt(head_dim).
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/torch_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EPS 1.1920929e-7 /* of float32: what PyTorch's rms_norm takes when none is given */
#define OWN "nanochat's"
#define SOFTCAP 15.0 /* of all generations but the first week of March 2026, which had 20 */

struct generation {
    const char *when;
    double rope_base, qk_scale, gate_scale;
    uint32_t windows; /* short ones are the context divided by it */
};
static const struct generation generations[] = {
    {"October 2025 to January 2026 (no resid_lambdas)", 1e4, 1, 0, 2},
    {"January 2026 (resid_lambdas, no value embeddings)", 1e4, 1, 0, 2},
    {"January to March 2026 (value embeddings, no smear)", 1e4, 1, 2, 2},
    {"March 2026 (value gates of 12 columns, no smear)", 1e5, 1.15, 3, 3},
    {"March 2026 or later (smear, backout)", 1e5, 1.2, 3, 4},
};

static const struct state_row rows[] = {
    {"transformer.wte", "token_embd", 'V', 'E', STATE_FIRST_ROWS},
    {"resid_lambdas", "resid_lambdas", 0, 'L', STATE_OPTIONAL | STATE_BARE},
    {"x0_lambdas", "x0_lambdas", 0, 'L', STATE_OPTIONAL | STATE_BARE},
    {"transformer.h.N.attn.c_q", "blk.N.attn_q", 'Q', 'E', STATE_SWAP},
    {"transformer.h.N.attn.c_k", "blk.N.attn_k", 'K', 'E', STATE_SWAP},
    {"transformer.h.N.attn.c_v", "blk.N.attn_v", 'K', 'E', 0},
    {"value_embeds.N", "blk.N.attn_value_embd", 'V', 'K', STATE_FIRST_ROWS | STATE_OPTIONAL},
    {"transformer.h.N.attn.c_proj", "blk.N.attn_output", 'E', 'Q', 0},
    {"transformer.h.N.mlp.c_fc", "blk.N.ffn_up", 'F', 'E', 0},
    {"transformer.h.N.mlp.c_proj", "blk.N.ffn_down", 'E', 'F', 0},
    {"lm_head", "output", 'V', 'E', STATE_FIRST_ROWS},
};

/* What the side file meta_*.json says. */
struct meta {
    char pattern[CKPT_MAX_LAYERS + 1]; /* window_pattern: a letter for each layer */
    const char *source;
    int is_found;
};

/* ---- meta_NNNNNN.json ------------------------------------------------------------------------ */

static void read_pattern(struct checkpoint *c, const struct jval *root, struct meta *s)
{
    const struct jval *config = jval_get(root, "model_config");
    const struct jval *at = jval_is(config, JVAL_OBJECT) ? config : root;
    const char *pattern = jval_text(jval_get(at, "window_pattern"));
    if (pattern && strlen(pattern) >= sizeof s->pattern)
        ckpt_stop(c, "%s: window_pattern is too long", s->source);
    if (pattern)
        memcpy(s->pattern, pattern, strlen(pattern) + 1);
}

/* model_000123.pt has meta_000123.json. */
static void find_meta(struct torch_model *m, struct meta *s)
{
    char own[128] = "meta.json";
    const char *name = m->in->name;
    *s = (struct meta){.source = ""};
    if (strncmp(name, "model_", 6) == 0)
        snprintf(own, sizeof own, "meta_%.100s.json", name + 6);
    const char *const candidates[] = {own, "meta.json", "config.json"};
    const struct jval *root = torch_side_facts(m, candidates, 3, "model_config", &s->source);
    s->is_found = root != NULL;
    if (root)
        read_pattern(m->c, root, s);
    else
        ckpt_note(m->c, "no %s next to the input: its numbers are inferred", own);
}

/* modded-nanogpt and other programs have nanochat's names with other constants. nanochat's own
 * marks are its side file and its lambdas. */
static int is_nanochat(const struct torch_model *m, const struct meta *s)
{
    return s->is_found || state_has(m->state, "resid_lambdas");
}

/* modded-nanogpt's records of October 2024: the head is the embedding, which they do not normalise.
 * From November 2024 on it is normalised as in nanochat, and the head is a matrix of its own. */
static int is_modded_tied(const struct torch_model *m, const struct meta *s)
{
    return !is_nanochat(m, s) && torch_same(m, "transformer.wte.weight", "lm_head.weight");
}

/* ---- what cannot be run ---------------------------------------------------------------------- */

static void from_nanochat_refuse(const struct torch_model *m)
{
    static const struct {
        const char *part, *what;
    } features[] = {
        {"v0_lambdas", "value embeddings of 16 January 2026, without gates,"},
        {"value_embed_", "value embeddings of low rank"},
        {"bigram_", "bigram embeddings"},
        {"ve_projs.", "projected value embeddings"},
    };
    for (size_t i = 0; i < arr_len(m->state->tensors); i++)
        for (size_t k = 0; k < sizeof features / sizeof *features; k++) {
            const char *name = m->state->tensors[i].name;
            if (strstr(name, features[k].part))
                ckpt_stop_tensor(m->c, name, "nanochat %s are not supported", features[k].what);
        }
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void from_nanochat_settle_heads(struct torch_model *m, const struct meta *s, uint64_t k_rows)
{
    uint32_t n_embd = m->c->hp.n_embd, usual = is_nanochat(m, s) ? n_embd / 128 : 0;
    torch_heads(m, 0, n_embd % 128 ? 0 : usual, "heads of 128, nanochat's");
    torch_kv_heads(m, "c_k", k_rows);
}

static void settle_vocab_size(struct torch_model *m, uint64_t rows_of_wte)
{
    uint64_t V = (uint64_t)torch_size(m, MG_VOCAB, (int64_t)rows_of_wte);
    if (V > rows_of_wte)
        ckpt_stop(m->c, "%s: vocab_size is stated as %llu, the embedding has %llu rows",
                  m->side ? m->side : "facts", (unsigned long long)V,
                  (unsigned long long)rows_of_wte);
    if (V < rows_of_wte)
        ckpt_note(m->c, "the last %llu rows of the embedding are padding, left out",
                  (unsigned long long)(rows_of_wte - V));
    ckpt_size(m->c, &m->c->hp.n_vocab, "vocab_size", V);
}

static void from_nanochat_sizes(struct torch_model *m, const struct meta *s)
{
    struct ckpt_hparams *hp = &m->c->hp;
    uint64_t V, E, F, E2, k_rows;
    hp->arch = "nanochat";
    torch_layers(m, "transformer.h.N.attn.c_q.weight");
    torch_shape(m, "transformer.wte.weight", &V, &E);
    torch_shape(m, "transformer.h.0.mlp.c_fc.weight", &F, &E2);
    torch_shape(m, "transformer.h.0.attn.c_k.weight", &k_rows, &E2);
    const struct ckpt_wanted wanted[] = {{&hp->n_embd, "n_embd", E},
                                         {&hp->n_ctx, "sequence_len", torch_context(m, 2048, OWN)},
                                         {&hp->n_ff, "the hidden width", F}};
    ckpt_sizes(m->c, wanted, 3);
    settle_vocab_size(m, V);
    torch_check_sizes(m, MG_LAYERS);
    from_nanochat_settle_heads(m, s, k_rows);
}

/* ---- the constants of a generation ----------------------------------------------------------- */

/* What nanochat fixes, other programs with these names have otherwise: they must say it, or the
 * user. */
static void check_known(const struct torch_model *m, const struct meta *s)
{
    const struct mg_facts *f = &m->parts->facts;
    unsigned given = m->in->options->given;
    int heads = (given & OPT_HEADS) || torch_size(m, MG_HEADS, 0) > 0;
    int base = (given & OPT_ROPE) || f->rope_base >= 0;
    int cap = (given & OPT_SOFTCAP) || f->softcap >= 0;
    if (is_nanochat(m, s) || (heads && base && cap))
        return;
    ckpt_stop(m->c,
              "nanochat's names without its meta_*.json (modded-nanogpt?): not in the file, and "
              "the logits depend on it: set%s%s%s",
              heads ? "" : " --heads N", base ? "" : " --rope BASE",
              cap ? "" : " --softcap X (0: none)");
}

/* Positions back: half of the context, or a third or a quarter, in blocks of 128. */
static uint32_t short_window(uint32_t n_ctx, uint32_t by)
{
    return by == 2 ? n_ctx / 2 : (n_ctx + 128 * by - 1) / (128 * by) * 128;
}

/* Layers of pattern letter S see `window` keys; the last layer sees all. */
static void settle_windows(struct torch_model *m, const struct meta *s, uint32_t by)
{
    struct ckpt_hparams *hp = &m->c->hp;
    const struct ckpt_options *o = m->in->options;
    size_t n = strlen(s->pattern);
    int any = 0;
    if (strspn(s->pattern, "SLsl") != n)
        ckpt_stop(m->c, "%s: window_pattern %.*s: expected letters S and L", s->source,
                  CKPT_CLIP(s->pattern, n));
    /* W positions back, and the token itself */
    uint32_t part = short_window(hp->n_ctx, by);
    uint32_t window = o->given & OPT_WINDOW ? (uint32_t)o->window : part + 1;
    int32_t *windows = ckpt_new(m->c, hp->n_layer, sizeof *windows);
    for (uint32_t i = 0; n && i + 1 < hp->n_layer; i++) {
        int is_short = s->pattern[i % n] == 'S' || s->pattern[i % n] == 's';
        windows[i] = is_short ? (int32_t)window : 0;
        any |= is_short;
    }
    if (!any)
        return;
    hp->windows = windows;
    if (!(o->given & OPT_WINDOW))
        ckpt_note(
            m->c,
            "inferred: short layers see %u keys (1/%u of the context and the token; --window)",
            window, by);
}

/* The generation whose tensors these are; a mixture of two is refused. */
static const struct generation *find_generation(const struct torch_model *m)
{
    static const char *const parts[] = {"smear_gate.weight", "smear_lambda", "backout_lambda"};
    const struct state *s = m->state;
    char name[64];
    uint32_t layer = m->c->hp.n_layer - 1; /* the last one has value embeddings if any has */
    state_layer_name(name, sizeof name, "transformer.h.N.attn.ve_gate.weight", layer);
    const struct state_tensor *gate = state_peek(s, name);
    int lambdas = state_has(s, "resid_lambdas"), smear = state_has(s, parts[0]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (state_has(s, parts[i]) != smear)
            state_missing(m->c, parts[smear ? i : 0]);
    if (smear && !gate)
        state_missing(m->c, name);
    if (gate && !lambdas)
        state_missing(m->c, "resid_lambdas");
    uint64_t columns = gate && gate->n_dims == 2 ? gate->shape[1] : 0;
    if (gate && columns != 12 && (smear || columns != 32))
        ckpt_stop_tensor(m->c, name, "%llu columns, nanochat's have 12%s",
                         (unsigned long long)columns, smear ? " with smear" : " or 32");
    return &generations[smear ? 4 : columns == 12 ? 3 : columns == 32 ? 2 : lambdas];
}

/* A matrix of n_out rows, or a number of its own (n_out 0). */
static void put_own(struct torch_model *m, const char *from, const char *to, uint64_t n_out)
{
    const struct state_tensor *t = state_find(m->state, from);
    uint64_t n_in = t && t->n_dims == 2 ? t->shape[1] : 1;
    if (!t)
        return;
    state_check_shape(m->c, t, n_out, n_in);
    const struct state_part part = {.tensor = t, .n_rows = n_out ? n_out : 1};
    state_put(m->c, to, n_out ? n_in : 0, &part, 1, 0);
}

/* The gates and the numbers of smear and backout. */
static void put_gates(struct torch_model *m)
{
    char from[64], to[64];
    put_own(m, "smear_gate.weight", "smear_gate.weight", 1);
    put_own(m, "smear_lambda", "smear_lambda", 0);
    put_own(m, "backout_lambda", "backout_lambda", 0);
    for (uint32_t i = 0; i < m->c->hp.n_layer; i++) {
        state_layer_name(from, sizeof from, "transformer.h.N.attn.ve_gate.weight", i);
        state_layer_name(to, sizeof to, "blk.N.attn_value_gate.weight", i);
        put_own(m, from, to, m->c->hp.n_head_kv);
        state_layer_name(to, sizeof to, "value_embeds.N.weight", i);
        if (state_has(m->state, from) != state_has(m->state, to))
            state_missing(m->c, state_has(m->state, from) ? to : from);
    }
}

static void settle_constants(struct torch_model *m, const struct meta *s)
{
    const struct ckpt_options *o = m->in->options;
    struct ckpt_hparams *hp = &m->c->hp;
    const struct generation *g = find_generation(m);
    const struct mg_facts *f = &m->parts->facts;
    if (o->scale_of)
        ckpt_stop_option(m->c, "--qk-scale: expected a number, nanochat's factor of q and k");
    hp->no_embedding_norm = is_modded_tied(m, s);
    if (hp->no_embedding_norm)
        ckpt_note(m->c,
                  "inferred: modded-nanogpt of October 2024 (its head is the embedding, which "
                  "has no norm)");
    else
        ckpt_note(m->c, "inferred: nanochat of %s", g->when);
    hp->value_gate_scale = (float)g->gate_scale;
    hp->norm_eps = torch_eps(m, EPS);
    hp->rope_base = (float)torch_number(m, OPT_ROPE, o->rope_base, f->rope_base, "rope base",
                                        g->rope_base, OWN);
    hp->logit_softcap =
        (float)torch_number(m, OPT_SOFTCAP, o->softcap, f->softcap, "softcap", SOFTCAP, OWN);
    double qk =
        torch_number(m, OPT_QK_SCALE, o->qk_scale, -1, "factor of q and k", g->qk_scale, OWN);
    if (qk < 1 || qk > 1)
        hp->attn_scale = (float)(qk * qk / sqrt((double)hp->n_rot));
    settle_windows(m, s, g->windows);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void from_nanochat_vocabulary(struct torch_model *m)
{
    static const char *const candidates[] = {"tokenizer.pkl", "tokenizer/tokenizer.pkl",
                                             "../tokenizer/tokenizer.pkl",
                                             "../../tokenizer/tokenizer.pkl"};
    struct ckpt_side side;
    int found = !(m->in->options->given & OPT_NO_TOKENIZER) &&
                ckpt_side(m->c, m->in, OPT_TOKENIZER, candidates, 4, &side);
    if (!found || !pickle_sniff(side.bytes)) {
        torch_vocab(m, NULL);
        return;
    }
    ckpt_note_tokenizer(m->c, m->in, side.name);
    torch_vocab_pickle(m, &side);
}

static int from_nanochat_match(const struct torch_model *m)
{
    return state_has(m->state, "transformer.h.0.attn.c_q.weight") &&
           state_has(m->state, "transformer.wte.weight");
}

static void from_nanochat_map(struct torch_model *m)
{
    struct meta s;
    from_nanochat_refuse(m);
    find_meta(m, &s);
    check_known(m, &s);
    from_nanochat_sizes(m, &s);
    settle_constants(m, &s);
    state_map(m->state, rows, sizeof rows / sizeof *rows);
    put_gates(m);
    state_skip_suffix(m->state, ".cos");
    state_skip_suffix(m->state, ".sin");
    hf_check_used(m->state, "nanochat that can be run");
    from_nanochat_vocabulary(m);
}

const struct torch_mapping nanochat_mapping = {"nanochat",
                                               OPT_HEADS | OPT_CONTEXT | OPT_EPS | OPT_ROPE |
                                                   OPT_SOFTCAP | OPT_QK_SCALE | OPT_WINDOW |
                                                   OPT_TOKENIZER | OPT_NO_TOKENIZER,
                                               from_nanochat_match, from_nanochat_map};
