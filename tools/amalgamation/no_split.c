/* In place of tok_split.c where mgpt.c is compiled without PCRE2: a BPE vocabulary is refused. */
#include "tokenizer/tok_split.h"

#include "base/error.h"

static int refuse_split(mgpt_error *err)
{
    return err_set(
        err, MGPT_EFILE, MGPT_NO_OFFSET,
        "a BPE vocabulary needs PCRE2: compile mgpt.c with -DMGPT_PCRE2, link -lpcre2-8");
}

struct split *split_open(const struct split_rule *rule, mgpt_error *err)
{
    (void)rule;
    refuse_split(err);
    return NULL;
}

void split_close(struct split *s)
{
    (void)s;
}

int split_text(const struct split *s, const char *subject, size_t n, split_piece_fn *piece,
               void *user, mgpt_error *err)
{
    (void)s, (void)subject, (void)n, (void)piece, (void)user;
    return refuse_split(err);
}
