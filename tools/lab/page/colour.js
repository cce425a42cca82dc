'use strict';
// The colours of numbers, which colour-blind people can tell apart: one hue from the paper to its darkest (in
// dark themes: to its lightest) for sizes, blue to orange through the paper for signs.
const Colour = (() => {
    const [LIGHT, DARK] = COLOURS; // of common/colours.h: embed.py
    const SIZE = 256;

    const parse = (hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));

    // A table of SIZE colours, straight lines between the control points.
    function ramp(points) {
        const from = points.map(parse);
        return Array.from({ length: SIZE }, (_, i) => {
            const at = (i / (SIZE - 1)) * (from.length - 1), k = Math.min(Math.floor(at), from.length - 2);
            return from[k].map((c, j) => Math.round(c + (from[k + 1][j] - c) * (at - k)));
        });
    }

    // Relative luminance (WCAG 2).
    function luminance(rgb) {
        const [r, g, b] = rgb.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    }

    // Whichever of black and white is read better on it.
    const ink = (rgb) => (luminance(rgb) > 0.179 ? '#000' : '#fff');

    const css = (rgb) => `rgb(${rgb[0]},${rgb[1]},${rgb[2]})`;
    const tables = [LIGHT, DARK].map((t) => ({ signs: ramp(t.signs), shares: ramp(t.shares) }));
    let theme = 0;

    // {signs, shares}: tables of a theme.
    const of = (dark) => tables[Number(Boolean(dark))];

    // Scales are in the colours of this theme from now on.
    const begin = (dark) => { theme = Number(dark); };

    const index = (t) => Math.max(0, Math.min(SIZE - 1, Math.round(t * (SIZE - 1)))) || 0;

    // Scales: {low, high, rgb(value, row), at(share of the way from low to high)}. place(value, row): where it is in the table, from 0 to 1.
    const scale = (table, low, high, place, at) => ({ low, high, at, rgb: (v, row) => table[index(place(v, row))] });

    // Of values from low to high.
    const sequential = (low, high, over = high > low ? 1 / (high - low) : 0) => scale(tables[theme].shares, low, high, (v) => (v - low) * over, (t) => low + t * (high - low));

    // Each row from 0 to its own largest, most[row]. `names` are the ends of the legend.
    const rows = (most) => ({ names: ['0', 'the row’s largest'],
        ...scale(tables[theme].shares, 0, 1, (v, row) => (row === undefined ? v : most[row] > 0 ? v / most[row] : 0), (t) => t) });

    // Zero in the middle; `limit` is the largest size.
    const diverging = (limit, isDark, over = limit > 0 ? 0.5 / limit : 0) => scale(of(isDark).signs, -limit, limit, (v) => 0.5 + v * over, (t) => limit * (2 * t - 1));

    return { begin, of, sequential, rows, diverging, luminance, ink, css };
})();
