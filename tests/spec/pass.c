/* The forward pass of mgpt in plain C, from the specification (README.md in this folder).
 *
 *     pass [-o FILE] MODEL.gguf ID...
 *
 * prints the hash of all logits, and writes them to a file as float32. It shares no code with the library, has neither vectors nor
 * threads, trusts its input, and is slow. Build it without contraction. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_TOKENS = 4096 };

/* Normalises n values, each `width` by themselves. `always`: also without a gain. */
static void norm(int layer, const char *name, float *y, const float *x, size_t n, size_t width,
                 int always)
{
    const struct item *gain = part(layer, name, "weight"), *bias = part(layer, name, "bias");
    const char *eps[] = {"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"};
    width = gain->at ? gain->cols : width;
    size_t rows = gain->at ? gain->rows : 1; /* of gains: more than one, each head has its own */
    memmove(y, x, n * sizeof *y);
    for (size_t i = 0; i < n && (gain->at || always); i += width) {
        float *at = y + i, mean = a->layer_norm ? sum_of(at, width, 0, 0) / (float)width : 0;
        float variance = sum_of(at, width, 1, mean) / (float)width;
        double e = real(eps[a->layer_norm], real(eps[0], 1e-5));
        e = strstr(name, "_a_norm") ? real("attention.latent_norm_epsilon", e) : e;
        float inverse = 1.0f / sqrtf(variance + (float)e);
        for (size_t j = 0; j < width; j++) {
            at[j] = (at[j] - mean) * inverse * (gain->at ? element(gain, i / width % rows, j) : 1);
            at[j] = bias->at ? at[j] + element(bias, 0, j) : at[j];
        }
    }
}

/* y = W x + bias for n rows of W, from `row` on. */
static void matmul(int layer, const char *name, size_t row, float *y, size_t n, const float *x)
{
    const struct item *w = part(layer, name, "weight"), *bias = part(layer, name, "bias");
    w = w->at ? w : find("token_embd.weight"); /* a tied head */
    for (size_t r = 0; r < n; r++) {
        y[r] = product((int)w->type, row_of(w, row + r), x, w->cols, n);
        y[r] = bias->at ? y[r] + element(bias, 0, row + r) : y[r];
    }
}

/* Radians that pair i of n / 2 turns from one position to the next. *scale: of cos and sin. */
static double frequency(size_t i, size_t n, double base, double *scale)
{
    const char *names[] = {"rope_freqs", "rope_factors_short", "rope_factors_long"};
    const struct item *type = key("rope.scaling.type");
    double context = real("rope.scaling.original_context_length", INFINITY);
    double factor = real("rope.scaling.factor", 1);
    double f = power(base, -2.0 * (double)i / (double)n) / factor;
    if (type->at && same(type->at, "yarn")) {
        f = yarn((double)i, (double)n, base, factor, context,
                 real("rope.scaling.yarn_beta_fast", 32), real("rope.scaling.yarn_beta_slow", 1),
                 value_of(find("mgpt.rope.yarn_truncate"), 1) != 0);
        double less = real("rope.scaling.yarn_log_multiplier", 0);
        *scale = R && less > 0 ? 1 : (1 + 0.1 * ln(factor)) / (1 + 0.1 * less * ln(factor));
    }
    *scale *= real("rope.scaling.attn_factor", 1);
    for (int k = 0; k < 3; k++) {
        const struct item *divisors = part(-1, names[k], "weight");
        if (divisors->at && (k == 0 || (k == 2) == (real("context_length", 0) > context)))
            f /= (double)element(divisors, 0, i);
    }
    return f;
}

static int skips_rope(int layer)
{
    int every = (int)value_of(find("mgpt.attention.no_rope_every"), a->no_rope_every);
    int skips = (every && (layer + 1) % every == 0) ||
                (a->rope_windowed && real("attention.sliding_window", 0) > 0 && !window_of(layer) &&
                 !(a->plain_roped && !part(layer, "ffn_gate_inp", "weight")->at));
    const struct item *flags = key("attention.rope_pattern");
    skips |= flags->at && !flags->at[12 + layer];
    return skips || (a->finetuned && value_of(key("rope.scaling.finetuned"), 1) == 0);
}

