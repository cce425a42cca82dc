/* A hash of results on fixed numbers: of a build whose arithmetic is another (clang's
 * -fassociative-math, say, which no macro tells) it is another. See kernels.h.
 */
#include "base/fnv.h"
#include "kernels/kernels.h"

enum { SAMPLE = 64 };

#define ARITHMETIC_HASH UINT64_C(0x4D739BBC12E2942B)

/* Numbers from -2 to 2. */
static void sample_fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-30f;
    }
}

int kernels_arithmetic_holds(const struct kernels *k)
{
    _Alignas(64) float w[SAMPLE * PANEL], x[SAMPLE], y[PANEL], z[SAMPLE];
    uint64_t hash = FNV_START;
    sample_fill(w, SAMPLE * PANEL, 1);
    sample_fill(x, SAMPLE, 2);
    k->layernorm(z, x, w, w + SAMPLE, SAMPLE, 1e-5f);
    k->matmul[WEIGHT_F32](&(struct matmul){
        .y = y, .ldy = PANEL, .w = w, .x = z, .n = 1, .n_in = SAMPLE, .n_out = PANEL, .p1 = 1});
    hash = fnv1a(hash, y, sizeof y);
    k->act[ACT_GELU_TANH](z, SAMPLE);
    hash = fnv1a(hash, z, sizeof z);
    k->softmax(x, SAMPLE);
    hash = fnv1a(hash, x, sizeof x);
    return hash == ARITHMETIC_HASH;
}
