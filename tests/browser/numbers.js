'use strict';
// The parts of the lab's page that need no page: arithmetic, colours, addresses, the lessons'
// matrices, and the lines of source that the page quotes. node numbers.js MGPT ROOT
const assert = require('assert');
const { execFileSync } = require('child_process');
const fs = require('fs');
const path = require('path');
const { test, finish } = require('../lab/report.js');

const [mgpt, root] = process.argv.slice(2);
// As embed.py does it.
const colours = ['LIGHT', 'DARK'].map((theme) => Object.fromEntries([...fs.readFileSync(path.join(root, 'tools/common/colours.h'), 'utf8')
    .matchAll(new RegExp(`#define COLOURS_(\\w+)_${theme} (.*)`, 'g'))].map((m) => [m[1].toLowerCase(), m[2].match(/[0-9a-f]{6}/g)])));
const source = (name) => fs.readFileSync(path.join(root, 'tools/lab/page', `${name}.js`), 'utf8').replace('= COLOURS;', `= ${JSON.stringify(colours)};`);
const parts = (names, result) => new Function('Dom', `${names.map((n) => source(n).replace("'use strict';", '')).join('')};return ${result};`)({});
const load = (name, result) => new Function('Dom', `${source(name)};return ${result};`)({});
const Numbers = load('numbers', 'Numbers'), Colour = load('colour', 'Colour'), Link = load('state', 'Link');

// Sums of a few doubles near 1: a few units in the last place.
const near = (a, b, what) => assert(Math.abs(a - b) <= 1e-14 * Math.max(1, Math.abs(b)), `${what}: ${a}, expected ${b}`);

test('cells of a table that begin like a formula are texts, numbers are numbers', () => {
    const { csvOf } = new Function('Dom', 'Pen', `${source('share')};return Share;`)({}, {});
    const cells = ['=1+2', '+cmd', '-x', '@SUM', '\t=1', '-1.5', '+2', -Infinity, '-.5e3', 'a=b', '-'];
    assert.strictEqual(csvOf({ columns: ['=A1', 'b'], rows: [cells] }),
        "'=A1,b\r\n'=1+2,'+cmd,'-x,'@SUM,'\t=1,-1.5,+2,-Infinity,-.5e3,a=b,'-\r\n");
});

test('softmax, by hand', () => {
    const p = Numbers.softmax([0, Math.log(3)]);
    near(p[0], 0.25, 'p0');
    near(p[1], 0.75, 'p1');
    const hot = Numbers.softmax([0, Math.log(3)], 2); // 1 : sqrt(3)
    near(hot[1] / hot[0], Math.sqrt(3), 'temperature 2');
    assert.deepStrictEqual(Array.from(Numbers.softmax([1, 5, 5], 0)), [0, 1, 0]); // the lowest id of equal ones
    assert.deepStrictEqual(Array.from(Numbers.softmax([-Infinity, 0])), [0, 1]);
    assert.deepStrictEqual(Numbers.softmax([1000, 1001]), Numbers.softmax([0, 1]));
});

test('ranks and the largest: ties go to the lower id', () => {
    const x = [1, 3, 2, 3];
    assert.deepStrictEqual([0, 1, 2, 3].map((i) => Numbers.rank(x, i)), [4, 1, 3, 2]);
    assert.deepStrictEqual(Numbers.top(x, 3), [1, 3, 2]);
    assert.deepStrictEqual(Numbers.top(x, 9), [1, 3, 2, 0]);
    assert.strictEqual(Numbers.best(x), 1);
});

test('KL, entropy, log p', () => {
    const half = [0, 0], p = [0, Math.log(3)];
    assert.strictEqual(Numbers.kl(p, p), 0);
    near(Numbers.kl(half, p), 0.5 * Math.log(0.5 / 0.25) + 0.5 * Math.log(0.5 / 0.75), 'KL');
    near(Numbers.entropy([0.5, 0.5, 0]), Math.LN2, 'entropy');
    near(Numbers.logprob(p, 1), Math.log(0.75), 'log p');
    near(Numbers.kl([0, -Infinity], half), Math.LN2, 'KL from what cannot occur');
});