static void rope(int layer, float *x, size_t n_heads, size_t pos)
{
    size_t n = windowed_real(layer, "rope.dimension_count", "rope.dimension_count_swa", (double)D);
    double all = real("rope.freq_base", 10000);
    double base = real("rope.freq_base_swa", a->local_plain ? all : a->local_base);
    int local = base > 0 && window_of(layer), skips = skips_rope(layer);
    base = local ? base : all;
    for (size_t i = 0; a->pairs && !skips && i < n / 2; i++) {
        double s, c, scale = 1, plain = power(base, -2.0 * (double)i / (double)n);
        d_sincos((double)pos * (local ? plain : frequency(i, n, base, &scale)), &s, &c);
        s *= scale, c *= scale;
        for (float *head = x; head < x + n_heads * D; head += D) {
            float *p = head + (a->pairs == 1 ? 2 * i : i), *q = p + (a->pairs == 1 ? 1 : n / 2);
            float x0 = *p, x1 = *q;
            *p = fmaf(x0, (float)c, -(x1 * (float)s));
            *q = fmaf(x0, (float)s, x1 * (float)c);
        }
    }
}

/* o = softmax(q k' scale) v for the token at pos; keys are [position][G * D], values [position][G * W]. */
static void attend(int layer, float *o, const float *q, const float *k, const float *v, size_t pos,
                   double width, size_t W)
{
    size_t window = window_of(layer), n = pos + 1, first = window && n > window ? n - window : 0;
    const struct item *sinks = part(layer, "attn_sinks", "weight");
    float s[MAX_TOKENS + 1], by;
    if (a->wide_layers && real("block_count", 0) == a->wide_layers)
        width = (double)(E / H);
    double all =
        !R ? 1
           : 1 + real("rope.scaling.yarn_log_multiplier", 0) * ln(real("rope.scaling.factor", 1));
    float cap = (float)real("attn_logit_softcapping", a->caps[0]);
    by = (float)real("attention.scale", a->v_norm ? 1 : 1.0 / sqrt(width) * all * all);
    double alibi = real("attention.max_alibi_bias", a->alibi), heads = 1;
    while (heads * 2 <= (double)H)
        heads *= 2;
    for (size_t h = 0; h < H; h++, q += D, o += W) {
        size_t g = h / (H / G) * D, gv = h / (H / G) * W;
        double step = (double)h < heads ? (double)h + 1 : (double)h - heads + 0.5;
        float slope = alibi > 0 ? (float)power(2, -alibi * step / heads) : 0;
        for (size_t t = first; t < n; t++) {
            s[t] = 0;
            for (size_t j = 0; j < D; j++)
                s[t] = fmaf(k[t * G * D + g + j], q[j], s[t]);
            s[t] = s[t] * by - slope * (float)(pos - t);
            s[t] = cap > 0 ? cap * tanh_f32(s[t] / cap) : s[t];
        }
        s[n] = sinks->at ? element(sinks, 0, h) : 0; /* no key's */
        softmax(s + first, n - first + (sinks->at != NULL));
        for (size_t j = 0; j < W; j++)
            for (size_t t = first; t < n; t++)
                o[j] = fmaf(s[t], v[t * G * W + gv + j], o[j]);
    }
}

/* o = C conv(B x) for the token at pos, whose B x is kept in `rows`, [position][E] (LFM2). */
static void convolve(int layer, float *o, const float *h, float *rows, size_t pos, float *bcx)
{
    const struct item *w = part(layer, "shortconv.conv", "weight");
    for (size_t i = 0; i < 3; i++)
        matmul(layer, "shortconv.in_proj", i * E, bcx + i * E, E, h);
    for (size_t c = 0; c < E; c++) {
        rows[pos * E + c] = bcx[c] * bcx[2 * E + c];
        for (size_t j = pos + 1 < w->cols ? w->cols - pos - 1 : 0; j < w->cols; j++)
            o[c] += element(w, c, j) * rows[(pos + 1 + j - w->cols) * E + c];
        o[c] = bcx[E + c] * o[c];
    }
}

