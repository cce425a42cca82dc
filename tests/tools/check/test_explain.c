/* Tests of locate and --explain: bugs planted in toys, one at a time, whose references the float64
 * oracle computes from the unbroken toy. For each the first bad hook and the cause are stated here;
 * both with inner values and, where `logits` says so, from the logits alone. */
#include "base/mem.h"
#include "check/compare/locate.h"
#include "check/explain/suspects.h"
#include "support/planted.h"
#include "support/said.h"
#include "support/sanitized.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

SAID_IN("tests/tools/check/explain.said")

/* clang-format off */
static const struct toy_spec llama = {
    .label = "llama", .arch = "llama", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_head_kv = 2,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .seed = 11};
static const struct toy_spec llama_yarn = {
    .label = "llama, YaRN", .arch = "llama", .n_layer = 2, .n_embd = 64, .n_head = 2, .n_head_kv = 1,
    .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .rope_factor = 4, .yarn = 1024, .seed = 44};
static const struct toy_spec llama_tied = {
    .label = "llama, tied", .arch = "llama", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 48,
    .n_ctx = 40, .n_vocab = 60, .tied = 1, .seed = 12};
static const struct toy_spec gpt2 = {
    .label = "gpt2", .arch = "gpt2", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_ff = 64,
    .n_ctx = 40, .n_vocab = 60, .biases = 1, .seed = 13};
static const struct toy_spec micro = {
    .label = "microgpt", .arch = "microgpt", .n_layer = 2, .n_embd = 16, .n_head = 4, .n_ff = 64,
    .n_ctx = 40, .n_vocab = 27, .seed = 14};
static const struct toy_spec lfm2 = {
    .label = "lfm2", .arch = "lfm2", .n_layer = 3, .n_embd = 32, .n_head = 4, .n_head_kv = 4, .n_ff = 48,
    .n_ctx = 40, .n_vocab = 60, .kinds = "caa", .n_conv = 3, .seed = 46};

#define HEADS_OF(arch, n, kv) \
    "u32 " arch ".attention.head_count " #n "; u32 " arch ".attention.head_count_kv " #kv
#define LLAMA_8_HEADS HEADS_OF("llama", 8, 4) "; u32 llama.rope.dimension_count 4"
#define SWAP_NORMS "swap blk.*.attn_norm.weight blk.*.ffn_norm.weight"
#define SWAP_GATE(layer) "swap blk." layer ".ffn_gate.weight blk." layer ".ffn_up.weight"

