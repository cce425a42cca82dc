/* In place of tok_chars.c, tok_regex.c and tok_steps*.c: a page has no PCRE2, and their code would
 * be a tenth of the module. Vocabularies with normalizers or pre-tokenizers of their own are
 * refused; `mgpt lab` refuses to make a page of them. */
#include "tokenizer/tok_chars.h"
#include "tokenizer/tok_steps.h"

#include "base/error.h"

int steps_open(struct tok_steps **steps, const struct gguf *g, mgpt_error *err)
{
    (void)steps;
    if (gguf_find(g, "mgpt.tokenizer.normalizers") || gguf_find(g, "mgpt.tokenizer.pre_tokenizers"))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "a page does not run this vocabulary");
    return MGPT_OK;
}

void steps_close(struct tok_steps *s)
{
    (void)s;
}

int steps_normalize(const struct tok_steps *s, const char *p, size_t n, char **out, int *at_start,
                    uint64_t *limit, mgpt_error *err)
{
    (void)s, (void)p, (void)n, (void)out, (void)at_start, (void)limit, (void)err;
    return MGPT_EFILE;
}

int steps_encode(struct tok_call *c, const char *p, size_t n, int first)
{
    (void)c, (void)p, (void)n, (void)first;
    return MGPT_EFILE;
}

struct char_map *char_map_open(const struct gguf *g, struct gguf_str name, mgpt_error *err)
{
    (void)g, (void)name;
    err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "a page does not run this vocabulary");
    return NULL;
}

void char_map_close(struct char_map *m)
{
    (void)m;
}

const uint32_t *char_map_find(const struct char_map *m, uint32_t code, size_t *n)
{
    (void)m, (void)code, (void)n;
    return NULL;
}
