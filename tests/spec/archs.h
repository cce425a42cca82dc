/* What an architecture adds to the names and keys of a file, as README.md in this folder states it. */
#ifndef MGPT_SPEC_ARCHS_H
#define MGPT_SPEC_ARCHS_H

static const struct arch {
    const char *names, *act;
    int layer_norm, embd_norm, no_final_norm, no_input_norms, qk_norm, parallel;
    int pairs;          /* of rope: 0 none, 1 (2i, 2i + 1), 2 (i, i + n/2) */
    int no_rope_every;  /* every n-th layer has no rope */
    int rope_windowed;  /* only layers with a window have rope */
    int full_first;     /* 1: the first of every n, not the last */
    int softplus_gates; /* gates of heads are softplus, not sigmoids */
    int deep;           /* the residual is scaled by depth, queries without rope grow */
    int full_every;     /* every n-th layer sees all keys, the others a window */
    double local_base;  /* base of rope in layers with a window */
    int embd_root;      /* embeddings times sqrt(n_embd) */
    double alibi;       /* attention.max_alibi_bias when absent */
    int divides;        /* logit_scale divides the logits */
    int rope_first;     /* before the norms of q and k */
    int embd_norm_last; /* the norm before the head is called token_embd_norm */
    int expert_norm;    /* expert_weights_norm when absent */
    double caps[2];     /* soft caps of scores and of logits, if the keys are absent */
    int wide_layers; /* with this number of layers an absent attention.scale is 1 / sqrt(E / H) */
    int local_plain; /* rope of layers with a window has no scaling */
    double glu_limit, up_more; /* swiglu_limit, swiglu_offset when absent */
    double jitter;             /* expert_jitter when absent */
    int v_norm;                /* values are normalised; scores are not scaled */
    int bias_of_scores;        /* the bias of the choice is added to scores, not to probabilities */
    int half_shared;           /* mixtures with a shared expert are halved */
    int plain_roped;           /* layers without experts have rope, too */
    int minicpm;               /* factors when absent: 12, 1.4 / sqrt(layers), 256 / E */
    int finetuned;             /* rope.scaling.finetuned = false: no rope */
} archs[] = {
    {" microgpt ", "relu", .embd_norm = 1, .no_final_norm = 1},
    {" llama mistral3 ernie4_5 ernie4_5-moe helium chatglm glm4 ", "silu", .pairs = 1,
     .expert_norm = 1},
    {" qwen2 qwen3 phi3 exaone seed_oss qwen2moe olmoe glm4moe dots1 "
     "hyperclovax ",
     "silu", .pairs = 2},
    {" qwen3moe minimax-m2 hy_v3 ", "silu", .pairs = 2, .expert_norm = 1},
    {" exaone-moe ", "silu", .pairs = 2, .full_every = 4, .rope_windowed = 1},
    {" mellum ", "silu", .pairs = 2, .full_every = 4, .local_plain = 1, .expert_norm = 1},
    {" phimoe ", "silu", .layer_norm = 1, .pairs = 2, .jitter = 0.01},
    {" minicpm ", "silu", .pairs = 1, .divides = 1, .minicpm = 1},
    {" granite granitemoe ", "silu", .pairs = 1, .divides = 1, .expert_norm = 1, .finetuned = 1},
    {" gpt1 ", "gelu_tanh", .layer_norm = 1, .no_input_norms = 1, .no_final_norm = 1},
    {" gpt2 starcoder ", "gelu_tanh", .layer_norm = 1},
    {" biogpt ", "gelu_erf", .layer_norm = 1, .embd_root = 1},
    {" starcoder2 ", "gelu_tanh", .layer_norm = 1, .pairs = 2},
    {" stablelm ", "silu", .layer_norm = 1, .pairs = 2},
    {" modernbert-decoder ", "gelu_erf", .layer_norm = 1, .embd_norm = 1, .pairs = 2,
     .full_every = 3, .full_first = 1, .local_base = 10000},
    {" gptneox falcon ", "gelu_erf", .layer_norm = 1, .parallel = 1, .pairs = 2},
    {" phi2 ", "gelu_tanh", .layer_norm = 1, .parallel = 1, .pairs = 2},
    {" gptj ", "gelu_tanh", .layer_norm = 1, .parallel = 1, .pairs = 1},
    {" command-r cohere2 ", "silu", .layer_norm = 1, .parallel = 1, .pairs = 1, .full_every = 4,
     .rope_windowed = 1},
    {" cohere_compass ", "silu", .layer_norm = 1, .parallel = 1, .pairs = 2, .full_every = 4,
     .rope_windowed = 1},
    {" bloom ", "gelu_tanh", .layer_norm = 1, .embd_norm = 1, .alibi = 8},
    {" mpt ", "gelu_erf", .layer_norm = 1},
    {" nemotron jais2 persimmon ", "relu2", .layer_norm = 1, .pairs = 2},
    {" arcee ", "relu2", .pairs = 1},
    {" olmo ", "silu", .layer_norm = 1, .pairs = 1},
    {" smollm3 ", "silu", .pairs = 1, .no_rope_every = 4},
    {" gemma vaultgemma ", "gelu_tanh", .pairs = 2, .full_every = 2, .embd_root = 1},
    {" gemma2 ", "gelu_tanh", .pairs = 2, .full_every = 2, .embd_root = 1, .caps = {50, 30},
     .wide_layers = 46},
    {" gemma3 ", "gelu_tanh", .pairs = 2, .full_every = 6, .local_base = 10000, .embd_root = 1,
     .wide_layers = 62},
    {" gemma4 ", "gelu_tanh", .pairs = 2, .full_every = 6, .local_base = 10000, .embd_root = 1,
     .v_norm = 1},
    {" hunyuan-dense ", "silu", .pairs = 2, .rope_first = 1},
    {" olmo2 ", "silu", .no_input_norms = 1, .pairs = 2, .local_plain = 1},
    {" exaone4 ", "silu", .no_input_norms = 1, .pairs = 2, .full_every = 4, .rope_windowed = 1},
    {" hunyuan-moe ", "silu", .pairs = 2, .rope_first = 1, .expert_norm = 1},
    {" lfm2moe ", "silu", .pairs = 2, .embd_norm_last = 1, .expert_norm = 1},
    {" lfm2 ", "silu", .pairs = 2, .embd_norm_last = 1},
    {" dbrx ", "silu", .layer_norm = 1, .pairs = 2, .expert_norm = 1},
    {" granite_swa ", "silu", .pairs = 1, .divides = 1, .expert_norm = 1},
    {" flint ", "silu", .pairs = 2, .full_every = 4, .rope_windowed = 1, .expert_norm = 1},
    {" afmoe ", "silu", .pairs = 2, .full_every = 4, .rope_windowed = 1, .embd_root = 1},
    {" beam ", "silu", .pairs = 2, .full_every = 6, .rope_windowed = 1, .expert_norm = 1,
     .deep = 1},
    {" laguna ", "silu", .pairs = 2, .full_every = 4, .full_first = 1, .local_plain = 1,
     .expert_norm = 1, .softplus_gates = 1},
    {" mimo2 ", "silu", .pairs = 2, .local_plain = 1, .expert_norm = 1},
    {" lfm3 ", "silu", .pairs = 2, .embd_norm_last = 1},
    {" kolibri1 ", "silu", .pairs = 2, .full_every = 5, .rope_windowed = 1, .expert_norm = 1,
     .bias_of_scores = 1},
    {" cohere2moe ", "silu", .layer_norm = 1, .parallel = 1, .pairs = 1, .full_every = 4,
     .rope_windowed = 1, .plain_roped = 1, .half_shared = 1},
    {" bailingmoe ", "silu", .pairs = 1},
    {" bailingmoe2 ", "silu", .pairs = 2},
    {" deepseek2 ", "silu", .pairs = 1},
    {" minicpm3 ", "silu", .pairs = 2, .divides = 1, .minicpm = 1},
    {" apertus ", "xielu", .pairs = 2},
    {" gpt-oss ", "gelu_quick", .pairs = 2, .full_every = 2, .expert_norm = 1, .glu_limit = 7,
     .up_more = 1},
    {" nanochat ", "relu2", .embd_norm = 1, .qk_norm = 1, .pairs = 2},
};

#endif
