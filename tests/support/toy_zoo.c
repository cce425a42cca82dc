/* Tests: the zoo and its subjects. See toy_zoo.h.
 *
 * Every architecture, every dialect, sizes that are not multiples of any vector width, grouped
 * heads, and the corners: no layers, the smallest sizes there are. n_ctx 80 leaves room for a chunk
 * of 64 and something after it; windows are shorter than that, and shorter, as long as, and longer
 * than a panel of 16 keys. */
#include "support/toy_zoo.h"

#include "base/fnv.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const struct toy_spec toy_zoo[ZOO_SIZE] = {
    [ZOO_MICROGPT] = {
     .label = "microgpt, canonical shape", .arch = "microgpt", .n_layer = 1, .n_embd = 16,
     .n_head = 4, .n_ff = 64, .n_ctx = 16, .n_vocab = 27, .characters = 1},
    [ZOO_MICROGPT_DEEP] = {
     .label = "microgpt, head_dim 5", .arch = "microgpt", .n_layer = 3, .n_embd = 20, .n_head = 4,
     .n_ff = 80, .n_ctx = 80, .n_vocab = 65},
    [ZOO_MICROGPT_RELU2] = {
     .label = "microgpt, relu2, odd sizes, no embedding norm, final norm", .arch = "microgpt",
     .n_layer = 2, .n_embd = 33, .n_head = 3, .n_ff = 7, .n_ctx = 80, .n_vocab = 300,
     .activation = "relu2", .embedding_norm = TOY_NO, .final_norm = TOY_YES, .alignment = 64,
     .characters = 1},
    [ZOO_MICROGPT_BF16] = {
     .label = "microgpt, BF16", .arch = "microgpt", .n_layer = 2, .n_embd = 16, .n_head = 4,
     .n_ff = 64, .n_ctx = 80, .n_vocab = 27, .type = TOY_BF16},
    [ZOO_MICROGPT_BIGRAM] = {
     .label = "microgpt, no layers", .arch = "microgpt", .n_layer = 0, .n_embd = 16, .n_head = 4,
     .n_ff = 64, .n_ctx = 80, .n_vocab = 27},
    [ZOO_MICROGPT_SMALLEST] = {
     .label = "microgpt, smallest sizes", .arch = "microgpt", .n_layer = 2, .n_embd = 2,
     .n_head = 2, .n_ff = 1, .n_ctx = 80, .n_vocab = 2},
    [ZOO_LLAMA] = {
     .label = "llama, head_dim 4", .arch = "llama", .n_layer = 1, .n_embd = 16, .n_head = 4,
     .n_ff = 172, .n_ctx = 80, .n_vocab = 65},
    [ZOO_LLAMA_TIED] = {
     .label = "llama, GQA 4/2, tied, BF16", .arch = "llama", .n_layer = 2, .n_embd = 24,
     .n_head = 4, .n_head_kv = 2, .n_ff = 33, .n_ctx = 80, .n_vocab = 300, .tied = 1,
     .type = TOY_BF16, .alignment = 64},
    [ZOO_LLAMA_F16] = {
     .label = "llama, GQA 2/1, head_dim 48, F16", .arch = "llama", .n_layer = 1, .n_embd = 32,
     .n_head = 2, .n_head_kv = 1, .head_dim = 48, .n_ff = 40, .n_ctx = 80, .n_vocab = 65,
     .type = TOY_F16},
    [ZOO_LLAMA_DEEP] = {
     .label = "llama, GQA 4/1, head_dim apart from n_embd", .arch = "llama", .n_layer = 3,
     .n_embd = 20, .n_head = 4, .n_head_kv = 1, .head_dim = 8, .n_ff = 31, .n_ctx = 80,
     .n_vocab = 27, .eps = 1e-6},
    [ZOO_LLAMA_BIASES] = {
     .label = "llama, part of the head rotates, biases", .arch = "llama", .n_layer = 2,
     .n_embd = 36, .n_head = 3, .rope_dims = 4, .rope_base = 500, .n_ff = 50, .n_ctx = 80,
     .n_vocab = 65, .biases = 1},
    [ZOO_LLAMA_DIALECT] = {
     .label = "llama, gated gelu_erf, embedding norm, no final norm", .arch = "llama",
     .n_layer = 1, .n_embd = 20, .n_head = 2, .n_ff = 17, .n_ctx = 80, .n_vocab = 27,
     .activation = "gelu_erf", .embedding_norm = TOY_YES, .final_norm = TOY_NO},
    [ZOO_LLAMA_BIGRAM] = {
     .label = "llama, no layers, tied", .arch = "llama", .n_layer = 0, .n_embd = 16, .n_head = 4,
     .n_ff = 32, .n_ctx = 80, .n_vocab = 27, .tied = 1},
    [ZOO_GPT2] = {
     .label = "gpt2, tied, biases, head_dim 5", .arch = "gpt2", .n_layer = 2, .n_embd = 20,
     .n_head = 4, .n_ff = 80, .n_ctx = 80, .n_vocab = 65, .tied = 1, .biases = 1},
    [ZOO_GPT2_ERF] = {
     .label = "gpt2, gelu_erf, no biases, untied", .arch = "gpt2", .n_layer = 1, .n_embd = 48,
     .n_head = 3, .n_ff = 100, .n_ctx = 80, .n_vocab = 65, .activation = "gelu_erf"},
    [ZOO_GPT2_F16] = {
     .label = "gpt2, F16, one head, silu", .arch = "gpt2", .n_layer = 1, .n_embd = 40,
     .n_head = 1, .n_ff = 100, .n_ctx = 80, .n_vocab = 27, .tied = 1, .biases = 1,
     .activation = "silu", .type = TOY_F16, .alignment = 64},
    [ZOO_GPT2_BIGRAM] = {.label = "gpt2, no layers", .arch = "gpt2",
     TOY_SIZES(0, 17, 1, 32, 80, 27), .tied = 1, .biases = 1},
    [ZOO_GPT2_NEO] = {
     .label = "gpt2, GPT-Neo: q, k, v apart, scores not scaled, every other layer a window",
     .arch = "gpt2", .n_layer = 3, .n_embd = 20, .n_head = 4, .n_ff = 41, .n_ctx = 80,
     .n_vocab = 65, .tied = 1, .biases = 1, .separate = 1, .attn_scale = 1,
     .windows = (const int32_t[]){0, 9, 33}},
    [ZOO_LLAMA_WINDOW] = {
     .label = "llama, window of 19, soft cap, head bias", .arch = "llama", .n_layer = 2,
     .n_embd = 24, .n_head = 3, .n_head_kv = 1, .n_ff = 40, .n_ctx = 80, .n_vocab = 65,
     .window = 19, .logit_softcap = 1.5, .tied = 1, .head_bias = 1},
    [ZOO_LLAMA_PATTERN] = {
     .label = "llama, window of 16 in two of three layers, one rope base", .arch = "llama",
     .n_layer = 4, .n_embd = 16, .n_head = 2, .n_ff = 20, .n_ctx = 80, .n_vocab = 27,
     .window = 16, .full_every = 3, .rope_base = 500},
    [ZOO_LLAMA_TWO_BASES] = {
     .label = "llama, a flag a layer, a rope base of its own for windowed layers", .arch = "llama",
     .n_layer = 2, .n_embd = 16, .n_head = 2, .n_ff = 22, .n_ctx = 80, .n_vocab = 27,
     .window = 18, .pattern = "wf", .window_base = 700},
    [ZOO_LLAMA_SCALED] = {
     .label = "llama, rope divisors and positions divided by 2.5", .arch = "llama", .n_layer = 2,
     .n_embd = 24, .n_head = 2, .n_ff = 31, .n_ctx = 80, .n_vocab = 27, .rope_base = 500000,
     .rope_dims = 10, .rope_factor = 2.5, .divisors = 1},
    [ZOO_QWEN2] = {
     .label = "qwen2, GQA 4/2, tied", .arch = "qwen2", .n_layer = 2, .n_embd = 24, .n_head = 4,
     .n_head_kv = 2, .n_ff = 37, .n_ctx = 80, .n_vocab = 65, .rope_base = 1e6, .eps = 1e-6,
     .tied = 1},
    [ZOO_QWEN2_SCALED] = {
     .label = "qwen2, positions divided by 4, biases everywhere, F16", .arch = "qwen2",
     .n_layer = 1, .n_embd = 20, .n_head = 2, .n_ff = 33, .n_ctx = 80, .n_vocab = 27,
     .rope_base = 300, .rope_factor = 4, .biases = 1, .head_bias = 1, .type = TOY_F16},
    [ZOO_QWEN3] = {
     .label = "qwen3, heads wider than their share, BF16", .arch = "qwen3", .n_layer = 2,
     .n_embd = 20, .n_head = 4, .n_head_kv = 2, .head_dim = 8, .n_ff = 45, .n_ctx = 80,
     .n_vocab = 65, .rope_base = 1e6, .eps = 1e-6, .tied = 1, .type = TOY_BF16},
    [ZOO_GEMMA3] = {
     .label = "gemma3, five of six layers a window of 17", .arch = "gemma3", .n_layer = 7,
     .n_embd = 16, .n_head = 4, .n_head_kv = 1, .head_dim = 6, .n_ff = 24, .n_ctx = 80,
     .n_vocab = 65, .window = 17, .rope_base = 1e6, .eps = 1e-6, .attn_scale = 0.35, .tied = 1},
    [ZOO_GEMMA3_PERIOD] = {
     .label = "gemma3, every other layer a window of 5, both bases, full layers stretched",
     .arch = "gemma3", .n_layer = 3, .n_embd = 20, .n_head = 2, .n_head_kv = 1, .head_dim = 12,
     .n_ff = 33, .n_ctx = 80, .n_vocab = 27, .window = 5, .full_every = 2, .rope_base = 40000,
     .window_base = 300, .rope_factor = 8, .tied = 1},
    [ZOO_GEMMA3_FLAGS] = {
     .label = "gemma3, a flag a layer, window longer than the context, soft cap",
     .arch = "gemma3", .n_layer = 3, .n_embd = 12, .n_head = 2, .n_ff = 20, .n_ctx = 70,
     .n_vocab = 27, .window = 100, .pattern = "wfw", .rope_base = 1e6, .logit_softcap = 3, .tied = 1},
    [ZOO_GPTNEOX] = {
     .label = "gptneox, half of each head rotates", .arch = "gptneox", .n_layer = 2, .n_embd = 24,
     .n_head = 3, .rope_dims = 4, .n_ff = 96, .n_ctx = 80, .n_vocab = 65, .biases = 1},
    [ZOO_GPTNEOX_SERIAL] = {
     .label = "gptneox, branches in turn, q, k, v apart, GQA 4/2, no biases", .arch = "gptneox",
     .n_layer = 2, .n_embd = 28, .n_head = 4, .n_head_kv = 2, .rope_dims = 6, .n_ff = 51,
     .n_ctx = 80, .n_vocab = 27, .parallel = TOY_NO, .separate = 1},
    [ZOO_PHI2] = {
     .label = "phi2, 4 of 10 components rotate, head bias", .arch = "phi2", .n_layer = 2,
     .n_embd = 20, .n_head = 2, .rope_dims = 4, .n_ff = 80, .n_ctx = 80, .n_vocab = 65,
     .biases = 1, .head_bias = 1},
    [ZOO_PHI2_SEPARATE] = {.label = "phi2, q, k, v apart, GQA 6/3, windows", .arch = "phi2",
     TOY_SIZES(2, 36, 6, 50, 80, 27), .n_head_kv = 3, .biases = 1, .separate = 1,
     .windows = (const int32_t[]){18, 0}, .parallel = TOY_YES},
    [ZOO_PHI2_NORMS] = {.label = "phi2, LayerNorm of q and k", .arch = "phi2",
     TOY_SIZES(2, 24, 3, 50, 80, 27), .rope_dims = 4, .biases = 1, .qk_norms = 1},
    [ZOO_OLMO] = {
     .label = "olmo, clamped q, k, v", .arch = "olmo", .n_layer = 2, .n_embd = 24, .n_head = 4,
     .n_ff = 35, .n_ctx = 80, .n_vocab = 65, .qkv_clamp = 0.9, .tied = 1},
    [ZOO_OLMO2] = {
     .label = "olmo2, GQA 4/2", .arch = "olmo2", .n_layer = 3, .n_embd = 20, .n_head = 4,
     .n_head_kv = 2, .head_dim = 8, .n_ff = 34, .n_ctx = 80, .n_vocab = 65, .rope_base = 500000,
     .eps = 1e-6},
    [ZOO_SMOLLM3_EVERY_2] = {.label = "smollm3, every second", .arch = "smollm3", TOY_SIZES(3, 20, 2, 33, 80, 27), .no_rope_every = 2},
    [ZOO_SMOLLM3] = {
     .label = "smollm3, the fourth layer does not rotate, GQA 4/2", .arch = "smollm3",
     .n_layer = 5, .n_embd = 16, .n_head = 4, .n_head_kv = 2, .n_ff = 30, .n_ctx = 80,
     .n_vocab = 27, .rope_base = 5e6, .eps = 1e-6, .tied = 1},
    [ZOO_STARCODER2] = {
     .label = "starcoder2, GQA 4/2, biases, a window of 20", .arch = "starcoder2", .n_layer = 2,
     .n_embd = 24, .n_head = 4, .n_head_kv = 2, .n_ff = 50, .n_ctx = 80, .n_vocab = 65,
     .window = 20, .biases = 1, .separate = 1, .tied = 1},
    [ZOO_GRANITE] = {
     .label = "granite, four multipliers", .arch = "granite", .n_layer = 2, .n_embd = 20,
     .n_head = 2, .n_ff = 33, .n_ctx = 80, .n_vocab = 65, .embd_scale = 1.7,
     .residual_scale = 0.3, .attn_scale = 0.4, .logit_scale = 3, .tied = 1},
    [ZOO_GEMMA] = {
     .label = "gemma, heads wider than their share", .arch = "gemma", .n_layer = 2, .n_embd = 18,
     .n_head = 2, .n_head_kv = 1, .head_dim = 10, .n_ff = 26, .n_ctx = 80, .n_vocab = 27,
     .tied = 1},
    [ZOO_GEMMA2] = {
     .label = "gemma2, caps, every other layer a window of 18", .arch = "gemma2", .n_layer = 3,
     .n_embd = 18, .n_head = 4, .n_head_kv = 2, .head_dim = 6, .n_ff = 26, .n_ctx = 80,
     .n_vocab = 65, .window = 18, .attn_softcap = 1.5, .logit_softcap = 2, .tied = 1},
    [ZOO_PHI3] = {
     .label = "phi3, gate and up in one, 4 of 6 components rotate, short factors", .arch = "phi3",
     .n_layer = 2, .n_embd = 24, .n_head = 4, .n_head_kv = 2, .rope_dims = 4, .n_ff = 37,
     .n_ctx = 80, .n_vocab = 65, .longrope = 80, .rope_attn = 1.2},
    [ZOO_PHI3_LONG] = {
     .label = "phi3, long factors, q, k, v apart", .arch = "phi3", .n_layer = 1, .n_embd = 20,
     .n_head = 2, .n_ff = 33, .n_ctx = 80, .n_vocab = 27, .longrope = 79, .separate = 1,
     .window = 23},
    [ZOO_QWEN3_YARN] = {
     .label = "qwen3, YaRN", .arch = "qwen3", .n_layer = 2, .n_embd = 32, .n_head = 2, .n_ff = 40,
     .n_ctx = 80, .n_vocab = 27, .rope_base = 300, .rope_factor = 4, .yarn = 40,
     .rope_attn = 0.8},
    [ZOO_STABLELM] = {
     .label = "stablelm, 4 of 8 components rotate, gains of each head", .arch = "stablelm", .n_layer = 2, .n_embd = 24,
     .n_head = 3, .n_head_kv = 1, .rope_dims = 4, .n_ff = 31, .n_ctx = 80, .n_vocab = 65,
     .biases = 1, .head_gains = 1},
    [ZOO_STABLELM_PARALLEL] = {.label = "stablelm, parallel branches with two norms",
     .arch = "stablelm", TOY_SIZES(2, 20, 2, 33, 80, 27), .parallel = TOY_YES},
    [ZOO_GPTJ] = {
     .label = "gptj, 4 of 10 components rotate in adjacent pairs", .arch = "gptj", .n_layer = 2,
     .n_embd = 20, .n_head = 2, .rope_dims = 4, .n_ff = 50, .n_ctx = 80, .n_vocab = 65,
     .biases = 1, .head_bias = 1, .separate = 1},
    [ZOO_STARCODER] = {.label = "starcoder, one KV head", .arch = "starcoder", .n_head_kv = 1,
     TOY_SIZES(2, 20, 4, 41, 80, 65), .biases = 1, .tied = 1},
    [ZOO_BLOOM] = {
     .label = "bloom, ALiBi of 6 heads", .arch = "bloom", .n_layer = 2, .n_embd = 30, .n_head = 6,
     .n_ff = 50, .n_ctx = 80, .n_vocab = 65, .biases = 1, .tied = 1},
    [ZOO_MPT] = {
     .label = "mpt, ALiBi of 3 heads on 1, clamp, window", .arch = "mpt", .n_layer = 2,
     .n_embd = 24, .n_head = 3, .n_head_kv = 1, .n_ff = 50, .n_ctx = 80, .n_vocab = 27,
     .alibi = 5, .qkv_clamp = 0.9, .window = 30},
    [ZOO_COMMAND_R] = {
     .label = "command-r, logits times 0.3, gains of each head", .arch = "command-r", .n_layer = 2, .n_embd = 24,
     .n_head = 3, .n_head_kv = 1, .n_ff = 31, .n_ctx = 80, .n_vocab = 65, .logit_scale = 0.3,
     .tied = 1, .head_gains = 1},
    [ZOO_COHERE2] = {
     .label = "cohere2, three of four layers a window of 18, the fourth not rotated",
     .arch = "cohere2", .n_layer = 5, .n_embd = 16, .n_head = 2, .n_ff = 24, .n_ctx = 80,
     .n_vocab = 27, .window = 18, .logit_scale = 0.5, .tied = 1},
    [ZOO_FALCON] = {
     .label = "falcon, one norm, one KV head", .arch = "falcon", .n_layer = 2, .n_embd = 24,
     .n_head = 3, .n_head_kv = 1, .n_ff = 50, .n_ctx = 80, .n_vocab = 65, .tied = 1},
    [ZOO_FALCON_TWO_NORMS] = {
     .label = "falcon, two norms, GQA 4/2, biases", .arch = "falcon", .n_layer = 2, .n_embd = 24,
     .n_head = 4, .n_head_kv = 2, .n_ff = 41, .n_ctx = 80, .n_vocab = 27, .biases = 1,
     .two_norms = 1},
    [ZOO_ARCEE] = {
     .label = "arcee, ReLU² without a gate, GQA 4/2", .arch = "arcee", .n_layer = 2, .n_embd = 24,
     .n_head = 4, .n_head_kv = 2, .n_ff = 50, .n_ctx = 80, .n_vocab = 65, .separate = 1},
    [ZOO_NEMOTRON] = {
     .label = "nemotron, half of each head rotates, biases", .arch = "nemotron", .n_layer = 2,
     .n_embd = 24, .n_head = 3, .rope_dims = 4, .n_ff = 41, .n_ctx = 80, .n_vocab = 27,
     .biases = 1, .separate = 1},
    [ZOO_JAIS2] = {
     .label = "jais2, GQA 6/2, no biases, tied", .arch = "jais2", .n_layer = 2, .n_embd = 36,
     .n_head = 6, .n_head_kv = 2, .n_ff = 33, .n_ctx = 80, .n_vocab = 65, .tied = 1,
     .separate = 1},
    [ZOO_ERNIE4_5] = {
     .label = "ernie4_5, heads wider than their share", .arch = "ernie4_5", .n_layer = 2,
     .n_embd = 20, .n_head = 4, .n_head_kv = 1, .head_dim = 8, .n_ff = 33, .n_ctx = 80,
     .n_vocab = 65, .rope_base = 500000, .tied = 1},
    [ZOO_HELIUM] = {
     .label = "helium, divisors", .arch = "helium", .n_layer = 2, .n_embd = 24, .n_head = 2,
     .n_ff = 37, .n_ctx = 80, .n_vocab = 27, .rope_base = 100000, .divisors = 1},
    [ZOO_SEED_OSS] = {
     .label = "seed_oss, GQA 4/2, wide heads", .arch = "seed_oss", .n_layer = 2, .n_embd = 20,
     .n_head = 4, .n_head_kv = 2, .head_dim = 8, .n_ff = 33, .n_ctx = 80, .n_vocab = 65},
    [ZOO_CHATGLM] = {
     .label = "chatglm, half of each head rotates in adjacent pairs", .arch = "chatglm",
     .n_layer = 2, .n_embd = 24, .n_head = 3, .n_head_kv = 1, .rope_dims = 4, .n_ff = 37,
     .n_ctx = 80, .n_vocab = 65},
    [ZOO_GLM4] = {
     .label = "glm4, q, k, v apart, biases", .arch = "glm4", .n_layer = 2, .n_embd = 20,
     .n_head = 4, .n_head_kv = 2, .head_dim = 8, .rope_dims = 4, .n_ff = 33, .n_ctx = 80,
     .n_vocab = 27, .separate = 1},
    [ZOO_HUNYUAN] = {
     .label = "hunyuan-dense, norms of q and k after rope, GQA 4/2", .arch = "hunyuan-dense",
     .n_layer = 2, .n_embd = 20, .n_head = 4, .n_head_kv = 2, .head_dim = 8, .n_ff = 33,
     .n_ctx = 80, .n_vocab = 65, .rope_base = 560000, .tied = 1},
    [ZOO_EXAONE] = {
     .label = "exaone, divisors", .arch = "exaone", .n_layer = 2, .n_embd = 24, .n_head = 3,
     .n_head_kv = 1, .n_ff = 33, .n_ctx = 80, .n_vocab = 27, .divisors = 1},
    [ZOO_EXAONE4] = {
     .label = "exaone4, three of four layers a window of 18, the fourth not rotated",
     .arch = "exaone4", .n_layer = 5, .n_embd = 16, .n_head = 4, .n_head_kv = 2, .n_ff = 24,
     .n_ctx = 80, .n_vocab = 27, .window = 18, .rope_base = 1e6},
    [ZOO_EXAONE4_FULL] = {
     .label = "exaone4 without windows, all layers rotate", .arch = "exaone4", .n_layer = 5,
     .n_embd = 18, .n_head = 3, .n_head_kv = 1, .n_ff = 25, .n_ctx = 80, .n_vocab = 65,
     .rope_base = 1e6, .tied = 1},
    [ZOO_MINICPM] = {
     .label = "minicpm, three multipliers", .arch = "minicpm", .n_layer = 2, .n_embd = 20,
     .n_head = 2, .n_ff = 33, .n_ctx = 80, .n_vocab = 65, .embd_scale = 12,
     .residual_scale = 0.7, .logit_scale = 1.5, .tied = 1},
    [ZOO_VAULTGEMMA] = {
     .label = "vaultgemma, caps, every other layer a window of 18", .arch = "vaultgemma",
     .n_layer = 3, .n_embd = 18, .n_head = 4, .n_head_kv = 2, .head_dim = 6, .n_ff = 26,
     .n_ctx = 80, .n_vocab = 65, .window = 18, .attn_softcap = 1.5, .logit_softcap = 2, .tied = 1},
    [ZOO_BIOGPT] = {.label = "biogpt, embeddings times the root of their width", .arch = "biogpt",
     TOY_SIZES(2, 20, 4, 41, 80, 65), .tied = 1, .biases = 1, .separate = 1},
    [ZOO_GPT1] = {.label = "gpt1", .arch = "gpt1", TOY_SIZES(3, 20, 4, 41, 80, 65), .tied = 1,
     .biases = 1, .final_norm = TOY_NO},
    [ZOO_GPT1_SEPARATE] = {.label = "gpt1, OPT-350M: ReLU, q, k, v apart, untied", .arch = "gpt1",
     TOY_SIZES(1, 24, 3, 33, 80, 27), .activation = "relu", .separate = 1, .final_norm = TOY_NO},
    [ZOO_MIXTRAL] = {.label = "llama, 2 of 5 experts", .arch = "llama",
     TOY_SIZES(2, 24, 4, 37, 80, 65), .n_head_kv = 2, .n_expert = 5, .n_expert_used = 2},
    [ZOO_MIXTRAL_SIGMOID] = {
     .label = "llama, 1 of 3 experts, sigmoid, not divided, times 1.7, BF16", .arch = "llama",
     TOY_SIZES(2, 20, 2, 70, 80, 27), .n_expert = 3, .n_expert_used = 1, .expert_norm = TOY_NO,
     .expert_sigmoid = 1, .expert_scale = 1.7, .type = TOY_BF16, .window = 20},
    [ZOO_OLMOE] = {.label = "olmoe, 8 of 16 experts, clamped q, k, v", .arch = "olmoe",
     TOY_SIZES(2, 24, 4, 16, 80, 65), .n_expert = 16, .n_expert_used = 8, .qkv_clamp = 1.1},
    [ZOO_QWEN2MOE] = {
     .label = "qwen2moe, 2 of 6 experts and a shared one, the second layer is not a mixture",
     .arch = "qwen2moe", TOY_SIZES(3, 24, 4, 50, 80, 65), .n_head_kv = 2, .n_expert = 6,
     .n_expert_used = 2, .n_ff_expert = 17, .n_ff_shared = 66, .dense = 2},
    [ZOO_QWEN3MOE] = {.label = "qwen3moe, 3 of 7 experts", .arch = "qwen3moe", .tied = 1,
     TOY_SIZES(2, 24, 4, 45, 80, 65), .n_head_kv = 2, .n_expert = 7, .n_expert_used = 3},
    [ZOO_GRANITEMOE] = {.label = "granitemoe, 3 of 3 experts and a shared one", .arch = "granitemoe",
     TOY_SIZES(2, 20, 2, 33, 80, 65), .n_expert = 3, .n_expert_used = 3, .n_ff_shared = 21,
     .embd_scale = 1.7, .residual_scale = 0.3, .attn_scale = 0.4, .logit_scale = 3, .tied = 1},
    [ZOO_QWEN3MOE_Q8_0] = {.label = "qwen3moe, Q8_0, 2 of 4 experts", .arch = "qwen3moe",
     TOY_SIZES(2, 32, 2, 64, 80, 65), .n_expert = 4, .n_expert_used = 2, .type = TOY_Q8_0},
    [ZOO_LFM2] = {.label = "lfm2, convolutions of 3 tokens around attention, GQA 4/2",
     .arch = "lfm2", TOY_SIZES(4, 24, 4, 37, 80, 65), .n_head_kv = 2, .kinds = "ccac", .n_conv = 3,
     .rope_base = 1e6, .tied = 1},
    [ZOO_LFM2_FIRST] = {.label = "lfm2, convolutions of 20 tokens between attention, BF16",
     .arch = "lfm2", TOY_SIZES(3, 36, 3, 50, 80, 27), .kinds = "aca", .n_conv = 20,
     .type = TOY_BF16},
    [ZOO_LFM2_ALL] = {.label = "lfm2, a convolution of 1 token, no attention", .arch = "lfm2",
     TOY_SIZES(2, 20, 2, 33, 80, 27), .kinds = "cc", .n_conv = 1, .tied = 1},
    [ZOO_LFM2_Q8_0] = {.label = "lfm2, Q8_0", .arch = "lfm2", TOY_SIZES(2, 64, 4, 96, 80, 65),
     .n_head_kv = 1, .kinds = "ca", .n_conv = 4, .type = TOY_Q8_0, .tied = 1},
    [ZOO_APERTUS] = {.label = "apertus", .arch = "apertus", TOY_SIZES(3, 24, 4, 50, 80, 65), .n_head_kv = 2, .divisors = 1},
    [ZOO_NANOCHAT_2025] = {.label = "nanochat of 2025", .arch = "nanochat",
     TOY_SIZES(2, 24, 2, 96, 80, 65), .eps = 0x1p-23, .logit_softcap = 15},
    [ZOO_NANOCHAT_2026] = {
     .label = "nanochat of 2026: windows, lambdas, q and k times 1.2", .arch = "nanochat",
     TOY_SIZES(4, 20, 2, 80, 80, 65), .n_head_kv = 1, .rope_base = 100000, .eps = 0x1p-23,
     .logit_softcap = 2, .attn_scale = 1.44 / 3.1622776601683795,
     .windows = (const int32_t[]){6, 17, 32, 0}, .lambdas = 1},
    [ZOO_NANOCHAT_ONE_KEY] = {.label = "nanochat, a window of one key", .arch = "nanochat",
     TOY_SIZES(1, 12, 3, 15, 80, 27), .backout = 1, .windows = (const int32_t[]){1}},
    [ZOO_NANOCHAT_SMEAR] = {.label = "nanochat, smear, value embeddings, backout",
     .arch = "nanochat", TOY_SIZES(5, 36, 6, 41, 80, 65), .n_head_kv = 2, .logit_softcap = 15,
     .windows = (const int32_t[]){9, 0, 9, 20, 0}, .lambdas = 1, .smear_gate = 24,
     .value_gate = 12, .value_gate_scale = 3, .backout = 1},
    [ZOO_NANOCHAT_VALUES] = {.label = "nanochat, value embeddings, backout, BF16", .arch = "nanochat",
     TOY_SIZES(2, 36, 3, 30, 80, 27), .value_gate = 32, .value_gate_scale = 2, .backout = 1, .type = TOY_BF16},
    [ZOO_NANOCHAT_YARN] = {.label = "nanochat, YaRN, before the norms", .arch = "nanochat", TOY_SIZES(2, 24, 2, 40, 80, 27), .eps = 1e-3, .rope_factor = 8, .yarn = 10},
    [ZOO_LLAMA_Q8_0] = {.label = "llama, Q8_0, tied", .arch = "llama",
     TOY_SIZES(2, 32, 4, 96, 80, 65), .n_head_kv = 2, .tied = 1, .type = TOY_Q8_0},
    [ZOO_QWEN3_Q4_K] = {.label = "qwen3, Q4_K down, Q8_0 and F16 elsewhere", .arch = "qwen3",
     TOY_SIZES(2, 32, 3, 256, 80, 65), .head_dim = 6, .type = TOY_Q4_K},
    [ZOO_GPTNEOX_Q4_K] = {.label = "gptneox, Q4_K, fused GQA 8/2", .arch = "gptneox",
     TOY_SIZES(1, 256, 8, 24, 80, 27), .n_head_kv = 2, .head_dim = 4, .biases = 1, .type = TOY_Q4_K},
    [ZOO_LLAMA_Q4_0] = {.label = "llama, Q4_0", .arch = "llama", TOY_SIZES(2, 64, 4, 96, 80, 65),
     .n_head_kv = 2, .type = TOY_Q4_0},
    [ZOO_LLAMA_Q4_1] = {.label = "llama, Q4_1", .arch = "llama", TOY_SIZES(1, 32, 2, 160, 80, 40),
     .tied = 1, .type = TOY_Q4_1},
    [ZOO_GPT2_Q5_0] = {.label = "gpt2, Q5_0", .arch = "gpt2", TOY_SIZES(1, 96, 4, 128, 80, 27),
     .biases = 1, .type = TOY_Q5_0},
    [ZOO_GPT2_Q5_1] = {.label = "gpt2, Q5_1", .arch = "gpt2", TOY_SIZES(1, 32, 4, 64, 80, 27),
     .biases = 1, .type = TOY_Q5_1},
    [ZOO_QWEN2_Q5_K] = {.label = "qwen2, Q5_K", .arch = "qwen2", TOY_SIZES(1, 256, 4, 40, 80, 30),
     .n_head_kv = 2, .head_dim = 24, .biases = 1, .type = TOY_Q5_K},
    [ZOO_LLAMA_Q6_K] = {.label = "llama, Q6_K", .arch = "llama", TOY_SIZES(1, 256, 8, 512, 80, 34),
     .n_head_kv = 8, .head_dim = 16, .type = TOY_Q6_K},
    [ZOO_LLAMA_Q2_K] = {.label = "llama, Q2_K", .arch = "llama", TOY_SIZES(2, 256, 8, 256, 80, 34),
     .n_head_kv = 4, .type = TOY_Q2_K},
    [ZOO_QWEN3_IQ4_XS] = {.label = "qwen3, IQ4_XS", .arch = "qwen3",
     TOY_SIZES(1, 256, 4, 512, 80, 34), .n_head_kv = 2, .head_dim = 64, .type = TOY_IQ4_XS},
    [ZOO_LLAMA_NVFP4] = {.label = "llama, NVFP4", .arch = "llama", TOY_SIZES(2, 64, 4, 128, 80, 34),
     .n_head_kv = 2, .type = TOY_NVFP4},
};
/* clang-format on */

