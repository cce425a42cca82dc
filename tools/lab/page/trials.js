/* What the experiment room asks of the engine: sweeps of mgpt patch, steering vectors, and drafts, which go
 * on with a lane's text and leave the lane as it is. Long work is done in slices, so the page stays alive.
 */
const Trials = (() => {
    const SLICE = 12; // milliseconds of work between two looks at the page
    const now = () => performance.now(), channel = typeof MessageChannel === 'undefined' ? null : new MessageChannel(), waiting = [];
    if (channel) channel.port1.onmessage = () => waiting.shift()();

    // A turn of the event loop; a timer would wait 4 ms.
    const pause = () => new Promise((done) => { waiting.push(done); channel.port2.postMessage(0); });

    // Calls use(pointers) with the module's copies of arrays and texts.
    const lend = (things, use) => Engine.module.lend(things.map((t) => (typeof t === 'string' ? new TextEncoder().encode(`${t}\0`) : t)), use);

    // Messages of the command name its options.
    function worked(n) {
        try {
            return Engine.module.worked(n);
        } catch (e) {
            throw new Error(e.message.replace(/^--(\w+):? ?/, (_, name) => `${{ over: 'site', metric: 'measure' }[name] || name}: `));
        }
    }

    // ---- sweeps ----

    let sweep = null; // {key, n, layers, heads, left, total}: the one that has begun

    const keyOf = (w) => JSON.stringify([w.over, w.mode, Array.from(w.clean), w.corrupt && Array.from(w.corrupt)]);

    // Runs both prompts. `corrupt` is changed, or without it `clean`. {left, total, layers, heads (0: the
    // point has none), n}. Whatever patch was in force ends.
    function begin(what) {
        const { clean, corrupt, over, mode, metric } = what, empty = new Int32Array(0);
        sweep = null;
        Engine.module.forgetEdits();
        const total = lend([Int32Array.from(clean), corrupt ? Int32Array.from(corrupt) : empty, over, mode, metric], ([a, b, ...words]) =>
            worked(Engine.module.wasm.lab_patch(a, clean.length, b, corrupt ? corrupt.length : 0, ...words)));
        sweep = { key: keyOf(what), n: clean.length, layers: Engine.info.layers, heads: Engine.module.wasm.lab_patch_heads(), total, left: total };
        return sweep;
    }

    function step(rows) {
        sweep.left = worked(Engine.module.wasm.lab_patch_step(rows));
        return sweep.left;
    }

    // The metric at each site, [layer][head][position]; NaN: not known yet.
    function values() {
        const { layers, heads, n } = sweep, at = Engine.module.found(Engine.module.wasm.lab_patch_values());
        return new Float64Array(Engine.module.wasm.memory.buffer, at, layers * (heads || 1) * n).slice();
    }

    const left = () => sweep.left;

    // The metric of a prompt as it is: 'clean' or 'corrupt'.
    const metricOf = (run) => Engine.module.wasm.lab_patch_metric(run === 'corrupt' ? 1 : 0);

    // Runs all that is left. show() is called after each slice; false from it stops. True: all is known.
    async function run(show) {
        const mine = sweep;
        for (let rows = 16; mine === sweep && mine.left > 0;) {
            const from = now();
            step(rows);
            if (now() - from < SLICE && rows < 512) rows *= 2;
            else if (now() - from > 4 * SLICE && rows > 1) rows >>= 1;
            if (show() === false) return false;
            await pause();
        }
        return mine === sweep;
    }

    // ---- changes in force ----

    const modeOf = (edit) => (typeof edit.scale === 'number' ? `scale:${edit.scale}` : edit.scale);

    // From Engine.run: lane 0 makes this change from now on.
    function apply(edit) {
        if (edit.kind === 'steer') return worked(Engine.module.wasm.lab_steer(edit.scale));
        const what = { clean: edit.clean, corrupt: edit.corrupt, over: edit.over, mode: modeOf(edit), metric: 'kl' };
        if (!sweep || sweep.key !== keyOf(what)) begin(what);
        if (edit.layer >= sweep.layers || edit.head >= (sweep.heads || 1) || edit.pos >= sweep.n) throw new Error('the sweep has no such site');
        return worked(Engine.module.wasm.lab_patch_apply((edit.layer * (sweep.heads || 1) + edit.head) * sweep.n + edit.pos));
    }

    // The vectors that {kind: 'steer', scale} adds, from the bytes of a file. layer: of an .npy of one row.
    const steerRead = (bytes, layer = -1) => {
        lend([bytes], ([at]) => worked(Engine.module.wasm.lab_steer_read(at, bytes.length, layer)));
        Engine.module.forgetEdits();
    };

    // An .npy of one row.
    function npyOf(row) {
        const head = `{'descr': '<f4', 'fortran_order': False, 'shape': (${row.length},), }`.padEnd(117) + '\n';
        const bytes = new Uint8Array(128 + 4 * row.length);
        bytes.set([0x93, 0x4E, 0x55, 0x4D, 0x50, 0x59, 1, 0, 118, 0]);
        bytes.set(new TextEncoder().encode(head), 10);
        row.forEach((v, i) => new DataView(bytes.buffer).setFloat32(128 + 4 * i, v, true));
        return bytes;
    }

    // Logits of what a neuron writes into the residual, through the final norm and the head.
    const neuron = (layer, unit) => Engine.module.floatsAt(Engine.module.wasm.lab_neuron(layer, unit), Engine.info.vocab);

    // ---- drafts ----

    // Goes on after the first `from` tokens of a lane: at most `most` tokens, drawn as `mgpt generate --seed`
    // draws them. show(ids) is called after each slice; false from it stops. Returns the new ids.
    async function write(lane, from, most, sampling, show) {
        const { module, info, draw } = Engine, ids = [];
        worked(module.wasm.lab_draft(lane, from));
        let logits = Engine.logits(from - 1, lane), began = now();
        for (; ids.length < most && from + ids.length < info.context;) {
            ids.push(draw(logits.slice(0, info.choices), { ...sampling, counter: sampling.counter + ids.length }));
            if (Engine.piece(ids[ids.length - 1]).end || ids.length === most || from + ids.length === info.context) break;
            logits = module.floatsAt(module.wasm.lab_draft_step(lane, ids[ids.length - 1]), info.vocab);
            if (now() - began < SLICE) continue;
            await pause(); // there may be another draft by now
            if (show(ids) === false) break;
            began = now();
        }
        return ids;
    }

    // The same in lane 0 itself, for the text that is shown: App.set then finds these tokens computed, in the
    // run without changes, too. Returns all ids.
    async function extend(ids, edits, most, sampling, show) {
        const all = Array.from(ids), end = Math.min(Engine.info.context, ids.length + most);
        for (let began = now(); all.length < end;) {
            all.push(Engine.sample(all.length - 1, { ...sampling, counter: sampling.counter + all.length - ids.length }));
            Engine.run(all, edits, 0);
            if (Engine.piece(all[all.length - 1]).end) break;
            if (now() - began < SLICE) continue;
            if (edits.length) Engine.run(all, [], 1);
            await pause(); // the page may have changed lane 0 meanwhile
            if (show(all) === false) break;
            began = now();
        }
        return all;
    }

    // ---- many texts ----

    // Texts that have ended since number `at` of the module's numbers. drawn: with the token that ends it.
    function textsFrom(at, room) {
        const { wasm } = Engine.module, size = wasm.lab_many_size(), numbers = new Int32Array(wasm.memory.buffer, wasm.lab_many_texts() >>> 0, size), texts = [];
        for (let i = at; i < size; i += 2 + numbers[i + 1]) texts.push({ times: numbers[i], drawn: Math.min(room, numbers[i + 1] + 1), ids: numbers.slice(i + 2, i + 2 + numbers[i + 1]) });
        return { texts, size };
    }

    // Goes on n times after the first `from` tokens of lane 0, as `mgpt generate --samples n` does. show(texts, left) gets the
    // texts that have ended since the last call, [{times, drawn, ids}], after each slice; false from it stops.
    async function many(n, from, most, { temperature, topK, topP, seed }, show) {
        const { wasm } = Engine.module, { info } = Engine, room = Math.min(most, info.context - from);
        let at = 0, left = worked(wasm.lab_many(from, n, room, info.choices, temperature, topK, topP, 0, BigInt.asUintN(64, BigInt(seed))));
        for (let passes = 1; ; await pause()) { // the page may have another text after a pause
            for (let last = now(), end = last + SLICE; left > 0 && last < end;) {
                left = worked(wasm.lab_many_step(passes));
                const spent = now() - last;
                if (spent < SLICE / 8) passes *= 2;
                else if (spent > SLICE / 2 && passes > 1) passes >>= 1;
                last += spent;
            }
            const { texts, size } = textsFrom(at, room);
            at = size;
            if (show(texts, left) === false || left === 0) return;
        }
    }

    return { many, extend, kinds: ['steer', 'patch'], begin, run, left, values, metricOf, apply, steerRead, npyOf, neuron, write };
})();
