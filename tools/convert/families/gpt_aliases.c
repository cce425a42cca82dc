/* The tensors of a GPT by GGUF's names: which is which, by words (gpt_names.c) and shapes. */
#include "base/mem.h"
#include "convert/families/from_gpt.h"
#include "convert/families/gpt_names.h"

#include <stdio.h>
#include <string.h>

/* A parameter [1, T, E] or [T, 1, E] is the table [T, E]. */
static void squeeze(struct state_tensor *t)
{
    for (uint32_t i = 0; t->n_dims == 3 && i < 2; i++) {
        if (t->shape[i] != 1)
            continue;
        t->n_dims = 2;
        memmove(t->shape + i, t->shape + i + 1, (2 - i) * sizeof *t->shape);
        memmove(t->strides + i, t->strides + i + 1, (2 - i) * sizeof *t->strides);
    }
}

/* The columns of the token embedding; 0: none is known. */
static uint64_t gpt_width(const struct state *s)
{
    struct gpt_name name;
    for (size_t i = 0; i < arr_len(s->tensors); i++)
        if (gpt_name_read(&s->tensors[i], &name) && name.role == GPT_TOKENS)
            return s->tensors[i].shape[1];
    return 0;
}

/* The role that a tensor's shape says, of a bias its matrix's: a square "qkv" is the projection of
 * attention. `width` is n_embd. */
static enum gpt_role role_by_shape(const struct state *s, const struct state_tensor *t,
                                   uint64_t width, const struct gpt_name *name)
{
    static const char bias[] = ".bias", weight[] = ".weight";
    char of[STATE_MAX_ROW_NAME];
    size_t n = strlen(t->name);
    if (n > strlen(bias) && strcmp(t->name + n - strlen(bias), bias) == 0) {
        snprintf(of, sizeof of, "%.*s%s", (int)(n - strlen(bias)), t->name, weight);
        t = state_peek(s, of);
    }
    if (!t)
        return name->role;
    if (!name->in_layer)
        return t->n_dims == 1 ? GPT_FINAL_NORM : name->role;
    if (t->n_dims != 2)
        return name->role;
    if (name->is_attention)
        return t->shape[0] == t->shape[1] ? GPT_O : name->role;
    if ((t->shape[0] == width) == (t->shape[1] == width))
        return name->role;
    return t->shape[1] == width ? GPT_UP : GPT_DOWN;
}

static void see_name(struct gpt *g, const struct state_tensor *t, const struct gpt_name *name)
{
    const char *dot = strrchr(t->name, '.');
    g->is_mha |= strstr(t->name, ".in_proj_weight") || strstr(t->name, ".query_proj.");
    g->has_gate |= name->role == GPT_GATE;
    g->has_qkv |= name->role == GPT_QKV && !strstr(t->name, ".in_proj_weight") &&
                  !strstr(t->name, ".in_proj_bias") && !strstr(t->name, ".c_attn.");
    g->has_bare |= name->is_bare && name->in_layer && t->n_dims == 2;
    g->has_bias |= name->is_bias && (name->role == GPT_NORM_1 || name->role == GPT_FINAL_NORM);
    g->is_buffer |= name->role == GPT_POSITIONS && dot && strcmp(dot, ".pe") == 0;
}

/* Numbers of a forward pass: masks, rotations, lists of integers. */
static int is_buffer(const struct state_tensor *t)
{
    return gpt_name_is_mask(t) || gpt_name_is_rotation(t->name) ||
           (t->type >= STATE_I64 && t->type <= STATE_U32);
}

/* Asking for facts is for models that can run. */
static void refuse_unknown_names(const struct state *s)
{
    char buf[64];
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        const struct state_tensor *t = &s->tensors[i];
        if (t->used || t->alias)
            continue;
        const char *near = gpt_name_nearest(t->name, buf);
        ckpt_stop_tensor(s->c, t->name, "no such tensor of a GPT that mgpt knows%s%s",
                         near ? "; nearest: " : "", near ? near : "");
    }
}

