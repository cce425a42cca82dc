'use strict';
// The bytes of an .lzma file: 13 bytes of header, then bits by a range coder (the LZMA SDK's lzma-specification.txt).
function unlzma(from) {
    const half = (n) => new Uint16Array(n).fill(1024), lc = from[0] % 9, lp = Math.floor(from[0] / 9) % 5, pb = Math.floor(from[0] / 45);
    const out = new Uint8Array(new DataView(from.buffer, from.byteOffset).getUint32(5, true)), lengths = () => [half(2), half(128), half(128), half(256)];
    const isMatch = half(192), isRep = half(12), repNot0 = half(12), repNot1 = half(12), repNot2 = half(12), repLong = half(192);
    const slots = half(256), near = half(115), low = half(16), literals = half(768 << (lc + lp)), matches = lengths(), repeats = lengths();
    const coder = new Uint32Array([0xffffffff, 0]); // the range and the code; as variables, V8 would keep numbers of this size as objects
    let at = 14, state = 0, n = 0, rep0 = 0, rep1 = 0, rep2 = 0, rep3 = 0;
    while (at < 18) coder[1] = (coder[1] << 8) | from[at++];
    const more = () => {
        coder[0] <<= 8;
        coder[1] = (coder[1] << 8) | (from[at++] || 0);
    };
    function bit(chances, i) {
        const p = chances[i], bound = (coder[0] >>> 11) * p;
        if (coder[1] < bound) {
            coder[0] = bound;
            chances[i] = p + ((2048 - p) >> 5);
            if (bound < 0x1000000) more();
            return 0;
        }
        coder[0] -= bound;
        coder[1] -= bound;
        chances[i] = p - (p >> 5);
        if (coder[0] < 0x1000000) more();
        return 1;
    }
    function tree(chances, first, bits) {
        let m = 1;
        for (let i = 0; i < bits; i++) m = 2 * m + bit(chances, first + m);
        return m - (1 << bits);
    }
    function reversed(chances, first, bits) {
        let m = 1, sum = 0;
        for (let i = 0; i < bits; i++) {
            const b = bit(chances, first + m);
            m = 2 * m + b;
            sum += b << i;
        }
        return sum;
    }
    function even(bits) {
        let sum = 0;
        for (; bits > 0; bits--) {
            coder[0] >>>= 1;
            const one = coder[1] >= coder[0];
            if (one) coder[1] -= coder[0];
            sum = 2 * sum + (one ? 1 : 0);
            if (coder[0] < 0x1000000) more();
        }
        return sum;
    }
    function literal() {
        let m = 1;
        const first = 768 * (((n & ((1 << lp) - 1)) << lc) + ((n ? out[n - 1] : 0) >> (8 - lc)));
        if (state >= 7)
            for (let other = out[n - rep0 - 1], same = true; m < 256 && same; other <<= 1) {
                const want = (other >> 7) & 1, b = bit(literals, first + ((1 + want) << 8) + m);
                m = 2 * m + b;
                same = b === want;
            }
        while (m < 256) m = 2 * m + bit(literals, first + m);
        out[n++] = m;
        state = state < 4 ? 0 : state - (state < 10 ? 3 : 6);
    }
    const length = ([choice, short, middle, long], pos) => (!bit(choice, 0) ? tree(short, 8 * pos, 3)
        : !bit(choice, 1) ? 8 + tree(middle, 8 * pos, 3) : 16 + tree(long, 0, 8));
    // How far back a match begins, less 1.
    function distance(len) {
        const slot = tree(slots, 64 * Math.min(len, 3), 6), bits = (slot >> 1) - 1, from0 = (2 + (slot & 1)) * 2 ** bits;
        if (slot < 4) return slot;
        return from0 + (slot < 14 ? reversed(near, from0 - slot, bits) : even(bits - 4) * 16 + reversed(low, 0, 4));
    }
    // One of the last four distances becomes the first.
    function repeated(pos) {
        let again = rep0;
        if (!bit(repNot0, state)) return bit(repLong, 16 * state + pos) === 1;
        if (!bit(repNot1, state)) again = rep1;
        else {
            if (bit(repNot2, state)) [again, rep3] = [rep3, rep2];
            else again = rep2;
            rep2 = rep1;
        }
        rep1 = rep0;
        rep0 = again;
        return true;
    }
    while (n < out.length) {
        const pos = n & ((1 << pb) - 1), old = state >= 7;
        let len = 1;
        if (!bit(isMatch, 16 * state + pos)) {
            literal();
            continue;
        } else if (!bit(isRep, state)) {
            [rep3, rep2, rep1] = [rep2, rep1, rep0];
            len = length(matches, pos);
            rep0 = distance(len);
            len += 2;
            state = old ? 10 : 7;
        } else if (repeated(pos)) {
            len = length(repeats, pos) + 2;
            state = old ? 11 : 8;
        } else state = old ? 11 : 9;
        if (rep0 >= n) throw new Error('the page is damaged');
        for (; len > 0 && n < out.length; len--, n++) out[n] = out[n - rep0 - 1];
    }
    return out;
}
// The bytes that the page carries under this id, unpacked; null: there is none. page_out.h has the format. While there
// are many it lets the page draw, and tells how far it is, from 0 to 1.
async function carried(id, tell = () => {}) {
    const element = document.getElementById(id);
    if (!element)
        return null;
    const text = element.textContent.trim(), bytes = new Uint8Array(Math.floor(text.length * 13 / 16));
    const digit = (i) => (text.charCodeAt(i) === 33 ? 25 : text.charCodeAt(i) - 35);
    let bits = 0, n = 0, to = 0, began = performance.now();
    for (let i = 0; i < text.length; i += 2) {
        if (i % 65536 === 0 && performance.now() - began > 30) {
            tell(i / text.length);
            await new Promise((done) => { setTimeout(done); });
            began = performance.now();
        }
        const two = i + 1 < text.length;
        bits |= (two ? digit(i) + 91 * digit(i + 1) : digit(i)) << n;
        for (n += two ? 13 : 6; n > 7; n -= 8, bits >>= 8)
            bytes[to++] = bits;
    }
    if (bytes[0] !== 31)
        return unlzma(bytes);
    if (typeof DecompressionStream === 'undefined')
        throw new Error('this browser is too old for the page: it has no DecompressionStream');
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}
// Starts the page: its styles and scripts are carried packed, since they are most of a small page. The
// policy names their hashes, so nothing else can be started this way. The styles come first and are shown before
// the scripts are unpacked, which takes some 100 ms.
(async () => {
    // After the next frame. A hidden page has none.
    const framed = () => new Promise((done) => {
        requestAnimationFrame(() => setTimeout(done));
        setTimeout(done, 50);
    });
    async function start(tag, into, id) {
        const element = document.createElement(tag);
        element.textContent = new TextDecoder().decode(await carried(id));
        into.append(element);
    }
    try {
        await start('style', document.head, 'mgpt-style');
        await framed();
        await start('script', document.body, 'mgpt-page');
    } catch (e) {
        const message = document.getElementById('message');
        message.textContent = e.message;
        message.hidden = false;
    }
})();