void subject_check(const struct subject *s, size_t first, size_t rows, const float *logits,
                   const char *what, size_t v)
{
    size_t row = s->n_vocab * sizeof *logits;
    const float *expected = s->logits + first * s->n_vocab;
    if (!logits)
        fail_msg("%s: %s %zu: no logits", s->m->spec.label, what, v);
    if (memcmp(logits, expected, rows * row) == 0)
        return;
    size_t at = 0;
    while (memcmp(logits + at * s->n_vocab, expected + at * s->n_vocab, row) == 0)
        at++;
    fail_msg(
        "%s, seed %llu: %s %zu: logits of positions %zu..%zu hash to %016llx, expected %016llx; "
        "first difference at position %zu",
        s->m->spec.label, (unsigned long long)s->m->spec.seed, what, v, first, first + rows - 1,
        (unsigned long long)fnv1a(FNV_START, logits, rows * row),
        (unsigned long long)fnv1a(FNV_START, expected, rows * row), first + at);
}

mgpt_session *subject_session(const mgpt_model *model, int32_t n_chunk, int32_t n_threads)
{
    mgpt_session_params params = {.n_chunk = n_chunk, .n_threads = n_threads};
    mgpt_error err;
    mgpt_session *session = mgpt_session_new(model, &params, &err);
    if (!session)
        fail_msg("%s", err.text);
    return session;
}