test('top-k, then top-p of what is left', () => {
    const logits = [0.4, 0.3, 0.2, 0.1].map(Math.log), cut = (topK, topP) => {
        const { n, why } = Numbers.survivors(logits, { temperature: 1, topK, topP });
        return [n, ...logits.map((_, id) => why(id))];
    };
    assert.deepStrictEqual(cut(0, 1), [4, '', '', '', '']);
    assert.deepStrictEqual(cut(2, 1), [2, '', '', 'top-k', 'top-k']);
    assert.deepStrictEqual(cut(0, 0.65), [2, '', '', 'top-p', 'top-p']);
    assert.deepStrictEqual(cut(3, 0.4), [1, '', 'top-p', 'top-p', 'top-k']); // 0.4 of 0.9 is the first alone
    assert.deepStrictEqual(cut(3, 0.75), [2, '', '', 'top-p', 'top-k']); // 0.7 of 0.9, but not of 1
    assert.deepStrictEqual(cut(9, 0.01), [1, '', 'top-p', 'top-p', 'top-p']);
});

// A part of the page with others in place of what it needs.
const stubbed = (name, result, others) => new Function(...Object.keys(others), `${source(name)};return ${result};`)(...Object.values(others));

test('tokens are replaced, inserted after the chosen one, appended and removed', () => {
    const state = { view: 'predict', ids: Int32Array.of(5, 6, 7), was: [], query: 1, edits: [] }, seen = [], were = [];
    const App = { state, edit: (ids) => seen.push(ids), set: (s) => (s.ids && were.push(Array.from(s.was)), seen.push(s.ids || s.query)) };
    const { edits } = stubbed('strip', 'Strip', { Dom: {}, App });
    for (const name of ['replace', 'insert', 'append', 'remove']) edits[name](9);
    assert.deepStrictEqual(seen, [[5, 9, 7], 1, [5, 6, 9, 7], 2, [5, 6, 7, 9], 3, [5, 7], 0]);
    state.query = 2;
    edits.remove();
    assert.deepStrictEqual(seen.slice(-2), [[5, 6], 1]);
    // The text before a change is that before the first change of this token.
    Object.assign(state, { query: 1, ids: [5, 9, 7], was: [5, 6, 7] });
    for (const [id, part] of [[8], [6], [4, { query: 2 }], [9, { query: 1, edits: [{}] }]]) {
        Object.assign(state, part);
        edits.replace(id);
    }
    assert.deepStrictEqual(were, [[5, 6, 7], [5, 6, 7], [], [5, 9, 7], []]);
});

test('the text around a token, without BOS and itself', () => {
    const Engine = { info: { add_bos: 1 }, piece: (id) => ({ text: ['<BOS>', 'ab', 'c', '\\n', 'd', 'efg'][id] }) };
    const { around } = stubbed('running', 'Running', { Dom: {}, Engine });
    const ids = Int32Array.of(0, 1, 2, 3, 4, 5);
    assert.deepStrictEqual([0, 2, 5].map((i) => around(ids, i, 2)), [['', 'ab'], ['ab', ' d'], [' d', '']]);
    assert.deepStrictEqual(around(ids, 2, 3, 4), ['ab', ' ']);
    assert.deepStrictEqual(around(ids, 1, 9), ['', 'c defg']);
});

test('losses of a text', () => {
    const rows = [[0, Math.log(3)], [Math.log(4), 0]], l = Numbers.losses([0, 1, 1], (i) => rows[i]);
    assert.deepStrictEqual(l.map((x) => [x.pos, x.next, x.rank]), [[0, 1, 1], [1, 1, 2]]);
    near(l[0].nll, -Math.log(0.75), 'first');
    near(l[1].nll, Math.log(5), 'second');
});

