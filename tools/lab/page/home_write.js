'use strict';
// The model writes on in the picture: token by token at a reader's speed, or to the end at once.
const HomeWrite = (() => {
    const READ = 420; // milliseconds of a token

    let timer = 0;

    function halt() {
        clearTimeout(timer);
        timer = 0;
        HomeText.setWriting(false);
    }

    // A row more each time, until the text ends.
    function next(changed = App.changed, first = false) {
        const s = App.state, full = s.step >= Engine.info.context, mine = changed === App.changed && s.view === 'home', id = mine && !full ? Predict.draw(false) : -1;
        if (!mine || (id < 0 && !full)) return halt();
        if (full || Token.isEnd(id)) {
            if (!first || !Engine.info.add_bos) {
                halt();
                return App.say(full ? `The context is full: ${s.step} of ${s.step} positions.` : 'The model drew the end: its text ends here. Press again for another.');
            }
            App.set({ ids: [Engine.info.bos], prompt: 1, seed: s.seed + 1, cell: Link.panel(App.state.cell), walk: 0, quiet: true });
        } else App.set({ ids: Array.from(s.ids).slice(0, s.step).concat(id), prompt: Math.min(s.prompt, s.step), cell: Link.panel(App.state.cell), walk: 0, quiet: true });
        timer = setTimeout(next, READ / Home.speed, App.changed);
        return HomeText.setWriting(true);
    }

    function from() {
        Home.stopPlaying();
        halt();
        App.set({ cell: Link.panel(App.state.cell), walk: 0, step: App.state.ids.length });
    }

    function all() {
        from();
        return Predict.toTheEnd();
    }

    function write() {
        const on = timer > 0;
        from();
        return on ? undefined : next(App.changed, true);
    }

    return { halt, all, write, get on() { return timer > 0; } };
})();
