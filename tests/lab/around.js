'use strict';
// What a lab page does with the world around it, without a browser: its address, files that are saved and chosen, the system's theme, a frame,
// a worker, a damaged model. node around.js MGPT ROOT
const assert = require('assert');
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { test, finish } = require('./report.js');
const { readPage } = require('./open_page.js');
const { FakeElement, openFake } = require('./fake_page.js');

const [mgpt, root] = process.argv.slice(2), folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-around-')), file = path.join(folder, 'page.html');
const NAMES = ['App', 'Engine', 'Numbers', 'Pen', 'Share', 'Trials', 'Work'], names = path.join(root, 'weights/names.gguf'), ANNA = [26, 0, 13, 13, 0];
const lab = (...args) => execFileSync(mgpt, ['lab', ...args, '-o', file], { stdio: 'ignore' });
const turn = async () => { for (let i = 0; i < 20; i++) await new Promise(setImmediate); };

// A window whose address, theme and files the test sees.
function world(hash = '') {
    const w = { links: [], blobs: [], gone: [], dark: false, turns: [], location: { hash, href: 'file:///page.html' } }, write = (how) => (state, title, link) => { w.links.push(`${how} ${link}`); w.location.hash = link; };
    return Object.assign(w, { history: { replaceState: write('replace'), pushState: write('push') },
        matchMedia: (query) => ({ get matches() { return query.includes('dark') ? w.dark : query.includes('reduced-motion'); }, addEventListener: (type, fn) => query.includes('dark') && w.turns.push(fn) }),
        URL: Object.assign(class extends URL {}, { createObjectURL: (blob) => `blob:${w.blobs.push(blob)}`, revokeObjectURL: (url) => w.gone.push(url) }) });
}

async function open(w, more = {}) {
    const page = await openFake(file, NAMES, 1200, 800, { ...w, ...more });
    return { ...page, said: () => (page.$('message').hidden ? '' : page.$('message').textContent), one: (s) => page.$('rooms').querySelector(s) };
}

