'use strict';
// The home room as a visitor uses it: pointing, keys, the walk, links, words. Each function gets a page
// of the names model on "anna" (visit.js).
const assert = require('assert');

const panel = (page) => page.text('.panel');
const settled = (page) => page.eval('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');

// Where the middle of a cell is on the screen.
const place = (page, id, r, c) => page.eval(`(() => { const m = Home.scene.mats.get('${id}'), k = Home.cam, b = document.getElementById('picture').getBoundingClientRect();
    return [b.left + (m.X(${c}) + m.cw / 2 - k.x) * k.s, b.top + (m.Y(${r}) + m.rh / 2 - k.y) * k.s]; })()`);

async function mouse(page, type, [x, y], button = 'none') {
    await page.send('Input.dispatchMouseEvent', { type, x, y, button, clickCount: type === 'mouseMoved' ? 0 : 1 });
    await settled(page);
}

async function click(page, at) {
    await mouse(page, 'mouseMoved', at);
    await mouse(page, 'mousePressed', at, 'left');
    await mouse(page, 'mouseReleased', at, 'left');
}

// Every number that is explained: the sum in the engine's order has the engine's bits.
async function sums(page) {
    const wrong = await page.eval(`(() => { const wrong = []; let n = 0;
        for (const m of Home.full.mats.values()) {
            const step = m.kind === 'w' ? Infinity : Math.max(1, Math.floor((m.rows * m.cols) / 400));
            for (let i = 0; i < m.rows * m.cols; i += step) {
                const r = Math.floor(i / m.cols), c = i % m.cols;
                if (m.kind === 'w' || (m.tri && c > r)) continue;
                const e = HomeCell.explain(Home.full, m, r, c);
                n++;
                if (e.sum === null || !e.exact || !Object.is(e.value, m.get(r, c))) wrong.push([m.id, r, c, e.sum, e.value]);
            }
        }
        return n > 1000 ? wrong.slice(0, 5) : ['too few: ' + n]; })()`);
    assert.deepStrictEqual(wrong, []);
}

async function pointing(page) {
    const at = await place(page, 'lg', 4, 11);
    await mouse(page, 'mouseMoved', at);
    assert.match(await panel(page), /Logit of “l”/);
    assert.match(await panel(page), /2\.1816/);
    assert.strictEqual(await page.eval('App.state.cell'), '');
    await mouse(page, 'mouseMoved', [at[0], at[1] + 200]);
    assert.match(await panel(page), /A whole GPT, reading “anna”/);
    await click(page, at);
    assert.strictEqual(await page.eval('App.state.cell'), 'lg.4.11');
    assert.match(await panel(page), /four chains/);
    assert.match(await page.text('#spoken'), /Logit of “l”, token 4 “a”, candidate “l”: 2\.1816/);
    await page.until('location.hash === "#at=4&head=0.0&cell=lg.4.11&ids=26.0.13.13.0"');
    await page.eval(`document.querySelector('.terms .goback').click()`); // one step back, to the stream
    assert.strictEqual(await page.eval('App.state.cell'), 'x.4.0');
    assert.match(await panel(page), /the MLP adds/i);
    await page.eval(`App.set({ cell: 'lg.4.11' }); document.querySelector('.trail').open = true`);
    const trail = await page.eval(`[...document.querySelectorAll('.trail li .goback > span:first-child')].map((e) => e.textContent)`);
    assert.strictEqual(trail[0], 'Residual stream');
    assert.match(trail[trail.length - 1], /Residual stream/); // where a token's row was added up
}

