'use strict';
// Where heads look: all of them in small, one of them in large, and all heads of a layer for one
// query.
const Attention = (() => {
    const { h, fill, button, choice, check, card } = Dom;

    const THUMB = 88; // pixels

    let grid, thumbs, big, one, whatChoice, future, bigTitle, oneTitle, oneSums;

    const pattern = (layer) => App.tensor(`blocks.${layer}.attn.hook_pattern`);
    const scores = (layer) => App.tensor(`blocks.${layer}.attn.hook_attn_scores`);

    // All rows of a head: at(i, j), and which cells are not seen (the future; keys before a
    // window).
    function lines(t, raw, head, n) {
        const rows = [], scores = [];
        for (let i = 0; i < n; i++) {
            rows.push(App.line(t, head, i));
            scores.push(App.line(raw, head, i));
        }
        return { at: (i, j) => rows[i][j], unseen: (i, j) => j > i || scores[i][j] === -Infinity };
    }

    // q . k times the model's scale, also where the model does not look.
    function dots(state) {
        const v = Head.vectors(state);
        return (i, j) => Numbers.dot(App.row(v.q, i, state.head), App.row(v.k, j, v.kvHead)) * Engine.info.attn_scale;
    }

    // ---- all heads ----

    // Elements of all heads, made once: a canvas costs more than what is drawn on it.
    function makeGrid() {
        const { layers, heads } = Engine.info;
        thumbs = [];
        for (let layer = 0; layer < layers; layer++)
            for (let head = 0; head < heads; head++) {
                const canvas = h('canvas', { 'aria-hidden': 'true' }), text = h('span');
                const el = h('button', { type: 'button', 'data-layer': layer, 'data-head': head }, canvas, text);
                thumbs.push({ layer, head, canvas, text, el });
            }
        fill(grid, Array.from({ length: layers }, (_, l) => h('div.layer', { role: 'group', 'aria-label': `layer ${l}` },
            thumbs.slice(l * heads, (l + 1) * heads).map((t) => t.el))));
    }

    // All weights of a head in at most THUMB x THUMB cells: each the largest of those in it; -1:
    // none is seen.
    function shrink(weights, raw, head, n) {
        const size = Math.min(n, THUMB), cells = new Float32Array(size * size).fill(-1);
        for (let i = 0; i < n; i++) {
            const row = App.line(weights, head, i), scores = App.line(raw, head, i), to = Math.floor((i * size) / n) * size;
            for (let j = 0; j <= i; j++) {
                const at = to + Math.floor((j * size) / n);
                if (row[j] > cells[at] && scores[j] !== -Infinity) cells[at] = row[j];
            }
        }
        return { size, cells };
    }

    function showThumb({ layer, head, canvas, text, el }, state, weights, raw) {
        const mine = App.line(weights, head, state.query), { size, cells } = shrink(weights, raw, head, state.step);
        Matrix.draw(canvas, { rows: size, cols: size, scale: Colour.sequential(0, 1), value: (i, j) => cells[i * size + j],
            masked: (i, j) => cells[i * size + j] < 0 });
        const top = Numbers.best(mine), w = Numbers.fixed(mine[top], 2);
        const chosen = layer === state.layer && head === state.head;
        el.className = 'thumb' + (chosen ? ' chosen' : '') + (Experiment.touches(state, layer, head) ? ' edited' : '');
        el.tabIndex = chosen ? 0 : -1;
        el.setAttribute('aria-pressed', chosen);
        el.setAttribute('aria-label', `layer ${layer} head ${head}, query ${Token.at(state.query)} looks most at ${Token.at(top)}, ${w}`);
        fill(text, h('b', null, `${layer}.${head}`), `\n${Token.text(state.ids[top])} ${w}`);
        if (chosen && grid.contains(document.activeElement)) el.focus({ preventScroll: true });
    }

    function showGrid(state) {
        let layer = -1, weights = null, raw = null;
        for (const t of thumbs) {
            if (t.layer !== layer) {
                layer = t.layer;
                weights = pattern(layer);
                raw = scores(layer);
            }
            showThumb(t, state, weights, raw);
        }
    }

    function onGridKey(e) {
        const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
        if (!by) return;
        e.preventDefault();
        e.stopPropagation();
        App.set({ layer: App.state.layer + by[0], head: App.state.head + by[1] });
    }

    // ---- one head ----

    function picture(state) {
        const t = state.what === 'scores' ? scores(state.layer) : pattern(state.layer), raw = scores(state.layer);
        const show = state.future === '1', dot = show && state.what === 'scores' ? dots(state) : null;
        const { at, unseen: hidden } = lines(t, raw, state.head, state.step), seen = [];
        for (let i = 0; i < state.step; i++) for (let j = 0; j <= i; j++) if (!hidden(i, j)) seen.push(at(i, j));
        const [low, high] = Numbers.range(seen);
        return {
            value: (i, j) => (hidden(i, j) ? (dot ? dot(i, j) : 0) : at(i, j)),
            masked: (i, j) => (!hidden(i, j) ? '' : show ? 'shown' : 'hidden'),
            scale: state.what === 'log' ? Colour.logarithmic(high) : Colour.sequential(state.what === 'scores' ? low : 0, high),
            format: state.what === 'log' ? Numbers.scientific : Numbers.fixed,
        };
    }

    function showBig(state) {
        fill(bigTitle, `Layer ${state.layer}, head ${state.head}: `, { weights: 'weights', log: 'weights, logarithmic colours',
            scores: 'scores before softmax' }[state.what]);
        big.update({ rows: state.step, cols: state.step, rowName: 'query', colName: 'key', rowLabel: Token.at,
            colLabel: Token.head, ...picture(state), selected: [state.query, state.key],
            onSelect: (i, j) => App.set({ query: i, key: j }) });
    }

    // ---- all heads of a layer for one query ----

    function showOne(state) {
        const t = pattern(state.layer), raw = scores(state.layer), heads = Engine.info.heads, weights = [], seen = [];
        for (let i = 0; i < heads; i++) {
            weights.push(App.line(t, i, state.query));
            seen.push(App.line(raw, i, state.query));
        }
        fill(oneTitle, `Layer ${state.layer}: what query `, h('b', null, Token.at(state.query)), ' looks at, head by head');
        one.update({ rows: heads, cols: state.query + 1, rowName: 'head', colName: 'key', rowLabel: String,
            colLabel: Token.head, value: (i, j) => weights[i][j], scale: Colour.sequential(0, 1),
            masked: (i, j) => (seen[i][j] === -Infinity ? 'hidden' : ''), selected: [state.head, state.key],
            onSelect: (i, j) => App.set({ head: i, key: j }) });
        fill(oneSums, 'entropy in nats: ', weights.map((w, i) => [h('span.tag', null, `head ${i} `, h('b', null,
            Numbers.fixed(Numbers.entropy(w)))), ' ']));
    }

    // ---- the view ----

    function stepper(name, key) {
        const move = (by) => App.set({ [key]: App.state[key] + by }), out = h('output');
        const el = h('span.stepper', { role: 'group', 'aria-label': name }, button('−', () => move(-1), { 'aria-label':
            `${name} down` }), h('span', null, name, ' ', out), button('+', () => move(1), { 'aria-label': `${name} up` }));
        return { el, set: (v) => { out.textContent = v; } };
    }

    let layerStep, headStep;

    function mount(root) {
        if (!Engine.info.layers) return root.append(h('p', null, 'This model has no layers: there is no attention to look at.'));
        const { layers, heads } = Engine.info;
        grid = h('div.heads' + (layers * heads > 16 ? '.many' : ''));
        grid.addEventListener('keydown', onGridKey);
        grid.addEventListener('click', (e) => {
            const el = e.target.closest('.thumb');
            if (el) App.set({ layer: Number(el.dataset.layer), head: Number(el.dataset.head) });
        });
        makeGrid();
        big = Matrix.create('attention of the chosen head', { id: 'attention', large: true });
        one = Matrix.create('all heads of the layer for one query', { maxRows: 32, id: 'one-query' });
        bigTitle = h('p.lead');
        oneTitle = h('p.lead');
        oneSums = h('p.note');
        whatChoice = choice('what to show', [['weights', 'weights'], ['log', 'log'], ['scores', 'scores']], 'weights',
            (v) => App.set({ what: v }));
        future = check('masked future', false, (v) => App.set({ future: v ? '1' : '0' }));
        layerStep = stepper('layer', 'layer');
        headStep = stepper('head', 'head');
        const query = h('div', null, card('One query, every head', null, oneTitle, one.el, oneSums));
        root.append(h('div.columns.fit', null, card('All heads', 'A row is a query, a column a key, one scale from 0 to 1. Below each: '
            + 'what the chosen query looks at most.', grid), card('One head', null, h('div.row', null, layerStep.el, headStep.el,
            whatChoice.el, future.el), bigTitle, big.el)));
        return Head.mount(root, query);
    }

    function update(state) {
        if (!Engine.info.layers) return;
        layerStep.set(state.layer);
        headStep.set(state.head);
        whatChoice.set(state.what);
        future.input.checked = state.future === '1';
        showGrid(state);
        showBig(state);
        showOne(state);
        Head.update(state);
    }

    return { id: 'attention', title: 'Attention', mount, update };
})();