/* Label, toy, edits of the file, first bad hook, cause, whether the logits alone tell. */
static const struct bug bugs[] = {
    {"8 heads, not 4", &gpt2, HEADS_OF("gpt2", 8, 8), "blocks.0.attn.hook_z",
     "4 heads of width 8, not 8 heads of width 4", BY_LOGITS},
    {"8 heads of microgpt", &micro, HEADS_OF("microgpt", 8, 8), "blocks.0.attn.hook_z",
     "4 heads of width 4, not 8 heads of width 2", BY_LOGITS},
    {"2 heads of llama", &llama, HEADS_OF("llama", 2, 1) "; u32 llama.rope.dimension_count 16",
     "blocks.0.attn.hook_q", "4 heads (2 KV) of width 8, not 2 heads (1 KV) of width 16",
     BY_LOGITS},
    /* as a converter does that was told of 8 heads: rows of q and k in pairs of that width */
    {"8 heads of llama, and converted so", &llama,
     LLAMA_8_HEADS "; rows blk.*.attn_q.weight 1 0 4 2 6 1 5 3 7; "
     "rows blk.*.attn_k.weight 1 0 4 2 6 1 5 3 7",
     "blocks.0.attn.hook_rot_q",
     "4 heads (2 KV) of width 8, not 8 heads (4 KV) of width 4 (q and k were reordered for those)",
     BY_LOGITS},
    /* from pairs' order to halves', as a converter that forgets to permute leaves them */
    {"rows of q and k", &llama,
     "rows blk.*.attn_q.weight 1 0 2 4 6 1 3 5 7; rows blk.*.attn_k.weight 1 0 2 4 6 1 3 5 7",
     "blocks.0.attn.hook_q", "pairs", BY_LOGITS},
    {"gate and up", &llama, SWAP_GATE("*"), "blocks.0.mlp.hook_pre",
     "gate and up exchanged", BY_LOGITS},
    {"gate and up of one layer", &llama, SWAP_GATE("1"), "blocks.1.mlp.hook_pre", "in layer 1 only",
     BY_LOGITS},
    {"norms", &llama, SWAP_NORMS, "blocks.0.ln1.hook_normalized",
     "two norms of a layer", BY_LOGITS},
    {"rope base", &llama, "f32 llama.rope.freq_base 500000", "blocks.0.attn.hook_rot_q",
     "rope base 10000, not 500000", BY_LOGITS},
    {"rope scaling", &llama,
     "string llama.rope.scaling.type linear; f32 llama.rope.scaling.factor 4",
     "blocks.0.attn.hook_rot_q", "without scaling", BY_LOGITS},
    {"attention scale", &llama, "f32 llama.attention.scale 1", "blocks.0.attn.hook_attn_scores",
     "1/sqrt(d)", BY_LOGITS},
    {"epsilon", &llama, "f32 llama.attention.layer_norm_rms_epsilon 1e-3",
     "blocks.0.ln1.hook_normalized", "epsilon of norms 1e-05", BY_LOGITS},
    {"GELU", &gpt2, "string mgpt.activation gelu_erf", "blocks.0.mlp.hook_post",
     "activation gelu_tanh", BY_LOGITS},
    {"ReLU", &micro, "string mgpt.activation relu2", "blocks.0.mlp.hook_post", "activation relu",
     BY_LOGITS},
    {"transposed", &llama, "transpose blk.*.attn_output.weight", "blocks.0.hook_attn_out",
     "transposed: attn_output", BY_LOGITS},
    {"transposed after a convolution", &lfm2,
     "transpose blk.1.attn_output.weight; transpose blk.2.attn_output.weight", "blocks.1.hook_attn_out",
     "transposed: attn_output", BY_LOGITS},
    {"biases of the output halved", &gpt2, "times blk.*.attn_output.bias all 0.5", "blocks.0.hook_attn_out",
     "biases of attn_output times 2", BY_LOGITS},
    {"untied", &llama_tied, "add output.weight 32 60", "logits", "tied head", BY_LOGITS},
    {"final norm missing", &llama_tied, "bool mgpt.final_norm 0; drop output_norm.weight", "logits",
     "a final norm", BY_HOOKS},
    {"final norm extra", &micro, "bool mgpt.final_norm 1", "logits", "no final norm", BY_LOGITS},
    {"norm after embedding", &llama, "bool mgpt.embedding_norm 1", "blocks.0.hook_resid_pre",
     "no norm after the embedding", BY_LOGITS},
    {"soft cap", &llama, "f32 llama.final_logit_softcapping 3", "logits", "no soft cap", BY_LOGITS},
    {"one weight", &llama, "times blk.1.ffn_down.weight 339 -1", "blocks.1.hook_mlp_out",
     "blk.1.ffn_down.weight row 7 column 3", BY_HOOKS},
    /* row 10 is the third component of the second head as it is stored, the second as it is
     * shown */
    {"one weight of k", &llama, "plus blk.1.attn_k.weight 325 0.5", "blocks.1.attn.hook_k",
     "blk.1.attn_k.weight row 10 column 5", BY_HOOKS},
    {"NaN", &llama, "value blk.1.attn_k.weight 69 nan", "blocks.1.attn.hook_k",
     "blk.1.attn_k.weight row 2 column 5", BY_LOGITS},
    {"one bias", &gpt2, "plus blk.0.attn_output.bias 4 0.25", "blocks.0.hook_attn_out",
     "blk.0.attn_output.bias row -1 column 4", BY_HOOKS},
    {"heads of v", &llama, "rows blk.*.attn_v.weight 8 1 0", "blocks.0.attn.hook_v", "heads of v",
     BY_LOGITS},
    {"positions", &gpt2, "roll position_embd.weight 1", "hook_pos_embed",
     "the first is 1", BY_LOGITS},
    {"a weight of the head", &llama, "plus output.weight 290 1", "logits",
     "output.weight row 9 column 2", BY_LOGITS},
    {"k and v", &llama, "swap blk.*.attn_k.weight blk.*.attn_v.weight", "blocks.0.attn.hook_k",
     "k and v exchanged", BY_LOGITS},
    {"heads of q", &llama, "rows blk.*.attn_q.weight 8 3 2 1 0", "blocks.0.attn.hook_q",
     "heads of q in reverse", BY_LOGITS},
    {"heads of the output", &llama,
     "transpose blk.*.attn_output.weight; rows blk.*.attn_output.weight 8 3 2 1 0; "
     "transpose blk.*.attn_output.weight", "blocks.0.hook_attn_out",
     "heads of attention's output in reverse", BY_HOOKS},
    {"rows one further on", &llama, "roll blk.*.ffn_up.weight 1", "blocks.0.mlp.hook_pre_linear",
     "row n of ffn_up is row n + 1 here", BY_LOGITS},
    {"k and v, then permuted", &llama, "swap blk.*.attn_k.weight blk.*.attn_v.weight; "
     "rows blk.*.attn_k.weight 1 0 4 1 5 2 6 3 7; rows blk.*.attn_v.weight 1 0 2 4 6 1 3 5 7", "blocks.0.attn.hook_k",
     "k and v exchanged before the rows of k", BY_LOGITS},
    {"heads by twos", &llama, "transpose blk.*.attn_output.weight; rows blk.*.attn_output.weight 8 1 0 3 2; "
     "transpose blk.*.attn_output.weight", "blocks.0.hook_attn_out", "2 and 3, ... of attention's output", BY_HOOKS},
    {"the base of what is scaled", &llama_yarn, "f32 llama.rope.freq_base 500000", "blocks.0.attn.hook_rot_q",
     "rope base 10000, not 500000", BY_LOGITS},
    {"halves of rows", &llama, "roll blk.0.attn_output.weight 16", "blocks.0.hook_attn_out",
     "halves of the rows of attn_output exchanged", BY_LOGITS},
    {"k permuted with n_head", &llama, "rows blk.*.attn_k.weight 1 0 4 2 6 1 5 3 7",
     "blocks.0.attn.hook_k", "rows of k permuted as of 4 heads", BY_LOGITS},
    {"biases of q and k", &llama, "add blk.*.attn_q.bias 32; add blk.*.attn_k.bias 16",
     "blocks.0.attn.hook_q", "without biases of q and k", BY_LOGITS},
    {"all biases", &llama, "add blk.*.attn_v.bias 16; add blk.*.attn_output.bias 32",
     "blocks.0.attn.hook_v", "without any bias", BY_LOGITS},
    {"order of layers", &llama, "swap blk.0. blk.1.", "blocks.0.ln1.hook_normalized", "layers",
     BY_LOGITS},
};
/* clang-format on */

