/* What the experiment room asks of the engine: sweeps of mgpt patch, steering vectors, and drafts, which go
 * on with a lane's text and leave the lane as it is. Long work is done by Work.
 */
const Trials = (() => {
    const now = () => performance.now(), ALL = 50; // milliseconds in which a thousand names are done

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
    Engine.forget.push(() => { sweep = null; });

    const keyOf = (w) => JSON.stringify([w.over, w.mode, Array.from(w.clean), w.corrupt && Array.from(w.corrupt)]);

    // Runs both prompts. `corrupt` is changed, or without it `clean`. {left, total, layers, heads (0: the point has none), n,
    // values: of each site, [layer][head][position]; NaN: not known yet}. Whatever patch was in force ends.
    function begin(what) {
        const { clean, corrupt, over, mode, metric } = what, empty = new Int32Array(0);
        sweep = null;
        Engine.module.forgetEdits();
        const total = lend([Int32Array.from(clean), corrupt ? Int32Array.from(corrupt) : empty, over, mode, metric], ([a, b, ...words]) =>
            worked(Engine.module.wasm.lab_patch(a, clean.length, b, corrupt ? corrupt.length : 0, ...words)));
        const n = clean.length, { layers } = Engine.info, heads = Engine.module.wasm.lab_patch_heads();
        sweep = { key: keyOf(what), n, layers, heads, total, left: total, values: sites(layers * (heads || 1) * n) };
        return sweep;
    }

    const sites = (count) => new Float64Array(Engine.module.wasm.memory.buffer, Engine.module.found(Engine.module.wasm.lab_patch_values()), count).slice();

    // The metric of a prompt as it is: 'clean' or 'corrupt'.
    const metricOf = (run) => Engine.module.wasm.lab_patch_metric(run === 'corrupt' ? 1 : 0);

    // state: {left, rows, count, values}.
    Work.slices.sweep = (state, ms) => {
        for (let last = now(), end = last + ms; state.left > 0 && last < end;) {
            state.left = worked(Engine.module.wasm.lab_patch_step(state.rows));
            const spent = now() - last;
            if (spent < ms && state.rows < 512) state.rows *= 2;
            else if (spent > 4 * ms && state.rows > 1) state.rows >>= 1;
            last += spent;
        }
        state.values = sites(state.count);
        state.done = state.left === 0;
    };

    // Runs all that is left. show() is called after each slice; false from it stops. True: all is known.
    async function run(show) {
        const mine = sweep;
        await Work.run('sweep', { left: mine.left, rows: 16, count: mine.values.length }, ({ left, values }) => {
            if (mine !== sweep) return false;
            Object.assign(mine, { left, values });
            return show();
        });
        return mine === sweep && mine.left === 0;
    }

    // ---- changes in force ----

    // From Engine.run: lane 0 makes this change from now on.
    function apply(edit) {
        if (edit.kind === 'steer') return worked(Engine.module.wasm.lab_steer(edit.scale));
        const what = { clean: edit.clean, corrupt: edit.corrupt, over: edit.over, mode: typeof edit.scale === 'number' ? `scale:${edit.scale}` : edit.scale, metric: 'kl' };
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
    const neuron = (layer, unit) => Engine.module.floatsAt(Engine.module.wasm.lab_neuron(layer, unit), Engine.info.vocab).subarray(0, Engine.info.choices);

    // ---- drafts ----

    // state: {lane, from, most, sampling, ids, logits}.
    Work.slices.write = (state, ms) => {
        const { module, info, draw, isEnd } = Engine, { lane, from, most, sampling, ids } = state, room = Math.min(most, info.context - from);
        for (const began = now(); !state.done && now() - began < ms;) {
            ids.push(draw(state.logits.subarray(0, info.choices), { ...sampling, counter: sampling.counter + ids.length }));
            const id = ids[ids.length - 1];
            state.done = isEnd(id) || ids.length >= room;
            if (!state.done) state.logits = module.floatsAt(module.wasm.lab_draft_step(lane, id), info.vocab);
        }
    };

    // Goes on after the first `from` tokens of a lane: at most `most` tokens, drawn as `mgpt generate --seed`
    // draws them. show(ids) is called after each slice; false from it stops. Returns the new ids.
    async function write(lane, from, most, sampling, show) {
        worked(Engine.module.wasm.lab_draft(lane, from));
        const state = { lane, from, most, sampling, ids: [], logits: Engine.logits(from - 1, lane), done: from >= Engine.info.context };
        return (await Work.run('write', state, ({ ids }) => show(ids))).ids;
    }

    // Writes on with the text that is shown: as tokens come they are computed in lane 0 and in the run without changes, too,
    // so that App.set has little left to do. Returns all ids.
    async function extend(ids, edits, most, sampling, show) {
        const all = (drawn) => Array.from(ids).concat(drawn);
        return all(await write(0, ids.length, most, sampling, (drawn) => {
            if (show(all(drawn)) === false) return false; // the page may have another text by now
            Engine.run(all(drawn), edits, 0);
            if (edits.length) Engine.run(all(drawn), [], 1);
            return true;
        }));
    }

    // ---- many texts ----

    // Texts that have ended since number `at` of the module's numbers. drawn: with the token that ends it.
    function textsFrom(at, room) {
        const { wasm } = Engine.module, size = wasm.lab_many_size(), numbers = new Int32Array(wasm.memory.buffer, wasm.lab_many_texts() >>> 0, size), texts = [];
        for (let i = at; i < size; i += 2 + numbers[i + 1]) texts.push({ times: numbers[i], drawn: Math.min(room, numbers[i + 1] + 1), ids: numbers.slice(i + 2, i + 2 + numbers[i + 1]) });
        return { texts, at: size };
    }

    // state: {at, left, room, passes, texts: those that have ended in this slice}.
    Work.slices.many = (state, ms) => {
        for (let last = now(), end = last + ms; state.left > 0 && last < end;) {
            state.left = worked(Engine.module.wasm.lab_many_step(state.passes));
            const spent = now() - last;
            if (spent < ms / 8) state.passes *= 2;
            else if (spent > ms / 2 && state.passes > 1) state.passes >>= 1;
            last += spent;
        }
        Object.assign(state, textsFrom(state.at, state.room));
        state.done = state.left === 0;
    };

    // Goes on n times after the first `from` tokens of lane 0, as `mgpt generate --samples n` does. show(texts, left) gets the
    // texts that have ended since the last call, [{times, drawn, ids}], after each slice; false from it stops.
    async function many(n, from, most, { temperature, topK, topP, seed }, show) {
        const { info, module } = Engine, room = Math.min(most, info.context - from);
        const left = worked(module.wasm.lab_many(from, n, room, info.choices, temperature, topK, topP, 0, BigInt.asUintN(64, BigInt(seed))));
        await Work.run('many', { at: 0, left, room, passes: 1 }, (state) => show(state.texts.splice(0), state.left), ALL);
    }

    return { many, extend, kinds: ['steer', 'patch'], begin, run, metricOf, apply, steerRead, npyOf, neuron, write };
})();
