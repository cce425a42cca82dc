/* The fused path of models in which some of the matrices of one input have biases: in each layer any of q, k and v, and
 * up. The logits are those of the general page, which a tap asks for. */
#include "model/model.h"
#include "page/fused.h"
#include "support/toy_zoo.h"
#include "support/unit.h"

enum { N_TOKENS = 9, N_BIASES = 4 };

static const struct toy_spec spec = {.label = "gpt2, q, k and v apart",
                                     .arch = "gpt2",
                                     TOY_SIZES(2, 32, 4, 128, 80, 33),
                                     .biases = 1,
                                     .separate = 1};

static int look(const mgpt_value *value, void *user)
{
    (void)value;
    (void)user;
    return 0;
}

static void run_biased(const mgpt_model *model, const int32_t *tokens, int tapped, float *logits)
{
    mgpt_session *s = subject_session(model, 1, 1);
    if (tapped)
        mgpt_tap(s, MGPT_POINT_BIT(MGPT_EMBD), look, NULL, NULL);
    for (size_t i = 0; i < N_TOKENS; i++) {
        const float *row = mgpt_step(s, tokens[i], NULL);
        assert_non_null(row);
        memcpy(logits + i * 33, row, 33 * sizeof *row);
    }
    mgpt_session_free(s);
}

/* Without the biases of a layer whose bits are set. */
static void drop_biases(struct toy *m, int layer, unsigned which)
{
    static const char *const names[N_BIASES] = {"attn_q", "attn_k", "attn_v", "ffn_up"};
    for (size_t i = 0; i < N_BIASES; i++) {
        char name[80];
        snprintf(name, sizeof name, "blk.%d.%s.bias", layer, names[i]);
        if (which >> i & 1)
            toy_drop_tensor(m, name);
    }
}

TEST(some_biases)
{
    float fused[N_TOKENS * 33], general[N_TOKENS * 33];
    for (unsigned which = 0; which < 1U << N_BIASES; which++)
        for (int layer = 0; layer < 2; layer++) {
            struct toy *m = toy_build(&spec);
            int32_t tokens[N_TOKENS];
            drop_biases(m, layer, which);
            mgpt_model *model = toy_open(m, NULL);
            toy_tokens(m, 5, tokens, N_TOKENS);
            run_biased(model, tokens, 0, fused);
            run_biased(model, tokens, 1, general);
            if (memcmp(fused, general, sizeof fused) != 0)
                fail_msg("layer %d without biases %u: other logits", layer, which);
            mgpt_close(model);
            toy_free(m);
        }
}

TEST(the_model_is_fused)
{
    struct toy *m = toy_build(&spec);
    mgpt_model *model = toy_open(m, NULL);
#ifndef MGPT_NO_FUSED
    assert_true(!fused_kernels(model->kernels.vectors) || model->fused != NULL);
#endif
    mgpt_close(model);
    toy_free(m);
}