static float *floats(size_t n)
{
    static float zeros[1 << 26], *next = zeros;
    return (next += n) - n;
}

#include "latent.h"

/* o = attention of h for the token at pos, whose keys and values it appends. */
static void attention(int l, float *o, const float *h, float *keys, float *values, size_t pos)
{
    size_t Q = H * D, K = G * D, KV = G * DV, fused = part(l, "attn_qkv", "weight")->at != NULL;
    float *q = floats(Q), *k = keys + pos * K, *v = values + pos * KV;
    float limit = (float)real("attention.clamp_kqv", 0);
    int own = source_of(l) == l, keys_only = a->v_norm && !part(l, "attn_v", "weight")->at;
    matmul(l, fused ? "attn_qkv" : "attn_q", 0, q, Q, h);
    matmul(l, fused ? "attn_qkv" : "attn_k", fused * Q, k, own ? K : 0, h);
    matmul(l, fused ? "attn_qkv" : "attn_v", fused * (Q + K), v, own && !keys_only ? KV : 0, h);
    if (own && keys_only)
        memcpy(v, k, K * sizeof *v);
    if (own && a->v_norm)
        norm(l, "", v, v, K, D, 1);
    clamp(v, own ? KV : 0, limit);
    scale(v, own ? KV : 0, (float)real("attention.value_scale", 1));
    double turns_by = 1; /* of rope: the norms of nanochat see it */
    frequency(0, 2, 10000, &turns_by);
    int rope_first = a->rope_first || (a->qk_norm && turns_by != 1);
    for (int step = 0; step < 2; step++)
        if (step == rope_first) {
            norm(l, "attn_q_norm", q, q, Q, D, a->qk_norm);
            norm(l, "attn_k_norm", k, k, own ? K : 0, D, a->qk_norm);
            clamp(q, Q, limit);
            clamp(k, own ? K : 0, limit);
        } else {
            rope(l, q, H, pos);
            rope(l, k, own ? G : 0, pos);
        }
    double context = real("rope.scaling.original_context_length", real("context_length", 0));
    double turns = floor((double)pos / context), beta = real("attention.temperature_scale", 0);
    for (size_t i = 0; beta > 0 && i < Q; i++)
        q[i] *= (float)(1 + beta * ln(1 + turns));
    double by_power = real("attention.temperature_power", a->deep ? (double)0.1F : 0);
    if (by_power > 0 && skips_rope(l))
        scale(q, Q, (float)power(1 + (double)(pos + 1) / 2048, by_power));
    attend(l, o, q, keys, values, pos, (double)D, DV);
    size_t n = part(l, "attn_gate", "weight")->rows; /* of heads, or of their values */
    float *g = floats(n);
    matmul(l, "attn_gate", 0, g, n, h);
    for (size_t i = 0; n && i < H * DV; i++) {
        float gate = g[i * n / (H * DV)];
        o[i] *= a->softplus_gates ? (float)softplus_of(gate) : activation("sigmoid", gate, NULL);
    }
}

/* m = W_down(act(W_gate h) x W_up h), or W_down act(W_up h), for matrix e of the tensors whose names
 * end in `kind`, of n rows. */
