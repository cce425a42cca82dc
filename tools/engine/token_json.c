/* Tokens in JSON. See token_json.h. */
#include "engine/token_json.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>

void token_json_text(struct json_out *out, const mgpt_model *model, int32_t token)
{
    size_t n;
    const char *bytes = mgpt_piece(model, token, &n);
    if (n == 0)
        bytes = mgpt_token_text(model, token, &n);
    if (utf8_well_formed(bytes, n) == n) {
        json_out_string(out, bytes, n);
        return;
    }
    fputs("\"bytes:", out->to);
    for (size_t i = 0; i < n; i++)
        fprintf(out->to, "\\\\x%02x", (unsigned)(unsigned char)bytes[i]);
    putc('"', out->to);
}

void token_json_top(struct json_out *out, const mgpt_model *model, const mgpt_candidate *top,
                    size_t n)
{
    putc('[', out->to);
    for (size_t i = 0; i < n; i++) {
        fprintf(out->to, "%s{\"id\":%d,\"token\":", i ? "," : "", (int)top[i].token);
        token_json_text(out, model, top[i].token);
        fputs(",\"logprob\":", out->to);
        json_out_real(out, top[i].logprob);
        putc('}', out->to);
    }
    putc(']', out->to);
}

void token_json_ids(struct json_out *out, const int32_t *ids, size_t n)
{
    putc('[', out->to);
    for (size_t i = 0; i < n; i++)
        fprintf(out->to, i ? ",%d" : "%d", (int)ids[i]);
    putc(']', out->to);
}

int token_json_read_ids(const struct jval *ids, int32_t n_vocab, int32_t **tokens, size_t *n,
                        mgpt_error *err)
{
    *n = jval_size(ids);
    *tokens = mem_new(*n + 1, sizeof **tokens);
    if (!*tokens)
        return err_memory(err, "the ids", *n * sizeof **tokens);
    for (size_t i = 0; i < *n; i++) {
        const struct jval *id = jval_at(ids, i);
        int64_t value = jval_is(id, JVAL_INTEGER) ? jval_whole(id) : -1;
        if (value < 0 || value >= n_vocab)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "ids: expected whole numbers from 0 to %d, found another as number %zu",
                           (int)n_vocab - 1, i + 1);
        (*tokens)[i] = (int32_t)value;
    }
    return MGPT_OK;
}
