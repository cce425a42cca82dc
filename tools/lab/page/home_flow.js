'use strict';
// What moves in the picture: the row of a token on its way from the tables to the logits, and the numbers of a
// stop of the walk, made one by one. A flow has at(now): {covers: regions that are not computed yet, boxes: regions
// that are being computed, dots: [x, y] of the plan, e: the number that is explained, over}.
const HomeFlow = (() => {
    const ORDER = { x: 0, h: 1, q: 2, k: 2, v: 2, rq: 3, rk: 3, bx: 3, s: 4, a: 5, tp: 5, z: 6, ao: 7, mid: 8, h2: 9, pre: 10, lin: 10, rs: 10, post: 11, ew: 11, mo: 12 }, LAST = { x: 0, fin: 1, lg: 2 }, EACH = 13;
    const STAGE = 150, MOST = 4200, SLOW = 260, WAIT = 750, BLEND = 500; // milliseconds: of a stage, of all numbers of a stop, of one, until the camera is there, until another picture is there

    const stageOf = (m, layers) => (m.layer < 0 ? layers * EACH + LAST[m.part] : m.layer * EACH + ORDER[m.part.replace(/\d+$/, (n) => (/^[sa]\d/.test(m.part) ? '' : n))]);
    const rowOf = (m, r) => HomeScene.region(m, r, 0, r + 1, m.tri ? r + 1 : m.cols);

    // ---- a row through the whole model ----

    // Where the row is between one stage and the next: from each part to those that read it.
    function between(from, to, f) {
        const e = f * f * (3 - 2 * f), out = [];
        for (const a of from)
            for (const b of to) {
                if (a.m.head !== undefined && b.m.head !== undefined && a.m.head !== b.m.head) continue;
                const back = b.x + b.w < a.x, x1 = back ? a.x : a.x + a.w, x2 = back ? b.x + b.w : b.x > a.x + a.w ? b.x : b.x + b.w / 2;
                out.push([x1 + (x2 - x1) * e, a.y + a.h / 2 + (b.y + b.h / 2 - a.y - a.h / 2) * e]);
            }
        return out;
    }

    // most: milliseconds that it takes at most. parts: ids of those that it runs through; all unless given.
    function row(scene, r, most, parts = scene.mats) {
        const mats = [...scene.mats.values()].filter((m) => 'xa'.includes(m.kind) && r < m.rows && parts.has(m.id)), by = new Map();
        for (const m of mats) {
            const k = stageOf(m, scene.s.n);
            by.set(k, (by.get(k) || []).concat(rowOf(m, r)));
        }
        const stages = [...by.keys()].sort((a, b) => a - b).map((k) => by.get(k)), total = Math.min(most, STAGE * stages.length), since = performance.now();
        return { total, at(now) {
            const p = ((now - since) / total) * stages.length, k = Math.max(0, Math.floor(p));
            return { over: p >= stages.length, covers: stages.slice(k + 1).flat(), boxes: stages[k] || [], dots: stages[k + 1] ? between(stages[k], stages[k + 1], p - k) : [], e: null };
        } };
    }

    // ---- the numbers of a stop ----

    const numbersOf = (ranges) => ranges.flatMap((a) => Array.from({ length: a.c1 - a.c0 }, (_, i) => ({ a, c: a.c0 + i })));

    // ranges: regions of one row each, whose cells are computed in order. told(e, i): number i is explained now.
    function cells(ranges, explain, speed, told) {
        const all = numbersOf(ranges), since = performance.now() + WAIT / speed;
        const each = Math.min(SLOW, MOST / all.length) / speed;
        let shown = -1, e = null;
        return { at(now) {
            const i = Math.min(all.length - 1, Math.floor((now - since) / each)), here = all[Math.max(0, i)], later = ranges.slice(ranges.indexOf(here.a) + 1);
            if (i >= 0 && i !== shown) told(e = explain(here.a.m, here.a.r0, here.c), i);
            shown = i;
            const rest = i < 0 ? here.c : here.c + 1;
            return { over: now >= since + each * all.length, covers: (rest < here.a.c1 ? [HomeScene.region(here.a.m, here.a.r0, rest, here.a.r1, here.a.c1)] : []).concat(later), boxes: [], dots: [], e };
        } };
    }

    // Rows of the cache that come one by one.
    function grow(mats, speed) {
        const n = Math.max(...mats.map((m) => m.rows)), each = Math.min(700, MOST / n) / speed, since = performance.now() + WAIT / speed;
        return { at(now) {
            const i = Math.floor((now - since) / each), rows = (r, to) => mats.filter((m) => r < m.rows).map((m) => HomeScene.region(m, r, 0, to, m.cols));
            return { over: i >= n, covers: rows(Math.max(0, i + 1), n), boxes: i < 0 ? [] : rows(i, i + 1), dots: [], e: null };
        } };
    }

    // What a canvas shows now fades over what comes next.
    function fade(canvas) {
        const last = Dom.h('canvas.fading', { width: canvas.width, height: canvas.height, 'aria-hidden': 'true' });
        last.getContext('2d').drawImage(canvas, 0, 0);
        canvas.after(last);
        last.animate({ opacity: [1, 0] }, BLEND).onfinish = () => last.remove();
    }

    return { row, cells, grow, fade, numbersOf };
})();
