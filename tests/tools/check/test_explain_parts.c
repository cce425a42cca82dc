/* Causes of --explain that are a change of one part of the model: of one norm, or of what one product
 * reads. Each is planted in each part alone and must be named with it, so that no part stands for
 * another. */
#include "check/oracle/oracle.h"
#include "support/planted.h"
#include "support/sanitized.h"
#include "support/unit.h"

/* clang-format off */
static const struct toy_spec llama = {
    .label = "llama", .arch = "llama", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_head_kv = 2,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .seed = 31};
static const struct toy_spec qwen3 = {
    .label = "qwen3", .arch = "qwen3", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_head_kv = 2,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .seed = 33};
static const struct toy_spec gemma2 = {
    .label = "gemma2", .arch = "gemma2", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 48,
    .n_ctx = 40, .n_vocab = 60, .window = 4, .attn_softcap = 3, .logit_softcap = 4, .seed = 37};
static const struct toy_spec bloom = {
    .label = "bloom", .arch = "bloom", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 64,
    .n_ctx = 40, .n_vocab = 60, .biases = 1, .seed = 38};
static const struct toy_spec mixture = {
    .label = "mixture", .arch = "qwen3moe", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_head_kv = 2, .n_ff = 24,
    .n_expert = 6, .n_expert_used = 2, .n_ctx = 40, .n_vocab = 60, .seed = 40};

struct changed_part {
    const struct toy_spec *spec;
    int which;        /* bits of enum oracle_norm_where, or of enum oracle_raw */
    const char *hook; /* the first bad one */
    const char *text;
};

static const struct changed_part norms[] = {
    {&gemma2, ORACLE_NORM_FINAL, "ln_final.hook_normalized", "(the final norm)"},
    {&gemma2, ORACLE_NORM_ATTN | ORACLE_NORM_MLP, "blocks.0.ln1.hook_normalized", "(norms of layers)"},
    {&gemma2, ORACLE_NORM_ATTN, "blocks.0.ln1.hook_normalized", "(the norm before attention)"},
    {&gemma2, ORACLE_NORM_MLP, "blocks.0.ln2.hook_normalized", "(the norm before the MLP)"},
    {&gemma2, ORACLE_NORM_POST_ATTN | ORACLE_NORM_POST_MLP, "blocks.0.hook_attn_out", "(norms after branches)"},
    {&gemma2, ORACLE_NORM_POST_ATTN, "blocks.0.hook_attn_out", "(the norm after attention)"},
    {&gemma2, ORACLE_NORM_POST_MLP, "blocks.0.hook_mlp_out", "(the norm after the MLP)"},
    {&qwen3, ORACLE_NORM_Q | ORACLE_NORM_K, "blocks.0.attn.hook_rot_q", "(norms of q and k)"},
    {&qwen3, ORACLE_NORM_Q, "blocks.0.attn.hook_rot_q", "(norm of q)"},
    {&qwen3, ORACLE_NORM_K, "blocks.0.attn.hook_rot_k", "(norm of k)"},
    {&bloom, ORACLE_NORM_EMBD, "ln_embed.hook_normalized", "(the norm after the embedding)"},
};
static const struct changed_part products[] = {
    {&llama, ORACLE_RAW_Q, "blocks.0.attn.hook_q", "products of q read"},
    {&llama, ORACLE_RAW_K, "blocks.0.attn.hook_k", "products of k read"},
    {&llama, ORACLE_RAW_V, "blocks.0.attn.hook_v", "products of v read"},
    {&llama, ORACLE_RAW_Q | ORACLE_RAW_K, "blocks.0.attn.hook_q", "products of q and k read"},
    {&llama, ORACLE_RAW_Q | ORACLE_RAW_V, "blocks.0.attn.hook_q", "products of q and v read"},
    {&llama, ORACLE_RAW_GATE, "blocks.0.mlp.hook_pre", "products of gate read"},
    {&llama, ORACLE_RAW_UP, "blocks.0.mlp.hook_pre_linear", "products of up read"},
    {&mixture, ORACLE_RAW_ROUTER, "blocks.0.mlp.hook_router_scores", "products of the router of experts read"},
};
/* clang-format on */

static int planted; /* `which` of the part */

static void sum_not_mean(struct oracle_spec *spec, struct oracle_layer *layers)
{
    (void)layers;
    spec->norm_how = ORACLE_NORM_SUM;
    spec->norm_where = planted;
}

static void reads_residual(struct oracle_spec *spec, struct oracle_layer *layers)
{
    for (size_t i = 0; i < spec->n_layer; i++)
        layers[i].raw = planted;
}

static size_t parts_missed(const struct changed_part *parts, size_t n, toy_differs *differs)
{
    size_t missed = 0;
    for (size_t i = 0; i < n; i += SANITIZED ? 3 : 1) {
        const struct changed_part *p = &parts[i];
        const struct bug bug = {p->text,   p->spec,           NULL, p->hook, p->text,
                                BY_LOGITS, .differs = differs};
        planted = p->which;
        missed += planted_missed(&bug, 0);
    }
    return missed;
}

TEST(norms)
{
    assert_int_equal(parts_missed(norms, COUNT(norms), sum_not_mean), 0);
}

TEST(products_of_the_residual)
{
    assert_int_equal(parts_missed(products, COUNT(products), reads_residual), 0);
}
