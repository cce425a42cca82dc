/* ivec_dot with vpmaddubsw, which multiplies unsigned by signed bytes and adds adjacent products in
 * int16. With 6-bit weights the sum of four products fits in int16. 8-bit weights are computed as
 * |w| * (x with the sign of w): two products fit.
 *
 * The including file defines multiply_pairs(w, x, bits), and add_pairs(v): sums of adjacent int16.
 */
VEC_INLINE ivec ivec_dot(ivec sum, const ivec *w, const ivec *x, int bits)
{
    ivec_16 a = multiply_pairs(w[0], x[0], bits), b = multiply_pairs(w[1], x[1], bits);
    if (bits < 8)
        return ivec_add(sum, add_pairs(a + b));
    return ivec_add(ivec_add(sum, add_pairs(a)), add_pairs(b));
}
