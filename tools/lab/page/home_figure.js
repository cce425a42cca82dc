'use strict';
// Figures of the stops of the walk: the numbers of the chosen token at this point, as rows of colour, as
// bars, or as products.
const HomeFigure = (() => {
    const { h } = Dom;
    const MOST = 10, WIDE = 4, CELLS = 32;

    // ---- kinds of figure ----

    // A row of numbers as colours, one limit for all rows: [label, numbers].
    function rows(caption, list) {
        const shown = list.filter((x) => x[1]), limit = Math.max(...shown.flatMap(([, x]) => Array.from(x.subarray(0, CELLS), Math.abs))) || 1, scale = Colour.diverging(limit, App.state.dark);
        const cut = shown.some(([, x]) => x.length > CELLS) ? `, the first ${CELLS}` : '';
        return h('figure', null, h('figcaption', null, caption + cut), shown.map(([name, x]) => h('div.strip', null, h('span', null, name), h('span.cells', { role: 'img', 'aria-label': Array.from(x.subarray(0, 8), (v) => Numbers.fixed(v, 2)).join(', ') },
            Array.from(x.subarray(0, CELLS), (v) => h('i', { title: Numbers.fixed(v, 4), style: { 'background-color': Colour.css(scale.rgb(v)) } }))))));
    }

    // [label, size, text]
    function bars(caption, list) {
        const high = Math.max(...list.map((x) => Math.abs(x[1]))) || 1;
        return h('figure', null, h('figcaption', null, caption), list.map(([name, v, text]) => h('div.strip', null, h('span', null, name), h('span.track', { 'aria-hidden': 'true' },
            h('i' + (v < 0 ? '.minus' : ''), { style: { width: `${(100 * Math.abs(v)) / high}%` } })), h('span.n', null, text || Numbers.fixed(v, 2)))));
    }

    // The chosen query times every key, number by number.
    function scores(s) {
        const { d, kv: of } = HomeData.heads(0), kv = of(s.head), [queries, all] = ['q', 'k'].map((part) => HomeData.compared(part, 0));
        const q = App.row(queries, s.query, s.head), line = App.line(HomeData.hook(0, 'attn.hook_attn_scores'), s.head, s.query), wide = Math.min(WIDE, d);
        const keys = Numbers.top(line, MOST).sort((a, b) => a - b), best = Numbers.best(line);
        const product = (j) => Array.from(q, (x, e) => x * App.row(all, j, kv)[e]), limit = Math.max(...keys.flatMap((j) => product(j).map(Math.abs))) || 1;
        const cell = (v) => {
            const rgb = Colour.diverging(limit, s.dark).rgb(v);
            return h('td', { style: { 'background-color': Colour.css(rgb), color: Colour.ink(rgb) } }, Numbers.fixed(v, 2));
        };
        return h('div.scroll', null, h('table.nums', null, h('caption', null, `products of the query of ${HomeCell.word(s.query)} with each key${d > wide ? `, the first ${wide} of ${d}` : ''}`),
            h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'key'), Array.from({ length: wide }, (_, e) => h('th', { scope: 'col' }, e)), h('th', { scope: 'col' }, 'sum'), h('th', { scope: 'col' }, 'score'))),
            h('tbody', null, keys.map((j) => {
                const p = product(j);
                return h('tr' + (j === best ? '.on' : ''), null, h('th', { scope: 'row' }, HomeText.label(s.ids[j])), p.slice(0, wide).map(cell), h('td', null, Numbers.fixed(Exact.chained(q, App.row(all, j, kv), 1), 2)), h('td', null, Numbers.fixed(line[j], 2)));
            }))));
    }

    // ---- what a stop shows ----

    const at = (hook, s) => (HomeData.hook(0, hook) ? HomeData.layerRow(0, hook, s.query) : null);
    const here = (s) => HomeText.label(s.ids[s.query]);
    const ofHead = (hook, s, pos) => {
        const t = HomeData.hook(0, hook), heads = t.dims[1];
        return App.row(t, pos, Math.floor((s.head * heads) / HomeData.heads(0).H));
    };
    const keptRow = (pos) => Float32Array.from({ length: at('attn.hook_k', { query: pos }).length }, (_, c) => HomeShort.kept(0)(pos, c));
    const cached = (s) => Array.from({ length: Math.min(MOST, s.query + 1) }, (_, i) => s.query - Math.min(MOST - 1, s.query) + i);

    function lengths(layers, s) {
        const list = [];
        for (const l of layers)
            for (const [hook, name] of [['hook_resid_pre', 'stream'], ['hook_attn_out', 'attention'], ['hook_mlp_out', 'MLP'], ['hook_resid_post', 'stream after']])
                if (hook !== 'hook_resid_pre' || l === layers[0]) list.push([layers.length > 1 ? `${l} ${name}` : name, Numbers.length(HomeData.layerRow(l, hook, s.query))]);
        return bars(`length of what each adds for “${here(s)}”`, list.slice(0, 2 * MOST));
    }

    function shared(s) {
        const line = App.line(HomeData.hook(0, 'attn.hook_pattern'), s.head, s.query), keys = Numbers.top(line, MOST).sort((a, b) => a - b);
        return bars(`what “${here(s)}” looks at, head ${s.head}`, keys.map((j) => [`${j} ${HomeText.label(s.ids[j])}`, line[j], `${(100 * line[j]).toFixed(1)} %`]));
    }

    function neurons(s) {
        const x = at('mlp.hook_post', s), top = Numbers.top(x.map(Math.abs), MOST).filter((i) => x[i] !== 0);
        return bars(`the largest neurons at “${here(s)}”`, top.map((i) => [`neuron ${i}`, x[i]]));
    }

    function candidates(s, chance) {
        const x = Engine.choices(s.query), p = HomeData.chances(s.query);
        return bars(`after “${here(s)}”`, Numbers.top(x, MOST).map((id) => [HomeText.candidate(id), chance ? p[id] : x[id], chance ? `${(100 * p[id]).toFixed(1)} %` : '']));
    }

    const latents = (s) => (Engine.live ? rows('latents, kept', cached(s).map((j) => [`${j} ${HomeText.label(s.ids[j])}`, HomeLatent.row(0, j)])) : null);

    const FIGURES = [
        (s) => rows(`“${here(s)}”`, [['token', HomeData.layerRow(-1, 'hook_embed', s.query)], ['place', App.tensor('hook_pos_embed') && HomeData.layerRow(-1, 'hook_pos_embed', s.query)], ['stream', at('hook_resid_pre', s)]]),
        (s) => lengths(Array.from({ length: Math.min(4, Engine.info.layers) }, (_, l) => l), s),
        (s) => rows(`“${here(s)}”, before and after`, [['stream', at('hook_resid_pre', s)], ['norm', at('ln1.hook_normalized', s)]]),
        (s) => rows(`queries of head ${s.head}`, cached(s).map((j) => [`${j} ${HomeText.label(s.ids[j])}`, ofHead('attn.hook_q', s, j)])),
        latents,
        (s) => [rows(`keys of head ${s.head}`, cached(s).map((j) => [`${j} ${HomeText.label(s.ids[j])}`, ofHead('attn.hook_k', s, j)])), rows(`values of head ${s.head}`, cached(s).map((j) => [`${j} ${HomeText.label(s.ids[j])}`, ofHead('attn.hook_v', s, j)]))],
        (s) => (HomeLatent.has(0) ? latents(s) : rows(`kept by head ${s.head}: key and value in one row`, cached(s).map((j) => [`${j} ${HomeText.label(s.ids[j])}`, Float32Array.from([...ofHead('attn.hook_k', s, j), ...ofHead('attn.hook_v', s, j)])]))),
        (s) => rows(`“${here(s)}”, head ${s.head}: before and after`, [['query', ofHead('attn.hook_q', s, s.query)], ['turned', ofHead('attn.hook_rot_q', s, s.query)]]),
        scores, shared,
        (s) => [shared(s), rows('values, and what is mixed of them', [...cached(s).map((j) => [`${j} ${HomeText.label(s.ids[j])}`, ofHead('attn.hook_v', s, j)]), ['mixed', ofHead('attn.hook_z', s, s.query)]])],
        (s) => rows(`“${here(s)}”`, [['B', at('attn.hook_k', s)], ['x', at('attn.hook_v', s)], ['kept', keptRow(s.query)]]),
        (s) => rows(`what “${here(s)}” reads`, [...Array.from({ length: Math.min(s.query + 1, HomeShort.taps(0)) }, (_, j, n = Math.min(s.query + 1, HomeShort.taps(0))) => s.query + 1 - n + j).map((j) => [`${j} ${HomeText.label(s.ids[j])}`, keptRow(j)]), ['C', at('attn.hook_q', s)], ['read', at('attn.hook_z', s)]]),
        (s) => rows(`“${here(s)}”`, [['mixed', at('attn.hook_z', s)], ['attention adds', at('hook_attn_out', s)], ['stream before', at('hook_resid_pre', s)], ['stream after', at('hook_resid_mid', s)]]),
        (s) => bars(`the router at “${here(s)}”`, Array.from(at('mlp.hook_router_scores', s), (v, i) => [`expert ${i}`, v]).slice(0, 2 * MOST)),
        (s) => bars(`weights of the experts at “${here(s)}”`, HomeExperts.chosen(0, s.query).map((i) => [`expert ${i}`, HomeExperts.weights(0, s.query)[i]])),
        neurons,
        (s) => [neurons(s), rows(`“${here(s)}”`, [['MLP adds', at('hook_mlp_out', s)], ['stream after', at('hook_resid_post', s)]])],
    ];

    // The figure of stop n of `last`: the last two are the same in every model.
    function of(stop, n, last, s) {
        if (n >= last - 1) return candidates(s, n === last);
        if (!Engine.info.layers) return null;
        return FIGURES[stop.first] ? FIGURES[stop.first](s) : lengths(stop.parts.slice(0, 4), s);
    }

    return { of };
})();
