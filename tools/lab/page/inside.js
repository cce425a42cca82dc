'use strict';
// The residual stream: what the model would say after every half layer, what each part adds to a
// logit, how long it is.
const Inside = (() => {
    const { h, fill, table, bar, button, card } = Dom;
    const TOPS = 3, STRONGEST = 12, FIRED = 10;

    let lensTitle, lensEl, dlaTitle, dlaEl, dlaTable, normsTable, mlpEl, token = -1;

    // Of "hook_resid_pre" and the others.
    const WORDS = { pre: 'as it begins', mid: 'after attention', post: 'after the MLP' }, said = (name) => WORDS[name.replace(/^.*_/, '')];

    // ---- logit lens ----

    function guess(id, p, right, dark) {
        const rgb = Running.shade(p, dark);
        return h('span.guess' + (right ? '.right' : ''), { style: { 'background-color': Colour.css(rgb), color: Colour.ink(rgb) } }, Token.el(id), h('small', null, ` ${Numbers.fixed(p, 3)}`));
    }

    function showLens(state) {
        const rows = Engine.lens(0, state.query), final = Numbers.best(Engine.choices(state.query, 0));
        fill(lensTitle, 'After ', h('b', null, Token.at(state.query)), ' the model says ', h('b', null, Token.name(final)), `. Its place among all candidates, and the ${TOPS} likeliest, if the model stopped earlier:`);
        const cells = rows.map((r) => {
            const known = r.logits[final] !== -Infinity, z = r.logsum, p = Math.exp(r.logits[final] - z);
            return [[r.name.split('.')[1], h('span.note', null, ` ${said(r.name)}`)], known ? Numbers.count(Numbers.rank(r.logits, final)) : 'later', known ? Numbers.cell(p) : '·',
                bar(p), Numbers.top(r.logits, TOPS).map((id) => guess(id, Math.exp(r.logits[id] - z), id === final, state.dark))];
        });
        fill(lensEl, rows.length ? table(null, ['layer', 'rank', 'probability', '', 'likeliest'], cells, '.lens') : h('p', null, 'The model has no layers: there is '
            + 'nothing between embedding and head to look at.'));
    }

    // ---- direct logit attribution ----

    const NAMES = { embed: 'token embedding', pos_embed: 'position embedding' };

    function nameOf({ name, at }) {
        if (!at) return NAMES[name] || name;
        return at[1] === Engine.info.heads ? `MLP of layer ${at[0]}` : `head ${at[1]} of layer ${at[0]}`;
    }

    function showParts(parts, state) {
        const { layers, heads } = Engine.info, inside = new Map(parts.map((p) => [String(p.at), p.value])), limit = Math.max(...parts.map((p) => (p.at ? Math.abs(p.value) : 0)));
        dlaTable.update({ rows: layers, cols: heads + 1, rowName: 'layer', colName: 'head', rowLabel: String,
            colLabel: (j) => (j < heads ? String(j) : 'mlp'), value: (i, j) => inside.get(`${i},${j}`) || 0, masked: (i, j) => (inside.has(`${i},${j}`) ? '' : 'hidden'),
            scale: Colour.diverging(limit, state.dark), selected: [state.layer, state.head],
            onSelect: (i, j) => App.set({ layer: i, head: j }) });
    }

    // The parts as bars: the strongest, and all that are outside the layers.
    function showBars(parts, total, state) {
        const inside = parts.filter((p) => p.at), outside = parts.filter((p) => !p.at);
        const order = Numbers.top(inside.map((p) => Math.abs(p.value)), STRONGEST).map((i) => inside[i]);
        const rest = inside.reduce((a, p) => a + p.value, 0) - order.reduce((a, p) => a + p.value, 0);
        const rows = outside.filter((x) => Math.abs(x.value) >= 5e-5).concat(order);
        if (inside.length > order.length) rows.push({ name: `other ${inside.length - order.length}`, value: rest });
        const high = Math.max(...rows.map((r) => Math.abs(r.value))), signed = (v) => Numbers.cell(v, 4, Numbers.signed(v));
        fill(dlaEl, h('div.scroll', null, table(null, ['part', '', 'adds'], rows.map((r) => [nameOf(r), bar(r.value / high, true),
            signed(r.value)]).concat([{ selected: true, cells: ['sum', '', signed(total)] },
            ['engine', '', signed(Engine.logits(state.query, 0)[token])]]))));
    }

    function showDla(state) {
        const best = Numbers.best(Engine.choices(state.query, 0)), chosen = token;
        if (token < 0) token = best;
        fill(dlaTitle, 'After ', h('b', null, Token.at(state.query)), ': logit of ', h('b', null, Token.name(token)),
            ' ', button('another token', () => Strip.pickers.any('Whose logit?', (id) => {
                token = id;
                update(App.state);
            }), { id: 'dla-token', kind: '.small' }));
        try {
            const parts = Engine.dla(0, state.query, token);
            showParts(parts, state);
            showBars(parts, parts.reduce((a, p) => a + p.value, 0), state);
        } catch (e) {
            fill(dlaEl, h('p', null, e.message));
        }
        token = chosen;
    }

    // ---- norms ----

    function showNorms(state) {
        const from = Engine.residuals(), names = from.map(({ layer, name }) => `${layer} ${said(name)}`), values = from.map(({ name }) => App.tensor(name));
        const cells = values.map((t) => Array.from({ length: state.step }, (_, i) => Numbers.length(App.row(t, i)))), [low, high] = Numbers.range(cells.flat());
        normsTable.update({ rows: names.length, cols: state.step, rowName: 'layer', colName: 'position',
            rowLabel: (i) => names[i], colLabel: Token.head, value: (i, j) => cells[i][j], scale: Colour.sequential(low, high),
            selected: [-1, state.query], onSelect: (i, j) => App.set({ query: j }) });
    }

    // ---- neurons ----

    // The experts that the router chose.
    function showExperts(state) {
        const weights = App.row(App.ofLayer('mlp.hook_expert_weights'), state.query), order = Numbers.top(weights, FIRED).filter((i) => weights[i] > 0);
        fill(mlpEl, h('p.lead', null, `Layer ${state.layer}, after `, h('b', null, Token.at(state.query)), `: ${order.length} of ${weights.length} experts answer`),
            h('div.scroll', null, table(null, ['expert', '', 'weight'], order.map((i) => [i, bar(weights[i] / weights[order[0]]), Numbers.cell(weights[i])]))));
    }

    function showNeurons(state) {
        if (!App.ofLayer('mlp.hook_post')) return App.ofLayer('mlp.hook_expert_weights') ? showExperts(state) : fill(mlpEl, h('p', null, 'This layer shows no values of its neurons.'));
        const post = App.row(App.ofLayer('mlp.hook_post'), state.query), pre = App.row(App.ofLayer('mlp.hook_pre'), state.query);
        const gate = App.ofLayer('mlp.hook_pre_linear'), linear = gate && App.row(gate, state.query);
        const order = Numbers.top(post.map(Math.abs), FIRED).filter((i, n) => !n || post[i] !== 0), high = Math.abs(post[order[0]]);
        const silent = post.reduce((n, x) => n + (x === 0), 0);
        return fill(mlpEl, h('p.lead', null, `Layer ${state.layer}, after `, h('b', null, Token.at(state.query)),
            `: ${post.length} neurons, ${silent} silent, length ${Numbers.fixed(Numbers.length(post))}`),
        h('div.scroll', null, table(null, ['neuron', '', 'post', 'pre'].concat(linear ? ['linear'] : []), order.map((i) =>
            [i, bar(post[i] / high, true), Numbers.cell(post[i]), Numbers.cell(pre[i])].concat(linear ? [Numbers.cell(linear[i])] : [])))));
    }

    function mount(root) {
        lensTitle = h('p.lead');
        lensEl = h('div.scroll');
        dlaTitle = h('p.lead');
        dlaEl = h('div');
        mlpEl = h('div');
        dlaTable = Matrix.create('what each head and MLP adds', { maxRows: 32, maxCols: 17, id: 'dla', fill: true });
        normsTable = Matrix.create('length of the residual', { maxRows: 32, id: 'norms', fill: true });
        root.append(card('Logit lens', 'The final norm and the head, applied to what the residual stream holds so far.', lensTitle, lensEl));
        if (!Engine.info.layers) return;
        root.append(h('div.columns', null, card('Direct attribution', 'Which parts speak for a token. Norms are frozen at the '
            + 'scale that they had here; float64.', dlaTitle, dlaEl, dlaTable.el),
        h('div', null, card('Length of the residual', 'The root of the sum of squares, by half layer and position.', normsTable.el),
            card('Neurons', 'Those of the MLP that fire most.', mlpEl))));
    }

    function update(state) {
        showLens(state);
        if (!Engine.info.layers) return;
        showDla(state);
        showNorms(state);
        showNeurons(state);
    }

    return { id: 'inside', title: 'The stream', mount, update };
})();
