'use strict';
// What lessons are made of: arithmetic in float64, grids of numbers, arrows that can be dragged, charts, and
// tasks with a check. No model and no engine.
const LessonMath = (() => {
    const map = (a, f) => a.map((r, i) => r.map((v, j) => f(v, i, j)));
    const transpose = (a) => a[0].map((_, j) => a.map((r) => r[j]));
    const mul = (a, b) => a.map((r) => b[0].map((_, j) => r.reduce((s, v, k) => s + v * b[k][j], 0)));
    const { dot, length: size } = Numbers;
    const add = (a, b) => map(a, (v, i, j) => v + b[i][j]);
    const causal = (s) => map(s, (v, i, j) => (j > i ? -Infinity : v));

    // Shares of a row; a row of −∞ alone has none.
    function softmax(row) {
        const high = Math.max(...row), e = row.map((v) => (high === -Infinity ? 0 : Math.exp(v - high))), sum = e.reduce((a, b) => a + b, 0);
        return e.map((v) => (sum ? v / sum : 0));
    }

    // RMSNorm of every row.
    const norm = (a) => a.map((r) => r.map((v) => v / Math.sqrt(dot(r, r) / r.length + 1e-5)));

    // Numbers in [0, 1), the same for the same seed (xorshift32).
    function uniform(seed) {
        let s = (seed * 2654435761 + 12345) >>> 0 || 1;
        const next = () => {
            s ^= s << 13;
            s ^= s >>> 17;
            s ^= s << 5;
            return (s >>> 0) / 0x100000000;
        };
        for (let i = 0; i < 8; i++) next();
        return next;
    }

    // Normal numbers (Box and Muller).
    function normal(seed) {
        const u = uniform(seed);
        return () => Math.sqrt(-2 * Math.log(1 - u())) * Math.cos(2 * Math.PI * u());
    }

    const matrix = (next, rows, cols, by = 1) => Array.from({ length: rows }, () => Array.from({ length: cols }, () => next() * by));

    return { map, transpose, mul, dot, size, add, causal, softmax, norm, uniform, normal, matrix };
})();

