/* Bugs of latent attention that check --explain names. See support/planted.h. */
#include "check/oracle/oracle.h"
#include "support/planted.h"
#include "support/said.h"
#include "support/unit.h"

SAID_IN("tests/tools/check/explain_latent.said")

#include <math.h>

static const struct toy_spec deepseek = {.label = "deepseek2",
                                         .arch = "deepseek2",
                                         .n_layer = 2,
                                         .n_embd = 32,
                                         .n_head = 4,
                                         .head_dim = 20,
                                         .rope_dims = 8,
                                         .value_dim = 12,
                                         .n_latent = 24,
                                         .n_q_latent = 16,
                                         .n_ff = 24,
                                         .n_ctx = 40,
                                         .n_vocab = 60,
                                         .rope_factor = 8,
                                         .yarn = 16,
                                         .yarn_less = 0.1,
                                         .eps = 1e-2,
                                         .latent_eps = 1e-6,
                                         .seed = 47};

static void no_norm(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->no_latent_norm = 1;
}

static void other_eps(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->latent_eps = 0;
}

static void no_mscale(struct oracle_spec *spec, struct oracle_layer *layers)
{
    for (int i = 0; i < 2; i++)
        layers[i].attn_scale = 1 / sqrt((double)spec->head_dim);
}

static void halves(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)spec;
    layers[0].halves = layers[1].halves = 1;
}

static struct oracle_layer keys[2];

static void keys_in_halves(struct oracle_spec *spec, struct oracle_layer *layers)
{
    for (int i = 0; i < 2; i++) {
        keys[i] = layers[i];
        keys[i].halves = 1;
    }
    spec->turned = keys;
    spec->turned_of = ORACLE_OF_KEYS;
}

static const struct toy_spec beam = {.label = "beam",
                                     .arch = "beam",
                                     .n_layer = 3,
                                     .n_embd = 32,
                                     .n_head = 4,
                                     .n_head_kv = 4,
                                     .head_dim = 8,
                                     .rope_dims = 8,
                                     .n_ff = 48,
                                     .n_ctx = 40,
                                     .n_vocab = 60,
                                     .window = 9,
                                     .pattern = "fwf",
                                     .query_power = 0.8,
                                     .eps = 1e-5,
                                     .seed = 48};

static void level_queries(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->query_power = 0;
}

static void plain_residual(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->residual_by_depth = 0;
}

/* Logits hardly show the second: the last norm takes the factor away. */
TEST(depth)
{
    static const struct bug bugs[] = {
        {"level queries", &beam, NULL, "blocks.0.attn.hook_rot_q",
         "queries without RoPE do not grow", BY_LOGITS, .differs = level_queries},
        {"plain residual", &beam, NULL, "blocks.0.hook_attn_out",
         "the residual is not scaled by depth", .differs = plain_residual}};
    size_t missed = 0;
    for (size_t i = 0; i < COUNT(bugs); i++)
        missed += planted_missed(&bugs[i], 0);
    assert_int_equal(missed, 0);
}

static const struct toy_spec bert = {.label = "modernbert",
                                     .arch = "modernbert-decoder",
                                     .n_layer = 3,
                                     .n_embd = 24,
                                     .n_head = 3,
                                     .n_head_kv = 3,
                                     .n_ff = 30,
                                     .n_ctx = 40,
                                     .n_vocab = 60,
                                     .window = 9,
                                     .pattern = "fww",
                                     .rope_base = 1000,
                                     .biases = 1,
                                     .eps = 1e-5,
                                     .seed = 49};

static void bare_head(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->dense_head = 0;
}

static void linear_head(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->dense_head = 2;
}

static void unnormed_head(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->dense_head = 3;
}

static void one_rope(struct oracle_spec *spec, struct oracle_layer *layers)
{
    for (size_t i = 1; i < spec->n_layer; i++)
        layers[i].freq = layers[0].freq;
}

TEST(dense_head)
{
    static const char before[] = "mlm_head.ln.hook_normalized";
    static const struct bug bugs[] = {
        {"bare head", &bert, NULL, "logits", "no matrix, activation and norm between", BY_LOGITS,
         .differs = bare_head},
        {"linear head", &bert, NULL, before, "no activation before the head", BY_LOGITS,
         .differs = linear_head},
        {"unnormed head", &bert, NULL, before, "no norm between the activation and the head",
         BY_LOGITS, .differs = unnormed_head},
        {"one rope", &bert, NULL, "blocks.1.attn.hook_rot_q", "the rope base of the others",
         BY_LOGITS, .differs = one_rope}};
    size_t missed = 0;
    for (size_t i = 0; i < COUNT(bugs); i++)
        missed += planted_missed(&bugs[i], 0);
    assert_int_equal(missed, 0);
}

TEST(latent_attention)
{
    static const char q[] = "blocks.0.attn.hook_q", scores[] = "blocks.0.attn.hook_attn_scores";
    static const struct bug bugs[] = {
        {"no norm", &deepseek, NULL, q, "are not normalised", BY_LOGITS, .differs = no_norm},
        {"eps", &deepseek, NULL, q, "eps of the others", BY_LOGITS, .differs = other_eps},
        {"mscale", &deepseek, NULL, scores, "1/sqrt(d)", BY_LOGITS, .differs = no_mscale},
        {"keys in halves", &deepseek, NULL, "blocks.0.attn.hook_rot_k", "k alone", BY_LOGITS,
         .differs = keys_in_halves},
        {"interleaving", &deepseek, NULL, "blocks.0.attn.hook_rot_q", "RoPE", BY_LOGITS,
         .differs = halves}};
    size_t missed = 0;
    for (size_t i = 0; i < COUNT(bugs); i++)
        missed += planted_missed(&bugs[i], 0);
    assert_int_equal(missed, 0);
}
