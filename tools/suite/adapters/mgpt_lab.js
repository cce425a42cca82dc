/* The engine in a page of mgpt lab, in Node: suite.py run DIR --serve 'node mgpt_lab.js' --format gguf,hf
 * MGPT names the program. Pages do not draw mixtures of experts and convolutions: those are refused. */
'use strict';
const {execFileSync} = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const readline = require('readline');
const {openPage} = require('../../../tests/lab/open_page.js');

async function answer([model, ids, out, how]) {
    if (how)
        throw new Error(`no such way: ${how}`);
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'suite-')), page = path.join(folder, 'page.html');
    try {
        execFileSync(process.env.MGPT || 'mgpt', ['lab', model, '-o', page], {stdio: ['ignore', 'ignore', 'pipe']});
        const engine = await openPage(page);
        engine.run(fs.readFileSync(ids, 'utf8').split(/\s+/).filter(Boolean).map(Number));
        const {data} = engine.value('logits');
        fs.writeFileSync(out, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    } finally {
        fs.rmSync(folder, {recursive: true});
    }
}

(async () => {
    for await (const line of readline.createInterface({input: process.stdin})) {
        const said = await answer(line.split('\t')).then(() => 'ok', e => {
            const words = (e.stderr ? String(e.stderr).trim().split('\n').at(-1) : e.message);
            return `refused ${words.replace(/\s+/g, ' ')}`;
        });
        fs.writeSync(1, `${said}\n`);
    }
})().then(() => process.exit(0)); // the page keeps node waiting
