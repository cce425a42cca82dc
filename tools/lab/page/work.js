'use strict';
// Long work is done in slices. The first is done by the page; what is left then goes on in a worker, so that the page stays
// alive: a second instance of the module gets a copy of the page's memory, which is all that the engine knows. Where there
// are no workers the page does all slices, and looks at its events between them.
//
// A kind of work is a function slice(state, ms): it works for about ms milliseconds on the module and on `state`, which is
// plain data, and sets state.done in the end.
const Work = (() => {
    const FIRST = 20, HERE = 12, THERE = 50; // milliseconds of a slice: short work never leaves the page
    const onPage = typeof document !== 'undefined', script = onPage && document.currentScript ? document.currentScript.textContent : '';
    const channel = new MessageChannel(), waiting = [], slices = {}, elsewhere = new Set(); // of each worker: ends it if its work is no longer wanted
    let moved = 0;
    channel.port1.onmessage = () => waiting.shift()();

    // A turn of the event loop; a timer would wait 4 ms.
    const pause = () => new Promise((done) => { waiting.push(done); channel.port2.postMessage(0); });

    async function here(kind, state, show) {
        while (!state.done) {
            await pause();
            if (show(state) === false) return state; // before a slice: the page may do something else with the module by now
            slices[kind](state, HERE);
        }
        show(state);
        return state;
    }

    // null: there is no worker to be had.
    function start() {
        if (typeof Worker === 'undefined' || !script) return null;
        const url = URL.createObjectURL(new Blob([script], { type: 'text/javascript' }));
        try {
            return new Worker(url);
        } catch {
            return null;
        } finally {
            URL.revokeObjectURL(url);
        }
    }

    function there(worker, kind, state, show) {
        return new Promise((done, fail) => {
            const end = (how, what) => { worker.terminate(); elsewhere.delete(ask); how(what); };
            const ask = () => (show(last) === false || last.done ? end(done, last) : undefined);
            let last = state;
            elsewhere.add(ask);
            worker.onerror = worker.onmessageerror = (e) => {
                e.preventDefault();
                if (last === state) end(done, here(kind, state, show)); // it never began
                else end(fail, new Error('the worker of the page has ended'));
            };
            worker.onmessage = ({ data }) => {
                if (data.error) return end(fail, new Error(data.error));
                last = data.state;
                return ask();
            };
            const copy = Engine.copy();
            worker.postMessage({ copy, kind, state }, [copy.memory]);
            document.documentElement.dataset.workers = ++moved;
        });
    }

    // Does it all. show(state) is called after each slice; false from it stops. first: milliseconds that the page works
    // before a worker is asked. Returns the last state.
    async function run(kind, state, show, first = FIRST) {
        slices[kind](state, first);
        if (!state.done) for (const ask of elsewhere) ask();
        const worker = state.done ? null : start();
        if (!worker) return here(kind, state, show);
        return show(state) === false ? (worker.terminate(), state) : there(worker, kind, state, show);
    }

    // In the worker.
    async function serve({ data: { copy, kind, state } }) {
        try {
            await Engine.adopt(copy);
            while (!state.done) {
                slices[kind](state, THERE);
                postMessage({ state });
            }
        } catch (e) {
            postMessage({ error: e.message });
        }
    }

    if (!onPage) onmessage = serve;
    return { run, slices, onPage, get moved() { return moved; } };
})();
