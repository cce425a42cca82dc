'use strict';
// Making elements. Text goes in as text, styles through the CSSOM (the page's policy forbids style
// attributes), and nothing here ever parses markup.
const Dom = (() => {
    function add(el, child) {
        if (Array.isArray(child)) child.forEach((c) => add(el, c));
        else if (child instanceof Node) el.append(child);
        else if (child !== null && child !== undefined && child !== false) el.append(String(child));
    }

    // h('button.small#next', {on: {click}, style: {width}, title: ''}, children...)
    function h(what, props, ...children) {
        const [, tag, rest] = /^([a-z0-9]+)(.*)$/.exec(what);
        const el = document.createElement(tag);
        for (const part of rest.match(/[.#][^.#]+/g) || [])
            if (part[0] === '#') el.id = part.slice(1);
            else el.classList.add(part.slice(1));
        for (const [key, value] of Object.entries(props || {})) {
            if (key === 'on') for (const [event, fn] of Object.entries(value)) el.addEventListener(event, fn);
            else if (key === 'style') for (const [k, v] of Object.entries(value)) el.style.setProperty(k, v);
            else if (value === true) el.setAttribute(key, '');
            else if (value !== false && value !== null && value !== undefined) el.setAttribute(key, value);
        }
        children.forEach((c) => add(el, c));
        return el;
    }

    // An element of a drawing.
    function svg(tag, props, ...children) {
        const el = document.createElementNS('http://www.w3.org/2000/svg', tag);
        for (const [k, v] of Object.entries(props)) el.setAttribute(k, v);
        el.append(...children);
        return el;
    }

    // A formula: W_Q with a subscript.
    const math = (text) => text.split(/_(\w+)/).map((part, i) => (i % 2 ? h('sub', null, part) : part));

    function fill(el, ...children) {
        el.replaceChildren();
        children.forEach((c) => add(el, c));
        return el;
    }

    const COMMON = ['token', 'tokens', 'key', 'keys', 'value', 'head', 'query', 'norm']; // words that heads of tables need not explain

    // A table with a head; `rows` are arrays of cells or {cells, selected, dim}. Numbers are on the
    // right.
    function table(caption, head, rows, kind = '') {
        const isBar = (c) => c instanceof Node && c.classList.contains('bar');
        const exact = (c) => (c && c.x !== undefined ? { 'data-x': c.x } : null); // Numbers.cell
        const cell = (tag, c, i) => h(tag + (isBar(c) ? '.bars' : typeof c === 'number' || i > 0 ? '.num' : ''),
            tag === 'th' ? { scope: 'col' } : exact(c), c);
        return h('table.plain' + kind + (rows.some((r) => (r.cells || r).some(isBar)) ? '.wide' : ''), null,
            caption && h('caption', null, caption),
            h('thead', null, h('tr', null, head.map((c, i) => cell(c === '' ? 'td' : 'th', typeof c === 'string' ? Glossary.text(c, new Set(COMMON)) : c, i)))),
            h('tbody', null, rows.map((row) => {
                const cells = row.cells || row;
                return h('tr' + (row.selected ? '.selected' : '') + (row.dim ? '.dim' : ''), null,
                    cells.map((c, i) => (i === 0 ? h('th', { scope: 'row', ...exact(c) }, c) : cell('td', c, i))));
            })));
    }

    // A horizontal bar. share: 0..1; with `sign` it grows from the middle to either side (share
    // -1..1).
    function bar(share, sign = false, kind = '') {
        const size = Math.min(1, Math.abs(share)) || 0;
        const fillEl = h('span.fill' + (share < 0 ? '.negative' : '') + kind, { style: sign
            ? { width: `${50 * size}%`, left: `${share < 0 ? 50 - 50 * size : 50}%` }
            : { width: `${100 * size}%` } });
        return h('span.bar' + (sign ? '.signed' : ''), { 'aria-hidden': 'true' }, fillEl);
    }

    // A slider that shows its name and its value.
    function slider(name, { min, max, step, value, id, show = String, on }) {
        const out = h('output', null, show(value));
        const input = h('input', { type: 'range', min, max, step, value, id, 'aria-label': name });
        input.addEventListener('input', () => {
            out.textContent = show(Number(input.value));
            on(Number(input.value));
        });
        const el = h('label.slider', null, h('span', null, name), input, out);
        return { el, input, set(v) {
            if (Number(input.value) !== v) input.value = v;
            out.textContent = show(v);
        } };
    }

    // Brings a child into the middle of what scrolls. With the frame, when the browser lays the
    // page out anyway.
    function center(el, child) {
        requestAnimationFrame(() => {
            if (child && child.isConnected) el.scrollLeft = child.offsetLeft - el.clientWidth / 2;
        });
    }

    // [rows, columns] by which an arrow key moves, and nobody else hears of it; null: another key, or one with Ctrl, Alt or Meta.
    const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    function arrow(e, moves = ARROWS) {
        const by = e.ctrlKey || e.altKey || e.metaKey ? null : moves[e.key];
        if (!by) return null;
        e.preventDefault();
        e.stopPropagation();
        return by;
    }

    // What scrolls can be reached by Tab, so that its keys scroll.
    function reach() {
        for (const el of document.querySelectorAll('.scroll, .tall, p.running')) {
            if (el.scrollWidth > el.clientWidth + 1 || el.scrollHeight > el.clientHeight + 1) el.tabIndex = 0;
            else el.removeAttribute('tabindex');
        }
    }

    const button = (text, click, { kind = '', ...props } = {}) => h('button' + kind, { type: 'button', ...props, on: { click } }, text);

    // One of a few: [[value, text]...]. Native radio buttons, so that arrow keys work.
    function choice(name, options, value, on) {
        const inputs = options.map(([v, text]) => {
            const input = h('input', { type: 'radio', name, value: v, checked: v === value, on: { change: () => on(v) } });
            return [v, input, h('label', null, input, h('span', null, text))];
        });
        const el = h('span.choice', { role: 'radiogroup', 'aria-label': name }, inputs.map((i) => i[2]));
        return { el, set(v) { for (const [w, input] of inputs) input.checked = w === v; } };
    }

    // A whole number that is typed, from 0 to most. name: in messages.
    function whole(input, name, most) {
        const v = input.value.trim();
        if (!/^\d+$/.test(v) || Number(v) > most) throw new Error(`${name}: expected 0 to ${most}, found “${v}”.`);
        return Number(v);
    }

    // Chooses a file of at most `most` bytes for take(file); what goes wrong is said after `before`.
    function file(id, accept, most, take, before) {
        return h('input', { id, type: 'file', accept, on: { change: async (e) => {
            const f = e.target.files[0];
            if (f) await App.tried(() => {
                if (f.size > most) throw new Error(`${f.name} has ${Numbers.count(f.size)} bytes, more than ${Numbers.count(most)}.`);
                return take(f);
            }, before);
            e.target.value = '';
        } } });
    }

    function check(text, value, on) {
        const input = h('input', { type: 'checkbox', checked: value, on: { change: () => on(input.checked) } });
        return { el: h('label.check', null, input, h('span', null, text)), input };
    }

    function select(name, options, value, on) {
        const el = h('select', { 'aria-label': name, on: { change: () => on(el.value) } },
            options.map(([v, text]) => h('option', { value: v, selected: v === value }, text)));
        return { el: h('label.select', null, h('span', null, name), el), set(v) { el.value = v; } };
    }

    // A titled part of a view, whose figures can be saved.
    function card(title, note, ...children) {
        const el = h('section.card');
        return fill(el, Share.row(el), h('h3', null, Glossary.text(title)), note && h('p.note', null, Glossary.text(note)), children);
    }

    return { h, svg, math, fill, table, bar, slider, button, choice, whole, file, check, select, card, center, arrow, ARROWS, reach };
})();
