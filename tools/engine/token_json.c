/* Tokens in JSON. See token_json.h. */
#include "engine/token_json.h"

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
