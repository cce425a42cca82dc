'use strict';
// The text above the picture: tokens as they are read, with surprisal or attention as colour, arcs
// from the chosen one to those that it looks at, and the likeliest next ones, which a click appends.
const HomeText = (() => {
    const { h, fill, button, choice } = Dom;
    const NEXT = 5;

    let root, line, run, arcsBefore, paint = 'surprisal', painter, picked, headOut, input, writeButton, says, warmth, small = null, every = -1; // every: the head that was chosen before all of them

    const kept = () => Link.panel(App.state.cell);

    // A token as a word: marks for what cannot be seen.
    function label(id) {
        const t = Token.of(id);
        if (id === Engine.info.bos && t.control) return 'start';
        return t.text === '\\n' ? '⏎' : t.text;
    }

    // What the model reads: letters, if all of its tokens are single characters.
    function unit() {
        if (small === null) small = Array.from({ length: Math.min(2000, Engine.info.choices) }, (_, id) => Token.of(id)).every((t) => t.control || [...t.text].length <= 1 || t.text[0] === '\\');
        return small ? 'letter' : 'token';
    }

    // Words about tokens, as words about letters where tokens are letters.
    const inUnits = (text) => (unit() === 'token' ? text : text.replace(/\btoken/g, 'letter').replace(/\bToken/g, 'Letter'));

    function setWriting(on) {
        if (writeButton) writeButton.textContent = on ? 'Stop' : 'Write on';
    }

    // One that may come next, in a sentence.
    const candidate = (id) => (Token.isEnd(id) ? 'the end' : { '⏎': 'a new line', '␣': 'a space' }[label(id)] || `“${label(id)}”`);

    // What a token was before the text was changed; '' if it was the same.
    function was(state, id, j) {
        const from = state.was.length ? HomeChange.former(j) : j;
        return !state.was.length || state.was[from] === id ? '' : from < 0 ? 'new' : `was ${label(state.was[from])}`;
    }

    // The text as it was before a letter was changed, in the colours of what was looked at then.
    function former(state) {
        if (!state.was.length) return null;
        App.recall();
        const all = Array.from(state.was, (id, j) => h('span.tok.former' + (Token.of(id).control ? '.control' : '') + (j === HomeChange.former(state.query) ? '.on' : ''), null, h('span.g', { style: TextLine.style(TextLine.tint(0.9 * TextLine.share(state, j, state.head, 1), state.dark)) }, label(id).replace(/␣/g, '\u00a0')), h('small')));
        return h('span.formers', { role: 'img', 'aria-label': `before: ${Array.from(state.was, label).join(' ')}` }, all, h('span.then', null, '→'));
    }

    function next(state) {
        const p = HomeData.chances(state.query), before = HomeChange.chances(state.query), end = state.query === state.ids.length - 1;
        const all = Numbers.top(p, NEXT).filter((id, i) => !i || p[id] >= 0.005).map((id, i) => {
            const text = Token.isEnd(id) ? 'end' : label(id), percent = `${before ? `${Numbers.share(before[id]).replace(' %', '')} → ` : ''}${Numbers.share(p[id])}`;
            return button([h('span.g', null, text), h('small', null, percent)], () => App.set({ ids: Array.from(state.ids).concat(id), prompt: state.ids.length, cell: kept() }), { disabled: !Engine.live || !end,
                kind: '.tok.alt' + (i ? '' : '.likeliest') + (Token.isEnd(id) ? '.control' : ''), title: end ? `append ${text}` : `${text}, ${percent}` });
        });
        return h('span.nexts', null, button('next', () => App.set({ cell: 'next', walk: 0 }), { kind: '.then.goback', id: 'open-next', title: 'all candidates, drawing, the loss of the text' }), all);
    }

    const heads = () => (every < 0 ? [App.state.head] : Array.from({ length: HomeData.heads(App.state.layer).H }, (_, i) => i));

    function drawFormer(state, room) {
        const at = state.was.length ? HomeChange.former(state.query) : -1;
        if (state.was.length) App.recall();
        Arcs.show(arcsBefore, run, at >= 0 ? [...run.querySelectorAll('.former .g')] : [], at, heads().map((head) => (j) => TextLine.share(state, j, head, 1)), room);
    }

    // `pictured`: what the buttons next to the text save. point(pos): a hand points at a token, or at none.
    function mount(into, pictured, point) {
        root = into;
        line = TextLine.make(root, { paint: () => paint, heads, choose: (query) => App.set({ query, cell: kept() }), was, before: former, after: next, drawn: drawFormer, room: true });
        [run, arcsBefore, says] = [line.run, Arcs.layer(), h('p.says')];
        run.append(arcsBefore, says);
        for (const event of ['pointerover', 'focusin']) run.addEventListener(event, (e) => point(event === 'focusin' && !e.target.matches(':focus-visible') ? -1 : TextLine.under(e)));
        for (const event of ['pointerleave', 'focusout']) run.addEventListener(event, () => point(-1));
        input = h('input', { type: 'text', 'aria-label': 'text', placeholder: 'type your own', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' });
        painter = choice('colour', [['surprisal', 'surprisal'], ['attention', 'attention']], paint, (v) => {
            paint = v;
            update(App.state);
        });
        const n = Engine.info.heads, step = (by) => {
            const own = HomeData.heads(App.state.layer).H;
            App.set({ head: (App.state.head + by + own) % own });
        };
        headOut = h('output', null, '0');
        picked = n <= 6 && HomeData.allHeads().length % n === 0 ? choice('head', Array.from({ length: n }, (_, i) => [i, String(i)]).concat(n > 1 ? [[n, 'all']] : []), 0, (v) => {
            every = v === n ? App.state.head : -1;
            App.set(v === n ? {} : { head: v });
        }) : null;
        warmth = Dom.slider('temperature', { min: 0, max: 2, step: 0.1, value: 1, id: 'warmth', show: (v) => Numbers.fixed(v, 1), on: (temperature) => App.set({ temperature }) });
        const picker = picked ? picked.el : h('span.stepper', null, button('‹', () => step(-1), { 'aria-label': 'head before' }), headOut, button('›', () => step(1), { 'aria-label': 'head after' }));
        writeButton = button('Write on', () => HomeWrite.write(), { id: 'write', title: `the model draws the next ${unit()}, and the next, until its text ends` });
        root.append(run, h('div.ctl', null, h('form.type.live', { on: { submit: (e) => { e.preventDefault(); if (Strip.type(input.value)) App.set({ cell: kept() }); } } }, input, h('button', { type: 'submit' }, 'Run'), button('Compare', () => { if (input.value) Strip.type(input.value, App.state.was.length ? App.state.was : App.state.ids); }, { id: 'compare', title: 'run it and keep the text that is there, to see both' }), writeButton, button('»', () => HomeWrite.all(), { id: 'write-all', 'aria-label': 'write to the end', title: 'write to the end' })),
            h('div', null, h('span.hide', null, 'colour '), painter.el), Engine.info.layers ? h('div', null, h('span.hide', null, 'arcs: '), 'head ', picker) : null, h('div', null, warmth.el, Share.row(pictured))));
    }

    function update(state) {
        fill(says, App.ofLayer('attn.hook_pattern') ? `Under each ${unit()}: how much head ${state.head} of “${label(state.ids[state.query])}” looks at it. ` : '', 'Right: what may come next.');
        if (every !== state.head) every = -1;
        line.update(state);
        if (picked) picked.set(every < 0 ? state.head : Engine.info.heads);
        root.classList.toggle('every', every >= 0);
        warmth.set(state.temperature);
        headOut.textContent = state.head;
    }

    return { mount, update, label, candidate, unit, inUnits, setWriting, focus: () => input.focus() };
})();
