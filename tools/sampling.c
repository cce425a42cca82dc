/* From options to a sampler. See sampling.h. */
#include "sampling.h"

#include <string.h>

int sampling_begin(struct sampling *s, const struct cli_command *command)
{
    int python = s->rng && strcmp(s->rng, "python") == 0;
    if (s->rng && !python && strcmp(s->rng, "splitmix") != 0)
        return cli_usage(command, "--rng: expected splitmix or python, found '%s'", s->rng);
    if (s->skip && !python)
        return cli_usage(command, "--rng-skip needs --rng python");
    if (python) {
        s->sampler.uniform = rng_python_uniform;
        s->sampler.uniform_user = &s->python;
    }
    sampling_apply(s);
    sampling_seed(s, s->seed);
    return EXIT_OK;
}

void sampling_apply(struct sampling *s)
{
    s->sampler.temperature = (float)s->temperature;
    s->sampler.top_k = s->top_k;
    s->sampler.top_p = (float)s->top_p;
    s->sampler.min_p = (float)s->min_p;
}

void sampling_seed(struct sampling *s, uint64_t seed)
{
    s->seed = seed;
    s->sampler.rng = seed;
    rng_python_seed(&s->python, seed);
    rng_python_skip(&s->python, s->skip);
}
