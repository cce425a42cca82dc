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
static int must_be(const struct gguf *g, const char *key, const char *wanted, mgpt_error *err)
{
    struct gguf_str found;
    int got = gguf_string(g, key, &found, err);
    if (got < 0)
        return got;
    if (got && found.n == strlen(wanted) && memcmp(found.p, wanted, found.n) == 0)
        return MGPT_OK;
    return ckpt_refuse(err, "%s is '%.*s', expected '%s'", key,
                       got ? text_clip(found.p, found.n) : 0, got ? found.p : "", wanted);
}

static int lora_gguf_head(const struct checkpoint *c, const struct gguf *g, double *alpha,
                          mgpt_error *err)
{
    if (must_be(g, "general.type", "adapter", err) < 0 ||
        must_be(g, "adapter.type", "lora", err) < 0 ||
        must_be(g, "general.architecture", c->hp.arch ? c->hp.arch : "", err) < 0)
        return MGPT_EFILE;
    if (gguf_find(g, "adapter.alora.invocation_tokens"))
        return ckpt_refuse(err, "adapter.alora.invocation_tokens: an activated LoRA, which "
                                "changes part of a text, is not supported");
    int got = gguf_float(g, "adapter.lora.alpha", alpha, err);
    if (got == 0)
        return ckpt_refuse(err, "key adapter.lora.alpha: missing");
    if (got > 0 && !isfinite(*alpha))
        return ckpt_refuse(err, "adapter.lora.alpha is %g, expected a finite number", *alpha);
    return got < 0 ? got : MGPT_OK;
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

/* 1: .lora_a; 0: .lora_b, which its .lora_a finds; negative. */
static int lora_gguf_names(const struct gguf *g, const struct gguf_tensor *t,
                           struct lora_names *names, mgpt_error *err)
{
    size_t n = strlen(t->name), n_end = strlen(".lora_a");
    int is_a = n > n_end && strcmp(t->name + n - n_end, ".lora_a") == 0;
    int is_b = n > n_end && strcmp(t->name + n - n_end, ".lora_b") == 0;
    if (!is_a && !is_b)
        return ckpt_refuse_tensor(err, t->name, "expected NAME.lora_a or NAME.lora_b");
    snprintf(names->base, sizeof names->base, "%.*s", (int)(n - n_end), t->name);
    snprintf(names->b, sizeof names->b, "%.*s.lora_%c", (int)(n - n_end), t->name,
             is_a ? 'b' : 'a');
    if (!gguf_tensor(g, names->b))
        return ckpt_refuse_tensor(err, t->name, "%s is missing", names->b);
    return is_a;
}

static int shapes_agree(const struct ckpt_tensor *to, const struct gguf_tensor *a,
                        const struct gguf_tensor *b, int is_table, mgpt_error *err)
{
    const uint64_t expected[2] = {to->dims[1], to->dims[0]};
    const uint64_t found[2] = {is_table ? a->dims[1] : b->dims[1],
                               is_table ? b->dims[1] : a->dims[0]};
    if (to->n_dims != 2 || a->n_dims > 2 || b->n_dims > 2)
        return ckpt_refuse_tensor(err, to->name, "expected matrices");
    return lora_check_size(to->name, found, expected, err);
}

static int lora_gguf_add(struct checkpoint *c, const struct gguf_tensor *a,
                         const struct gguf_tensor *b, const char *name, double scale, double alpha,
                         mgpt_error *err)
{
    struct ckpt_tensor *to = lora_find(c, name);
    int is_table = strcmp(name, "token_embd.weight") == 0;
    if (lora_check_tied(c, name, name, err) < 0)
        return MGPT_EFILE;
    if (!to)
        return ckpt_refuse_tensor(err, a->name, "the model has no tensor %s", name);
    uint64_t rank = b->dims[0], rank_a = is_table ? a->dims[0] : a->dims[1];
    if (lora_check_rank(name, rank_a, rank, err) < 0 || shapes_agree(to, a, b, is_table, err) < 0)
        return MGPT_EFILE;
    struct ckpt_tensor from_a = lora_gguf_source(a), from_b = lora_gguf_source(b);
    struct lora_change change = {.n_rows = to->dims[1], .rank = rank};
    change.scale = alpha != 0 ? scale * alpha / (double)rank : scale;
    change.a = is_table ? lora_floats(c, &from_b, 1) : lora_floats(c, &from_a, 0);
    change.b = lora_floats(c, is_table ? &from_a : &from_b, 0);
    if (!change.a || !change.b)
        return err_memory(err, "an adapter", (size_t)(a->n_values + b->n_values) * 4);
    return lora_change(c, to, &change, err);
}

int lora_apply_gguf(struct checkpoint *c, const struct lora_adapter *adapter, mgpt_error *err)
{
    struct gguf g;
    struct lora_names names;
    double alpha;
    size_t n = 0;
    int status = gguf_parse(&g, adapter->weights.data, adapter->weights.size, err);
    if (status < 0)
        return status;
    status = lora_gguf_head(c, &g, &alpha, err);
    for (size_t i = 0; status >= 0 && i < arr_len(g.tensors); i++) {
        const struct gguf_tensor *a = &g.tensors[i];
        status = lora_gguf_names(&g, a, &names, err);
        if (status > 0 && ++n)
            status = lora_gguf_add(c, a, gguf_tensor(&g, names.b), names.base, adapter->scale,
                                   alpha, err);
    }
    if (status >= 0 && n == 0)
        status = ckpt_refuse(err, "it has no tensors");
    if (status >= 0)
        ckpt_note(c, "adapter %.40s: %zu matrices changed, in F32, alpha %g, scale %g",
                  lora_name(adapter), n, alpha, adapter->scale);
    gguf_free(&g);
    return status < 0 ? status : MGPT_OK;
}
