'use strict';
// One block as a pipeline: every stage with the line of src/page/page.inc that computes it, the
// shape of what it gives and the numbers themselves. tests/browser/numbers.js holds the quoted
// lines to the source.
const Block = (() => {
    const { h, fill, button, card } = Dom;

    // [title, hook, formula, line of page.inc]; a stage that the model lacks is left out.
    const STAGES = [
        ['residual in', 'hook_resid_pre', 'x', 'mix_in_x0(p, l);'],
        ['norm', 'ln1.hook_normalized', 'h = norm(x)', 'mat h = norm(p, p->h, &l->attn_norm, p->x);'],
        ['queries', 'attn.hook_q', 'q = W_Q h', 'qkv_matmul(p, l, h);'],
        ['keys', 'attn.hook_k', 'k = W_K h', 'qkv_matmul(p, l, h);'],
        ['values', 'attn.hook_v', 'v = W_V h', 'qkv_matmul(p, l, h);'],
        ['queries, rotated', 'attn.hook_rot_q', 'q at its position', 'qk_norm_rope(p, l);'],
        ['keys, rotated', 'attn.hook_rot_k', 'k at its position, kept in the cache', 'qk_norm_rope(p, l);'],
        ['scores', 'attn.hook_attn_scores', 's = q · k / √d, the future masked', 'attend(p);'],
        ['weights', 'attn.hook_pattern', 'a = softmax(s)', 'attend(p);'],
        ['heads', 'attn.hook_z', 'z = Σ a v', 'attend(p);'],
        ['attention out', 'hook_attn_out', 'W_O z', 'matmul(p, p->a, &l->o, p->o);'],
        ['residual', 'hook_resid_mid', 'x = x + W_O z', 'add(p, p->x, p->a);'],
        ['norm', 'ln2.hook_normalized', 'h = norm(x)', 'mat h = norm(p, p->h, &l->ffn_norm, p->x);'],
        ['MLP in', 'mlp.hook_pre', 'W_1 h', 'mlp_up(p, l, h);'],
        ['MLP, linear part', 'mlp.hook_pre_linear', 'W_3 h', 'mlp_up(p, l, h);'],
        ['activation', 'mlp.hook_post', 'act(W_1 h)', 'mlp_up(p, l, h);'],
        ['MLP out', 'hook_mlp_out', 'W_2 act(W_1 h)', 'matmul(p, p->m, &l->down, p->f);'],
        ['residual out', 'hook_resid_post', 'x = x + MLP', 'add(p, p->x, p->m);'],
    ];

    let items = [], list, detail, matrix, number, layerOut, chosen = 0, column = 0;

    const isAttention = (stage) => /attn_scores$|pattern$/.test(stage[1]);

    // A stage's values as one matrix of the shown positions: heads side by side; of scores and
    // weights the chosen head.
    function picture(stage, state) {
        const t = App.ofLayer(stage[1]);
        if (isAttention(stage)) {
            const rows = Array.from({ length: state.step }, (_, i) => App.line(t, state.head, i));
            return { cols: state.step, value: (i, j) => rows[i][j], name: 'key', label: Token.head,
                masked: (i, j) => (j > i || rows[i][j] === -Infinity ? 'hidden' : ''), shape: [t.dims[0], state.step, state.step] };
        }
        const heads = t.dims.length === 3, d = t.dims[t.dims.length - 1], cols = heads ? t.dims[1] * d : d;
        return { cols, value: (i, j) => t.data[i * cols + j], name: heads ? 'head.dim' : 'dim', shape: [state.step, ...t.dims.slice(1)],
            label: heads ? (j) => `${Math.floor(j / d)}.${j % d}` : String };
    }

    const shape = (p) => `[${p.shape.join(', ')}]`;

    function extent(p, state) {
        let low = Infinity, high = -Infinity, sum = 0, n = 0;
        for (let i = 0; i < state.step; i++)
            for (let j = 0; j < p.cols; j++) {
                if (p.masked && p.masked(i, j)) continue;
                const v = p.value(i, j);
                low = Math.min(low, v);
                high = Math.max(high, v);
                sum += v * v;
                n++;
            }
        return { low, high, rms: Math.sqrt(sum / Math.max(1, n)) };
    }

    const scaleOf = (stage, e, state) => (stage[1] === 'attn.hook_pattern' ? Colour.sequential(0, 1)
        : Colour.diverging(Math.max(Math.abs(e.low), Math.abs(e.high)), state.dark));

    function makeItem(stage, i) {
        const canvas = h('canvas', { 'aria-hidden': 'true' }), size = h('code');
        const el = button([h('span.number', null, i + 1), h('span.name', null, stage[0], h('small', null, LessonParts.math(stage[2]))), canvas, size],
            () => choose(i));
        return { stage, i, canvas, size, el };
    }

    function showItem({ stage, i, canvas, size, el }, state) {
        const p = picture(stage, state), e = extent(p, state);
        Matrix.draw(canvas, { rows: state.step, cols: p.cols, value: p.value, masked: p.masked, scale: scaleOf(stage, e, state) });
        size.textContent = shape(p);
        el.className = 'stage' + (i === chosen ? ' chosen' : '');
        el.tabIndex = i === chosen ? 0 : -1;
        el.setAttribute('aria-pressed', i === chosen);
        if (i === chosen && list.contains(document.activeElement)) el.focus({ preventScroll: true });
    }

    function choose(i) {
        chosen = Math.max(0, Math.min(items.length - 1, i));
        column = 0;
        update(App.state);
    }

    function showDetail(state, stage) {
        const attention = isAttention(stage), p = picture(stage, state), e = extent(p, state);
        fill(detail, h('h4', null, `${chosen + 1}. ${stage[0]}`), h('p.formula', null, LessonParts.math(stage[2])),
            h('dl', null, h('dt', null, 'src/page/page.inc'), h('dd', null, h('code', null, stage[3])),
                h('dt', null, 'hook'), h('dd', null, h('code', null, `blocks.${state.layer}.${stage[1]}`)),
                h('dt', null, 'shape'), h('dd', null, h('code', null, shape(p)), attention ? `, head ${state.head} shown` : ''),
                h('dt', null, 'values'), h('dd', null, `${Numbers.fixed(e.low)} to ${Numbers.fixed(e.high)}, root mean square ${Numbers.fixed(e.rms)}`)));
        matrix.update({ rows: state.step, cols: p.cols, rowName: attention ? 'query' : 'position', colName: p.name,
            rowLabel: Token.at, colLabel: p.label, value: p.value, masked: p.masked, scale: scaleOf(stage, e, state),
            selected: [state.query, Math.min(column, p.cols - 1)], format: (v) => Numbers.fixed(v, p.cols > 8 ? 2 : 4),
            onSelect: (i, j) => {
                column = j;
                App.set({ query: i });
            } });
        showNumber(state, stage, p);
    }

    // How the chosen number arises, as next to the picture of the whole model.
    function showNumber(state, stage, p) {
        const { layers } = Engine.info, { layer, head, query } = state, all = Home.full.mats, c = Math.min(column, p.cols - 1);
        const id = { 'hook_resid_post': layer + 1 < layers ? `${layer + 1}.x` : 'x', 'attn.hook_attn_scores': `${layer}.s${head}`, 'attn.hook_pattern': `${layer}.a${head}` }[stage[1]];
        const m = id ? all.get(id) : [...all.values()].find((x) => x.layer === layer && x.hook === stage[1]);
        if (m && c < m.cols && query < m.rows && !(m.tri && c > query)) HomePanel.number(HomeCell.explain(Home.full, m, query, c), number);
        else fill(number);
    }

    function mount(root) {
        if (!Engine.info.layers) return root.append(h('p', null, 'This model has no layers.'));
        list = h('div.stages', { role: 'group', 'aria-label': 'stages of the block' });
        list.addEventListener('keydown', (e) => {
            const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[e.key];
            if (!by) return;
            e.preventDefault();
            e.stopPropagation();
            choose(chosen + by);
        });
        detail = h('div');
        matrix = Matrix.create('values of the chosen stage', { maxCols: 16, id: 'stage', fill: true, wide: innerWidth > 760 ? 20 : 6 });
        number = h('div.panel.explained');
        layerOut = h('output');
        const move = (by) => () => App.set({ layer: App.state.layer + by });
        return root.append(card('One block, stage by stage', 'Every value is the engine’s own; rows are positions. Choose a number to see how it arises.',
            h('div.row', null, h('span.stepper', null, button('−', move(-1), { 'aria-label': 'layer down' }), layerOut,
                button('+', move(1), { 'aria-label': 'layer up' })), button('◀ stage', () => choose(chosen - 1)),
            button('stage ▶', () => choose(chosen + 1), { id: 'next-stage' })),
            h('div.columns.narrow.pipeline', null, list, h('div', null, detail, matrix.el, number))));
    }

    function update(state) {
        if (!Engine.info.layers) return;
        if (!items.length) {
            items = STAGES.filter((s) => App.ofLayer(s[1])).map(makeItem);
            fill(list, items.map((item) => item.el));
        }
        layerOut.textContent = `layer ${state.layer}`;
        for (const item of items) showItem(item, state);
        showDetail(state, items[chosen].stage);
    }

    return { id: 'block', title: 'One block', mount, update, extent, STAGES };
})();
