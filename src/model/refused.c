/* Architectures that people have and mgpt does not run, and why. See arch.h. */
#include "model/arch.h"

#include "gguf/gguf.h"

#define STATE(what) "a token overwrites the state of " what ", so that it cannot be rewound"
#define DELTA_NETS "most of its layers are gated delta nets"

/* Architectures that are refused by name. `names` has spaces around each name. */
static const struct {
    const char *names, *why;
} refused[] = {
    {" bitnet ", "its matrices multiply activations rounded to 8 bits per token"},
    {" mamba falcon_mamba ", STATE("a layer, d_inner * d_state floats")},
    {" mamba2 ", STATE("a layer, heads * head_dim * d_state floats")},
    {" rwkv6 rwkv6qwen2 rwkv7 arwkv7 ", STATE("a layer, heads * head_dim * head_dim floats")},
    {" jamba bamba zamba zamba2 falcon_h1 falcon-h1 granitemoehybrid granitehybrid nemotron_h "
     "plamo2 ",
     STATE("its layers of Mamba")},
    {" recurrent_gemma xlstm minimax ", STATE("its recurrent layers")},
    {" qwen3_next qwen3next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text olmo_hybrid "
     "kimi_linear ",
     DELTA_NETS},
    {" deepseek_v32 deepseek_v4 glm4_moe_lite longcat_flash ",
     "its attention is latent (MLA) of another form"},
    {" diffllama ", "its attention is a difference of two"},
    {" gemma3n gemma3n_text ",
     "its residual is four streams (AltUp), with LAuReL and sparse activations"},
    {" jetmoe ", "its attention has experts"},
    {" llama4 llama4_text ", "its attention is in chunks, its experts are weighed before they run"},
    {" hrm_text ", "the output of its attention has a gate"},
};

const char *arch_why_refused(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (gguf_str_in((struct gguf_str){name, n}, refused[i].names))
            return refused[i].why;
    return NULL;
}
