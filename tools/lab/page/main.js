'use strict';
// Starts the engine, builds the rooms, and listens to keys, theme and address.
const Main = (() => {
    const { h, fill, button, table } = Dom;
    const ROOMS = [Home, Experiment, Lessons];
    const KEYS = [
        ['← → in the tokens', 'choose a token; Delete takes it out', null],
        ['.  ,', 'one step forward, back', null], ['s', 'sample the next token', () => Predict.drawOne(false)],
        ['g', 'the likeliest next token', () => Predict.drawOne(true)],
        ['h  l', 'head before, after', null], ['u  i', 'layer before, after', null], ['j  k', 'query after, before', null],
        ['w', 'shares, by row, scores', () => App.set({ what: { weights: 'rows', rows: 'scores', scores: 'weights' }[Attention.scaleOf(App.state)] })],
        ['r', 'replace the chosen token', () => Strip.pickers.replace()], ['z', 'undo', () => App.back()],
        ['/', 'type a text', () => (App.state.view === 'home' ? Home : Strip).focusText()], ['1 … 4', 'rooms', null], ['t', 'light, dark, as the system', () => turnTheme()],
        ['n  p', 'next stop or lesson, the one before', null], ['?', 'this list', () => showHelp()],
    ];
    const MOVES = { h: ['head', -1], l: ['head', 1], u: ['layer', -1], i: ['layer', 1], j: ['query', 1], k: ['query', -1] };
    const THEMES = ['auto', 'light', 'dark'];

    const $ = (id) => document.getElementById(id);
    const mounted = new Map();
    let theme = 'auto', beginning = '';

    // ---- theme ----

    function applyTheme() {
        const dark = theme === 'dark' || (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
        document.documentElement.dataset.theme = dark ? 'dark' : 'light';
        $('theme').textContent = `◐ ${theme}`;
        $('theme').setAttribute('aria-label', `theme: ${theme}`);
        App.state.dark = dark;
        Colour.begin(dark);
    }

    function turnTheme() {
        theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
        applyTheme();
        App.tell();
    }

    // ---- rooms ----

    function show(state) {
        const room = ROOMS.find((r) => r.id === state.view) || ROOMS[0];
        if (!mounted.has(room.id)) {
            const root = h('div.room');
            mounted.set(room.id, root);
            $('rooms').append(root);
            room.mount(root);
        }
        for (const [id, root] of mounted) root.hidden = id !== room.id;
        for (const r of [Home, Lessons, Story]) document.documentElement.classList.toggle(`at-${r.id}`, room === r);
        for (const tab of $('tabs').children) {
            const on = tab.dataset.room === room.id;
            tab.setAttribute('aria-selected', on);
            tab.tabIndex = on ? 0 : -1;
            if (on) Dom.center($('tabs'), tab);
        }
        $('rooms').setAttribute('aria-labelledby', `tab-${room.id}`);
        showEdits(state);
        if (room !== Lessons) Lessons.left();
        if (![Home, Lessons, Story].includes(room)) Strip.update(state);
        room.update(state);
    }

    // A change that is in force must be seen in every room.
    function showEdits(state) {
        const el = $('edits'), early = state.view === 'story' ? '' : Story.tag(state);
        el.hidden = !state.edits.length && !early;
        if (early) fill(el, 'This is the model at ', h('span.tag', null, early), ' ', button('The finished model', () => App.set({ ago: 0 }), { kind: '.small' }));
        else if (state.edits.length) fill(el, 'Changed: ', state.edits.map((e) => [h('span.tag', null, Experiment.editName(e)), ' ']),
            button('Clear', () => App.set({ edits: [] }), { kind: '.small' }));
    }

    function onTabKey(e) {
        const by = Dom.arrow(e, { ArrowLeft: -1, ArrowRight: 1 });
        if (!by) return;
        const at = ROOMS.findIndex((r) => r.id === App.state.view), room = ROOMS[(at + by + ROOMS.length) % ROOMS.length];
        App.set({ view: room.id, ...Story.leaving(room.id) });
        $(`tab-${room.id}`).focus();
    }

    // ---- keys ----

    function showHelp() {
        fill($('help'), h('h2', null, 'Keys'), table(null, ['key', 'does'], KEYS.map((k) => [h('kbd', null, k[0]), k[1]])),
            h('h3', null, 'In the picture'), table(null, ['key', 'does'], Home.HELP.map((k) => [h('kbd', null, k[0]), k[1]])),
            h('p', null, 'Arrow keys also move inside every table of numbers, in the grid of heads and in the list of stages.'),
            button('Close', () => $('help').close()));
        $('help').showModal();
    }

    function onKey(e) {
        const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && !['range', 'radio', 'checkbox'].includes(e.target.type);
        if (typing || e.ctrlKey || e.altKey || e.metaKey || document.querySelector('dialog[open]')) return undefined;
        const here = ROOMS.find((r) => r.id === App.state.view);
        if (here.key && here.key(e)) return e.preventDefault();
        const named = KEYS.find((k) => k[0] === e.key && k[2]), move = MOVES[e.key], room = ROOMS[Number(e.key) - 1];
        if (here === Lessons && !room && !['t', '?'].includes(e.key)) return undefined; // the text is not shown there
        if (named) named[2]();
        else if (move) App.set({ [move[0]]: Math.max(0, App.state[move[0]] + move[1]) });
        else if (e.key === '.') Strip.step(1);
        else if (e.key === ',') Strip.step(-1);
        else if (room) App.set({ view: room.id, ...Story.leaving(room.id) });
        else return undefined;
        return e.preventDefault();
    }

    // ---- beginning ----

    function describe() {
        const i = Engine.info, [least, most] = Numbers.range(Array.from({ length: i.layers }, (_, l) => HomeData.heads(l).H)), part = (text) => h('span', null, text), rest = (text) => h('span.rest', null, text);
        fill($('model'), h('b', null, i.name || i.arch), rest(i.arch), part(`${i.layers} ${i.layers === 1 ? 'layer' : 'layers'} of ${least < most ? `${least} to ` : ''}${i.heads} heads`), rest(`width ${i.d_model}`),
            part(`${Numbers.count(i.params)} parameters`), rest(`vocabulary ${Numbers.count(i.vocab)}`), rest(`context ${i.context}`));
        fill($('mode'), h('b', null, Engine.live ? 'live' : 'recorded'), Engine.live ? ' the model and the engine are in this page'
            : ` this page shows one run and does not recompute: ${Engine.reason}`);
        document.documentElement.classList.toggle('static', !Engine.live);
    }

    function fromAddress(hash = location.hash) {
        const { ids, edits, done, ...rest } = Link.parse(hash || beginning);
        const begin = App.state.ids.length ? App.state.ids : Engine.prompt.length ? Array.from(Engine.prompt) : [Math.max(0, Engine.info.bos)];
        Lessons.solve(done);
        const all = { cell: '', walk: 0, ago: 0, quiet: true, ...rest, ids: ids || begin, edits: (edits || []).map((e) => Link.fill(e, ids || begin, rest.other || [])) };
        if (all.step === undefined) all.step = all.ids.length;
        if (!HomeChange.valid(all)) all.was = [];
        if (all.query === undefined) all.query = all.step - 1;
        if (!App.set({ ...all, prompt: all.ids.length })) {
            const why = $('message').textContent;
            App.set({ ids: begin, edits: [], prompt: begin.length, quiet: true });
            App.say(`The address asks for what cannot be: ${why}`, true);
        }
    }

    // In a frame (mgpt lab --embed): the page around it can make the frame as high as this page.
    function tellHeight() {
        if (parent === window || !$('mgpt-embed')) return;
        const tell = () => parent.postMessage({ mgptLab: { height: Math.ceil($('rooms').getBoundingClientRect().bottom + scrollY), title: document.title } }, '*');
        new ResizeObserver(tell).observe($('rooms'));
    }

    function tellOpening(share) {
        fill($('message'), 'Opening the model: ', h('progress', { max: 1, value: share, 'aria-label': 'opened' }), ` ${Math.round(100 * share)} %`);
        $('message').hidden = false;
    }

    async function start() {
        $('theme').addEventListener('click', turnTheme);
        $('keys').addEventListener('click', showHelp);
        try {
            applyTheme();
            const at = await carried('mgpt-at');
            beginning = at ? new TextDecoder().decode(at) : '';
            await Engine.start(tellOpening);
            App.say('');
            App.begin();
            describe();
            Strip.mount($('strip'));
            if (Engine.story) ROOMS.unshift(Story);
            fill($('tabs'), ROOMS.map((r, i) => button([h('kbd', null, i + 1), r.title], () => App.set({ view: r.id, ...Story.leaving(r.id) }), { role: 'tab',
                id: `tab-${r.id}`, 'data-room': r.id, 'aria-controls': 'rooms' })));
            $('tabs').addEventListener('keydown', onTabKey);
            App.on(show);
            const opens = Engine.story && !location.hash && !beginning;
            if (opens) App.state.view = 'story';
            fromAddress();
            if (opens) Story.begin();
            document.addEventListener('keydown', onKey);
            window.addEventListener('hashchange', (e) => fromAddress(new URL(e.newURL).hash)); // location.hash may be written by now
            matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { applyTheme(); App.tell(); });
            tellHeight();
            performance.mark('ready');
            document.documentElement.dataset.ready = 'yes';
        } catch (e) {
            lessonsOnly();
            App.say(`${e.message.replace(/\.$/, '')}. The lessons need no model.`, true);
            document.documentElement.dataset.ready = 'failed';
        }
    }

    // Without an engine or a model.
    function lessonsOnly() {
        const told = () => {
            const { lesson, done } = Link.parse(location.hash);
            Object.assign(App.state, { view: 'lessons', ids: [], edits: [], lesson: lesson || '' });
            Lessons.solve(done);
            show(App.state);
        };
        fill($('tabs'), h('button', { type: 'button', role: 'tab', id: 'tab-lessons', 'data-room': 'lessons', 'aria-controls': 'rooms' }, Lessons.title));
        fill($('rooms'));
        mounted.clear();
        Lessons.alone = true;
        App.on(show);
        told();
        window.addEventListener('hashchange', told);
        $('keys').hidden = true;
    }

    return { start };
})();
if (Work.onPage) Main.start();
