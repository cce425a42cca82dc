/* In place of refused.c: mgpt lab makes no page of a model that mgpt does not run. */
#include "model/arch.h"

const char *arch_why_refused(const char *name, size_t n)
{
    (void)name, (void)n;
    return NULL;
}
