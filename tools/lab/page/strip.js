'use strict';
// The text: tokens coloured by how much the model was surprised, typing, picking from the
// vocabulary, steps.
const Strip = (() => {
    const { h, fill, button } = Dom;
    const SHOWN = 200; // tokens listed in the picker
    const FEW = 64; // tokens that are seen at once: there is nothing to search
    const NO = 'This page holds a recorded run: nothing is computed here.';

    let line, input, picker, undoButton, where, as, asked = '';

    const refuse = (why) => {
        App.say(why, true);
        return false;
    };

    // The tokens of a text; none if it cannot be read.
    function idsOf(text) {
        try {
            return Engine.encode(text);
        } catch {
            return [];
        }
    }

    const known = (c) => idsOf(c).length > 0;

    // The token that a character is, or -1.
    const idOf = (c) => (idsOf(c).length === 1 ? idsOf(c)[0] : -1);

    // The tokens of a typed text, and what is said of it: a character that the vocabulary lacks is read as its
    // small letter, without its accent if need be. A text with others is refused.
    function read(text) {
        const front = (list) => Engine.info.front.concat(Array.from(list));
        try {
            return { ids: front(Engine.encode(text)), note: '' };
        } catch (e) {
            const lower = (c) => [c, c.toLowerCase(), c.toLowerCase().normalize('NFD').replace(/\p{M}/gu, '')].find(known) ?? c, as = Array.from(text, lower).join('');
            if (as === text) throw e;
            const lacking = [...new Set(Array.from(text).filter((c) => lower(c) !== c))].map((c) => `“${c}”`).join(', ');
            return { ids: front(Engine.encode(as)), note: `This model does not know ${lacking}: it reads “${as}”.` };
        }
    }

    // Runs a text; false: it was refused, and the reason is shown.
    // was: the text to compare it with.
    function type(text, was = []) {
        if (!Engine.live) return refuse(NO);
        if (!Engine.canEncode) return refuse('This model’s text cannot be encoded here: pick tokens instead.');
        try {
            const { ids, note } = read(text), same = was.join() === Array.from(ids).join(), done = App.set({ ids, was: same ? [] : was, prompt: ids.length });
            if (done && note) App.say(note);
            return done;
        } catch (e) {
            return refuse(e.message);
        }
    }

    // ---- all of it ----

    function update(state) {
        line.update(state);
        as.set(line.isLong() ? 'text' : 'tokens');
        undoButton.disabled = !App.canUndo;
        fill(where, 'After ', h('b', null, Token.at(state.query)), `; context ${state.ids.length} of ${Engine.info.context}`);
    }

    const step = (by) => App.set({ step: Math.max(1, Math.min(App.state.ids.length, App.state.step + by)) });

    // ---- changing tokens ----

    const replaced = (pos, ids, remove) => {
        const next = Array.from(App.state.ids);
        next.splice(pos, remove, ...ids);
        return next;
    };

    function change(ids, query) {
        if (!App.edit(ids)) return;
        App.set({ query: Math.min(query, ids.length - 1) });
    }

    // Another token in place of the chosen one; the text that it was before stays for comparison.
    function replace(id) {
        const { ids, was, query, edits: { length }, view } = App.state, from = was.length && was.every((old, j) => j === query || old === ids[j]) ? was : ids, next = replaced(query, [id], 1);
        if (App.set({ ids: next, was: from[query] === id || length ? [] : from, prompt: next.length }) && view !== 'home') App.set({ query });
    }

    // What the buttons do with the chosen token, and which token is chosen then.
    const edits = {
        replace,
        insert: (id) => change(replaced(App.state.query + 1, [id], 0), App.state.query + 1),
        append: (id) => change(replaced(App.state.ids.length, [id], 0), App.state.ids.length),
        remove: () => change(replaced(App.state.query, [], 1), Math.max(0, App.state.query - 1)),
    };

    // A dialog with the vocabulary, below the element `near` if there is one; done(id) gets what was picked.
    function openPicker(title, done, near = null) {
        const list = h('div.vocabulary', { role: 'listbox', 'aria-label': 'vocabulary' });
        const pick = (id) => {
            picker.close();
            done(id);
        };
        const search = h('input', { type: 'search', placeholder: 'text or id', 'aria-label': 'search the vocabulary', on: { input: () => show() } });
        const show = () => {
            const found = [], want = search.value.replace(/ /g, '␣').toLowerCase();
            for (let id = 0; id < Engine.info.choices && found.length < SHOWN; id++)
                if (!want || String(id) === want || Token.name(id).toLowerCase().includes(want)) found.push(id);
            fill(list, found.map((id) => button([Token.el(id), h('small', null, id)], () => pick(id),
                { role: 'option', kind: '.chip' })));
            if (!found.length) fill(list, h('p', null, `No token of ${Numbers.count(Engine.info.choices)} has “${search.value}” in it.`));
            if (found.length === SHOWN) list.append(h('p', null, `The first ${SHOWN}; type to find others.`));
        };
        search.addEventListener('keydown', (e) => {
            if (e.key === 'Enter' && list.querySelector('button')) list.querySelector('button').click();
            if (e.key === 'ArrowDown') list.querySelector('button')?.focus();
        });
        list.addEventListener('keydown', (e) => {
            const to = { ArrowDown: 'nextElementSibling', ArrowRight: 'nextElementSibling', ArrowUp:
                'previousElementSibling', ArrowLeft: 'previousElementSibling' }[e.key];
            if (to && e.target[to]) e.target[to].focus();
        });
        const few = Engine.info.choices <= FEW, at = near && near.getBoundingClientRect();
        fill(picker, h('h2', null, title), !few && search, list, button('Cancel', () => picker.close()));
        picker.classList.toggle('few', few);
        for (const [side, v] of [['left', at && Math.max(8, Math.min(innerWidth - 320, at.left))], ['top', at && at.bottom + 8], ['margin', at && 0]]) picker.style.setProperty(side, at ? `${v}px` : '');
        show();
        picker.showModal();
        (few ? list.querySelector('button') : search).focus();
    }

    // Opens the picker for a change of the text; a recorded page cannot change it.
    function pickToken(title, done, near) {
        if (Engine.live) openPicker(title, done, near);
        else App.say(NO, true);
    }

    const pickers = {
        any: openPicker,
        replace: (near) => pickToken(HomeText.inUnits(`Another token in place of “${HomeText.label(App.state.ids[App.state.query])}”`), edits.replace, near),
        insert: () => pickToken(`A token after position ${App.state.query}`, edits.insert),
        append: () => pickToken('A token at the end', edits.append),
    };

    function mount(into) {
        input = h('input#text', { type: 'text', 'aria-label': 'text', placeholder: 'type a text, Enter runs it',
            autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' });
        const form = h('form.row', { on: { submit: (e) => { e.preventDefault(); type(input.value); } } },
            h('label.grow', null, h('span', null, 'Text'), input), h('button', { type: 'submit' }, 'Run'));
        line = TextLine.make(into, { paint: () => 'surprisal', heads: () => [], choose: (pos) => App.set({ query: pos, step: Math.max(App.state.step, pos + 1) }), isLong: () => (asked ? asked === 'text' : undefined),
            below: (state, a, s) => (Number.isFinite(s) ? Numbers.fixed(s, 2) : '') });
        as = Dom.choice('the text as', [['text', 'text'], ['tokens', 'tokens']], 'tokens', (v) => {
            asked = v;
            update(App.state);
        });
        picker = h('dialog#picker', { 'aria-label': 'vocabulary' });
        undoButton = button('Undo', App.back, { id: 'undo' });
        where = h('span#where');
        const buttons = h('div.row.live', null, form, button('Replace', () => pickers.replace(), { id: 'replace' }),
            button('Insert', pickers.insert, { id: 'insert' }), button('Append', pickers.append, { id: 'append' }),
            button('Delete', edits.remove, { id: 'delete' }), undoButton);
        into.append(buttons, line.run, h('div.row.steps', null, as.el, where));
        document.body.append(picker); // for the picture, too, which hides this strip
    }

    return { NO, mount, update, step, read, idsOf, idOf, type, edits, pickers, focusText: () => input.focus() };
})();
