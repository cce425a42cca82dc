'use strict';
// Keys, clicks, pointers and the focus in the rooms of lab pages, without a browser: what the document and the state are after each of them
// has the hashes of events.txt, a line for each room and element. Attributes count: titles, colours and shapes of drawings. Work that runs
// on in slices is awaited. MGPT_WRITE=1 writes the file again, MGPT_SHOW=LINE prints what a line is the hash of. node events.js MGPT ROOT
const assert = require('assert');
const crypto = require('crypto');
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { test, finish } = require('./report.js');
const { FakeElement, openFake } = require('./fake_page.js');

const [mgpt, root] = process.argv.slice(2), folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-events-'));
const KEYS = [...'sghluijkwfrz/t?.,np[]+- 0a1234', 'ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End', 'PageUp', 'PageDown', 'Enter', 'Escape', 'Delete', 'Backspace'];
const MOVES = ['ArrowLeft', 'ArrowDown', 'ArrowRight', 'End', 'PageUp', 'Enter', 'Delete', 'b'];
const POINTED = ['pointerover', 'focusin', 'mousemove', 'pointerdown', 'pointermove', 'pointerup', 'dblclick', 'wheel', 'pointerleave', 'focusout', 'mouseleave', 'pointercancel', 'scroll', 'submit', 'pointerenter', 'focus', 'blur'];
// What makes files, or needs some.
const FILES = /file|save|download|copy|share|image|svg|png|record/i;
const PLACES = [[150, 100], [300, 200]];

const all = [], texts = new Map(), fixed = (text) => String(text).replace(/-?\d+\.\d+(e-?\d+)?/g, (x) => String(Number(Number(x).toPrecision(4))));

function shown(e) {
    for (; e instanceof FakeElement; e = e.parentNode) if (e.hidden || (e.tagName === 'DIALOG' && !e.open)) return false;
    return true;
}

// An element in one line: its tag, what it has, what is in it.
function look(el) {
    if (!(el instanceof FakeElement)) return el.textContent;
    if (el.hidden || (el.tagName === 'DIALOG' && !el.open)) return '';
    const has = [...el.attributes].filter(([k]) => !['class', 'd-at'].includes(k)).concat(Object.entries(el.style).filter(([, v]) => typeof v !== 'function'));
    const own = { INPUT: [el.value, el.checked], SELECT: [el.value], CANVAS: [el.ink >>> 0] }[el.tagName] || [];
    const said = [el.className, ...has.map(([k, v]) => `${k}=${v}`), el.tabIndex, el.scrollLeft, el.scrollTop, el.disabled, ...own].filter((x) => x !== undefined && x !== '').join(' ');
    return `<${el.tagName} ${fixed(said)}>${el.childNodes.map(look).join('')}`;
}

