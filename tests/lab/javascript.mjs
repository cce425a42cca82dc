/* The ES module of ninja js against the program: texts, logits and inner values bit for bit, taps, errors.
 *
 * node javascript.mjs MGPT NATIVE ROOT FOLDER of the module. Prints TAP, ends with 1 if a test fails.
 */
import assert from 'node:assert';
import {execFileSync, spawnSync} from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import {pathToFileURL} from 'node:url';
import report from './report.js';

const [mgpt, native, root, folder] = process.argv.slice(2).map(name => path.resolve(name));
const js = await import(pathToFileURL(path.join(folder, 'mgpt.js')));
const {Model, Sampler} = js;
const tmp = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-js-'));
const weights = name => path.join(root, 'weights', `${name}.gguf`);
const run = (program, ...args) => execFileSync(program, args, {encoding: 'utf8', env: {...process.env, MGPT_SOURCE_ROOT: root}, stdio: ['ignore', 'pipe', 'ignore']});
const open = name => Model.open(fs.readFileSync(name));
const test = report.test;

/* The line that the program says on stderr, without the name before it. */
function refusal(...args) {
    const {status, stderr} = spawnSync(mgpt, args, {encoding: 'utf8'});
    assert.notStrictEqual(status, 0);
    return stderr.trim().replace(/^mgpt: /, '').replace(/^\S*\.gguf: /, '');
}

/* The arrays of an .npz file whose members are stored. */
function arraysOf(file) {
    const bytes = fs.readFileSync(file), arrays = {};
    for (let at = 0; bytes.readUInt32LE(at) === 0x04034b50;) {
        const n = bytes.readUInt16LE(at + 26), extra = bytes.readUInt16LE(at + 28), name = bytes.toString('latin1', at + 30, at + 30 + n).replace(/\.npy$/, '');
        const from = at + 30 + n + extra, head = from + 10 + bytes.readUInt16LE(from + 8), text = bytes.toString('latin1', from + 10, head);
        const [, type, width] = /'descr': '(.*?(\d+))'/.exec(text);
        const shape = /'shape': \(([^)]*)\)/.exec(text)[1].split(',').filter(Boolean).map(Number), size = width * shape.reduce((all, d) => all * d, 1);
        arrays[name] = {shape, bytes: bytes.subarray(head, head + size), type};
        at = head + size;
    }
    return arrays;
}

const bytesOf = floats => Buffer.from(floats.buffer, floats.byteOffset, floats.byteLength);

function sameTrace(model, file, ids) {
    const npz = path.join(tmp, 'trace.npz'), session = model.session();
    run(mgpt, 'trace', file, '--ids', ids.join(','), '-o', npz);
    const {tokens, ...want} = arraysOf(npz), got = session.trace(ids);
    assert.strictEqual(tokens.shape[0], ids.length);
    assert.deepStrictEqual(Object.keys(got).sort(), Object.keys(want).sort());
    for (const [name, {shape, bytes}] of Object.entries(want)) {
        assert.deepStrictEqual(got[name].dims, shape, name);
        assert(bytesOf(got[name].data).equals(bytes), `${name}: other bits`);
    }
    const stepped = model.session();
    ids.forEach(id => stepped.step(id));
    assert(bytesOf(stepped.logits).equals(want.logits.bytes.subarray(-4 * model.info.n_vocab)));
    assert.deepStrictEqual(Array.from(stepped.tokens), ids);
    session.free();
    stepped.free();
}

const names = await open(weights('names')), bos = names.info.bos;

