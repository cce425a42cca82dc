/* The engine of the page, live (the module with a model in it) or recorded (a trace). loader.js starts the module, whose
 * exports are described in tools/lab/module.h.
 *
 * What comes back is a copy, so it stays valid after the next call. Every failure is an Error with one
 * line.
 */
const Engine = (() => {
    let about = null; // what the page says about the model
    let compiled = null; // the module; null: the page has none
    let wasm = null, lend, worked, found, floatsAt; // its exports, and what loader.js has to call them
    let trace = null; // a recorded page: Float32Array of all values
    const lanes = [0, 1].map(() => ({ids: new Int32Array(0), kept: new Map(), edits: null}));
    // For trials.js: what loader.js gives, and the end of what lane 0 is thought to do.
    const module = {forgetEdits() { lanes[0].edits = null; }};

    // ---- opening ----

    async function openModule() {
        const bytes = await carried('mgpt-module');
        if (!bytes)
            return;
        compiled = await Loader.compile(bytes);
        await instantiate();
        wasm._initialize?.();
    }

    async function instantiate() {
        Object.assign(module, await Loader.instantiate(compiled));
        ({wasm, lend, worked, found, floatsAt} = module);
    }

    // All that an engine elsewhere needs to go on as this one would, but for splitting text.
    const copy = ({info, hooks, ends, live} = about) =>
        ({about: {info, hooks, ends, live}, compiled, memory: wasm.memory.buffer.slice(0), ids: lanes.map(lane => lane.ids)});

    // That engine. Between two calls all that the module knows is in its memory.
    async function adopt(from) {
        ({about, compiled} = from);
        from.ids.forEach((ids, i) => { lanes[i].ids = ids; });
        Object.assign(api, {live: about.live, info: about.info, hooks: about.hooks});
        await instantiate();
        wasm.memory.grow((from.memory.byteLength - wasm.memory.buffer.byteLength) / 65536);
        new Uint8Array(wasm.memory.buffer).set(new Uint8Array(from.memory));
    }

    function openBytes(bytes) {
        const at = found(wasm.lab_room(bytes.length));
        new Uint8Array(wasm.memory.buffer, at, bytes.length).set(bytes);
        worked(wasm.lab_open(at, bytes.length));
    }

    async function openModel(tell) {
        const bytes = await carried('mgpt-model', tell);
        openBytes(bytes);
        if (about.story)
            await openSteps(bytes);
    }

    // ---- steps of training (story.h) ----

    const files = [], forget = []; // of the steps; what others do when another step is opened
    let opened = 0; // how many steps before the last

    async function openSteps(last) {
        const bytes = await carried('mgpt-steps'), {steps} = about.story;
        files[steps.length - 1] = last;
        for (let k = steps.length - 2, at = 0; k >= 0; k--) {
            const after = files[k + 1], file = bytes.slice(at, at += steps[k].bytes);
            files[k] = file.length === after.length ? file.map((b, i) => b ^ after[i]) : file;
        }
    }

    // From now on the model is that of `ago` steps before the last; nothing has run.
    function select(ago) {
        if (ago === opened)
            return;
        opened = ago;
        wasm.lab_close();
        openBytes(files[files.length - 1 - ago]);
        for (const lane of lanes)
            Object.assign(lane, {ids: new Int32Array(0), kept: new Map(), edits: null});
        forget.forEach(fn => fn());
    }

    async function openTrace(tell) {
        const bytes = await carried('mgpt-trace', tell);
        trace = new Float32Array(bytes.buffer, 0, bytes.length / 4);
        for (const lane of lanes)
            lane.ids = Int32Array.from(about.tokens);
    }

    // Starts the engine. Calls tell(share done) if that takes a while.
    async function start(tell) {
        const bytes = await carried('mgpt-about');
        if (!bytes)
            throw new Error('this page carries no model');
        about = JSON.parse(new TextDecoder().decode(bytes));
        Object.assign(api, {live: about.live, reason: about.reason, info: about.info, story: about.story || null, hooks: about.hooks, tensors: about.tensors,
            prompt: Int32Array.from(about.tokens), canEncode: about.live && about.info.tokenizer !== 'none'});
        await openModule();
        await (about.live ? openModel(tell) : openTrace(tell));
    }

    // ---- text ----

    function piece(id) {
        if (!(id >= 0 && id < about.pieces.length))
            throw new Error(`token ${id}: the model has ids 0 to ${about.pieces.length - 1}`);
        const bytes = Uint8Array.from(about.bytes[id], c => c.charCodeAt(0));
        const text = about.pieces[id] === '(none)' && !bytes.length ? `#${id}` : about.pieces[id]; // a model without vocabulary
        return {text, bytes, end: isEnd(id)};
    }

    const isEnd = id => about.ends.includes(id);

    function encode(text) {
        if (!about.live)
            throw new Error('this page holds a recorded run: it cannot encode text');
        if (!api.canEncode)
            throw new Error('text cannot be encoded here: choose tokens from the vocabulary');
        const bytes = new TextEncoder().encode(about.info.nfc ? text.normalize('NFC') : text);
        const n = lend([bytes], ([at]) => worked(wasm.lab_encode(at, bytes.length)));
        return n === 0 ? new Int32Array(0)
                       : new Int32Array(wasm.memory.buffer, wasm.lab_tokens() >>> 0, n).slice();
    }

    // ---- running ----

    function setEdits(edits) {
        wasm.lab_edits_clear();
        for (const edit of edits) {
            const mean = edit.scale === 'mean', head = edit.kind === 'mlp' ? -1 : edit.head;
            if (Trials.kinds.includes(edit.kind))
                Trials.apply(edit);
            else
                worked(wasm.lab_edit(edit.layer, head, mean ? 0 : edit.scale, mean ? 1 : 0));
        }
    }

    function checkIds(ids) {
        if (ids.length > about.info.context)
            throw new Error(`${ids.length} tokens do not fit: the context is ${about.info.context} positions.`);
        const bad = ids.find(id => !(Number.isInteger(id) && id >= 0 && id < about.info.vocab));
        if (bad !== undefined)
            throw new Error(`There is no token ${bad}: ids are 0 to ${about.info.vocab - 1}.`);
    }

    // A recorded page can show the beginning of what was recorded.
    function run(tokens, edits = [], lane = 0) {
        const ids = Int32Array.from(tokens), key = JSON.stringify(edits);
        checkIds(Array.from(tokens));
        if (lane === 1 && edits.length > 0)
            throw new Error('lane 1 is the run without edits');
        lanes[lane].kept.clear();
        if (!about.live && (edits.length > 0 || ids.some((id, i) => id !== about.tokens[i])))
            throw new Error('this page holds a recorded run: nothing is computed here');
        if (!about.live) {
            lanes[lane].ids = ids;
            return;
        }
        if (edits.some(edit => edit.scale === 'mean'))
            run(tokens, [], 1); // means are those of the run without edits, which lane 1 then holds
        if (lane === 0 && key !== lanes[0].edits) {
            lanes[0].edits = null;
            setEdits(edits);
            lanes[0].edits = key;
        }
        lanes[lane].ids = new Int32Array(0);
        lend([ids], ([at]) => worked(wasm.lab_run(lane, at, ids.length)));
        lanes[lane].ids = ids;
    }

    // ---- values ----

    const SCORES = 10, WEIGHTS = 11; // of mgpt_point

    // The queries' rows, each as long as it has keys, as a square; `hidden` fills the future.
    function squared(rows, heads, n, hidden) {
        const data = new Float32Array(heads * n * n).fill(hidden);
        for (let pos = 0, from = 0; pos < n; pos++)
            for (let head = 0; head < heads; head++, from += pos + 1)
                data.set(rows.subarray(from, from + pos + 1), (head * n + pos) * n);
        return data;
    }

    // The first n values that lane has of a hook, or of attention those of the first n queries.
    function rowsOf(hook, lane, count) {
        if (about.live)
            return floatsAt(wasm.lab_value(lane, hook.point, Math.max(hook.layer, 0)), count);
        const {offset} = about.trace[hook.name];
        return trace.slice(offset, offset + count);
    }

    function read(hook, lane, n) {
        if (hook.point !== SCORES && hook.point !== WEIGHTS)
            return rowsOf(hook, lane, hook.dims.reduce((all, d) => all * (d || n), 1));
        const heads = hook.dims[0], rows = rowsOf(hook, lane, heads * n * (n + 1) / 2);
        return squared(rows, heads, n, hook.point === SCORES ? -Infinity : 0);
    }

    function value(name, lane = 0) {
        const {ids, kept} = lanes[lane], hook = about.hooks.find(h => h.name === name);
        if (!hook)
            throw new Error(`the model has no value called ${name}`);
        if (ids.length === 0)
            throw new Error('nothing has run');
        if (!kept.has(name))
            kept.set(name, {dims: hook.dims.map(d => d || ids.length), data: read(hook, lane, ids.length)});
        return kept.get(name);
    }

    function checkPos(pos, lane) {
        if (!(pos >= 0 && pos < lanes[lane].ids.length))
            throw new Error(`position ${pos}: the run has ${lanes[lane].ids.length} tokens`);
    }

    function logits(pos, lane = 0) {
        const n = about.info.vocab;
        checkPos(pos, lane);
        return value('logits', lane).data.subarray(pos * n, (pos + 1) * n);
    }

    // The logits of what may be drawn: a row may be longer than the list of tokens.
    const choices = (pos, lane = 0) => logits(pos, lane).subarray(0, about.info.choices);

    // Rows [first, first + n) of a tensor of the file, as stored. A recorded page has no weights.
    function weights(name, first, n) {
        const tensor = about.tensors[name];
        if (!tensor || !about.live)
            throw new Error(tensor ? 'this page holds no weights' : `the model has no tensor ${name}`);
        const length = tensor[1], bytes = new TextEncoder().encode(`${name}\0`);
        return lend([bytes], ([at]) => floatsAt(wasm.lab_weights(at, first * length, n * length), n * length));
    }

    // The residuals in order: what the first layer begins with, then after each half layer.
    function residuals() {
        return about.hooks.filter(h => /resid_(mid|post)$/.test(h.name) ||
            (h.layer === 0 && h.name.endsWith('resid_pre')));
    }

    // [{name, logits, logsum}]: logsum is log(sum(exp(logits))) over all that may be drawn. A
    // recorded page has the likeliest tokens only: all others are -Infinity there, as if they were
    // impossible.
    function lens(lane, pos) {
        checkPos(pos, lane);
        return residuals().map((hook, i) => {
            if (about.live) {
                const all = floatsAt(wasm.lab_lens(lane, hook.point, hook.layer, pos), about.info.vocab).subarray(0, about.info.choices);
                return {name: hook.name, logits: all, logsum: Numbers.logSum(all)};
            }
            const all = new Float32Array(about.info.choices).fill(-Infinity), {ids, values, logsum} = about.lens[pos][i];
            ids.forEach((id, j) => { all[id] = values[j]; });
            return {name: hook.name, logits: all, logsum};
        });
    }

    function partsOf(lane, pos, token) {
        if (about.live) {
            const {layers, heads} = about.info, at = found(wasm.lab_dla(lane, pos, token));
            return new Float64Array(wasm.memory.buffer, at, 5 + layers * (heads + 1)).slice();
        }
        const recorded = about.dla[pos].find(d => d.token === token);
        if (!recorded)
            throw new Error('this page holds a recorded run: only the likeliest and the true next ' +
                'token are taken apart in it');
        return recorded.parts;
    }

    // [{name, value}] whose sum is the logit (before a cap): embed, pos_embed, biases, rounding,
    // L0H0, mlp0. What is inside a layer has a place, `at`: its row and its column, the MLP's being the last; heads
    // that a layer lacks are left out.
    function dla(lane, pos, token) {
        checkPos(pos, lane);
        const {info: {layers, heads}, hooks} = about, parts = partsOf(lane, pos, token);
        const list = ['embed', 'pos_embed', 'biases', 'rounding']
            .map((name, i) => ({name, value: parts[1 + i]}));
        for (let layer = 0, at = 5; layer < layers; layer++) {
            const own = hooks.find(x => x.name === `blocks.${layer}.attn.hook_q`).dims[1];
            for (let head = 0; head < own; head++)
                list.push({name: `L${layer}H${head}`, at: [layer, head], value: parts[at + head]});
            list.push({name: `mlp${layer}`, at: [layer, heads], value: parts[at + heads]});
            at += heads + 1;
        }
        return list;
    }

    // ---- choosing ----

    function needModule() {
        if (!wasm)
            throw new Error('this page was written without the engine: nothing is computed here');
    }

    // Draw number `counter` (from 0) of mgpt generate --seed; seed: a number, a BigInt or its
    // digits.
    function sample(pos, options = {}, lane = 0) {
        needModule();
        return draw(choices(pos, lane), options);
    }

    function draw(choices, {temperature = 0.8, topK = 0, topP = 1, minP = 0, seed = 0, counter = 0}) {
        return lend([choices], ([at]) => worked(wasm.lab_sample(at, choices.length, temperature, topK,
            topP, minP, BigInt.asUintN(64, BigInt(seed)), counter)));
    }

    // ---- weights multiplied out (tools/engine/circuit.h) ----

    const CIRCUITS = ['qk', 'places', 'ov', 'direct', 'fires', 'promotes'], ORDERED = ['qk', 'ov', 'direct'];

    // {rows, cols, data, along}: along[i] is where token ids[i] is along the table's own direction.
    function circuit(kind, layer, index, ids) {
        needModule();
        const n = lend([Int32Array.from(ids)], ([at]) => worked(wasm.lab_circuit(CIRCUITS.indexOf(kind), layer, index, at, ids.length)));
        const rows = kind === 'promotes' ? 1 : kind === 'fires' ? n : Math.sqrt(n), data = floatsAt(wasm.lab_circuit_cells(), n);
        const along = ORDERED.includes(kind) ? new Float64Array(wasm.memory.buffer, found(wasm.lab_circuit_order(kind === 'qk' ? 1 : 0)), rows).slice() : null;
        return {rows, cols: n / rows, data, along};
    }

    const api = {start, copy, adopt, module, draw, isEnd, select, forget, circuit, story: null, live: false, reason: '', info: null, hooks: [], tensors: {},
        prompt: new Int32Array(0),
        canEncode: false, piece, encode, checkIds, run, residuals, value, weights, logits, choices, lens, dla, sample, ids: lane => lanes[lane].ids};
    return api;
})();
