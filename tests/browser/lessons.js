'use strict';
// The lessons as a reader uses them: every task with a wrong and a right answer, figures by pointer and
// keyboard, addresses, ways into the model, and a browser without WebAssembly.
const assert = require('assert');

const click = (page, selector) => page.eval(`document.querySelector(${JSON.stringify(selector)}).click()`);
const slide = (page, id, v) => page.eval(`{ const e = document.getElementById('${id}'); e.value = ${v}; e.dispatchEvent(new Event('input')); }`);
const tick = (page, id) => click(page, `#${id}`);
const type = (page, label, v) => page.eval(`{ const e = document.querySelector('.lessons input[aria-label="${label}"]'); e.value = ${JSON.stringify(v)}; e.dispatchEvent(new Event('input')); }`);
const cell = (page, id, grid, i, j) => page.eval(`document.querySelectorAll('#lesson-${id} table[aria-label="${grid}"] tbody tr')[${i}].cells[${j + 1}].click()`);
const numbers = (page, id, grid) => page.eval(`[...document.querySelectorAll('#lesson-${id} table[aria-label="${grid}"] tbody tr')].map((r) => [...r.querySelectorAll('td')].map((c) => c.textContent))`);

// What the task of a lesson says to its Check.
async function verdict(page, id) {
    await click(page, `#lesson-${id} .ltask button.main`);
    return page.eval(`document.querySelector('#lesson-${id} .verdict').textContent`);
}

const preset = (page, key, name) => page.eval(`{ const e = document.querySelector('#lesson-projections select[aria-label="set ${key} to"]'); e.value = '${name}'; e.dispatchEvent(new Event('change')); }`);

// id: [what is wrong first and what is found, what is right, what is then said].
const TASKS = {
    bigram: [async () => {}, /^Not yet\. n is followed by something 4 times, by a 1 times: 0\.2500/, (p) => type(p, 'names', 'na na na n'), /^Right\. n is followed by something 4 times, by a 3 times: 0\.7500/],
    average: [(p) => slide(p, 'lesson-score', 1.2), /^Not yet\. The last share is 0\.5253/, (p) => slide(p, 'lesson-score', 1.1), /^Right\. The last share is 0\.5003/],
    similarity: [async () => {}, /^Not yet\. cat · The is 0\.42, cat is 1\.50 long/, async (p) => {
        await type(p, 'X, cat, 0', '1');
        await type(p, 'X, cat, 1', '0.4');
    }, /^Right\. cat · The is 0\.00, cat is 1\.08 long/],
    temperature: [(p) => slide(p, 'lesson-share-tau', 1), /^Not yet\. The largest share is 0\.6652 at τ = 1\.00/, (p) => slide(p, 'lesson-share-tau', 2.08), /^Right\. The largest share is 0\.499\d at τ = 2\.08.*golden ratio/],
    scale: [(p) => slide(p, 'lesson-d', 6), /^Not yet\. d is 64, the products spread by [78]\.\d\d/, (p) => tick(p, 'lesson-divide'), /^Right\. d is 64, the products, divided, spread by (1\.0|0\.9)\d/],
    mask: [async () => {}, /^Not yet\. Look at row 2, column 0: it has to be hidden/, (p) => cell(p, 'mask', 'scores: press a cell to hide it or to show it', 2, 0), /^Right\./],
    projections: [(p) => preset(p, 'Q', 'flip'), /^Not yet\. sat gives The 0\.2\d, cat 0\.3\d/, (p) => preset(p, 'Q', 'negate'), /^Right\. sat gives The 0\.38/],
    head: [async () => {}, /^Not yet\. student gives bright 0\.56\d\d at g = 1\.00/, (p) => slide(p, 'lesson-gain', 1.95), /^Right\. student gives bright 0\.75\d\d at g = 1\.95/],
    heads: [(p) => cell(p, 'heads', 'head 1', 4, 0), /^Not yet\. Row 4 a of head 1: 0\.82 nats/, (p) => cell(p, 'heads', 'head 3', 4, 2), /^Right\. Row 4 a of head 3: 1\.58 nats/],
    places: [(p) => slide(p, 'lesson-query', 9), /^Not yet\. Query at 9, key at 2: the score is −?\d\.\d{4}\.$/, (p) => slide(p, 'lesson-key', 6), /^Right\. Query at 9, key at 6: the score is 1\.0623\. Three places apart/],
    block: [async (p) => {
        await tick(p, 'lesson-stream');
        await slide(p, 'lesson-layers', 8);
    }, /^Not yet\. After 8 the least cosine is (1|0)\.\d{4}, but fewer layers do it, too/, async (p) => {
        for (let n = 2; n < 8; n++) {
            await slide(p, 'lesson-layers', n);
            if (Number(/cosine (−?[\d.]+);/.exec(await p.text('#lesson-block .lsum'))[1].replace('−', '-')) > 0.99) return;
        }
    }, /^Right\. After \d the least cosine is 0\.99/],
    cache: [(p) => type(p, 'rows without a cache', '128'), /^Not yet\. 128 is too small/, (p) => type(p, 'rows without a cache', '136'), /^Right\. 1 \+ 2 \+ … \+ 16/],
    step: [(p) => click(p, '.llines input[value="3"]'), /^Not yet\. “kv_append\(p\);” stores rows, but reads none/, (p) => click(p, '.llines input[value="4"]'), /^Right\. All other lines work on each row alone/],
    training: [async (p) => {
        for (let i = 0; i < 3; i++) await click(p, '#lesson-train');
    }, /^Not yet\. The loss is 0\.7500 after 60 steps/, async (p) => {
        await click(p, '#lesson-untrain');
        await slide(p, 'lesson-rate', 10);
        for (let i = 0; i < 3; i++) await click(p, '#lesson-train');
    }, /^Right\. The loss is 0\.7399 after 60 steps/],
};

