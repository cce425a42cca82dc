/* Inputs of layers (Gemma 4) and of the head (ModernBERT): a part of pass.c, whose functions it calls. */
#ifndef MGPT_SPEC_INPUTS_H
#define MGPT_SPEC_INPUTS_H

/* Inputs of all layers for a token with the embedding x, P values each; NULL: there are none. */
static float *make_inputs(const float *x, size_t token)
{
    size_t P = (size_t)real("embedding_length_per_layer_input", 0);
    size_t n = P * (size_t)real("block_count", 0);
    float *y = floats(n);
    if (P == 0)
        return NULL;
    matmul(-1, "per_layer_model_proj", 0, y, n, x);
    scale(y, n, (float)(1 / sqrt((double)E)));
    norm(-1, "per_layer_proj_norm", y, y, n, P, 0);
    for (size_t i = 0; i < n; i++)
        y[i] +=
            element(part(-1, "per_layer_token_embd", "weight"), token, i) * (float)sqrt((double)P);
    scale(y, n, (float)sqrt(0.5));
    return y;
}

/* x += norm(W (act(W_gate x) * input)), then times a factor. */
static void add_input(int l, float *x, const float *inputs)
{
    size_t P = inputs ? (size_t)real("embedding_length_per_layer_input", 0) : 0;
    const struct item *by = part(l, "layer_output_scale", "weight");
    float *g = floats(P), *y = floats(E);
    if (P > 0)
        matmul(l, "inp_gate", 0, g, P, x);
    for (size_t i = 0; i < P; i++)
        g[i] = activation(act, g[i], NULL) * inputs[(size_t)l * P + i];
    if (P > 0) {
        matmul(l, "proj", 0, y, E, g);
        norm(l, "post_norm", y, y, E, E, 0);
        add(x, y, E);
    }
    scale(x, E, by->at ? element(by, 0, 0) : 1);
}

/* The head of ModernBERT reads norm(act(W x)). */
static void make_head_input(float *x)
{
    float *h = floats(E), c[4] = {0};
    size_t n = part(-1, "cls", "weight")->at ? E : 0;
    matmul(-1, "cls", 0, h, n, x);
    for (size_t i = 0; i < n; i++)
        x[i] = activation(act, h[i], c);
    norm(-1, "cls.norm", x, x, E, E, 0);
}

#endif
