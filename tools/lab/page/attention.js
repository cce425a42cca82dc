'use strict';
// Where heads look: all of them as small pictures of one size, the chosen one in large with what it does over the
// whole text (patterns.js), the sharpest keys by word, and all heads of a layer for one query.
const Attention = (() => {
    const { h, fill, button, bar, choice, check, card } = Dom;

    const THUMB = 96, LONG = 60, FEW = 24; // pixels; tokens from which rows have their own scale; heads in one column
    const KEYS = 8, PAIRS = 6, AROUND = 5; // sharpest keys, sharpest pairs, characters shown before and after a key

    let grid, thumbs, big, one, whatChoice, future, bigTitle, oneTitle, oneSums, keyList, kinds, pairs, bigBox;
    let known = { key: '', list: [] }, drawn = '', shown = -1;

    const pattern = (layer) => App.tensor(`blocks.${layer}.attn.hook_pattern`);
    const scores = (layer) => App.tensor(`blocks.${layer}.attn.hook_attn_scores`);

    // All rows of a head: at(i, j), and which cells are not seen (the future; keys before a
    // window).
    function lines(t, raw, head, n) {
        const [rows, scores] = [t, raw].map((x) => Array.from({ length: n }, (_, i) => App.line(x, head, i)));
        return { at: (i, j) => rows[i][j], unseen: (i, j) => j > i || scores[i][j] === -Infinity };
    }

    // q . k times the model's scale, also where the model does not look.
    function dots(state) {
        const v = Head.vectors(state);
        return (i, j) => Numbers.dot(App.row(v.q, i, state.head), App.row(v.k, j, v.kvHead)) * Engine.info.attn_scale;
    }

    // ---- what is measured over the text ----

    // Layers that have attention: those of short convolutions have none.
    const attending = () => Array.from({ length: Engine.info.layers }, (_, l) => l).filter(pattern);

    // Patterns of all heads that look, in their order, once for a run.
    function patterns(state) {
        const key = `${App.changed} ${state.step}`;
        if (known.key === key) return known.list;
        const keys = Patterns.targets(state.ids, state.step), list = HomeData.allHeads().map(({ layer, head }) => {
            const t = pattern(layer), { unseen } = lines(t, scores(layer), head, state.step);
            return Patterns.measure(keys, (i) => App.line(t, head, i), (i, j) => !unseen(i, j));
        });
        known = { key, list };
        return list;
    }

    // How sizes become colours: rows of long texts have their own scale unless another is asked for.
    const digitsOf = (cols) => (cols > 9 && cols <= 20 ? 2 : 4); // that fit into the cells; more columns are a picture
    const scaleOf = (state) => state.what || (state.step > LONG ? 'rows' : 'weights');

    // ---- all heads ----

    // Elements of all heads, made once: a canvas costs more than what is drawn on it.
    function makeGrid() {
        const all = attending();
        thumbs = HomeData.allHeads().map(({ layer, head }) => {
            const text = h('span');
            return { layer, head, text, ...Matrix.thumb(text, () => App.set({ layer, head }), { 'data-layer': layer, 'data-head': head }) };
        });
        fill(grid, all.map((l) => h('div.layer', { role: 'group', 'aria-label': `layer ${l}` }, thumbs.filter((t) => t.layer === l).map((t) => t.el))));
    }

    // All weights of a head in at most THUMB x THUMB cells: each the largest of those in it, as a share of its row's
    // largest if `byRow`; -1: none is seen.
    function shrink(weights, raw, head, n, byRow) {
        const size = Math.min(n, THUMB), cells = new Float32Array(size * size).fill(-1);
        for (let i = 0; i < n; i++) {
            const row = App.line(weights, head, i), scores = App.line(raw, head, i), to = Math.floor((i * size) / n) * size;
            const full = byRow ? row[Numbers.best(row)] || 1 : 1;
            for (let j = 0; j <= i; j++) {
                const to2 = to + Math.floor((j * size) / n), v = row[j] / full;
                if (v > cells[to2] && scores[j] !== -Infinity) cells[to2] = v;
            }
        }
        return { size, cells };
    }

    function drawThumb({ head, canvas }, state, weights, raw, kind) {
        const { size, cells } = shrink(weights, raw, head, state.step, kind === 'rows');
        Matrix.draw(canvas, { rows: size, cols: size, scale: kind === 'log' ? Colour.logarithmic(1) : Colour.sequential(0, 1), value: (i, j) => cells[i * size + j],
            masked: (i, j) => cells[i * size + j] < 0 });
    }

    function showThumb({ layer, head, text, el }, state, weights, found) {
        const mine = App.line(weights, head, state.query), top = Numbers.best(mine), w = Numbers.fixed(mine[top], 2);
        const chosen = layer === state.layer && head === state.head, measure = Numbers.fixed(found.value, 2);
        el.className = 'thumb' + (chosen ? ' chosen' : '') + (Experiment.touches(state, layer, head) ? ' edited' : '');
        el.tabIndex = chosen ? 0 : -1;
        el.setAttribute('aria-pressed', chosen);
        el.setAttribute('aria-label', `layer ${layer} head ${head}: ${found.name} ${measure}; query ${Token.at(state.query)} looks most at ${Token.at(top)}, ${w}`);
        el.title = `${found.words} ${measure}`;
        fill(text, h('b', null, `${layer}.${head}`), ' ', found.name, h('br'), h('i', null, `${HomeText.label(state.ids[top])} ${w}`));
        if (chosen && grid.contains(document.activeElement)) el.focus({ preventScroll: true });
    }

    function showGrid(state) {
        const list = patterns(state), kind = scaleOf(state) === 'scores' ? 'rows' : scaleOf(state), key = `${known.key} ${kind} ${state.dark}`;
        thumbs.forEach((t, i) => {
            const weights = pattern(t.layer);
            if (key !== drawn) drawThumb(t, state, weights, scores(t.layer), kind);
            showThumb(t, state, weights, list[i]);
        });
        drawn = key;
    }

    // As a picture: small multiples; as data: what each head does.
    function gridFigure() {
        const list = patterns(App.state), all = attending(), { heads } = Engine.info, across = all.length === 1 ? Math.min(heads, 8) : heads;
        return { title: 'all heads', columns: ['layer', 'head', 'pattern', 'measure', 'evenness', ...list[0].kinds.flatMap((k) => [k.name, `${k.name} by chance`])],
            rows: list.map((f, i) => [thumbs[i].layer, thumbs[i].head, f.name, f.value, f.even, ...f.kinds.flatMap((k) => [k.n ? k.share : null, k.n ? k.chance : null])]),
            draw: (g, width) => {
                const size = Math.min(200, width / across - 10), c = Heat.theme();
                thumbs.forEach(({ canvas, layer, head }, i) => {
                    const place = all.indexOf(layer) * heads + head, x = (place % across) * (size + 10), y = Math.floor(place / across) * (size + 30);
                    g.imageSmoothingEnabled = false;
                    g.drawImage(canvas, 0, 0, canvas.width, canvas.height, x, y, size, size);
                    [g.font, g.fillStyle, g.textAlign, g.textBaseline] = [`11px ${Heat.FONT}`, c.ink, 'left', 'alphabetic'];
                    g.fillText(`${layer}.${head} ${list[i].name} ${Numbers.fixed(list[i].value, 2)}`, x, y + size + 14);
                });
                return Math.ceil((all.length * heads) / across) * (size + 30);
            } };
    }

    function onGridKey(e) {
        const by = Dom.arrow(e);
        if (!by) return;
        App.set({ layer: App.state.layer + by[0], head: App.state.head + by[1] });
    }

    // ---- one head ----

    function picture(state) {
        const kind = scaleOf(state), t = kind === 'scores' ? scores(state.layer) : pattern(state.layer), raw = scores(state.layer);
        const show = state.future === '1', dot = show && kind === 'scores' ? dots(state) : null;
        const { at: value, unseen: hidden } = lines(t, raw, state.head, state.step), seen = [], most = new Float32Array(state.step);
        for (let i = 0; i < state.step; i++) for (let j = 0; j <= i; j++) if (!hidden(i, j)) {
            seen.push(value(i, j));
            most[i] = Math.max(most[i], value(i, j));
        }
        const [low, high] = Numbers.range(seen), top = show && dot ? Math.max(high, 0) : high;
        return {
            value: (i, j) => (hidden(i, j) ? (dot ? dot(i, j) : 0) : value(i, j)),
            masked: (i, j) => (!hidden(i, j) ? '' : show ? 'shown' : 'hidden'),
            scale: kind === 'rows' ? Colour.rows(most) : kind === 'log' ? Colour.logarithmic(high) : kind === 'scores' ? Colour.sequential(low, top) : Colour.sequential(0, 1),
            format: kind === 'log' ? Numbers.scientific : (v) => Numbers.fixed(v, digitsOf(state.step)),
        };
    }

    // What the head does, in words: in the corner that no query sees.
    function tell(state, found) {
        const share = Numbers.fixed(found.value, 2), even = ['diffuse', 'mixed'].includes(found.name);
        bigBox.classList.toggle('cornered', state.step > 3 && state.future !== '1');
        fill(bigTitle, h('b', null, `Head ${state.layer}.${state.head}`), h('b.hot', null, found.name, !even && [' ', h('span.value', null, share)]), h('span', null, even
            ? `${found.name === 'mixed' ? 'No pattern stands out' : 'It looks at many keys'}; its entropy is ${share} of that of even attention.`
            : `It looks at ${found.words} with ${share} of its attention. Even attention would give ${Numbers.fixed(found.chance, 2)}.`));
    }

    function showBig(state) {
        const found = patterns(state)[thumbs.findIndex((t) => t.layer === state.layer && t.head === state.head)];
        tell(state, found);
        big.update({ rows: state.step, cols: state.step, rowName: 'query', colName: 'key', rowLabel: state.step > KEYS * 2 ? Token.word : Token.at,
            colLabel: Token.head, triangle: state.future !== '1', title: `head ${state.layer}.${state.head}, ${found.name} ${Numbers.fixed(found.value, 2)}`, ...picture(state), selected: [state.query, state.key],
            onSelect: (i, j) => App.set({ query: i, key: j }) });
        showKinds(found);
        showKeys(state);
    }

    // The measure of every pattern with chance as a line.
    function showKinds(found) {
        const row = (name, words, share, chance, n) => h('tr' + (name === found.name ? '.selected' : ''), { title: words }, h('th', { scope: 'row' }, name), h('td.bars', null, bar(share)),
            h('td.num', n ? { 'data-x': share } : null, n ? Numbers.fixed(share, 2) : '–'), h('td.num', n && chance !== null ? { 'data-x': chance } : null, n && chance !== null ? Numbers.fixed(chance, 2) : ''));
        fill(kinds, h('thead', null, h('tr', null, ['pattern', '', 'share', 'chance'].map((t, i) => h('th' + (i > 1 ? '.num' : ''), { scope: 'col' }, t || h('span.sr', null, 'bar'))))),
            h('tbody', null, found.kinds.map((k) => row(k.name, `${k.words}: mean over ${k.n} queries`, k.share, k.chance, k.n)), row('diffuse', 'entropy as a share of the largest', found.even, null, 1)));
    }

    // Shows the token at pos, marked, with a few tokens before and after it.
    function around(pos) {
        const { ids } = App.state, [before, after] = Running.around(ids, pos, AROUND);
        if (Token.of(ids[pos]).control) return h('span.around', null, h('mark', null, HomeText.label(ids[pos])));
        return h('span.around', null, before, h('mark', null, HomeText.label(ids[pos])), after);
    }

    const row = (query, key, weight, high, text, on) => button([text, bar(weight / high), h('span.value', null, Numbers.fixed(weight, 3))], () => App.set({ query, key }),
        { kind: '.keyrow' + (on ? '.on' : ''), 'aria-label': `query ${Token.at(query)}, key ${Token.at(key)}, ${Numbers.fixed(weight, 3)}`, 'aria-current': on ? 'true' : null });

    function showKeys(state) {
        const t = pattern(state.layer), mine = App.line(t, state.head, state.query), top = Numbers.top(mine, KEYS), focus = keyList.contains(document.activeElement);
        fill(keyList, h('h4', null, Token.at(state.query), ' looks at'), top.map((j) => row(state.query, j, mine[j], mine[top[0]], around(j), j === state.key)));
        if (focus) keyList.querySelector('.on')?.focus({ preventScroll: true });
        const all = Array.from({ length: state.step - 1 }, (_, n) => {
            const i = n + 1, w = App.line(t, state.head, i), j = Numbers.best(w);
            return { i, j, w: w[j] };
        });
        const sharp = all.sort((a, b) => b.w - a.w).slice(0, PAIRS);
        fill(pairs, h('h4', null, 'Sharpest of the text'), sharp.map((p) => row(p.i, p.j, p.w, 1, h('span.around', null, HomeText.label(state.ids[p.i]), ' → ', around(p.j)), false)));
    }

    // ---- all heads of a layer for one query ----

    function showOne(state) {
        const t = pattern(state.layer), raw = scores(state.layer), heads = HomeData.heads(state.layer).H, [weights, seen] = [t, raw].map((x) => Array.from({ length: heads }, (_, i) => App.line(x, i, state.query)));
        const most = Float32Array.from(weights, (w) => w[Numbers.best(w)]);
        fill(oneTitle, `Layer ${state.layer}: what query `, h('b', null, Token.at(state.query)), ' looks at, head by head');
        one.update({ rows: heads, cols: state.query + 1, rowName: 'head', colName: 'key', rowLabel: String,
            colLabel: Token.head, value: (i, j) => weights[i][j], scale: state.step > LONG ? Colour.rows(most) : Colour.sequential(0, 1),
            masked: (i, j) => (seen[i][j] === -Infinity ? 'hidden' : ''), selected: [state.head, state.key], format: (v) => Numbers.fixed(v, digitsOf(state.query + 1)),
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
        if (!attending().length) return root.append(h('p', null, `This model has no ${Engine.info.layers ? 'layers of attention' : 'layers'}: there is no attention to look at.`));
        const layers = attending().length, { heads } = Engine.info, many = layers * heads > FEW;
        grid = h('div.heads' + (many ? '.many' : ''), { style: { '--heads': layers === 1 ? Math.ceil(Math.sqrt(heads)) : heads, '--wide': Math.min(8, layers * heads) } });
        grid.addEventListener('keydown', onGridKey);
        makeGrid();
        const narrow = innerWidth < 621, small = narrow ? { maxRows: 6, maxCols: 6 } : { wide: 20 }; // on a phone ten keys have room for digits
        big = Matrix.create('attention of the chosen head', { id: 'attention', fill: true, ...small, picture: { square: true, most: 90 } });
        one = Matrix.create('all heads of the layer for one query', { id: 'one-query', fill: true, ...small, maxRows: 32, picture: { high: 260 } });
        [bigTitle, oneTitle, oneSums] = [h('p.told'), h('p.lead'), h('p.note')];
        [keyList, pairs, kinds] = [h('div.keys'), h('div.keys'), h('table.plain.kinds')];
        whatChoice = choice('what to show', [['weights', 'shares'], ['rows', 'by row'], ['log', 'log'], ['scores', 'scores']], 'weights',
            (v) => App.set({ what: v }));
        future = check('masked future', false, (v) => App.set({ future: v ? '1' : '0' }));
        layerStep = stepper('layer', 'layer');
        headStep = stepper('head', 'head');
        bigBox = h('div.cornered', null, bigTitle, big.el);
        const all = card('All heads', 'A row is a query, a column a key. Below each: the pattern that it is nearest to, and what the chosen query looks at most.', grid);
        const query = card('One query, every head', null, oneTitle, one.el, oneSums), few = layers * heads <= 8;
        Share.figure(grid, gridFigure);
        root.append(h('div.columns.fit' + (many ? '.stacked' : ''), null, all, h('div', null, card('One head', null, h('div.row', null, layerStep.el, headStep.el, whatChoice.el, future.el),
            h('div.onehead', null, bigBox, h('div.side', null, keyList, h('div', null, h('h4', null, 'Pattern over the text'), kinds), pairs))), !few && query)));
        return Head.mount(root, few ? query : null);
    }

    // A layer without attention is passed by.
    function settle(state) {
        const all = attending(), up = all.find((l) => l >= state.layer) ?? all[all.length - 1], down = all.findLast((l) => l <= state.layer) ?? all[0];
        state.layer = shown < 0 || state.layer >= shown ? up : down;
        shown = state.layer;
    }

    function update(state) {
        if (!thumbs) return;
        settle(state);
        layerStep.set(state.layer);
        headStep.set(state.head);
        whatChoice.set(scaleOf(state));
        future.input.checked = state.future === '1';
        showGrid(state);
        showBig(state);
        showOne(state);
        Head.update(state);
    }

    return { id: 'attention', title: 'Attention', mount, update, scaleOf };
})();