async function keys(page) {
    await page.eval(`document.getElementById('picture').focus()`);
    await page.press('Enter');
    assert.strictEqual(await page.eval('App.state.cell'), 'lg.4.11');
    await page.press('ArrowUp');
    assert.deepStrictEqual(await page.eval('[App.state.cell, App.state.query]'), ['lg.3.11', 3]);
    await page.press('ArrowRight');
    assert.strictEqual(await page.eval('App.state.cell'), 'lg.3.12');
    await page.press('Escape');
    assert.strictEqual(await page.eval('App.state.cell'), '');
    await page.press(']');
    assert.strictEqual(await page.eval('App.state.head'), 1);
    const before = await page.eval('Home.cam.s');
    await page.press('+');
    assert(await page.eval('Home.cam.s') > before, '+ comes closer');
    await page.press('0');
    assert(Math.abs(await page.eval('Home.cam.s') - before) < 1e-9, '0 shows the whole');
    await page.press('2');
    assert.strictEqual(await page.eval('App.state.view'), 'predict');
    await page.press('1');
    await page.press('/');
    await page.type('emma');
    await page.press('Enter');
    assert.deepStrictEqual(await page.eval('Array.from(App.state.ids)'), [26, 4, 12, 12, 0]);
}

async function walk(page) {
    const titles = [];
    for (let n = 1; n <= 14; n++) {
        await page.press('n');
        const text = await panel(page);
        assert.match(text, new RegExp(`Stop ${n} of 14`));
        assert.match(text, /src\/page\/page\.inc/);
        assert(!/undefined|NaN|\[object/.test(text), text);
        titles.push(text.split('\n').filter(Boolean)[1]);
    }
    assert.strictEqual(new Set(titles).size, 14);
    await page.press('p');
    assert.strictEqual(await page.eval('App.state.walk'), 13);
    await page.until('location.hash.includes("walk=13")');
    await page.press('Escape');
    assert.match(await panel(page), /A whole GPT/);
    await page.eval(`document.getElementById('walk').click()`);
    assert.strictEqual(await page.eval(`document.getElementById('play').getAttribute('aria-label')`), 'pause');
    await page.press(' ');
    assert.strictEqual(await page.eval(`document.getElementById('play').getAttribute('aria-label')`), 'play the walk');
}

async function links(page) {
    await page.eval(`location.hash = '#at=3&head=0.2&cell=0.s2.3.1'`);
    await page.until('App.state.cell === "0.s2.3.1"');
    assert.deepStrictEqual(await page.eval('[App.state.query, App.state.layer, App.state.head]'), [3, 0, 2]);
    assert.match(await panel(page), /Score, head 2/);
    assert.match(await page.text('.crumbs'), /The whole model[^]*layer 0[^]*attention[^]*score, head 2/);
    await page.eval(`location.hash = '#cell=0.nothing.9.9&at=4'`);
    await page.until('App.state.cell === "0.nothing.9.9"');
    assert.match(await panel(page), /A whole GPT/); // there is no such cell
    await page.eval(`location.hash = '#view=attention&head=3&query=4'`);
    await page.until('App.state.view === "attention"');
}

async function words(page) {
    await page.eval(`document.querySelector('.panel dfn').focus()`);
    assert.strictEqual(await page.eval(`document.getElementById('tip').hidden`), false);
    assert.match(await page.text('#tip'), /row of numbers for each token/);
    await page.press('Escape');
    assert.strictEqual(await page.eval(`document.getElementById('tip').hidden`), true);
    await page.eval(`App.set({ view: 'inside' })`);
    assert(await page.eval(`document.querySelectorAll('.room:not([hidden]) dfn').length`) >= 3, 'other rooms explain their words');
}

// Milliseconds of a frame while zooming: printed, not judged.
async function frames(page) {
    const ms = await page.eval(`(() => { Home.paint(); const t = performance.now(); for (let i = 0; i < 100; i++) { Home.cam.s *= i % 2 ? 1.01 : 1 / 1.01; Home.paint(); } return (performance.now() - t) / 100; })()`);
    console.log(`# the picture of names: ${ms.toFixed(2)} ms a frame`);
}

module.exports = { sums, pointing, keys, walk, links, words, frames };