void subject_feed(mgpt_session *session, const int32_t *tokens, size_t n)
{
    mgpt_error err;
    if (mgpt_feed(session, tokens, n, &err) != MGPT_OK)
        fail_msg("%s", err.text);
}

/* Collects the logits of every position through a tap. */
static int collect_logits(const mgpt_value *value, void *user)
{
    float *to = (float *)user + (size_t)value->pos * (size_t)value->cols;
    for (int32_t i = 0; i < value->rows; i++)
        memcpy(to + i * value->cols, value->data + (size_t)i * value->stride,
               (size_t)value->cols * sizeof *to);
    return 0;
}

void subject_check_feed(const struct subject *s, mgpt_session *session, const char *what, size_t v)
{
    size_t pos = mgpt_pos(session);
    float *logits = toy_alloc(s->n * s->n_vocab, sizeof *logits);
    mgpt_tap(session, MGPT_POINT_BIT(MGPT_LOGITS), collect_logits, logits, NULL);
    subject_feed(session, s->tokens + pos, s->n - pos);
    mgpt_tap(session, 0, NULL, NULL, NULL);
    subject_check(s, pos, s->n - pos, logits + pos * s->n_vocab, what, v);
    subject_check(s, s->n - 1, 1, mgpt_logits(session), what, v);
    free(logits);
}

