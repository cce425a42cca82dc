'use strict';
// Attention on small matrices of one's own, stage by stage: the engine's kernels, or float64 where there is no
// engine.
const LessonBench = (() => {
    const { h, fill, button, check, select, slider, card, table, bar } = Dom;
    const STAGES = [['qkv', 'Q, K, V'], ['s', 'raw scores'], ['scaled', 'scaled'], ['masked', 'mask'], ['a', 'softmax'], ['out', 'output']];

    const now = { example: null, x: [], labels: null, w: { wq: 'identity', wk: 'identity', wv: 'identity' }, tau: 0, causal: false,
        heads: 1, seed: 1, shown: new Set(STAGES.map((s) => s[0])), query: 0, key: 0, head: 0 };
    const el = {}, matrices = new Map();

    function set(part) {
        Object.assign(now, part);
        show();
    }

    const label = (i) => (now.labels ? `${i} ${now.labels[i]}` : `token ${i}`);

    function weights(key) {
        const w = now.w[key];
        return typeof w === 'string' ? LessonData.projection(w, now.x[0].length, now.seed * 3 + 'qkv'.indexOf(key[1])) : w;
    }

    function load(name) {
        const e = LessonData.EXAMPLES.find((x) => x.name === name) || LessonData.EXAMPLES[0];
        Object.assign(now, { example: e, x: e.x.map((r) => r.slice()), labels: e.labels || null, tau: 0, causal: Boolean(e.causal),
            heads: e.heads || 1, query: e.x.length - 1, key: 0, head: 0, shown: new Set(e.show || STAGES.map((s) => s[0])),
            w: { wq: e.wq || 'identity', wk: e.wk || 'identity', wv: e.wv || 'identity' } });
        build();
        show();
    }

    // ---- the stages ----

    function matrix(key, name) {
        if (!matrices.has(key)) matrices.set(key, Matrix.create(name, { id: `lesson-${key}` }));
        return matrices.get(key);
    }

    function put(key, name, m, { rowName = 'token', colName = 'dim', square = false, head = 0, masked = null, sizes = false } = {}) {
        const flat = m.map((r) => Array.from(r)).flat(), [low, high] = Numbers.range(flat);
        const limit = Math.max(Math.abs(low), Math.abs(high)), component = matrix(key, name);
        component.update({ rows: m.length, cols: m[0].length, rowName, colName, rowLabel: label, colLabel: square ? label : String,
            value: (i, j) => m[i][j], masked, scale: sizes ? Colour.sequential(0, 1) : Colour.diverging(limit, App.state.dark),
            selected: [now.query, square ? now.key : -1],
            onSelect: (i, j) => set({ query: i, head, ...(square && { key: j }) }) });
        return h('div.step', null, h('h4', null, name), component.el);
    }

    function ofHead(r, i) {
        const many = now.heads > 1 ? `, head ${i}` : '', square = { rowName: 'query', colName: 'key', square: true, head: i };
        const future = (a, b) => (now.causal && b > a ? 'hidden' : ''), out = [];
        if (now.shown.has('s')) out.push(put(`s${i}`, `S = Q Kᵀ${many}`, r.scores[i], square));
        if (now.shown.has('scaled')) out.push(put(`t${i}`, `S / τ, τ = ${Numbers.fixed(r.tau)}${many}`, r.scaled[i], square));
        if (now.shown.has('masked') && now.causal) out.push(put(`m${i}`, `masked${many}`, r.masked[i], { ...square, masked: future }));
        if (now.shown.has('a')) out.push(put(`a${i}`, `A = softmax, row by row${many}`, r.weights[i], { ...square, sizes: true,
            masked: (a, b) => (now.causal && b > a ? 'shown' : '') }));
        if (now.shown.has('out')) out.push(put(`o${i}`, `A V${many}`, r.headOut[i], { rowName: 'query' }));
        return h('div.series', null, out);
    }

    // The score of the chosen query and key, dimension by dimension, and the mix of values of the
    // query.
    function details(r) {
        const d = r.q[0].length / now.heads, out = r.headOut[now.head][now.query], at = now.head * d;
        const q = Array.from(r.q[now.query]).slice(at, at + d), k = Array.from(r.k[now.key]).slice(at, at + d);
        const products = q.map((x, e) => x * k[e]), high = Math.max(...products.map(Math.abs)) || 1;
        const dv = out.length, w = r.weights[now.head][now.query], masked = now.causal && now.key > now.query;
        const values = r.v.map((row) => Array.from(row).slice(now.head * dv, now.head * dv + dv));
        return h('div.columns', null, card('Query · key', null, h('p.lead', null, `query ${label(now.query)}, key ${label(now.key)}` +
            (now.heads > 1 ? `, head ${now.head}` : '')),
        table(null, ['dim', 'q', 'k', 'q × k', ''], products.map((p, e) => [at + e, Numbers.fixed(q[e]), Numbers.fixed(k[e]), Numbers.fixed(p),
            bar(p / high, true)]).concat([['sum', '', '', Numbers.fixed(r.scores[now.head][now.query][now.key]), ''],
            ['/ τ', '', '', Numbers.fixed(r.scaled[now.head][now.query][now.key]), ''],
            ['weight', '', '', masked ? '0 (masked)' : Numbers.fixed(w[now.key]), '']]))),
        card('Values, mixed', null, h('p.lead', null, `what query ${label(now.query)} gets`),
            h('div.scroll', null, table(null, ['key', 'weight', ''].concat(values[0].map((_, e) => `w v ${e}`)), values.map((v, j) => ({ selected:
                j === now.key, cells: [label(j), Numbers.fixed(w[j]), bar(w[j])].concat(v.map((x) => Numbers.fixed(w[j] * x))) })).concat([
                { selected: true, cells: ['A V', '', ''].concat(Array.from(out, (x) => Numbers.fixed(x))) }])))));
    }

    function show() {
        let r;
        try {
            r = (Engine.module.wasm ? Engine.attend : LessonMath.attend)({ X: now.x, WQ: weights('wq'), WK: weights('wk'), WV: weights('wv'), tau: now.tau, causal: now.causal,
                heads: now.heads });
        } catch (e) {
            return fill(el.out, h('p.bad', null, e.message));
        }
        const first = now.shown.has('qkv') ? h('div.series', null, put('q', 'Q = X W_Q', r.q), put('k', 'K = X W_K', r.k), put('v', 'V = X W_V', r.v)) : [];
        const focus = document.activeElement && document.activeElement.closest('.matrix'), id = focus && focus.id;
        fill(el.out, first, r.scores.map((_, i) => ofHead(r, i)),
            now.shown.has('out') && now.heads > 1 ? put('all', 'heads side by side', r.out, { rowName: 'query' }) : [], details(r));
        if (id) document.querySelector(`#${id} td[tabindex="0"]`)?.focus({ preventScroll: true });
        el.tau.set(now.tau || r.tau, now.tau ? Numbers.fixed(now.tau, 2) : `√d = ${Numbers.fixed(r.tau)}`);
        return undefined;
    }

    // ---- controls ----

    const input = (i, j) => LessonParts.number(`X, token ${i}, dimension ${j}`, now.x[i][j], (v) => {
        now.x[i][j] = v;
        show();
    }, 'any');

    function projectionOf(key, name) {
        const options = LessonData.names(now.x[0].length).map((n) => [n, n]);
        if (typeof now.w[key] !== 'string') options.push(['given', 'of this example']);
        const given = now.w[key];
        return select(name, options, typeof given === 'string' ? given : 'given', (v) => set({ w: { ...now.w, [key]: v === 'given' ? given : v } })).el;
    }

    const toggle = ([key, name]) => check(name, now.shown.has(key), (on) => set({ shown: new Set([...now.shown].filter((k) => k !== key).concat(on ? key : [])) })).el;

    // Rebuilds what depends on the example.
    function build() {
        const d = now.x[0].length, heads = [];
        for (let n = 1; n <= d; n++) if (d % n === 0) heads.push([String(n), `${n} head${n > 1 ? 's' : ''}`]);
        fill(el.about, now.example.about);
        fill(el.x, table(null, ['X'].concat(now.x[0].map((_, j) => `dim ${j}`)), now.x.map((row, i) => [label(i)].concat(row.map((_, j) => input(i, j))))));
        el.tau = slider('τ', { min: 0.1, max: 5, step: 0.05, value: 1, id: 'lesson-tau', show: (v) => Numbers.fixed(v, 2), on: (tau) => set({ tau }) });
        fill(el.controls, projectionOf('wq', 'W_Q'), projectionOf('wk', 'W_K'), projectionOf('wv', 'W_V'),
            select('Heads', heads, String(now.heads), (v) => set({ heads: Number(v), head: 0 })).el, check('causal mask', now.causal, (causal) => set({ causal })).el,
            el.tau.el, button('τ = √d', () => set({ tau: 0 })), button('Resample', () => {
                now.seed++;
                if (!Object.values(now.w).includes('random')) now.x = LessonData.random(now.seed, now.x.length, d);
                build();
                show();
            }, { id: 'lesson-resample', title: 'other random projections, or another X where none is random' }));
        fill(el.toggles, 'Show: ', STAGES.map(toggle));
        for (const b of el.presets.children) b.setAttribute('aria-pressed', b.dataset.name === now.example.name);
    }

    function mount(root) {
        for (const name of ['about', 'x', 'controls', 'toggles', 'out', 'presets']) el[name] = h(name === 'about' ? 'p.lead' : `div.${name}`);
        el.controls.classList.add('row');
        el.toggles.classList.add('row');
        fill(el.presets, LessonData.EXAMPLES.map((e) => button(e.title, () => load(e.name), { 'data-name': e.name })));
        root.append(card('Your own matrices', 'The engine’s kernels, as mgpt attend runs them. Choose an example, change any number.',
            el.presets, el.about, h('div.row', null, h('div.scroll', null, el.x)), el.controls, el.toggles), el.out);
    }

    return { mount, load, show };
})();
