/* Tests: every job of a pool is split, however small it is (the linker's --wrap). The zoo's are so small that
 * the caller would do most of them alone. */
#include "base/threads.h"

void __wrap_pool_run_sized(struct pool *pool, size_t bytes, pool_fn *fn, void *ctx);
void __real_pool_deal(struct pool *pool, const struct pool_units *job);
void __wrap_pool_deal(struct pool *pool, const struct pool_units *job);

void __wrap_pool_run_sized(struct pool *pool, size_t bytes, pool_fn *fn, void *ctx)
{
    (void)bytes;
    pool_run(pool, fn, ctx);
}

void __wrap_pool_deal(struct pool *pool, const struct pool_units *job)
{
    struct pool_units whole = *job;
    whole.bytes = POOL_WORTH_WAKING;
    __real_pool_deal(pool, &whole);
}
