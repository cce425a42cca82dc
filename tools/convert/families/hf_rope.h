/* Rotary settings of Hugging Face models, in the spellings of transformers 4 and 5. */
#ifndef MGPT_CONVERT_HF_ROPE_H
#define MGPT_CONVERT_HF_ROPE_H

#include "convert/containers/hf_config.h"

struct hf_rope {
    double all_dim;   /* mscale_all_dim of latent attention */
    const char *type; /* "default", "linear", "llama3", ...; as the file has it. NULL: no rope */
    double theta;
    double factor;      /* 1: none */
    double low, high;   /* llama3: low_freq_factor, high_freq_factor; yarn: beta_slow, beta_fast */
    double context;     /* original_max_position_embeddings */
    double rotated;     /* part of each head: partial_rotary_factor, rotary_pct; 1 when absent */
    double attn_factor; /* yarn, longrope: multiplies cosines and sines */
    int exact;          /* yarn: the bounds of its ramp are not whole pairs */
    double alpha;       /* dynamic: of Hunyuan, which stretches the base by it; 0: none */
    double query_beta;  /* llama_4_scaling_beta: by which queries grow with their position */
    const json_t *short_factor, *long_factor; /* longrope */
    double long_attn;                         /* attn_factor of long texts */
};

/* How a family spells what is not in rope_parameters, and what it takes for what is not said. */
struct hf_rope_keys {
    const char *theta, *rotated; /* "rope_theta", "partial_rotary_factor" */
    double theta_absent, rotated_absent;
};

#endif
