'use strict';
// A lab page of a model whose rows of logits are longer than its list of tokens, the padding above all tokens: what it draws and
// what its rooms say of what may come next is that of the model without padding. node padded.js MGPT ROOT
const assert = require('assert');
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { test, finish } = require('./report.js');
const { openFake } = require('./fake_page.js');

const [mgpt, root] = process.argv.slice(2), folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-padded-')), steps = path.join(root, 'weights/names-steps');
const STEPS = fs.readdirSync(steps).filter((f) => f.endsWith('.gguf')).sort().slice(-2).map((f) => path.join(steps, f));
const N = 27; // tokens of names

function padded(file) {
    const wide = path.join(folder, `wide-${path.basename(file)}`), to = path.join(folder, path.basename(file));
    execFileSync(mgpt, ['convert', file, wide, '--type', 'f32'], { stdio: 'ignore' });
    execFileSync('python3', [path.join(root, 'tests/cli/padded_vocabulary.py'), wide, to]);
    return { wide, to };
}

async function open(models, ...more) {
    const file = path.join(folder, 'page.html');
    execFileSync(mgpt, ['lab', ...models, '-p', 'anna', ...more, '-o', file], { stdio: 'ignore' });
    return openFake(file, ['App', 'Circuits', 'Engine', 'Home', 'HomeText', 'Numbers', 'Predict', 'Strip', 'Token', 'Trials']);
}

// What a room says, but for what is said of the model's own probabilities, which count all rows (as mgpt score does), and of its size.
const OWN = /vocabulary|parameters|numbers, all of them|Loss of this text|KL|average/;
const told = ({ $ }) => $('rooms').querySelectorAll('p,td,th,button,h2,h3,li,caption').filter((e) => e.checkVisibility() && !e.querySelector('p,td,button')).map((e) => e.textContent.replace(/\s+/g, ' ')).filter((l) => !OWN.test(l));

// A state of the page, and what is compared in it.
const STATES = [['the picture', { view: 'home', cell: '' }], ['the last stop', { view: 'home', cell: '', walk: 18 }], ['a candidate', { cell: 'why.4', walk: 0 }],
    ['a changed letter', { view: 'home', cell: '', walk: 0, ids: [26, 0, 13, 11, 0], was: [26, 0, 13, 13, 0] }], ['what each layer adds', { ids: [26, 0, 13, 13, 0], cell: 'stream', edits: [] }]];

// Of the panel of the next token: the list, without the losses of the text.
const candidates = ({ document }) => document.querySelector('.next').textContent;

async function compare(what, plain, other) {
    const both = [plain, other], each = (fn) => both.map(fn);
    const equal = (title, fn) => {
        const [want, found] = each(fn); // now: a test may run later
        test(`${what}: ${title}`, () => assert.deepStrictEqual(found, want));
    };
    const best = other.Numbers.best(other.Engine.logits(4)), sizes = each((page) => page.Engine.info.vocab);
    test(`${what}: the padding is the likeliest`, () => assert.ok(best >= N && sizes[0] === N && sizes[1] > N));
    equal('letters, not tokens', ({ HomeText }) => HomeText.unit());
    for (const [title, state] of STATES) {
        each(({ App, tick }) => { App.set(state); tick(1000); });
        equal(title, told);
    }
    each(({ App, tick }) => { App.set({ view: 'home', cell: 'next' }); tick(200); });
    equal('the list of what may come next', candidates);
    if (!other.Engine.live) return;
    equal('the likeliest is drawn', ({ Predict }) => Predict.draw(true));
    for (let seed = 0; seed < 8; seed++) {
        each(({ App }) => App.set({ seed, temperature: 2 }));
        equal(`seed ${seed}`, ({ Predict }) => Predict.draw(false));
    }
    each(({ App }) => App.set({ temperature: 1, seed: 3 }));
    const sampling = { temperature: 1, topK: 0, topP: 1, seed: 3, counter: 0 }, written = [], many = [];
    for (const page of both) {
        written.push(await page.Trials.write(0, 2, 12, sampling, () => true));
        const found = [];
        await page.Trials.many(200, 1, 12, sampling, (texts) => { found.push(...texts.map((t) => `${t.times} ${Array.from(t.ids)}`)); });
        many.push(found.sort());
    }
    test(`${what}: it writes on`, () => assert.deepStrictEqual(written[1], written[0]));
    test(`${what}: 200 texts`, () => assert.deepStrictEqual(many[1], many[0]));
    each(({ Strip }) => Strip.pickers.any('which', () => {}));
    equal('the vocabulary', ({ $ }) => $('picker').querySelectorAll('.chip').length);
    each(({ App, tick }) => { App.set({ view: 'experiment', cell: '', edits: [{ kind: 'head', layer: 0, head: 1, scale: 0 }] }); tick(1000); });
    equal('before and after a change', ({ $ }) => $('rooms').querySelectorAll('.token').map((e) => e.textContent));
}

async function main() {
    const models = STEPS.map(padded), plain = models.map((m) => m.wide), other = models.map((m) => m.to);
    const pages = async (...more) => [await open(plain.slice(-1), ...more), await open(other.slice(-1), ...more)];
    await compare('live', ...await pages());
    await compare('recorded', ...await pages('--static'));
    const stories = [await open(plain), await open(other)];
    for (const page of stories) {
        page.App.set({ view: 'story', ago: 1, head: 2, query: 3 });
        page.tick(200);
    }
    const [want, found] = stories.map((page) => ({ texts: page.Engine.story.steps.map((s) => s.texts), blind: page.Engine.story.blind, guess: page.$('rooms').querySelectorAll('.part-reads td,.part-reads th').map((e) => e.textContent), sorts: page.$('rooms').querySelector('.part-sorts').textContent }));
    test('the story', () => assert.deepStrictEqual(found, want));
    fs.rmSync(folder, { recursive: true });
    process.exit(await finish());
}

main();
