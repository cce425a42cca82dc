/* Long work of a page that goes on in a worker (page/work.js, trials.js). The test is the worker: whatever ends the work, it is told
 * once, and other work asks nothing of it any more. node work.js ROOT */
'use strict';
const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {test, finish} = require('./report.js');

const source = ['work', 'trials'].map(name => fs.readFileSync(path.join(process.argv[2], `tools/lab/page/${name}.js`), 'utf8')).join('');

/* A page with workers; wasm: what Trials calls. */
function open(wasm = {}) {
    const workers = [];
    class Worker {
        constructor() { Object.assign(this, {ended: 0, says: data => this.onmessage({data})}); workers.push(this); }
        postMessage(data) { this.asked = data; }
        terminate() { this.ended++; }
    }
    let now = 0;
    const given = {Worker, document: {currentScript: {textContent: source}, documentElement: {dataset: {}}}, performance: {now: () => now++},
        URL: {createObjectURL: () => '', revokeObjectURL() {}}, Blob: class {},
        MessageChannel: class { constructor() { this.port1 = {}; this.port2 = {postMessage: () => setImmediate(() => this.port1.onmessage())}; } },
        Engine: {copy: () => ({memory: 'all'}), forget: [], info: {context: 9}, module: {wasm, worked: n => n}}};
    const page = new Function(...Object.keys(given), `${source};return {Work, Trials};`)(...Object.values(given));
    page.Work.slices.count = state => { state.done = ++state.n >= state.most; };
    return {...page, workers, other: () => page.Work.run('count', {n: 0, most: 9}, () => false)};
}

const endings = {
    'it is done': [w => w.says({state: {n: 4, done: true}}), [1, 4], {n: 4, done: true}],
    'its error is told': [w => w.says({error: 'no more'}), [1], /no more/],
    'it dies before it begins: the page goes on': [w => w.onerror({preventDefault() {}}), [1, 1, 2, 3], {n: 3, done: true, most: 3}],
    'it dies later': [w => { w.says({state: {n: 2}}); w.onerror({preventDefault() {}}); }, [1, 2], /the worker of the page has ended/],
    'a slice is no longer wanted': [w => w.says({state: {n: -1}}), [1, -1], {n: -1}],
    'other work asks, and it is no longer wanted': [(w, page) => { w.says({state: {n: 2}}); page.wanted = false; page.other(); }, [1, 2, 2], {n: 2}],
};
for (const [name, [end, seen, last]] of Object.entries(endings))
    test(name, async () => {
        const page = open(), shown = [], state = {n: 0, most: 3};
        page.wanted = true;
        const work = page.Work.run('count', state, ({n}) => { shown.push(n); return page.wanted && n >= 0; }, 0);
        const [worker] = page.workers;
        assert.deepStrictEqual(worker.asked, {copy: {memory: 'all'}, kind: 'count', state});
        const told = assert[last instanceof RegExp ? 'rejects' : 'doesNotReject'](async () => assert.deepStrictEqual(await work, last), last);
        end(worker, page);
        await told;
        assert.deepStrictEqual(shown, seen);
        assert.strictEqual(worker.ended, 1);
        await page.other();
        assert.deepStrictEqual(shown, seen, 'it was asked after its end');
    });

test('texts count once, though other work asks', async () => {
    const none = () => 0, page = open({lab_many: () => 1, lab_many_step: () => 1, lab_many_size: none, lab_many_texts: none, memory: {buffer: new ArrayBuffer(8)}});
    const seen = [], drawn = page.Trials.many(9, 1, 2, {seed: 1}, texts => { seen.push(...texts); return true; }), [worker] = page.workers;
    worker.says({state: {texts: ['a', 'b'], left: 1}});
    await page.other();
    worker.says({state: {texts: ['c'], left: 0, done: true}});
    await drawn;
    assert.deepStrictEqual(seen, ['a', 'b', 'c']);
});

finish().then(failed => { process.exitCode = failed; });
