/* Test: mgpt.h compiles alone, first in its file, as C99, C11 and (header_test.cpp) C++17, with
 * -pedantic -Wall -Wextra -Werror. There is nothing to run; that it compiles is the test. */
#include "mgpt.h"

#include <stdio.h>
#include <string.h>

/* The types and constants that programs depend on, by number where the number is part of the ABI. */
static const int statuses[] = {MGPT_OK,  MGPT_EARG,  MGPT_EFILE, MGPT_EMEM,
                               MGPT_EIO, MGPT_EFULL, MGPT_ETEXT, MGPT_ESTOP};

static int ignore(const mgpt_value *value, void *user)
{
    (void)user;
    return value->rows < 0;
}

int main(void)
{
    mgpt_model_params model_params = {0};
    mgpt_session_params session_params = {0};
    mgpt_sampler sampler = {0};
    mgpt_stream stream = {{0}, 0, 0};
    mgpt_tap_fn *tap = ignore;
    uint64_t all = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;
    for (int i = 0; i < (int)(sizeof statuses / sizeof statuses[0]); i++)
        if (statuses[i] != -i)
            return 1;
    int major = 0, minor = 0, patch = 0;
    if (sscanf(MGPT_VERSION, "%d.%d.%d", &major, &minor, &patch) != 3 ||
        MGPT_VERSION_NUMBER != 10000 * major + 100 * minor + patch ||
        strcmp(MGPT_VERSION, PROJECT_VERSION) != 0 || strcmp(mgpt_version(), MGPT_VERSION) != 0)
        return 2;
    return !(tap && all && !model_params.isa && !session_params.n_ctx && !sampler.rng &&
             !stream.n_held && MGPT_NO_OFFSET == UINT64_MAX);
}
