'use strict';
// A matrix as a heatmap that is also a table: every cell holds its number, rows and columns are
// named, arrow keys move. One that is too large for reading is a picture (heat.js) instead, which says
// the number of the chosen cell.
const Matrix = (() => {
    const { h, fill } = Dom;
    const WIDE = 10; // columns that can fill the width, unless another number is given

    // Fills a canvas with one pixel per cell. Masked cells stay clear.
    function draw(canvas, m) {
        if (canvas.width !== m.cols) canvas.width = m.cols;
        if (canvas.height !== m.rows) canvas.height = m.rows;
        const context = canvas.getContext('2d', { willReadFrequently: true });
        if (!m.rows || !m.cols) return;
        const image = context.createImageData(m.cols, m.rows), data = image.data;
        for (let i = 0, at = 0; i < m.rows; i++)
            for (let j = 0; j < m.cols; j++, at += 4) {
                if (m.masked && m.masked(i, j)) continue;
                data.set([...m.scale.rgb(m.value(i, j), m.ramp ? undefined : i), 255], at);
            }
        context.putImageData(image, 0, 0);
    }

    // {el, update(m)} with m = {rows, cols, rowName, colName, rowLabel(i), colLabel(j), value(i,
    // j), masked(i, j): it is not there, scale, format(v), selected: [i, j], onSelect(i,
    // j), onChoose(i, j) (click or Enter), onHover(i, j), triangle: keys end at the query}. `picture`: heat.js.
    function create(label, { maxRows = 16, maxCols = 16, id = '', fill: filling = false, wide: most = WIDE, picture = {} } = {}) {
        const canvas = h('canvas.heat', { tabindex: 0, role: 'application', 'aria-label': `${label}, arrow keys move`, on: { mouseleave: () => showReadout() } });
        const whole = h('div.whole', { hidden: true }, canvas);
        const table = h('table', { role: 'grid', 'aria-label': label });
        const readout = h('p.readout', { 'aria-live': 'polite' });
        const low = h('span'), high = h('span'), ramp = h('canvas.ramp', { 'aria-hidden': 'true' });
        const numbers = h('div.scroll', null, table);
        const el = h('div.matrix' + (id ? '#' + id : ''), null, whole, h('div.under', null, readout, h('p.legend', null, low, ramp, high)), numbers);
        const headRow = h('tr'), body = h('tbody'), corner = h('td.corner'), colours = new WeakMap();
        let m = null, cells = [], heads = [], sides = [], entry = null, plan = null, wide = 0;
        headRow.append(corner);
        table.append(h('thead', null, headRow), body);

        // Rows and columns come and go at the ends: what stays need not be laid out again.
        function resize(r, c) {
            for (; heads.length > c;) heads.pop().remove();
            for (; heads.length < c;) heads.push(headRow.appendChild(h('th', { scope: 'col' })));
            for (; sides.length > r; cells.pop()) sides.pop().parentNode.remove();
            for (; sides.length < r; cells.push([])) {
                sides.push(h('th', { scope: 'row' }));
                body.append(h('tr', null, sides[sides.length - 1]));
            }
            cells.forEach((line, i) => {
                for (; line.length > c;) line.pop().remove();
                for (; line.length < c;) line.push(sides[i].parentNode.appendChild(h('td', { role: 'gridcell', tabindex: -1,
                    'aria-selected': 'false', 'data-at': `${i} ${line.length}` })));
            });
        }

        // Writing the same text again would cost a layout.
        function write(el, text, kind) {
            if (el.textContent !== text) el.textContent = text;
            if (el.className !== kind) el.className = kind;
        }

        function paint(i, j) {
            const cell = cells[i][j], hidden = m.masked && m.masked(i, j);
            const v = m.value(i, j), chosen = i === m.selected[0] && j === m.selected[1];
            if (chosen !== cell.classList.contains('chosen')) {
                cell.tabIndex = chosen ? 0 : -1;
                cell.setAttribute('aria-selected', chosen);
            }
            write(cell, hidden ? '·' : m.format(v), (hidden ? 'masked ' : '') + (chosen ? 'chosen ' : '') +
                (i === m.selected[0] || j === m.selected[1] ? 'cross' : ''));
            const rgb = hidden ? null : m.scale.rgb(v, i), colour = rgb ? Colour.css(rgb) : '';
            if (colours.get(cell) === colour) return;
            colours.set(cell, colour);
            cell.style.setProperty('background-color', colour);
            cell.style.setProperty('color', rgb ? Colour.ink(rgb) : '');
        }

        function showWhole() {
            plan = whole.hidden ? null : Heat.show(canvas, m, wide = whole.clientWidth || 320, picture);
        }

        function showReadout([i, j] = m.selected) {
            if (i < 0 || j < 0 || i >= m.rows || j >= m.cols) return fill(readout);
            return fill(readout, `${m.rowName} ${m.rowLabel(i)}, ${m.colName} ${m.colLabel(j)}: `,
                h('b', null, m.masked && m.masked(i, j) ? 'not seen' : Numbers.exact(m.value(i, j))));
        }

        function update(next) {
            m = { format: Numbers.fixed, selected: [-1, -1], ...next };
            const large = m.rows > maxRows + 4 || m.cols > maxCols + 4;
            whole.hidden = !large;
            el.classList.toggle('large', large);
            el.classList.toggle('filling', filling && !large && m.cols <= most);
            el.style.setProperty('--cols', m.cols);
            numbers.hidden = large;
            if (!large) showTable();
            showWhole();
            showReadout();
            const names = m.scale.names || [m.format(m.scale.low), m.format(m.scale.high)];
            [low.textContent, high.textContent] = names;
            draw(ramp, { rows: 1, cols: 64, scale: m.scale, value: (i, j) => m.scale.at(j / 63), ramp: true });
        }

        function showTable() {
            const focused = table.contains(document.activeElement), { rows, cols } = m;
            resize(rows, cols);
            if (entry) entry.tabIndex = -1;
            write(corner, `${m.rowName} \\ ${m.colName}`, 'corner');
            heads.forEach((th, j) => write(th, m.colLabel(j), j === m.selected[1] ? 'cross' : ''));
            sides.forEach((th, i) => write(th, m.rowLabel(i), i === m.selected[0] ? 'cross' : ''));
            for (let i = 0; i < rows; i++) for (let j = 0; j < cols; j++) paint(i, j);
            const inside = cells[m.selected[0]]?.[m.selected[1]];
            entry = !inside && rows && cols ? cells[0][0] : null;
            if (entry) entry.tabIndex = 0;
            if (focused && inside) inside.focus({ preventScroll: true });
        }

        function select(i, j) {
            if (m && m.onSelect && m.rows && m.cols)
                m.onSelect(Math.max(0, Math.min(m.rows - 1, i)), Math.max(0, Math.min(m.cols - 1, j)));
        }

        const at = (target) => target.closest('td[data-at]')?.dataset.at.split(' ').map(Number);
        const MOVES = { ...Dom.ARROWS, Home: [0, -1e9], End: [0, 1e9], PageUp: [-8, 0], PageDown: [8, 0] };
        el.addEventListener('keydown', (e) => {
            const cell = e.target === canvas ? m.selected.map((x) => Math.max(0, x)) : at(e.target);
            if (cell && e.key === 'Enter' && m.onChoose) m.onChoose(cell[0], cell[1]);
            const by = cell && Dom.arrow(e, MOVES);
            if (by) select(cell[0] + by[0], cell[1] + by[1]);
        });
        // The cell of the picture under the pointer; null: none.
        const under = (e) => {
            const box = canvas.getBoundingClientRect(), i = Math.floor((e.clientY - box.top - plan.top) / plan.ch), j = Math.floor((e.clientX - box.left - plan.left) / plan.cw);
            return i >= 0 && j >= 0 && i < m.rows && j < m.cols ? [i, j] : null;
        };
        const cellOf = (e) => (e.target === canvas ? under(e) : at(e.target));
        el.addEventListener('click', (e) => {
            const cell = cellOf(e), drawn = e.target === canvas;
            if (!cell) return;
            select(...cell);
            if (!drawn) cells[cell[0]]?.[cell[1]]?.focus({ preventScroll: true });
            if (m.onChoose) m.onChoose(...(drawn ? m.selected : cell));
        });
        el.addEventListener('mousemove', (e) => {
            const cell = m && cellOf(e);
            if (cell && m.onHover) m.onHover(...cell);
            if (e.target === canvas) showReadout(cell || m.selected);
        });
        new ResizeObserver(() => { if (plan && whole.clientWidth && whole.clientWidth !== wide) showWhole(); }).observe(whole);
        Share.figure(el, () => m && Share.ofMatrix(label, m, picture));
        return { el, update };
    }

    // A button with a small picture and what is said of it: {canvas, el}.
    function thumb(text, click, props = {}) {
        const canvas = h('canvas', { 'aria-hidden': 'true' });
        return { canvas, el: Dom.button([canvas, text], click, props) };
    }

    return { create, draw, thumb };
})();
