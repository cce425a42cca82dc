// Test: mgpt.h compiles alone as C++17 with -pedantic -Wall -Wextra -Werror, and its functions have C
// linkage: this file links against the C library.
#include "mgpt.h"

static int ignore(const mgpt_value *value, void *user)
{
    (void)user;
    return value->rows < 0;
}

int main()
{
    mgpt_sampler sampler{};
    mgpt_stream stream{};
    mgpt_error err{};
    mgpt_tap_fn *tap = ignore;
    const uint64_t all = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;
    mgpt_close(nullptr);
    mgpt_session_free(nullptr);
    return !(mgpt_pos(nullptr) == 0 && tap && all != 0 && sampler.rng == 0 && stream.n_held == 0 &&
             err.status == MGPT_OK);
}
