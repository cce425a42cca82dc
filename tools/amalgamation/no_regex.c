/* In place of tok_regex.c where mgpt.c is compiled without PCRE2: patterns of a file are refused. */
#include "tokenizer/tok_regex.h"

#include "base/error.h"

static int refuse_regex(mgpt_error *err)
{
    return err_set(
        err, MGPT_EFILE, MGPT_NO_OFFSET,
        "the vocabulary's patterns need PCRE2: compile mgpt.c with -DMGPT_PCRE2, link -lpcre2-8");
}

struct tok_regex *regex_open(struct gguf_str pattern, mgpt_error *err)
{
    (void)pattern;
    refuse_regex(err);
    return NULL;
}

void regex_close(struct tok_regex *r)
{
    (void)r;
}

int regex_parts(const struct tok_regex *r, const char *text, size_t n, struct span_part **parts,
                mgpt_error *err)
{
    (void)r, (void)text, (void)n, (void)parts;
    return refuse_regex(err);
}

void regex_cut_parts(struct span_part *parts, enum regex_cut cut, int inverted)
{
    (void)parts, (void)cut, (void)inverted;
}
