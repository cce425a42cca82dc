'use strict';
// A place to stay in, with motion as most people have it: Back and forward, what a reload keeps, a name with capitals,
// a letter changed in place. Each function gets a page of the names model on "anna" (visit.js).
const assert = require('assert');

const panel = (page) => page.text('.panel');
const settled = (page) => page.until(`document.documentElement.classList.contains('settled')`);
const set = async (page, part) => {
    await page.eval(`App.set(${JSON.stringify(part)})`);
    await settled(page);
};
const now = (page) => page.eval('JSON.stringify([App.state.view, App.state.walk, Array.from(App.state.ids).length])').then(JSON.parse);

// Rooms, stops, texts and panels are entries of the history; heads and numbers are not.
async function back(page) {
    await settled(page);
    const length = () => page.eval('history.length'), first = await length(), seen = [await now(page)];
    for (const part of [{ view: 'experiment' }, { view: 'home', walk: 3 }, { walk: 0, ids: [26, 4, 12, 12, 0, 13] }, { cell: 'why.0' }]) {
        await set(page, part);
        await set(page, { head: 1 });
        await set(page, { head: 2 });
        seen.push(await now(page));
    }
    assert.strictEqual(await length(), first + 4);
    await page.eval('history.back()');
    await page.until(`App.state.cell === ''`);
    assert.deepStrictEqual(await now(page), seen[3]);
    for (const i of [2, 1, 0]) {
        await page.eval('history.back()');
        await page.until(`JSON.stringify([App.state.view, App.state.walk, App.state.ids.length]) === '${JSON.stringify(seen[i])}'`);
        await settled(page);
    }
    assert.strictEqual(await page.eval('App.state.head'), 0);
    await page.eval('history.forward()');
    await page.until(`App.state.view === 'experiment' && App.state.head === 2`);
    assert.strictEqual(await page.eval(`document.querySelector('[role=tab][aria-selected=true]').textContent`).then((t) => /Experiment/.test(t)), true);
    assert.strictEqual(await length(), first + 4);
    await set(page, { view: 'home' });
    await page.eval(`document.getElementById('walk').click()`); // it goes on by itself
    await page.until('App.state.walk === 2');
    await settled(page);
    assert.strictEqual(await length(), first + 3); // home again, and the first stop
}

// A solved task is kept by the address: by a reload, by another room, by Back. So is the lesson.
async function solved(page) {
    await set(page, { view: 'lessons' });
    await page.eval(`document.querySelector('.lnav a[href$="lesson=mask"]').click()`);
    await page.until(`location.hash.includes('lesson=mask') && Math.abs(document.getElementById('lesson-mask').getBoundingClientRect().top) < 200`);
    await page.eval(`document.querySelector('#lesson-mask table[aria-label="scores: press a cell to hide it or to show it"] tbody tr:nth-child(3) td, #lesson-mask tbody tr:nth-child(3) td').click()`);
    await page.eval(`document.querySelector('#lesson-mask .ltask .main').click()`);
    assert.match(await page.text('#lesson-mask .verdict'), /^Right/);
    await page.until(`location.hash.includes('done=mask')`);
    await page.eval(`document.querySelector('#lesson-mask .lbridge a').click()`);
    await page.until(`App.state.view !== 'lessons'`);
    await settled(page);
    await page.eval(`document.getElementById('tab-lessons').click()`);
    await page.until(`Math.abs(document.getElementById('lesson-mask').getBoundingClientRect().top) < 200`);
    await page.eval('history.back()');
    await page.until(`App.state.view !== 'lessons'`);
    await settled(page);
    await page.eval('history.back()');
    await page.until(`App.state.view === 'lessons' && Math.abs(document.getElementById('lesson-mask').getBoundingClientRect().top) < 200`);
    await settled(page);
    const loaded = new Promise((resolve) => { page.loaded = resolve; });
    await page.send('Page.reload');
    await loaded;
    await page.until('document.documentElement.dataset.ready');
    assert.strictEqual(await page.text('.lcount'), '1 of 14 tasks solved');
    assert.strictEqual(await page.eval(`document.querySelectorAll('.ltask.solved').length`), 1);
    await page.until(`Math.abs(document.getElementById('lesson-mask').getBoundingClientRect().top) < 200`);
}

