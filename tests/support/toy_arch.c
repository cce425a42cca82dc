/* Tests: what the tests know of each architecture. See toy_arch.h. */
#include "support/toy_arch.h"

#include <stddef.h>
#include <string.h>

/* clang-format off */
static const struct toy_arch rows[] = {
    {.name = "microgpt", .bare = 1, .embd_norm = 1, .place = PLACE_LEARNED, .activation = "relu"},
    {.name = "gpt2", .layer_norm = 1, .final_norm = 1, .place = PLACE_LEARNED, .fused = 1,
     .activation = "gelu_tanh"},
    {.name = "llama", .final_norm = 1, .place = PLACE_ADJACENT, .gated = 1, .activation = "silu"},
    {.name = "biogpt", .layer_norm = 1, .final_norm = 1, .place = PLACE_LEARNED, .fused = 1,
     .activation = "gelu_erf", .embd_root = 1},
    {.name = "qwen2", .final_norm = 1, .place = PLACE_HALVES, .qkv_biases = 1, .gated = 1,
     .activation = "silu"},
    {.name = "qwen3", .final_norm = 1, .place = PLACE_HALVES, .qk = QK_PER_HEAD, .gated = 1,
     .activation = "silu"},
    {.name = "gemma3", .norms = NORMS_AROUND, .final_norm = 1, .place = PLACE_HALVES,
     .qk = QK_PER_HEAD, .gated = 1, .activation = "gelu_tanh", .embd_root = 1, .full_every = 6,
     .window_base = 10000},
    {.name = "gptneox", .layer_norm = 1, .final_norm = 1, .place = PLACE_HALVES, .fused = 1,
     .activation = "gelu_erf", .parallel = 1},
    {.name = "phi2", .layer_norm = 1, .norms = NORMS_SHARED, .final_norm = 1,
     .place = PLACE_HALVES, .fused = 1, .activation = "gelu_tanh", .parallel = 1},
    {.name = "olmo", .layer_norm = 1, .bare = 1, .final_norm = 1, .place = PLACE_ADJACENT,
     .gated = 1, .activation = "silu"},
    {.name = "olmo2", .norms = NORMS_AFTER, .final_norm = 1, .place = PLACE_HALVES,
     .qk = QK_WHOLE, .gated = 1, .activation = "silu"},
    {.name = "smollm3", .final_norm = 1, .place = PLACE_ADJACENT, .gated = 1,
     .activation = "silu", .no_rope_every = 4},
    {.name = "starcoder2", .layer_norm = 1, .final_norm = 1, .place = PLACE_HALVES,
     .activation = "gelu_tanh"},
    {.name = "granite", .final_norm = 1, .place = PLACE_ADJACENT, .gated = 1,
     .activation = "silu", .divides_logits = 1},
    {.name = "gemma", .final_norm = 1, .place = PLACE_HALVES, .gated = 1,
     .activation = "gelu_tanh", .embd_root = 1},
    {.name = "gemma2", .norms = NORMS_AROUND, .final_norm = 1, .place = PLACE_HALVES, .gated = 1,
     .activation = "gelu_tanh", .embd_root = 1, .full_every = 2},
    {.name = "vaultgemma", .final_norm = 1, .place = PLACE_HALVES, .gated = 1,
     .activation = "gelu_tanh", .embd_root = 1, .full_every = 2},
    {.name = "phi3", .final_norm = 1, .place = PLACE_HALVES, .fused = 1, .gated = 1, .gate_up = 1,
     .activation = "silu"},
    {.name = "stablelm", .layer_norm = 1, .final_norm = 1, .place = PLACE_HALVES, .gated = 1,
     .activation = "silu"},
    {.name = "gptj", .layer_norm = 1, .norms = NORMS_SHARED, .final_norm = 1,
     .place = PLACE_ADJACENT, .as_shown = 1, .activation = "gelu_tanh", .parallel = 1},
    {.name = "starcoder", .layer_norm = 1, .final_norm = 1, .place = PLACE_LEARNED, .fused = 1,
     .activation = "gelu_tanh"},
    {.name = "bloom", .layer_norm = 1, .embd_norm = 1, .embd_gain = 1, .final_norm = 1,
     .place = PLACE_ALIBI, .alibi = 8, .fused = 1, .activation = "gelu_tanh"},
    {.name = "mpt", .layer_norm = 1, .final_norm = 1, .place = PLACE_ALIBI, .fused = 1,
     .activation = "gelu_erf"},
    {.name = "command-r", .layer_norm = 1, .norms = NORMS_SHARED, .final_norm = 1,
     .place = PLACE_ADJACENT, .as_shown = 1, .gated = 1, .activation = "silu", .parallel = 1},
    {.name = "cohere2", .layer_norm = 1, .norms = NORMS_SHARED, .final_norm = 1,
     .place = PLACE_ADJACENT, .as_shown = 1, .gated = 1, .activation = "silu", .parallel = 1,
     .full_every = 4, .rope_windowed = 1},
    {.name = "falcon", .layer_norm = 1, .norms = NORMS_SHARED, .final_norm = 1,
     .place = PLACE_HALVES, .fused = 1, .activation = "gelu_erf", .parallel = 1},
    {.name = "arcee", .final_norm = 1, .place = PLACE_ADJACENT, .activation = "relu2"},
    {.name = "nemotron", .layer_norm = 1, .final_norm = 1, .place = PLACE_HALVES,
     .activation = "relu2"},
    {.name = "jais2", .layer_norm = 1, .final_norm = 1, .place = PLACE_HALVES,
     .activation = "relu2"},
    {.name = "ernie4_5", .final_norm = 1, .place = PLACE_ADJACENT, .as_shown = 1, .gated = 1,
     .activation = "silu"},
    {.name = "helium", .final_norm = 1, .place = PLACE_ADJACENT, .as_shown = 1, .gated = 1,
     .activation = "silu"},
    {.name = "seed_oss", .final_norm = 1, .place = PLACE_HALVES, .qkv_biases = 1, .gated = 1,
     .activation = "silu", .mlp_norm = "post_attention_norm"},
    {.name = "chatglm", .final_norm = 1, .place = PLACE_ADJACENT, .as_shown = 1, .fused = 1,
     .gated = 1, .gate_up = 1, .activation = "silu"},
    {.name = "glm4", .norms = NORMS_AROUND, .final_norm = 1, .place = PLACE_ADJACENT,
     .as_shown = 1, .fused = 1, .qkv_biases = 1, .gated = 1, .gate_up = 1, .activation = "silu"},
    {.name = "hunyuan-dense", .final_norm = 1, .place = PLACE_HALVES, .qk = QK_PER_HEAD,
     .gated = 1, .activation = "silu", .rope_first = 1},
    {.name = "exaone", .final_norm = 1, .place = PLACE_HALVES, .gated = 1, .activation = "silu"},
    {.name = "exaone4", .norms = NORMS_AFTER, .final_norm = 1, .place = PLACE_HALVES,
     .qk = QK_PER_HEAD, .gated = 1, .activation = "silu", .full_every = 4, .rope_windowed = 1},
    {.name = "minicpm", .final_norm = 1, .place = PLACE_ADJACENT, .gated = 1,
     .activation = "silu", .divides_logits = 1},
    {.name = "nanochat", .bare = 1, .embd_norm = 1, .final_norm = 1, .place = PLACE_HALVES,
     .qk = QK_BARE, .activation = "relu2", .exchanged = 1},
};
/* clang-format on */

const struct toy_arch *toy_arch(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}
