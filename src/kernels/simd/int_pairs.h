/* i_dot of int_tile_tmpl.h for ISA levels without a dot product of bytes. vpmaddubsw multiplies
 * unsigned by signed bytes and adds pairs of products in int16. With 6-bit weights the sum of two
 * pairs fits in int16. 8-bit weights are computed as |w| * (x with the sign of w): one pair fits.
 *
 * The including file defines products(w, x, bits): vpmaddubsw of one vector.
 */
static inline IVEC i_dot(IVEC sum, const IVEC *w, const IVEC *x, int bits)
{
    IVEC a = products(w[0], x[0], bits), b = products(w[1], x[1], bits);
    if (bits < 8)
        return i_add(sum, i_add_pairs(i_add16(a, b)));
    return i_add(i_add(sum, i_add_pairs(a)), i_add_pairs(b));
}
