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

module.exports = { plays, stops, leaves, fits };
