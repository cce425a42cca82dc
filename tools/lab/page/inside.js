'use strict';
// The residual stream: what the model would say after every half layer, what each part adds to a
// logit, how long it is.
const Inside = (() => {
    const { h, fill, table, bar, button, card } = Dom;
    const TOPS = 3;

    let lensTitle, lensEl, dlaTitle, dlaEl, dlaTable, normsTable, token = -1;

    // Of "hook_resid_pre" and the others.
    const WORDS = { pre: 'as it begins', mid: 'after attention', post: 'after the MLP' }, said = (name) => WORDS[name.replace(/^.*_/, '')];

    // ---- logit lens ----

    function showLens(state) {
        const rows = Engine.lens(0, state.query), final = Numbers.best(Engine.choices(state.query, 0));
        fill(lensTitle, 'After ', h('b', null, Token.at(state.query)), ' the model says ', h('b', null, Token.name(final)), `. Its place among all candidates, and the ${TOPS} likeliest, if the model stopped earlier:`);
        const cells = rows.map((r) => {
            const known = r.logits[final] !== -Infinity, z = r.logsum, p = Math.exp(r.logits[final] - z);
            return [[r.name.split('.')[1], h('span.note', null, ` ${said(r.name)}`)], known ? Numbers.count(Numbers.rank(r.logits, final)) : 'later', known ? Numbers.cell(p) : '·',
                bar(p), Numbers.top(r.logits, TOPS).map((id) => [id, Math.exp(r.logits[id] - z)])
                    .map(([id, q]) => h('span.guess' + (id === final ? '.right' : ''), { style: TextLine.style(Running.shade(q, state.dark)) }, Token.el(id), h('small', null, ` ${Numbers.fixed(q, 3)}`)))];
        });
        fill(lensEl, rows.length ? table(null, ['layer', 'rank', 'probability', '', 'likeliest'], cells, '.lens') : h('p', null, 'The model has no layers: there is '
            + 'nothing between embedding and head to look at.'));
    }

    // ---- direct logit attribution ----

    // What each head and MLP adds to the logit; its bars are in “Why” (home_why.js).
    function showParts(parts, state) {
        const { layers, heads } = Engine.info, inside = new Map(parts.map((p) => [String(p.at), p.value])), limit = Math.max(...parts.map((p) => (p.at ? Math.abs(p.value) : 0)));
        dlaTable.update({ rows: layers, cols: heads + 1, rowName: 'layer', colName: 'head', rowLabel: String,
            colLabel: (j) => (j < heads ? String(j) : 'mlp'), value: (i, j) => inside.get(`${i},${j}`) || 0, masked: (i, j) => !inside.has(`${i},${j}`),
            scale: Colour.diverging(limit, state.dark), selected: [state.layer, state.head],
            onSelect: (i, j) => App.set({ layer: i, head: j }) });
    }

    function showDla(state) {
        const of = token < 0 ? Numbers.best(Engine.choices(state.query, 0)) : token;
        fill(dlaTitle, 'After ', h('b', null, Token.at(state.query)), ': logit of ', h('b', null, Token.name(of)),
            ' ', button('another token', () => Strip.pickers.any('Whose logit?', (id) => {
                token = id;
                update(App.state);
            }), { id: 'dla-token', kind: '.small' }), ' ', button('Why?', () => App.set({ cell: `why.${of}` }), { id: 'dla-why', kind: '.small', title: 'all parts, and its probability without each' }));
        try {
            showParts(Engine.dla(0, state.query, of), state);
            fill(dlaEl);
        } catch (e) {
            fill(dlaEl, h('p', null, e.message));
        }
    }

    // ---- norms ----

    function showNorms(state) {
        const from = Engine.residuals(), names = from.map(({ layer, name }) => `${layer} ${said(name)}`), values = from.map(({ name }) => App.tensor(name));
        const cells = values.map((t) => Array.from({ length: state.step }, (_, i) => Numbers.length(App.row(t, i)))), [low, high] = Numbers.range(cells.flat());
        normsTable.update({ rows: names.length, cols: state.step, rowName: 'layer', colName: 'position',
            rowLabel: (i) => names[i], colLabel: Token.head, value: (i, j) => cells[i][j], scale: Colour.sequential(low, high),
            selected: [-1, state.query], onSelect: (i, j) => App.set({ query: j }) });
    }

    function mount(root) {
        lensTitle = h('p.lead');
        lensEl = h('div.scroll');
        dlaTitle = h('p.lead');
        dlaEl = h('div');
        dlaTable = Matrix.create('what each head and MLP adds', { maxRows: 32, maxCols: 17, id: 'dla', fill: true });
        normsTable = Matrix.create('length of the residual', { maxRows: 32, id: 'norms', fill: true });
        root.append(card('Logit lens', 'The final norm and the head, applied to what the residual stream holds so far.', lensTitle, lensEl));
        if (!Engine.info.layers) return;
        root.append(h('div.columns', null, card('Direct attribution', 'Which parts speak for a token. Norms are frozen at the '
            + 'scale that they had here; float64.', dlaTitle, dlaEl, dlaTable.el),
        card('Length of the residual', 'The root of the sum of squares, by half layer and position.', normsTable.el)));
    }

    function update(state) {
        showLens(state);
        if (!Engine.info.layers) return;
        showDla(state);
        showNorms(state);
    }

    return { title: 'The stream', mount, update };
})();
