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
    await page.until(`Math.abs(Home.cam.s - ${before}) < 1e-9`); // 0 shows the whole
    await page.press('2');
    assert.strictEqual(await page.eval('App.state.view'), 'experiment');
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
    await page.until('App.state.view === "home" && App.state.cell === "heads"'); // a room of a former version
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

// Questions of a first visit, with the clicks that lead to the answer.
async function questions(page) {
    const fresh = () => page.eval(`App.set({ cell: '', walk: 0, query: 4, head: 0 })`), press = (selector) => page.eval(`document.querySelector('${selector}').click()`);
    const asked = async (answer, ...clicks) => {
        await fresh();
        assert(clicks.length <= 3);
        for (const c of clicks) await press(c);
        assert.match(await panel(page), answer);
    };
    const one = '.try button:nth-child(1)', two = '.try button:nth-child(2)', three = '.try button:nth-child(3)';
    await asked(/Attention, head 2[^]*0\.3995/, one); // what did head 2 look at
    await asked(/Score, head 2[^]*sum[^]*÷ √4/i, one, '.terms .on .goback'); // why there
    await asked(/Why “l”\?/, two); // why this letter
    await page.until(`/Without the MLP/.test(document.querySelector('.panel').innerText)`); // what changed the prediction
    await asked(/What the cache holds/, three);
}

// What is taken away in the answer to “why” is taken away: the numbers are those of runs without it.
async function why(page) {
    await page.eval(`App.set({ cell: 'why.11', walk: 0, query: 4 })`);
    await page.until(`/Without the MLP/.test(document.querySelector('.panel').innerText)`);
    const shown = await page.eval(`Object.fromEntries([...document.querySelectorAll('.why tbody tr')].map((r) => [r.cells[0].textContent, r.cells[3].textContent]))`);
    assert.match(await page.text('.panel .sum'), /\+2\.18/); // the parts add up to the logit
    const p = (ids, edits) => page.eval(`(() => { Engine.run(${JSON.stringify(ids)}, ${JSON.stringify(edits)}, 0); const p = Numbers.percent(Numbers.softmax(Engine.logits(${ids.length - 1}, 0))[11]);
        Engine.run(App.state.ids, App.state.edits, 0); return parseFloat(p); })()`);
    const same = async (name, ids, edits) => assert(Math.abs(parseFloat(shown[name]) - await p(ids, edits)) < 0.51, `${name}: ${shown[name]}`); // shown in whole percent
    await same('head 3', [26, 0, 13, 13, 0], [{ kind: 'head', layer: 0, head: 3, scale: 0 }]);
    await same('the MLP', [26, 0, 13, 13, 0], [{ kind: 'mlp', layer: 0, head: 0, scale: 0 }]);
    await same('anna', [26, 13, 13, 0], []); // the last of the rows that read “anna”: its first letter is crossed out
    assert.deepStrictEqual(await page.eval('Array.from(Engine.logits(4, 0))'), await page.eval('(Engine.run(App.state.ids, [], 0), Array.from(Engine.logits(4, 0)))'));
    await page.until('location.hash.includes("cell=why.11")');
    await page.press('Escape');
    assert.match(await panel(page), /A whole GPT/);
}