async function ownName(page) {
    const type = async (text) => {
        await page.eval(`App.say(''); document.querySelector('.type input').value = ${JSON.stringify(text)}; document.querySelector('.type').requestSubmit()`);
        return page.text('#message');
    };
    assert.strictEqual(await type('Anna'), 'This model does not know “A”: it reads “anna”.');
    assert.deepStrictEqual(await page.eval('Array.from(App.state.ids)'), [26, 0, 13, 13, 0]);
    assert.strictEqual(await page.eval(`document.getElementById('message').className`), '');
    assert.strictEqual(await type('Zoë'), 'This model does not know “Z”, “ë”: it reads “zoe”.');
    assert.strictEqual(await type('emma'), '');
    assert.match(await type('Anna-Lena'), /'-' \(U\+002D\)/);
    assert.deepStrictEqual(await page.eval('Array.from(App.state.ids)'), [26, 4, 12, 12, 0]);
}

// A text of another length: what both begin and end with is compared, new letters have nothing to compare with.
async function longer(page) {
    await page.eval(`App.edit([26, 11, 4, 13, 0]); document.querySelector('.home .type input').value = 'leanna'; document.getElementById('compare').click()`);
    assert.deepStrictEqual(await page.eval('[Array.from(App.state.was), Array.from(App.state.ids), Array.from(App.state.ids, (_, j) => HomeChange.former(j))]'), [[26, 11, 4, 13, 0], [26, 11, 4, 0, 13, 13, 0], [0, 1, 2, -1, -1, 3, 4]]);
    assert.match(await panel(page), /lena → leanna[^]*Now 7 letters in place of 5\. Compared are the first 3 and, counted from the end, the last 2/);
    const far = await page.eval(`(() => { App.recall(); const row = (lane, pos) => App.row(App.tensor('blocks.0.hook_attn_out', lane), pos), a = row(0, 6), b = row(1, 4), m = Home.drawn.mats.get('0.ao');
        return [Array.from(a, (v, c) => m.get(6, c) === v - b[c]).every(Boolean), Array.from(a, (_, c) => Number.isNaN(m.get(3, c))).every(Boolean), Numbers.share(Numbers.length(a.map((v, c) => v - b[c])) / Numbers.length(b))]; })()`);
    assert.deepStrictEqual(far.slice(0, 2), [true, true]);
    assert((await panel(page)).includes(`what attention adds\n${far[2]}`), far[2]);
    assert.match(await page.text('.home .toks'), /a\s+new\s+n\s+new/);
    await page.eval(`App.set({ query: 3 })`);
    assert.match(await panel(page), /The framed letter is not in the text before/);
    await page.until(`/was=26\\.11\\.4\\.13\\.0/.test(location.hash)`);
    await page.eval(`document.getElementById('swap').click()`);
    assert.deepStrictEqual(await page.eval('[Array.from(App.state.ids), Array.from(App.state.was), App.state.query]'), [[26, 11, 4, 13, 0], [26, 11, 4, 0, 13, 13, 0], 4]);
    await page.eval('App.edit([26, 0, 13, 13, 0])');
}

// The third letter of anna becomes y by two presses: both runs are shown, then what is now.
async function change(page) {
    await page.eval(`document.querySelectorAll('.home .tok')[3].click()`);
    await page.eval(`document.querySelectorAll('.home .tok')[3].click()`);
    assert.strictEqual(await page.eval(`document.getElementById('picker').open`), true);
    await page.eval(`[...document.querySelectorAll('#picker .chip')].find((b) => b.textContent.startsWith('y')).click()`);
    assert.deepStrictEqual(await page.eval('[Array.from(App.state.ids), Array.from(App.state.was), App.state.query]'), [[26, 0, 13, 24, 0], [26, 0, 13, 13, 0], 4]);
    assert.strictEqual(await page.eval(`document.querySelector('.changes input:checked').value`), 'difference');
    const text = await panel(page);
    assert.match(text, /anna → anya/);
    assert.match(text, /no longer guesses “l” \(20 % → 5 %\) but the end \(15 % → 34 %\)\. Head 2 moved its look most: 38 % of it went elsewhere\./);
    assert.match(text, /All 3 rows before the change are the same to the last digit/);
    assert.match(await page.text('.home .tok.changed'), /y\s+was n/);
    const [shown, x] = await page.eval(`(() => { const m = Home.drawn.mats.get('lg'); return [m.get(4, 11), [Engine.logits(4, 0)[11], Engine.logits(4, 1)[11]]]; })()`);
    assert.strictEqual(shown, x[0] - x[1]);
    await page.until(`document.querySelector('.changes input:checked').value === 'now'`); // after two seconds
    assert.strictEqual(await page.eval(`Home.drawn.mats.get('lg').get(4, 11)`), x[0]);
    await page.eval(`document.querySelector('.changes input[value=before]').click()`);
    assert.strictEqual(await page.eval(`Home.drawn.mats.get('lg').get(4, 11)`), x[1]);
    await page.until(`location.hash.includes('was=26.0.13.13.0')`);
    await page.eval(`document.getElementById('swap').click()`);
    assert.match(await panel(page), /anya → anna/);
    await page.eval(`document.getElementById('unchange').click()`);
    assert.deepStrictEqual(await page.eval('[Array.from(App.state.ids), App.state.was.length]'), [[26, 0, 13, 24, 0], 0]);
    assert.match(await panel(page), /A whole GPT, reading “anya”/);
    await settled(page);
    await page.eval('history.back()');
    await page.until(`App.state.was.join() === '26,0,13,24,0'`);
    assert.match(await panel(page), /anya → anna/);
}