async function main() {
    lab(names, '-p', 'anna');
    FakeElement.prototype.toBlob = (done) => done(new Blob(['pixels']));
    const w = world(), page = await open(w), { App, Engine, Pen, Share, Trials, tick, $, document, said, one } = page;
    test('the whole model as a picture of twice the width is twice as high', () => {
        App.set({ view: 'home' });
        tick(1000);
        const [whole] = Share.of(one('.scene').parentNode), [low, high] = [300, 600].map((width) => whole.draw(Pen.create(width, 1), width));
        assert.strictEqual(whole.title, 'The whole model');
        assert.ok(low > 0);
        assert.strictEqual(high, 2 * low);
    });
    test('the address follows what is shown when that rests; Back returns to rooms, texts and panels', () => {
        const seen = () => w.links.splice(0);
        tick(300);
        seen();
        App.set({ query: 2 });
        tick(100);
        assert.deepStrictEqual(seen(), []);
        App.set({ query: 1 });
        tick(300);
        assert.deepStrictEqual(seen(), ['replace #at=1&head=0.0&ids=26.0.13.13.0']);
        App.set({ query: 4 });
        App.set({ cell: 'next' });
        assert.deepStrictEqual(seen().map((l) => l.split(' ')[0]), ['replace', 'push']);
        App.set({ walk: 3, cell: '', quiet: true });
        tick(300);
        assert.deepStrictEqual(seen(), ['replace #at=4&head=0.0&walk=3&ids=26.0.13.13.0']);
        App.set({ view: 'home', walk: 0, cell: '', query: 4, quiet: true });
    });
    test('the theme is the system’s until one is chosen', () => {
        const theme = () => document.documentElement.dataset.theme, system = (dark) => { w.dark = dark; w.turns.forEach((fn) => fn()); };
        system(true);
        assert.deepStrictEqual([theme(), App.state.dark], ['dark', true]);
        $('theme').click();
        assert.deepStrictEqual([theme(), App.state.dark, $('theme').textContent], ['light', false, '◐ light']);
        system(false);
        $('theme').click();
        assert.strictEqual(theme(), 'dark');
    });
    test('what is saved: names and contents of files', async () => {
        App.set({ view: 'home', cell: 'heads' });
        tick(200);
        const made = [], create = document.createElement;
        document.createElement = (tag) => made[made.push(create(tag)) - 1];
        const card = document.querySelectorAll('.share').find((e) => e.parentNode.querySelector('h3') && Share.of(e.parentNode).length).parentNode;
        for (const kind of ['CSV', 'JSON', 'SVG', 'PNG']) {
            card.querySelectorAll('.share button').find((b) => b.getAttribute('aria-label') === `save as ${kind}`).click();
            await turn();
            const link = made.filter((e) => e.tagName === 'A').pop(), blob = w.blobs.pop(), want = kind === 'PNG' ? 'pixels' : Share[kind.toLowerCase()](card);
            assert.match(link.getAttribute('download'), new RegExp(`^names-[\\p{L}\\p{N}.-]*[\\p{L}\\p{N}.]\\.${kind.toLowerCase()}$`, 'u'));
            assert.strictEqual(link.getAttribute('href'), 'blob:1');
            assert.strictEqual(await blob.text(), want);
            if (kind !== 'PNG') assert.strictEqual(blob.type, { CSV: 'text/csv', JSON: 'application/json', SVG: 'image/svg+xml' }[kind]);
        }
        document.createElement = create;
        tick(9000);
        assert.deepStrictEqual(w.gone, []);
        tick(2000);
        assert.deepStrictEqual(w.gone, Array(4).fill('blob:1'));
    });
    const choose = async (id, name, bytes, size = bytes.length) => {
        Object.assign($(id), { value: name, files: [{ name, size, arrayBuffer: async () => Uint8Array.from(bytes).buffer, text: async () => Buffer.from(bytes).toString() }] }).send('change');
        await turn();
        assert.strictEqual($(id).value, '', 'the same file can be chosen again');
    };
    const stream = (lane) => App.row(App.tensor('blocks.0.hook_resid_post', lane), 4);
    const difference = () => Array.from(stream(0), (v, i) => v - stream(1)[i]), near = (a, b, what) => a.forEach((v, i) => assert.ok(Math.abs(v - b[i]) < 1e-5, `${what}: ${v}, not ${b[i]}`));
    test('a steering vector of a file is added; one that is too large or of no layer is not', async () => {
        App.set({ view: 'experiment', cell: '', ids: ANNA, edits: [] });
        const row = Float32Array.from({ length: 16 }, (_, i) => i - 3), bytes = Trials.npyOf(row);
        await choose('steer-file', 'v.npy', bytes, 2 ** 26 + 1);
        assert.deepStrictEqual([said(), App.state.edits], ['Steering: v.npy has 67,108,865 bytes, more than 67,108,864.', []]);
        for (const [layer, says] of [['1', 'Steering: Layer: expected 0 to 0, found “1”.'], ['', /^Steering: .*one row: give its layer/], ['0', '']]) {
            $('steer-layer').value = layer;
            await choose('steer-file', 'v.npy', bytes);
            assert[says instanceof RegExp ? 'match' : 'strictEqual'](said(), says);
        }
        assert.deepStrictEqual(App.state.edits, [{ kind: 'steer', scale: 1, name: 'v.npy' }]);
        near(difference(), row, 'added');
        $('steer-scale').value = '-2.5';
        $('steer-scale').send('input');
        near(difference(), row.map((v) => -2.5 * v), 'times');
        $('steer-off').click();
        assert.deepStrictEqual([App.state.edits, $('edits').hidden], [[], true]);
        $('steer-layer').value = '9'; // files of this kind name their layers
        await choose('steer-file', 'v.gguf', [71, 71, 85, 70]);
        assert.match(said(), /^Steering: (?!Layer)/);
    });
    test('a vector of two texts is the stream of one less that of the other', () => {
        const after = (ids) => { Engine.run(ids, [], 1); return Array.from(Engine.value('blocks.0.hook_resid_post', 1).data.slice(-16)); }, more = after([26, 14, 11]), less = after([26, 4, 12, 12]);
        Engine.run(ANNA, [], 1);
        Object.assign($('steer-layer'), { value: '' });
        [$('steer-more').value, $('steer-less').value, $('steer-scale').value, $('steer-scale').valueAsNumber] = ['ol', 'emm', '1', 1];
        $('steer-make').click();
        assert.strictEqual(said(), '');
        near(difference(), more.map((v, i) => v - less[i]), 'difference');
        assert.match(one('#steer-make').closest('section').textContent, /Loaded: “ol” − “emm” after layer 0/);
        App.set({ edits: [] });
    });
    test('where a neuron fires in the texts of a file', async () => {
        $('neuron-unit').value = '9';
        await choose('neuron-file', 'names.txt', Buffer.from('olivia\nX1\n\nemma\n'));
        $('neuron-go').click();
        await turn();
        tick(100);
        await turn();
        const ids = [[26, 14, 11, 8, 21, 8, 0], [26, 4, 12, 12, 0]], fires = ids.flatMap((text) => {
            Engine.run(text, [], 1);
            return Array.from({ length: text.length - 1 }, (_, i) => Engine.value('blocks.0.mlp.hook_post', 1).data[64 * (i + 1) + 9]);
        }).filter((v) => v > 0).sort((a, b) => b - a);
        Engine.run(ANNA, [], 1);
        const card = $('neuron-go').closest('section'), table = card.querySelectorAll('table').find((t) => t.textContent.startsWith('fires'));
        assert.match(card.textContent, /2 of 2 texts\. 1 of 3 lines were left out: .*'X'/);
        assert.deepStrictEqual(table.rows.slice(1).map((r) => Number(r.cells[0].dataset.x)), fires);
    });
    await test('a worker does the slices of the page’s work', async () => {
        App.set({ ids: ANNA, edits: [{ kind: 'head', layer: 0, head: 1, scale: 0 }] });
        const sampling = { temperature: 1, topK: 0, topP: 1, seed: 9, counter: 0 }, want = await Trials.write(0, 3, 9, sampling, () => true), told = [];
        Engine.module.wasm.lab_draft(0, 3);
        const copy = structuredClone(Engine.copy()), state = { lane: 0, from: 3, most: 9, sampling, ids: [], logits: Engine.logits(2), done: false };
        App.set({ edits: [] });
        let now = 0; // a slice has few tokens
        const serve = new Function('onmessage', 'postMessage', 'performance', `${readPage(file).scripts};return onmessage;`)(null, ({ state: s, error }) => told.push(error || [...s.ids]), { now: () => now += 20 });
        await serve({ data: { copy, kind: 'write', state } });
        assert.ok(told.length > 1);
        assert.deepStrictEqual(told.at(-1), want);
        await serve({ data: { copy, kind: 'none', state: {} } });
        assert.match(told.at(-1), /is not a function/);
    });
    const told = [], parent = { postMessage: (data, to) => told.push([data, to]) }, observers = [], frame = { parent, scrollY: 40, ResizeObserver: class { constructor(fn) { this.fn = fn; } observe(el) { observers.push([el, this.fn]); } unobserve() {} disconnect() {} } };
    const seen = (p) => observers.splice(0).filter(([el]) => el === p.$('rooms')).forEach(([, fn]) => fn());
    const alone = await open(world(), frame);
    seen(alone);
    test('a page that is not for a frame tells no height', () => assert.deepStrictEqual(told, []));
    lab(names, '-p', 'anna', '--embed', '--at', 'view=attention&head=2&query=3');
    const inFrame = world(), framed = await open(inFrame, frame);
    seen(framed);
    test('a frame is told its height; it opens where --at says, and leaves Back to the page around it', () => {
        assert.deepStrictEqual(told, [[{ mgptLab: { height: 840, title: '' } }, '*']]);
        assert.deepStrictEqual([framed.App.state.cell, framed.App.state.head, framed.App.state.query], ['heads', 2, 3]);
        framed.App.set({ cell: 'next' });
        framed.tick(300);
        assert.ok(inFrame.links.length > 0 && inFrame.links.every((l) => l.startsWith('replace ')), inFrame.links.join());
    });
    const asked = await open(world('#query=1&head=3'));
    test('an address goes before --at', () => assert.deepStrictEqual([asked.App.state.head, asked.App.state.query, asked.App.state.cell], [3, 1, '']));
    const html = fs.readFileSync(file, 'utf8');
    fs.writeFileSync(file, html.replace(/(id="mgpt-model">)([^<]{2000})/, (all, id, text) => id + text.slice(0, 1000) + text.slice(0, 1000)));
    const hurt = await open(world('#view=lessons&lesson=words'));
    test('a page whose model is damaged has its lessons', () => {
        assert.strictEqual(hurt.document.documentElement.dataset.ready, 'failed');
        assert.match(hurt.said(), /[^.]\. The lessons need no model\.$/);
        assert.deepStrictEqual([hurt.App.state.view, hurt.$('tabs').textContent, hurt.$('keys').hidden, hurt.$('rooms').querySelectorAll('.lesson').length > 5], ['lessons', 'Lessons', true, true]);
    });
    execFileSync(mgpt, ['convert', path.join(root, 'tests/golden/llama'), path.join(folder, 'llama.gguf'), '--no-tokenizer'], { stdio: 'ignore' });
    lab(path.join(folder, 'llama.gguf'));
    const bare = await open(world());
    test('without a prompt and a token that begins texts, the first token is shown', () => assert.deepStrictEqual([bare.said(), Array.from(bare.App.state.ids), bare.document.documentElement.dataset.ready], ['', [bare.Engine.info.bos < 0 ? 0 : bare.Engine.info.bos], 'yes']));
    await finish().then((code) => {
        fs.rmSync(folder, { recursive: true });
        process.exit(code);
    });
}

main();