async function tasks(page) {
    await page.until(`document.querySelector('#lesson-scale .lrow table')`); // drawn without being scrolled to
    assert.deepStrictEqual(await page.eval(`[...document.querySelectorAll('.lesson')].map((e) => e.id.slice(7))`), [...Object.keys(TASKS), 'teacher']);
    let n = 0;
    for (const [id, [wrong, said, right, then]] of Object.entries(TASKS)) {
        await wrong(page);
        { const v = await verdict(page, id); assert(said.test(v), `${id}: ${v}`); }
        assert.strictEqual(await page.text('.lcount'), `${n} of 14 tasks solved`);
        await click(page, `#lesson-${id} .ltask button:not(.main):last-of-type`);
        assert.match(await page.eval(`document.querySelector('#lesson-${id} .verdict').textContent`), /^Hint\. ./, id);
        await right(page);
        { const v = await verdict(page, id); assert(then.test(v), `${id}: ${v}`); }
        assert.strictEqual(await page.text('.lcount'), `${++n} of 14 tasks solved`);
    }
    assert.strictEqual(await page.eval(`document.querySelectorAll('.lnav a.solved').length`), 14);
    // The teacher's answers are those that were right here; times add up; n and p go on and back.
    const answers = await page.eval('LessonTeacher.PLAN.map((p) => [p[0], p[3]])');
    assert.deepStrictEqual(answers.map((a) => a[0]), Object.keys(TASKS));
    const figures = { bigram: 'na na na n', average: '1.1', similarity: '(1, 0.4)', temperature: '2.08', scale: '64', mask: 'row 2, column 0', projections: 'negated', head: '1.95', heads: 'Head 3, row 4: 1.58', places: 'Query 9, key 6', block: '0.99', cache: '136', step: 'attend(p);', training: '0.7399 after 60' };
    for (const [id, text] of answers) assert(text.includes(figures[id]), `${id}: ${text}`);
    const told = await page.eval(`document.getElementById('lesson-teacher').innerText`);
    assert(told.includes(`about ${await page.eval('LessonTeacher.PLAN.reduce((sum, p) => sum + p[1], 0)')} minutes`), told);
    await page.eval(`document.activeElement.blur(); App.set({ lesson: 'bigram' })`);
    await page.press('n');
    await page.until(`App.state.lesson === 'average'`);
    await page.press('p');
    await page.until(`App.state.lesson === 'bigram'`);
}