const nameOf = (e) => (e.classList.contains('tok') ? 'a token' : `${e.tagName.toLowerCase()}${e.id ? `#${e.id}` : ''}${e.className ? `.${e.className.split(' ')[0]}` : ''} ${(e.getAttribute('aria-label') || (e.tagName === 'BUTTON' ? e.textContent : '')).slice(0, 40)}`.replace(/\s+/g, ' ').trim());

// A page that is asked: rooms(views, base) sends everything to each of them.
async function visit(what, args) {
    const file = path.join(folder, 'page.html');
    FakeElement.sends = true;
    execFileSync(mgpt, ['lab', ...args, '-o', file], { stdio: ['ignore', 'ignore', 'pipe'] });
    const page = await openFake(file, ['App', 'Engine', 'Home', 'HomeWrite'], 480, 320), { App, tick, $, document, entries } = page;
    const first = structuredClone(App.state), turn = () => new Promise(setImmediate);
    const seen = (was) => {
        const state = Object.entries(App.state).map(([k, v]) => `${k}=${fixed(JSON.stringify(v))}`), parts = ['tabs', 'theme', 'message', 'strip', 'edits', 'rooms', 'help', 'picker'].map((id) => look($(id) || 'none'));
        const dom = parts.map((p) => crypto.createHash('sha1').update(p).digest('hex').slice(0, 8));
        return [...state.filter((s) => !was.includes(s)), ...entries.splice(0).map(fixed), dom.join(' ')];
    };
    const settled = async () => {
        await turn();
        tick(100);
    };

    async function room(view, base, title = view) {
        const reset = () => {
            for (const dialog of document.querySelectorAll('dialog')) dialog.close();
            FakeElement.active = null;
            App.set({ ...structuredClone(first), ...base, view });
            tick(100);
            entries.length = 0;
        };
        const state = () => Object.entries(App.state).map(([k, v]) => `${k}=${fixed(JSON.stringify(v))}`);
        const told = new Map(), note = (name, event, was) => told.set(name, [...(told.get(name) || []), [event, ...seen(was)].join('\n')]);
        reset();
        for (const key of KEYS) {
            const was = state();
            document.body.send('keydown', { key });
            await settled();
            note('keys', key, was);
            if (App.state.view !== view || document.querySelector('dialog[open]')) reset();
        }
        const done = new Set();
        reset();
        const next = () => [...$('tabs').all(), ...$('strip').all(), ...$('rooms').all()].find((e) => (e.listeners.length || e.tagName === 'BUTTON') && !done.has(nameOf(e)) && shown(e) && !e.disabled && e.type !== 'file' && !FILES.test(nameOf(e)));
        for (let e; done.size < 48 && (e = next());) {
            const name = nameOf(e), heard = new Set(e.listeners.map((l) => l[0]));
            done.add(name);
            App.set(base);
            entries.length = 0;
            const inside = e.tagName === 'CANVAS' ? [] : e.all().filter((t) => (t.tagName === 'TD' || t.tagName === 'BUTTON' || t.tagName === 'CANVAS' || t.dataset.pos !== undefined || t.dataset.i !== undefined) && shown(t));
            const targets = e.tagName === 'BUTTON' || !inside.length ? [e] : [...new Set([inside[0], inside[inside.length >> 1]])];
            for (const [i, target] of targets.entries()) {
                const was = state();
                if (heard.has('keydown')) for (const key of MOVES) {
                    if (!target.isConnected) break;
                    target.focus();
                    target.send('keydown', { key });
                    await settled();
                    note(name, `${i} ${key}`, was);
                }
                for (const type of POINTED) if (heard.has(type)) for (const [x, y] of target.tagName === 'CANVAS' ? PLACES : [PLACES[i]]) {
                    if (!target.isConnected) break;
                    target.send(type, { clientX: x, clientY: y, pointerId: 1, pointerType: 'mouse', deltaY: 120, deltaMode: 0 });
                    await settled();
                    note(name, `${i} ${type} ${x}`, was);
                }
                if (heard.has('click')) {
                    for (const [x, y] of target.tagName === 'CANVAS' ? PLACES : [PLACES[i]]) target.send('click', { clientX: x, clientY: y });
                    await settled();
                    note(name, `${i} click`, was);
                }
                if (App.state.view !== view || !e.isConnected) reset();
            }
        }
        for (const [name, list] of told) {
            const line = `${what}, ${title}: ${name}: ${list.length} ${crypto.createHash('sha1').update(list.join('\n')).digest('hex').slice(0, 10)}`;
            texts.set(line, list);
            all.push(line);
        }
    }
    return { page, room };
}

// What an address in the same page opens.
async function addresses({ page: { App, document, tick, $ } }) {
    for (const hash of ['', 'ids=26.4&view=attention', 'ids=26.0.13.13.0.4&step=3', 'ids=26.0.13&query=1&key=9', 'ids=26.0.13.13.0.4.11', 'ids=26.0.99', 'view=lessons', 'view=experiment&edits=head.0.1.0', 'ids=26.1.2.3&was=26.1.2', 'what=log&view=attention&head=9', 'cell=0.s2.3.1', 'walk=4', 'x=%zz', 'temperature=0.5&topK=3&seed=7']) {
        document.body.send('hashchange', { newURL: `file:///page.html#${hash}` });
        tick(200);
        all.push(`the address #${hash}: ${JSON.stringify(App.state, (k, v) => (v instanceof Float32Array || v instanceof Int32Array ? Array.from(v) : typeof v === 'number' ? Number(v.toPrecision(4)) : v))} ${$('message').hidden ? '' : $('message').textContent}`);
    }
}

async function main() {
    const names = await visit('names', [path.join(root, 'weights/names.gguf'), '-p', 'anna']);
    await addresses(names);
    const base = { query: 3, key: 1, head: 2, step: 4 };
    for (const view of ['home', 'experiment', 'lessons']) await names.room(view, base);
    for (const cell of ['next', 'stream', 'heads', 'why.2', '0.p.3.0']) await names.room('home', { ...base, cell }, `home ${cell}`);
    fs.rmSync(folder, { recursive: true });
    const kept = path.join(root, 'tests/lab/events.txt');
    if (process.env.MGPT_WRITE) fs.writeFileSync(kept, `${all.join('\n')}\n`);
    for (const [line, list] of texts) if (process.env.MGPT_SHOW && line.startsWith(process.env.MGPT_SHOW)) console.log(list.join('\n'));
    const want = fs.readFileSync(kept, 'utf8').split('\n').filter(Boolean);
    test('what events do is events.txt', () => assert.deepStrictEqual([all.filter((l) => !want.includes(l)), want.filter((l) => !all.includes(l))], [[], []]));
    process.exit(await finish());
}

main();
