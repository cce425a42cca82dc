'use strict';
// A matrix as a picture with words at its rows and columns, on anything that draws as a canvas does (share.js
// writes SVG). m is what Matrix.update takes.
const Heat = (() => {
    const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif", GAP = 6, LABEL = 84, ROOM = 11, FINE = 4.3;

    const word = (label, i) => label(i).split('\n').pop();

    // {name: cell width and height, place of the first cell, room of a column's word, size of all} for a width in pixels. `shape`: {most: widest
    // cell, square, high: most pixels of all rows}.
    function plan(g, m, width, { most = 48, square = false, high = 320 } = {}) {
        g.font = `11px ${FONT}`;
        const wideOf = (label) => (_, i) => g.measureText(word(label, i)).width;
        const longest = (label, n) => Math.min(LABEL, Math.ceil(Math.max(0, ...Array.from({ length: n }, wideOf(label)))));
        const left = longest(m.rowLabel, m.rows) + GAP, wide = longest(m.colLabel, m.cols), cw = Math.max(0.5, Math.min(most, (width - left - 1) / m.cols));
        const flat = wide <= cw || wide < 2 * ROOM, top = (flat ? 14 : wide) + GAP, ch = square ? cw : Math.max(1, Math.min(24, high / m.rows));
        return { left, top, cw, ch, flat, room: flat ? Math.max(ROOM, wide + 4) : ROOM, w: left + cw * m.cols + 1, h: top + ch * m.rows + 1 };
    }

    // to(text, middle, chosen, size) for the words that have room, which is `room` pixels; always for the chosen one.
    function words(n, each, room, label, chosen, to) {
        const letters = n * 1.5 > Array.from({ length: n }, (_, i) => word(label, i)).join('').length, short = letters && each >= FINE;
        const step = Math.ceil((short ? FINE : room) / each), size = Math.max(7, Math.min(12, each * 1.2));
        for (let i = 0; i < n; i++) {
            if (i !== chosen && ((letters && step > 1) || i % step || (chosen >= 0 && Math.abs(i - chosen) * each < (short ? 8 : each < room ? room - 3 : 0)))) continue;
            to(word(label, i), (i + 0.5) * each, i === chosen, i === chosen ? 12 : short ? size : 11);
        }
    }

    // A text at x, y.
    function put(g, text, x, y, font, colour, align = 'left', base = 'middle') {
        [g.font, g.fillStyle, g.textAlign, g.textBaseline] = [font, colour, align, base];
        g.fillText(text, x, y);
    }

    function labels(g, m, p, colours) {
        const write = (text, x, y, align, chosen, size) => {
            const font = `${chosen ? '700 ' : ''}${size}px ${FONT}`;
            put(g, cut(g, text, font), x, y, font, chosen ? colours.accent : colours.soft, align);
        };
        words(m.rows, p.ch, ROOM, m.rowLabel, m.selected[0], (text, at, ...how) => write(text, p.left - GAP, p.top + at, 'right', ...how));
        words(m.cols, p.cw, p.room, m.colLabel, m.selected[1], (text, at, ...how) => {
            g.save();
            g.translate(p.left + at, p.top - GAP - (p.flat ? 3 : 0));
            if (!p.flat) g.rotate(-Math.PI / 2);
            write(text, 0, 0, p.flat ? 'center' : 'left', ...how);
            g.restore();
        });
    }

    function cut(g, text, font) {
        g.font = font;
        if (g.measureText(text).width <= LABEL) return text;
        let n = text.length;
        while (n > 1 && g.measureText(`${text.slice(0, n)}…`).width > LABEL) n--;
        return `${text.slice(0, n)}…`;
    }

    // Cells at plan p. `digits`: their numbers, where they have room.
    function cells(g, m, p, digits) {
        const gap = p.cw > 14 && p.ch > 7 ? 1 : 0, room = digits && p.cw >= 34 && p.ch >= 13;
        for (let i = 0; i < m.rows; i++)
            for (let j = 0; j < m.cols; j++) {
                if (m.masked && m.masked(i, j)) continue;
                const v = m.value(i, j), rgb = m.scale.rgb(v, i), x = p.left + j * p.cw, y = p.top + i * p.ch;
                g.fillStyle = Colour.css(rgb);
                g.fillRect(x, y, p.cw - gap + (gap ? 0 : 0.3), p.ch - gap + (gap ? 0 : 0.3));
                if (room) put(g, m.format(v).slice(0, 8), x + p.cw / 2, y + p.ch / 2, `${Math.min(12, p.cw / 4.6)}px ui-monospace, Menlo, Consolas, monospace`, Colour.ink(rgb), 'center');
            }
    }

    // The chosen row as two lines, the chosen cell as a frame.
    function choice(g, m, p, colours) {
        const [i, j] = m.selected, right = p.left + p.cw * (m.triangle ? i + 1 : m.cols), y = p.top + i * p.ch;
        if (i < 0 || i >= m.rows) return;
        g.strokeStyle = colours.accent;
        g.lineWidth = 1;
        g.strokeRect(p.left - 0.5, y - 0.5, right - p.left + 1, p.ch + 1);
        if (j < 0 || j >= m.cols) return;
        const x = p.left + j * p.cw;
        for (const [colour, by, width] of [[colours.paper, 1, 3.5], [colours.accent, 1, 2]]) {
            g.strokeStyle = colour;
            g.lineWidth = width;
            g.strokeRect(x - by, y - by, p.cw + 2 * by, p.ch + 2 * by);
        }
    }

    // {accent, soft, ink, line, card} of the theme.
    function theme() {
        const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(`--${name}`).trim();
        return { accent: of('accent'), soft: of('soft'), ink: of('ink'), line: of('line'), paper: of('card') };
    }

    function draw(g, m, p, digits = false) {
        const colours = theme();
        cells(g, m, p, digits);
        labels(g, m, p, colours);
        choice(g, m, p, colours);
    }

    // On a canvas as wide as it may be, sharp on dense screens. Returns the plan.
    function show(canvas, m, width, shape) {
        const g = canvas.getContext('2d'), p = plan(g, m, width, shape), dense = Math.min(2, window.devicePixelRatio || 1);
        canvas.width = Math.round(p.w * dense);
        canvas.height = Math.round(p.h * dense);
        canvas.style.setProperty('width', `${p.w}px`);
        canvas.style.setProperty('height', `${p.h}px`);
        g.setTransform(dense, 0, 0, dense, 0, 0);
        g.clearRect(0, 0, p.w, p.h);
        draw(g, m, p);
        return p;
    }

    return { plan, draw, show, theme, put, FONT };
})();
