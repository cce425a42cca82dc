/* The model that pass.c runs: its architecture, its sizes, its keys and tensors by their short names. */
#pragma once

#include "archs.h"
#include "gguf.h"

#include <stdio.h>

static const struct arch *a;
static char arch_name[32], act[16];
static size_t E, H, G, D, F, V; /* n_embd, n_head, n_head_kv, head_dim, n_ff, n_vocab */
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