TEST(planted)
{
    size_t missed = 0;
    for (size_t i = 0; i < COUNT(bugs); i += SANITIZED ? 3 : 1)
        missed += planted_missed(&bugs[i], 0);
    assert_int_equal(missed, 0);
}

/* A cause says what the file calls its tensors, not the words for roles that suspects are written in. */
TEST(causes_name_tensors_of_the_file)
{
    static const struct toy_spec *const specs[] = {&llama, &gpt2, &micro, &lfm2};
    (void)state;
    for (size_t i = 0; i < COUNT(specs); i++) {
        struct toy *toy = toy_build(specs[i]);
        mgpt_model *model = toy_open(toy, NULL);
        struct whatif w;
        int32_t tokens[PLANTED_N];
        toy_tokens(toy, 5, tokens, PLANTED_N);
        assert_int_equal(whatif_open(&w, model, tokens, PLANTED_N, NULL), MGPT_OK);
        struct suspect *list = suspects_list(&w, 0, NULL);
        assert_true(arr_len(list) > 100);
        for (size_t k = 0; k < arr_len(list); k++)
            if (strstr(list[k].cause, "W_") || strstr(list[k].cause, "ln1"))
                fail_msg("%s: %s", specs[i]->label, list[k].cause);
        arr_free(list);
        whatif_close(&w);
        mgpt_close(model);
        toy_free(toy);
    }
}

/* ---- transformers' hidden states ---------------------------------------------------------------- */

/* clang-format off */
static const struct toy_spec deep = {
    .label = "llama of 3 layers", .arch = "llama", .n_layer = 3, .n_embd = 32, .n_head = 4,
    .n_head_kv = 2, .n_ff = 48, .n_ctx = 40, .n_vocab = 60, .seed = 15};
/* clang-format on */

/* Leaves what transformers has: the input of every layer, the last as it leaves the final norm. */
static void keep_hidden(struct told *t, int n_layer)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_hooks; i++) {
        struct ref_hook h = t->hooks[i];
        int keep = (h.point == MGPT_RESID_PRE && h.layer == 0) || h.point == MGPT_FINAL ||
                   (h.point == MGPT_RESID_POST && h.layer + 1 < n_layer);
        if (keep)
            t->hooks[n++] = h;
        else
            free((void *)(uintptr_t)h.name);
    }
    t->n_hooks = n;
}

/* Where the last entry holds the residual before the final norm. */
static int raw_row(void *user, size_t i, size_t row, double *out, mgpt_error *err)
{
    struct told *t = user;
    struct ref_hook last = t->hooks[i];
    (void)err;
    if (i + 1 == t->n_hooks)
        last = (struct ref_hook){.point = MGPT_RESID_POST, .layer = 2};
    const struct trace_value *v = trace_at(t->trace, last.point, last.layer);
    memcpy(out, v->data + row * v->cols, v->cols * sizeof *out);
    return 0;
}

