/* Fuzz targets: the outcome of runs as one hash. See fuzz.h. */
#include "base/xxh64.h"
#include "fuzz/fuzz.h"

#include <math.h>

static struct xxh64 sum;
static int begun;

void fuzz_saw(const void *data, size_t n)
{
    if (!begun)
        xxh64_begin(&sum);
    begun = 1;
    if (n)
        xxh64_add(&sum, data, n);
}

void fuzz_saw_number(uint64_t n)
{
    fuzz_saw(&n, sizeof n);
}

void fuzz_saw_error(const mgpt_error *err)
{
    fuzz_saw_number((uint64_t)err->status);
    fuzz_saw_number(err->offset);
    fuzz_saw(err->text, strlen(err->text));
}

void fuzz_saw_floats(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fuzz_saw(isnan(x[i]) ? &(float){-1e38f} : &x[i], sizeof *x);
}

uint64_t fuzz_outcome(void)
{
    fuzz_saw(NULL, 0);
    begun = 0;
    return xxh64_end(&sum);
}
