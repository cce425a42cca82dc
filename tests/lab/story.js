'use strict';
// The Story of a lab page without a browser: every number of the room at some steps of training against mgpt score, generate and repl, the
// lines of the curve and the sentences against sums made here. node story.js MGPT ROOT
const assert = require('assert');
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { test, finish } = require('./report.js');
const { openFake } = require('./fake_page.js');

const [mgpt, root] = process.argv.slice(2), folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-story-')), steps = path.join(root, 'weights/names-steps');
const models = fs.readdirSync(steps).filter((f) => f.endsWith('.gguf')).sort().map((f) => path.join(steps, f)), held = path.join(steps, 'held.txt'), texts = path.join(steps, 'texts.txt');
const run = (args, input = '') => execFileSync(mgpt, args, { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'pipe'] });
const linesOf = (file) => fs.readFileSync(file, 'utf8').trim().split('\n');
const shareOf = (p) => (p >= 0.0995 ? String(Math.round(100 * p)) : String(Number((100 * p).toPrecision(2))));
const percents = (text) => [...text.matchAll(/([\d.]+) %/g)].map((m) => m[1]);
const HEAD = 2, TEXT = 'anna', HIDDEN = 26;

// Rows of numbers that the repl writes.
function table(model, command) {
    const file = path.join(folder, 'table');
    run(['repl', model, '--quiet'], `${TEXT}\n${command} -o ${file}\n`);
    return linesOf(file).filter((l) => l[0] !== '#').map((l) => l.split('\t').map(Number));
}

// Nats a letter of the held-out names for one who counts letters, or pairs, of the others: 27 signs, one added to each count.
function counted(pairs) {
    const of = (name) => [...`.${name}.`], counts = new Map(), all = new Map(), key = (a, b) => (pairs ? a + b : b), first = (a) => (pairs ? a : '');
    const each = (file, fn) => linesOf(file).forEach((name) => of(name).forEach((b, i, list) => i && fn(list[i - 1], b)));
    const more = (map, k) => map.set(k, (map.get(k) || 0) + 1);
    each(texts, (a, b) => { more(counts, key(a, b)); more(all, first(a)); });
    let sum = 0, n = 0;
    each(held, (a, b) => {
        sum -= Math.log(((counts.get(key(a, b)) || 0) + 1) / ((all.get(first(a)) || 0) + 27));
        n++;
    });
    return sum / n;
}

// C(n, k), as a product.
function choose(n, k) {
    let c = 1;
    for (let i = 1; i <= k; i++) c = (c * (n - k + i)) / i;
    return Math.round(c);
}

const VOWEL = /[aeiouy]/, letter = (i) => String.fromCharCode(97 + i);
const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;

