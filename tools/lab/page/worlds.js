'use strict';
// What the model says as it is and with the changes in force, next to each other: the text with its surprisal,
// its loss, how the model goes on.
const Worlds = (() => {
    const { h, fill, button, choice, card } = Dom;
    const MOST = 48; // tokens written on
    const REST = 120; // milliseconds
    const NAMES = ['With the changes', 'As it is'];

    let columns, stop, status, how, greedy = true, running = 0, shownFor = '';

    function column(lane) {
        const text = h('p.running'), loss = h('p.note'), next = h('p.note');
        return { lane, text, loss, next, more: [], el: h('div.world', null, h('h4', null, NAMES[lane]), text, loss, next) };
    }

    // Shows the text of a lane, and after it what the model would write.
    function showText(c, state) {
        const ids = Array.from(state.ids.slice(0, state.step)), looks = Running.surprisals(ids, c.lane, state.dark);
        Running.show(c.text, ids.concat(c.more), (i) => (i < ids.length ? looks(i) : { later: true, title: 'written by the model' }));
        const losses = Numbers.losses(ids, (i) => Engine.logits(i, c.lane)), logits = Engine.choices(state.step - 1, c.lane);
        const p = Numbers.softmax(logits);
        fill(c.loss, losses.length ? ['Loss of this text: ', h('b', null, Numbers.fixed(losses.reduce((a, l) => a + l.nll, 0) / losses.length, 4)), ' nats a token'] : 'A loss needs two tokens.');
        fill(c.next, 'Next: ', Numbers.top(logits, 4).map((id) => [h('span.guess', null, Token.el(id), ` ${Numbers.fixed(100 * p[id], 1)} %`), ' ']));
    }

    async function write(c, state, mine) {
        const sampling = { ...Predict.sampling(state), ...(greedy && { temperature: 0 }), seed: state.seed, counter: Math.max(0, state.step - state.prompt) };
        c.more = await Trials.write(c.lane, state.step, MOST, sampling, (ids) => {
            c.more = ids;
            if (mine === running) showText(c, state);
            return mine === running;
        });
        if (mine === running) showText(c, state);
    }

    // Both worlds in order: they share the module.
    async function writeBoth(state, all) {
        const mine = ++running, long = !stop.hidden; // what came before is still being written: a slider that moves rests first
        stop.hidden = false;
        status.textContent = 'Writing …';
        await App.tried(async () => {
            if (long) await new Promise((done) => { setTimeout(done, REST); });
            for (const c of all) if (mine === running) await write(c, state, mine);
        });
        if (mine !== running) return;
        halt(all.length === 2 && all[0].more.join() === all[1].more.join() ? 'Both go on with the same tokens.' : '');
    }

    function halt(text) {
        running++;
        stop.hidden = true;
        status.textContent = text;
    }

    function mount() {
        columns = h('div.worlds');
        status = h('span.note', { 'aria-live': 'polite' });
        stop = button('Stop', () => halt('Stopped.'), { id: 'worlds-stop', hidden: true });
        how = choice('how the text goes on', [['0', 'likeliest tokens'], ['1', 'drawn']], '0', (v) => {
            greedy = v === '0';
            shownFor = '';
            update(App.state);
        });
        return card('Both worlds', 'The text coloured by surprisal, then how the model goes on (grey). Drawn: with the temperature and seed of '
            + `“${Predict.title}” in Look inside, the same dice in both worlds.`, columns, h('div.row', null, how.el, stop, status));
    }

    function update(state) {
        const key = [Array.from(state.ids), state.step, JSON.stringify(state.edits.map(({ clean, corrupt, ...e }) => e)), App.changed, greedy,
            greedy || [state.temperature, state.topK, state.topP, state.seed], state.dark].join();
        if (key === shownFor) return;
        shownFor = key;
        const all = state.edits.length ? [column(1), column(0)] : [column(0)];
        if (!state.edits.length) all[0].el.querySelector('h4').textContent = NAMES[1];
        fill(columns, all.map((c) => c.el));
        all.forEach((c) => showText(c, state));
        writeBoth(state, all);
    }

    return { mount, update };
})();
