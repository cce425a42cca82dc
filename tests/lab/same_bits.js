/* The engine in a lab page against the engine here: equal logits for over 100 prompts on every kind of
 * model, equal tokens, equal draws; stepping, going back, editing.
 *
 * node same_bits.js MGPT NATIVE ROOT. Prints a line for each test, ends with 1 if one fails.
 */
'use strict';
const {execFileSync} = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const assert = require('assert');
const {bytesOf, charactersOf, readPage, openPage, internals} = require('./open_page.js');
const {test, finish} = require('./report.js');

const [mgpt, native, root] = process.argv.slice(2).map(name => path.resolve(name));
const tmp = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-lab-'));
const weights = name => path.join(root, 'weights', `${name}.gguf`);

const run = (program, args, input = '') =>
    execFileSync(program, args, {input, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['pipe', 'pipe', 'pipe'],
        env: {...process.env, MGPT_SOURCE_ROOT: root}}); // the vectors are found by it
const lines = text => text.split('\n').slice(0, -1);

function page(model, ...options) {
    const file = path.join(tmp, 'lab.html');
    run(mgpt, ['lab', model, '-o', file, ...options]);
    return file;
}

// Numbers that look random and are the same everywhere.
function randomly(seed) {
    let state = seed >>> 0;
    return n => (state = Math.imul(state, 1664525) + 1013904223 >>> 0) % 65536 % n;
}

function somePrompts(info, n, seed) {
    const random = randomly(seed), most = Math.min(info.context, 24);
    return Array.from({length: n}, () =>
        Array.from({length: 1 + random(most)}, () => random(info.vocab)));
}

// XXH64 of all logits of a prompt, as 16 digits.
function hashOf(Engine, ids) {
    Engine.run(ids, [], 1);
    return BigInt.asUintN(64, Engine.module.wasm.lab_hash(1)).toString(16).padStart(16, '0');
}

async function sameLogits(model, n, seed) {
    const Engine = await openPage(page(model)), prompts = somePrompts(Engine.info, n, seed);
    const expected = lines(run(native, ['logits', model], prompts.map(p => `${p.join(' ')}\n`).join('')));
    assert.deepStrictEqual(prompts.map(ids => hashOf(Engine, ids)), expected, model);
    return n;
}

// Every value that mgpt trace writes.
function traced(model, ids) {
    const file = path.join(tmp, 'trace.safetensors');
    run(mgpt, ['trace', model, '--ids', ids.join(','), '-o', file]);
    const bytes = fs.readFileSync(file), begin = 8 + Number(bytes.readBigUInt64LE(0)), head = JSON.parse(bytes.subarray(8, begin));
    return name => new Float32Array(bytes.buffer.slice(...head[name].data_offsets.map(at => bytes.byteOffset + begin + at)));
}

// How each kind of number of the picture arises: the page's sum has the engine's bits, or the page says why not. strict: parts that
// must have them; their values are those of mgpt trace. Returns the parts.
async function sumsExplained(model, ids, strict = /^$/) {
    const {Engine, App, HomeScene, HomeCell} = readPage(page(model)).rooms(), wrong = [];
    await Engine.start();
    App.begin();
    ids = ids.slice(0, Engine.info.context).map(id => id % Engine.info.vocab);
    Engine.run(ids);
    Object.assign(App.state, {ids, step: ids.length, query: ids.length - 1});
    const scene = HomeScene.build(App.state, false, 'all'), trace = strict.test('mo') ? traced(model, ids) : null;
    for (const m of scene.mats.values()) {
        if (trace && m.hook)
            assert.deepStrictEqual(Engine.value(m.hook).data, trace(m.hook), `${model}: ${m.hook}`);
        const n = m.rows * m.cols, step = Math.max(1, Math.floor(n / 20));
        for (let i = n - 1; i >= 0 && m.kind !== 'w'; i -= step) {
            const r = Math.floor(i / m.cols), c = i % m.cols;
            const e = HomeScene.empty(m, r, c) ? {exact: true} : HomeCell.explain(scene, m, r, c);
            if (e.sum === null || !(e.exact || (e.note && !strict.test(m.part))))
                wrong.push([m.id, r, c, e.sum, e.value]);
        }
    }
    assert(scene.mats.size > 4);
    assert.deepStrictEqual(wrong.slice(0, 3), [], `${model}: ${wrong.length}`);
    return new Set(Array.from(scene.mats.values(), m => m.part));
}

