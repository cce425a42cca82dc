/* The model that pass.c runs: its architecture, its sizes, its keys and tensors by their short names. */
#pragma once

#include "archs.h"
#include "gguf.h"

#include <stdio.h>

static const struct arch *a;
static char arch_name[32], act[16];
static size_t E, H, G, D, F, V; /* n_embd, n_vocab; of a layer: n_head, n_head_kv, head_dim, n_ff */
static size_t R, DV, KEPT; /* the latent; a value; what is kept of a token: R and a rotated part */

static const struct item *key(const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", arch_name, name);
    return find(full);
}

static double real(const char *name, double absent)
{
    return value_of(key(name), absent);
}

/* A tensor of a layer; of the model if layer is negative. */
static const struct item *part(int layer, const char *name, const char *suffix)
{
    char full[96];
    int n = layer < 0 ? 0 : snprintf(full, sizeof full, "blk.%d.", layer);
    snprintf(full + n, sizeof full - (size_t)n, "%s.%s", name, suffix);
    return find(full);
}

/* Most keys that a query of a layer sees, its own included; 0: all. */
static size_t window_of(int layer)
{
    const struct item *each = find("mgpt.attention.windows");
    const struct item *flags = key("attention.sliding_window_pattern");
    int every = (int)real("attention.sliding_window_pattern", a->full_every);
    if (each->at)
        return (size_t)number(each->at + 12 + 4 * layer, 4);
    int full = flags->type == ARRAY ? !flags->at[12 + layer]
                                    : every && (layer + 1) % every == a->full_first;
    return full ? 0 : (size_t)real("attention.sliding_window", 0);
}

/* A number that layers with a window may have of their own. */
static size_t windowed_real(int layer, const char *name, const char *own, double absent)
{
    absent = real(name, absent);
    return (size_t)(window_of(layer) ? real(own, absent) : absent);
}

/* The layer whose keys and values a layer reads: the last ones those of one before that is like it. */
static int source_of(int layer)
{
    int first = (int)(real("block_count", 0) - real("attention.shared_kv_layers", 0)), from = first;
    if (layer < first)
        return layer;
    do
        from--;
    while (!window_of(from) != !window_of(layer));
    return from;
}

static void enter_layer(int layer)
{
    const struct item *heads = key("attention.head_count_kv");
    const struct item *queries = key("attention.head_count");
    size_t d = D; /* of latent attention: the model's */
    size_t own = heads->type == ARRAY ? (size_t)number(heads->at + 12 + 4 * layer, 4) : 0;
    G = own ? own : (size_t)largest(heads, (double)H); /* a convolution has 0 */
    D = windowed_real(layer, "attention.key_length", "attention.key_length_swa", (double)(E / H));
    H = queries->type == ARRAY ? (size_t)number(queries->at + 12 + 4 * layer, 4) : H;
    F = part(layer, "ffn_down", "weight")->cols;
    G = R ? H : G, D = R ? d : D;
    if (!R)
        DV =
            windowed_real(layer, "attention.value_length", "attention.value_length_swa", (double)D);
}
