/* Tools: LitGPT's model_config.yaml: which values are refused, by which words, and what the others
 * become. That its models compute what LitGPT computes is tests/cli/convert_torch.sh's to show. */
#include "support/torch_made.h"
#include "support/unit.h"

#define LAYER "transformer.h.0."
#define ALL                                                                                        \
    "transformer.wte.weight 5 4", LAYER "norm_1.weight 4", LAYER "attn.qkv.weight 12 4",           \
        LAYER "attn.proj.weight 4 4", LAYER "norm_2.weight 4", LAYER "mlp.proj.weight 4 6",        \
        "transformer.ln_f.weight 4"

static const char *const llama[] = {ALL, LAYER "mlp.fc_1.weight 6 4", LAYER "mlp.fc_2.weight 6 4",
                                    NULL};
static const char *const neox[] = {ALL,
                                   LAYER "norm_1.bias 4",
                                   LAYER "norm_2.bias 4",
                                   "transformer.ln_f.bias 4",
                                   LAYER "mlp.fc.weight 6 4",
                                   NULL};

/* The first line of a key counts, so a test's own come first. */
#define LLAMA                                                                                      \
    "n_head: 2\nnorm_class_name: RMSNorm\nmlp_class_name: 'LLaMAMLP'\nparallel_residual: false\n"  \
    "rotary_percentage: 1.0\nname: tiny"
#define NEOX                                                                                       \
    "n_head: 2\nnorm_class_name: LayerNorm\nmlp_class_name: GptNeoxMLP\nrotary_percentage: 1.0\n"

static void read_yaml(struct made *f, const char *const *shapes, const char *instead,
                      const char *yaml, const char *expected)
{
    make(f, shapes, instead);
    add_file(&f->d, "model_config.yaml", yaml);
    map(f, &litgpt_mapping, expected);
}