await test('five samples: the text of mgpt generate', () => {
    for (const [settings, ...args] of [[{seed: 42}, '-s', '42'], [{seed: '18446744073709551615', temperature: 0.5}, '-s', '18446744073709551615', '--temp', '0.5'],
        [{topK: 3}, '--top-k', '3', '-s', '0'], [{seed: 7n, topP: 0.7, minP: 0.1}, '-s', '7', '--top-p', '0.7', '--min-p', '0.1']]) {
        const want = run(mgpt, 'generate', weights('names'), '--samples', '5', ...args);
        const got = [0, 1, 2, 3, 4].map(sample => `${[...names.generate('', {...settings, sample})].join('')}\n`);
        assert.strictEqual(got.join(''), want, args.join(' '));
    }
    const want = run(mgpt, 'generate', weights('shakespeare'), '-p', 'ROMEO:', '-s', '3', '-n', '60');
    return open(weights('shakespeare')).then(model => {
        assert.strictEqual(`ROMEO:${[...model.generate('ROMEO:', {seed: 3, n: 60})].join('')}\n`, want);
    });
});
await test('logits and all inner values: the bits of mgpt trace', async () => {
    sameTrace(names, weights('names'), [bos, 0, 13, 13, 0]);
    sameTrace(await open(weights('shakespeare')), weights('shakespeare'), [1, 2, 3, 5, 8, 13, 21, 34, 55]);
    for (const [i, name] of run(native, 'models', tmp).trim().split('\n').entries()) {
        const file = path.join(tmp, `${name}.gguf`), model = await open(file), {n_vocab: n} = model.info;
        if (i % 3 === 0)
            sameTrace(model, file, [0, 1 % n, 2 % n, 1 % n]);
    }
});
await test('rewound, forked, fed in pieces: the bits of a fresh run', () => {
    const ids = [bos, 0, 13, 13, 0], fresh = names.session(), other = names.session();
    fresh.feed(ids);
    other.feed([bos, 0]);
    const fork = other.fork();
    other.feed([5, 6]);
    other.rewind(2);
    assert.strictEqual(other.logits, null);
    for (const session of [other, fork]) {
        session.feed('nn');
        assert.deepStrictEqual(session.step(0), fresh.logits);
        assert.strictEqual(session.pos, 5);
    }
    assert.strictEqual(names.session({nCtx: 4}).nCtx, 4);
});
await test('a tap changes what the model goes on with', () => {
    const ids = [bos, 0, 13], others = [bos, 4, 11], last = `blocks.${names.info.n_layer - 1}.hook_resid_post`;
    const wanted = names.session().trace(others), session = names.session(), points = new Set();
    session.tap(`${last},blocks.*.attn.hook_?`, ({name, pos, rows}) => {
        points.add(name);
        if (name === last)
            rows.forEach((row, i) => row.set(wanted[last].data.subarray((pos + i) * row.length, (pos + i + 1) * row.length)));
    });
    session.feed(ids);
    assert.deepStrictEqual(session.logits, wanted.logits.data.slice(-names.info.n_vocab));
    assert.deepStrictEqual([...points].map(name => name.split('.').pop()), ['hook_q', 'hook_k', 'hook_v', 'hook_z', 'hook_resid_post']);
    session.rewind(0);
    session.tap(last, () => { throw new Error('from the tap'); });
    assert.throws(() => session.feed(ids), /^Error: from the tap$/);
    session.tap(null);
    session.rewind(0);
    session.feed(ids);
    const plain = names.session();
    plain.feed(ids);
    assert.deepStrictEqual(session.logits, plain.logits);
});
await test('texts: tokens, pieces, characters of several tokens', async () => {
    assert.deepStrictEqual(Array.from(names.encode('anna', {special: false})), [0, 13, 13, 0]);
    assert.strictEqual(names.decode([bos, 0, 13, 13, 0]), 'anna');
    assert(names.isEnd(bos) && !names.isEnd(0));
    assert.strictEqual(names.tokenText(13), 'n');
    const kept = [0, 13, 4].map(id => names.piece(id)); // copies: what is read later changes none
    names.encode('zzzzzzzz');
    assert.deepStrictEqual(kept.map(piece => String.fromCharCode(...piece)), ['a', 'n', 'e']);
    const bpe = await open(path.join(tmp, 'bpe.gguf')), text = 'Grüße, 你好 👍';
    const decoder = bpe.decoder(), parts = Array.from(bpe.encode(text, {special: false}), decoder.put);
    assert.strictEqual(parts.join('') + decoder.end(), text);
    assert(parts.includes(''));
});
await test('memory above 2 GiB', async () => {
    const model = await open(weights('names')), ids = [bos, 0, 13], plain = model.session();
    plain.feed(ids);
    const {wasm} = model.engine, filled = Array.from({length: 33}, () => wasm.lab_room(1 << 26)); // what is free below is taken
    assert(filled.at(-1) < 0);
    const session = model.session(), seen = [];
    session.tap('blocks.0.attn.hook_z', ({rows}) => seen.push(...rows.map(row => row.length)));
    session.feed(ids);
    assert.deepStrictEqual([session.logits, Array.from(session.tokens), seen], [plain.logits, ids, [16, 16, 16]]);
    assert.strictEqual(model.decode(model.encode('anna')), 'anna');
    assert.strictEqual(new Sampler({seed: 1}).draw(session), new Sampler({seed: 1}).draw(plain));
});
await test('mgpt.d.ts names what there is', () => {
    const types = fs.readFileSync(path.join(folder, 'mgpt.d.ts'), 'utf8').replace(/\/\*[^]*?\*\//g, ''), session = names.session();
    for (const [, name, body] of types.matchAll(/^export class (\w+) \{([^]*?)^\}/gm)) {
        const there = {Model: names, Session: session, Sampler: new Sampler()}[name];
        for (const [, fixed, member] of body.matchAll(/^    (?:(static) |readonly )?(\w+)[(:]/gm))
            assert(member in (fixed ? js[name] : there), `${name}.${member}`);
    }
    assert.deepStrictEqual(Object.keys(js).sort(), [...types.matchAll(/^export class (\w+)/gm)].map(m => m[1]).sort());
});
await test('fetch, and that it fails', async () => {
    const server = http.createServer((request, response) => {
        response.writeHead(request.url === '/names.gguf' ? 200 : 404);
        response.end(request.url === '/names.gguf' ? fs.readFileSync(weights('names')) : '');
    });
    await new Promise(done => { server.listen(0, '127.0.0.1', done); });
    const url = `http://127.0.0.1:${server.address().port}`;
    try {
        assert.strictEqual((await Model.fetch(`${url}/names.gguf`)).info.n_ctx, 16);
        await assert.rejects(Model.fetch(`${url}/other`), /\/other: HTTP 404/);
    } finally {
        server.close();
    }
});
await test('bad input: an Error with the library\'s line', async () => {
    const bytes = fs.readFileSync(weights('names')), file = path.join(tmp, 'cut.gguf');
    for (const cut of [20, 1000, bytes.length - 1]) {
        fs.writeFileSync(file, bytes.subarray(0, cut));
        await assert.rejects(Model.open(bytes.subarray(0, cut)), {message: refusal('generate', file)});
    }
    await assert.rejects(Model.open('names.gguf'), /expected a Uint8Array/);
    assert.throws(() => names.encode('ann3'), {message: /character '3' \(U\+0033\) at byte 3 is not in the vocabulary/});
    const session = names.session();
    assert.throws(() => session.feed([27]), /token 27/);
    assert.throws(() => session.feed([1.5]), /token 0: expected an integer, found 1.5/);
    assert.throws(() => session.feed(Array(17).fill(0)), /context/);
    assert.throws(() => session.tap('blocks.7.hook_z', () => {}), /the model has no hook blocks.7.hook_z; its hooks: hook_embed/);
    assert.throws(() => session.rewind(1), /expected a position of 0 to 0, found 1/);
    assert.throws(() => new Sampler().draw(session), /no logits to draw from/);
    assert.throws(() => new Sampler({temp: 1}), /unknown setting temp/);
    assert.throws(() => names.session({kv: 'f64'}), /expected one of auto, f32, f16, q8_0/);
    assert.throws(() => names.session({nCtx: 99}), /99/);
    session.free();
    assert.throws(() => session.feed([0]), /the session has been freed/);
});
await test('README\'s example', () => {
    const [, example] = /```js\n([^]*?)```/.exec(fs.readFileSync(path.join(root, 'README.md'), 'utf8'));
    const file = path.join(tmp, 'example.mjs');
    fs.writeFileSync(file, example.replaceAll('./build/tools/lab/js/', `${pathToFileURL(folder)}/`));
    const said = execFileSync(process.execPath, [file], {encoding: 'utf8', cwd: root});
    const [text] = said.split('\n');
    assert.strictEqual(`${text}\n`, run(mgpt, 'generate', weights('names'), '-p', 'a', '-s', '42', '--temp', '0.5'));
    assert.match(said, /^[a-z]+\n0\.\d+\n$/);
});
fs.rmSync(tmp, {recursive: true});
process.exit(await report.finish());
