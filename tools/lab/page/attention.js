'use strict';
// A panel of where heads look: all of them as small pictures of one size, the chosen one in large with what it does over the
// whole text (patterns.js), and the sharpest keys by word. How a share arises is told by the picture's panel (home_cell.js).
const Attention = (() => {
    const { h, fill, button, bar, choice, table, card } = Dom;

    const THUMB = 96, LONG = 60, FEW = 24; // pixels; tokens from which rows have their own scale; heads in one column
    const KEYS = 8, AROUND = 5; // sharpest keys, characters shown before and after one

    let grid, thumbs, big, whatChoice, bigTitle, keyList, kinds, bigBox, one;
    let known = { key: '', list: [] }, drawn = '';

    const pattern = (layer) => App.tensor(`blocks.${layer}.attn.hook_pattern`);
    const scores = (layer) => App.tensor(`blocks.${layer}.attn.hook_attn_scores`);

    // All rows of a head: at(i, j), and which cells are not seen (the future; keys before a
    // window).
    function lines(t, raw, head, n) {
        const [rows, scores] = [t, raw].map((x) => Array.from({ length: n }, (_, i) => App.line(x, head, i)));
        return { at: (i, j) => rows[i][j], unseen: (i, j) => j > i || scores[i][j] === -Infinity };
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
        Matrix.draw(canvas, { rows: size, cols: size, scale: Colour.sequential(0, 1), value: (i, j) => cells[i * size + j],
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
                    const text = `${layer}.${head} ${list[i].name} ${Numbers.fixed(list[i].value, 2)}`;
                    Heat.put(g, text, x, y + size + 14, `11px ${Heat.FONT}`, c.ink, 'left', 'alphabetic');
                });
                return Math.ceil((all.length * heads) / across) * (size + 30);
            } };
    }

    // ---- one head ----

    function picture(state) {
        const kind = scaleOf(state), t = kind === 'scores' ? scores(state.layer) : pattern(state.layer), raw = scores(state.layer);
        const { at: value, unseen } = lines(t, raw, state.head, state.step), seen = [], most = new Float32Array(state.step);
        for (let i = 0; i < state.step; i++) for (let j = 0; j <= i; j++) if (!unseen(i, j)) {
            seen.push(value(i, j));
            most[i] = Math.max(most[i], value(i, j));
        }
        const [low, high] = Numbers.range(seen);
        return {
            value: (i, j) => (unseen(i, j) ? 0 : value(i, j)),
            masked: unseen,
            scale: kind === 'rows' ? Colour.rows(most) : kind === 'scores' ? Colour.sequential(low, high) : Colour.sequential(0, 1),
            format: (v) => Numbers.fixed(v, state.step > 9 && state.step <= 20 ? 2 : 4), // digits that fit into the cells; more columns are a picture
        };
    }

    // What the head does, in words: in the corner that no query sees.
    function tell(state, found) {
        const share = Numbers.fixed(found.value, 2), even = ['diffuse', 'mixed'].includes(found.name);
        bigBox.classList.toggle('cornered', state.step > 3);
        fill(bigTitle, h('b', null, `Head ${state.layer}.${state.head}`), h('b.hot', null, found.name, !even && [' ', h('span.value', null, share)]), h('span', null, even
            ? `${found.name === 'mixed' ? 'No pattern stands out' : 'It looks at many keys'}; its entropy is ${share} of that of even attention.`
            : `It looks at ${found.words} with ${share} of its attention. Even attention would give ${Numbers.fixed(found.chance, 2)}.`));
    }

    function showBig(state) {
        const found = patterns(state)[thumbs.findIndex((t) => t.layer === state.layer && t.head === state.head)];
        tell(state, found);
        big.update({ rows: state.step, cols: state.step, rowName: 'query', colName: 'key', rowLabel: state.step > KEYS * 2 ? Token.word : Token.at,
            colLabel: Token.head, triangle: true, title: `head ${state.layer}.${state.head}, ${found.name} ${Numbers.fixed(found.value, 2)}`, ...picture(state), selected: [state.query, state.key],
            onSelect: (i, j) => App.set({ query: i, key: j }) });
        showKinds(found);
        showKeys(state);
    }

    // The measure of every pattern with chance as a line.
    function showKinds(found) {
        const row = (name, words, share, chance, n) => ({ selected: name === found.name, cells: [h('span', { title: words }, name), bar(share), n ? Numbers.cell(share, 2) : '–', n && chance !== null ? Numbers.cell(chance, 2) : ''] });
        fill(kinds, table(null, ['pattern', '', 'share', 'chance'], [...found.kinds.map((k) => row(k.name, `${k.words}: mean over ${k.n} queries`, k.share, k.chance, k.n)), row('diffuse', 'entropy as a share of the largest', found.even, null, 1)], '.kinds'));
    }

    // Shows the token at pos, marked, with a few tokens before and after it.
    function around(pos) {
        const { ids } = App.state, [before, after] = Token.of(ids[pos]).control ? [] : Running.around(ids, pos, AROUND);
        return h('span.around', null, before, h('mark', null, HomeText.label(ids[pos])), after);
    }

    const row = (key, weight, high, on) => button([around(key), bar(weight / high), h('span.value', null, Numbers.fixed(weight, 3))], () => App.set({ key }),
        { kind: '.keyrow' + (on ? '.on' : ''), 'aria-label': `key ${Token.at(key)}, ${Numbers.fixed(weight, 3)}`, 'aria-current': on ? 'true' : null });

    function showKeys(state) {
        const t = pattern(state.layer), mine = App.line(t, state.head, state.query), top = Numbers.top(mine, KEYS), focus = keyList.contains(document.activeElement);
        fill(keyList, h('h4', null, Token.at(state.query), ' looks at'), top.map((j) => row(j, mine[j], mine[top[0]], j === state.key)));
        if (focus) keyList.querySelector('.on')?.focus({ preventScroll: true });
    }

    // ---- the view ----

    function mount(root) {
        if (!attending().length) return root.append(h('p', null, `This model has no ${Engine.info.layers ? 'layers of attention' : 'layers'}: there is no attention to look at.`));
        const layers = attending().length, { heads } = Engine.info, many = layers * heads > FEW;
        grid = h('div.heads' + (many ? '.many' : ''), { style: { '--heads': layers === 1 ? Math.min(4, heads) : heads, '--wide': Math.min(8, layers * heads) } });
        grid.addEventListener('keydown', (e) => {
            const by = Dom.arrow(e);
            if (by) App.set({ layer: App.state.layer + by[0], head: App.state.head + by[1] });
        });
        makeGrid();
        const narrow = innerWidth < 621, small = narrow ? { maxRows: 6, maxCols: 6 } : { wide: 20 }; // on a phone ten keys have room for digits
        big = Matrix.create('attention of the chosen head', { id: 'attention', fill: true, ...small, picture: { square: true, most: 90 } });
        [bigTitle, keyList, kinds] = [h('p.told'), h('div.keys'), h('div')];
        whatChoice = choice('what to show', [['weights', 'shares'], ['rows', 'by row'], ['scores', 'scores']], 'weights',
            (v) => App.set({ what: v }));
        bigBox = h('div.cornered', null, bigTitle, big.el);
        const all = card('All heads', 'A row is a query, a column a key. Below each: the pattern that it is nearest to, and what the chosen query looks at most.', grid);
        Share.figure(grid, gridFigure);
        one = card('One head', null, h('div.row', null, whatChoice.el, button('How this share arises', () => Home.choose([`${App.state.layer}.a${App.state.head}`, App.state.query, App.state.key]), { id: 'arises', kind: '.small' })),
            h('div.onehead', null, bigBox, h('div.side', null, keyList, h('div', null, h('h4', null, 'Pattern over the text'), kinds))));
        return root.append(all, one);
    }

    function update(state) {
        if (!thumbs) return;
        whatChoice.set(scaleOf(state));
        showGrid(state);
        one.hidden = !pattern(state.layer);
        if (!one.hidden) showBig(state);
    }

    return { title: 'All heads', mount, update, scaleOf };
})();
