/* Which models take the fused path; all others run in forward.c. */
#include "model/model.h"
#include "support/build_model.h"
#include "support/unit.h"

#define SMALL TOY_SIZES(1, 16, 4, 64, 16, 27)
#define STILL SMALL, .no_rope_every = 1

static void check_all(const struct toy_spec *specs, size_t n, int fuses)
{
    for (size_t i = 0; i < n; i++) {
        struct toy *m = toy_build(&specs[i]);
        mgpt_model *model = toy_open(m, NULL);
        if (!model->fused != !fuses)
            fail_msg("%s: %s", specs[i].label, fuses ? "not fused" : "fused");
        mgpt_close(model);
        toy_free(m);
    }
}

/* A model that the fused path does not support runs in forward.c. */
TEST(what_does_not_qualify)
{
    const struct toy_spec others[] = {
        {.label = "window", .arch = "gpt2", SMALL, .window = 5},
        {.label = "clamp", .arch = "microgpt", SMALL, .qkv_clamp = 0.5},
        {.label = "soft cap", .arch = "microgpt", SMALL, .logit_softcap = 1.5},
        {.label = "branches side by side", .arch = "gpt2", SMALL, .parallel = TOY_YES},
        {.label = "head bias", .arch = "gpt2", SMALL, .head_bias = 1},
        {.label = "heads of 2", .arch = "microgpt", TOY_SIZES(1, 16, 8, 64, 16, 27)},
        {.label = "no layers, 20 wide", .arch = "microgpt", TOY_SIZES(0, 20, 5, 0, 16, 27)},
        {.label = "too large", .arch = "microgpt", TOY_SIZES(0, 64, 4, 0, 16, 3000)},
        {.label = "wide", .arch = "microgpt", TOY_SIZES(1, 80, 5, 64, 16, 27)},
        {.label = "odd", .arch = "microgpt", TOY_SIZES(1, 20, 4, 64, 16, 27)},
        {.label = "odd MLP", .arch = "microgpt", TOY_SIZES(1, 16, 4, 24, 16, 27)},
        {.label = "odd keys", .arch = "microgpt", SMALL, .n_head_kv = 1},
        {.label = "wide MLP", .arch = "microgpt", TOY_SIZES(1, 16, 4, 272, 16, 27)},
        {.label = "halves", .arch = "microgpt", SMALL, .type = TOY_F16},
        {.label = "rotated", .arch = "llama", SMALL},
        {.label = "norms of q and k", .arch = "qwen3", STILL},
        {.label = "norms after the branches", .arch = "olmo2", STILL},
        {.label = "sinks", .arch = "granite_swa", STILL},
        {.label = "residual scale", .arch = "granite", STILL, .residual_scale = 0.5},
        {.label = "logit scale", .arch = "granite", STILL, .logit_scale = 0.5},
        {.label = "gates of heads", .arch = "afmoe", STILL, .window = 16},
        {.label = "rows of no panel",
         .arch = "llama",
         .n_layer = 1,
         .n_embd = 32,
         .n_head = 2,
         .head_dim = 12,
         .n_ff = 64,
         .n_ctx = 16,
         .n_vocab = 27,
         .no_rope_every = 1},
        {.label = "narrow keys",
         .arch = "llama",
         .n_layer = 1,
         .n_embd = 32,
         .n_head = 4,
         .head_dim = 8,
         .n_head_kv = 1,
         .n_ff = 64,
         .n_ctx = 16,
         .n_vocab = 27,
         .no_rope_every = 1},
    };
    check_all(others, COUNT(others), 0);
}

/* These differ from models above in what the labels there name. */
TEST(what_qualifies)
{
    const struct toy_spec some[] = {
        {.label = "canonical", .arch = "microgpt", SMALL},
        {.label = "biases", .arch = "gpt2", SMALL},
        {.label = "not rotated", .arch = "llama", STILL},
        {.label = "scales", .arch = "granite", STILL, .embd_scale = 1.5, .attn_scale = 0.3},
    };
    check_all(some, COUNT(some), 1);
}
