/* Floor 1. i_dot of int_tile_tmpl.h for rungs without a dot product of bytes. vpmaddubsw multiplies
 * unsigned bytes by signed ones and adds pairs of products in int16: with weights of six bits two
 * such pairs fit. Weights of eight bits are taken as |w| times x with the sign of w: 128 * 127 * 2
 * fits, once.
 *
 * The including file defines products(w, x, bits), which is that, of a vector.
 */
static inline IVEC i_dot(IVEC sum, const IVEC *w, const IVEC *x, int bits)
{
    IVEC a = products(w[0], x[0], bits), b = products(w[1], x[1], bits);
    if (bits < 8)
        return i_add(sum, i_add_pairs(i_add16(a, b)));
    return i_add(i_add(sum, i_add_pairs(a)), i_add_pairs(b));
}
