'use strict';
// The room of attention, and figures as files: what is saved is what the engine computed. Functions of `short`
// get a page of names on "anna", those of `long` one of shakespeare on VERSES (visit.js).
const assert = require('assert');
const fs = require('fs');
const path = require('path');

const VERSES = 'ROMEO:\nI will not go to the house of the king.\n\nJULIET:\nThen go to the queen, my lord, and tell her all.';
const click = (page, selector) => page.eval(`document.querySelector('${selector}').click()`);
const settled = (page) => page.until(`document.documentElement.classList.contains('settled')`);
const card = (title) => `[...document.querySelectorAll('.room:not([hidden]) .card')].find((c) => c.querySelector('h3').textContent === '${title}')`;

// ---- names ----

// The list of keys by word, the measures and the picture say what the engine's pattern is.
async function keys(page) {
    const w = await page.eval(`Array.from(App.line(App.ofLayer('attn.hook_pattern'), 3, 4))`);
    const shown = await page.eval(`[...document.querySelectorAll('.keys')[0].querySelectorAll('.keyrow')].map((r) => [r.querySelector('mark').textContent, r.querySelector('.value').textContent])`);
    const order = w.map((_, j) => j).sort((a, b) => w[b] - w[a]);
    assert.deepStrictEqual(shown, order.map((j) => [['start', 'a', 'n', 'n', 'a'][j], w[j].toFixed(3)]));
    await click(page, '.keys .keyrow:nth-of-type(3)');
    assert.strictEqual(await page.eval('App.state.key'), order[2]);
    const mean = await page.eval(`(() => { const t = App.ofLayer('attn.hook_pattern'); return [2, 3, 4].reduce((s, i) => s + App.line(t, 3, i)[i - 1], 0) / 3; })()`);
    assert.strictEqual(await page.eval(`document.querySelector('.kinds tbody td.num').textContent`), mean.toFixed(2));
    await settled(page);
    assert.match(await page.text('.told'), /Head 0\.3\s+diffuse/);
}

// Every number of a file is the engine's, in all digits.
async function numbers(page) {
    const engine = await page.eval(`[0, 1, 2, 3, 4].map((i) => Array.from(App.line(App.ofLayer('attn.hook_pattern'), 3, i)))`);
    const json = JSON.parse(await page.eval(`Share.json(${card('One head')})`));
    assert.deepStrictEqual([json.model, json.tokens, json.text], ['names', [26, 0, 13, 13, 0], ['<BOS>', 'a', 'n', 'n', 'a']]);
    assert.strictEqual(json.link, '#at=4&head=0.3&cell=heads&ids=26.0.13.13.0'.replace('&cell', '&key=0&cell'));
    assert.deepStrictEqual(json.figures[0].columns, ['query', '0 start', '1 a', '2 n', '3 n', '4 a']);
    assert.deepStrictEqual(json.figures[0].rows, engine.map((row, i) => [['0 start', '1 a', '2 n', '3 n', '4 a'][i], ...row, ...Array(4 - i).fill(null)]));
    const all = (await page.eval(`Share.csv(${card('All heads')})`)).trim().split('\r\n').map((line) => line.split(','));
    assert.deepStrictEqual(all.slice(1).map((r) => r.slice(0, 2)), [['0', '0'], ['0', '1'], ['0', '2'], ['0', '3']]);
    await page.eval(`App.set({ view: 'predict' })`);
    const p = JSON.parse(await page.eval(`Share.json(${card('Next token')})`)).figures[0];
    assert.deepStrictEqual(p.columns.slice(0, 3), ['token', 'probability', 'logit']);
    assert.strictEqual(p.rows[0][2], await page.eval('Math.max(...Engine.logits(4))'));
    await page.eval(`App.set({ view: 'home' })`);
    const picture = JSON.parse(await page.eval(`Share.json(document.querySelector('.scene'))`)).figures[0];
    const logits = picture.rows.filter((r) => r[0] === 'lg' && r[1] === 4).sort((a, b) => a[2] - b[2]).map((r) => r[3]);
    assert.deepStrictEqual(logits, await page.eval('Array.from(Engine.logits(4))'));
    await page.eval(`App.set({ view: 'attention' })`);
}

