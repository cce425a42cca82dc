'use strict';
// A matrix as an image of one pixel per cell, and smaller copies of it for when a pixel holds several
// cells: each copy shows the root mean square of its cells with the sign of their sum, so that large
// weights stay seen from afar. Made when it is first drawn.
const HomeBake = (() => {
    const weightsKept = new Map();
    Engine.forget.push(() => weightsKept.clear());
    const PAPER = [[251, 250, 247], [19, 20, 25]];
    const MANY = 60, ROWS = 64; // tokens from which rows of shares have their own scale; rows painted in one go

    const TABLES = PAPER.map((paper, dark) => {
        const { signs, shares } = Colour.of(dark), middle = signs[128];
        return { signs, shares, pale: signs.map((c) => c.map((v, i) => Math.round((v + middle[i] + (paper[i] - middle[i]) * 0.35) / 2))) };
    });

    let theme = 0, valuesKept = new Map(), run = -1, end = 0;

    // The colour of a share from 0 to 1.
    const shareColour = (v, dark) => Colour.of(dark).shares[Math.round(255 * v)];

    // The colour of a number divided by the largest, from -1 to 1.
    const signColour = (v, dark) => Colour.of(dark).signs[Math.round(127.5 + 127.5 * Math.sign(v) * Math.min(1, Math.abs(v)) ** 0.8)];

    // Before a frame: colours of the theme; images of an earlier run are dropped (keys name the theme). budget: milliseconds
    // of this frame for images that are not made yet.
    function begin(dark, budget) {
        end = performance.now() + budget;
        theme = Number(dark);
        if (run !== App.changed) valuesKept = new Map();
        run = App.changed;
    }

    const store = (m) => (m.kind === 'w' ? weightsKept : valuesKept);
    const keyOf = (m) => `${m.id}${m.of || ''} ${m.rows}x${m.cols} ${m.ids || ''} ${theme}`;

    // What is drawn in full colour, in terms of the root mean square of the matrix; shares end at 1.
    const limitOf = (m) => (m.kind === 'a' ? 1 : HomeData.kept(store(m), `limit ${keyOf(m)}`, () => {
        let sum = 0, n = 0;
        const step = Math.max(1, Math.floor((m.rows * m.cols) / 20000));
        for (let i = 0; i < m.rows * m.cols; i += step) {
            const v = m.get(Math.floor(i / m.cols), i % m.cols);
            if (!Number.isFinite(v)) continue;
            sum += v * v;
            n++;
        }
        return (m.kind === 'w' ? 4 : 2.4) * Math.sqrt(sum / Math.max(1, n)) || 1;
    }));

    const table = (m, vivid) => TABLES[theme][m.kind === 'a' ? 'shares' : m.kind === 'w' && !vivid ? 'pale' : 'signs'];

    // The place in its table of a number's colour.
    function placeOf(m, v, limit) {
        const t = m.kind === 'a' ? v : 0.5 + 0.5 * Math.sign(v) * Math.min(1, Math.abs(v) / limit) ** 0.8;
        return Math.max(0, Math.min(255, Math.round(255 * (Number.isNaN(t) ? 0.5 : t))));
    }

    // Shares of many tokens are small: there each row's largest is drawn full.
    const rowLimit = (m, r) => (m.kind !== 'a' || m.rows <= MANY ? 1 : HomeData.kept(valuesKept, `rows ${keyOf(m)}`, () => Float32Array.from({ length: m.rows }, (_, i) => {
        let most = 0.2;
        for (let j = 0; j < (m.tri ? i + 1 : m.cols); j++) most = Math.max(most, m.get(i, j));
        return most;
    }))[r]);

    const rgb = (m, r, c, vivid = true) => table(m, vivid)[placeOf(m, m.get(r, c) / rowLimit(m, r), limitOf(m))];

    // The value of a block of cells; NaN: nothing is there.
    function blockOf(m, r0, c0, dr, dc) {
        let sum = 0, squares = 0, n = 0;
        for (let r = r0; r < Math.min(m.rows, r0 + dr); r++)
            for (let c = c0; c < Math.min(m.cols, c0 + dc); c++) {
                const v = m.tri && c > r ? NaN : m.get(r, c);
                if (!Number.isFinite(v)) continue;
                sum += v;
                squares += v * v;
                n++;
            }
        return n === 0 ? NaN : n === 1 ? sum : Math.sign(sum) * Math.sqrt(squares / n);
    }

    const late = () => performance.now() > end;

    // An image, of which no row is painted yet.
    function blank(m, dr, dc, vivid) {
        const image = document.createElement('canvas');
        image.width = Math.ceil(m.cols / dc);
        image.height = Math.ceil(m.rows / dr);
        return { image, dr, dc, limit: limitOf(m) * (dr * dc > 1 ? 0.55 : 1), colours: Uint32Array.from(table(m, vivid), ([r, g, b]) => 0xff000000 + (b << 16) + (g << 8) + r), row: 0 };
    }

    // Paints rows while there is time in this frame.
    function paint(m, { image: { width, height }, image, dr, dc, limit, colours, row }) {
        let to = row;
        const pixels = new Uint32Array(width * Math.min(height - row, ROWS));
        while (to < height && to - row < ROWS && !late()) {
            for (let x = 0, at = (to - row) * width; x < width; x++, at++) {
                const v = blockOf(m, to * dr, x * dc, dr, dc);
                if (!Number.isNaN(v)) pixels[at] = colours[placeOf(m, v / rowLimit(m, to * dr), limit)];
            }
            to++;
        }
        if (to > row) image.getContext('2d').putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), width), 0, row, 0, 0, width, to - row);
        return to;
    }

    // {image, dr, dc}: cells of dr rows and dc columns to a pixel; null: not made yet, draw again.
    function image(m, pixelsAcross, pixelsDown, vivid) {
        const level = (px) => 2 ** Math.max(0, Math.floor(Math.log2(1 / px)));
        const dr = level(pixelsDown), dc = level(pixelsAcross), key = `${keyOf(m)} ${dr} ${dc} ${vivid && m.kind === 'w'}`;
        const kept = store(m);
        if (!kept.has(key) && !late()) kept.set(key, blank(m, dr, dc, vivid));
        const made = kept.get(key);
        while (made && made.row < made.image.height && !late()) made.row = paint(m, made);
        return made && made.row === made.image.height ? made : null;
    }

    const scale = (name) => [0, 32, 64, 96, 128, 160, 192, 224, 255].map((i) => Colour.css(TABLES[theme][name][i])).join(', ');

    return { begin, image, rgb, scale, shareColour, signColour };
})();