// A word lights its rows, the temperature moves the candidates, all heads have arcs, a stop can be scrubbed, other texts
// are a click away, and a number that is chosen comes into view.
async function hands(page) {
    const picture = async () => {
        for (let last = ''; ;) { // it is whole when it does not change any more
            await settled(page);
            const now = await page.eval(`(Home.paint(), document.getElementById('picture').toDataURL())`);
            if (now === last) return now;
            last = now;
        }
    };
    const over = (type, pos) => page.eval(`document.querySelector('.home .tok[data-pos="${pos}"]').dispatchEvent(new PointerEvent('${type}', { bubbles: true }))`);
    const plain = await picture();
    await over('pointerover', 2);
    const two = await picture();
    await over('pointerover', 3);
    assert(two !== plain && await picture() !== two, 'each word lights rows of its own');
    await page.eval(`document.querySelector('.home .run').dispatchEvent(new PointerEvent('pointerleave'))`);
    assert(await picture() === plain, 'it is as it was');
    await page.eval(`{ const e = document.getElementById('warmth'); e.value = 0.5; e.dispatchEvent(new Event('input')); }`);
    const p = await page.eval('Numbers.softmax(Engine.logits(4), 0.5)[11]');
    assert.strictEqual(await page.text('.tok.alt.likeliest small'), `${Math.round(100 * p)} %`);
    assert.match(await panel(page), new RegExp(`“l”,\\s${Math.round(100 * p)}\\s%`));
    await page.eval(`App.set({ temperature: 1 }); document.querySelector('[aria-label=head] label:last-child input').click()`);
    const arcs = await page.eval(`[0, 1, 2, 3].map((h) => document.querySelectorAll('.home .arcs .of' + h).length)`);
    assert.deepStrictEqual(arcs, await page.eval(`[0, 1, 2, 3].map((h) => Array.from(App.line(App.ofLayer('attn.hook_pattern'), h, 4)).filter((v) => v >= 0.01).length)`));
    await page.eval(`App.set({ head: 1 })`);
    assert.strictEqual(await page.eval(`document.querySelectorAll('.home .arcs .of0').length`), 0);
    await page.eval(`App.set({ walk: 4 }); { const e = document.querySelector('.scrub'); e.value = 5; e.dispatchEvent(new Event('input')); }`);
    assert.strictEqual(await page.text('.now b'), await page.eval(`Numbers.fixed(Home.scene.mats.get('0.q').get(4, 5), 3)`));
    await page.eval(`App.set({ walk: 14 })`);
    await page.eval(`App.set({ walk: 0, cell: '0.q.4.3' })`);
    const [x, y] = await place(page, '0.q', 4, 3), box = await page.eval(`(({ left, top, right, bottom }) => [left, top, right, bottom])(document.getElementById('picture').getBoundingClientRect())`);
    assert(x > box[0] && y > box[1] && x < box[2] && y < box[3], 'the number is out of sight');
    await page.eval(`App.set({ cell: '' }); [...document.querySelectorAll('.texts button')].find((b) => b.textContent === 'olivia').click()`);
    assert.deepStrictEqual(await page.eval('Array.from(App.state.ids)'), [26, 14, 11, 8, 21, 8, 0]);
    await page.eval('App.edit([26, 0, 13, 13, 0])');
}

// The panel has the number that the picture explains, when the numbers of a stop have all been made and when a hand has pointed elsewhere.
async function agree(page, motion) {
    await page.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-reduced-motion', value: motion ? 'no-preference' : 'reduce' }] });
    const n = await page.eval('HomeWalk.titles().length');
    for (let i = 1; i <= n; i++) {
        await page.eval(`App.set({ walk: ${i}, cell: '' })`);
        await page.until('Home.told !== undefined');
        const [told, said] = await page.eval(`[Home.told && Numbers.fixed(Home.told.value, 3), document.querySelector('.now b')?.textContent ?? null]`);
        assert.strictEqual(said, told, `stop ${i}`);
        const line = await page.eval(`document.querySelector('.now span')?.textContent || ''`), parts = /^\(?([^…]*?)(?:\) ÷ √(\d+))? =$/.exec(line); // what is before “=” is the number
        const sum = parts && parts[1].replace(/−/g, '-').replace(/ /g, '').match(/[+-]?[\d.]+/g).reduce((all, v) => all + Number(v), 0) / Math.sqrt(Number(parts[2] || 1));
        assert(!parts || Math.abs(sum - Number(told.replace('−', '-'))) < 0.03, `stop ${i}: ${line} ${told}`);
        if (i !== 4) continue;
        await mouse(page, 'mouseMoved', await place(page, '0.q', await page.eval('App.state.query'), 3));
        assert.match(await panel(page), /Query/);
        await mouse(page, 'mouseMoved', [5, 5]);
        assert.strictEqual(await page.text('.now b'), told);
    }
    await page.eval('App.set({ walk: 0 })');
}

