/* A document without a browser: as much of one as the lab's page needs. Everything is as
 * large as the window. A canvas keeps what was drawn in its last frame: the texts, and a hash of all calls
 * (with two digits after the point) and of the bytes of images. */
'use strict';
const crypto = require('crypto');
const { readPage } = require('./open_page.js');

class FakeNode {
    constructor(text) { this.parentNode = null; this.data = text; }
    get textContent() { return this.data; }
    get isConnected() { return this.parentNode !== null && this.parentNode.isConnected; }
    remove() {
        if (this.parentNode) this.parentNode.childNodes = this.parentNode.childNodes.filter((c) => c !== this);
        this.parentNode = null;
    }
    put(nodes, by) {
        const to = this.parentNode, made = nodes.map(asNode);
        made.forEach((n) => { n.remove(); n.parentNode = to; });
        to.childNodes.splice(to.childNodes.indexOf(this) + by, 0, ...made);
    }
    before(...nodes) { this.put(nodes, 0); }
    after(...nodes) { this.put(nodes, 1); }
    replaceWith(...nodes) { this.put(nodes, 0); this.remove(); }
}

const asNode = (c) => (c instanceof FakeNode ? c : new FakeNode(String(c)));

// FNV-1a
function hashed(hash, bytes) {
    for (let i = 0; i < bytes.length; i++) hash = Math.imul(hash ^ bytes[i], 0x01000193);
    return hash >>> 0;
}
const drawn = (x) => (typeof x === 'number' ? x.toFixed(2) : x instanceof FakeElement ? x.ink : x && x.data ? crypto.createHash('sha1').update(x.data).digest('hex') : Array.isArray(x) ? `[${x.map(drawn)}]` : String(x));

// The settings that a call depends on; null: it draws nothing by itself.
const AREA = ['fillStyle', 'globalAlpha'], LINE = ['strokeStyle', 'lineWidth', 'dash', 'globalAlpha'];
const DEPENDS = { fill: AREA, fillRect: AREA, stroke: LINE, strokeRect: LINE, fillText: ['font', 'textAlign', 'textBaseline', ...AREA], drawImage: ['imageSmoothingEnabled', 'globalAlpha'], measureText: null, setLineDash: null, getImageData: null, createImageData: null };

// What a 2d context draws: calls in order, each with the settings that are in force.
function context(canvas) {
    const image = (w, h) => ({ width: w, height: h, data: new Uint8ClampedArray(4 * w * h) }), saved = [];
    const kept = { canvas, fillStyle: '#000', strokeStyle: '#000', lineWidth: 1, globalAlpha: 1, font: '10px sans-serif', textAlign: 'start', textBaseline: 'alphabetic', imageSmoothingEnabled: true, dash: '' };
    const does = { measureText: (t) => ({ width: 6 * t.length, actualBoundingBoxAscent: 8, actualBoundingBoxDescent: 2 }), createImageData: image, getImageData: (x, y, w, h) => image(w, h),
        createLinearGradient: () => ({ addColorStop() {} }), createPattern: () => ({}), setLineDash: (list) => { kept.dash = list.join(); }, save: () => saved.push({ ...kept }), restore: () => Object.assign(kept, saved.pop()) };
    const call = (name) => (...args) => {
        const by = DEPENDS[name];
        if (by !== null) canvas.draw(name, by ? [...args, ...by.map((k) => kept[k])] : args);
        if (name === 'fillText') canvas.words.push(args[0]);
        return does[name]?.(...args);
    };
    return new Proxy(kept, { get: (k, name) => (name in k ? k[name] : call(name)), set: (k, name, value) => { k[name] = value; return true; } });
}

