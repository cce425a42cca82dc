'use strict';
// The story of a training as a visitor sees it, with motion: it plays once, keys and hands stop it, and it leads into the picture. Each
// function gets a page of the steps of names, on "anna" (visit.js).
const assert = require('assert');

const state = (page, what) => page.eval(`App.state.${what}`);
const settled = (page) => page.eval('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');

async function plays(page) {
    const entries = await page.eval('history.length');
    assert.deepStrictEqual(await page.eval('[App.state.view, App.state.ago]'), ['story', 15]);
    await page.until('App.state.ago === 9');
    assert.match(await page.text('.part-sorts'), /i o u e a y: all vowels\. Nobody told it\. By luck a head does this once in 115,115 tries/);
    assert.match(await page.text('#train'), /Pause/);
    await page.until('App.state.ago === 0');
    assert.match(await page.text('#train'), /Again/);
    assert.match(await page.text('.story .lead'), /Training is over/);
    assert.strictEqual(await page.eval('history.length'), entries); // what plays by itself is no step back
}

async function stops(page) {
    await page.until('App.state.ago === 13');
    await page.press('.');
    assert.strictEqual(await state(page, 'ago'), 12);
    await page.eval('new Promise((done) => setTimeout(done, 900))');
    assert.strictEqual(await state(page, 'ago'), 12);
    await page.eval(`document.getElementById('training').focus()`);
    await page.press('ArrowRight');
    assert.strictEqual(await state(page, 'ago'), 11);
    assert.match(await page.eval(`document.getElementById('training').getAttribute('aria-valuetext')`), /^step 40, torn between 12\.5 letters, writes jeiahe, mooylh, fe$/);
    await page.eval(`document.querySelector('.lookers button').click()`);
    assert.strictEqual(await state(page, 'head'), 0);
    await page.eval(`document.querySelector('.film button:nth-child(7)').click()`);
    assert.strictEqual(await state(page, 'ago'), 9);
    await page.eval(`document.querySelector('.story input[type=text]').focus()`);
    await page.type('emma');
    await page.press('Enter');
    assert.deepStrictEqual(await page.eval('Array.from(App.state.ids)'), [26, 4, 12, 12, 0]);
    await page.eval(`document.getElementById('look-inside').click()`);
    assert.deepStrictEqual(await page.eval('[App.state.view, App.state.ago]'), ['home', 9]); // a step that was chosen by hand stays
    assert.match(await page.text('#edits'), /step 100 of its training/);
    await page.until(`location.hash.includes('ago=9')`);
    await page.eval('history.back()');
    await page.until(`App.state.view === 'story'`);
    assert.strictEqual(await state(page, 'ago'), 9);
}

// A visitor who leaves the room while it plays gets the finished model.
async function leaves(page) {
    await page.until('App.state.ago < 14');
    await page.eval(`document.getElementById('tab-home').click()`);
    assert.deepStrictEqual(await page.eval(`[App.state.view, App.state.ago, document.getElementById('edits').hidden]`), ['home', 0, true]);
}

// Every step at this size: nothing hangs out, nothing is without a name.
async function fits(page, width) {
    for (const ago of [15, 9, 0]) {
        await page.eval(`App.set({ view: 'story', ago: ${ago} })`);
        await settled(page);
        assert.deepStrictEqual(await page.eval(`[...document.querySelectorAll('.story *')].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'hidden' && !e.matches('.sr, .squares')).map((e) => e.className)`), []);
        assert.ok(await page.eval('document.documentElement.scrollWidth') <= width);
        assert.deepStrictEqual(await page.eval(`[...document.querySelectorAll('.story button, .story input')].filter((e) => e.checkVisibility() && !e.textContent.trim() && !e.ariaLabel && !e.labels?.length).map((e) => e.outerHTML)`), []);
    }
}

// The eleven questions of a first visit, each from the first screen, with the shortest path that a hand takes: what is pressed, and what
// the answer says where it is. A question without a press needs no more than reading, or scrolling.
const INSIDE = '#tab-home', TRY = (question) => `.try button:nth-child(${1 + ['head', 'why', 'cache', 'letter', 'next', 'layers'].indexOf(question)})`;
const QUESTIONS = [
    ['what is this', [], '.story .lead', /A GPT is a program that guesses the next letter\. This one is 4,192 numbers/],
    ['what did it learn', [], '.part-sorts', /i o y a u e: all vowels\. Nobody told it/],
    ['what is in W_Q', [], '.part-put', /which letter looks for which[^]*looks (for|away from)/],
    ['where does head 2 look', [], '.part-reads', /head 2 looks most at “start”: 40 % of its attention/],
    ['and why', [INSIDE, TRY('head'), '.terms .on .goback'], '.panel', /Score, head 2[^]*÷ √4/i],
    ['what does the cache hold', [INSIDE, TRY('cache')], '.panel', /What the cache holds[^]*5 rows kept, 11 free/],
    ['why this letter', [INSIDE, TRY('why')], '.panel', /Why “l”\?[^]*Without the MLP/],
    ['a letter changed', [INSIDE, TRY('letter'), '#picker .chip:nth-child(25)'], '.panel', /anna → anny[^]*a GPT never looks ahead/],
    ['temperature', [INSIDE, '#warmth'], '.tok.alt.likeliest', /96 %/],
    ['a score', [INSIDE, TRY('head'), '.terms .on .goback'], '.panel', /product[^]*sum/i],
    ['what does each layer add', [INSIDE, TRY('layers')], '.panel', /after attention[^]*after the MLP/],
    ['how big is GPT-3', [], '.part-scale', /GPT-3[^]*175,000,000,000/],
];

async function asked(page) {
    for (const [question, presses, where, answer] of QUESTIONS) {
        await page.eval(`App.set({ view: 'story', ago: ${question === 'what is this' ? 15 : 0}, head: 2, cell: '', walk: 0, was: [], ids: Engine.prompt })`);
        for (const what of presses) {
            await page.until(`document.querySelector('${what}')`);
            await page.eval(what === '#warmth' ? `{ const e = document.querySelector('${what}'); e.value = 0.1; e.dispatchEvent(new Event('input')); }` : `document.querySelector('${what}').click()`);
        }
        await page.until(`${answer}.test(document.querySelector('${where}').innerText)`);
        console.log(`# ${question}: ${presses.length} ${presses.length === 1 ? 'press' : 'presses'}`);
        await page.eval('App.set({ temperature: 1 })');
    }
}

module.exports = { asked, plays, stops, leaves, fits };