static void mlp(int l, const char *kind, size_t e, size_t n, float *m, const float *h)
{
    char gate[32], up[32], down[32];
    snprintf(gate, sizeof gate, "ffn_gate%s", kind);
    snprintf(up, sizeof up, "ffn_up%s", kind);
    snprintf(down, sizeof down, "ffn_down%s", kind);
    int both = part(l, up, "weight")->rows == 2 * n; /* the rows of a gate, then those of up */
    int gated = both || part(l, gate, "weight")->at != NULL;
    float *f = floats(n), *g = floats(n);
    matmul(l, gated && !both ? gate : up, e * n, f, n, h);
    matmul(l, up, both ? n : e * n, g, gated ? n : 0, h);
    double alpha = entry_of(find("xielu.alpha_n"), l), beta = entry_of(find("xielu.beta"), l);
    const float c[] = {(float)softplus(entry_of(find("xielu.alpha_p"), l)),
                       (float)(beta + softplus(alpha)), (float)beta,
                       (float)entry_of(find("xielu.eps"), l)};
    float limit = (float)real("swiglu_limit", a->glu_limit);
    float more = (float)real("swiglu_offset", a->up_more);
    for (size_t i = 0; i < n && gated && limit > 0; i++)
        f[i] = f[i] > limit ? limit : f[i];
    clamp(g, gated ? n : 0, limit);
    for (size_t i = 0; i < n; i++)
        f[i] = activation(act, f[i], c) * (gated ? more > 0 ? g[i] + more : g[i] : 1);
    matmul(l, down, e * E, m, E, f);
}

/* The weights of X experts from their scores, in w. */
static void weigh_experts(int l, float *w, size_t X)
{
    static const char *const sigmoids =
        " glm4moe dots1 minimax-m2 exaone-moe hy_v3 flint kolibri1 cohere2moe afmoe laguna mimo2 "
        "beam ";
    const char *found = strstr(sigmoids, arch_name);
    int usual = found && found[-1] == ' ' && found[strlen(arch_name)] == ' ' ? 2 : 0;
    char last[40]; /* latent attention and such a bias: sigmoids */
    snprintf(last, sizeof last, "blk.%d.exp_probs_b.bias", (int)real("block_count", 1) - 1);
    usual = R && find(last)->at ? 2 : usual;
    int gating = (int)real("expert_gating_func", usual); /* 2: sigmoid, 3: softmax of the chosen */
    size_t used = (size_t)real("expert_used_count", 1);
    int normed = gating == 3 || real("expert_weights_norm", a->expert_norm) != 0;
    float *s = floats(X), sum = 0, by = (float)real("expert_weights_scale", 1);
    by = by > 0 ? by : 1;
    float jitter = (float)real("expert_jitter", a->jitter);
    if (jitter > 0) {
        mix_experts(w, s, floats(X), X, used, 2 * jitter);
        scale(w, X, by);
        return;
    }
    memcpy(s, w, X * sizeof *s);
    softmax(w, X);
    for (size_t e = 0; e < X && gating == 2; e++)
        w[e] = sigmoid(s[e]);
    char bare[32]; /* hy_v3's name of it */
    snprintf(bare, sizeof bare, "blk.%d.exp_probs_b", l);
    const struct item *bias = part(l, "exp_probs_b", "bias"); /* of the choice alone */
    bias = bias->at ? bias : find(bare);
    double groups = real("expert_group_count", 1);
    for (size_t e = 0; e < X && (bias->at || groups > 1); e++)
        s[e] = (bias->at && a->bias_of_scores ? s[e] : w[e]) + (bias->at ? element(bias, 0, e) : 0);
    leave_groups(s, floats(X), X, groups, real("expert_group_used_count", groups),
                 gating == 2 ? 2 : 1);
    for (size_t e = 0; e < X; e++) {
        w[e] = rank_of(s, X, e) < used ? w[e] : 0;
        sum += w[e];
    }
    sum += !strcmp(arch_name, "lfm2moe") ? 1e-6f : 0;
    for (size_t e = 0; e < X; e++)
        w[e] = (normed ? w[e] / sum : w[e]) * by;
}