class FakeElement extends FakeNode {
    constructor(tag) {
        super('');
        Object.assign(this, { tagName: tag.toUpperCase(), localName: tag, childNodes: [], attributes: new Map(), listeners: [], words: [], ink: 0, value: '', hidden: false, checked: false,
            clientWidth: FakeElement.wide, clientHeight: FakeElement.high, offsetWidth: FakeElement.wide, offsetHeight: FakeElement.high, scrollWidth: 0, scrollHeight: 0, scrollLeft: 0, scrollTop: 0, offsetParent: null, tabIndex: -1 });
        this.dataset = new Proxy({}, { set: (d, k, v) => { this.attributes.set(`data-${k}`, String(v)); return true; }, get: (d, k) => this.attributes.get(`data-${k}`),
            deleteProperty: (d, k) => { this.attributes.delete(`data-${k}`); return true; } });
        const style = { setProperty: (k, v) => { style[k] = v; }, removeProperty: (k) => { delete style[k]; } };
        this.style = style;
        const words = () => (this.className || '').split(' ').filter(Boolean), put = (w) => { this.className = [...new Set(w)].join(' '); };
        this.classList = { add: (...c) => put([...words(), ...c]), remove: (...c) => put(words().filter((w) => !c.includes(w))), contains: (c) => words().includes(c),
            toggle: (c, on = !words().includes(c)) => { put(on ? [...words(), c] : words().filter((w) => w !== c)); return on; } };
    }
    get isConnected() { return this.tagName === 'BODY' || super.isConnected; }
    get children() { return this.childNodes.filter((c) => c instanceof FakeElement); }
    get parentElement() { return this.parentNode; }
    get firstChild() { return this.childNodes[0] || null; }
    get lastChild() { return this.childNodes[this.childNodes.length - 1] || null; }
    get rows() { return this.all().filter((e) => e.tagName === 'TR'); }
    get cells() { return this.children.filter((e) => /^T[DH]$/.test(e.tagName)); }
    get tBodies() { return this.children.filter((e) => e.tagName === 'TBODY'); }
    get options() { return this.all().filter((e) => e.tagName === 'OPTION'); }
    get textContent() { return this.childNodes.map((c) => c.textContent).join(''); }
    set textContent(text) { this.replaceChildren(...(text === '' ? [] : [text])); }
    appendChild(n) { this.append(n); return n; }
    append(...nodes) { nodes.map(asNode).forEach((n) => { n.remove(); n.parentNode = this; this.childNodes.push(n); }); }
    replaceChildren(...nodes) { [...this.childNodes].forEach((c) => c.remove()); this.append(...nodes); }
    all(found = []) {
        for (const c of this.childNodes) if (c instanceof FakeElement) {
            found.push(c);
            c.all(found);
        }
        return found;
    }
    contains(e) { return e === this || this.all().includes(e); }
    setAttribute(k, v) {
        this.attributes.set(k, String(v));
        if (['id', 'value', 'type', 'name', 'min', 'max', 'step'].includes(k)) this[k] = String(v);
        if (k === 'class') this.className = v;
        if (['checked', 'hidden', 'disabled'].includes(k)) this[k] = true;
        if (k === 'selected') for (let p = this.parentNode; p; p = p.parentNode) if (p.tagName === 'SELECT') p.value = this.value;
        if (['width', 'height', 'tabindex'].includes(k)) this[k === 'tabindex' ? 'tabIndex' : k] = Number(v);
    }
    getAttribute(k) { return this.attributes.has(k) ? this.attributes.get(k) : null; }
    removeAttribute(k) { this.attributes.delete(k); }
    matchesOne(part) {
        return (part.match(/:not\([^)]*\)|\[[^\]]*\]|[.#:]?[\w-]+/g) || []).every((p) => {
            const at = /^\[([\w-]+)(?:="([^"]*)")?\]$/.exec(p);
            if (at) return at[2] === undefined ? this.attributes.has(at[1]) || (at[1] === 'open' && this.open) : String(at[1] === 'tabindex' ? this.tabIndex : this.attributes.get(at[1])) === at[2];
            if (p.startsWith(':not(')) return !this.matchesOne(p.slice(5, -1));
            return p[0] === '.' ? this.classList.contains(p.slice(1)) : p[0] === '#' ? this.id === p.slice(1) : p[0] === ':' ? (p === ':checked' ? this.checked : FakeElement.sends && /^:focus/.test(p) && FakeElement.active === this) : this.localName === p;
        });
    }
    matches(selector) {
        return selector.split(',').some((s) => {
            const parts = s.trim().split(/\s+/), last = parts.pop();
            let e = this.parentNode;
            for (; parts.length && e; e = e.parentNode) if (e.matchesOne && e.matchesOne(parts[parts.length - 1])) parts.pop();
            return parts.length === 0 && this.matchesOne(last);
        });
    }
    closest(selector) { return this.matches(selector) ? this : this.parentNode && this.parentNode.closest ? this.parentNode.closest(selector) : null; }
    querySelectorAll(selector) { return this.all().filter((e) => e.matches(selector)); }
    querySelector(selector) { return this.querySelectorAll(selector)[0] || null; }
    addEventListener(type, fn) { this.listeners.push([type, fn]); }
    removeEventListener(type, fn) { this.listeners = this.listeners.filter((l) => l[0] !== type || l[1] !== fn); }
    // An event, which rises to the document.
    send(type, more = {}) {
        let on = true;
        const event = { type, target: this, preventDefault() {}, stopPropagation() { on = false; }, clientX: 0, clientY: 0, ...more };
        for (let e = this; e && on; e = e.parentNode) for (const [t, fn] of [...e.listeners]) if (t === type) fn({ ...event, currentTarget: e });
    }
    click() { this.send('click'); }
    focus() { FakeElement.active = this; }
    blur() { FakeElement.active = null; }
    showModal() { this.open = true; }
    close() { this.open = false; }
    select() {}
    scrollIntoView() {}
    animate() { return {}; }
    setPointerCapture() {}
    clear() { this.words = []; this.ink = 0x811C9DC5; }
    // A picture: what its last frame drew.
    draw(name, args) {
        if (this.drawn !== FakeElement.frame) this.clear();
        this.drawn = FakeElement.frame;
        this.ink = hashed(this.ink, Buffer.from(`${name} ${args.map(drawn)};`));
    }
    get width() { return FakeElement.wide; }
    set width(w) { this.clear(); }
    get height() { return FakeElement.high; }
    set height(h) { this.clear(); }
    getBoundingClientRect() { return { left: 0, top: 0, right: this.width, bottom: this.height, width: this.width, height: this.height, x: 0, y: 0 }; }
    getClientRects() { return [this.getBoundingClientRect()]; }
    checkVisibility() { return !this.hidden && (!this.parentNode || !this.parentNode.checkVisibility || this.parentNode.checkVisibility()); }
    toDataURL() { return `data:${this.ink}`; }
    getContext() { return this.drawing || (this.drawing = context(this)); }
}