// A picture has a rectangle for each cell, the numbers in them, the words around them, and its pixels are a PNG.
async function pictures(page) {
    const seen = await page.eval(`(() => { const d = new DOMParser().parseFromString(Share.svg(${card('One head')}), 'image/svg+xml');
        return { bad: d.querySelectorAll('parsererror').length, texts: [...d.querySelectorAll('text')].map((t) => t.textContent), fills: [...d.querySelectorAll('rect')].map((r) => r.getAttribute('fill')) }; })()`);
    assert.strictEqual(seen.bad, 0);
    const engine = await page.eval(`[0, 1, 2, 3, 4].flatMap((i) => Array.from(App.line(App.ofLayer('attn.hook_pattern'), 3, i)))`);
    assert.deepStrictEqual(seen.texts.filter((t) => /^\d\.\d{4}$/.test(t)).slice(0, 15), engine.map((v) => v.toFixed(4)));
    for (const word of ['One head: head 0.3, diffuse 0.95', '4 a', 'start']) assert(seen.texts.includes(word), word);
    const colours = await page.eval(`${JSON.stringify(engine)}.map((v) => Colour.css(Colour.sequential(0, 1).rgb(v)))`);
    colours.forEach((c) => assert(seen.fills.includes(c), c));
    const png = await page.eval(`Share.png(${card('One head')}).then((b) => b.arrayBuffer()).then((b) => Array.from(new Uint8Array(b).slice(0, 24)))`);
    assert.deepStrictEqual(png.slice(1, 4), [80, 78, 71]);
    assert.strictEqual((png[16] << 24) + (png[17] << 16) + (png[18] << 8) + png[19], 1800);
}

// One click saves a file, under the page's policy.
async function saving(page) {
    const dir = fs.mkdtempSync(path.join(page.chrome.dir, 'saved-')), of = () => fs.readdirSync(dir).filter((f) => !f.endsWith('.crdownload')).sort();
    await page.chrome.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: dir });
    for (const [i, kind] of ['SVG', 'PNG', 'CSV', 'JSON'].entries()) {
        await page.eval(`[...(${card('One head')}).querySelectorAll('.share button')].find((b) => b.textContent === '${kind}').click()`);
        for (let wait = 0; of().length <= i && wait < 250; wait++) await new Promise((done) => setTimeout(done, 20));
    }
    const names = of();
    assert.deepStrictEqual(names.map((n) => n.split('.').pop()).sort(), ['csv', 'json', 'png', 'svg']);
    const json = names.find((n) => n.endsWith('.json'));
    assert.strictEqual(fs.readFileSync(path.join(dir, json), 'utf8'), await page.eval(`Share.json(${card('One head')})`));
    assert.match(json, /^names-One-head-head-0\.3-diffuse-0\.95\.json$/);
}

// Arcs from the chosen token to each key that has a hundredth; a click on a token moves everything.
async function arcs(page) {
    const state = `[App.state.query, document.querySelector('.home .arcs').querySelectorAll('path').length]`;
    const w = await page.eval(`Array.from(App.line(App.ofLayer('attn.hook_pattern'), 3, 4))`);
    assert.deepStrictEqual(await page.eval(state), [4, w.filter((v) => v >= 0.01).length]);
    const widths = await page.eval(`[...document.querySelector('.home .arcs').querySelectorAll('path')].map((p) => Number(p.getAttribute('stroke-width')))`);
    w.slice().sort((a, b) => b - a).forEach((v, i) => assert(Math.abs(widths[i] - 1 - 7 * v) < 1e-6, `arc ${i}`));
    await click(page, '.home [data-pos="2"]');
    assert.deepStrictEqual((await page.eval(state))[0], 2);
    assert.match(await page.eval(`document.querySelector('.keys h4').textContent`), /2 n looks at/); // a card that is not drawn yet has no innerText
}

// From Tab to a changed picture: no pointer.
async function keyboard(page) {
    await page.eval(`document.querySelector('.thumb[tabindex="0"]').focus()`);
    await page.press('ArrowLeft');
    assert.strictEqual(await page.eval('[App.state.head, document.activeElement.dataset.head].join()'), '2,2');
    for (const [selector, what] of [['.keys .keyrow', 'a key'], ['#attention td[tabindex="0"]', 'a cell'], ['.card .share summary', 'a file']]) {
        let reached = false;
        for (let i = 0; i < 150 && !reached; i++) {
            await page.press('Tab');
            reached = await page.eval(`document.activeElement.matches('${selector}')`);
        }
        assert(reached, `Tab never came to ${what}`);
    }
}