/* m = the shared expert of h, and the chosen ones. */
static void mixture(int l, float *m, const float *h)
{
    size_t X = part(l, "ffn_gate_inp", "weight")->rows;
    float *w = floats(X), *y = floats(E), gate;
    matmul(l, "ffn_gate_inp", 0, w, X, h);
    weigh_experts(l, w, X);
    if (part(l, "ffn_up_shexp", "weight")->at)
        mlp(l, "_shexp", 0, part(l, "ffn_up_shexp", "weight")->rows, m, h);
    if (part(l, "ffn_gate_inp_shexp", "weight")->at) {
        matmul(l, "ffn_gate_inp_shexp", 0, &gate, 1, h);
        scale(m, E, sigmoid(gate));
    }
    for (size_t e = 0; e < X; e++) {
        if (w[e] == 0)
            continue;
        mlp(l, "_exps", e, part(l, "ffn_up_exps", "weight")->rows, y, h);
        for (size_t i = 0; i < E; i++)
            m[i] = fmaf(w[e], y[i], m[i]);
    }
    if (a->half_shared && part(l, "ffn_up_shexp", "weight")->at)
        scale(m, E, 0.5F);
}

#include "inputs.h"

static double branch_scale(void)
{
    return real("residual_scale", a->minicpm ? 1.4 / sqrt(real("block_count", 1)) : 1);
}

/* Beam: what is added, and the residual that has been a sum of k. */
static void scale_by_depth(float *x, float *y, double k)
{
    if (a->deep) {
        scale(y, E, (float)(1 / sqrt(k + 1)));
        scale(x, E, (float)sqrt(k / (k + 1)));
    }
}

/* One layer for the token at pos. x is the residual stream, keys and values are the cache. */
static void run_layer(int l, float *x, float *keys, float *values, size_t pos)
{
    float *h = floats(E), *o = floats(H * (D + DV)), *out = floats(E), *m = floats(E);
    int inputs = !a->no_input_norms && !part(-1, "cls", "weight")->at,
        parallel = (int)real("use_parallel_residual", a->parallel);
    int one_norm = parallel && !part(l, "ffn_norm", "weight")->at;
    int two = part(l, "attn_norm_2", "weight")->at != NULL; /* Falcon: attention's own */
    int conv = part(l, "shortconv.conv", "weight")->at != NULL;
    int post = part(l, "ffn_norm", "weight")->at || part(l, "post_ffw_norm", "weight")->at;
    norm(l, two ? "attn_norm_2" : "attn_norm", h, x, E, E, inputs);
    if (conv)
        convolve(l, o, h, keys, pos, floats(3 * E));
    else if (R)
        latent_attention(l, o, h, keys, pos);
    else
        attention(l, o, h, keys, values, pos);
    matmul(l, conv ? "shortconv.out_proj" : "attn_output", 0, out, E, o);
    if (post) /* else this is the name of the norm before the MLP */
        norm(l, "post_attention_norm", out, out, E, E, 0);
    scale(out, E, (float)branch_scale());
    scale_by_depth(x, out, 2.0 * l + 1);
    add(x, out, parallel ? 0 : E);
    int third = inputs && part(l, "attn_output_norm", "weight")->at; /* DBRX: the MLP's */
    if (!third)
        norm(l, "attn_output_norm", x, x, E, E, 0);
    const char *mlp_norm = third ? "attn_output_norm" : post ? "ffn_norm" : "post_attention_norm";
    norm(l, one_norm ? "attn_norm" : mlp_norm, h, x, E, E, inputs);
    if (part(l, "ffn_gate_inp", "weight")->at)
        mixture(l, m, h);
    else
        mlp(l, "", 0, F, m, h);
    norm(l, "post_ffw_norm", m, m, E, E, 0);
    scale(m, E, (float)branch_scale());
    scale_by_depth(x, m, 2.0 * l + 2);
    add(x, m, E);
    add(x, out, parallel ? E : 0);
    norm(l, "layer_output_norm", x, x, E, E, 0);
}

