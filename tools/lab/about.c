/* What a page says about its model. See about.h.
 *
 * Token texts are shown by the rules of the terminal (text.h): nothing can hide in them. Their
 * bytes come with them, one character from U+0000 to U+00FF for each.
 */
#include "lab/about.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "common/jtext.h"
#include "common/text.h"
#include "engine/info_json.h"
#include "engine/layers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

/* Appends a token's bytes as characters of the same number. */
static void about_put_bytes(struct jtext *list, const char *bytes, size_t n)
{
    char *text = malloc(2 * n + 1);
    size_t length = 0;
    for (size_t i = 0; text && i < n; i++)
        length += utf8_put((unsigned char)bytes[i], text + length);
    if (text)
        jtext_add(list, "s%", text, length);
    else
        jtext_fail(list);
    free(text);
}

/* Appends a token as text_print_token shows it, without the quotes. */
static void put_shown(struct jtext *list, const mgpt_model *model, int32_t token)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (to)
        text_print_token(to, model, token);
    /* glibc's fclose may succeed although there was no memory. */
    int failed = !to || fclose(to) != 0 || !text;
    int quoted = !failed && n >= 2 && text[0] == '"';
    if (failed)
        jtext_fail(list);
    else
        jtext_add(list, "s%", text + quoted, n - (quoted ? 2 : 0));
    free(text);
}

/* All tokens; padding after them, which logits may have, is shown as padding. */
static void put_vocabulary(struct jtext *all, const struct engine *e)
{
    struct jtext *pieces = jtext("[]"), *bytes = jtext("[]"), *ends = jtext("[]");
    for (int32_t id = 0; id < e->info.n_vocab; id++) {
        size_t n;
        const char *piece = mgpt_piece(e->model, id, &n);
        put_shown(pieces, e->model, id);
        about_put_bytes(bytes, piece, n);
        if (mgpt_is_end(e->model, id))
            jtext_add(ends, "i", (int)id);
    }
    jtext_add(all, "s:o, s:o, s:o", "pieces", pieces, "bytes", bytes, "ends", ends);
}

/* ---- sizes ---- */

/* The tokens that go before a text. */
static struct jtext *front_json(const struct engine *e)
{
    int32_t front[ENGINE_FRONT];
    return jtext_ids(front, e->info.add_bos ? engine_front(e, e->info.bos, front) : 0);
}

/* For each layer the one whose keys and values it reads. */
static struct jtext *lenders_json(const struct engine *e)
{
    struct jtext *list = jtext("[]");
    for (int32_t i = 0; i < e->info.n_layer; i++)
        jtext_add(list, "i", (int)engine_layer(e->model, i).kv_from);
    return list;
}

static struct jtext *info_json(const struct about *a)
{
    const mgpt_info *i = &a->engine->info;
    char hash[24];
    snprintf(hash, sizeof hash, "0x%016" PRIx64, a->hash);
    struct jtext *info = jtext(
        "{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:s, s:s, s:s, s:s, s:s,"
        " s:i, s:o, s:o, s:I, s:I, s:s}",
        "name", i->name, "arch", i->arch, "layers", i->n_layer, "heads", i->n_head, "kv_heads",
        i->n_head_kv, "d_model", i->n_embd, "d_head", i->head_dim, "d_mlp", i->n_ff, "context",
        i->n_ctx, "vocab", i->n_vocab, "bos", i->bos, "eos", i->eos, "params", (int64_t)i->n_params,
        "norm", i->norm, "activation", i->activation, "positions", i->position, "tokenizer",
        i->tokenizer, "type", i->type, "choices", (int)engine_n_choices(a->engine), "front",
        front_json(a->engine), "kv_from", lenders_json(a->engine), "file_bytes",
        (int64_t)i->file_bytes, "kv_bytes", (int64_t)i->kv_bytes, "hash", hash);
    info_put(info, i, INFO_FLAGS | INFO_REALS, "g");
    return info;
}

static struct jtext *hooks_json(const struct hook *hooks)
{
    struct jtext *list = jtext("[]");
    for (size_t i = 0; i < arr_len(hooks); i++)
        jtext_add(list, "{s:s, s:i, s:i, s:o}", "name", hooks[i].name, "point", (int)hooks[i].point,
                  "layer", (int)hooks[i].layer, "dims",
                  jtext_shape(hooks[i].dims, hooks[i].n_dims));
    return list;
}

/* {name: [type, row length, rows]} of the file's tensors. */
static struct jtext *tensors_json(const mgpt_model *model)
{
    struct jtext *all = jtext("{}");
    mgpt_tensor t;
    for (size_t i = 0; mgpt_get_tensor(model, i, &t, NULL) == MGPT_OK; i++)
        jtext_add(all, "s:[s, I, I]", t.name, t.type, (int64_t)t.dims[0], (int64_t)t.dims[1]);
    return all;
}

struct jtext *about_json(const struct about *a)
{
    struct jtext *all = jtext("{s:b, s:s, s:o, s:o, s:o, s:o}", "live", !a->reason, "reason",
                              a->reason ? a->reason : "", "info", info_json(a), "hooks",
                              hooks_json(a->hooks), "tokens", jtext_ids(a->tokens, a->n_tokens),
                              "tensors", tensors_json(a->engine->model));
    put_vocabulary(all, a->engine);
    return all;
}
