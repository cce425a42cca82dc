'use strict';
// What part of the picture is in view, and how hands move it: wheel and pinch zoom at the pointer, drag
// pans, a double click frames. {x, y, s}: the plan's corner and pixels to a cell.
const HomeCamera = (() => {
    const TIME = 700, LEAST = 0.6, MOST = 160, TOP = 34; // ms of a flight; of the whole picture's scale; pixels to a cell; kept free for buttons

    const still = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

    // on: {size() -> {w, h}, world() -> box, changed(), hover(x, y), leave(), pick(x, y), frame(x, y)}
    function create(canvas, on) {
        const cam = { x: 0, y: 0, s: 1 }, fingers = new Map();
        let flight = null, moved = 0, pinch = 0;

        // Where a view of this size begins: inside the world as far as it can.
        const within = (v, size, from, all) => (size >= all ? from + (all - size) / 2 : Math.max(from, Math.min(from + all - size, v)));

        // The camera that holds a box of the plan.
        function holding(box, pad = 0.01) {
            const { w, h } = on.size(), all = on.world(), s = Math.min(MOST, Math.min(w / (box.w * (1 + 2 * pad)), (h - TOP) / (box.h * (1 + 2 * pad))));
            const vw = w / s, vh = (h - TOP) / s;
            return { s, x: within(box.x + (box.w - vw) / 2, vw, all.x, all.w), y: within(box.y + (box.h - vh) / 2, vh, all.y, all.h) - TOP / s };
        }

        function jump(to) {
            flight = null;
            Object.assign(cam, to);
            on.changed();
        }

        function fly(box, pad) {
            const to = holding(box, pad);
            if (still()) return jump(to);
            flight = { from: { ...cam }, to, since: performance.now() };
            requestAnimationFrame(move);
            return undefined;
        }

        function move(now) {
            if (!flight) return;
            const t = Math.max(0, Math.min(1, (now - flight.since) / TIME)), e = t < 0.5 ? 4 * t ** 3 : 1 - (2 - 2 * t) ** 3 / 2, { from, to } = flight;
            for (const k of ['s', 'x', 'y']) cam[k] = from[k] + (to[k] - from[k]) * e;
            if (t === 1) flight = null;
            on.changed();
            if (flight) requestAnimationFrame(move);
        }

        function zoom(x, y, by) {
            const whole = holding(on.world()).s, s = Math.max(whole * LEAST, Math.min(MOST, cam.s * by));
            jump({ x: cam.x + x / cam.s - x / s, y: cam.y + y / cam.s - y / s, s });
        }

        const pan = (dx, dy) => jump({ x: cam.x - dx / cam.s, y: cam.y - dy / cam.s });
        const at = (e) => {
            const r = canvas.getBoundingClientRect();
            return [e.clientX - r.left, e.clientY - r.top];
        };

        function down(e) {
            fingers.set(e.pointerId, at(e));
            moved = 0;
            pinch = 0;
            try {
                canvas.setPointerCapture(e.pointerId);
            } catch {
                // A pointer that is gone needs none.
            }
        }

        function drag(e) {
            const [x, y] = at(e), old = fingers.get(e.pointerId);
            if (!old) return on.hover(x, y);
            fingers.set(e.pointerId, [x, y]);
            moved += Math.abs(x - old[0]) + Math.abs(y - old[1]);
            const [a, b] = [...fingers.values()];
            if (!b) return moved > 4 && pan(x - old[0], y - old[1]);
            const apart = Math.hypot(a[0] - b[0], a[1] - b[1]);
            if (pinch) zoom((a[0] + b[0]) / 2, (a[1] + b[1]) / 2, apart / pinch);
            pinch = apart;
            return undefined;
        }

        function up(e) {
            const held = fingers.delete(e.pointerId);
            if (held && moved <= 4 && e.type === 'pointerup') on.pick(...at(e));
            if (e.pointerType !== 'mouse') on.leave();
        }

        const heard = { pointerdown: down, pointermove: drag, pointerup: up, pointercancel: up, pointerleave: () => on.leave(), dblclick: (e) => on.frame(...at(e)) };
        for (const [type, fn] of Object.entries(heard)) canvas.addEventListener(type, fn);
        canvas.addEventListener('wheel', (e) => {
            e.preventDefault();
            zoom(...at(e), Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0018)));
        }, { passive: false });

        return { cam, fly, jump, holding, zoom, pan, toPlan: (x, y) => [cam.x + x / cam.s, cam.y + y / cam.s] };
    }

    return { create, still };
})();
