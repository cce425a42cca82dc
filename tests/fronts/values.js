/* node values.js PAGE N...: what values.c prints of a model, from the engine in a page of mgpt lab. */
'use strict';
const {openPage} = require('../lab/open_page.js');

const TABLE = Int32Array.from({length: 256}, (_, i) => {
    for (let bit = 0; bit < 8; bit++)
        i = i & 1 ? i >>> 1 ^ 0xEDB88320 : i >>> 1;
    return i;
});

function crcOf(crc, floats) {
    const bytes = new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);
    crc = ~crc;
    for (let i = 0; i < bytes.length; i++)
        crc = crc >>> 8 ^ TABLE[(crc ^ bytes[i]) & 255];
    return ~crc;
}

// Of the keys that a query sees; what it must not see is `hidden`.
function crcOfSquares({dims: [heads, n], data}, hidden) {
    let crc = 0;
    for (let pos = 0; pos < n; pos++)
        for (let head = 0; head < heads; head++) {
            const row = data.subarray((head * n + pos) * n, (head * n + pos + 1) * n);
            if (row.subarray(pos + 1).some(v => v !== hidden))
                throw new Error(`head ${head}, query ${pos}: sees a later key`);
            crc = crcOf(crc, row.subarray(0, pos + 1));
        }
    return crc;
}

async function main([page, ...lengths]) {
    const Engine = await openPage(page), n = Number(lengths.at(-1));
    const tokens = Array.from({length: n}, (_, i) => (i * i * 7919 + i * 13 + 5) % Engine.info.choices);
    for (const length of lengths.map(Number)) {
        Engine.run(tokens.slice(0, length));
        for (const {name} of Engine.hooks) {
            const value = Engine.value(name), scores = name.endsWith('attn_scores');
            const crc = scores || name.endsWith('pattern') ? crcOfSquares(value, scores ? -Infinity : 0) : crcOf(0, value.data);
            console.log(`${length} ${name} ${(crc >>> 0).toString(16).padStart(8, '0')}`);
        }
    }
}

main(process.argv.slice(2)).then(() => 0, error => {
    console.error(error.message);
    return 1;
}).then(code => process.exit(code)); // the page keeps node waiting