async function main() {
    const file = path.join(folder, 'story.html');
    run(['lab', ...models.slice(3), ...models.slice(0, 3), '-p', TEXT, '--held', held, '--texts', texts, '-o', file]);
    const page = await openFake(file, ['App', 'Share', 'Story', 'Circuits', 'Engine', 'Home', 'Numbers', 'Trials']), { App, Engine, tick, $ } = page, known = new Set(linesOf(texts)), last = models.length - 1;
    const rooms = $('rooms'), one = (selector) => rooms.querySelector(selector), all = (selector) => rooms.querySelectorAll(selector);
    const go = (k, more = {}) => {
        App.set({ view: 'story', ago: last - k, layer: 0, head: HEAD, query: 4, ...more });
        tick(100);
    };
    test('the page opens with the story, at the first step', () => {
        assert.strictEqual(page.document.documentElement.dataset.ready, 'yes');
        assert.ok(fs.statSync(file).size <= 500000, `${fs.statSync(file).size} bytes`);
        assert.deepStrictEqual([App.state.view, App.state.ago, App.state.head], ['story', last, HEAD]);
    });
    test('it trains by itself, rests where the vowels are sorted first, ends with the finished model', () => {
        const frames = models.map(() => 0);
        go(0);
        one('#train').click(); // it has begun when the page opened: this stops it
        tick(3000);
        assert.deepStrictEqual([App.state.ago, one('#train').textContent], [last, '▶ Train it']);
        one('#train').click();
        for (let i = 0; i < 200; i++) {
            frames[last - App.state.ago]++;
            tick(100);
        }
        assert.strictEqual(App.state.ago, 0);
        assert.match(one('#train').textContent, /Again/);
        frames.slice(1, last).forEach((n, i) => assert.ok(i + 1 === 6 ? n >= 15 : n === 6, `step ${i + 1}: ${n} frames`));
    });
    test('a key stops it', () => {
        go(0);
        one('#train').click();
        tick(700);
        page.document.body.send('keydown', { key: '.' });
        const at = App.state.ago;
        tick(5000);
        assert.deepStrictEqual([App.state.ago, one('#train').textContent.includes('Go on')], [at, true]);
    });
    // An eigenvector of the centred table times itself, at right angles to the first, whose value no other direction exceeds.
    test('the map’s second direction', () => {
        const c = page.Circuits.of('qk', 0, HEAD, App.state), dot = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0), n = 26;
        const rows = Array.from({ length: n }, (_, t) => Array.from({ length: n }, (_x, f) => c.at(f, t))).map((row) => row.map((v) => v - row.reduce((a, b) => a + b) / n));
        const times = (v) => rows.map((row) => dot(row, rows[0].map((_, f) => rows.reduce((sum, r, t) => sum + r[f] * v[t], 0)))), unit = (v) => v.map((x) => x / Math.sqrt(dot(v, v)));
        const v = page.Circuits.second(c).slice(0, n), first = unit(Array.from(c.along).slice(0, n)), Gv = times(v), value = dot(v, Gv);
        assert(Math.abs(dot(v, first)) < 1e-9 && Math.abs(dot(v, v) - 1) < 1e-9 && v[0] > 0);
        assert(Math.max(...Gv.map((x, i) => Math.abs(x - value * v[i]))) < 1e-6 * value, 'it is no eigenvector');
        for (let k = 1; k < 60; k++) {
            const other = Array.from({ length: n }, (_, i) => Math.cos(k * i + i * i)), flat = unit([first, v].reduce((o, d) => { const along = dot(o, d); return o.map((x, i) => x - along * d[i]); }, other));
            assert(dot(flat, times(flat)) <= value, 'another direction varies more');
        }
    });
    test('the lines of the curve', () => [['knows nothing', Math.log(27)], ['counts letters', counted(false)], ['counts pairs', counted(true)]].forEach(([name, nats], i) => {
        const e = all('.ref')[i];
        assert.strictEqual(e.textContent, `${name}: ${Math.round(Math.exp(nats))}`);
        assert.ok(Math.abs(parseFloat(e.getAttribute('title')) - nats) < 1e-8);
    }));
    for (const [k, model] of models.entries()) test(`step ${k}: loss and texts`, () => {
        go(k);
        const nats = Number(/nll\/token +([\d.]+)/.exec(run(['score', model, '-f', held]))[1]), wrote = run(['generate', model, '--samples', '8', '--seed', '5', '--temp', '0.6']).trim().split('\n');
        assert.ok(one('.moment').textContent.startsWith(`step ${Number(/(\d+)\.gguf/.exec(model)[1]).toLocaleString('en')} torn between ${Math.exp(nats).toFixed(1)} letters`), one('.moment').textContent);
        assert.ok(Math.abs(parseFloat(one('.moment').querySelector('span').getAttribute('title')) - nats) < 1e-8);
        const list = one('.tries').querySelectorAll('li');
        assert.deepStrictEqual(list.map((li) => li.textContent), wrote);
        assert.deepStrictEqual(list.map((li) => li.className === 'known'), wrote.map((w) => known.has(w)));
    });
    for (const k of [0, 3, 6, 9, last]) test(`step ${k}: what it looks at and guesses`, () => {
        go(k);
        for (const head of [0, HEAD]) {
            App.set({ head });
            const pattern = table(models[k], `/a 0 ${head}`)[4], best = pattern.indexOf(Math.max(...pattern)), say = one('.part-reads .say').textContent;
            assert.deepStrictEqual(all('.part-reads .toks small').map((e) => percents(e.textContent)[0]), pattern.map((p) => (p > 0 && p < 0.001 ? '0.1' : shareOf(p))));
            assert.deepStrictEqual(percents(say), [shareOf(pattern[best]), '20']);
            assert.strictEqual(say.includes('equally'), pattern[best] < 0.27);
        }
        const top = run(['repl', models[k], '--quiet'], `${TEXT}\n/top 5\n`).split('\n').map((l) => /^ +\d+ +(\d+) +([\d.]+)/.exec(l)).filter(Boolean), cells = one('.part-reads table').rows.slice(1).map((r) => r.cells);
        assert.deepStrictEqual(cells.map((c) => c[0].textContent), top.map((t) => (Number(t[1]) === HIDDEN ? 'end' : letter(Number(t[1])))));
        cells.forEach((c, i) => assert.ok(Math.abs(Number(c[2].dataset.x) - Number(top[i][2])) < 1e-6));
    });
    for (const [k, head] of [[0, 2], [4, 1], [6, 2], [last, 2], [last, 0]]) test(`step ${k}: what training put into head ${head}`, () => {
        go(k, { head });
        const cells = table(models[k], `/circuits qk 0 ${head}`), order = /in this order: (.*) <BOS>/.exec(run(['repl', models[k], '--quiet', '--screen', 'plain'], `${TEXT}\n/circuits qk 0 ${head}\n`))[1].replace(/[" ]/g, '');
        const c = page.Circuits.of('qk', 0, head, App.state);
        assert.deepStrictEqual(Array.from(c.data, (v) => Number(v.toPrecision(9))), cells.flat());
        const shown = one('.alphabet').getAttribute('aria-label').replace(/.*: | /g, '');
        assert.ok([order, [...order].reverse().join('')].includes(shown), shown);
        const first = [...shown].slice(0, 6), hits = first.filter((x) => VOWEL.test(x)).length, say = one('.part-sorts .say').textContent;
        assert.ok(say.includes(first.join(' ')), say);
        let ways = 0;
        for (let i = hits; i <= 6; i++) ways += choose(6, i) * choose(20, 6 - i);
        const tries = Math.round(choose(26, 6) / (2 * ways));
        assert.strictEqual(say.includes('all vowels'), hits === 6);
        assert.strictEqual(/once in ([\d,]+)/.exec(say)?.[1] ?? '', tries >= 100 ? tries.toLocaleString('en') : '');
        const facts = one('.facts').rows.slice(1).map((r) => [r.cells[0].textContent, Number(r.cells[1].dataset.x)]);
        for (const [text, value] of facts) {
            const [, a, verb, b] = /^(\S+) (looks? (?:away from|for)) (\w+)/.exec(text), group = (word, i) => (/^(vowels|consonants)$/.test(word) ? i < 26 && VOWEL.test(letter(i)) === (word === 'vowels') : word === (i < 26 ? letter(i) : 'start'));
            const want = mean(cells.flatMap((row, i) => row.filter((_, j) => group(a, i) && group(b, j))));
            assert.ok(Math.abs(value - want) < 1e-5, text);
            assert.strictEqual(verb.includes('away'), value < 0);
        }
        const strongest = Math.max(...cells.flat().map(Math.abs)), pairs = facts.map(([text]) => /^(\S+) looks? .* (\S+)$/.exec(text)).filter((m) => !/^(vowels|consonants)$/.test(m[1]));
        for (const side of [1, 2]) assert.strictEqual(new Set(pairs.map((m) => m[side])).size, pairs.length, 'no letter twice on a side');
        assert.ok(facts.some(([, v]) => Math.abs(Math.abs(v) - strongest) < 1e-5));
        assert.strictEqual(Math.abs(parseFloat(one('#who .readout').textContent.split(': ')[1].replace('−', '-'))), strongest);
        assert.ok(one('.part-put').textContent.includes('The strongest of all 729.'));
    });
    test('vowels and consonants are named where the table is of them, not where it is of noise', () => {
        for (const [k, told] of [[0, false], [6, true], [last, true]]) {
            go(k);
            assert.strictEqual(one('.facts').textContent.includes('vowels'), told, `step ${k}`);
        }
    });
    test('at every step and in every head: vowels are on the side of the front, words have the signs of their numbers', () => {
        const signs = new Set();
        for (let ago = last; ago >= 0; ago--) for (let head = 0; head < 4; head++) {
            go(last - ago, { head });
            const c = page.Circuits.of('qk', 0, head, App.state), place = (i) => c.along[i], means = page.Circuits.split(c);
            assert.ok(mean(c.classes.yes.map(place)) >= mean(c.classes.no.map(place)));
            for (const [what, value] of page.Circuits.facts(c)) if (typeof what === 'string') assert.strictEqual(what.includes('away'), value < 0, what);
            if (means) signs.add(means.map(Math.sign).join());
        }
        assert.ok(signs.has('-1,1,1,-1') && signs.size > 1, [...signs].join(' '));
    });
    test('a planted table of two by two blocks is told as it is, with noise added; noise alone is not', () => {
        let seed = 7;
        const noise = () => ((seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) / 2 ** 32 - 0.5), c = page.Circuits.of('qk', 0, 0, App.state), vowel = (i) => c.classes.yes.includes(i), block = [[4, -3], [2, -1]];
        const planted = (size) => {
            const data = Float32Array.from({ length: 729 }, (_, k) => size * block[Number(vowel(Math.floor(k / 27)))][Number(vowel(k % 27))] + noise());
            return page.Circuits.facts({ ...c, data, at: (i, j) => data[27 * i + j] }, 0).filter(([what]) => typeof what === 'string').map(([what, value]) => [what, Math.round(value)]);
        };
        assert.deepStrictEqual(planted(1), [['vowels look away from vowels, on average', -1], ['vowels look for consonants, on average', 2], ['consonants look away from vowels, on average', -3], ['consonants look for consonants, on average', 4]]);
        assert.deepStrictEqual(planted(0), []);
    });
    test('three orders of the table', () => {
        go(6);
        const orders = rooms.querySelectorAll('input').filter((e) => e.name === 'order'), columns = () => page.Share.of(one('#who'))[0].columns.slice(1).join('');
        for (const [value, want] of [['ids', 'abcdefghijklmnopqrstuvwxyz'], ['vowels', 'aeiouybcdfghjklmnpqrstvwxz'], ['own', 'ioueaynxbsckfldtprqwgzmjhv']]) {
            orders.find((e) => e.value === value).send('change');
            assert.strictEqual(columns().slice(0, 26), want);
        }
    });
    test('weights, surprisals and changes of a step are its own', () => {
        for (const k of [6, 0, last]) {
            go(k, { view: 'home', cell: '0.wq.4.9' });
            assert.strictEqual(page.Home.explain(['0.wq', 4, 9]).value, Engine.weights('blk.0.attn_q.weight', 9, 1)[4]);
            assert.strictEqual(App.losses()[0].p, Math.exp(page.Numbers.logprob(Engine.logits(0), 0)));
        }
        page.Trials.steerRead(page.Trials.npyOf(new Float32Array(16).fill(1)), 0);
        assert.ok(App.set({ edits: [{ kind: 'steer', scale: 1 }] }));
        assert.ok(App.set({ ago: 3 }), $('message').textContent);
        assert.deepStrictEqual([App.state.ago, App.state.edits.length], [3, 0]);
    });
    test('the other tables', () => {
        go(6);
        for (const [kind, command] of [['ov', '/circuits ov 0 2'], ['direct', '/circuits direct']]) assert.deepStrictEqual(Array.from(page.Circuits.of(kind, 0, HEAD, App.state).data, (v) => Number(v.toPrecision(9))), table(models[6], command).flat());
    });
    test('the film leaves the chosen step open, and its run', () => {
        go(6, { head: 1 });
        assert.deepStrictEqual(Array.from(App.line(App.tensor('blocks.0.attn.hook_pattern'), 1, 4), (v) => Number(v.toPrecision(9))), table(models[6], '/a 0 1')[4]);
    });
    test('leads: one for each part of the way', () => {
        const told = models.map((_, k) => page.Story.lead(k));
        assert.match(told[0], /4,192 numbers, and so far they are random.*worse than blindly/);
        assert.match(told[3], /hardly moved/);
        assert.match(told[4], /plain table of pairs would still beat it/);
        assert.match(told[6], /better than any table of pairs/);
        const again = all('.tries li.known').length;
        go(last);
        assert.ok(again >= 0 && told[last].includes(`${['None', 'One', 'Two', 'Three', 'Four', 'Five'][all('.tries li.known').length]} of these eight texts`), told[last]);
        assert.match(told[last], /torn between 8\.1 of 27 letters; at the start it was 28/);
    });
    test('other rooms say which step is open, and let it go', () => {
        go(6);
        App.set({ view: 'home' });
        assert.match($('edits').textContent, /step 100 of its training/);
        assert.strictEqual(Engine.logits(4)[HIDDEN].toFixed(4), '2.6485'); // repl /top
        $('edits').querySelector('button').click();
        assert.deepStrictEqual([App.state.ago, $('edits').hidden], [0, true]);
    });
    test('a weight of the picture tells what it is part of', () => {
        for (const [cell, title, command] of [['0.wq.4.9', 'Head 2: which letter looks for which', 'qk 0 2'], ['0.wv.1.13', 'Head 3: what seeing a letter makes likelier', 'ov 0 3'], ['0.wo.5.2', 'Head 1: what seeing', 'ov 0 1'], ['wu.3.7', 'what the letter itself', 'direct'],
            ['0.w1.2.33', 'Neuron 33: which letter fires it', 'fires 0 33'], ['0.w2.2.60', 'Neuron 60: which letter it makes likelier', 'promotes 0 60'], ['pos.2.3', 'Head 0: which place', 'places 0 0']]) {
            App.set({ view: 'home', cell });
            tick(100);
            const panel = one('.circuit'), most = Math.max(...table(models[last], `/circuits ${command}`).flat().map(Math.abs));
            assert.ok(panel.textContent.includes(title), panel.textContent);
            assert.ok(Math.abs(Math.abs(Number(panel.querySelector('.facts').rows[1].cells[1].dataset.x)) - most) < 1e-5 || panel.textContent.includes('on average'), cell);
        }
    });
    test('hands: the slider, a small picture, keys; the finished model is in other rooms, unless a step was chosen', () => {
        go(0, { head: 1 });
        Object.assign(one('#training'), { value: '4' }).send('input');
        assert.strictEqual(App.state.ago, last - 4);
        all('.film button')[7].click();
        assert.deepStrictEqual([App.state.ago, all('.film button').map((e) => e.getAttribute('aria-pressed')).indexOf('true')], [last - 7, 7]);
        for (const [key, ago, head] of [[',', last - 6, 1], [']', last - 6, 2], ['[', last - 6, 1]]) {
            page.document.body.send('keydown', { key });
            assert.deepStrictEqual([App.state.ago, App.state.head], [ago, head], key);
        }
        $('tab-home').click();
        assert.deepStrictEqual([App.state.view, App.state.ago], ['home', last - 6]);
        go(2);
        page.document.body.send('keydown', { key: ' ' });
        $('tab-home').click();
        assert.deepStrictEqual([App.state.view, App.state.ago], ['home', 0]);
    });
    test('how big', () => {
        go(last);
        assert.deepStrictEqual(one('.part-scale table').rows.slice(1).map((r) => r.cells.map((c) => c.textContent).join(' ')), ['names 4,192 1 16 16', 'GPT-2 · 30,000 of this one 124,439,808 12 768 1,024', 'GPT-3 · 42,000,000 of this one 175,000,000,000 96 12,288 2,048']);
    });
    const golden = path.join(root, 'tests/golden/lfm2'), two = [1, 2].map((k) => path.join(folder, `lfm2-${k}.gguf`)), other = path.join(folder, 'other.html');
    for (const model of two) run(['convert', golden, model, '--no-tokenizer']);
    run(['lab', ...two, '--ids', '3,1,4,1,5', '-o', other]);
    const conv = await openFake(other, ['App', 'Share', 'Story']);
    test('short convolutions: the story begins with the first layer that has heads, and says where there are none', () => {
        const parts = () => ['.part-put', '.lookers', '.part-reads .say'].map((s) => conv.$('rooms').querySelector(s)), seen = () => [...parts().slice(0, 2).map((e) => e.hidden), /no heads/.test(parts()[2].textContent)];
        assert.deepStrictEqual([conv.App.state.view, conv.App.state.layer, ...seen()], ['story', 1, false, false, false]);
        conv.App.set({ layer: 0 });
        assert.deepStrictEqual(seen(), [true, true, true]);
    });
    await finish().then((code) => {
        fs.rmSync(folder, { recursive: true });
        process.exit(code);
    });
}

main();