class FakeMatrix {
    constructor(m = [1, 0, 0, 1, 0, 0]) { [this.a, this.b, this.c, this.d, this.e, this.f] = m; }
    get isIdentity() { return `${this.times(1, 0, 0, 1, 0, 0)}` === '1,0,0,1,0,0'; }
    times(a, b, c, d, e, f) {
        const m = this;
        return [m.a * a + m.c * b, m.b * a + m.d * b, m.a * c + m.c * d, m.b * c + m.d * d, m.a * e + m.c * f + m.e, m.b * e + m.d * f + m.f];
    }
    translate(x, y) { return new FakeMatrix(this.times(1, 0, 0, 1, x, y)); }
    scale(x, y = x) { return new FakeMatrix(this.times(x, 0, 0, y, 0, 0)); }
    rotate(degrees) {
        const [c, s] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
        return new FakeMatrix(this.times(c, s, -s, c, 0, 0));
    }
}

/* The page of a file, opened in a window of this size, with `more` in place of what the window has: {document, App, Engine, entries, tick, $}. entries: the addresses that Back returns from. tick(ms) lets time go on, by frames;
 * timers wait for it as soon as the page is open. */
async function openFake(file, names, wide = 1200, high = 800, more = {}) {
    Object.assign(FakeElement, { wide, high, active: null });
    const body = new FakeElement('body'), html = new FakeElement('html'), head = new FakeElement('head');
    const { blocks, scripts } = readPage(file);
    const entries = [];
    let now = 0, frames = [], timers = [], started = false;
    const document = { body, head, documentElement: html, title: '', hidden: false, currentScript: null, listeners: [], createElement: (tag) => new FakeElement(tag), createElementNS: (ns, tag) => new FakeElement(tag),
        getElementById: (id) => (blocks.has(id) ? { textContent: blocks.get(id) } : body.all().find((e) => e.id === id) || null),
        querySelector: (s) => body.querySelector(s), querySelectorAll: (s) => body.querySelectorAll(s), addEventListener: (t, fn) => body.addEventListener(t, fn), get activeElement() { return FakeElement.active || body; } };
    for (const [tag, id] of [['div', 'tabs'], ['p', 'model'], ['p', 'mode'], ['button', 'keys'], ['button', 'theme'], ['p', 'message'], ['section', 'strip'], ['p', 'edits'], ['div', 'rooms'], ['dialog', 'help']]) {
        const e = new FakeElement(tag);
        e.id = id;
        body.append(e);
    }
    // Where a test sends events (events.js), a turn of the event loop is a microtask: what runs on in slices has ended at its next await.
    class Channel { constructor() { this.port1 = {}; this.port2 = { postMessage: (data) => queueMicrotask(() => this.port1.onmessage({ data })) }; } }
    class Observer { constructor(fn) { this.fn = fn; } observe() { if (FakeElement.sends) frames.push(() => this.fn()); } unobserve() {} disconnect() {} }
    const window = { addEventListener: (t, fn) => body.addEventListener(t, fn), devicePixelRatio: 1 };
    const given = { document, window, parent: window, location: { hash: '', href: 'file:///page.html' }, history: { replaceState() {}, pushState: (state, title, link) => entries.push(link) }, navigator: {}, Node: FakeNode, ResizeObserver: Observer,
        matchMedia: (query) => ({ matches: FakeElement.sends === true && query.includes('reduced-motion'), addEventListener() {} }), innerWidth: FakeElement.wide, innerHeight: FakeElement.high, devicePixelRatio: 1, scrollY: 0, getComputedStyle: () => ({ getPropertyValue: () => '#102030', fontSize: '14px' }),
        addEventListener() {}, removeEventListener() {}, requestAnimationFrame: (fn) => frames.push(fn), cancelAnimationFrame() {},
        setTimeout: (fn, ms = 0, ...args) => (started ? timers.push({ at: now + ms, fn: () => fn(...args) }) : setTimeout(fn, ms, ...args)), clearTimeout: (id) => (started && typeof id === 'number' ? delete timers[id - 1] : clearTimeout(id)),
        performance: { now: () => { now += FakeElement.slow || 0; return now; }, mark() {} }, Worker: undefined, MessageChannel: FakeElement.sends ? Channel : MessageChannel, DOMMatrix: FakeMatrix,
        ImageData: class { constructor(data, width) { Object.assign(this, { data, width }); } }, ...more };
    const run = new Function(...Object.keys(given), `${scripts};return {${names.join(',')}};`)(...Object.values(given));
    const tick = (ms) => {
        for (const end = now + ms; now < end;) {
            const due = frames;
            now += 100;
            frames = [];
            FakeElement.frame = now;
            due.forEach((fn) => fn(now));
            timers.forEach((t, i) => {
                if (t.at > now) return;
                delete timers[i];
                t.fn();
            });
        }
    };
    for (let i = 0; !html.dataset.ready && i < 1000; i++) await new Promise((done) => { setTimeout(done, 5); });
    started = true;
    tick(100);
    return { ...run, document, entries, tick, $: (id) => document.getElementById(id) };
}

module.exports = { FakeElement, openFake };
