'use strict';
// The bytes of an .lzma file: 13 bytes of header, then bits by a range coder (the LZMA SDK's lzma-specification.txt).
// It reads files with lp = pb = 0, as embed.py packs.
function unlzma(from) {
    const lc = from[0], out = new Uint8Array(new DataView(from.buffer, from.byteOffset).getUint32(5, true)), size = out.length;
    // Where the chances of each choice begin. A length has 2, then 128, 128 and 256.
    const MATCH = 0, REP = 192, REP0 = 204, REP1 = 216, REP2 = 228, LONG = 240, SLOTS = 432, NEAR = 688, LOW = 803, NEW = 819, AGAIN = 1333, LITERALS = 1847;
    const chances = new Uint16Array(LITERALS + (768 << lc)).fill(1024);
    const coder = new Uint32Array([0xffffffff, 0]); // the range and the code; as variables, V8 would keep numbers of this size as objects
    let at = 14, n = 0, state = 0, rep0 = 0, rep1 = 0, rep2 = 0, rep3 = 0;
    while (at < 18) coder[1] = (coder[1] << 8) | from[at++];
    // Appends bits to m, each by the chance at first + m, until m is `end` or more.
    function bits(first, m, end) {
        let range = coder[0], code = coder[1];
        while (m < end) {
            const i = first + m, p = chances[i], bound = (range >>> 11) * p;
            if (code < bound) {
                range = bound;
                chances[i] = p + ((2048 - p) >> 5);
                m = 2 * m;
            } else {
                range -= bound;
                code -= bound;
                chances[i] = p - (p >> 5);
                m = 2 * m + 1;
            }
            if (range < 0x1000000) {
                range = (range << 8) >>> 0;
                code = ((code << 8) | from[at++]) >>> 0;
            }
        }
        coder[0] = range;
        coder[1] = code;
        return m;
    }
    const bit = (i) => bits(i - 1, 1, 2) - 2;
    const tree = (first, count) => bits(first, 1, 1 << count) - (1 << count);
    function reversed(first, count) {
        let m = tree(first, count), sum = 0;
        for (let i = 0; i < count; i++, m >>= 1) sum = 2 * sum + (m & 1);
        return sum;
    }
    function even(count) {
        let sum = 0;
        for (; count > 0; count--) {
            coder[0] >>>= 1;
            const one = coder[1] >= coder[0] ? 1 : 0;
            coder[1] -= one * coder[0];
            sum = 2 * sum + one;
            if (coder[0] >= 0x1000000) continue;
            coder[0] <<= 8;
            coder[1] = (coder[1] << 8) | from[at++];
        }
        return sum;
    }
    // One of the last four distances becomes the first. 0: it is the first, for one byte.
    function repeated() {
        let again = rep1;
        if (!bit(REP0 + state)) return bit(LONG + 16 * state);
        if (bit(REP1 + state)) {
            if (bit(REP2 + state)) [again, rep3] = [rep3, rep2];
            else again = rep2;
            rep2 = rep1;
        }
        rep1 = rep0;
        rep0 = again;
        return 1;
    }
    while (n < size) {
        const old = state >= 7;
        let len = 1, lengths = AGAIN;
        if (!bit(MATCH + 16 * state)) {
            const first = LITERALS + 768 * ((n ? out[n - 1] : 0) >> (8 - lc));
            let m = 1;
            for (let other = old ? out[n - rep0 - 1] : 0, same = old; m < 256 && same; other <<= 1) {
                const want = (other >> 7) & 1, one = bit(first + ((1 + want) << 8) + m);
                m = 2 * m + one;
                same = one === want;
            }
            out[n++] = bits(first, m, 256);
            state = state < 4 ? 0 : state - (state < 10 ? 3 : 6);
            continue;
        }
        if (!bit(REP + state)) {
            [rep3, rep2, rep1] = [rep2, rep1, rep0];
            lengths = NEW;
            state = old ? 10 : 7;
        } else if (repeated()) state = old ? 11 : 8;
        else {
            lengths = 0;
            state = old ? 11 : 9;
        }
        if (lengths) len = 2 + (!bit(lengths) ? tree(lengths + 2, 3) : !bit(lengths + 1) ? 8 + tree(lengths + 130, 3) : 16 + tree(lengths + 258, 8));
        if (lengths === NEW) { // how far back a match begins, less 1
            const slot = tree(SLOTS + 64 * Math.min(len - 2, 3), 6), count = (slot >> 1) - 1, from0 = (2 + (slot & 1)) << count;
            rep0 = slot < 4 ? slot : from0 + (slot < 14 ? reversed(NEAR + from0 - slot, count) : even(count - 4) * 16 + reversed(LOW, 4));
        }
        if (rep0 >= n) throw new Error('the page is damaged');
        for (; len > 0 && n < size; len--, n++) out[n] = out[n - rep0 - 1];
    }
    return out;
}
// The bytes of a block's characters; page_out.h has the format. While there are many it lets the page draw, and tells
// how far it is, from 0 to 1.
async function bytesOf(text, tell = () => {}) {
    const digits = new TextEncoder().encode(text).map((c) => (c === 33 ? 25 : c - 35)), bytes = new Uint8Array(Math.floor(digits.length * 13 / 16));
    let bits = 0, n = 0, to = 0, began = performance.now();
    for (let i = 0; i < digits.length; i += 2) {
        if (i % 65536 === 0 && performance.now() - began > 30) {
            tell(i / digits.length);
            await new Promise((done) => { setTimeout(done); });
            began = performance.now();
        }
        const two = i + 1 < digits.length;
        bits |= (two ? digits[i] + 91 * digits[i + 1] : digits[i]) << n;
        for (n += two ? 13 : 6; n > 7; n -= 8, bits >>= 8)
            bytes[to++] = bits;
    }
    return bytes;
}
// The bytes that the page carries under this id, unpacked; null: there are none.
async function carried(id, tell) {
    const element = document.getElementById(id), bytes = element && await bytesOf(element.textContent.trim(), tell);
    if (!bytes || bytes[0] !== 31)
        return bytes && unlzma(bytes);
    if (typeof DecompressionStream === 'undefined')
        throw new Error('this browser is too old for the page: it has no DecompressionStream');
    const { writable, readable } = new DecompressionStream('gzip'), writer = writable.getWriter();
    writer.write(bytes).catch(() => {}); // what is wrong with them is told to who reads
    writer.close().catch(() => {});
    return new Uint8Array(await new Response(readable).arrayBuffer());
}
// Starts the page: its styles and scripts are carried packed, since they are most of a small page. The
// policy names their hashes, so nothing else can be started this way.
(async () => {
    async function start(tag, into, id) {
        const element = document.createElement(tag);
        element.textContent = new TextDecoder().decode(await carried(id));
        into.append(element);
    }
    try {
        await start('style', document.head, 'mgpt-style');
        await start('script', document.body, 'mgpt-page');
    } catch (e) {
        const message = document.getElementById('message');
        message.textContent = e.message;
        message.hidden = false;
    }
})();