// The printed numbers of the specification.
async function known(page) {
    assert.deepStrictEqual(await numbers(page, 'similarity', 'dot products of the words').then((m) => [m[1][2], m[0][2], m[3]]), ['1.47', '−0.10', ['0.74', '0.51', '0.11', '0.50']]);
    assert.deepStrictEqual(await numbers(page, 'mask', 'shares'), [['1.0000', '', ''], ['0.2689', '0.7311', ''], ['0.2741', '0.2741', '0.4519']]);
    assert.deepStrictEqual((await numbers(page, 'mask', 'output'))[2], ['0.7259', '0.7259', '0.2741', '0.2741']);
    await slide(page, 'lesson-rows', 8);
    assert.deepStrictEqual((await numbers(page, 'average', 'the triangle'))[7], Array(8).fill('0.1250'));
    assert.match(await page.text('#lesson-average .lsum'), /differs by at most (0|\d\.\d\de−1\d)\./);
    for (const [tau, want] of [[0.1, ['1.0000', '0.0000', '0.0000']], [5, ['0.4018', '0.2693', '0.3289']]]) {
        await slide(page, 'lesson-share-tau', tau);
        assert.deepStrictEqual(await page.eval(`[...document.querySelectorAll('#lesson-temperature tbody tr')].map((r) => r.cells[3].textContent)`), want);
    }
    await click(page, '#lesson-write');
    assert.match(await page.text('#lesson-bigram .ldrawn'), /^[aemn(]/);
    for (const [i, kept] of [[4, 3], [5, 4]]) {
        await click(page, '#lesson-next');
        assert.match(await page.text('#lesson-cache .lsum'), new RegExp(`^Step ${i}: .*One row of K and of V is computed, ${kept} were kept.*differs by 0\\.`));
    }
}

async function byKeyboard(page) {
    await page.eval(`document.querySelector('#lesson-similarity td[tabindex="0"]').focus()`);
    await page.press('ArrowRight');
    await page.press('ArrowDown');
    assert.match(await page.text('#lesson-similarity .lsum'), /^cat · cat = 1\.20 × 1\.20 \+ 0\.90 × 0\.90 = 2\.25/);
    await page.eval(`document.querySelector('#lesson-mask td[tabindex="0"]').focus()`);
    await page.press('ArrowRight');
    assert.strictEqual((await numbers(page, 'mask', 'shares'))[0][0], '1.0000'); // arrows only move there
    await page.press('Enter');
    assert.strictEqual((await numbers(page, 'mask', 'shares'))[0][0], '0.7311');
    assert.match(await page.text('#lesson-mask .lsum'), /A row sees a later one/);
    await page.press('s'); // the model's keys do nothing here
    assert.strictEqual(await page.eval('App.state.ids.length'), 5);
    await page.eval(`document.querySelector('.lgrid')?.scrollIntoView()`);
}

async function byPointer(page) {
    await page.eval(`document.getElementById('lesson-similarity').scrollIntoView()`);
    const [x, y, size] = await page.eval(`(() => { const r = document.querySelector('#lesson-similarity .lplane').getBoundingClientRect(); return [r.left, r.top, r.width]; })()`);
    const at = ([a, b]) => ({ x: x + (size * (a + 1.7)) / 3.4, y: y + (size * (1.7 - b)) / 3.4, button: 'left', buttons: 1, clickCount: 1 });
    await page.send('Input.dispatchMouseEvent', { type: 'mousePressed', ...at([1.2, 0.9]) });
    await page.send('Input.dispatchMouseEvent', { type: 'mouseMoved', ...at([1.5, 0.6]) });
    await page.send('Input.dispatchMouseEvent', { type: 'mouseReleased', ...at([1.5, 0.6]) });
    const cat = await page.eval(`[0, 1].map((i) => Number(document.querySelector('input[aria-label="X, cat, ' + i + '"]').value))`);
    assert(Math.abs(cat[0] - 1.5) < 0.03 && Math.abs(cat[1] - 0.6) < 0.03, `the arrow was dragged to ${cat}`);
}

// A link to a lesson, the list, and the way into the model and back.
async function addresses(page, file) {
    await page.go(file, '#view=lessons&lesson=mask');
    const top = () => page.eval(`Math.round(document.getElementById('lesson-' + App.state.lesson).getBoundingClientRect().top) || 0`);
    await page.until(`App.state.lesson === 'mask'`);
    assert(Math.abs(await top()) < 60, `the lesson is at ${await top()}`);
    assert.strictEqual(await page.eval(`document.getElementById('strip').checkVisibility()`), false);
    await click(page, '.lnav a[href$="=cache"]');
    await page.until(`/view=lessons&lesson=cache/.test(location.hash)`);
    assert.strictEqual(await page.text('.lnav a[aria-current]'), '12\nOne step, with its cache');
    await click(page, '#lesson-cache .lbridge a');
    assert.deepStrictEqual(await page.eval('[App.state.view, App.state.walk, App.state.ids.length]'), ['home', 6, 5]);
    for (const a of await page.eval(`[...document.querySelectorAll('.lbridge a')].map((a) => a.hash)`)) {
        await page.eval(`history.replaceState(null, '', '#'); location.hash = ${JSON.stringify(a)}`);
        await page.until(`App.state.view !== 'lessons'`);
        assert.strictEqual(await page.eval(`document.getElementById('message').hidden`), true, a);
        await page.eval(`App.set({ view: 'lessons', lesson: 'bigram' })`);
    }
}

// Every figure with numbers can be saved: what is shown, in all digits, with the lesson's name and no model.
async function saved(page) {
    assert.strictEqual(await page.eval(`[...document.querySelectorAll('.lfig')].filter((f) => !f.querySelector('.share')).map((f) => f.getAttribute('aria-label')).join()`), 'The lines of a step');
    const file = async (id, kind) => page.eval(`Share.${kind}(document.querySelector('#lesson-${id} .lfig'))`), words = JSON.parse(await file('similarity', 'json'));
    assert.deepStrictEqual([words.lesson, words.title, words.link, words.model], ['3 Words as arrows', 'Words in the plane, and their dot products', '#view=lessons&lesson=similarity', undefined]);
    const [arrows, products] = words.figures, dot = (a, b) => a[1] * b[1] + a[2] * b[2];
    assert.deepStrictEqual(products.rows, arrows.rows.map((a) => [a[0], ...arrows.rows.map((b) => dot(a, b))]));
    assert.deepStrictEqual(products.rows.map((r) => r.slice(1).map((v) => v.toFixed(2).replace('-', '−'))), await numbers(page, 'similarity', 'dot products of the words'));
    const shares = JSON.parse(await file('mask', 'json')).figures[1].rows;
    assert.deepStrictEqual(shares.map((r) => r.map((v) => v === null)), [[false, false, true, true], [false, false, false, true], [false, false, false, false]]);
    const curves = JSON.parse(await file('temperature', 'json')).figures[1];
    assert.deepStrictEqual([curves.columns, curves.rows.length], [['τ', 'score 2.0', 'score 0.0', 'score 1.0'], 99]);
    for (const r of curves.rows) [2, 0, 1].forEach((s, i) => assert(Math.abs(r[1 + i] - Math.exp(s / r[0]) / (Math.exp(2 / r[0]) + 1 + Math.exp(1 / r[0]))) < 1e-12));
    const seen = await page.eval(`(() => { const f = document.querySelector('#lesson-temperature .lfig'), d = new DOMParser().parseFromString(Share.svg(f), 'image/svg+xml');
        return [...f.querySelectorAll('polyline')].map((l, i) => [getComputedStyle(l).stroke, l.points.length]).map(([stroke, n]) => [...d.querySelectorAll('path')].filter((p) => p.getAttribute('stroke') === stroke && p.getAttribute('d').split('L').length === n).length); })()`);
    assert.deepStrictEqual(seen, [1, 1, 1]);
}

// No engine: the message says so, and the lessons are all there.
async function alone(chrome, file, shared) {
    const page = await chrome.open({ width: 1280, height: 900 });
    try {
        await page.send('Page.addScriptToEvaluateOnNewDocument', { source: 'delete globalThis.WebAssembly' });
        await page.go(file, '#view=lessons&lesson=head');
        assert.strictEqual(await page.eval('document.documentElement.dataset.ready'), 'failed');
        assert.match(await page.text('#message'), /The lessons need no model/);
        await page.until(`App.state.lesson === 'head'`);
        assert.match(await verdict(page, 'head'), /^Not yet\. student gives bright 0\.56/);
        assert.strictEqual(await page.eval(`document.querySelectorAll('.lbridge').length`), 0);
        await page.eval('Engine.info = undefined'); // as on a page that carries no model
        assert.deepStrictEqual(await page.eval(`[...document.querySelectorAll('.lfig')].filter((f) => Share.of(f).length).map((f) => [JSON.parse(Share.json(f)).lesson, Share.svg(f).length > 500])`).then((all) => all.filter(([l, ok]) => !l || !ok)), []);
        await click(page, '#theme');
        await page.eval(`location.hash = '#view=lessons&lesson=scale'`);
        await page.until(`App.state.lesson === 'scale'`);
        assert.deepStrictEqual(page.errors, []);
        if (shared) await shared(page);
    } finally {
        await page.close();
    }
}

// Nothing is wider than the page, and print has every lesson.
async function widths(page) {
    for (const width of [390, 800, 1280, 1920]) {
        await page.resize(width, 900);
        const wide = await page.eval(`[...document.querySelectorAll('.lpage *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll')).map((e) => e.outerHTML.slice(0, 60))`);
        assert.deepStrictEqual(wide, [], `at ${width}`);
        assert(await page.eval('document.documentElement.scrollWidth') <= width);
    }
    await page.send('Emulation.setEmulatedMedia', { media: 'print' });
    assert.strictEqual(await page.eval(`[...document.querySelectorAll('.lesson')].filter((e) => e.checkVisibility()).length`), 15);
    await page.send('Emulation.setEmulatedMedia', { media: '' });
}

module.exports = { tasks, known, byKeyboard, byPointer, saved, addresses, alone, widths };
