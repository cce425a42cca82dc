/* Adapters in GGUF, as llama.cpp's convert_lora_to_gguf.py writes them. See lora.h.
 *
 *     general.type "adapter", general.architecture the base's, adapter.type "lora",
 *     adapter.lora.alpha f32, tensors NAME.lora_a {n_in, r} and NAME.lora_b {r, n_out}
 *
 * The rows of B are in the order of GGUF's own matrices. Of token_embd the factors change places:
 * lora_a {r, n_vocab}, lora_b {r, n_embd}. As in llama.cpp, an alpha of 0 means the scale alone.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/core/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whether the text of the key is `wanted`, or an error. */
static void must_be(struct checkpoint *c, const struct gguf *g, const char *key, const char *wanted)
{
    struct gguf_str found;
    int got = gguf_string(g, key, &found, c->err);
    ckpt_must(c, got);
    if (got && found.n == strlen(wanted) && memcmp(found.p, wanted, found.n) == 0)
        return;
    ckpt_stop(c, "%s is '%.*s', expected '%s'", key, got ? text_clip(found.p, found.n) : 0,
              got ? found.p : "", wanted);
}

static double lora_gguf_head(struct checkpoint *c, const struct gguf *g)
{
    double alpha;
    must_be(c, g, "general.type", "adapter");
    must_be(c, g, "adapter.type", "lora");
    must_be(c, g, "general.architecture", c->hp.arch ? c->hp.arch : "");
    if (gguf_find(g, "adapter.alora.invocation_tokens"))
        ckpt_stop(c, "adapter.alora.invocation_tokens: an activated LoRA, which "
                     "changes part of a text, is not supported");
    int got = gguf_float(g, "adapter.lora.alpha", &alpha, c->err);
    ckpt_must(c, got);
    if (!got)
        ckpt_stop(c, "key adapter.lora.alpha: missing");
    if (!isfinite(alpha))
        ckpt_stop(c, "adapter.lora.alpha is %g, expected a finite number", alpha);
    return alpha;
}

static struct ckpt_tensor lora_gguf_source(const struct gguf_tensor *t)
{
    struct ckpt_tensor from = {
        .n_dims = t->n_dims, .n_values = t->n_values, .type = t->type, .bytes = t->data};
    memcpy(from.dims, t->dims, sizeof from.dims);
    return from;
}

/* The name of the base's tensor, and the other factor's, of one that ends in .lora_a. */
struct lora_names {
    char base[CKPT_MAX_NAME + 1], b[CKPT_MAX_NAME + 1];
};

/* 1: .lora_a; 0: .lora_b, which its .lora_a finds. */
static int lora_gguf_names(struct checkpoint *c, const struct gguf *g, const struct gguf_tensor *t,
                           struct lora_names *names)
{
    size_t n = strlen(t->name), n_end = strlen(".lora_a");
    int is_a = n > n_end && strcmp(t->name + n - n_end, ".lora_a") == 0;
    int is_b = n > n_end && strcmp(t->name + n - n_end, ".lora_b") == 0;
    if (!is_a && !is_b)
        ckpt_stop_tensor(c, t->name, "expected NAME.lora_a or NAME.lora_b");
    snprintf(names->base, sizeof names->base, "%.*s", (int)(n - n_end), t->name);
    snprintf(names->b, sizeof names->b, "%.*s.lora_%c", (int)(n - n_end), t->name,
             is_a ? 'b' : 'a');
    if (!gguf_tensor(g, names->b))
        ckpt_stop_tensor(c, t->name, "%s is missing", names->b);
    return is_a;
}

static void shapes_agree(struct checkpoint *c, const struct ckpt_tensor *to,
                         const struct gguf_tensor *a, const struct gguf_tensor *b, int is_table)
{
    const uint64_t expected[2] = {to->dims[1], to->dims[0]};
    const uint64_t found[2] = {is_table ? a->dims[1] : b->dims[1],
                               is_table ? b->dims[1] : a->dims[0]};
    if (to->n_dims != 2 || a->n_dims > 2 || b->n_dims > 2)
        ckpt_stop_tensor(c, to->name, "expected matrices");
    lora_check_size(c, to->name, found, expected);
}

static void lora_gguf_add(struct checkpoint *c, const struct gguf_tensor *a,
                          const struct gguf_tensor *b, const char *name, double scale, double alpha)
{
    struct ckpt_tensor *to = lora_find(c, name);
    int is_table = strcmp(name, "token_embd.weight") == 0;
    lora_check_tied(c, name, name);
    if (!to)
        ckpt_stop_tensor(c, a->name, "the model has no tensor %s", name);
    uint64_t rank = b->dims[0], rank_a = is_table ? a->dims[0] : a->dims[1];
    lora_check_rank(c, name, rank_a, rank);
    shapes_agree(c, to, a, b, is_table);
    struct ckpt_tensor from_a = lora_gguf_source(a), from_b = lora_gguf_source(b);
    struct lora_change change = {.n_rows = to->dims[1], .rank = rank};
    change.scale = alpha != 0 ? scale * alpha / (double)rank : scale;
    change.a = is_table ? lora_floats(c, &from_b, 1) : lora_floats(c, &from_a, 0);
    change.b = lora_floats(c, is_table ? &from_a : &from_b, 0);
    lora_change(c, to, &change);
}

static void close_gguf(void *g)
{
    gguf_free(g);
}

void lora_apply_gguf(struct checkpoint *c, const struct lora_adapter *adapter)
{
    struct gguf *g = ckpt_new(c, 1, sizeof *g);
    struct lora_names names;
    size_t n = 0;
    ckpt_must(c, gguf_parse(g, adapter->weights.data, adapter->weights.size, c->err));
    ckpt_own(c, g, close_gguf);
    double alpha = lora_gguf_head(c, g);
    for (size_t i = 0; i < arr_len(g->tensors); i++) {
        const struct gguf_tensor *a = &g->tensors[i];
        if (!lora_gguf_names(c, g, a, &names))
            continue;
        n++;
        lora_gguf_add(c, a, gguf_tensor(g, names.b), names.base, adapter->scale, alpha);
    }
    if (n == 0)
        ckpt_stop(c, "it has no tensors");
    ckpt_note(c, "adapter %.40s: %zu matrices changed, in F32, alpha %g, scale %g",
              lora_name(adapter), n, alpha, adapter->scale);
}
