// The engine's module (tools/lab/module.h, wasm/sessions.h): compiled, given its imports, and how its functions are called.
// Pages (engine.js) and programs (js/mgpt.js) have this file. Every failure is an Error with the library's line.
const Loader = (() => {
    // ---- compiling ----

    // (a, b, c) => the first lane of f32x4.relaxed_madd.
    const MADD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 8, 1, 96, 3, 125, 125, 125, 1, 125, 3, 2, 1, 0, 7, 5, 1, 1, 102, 0, 0, 10, 22, 1, 20, 0,
        32, 0, 253, 19, 32, 1, 253, 19, 32, 2, 253, 19, 253, 133, 2, 253, 31, 0, 11];

    // A product and a sum with one rounding in one instruction: not every browser has it, and not every machine.
    function hasFma() {
        const bytes = Uint8Array.from(MADD), a = 1 + 2 ** -12;
        return WebAssembly.validate(bytes) && new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports.f(a, a, -1 - 2 ** -11) > 0;
    }

    // The calls of the export wasm_fma (wasm/fma.c), which the linker writes in six bytes, become that instruction.
    function useFma(bytes) {
        const name = [8, ...new TextEncoder().encode('wasm_fma'), 0], find = (what, from) => {
            let i = bytes.indexOf(what[0], from);
            while (i >= 0 && what.some((b, j) => bytes[i + j] !== b))
                i = bytes.indexOf(what[0], i + 1);
            return i;
        };
        const at = find(name, 0) + name.length, call = [16, bytes[at] | 128, bytes[at + 1] | 128, 128, 128, 0];
        if (bytes[at] < 128)
            call[2] = 128;
        for (let i = find(call, at); i >= 0; i = find(call, i))
            bytes.set([253, 133, 2, 1, 1, 1], i);
    }

    // Changes the bytes.
    function compile(bytes) {
        if (hasFma())
            useFma(bytes);
        return WebAssembly.compile(bytes);
    }

    // ---- splitting text ----

    // A pattern of tok_rules.c in JavaScript. Possessive quantifiers are plain ones here: they are
    // used only where giving back could not help. Without case, s is U+017F, too.
    function translated(pattern) {
        const caseless = c => c === 's' ? '[sS\u017F]' : /[a-z]/.test(c) ? `[${c}${c.toUpperCase()}]` : c;
        const source = pattern
            .replace(/\\x\{/g, '\\u{')
            .replace(/(\{\d+(?:,\d*)?\}|[+*?])\+/g, '$1')
            .replace(/\(\?i:([^)]*)\)/g, (_, inner) => `(?:${[...inner].map(caseless).join('')})`)
            .replace(/\\z/g, '$');
        return new RegExp(source, 'gu');
    }

    const bytesOf = text => new TextEncoder().encode(text).length;

    // ---- instances ----

    // An instance of the module: its exports and what helps to call them. tap: page.tap of wasm/sessions.h.
    async function instantiate(compiled, tap = () => 0) {
        const patterns = new Map();
        let wasm = null;

        function failed() {
            const bytes = new Uint8Array(wasm.memory.buffer), at = wasm.lab_error() >>> 0;
            return new Error(new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at))));
        }

        // n of an export's int: throws when it is a failure.
        function worked(n) {
            if (n < 0)
                throw failed();
            return n;
        }

        // A pointer that an export returned.
        function found(at) {
            if (at === 0)
                throw failed();
            return at >>> 0;
        }

        const floatsAt = (at, n) => new Float32Array(wasm.memory.buffer, found(at), n).slice();

        // Calls use(pointers) with copies of the arrays in the module.
        function lend(arrays, use) {
            const at = [];
            try {
                for (const array of arrays) {
                    at.push(found(wasm.lab_room(array.byteLength)));
                    new Uint8Array(wasm.memory.buffer, at[at.length - 1], array.byteLength)
                        .set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
                }
                return use(at);
            } finally {
                at.forEach(p => wasm.lab_free(p));
            }
        }

        // Import of the module: wasm/split.c says what is expected.
        function matches(pattern, nPattern, text, nText, spans) {
            const memory = wasm.memory.buffer;
            const read = (at, n) => new TextDecoder('utf-8', {ignoreBOM: true})
                .decode(new Uint8Array(memory, at >>> 0, n));
            const source = read(pattern, nPattern), subject = read(text, nText);
            try {
                if (!patterns.has(source))
                    patterns.set(source, translated(source));
            } catch {
                return -1;
            }
            const to = new Uint32Array(memory, spans >>> 0, 2 * nText);
            let n = 0, last = 0, at = 0;
            for (const match of subject.matchAll(patterns.get(source))) {
                at += bytesOf(subject.slice(last, match.index));
                to[2 * n] = at;
                at += bytesOf(match[0]);
                to[2 * n++ + 1] = at;
                last = match.index + match[0].length;
            }
            return n;
        }

        // The number that a text is, for strtod of wasm/command.c.
        const number = (text, n) => Number(new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, text >>> 0, n)));

        wasm = (await WebAssembly.instantiate(compiled, {page: {matches, number, tap}})).exports;
        return {wasm, failed, worked, found, floatsAt, lend};
    }

    return {compile, instantiate, translated};
})();