// Questions that a visitor has, in clicks from the first picture.
async function questions(page) {
    const ask = async (...clicks) => {
        await page.eval(`App.set({ view: 'home', cell: '', walk: 0, head: 0, query: 4, key: 0 })`);
        for (const c of clicks) await click(page, c);
        await settled(page);
        assert(clicks.length <= 3);
        return page.text('.room:not([hidden])');
    };
    assert.match(await ask('.try button:nth-of-type(1)'), /head 2/); // what did head 2 look at?
    assert.match(await ask('.try button:nth-of-type(1)', '.terms .on .goback'), /q · k\s+6\.356498/); // and why?
    assert.match(await ask('.try button:nth-of-type(2)').then(() => page.until(`/Without .* it would have/.test(document.querySelector('.panel').innerText) && document.querySelector('.panel').innerText`)), /the MLP/); // what changed the prediction?
    assert.match(await ask('.try button:nth-of-type(7)', '.thumb[data-head="3"]'), /Head 0\.3\s+diffuse/); // what do all heads do?
    assert.match(await ask('.try button:nth-of-type(3)'), /Stop 6 of 14[^]*What the cache holds/);
    await page.eval(`App.set({ view: 'attention', walk: 0 })`);
}

// ---- 104 letters ----

// The large map is one picture: keys and clicks move in it, rows have their own scale, the numbers are folded.
async function large(page) {
    assert.strictEqual(await page.eval(`document.querySelector('#attention .whole').hidden`), false);
    assert.strictEqual(await page.eval(`document.querySelector('#attention table').checkVisibility()`), false);
    assert.strictEqual(await page.eval(`document.querySelector('input[name="what to show"]:checked').value`), 'rows');
    await page.eval(`document.querySelector('#attention canvas.heat').focus()`);
    await page.press('ArrowUp');
    await page.press('ArrowRight');
    assert.deepStrictEqual(await page.eval('[App.state.query, App.state.key]'), [102, 1]);
    const pixels = await page.eval(`(() => { const c = document.querySelector('#attention canvas.heat'), r = c.getBoundingClientRect(); c.dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: r.right - 3, clientY: r.bottom - 3 })); return r.width; })()`);
    assert(pixels > 400, `the map has ${pixels} pixels`);
    assert.deepStrictEqual(await page.eval('[App.state.query, App.state.key]'), [103, 103]);
    assert.strictEqual(await page.eval(`document.querySelector('#attention .readout b').textContent`), await page.eval(`Numbers.exact(App.line(App.ofLayer('attn.hook_pattern'), 0, 103)[103])`));
    const json = JSON.parse(await page.eval(`Share.json(${card('One head')})`)).figures[0];
    assert.deepStrictEqual(json.rows[50].slice(1, 52), await page.eval(`Array.from(App.line(App.ofLayer('attn.hook_pattern'), 0, 50))`));
    assert.match(await page.text('.told'), /previous 0\.\d\d\s+It looks at the token before/);
}

// Keys of other lines have a bar as thick as their share.
async function lines(page) {
    const bars = await page.eval(`[...document.querySelector('.home .arcs').querySelectorAll('rect')].map((r) => Number(r.getAttribute('height')))`);
    const w = await page.eval(`Array.from(App.line(App.ofLayer('attn.hook_pattern'), 0, 103)).slice(0, 56)`); // the last line begins at 56
    assert.deepStrictEqual(bars.map((b) => b.toFixed(4)), w.filter((v) => v >= 0.01).sort((a, b) => b - a).map((v) => (1 + 7 * v).toFixed(4)));
}

// ---- any page ----

// Pictures of every card of every room can be read, whatever the tokens are.
async function wellFormed(page, rooms) {
    for (const room of rooms) {
        await page.eval(`App.set({ view: '${room}' })`);
        await settled(page);
        const bad = await page.eval(`[...document.querySelectorAll('.room:not([hidden]) :is(.card, .scene, .lfig), #strip')].filter((c) => Share.of(c).length).map((c) => {
            JSON.parse(Share.json(c));
            Share.csv(c);
            return new DOMParser().parseFromString(Share.svg(c), 'image/svg+xml').querySelector('parsererror')?.textContent;
        }).filter(Boolean)`);
        assert.deepStrictEqual(bad, [], room);
    }
}