/* The same, each value a tenth larger or smaller: a pass that is wrong elsewhere, too. */
static int far_row(void *user, size_t i, size_t row, double *out, mgpt_error *err)
{
    int status = raw_row(user, i, row, out, err);
    for (size_t j = 0; j < (size_t)deep.n_embd; j++)
        out[j] *= j % 2 ? 1.1 : 0.9;
    return status;
}

static void check_layers(const mgpt_model *model, const struct answer *a, int from, int to)
{
    struct locate l;
    assert_int_equal(locate_run(&l, model, a, 1e-9, NULL), MGPT_OK);
    struct locate_layers layers = locate_layers(&l, 3);
    assert_int_equal(layers.from, from);
    assert_int_equal(layers.to, to);
    locate_free(&l);
}

struct hidden_case {
    struct bug bug;
    const char *raw; /* first bad hook where the last entry is before the norm */
    int from, to, raw_from;
    const char *fresh; /* edits of both models, or NULL */
};

/* How many of the two forms of the last hidden state, after and before the final norm, lead to the
 * bug. */
static int hidden_found(const struct hidden_case *c)
{
    int right = 0;
    int32_t tokens[PLANTED_N];
    struct toy *good = toy_build(&deep), *broken = toy_build(&deep);
    struct told told;
    toy_tokens(good, 5, tokens, PLANTED_N);
    toy_edit(good, c->fresh ? c->fresh : "");
    toy_edit(broken, c->fresh ? c->fresh : "");
    struct answer a = told_answer(&told, oracle_run(good, tokens, PLANTED_N, NULL, NULL), good,
                                  tokens, PLANTED_N, 0);
    keep_hidden(&told, 3);
    a.n_hooks = told.n_hooks;
    free((void *)(uintptr_t)told.hooks[3].name);
    told.hooks[3].name = strcpy(toy_alloc(16, 1), "hidden_states.3");
    mgpt_model *model = toy_open(good, NULL);
    assert_int_equal(answer_place_last(&a, model, NULL), MGPT_OK);
    assert_int_equal(a.hooks[3].point, MGPT_FINAL);
    mgpt_close(model);
    toy_edit(broken, c->bug.edits);
    model = toy_open(broken, NULL);
    right += planted_found(&c->bug, model, &a, c->bug.hook);
    check_layers(model, &a, c->from, c->to);
    a.row = raw_row;
    mgpt_model *whole = toy_open(good, NULL);
    assert_int_equal(answer_place_last(&a, whole, NULL), MGPT_OK);
    assert_int_equal(a.hooks[3].point, MGPT_RESID_POST);
    assert_int_equal(a.hooks[3].layer, 2);
    told.hooks[3].point = MGPT_FINAL;
    told.hooks[3].layer = -1;
    a.row = far_row;
    assert_int_equal(answer_place_last(&a, whole, NULL), MGPT_OK);
    assert_int_equal(a.hooks[3].point, MGPT_FINAL);
    told.hooks[3].point = MGPT_RESID_POST;
    told.hooks[3].layer = 2;
    a.row = raw_row;
    mgpt_close(whole);
    right += planted_found(&c->bug, model, &a, c->raw);
    check_layers(model, &a, c->raw_from, c->to);
    mgpt_close(model);
    told_free(&told);
    toy_free(good);
    toy_free(broken);
    return right;
}

TEST(hidden_states)
{
    static const struct hidden_case cases[] = {
        {{"first layer", &deep, SWAP_NORMS, "blocks.0.hook_resid_post", "two norms of a layer",
          BY_HOOKS},
         "blocks.0.hook_resid_post",
         0,
         0,
         0,
         NULL},
        {{"second layer", &deep, SWAP_GATE("1"), "blocks.1.hook_resid_post", "in layer 1 only",
          BY_HOOKS},
         "blocks.1.hook_resid_post",
         1,
         1,
         1,
         NULL},
        {{"last layer", &deep, SWAP_GATE("2"), "ln_final.hook_normalized", "in layer 2 only",
          BY_HOOKS},
         "blocks.2.hook_resid_post",
         2,
         2,
         2,
         NULL},
        {{"final norm", &deep, "value output_norm.weight all 1", "ln_final.hook_normalized",
          "output_norm.weight", BY_HOOKS},
         "logits",
         2,
         2,
         3,
         NULL},
        /* epsilon is a large part of the last norm's mean square */
        {{"small weights", &deep, SWAP_GATE("1"), "blocks.1.hook_resid_post", "in layer 1 only",
          BY_HOOKS},
         "blocks.1.hook_resid_post",
         1,
         1,
         1,
         "value output_norm.weight all 1; times token_embd.weight all 0.02; "
         "times blk.*.attn_output.weight all 0.02; times blk.*.ffn_down.weight all 0.02"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(hidden_found(&cases[i]), 2);
}
