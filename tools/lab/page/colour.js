'use strict';
// Colour scales that colour-blind people can read: viridis for sizes (its published control points;
// CC0) and blue to orange (Okabe and Ito's blue and vermilion) through the paper's own grey for
// signs.
const Colour = (() => {
    const VIRIDIS = ['440154', '482878', '3e4989', '31688e', '26828e', '1f9e89', '35b779', '6ece58', 'b5de2b',
        'fde725'];
    const SIGNS_LIGHT = ['004a7c', '0072b2', '86bce0', 'f4f3f0', 'f0b27a', 'd55e00', '8f3d00'];
    const SIGNS_DARK = ['8fd0ff', '3f9bd8', '1d5078', '262b33', '7d4410', 'd9781f', 'ffb866'];
    const SIZE = 256;

    const parse = (hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));

    // A table of SIZE colours, straight lines between the control points.
    function ramp(points) {
        const from = points.map(parse), out = [];
        for (let i = 0; i < SIZE; i++) {
            const at = (i / (SIZE - 1)) * (from.length - 1), k = Math.min(Math.floor(at), from.length - 2);
            out.push(from[k].map((c, j) => Math.round(c + (from[k + 1][j] - c) * (at - k))));
        }
        return out;
    }

    // Relative luminance (WCAG 2).
    function luminance(rgb) {
        const [r, g, b] = rgb.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    }

    // Whichever of black and white is read better on it.
    const ink = (rgb) => (luminance(rgb) > 0.179 ? '#000' : '#fff');

    const css = (rgb) => `rgb(${rgb[0]},${rgb[1]},${rgb[2]})`;
    const sizes = ramp(VIRIDIS), light = ramp(SIGNS_LIGHT), dark = ramp(SIGNS_DARK);

    function index(t) {
        return Number.isNaN(t) ? 0 : Math.max(0, Math.min(SIZE - 1, Math.round(t * (SIZE - 1))));
    }

    // Scales: {low, high, rgb(value), at(share of the way from low to high)}. Of values from low to
    // high:
    function sequential(low, high) {
        const over = high > low ? 1 / (high - low) : 0;
        return { low, high, rgb: (v) => sizes[index((v - low) * over)], at: (t) => low + t * (high - low) };
    }

    // Of sizes below `high`, equal steps for equal ratios, as in the REPL's heatmaps.
    function logarithmic(high, decades = 4) {
        const low = high / 10 ** decades;
        return { low, high, at: (t) => low * 10 ** (t * decades),
            rgb: (v) => sizes[index(v > 0 ? 1 + Math.log10(v / high) / decades : 0)] };
    }

    // Zero in the middle; `limit` is the largest size.
    function diverging(limit, isDark) {
        const table = isDark ? dark : light, over = limit > 0 ? 0.5 / limit : 0;
        return { low: -limit, high: limit, rgb: (v) => table[index(0.5 + v * over)],
            at: (t) => limit * (2 * t - 1) };
    }

    return { sequential, logarithmic, diverging, luminance, ink, css, ramp };
})();