// --embed: in a sandboxed frame and as the text of one, silent, and as high as it says.
async function framed(chrome, tmp, lab) {
    const file = lab('frame', '--embed', '--at', 'view=attention&layer=0&head=2'), text = fs.readFileSync(file, 'utf8').replace(/&/g, '&amp;').replace(/"/g, '&quot;');
    const host = path.join(tmp, 'host.html'), told = [], errors = [];
    fs.writeFileSync(host, `<!DOCTYPE html><meta charset="utf-8"><html data-ready="yes"><title>host</title><iframe id="a" src="frame.html" sandbox="allow-scripts allow-downloads" width="700" height="500"></iframe>`
        + `<iframe id="b" srcdoc="${text}" width="700" height="500"></iframe><script>const heard = []; addEventListener('message', (e) => heard.push(e.data.mgptLab));</script>`);
    chrome.listeners.push((m) => {
        if (m.method === 'Target.attachedToTarget') for (const d of ['Runtime', 'Log']) chrome.send(`${d}.enable`, {}, m.params.sessionId).catch(() => {});
        if (m.method === 'Log.entryAdded' || m.method === 'Runtime.exceptionThrown' || m.method === 'Runtime.consoleAPICalled') errors.push(JSON.stringify(m.params).slice(0, 300));
    });
    const page = await chrome.open({ width: 800, height: 1100 });
    await page.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: true });
    await page.go(host);
    told.push(...await page.until('heard.length >= 2 && heard'));
    assert(told.every((t) => t.title === 'names · mgpt lab' && t.height > 500 && t.height < 6000), JSON.stringify(told));
    const inside = (expression) => page.eval(`document.getElementById('b').contentWindow.eval(${JSON.stringify(expression)})`).catch(() => null);
    const look = await page.eval(`(() => { const d = document.getElementById('b').contentDocument; return { ready: d.documentElement.dataset.ready, header: getComputedStyle(d.querySelector('header')).display,
        chosen: d.querySelector('.thumb.chosen')?.dataset.head, wide: d.documentElement.scrollWidth }; })()`);
    assert.deepStrictEqual(look, { ready: 'yes', header: 'none', chosen: '2', wide: 700 }, String(await inside('1')));
    assert.deepStrictEqual(errors.filter((e) => !/unsafe-eval/.test(e)), []);
    await page.close();
}

// ---- axe-core, where a Python package has it (axe-playwright-python) or MGPT_AXE names it ----

function findAxe() {
    const lib = '/opt/venv/lib', all = [process.env.MGPT_AXE];
    for (const python of fs.existsSync(lib) ? fs.readdirSync(lib) : []) all.push(path.join(lib, python, 'site-packages/axe_playwright_python/axe.min.js'));
    return all.find((f) => f && fs.existsSync(f));
}

async function axe(chrome, files, rooms) {
    const file = findAxe();
    if (!file) return console.log('# no axe-core here (MGPT_AXE names one): rules of accessibility were not checked');
    for (const [i, page] of files.entries())
        for (const dark of [false, true]) {
            const tab = await chrome.open({ width: i ? 390 : 1280, height: i ? 1800 : 900, dark }); // on a phone nothing is under the player then
            await tab.go(page);
            await tab.eval(`${fs.readFileSync(file, 'utf8')};0`);
            for (const room of [...rooms, "home', cell: 'lg.4.11", "home', cell: '0.a1.4.2", "home', cell: 'why.11", "home', walk: '7", "home', walk: '12"]) {
                await tab.eval(`App.set({ cell: '', walk: 0, view: '${room}' })`);
                await settled(tab);
                const found = await tab.eval(`axe.run({ include: ['header', '#strip', '#edits', '.room:not([hidden])', 'footer'] }, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'] }).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 100)).join(' ')))`);
                assert.deepStrictEqual(found, [], `${room}${dark ? ', dark' : ''}`);
            }
            await tab.close();
        }
    return undefined;
}

module.exports = { VERSES, short: { keys, numbers, pictures, saving, arcs, keyboard, questions }, long: { large, lines }, wellFormed, framed, axe };
