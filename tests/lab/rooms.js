'use strict';
// Every room of a lab page without a browser: what it says of some models in some states, after keys and clicks, is that of
// rooms.txt (of all but the first: its hash). MGPT_WRITE=1 writes the file again. node rooms.js MGPT ROOT
const assert = require('assert');
const crypto = require('crypto');
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { test, finish } = require('./report.js');
const { FakeElement, openFake } = require('./fake_page.js');

const [mgpt, root] = process.argv.slice(2), folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-rooms-'));
const BLOCKS = /^(TR|P|DIV|H\d|LI|DT|DD|LABEL|BUTTON|CAPTION|PRE|SECTION|DIALOG|TABLE|CANVAS)$/;

// The text of an element by lines, with the sizes of bars, the texts of pictures and a hash of all that they draw, and what can be typed
// or chosen.
function said(el) {
    if (!(el instanceof FakeElement)) return el.textContent;
    if (el.hidden || (el.tagName === 'DIALOG' && !el.open)) return '';
    const bar = el.classList.contains('fill') ? `[${parseFloat(el.style.width || 0).toFixed(2)}%]` : '';
    const own = { INPUT: el.checked ? '(x)' : `<${el.value}>`, SELECT: `<${el.value}>`, CANVAS: [...new Set(el.words), `drawn ${(el.ink >>> 0).toString(16)}`].join(' ') }[el.tagName] || '';
    const inner = bar + own + el.childNodes.map(said).join(/^(TD|TH|TR|CHIP)$/.test(el.tagName) ? ' ' : '');
    return BLOCKS.test(el.tagName) ? `\n${inner}\n` : /^T[DH]$/.test(el.tagName) ? ` ${inner} |` : inner;
}

// What makes files, or needs some.
const FILES = /file|save|download|copy|share|image|svg|png|record/i;

function shown(e) {
    for (; e instanceof FakeElement; e = e.parentNode) if (e.hidden || (e.tagName === 'DIALOG' && !e.open)) return false;
    return true;
}

const lines = (el) => said(el).split('\n').map((l) => l.replace(/\s+/g, ' ').trim()).filter(Boolean);

const all = [], texts = new Map();

// A line in place of many, which failures print.
function short(title, told) {
    const line = `${title}: ${crypto.createHash('sha256').update(told.join('\n')).digest('hex').slice(0, 12)}`;
    texts.set(line, told);
    return line;
}

// A page opened, and {page, note(title), go(title, state)}: what it says after a change, without what it said before.
async function visit(what, args, inFull) {
    const file = path.join(folder, 'page.html');
    execFileSync(mgpt, ['lab', ...args, '-o', file], { stdio: ['ignore', 'ignore', 'pipe'] });
    const page = await openFake(file, ['App', 'Home', 'HomeWrite', 'Engine', 'Numbers', 'Share'], ...(inFull ? [] : what === 'bloom' ? [320, 480] : [480, 320])), { App, tick, $ } = page;
    let before = [];
    const note = (title) => {
        const now = [lines($('strip')).join('  '), ...lines($('edits')), ...lines($('rooms')), ...lines($('message'))], told = now.filter((l) => !before.includes(l));
        if (inFull) all.push(`== ${title}`, ...told);
        else all.push(short(`== ${what}: ${title}`, told));
        before = now;
    };
    const go = (title, state, ms = 1000) => {
        App.set(state);
        tick(App.state.view === 'home' ? ms : 50);
        note(title);
    };
    test(`the page of ${what} opens`, () => assert.strictEqual(page.document.documentElement.dataset.ready, 'yes'));
    if (inFull) all.push(...lines($('model')), ...lines($('mode')));
    return { page, note, go };
}

