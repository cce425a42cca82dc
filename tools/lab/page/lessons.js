'use strict';
// The room of lessons: a path from zero on one page, with figures that compute, tasks that are checked, and
// links to the same thing in the model of the page. It needs no model and no engine.
const Lessons = (() => {
    const { h, fill } = Dom;
    const LIST = [...LessonOne.LIST, ...LessonTwo.LIST], TEACHER = { id: 'teacher', title: 'For teachers' };
    const ALL = [...LIST, TEACHER];
    const solved = new Set(), sections = new Map(), links = new Map(), bridges = [];
    const el = {};
    let current = '', drawn = null, wanted = '', away = true;

    // ---- where the reader is ----

    function mark(id) {
        current = id;
        for (const [name, a] of links) if (name === id) a.setAttribute('aria-current', 'true');
        else a.removeAttribute('aria-current');
        const a = links.get(id), box = el.nav;
        if (a && box.scrollWidth > box.clientWidth) Dom.center(box, a.parentNode);
    }

    // Says it to the address, too.
    function reached(id) {
        if (id === current) return;
        mark(id);
        App.state.lesson = id;
        App.tell();
    }

    // Lessons whose tasks are solved, as the address has them: those of an older address stay solved.
    function solve(done = '') {
        for (const id of done.split('.')) if (LIST.some((l) => l.id === id)) solved.add(id);
        App.state.done = [...solved].join('.');
        if (el.count) count();
    }

    function go(id, focus) {
        const section = sections.get(id);
        if (!section) return;
        wanted = id;
        if (focus && id !== current) App.leave();
        reached(id);
        section.scrollIntoView({ behavior: focus && !HomeCamera.still() ? 'smooth' : 'instant', block: 'start' });
        if (focus) section.querySelector('h2').focus({ preventScroll: true });
    }

    // The lesson whose beginning is the last above the upper third.
    function look() {
        if (!el.root.offsetParent || document.hidden) return;
        let at = ALL[0].id;
        for (const [id, section] of sections) if (section.getBoundingClientRect().top < innerHeight / 3) at = id;
        if (innerHeight + scrollY >= document.documentElement.scrollHeight - 4 && wanted) at = wanted;
        else wanted = '';
        reached(at);
    }

    function link(id) {
        const lesson = ALL.find((l) => l.id === id);
        return h('a', { href: `#view=lessons&lesson=${id}`, on: { click: (e) => {
            e.preventDefault();
            go(id, true);
        } } }, LIST.includes(lesson) ? `${LIST.indexOf(lesson) + 1}. ${lesson.title}` : lesson.title);
    }

    // ---- a lesson ----

    function count() {
        fill(el.count, `${solved.size} of ${LIST.length} tasks solved`);
        for (const [id, a] of links) {
            a.classList.toggle('solved', solved.has(id));
            sections.get(id).querySelector('.ltask')?.classList.toggle('solved', solved.has(id));
        }
    }

    // What a lesson makes itself with.
    function tools(lesson) {
        const used = new Set();
        return {
            link,
            say: (...texts) => LessonParts.say(used, ...texts),
            pair: (words, figure) => [h('div.lwords', null, words), figure],
            task: (text, check, hint, ...more) => LessonParts.task(text, check, hint, () => {
                solve(lesson.id);
                App.tell();
            }, ...more),
            later: (fn) => setTimeout(fn), // what takes some milliseconds: the page is shown first
        };
    }

    // The way to the same thing in the model of this page.
    function bridge({ text, label, layers, to }) {
        if (room.alone || (layers && !Engine.info.layers)) return null;
        const a = h('a', { href: '#', on: { click: (e) => {
            if (e.ctrlKey || e.metaKey || e.shiftKey) return;
            e.preventDefault();
            scrollTo(0, 0);
            App.set(to(App.state));
        } } }, `${label} →`);
        bridges.push([a, to]);
        return h('section.lbridge', null, h('h3', null, 'In your model'), h('p', null, text), h('p', null, a));
    }

    function section(lesson, i) {
        const parts = lesson.make(tools(lesson)), next = ALL[i + 1], next2 = h('p.lnext', null, 'Next: ', link(next.id));
        const [task, ...rest] = parts.slice(1), over = lesson.bridge && bridge(lesson.bridge);
        return h('section.lesson', { id: `lesson-${lesson.id}`, 'aria-labelledby': `title-${lesson.id}` },
            h('h2', { id: `title-${lesson.id}`, tabindex: -1 }, h('span', null, String(i + 1)), ' ', lesson.title),
            h('div.lpair', null, parts[0], h('div.lends', null, task, rest, over, next2)));
    }

    function contents() {
        for (const [i, l] of ALL.entries()) {
            const a = link(l.id);
            fill(a, h('span', { 'aria-hidden': 'true' }, i < LIST.length ? String(i + 1) : '+'), ' ', l.title);
            links.set(l.id, a);
        }
        el.nav = h('ol', { role: 'list' }, [...links.values()].map((a) => h('li', null, a)));
        el.count = h('p.lcount', { role: 'status' });
        return h('nav.lnav', { 'aria-label': 'lessons' }, el.nav, el.count);
    }

    function mount(root) {
        el.root = root;
        root.classList.add('lessons');
        const page = h('div.lpage'), nav = contents();
        fill(page, h('section.lintro', null, h('h2', null, 'From counting letters to a GPT'),
            h('p', null, 'Fourteen short lessons. Every figure computes its numbers here, while you move it. Each lesson ends with a task that is checked, and with the place where your own model does the same. Nothing is sent anywhere.')));
        for (const [i, lesson] of LIST.entries()) {
            sections.set(lesson.id, section(lesson, i));
            page.append(sections.get(lesson.id));
        }
        const teacher = h('section.lesson.lteacher', { id: 'lesson-teacher', 'aria-labelledby': 'title-teacher' }, h('h2', { id: 'title-teacher', tabindex: -1 }, TEACHER.title));
        sections.set('teacher', teacher);
        LessonTeacher.mount(teacher, link);
        page.append(teacher);
        root.append(nav, page);
        count();
        mark(ALL[0].id);
        let frame = 0;
        addEventListener('scroll', () => { frame ||= requestAnimationFrame(() => { frame = 0; look(); }); }, { passive: true });
    }

    function update(state) {
        for (const [a, to] of bridges) a.href = Link.format({ ...state, ...to(state) });
        if (drawn !== state.dark) for (const fn of LessonParts.redraws) fn();
        drawn = state.dark;
        if (state.lesson && (state.lesson !== current || away)) go(state.lesson, false);
        away = false;
    }

    // n and p: the next lesson, the one before. True: the key was for this room.
    function key(e) {
        const by = { n: 1, p: -1 }[e.key], to = ALL[ALL.findIndex((l) => l.id === current) + by];
        if (to) go(to.id, true);
        return Boolean(by);
    }

    const room = { id: 'lessons', title: 'Lessons', alone: false, mount, update, left: () => { away = true; }, solve, key }; // alone: there is no model to go to
    return room;
})();
