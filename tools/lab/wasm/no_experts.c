/* In place of experts.c and refused.c: mgpt lab makes no page of a mixture, or of a model that mgpt
 * does not run. A session of a mixture is refused as if there were no memory for it. */
#include "run/ops.h"

struct expert_scratch *experts_new(const mgpt_model *m, size_t n_chunk)
{
    (void)m, (void)n_chunk;
    return NULL;
}

void experts_free(struct expert_scratch *s)
{
    (void)s;
}

void add_experts(pass *p, const struct layer *l, mat h)
{
    (void)p, (void)l, (void)h;
}

const char *arch_why_refused(const char *name, size_t n)
{
    (void)name, (void)n;
    return NULL;
}
