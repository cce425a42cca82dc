/* What a page says about its model. See about.h.
 *
 * Token texts are shown by the rules of the terminal (text.h): nothing can hide in them. Their
 * bytes come with them, one character from U+0000 to U+00FF for each.
 */
#include "lab/about.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "common/json_read.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

/* A token's bytes as characters of the same number. */
static json_t *bytes_json(const char *bytes, size_t n)
{
    char *text = malloc(2 * n + 1);
    size_t length = 0;
    for (size_t i = 0; text && i < n; i++)
        length += utf8_put((unsigned char)bytes[i], text + length);
    json_t *value = text ? json_stringn(text, length) : NULL;
    free(text);
    return value;
}

/* As text_print_token shows it, without the quotes. */
static json_t *shown_json(const mgpt_model *model, int32_t token)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        return NULL;
    text_print_token(to, model, token);
    int failed = fclose(to) != 0, quoted = !failed && n >= 2 && text[0] == '"';
    json_t *value = failed ? NULL : json_stringn(text + quoted, n - (quoted ? 2 : 0));
    free(text);
    return value;
}

/* All tokens; padding after them, which logits may have, is shown as padding. */
static int put_vocabulary(json_t *all, const struct engine *e)
{
    json_t *pieces = json_array(), *bytes = json_array(), *ends = json_array();
    int failed = json_object_set_new(all, "pieces", pieces) < 0;
    failed |= json_object_set_new(all, "bytes", bytes) < 0;
    failed |= json_object_set_new(all, "ends", ends) < 0;
    for (int32_t id = 0; id < e->info.n_vocab && !failed; id++) {
        size_t n;
        const char *piece = mgpt_piece(e->model, id, &n);
        failed |= json_array_append_new(pieces, shown_json(e->model, id)) < 0;
        failed |= json_array_append_new(bytes, bytes_json(piece, n)) < 0;
        if (mgpt_is_end(e->model, id))
            failed |= json_array_append_new(ends, json_integer(id)) < 0;
    }
    return !failed;
}

/* ---- sizes ---- */

/* Texts of a file may be any bytes. */
static json_t *text_json(const char *text)
{
    json_t *value = json_string(text);
    return value ? value : json_string("(a name that is not UTF-8)");
}

/* The tokens that go before a text. */
static json_t *front_json(const struct engine *e)
{
    int32_t front[ENGINE_FRONT];
    size_t n = e->info.add_bos ? engine_front(e, e->info.bos, front) : 0;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(front[i]));
    return list;
}

static json_t *info_json(const struct about *a)
{
    const mgpt_info *i = &a->engine->info;
    char hash[24];
    snprintf(hash, sizeof hash, "0x%016" PRIx64, a->hash);
    json_t *info = json_pack(
        "{s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:s, s:s, s:s, s:f}",
        "name", text_json(i->name), "arch", text_json(i->arch), "layers", i->n_layer, "heads",
        i->n_head, "kv_heads", i->n_head_kv, "d_model", i->n_embd, "d_head", i->head_dim, "d_mlp",
        i->n_ff, "context", i->n_ctx, "vocab", i->n_vocab, "bos", i->bos, "eos", i->eos, "params",
        (json_int_t)i->n_params, "norm", i->norm, "activation", i->activation, "positions",
        i->position, "attn_scale", (double)i->attn_scale);
    json_t *more = json_pack(
        "{s:s, s:s, s:i, s:b, s:o, s:b, s:b, s:b, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:s}",
        "tokenizer", i->tokenizer, "type", i->type, "choices", (int)engine_n_choices(a->engine),
        "add_bos", i->add_bos, "front", front_json(a->engine), "nfc", i->nfc, "tied", i->tied,
        "gated", i->gated, "norm_eps", (double)i->norm_eps, "rope_base", (double)i->rope_base,
        "logit_softcap", (double)i->logit_softcap, "logit_scale", (double)i->logit_scale,
        "residual_scale", (double)i->residual_scale, "file_bytes", (json_int_t)i->file_bytes,
        "kv_bytes", (json_int_t)i->kv_bytes, "hash", hash);
    if (!info || !more || json_object_update(info, more) < 0) {
        json_decref(info);
        info = NULL;
    }
    json_decref(more);
    return info;
}

static json_t *hooks_json(const struct hook *hooks)
{
    json_t *list = json_array();
    int failed = !list;
    for (size_t i = 0; i < arr_len(hooks) && !failed; i++) {
        json_t *hook = json_pack("{s:s, s:i, s:i, s:o}", "name", hooks[i].name, "point",
                                 (int)hooks[i].point, "layer", (int)hooks[i].layer, "dims",
                                 json_shape(hooks[i].dims, hooks[i].n_dims));
        failed = json_array_append_new(list, hook) < 0;
    }
    return list;
}

/* {name: [type, row length, rows]} of the file's tensors. */
static json_t *tensors_json(const mgpt_model *model)
{
    json_t *all = json_object();
    int failed = !all;
    mgpt_tensor t;
    for (size_t i = 0; !failed && mgpt_get_tensor(model, i, &t, NULL) == MGPT_OK; i++)
        failed = json_object_set_new(all, t.name,
                                     json_pack("[s, I, I]", t.type, (json_int_t)t.dims[0],
                                               (json_int_t)t.dims[1])) < 0;
    return all;
}

json_t *about_json(const struct about *a, mgpt_error *err)
{
    json_t *all = json_pack("{s:b, s:s, s:o, s:o, s:o}", "live", !a->reason, "reason",
                            a->reason ? a->reason : "", "info", info_json(a), "hooks",
                            hooks_json(a->hooks), "tokens", json_ids(a->tokens, a->n_tokens));
    if (all && json_object_set_new(all, "tensors", tensors_json(a->engine->model)) == 0 &&
        put_vocabulary(all, a->engine))
        return all;
    json_decref(all);
    err_memory(err, "what the page says about the model", 0);
    return NULL;
}
