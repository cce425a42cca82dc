/* The colours of numbers. Colour-blind people can tell them apart. Numbers with a sign go from blue (minus)
 * through the background to rust (plus), numbers without one from the background to one hue. Values
 * between two entries are interpolated. Terminals (screen.c), `patch --html`, notebooks (python/rows.c)
 * and pages of the lab (lab/embed.py reads these lines) all use this table. */
#ifndef MGPT_COLOURS_H
#define MGPT_COLOURS_H

#define COLOURS_SIGNS_LIGHT 0x123f73, 0x2f73b0, 0x8fb8da, 0xf3f1ec, 0xe3ae86, 0xb9551a, 0x6f2d06
#define COLOURS_SIGNS_DARK 0xb5dafb, 0x5f9fdb, 0x2c5580, 0x22242b, 0x7a4a26, 0xdd8642, 0xffd2a6
#define COLOURS_SHARES_LIGHT 0xf6f4fb, 0xcfc2f2, 0x9a7fe3, 0x6a3fd0, 0x35187f
#define COLOURS_SHARES_DARK 0x1f1d2b, 0x43357a, 0x7256c9, 0xa78cff, 0xefe9ff

/* The colour, 0xrrggbb, at a place from 0 to 1 among n points. */
static inline unsigned colours_at(const unsigned *points, int n, double place)
{
    double at = place > 0 ? (place < 1 ? place : 1) * (n - 1) : 0;
    int i = at < n - 1 ? (int)at : n - 2;
    unsigned mixed = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double a = points[i] >> shift & 255, b = points[i + 1] >> shift & 255;
        mixed |= (unsigned)(a + (at - i) * (b - a) + 0.5) << shift;
    }
    return mixed;
}

#endif
