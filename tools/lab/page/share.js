'use strict';
// Every figure as a file: its numbers as CSV or JSON, itself as SVG or PNG. A figure is {title, columns, rows,
// draw(g, width)}: draw returns the height and draws on a canvas, or on a pen that writes SVG. Tables are figures
// by what they hold; anything else says what it is once (figure()).
const Share = (() => {
    const { h } = Dom;
    const MARGIN = 24, WIDTH = 900, GAP = 26, ROW = 22, BARS = 130, DENSE = 2;
    const told = new WeakMap();

    // `get`() gives the figure that this element is now, or null.
    function figure(el, get) {
        told.set(el, get);
        el.dataset.figure = '';
        return el;
    }

    const plain = (el) => el.textContent.replace(/\s+/g, ' ').trim();

    // ---- tables ----

    // A cell's number in all digits, or its text.
    function valueOf(cell) {
        const text = cell.querySelector('input')?.value ?? plain(cell);
        if (cell.dataset.x !== undefined) return Number(cell.dataset.x);
        return /^−?[\d,]+(\.\d+)?$/.test(text) ? Number(text.replace('−', '-').replace(/,/g, '')) : text;
    }

    const isBar = (cell) => Boolean(cell.querySelector('.bar'));

    function ofTable(table) {
        const all = [...table.tBodies[0].rows].map((r) => [...r.cells]), head = table.tHead ? [...table.tHead.rows[0].cells].map(plain) : [];
        const kept = (all[0] || []).map((c, i) => i).filter((i) => !all.every((r) => !r[i] || isBar(r[i]) || (!head[i] && !plain(r[i]))));
        return { title: table.caption ? plain(table.caption) : '', columns: kept.map((i) => head[i] || ''), rows: all.map((r) => kept.map((i) => (r[i] ? valueOf(r[i]) : ''))), draw: (g, width) => drawTable(g, width, head, all) };
    }

    function drawTable(g, width, head, all) {
        const c = Heat.theme(), font = (bold) => `${bold ? '600 ' : ''}12.5px ${Heat.FONT}`;
        g.font = font(true);
        const n = Math.max(head.length, ...all.map((r) => r.length)), bars = Array.from({ length: n }, (_, i) => all.some((r) => r[i] && isBar(r[i])));
        const wide = bars.map((b, i) => (b ? BARS : 14 + Math.max(...[head[i] || '', ...all.map((r) => (r[i] ? plain(r[i]) : ''))].map((t) => g.measureText(t).width))));
        const words = (text, i, x, y, colour, bold) => Heat.put(g, text, i && !bars[i] ? x + wide[i] - 8 : x, y, font(bold), colour, i && !bars[i] ? 'right' : 'left');
        [head.map((t) => ({ t })), ...all].forEach((cells, k) => {
            let x = 0;
            cells.forEach((cell, i) => {
                const y = (k + 0.5) * ROW, on = cell.parentNode && cell.parentNode.classList.contains('selected');
                if (cell.t === undefined && isBar(cell)) drawBar(g, cell.querySelector('.bar'), x, y, c);
                else words(cell.t === undefined ? plain(cell) : cell.t, i, x, y, cell.t === undefined && !cell.parentNode.classList.contains('dim') ? c.ink : c.soft, on);
                x += wide[i];
            });
        });
        return ROW * (all.length + 1);
    }

    function drawBar(g, bar, x, y, c) {
        const { left, width } = bar.firstChild.style, share = (v) => (parseFloat(v) || 0) / 100, room = BARS - 16;
        g.fillStyle = c.line;
        g.fillRect(x, y - 5, room, 10);
        g.fillStyle = getComputedStyle(bar.firstChild).backgroundColor;
        g.fillRect(x + room * share(left), y - 5, Math.max(0.5, room * share(width)), 10);
    }

    // ---- matrices ----

    // m as Matrix.update takes it.
    function ofMatrix(title, m, shape = {}) {
        const seen = (i, j) => !(m.masked && m.masked(i, j)), one = (label, i) => label(i).replace('\n', ' ');
        return { title: m.title || title, columns: [m.rowName, ...Array.from({ length: m.cols }, (_, j) => one(m.colLabel, j))],
            rows: Array.from({ length: m.rows }, (_, i) => [one(m.rowLabel, i), ...Array.from({ length: m.cols }, (__, j) => (seen(i, j) ? m.value(i, j) : null))]),
            draw: (g, width) => {
                const p = Heat.plan(g, m, width, { most: 64, ...shape });
                Heat.draw(g, m, p, true);
                return p.h + (m.scale.plain ? 0 : legend(g, m, p.left, p.h + 8));
            } };
    }

    // The colours and their ends; returns its height.
    function legend(g, m, x, y) {
        const c = Heat.theme(), [low, high] = m.scale.names || [m.format(m.scale.low), m.format(m.scale.high)], n = 48;
        const font = `11px ${Heat.FONT}`;
        g.font = font;
        const from = x + g.measureText(low).width + 8;
        Heat.put(g, low, x, y + 6, font, c.soft);
        Heat.put(g, high, from + 2 * n + 8, y + 6, font, c.soft);
        for (let i = 0; i < n; i++) {
            g.fillStyle = Colour.css(m.scale.rgb(m.scale.at(i / (n - 1))));
            g.fillRect(from + 2 * i, y, 2.3, 11);
        }
        return 20;
    }

    // ---- drawings ----

    // An <svg> of lines, circles and words with these numbers.
    function ofDrawing(title, svg, columns, rows) {
        return { title, columns, rows, draw: (g) => {
            g.save();
            for (const el of svg.children) drawElement(g, el);
            g.restore();
            return svg.viewBox.baseVal.height;
        } };
    }

    function drawElement(g, el) {
        const style = getComputedStyle(el), at = (name) => Number(el.getAttribute(name));
        const points = { line: () => [[at('x1'), at('y1')], [at('x2'), at('y2')]], polyline: () => Array.from(el.points, (p) => [p.x, p.y]) }[el.tagName];
        [g.strokeStyle, g.lineWidth, g.fillStyle, g.globalAlpha] = [style.stroke, parseFloat(style.strokeWidth), style.fill, Number(style.strokeOpacity)];
        g.setLineDash(style.strokeDasharray === 'none' ? [] : style.strokeDasharray.split(',').map(parseFloat));
        g.beginPath();
        if (points) {
            points().forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
            g.stroke();
        } else if (el.tagName === 'circle') {
            g.arc(at('cx'), at('cy'), at('r'), 0, 2 * Math.PI);
            g.fill();
        } else {
            const align = { start: 'left', middle: 'center', end: 'right' }[style.textAnchor];
            Heat.put(g, el.textContent, at('x'), at('y'), `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`, style.fill, align, 'alphabetic');
        }
    }

    // ---- files ----

    // All figures of a part of the page.
    function of(root) {
        const all = [root, ...root.querySelectorAll('[data-figure], table.plain')].filter((el) => (told.has(el) || el.matches('table.plain')) && el.checkVisibility() && !el.parentNode.closest('[data-figure]'));
        return all.map((el) => (told.has(el) ? told.get(el)() : ofTable(el))).filter((f) => f && f.rows.length);
    }

    function titleOf(root) {
        if (root.tagName === 'FIGURE') return root.getAttribute('aria-label');
        const head = root.querySelector('h3'), lead = root.querySelector('.lead');
        return [head && plain(head), lead ? plain(lead) : (of(root)[0] || {}).title].filter(Boolean).join(': ');
    }

    // What the numbers are of: a lesson, or the model and its text.
    function sourceOf(root) {
        const lesson = root.closest('.lesson');
        if (lesson) return { lesson: plain(lesson.querySelector('h2')), link: `#view=lessons&lesson=${lesson.id.replace('lesson-', '')}` };
        return { model: Engine.info.name || Engine.info.arch, link: Link.format(App.state), tokens: Array.from(App.state.ids), text: Array.from(App.state.ids, (id) => Engine.piece(id).text) };
    }

    // Title, then the figures below each other; returns the height.
    function drawAll(g, root, height) {
        const c = Heat.theme(), all = of(root), text = (words, y, font, colour) => Heat.put(g, words, MARGIN, y, `${font} ${Heat.FONT}`, colour, 'left', 'alphabetic');
        g.fillStyle = c.paper;
        g.fillRect(0, 0, WIDTH, height);
        text(titleOf(root), MARGIN + 14, '600 16px', c.ink);
        const { lesson, model, tokens } = sourceOf(root);
        text(lesson ? `mgpt lab · lesson ${lesson}` : `${model} · “${Running.ofTokens(tokens.slice(Engine.info.front.length)).replace(/\s+/g, ' ').slice(0, 90)}”`, MARGIN + 34, '12px', c.soft);
        let y = MARGIN + 52;
        for (const f of all) {
            if (all.length > 1 && f.title) text(f.title, y + 10, '600 12.5px', c.ink);
            y += all.length > 1 && f.title ? 20 : 0;
            g.save();
            g.translate(MARGIN, y);
            y += f.draw(g, WIDTH - 2 * MARGIN) + GAP;
            g.restore();
        }
        return Math.ceil(y - GAP + MARGIN);
    }

    const heightOf = (root) => drawAll(Pen.create(WIDTH, 1), root, 1);

    function svg(root) {
        const height = heightOf(root), pen = Pen.create(WIDTH, height);
        drawAll(pen, root, height);
        return pen.text();
    }

    function png(root) {
        const height = heightOf(root), canvas = h('canvas', { width: WIDTH * DENSE, height: height * DENSE }), g = canvas.getContext('2d');
        g.scale(DENSE, DENSE);
        drawAll(g, root, height);
        return new Promise((done) => canvas.toBlob(done));
    }

    // A spreadsheet would run a text that begins like a formula; an apostrophe makes it a text. Numbers stay.
    const defused = (v) => (/^[=+\-@\t\r]/.test(v) && !/^[+-]?(\d|\.\d|Infinity$)/.test(v) ? `'${v}` : v);
    const quoted = (v) => (/[",\n\r]/.test(v) ? `"${v.replace(/"/g, '""')}"` : v);
    const csvOf = (f) => [f.columns, ...f.rows].map((r) => `${r.map((v) => quoted(defused(v === null ? '' : String(v)))).join(',')}\r\n`).join('');

    // Several figures follow each other, each after a line with its title.
    function csv(root) {
        const all = of(root);
        return all.length === 1 ? csvOf(all[0]) : all.map((f) => `# ${f.title}\r\n${csvOf(f)}`).join('\r\n');
    }

    function json(root) {
        const { link, ...source } = sourceOf(root);
        return `${JSON.stringify({ ...source, title: titleOf(root), link, figures: of(root).map(({ title, columns, rows }) => ({ title, columns, rows })) })}\n`;
    }

    const KINDS = { SVG: [svg, 'image/svg+xml', 'a picture of lines'], PNG: [png, 'image/png', 'a picture of pixels'], CSV: [csv, 'text/csv', 'the numbers as a table'], JSON: [json, 'application/json', 'the numbers with the text and this view'] };

    async function save(root, kind) {
        const [make, type] = KINDS[kind], made = await make(root), { model, lesson } = sourceOf(root), name = `${model || `lesson ${lesson}`} ${titleOf(root)}`.replace(/[^\p{L}\p{N}.]+/gu, '-').slice(0, 60).replace(/^-|-$/g, '');
        const url = URL.createObjectURL(made instanceof Blob ? made : new Blob([made], { type }));
        h('a', { href: url, download: `${name}.${kind.toLowerCase()}` }).click();
        setTimeout(() => URL.revokeObjectURL(url), 10000);
    }

    // The menu of a part of the page.
    function row(root) {
        const menu = h('details.share', { on: { focusout: (e) => { if (!menu.contains(e.relatedTarget)) menu.open = false; } } }, h('summary', { title: 'save as a file' }, 'Save'),
            h('span', { role: 'group', 'aria-label': 'save as' }, Object.entries(KINDS).map(([kind, [, , what]]) => Dom.button(kind, () => save(root, kind), { title: `save ${what}`, 'aria-label': `save as ${kind}` }))));
        return menu;
    }

    return { figure, of, ofMatrix, ofDrawing, row, svg, png, csv, csvOf, json };
})();