// Numbers of a stop arrive one by one, a new letter runs through the picture, and the model writes until it is stopped.
async function motion(page) {
    await page.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-reduced-motion', value: 'no-preference' }] });
    await page.eval(`App.set({ walk: 4, cell: '' })`);
    const numbers = new Set();
    for (let i = 0; i < 200 && numbers.size < 3; i++) {
        numbers.add(await page.eval(`document.querySelector('.now').innerText`));
        await new Promise((done) => setTimeout(done, 30));
    }
    assert(numbers.size >= 3, [...numbers].join());
    assert([...numbers].some((t) => /− … =|\+ … =/.test(t)), [...numbers].join());
    await page.eval(`App.set({ walk: 0, seed: 3 }); document.getElementById('let-write').click()`);
    assert.strictEqual(await page.text('#write'), 'Stop');
    await page.until('App.state.ids.length > 6 || App.state.ids.length < 5'); // a text that has ended begins again
    await page.eval(`if (document.getElementById('write').innerText === 'Stop') document.getElementById('write').click()`);
    const n = await page.eval('App.state.ids.length');
    await new Promise((done) => setTimeout(done, 400));
    assert.strictEqual(await page.eval('App.state.ids.length'), n);
    await page.eval('App.edit([26, 0, 13, 13, 0])');
}

// What a visitor would see as a fault of the layout: cards whose right half is empty, columns of which one ends half
// way, text that is wider than its cell.
const FAULTS = `(() => {
    const room = document.querySelector('.room:not([hidden])'), bad = [], seen = (e) => e.checkVisibility() && !e.closest('.share, .scroll.tall'), name = (e) => (e.querySelector('h3, h4') || e).textContent.slice(0, 40);
    const boxes = (n) => { if (n.nodeType === Node.ELEMENT_NODE) return n.matches('canvas, input, select, textarea, svg, button, .bar') && seen(n) ? [n.getBoundingClientRect()] : [];
        if (!n.textContent.trim() || !seen(n.parentElement)) return []; const r = document.createRange(); r.selectNodeContents(n); return [...r.getClientRects()]; };
    const ink = (el) => { const end = { right: 0, bottom: 0 }, walk = document.createTreeWalker(el, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
        for (let n = walk.nextNode(); n; n = walk.nextNode()) for (const r of boxes(n)) { end.right = Math.max(end.right, r.right); end.bottom = Math.max(end.bottom, r.bottom); }
        return end; };
    for (const card of room.querySelectorAll('.card')) {
        const b = card.getBoundingClientRect();
        if (b.width > 420 && (ink(card).right - b.left) / b.width < 0.55) bad.push('the right half is empty: ' + name(card));
    }
    for (const columns of room.querySelectorAll('.columns, .onehead')) {
        const high = [...columns.children].filter((c) => c.checkVisibility()).map((c) => [Math.round(c.getBoundingClientRect().top), ink(c).bottom - c.getBoundingClientRect().top]);
        for (const [top] of high) { const row = high.filter((h) => h[0] === top).map((h) => h[1]); if (Math.max(...row) > 300 && Math.min(...row) < Math.max(...row) / 2) bad.push('a column ends half way: ' + name(columns)); }
    }
    for (const el of room.querySelectorAll('td, th, button')) if (el.checkVisibility() && getComputedStyle(el).overflow === 'visible' && el.scrollWidth > el.clientWidth + 1 && el.clientWidth) bad.push('wider than its cell: ' + el.textContent.slice(0, 30));
    return [...new Set(bad)]; })()`;

async function layout(page, rooms) {
    for (const room of rooms) {
        await page.eval(`App.set({ view: '${room}' })`);
        await page.until(`document.documentElement.classList.contains('settled')`);
        await settled(page);
        assert.deepStrictEqual(await page.eval(FAULTS), [], room);
    }
}

module.exports = { layout, each: { questions, why, hands, motion, agree: (page) => agree(page, false), agreeInMotion: (page) => agree(page, true), sums, pointing, keys, walk, links, words, frames } };