// A long text is whole, in words, and seen at its end; writing goes at a reader's speed, a row of the cache at a time, or at once.
async function writing(page) {
    await page.eval(`App.set({ seed: 3 }); document.getElementById('write').click()`);
    const rows = await page.eval('App.state.ids.length');
    await page.until(`App.state.ids.length > ${rows} || document.getElementById('write').innerText !== 'Stop'`);
    await page.eval(`if (document.getElementById('write').innerText === 'Stop') document.getElementById('write').click()`);
    assert.strictEqual(await page.text('#write'), 'Write on');
    await page.eval(`App.edit([26, 0]); App.set({ seed: 5 }); document.getElementById('write-all').click()`);
    await page.until('App.state.ids.length > 2');
    await page.eval(`App.edit([26, ...'christophermary'].map((c) => (c === 26 ? c : c.charCodeAt(0) - 97)))`);
}

// Words come before the picture; a number that is tapped is told on a sheet, which closes.
async function phone(page) {
    const top = (selector) => page.eval(`document.querySelector('${selector}').getBoundingClientRect().top`);
    assert(await top('.panel h2') < 760 && await top('.panel') < await top('.scene'), 'words first');
    assert.strictEqual(await page.eval(`getComputedStyle(document.getElementById('picture')).touchAction`), 'pan-y');
    await page.eval(`App.set({ cell: '0.s2.4.3' })`);
    assert.strictEqual(await page.eval(`getComputedStyle(document.querySelector('.panel')).position`), 'fixed');
    await page.until(`Math.abs(document.querySelector('.scene').getBoundingClientRect().top) < 8`); // what was tapped is seen above it
    assert(await top('.panel') > 300);
    assert.match(await panel(page), /Score, head 2/);
    await page.eval(`document.querySelector('.shut').click()`);
    assert.strictEqual(await page.eval('App.state.cell'), '');
    assert.strictEqual(await page.eval(`getComputedStyle(document.querySelector('.panel')).position`), 'static');
    assert.strictEqual(await page.eval('document.documentElement.scrollWidth <= innerWidth'), true);
}

// Words are not cut: a token of a long text is part of a line.
async function long(page) {
    const [down, display, shown] = await page.eval(`(() => { const run = document.querySelector('.home .run'), on = run.querySelector('.home .tok.on').getBoundingClientRect(), r = run.getBoundingClientRect();
        return [run.scrollTop > 0, getComputedStyle(run.querySelector('.tok')).display, on.top >= r.top && on.bottom <= r.bottom + 2]; })()`);
    assert.deepStrictEqual([down, display, shown], [true, 'inline', true]);
    await page.eval(`document.querySelector('.home .tok.on').focus()`);
    await page.press('ArrowLeft');
    assert.deepStrictEqual(await page.eval('[App.state.query, App.state.ids.length, document.activeElement.dataset.pos]').then((x) => [x[0], Number(x[2])]), await page.eval('[App.state.ids.length - 2, App.state.ids.length - 2]'));
}

module.exports = { each: { longer, back, solved, ownName, change, writing }, phone, long };