// ---- texts ----

const vectors = fs.readFileSync(path.join(root, 'tests/vectors/tok_split.txt'), 'latin1');
const texts = lines(vectors).filter(l => l.startsWith('text ')).map(l => Buffer.from(l.slice(5), 'hex'));
// JavaScript's strings hold no broken UTF-8, and the page gets its texts from them.
const sound = texts.filter(t => Buffer.from(t.toString('utf8')).equals(t));
const hex = sound.map(t => `${t.toString('hex')}\n`).join('');

async function sameTokens(model) {
    const Engine = await openPage(page(model)), expected = lines(run(native, ['encode', model], hex));
    sound.forEach((text, i) => {
        let got;
        try {
            got = Engine.encode(text.toString('utf8')).join(' ');
        } catch (error) {
            got = error.message;
        }
        assert.strictEqual(got, expected[i], text.toString('hex'));
    });
}

// Where the pieces end that the patterns cut a text into, in bytes.
function cut(translated, stages, text) {
    if (text.length === 0)
        return [];
    if (stages.length === 0)
        return [Buffer.byteLength(text)];
    const ends = [];
    const add = (piece, rest) => {
        const before = ends.length > 0 ? ends[ends.length - 1] : 0;
        ends.push(...cut(translated, rest, piece).map(end => before + end));
    };
    let at = 0;
    for (const match of text.matchAll(translated(stages[0]))) {
        add(text.slice(at, match.index), stages.slice(1));
        add(match[0], stages.slice(1));
        at = match.index + match[0].length;
    }
    add(text.slice(at), stages.slice(1));
    return ends;
}

// A sweep of the page against the command's; then one of its sites as a change of the run.
async function sameSweep(Engine, model, texts, {over, mode, metric}) {
    const {Trials, info} = Engine, what = `${over} ${mode} ${metric}`;
    const [clean, corrupt] = texts.map(t => (info.add_bos ? [info.bos] : []).concat(Array.from(Engine.encode(t))));
    const both = mode === 'patch' ? ['--corrupt', texts[1]] : [];
    const want = JSON.parse(run(mgpt, ['patch', model, '--clean', texts[0], ...both, '--over', over, '--mode', mode,
        '--metric', metric, '--json']));
    const sweep = Trials.begin({clean, corrupt: both.length ? corrupt : null, over, mode, metric}), {heads, layers, n, total} = sweep;
    let shown = 0;
    assert.strictEqual(await Trials.run(() => { shown++; }), true);
    assert(total === 0 || shown > 0, 'no progress');
    const got = Array.from(sweep.values);
    assert.deepStrictEqual(got, want.grids[0].values.flat(2), what);
    assert.deepStrictEqual([Trials.metricOf('clean'), both.length ? Trials.metricOf('corrupt') : null],
        [want.clean.value, want.corrupt ? want.corrupt.value : null], what);
    assert.strictEqual(got.length, layers * (heads || 1) * n);
    const layer = layers - 1, head = heads ? heads - 1 : 0, pos = n - 1, into = both.length ? corrupt : clean;
    Engine.run(into, [{kind: 'patch', over, layer, head, pos, scale: mode.startsWith('scale') ? 0.5 : mode, clean,
        corrupt: both.length ? corrupt : null}]);
    if (metric === 'a - e') {
        const logits = Engine.logits(n - 1), [a, b] = ['a', 'e'].map(t => Engine.encode(t)[0]);
        assert.strictEqual(logits[a] - logits[b], got[(layer * (heads || 1) + head) * n + pos], `${what} as a change`);
    }
    Engine.run(into, []);
    Engine.run(into, [], 1);
    assert.deepStrictEqual(Engine.value('logits', 0), Engine.value('logits', 1), `${what}: taken back`);
}