/* The reference: one token at a time, one thread, no tap. */
static void run_reference(struct subject *s)
{
    mgpt_session *session = subject_session(s->model, 1, 1);
    s->logits = toy_alloc(s->n * s->n_vocab, sizeof *s->logits);
    for (size_t i = 0; i < s->n; i++) {
        mgpt_error err;
        const float *logits = mgpt_step(session, s->tokens[i], &err);
        if (!logits)
            fail_msg("%s: %s", s->m->spec.label, err.text);
        memcpy(s->logits + i * s->n_vocab, logits, s->n_vocab * sizeof *logits);
    }
    mgpt_session_free(session);
}

struct subject subject_new(const struct toy_spec *spec, uint64_t seed)
{
    struct toy_spec seeded = *spec;
    seeded.seed = seed;
    struct subject s = {.m = toy_build(&seeded), .n_vocab = (size_t)spec->n_vocab};
    s.model = toy_open(s.m, NULL);
    s.n = spec->n_ctx < MAX_TOKENS ? (size_t)spec->n_ctx : MAX_TOKENS;
    toy_tokens(s.m, seed, s.tokens, s.n);
    run_reference(&s);
    return s;
}

struct subject subject_zoo(size_t zoo)
{
    return subject_new(&toy_zoo[zoo], 1000 + zoo);
}

void subject_free(struct subject *s)
{
    free(s->logits);
    mgpt_close(s->model);
    toy_free(s->m);
}

void subject_each(void test(const struct subject *))
{
    for (size_t i = 0; i < ZOO_SIZE; i++) {
        struct subject s = subject_zoo(i);
        test(&s);
        subject_free(&s);
    }
}