// Uses the controls of a room, each name once: sliders (at both ends, too), numbers, lists and boxes, then at most 40 buttons.
function sweep(page, view) {
    const root = () => page.document.querySelectorAll('.panel .inner').find(shown) || page.$('rooms'); // a panel that is as large as a room
    const used = new Set(), told = [], nameOf = (e) => `${e.tagName} ${e.type} ${e.id} ${e.getAttribute('aria-label') || e.parentNode.textContent}`;
    const next = (selector) => root().querySelectorAll(selector).find((e) => !used.has(nameOf(e)) && e.type !== 'file' && shown(e) && !e.disabled && !FILES.test(nameOf(e)));
    for (let e; used.size < 150 && (e = next('input,select') || (used.size < 40 && next('button')));) {
        const name = nameOf(e);
        used.add(name);
        for (const part of e.type === 'range' ? [0, 1, 0.75] : [0]) {
            if (e.tagName === 'BUTTON') e.click();
            else if (e.tagName === 'SELECT') e.value = e.options[e.options.length - 1].value;
            else if (e.type === 'range') e.value = String(Number(e.min) + Number(e.step || 1) * Math.floor((part * (e.max - e.min)) / Number(e.step || 1)));
            else if (e.type === 'number') e.value = '1.5';
            else e.checked = e.type === 'radio' || !e.checked;
            if (e.tagName !== 'BUTTON') for (const event of ['input', 'change']) e.send(event);
            if (page.App.state.view !== view) page.App.set({ view });
            page.tick(50);
            told.push([name, ...lines(root()), ...lines(page.$('message'))].join('\n'));
        }
    }
    all.push(short(`== ${view}: ${told.length} controls`, told));
}

// The files that the buttons of a room save: a hash of them, with four digits after the point.
function saved({ $, Share }, view) {
    for (const row of $('rooms').querySelectorAll('.share')) {
        const root = row.parentNode, figures = Share.of(root);
        if (figures.length > 0) all.push(short(`== ${view}: saved ${figures.length} figures: ${figures[0].title}`, ['csv', 'json', ...(view === 'lessons' ? [] : ['svg'])].map((kind) => Share[kind](root).replace(/(\.\d{4})\d+/g, '$1'))));
    }
}