static void embed(float *x, size_t token, size_t pos)
{
    const struct item *tokens = find("token_embd.weight"), *at = find("position_embd.weight");
    for (size_t i = 0; i < E; i++) {
        x[i] = element(tokens, token, i) * (float)real("embedding_scale", a->embd_root
                                                                              ? sqrt((double)E)
                                                                          : a->minicpm ? 12
                                                                                       : 1);
        x[i] = at->at ? x[i] + element(at, pos, i) : x[i];
    }
    int always = (int)value_of(find("mgpt.embedding_norm"), a->embd_norm);
    norm(-1, a->embd_norm_last ? "" : "token_embd_norm", x, x, E, E, always);
}

static void unembed(float *logits, float *x)
{
    float cap = (float)real("final_logit_softcapping", a->caps[1]);
    double by = real("logit_scale", a->minicpm ? (double)E / 256 : 1);
    norm(-1, a->embd_norm_last ? "token_embd_norm" : "output_norm", x, x, E, E,
         (int)value_of(find("mgpt.final_norm"), !a->no_final_norm));
    make_head_input(x);
    matmul(-1, "output", 0, logits, V, x);
    for (size_t i = 0; i < V; i++) {
        logits[i] *= (float)(a->divides ? 1 / by : by);
        logits[i] = cap > 0 ? cap * tanh_f32(logits[i] / cap) : logits[i];
    }
}

static void open_model(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fread(file, 1, sizeof file, f) == sizeof file)
        exit(3);
    read_items();
    for (const struct item *t = items; t->name; t++)
        if (t->cols && (t->type >= N_TYPES || blocks[t->type].bytes == 0)) {
            fprintf(stderr, "weights of type %u are not specified\n", (unsigned)t->type);
            exit(3);
        }
    char word[sizeof arch_name + 2];
    text_of(find("general.architecture"), "", arch_name, sizeof arch_name);
    snprintf(word, sizeof word, " %s ", arch_name);
    for (a = archs; !strstr(a->names, word); a++)
        continue;
    text_of(find("mgpt.activation"), a->act, act, sizeof act);
    E = (size_t)real("embedding_length", 0);
    H = (size_t)largest(key("attention.head_count"), 1);
    G = (size_t)largest(key("attention.head_count_kv"), (double)H); /* a convolution has 0 */
    D = (size_t)real("attention.key_length", (double)(E / H));
    D = (size_t)fmax((double)D, real("attention.key_length_swa", 0));
    R = (size_t)real("attention.kv_lora_rank", 0);
    DV = (size_t)real("attention.value_length", (double)D);
    if (R) {
        G = H;
        DV = (size_t)real("attention.value_length_mla", real("attention.value_length", 0));
        D = (size_t)real("attention.key_length_mla", (double)D);
        KEPT = R + (size_t)real("rope.dimension_count", 0);
    }
    V = find("token_embd.weight")->rows;
}

int main(int argc, char **argv)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    FILE *out = argc > 2 && strcmp(argv[1], "-o") == 0 ? fopen(argv[2], "wb") : NULL;
    argv += out ? 2 : 0, argc -= out ? 2 : 0;
    open_model(argc > 1 ? argv[1] : "");
    size_t n_layer = (size_t)real("block_count", 0), room = G * (D > DV ? D : DV) + E + KEPT;
    room *= (size_t)argc;
    float *k = floats(n_layer * room), *v = floats(n_layer * room), *logits = floats(V);
    for (size_t pos = 0; pos + 2 < (size_t)argc; pos++) {
        float *x = floats(E);
        embed(x, (size_t)atoi(argv[pos + 2]), pos);
        const float *inputs = make_inputs(x, (size_t)atoi(argv[pos + 2]));
        for (int l = 0; l < (int)n_layer; l++) {
            size_t from = (size_t)source_of(l) * room;
            enter_layer(l);
            run_layer(l, x, k + from, v + from, pos);
            add_input(l, x, inputs);
        }
        unembed(logits, x);
        hash = hash_floats(hash, logits, V);
        if (out && fwrite(logits, sizeof *logits, V, out) != V)
            exit(5);
    }
    printf("%016llx\n", (unsigned long long)hash);
}
