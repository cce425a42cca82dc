/* Products with vpmaddubsw, which multiplies unsigned by signed bytes and adds adjacent products in
 * int16. Up to 4 bits: the products of a block of 32 fit in int16 (8 * 2 * 15 * 127), so a sum is of
 * int16 until it ends. 5 and 6 bits: the sum of four products fits. 8-bit weights are computed as
 * |w| * (x with the sign of w): two products fit.
 *
 * The including file defines multiply_pairs(w, x, bits), and add_pairs(v): sums of adjacent int16.
 */
#define STEP(bits) ((bits) == 8 ? 1 : 2)
#define SUMS_BEGIN_AND_END

VEC_INLINE ivec ivec_begin(ivec first, int bits)
{
    return bits <= 4 ? ivec_of(0) : first;
}

/* ivec_keep: or the compiler adds in another order, and spills the products of a tile. */
VEC_INLINE ivec ivec_dot(ivec sum, const ivec *w, const ivec *x, int bits)
{
    ivec_16 a = multiply_pairs(w[0], x[0], bits);
    if (bits == 8) {
        sum = ivec_add(sum, add_pairs(a));
    } else if (bits > 4) {
        sum = ivec_add(sum, add_pairs(a + multiply_pairs(w[1], x[1], bits)));
    } else {
        sum = (ivec)((ivec_16)sum + a);
        ivec_keep(&sum);
        sum = (ivec)((ivec_16)sum + multiply_pairs(w[1], x[1], bits));
    }
    ivec_keep(&sum);
    return sum;
}

VEC_INLINE ivec ivec_end(ivec sum, ivec first, int bits)
{
    return bits <= 4 ? ivec_add(first, add_pairs((ivec_16)sum)) : sum;
}