test('numbers as text', () => {
    assert.strictEqual(Numbers.fixed(-0.00001), '0.0000');
    assert.strictEqual(Numbers.fixed(-1.5), '−1.5000');
    assert.strictEqual(Numbers.fixed(-Infinity), '−∞');
    assert.strictEqual(Numbers.exact(Math.fround(0.1)), '0.100000001');
    assert.strictEqual(Numbers.signed(0.25, 2), '+0.25');
    assert.strictEqual(Numbers.count(1115904), '1,115,904');
    assert.strictEqual(Numbers.scientific(0.00123), '1.23e−3');
});

test('colours: darker is larger (in dark themes lighter), middle is zero, ink can be read', () => {
    for (const dark of [false, true]) {
        Colour.begin(dark);
        const scale = Colour.sequential(-2, 6), ends = dark ? ['1f1d2b', 'efe9ff'] : ['f6f4fb', '35187f'], light = [];
        for (let v = -2; v <= 6; v += 0.5) light.push(Colour.luminance(scale.rgb(v)));
        assert(light.every((l, i) => i === 0 || (dark ? l > light[i - 1] : l < light[i - 1])), 'sizes are not monotonous');
        assert.deepStrictEqual([-9, 9].map((v) => scale.rgb(v).map((c) => c.toString(16).padStart(2, '0')).join('')), ends);
        const rows = Colour.rows([0.1, 0.5, 0]);
        assert.deepStrictEqual([rows.rgb(0.1, 0), rows.rgb(0.25, 1), rows.rgb(0, 2)], [1, 0.5, 0].map((v) => Colour.sequential(0, 1).rgb(v)));
    }
    for (const dark of [false, true]) {
        const signs = Colour.diverging(3, dark), [minus, plus] = [signs.rgb(-3), signs.rgb(3)];
        assert(minus[2] > minus[0] && plus[0] > plus[2], 'blue below, orange above');
    }
    const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    for (const scale2 of [false, true].flatMap((dark) => { Colour.begin(dark); return [Colour.sequential(0, 1), Colour.diverging(1, dark)]; }))
        for (let t = 0; t <= 1; t += 1 / 64) {
            const rgb = scale2.rgb(scale2.at(t)), ink = Colour.ink(rgb) === '#000' ? 0 : 1;
            assert(contrast(Colour.luminance(rgb), ink) >= 4.5, `contrast of ${rgb}`); // WCAG 2 AA
        }
});

