/* How many threads, of counts of cores. See cores.h. */
#include "base/cores.h"

#include "base/error.h"

void cores_choose(struct cores *c)
{
    c->n = c->n_fast;
    if (c->n_quota && c->n_quota < c->n)
        c->n = c->n_quota;
    if (c->n > CORES_MOST)
        c->n = CORES_MOST;
    if (c->n < 1)
        c->n = 1;
}

void cores_why(const struct cores *c, char *why, size_t cap)
{
    if (c->n == c->n_quota && c->n_quota < c->n_fast)
        text_format(why, cap, "the control group's quota is %d of %d cores", c->n_quota, c->n_fast);
    else if (c->n < c->n_fast)
        text_format(why, cap, "at most %d of %d cores: -t N for more", c->n, c->n_fast);
    else if (c->n_fast < c->n_physical)
        text_format(why, cap, "the fast ones of %d cores", c->n_physical);
    else if (c->n_physical < c->n_allowed)
        text_format(why, cap, "physical cores; %d hardware threads", c->n_allowed);
    else if (c->n_allowed < c->n_online)
        text_format(why, cap, "CPUs that this process may use, of %d", c->n_online);
    else
        text_format(why, cap, "the cores of this machine");
}