// Grouped heads, LayerNorms with a bias, ALiBi (in a window that is taller than wide), parallel branches: all rooms in two states,
// cells of each kind.
async function visitOther(name) {
    const file = path.join(folder, `${name}.gguf`);
    execFileSync(mgpt, ['convert', path.join(root, 'tests/golden', name), file, '--no-tokenizer'], { stdio: 'ignore' });
    const { page, go } = await visit(name, [file, '--ids', '3,1,4,1,5']), { Engine, Numbers } = page;
    for (const view of ['home', 'predict', 'attention', 'inside', 'experiment']) {
        go(view, { view });
        go(`${view}: another place`, { query: 2, layer: 1, head: 2, key: 1, step: 4 });
        page.App.set({ query: 4, head: 0, layer: 0, step: 5, cell: '' });
    }
    for (let walk = 1; walk < page.document.querySelectorAll('.dots button').length; walk++) go(`home: stop ${walk}`, { view: 'home', walk, cell: '' }, 9000);
    // What the last layer's stop says is the model's guess.
    go('home: the last layer of the walk', { view: 'home', cell: '', walk: page.document.querySelectorAll('.dots button').length - 2 });
    const p = Numbers.softmax(Engine.logits(4)), said1 = lines(page.document.querySelector('.panel')).find((l) => /^After layer/.test(l));
    test(`the lens of ${name}`, () => assert.match(said1, new RegExp(`^After layer ${Engine.info.layers - 1} it (would say|stays with) .*?(with|now) ${Numbers.share(Math.max(...p))}; before, .*${Engine.hooks.some((h) => h.name === `blocks.${Engine.info.layers - 1}.attn.hook_pattern`) ? ' Head \\d is the most decided: ' : ''}`)));
    page.App.set({ walk: 0 });
    for (const cell of cells(page)) go(`home: cell ${cell}`, { view: 'home', cell }, 200);
    if (['mixtral', 'lfm2', 'gpt1'].includes(name)) for (const view of ['inside', 'experiment']) {
        page.App.set({ view, cell: '', edits: [], step: 5, query: 4, layer: 0, head: 0 });
        sweep(page, view);
    }
    if (name === 'lfm2') { // heads of the layers that attend only
        page.App.set({ view: 'attention', cell: '', edits: [], query: 4, layer: 0, head: 0 });
        page.tick(50);
        saved(page, `${name}: attention`);
    }
    const bad = [...texts].filter(([line, told]) => line.includes(name) && told.some((l) => /undefined|\bNaN|\[object/.test(l)));
    test(`no room of ${name} is broken`, () => assert.deepStrictEqual(bad, []));
}

// A page that has only what one run recorded, no engine.
async function visitRecorded() {
    const { page, go } = await visit('a recorded page', [path.join(root, 'weights/names.gguf'), '-p', 'anna', '--static']);
    test('the recorded page has no engine', () => assert.strictEqual(page.Engine.live, false));
    for (const view of ['home', 'predict', 'attention', 'inside', 'experiment']) {
        go(view, { view });
        go(`${view}: another place`, { query: 2, head: 3, key: 1, step: 4 });
        sweep(page, view);
        page.App.set({ query: 4, head: 0, step: 5, cell: '' });
    }
    for (const what of ['rows', 'scores']) go(`attention: ${what}`, { view: 'attention', what });
    page.App.set({ view: 'home', walk: 0, cell: '0.q.3.2' });
    const [slow, quick] = [1, 0].map((ms) => {
        FakeElement.slow = ms; // each look at the clock takes that: pictures are made over many frames, anew for a theme
        const told = Array.from({ length: 3 }, () => {
            page.$('theme').click();
            page.tick(ms ? 45000 : 500);
            return page.document.querySelectorAll('canvas').map((c) => c.ink).join(' ');
        });
        FakeElement.slow = 0;
        return told;
    });
    test('pictures that take many frames are whole in the end', () => assert.deepStrictEqual(slow, quick));
}

// A cell of each picture of the first layer, of its second head, and of what has no layer; in the second row.
const cells = (page) => [...page.Home.scene.mats].filter(([id, m]) => m.layer <= 0 && m.rows > 1 && (!m.tri || /(1|tp)$/.test(id))).map(([id, m]) => `${id}.1.${m.tri ? 0 : Math.min(m.cols - 1, 5)}`);

// What is no text of a room. Tests run at the end, on a page of their own.
async function visitPressed() {
    const { page, go } = await visit('names', [path.join(root, 'weights/names.gguf'), '-p', 'anna'], true), { App, tick, $ } = page;
    go('home', { view: 'home' });
    test('no number is explained beyond its picture', () => {
        const wrong = [...page.Home.scene.mats].filter(([id, m]) => !page.Home.explain([id, m.rows - 1, 0]) || page.Home.explain([id, -1, 0])
            || page.Home.explain([id, m.rows, 0]) || page.Home.explain([id, 0, m.cols]) || page.Home.explain([`${id}?`, 0, 0]));
        assert.deepStrictEqual(wrong.map(([id]) => id), []);
    });
    test('Let it write, and the same again stops it', () => {
        App.set({ view: 'home', cell: '', walk: 0, ids: [26, 0] });
        tick(1000);
        $('let-write').click();
        tick(1000);
        assert(page.HomeWrite.on && App.state.ids.length > 2);
        const { length } = App.state.ids;
        page.HomeWrite.write();
        tick(5000);
        assert.deepStrictEqual([page.HomeWrite.on, App.state.ids.length], [false, length]);
    });
}

async function main() {
    const { page, note, go } = await visit('names', [path.join(root, 'weights/names.gguf'), '-p', 'anna'], true), { App, tick, $ } = page;
    for (const view of ['home', 'predict', 'attention', 'inside', 'experiment']) {
        go(view, { view });
        go(`${view}: another place`, { query: 2, layer: 0, head: 3, key: 1, step: 4 });
        go(`${view}: a head is off`, { edits: [{ kind: 'head', layer: 0, head: 1, scale: 0 }] });
        App.set({ edits: [], query: 4, head: 0, step: 5, cell: '' });
    }
    for (const what of ['rows', 'scores']) go(`attention: ${what}`, { view: 'attention', what });
    App.set({ what: 'weights' });
    for (const cell of ['0.s2.4.3', '0.w.4.1', '0.q.3.2', '0.x.1.5', '0.u.2.9']) go(`home: cell ${cell}`, { view: 'home', cell });
    App.set({ cell: '' });
    tick(1000);
    const ink = () => page.document.querySelectorAll('canvas').find((c) => c.drawn === FakeElement.frame)?.ink.toString(16);
    for (const theme of ['auto', 'light', 'dark']) {
        for (const s of [0.6, 0.2]) { // from afar, where a pixel shows several cells of a matrix
            Object.assign(page.Home.cam, { x: 0, y: 0, s });
            FakeElement.frame++;
            page.Home.paint();
            all.push(`== home, ${theme}: ${s} of a pixel for a cell: drawn ${ink()}`);
        }
        $('theme').click();
    }
    App.set({ ids: [26, 0, 13, 13, 0, 11] });
    for (let ms = 300; ms < 2400; ms += 300) {
        tick(300);
        all.push(`== home: a token runs, ${ms} ms: drawn ${ink()}`);
    }
    App.set({ ids: [26, 0, 13, 13, 0] });
    tick(5000);
    for (const [id, m] of page.Home.scene.mats) { // the numbers in the pictures of matrices
        Object.assign(page.Home.cam, { x: m.x, y: m.y, s: Math.min(1200 / m.w, 800 / m.h) });
        FakeElement.frame++;
        page.Home.paint();
        const words = page.document.querySelectorAll('canvas').find((c) => c.drawn === FakeElement.frame).words.filter((w) => /^[−\d]/.test(w));
        all.push(`== home: ${id}: ${words.length} numbers: ${words.slice(0, 40).join(' ')} ... ${words.slice(-3).join(' ')}`);
    }
    App.set({ view: 'experiment', ids: [26, ...'annaannaannaann'].map((c) => (c === 26 ? c : c.charCodeAt(0) - 97)), step: 16 });
    for (const clean of ['emmaannaannaann', 'anna', 'emmaannaannaanna', 'annaannaannaann']) {
        $('clean').value = clean;
        $('clean').send('keydown', { key: 'Enter' });
        tick(500);
        note(`experiment: clean text ${clean}`);
    }
    App.set({ view: 'lessons' });
    tick(100);
    for (const check of $('rooms').querySelectorAll('button').filter((b) => b.textContent === 'Check')) {
        check.click();
        const task = check.closest('section');
        all.push(`== lessons: ${task.parentNode.closest('section').id}, checked at once: ${task.className}: ${task.querySelector('.verdict').textContent}`);
    }
    for (const view of ['home', 'predict', 'attention', 'inside', 'experiment', 'lessons']) {
        App.set({ view, cell: '' });
        tick(200);
        saved(page, view);
    }
    for (const view of ['home', 'predict', 'attention', 'inside', 'experiment', 'lessons']) {
        page.App.set({ view, cell: '', edits: [], step: 5, query: 4, layer: 0, head: 0 });
        tick(100);
        sweep(page, view);
    }
    for (const name of ['llama', 'bloom', 'stablelm_parallel', 'mixtral', 'qwen2_moe', 'lfm2', 'gpt1', 'deepseek_v3', 'gemma4_e', 'laguna', 'mimo_v2_flash']) await visitOther(name);
    await visitRecorded();
    all.push('');
    const kept = path.join(root, 'tests/lab/rooms.txt'), text = all.join('\n');
    if (process.env.MGPT_WRITE) fs.writeFileSync(kept, text);
    const want = fs.readFileSync(kept, 'utf8').split('\n'), at = all.findIndex((l, i) => l !== want[i]);
    test('what the rooms say is rooms.txt', () => assert.deepStrictEqual(at < 0 ? [] : [at + 1, ...all.slice(at, at + 3), ...(texts.get(all[at]) || [])], at < 0 ? [] : [at + 1, ...want.slice(at, at + 3)]));
    await visitPressed();
    fs.rmSync(folder, { recursive: true });
    process.exit(await finish());
}

main();