// Four tokens a b a b; the rows are made up, so every share can be added by hand. Queries 2 and 3 count.
test('what a head does: shares, chance and evenness by hand', () => {
    const Patterns = parts(['numbers', 'patterns'], 'Patterns'), ids = [7, 8, 7, 8], keys = Patterns.targets(ids, 4);
    assert.deepStrictEqual(keys[2], [[1], [0], [2], [0], [1]]); // previous, first, itself, same, induction
    assert.deepStrictEqual(keys[3], [[2], [0], [3], [1], [2]]);
    const of = (rows, seen) => Patterns.measure(keys, (i) => Float64Array.from(rows[i]), seen), any = [[1], [0.5, 0.5]];
    const shares = (found) => found.kinds.map((k) => [k.name, k.share, k.chance, k.n]);
    const a = of([...any, [0.5, 0.25, 0.25], [0, 0.25, 0.75, 0]]);
    const chance = (1 / 3 + 1 / 4) / 2;
    assert.deepStrictEqual(shares(a).map((k) => [k[0], k[1], k[3]]), [['previous', 0.5, 2], ['first', 0.25, 2], ['itself', 0.125, 2], ['same', 0.375, 2], ['induction', 0.5, 2]]);
    for (const k of shares(a)) near(k[2], chance, k[0]);
    near(a.even, ((0.5 * Math.log(2) + 0.5 * Math.log(4)) / Math.log(3) + (0.25 * Math.log(4) + 0.75 * Math.log(4 / 3)) / Math.log(4)) / 2, 'evenness');
    const names = { previous: [[0, 1, 0], [0, 0, 1, 0]], first: [[1, 0, 0], [1, 0, 0, 0]], itself: [[0, 0, 1], [0, 0, 0, 1]] };
    for (const [name, rows] of Object.entries(names)) assert.deepStrictEqual([of([...any, ...rows]).name, of([...any, ...rows]).value], [name, 1]);
    const third = [1 / 3, 1 / 3, 1 / 3], even = of([...any, third, [0.25, 0.25, 0.25, 0.25]]);
    assert.strictEqual(even.name, 'diffuse');
    near(even.value, 1, 'even attention');
    assert.strictEqual(of([...any, [0.8, 0.1, 0.1], [0.02, 0.03, 0.48, 0.47]]).name, 'mixed');
    const near1 = of([...any, [0, 1, 0], [0, 0, 1, 0]], (i, j) => j > i - 2); // a window of two keys: chance is a half
    assert.deepStrictEqual(shares(near1)[0], ['previous', 1, 0.5, 2]);
    assert.deepStrictEqual(shares(near1)[1], ['first', 0, 0, 0]); // it is seen by neither query

    // a b c d a: the last query has an earlier a, and b followed it; c b c c: what follows the query itself does not count.
    assert.deepStrictEqual(Patterns.targets([1, 2, 3, 4, 1], 5)[4], [[3], [0], [4], [0], [1]]);
    assert.deepStrictEqual(Patterns.targets([3, 2, 3, 3], 4)[3], [[2], [0], [3], [0, 2], [1]]);
    const long = Array.from({ length: 12 }, (_, i) => i % 4), spread = (i, at) => Float64Array.from({ length: i + 1 }, (_, j) => (j === at ? 0.9 : 0.1 / i));
    const measure = (at) => Patterns.measure(Patterns.targets(long, 12), (i) => spread(i, at(i)));
    assert.strictEqual(measure((i) => (i < 4 ? 0 : i - 3)).name, 'induction');
    assert.strictEqual(measure((i) => (i < 4 ? i : i - 4)).name, 'same');
    assert.strictEqual(Patterns.measure(Patterns.targets([1, 2], 2), () => [1]).name, 'mixed'); // too short to say
});

test('addresses: what is written is read, what is wrong is left out', () => {
    const state = { view: 'home', cell: 'heads', layer: 0, head: 2, query: 4, key: 1, step: 5, what: 'scores', ids: [26, 0, 13, 13, 0], was: [26, 0, 13, 1, 0], lesson: 'mask', done: 'mask.heads', other: [1, 2],
        edits: [{ kind: 'head', layer: 0, head: 3, scale: 0 }, { kind: 'mlp', layer: 0, head: 0, scale: 'mean' },
            { kind: 'head', layer: 1, head: 0, scale: -1.5 }] };
    const { step, other, ...rest } = state; // the clean text goes with a patch
    assert.deepStrictEqual(Link.parse(Link.format(state)), rest);
    const patch = { kind: 'patch', over: 'attn_out', layer: 2, head: 0, pos: 3, scale: 'patch' }, clean = [26, 1], corrupt = [26, 0];
    const sent = Link.format({ ...state, other: clean, edits: [{ ...patch, clean, corrupt }, { kind: 'steer', scale: 2 }] });
    assert.match(sent, /edits=attn_out\.2\.0\.3:patch&other=26\.1&/); // no address holds a vector
    assert.deepStrictEqual(Link.parse(sent).edits.map((e) => Link.fill(e, state.ids, clean)), [{ ...patch, clean, corrupt }]);
    assert.deepStrictEqual(Link.fill({ ...patch, scale: 0.5 }, corrupt, []), { ...patch, scale: 0.5, clean: corrupt, corrupt: null });
    assert.strictEqual(Link.parse(Link.format({ ...state, step: 3 })).step, 3);
    assert.deepStrictEqual(Link.parse('#layer=0&head=2&query=4'), { layer: 0, head: 2, query: 4 });
    assert.deepStrictEqual(Link.parse('#layer=-1&head=x&ids=1.a&view=<b>&edits=0:1&what=all&=&nothing'), {});
    assert.deepStrictEqual(Link.parse('#__proto__=1&constructor=2'), {});
    assert.deepStrictEqual(Link.parse(''), {});
    const home = { view: 'home', layer: 0, head: 2, query: 4, cell: '0.s2.4.3', walk: 7, step: 5, ids: [26, 0, 13, 13, 0], edits: [], was: [], other: [], what: '' };
    assert.strictEqual(Link.format(home), '#at=4&head=0.2&cell=0.s2.4.3&walk=7&ids=26.0.13.13.0');
    const { step: _s, edits: _e, what: _w, was: _a, other: _o, ...named } = home;
    assert.deepStrictEqual(Link.parse(Link.format(home)), named);
    assert.deepStrictEqual(Link.parse('#cell=<b>&walk=x'), { view: 'home' });
});

