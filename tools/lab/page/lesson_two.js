'use strict';
// Lessons 7 to 14: from queries and keys to a step of microgpt and to training. See lesson_one.js.
const LessonTwo = (() => {
    const { h, math, fill, button, choice, check, select, slider, table, bar } = Dom;
    const { figure, cap, named, grid, plane, chart, number, boxes } = LessonParts;
    const { map, transpose, mul, dot, size, add, causal, softmax, norm, normal, matrix } = LessonMath;
    const fixed = Numbers.fixed, { WORDS, ROWS } = LessonOne;
    const scaled = (q, k) => map(mul(q, transpose(k)), (v) => v / Math.sqrt(q[0].length));
    const least = (rows) => Math.min(...rows.flatMap((a, i) => rows.slice(0, i).map((b) => dot(a, b) / (size(a) * size(b)))));

    // ---- 7. queries and keys ----

    const NAMED = { identity: [[1, 0], [0, 1]], 'only 0': [[1, 0], [0, 0]], 'only 1': [[0, 0], [0, 1]], flip: [[0, 1], [1, 0]], negate: [[-1, 0], [0, -1]] };

    function projected(t) {
        const w = { q: [[1, 0], [0, 1]], k: [[1, 0], [0, 1]] }, raw = scaled(ROWS, ROWS).map(softmax), next = normal(11), out = h('p.lsum', { role: 'status' });
        const before = grid('raw shares'), after = grid('projected shares'), queries = plane(), keys = plane(), typed = {};
        const shares = () => scaled(mul(ROWS, w.q), mul(ROWS, w.k)).map(softmax);
        function show() {
            const q = mul(ROWS, w.q), k = mul(ROWS, w.k), a = shares();
            before.show({ rows: WORDS, cols: WORDS, values: raw, kind: 'share', digits: 2, chosen: (i) => i === 2 });
            after.show({ rows: WORDS, cols: WORDS, values: a, kind: 'share', digits: 2, chosen: (i) => i === 2 });
            queries.show(WORDS, q, 'Queries');
            keys.show(WORDS, k, 'Keys');
            fill(out, `sat looks most at ${WORDS[Numbers.best(a[2])]}, ${fixed(Math.max(...a[2]), 2)}; raw, at ${WORDS[Numbers.best(raw[2])]}.`);
        }
        function control(key, name) {
            typed[key] = boxes(name, ['0', '1'], ['0', '1'], w[key], show);
            return h('div.lpart', null, h('h3', null, math(name)), typed[key].el, select(`set ${key === 'q' ? 'Q' : 'K'} to`, [...Object.keys(NAMED), 'random'].map((n) => [n, n]), 'identity', (v) => {
                (NAMED[v] || matrix(next, 2, 2)).forEach((r, i) => r.forEach((x, j) => { w[key][i][j] = Math.round(x * 100) / 100; }));
                typed[key].set();
                show();
            }).el);
        }
        show();
        return { shares, el: figure('Raw and projected attention', h('div.lseries', null, named('raw: softmax(X Xᵀ / √2)', before.el), named('projected: softmax(Q Kᵀ / √2)', after.el)),
            h('div.lseries', null, control('q', 'W_Q'), control('k', 'W_K')), h('div.lseries', null, h('div.lpart.small', null, h('h3', null, math('Q = X W_Q')), queries.el), h('div.lpart.small', null, h('h3', null, math('K = X W_K')), keys.el)), out) };
    }

    const projections = { id: 'projections', title: 'Questions and answers', make(t) {
        const f = projected(t);
        return [t.pair(t.say('Raw products have a flaw: the score of cat for sat is the score of sat for cat, and long words win everywhere. But sat may ask who sat, and that is not a question about verbs.',
            'So every word makes two more rows from its own. A *query* says what it looks for, Q = X W_Q. A *key* says what it offers, K = X W_K. A score is a query times a key. The two matrices are learned, and they are the same for all words.',
            'The left grid is raw, the right one projected; with identity matrices both are equal. *Choose* “only 0” and a single number decides. *Flip* swaps the two numbers, *negate* turns every question around, *random* is a model before training.',
            'The arrows show what the matrices do: they turn and stretch all words at once.'), f.el),
        t.task('Set W_Q and W_K so that sat looks most at The.', () => {
            const row = f.shares()[2], best = Numbers.best(row);
            return [best === 0, `sat gives ${WORDS.map((w, j) => `${w} ${fixed(row[j], 2)}`).join(', ')}.`];
        }, 'The points up and to the left. Which W_Q turns the query of sat, which points to the right, up or to the left?')];
    }, bridge: { text: 'The fourth stop of the walk: each token of your text makes its query.', label: 'Queries in the walk', layers: true, to: () => ({ view: 'home', walk: 4, cell: '' }) } };

    // ---- 8. one head ----

    const READS = ['The', 'bright', 'student', 'reads'], DIMS = ['describes', 'thing', 'act'];
    const FEATURES = [[0.2, 0.1, 0], [1.6, 0.2, 0.1], [0.3, 1.4, 0.4], [0, 0.3, 1.5]];
    const STAGES = [
        ['X', 'Four words, three numbers each: how much a word describes, is a thing, is an act. As they are, bright · student is 1.6 × 0.3 + 0.2 × 1.4 + 0.1 × 0.4 = 0.80.'],
        ['Q, K, V', 'W_Q makes the questions: a thing asks for what describes it, an act asks for the thing that does it, both times g. Keys and values are the words themselves here; in a model they have matrices of their own.'],
        ['Q Kᵀ / √3', 'Every query times every key, divided by the square root of 3.'],
        ['mask', 'Scores of later keys become −∞.'],
        ['A', 'Softmax, row by row: each word’s shares of attention.'],
        ['A V', 'Each row mixes the values by its shares. The row of student now holds how bright the student is.'],
    ];

    function headFigure(now) {
        const grids = STAGES.map(([name]) => grid(name, name === 'A' ? { choose: (i) => { now.row = i; show(); } } : {})), text = h('p', { role: 'status' }), sum = h('p.lsum'), all = h('div.lseries');
        const step = choice('stage', STAGES.map(([n], i) => [String(i), n]), '5', (v) => { now.stage = Number(v); show(); });
        const gain = slider('g', { min: 0, max: 4, step: 0.05, value: 1, id: 'lesson-gain', show: (v) => fixed(v, 2), on: (v) => { now.g = v; show(); } });
        now.run = () => {
            const q = mul(FEATURES, [[0, 0, 0], [now.g, 0, 0], [0, now.g, 0]]), s = scaled(q, FEATURES), m = causal(s), a = m.map(softmax);
            return [FEATURES, q, s, m, a, mul(a, FEATURES)];
        };
        function show() {
            const r = now.run(), wide = [0, 1, 5], a = r[4][now.row];
            r.forEach((values, i) => grids[i].show({ rows: READS, cols: wide.includes(i) ? DIMS : READS, values, kind: i === 4 ? 'share' : 'sign', limit: [2, 2, 3, 3, 1, 2][i], digits: 2,
                chosen: (row) => row === now.row && i !== 2, text: (x, y) => (i === 4 && y > x ? '' : null) }));
            fill(all, r.map((_, i) => (i <= now.stage && (i !== 2 || now.stage === 2) ? named(i === 1 ? 'Q' : STAGES[i][0], grids[i].el) : null)));
            fill(text, math(STAGES[now.stage][1]));
            fill(sum, now.stage < 5 ? '' : `${READS[now.row]}, first number: ${FEATURES.slice(0, now.row + 1).map((v, j) => `${fixed(a[j], 2)} × ${v[0]}`).join(' + ')} = ${fixed(r[5][now.row][0], 2)}`);
        }
        show();
        return figure('One head of attention, stage by stage', step.el, h('div.row', null, gain.el), text, all, sum);
    }

    const head = { id: 'head', title: 'One head', make(t) {
        const now = { g: 1, stage: 5, row: 2 };
        return [t.pair(t.say('Put together, this is one *head* of attention: make queries, keys and values, compare, divide, mask, softmax, mix. Six lines, and no others, let tokens see each other in a GPT.',
            '= z_i = Σ a_ij v_j',
            'The sentence is “The bright student reads”. *Step through the stages,* and choose a row of A to follow one word. g scales the questions: at 0 every word takes the plain average of lesson 2, at 4 student reads almost only bright.',
            'What a word passes on need not be what it offers as a key. That is why a *value* is a row of its own, V = X W_V: a word may be found by one feature and pass on another.'), headFigure(now)),
        t.task('Find the g at which student gives bright a share of 0.75, within 0.01.', () => {
            const p = now.run()[4][2][1];
            return [Math.abs(p - 0.75) <= 0.01, `student gives bright ${fixed(p)} at g = ${fixed(now.g, 2)}.`];
        }, 'At g = 1 it is about 0.56, at g = 3 about 0.89.')];
    }, bridge: { text: 'Stops 4 to 9 of the walk are these six stages with the numbers of your model.', label: 'One head of your model', layers: true, to: () => ({ view: 'attention', what: 'weights' }) } };

    // ---- 9. several heads ----

    // Shares of the four heads of weights/names.gguf on anna, by row: mgpt trace, hook_pattern.
    const ANNA = ['<BOS>', 'a', 'n', 'n', 'a'];
    const HEADS = [
        [[1], [0.6824, 0.3176], [0.2235, 0.6589, 0.1176], [0.0489, 0.1421, 0.048, 0.761], [0.1124, 0.0355, 0.3834, 0.4331, 0.0355]],
        [[1], [0.7434, 0.2566], [0.3838, 0.4623, 0.1539], [0.1551, 0.1437, 0.2621, 0.4391], [0.0099, 0.0004, 0.0204, 0.4079, 0.5614]],
        [[1], [0.0005, 0.9995], [0.3489, 0, 0.6511], [0.2878, 0, 0.4539, 0.2583], [0.3995, 0.0015, 0.213, 0.3855, 0.0005]],
        [[1], [0.634, 0.366], [0.4846, 0.3475, 0.1678], [0.3517, 0.3484, 0.1803, 0.1196], [0.1935, 0.2412, 0.154, 0.1415, 0.2699]],
    ];

    const heads = { id: 'heads', title: 'Several heads', make(t) {
        const now = { head: -1, row: 4 }, out = h('div.lrow'), square = (m) => m.map((r) => [...r, ...Array(5 - r.length).fill(0)]);
        const marks = ANNA.map((a, i) => `${i} ${a === '<BOS>' ? '·' : a}`), grids = HEADS.map((_, n) => grid(`head ${n}`, { choose: (i) => { Object.assign(now, { head: n, row: i }); show(); } }));
        function show() {
            grids.forEach((g, n) => g.show({ rows: marks, cols: ANNA.map((a) => (a === '<BOS>' ? '·' : a)), values: square(HEADS[n]), kind: 'share', digits: 2, chosen: (i) => n === now.head && i === now.row, text: (i, j) => (j > i ? '' : null) }));
            fill(out, table(`row ${marks[now.row]} in each head`, ['head', 'looks most at', 'share', 'entropy, nats', ''], HEADS.map((m, n) => {
                const row = m[now.row], best = Numbers.best(row), e = Numbers.entropy(row);
                return { selected: n === now.head, cells: [String(n), marks[best], fixed(row[best]), fixed(e, 2), bar(e / Math.log(5))] };
            })));
        }
        show();
        return [t.pair(t.say('Softmax gives one list of shares for each token. But a token has several questions: which letter was before me, where did the word begin, was there one like me? One list answers one of them.',
            'So the columns of Q, K and V are cut into *heads*. In the model called names, 16 numbers are 4 heads of 4 numbers. Each head has scores and shares of its own, and their outputs are put side by side again. It costs the same as one head of 16.',
            'These are its four heads on “anna”, a dot for the start. Row 0 is 1 in all of them: the first token sees nothing but itself. The last a looks at both n in head 0, at itself in head 1, at the start and the n in head 2. *Choose a row* in a head.',
            'Entropy says how undecided a row is: 0 when one key has it all, 1.61 when five keys are even.'),
        figure('Four heads of the names model on anna', h('div.lheads', null, grids.map((g, n) => named(`head ${n}`, g.el))), out)),
        t.task('In which head is the last a the least decided? Choose its last row there.', () => {
            const e = HEADS.map((m) => Numbers.entropy(m[4])), right = now.head === e.indexOf(Math.max(...e)) && now.row === 4;
            return [right, now.head < 0 ? 'Choose a row in one of the four grids.' : `Row ${marks[now.row]} of head ${now.head}: ${fixed(Numbers.entropy(HEADS[now.head][now.row]), 2)} nats.`];
        }, 'The most even row has the largest entropy. Read the column of row 4 a, then click that row in its head.')];
    }, bridge: { text: 'All heads of your model side by side, on your own text.', label: 'The heads of your model', layers: true, to: () => ({ view: 'attention', what: 'weights' }) } };

    // ---- 10. places ----

    const ASKS = [1.2, 0.4], OFFERS = [1, 0.9], FAR = 15, TURNS = [1, 0.3, 0.1]; // query and key at place 0; places; angles of a step in the chart
    const turn = ([x, y], a) => [x * Math.cos(a) - y * Math.sin(a), x * Math.sin(a) + y * Math.cos(a)];
    const apart = (distance, by) => dot(turn(ASKS, distance * by), OFFERS) / Math.SQRT2;

    function turned(now) {
        const arrows = plane(), curves = chart(), out = h('p.lsum', { role: 'status' }), xs = Array.from({ length: FAR + 1 }, (_, i) => i), place = (v) => String(v);
        const knob = (name, key, most, stepOf, show1) => slider(name, { min: 0, max: most, step: stepOf, value: now[key], id: `lesson-${key}`, show: show1, on: (v) => { now[key] = v; show(); } }).el;
        now.text = () => `Query at ${now.query}, key at ${now.key}: the score is ${fixed(dot(turn(ASKS, now.query * now.turn), turn(OFFERS, now.key * now.turn)) / Math.SQRT2)}.`;
        function show() {
            arrows.show(['query', 'key'], [turn(ASKS, now.query * now.turn), turn(OFFERS, now.key * now.turn)], 'Query and key, turned by their places');
            curves.show('Score by distance, for three angles', { xs, low: -2, high: 2, mark: Math.max(0, now.query - now.key), xName: 'places apart', lines: TURNS.map((by) => ({ name: `θ ${by}`, ys: xs.map((x) => apart(x, by)) })) });
            fill(out, `${now.text()} They are turned by ${fixed(now.query * now.turn, 2)} and ${fixed(now.key * now.turn, 2)}.`);
        }
        show();
        return figure('A query and a key, turned by their places', knob('Query at', 'query', FAR, 1, place), knob('Key at', 'key', FAR, 1, place), knob('θ', 'turn', 1, 0.05, (v) => fixed(v, 2)),
            h('div.lseries', null, h('div.lpart.small', null, h('h3', null, 'turned'), arrows.el), h('div.lpart', null, h('h3', null, 'score'), curves.el)), out);
    }

    const places = { id: 'places', title: 'Where a token is', make(t) {
        const now = { query: 5, key: 2, turn: 0.3 };
        return [t.pair(t.say('Scores compare what tokens are. Where they are, no score can see: shuffle the tokens before the last one, and it gives each the same share as before. So a model has to be told the place.',
            '*Learned places:* GPT-2 and microgpt have a second table with a row for each place, and add it at the very beginning. It is simple, and a text cannot be longer than the table.',
            '= x = E[token] + P[place]',
            '*Turned places,* called RoPE: Llama and most models since add nothing. They take the numbers of a query and of a key two by two, as arrows, and turn each by its place times an angle θ. *Move the places.* The product of two arrows depends on the angle between them alone, so the score depends on how far apart the two are, not on where they are.',
            'Each pair of numbers has a θ of its own. A large one tells neighbours apart, a small one still differs after thousands of places. The chart has three.'), turned(now)),
        t.task('At places 5 and 2 the score is 1.0623. Move the query to place 9, and the key so that the score is the same.', () => [now.query === 9 && now.key === 6,
            now.query === 9 && now.key === 6 ? `${now.text()} Three places apart, as before.` : now.text()], 'How far apart were they?')];
    }, bridge: { text: 'The first stop of the walk shows where your model gets its places from. The picture has queries and keys before and after they are turned, if it turns them.', label: 'The places of your model', to: () => ({ view: 'home', walk: 1, cell: '' }) } };

    // ---- 11. a block ----

    const E = 8, MOST = 12;

    // The rows after each layer of random weights; on: which parts there are.
    function stack(on) {
        const next = normal(5), w = 1 / Math.sqrt(E), rows = [];
        let x = matrix(next, 4, E);
        for (let l = 0; l < MOST; l++) {
            const [wq, wk, wv, wo] = [0, 1, 2, 3].map(() => matrix(next, E, E, w)), up = matrix(next, E, 4 * E, Math.sqrt(2) * w), down = matrix(next, 4 * E, E, w / 2);
            const part = (f) => {
                const y = f(on.norm ? norm(x) : x);
                x = on.stream ? add(x, y) : y;
            };
            if (on.attention) part((a) => mul(mul(causal(scaled(mul(a, wq), mul(a, wk))).map(softmax), mul(a, wv)), wo));
            if (on.mlp) part((a) => mul(map(mul(a, up), (v) => Math.max(0, v)), down));
            rows.push(x);
        }
        return rows;
    }

    const sizeOf = (x) => Math.sqrt(x.flat().reduce((s, v) => s + v * v, 0) / x.flat().length);

    const block = { id: 'block', title: 'A block, and many', make(t) {
        const on = { stream: true, norm: true, attention: true, mlp: true }, now = { layers: 4 }, rows = grid('four rows of the stream after the last layer'), alike = chart(), out = h('p.lsum', { role: 'status' });
        function show() {
            now.all = stack(on);
            const x = now.all[now.layers - 1], cos = now.all.map(least), xs = now.all.map((_, i) => i + 1);
            rows.show({ rows: ['0', '1', '2', '3'], cols: Array.from({ length: E }, (_, i) => String(i)), values: norm(x), kind: 'sign', limit: 2, digits: 1 });
            alike.show(`Least cosine of two rows by layer: ${cos.map((c) => fixed(c, 2)).join(', ')}`, { xs, low: -1, high: 1, mark: now.layers, xName: 'layers', lines: [{ name: 'cosine', ys: cos }] });
            fill(out, `After ${now.layers} ${now.layers === 1 ? 'layer' : 'layers'}: the two rows that differ most have cosine ${fixed(cos[now.layers - 1], 4)}; a number is ${sizeOf(x) >= 1000 ? Numbers.scientific(sizeOf(x)) : fixed(sizeOf(x), 2)} large on average.`);
        }
        const part = (key, name) => {
            const c = check(name, true, (v) => { on[key] = v; show(); });
            c.input.id = `lesson-${key}`;
            return c.el;
        };
        const depth = slider('Layers', { min: 1, max: MOST, step: 1, value: 4, id: 'lesson-layers', on: (v) => { now.layers = v; show(); } });
        show();
        return [t.pair(t.say('A *block* is a head’s work and an answer to it. Attention brings in what other tokens know. Then an MLP works on each row alone: many neurons look for a pattern each, and those that found theirs write something.',
            '= x ← x + attention(norm(x)),  x ← x + mlp(norm(x))',
            'Two details hold a deep stack together. A part does not replace its row, it *adds* to it: that is the residual stream. And each part reads a *norm* of the row, so that sums may grow and still be read at the same scale.',
            'The figure stacks up to 12 blocks with random weights on four random rows. *Take a part out.* Without the stream, attention averages the rows until all are the same, and what each token was is lost. Without the norm the numbers run away.'),
        figure('A stack of blocks with random weights', h('div.row', null, part('stream', 'residual stream'), part('norm', 'norm'), part('attention', 'attention'), part('mlp', 'MLP')), h('div.row', null, depth.el), h('div.lseries', null, alike.el, named('rows, normed', rows.el)), out)),
        t.task('Without the residual stream, and with all else in place: after how many layers are all rows alike for the first time, with a least cosine above 0.99? Set the layers to it.', () => {
            const cos = stack({ stream: false, norm: true, attention: true, mlp: true }).map(least), first = cos.findIndex((c) => c > 0.99) + 1;
            if (on.stream || !on.norm || !on.attention || !on.mlp) return [false, 'Take out the residual stream, and only that.'];
            return [now.layers === first, `After ${now.layers} the least cosine is ${fixed(cos[now.layers - 1], 4)}${now.layers > first ? ', but fewer layers do it, too' : ''}.`];
        }, 'Switch the residual stream off and read the line under the figure while you move the layers.')];
    }, bridge: { text: 'The picture has every stage of a block of your model; a number’s panel says its formula, its hook and its shape.', label: 'A block of your model', layers: true, to: () => ({ view: 'home', walk: 0, cell: '0' }) } };

    // ---- 12. the cache ----

    const LETTERS = ['·', 'a', 'n', 'n', 'a'];

    function cacheFigure(now) {
        const next = normal(3), embed = { '·': matrix(next, 1, 4)[0], a: matrix(next, 1, 4)[0], n: matrix(next, 1, 4)[0] }, places = matrix(next, 5, 4, 0.5), [wq, wk, wv] = [0, 1, 2].map(() => matrix(next, 4, 4, 0.6));
        const x = LETTERS.map((c, i) => embed[c].map((v, e) => v + places[i][e])), tags = LETTERS.map((c, i) => `${i} ${c}`);
        const grids = ['K', 'V', 'shares', 'z'].map((n) => grid(n)), text = h('p.lsum', { role: 'status' });
        // One step: the new row alone; or everything again from the first token. Both end in the same row z.
        const one = (i) => [mul([x[i]], wk)[0], mul([x[i]], wv)[0]], cache = [];
        function show() {
            const n = now.step, before = cache.length;
            cache.length = Math.min(before, n);
            for (let i = cache.length; i < n; i++) cache.push(one(i));
            const k = cache.map((c) => c[0]), v = cache.map((c) => c[1]), q = mul([x[n - 1]], wq), a = scaled(q, k).map(softmax), z = mul(a, v);
            const again = x.slice(0, n), z2 = mul(causal(scaled(mul(again, wq), mul(again, wk))).map(softmax), mul(again, wv))[n - 1], worst = Math.max(...z[0].map((u, e) => Math.abs(u - z2[e])));
            const kept = (i) => (now.cache ? i === n - 1 : true), blank = (i) => (i >= n ? '' : null), full = (m) => [...m, ...Array(5 - m.length).fill([0, 0, 0, 0])], cols = ['0', '1', '2', '3'];
            grids[0].show({ rows: tags, cols, values: full(k), kind: 'sign', limit: 2, digits: 2, chosen: (i) => i < n && kept(i), text: blank });
            grids[1].show({ rows: tags, cols, values: full(v), kind: 'sign', limit: 2, digits: 2, chosen: (i) => i < n && kept(i), text: blank });
            grids[2].show({ rows: [`${tags[n - 1]}`], cols: tags, values: [[...a[0], ...Array(5 - n).fill(0)]], kind: 'share', digits: 2, text: (_, j) => blank(j) });
            grids[3].show({ rows: [`${tags[n - 1]}`], cols, values: z, kind: 'sign', limit: 2, digits: 2 });
            fill(text, `Step ${n}: “${LETTERS[n - 1]}” comes in. ${now.cache ? `One row of K and of V is computed, ${n - 1} ${n === 2 ? 'was' : 'were'} kept` : `All ${n} rows of K and of V are computed again`}. `,
                `Rows computed so far: ${now.cache ? n : (n * (n + 1)) / 2}. The row z with and without the cache differs by ${worst ? Numbers.scientific(worst) : '0'}.`);
        }
        const move = (by) => () => { now.step = Math.max(1, Math.min(5, now.step + by)); show(); };
        show();
        return figure('Keys and values of one head, step by step', h('div.row', null, button('‹ Back', move(-1)), button('Next token ›', move(1), { kind: '.main', id: 'lesson-next' }),
            choice('cache', [['1', 'with the cache'], ['0', 'without']], '1', (v) => { now.cache = v === '1'; show(); }).el),
        h('div.lseries', null, named('K', grids[0].el), named('V', grids[1].el)), h('div.lseries', null, named('shares of the new query', grids[2].el), named('z', grids[3].el)), text, cap('Outlined rows are computed in this step.'));
    }

    const cache = { id: 'cache', title: 'One step, with its cache', make(t) {
        const now = { step: 3, cache: true };
        let answer = null;
        const box = number('rows without a cache', '', (v) => { answer = v; }, 1);
        box.id = 'lesson-answer';
        return [t.pair(t.say('A text is written token by token. When a new token comes, what has changed for the old ones? Nothing: the mask forbids them to see it. Their keys and values are the numbers they were.',
            'So these rows are kept. That is the *KV cache.* One step makes one query, one key and one value, appends the last two, and compares the query with all kept keys. *Press Next token* and watch one row come in.',
            'Old queries are not kept: their answers have been given. Only the newest row asks.',
            'Switch to *without*: every step computes all rows again, and the result is the same. In mgpt it is the same bit for bit, for any number of threads.'), cacheFigure(now)),
        t.task('Without a cache, step 1 computes one row of keys, step 2 two, and so on. How many are that together for a text of 16 tokens? With a cache they are 16.', () => [answer === 136,
            answer === null ? 'Type a number.' : answer === 136 ? '1 + 2 + … + 16 = 16 × 17 / 2. At 1,000 tokens it is 500,500 rows against 1,000.' : `${answer} is ${answer < 136 ? 'too small' : 'too large'}.`],
        'Add 1 + 2 + 3 + … + 16. The first and the last make 17, so do the second and the last but one.', h('p.row', null, h('label.grow', null, h('span', null, 'Rows'), box)))];
    }, bridge: { text: 'The sixth stop of the walk shows the rows that are kept and the places that are free.', label: 'The cache of your model', layers: true, to: () => ({ view: 'home', walk: 6, cell: '' }) } };

    // ---- 13. the whole step ----

    // Lines of src/page/page.inc with what they do and the lesson that has it.
    const LINES = [
        ['token_rows(p, p->x);', 'each token picks its row of numbers', 'similarity', 1],
        ['mat h = norm(p, p->h, &l->attn_norm, p->x);', 'each row at the same length, to be read', 'block', 3],
        ['qkv_matmul(p, l, h);', 'queries, keys and values', 'projections', 4],
        ['kv_append(p);', 'the new rows go into the cache', 'cache', 6],
        ['attend(p);', 'scores, mask, softmax, mix: the heads', 'head', 7],
        ['matmul(p, p->a, &l->o, p->o);', 'what the heads found, in the terms of the stream', 'heads', 10],
        ['mlp(p, l);', 'neurons answer, row by row', 'block', 11],
        ['add(p, p->x, p->m);', 'added to the stream', 'block', 12],
        ['matmul(p, p->logits, &p->model->head, y);', 'one score for every candidate', 'bigram', 13],
        ['scale_and_cap(p);', 'the scores, ready for softmax and a draw', 'temperature', 14],
    ];

    const step = { id: 'step', title: 'A step of microgpt', make(t) {
        let chosen = -1;
        const lines = h('div.llines', { role: 'radiogroup', 'aria-label': 'lines of a step' }, LINES.map(([code, what, id], i) => h('div.lline', null,
            h('label', null, h('input', { type: 'radio', name: 'lesson-line', value: i, on: { change: () => { chosen = i; } } }), h('span', null, h('code', null, code), h('small', null, what))),
            t.link(id))));
        return [t.pair(t.say('Now read a step of a GPT. These are lines of the engine in this page, src/page/page.inc, in their order. The middle ones run once in each layer. mgpt runs GPT-2 and Llama with the same page; they have more layers, wider rows, and norms and activations of their own.',
            'The model called names is microgpt: 1 layer, 4 heads, rows of 16 numbers, 4,192 parameters. It was trained on 32,000 first names, and it writes new ones letter by letter, one such step for each.',
            'Each line links to its lesson. What is left is where its numbers come from.'),
        figure('The lines of a step', lines)),
        t.task('In one line only, a token takes numbers from the rows of other tokens. Choose it.', () => [chosen === 4, chosen < 0 ? 'Choose a line.' : chosen === 4 ? 'All other lines work on each row alone.' : `“${LINES[chosen][0]}” ${chosen === 3 ? 'stores rows, but reads none of them' : 'works on each row alone'}.`],
            'Which line has a sum over positions? The others take a row and give a row.')];
    }, bridge: { text: 'The walk tells these lines with the numbers of your model, in 90 seconds.', label: 'The walk through your model', to: () => ({ view: 'home', walk: 1, cell: '' }) } };

    // ---- 14. training ----

    // A table of logits that learns the letters of lesson 1: {losses, step(rate), shares()}.
    function learner({ counts }) {
        const all = counts.flat().reduce((a, b) => a + b, 0), sums = counts.map((r) => r.reduce((a, b) => a + b, 0));
        let w = map(counts, () => 0);
        const shares = () => w.map(softmax), loss = (p) => counts.flat().reduce((s, n, i) => s - (n && n * Math.log(p.flat()[i])), 0) / all;
        return { shares, losses: [loss(shares())], least: loss(map(counts, (n, i) => n / sums[i])), step(rate) {
            const p = shares();
            w = map(w, (v, i, j) => v - (rate * (sums[i] * p[i][j] - counts[i][j])) / all);
            this.losses.push(loss(shares()));
        } };
    }

    const training = { id: 'training', title: 'Training', make(t) {
        const text = LessonOne.bigrams('emma anna ann'), now = { rate: 5, it: learner(text) }, curve = chart(), shares = grid('shares that were learned'), counted = grid('shares that were counted'), out = h('p.lsum', { role: 'status' });
        const at = (values) => ({ rows: text.letters, cols: text.letters, values, kind: 'share', digits: 2 });
        const steps = (n) => () => { for (let i = 0; i < n; i++) now.it.step(now.rate); show(); }, last = () => now.it.losses[now.it.losses.length - 1], said = () => `The loss is ${fixed(last())} after ${now.it.losses.length - 1} steps.`;
        function show() {
            const { losses: all, least } = now.it, losses = all.length > 1 ? all : [all[0], all[0]];
            curve.show(`Loss by step: ${fixed(losses[0])} to ${fixed(last())}`, { xs: losses.map((_, i) => i), low: 0, high: 2, xName: 'steps', lines: [{ name: 'learned', ys: losses }, { name: 'counted', ys: losses.map(() => least) }] });
            shares.show(at(now.it.shares()));
            fill(out, `${said()} Counting has ${fixed(least)}.`);
        }
        const again = () => { now.it = learner(text); show(); };
        counted.show(at(map(text.counts, (n, i) => n / text.counts[i].reduce((a, b) => a + b, 0))));
        show();
        return [t.pair(t.say('Where do the numbers of a model come from? Take the table of lesson 1, and do not count. Begin with zeros: softmax makes every letter as likely as any other.',
            'Go through the text. Each letter that comes had some share, and the *loss* is minus the logarithm of that share, averaged. Five even letters have ln 5 = 1.61.',
            'Now move each number a little to where the loss falls. How much it changes the loss is its *gradient.* In this table that is simple: the share that the letter had, less the share that it should have had.',
            '= w ← w − rate · gradient',
            '*Press 20 steps.* The loss falls to that of the counts, 0.73, and the shares become theirs: no table that sees one letter does better. With a small *rate* it takes long, with one of 40 each step goes too far.',
            'A GPT learns in the same way. Its gradient is passed back through all of its parts, its text has billions of tokens, and the rate is changed on the way.'),
        figure('A table that learns', h('div.row', null, button('One step', steps(1)), button('20 steps', steps(20), { id: 'lesson-train', kind: '.main' }), button('From the start', again, { id: 'lesson-untrain' })),
            h('div.row', null, slider('Rate', { min: 1, max: 40, step: 1, value: 5, id: 'lesson-rate', on: (v) => { now.rate = v; } }).el), curve.el, out, h('div.lseries', null, named('learned', shares.el), named('counted', counted.el)))),
        t.task('Find a rate with which the loss is below 0.745 after 60 steps or fewer.', () => [last() < 0.745 && now.it.losses.length <= 61, said()], 'At 5 it is 0.7500. Press “From the start” before you try another.')];
    }, bridge: { text: 'The loss of your text, token by token: what your model was trained to make small.', label: 'The loss of your text', to: () => ({ view: 'home', cell: 'next' }) } };

    return { LIST: [projections, head, heads, places, block, cache, step, training], LINES: LINES.map((l) => l[0]), HEADS };
})();
