/* Opens a lab page in node: takes boot.js' reader, engine.js and the data blocks out of the HTML, gives them the one
 * function of a document that they use, and starts the engine. */
'use strict';
const fs = require('fs');
const path = require('path');
const zlib = require('zlib');

/* The parts of a page's scripts that are loader.js, numbers.js, engine.js and, as Engine.Trials, trials.js, with work.js, which it uses. */
function engineOf(scripts) {
    const found = ['Loader', 'Numbers', 'Engine', 'Work', 'Trials'].map(name =>
        new RegExp(`const ${name} ?= ?\\(\\(\\) ?=> ?\\{[^]*?\\}\\)\\(\\);(?=\\n|$)`).exec(scripts));
    if (!found[2])
        throw new Error('the page holds no engine.js');
    return `'use strict';${found.map(f => f ? f[0] : '').join('')}Engine.Trials = typeof Trials === 'undefined' ? null : Trials;Engine.logSum = Numbers.logSum;return Engine;`;
}

/* The bytes of a block's characters, as tools/lab/page_out.h has them, before they are unpacked. */
function bytesOf(text) {
    const digits = [...text].map(c => c === '!' ? 25 : c.charCodeAt(0) - 35), bytes = [];
    let bits = 0, n = 0;
    for (let i = 0; i < digits.length; i += 2) {
        const two = i + 1 < digits.length;
        bits += (digits[i] + (two ? 91 * digits[i + 1] : 0)) * 2 ** n;
        for (n += two ? 13 : 6; n >= 8; n -= 8) {
            bytes.push(bits % 256);
            bits = Math.floor(bits / 256);
        }
    }
    return Buffer.from(bytes);
}

/* The other direction. */
function charactersOf(bytes) {
    const digit = d => d === 25 ? '!' : String.fromCharCode(35 + d);
    let bits = 0, n = 0, text = '';
    for (const byte of bytes) {
        bits += byte * 2 ** n;
        for (n += 8; n >= 13; n -= 13) {
            text += digit(bits % 8192 % 91) + digit(Math.floor(bits % 8192 / 91));
            bits = Math.floor(bits / 8192);
        }
    }
    return n === 0 ? text : text + digit(bits % 91) + (n > 6 ? digit(Math.floor(bits / 91)) : '');
}

/* {html, blocks, Engine, rooms, unlzma} of a page; Engine is not started yet. rooms(): all scripts, with an Engine of
 * their own. unlzma: boot.js' reader of .lzma files. */
function readPage(file) {
    const html = fs.readFileSync(file, 'utf8'), blocks = new Map();
    for (const [, id, text] of html.matchAll(/<script type="application\/octet-stream" id="([^"]*)">([^<]*)</g))
        blocks.set(id, text);
    if (process.env.MGPT_MODULE) // packed by tools/lab/embed.py: the module of another compiler
        blocks.set('mgpt-module', charactersOf(fs.readFileSync(process.env.MGPT_MODULE)));
    const document = {getElementById: id => blocks.has(id) ? {textContent: blocks.get(id)} : null};
    const carried = /function unlzma[^]*?(?=\(async\(\)=>)/.exec(html)[0], packed = bytesOf(blocks.get('mgpt-page'));
    const unlzma = new Function('document', `${carried}return unlzma;`)(document);
    const scripts = (packed[0] === 31 ? zlib.gunzipSync(packed) : Buffer.from(unlzma(packed))).toString();
    const rooms = () => new Function('document', `${carried}${scripts.replace('if(Work.onPage)Main.start();', '')}return {Engine, App, HomeScene, HomeCell};`)(document);
    return {html, blocks, scripts: carried + scripts, Engine: new Function('document', carried + engineOf(scripts))(document), rooms, unlzma};
}

async function openPage(file) {
    const {Engine} = readPage(file);
    await Engine.start();
    return Engine;
}

/* loader.js as it is. */
function internals() {
    return new Function(`${fs.readFileSync(path.join(__dirname, '../../tools/lab/page/loader.js'), 'utf8')}return Loader;`)();
}

module.exports = {bytesOf, charactersOf, readPage, openPage, internals};