TEST(llama_config)
{
    static const struct {
        const char *more;     /* lines of the configuration */
        const char *expected; /* NULL: a model */
    } rows[] = {
        {"", NULL},
        {"n_head: null\n", "side file model_config.yaml: n_head: missing"},
        {"n_head: ~\n", "n_head: missing"},
        {"n_head: -1\n", "n_head: expected a number from 0 to 2147483647"},
        {"n_head: 0\n", "n_head is 0, expected 1 to 65536"},
        {"n_head: nan\n", "n_head: expected a whole number"},
        {"n_head: 1025\n", "n_head 1025 does not divide hidden_size 4"},
        {"n_head: 2x\n", "n_head: expected a whole number"},
        {"n_head: 2.5\n", "n_head: expected a whole number"},
        {"n_query_groups: many\n", "n_query_groups: expected a whole number"},
        {"n_query_groups: 0\n", "n_query_groups is 0, expected 1 to 65536"},
        {"n_query_groups: 3\n", "n_query_groups 3 does not divide n_head 2"},
        {"n_query_groups: 1\n", "attn.qkv.weight: shape [12, 4], expected [8, 4]"},
        {"head_size: two\n", "head_size: expected a whole number"},
        {"head_size: 1.5\n", "head_size: expected a whole number"},
        {"head_size: 4\n", "attn.qkv.weight: shape [12, 4], expected [24, 4]"},
        {"head_size: 3\n", "3 rotary components of 3 in a head: an even number is expected"},
        {"block_size: -8\n", "block_size: expected a number from 0 to 2147483647"},
        {"norm_eps: 2\n", "norm_eps: expected a number from 0 to 1"},
        {"rope_base: 1e-4\n", "rope_base: out of range"},
        {"rope_base: x\n", "rope_base: expected a number"},
        {"rotary_percentage: 0.5\n", "rotary_percentage: only 1 is supported for this model type"},
        {"rotary_percentage: 0.1\n", "rotary_percentage: only 1 is supported for this model type"},
        {"rotary_percentage: 2\n", "rotary_percentage: out of range"},
        {"rope_condense_ratio: 0.5\n", "rope_condense_ratio: out of range"},
        {"rope_condense_ratio: -1\n", "rope_condense_ratio: out of range"},
        {"name: Gemma-2b\n", "name: its norms are not supported for LitGPT"},
        {"norm_1: false\n", "norm_1: false is not supported"},
        {"norm_2: false\n", "norm_2: false is not supported"},
        {"norm_1: true\n", NULL},
        {"parallel_residual: true\n", "mlp_class_name is LLaMAMLP: only RMSNorm with LLaMAMLP"},
        {"norm_class_name: LayerNorm\n", "mlp_class_name is LLaMAMLP: only RMSNorm with LLaMAMLP"},
        {"mlp_class_name: GptNeoxMLP\n",
         "mlp_class_name is GptNeoxMLP: only RMSNorm with LLaMAMLP"},
        {"mlp_class_name:\n  x: 1\n", "mlp_class_name is absent: only RMSNorm"},
        {"attn_bias: true\nhf_config:\n  org: x\n", NULL},
        {"new_switch: true\n", "new_switch: true is not a switch of LitGPT that mgpt knows"},
        {"model_type: llama\n", NULL},
        {"\xff\x01: \xfe\n", NULL},
        {"n_expert: 0\nnorm_qk: false\n", NULL},
        {"n_expert: 8\n", "n_expert: this value is not supported"},
        {"rope_adjustments:\n  factor: 8\n", "rope_adjustments: true is not supported"},
        {"rope_adjustments: null\n", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct made f = {.d = {.n = 0}};
        char yaml[512];
        snprintf(yaml, sizeof yaml, "%s" LLAMA, rows[i].more);
        read_yaml(&f, llama, NULL, yaml, rows[i].expected);
        unmake(&f);
    }
}

TEST(llama_tensors)
{
    static const struct {
        const char *instead, *expected;
    } rows[] = {
        {"transformer.wte.weight 5", "transformer.wte.weight: 1 dimensions, expected 2"},
        {"transformer.wte.weight 0 4", "vocab_size is 0, expected 1 or more"},
        {LAYER "mlp.fc_1.weight", "mlp.fc_1.weight: missing"},
        {LAYER "mlp.fc_2.weight", "mlp.fc_2.weight: missing"},
        {LAYER "attn.qkv.weight 10 4", "attn.qkv.weight: shape [10, 4], expected [12, 4]"},
        {LAYER "norm_2.weight 5", "norm_2.weight: shape [5], expected [4]"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct made f = {.d = {.n = 0}};
        read_yaml(&f, llama, rows[i].instead, LLAMA, rows[i].expected);
        unmake(&f);
    }
}

TEST(what_values_become)
{
    struct made f = {.d = {.n = 0}};
    read_yaml(&f, llama, NULL,
              "rope_condense_ratio: 4\nrope_base: 500\nblock_size: 77\nnorm_eps: 1e-6\n" LLAMA,
              NULL);
    assert_string_equal(f.c.hp.arch, "llama");
    assert_true(f.c.hp.rope_factor == 4 && f.c.hp.rope_base == 500 && f.c.hp.n_rot == 2);
    assert_true(f.c.hp.n_ctx == 77 && f.c.hp.norm_eps == 1e-6f && f.c.hp.parallel == -1);
    unmake(&f);
    f = (struct made){.d = {.n = 0}};
    read_yaml(&f, neox, NULL, "gelu_approximate: tanh\nparallel_residual: false\n" NEOX, NULL);
    assert_string_equal(f.c.hp.arch, "gptneox");
    assert_string_equal(f.c.hp.activation, "gelu_tanh");
    assert_true(f.c.hp.parallel == 0 && f.c.hp.rope_factor == 0 && f.c.hp.n_ctx == 4096);
    unmake(&f);
    f = (struct made){.d = {.n = 0}};
    read_yaml(&f, neox, NULL, "gelu_approximate: none\n" NEOX, NULL);
    assert_true(f.c.hp.parallel == 1 && !f.c.hp.activation);
    unmake(&f);
    static const char few[] = "n_head: 2\nnorm_class_name: LayerNorm\nmlp_class_name: GptNeoxMLP\n";
    f = (struct made){.d = {.n = 0}};
    read_yaml(&f, neox, NULL, few, "0 rotary components of 2 in a head"); /* a fourth of it */
    assert_true(f.c.hp.norm_eps == 1e-5f);
    unmake(&f);
}