const LessonParts = (() => {
    const { h, svg, math, fill, button } = Dom;
    const redraws = []; // of figures whose colours depend on the theme

    // ---- words ----

    // Paragraphs; the first use of a term in a lesson is explained, *this* is bold, = is an equation.
    function say(used, ...texts) {
        const part = (p) => (p[0] === '*' ? h('b', null, p.slice(1, -1)) : p[0] === '_' ? h('sub', null, p.slice(1)) : Glossary.text(p, used));
        return texts.map((text) => (text[0] === '=' ? h('p.eq', null, math(text.slice(1))) : h('p', null, text.split(/(\*[^*]+\*|_\w+)/).filter((p) => p).map(part))));
    }

    // With buttons to save it, where it has numbers.
    function figure(name, ...children) {
        const el = h('figure.lfig', { role: 'group', 'aria-label': name }, children);
        if (el.querySelector('[data-figure], table.plain')) el.append(Share.row(el));
        return el;
    }

    const cap = (...text) => h('figcaption', null, text);
    const named = (name, ...children) => h('div.lpart', null, h('h3', null, math(name)), h('div.scroll', null, children));

    // ---- a grid of numbers ----

    function colourOf(m, v) {
        const part = v / (m.limit || 1), dark = App.state.dark;
        if (!m.kind || !Number.isFinite(v)) return null;
        return m.kind === 'share' ? HomeBake.shareColour(Math.max(0, Math.min(1, part)), dark) : HomeBake.signColour(part, dark);
    }

    // A grid's m as Matrix.update takes it. Cells without a number are hidden.
    function matrixOf(m) {
        const high = m.limit || 1, low = m.kind === 'sign' ? -high : 0, bare = App.state.dark ? [26, 28, 34] : [255, 255, 255];
        const scale = { low, high, at: (t) => low + t * (high - low), rgb: (v) => colourOf(m, v) || bare, plain: !m.kind };
        return { rows: m.rows.length, cols: m.cols.length, rowName: '', rowLabel: (i) => m.rows[i], colLabel: (j) => m.cols[j], value: (i, j) => m.values[i][j], scale, selected: [-1, -1],
            masked: (i, j) => m.text && m.text(i, j) === '', format: (v) => (v === -Infinity ? '−∞' : Numbers.fixed(v, m.digits ?? 4)) };
    }

    // A table coloured by its numbers, {el, show(m)}. choose(i, j): a click, Enter, space, or an arrow key moved
    // there. press(i, j): the same without arrows. Without both it is only read. m: {rows, cols: names, values,
    // kind: 'share', 'sign' or none, limit: what has the full colour, digits, chosen(i, j), text(i, j) instead of a number}.
    function grid(name, { choose = null, press = null } = {}) {
        const live = choose || press, el = h('table.lgrid', { 'aria-label': name, role: live ? 'grid' : null });
        let m = null, cells = [], shape = '', at = [0, 0];

        function build() {
            cells = m.values.map((row) => row.map(() => h('td', live ? { role: 'gridcell', tabindex: -1 } : null)));
            fill(el, h('thead', null, h('tr', null, h('td'), m.cols.map((c) => h('th', { scope: 'col' }, c)))),
                h('tbody', null, cells.map((row, i) => h('tr', null, h('th', { scope: 'row' }, m.rows[i]), row))));
            at = [Math.min(at[0], cells.length - 1), Math.min(at[1], cells[0].length - 1)];
        }

        function paint(cell, i, j) {
            const v = m.values[i][j], text = m.text && m.text(i, j), chosen = Boolean(text !== '' && m.chosen && m.chosen(i, j));
            const rgb = typeof text === 'string' ? null : colourOf(m, v);
            cell.textContent = typeof text === 'string' ? text : Numbers.fixed(v, m.digits ?? 4);
            cell.className = chosen ? 'chosen' : '';
            cell.style.setProperty('background-color', rgb ? Colour.css(rgb) : '');
            cell.style.setProperty('color', rgb ? Colour.ink(rgb) : '');
            if (!live) return;
            if (chosen || press) cell.setAttribute('aria-selected', chosen);
            cell.tabIndex = i === at[0] && j === at[1] ? 0 : -1;
        }

        function show(next) {
            m = next;
            const now = [m.rows, m.cols].join('|');
            if (now !== shape) build();
            shape = now;
            cells.forEach((row, i) => row.forEach((cell, j) => paint(cell, i, j)));
        }

        const place = (target) => {
            const i = cells.findIndex((row) => row.includes(target.closest('td')));
            return i < 0 ? null : [i, cells[i].indexOf(target.closest('td'))];
        };
        const act = (to) => {
            at = to;
            (choose || press)(...to);
            show(m);
        };
        if (live) el.addEventListener('click', (e) => place(e.target) && act(place(e.target)));
        if (live) el.addEventListener('keydown', (e) => {
            const from = place(e.target), by = from && Dom.arrow(e, { ...Dom.ARROWS, Enter: [0, 0], ' ': [0, 0] });
            if (!by) return;
            const to = [Math.max(0, Math.min(cells.length - 1, from[0] + by[0])), Math.max(0, Math.min(cells[0].length - 1, from[1] + by[1]))];
            if (!choose && e.key.startsWith('Arrow')) {
                at = to;
                show(m);
            } else act(to);
            cells[to[0]][to[1]].focus();
        });
        redraws.push(() => m && show(m));
        Share.figure(el, () => m && Share.ofMatrix(name, matrixOf(m)));
        return { el, show };
    }

    // ---- drawings ----

    const picture = (w, height, kind) => svg('svg', { viewBox: `0 0 ${w} ${height}`, class: kind, role: 'img', 'aria-label': 'a chart' });

    // Words as arrows from the middle, {el, show(names, rows, what)}. move(i, [x, y]): an arrow was dragged.
    function plane(move = null) {
        const REACH = 1.7, SIZE = 300, BEYOND = 15, el = picture(SIZE, SIZE, 'lplane'), to = (v) => SIZE / 2 + (v * SIZE) / (2 * REACH);
        let held = -1, shown = null;
        Share.figure(el, () => shown);
        const drag = (e) => {
            const box = el.getBoundingClientRect(), at = (v, from, n) => Math.round((((v - from) / n) * 2 - 1) * REACH * 100) / 100;
            const clip = (v) => Math.max(-1.6, Math.min(1.6, v));
            move(held, [clip(at(e.clientX, box.left, box.width)), clip(-at(e.clientY, box.top, box.height))]);
        };
        if (move) {
            el.addEventListener('pointerdown', (e) => {
                held = e.target.dataset.i === undefined ? -1 : Number(e.target.dataset.i);
                if (held >= 0) el.setPointerCapture(e.pointerId);
            });
            el.addEventListener('pointermove', (e) => held >= 0 && drag(e));
            for (const end of ['pointerup', 'pointercancel']) el.addEventListener(end, () => { held = -1; });
        }
        // Past the tip of its arrow.
        function name(text, x, y) {
            const far = Math.hypot(x, y) || 1, across = x / far, down = -y / far;
            return svg('text', { x: Math.max(20, Math.min(SIZE - 20, to(x) + BEYOND * across)), y: Math.max(14, Math.min(SIZE - 6, to(-y) + BEYOND * down + 4)), 'text-anchor': across > 0.3 ? 'start' : across < -0.3 ? 'end' : 'middle' }, text);
        }

        function show(names, rows, what) {
            const lines = [-1, 1].flatMap((v) => [svg('line', { class: 'thin', x1: to(v), x2: to(v), y1: 0, y2: SIZE }), svg('line', { class: 'thin', y1: to(v), y2: to(v), x1: 0, x2: SIZE })]);
            shown = Share.ofDrawing(what, el, ['word', '0', '1'], rows.map((r, i) => [names[i], ...r]));
            el.setAttribute('aria-label', `${what}: ${names.map((n, i) => `${n} ${rows[i].map((v) => Numbers.fixed(v, 2)).join(', ')}`).join('; ')}`);
            el.replaceChildren(...lines, svg('line', { class: 'axis', x1: 0, x2: SIZE, y1: to(0), y2: to(0) }), svg('line', { class: 'axis', x1: to(0), x2: to(0), y1: 0, y2: SIZE }),
                ...rows.flatMap(([x, y], i) => [name(names[i], x, y), svg('line', { class: `word w${i}`, x1: to(0), y1: to(0), x2: to(x), y2: to(-y) }),
                    svg('circle', { class: `tip w${i}${move ? ' grab' : ''}`, cx: to(x), cy: to(-y), r: 6 }), ...(move ? [svg('circle', { class: 'grip', 'data-i': i, cx: to(x), cy: to(-y), r: 17 })] : [])]));
        }
        return { el, show };
    }

    // Lines over x, {el, show(what, {xs, low, high, lines: [{name, ys}], mark: an x, xName, log})}.
    function chart() {
        const W = 380, H = 190, L = 40, B = 30, el = picture(W, H, 'lchart');
        let shown = null;
        Share.figure(el, () => shown);
        function show(what, { xs, low, high, lines, mark, xName, digits = 1 }) {
            const first = xs[0], last = xs[xs.length - 1], px = (x) => L + ((x - first) / (last - first || 1)) * (W - L - 74);
            const py = (y) => H - B - ((Math.max(low, Math.min(high, y)) - low) / (high - low || 1)) * (H - B - 12);
            const ends = lines.map((l, i) => ({ i, y: py(l.ys[l.ys.length - 1]) + 4 })).sort((a, b) => a.y - b.y);
            ends.forEach((e, n) => { if (n) e.y = Math.max(e.y, ends[n - 1].y + 14); });
            shown = Share.ofDrawing(what, el, [xName, ...lines.map((l) => l.name)], xs.map((x, n) => [x, ...lines.map((l) => l.ys[n])]));
            el.setAttribute('aria-label', what);
            el.replaceChildren(...[low, (low + high) / 2, high].flatMap((y) => [svg('line', { class: 'thin', x1: L, x2: W - 74, y1: py(y), y2: py(y) }),
                svg('text', { x: L - 6, y: py(y) + 4, 'text-anchor': 'end' }, Numbers.fixed(y, digits))]),
            svg('text', { x: L, y: H - 8 }, String(first).replace('-', '−')), svg('text', { x: W - 74, y: H - 8, 'text-anchor': 'end' }, last), svg('text', { x: (L + W - 74) / 2, y: H - 8, 'text-anchor': 'middle' }, xName),
            ...(mark === undefined ? [] : [svg('line', { class: 'mark', x1: px(mark), x2: px(mark), y1: 8, y2: H - B })]),
            ...lines.map((l, i) => svg('polyline', { class: `line w${i}`, points: xs.map((x, n) => `${px(x).toFixed(1)},${py(l.ys[n]).toFixed(1)}`).join(' ') })),
            ...ends.map((e) => svg('text', { class: `name w${e.i}`, x: W - 68, y: e.y }, lines[e.i].name)));
        }
        return { el, show };
    }

    // ---- numbers that are typed ----

    function number(name, value, on, step = 0.1) {
        const box = h('input.cell', { type: 'number', step, value, 'aria-label': name });
        box.addEventListener('input', () => box.value !== '' && Number.isFinite(Number(box.value)) && on(Number(box.value)));
        return box;
    }

    // A matrix of number boxes, {el, set()}: values is changed in place.
    function boxes(name, rows, cols, values, on) {
        const all = values.map((row, i) => row.map((v, j) => number(`${name}, ${rows[i]}, ${cols[j]}`, v, (x) => {
            values[i][j] = x;
            on();
        })));
        return { el: h('table.lboxes', { 'aria-label': name }, h('thead', null, h('tr', null, h('td'), cols.map((c) => h('th', { scope: 'col' }, c)))),
            h('tbody', null, all.map((row, i) => h('tr', null, h('th', { scope: 'row' }, rows[i]), row.map((b) => h('td', null, b)))))),
        set() { values.forEach((row, i) => row.forEach((v, j) => { if (Number(all[i][j].value) !== v) all[i][j].value = v; })); } };
    }

    // ---- tasks ----

    // check() gives [right, what was found]; solved() is told once.
    function task(text, check, hint, solved, ...more) {
        const out = h('p.verdict', { role: 'status' });
        const el = h('section.ltask', null, h('h3', null, 'Task'), h('p', null, math(text)), more, h('p.row', null, button('Check', () => {
            const [right, found] = check();
            out.className = `verdict ${right ? 'right' : 'wrong'}`;
            fill(out, h('b', null, right ? 'Right. ' : 'Not yet. '), found);
            if (!right) return;
            el.classList.add('solved');
            solved();
        }, { kind: '.main' }), button('Hint', () => {
            out.className = 'verdict';
            fill(out, h('b', null, 'Hint. '), math(hint));
        })), out);
        return el;
    }

    return { say, figure, cap, named, grid, plane, chart, number, boxes, task, redraws };
})();
