'use strict';
// The lab's pages in headless Chromium, as a person uses them: every room on models of several
// kinds, keys and clicks, three widths, light and dark. The console, the page's policy and the
// network must stay silent throughout. What the screen shows is compared with what mgpt repl,
// attend and generate say. Times are printed, never judged.
//
// node visit.js MGPT NATIVE ROOT [DIRECTORY for screenshots]. Exit code 77: no Chromium here.
const assert = require('assert');
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { Chrome, find } = require('./chrome.js');
const { Firefox } = require('./firefox.js');
const { test, finish } = require('../lab/report.js');
const figures = require('./figures.js');
const home = require('./home.js');
const place = require('./place.js');
const story = require('./story.js');
const reading = require('./lessons.js');

const [mgpt, native, root, shots] = process.argv.slice(2);
if (shots) fs.mkdirSync(shots, { recursive: true });
const binary = find();
if (!binary) {
    console.log('1..0 # SKIP no chromium (MGPT_CHROMIUM names one)');
    process.exit(77);
}
const tmp = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-visit-'));
const ROOMS = ['home', 'predict', 'attention', 'inside', 'experiment', 'lessons'];
const SIZES = [[360, 760], [820, 1100], [1440, 900]];
const run = (args, input = '') => execFileSync(mgpt, args, { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] });
const weights = (name) => path.join(root, 'weights', `${name}.gguf`);
let chrome = null;

function lab(model, name, ...options) {
    const file = path.join(tmp, `${name}.html`);
    run(['lab', model, '-o', file, ...options]);
    return file;
}

// A page of this file; in the end it must have been silent.
// before: a script that runs before those of the page.
async function visit(file, hash, body, { before, ...how } = {}) {
    const page = await chrome.open({ width: 1440, height: 900, ...how });
    try {
        if (before) await page.send('Page.addScriptToEvaluateOnNewDocument', { source: before });
        await page.go(file, hash);
        assert.strictEqual(await page.eval('document.documentElement.dataset.ready'), 'yes', await page.text('#message'));
        await body(page);
        assert.deepStrictEqual(page.errors, []);
    } finally {
        await page.close();
    }
}

// Cards out of sight have no innerText until the page has been at rest for a while (style.css).
const settled = (page) => page.until(`document.documentElement.classList.contains('settled')`);
const room = (page) => settled(page).then(() => page.text('.room:not([hidden])'));
const cells = (page, selector) => settled(page).then(() => page.eval(`[...document.querySelectorAll('${selector}')].map((e) => e.innerText.trim())`));
const numbersOf = (text) => (text.match(/-?\d+\.\d+|·/g) || []);
const plain = (list) => list.map((t) => t.replace('−', '-').replace(/^\+/, ''));
const click = (page, selector) => page.eval(`document.querySelector('${selector}').click()`);
const message = (page) => page.text('#message');
const ids = (page) => page.eval('Array.from(App.state.ids)');
const slide = (page, id, v) => page.eval(`{ const e = document.getElementById('${id}'); e.value = ${v}; e.dispatchEvent(new Event('input')); }`);

// ---- every room, every size ----

