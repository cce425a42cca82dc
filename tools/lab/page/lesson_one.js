'use strict';
// Lessons 1 to 6: from counting letters to the causal mask. A lesson is {id, title, make(t), bridge}; t has
// say, pair (words and a figure side by side) and task of lessons.js.
const LessonOne = (() => {
    const { h, fill, button, choice, slider, table, bar } = Dom;
    const { figure, cap, named, grid, plane, chart, number, boxes } = LessonParts;
    const { map, transpose, mul, dot, size, softmax, normal, uniform } = LessonMath;
    const fixed = Numbers.fixed, names = (n) => Array.from({ length: n }, (_, i) => String(i));
    const power = (x) => (x < 7 ? fixed(Math.exp(x), 3) : Numbers.scientific(Math.exp(x)));
    const shares = (caption, head, rows) => table(caption, [head, 'share', ''], rows.map(([name, p]) => [name, fixed(p), bar(p)]));

    // ---- 1. the bigram table ----

    // {letters, counts}: how often each letter is followed by each; a dot is the start and the end of a name.
    function bigrams(text) {
        const list = text.toLowerCase().split(/\s+/).filter((w) => w).map((w) => ['.', ...w.replaceAll('.', ''), '.']);
        const letters = ['.', ...[...new Set(list.flat())].filter((c) => c !== '.').sort()];
        const counts = letters.map(() => letters.map(() => 0));
        for (const w of list) for (let i = 0; i + 1 < w.length; i++) counts[letters.indexOf(w[i])][letters.indexOf(w[i + 1])]++;
        return { letters, counts };
    }

    function draw({ letters, counts }, next) {
        let at = 0, name = '';
        do {
            const sum = counts[at].reduce((a, b) => a + b, 0);
            let left = next() * sum;
            at = counts[at].findIndex((n) => (left -= n) < 0);
            if (at > 0) name += letters[at];
        } while (at > 0 && name.length < 20);
        return name || '(nothing)';
    }

    const bigram = { id: 'bigram', title: 'Count what comes next', make(t) {
        const now = { row: 0, ...bigrams('emma anna ann') }, drawn = [];
        const input = h('input#lesson-names', { type: 'text', value: 'emma anna ann', maxlength: 60, spellcheck: 'false', autocomplete: 'off', 'aria-label': 'names' });
        const counts = grid('how often a letter (row) is followed by another (column)', { choose: (i) => { now.row = i; show(); } });
        const row = h('div.lrow'), out = h('p.ldrawn', { role: 'status' }), note = h('p.note');
        let next = uniform(1);
        function show() {
            const { letters, counts: c } = now, most = Math.max(...c.flat());
            counts.show({ rows: letters, cols: letters, values: c, kind: 'share', chosen: (i) => i === now.row, text: (i, j) => (c[i][j] ? null : '·'), digits: 0, limit: most });
            const sum = c[now.row].reduce((a, b) => a + b, 0);
            fill(row, shares(`after “${letters[now.row]}”: row ${now.row}, divided by its sum, ${sum}`, 'next', letters.map((l, j) => [l, sum ? c[now.row][j] / sum : 0])));
        }
        input.addEventListener('input', () => {
            const b = bigrams(input.value), fits = b.letters.length > 1 && b.letters.length <= 9;
            fill(note, fits ? '' : 'One to eight different letters, please.');
            if (fits) Object.assign(now, b, { row: Math.min(now.row, b.letters.length - 1) });
            show();
        });
        const write = button('Write a name', () => {
            drawn.unshift(draw(now, next));
            fill(out, drawn.slice(0, 8).join(', '));
        }, { id: 'lesson-write' });
        show();
        return [t.pair(t.say('A language model answers one question: what comes next? The simplest one counts. It goes through a text and notes, for each letter, which letter followed it.',
            'The grid holds the counts for three names. A row is a letter, a column is the one after it, and a dot is the start and the end of a name. *Choose a row:* divided by its sum it is a list of probabilities.',
            'To write a name, start at the dot. Look up its row, draw a letter by its share, look up the row of that letter, and go on until a dot is drawn. That is a whole language model: a table, and one look-up for each letter.',
            'Press *Write a name* a few times. Some results are fine, others are not: after an n the table does not know what came before the n. *It sees one letter.* To do better, a letter has to see all letters before it.'),
        figure('A table of counts', h('div.row', null, h('label.grow', null, h('span', null, 'Names'), input)), note, h('div.lseries', null, named('counts', counts.el), row), h('div.row', null, write, out))),
        t.task('Change the names so that after n the letter a has probability 0.75 exactly: three times out of four.', () => {
            const n = now.letters.indexOf('n'), a = now.letters.indexOf('a');
            if (n < 0 || a < 0) return [false, 'The names need both letters.'];
            const sum = now.counts[n].reduce((x, y) => x + y, 0), p = sum ? now.counts[n][a] / sum : 0;
            return [sum > 0 && now.counts[n][a] * 4 === sum * 3, `n is followed by something ${sum} times, by a ${now.counts[n][a]} times: ${fixed(p)}.`];
        }, 'A name that ends in n counts as a dot after n. You need three n that are followed by a, and one that is not.')];
    }, bridge: { text: 'A model with no layers is such a table, and one with layers still ends in a row of candidates.', label: 'The candidates for your text', to: () => ({ view: 'home', cell: 'next' }) } };

    // ---- 2. averages ----

    const VALUES = [[2, 4], [6, 0], [1, 5], [3, 3], [8, 1], [0, 7], [4, 2], [5, 6]];

    function averageFigure() {
        const now = { n: 4, row: 2, scores: false };
        const a = grid('the triangle', { choose: (i) => { now.row = i; show(); } }), x = grid('X, the values'), out = grid('the running averages'), sum = h('p.lsum', { role: 'status' });
        function show() {
            const n = now.n, ids = names(n), rows = VALUES.slice(0, n), s = ids.map((_, i) => ids.map((_j, j) => (j > i ? -Infinity : 0)));
            const A = s.map(softmax), z = mul(A, rows), r = Math.min(now.row, n - 1), first = rows.slice(0, r + 1);
            const straight = ids.map((_, i) => rows[0].map((_c, c) => rows.slice(0, i + 1).reduce((u, v) => u + v[c], 0) / (i + 1)));
            const worst = Math.max(...z.flatMap((row, i) => row.map((v, c) => Math.abs(v - straight[i][c]))));
            a.show({ rows: ids, cols: ids, values: now.scores ? s : A, kind: now.scores ? '' : 'share', chosen: (i) => i === r, digits: now.scores ? 0 : 4, text: (i, j) => (!now.scores && j > i ? '' : null) });
            x.show({ rows: ids, cols: ['0', '1'], values: rows, digits: 0, chosen: (i) => i <= r });
            out.show({ rows: ids, cols: ['0', '1'], values: z, digits: 4, chosen: (i) => i === r });
            fill(sum, `Row ${r}, column 0: ${first.map((v, i) => `${fixed(A[r][i])} × ${v[0]}`).join(' + ')} = ${fixed(z[r][0])}. `,
                `Adding and dividing by hand differs by at most ${worst ? Numbers.scientific(worst) : '0'}.`);
        }
        const n = slider('Rows', { min: 2, max: 8, step: 1, value: 4, id: 'lesson-rows', on: (v) => { now.n = v; show(); } });
        const what = choice('the triangle as', [['a', 'shares'], ['s', 'scores before softmax']], 'a', (v) => { now.scores = v === 's'; show(); });
        show();
        return figure('Running averages by a triangular matrix', h('div.row', null, n.el, what.el), h('div.lseries', null, named('A', a.el), named('X', x.el), named('A X', out.el)), sum);
    }

    const average = { id: 'average', title: 'Averages with a triangle', make(t) {
        let s = 0;
        const out = h('div.lrow'), show = () => fill(out, shares('row 3 after softmax', 'of row', softmax([0, 0, 0, s]).map((p, j) => [String(j), p])));
        const score = slider('Last score', { min: 0, max: 3, step: 0.01, value: 0, id: 'lesson-score', show: (v) => fixed(v, 2), on: (v) => { s = v; show(); } });
        show();
        return [t.pair(t.say('Let each letter see everything before it. The plainest way to mix several rows of numbers into one is their average: row 0 averages one row, row 1 two, row 2 three.',
            'Written as a matrix, the averages are a triangle: 1, then ½ ½, then ⅓ ⅓ ⅓. One product, A X, makes the averages of all rows at once. *Choose a row* to see its sum, and *move the slider* up to the 8 × 8 triangle, whose last row holds 0.1250 eight times.',
            'Now switch to *scores*. The triangle was made by softmax from zeros, and from −∞ where a row must not look: e⁰ is 1, e to the power of −∞ is 0, and each row is divided by its sum. The shares are the same.',
            'Why this detour? Because a zero can be changed. Raise one score, and its row takes more of that value, while the shares still add up to one. *Attention is this triangle with better scores.* The next lessons are about where these come from.'),
        averageFigure()),
        t.task('Row 3 has the scores 0, 0, 0 and one that you set. Raise it until the last share is 0.5, within 0.005.', () => {
            const p = softmax([0, 0, 0, s])[3];
            return [Math.abs(p - 0.5) <= 0.005, `The last share is ${fixed(p)}${Math.abs(p - 0.5) <= 0.005 ? ', and the score is the logarithm of 3, 1.10: e to its power weighs as much as the three others' : ''}.`];
        }, 'e to the power of the last score has to weigh as much as the three others together, and each of these weighs 1.', score.el, out)];
    }, bridge: { text: 'Each head of your model has such a triangle, with scores that are not zero.', label: 'The triangles of your model', layers: true, to: () => ({ view: 'attention', what: 'weights' }) } };

    // ---- 3. similarity ----

    const WORDS = ['The', 'cat', 'sat', 'down'], ROWS = [[-0.4, 1], [1.2, 0.9], [1, 0.3], [-0.1, 0.7]];

    const similarity = { id: 'similarity', title: 'Words as arrows', make(t) {
        const x = ROWS.map((r) => r.slice()), now = { i: 1, j: 2 }, sum = h('p.lsum', { role: 'status' });
        const s = grid('dot products of the words', { choose: (i, j) => { Object.assign(now, { i, j }); show(); } });
        const arrows = plane((i, to) => { x[i] = to; show(); }), typed = boxes('X', WORDS, ['0', '1'], x, () => show());
        function show() {
            const all = mul(x, transpose(x)), { i, j } = now, [a, b] = [x[i], x[j]], cos = dot(a, b) / (size(a) * size(b) || 1);
            typed.set();
            arrows.show(WORDS, x, 'Four words as arrows');
            s.show({ rows: WORDS, cols: WORDS, values: all, kind: 'sign', limit: 2.25, digits: 2, chosen: (r, c) => r === i && c === j });
            fill(sum, `${WORDS[i]} · ${WORDS[j]} = ${a.map((v, k) => `${fixed(v, 2)} × ${fixed(b[k], 2)}`).join(' + ')} = ${fixed(all[i][j], 2)}. `,
                `Lengths ${fixed(size(a), 2)} and ${fixed(size(b), 2)}, cosine of the angle ${fixed(cos, 2)}.`);
        }
        show();
        return [t.pair(t.say('A score should be high when two words have to do with each other. So words become *vectors*: rows of numbers. These have two numbers each, so that they can be drawn. Those of a real model have hundreds, found by training.',
            'Multiply two rows number by number and add. That is the *dot product*. It is large when both arrows point the same way, 0 at a right angle, below 0 when they point apart. Here cat · sat is 1.47 and The · sat is −0.10. *Drag the tips,* or type numbers, and watch the grid.',
            'Look at the row of down. Its largest product is with The, 0.74, more than with itself, 0.50. The arrows point nearly the same way, and The is longer: a dot product grows with the angle’s cosine and with *both lengths*.',
            'This is all of X Xᵀ in one product: every word with every other.'),
        figure('Words in the plane, and their dot products', h('div.lseries', null, h('div.lpart', null, h('h3', null, 'drag a tip'), arrows.el), named('X Xᵀ', s.el)), h('div.lseries', null, named('X', typed.el), h('p', null, button('As at first', () => {
            ROWS.forEach((r, i) => { x[i].splice(0, 2, ...r); });
            show();
        }, { kind: '.small' }))), sum)),
        t.task('Turn cat until cat · The is 0, within 0.02, and cat is still at least 1 long.', () => {
            const p = dot(x[1], x[0]), long = size(x[1]);
            return [Math.abs(p) <= 0.02 && long >= 1 && size(x[0]) > 0.1, `cat · The is ${fixed(p, 2)}, cat is ${fixed(long, 2)} long.`];
        }, 'At a right angle. The is (−0.4, 1) at first; turned by a right angle that is (1, 0.4), and so is every multiple of it.')];
    }, bridge: { text: 'A score of your model is such a sum, number by number.', label: 'One score of your model and its factors', layers: true, to: (s) => ({ view: 'home', walk: 0, cell: `${s.layer}.s${s.head}.${s.query}.${s.key}` }) } };

    // ---- 4. temperature ----

    const SCORES = [2, 0, 1];

    const temperature = { id: 'temperature', title: 'Scores become shares', make(t) {
        const scores = SCORES.slice(), lines = chart(), out = h('div.lrow'), xs = Array.from({ length: 99 }, (_, i) => Math.round(10 + i * 5) / 100);
        let tau = 1;
        const now = () => softmax(scores.map((s) => s / tau));
        function show() {
            const p = now(), all = xs.map((x) => softmax(scores.map((s) => s / x)));
            fill(out, table(null, ['score', '/ τ', 'e to that', 'share', ''], scores.map((s, i) => [fixed(s, 1), fixed(s / tau, 3), power(s / tau), fixed(p[i]), bar(p[i])])));
            lines.show(`Shares for τ from 0.1 to 5; at ${fixed(tau, 2)}: ${p.map((v) => fixed(v)).join(', ')}`, { xs, low: 0, high: 1, mark: tau, xName: 'τ', lines: scores.map((s, i) => ({ name: `score ${fixed(s, 1)}`, ys: all.map((r) => r[i]) })) });
        }
        const knob = slider('τ', { min: 0.1, max: 5, step: 0.01, value: 1, id: 'lesson-share-tau', show: (v) => fixed(v, 2), on: (v) => { tau = v; show(); } });
        const set = (v) => button(`τ = ${v}`, () => { tau = v; knob.set(v); show(); }, { kind: '.small' });
        show();
        return [t.pair(t.say('Scores may be any numbers. Shares have to be above 0 and add up to 1. *Softmax* takes e to the power of each score and divides by the sum of all. The order stays, and a lead of 1 is always a factor of e, 2.72, however large the scores are.',
            '= a_i = exp(s_i / τ) / Σ exp(s_j / τ)',
            'Divide the scores by a number τ first, the temperature. At τ = 0.1 the largest takes nearly everything, at τ = 5 all are nearly even. *Drag τ* and follow the line.',
            'Your model uses this twice: inside attention, where τ is √d, and at the end, where a temperature decides how often it draws an unlikely token.'),
        figure('Softmax at a temperature', h('div.row', null, knob.el, [0.1, 1, 5].map(set)), h('div.row', null, h('span', null, 'Scores'), scores.map((s, i) => number(`score ${i}`, s, (v) => { scores[i] = v; show(); }))), h('div.lseries', null, out, lines.el))),
        t.task('With the scores 2, 0 and 1, find the τ at which the largest share is 0.5, within 0.005.', () => {
            const p = Math.max(...now()), same = scores.every((s, i) => s === SCORES[i]), right = same && Math.abs(p - 0.5) <= 0.005;
            return [right, same ? `The largest share is ${fixed(p)} at τ = ${fixed(tau, 2)}.${right ? ' Call e to the power of 1/τ u: then u² = u + 1, so u is the golden ratio.' : ''}` : 'The scores are no longer 2, 0 and 1.'];
        }, 'A larger τ makes shares more even. At τ = 1 the largest has 0.6652, at τ = 5 it has 0.4018.')];
    }, bridge: { text: 'The same knob at the end of your model.', label: 'Temperature 0.5 in your model', to: () => ({ view: 'home', cell: 'next', temperature: 0.5 }) } };

    // ---- 5. the square root of d ----

    // Dot products of 125 random queries with 8 random keys, for d = 1, 2, 4 ... 256.
    function products() {
        const next = normal(7), sums = Array.from({ length: 9 }, () => []);
        for (let i = 0; i < 125; i++) {
            const q = Array.from({ length: 256 }, next);
            for (let j = 0; j < 8; j++)
                for (let e = 0, sum = 0; e < 256; e++) {
                    sum += q[e] * next();
                    if ((e & (e + 1)) === 0) sums[Math.log2(e + 1)].push(sum);
                }
        }
        return sums;
    }

    const spread = (list) => Math.sqrt(list.reduce((s, v) => s + v * v, 0) / list.length);

    function mostOf(list) {
        let sum = 0;
        for (let i = 0; i < list.length; i += 8) sum += Math.max(...softmax(list.slice(i, i + 8)));
        return sum / (list.length / 8);
    }

    const scale = { id: 'scale', title: 'Why √d', make(t) {
        const now = { k: 2, by: false }, bins = chart(), out = h('div.lrow');
        let all = null;
        const list = () => (all ||= products())[now.k].map((v) => (now.by ? v / Math.sqrt(2 ** now.k) : v));
        function show() {
            const d = 2 ** now.k, now8 = list(), xs = Array.from({ length: 41 }, (_, i) => i - 20), count = xs.map(() => 0);
            for (const v of now8) count[Math.max(0, Math.min(40, Math.round(v) + 20))]++;
            bins.show(`How often each product comes, d = ${d}; they spread by ${fixed(spread(now8), 2)}`, { xs, low: 0, high: 400, digits: 0, xName: 'product', lines: [{ name: 'products', ys: count }] });
            fill(out, table(null, ['', ''], [['spread of the products', fixed(spread(now8), 2)], ['√d', fixed(Math.sqrt(d), 2)], ['largest of 8 shares, on average', fixed(mostOf(now8), 2)]]), shares('the shares of one query', 'key', softmax(now8.slice(0, 8)).map((p, j) => [String(j), p])));
        }
        const knob = slider('d', { min: 0, max: 8, step: 1, value: 2, id: 'lesson-d', show: (v) => String(2 ** v), on: (v) => { now.k = v; show(); } });
        const divide = Dom.check('divide by √d', false, (on) => { now.by = on; show(); });
        divide.input.id = 'lesson-divide';
        t.later(show);
        return [t.pair(t.say('A dot product is a sum of d terms. The more terms, the further it strays from 0, even when the vectors are random: its spread is √d. The figure draws 1,000 products of random vectors. *Make d larger* and watch them spread.',
            'Where scores are far apart, softmax gives nearly everything to one. With d = 64, one of eight random keys gets most of the weight by chance alone, and the others get next to nothing. Nothing can be learned there: a share of 0 does not move when a score moves a little.',
            '= s_ij = q_i · k_j / √d',
            'So scores are divided by √d before softmax, and the spread is 1 at any width. In the next lesson d is 4: the scores 2, 0, 1 become 1, 0, 0.5, and their shares 0.6652, 0.0900, 0.2447 become 0.5065, 0.1863, 0.3072.'),
        figure('Products of random vectors', h('div.row', null, knob.el, divide.el), h('div.lseries', null, bins.el, out))),
        t.task('Find the d at which the products spread by about 8. Then divide, so that they spread by about 1.', () => {
            const d = 2 ** now.k, found = spread(list());
            return [d === 64 && now.by, `d is ${d}, the products${now.by ? ', divided,' : ''} spread by ${fixed(found, 2)}.`];
        }, 'The spread is √d. Which number has the square root 8? Then switch on “divide by √d”.')];
    }, bridge: { text: 'The seventh stop of the walk tells it with the numbers of your model.', label: 'The scores in the walk', layers: true, to: () => ({ view: 'home', walk: 7, cell: '' }) } };

    // ---- 6. the mask ----

    const THREE = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]], IDS = ['0', '1', '2'];

    const mask = { id: 'mask', title: 'No row reads ahead', make(t) {
        const hidden = [[false, true, true], [false, false, true], [false, false, false]];
        const raw = mul(THREE, transpose(THREE)), s = grid('scores: press a cell to hide it or to show it', { press: (i, j) => { hidden[i][j] = !hidden[i][j]; show(); } });
        const a = grid('shares'), z = grid('output'), note = h('p.lsum', { role: 'status' });
        function show() {
            const half = map(raw, (v, i, j) => (hidden[i][j] ? -Infinity : v / 2)), A = half.map(softmax), out = mul(A, THREE), ahead = hidden.some((r, i) => r.some((v, j) => !v && j > i));
            s.show({ rows: IDS, cols: IDS, values: half, kind: 'sign', limit: 1, digits: 1, chosen: (i, j) => !hidden[i][j], text: (i, j) => (hidden[i][j] ? '−∞' : null) });
            a.show({ rows: IDS, cols: IDS, values: A, kind: 'share', text: (i, j) => (hidden[i][j] ? '' : null) });
            z.show({ rows: IDS, cols: ['0', '1', '2', '3'], values: out, kind: 'sign', limit: 1 });
            const none = A.findIndex((r) => r.every((v) => v === 0));
            fill(note, none >= 0 ? `Row ${none} sees nothing: its output is 0.` : ahead ? 'A row sees a later one: while a text is written, that row does not exist yet.' : `No row sees a later one. Rows add up to ${A.map((r) => fixed(r.reduce((x, y) => x + y, 0), 2)).join(', ')}.`);
        }
        const preset = (name, f) => button(name, () => { hidden.forEach((r, i) => r.forEach((_, j) => { r[j] = f(i, j); })); show(); }, { kind: '.small' });
        show();
        return [t.pair(t.say('A model learns by guessing the next token at every position at once. If a row could see the rows after it, it would only copy the answer. And while a text is written, later rows do not exist yet. So every score of a later key becomes −∞, and softmax makes it 0, exactly. That is the *causal mask*.',
            'Here X has three rows of four numbers, queries and keys are X itself, and scores are X Xᵀ / √4. With the mask the shares are 1; then 0.2689 and 0.7311; then 0.2741, 0.2741 and 0.4519. *Press a cell* of the scores to hide or to show it.',
            'The last row mixes all three rows: 0.7259, 0.7259, 0.2741, 0.2741. Some texts print its shares as 0.211, 0.211, 0.578. That is softmax of 1, 1, 2, which is 0.2119, 0.2119, 0.5761: the division by √d was left out, and the digits were cut.',
            'Row 0 is always 1: the first token has only itself to look at.'),
        figure('Scores, shares and output under a mask', h('div.row', null, preset('causal', (i, j) => j > i), preset('nothing hidden', () => false)),
            h('div.lseries', null, named('X Xᵀ / 2', s.el), named('A', a.el), named('A X', z.el)), note, cap('An outlined cell is seen, −∞ is hidden.'))),
        t.task('Make a window of two: each row sees itself and the row right before it, nothing else. The first Mistral did this with 4,096 rows.', () => {
            const wrong = hidden.flatMap((r, i) => r.map((v, j) => [i, j, v === (j === i || j === i - 1)])).find((c) => c[2]);
            return [!wrong, wrong ? `Look at row ${wrong[0]}, column ${wrong[1]}: it ${hidden[wrong[0]][wrong[1]] ? 'has to be seen' : 'has to be hidden'}.` : 'However long the text is, a row reads two rows.'];
        }, 'Begin with “causal”. Which key is too far back for row 2?')];
    }, bridge: { text: 'The scores of your model have the same empty corner: no query has a score for a later key.', label: 'Scores of your model', layers: true, to: () => ({ view: 'attention', what: 'scores' }) } };

    return { LIST: [bigram, average, similarity, temperature, scale, mask], bigrams, WORDS, ROWS };
})();
