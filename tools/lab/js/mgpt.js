// The engine for programs in JavaScript; mgpt.d.ts describes each function. A model has an instance of the module of its own,
// since that has one model (wasm/sessions.h). make.py puts loader.js before this file, and after it what makes it a
// module or a script: moduleBytes().
const TEXT_ROOM = 1 << 12; // bytes of what one token adds to a text

let compiled = null; // a promise of the module, which all models share

async function loaded(url) {
    const response = await fetch(url);
    if (!response.ok)
        throw new Error(`${url}: HTTP ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
}

function tokenArray(tokens) {
    for (const [i, id] of Array.from(tokens).entries())
        if (!Number.isInteger(id) || id < -(2 ** 31) || id >= 2 ** 31)
            throw new Error(`token ${i}: expected an integer, found ${String(id)}`);
    return Int32Array.from(tokens);
}

class Model {
    // The bytes of a GGUF file: a Uint8Array or an ArrayBuffer. They are copied.
    static async open(bytes) {
        if (!(bytes instanceof Uint8Array || bytes instanceof ArrayBuffer))
            throw new Error('Model.open: expected a Uint8Array or an ArrayBuffer with a GGUF file');
        const model = new Model(), file = new Uint8Array(bytes);
        compiled ??= moduleBytes().then(code => Loader.compile(Uint8Array.from(code)));
        compiled.catch(() => { compiled = null; }); // the next call tries again
        model.engine = await Loader.instantiate(await compiled, (...seen) => model.tapped(...seen));
        const {wasm, found} = model.engine;
        wasm._initialize?.();
        const at = found(wasm.lab_room(file.length));
        model.view(Uint8Array, at, file.length).set(file);
        if (wasm.lab_open(at, file.length) < 0)
            throw model.refused();
        model.info = model.facts();
        model.hooks = model.hookList();
        return model;
    }

    static async fetch(url) {
        return Model.open(await loaded(url));
    }

    // Why the file was not opened, with the byte, as the program says it.
    refused() {
        const error = this.engine.failed(), offset = BigInt.asUintN(64, this.engine.wasm.lab_error_offset());
        if (offset !== 2n ** 64n - 1n)
            error.message += ` (byte ${offset})`;
        return error;
    }

    // n elements of the module's memory. What the module returns as a pointer is negative above 2 GiB.
    view(Type, at, n) {
        return new Type(this.engine.wasm.memory.buffer, at >>> 0, n);
    }

    string(at, n) {
        const bytes = this.view(Uint8Array, at);
        return new TextDecoder().decode(bytes.subarray(0, n ?? bytes.indexOf(0)));
    }

    facts() {
        const {wasm} = this.engine, facts = {};
        for (let i = 0, name; (name = wasm.lab_fact(i)) !== 0; i++) {
            const at = wasm.lab_fact_at(i), view = this.view(DataView, at), kind = this.string(name, 1);
            facts[this.string(name + 1)] = {t: () => this.string(view.getUint32(0, true)), i: () => view.getInt32(0, true),
                f: () => view.getInt32(0, true), r: () => view.getFloat32(0, true), c: () => Number(view.getBigUint64(0, true))}[kind]();
        }
        return facts;
    }

    // Hooks [{name, point, layer, dims}]; 0 in dims: the number of tokens.
    hookList() {
        const {wasm} = this.engine, hooks = [];
        for (let i = 0, at; (at = wasm.lab_hook(i)) !== 0; i++) {
            const view = this.view(DataView, at);
            hooks.push({name: this.string(at + 8), point: view.getInt32(0, true), layer: view.getInt32(4, true),
                dims: Array.from({length: view.getUint32(72, true)}, (_, k) => Number(view.getBigUint64(80 + 8 * k, true)))});
        }
        if (hooks.length === 0)
            throw this.engine.failed();
        return hooks;
    }

    // The hooks that names with * and ? mean, with commas between them.
    find(names) {
        return String(names).split(',').flatMap(name => {
            const pattern = name.trim().replace(/[^*?]/g, c => c.replace(/\W/, '\\$&')).replace(/\*/g, '.*').replace(/\?/g, '.');
            const found = this.hooks.filter(h => new RegExp(`^${pattern}$`).test(h.name));
            if (found.length === 0)
                throw new Error(`the model has no hook ${name.trim()}; its hooks: ${this.hooks.slice(0, 4).map(h => h.name).join(', ')}, ...`);
            return found;
        });
    }

    // ---- text ----

    encode(text, {special = true, parse = false} = {}) {
        const {wasm, lend, worked} = this.engine, flags = (special ? 0 : 1) | (parse ? 2 : 0);
        const bytes = new TextEncoder().encode(this.info.nfc ? text.normalize('NFC') : text);
        const n = lend([bytes], ([at]) => worked(wasm.lab_encode_as(at, bytes.length, flags)));
        return n ? this.view(Int32Array, wasm.lab_tokens(), n).slice() : new Int32Array(0);
    }

    // What a text begins with that has this prompt: mgpt generate's tokens.
    prompt(text) {
        const tokens = this.encode(text);
        return tokens.length === 0 && this.info.bos >= 0 ? Int32Array.of(this.info.bos) : tokens;
    }

    pieceOf(what, token) {
        const {wasm, lend} = this.engine;
        return lend([new Uint8Array(4)], ([size]) => {
            const at = wasm.lab_piece(what, token, size);
            return this.view(Uint8Array, at, this.view(DataView, size).getUint32(0, true)).slice();
        });
    }

    piece(token) { return this.pieceOf(0, token); }
    tokenText(token) { return new TextDecoder().decode(this.pieceOf(1, token)); }
    isEnd(token) { return this.engine.wasm.lab_is_end(token) !== 0; }

    // put(token) gives the characters that are complete with it, end() what is left.
    decoder() {
        const stream = new Uint8Array(6), {wasm, lend} = this.engine;
        const put = token => lend([stream, new Uint8Array(TEXT_ROOM + (token < 0 ? 0 : 3 * this.piece(token).length))], ([at, to]) => {
            const n = wasm.lab_stream(at, token, to, TEXT_ROOM);
            stream.set(this.view(Uint8Array, at, stream.length));
            return this.string(to, n);
        });
        return {put: token => put(token < 0 ? 2 ** 31 - 1 : token), end: () => put(-1)};
    }

    decode(tokens) {
        const decoder = this.decoder();
        return Array.from(tokenArray(tokens), decoder.put).join('') + decoder.end();
    }

    // ---- running ----

    session({nCtx = 0, kv = 'auto'} = {}) {
        const types = ['auto', 'f32', 'f16', 'q8_0'];
        if (!types.includes(kv))
            throw new Error(`kv: expected one of ${types.join(', ')}, found ${String(kv)}`);
        return new Session(this, this.engine.found(this.engine.wasm.lab_session_new(nCtx, types.indexOf(kv))));
    }

    // Pieces of a text that goes on after the prompt (a string or tokens), as mgpt generate writes it without the prompt.
    * generate(prompt = '', {n = Infinity, ...settings} = {}) {
        const session = this.session(), sampler = new Sampler(settings), decoder = this.decoder();
        try {
            session.feed(typeof prompt === 'string' ? this.prompt(prompt) : prompt);
            for (let i = 0, token; i < n && !this.isEnd(token = sampler.draw(session)); i++) {
                yield decoder.put(token);
                if (session.pos === session.nCtx)
                    break;
                session.step(token);
            }
            yield decoder.end();
        } finally {
            session.free();
        }
    }

    // page.tap of wasm/sessions.h, for the session that runs. What the callback throws ends the call.
    tapped(point, layer, pos, rows, cols, stride, data) {
        const {hooks, fn} = this.running.tap, hook = hooks.find(h => h.point === point && h.layer === layer);
        if (!hook)
            return 0;
        try {
            const row = (_, i) => this.view(Float32Array, (data >>> 0) + 4 * i * stride, cols);
            fn({name: hook.name, layer, pos, rows: Array.from({length: rows}, row)});
            return 0;
        } catch (error) {
            this.running.thrown = {error};
            return 1;
        }
    }
}

class Session {
    constructor(model, at) {
        Object.assign(this, {model, held: at, tap_: null, thrown: null});
    }

    get at() {
        if (this.held === 0)
            throw new Error('the session has been freed');
        return this.held;
    }

    // fn sees, and may change, the values of these hooks from now on; null: no more.
    tap(names, fn) {
        this.tap_ = names === null ? null : {hooks: this.model.find(names), fn};
    }

    // Runs tokens (or a text, without BOS) after those that it has.
    feed(tokens) {
        const {wasm, lend, worked} = this.model.engine, at = this.at, before = this.model.running;
        const ids = typeof tokens === 'string' ? this.model.encode(tokens, {special: false}) : tokenArray(tokens);
        const points = (this.tap_?.hooks ?? []).reduce((all, h) => all | 1n << BigInt(h.point), 0n);
        this.model.running = {tap: this.tap_, thrown: null};
        try {
            const status = lend([ids], ([to]) => wasm.lab_feed(at, to, ids.length, points));
            if (this.model.running.thrown)
                throw this.model.running.thrown.error;
            worked(status);
        } finally {
            this.model.running = before;
        }
    }

    // Runs a token; the logits after it.
    step(token) {
        this.feed([token]);
        return this.logits;
    }

    // All values of these hooks when the tokens run: {name: {dims, data}}.
    trace(tokens, names = '*') {
        const ids = typeof tokens === 'string' ? this.model.encode(tokens, {special: false}) : tokenArray(tokens), seen = {}, before = this.tap_;
        const first = this.pos, end = first + ids.length;
        this.tap(names, ({name, pos, rows}) => {
            const {point, dims} = this.model.hooks.find(h => h.name === name), square = dims.length === 3 && dims[1] === 0 && dims[2] === 0;
            const value = seen[name] ??= {dims: square ? [dims[0], ids.length, end] : dims.map(d => d || ids.length),
                data: new Float32Array(square ? dims[0] * ids.length * end : dims.reduce((all, d) => all * (d || ids.length), 1)).fill(square && point === SCORES ? -Infinity : 0)};
            rows.forEach((row, i) => value.data.set(row, square ? (i * ids.length + pos - first) * end : (pos - first + i) * row.length));
        });
        try {
            this.feed(ids);
        } finally {
            this.tap_ = before;
        }
        return seen;
    }

    // The logits after the last token, a copy; null: nothing has run since the session was made or rewound.
    get logits() {
        const at = this.model.engine.wasm.lab_logits(this.at);
        return at ? this.model.view(Float32Array, at, this.model.info.n_vocab).slice() : null;
    }

    get pos() { return this.model.engine.wasm.lab_pos(this.at); }
    get nCtx() { return this.model.engine.wasm.lab_session_ctx(this.at); }
    get tokens() { return this.model.view(Int32Array, this.model.engine.wasm.lab_held(this.at), this.pos).slice(); }

    rewind(pos) {
        if (!Number.isInteger(pos) || pos < 0 || pos > this.pos)
            throw new Error(`rewind: expected a position of 0 to ${this.pos}, found ${String(pos)}`);
        this.model.engine.worked(this.model.engine.wasm.lab_rewind(this.at, pos));
    }

    // A copy, without the tap.
    fork() {
        return new Session(this.model, this.model.engine.found(this.model.engine.wasm.lab_session_fork(this.at)));
    }

    free() {
        this.model.engine.wasm.lab_session_free(this.held);
        this.held = 0;
    }
}

const SCORES = 10; // MGPT_SCORES: what a query does not see is -Infinity

// Draws as mgpt generate --seed does, draw for draw; sample: the number of the text among those of --samples.
class Sampler {
    constructor({temperature = 0.8, topK = 0, topP = 1, minP = 0, seed = 0, sample = 0, ...others} = {}) {
        for (const name of Object.keys(others))
            throw new Error(`unknown setting ${name}: expected temperature, topK, topP, minP, seed, sample`);
        for (const [name, value] of Object.entries({temperature, topK, topP, minP}))
            if (typeof value !== 'number' || Number.isNaN(value))
                throw new Error(`${name}: expected a number, found ${String(value)}`);
        Object.assign(this, {temperature, topK, topP, minP, seed: BigInt.asUintN(64, BigInt(seed)), sample, counter: 0});
    }

    // The next token of a session, whose logits stay as they are.
    draw(session) {
        const {info, engine: {wasm, worked}} = session.model, at = wasm.lab_logits(session.at);
        if (!at)
            throw new Error('the session has no logits to draw from: feed tokens first');
        const n = info.n_tokens > 0 && info.n_tokens < info.n_vocab ? info.n_tokens : info.n_vocab;
        const seed = wasm.lab_sample_seed(this.seed, BigInt(this.sample));
        return worked(wasm.lab_sample(at, n, this.temperature, this.topK, this.topP, this.minP, seed, this.counter++));
    }
}