async function looks(page, name, room, width) {
    await page.eval(`App.set({ view: '${room}' })`);
    const seen = await page.eval(`(() => {
        const text = document.querySelector('.room:not([hidden])').textContent;
        return { text, wide: document.documentElement.scrollWidth,
            unnamed: [...document.querySelectorAll('button, input, select, [role=grid], [role=listbox]')].filter((e) => e.checkVisibility() &&
                !e.textContent.trim() && !e.ariaLabel && !e.labels?.length).map((e) => e.outerHTML.slice(0, 80)) };
    })()`);
    assert(seen.text.length > 40, `${name} ${room}: nothing to see`);
    assert(!/\bNaN\b|undefined|\[object|null|\(none\)/.test(seen.text), `${name} ${room}: ${/.{0,40}(NaN|undefined|\[object|null|\(none\))/.exec(seen.text)}`);
    assert(seen.wide <= width, `${name} ${room}: ${seen.wide} pixels wide on ${width}`);
    assert.deepStrictEqual(seen.unnamed, [], `${name} ${room}: without a name`);
}

async function everyRoom(file, name) {
    for (const [i, [width, height]] of SIZES.entries())
        for (const dark of [false, true])
            await visit(file, '', async (page) => {
                for (const room of ROOMS) {
                    await looks(page, name, room, width);
                    if (shots) await picture(page, `${name}-${room}-${width}-${dark ? 'dark' : 'light'}`, width, height);
                }
            }, { width, height, dark, touch: i === 0 });
}

async function picture(page, name, width, height) {
    await page.resize(width, Math.min(4000, await page.eval('document.documentElement.scrollHeight')));
    await page.shot(path.join(shots, `${name}.png`));
    await page.resize(width, height);
}

// ---- the numbers of the REPL ----

const repl = (line) => run(['repl', weights('names')], `anna\n${line}\n`);

// The numbers of a heatmap of the REPL.
const heatmap = (line) => numbersOf(repl(line).split('\n').filter((l) => /^\d+ (<BOS>|")/.test(l))
    .map((l) => l.replace(/^\S+ \S+/, '')).join('\n'));

async function replAgrees(file) {
    await visit(file, '#view=attention&layer=0&head=3&query=4&key=2', async (page) => {
        assert.deepStrictEqual(plain(await cells(page, '#attention td[role=gridcell]')), heatmap('/a 0 3'), '/a 0 3');
        for (let i = 0; i < 2; i++) await page.press('w');
        assert.deepStrictEqual(plain(await cells(page, '#attention td[role=gridcell]')), heatmap('/a 0 3 scores'), '/a 0 3 scores');
        await click(page, '#arises');
        assert.strictEqual(await page.eval('App.state.cell'), '0.a3.4.2');
        await click(page, '.terms .on .goback');
        const dot = repl('/qk 0 3 4 2'), want = numbersOf(dot.slice(dot.indexOf('share'))).slice(0, 3).map(Number); // q, k and their product, of the first number
        const shown = plain(await page.eval(`[...document.querySelectorAll('.terms tbody tr:first-child td')].map((e) => e.innerText).filter((t) => /\\d/.test(t))`)).map(Number);
        want.forEach((v, i) => assert(Math.abs(v - shown[i]) <= 6e-4, `/qk: ${shown} for ${want}`)); // it has three digits here
    });
    await visit(file, '#view=inside', async (page) => {
        const lens = repl('/lens').split('\n').filter((l) => /^0 (pre|mid|post)/.test(l)).map((l) => l.split(/\s+/).slice(2, 5).map(Number));
        const rows = await page.eval(`[...document.querySelectorAll('.lens tbody tr')].map((r) => [r.cells[1], r.cells[2], r.cells[4].firstChild].map((e) => Number(/[\\d.]+$/.exec(e.textContent))))`);
        assert.deepStrictEqual(rows, lens, '/lens');
        const norms = repl('/r').split('\n').filter((l) => /^0 (pre|mid|post)/.test(l)).join('\n');
        assert.deepStrictEqual(await cells(page, '#norms td[role=gridcell]'), numbersOf(norms), '/r');
    });
    await visit(file, '#view=experiment&edits=0.3:0', async (page) => {
        const effect = repl('/ab 0.3 zero'), kl = /nats/.test(effect) && /KL\(before \|\| after\) ([\d.]+)/.exec(effect)[1];
        assert.strictEqual(await page.text('#kl'), kl);
        const text = (await room(page)).replace(/−/g, '-');
        for (const n of numbersOf(effect)) assert(text.includes(n), `/ab 0.3 zero: ${n} is not on the screen`);
    });
}

// The canonical microgpt, where the reference is at hand: the lesson's numbers for "anna".
async function annaAgrees() {
    const dir = path.join(root, '../shared/cases/microgpt-3d'), model = path.join(tmp, 'canonical.gguf');
    const from = [dir, '/work/shared/cases/microgpt-3d'].find((d) => fs.existsSync(path.join(d, 'ref_captures_anna.json')));
    if (!from) return console.log('# no ../shared/cases/microgpt-3d here: the canonical numbers were not compared');
    run(['convert', path.join(from, 'microgpt-weights.json'), model]);
    const want = JSON.parse(fs.readFileSync(path.join(from, 'ref_captures_anna.json'))).steps[4].layers[0];
    return visit(lab(model, 'canonical', '-p', 'anna'), '#view=attention&query=4', async (page) => {
        for (let head = 0; head < 4; head++) {
            await page.eval(`App.set({ head: ${head} })`);
            const row = (await cells(page, '#attention tbody tr:last-child td')).map(Number);
            want.attention_softmax[head].forEach((w, j) => assert.strictEqual(row[j], Number(w.toFixed(4)), `weight ${head} ${j}`));
            const z = await page.eval(`Array.from(App.row(App.ofLayer('attn.hook_z'), 4, ${head}))`);
            want.head_output[head].forEach((w, e) => assert.strictEqual(Number(z[e].toFixed(4)) + 0, Number(w.toFixed(4)) + 0, `z ${head} ${e}`));
            await page.eval(`App.set({ what: 'scores' })`);
            const scores = plain(await cells(page, '#attention tbody tr:last-child td')).map(Number);
            want.attention_logits[head].forEach((w, j) => assert.strictEqual(scores[j], Number(w.toFixed(4)) + 0, `score ${head} ${j}`));
            await page.eval(`App.set({ what: 'weights' })`);
        }
    });
}

// ---- using it ----

async function typing(page) {
    await page.press('/');
    assert.strictEqual(await page.eval('document.activeElement.id'), 'text');
    await page.type('emma');
    await page.press('Enter');
    assert.deepStrictEqual(await ids(page), [26, 4, 12, 12, 0]);
    await page.eval(`document.getElementById('text').value = 'Zoë'`);
    await page.press('Enter');
    assert.match(await message(page), /This model does not know “Z”, “ë”: it reads “zoe”/);
    assert.deepStrictEqual(await ids(page), [26, 25, 14, 4]);
    await page.eval(`document.getElementById('text').value = 'abcdefghijklmnopq'`);
    await page.press('Enter');
    assert.match(await message(page), /18 tokens do not fit: the context is 16 positions/);
    await page.eval(`document.getElementById('text').value = 'anna'`);
    await page.press('Enter');
    assert.strictEqual(await page.eval(`document.getElementById('message').hidden`), true);
}

async function picking(page) {
    await click(page, '#strip [data-pos="1"]');
    await page.eval(`document.querySelector('#strip .tok.on').focus()`);
    await page.press('ArrowRight');
    await page.press('z'); // takes the place of the letter that has the focus
    assert.deepStrictEqual(await ids(page), [26, 0, 25, 13, 0]);
    await click(page, '#undo');
    await click(page, '#strip [data-pos="2"]');
    await page.eval(`document.activeElement.blur()`);
    await page.press('r');
    await page.eval(`document.querySelectorAll('#picker .chip')[25].click()`);
    assert.deepStrictEqual(await ids(page), [26, 0, 25, 13, 0]);
    await click(page, '#undo');
    assert.deepStrictEqual(await ids(page), [26, 0, 13, 13, 0]);
    await page.eval(`document.querySelector('#strip .tok.on').focus()`);
    await page.press('End');
    await page.press('Delete');
    assert.deepStrictEqual(await ids(page), [26, 0, 13, 13]);
    await click(page, '#append');
    await page.eval(`document.querySelectorAll('#picker .chip')[26].click()`);
    assert.deepStrictEqual(await ids(page), [26, 0, 13, 13, 26]);
    await page.eval('App.edit([26, 0, 13, 13, 0])');
}

async function stepping(page) {
    await page.eval(`document.activeElement.blur(); App.set({ view: 'attention' })`);
    await page.press(',');
    await page.press(',');
    assert.strictEqual((await cells(page, '#attention tbody tr')).length, 3);
    await page.press('.');
    assert.strictEqual((await cells(page, '#attention tbody tr')).length, 4);
    await page.press('.');
    await page.eval(`document.querySelector('#attention td[tabindex="0"]').focus()`);
    await page.press('ArrowUp');
    await page.press('ArrowRight');
    assert.deepStrictEqual(await page.eval('[App.state.query, App.state.key]'), [3, 1]);
    await page.until('location.hash === "#at=3&head=0.0&key=1&cell=heads&ids=26.0.13.13.0"');
    await page.eval('document.activeElement.blur()');
    await page.press('l');
    assert.strictEqual(await page.eval('App.state.head'), 1);
    await page.press('2');
    assert.strictEqual(await page.eval('App.state.view'), 'experiment');
    await page.press('?');
    assert.strictEqual(await page.eval(`document.getElementById('help').open`), true);
    await page.press('Escape');
}

// A long text is running text, or a row of tokens; one is chosen by a press and by keys.
async function running(page) {
    const text = 'ROMEO:\nI will not go to the house of the king, and I will not die for it.', shown = (name) => page.eval(`getComputedStyle(document.querySelector('#strip .tok')).${name}`);
    await page.eval(`Strip.type(${JSON.stringify(text)})`);
    assert.strictEqual((await page.eval(`[...document.querySelectorAll('#strip .tok .g')].map((e) => e.textContent).join('')`)).replace('⏎', '\n'), text);
    assert.strictEqual(await shown('display'), 'inline');
    await page.eval(`document.querySelector('#strip [data-pos="9"]').click(); document.querySelector('#strip .tok.on').focus()`);
    await page.press('ArrowRight');
    assert.strictEqual(await page.eval('App.state.query'), 10);
    assert.match(await page.eval('document.activeElement.ariaLabel'), /^position 10, .*surprisal \d/);
    await page.press('Home');
    assert.strictEqual(await page.eval('[App.state.query, document.activeElement.dataset.pos].join()'), '0,0');
    await page.press('End');
    assert.match(await page.eval(`document.querySelector('#strip [data-pos="10"]').ariaLabel`), /attention \d\.\d\d/);
    await page.eval(`document.querySelector('#strip input[value=tokens]').click()`);
    assert.strictEqual(await page.eval(`document.querySelectorAll('#strip button.tok').length`), text.length);
    assert.strictEqual(await shown('display'), 'grid');
}

// Drawing to the end in slices: it shows how far it is, stops, and another text ends it.
async function drawingOn(page) {
    await page.eval(`Strip.type('ROMEO:'); App.set({ view: 'predict', seed: 3, temperature: 0.8 })`);
    await click(page, '#end');
    await page.until(`/ tokens …/.test(document.querySelector('.drawn').nextSibling.textContent)`);
    await click(page, '#draw-stop');
    await page.until('App.state.ids.length > 6');
    const n = await page.eval('App.state.ids.length');
    assert(n < 256, 'it did not stop');
    const want = run(['generate', weights('shakespeare'), '-p', 'ROMEO:', '-n', String(n - 6), '--seed', '3', '--temp', '0.8']);
    assert.strictEqual(await page.eval(`Running.ofTokens(Array.from(App.state.ids))`), want.slice(0, n));
    await click(page, '#end');
    await page.eval(`Strip.type('JULIET:')`);
    await page.until(`document.getElementById('draw-stop').hidden`);
    assert.strictEqual(await page.eval(`Running.ofTokens(Array.from(App.state.ids))`), 'JULIET:');
    await click(page, '#many');
    await page.until(`!document.getElementById('draw-stop').hidden`);
    await click(page, '#draw-stop');
    await page.until(`document.getElementById('draw-stop').hidden && / of 1,000 texts/.test(document.querySelector('.room:not([hidden])').textContent)`);
    assert(!/1,000 of 1,000/.test(await room(page)), 'it did not stop');
}

// A thousand long texts and a sweep are done by a worker while the page draws its frames.
async function inWorker(page) {
    await page.eval(`Strip.type('ROMEO:'); App.set({ view: 'predict', seed: 3, temperature: 0.8 });
        window.frames = []; (function tick(t) { frames.push(t); requestAnimationFrame(tick); })(performance.now())`);
    const sampling = '{ temperature: 0.8, topK: 0, topP: 1, seed: 3 }', before = await page.eval('Work.moved');
    const texts = await page.eval(`(async () => { const all = []; await Trials.many(200, App.state.step, 40, ${sampling}, (t) => { all.push(...t.flatMap((x) => Array(x.times).fill(Running.ofTokens(x.ids)))); }); return all; })()`);
    const want = run(['generate', weights('shakespeare'), '-p', 'ROMEO:', '--samples', '200', '-n', '40', '--seed', '3', '--temp', '0.8', '--json']).trim().split('\n').map((line) => JSON.parse(line).text);
    assert.deepStrictEqual([...texts].sort(), want.map((t) => t.replace(/^ROMEO:/, '')).sort());
    await page.eval(`App.set({ view: 'experiment' })`);
    await click(page, '#patch');
    await page.until(`/sites, \\d+ runs/.test(document.getElementById('patch').parentNode.innerText) && document.getElementById('patch-stop').hidden`);
    assert(await page.eval('Work.moved') > before, 'no worker');
    const gaps = await page.eval(`frames.slice(1).map((t, i) => t - frames[i]).sort((a, b) => a - b)`);
    console.log(`# frames while a worker draws: median ${gaps[gaps.length >> 1].toFixed(0)} ms, worst ${gaps[gaps.length - 1].toFixed(0)}`);
    await page.eval('window.frames = { push() {} }');
}

// A seed draws here what it draws at the command line.
async function drawing(page) {
    await page.eval(`App.edit([26, 0]); App.set({ view: 'predict', temperature: 0.5, seed: 7 })`);
    await click(page, '#end');
    await page.until('App.state.ids.length > 2 && document.getElementById("draw-stop").hidden');
    const want = run(['generate', weights('names'), '-p', 'a', '--temp', '0.5', '--seed', '7']).trim();
    const drawn = (await ids(page)).slice(1).filter((id) => id !== 26).map((id) => String.fromCharCode(97 + id)).join('');
    assert.strictEqual(drawn, want);
    const before = await ids(page);
    await click(page, '#resample');
    await page.until('App.state.ids.length > 2 && document.getElementById("draw-stop").hidden');
    assert.strictEqual(await page.eval('App.state.seed'), 8);
    assert.deepStrictEqual((await ids(page)).slice(0, 2), before.slice(0, 2));
    await page.eval('App.edit(new Array(16).fill(0))');
    await click(page, '#sample');
    assert.match(await message(page), /The context is full: 16 of 16 positions/);
    await page.eval('App.edit([26, 0, 13, 13, 0])');
    await slide(page, 'warmth', 0);
    assert.match(await page.text('.next'), /100\.0 %/);
    await slide(page, 'warmth', 1);
    const p = await page.eval(`[...document.querySelectorAll('.next tbody tr')].map((r) => Number(r.cells[2].dataset.x))`);
    assert(Math.abs(p.reduce((a, b) => a + b, 0) - 1) < 1e-5, 'the bars do not add up to 1'); // 14 numbers of float32
    const bars = await page.text('.next');
    assert(/the end/.test(bars) && /other \(1[45] tokens\)/.test(bars), bars);
}

// A thousand texts at once: those of mgpt generate, while the page draws its frames.
async function thousand(page) {
    await page.eval(`App.edit([26, 0]); App.set({ view: 'predict', temperature: 0.7, seed: 5 });
        window.frames1000 = []; (function tick(t) { frames1000.push(t); requestAnimationFrame(tick); })(performance.now())`);
    await click(page, '#many');
    await page.until(`/1,000 of 1,000 texts/.test(document.querySelector('.room:not([hidden])').textContent) && document.getElementById('draw-stop').hidden`);
    const lines = run(['generate', weights('names'), '-p', 'a', '--samples', '1000', '--temp', '0.7', '--seed', '5', '-n', '14']).split('\n').slice(0, 1000), counts = new Map();
    for (const line of lines) counts.set(line.slice(1), (counts.get(line.slice(1)) || 0) + 1);
    const shown = await page.eval(`[...document.querySelectorAll('.many tbody tr')].map((r) => [r.cells[0].textContent, Number(r.cells[2].textContent)])`);
    assert.strictEqual(shown.length, 14);
    for (const [text, n] of shown) assert.strictEqual(n, counts.get(text), text);
    assert.deepStrictEqual(shown.map((s) => s[1]), [...counts.values()].sort((a, b) => b - a).slice(0, 14));
    const note = await room(page), gaps = await page.eval(`frames1000.slice(1).map((t, i) => t - frames1000[i]).sort((a, b) => a - b)`);
    assert(note.includes(`${String(counts.size)} different`), note);
    console.log(`# ${/[\d,]+ tokens a second/.exec(note)} while the page draws a frame every ${gaps[gaps.length >> 1].toFixed(0)} ms (worst ${gaps[gaps.length - 1].toFixed(0)})`);
    await page.eval(`window.frames1000 = { push() {} }; App.edit([26, 0, 13, 13, 0])`);
}

async function experimenting(page) {
    await page.eval(`App.set({ view: 'experiment' })`);
    await page.eval(`document.querySelector('[data-part="0.1"]').click(); document.querySelector('[data-part="0.1"]').click()`);
    assert.deepStrictEqual(await page.eval('App.state.edits'), [{ kind: 'head', layer: 0, head: 1, scale: 0 }]);
    await slide(page, 'factor', 1.5);
    assert.strictEqual(await page.eval('App.state.edits[0].scale'), 1.5);
    await click(page, '#clear');
    assert.deepStrictEqual(await page.eval('App.state.edits'), []);
}

// Two texts, a sweep, a click on its map: the numbers are those of mgpt patch.
async function patching(page) {
    const choose = (name, value) => page.eval(`{ const s = document.querySelector('select[aria-label="${name}"]'); s.value = '${value}'; s.dispatchEvent(new Event('change')); }`);
    const set = (id, value) => page.eval(`document.getElementById('${id}').value = ${JSON.stringify(value)}`);
    const take = async (text) => {
        await set('clean', text);
        await page.eval(`document.getElementById('clean').form.requestSubmit()`);
    };
    const done = () => page.until(`/sites, \\d+ runs|Stopped/.test(document.getElementById('patch').parentNode.innerText) && document.getElementById('patch-stop').hidden`);
    await page.eval(`App.edit([26, 14, 11, 8, 21, 4, 17]); App.set({ view: 'experiment', edits: [] })`);
    await take('olivi');
    assert.match(await room(page), /The clean text has 6 tokens, this one 7: a patch needs the same number/);
    await click(page, '#patch');
    assert.match(await message(page), /The clean text has 6 tokens and the corrupted one 7: a patch needs the same number/);
    await take('Olivia');
    assert.match(await message(page), /This model does not know “O”: it reads “olivia”/);
    await take('a'.repeat(20));
    assert.match(await message(page), /21 tokens do not fit: the context is 16 positions/);
    await take('olivia');
    await choose('Site', 'z');
    await set('token-a', 'ab');
    await click(page, '#patch');
    assert.match(await message(page), /measure: 'ab' is 2 tokens, expected one/);
    await set('token-a', 'a');
    await set('token-b', 'e');
    await click(page, '#patch');
    await done();
    const want = JSON.parse(run(['patch', weights('names'), '--clean', 'olivia', '--corrupt', 'oliver', '--metric', 'a - e', '--over', 'z', '--json']));
    const all = want.grids[0].values.flat(2), shown = plain(await cells(page, '#sweep-map td[role=gridcell]')).map(Number);
    assert.strictEqual(shown.length, 4 * 7);
    shown.forEach((v, i) => assert(Math.abs(v - (all[i] - want.corrupt.value)) < 0.06, `site ${i}: ${v}`));
    await page.eval(`document.querySelector('#sweep-map td[data-at="1 6"]').click()`);
    assert.deepStrictEqual(await page.eval('App.state.edits.map((e) => [e.over, e.layer, e.head, e.pos, e.scale])'), [['z', 0, 1, 6, 'patch']]);
    assert.strictEqual(await page.eval('Engine.logits(6, 0)[0] - Engine.logits(6, 0)[4]'), all[1 * 7 + 6], 'the click makes the change of the site');
    assert.match(await page.text('#edits'), /z 0\.1 at 6 from the clean text/);
    await page.until(`document.querySelectorAll('.world .later').length > 1 && document.getElementById('worlds-stop').hidden`);
    assert.match(await room(page), /As it is[^]*With the changes/);
    await page.until(`/edits=z\\.0\\.1\\.6:patch&other=26\\.14\\.11\\.8\\.21\\.8\\.0/.test(location.hash)`);
    const hash = await page.eval('location.hash'), there = await page.eval('Array.from(Engine.logits(6, 0))');
    await page.eval(`location.hash = '#view=predict'`);
    await page.until('App.state.cell === "next" && !App.state.edits.length');
    await page.eval(`location.hash = ${JSON.stringify(hash)}`);
    await page.until('App.state.edits.length === 1');
    assert.deepStrictEqual(await page.eval('Array.from(Engine.logits(6, 0))'), there, 'the address makes it again');
    await page.eval(`document.querySelector('#sweep-map td[tabindex="0"]').focus()`);
    await page.press('ArrowLeft');
    assert.strictEqual(await page.eval('App.state.edits[0].pos'), 6); // arrows only look
    await page.press('Enter');
    assert.strictEqual(await page.eval('App.state.edits[0].pos'), 5);
    await choose('becomes', 'zero');
    await click(page, '#patch');
    await done();
    assert.deepStrictEqual(await page.eval('App.state.edits'), []); // a new sweep takes the patch back
    await choose('becomes', 'patch');
    await click(page, '#clear');
}

// A slider that moves while both texts are written by workers: there is one at a time, and the newest value is written.
async function sliding(page) {
    await page.eval(`Strip.type('ROMEO:'); App.set({ view: 'experiment' });
        { const Real = Worker; window.alive = 0; window.most = 0; window.Worker = function (url) {
            const worker = new Real(url), end = worker.terminate;
            most = Math.max(most, ++alive);
            worker.terminate = () => { alive--; end.call(worker); };
            return worker;
        }; }`);
    await page.send('Emulation.setCPUThrottlingRate', { rate: 6 }); // a fast page ends a text before it asks a worker
    const before = await page.eval('Work.moved');
    await page.eval(`(async () => { const e = document.getElementById('factor'); for (let i = 0; i < 40; i++) {
        e.value = -0.5 + i / 20; e.dispatchEvent(new Event('input')); await new Promise((done) => requestAnimationFrame(done)); } })()`);
    await page.until(`document.getElementById('worlds-stop').hidden`);
    assert.deepStrictEqual(await page.eval('[App.state.edits.map((e) => e.scale), alive, most]'), [[1.45], 0, 1]);
    const started = await page.eval('Work.moved') - before;
    assert(started > 1 && started < 20, `${started} workers for 40 values`);
    const shown = await page.eval(`[...document.querySelectorAll('.world .running')].slice(-2).map((e) => e.textContent)`);
    const want = await page.eval(`(async () => { const all = []; for (const lane of [1, 0]) all.push(Running.ofTokens(await Trials.write(lane, App.state.step, 48, { temperature: 0, topK: 0, topP: 1, seed: 0, counter: 0 }, () => true))); return all; })()`);
    assert.deepStrictEqual(shown, want.map((text) => `ROMEO:${text}`));
}

async function steering(page) {
    await page.eval(`App.edit([26, 0, 13, 13, 0]); App.set({ view: 'experiment' })`);
    await page.eval(`document.getElementById('steer-more').value = 'anna'; document.getElementById('steer-less').value = 'bob'`);
    await click(page, '#steer-make');
    assert.deepStrictEqual(await page.eval('App.state.edits.map((e) => [e.kind, e.scale])'), [['steer', 1]]);
    const one = await page.eval('Array.from(Engine.value("blocks.0.hook_resid_post", 0).data)');
    await slide(page, 'steer-scale', 2);
    const two = await page.eval('Array.from(Engine.value("blocks.0.hook_resid_post", 0).data)');
    const none = await page.eval('Array.from(Engine.value("blocks.0.hook_resid_post", 1).data)');
    none.forEach((v, i) => assert(Math.abs(two[i] - v - 2 * (one[i] - v)) < 1e-5));
    assert.match(await page.text('#edits'), /steering × 2\.0/);
    await page.eval(`{ const f = document.getElementById('steer-file'), d = new DataTransfer(); d.items.add(new File([new Uint8Array([1, 2, 3])], 'v.npy'));
        f.files = d.files; f.dispatchEvent(new Event('change')); }`);
    await page.until(`/Steering: /.test(document.getElementById('message').innerText)`);
    assert.strictEqual(await page.eval('App.state.edits.length'), 1); // the vector in force stays
    await click(page, '#steer-off');
    assert.deepStrictEqual(await page.eval('App.state.edits'), []);
}

async function neurons(page) {
    await page.eval(`App.edit([26, 0, 13, 13, 0]); App.set({ view: 'experiment' })`);
    await click(page, '#neuron-best');
    const post = await page.eval('Array.from(Engine.value("blocks.0.mlp.hook_post", 0).data.slice(4 * 64, 5 * 64))');
    const unit = Number(await page.eval(`document.getElementById('neuron-unit').value`));
    assert.strictEqual(unit, post.indexOf(Math.max(...post)));
    await page.eval(`document.getElementById('neuron-text').value = 'bob\\nanna\\nOtto'`);
    await click(page, '#neuron-go');
    await page.until(`document.getElementById('neuron-stop').hidden && document.querySelector('.snippet')`);
    const text = await room(page);
    assert(text.includes(post[unit].toFixed(4)), text);
    assert.deepStrictEqual(await page.eval('Array.from(App.state.ids)'), [26, 0, 13, 13, 0]);
    await page.eval(`document.getElementById('neuron-unit').value = '64'`);
    await click(page, '#neuron-go');
    assert.match(await message(page), /Neurons: Neuron: expected 0 to 63, found “64”/);
}

// ---- hostile ----

// A vocabulary of markup, quotes and characters that hide: all of it is shown, nothing of it does
// anything.
function hostileModel(layers = 1) {
    const row = (n, k) => Array.from({ length: n }, (_, i) => Math.sin(i * 7 + k));
    const matrix = (rows, cols, k) => Array.from({ length: rows }, (_, i) => row(cols, i + k));
    const vocabulary = [...'<>&"\'/\\'].concat('\u202e', '\u0007', 'a'), n = vocabulary.length + 1;
    const all = { wte: matrix(n, 16, 1), wpe: matrix(16, 16, 2), lm_head: matrix(n, 16, 3), _vocab: vocabulary, _bos_id: n - 1, _vocab_size: n };
    for (let l = 0; l < layers; l++) {
        Object.assign(all, { [`layer${l}.mlp_fc1`]: matrix(64, 16, 8 + l), [`layer${l}.mlp_fc2`]: matrix(16, 64, 9 + l) });
        for (const [i, w] of ['q', 'k', 'v', 'o'].entries()) all[`layer${l}.attn_w${w}`] = matrix(16, 16, 4 + i + l);
    }
    const json = path.join(tmp, '<img src=x onerror=alert(1)>.json'), gguf = path.join(tmp, 'hostile.gguf');
    fs.writeFileSync(json, JSON.stringify(all));
    run(['convert', json, gguf, '--heads', '4']);
    return gguf;
}

async function hostile() {
    const file = lab(hostileModel(), 'hostile', '-p', '</a>');
    await everyRoom(file, 'hostile');
    await visit(file, '#view=experiment', async (page) => {
        assert.deepStrictEqual((await cells(page, '#strip .tok .g')).slice(1), ['<', '/', 'a', '>']);
        await page.eval('App.edit([10, 7, 8, 3])');
        assert.deepStrictEqual(await cells(page, '#strip .tok .g'), ['start', '\\u{202E}', '\\u{7}', '\\"']);
        assert.strictEqual(await page.eval(`document.querySelectorAll('img, iframe, object, link, a:not(.skip)').length`), 0);
        await figures.wellFormed(page, ROOMS);
    });
}

// More than twelve layers are strips; one that is entered unfolds.
async function strips() {
    await visit(lab(hostileModel(13), 'deep', '-p', 'a</a></a></a>'), '', async (page) => {
        const forms = () => page.eval('Home.scene.ribs.map((r) => r.form).join()');
        assert.strictEqual(await forms(), Array(13).fill('strip').join());
        assert(await page.eval('Home.scene.world.w / Home.scene.world.h') > 0.9, 'the picture is a thin column');
        await page.eval(`App.set({ cell: '9.a1.3.2' })`);
        assert.strictEqual(await forms(), Array.from({ length: 13 }, (_, l) => (l === 9 ? 'rib' : 'strip')).join());
        assert.match(await page.text('.panel'), /Attention, head 1/);
        await home.each.sums(page);
    });
}

async function recorded() {
    await visit(lab(weights('names'), 'recorded', '-p', 'anna', '--static'), '', async (page) => {
        assert.match(await page.text('#mode'), /recorded this page shows one run and does not recompute/);
        for (const room of ROOMS) await looks(page, 'recorded', room, 1440);
        await page.eval(`App.set({ view: 'predict' })`);
        await page.press('s');
        assert.match(await message(page), /recorded run: nothing is computed here/);
        await page.eval(`App.set({ view: 'attention' })`);
        await page.press(',');
        assert.strictEqual((await cells(page, '#attention tbody tr')).length, 4);
    });
}

// ---- another browser ----

async function inFirefox(file, verses) {
    const program = find(['firefox-esr', 'firefox'], 'MGPT_FIREFOX'), firefox = new Firefox();
    if (!program) return console.log('# no Firefox here (MGPT_FIREFOX names one): pages were not opened in it');
    await firefox.start(program);
    try {
        assert.strictEqual(await firefox.go(file, '#view=attention&layer=0&head=3&query=4'), 'yes');
        const shown = await firefox.eval(`[...document.querySelectorAll('#attention td[role=gridcell]')].map((e) => e.textContent)`);
        assert.deepStrictEqual(shown, heatmap('/a 0 3'));
        for (const room of ROOMS) {
            await firefox.eval(`void (location.hash = '#view=${room}')`);
            await new Promise((done) => setTimeout(done, 300));
            assert((await firefox.eval(`document.querySelector('.room:not([hidden])').textContent`)).length > 40, room);
            if (shots) await new Promise((done) => setTimeout(done, 1000)); // every card is drawn when the page rests (style.css)
            if (shots) await firefox.shot(path.join(shots, `firefox-${room}.png`));
        }
        await firefox.send('WebDriver:SetWindowRect', { width: 1280, height: 885 }); // wider letters than Chromium's
        await firefox.go(file, '#view=home');
        assert.strictEqual(await firefox.eval(`new Set([...document.querySelectorAll('.home .tok.alt')].map((e) => e.getBoundingClientRect().bottom)).size`), 1, 'the likeliest tokens are in one line');
        await firefox.send('WebDriver:SetWindowRect', { width: 1000, height: 885 });
        await firefox.go(file, '#view=home&ids=26.2.7.17.8.18.19.14.15.7.4.17'); // christopher
        for (const tokens of ['.toks > .tok', '.tok.alt']) assert.strictEqual(await firefox.eval(`new Set([...document.querySelectorAll('.home ${tokens}')].map((e) => e.getBoundingClientRect().bottom)).size`), 1, `${tokens} in one line at 1000`);
        await firefox.go(verses, '#view=predict'); // a worker goes on with the text
        await firefox.eval(`document.getElementById('end').click()`);
        while (!await firefox.eval(`document.getElementById('draw-stop').hidden && document.documentElement.dataset.workers`)) await new Promise((done) => setTimeout(done, 50));
        assert.strictEqual(await firefox.eval(`document.querySelector('p.drawn').textContent`), run(['generate', weights('shakespeare'), '-p', 'ROMEO: I will', '-n', '243', '--temp', '1', '--seed', '0']).slice(0, 256));
    } finally {
        await firefox.close();
    }
    return undefined;
}

// ---- bits ----

// The hash of all logits of texts of any tokens, in the browser and natively. Page and model lie
// side by side in `files`. how: of visit.
async function sameBits(files, each, how) {
    for (const [model, file] of files)
        await visit(file, '', async (page) => {
            const { vocab, context } = await page.eval('Engine.info');
            const prompts = Array.from({ length: each }, (_, i) =>
                Array.from({ length: 1 + (i % Math.min(context, 24)) }, (_t, j) => (i * 7919 + j * j * 104729 + 13 * j) % vocab));
            const expected = execFileSync(native, ['logits', model], { input: prompts.map((p) => `${p.join(' ')}\n`).join(''), encoding: 'utf8' });
            const hash = "(ids) => (Engine.run(ids, [], 1), BigInt.asUintN(64, Engine.module.wasm.lab_hash(1)).toString(16).padStart(16, '0'))"; // XXH64
            assert.deepStrictEqual(await page.eval(`${JSON.stringify(prompts)}.map(${hash})`), expected.trim().split('\n'), model);
        }, how);
}

// A large page says how far it is opened; here time runs fast instead.
const OPENING = `{ const now = performance.now.bind(performance); performance.now = () => 50 * now(); } window.opening = [];
    new MutationObserver(() => { const p = document.querySelector('#message progress'); if (p) opening.push(p.value); }).observe(document, { subtree: true, childList: true });`;

async function opening(page) {
    const shares = await page.eval('opening');
    assert(shares.length > 3 && shares.every((x, i) => x > 0 && x < 1 && (i === 0 || x >= shares[i - 1])), JSON.stringify(shares));
    assert.strictEqual(await page.eval(`document.getElementById('message').hidden`), true);
}

// ---- times ----

async function times(file, name) {
    await visit(file, '', async (page) => {
        const ready = await page.eval(`performance.getEntriesByName('ready')[0].startTime`), steps = [];
        for (const room of ['predict', 'attention'])
            steps.push(await page.eval(`(async () => { const all = [], frames = () => new Promise((done) =>
                requestAnimationFrame(() => requestAnimationFrame(done)));
                App.set({ view: '${room}' });
                for (let i = 0; i < 4; i++) { await frames(); const t = performance.now(); Predict.drawOne(true);
                    document.body.offsetHeight; all.push(performance.now() - t); }
                return all.sort((a, b) => a - b)[2]; })()`));
        console.log(`# ${name}: ready after ${ready.toFixed(0)} ms; a step with the layout of the page: next token `
            + `${steps[0].toFixed(1)} ms, attention ${steps[1].toFixed(1)} ms (medians of 4)`);
    });
}

async function main() {
    chrome = new Chrome(binary);
    const names = lab(weights('names'), 'names', '-p', 'anna'), shakespeare = lab(weights('shakespeare'), 'shakespeare', '-p', 'ROMEO: I will');
    const verses = lab(weights('shakespeare'), 'verses', '-p', figures.VERSES);
    execFileSync(native, ['models', tmp]);
    const golden = path.join(tmp, 'golden.gguf');
    run(['convert', path.join(root, 'tests/golden/qwen3'), golden, '--no-tokenizer']);
    const files = [['names', names], ['shakespeare', shakespeare], ['bpe', lab(path.join(tmp, 'bpe.gguf'), 'bpe', '-p', 'Hello, world')],
        ['spm', lab(path.join(tmp, 'spm.gguf'), 'spm', '-p', 'Hello')], ['qwen3', lab(golden, 'qwen3')]];
    for (const [name, file] of files) await test(`every room, three widths, light and dark: ${name}`, () => everyRoom(file, name));
    await test('the bits of the engine outside, 100 texts', () => sameBits([[weights('names'), names],
        [weights('shakespeare'), shakespeare], [path.join(tmp, 'bpe.gguf'), files[2][1]], [path.join(tmp, 'spm.gguf'), files[3][1]],
        [golden, files[4][1]]], 20));
    await test('the same bits in a browser without relaxed SIMD', () => sameBits([[weights('names'), names], [weights('shakespeare'), shakespeare]], 10,
        { before: 'WebAssembly.validate = () => false' }));
    await test('the numbers of the REPL are on the screen', () => replAgrees(names));
    await test('the canonical anna', annaAgrees);
    for (const [name, body] of Object.entries({ typing, picking, stepping })) await test(name, () => visit(names, '#view=experiment', body));
    await test('running', () => visit(shakespeare, '#view=experiment', running));
    for (const [name, body] of Object.entries({ drawing, thousand, experimenting, patching, steering, neurons }))
        await test(name, () => visit(names, '#view=predict', body));
    for (const [name, body] of Object.entries({ drawingOn, inWorker, sliding })) await test(name, () => visit(shakespeare, '#view=predict', body));
    await test('drawing on without workers', () => visit(shakespeare, '#view=predict', async (page) => {
        await drawingOn(page);
        assert.strictEqual(await page.eval('Work.moved'), 0);
    }, { before: 'window.Worker = undefined' }));
    for (const [name, body] of Object.entries(home.each)) await test(`the picture: ${name}`, () => visit(names, '', body));
    for (const [name, body] of Object.entries(home.each)) // as most people see it
        if (name !== 'agree') await test(`the picture in motion: ${name}`, () => visit(names, '', body, { motion: true }));
    const steps = path.join(root, 'weights/names-steps'), [first, ...others] = fs.readdirSync(steps).filter((f) => f.endsWith('.gguf')).map((f) => path.join(steps, f)), told = lab(first, 'story', ...others, '-p', 'anna', '--held', path.join(steps, 'held.txt'), '--texts', path.join(steps, 'texts.txt'));
    for (const name of ['plays', 'stops', 'leaves']) await test(`the story: ${name}`, () => visit(told, '', story[name], { motion: true }));
    await test('the story: eleven questions', () => visit(told, '', story.asked));
    for (const [width, height] of SIZES) for (const dark of [false, true])
        await test(`the story fits ${width} pixels${dark ? ', dark' : ''}`, () => visit(told, '', (page) => story.fits(page, width), { width, height, dark, touch: width < 500 }));
    for (const [name, body] of Object.entries(place.each)) await test(`a place to stay in: ${name}`, () => visit(names, '', body, { motion: true }));
    await test('a place to stay in: phone', () => visit(names, '', place.phone, { width: 390, height: 844, touch: true, motion: true }));
    await test('a place to stay in: a long text', () => visit(verses, '', place.long, { width: 1280, height: 800, motion: true }));
    for (const name of ['agree', 'agreeInMotion']) {
        await test(`the picture of six layers: ${name}`, () => visit(shakespeare, '', home.each[name]));
        await test(`the picture of one token: ${name}`, () => visit(files[4][1], '', home.each[name]));
    }
    for (const [name, body] of Object.entries(figures.short)) await test(`figures: ${name}`, () => visit(names, '#view=attention&layer=0&head=3&query=4', body));
    for (const [name, body] of Object.entries(figures.long)) await test(`figures of a long text: ${name}`, () => visit(verses, '#view=attention&layer=1&head=0&query=103', body));
    await test('a frame in another page', () => figures.framed(chrome, tmp, (name, ...options) => lab(weights('names'), name, '-p', 'anna', ...options)));
    await test('axe: no violation of WCAG 2.2 AA', () => figures.axe(chrome, [names, shakespeare], ROOMS));
    for (const name of ['tasks', 'known', 'byKeyboard', 'byPointer', 'saved', 'widths']) await test(`the lessons: ${name}`, () => visit(names, '#view=lessons', reading[name]));
    await test('the lessons: addresses', () => visit(names, '#view=lessons', (page) => reading.addresses(page, names)));
    await test('the lessons without WebAssembly', () => reading.alone(chrome, names));
    await test('the picture of six layers: sums', () => visit(shakespeare, '', home.each.sums));
    for (const [name, file] of files.slice(0, 2))
        for (const [width, height] of [[390, 844], [800, 1000], [1280, 800], [1920, 1080]])
            await test(`no blank half, no text wider than its cell: ${name} at ${width}`, () => visit(file, '', (page) => home.layout(page, ROOMS.slice(0, 5)), { width, height, touch: width < 500 }));
    await test('hostile tokens', hostile);
    await test('thirteen layers', strips);
    await test('a recorded page', recorded);
    await test('opening', () => visit(shakespeare, '', opening, { before: OPENING }));
    await test('an address that cannot be', () => visit(names, '#layer=9&head=99&ids=26.99', async (page) => {
        assert.match(await message(page), /There is no token 99: ids are 0 to 26/);
        assert.deepStrictEqual(await ids(page), [26, 0, 13, 13, 0]);
    }));
    await test('printing', () => visit(names, '#view=attention', async (page) => {
        await page.pdf(path.join(tmp, 'page.pdf'));
        assert(fs.statSync(path.join(tmp, 'page.pdf')).size > 10000);
    }));
    await test('Firefox', () => inFirefox(names, shakespeare));
    await test('times', async () => {
        await times(names, 'names');
        await times(shakespeare, 'shakespeare');
    });
    console.log(`# a page of microgpt has ${fs.statSync(names).size} bytes`);
}

main().then(finish, (e) => { console.log(`Bail out! ${e.stack}`); return 1; }).then(async (code) => {
    if (chrome) await chrome.close();
    fs.rmSync(tmp, { recursive: true, force: true });
    process.exit(code);
});