const { LessonMath, LessonOne, LessonTwo } = parts(['numbers', 'lesson_parts', 'lesson_one', 'lesson_two'], '{ LessonMath, LessonOne, LessonTwo }');

test('shares of a row that sees nothing', () => assert.deepStrictEqual(LessonMath.softmax([-Infinity, -Infinity]), [0, 0]));

test('the lessons’ tables: names by letter, four heads on anna', () => {
    const { letters, counts } = LessonOne.bigrams('Emma  anna');
    assert.deepStrictEqual(letters, ['.', 'a', 'e', 'm', 'n']);
    assert.deepStrictEqual(counts, [[0, 1, 1, 0, 0], [2, 0, 0, 0, 1], [0, 0, 0, 1, 0], [0, 1, 0, 1, 0], [0, 1, 0, 0, 1]]);
    LessonTwo.HEADS.forEach((head, n) => {
        const out = execFileSync(mgpt, ['repl', path.join(root, 'weights/names.gguf')], { input: `anna\n/a 0 ${n}\n`, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] });
        const rows = out.split('\n').filter((l) => /^\d+ (<BOS>|")/.test(l)).map((l) => l.replace(/^\S+ \S+/, '').match(/\d\.\d{4}/g).map(Number));
        assert.deepStrictEqual(rows, head, `head ${n}`);
    });
});

test('the lines that the page quotes are in src/page/page.inc', () => {
    const forward = fs.readFileSync(path.join(root, 'src/page/page.inc'), 'utf8').split('\n').map((l) => l.trim().split(/ {2,}/)[0]);
    const { cell, walk } = parts(['numbers', 'home_cell', 'home_walk'], '{ cell: HomeCell.CODE, walk: HomeWalk.LINES }');
    for (const line of [...Object.values(cell), ...walk, ...LessonTwo.LINES]) assert(forward.includes(line), line);
});

test('the engine’s arithmetic on one number: fma rounds once, chains, exp', () => {
    const Exact = load('exact', 'Exact'), f = Math.fround;
    assert.strictEqual(Exact.fma(f(1 + 2 ** -12), f(1 + 2 ** -12), f(2 ** -60)), f(1 + 2 ** -11 + 2 ** -23)); // a tie but for 2^-60
    assert.strictEqual(Exact.fma(f(1 + 2 ** -12), f(1 + 2 ** -12), 0), f(1 + 2 ** -11)); // the tie itself, to even
    assert.strictEqual(Exact.fma(f(1 + 2 ** -12), f(1 + 2 ** -12), f(-(2 ** -60))), f(1 + 2 ** -11));
    const a = [1, 2 ** 24, 1, 1, 1, -(2 ** 24)], ones = a.map(() => 1);
    assert.strictEqual(Exact.matmul(a, ones, 65), 0); // one chain: 2^24 swallows each 1
    assert.strictEqual(Exact.matmul(a, ones, 64), 4); // four chains: (2 + 0) + (1 + 1)
    assert.deepStrictEqual([0, -200].map(Exact.exp), [1, 0]);
    for (let x = -20; x < 20; x += 0.37) assert(Math.abs(Exact.exp(f(x)) / Math.exp(f(x)) - 1) < 2e-7, `exp ${x}`);
});

finish().then((code) => process.exit(code));