/* The names of layer n are those of layer 0 but for the number. */
static int is_same_name(const char *of_0, const char *of_n)
{
    size_t i = 0;
    while (of_0[i] && of_0[i] == of_n[i])
        i++;
    while (i > 0 && of_0[i - 1] >= '0' && of_0[i - 1] <= '9')
        i--;
    const char *digits = "0123456789";
    return strcmp(of_0 + i + strspn(of_0 + i, digits), of_n + i + strspn(of_n + i, digits)) == 0;
}

/* Layers of two programs may mean the same, and may not. */
static void refuse_mixed_layers(const struct state *s)
{
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        const struct state_tensor *t = &s->tensors[i], *first = NULL;
        const char *rest =
            t->alias && strncmp(t->alias, "blk.", 4) == 0 ? strchr(t->alias + 4, '.') : NULL;
        char alias[64];
        if (rest) {
            snprintf(alias, sizeof alias, "blk.0%s", rest);
            first = state_peek(s, alias);
        }
        if (first && !is_same_name(first->name, t->name))
            ckpt_stop_tensor(s->c, t->name, "layer 0 has %.*s: names of two programs",
                             CKPT_CLIP(first->name, strlen(first->name)));
    }
}

/* "blocks.0.mlp.w1.bias": "w1". */
static void last_word(const char *name, char word[64])
{
    const char *end = strrchr(name, '.'), *start = end;
    while (start && start > name && start[-1] != '.')
        start--;
    snprintf(word, 64, "%.*s", start ? (int)(end - start) : 0, start ? start : "");
}

/* Decides which of two matrices that widen in the MLP is the gate, if their names do not say it: Llama's
 * w1 if there is w3; else the option --gate says it, and until then it is the first by name. */
static void settle_gate(struct gpt *g, struct gpt_name *names)
{
    const struct state *s = g->m->state;
    const struct ckpt_options *o = g->m->in->options;
    char words[3][64];
    size_t n = 0;
    for (size_t i = 0; i < arr_len(s->tensors) && n < 3; i++)
        if (names[i].role == GPT_UP && names[i].layer == 0 && !names[i].is_bias)
            last_word(s->tensors[i].name, words[n++]);
    if (n != 2)
        return;
    int order = strcmp(words[0], words[1]) < 0 ? 0 : 1;
    int is_llama = (strcmp(words[order], "w1") == 0 && strcmp(words[!order], "w3") == 0) ||
                   (strcmp(words[order], "W1") == 0 && strcmp(words[!order], "W3") == 0);
    g->has_two_ups = !is_llama;
    if (!is_llama && o->given & OPT_GATE && strcmp(o->gate, "second") == 0)
        order = !order;
    for (size_t i = 0; i < arr_len(s->tensors); i++)
        if (names[i].role == GPT_UP) {
            last_word(s->tensors[i].name, words[2]);
            if (strcmp(words[2], words[order]) == 0)
                names[i].role = GPT_GATE;
        }
}

/* Roles are read before the first alias is set: shapes are found by name. */
void gpt_set_aliases(struct gpt *g)
{
    struct torch_model *m = g->m;
    uint64_t width = gpt_width(m->state);
    struct gpt_name *names = ckpt_new(m->c, arr_len(m->state->tensors) + 1, sizeof *names);
    for (size_t i = 0; i < arr_len(m->state->tensors); i++) {
        const struct state_tensor *t = &m->state->tensors[i];
        if (is_buffer(t) || !gpt_name_read(t, &names[i])) {
            names[i].role = GPT_NONE;
            continue;
        }
        if (names[i].by_shape)
            names[i].role = role_by_shape(m->state, t, width, &names[i]);
    }
    settle_gate(g, names);
    for (size_t i = 0; i < arr_len(m->state->tensors); i++) {
        struct state_tensor *t = &m->state->tensors[i];
        char alias[64];
        t->used = is_buffer(t);
        g->is_rotated |= gpt_name_is_rotation(t->name);
        g->has_mask |= gpt_name_is_mask(t) && t->n_dims >= 2;
        if (names[i].role == GPT_NONE)
            continue;
        gpt_name_alias(&names[i], alias);
        t->alias = ckpt_copy(m->c, alias, strlen(alias));
        see_name(g, t, &names[i]);
        if (names[i].role == GPT_POSITIONS)
            squeeze(t);
    }
    state_seal(m->state);
    refuse_mixed_layers(m->state);
    refuse_unknown_names(m->state);
}
