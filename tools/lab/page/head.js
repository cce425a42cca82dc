'use strict';
// One query of one head, taken apart: its dot product with a key dimension by dimension, what the
// temperature of the softmax does to it, the values that it mixes, and the cache that keys and
// values lie in.
const Head = (() => {
    const { h, fill, table, bar, slider, card } = Dom;
    const MOST_KEYS = 24, MOST_DIMS = 16;

    let product, warm, tau, mixTitle, mixEl, mixTable, keys, values, cacheText, cacheBar, temperature = 1;

    // Queries and keys as scores see them (after rope, where there is one), values, and the KV head
    // of the chosen head.
    function vectors(state) {
        const [q, k] = ['q', 'k'].map((part) => HomeData.compared(part, state.layer));
        return { q, k, v: App.ofLayer('attn.hook_v'), kvHead: HomeData.heads(state.layer).kv(state.head) };
    }

    // Weights or scores of the chosen query.
    const line = (name, state) => App.line(App.ofLayer(name), state.head, state.query);

    // ---- q . k ----

    function scaling(d) {
        const scale = Engine.info.attn_scale;
        return Math.abs(scale * Math.sqrt(d) - 1) < 1e-6 ? `/ √${d}` : `× ${Numbers.exact(scale)} (the model’s own scale)`;
    }

    function showProduct(state) {
        const at = vectors(state), q = App.row(at.q, state.query, state.head), k = App.row(at.k, state.key, at.kvHead);
        const products = Float64Array.from(q, (x, e) => x * k[e]), sum = products.reduce((a, b) => a + b, 0);
        const largest = Math.max(...products.map(Math.abs)), shown = Numbers.top(products.map(Math.abs), MOST_DIMS);
        const rows = shown.sort((a, b) => a - b).map((e) => [e, Numbers.cell(q[e], 6), Numbers.cell(k[e], 6),
            Numbers.cell(products[e], 6), bar(products[e] / largest, true),
            sum !== 0 ? Numbers.cell((100 * products[e]) / sum, 2) : '·']);
        const rest = sum - shown.reduce((a, e) => a + products[e], 0);
        if (q.length > shown.length) rows.push([`other ${q.length - shown.length}`, '', '', Numbers.cell(rest, 6), '', '']);
        const seen = state.key <= state.query && line('attn.hook_attn_scores', state)[state.key] !== -Infinity;
        const end = (name, v) => h('tr', null, h('th', { scope: 'row' }, name), h('td.num', v.x === undefined ? null : { 'data-x': v.x }, v));
        fill(product, h('p.lead', null, 'query ', h('b', null, Token.at(state.query)), ' · key ', h('b', null, Token.at(state.key))),
            h('div.scroll', null, table(null, ['dim', 'q', 'k', 'q × k', '', '%'], rows)),
            h('table.plain.sums', null, h('tbody', null, end('sum: q · k', Numbers.cell(sum, 6)),
                end(scaling(q.length), Numbers.cell(sum * Engine.info.attn_scale, 6)),
                end('the engine’s score', seen ? Numbers.cell(line('attn.hook_attn_scores', state)[state.key], 6) : 'not seen'),
                end('softmax weight', seen ? Numbers.cell(line('attn.hook_pattern', state)[state.key]) : '· (masked: exactly 0)'))));
    }

    // ---- temperature on the weights of this query ----

    function showWarm(state) {
        const scores = line('attn.hook_attn_scores', state), weights = line('attn.hook_pattern', state);
        const p = Numbers.softmax(scores, temperature), high = Math.max(...p);
        const shown = Numbers.top(weights, MOST_KEYS).sort((a, b) => a - b);
        const rows = shown.filter((j) => scores[j] !== -Infinity).map((j) => ({ selected: j === state.key, cells: [Token.at(j),
            Numbers.cell(scores[j]), Numbers.cell(weights[j]), bar(p[j] / high), Numbers.cell(p[j])] }));
        fill(warm, h('div.scroll', null, table(null, ['key', 'score', 'weight', '', `at τ = ${Numbers.fixed(temperature, 2)}`], rows)),
            h('p.note', null, `entropy ${Numbers.fixed(Numbers.entropy(weights))} nats in the model, ` +
                `${Numbers.fixed(Numbers.entropy(p))} at this temperature; the model itself goes on with τ = 1.`));
    }

    // ---- values ----

    // Rows of numbers, one colour scale for all.
    function showRows(matrix, lines, state, more) {
        const limit = Math.max(...lines.map((line) => Math.max(...line.map(Math.abs))));
        matrix.update({ rows: lines.length, cols: lines[0].length, colName: 'dim', colLabel: String, value: (i, j) => lines[i][j], scale: Colour.diverging(limit, state.dark), ...more });
    }

    function showMix(state) {
        const at = vectors(state), weights = line('attn.hook_pattern', state);
        const z = App.row(App.ofLayer('attn.hook_z'), state.query, state.head);
        const z2 = Numbers.dot(z, z), shown = Numbers.top(weights, MOST_KEYS).sort((a, b) => a - b), sums = new Float64Array(z.length), value = (j) => App.row(at.v, j, at.kvHead);
        for (let j = 0; j <= state.query; j++) value(j).forEach((x, e) => { sums[e] += weights[j] * x; });
        const rest = Float64Array.from(sums), lines = shown.map((j) => [Token.at(j), value(j).map((x) => x * weights[j])]);
        for (const j of shown) value(j).forEach((x, e) => { rest[e] -= weights[j] * x; });
        if (shown.length <= state.query) lines.push([`other ${state.query + 1 - shown.length}`, rest]);
        lines.push(['sum', sums], ['z (engine)', z]);
        fill(mixTitle, 'query ', h('b', null, Token.at(state.query)), ': weight × value of every key, summing to the head’s output z');
        fill(mixEl, h('div.scroll', null, table(null, ['key', 'weight', '|v|', '|w v|', 'of z %'], shown.map((j) => {
            const w = weights[j], size = Numbers.length(value(j));
            return { selected: j === state.key, cells: [Token.at(j), Numbers.cell(w), Numbers.cell(size), Numbers.cell(w * size), z2 > 0 ? Numbers.cell((100 * w * Numbers.dot(value(j), z)) / z2, 2) : '·'] };
        }))));
        showRows(mixTable, lines.map(([, row]) => row), state, { rowName: 'w × v', rowLabel: (i) => lines[i][0], selected: [shown.indexOf(state.key), -1],
            onSelect: (i) => { if (i < shown.length) App.set({ key: shown[i] }); } });
    }

    // ---- the cache ----

    const kept = (matrix, t, kvHead, state, rowName) => showRows(matrix, Array.from({ length: state.step }, (_, i) => App.row(t, i, kvHead)), state,
        { rowName, rowLabel: Token.at, selected: [state.query, -1], onSelect: (i) => App.set({ query: i }) });

    function showCache(state) {
        const i = Engine.info, at = vectors(state), each = i.kv_bytes, { H, G } = HomeData.heads(state.layer), of = HomeData.lender(state.layer);
        fill(cacheText, `Step ${state.step}: ${state.step} of ${i.context} positions. Bytes: ${Numbers.count(each)} each, `,
            h('b', null, `${Numbers.count(each * state.step)} used`), `, ${Numbers.count(each * i.context)} when full. Shown: layer `,
            `${state.layer}, KV head ${at.kvHead}${G < H ? `, shared by ${H / G} heads` : ''}.${of < 0 ? '' : ` Layer ${state.layer} has none of its own: it reads those of layer ${of}.`}${HomeLatent.has(state.layer) ? ` ${HomeLatent.told(state.layer)}` : ''}`);
        fill(cacheBar, bar(state.step / i.context));
        kept(keys, at.k, at.kvHead, state, 'key');
        kept(values, at.v, at.kvHead, state, 'value');
    }

    // ---- the view ----

    // `before`: a card that has room next to the dot product, or null.
    function mount(root, before) {
        product = h('div#product');
        warm = h('div');
        tau = slider('τ', { min: 0.1, max: 5, step: 0.05, value: 1, id: 'tau', show: (v) => Numbers.fixed(v, 2),
            on: (v) => { temperature = v; showWarm(App.state); } });
        mixEl = h('div');
        mixTitle = h('p.lead');
        mixTable = Matrix.create('weight times value by dimension', { maxRows: 32, id: 'mix', fill: true, picture: { high: 560 } });
        keys = Matrix.create('keys in the cache', { maxCols: 8, id: 'cache-keys', fill: true });
        values = Matrix.create('values in the cache', { maxCols: 8, id: 'cache-values', fill: true });
        cacheText = h('p.lead');
        cacheBar = h('div.wide');
        root.append(h('div.columns' + (before ? '.three' : ''), null, before,
            card('Query · key', 'The score of the chosen query and key, dimension by dimension.', product),
            card('Softmax and its temperature', 'softmax(score / τ) of this query’s scores.', h('div.row', null, tau.el), warm)),
        card('Values, mixed', null, mixTitle, h('div.columns.narrow', null, mixEl, mixTable.el)),
        card('KV cache', 'A step computes one row of keys and values; all others are kept.', cacheText, cacheBar,
            h('div.columns', null, h('div', null, h('h4', null, 'Keys, as scores see them'), keys.el),
                h('div', null, h('h4', null, 'Values'), values.el))));
    }

    function update(state) {
        showProduct(state);
        showWarm(state);
        showMix(state);
        showCache(state);
    }

    return { mount, update, vectors };
})();
