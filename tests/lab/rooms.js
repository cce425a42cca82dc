'use strict';
// Every room of a lab page without a browser: what it says of one model in some states, after keys and clicks, is that of
// rooms.txt. MGPT_WRITE=1 writes the file again. node rooms.js MGPT ROOT
const assert = require('assert');
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { test, finish } = require('./report.js');
const { FakeElement, openFake } = require('./fake_page.js');

const [mgpt, root] = process.argv.slice(2), folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-rooms-'));
const BLOCKS = /^(TR|P|DIV|H\d|LI|DT|DD|LABEL|BUTTON|CAPTION|PRE|SECTION|DIALOG|TABLE|CANVAS)$/;

// The text of an element by lines, with the sizes of bars, the texts of pictures and what can be typed or chosen.
function said(el) {
    if (!(el instanceof FakeElement)) return el.textContent;
    if (el.hidden || (el.tagName === 'DIALOG' && !el.open)) return '';
    const bar = el.classList.contains('fill') ? `[${parseFloat(el.style.width || 0).toFixed(2)}%]` : '';
    const own = { INPUT: el.checked ? '(x)' : `<${el.value}>`, SELECT: `<${el.value}>`, CANVAS: [...new Set(el.words)].join(' ') }[el.tagName] || '';
    const inner = bar + own + el.childNodes.map(said).join(/^(TD|TH|TR|CHIP)$/.test(el.tagName) ? ' ' : '');
    return BLOCKS.test(el.tagName) ? `\n${inner}\n` : /^T[DH]$/.test(el.tagName) ? ` ${inner} |` : inner;
}

const lines = (el) => said(el).split('\n').map((l) => l.replace(/\s+/g, ' ').trim()).filter(Boolean);

async function main() {
    const file = path.join(folder, 'page.html');
    execFileSync(mgpt, ['lab', path.join(root, 'weights/names.gguf'), '-p', 'anna', '-o', file], { stdio: ['ignore', 'ignore', 'pipe'] });
    const page = await openFake(file, ['App', 'Home']), { App, tick, $ } = page, all = [];
    let before = [];
    const note = (title) => { // what the note before does not have
        const now = [lines($('strip')).join('  '), ...lines($('edits')), ...lines($('rooms')), ...lines($('message'))];
        all.push(`== ${title}`, ...now.filter((l) => !before.includes(l)));
        before = now;
    };
    const go = (title, state) => {
        App.set(state);
        tick(App.state.view === 'home' ? 1000 : 50);
        note(title);
    };
    test('the page opens', () => assert.strictEqual(page.document.documentElement.dataset.ready, 'yes'));
    all.push(...lines($('model')), ...lines($('mode')));
    for (const view of ['home', 'predict', 'attention', 'inside', 'block', 'experiment']) {
        go(view, { view });
        go(`${view}: another place`, { query: 2, layer: 0, head: 3, key: 1, step: 4 });
        go(`${view}: a head is off`, { edits: [{ kind: 'head', layer: 0, head: 1, scale: 0 }] });
        App.set({ edits: [], query: 4, head: 0, step: 5 });
    }
    for (const what of ['rows', 'log', 'scores']) go(`attention: ${what}`, { view: 'attention', what, future: what === 'scores' ? '1' : '0' });
    App.set({ what: 'weights' });
    for (const cell of ['0.s2.4.3', '0.w.4.1', '0.q.3.2', '0.x.1.5', '0.u.2.9']) go(`home: cell ${cell}`, { view: 'home', cell });
    App.set({ cell: '' });
    tick(1000);
    for (const [id, m] of page.Home.scene.mats) { // the numbers in the pictures of matrices
        Object.assign(page.Home.cam, { x: m.x, y: m.y, s: Math.min(1200 / m.w, 800 / m.h) });
        FakeElement.frame++;
        page.Home.paint();
        const words = page.document.querySelectorAll('canvas').find((c) => c.drawn === FakeElement.frame).words.filter((w) => /^[−\d]/.test(w));
        all.push(`== home: ${id}: ${words.length} numbers: ${words.slice(0, 40).join(' ')} ... ${words.slice(-3).join(' ')}`);
    }
    App.set({ view: 'block' });
    for (const key of ['ArrowRight', 'ArrowDown', 'ArrowDown', 'ArrowLeft', 'ArrowDown', 'ArrowDown', 'ArrowDown']) {
        page.document.querySelector('.stages').send('keydown', { key });
        note(`block: ${key}`);
    }
    App.set({ view: 'experiment', ids: [26, ...'annaannaannaann'].map((c) => (c === 26 ? c : c.charCodeAt(0) - 97)), step: 16 });
    for (const clean of ['emmaannaannaann', 'anna', 'emmaannaannaanna', 'annaannaannaann']) {
        $('clean').value = clean;
        $('clean').send('keydown', { key: 'Enter' });
        tick(500);
        note(`experiment: clean text ${clean}`);
    }
    all.push('');
    const kept = path.join(root, 'tests/lab/rooms.txt'), text = all.join('\n');
    if (process.env.MGPT_WRITE) fs.writeFileSync(kept, text);
    const want = fs.readFileSync(kept, 'utf8').split('\n'), at = all.findIndex((l, i) => l !== want[i]);
    test('what the rooms say is rooms.txt', () => assert.deepStrictEqual(at < 0 ? [] : [at + 1, ...all.slice(at, at + 3)], at < 0 ? [] : [at + 1, ...want.slice(at, at + 3)]));
    fs.rmSync(folder, { recursive: true });
    process.exit(await finish());
}

main();
