/* Tests: what the tests know of each architecture.
 *
 * Written from the tables of published architectures (the formats' facts that src/model/arch.c and
 * src/model/bind.c were written from as well), not from src/: builder and oracle read these rows
 * and nothing of the engine's, so that a fact that the engine has wrong shows. */
#ifndef TESTS_TOY_ARCH_H
#define TESTS_TOY_ARCH_H

enum toy_place {
    PLACE_LEARNED,  /* a table of positions is added to the embedding */
    PLACE_ALIBI,    /* keys lose by their distance */
    PLACE_ADJACENT, /* rope turns components 2i and 2i + 1 together */
    PLACE_HALVES    /* i and i + n_rot / 2 */
};

enum toy_norms {
    NORMS_BEFORE,  /* of each branch's input */
    NORMS_SHARED,  /* one norm is the input of both branches */
    NORMS_AFTER,   /* of each branch's output */
    NORMS_AROUND,  /* both */
    NORMS_RESIDUAL /* of the residual after each branch has been added */
};

enum toy_qk {
    QK_PLAIN,    /* q and k are not normalised */
    QK_BARE,     /* per head, without a gain */
    QK_PER_HEAD, /* with a gain as wide as a head, shared by all heads */
    QK_WHOLE     /* all heads of a projection as one vector */
};

struct toy_arch {
    const char *name;
    int layer_norm; /* LayerNorm and the key of its epsilon; else RMSNorm */
    int bare;       /* norms have neither gain nor bias */
    enum toy_norms norms;
    int embd_norm, final_norm;
    enum toy_place place;
    enum toy_qk qk;
    int fused;      /* q, k and v are one tensor, unless a spec separates them */
    int qkv_biases; /* q, k and v have biases also when nothing else has */
    int gated;
    const char *activation;
    int parallel;          /* attention and MLP read the same residual */
    int embd_root;         /* embeddings times sqrt(n_embd) */
    int no_rope_every;     /* one of every n layers does not rotate; 0: all do */
    int full_every;        /* with a sliding window: one of every n layers sees everything */
    int as_shown;          /* adjacent pairs also in the programs that models come from */
    int rope_windowed;     /* only layers with a window rotate */
    int embd_gain;         /* the norm of embeddings has gain and bias */
    double alibi;          /* largest exponent where the file has no key */
    int exchanged;         /* files hold the two halves of each head of q and k in exchange */
    int gate_up;           /* gate and up are one tensor */
    int divides_logits;    /* logit_scale divides */
    int rope_first;        /* q and k are rotated, then normalised */
    const char *mlp_norm;  /* tensor of the norm before the MLP; NULL: ffn_norm */
    const char *last_norm; /* tensor of the norm before the head; NULL: output_norm */
    double window_base;    /* rope base of windowed layers; 0: that of the others */
    int v_norm;            /* v is normalised per head, without a gain */
    int unscaled;          /* scores are not divided by the root of the width of heads */
    int expert_norm;       /* weights of the chosen experts add up to 1 */
    double expert_more;    /* added to the sum of those weights */
    int bias_of_scores;    /* the bias of the choice is added to scores */
    int half_shared;       /* mixtures with a shared expert are halved */
    int plain_roped;       /* layers that are no mixtures rotate, too */
    int shared_gate;       /* the shared expert of mixtures has a gate */
    int gates;          /* of what heads mix: 1 for each head, 2 for each of its values, 3 either */
    int softplus_gates; /* not sigmoids */
    int gate_biases;    /* gates have biases */
    double query_power; /* where the file has no key; 0: none */
    int residual_by_depth; /* x = (sqrt(k) x + y) / sqrt(k + 1) for the k-th branch's y */
    int full_first;    /* 1: the first layer of every full_every sees everything, not the last */
    int sinks;         /* a score more for each head, without a key; 2: in layers with a window */
    int expert_biases; /* the router and the experts have biases */
    double glu_limit;  /* where the file has no key; 0: none */
    double up_more;    /* the same */
    double expert_jitter; /* the same */
    int dense_head; /* a matrix, an activation and a norm before the head; none in layer 0's attention */
    int rms_key; /* the key of LayerNorm's epsilon is RMSNorm's */
};

/* NULL: unknown. */
const struct toy_arch *toy_arch(const char *name);

#endif