async function main() {
    const models = lines(run(native, ['models', tmp])).map(name => path.join(tmp, `${name}.gguf`));
    let prompts = 0;
    await test('the reader of .lzma files', () => {
        const {blocks, unlzma} = readPage(page(weights('names'))), packed = new Uint8Array(bytesOf(blocks.get('mgpt-module')));
        assert(Buffer.from(unlzma(packed)).equals(fs.readFileSync(path.join(root, 'tools/lab/wasm/module.wasm'))));
        packed.fill(0xff, 13, 18); // a code out of its range
        assert.throws(() => unlzma(packed), /the page is damaged/);
    });
    await test('the same logits on every kind of model', async () => {
        for (const [i, model] of models.entries())
            prompts += await sameLogits(model, 2, i);
    });
    await test('sums in the middle between two floats are rounded once', async () => {
        for (const name of ['ties-4', 'ties-1']) {
            const Engine = await openPage(page(path.join(tmp, `${name}.gguf`))), odd = [1 + 2 ** -23, (2 ** 22 + 1) * 2 ** -149];
            Engine.run([0]);
            Engine.choices(0).forEach((v, i) => assert.strictEqual(v, (i & 1 ? -1 : 1) * odd[(i & 2) / 2]));
        }
    });
    await test('the same logits on the weights of this repository', async () => {
        prompts += await sameLogits(weights('names'), 20, 100);
        prompts += await sameLogits(weights('shakespeare'), 4, 101);
        assert(prompts >= 100);
    });
    await test('how a number arises, in every kind of model', async () => {
        const random = randomly(7), ids = Array.from({length: 40}, () => random(65536));
        for (const model of models.filter(name => !name.includes('more-')))
            await sumsExplained(model, ids);
    });
    const OWN = {lfm2: ['bx', 'wc', 'tp'], lfm2_moe: ['bx', 'wc', 'tp'], gpt1: ['w2'], gemma4: ['v', 'rk'], gemma4_e: ['v', 'rk'], ...Object.fromEntries(['deepseek_v2', 'deepseek_v3', 'minicpm3'].map(name => [name, ['wl', 'lt', 'rk']]))};
    for (const name of ['mixtral', 'olmoe', 'qwen2_moe', 'dots1', 'granitemoeshared', 'ernie4_5_moe', 'hunyuan_moe', 'glm4_moe', 'flex_olmo', 'lfm2', 'lfm2_moe', 'gpt1', 'dbrx', 'deepseek_v2', 'deepseek_v3', 'minicpm3', 'gemma4', 'gemma4_e', 'laguna', 'laguna_values', 'mimo_v2_flash'])
        await test(`how a number arises in ${name}: routers, experts, short convolutions, norms of the stream, latents, keys of another layer`, async () => {
            const model = path.join(tmp, `${name}.gguf`);
            run(mgpt, ['convert', path.join(root, 'tests/golden', name), model, '--no-tokenizer']);
            const parts = await sumsExplained(model, [3, 1, 4, 1, 5, 9, 2], OWN[name]?.includes('lt') ? /^(rs|ew|ey|mo|q|rk|v|ao|mid|x)$/ : /^(rs|ew|ey|mo|bx|z|v|ao|mid|h2|x)$/);
            for (const part of OWN[name] || ['rs', 'ew', 'ey', 'wr'])
                assert(parts.has(part), part);
        });
    for (const kind of ['bpe', 'spm'])
        await test(`the same tokens: ${kind}`, () => sameTokens(path.join(tmp, `${kind}.gguf`)));
    await test('the same tokens: characters', () => sameTokens(weights('names')));
    await test('every rule cuts texts alike', () => {
        const {translated} = internals();
        const cases = lines(run(native, ['split'], hex)).map(l => JSON.parse(l));
        const perText = cases.length / sound.length;
        cases.forEach((c, i) => {
            const text = sound[Math.floor(i / perText)];
            assert.deepStrictEqual(cut(translated, c.stages, text.toString('utf8')), c.ends,
                `${c.rule} ${text.toString('hex')}`);
        });
    });

    const Engine = await openPage(page(weights('names'), '-p', 'anna'));
    await test('the same draws as mgpt generate', () => {
        for (const [seed, more, options] of [[0, [], {}], [42, ['--temp', '0.5'], {temperature: 0.5}],
            ['18446744073709551615', ['--top-k', '5'], {topK: 5}], [7, ['--top-p', '0.7'], {topP: 0.7}],
            [3, ['--min-p', '0.2', '--temp', '2'], {minP: 0.2, temperature: 2}], [1, ['--temp', '0'], {temperature: 0}]]) {
            const args = ['generate', weights('names'), '-s', String(seed), '-p', 'a', ...more];
            const expected = lines(run(mgpt, args))[0];
            const ids = [Engine.info.bos, 0];
            for (let counter = 0; ids.length < Engine.info.context + 1; counter++) {
                Engine.run(ids);
                const id = Engine.sample(ids.length - 1, {seed, counter, ...options});
                if (Engine.piece(id).end)
                    break;
                ids.push(id);
            }
            assert.strictEqual(ids.slice(1).map(id => Engine.piece(id).text).join(''), expected, args.join(' '));
        }
    });
    const all = lane => Engine.hooks.map(h => Engine.value(h.name, lane));
    await test('stepped, rewound and changed: the values of a fresh run', () => {
        const ids = [26, 0, 13, 13, 0, 4, 17];
        for (let n = 1; n <= ids.length; n++)
            Engine.run(ids.slice(0, n));
        const stepped = all(0);
        Engine.run(ids, [], 1);
        assert.deepStrictEqual(stepped, all(1));
        Engine.run(ids.slice(0, 3));
        Engine.run(ids.slice(0, 3), [], 1);
        assert.deepStrictEqual(all(0), all(1));
        Engine.run([26, 0, 5, 13, 0]);
        Engine.run([], [], 1);
        Engine.run([26, 0, 5, 13, 0], [], 1);
        assert.deepStrictEqual(all(0), all(1));
    });
    await test('edits: what the repl says, and gone when they are taken back', () => {
        const ids = Array.from(Engine.prompt);
        for (const [command, edit] of [['/ab 0.3 zero', {kind: 'head', layer: 0, head: 3, scale: 0}],
            ['/ab 0.1 mean', {kind: 'head', layer: 0, head: 1, scale: 'mean'}],
            ['/ab mlp.0 mean', {kind: 'mlp', layer: 0, scale: 'mean'}],
            ['/scale 0.2 0.5', {kind: 'head', layer: 0, head: 2, scale: 0.5}]]) {
            const script = `anna\n${command}\n`;
            const kl = /KL\(before \|\| after\) ([0-9.]+)/.exec(run(mgpt, ['repl', weights('names')], script));
            assert(kl, `${command}: the repl says nothing`);
            Engine.run(ids, [edit]);
            Engine.run(ids, [], 1);
            const [before, after] = [1, 0].map(lane => Engine.logits(ids.length - 1, lane));
            const [sumBefore, sumAfter] = [before, after].map(Engine.logSum);
            const ours = before.reduce((sum, v, i) =>
                sum + Math.exp(v - sumBefore) * (v - sumBefore - after[i] + sumAfter), 0);
            assert(Math.abs(ours - kl[1]) <= 1e-6, `${command}: ${ours}, not ${kl[1]}`); // six digits
        }
        Engine.run(ids, []);
        assert.deepStrictEqual(all(0), all(1));
        Engine.run([26, 1, 2, 3, 4, 5], [], 1);
        Engine.run(ids, [{kind: 'mlp', layer: 0, scale: 'mean'}]); // lane 1 holds these tokens now
        const plain = all(1);
        Engine.run(ids, []);
        assert.deepStrictEqual(plain, all(0));
    });
    await test('sweeps: the values of mgpt patch --json; a patched run has the value of its site', async () => {
        const points = ['resid_pre', 'resid_mid', 'attn_out', 'mlp_out', 'z', 'pattern', 'q', 'k', 'v'];
        for (const [over, mode] of points.flatMap(p => [[p, 'patch'], [p, 'zero'], [p, 'scale:0.5']]).concat([['z', 'mean']]))
            await sameSweep(Engine, weights('names'), ['olivia', 'oliver'], {over, mode, metric: 'a - e'});
        for (const metric of ['kl', 'logprob:a'])
            await sameSweep(Engine, weights('names'), ['olivia', 'oliver'], {over: 'k', mode: 'patch', metric});
        const Lines = await openPage(page(weights('shakespeare')));
        await sameSweep(Lines, weights('shakespeare'), ['ROMEO: I will', 'ROMEO: I shal'], {over: 'z', mode: 'patch', metric: 'kl'});
        const of = (clean, over, metric, mode = 'patch') => () =>
            Engine.Trials.begin({clean, corrupt: [26, 2], over, mode, metric});
        assert.throws(of([26, 0, 1], 'z', 'kl'), /the clean prompt has 3 tokens and the corrupted one 2: expected the same/);
        assert.throws(of([26, 0], 'z', 'logprob:é'), /measure: 'é' is not a token of the model/);
        assert.throws(of([26, 0], 'z', 'ab'), /measure: expected 'A - B', logprob:TOKEN or kl, found 'ab'/);
        assert.throws(of([26, 0], 'x', 'kl'), /site: no point is called 'x'/);
        assert.throws(of([26, 0], 'pattern', 'kl', 'mean'), /mode: mean: the rows of pattern have different lengths/);
        assert.throws(of([26, 27], 'z', 'kl'), /token 27/);
    });
    await test('steering vectors and drafts: the text of mgpt generate --steer', async () => {
        const row = Float32Array.from({length: Engine.info.d_model}, (_, i) => Math.sin(i)), file = path.join(tmp, 'v.npy');
        fs.writeFileSync(file, Engine.Trials.npyOf(row));
        const want = run(mgpt, ['generate', weights('names'), '-p', 'a', '--seed', '5', '--steer', `${file}:0.7:0`]).trim();
        assert.notStrictEqual(want, run(mgpt, ['generate', weights('names'), '-p', 'a', '--seed', '5']).trim());
        Engine.Trials.steerRead(fs.readFileSync(file), 0);
        Engine.run([26, 0], [{kind: 'steer', scale: 0.7}]);
        const ids = await Engine.Trials.write(0, 2, 99, {seed: 5, counter: 0}, () => true);
        assert.strictEqual('a' + ids.filter(id => id !== 26).map(id => Engine.piece(id).text).join(''), want);
        assert.throws(() => Engine.Trials.steerRead(Engine.Trials.npyOf(row)), /one row: give its layer/);
        assert.throws(() => Engine.Trials.steerRead(Engine.Trials.npyOf(row.slice(1)), 0), /expected the shape \[1, 16\], or \[16\]/);
        assert.throws(() => Engine.Trials.steerRead(Uint8Array.from([71, 71, 85, 70])), /GGUF|byte|end/i);
        Engine.run([26, 0], []);
        Engine.run([26, 0], [], 1);
        assert.deepStrictEqual(all(0), all(1));
    });
    await test('many texts at once: those of mgpt generate --samples, each once', async () => {
        for (const [seed, more, options] of [[5, ['--temp', '0.7'], {temperature: 0.7}],
            ['18446744073709551615', ['--temp', '1.5', '--top-k', '6', '--top-p', '0.9'], {temperature: 1.5, topK: 6, topP: 0.9}]]) {
            const want = lines(run(mgpt, ['generate', weights('names'), '-p', 'an', '--samples', '300', '-n', '6', '-s', String(seed), ...more]));
            const got = [], sizes = [];
            Engine.run([26, 0, 13]);
            await Engine.Trials.many(300, 3, 6, {topK: 0, topP: 1, seed, ...options}, (texts, left) => {
                for (const {times, ids} of texts)
                    got.push(...Array(times).fill(`an${Array.from(ids, id => Engine.piece(id).text).join('')}`));
                sizes.push(got.length + left);
            });
            assert.deepStrictEqual(got.sort(), want.sort());
            assert(sizes.every(n => n === 300), 'texts that have ended and texts that are left');
        }
        let calls = 0;
        await Engine.Trials.many(1e5, 3, 13, {temperature: 1, topK: 0, topP: 1, seed: 0}, () => ++calls < 2);
        assert.strictEqual(calls, 2, 'it did not stop');
        const {wasm} = Engine.module;
        assert.strictEqual(wasm.lab_many(4, 1, 1, 27, 1, 0, 1, 0, 0n) < 0, true, 'more tokens than the run has');
        assert.strictEqual(wasm.lab_many_step(9) <= 0, true);
    });
    await test('the lens ends with the logits, and the parts of a logit make it up', () => {
        const ids = Array.from(Engine.prompt), pos = ids.length - 1;
        Engine.run(ids);
        const logits = Engine.logits(pos), lens = Engine.lens(0, pos);
        assert.deepStrictEqual(lens.map(l => l.name), ['pre', 'mid', 'post'].map(x => `blocks.0.hook_resid_${x}`));
        assert.deepStrictEqual(lens[2].logits, logits);
        for (let token = 0; token < Engine.info.vocab; token++) {
            const sum = Engine.dla(0, pos, token).reduce((all, part) => all + part.value, 0);
            assert(Math.abs(sum - logits[token]) < 1e-9 + 1e-6 * Math.abs(sum)); // the logit is a float
        }
    });
    await test('a recorded page shows what a live one does', async () => {
        const Recorded = await openPage(page(weights('names'), '-p', 'anna', '--static'));
        assert.strictEqual(Recorded.live, false);
        for (const n of [5, 3]) {
            const ids = Array.from(Recorded.prompt.slice(0, n));
            Recorded.run(ids);
            Engine.run(ids);
            for (const {name} of Engine.hooks)
                assert.deepStrictEqual(Recorded.value(name), Engine.value(name), name);
        }
        Engine.run(Engine.prompt);
        Recorded.run(Recorded.prompt);
        const [live, recorded] = [Engine, Recorded].map(E => E.lens(0, 4));
        live.forEach((l, i) => {
            assert.deepStrictEqual(recorded[i].logits, l.logits); // 27 tokens are all kept
            assert(Math.abs(recorded[i].logsum - l.logsum) < 1e-6);
        });
        const [a, b] = [Engine, Recorded].map(E => E.dla(0, 1, 13));
        a.forEach((part, i) => assert(part.name === b[i].name && Math.abs(part.value - b[i].value) < 1e-7));
        const options = {seed: 5, counter: 2};
        assert.strictEqual(Recorded.sample(4, options), Engine.sample(4, options));
        assert.throws(() => Recorded.run([26, 1]), /recorded run: nothing is computed/);
        assert.throws(() => Recorded.run(Recorded.prompt, [{kind: 'mlp', layer: 0, scale: 0}]), /recorded run/);
        assert.throws(() => Recorded.dla(0, 1, 25), /only the likeliest and the true next/);
        assert.throws(() => Recorded.encode('a'), /cannot encode/);
    });
    await test('a recorded page of two layers and many tokens', async () => {
        const model = path.join(tmp, 'mixtral.gguf'), Live = await openPage(page(model, '--ids', '3,1,4,1,5')), Recorded = await openPage(page(model, '--ids', '3,1,4,1,5', '--static'));
        for (const E of [Live, Recorded])
            E.run(E.prompt);
        for (let pos = 0; pos < 5; pos++) {
            const best = Live.lens(0, pos), parts = [Live, Recorded].map(E => E.dla(0, pos, Math.max(1, pos + 1 < 5 ? Live.prompt[pos + 1] : E.sample(pos, {temperature: 0}))));
            Recorded.lens(0, pos).forEach((l, i) => {
                const kept = Array.from(l.logits.keys()).filter(id => l.logits[id] !== -Infinity), least = Math.min(...kept.map(id => best[i].logits[id]));
                assert.deepStrictEqual(kept, Array.from(best[i].logits.keys()).filter(id => best[i].logits[id] >= least), `${l.name}: the likeliest`);
                assert(kept.length === 32 && kept.every(id => l.logits[id] === best[i].logits[id]) && Math.abs(l.logsum - best[i].logsum) < 1e-6);
            });
            parts[0].forEach((part, i) => assert(part.name === parts[1][i].name && Math.abs(part.value - parts[1][i].value) < 1e-7));
        }
    });
    await test('steps of a training whose files have other sizes; their loss is that of the prompt', async () => {
        const steps = ['00100', '20000'].map(k => path.join(root, `weights/names-steps/step-${k}.gguf`)), wide = path.join(tmp, 'wide-100.gguf');
        fs.writeFileSync(wide, Buffer.concat([fs.readFileSync(steps[0]), Buffer.alloc(32)]));
        const Story = await openPage(page(wide, steps[1], '-p', 'anna'));
        [wide, steps[1]].forEach((file, k) => {
            Story.select(1 - k);
            const hash = hashOf(Story, Story.prompt);
            Story.run(Story.prompt);
            assert.strictEqual(hash, lines(run(native, ['logits', file], `${Story.prompt.join(' ')}\n`))[0], file);
            const nats = [0, 1, 2, 3].reduce((sum, i) => sum + Story.logSum(Story.logits(i)) - Story.logits(i)[Story.prompt[i + 1]], 0) / 4;
            assert(Math.abs(Story.story.steps[k].loss - nats) < 1e-5, `${Story.story.steps[k].loss}, not ${nats}`);
        });
    });
    await test('an engine elsewhere, in a worker, goes on as this one would', async () => {
        Engine.run([26, 0, 13], [{kind: 'head', layer: 0, head: 1, scale: 0}]);
        Engine.run([26, 0, 13, 13, 0], [], 1);
        const from = structuredClone(Engine.copy()), want = [all(0), all(1)], {Engine: Other} = readPage(page(weights('names')));
        Engine.run([26, 5]);
        await Other.adopt(from);
        assert.deepStrictEqual([0, 1].map(lane => Other.hooks.map(h => Other.value(h.name, lane))), want);
        assert.deepStrictEqual([Other.live, Other.info.context, Other.isEnd(25), Other.isEnd(26), Other.sample(2, {seed: 7}), Other.ids(1).join()], [true, 16, false, true, Other.draw(want[0].at(-1).data.slice(-27), {seed: 7}), '26,0,13,13,0']);
        for (const E of [Engine, Other])
            E.run([26, 0, 4, 17]);
        assert.deepStrictEqual(Other.hooks.map(h => Other.value(h.name)), all(0));
    });
    await test('what cannot be is refused in one line, and the engine goes on', () => {
        assert.throws(() => Engine.run([26, 27]), /There is no token 27: ids are 0 to 26/);
        assert.throws(() => Engine.run(Array(17).fill(0)), /17 tokens do not fit: the context is 16 positions/);
        assert.throws(() => Engine.encode('Anna'), /'A' \(U\+0041\) at byte 0 is not in the vocabulary/);
        assert.throws(() => Engine.value('blocks.7.hook_resid_pre'), /no value called/);
        assert.throws(() => Engine.run([26], [{kind: 'head', layer: 0, head: 4, scale: 0}]), /no such head/);
        assert.throws(() => Engine.run([26], [{kind: 'mlp', layer: 0, scale: 0}], 1), /without edits/);
        Engine.run([26, 0, 13]);
        assert.strictEqual(Engine.value('logits').dims[0], 3);
        assert.throws(() => Engine.logits(3), /position 3: the run has 3 tokens/);
    });
    await test('a damaged model is refused in one line', async () => {
        const {Engine: Fresh, blocks} = readPage(page(weights('names')));
        const zlib = require('zlib'), model = zlib.gunzipSync(bytesOf(blocks.get('mgpt-model')));
        blocks.set('mgpt-model', charactersOf(zlib.gzipSync(model.subarray(0, 9000))));
        await assert.rejects(Fresh.start(), e => e.message.length < 200 && !e.message.includes('\n') &&
            /9000|end/.test(e.message));
    });
}

main().then(finish).finally(() => fs.rmSync(tmp, {recursive: true})).then(code => process.exit(code));
