'use strict';
// The engine for programs in JavaScript in headless Chromium: the module from a server, the script from a file. Both write the
// text of mgpt generate.
//
// node javascript.js MGPT ROOT FOLDER of ninja js. Exit code 77: no Chromium here.
const assert = require('assert');
const { execFileSync } = require('child_process');
const fs = require('fs');
const http = require('http');
const os = require('os');
const path = require('path');
const { Chrome, find } = require('./chrome.js');
const { test, finish } = require('../lab/report.js');

const [mgpt, root, folder] = process.argv.slice(2).map((name) => path.resolve(name));
const binary = find();
if (!binary) {
    console.log('1..0 # SKIP no chromium (MGPT_CHROMIUM names one)');
    process.exit(77);
}
const tmp = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-js-')), model = path.join(root, 'weights/names.gguf');
const want = execFileSync(mgpt, ['generate', model, '--samples', '5', '-s', '42'], { encoding: 'utf8' }).trimEnd().split('\n');
const WRITE = `const texts = [0, 1, 2, 3, 4].map((sample) => [...m.generate('', { seed: 42, sample })].join(''));
    const bad = await Model.open(new Uint8Array(30)).catch((e) => e.message);
    document.body.textContent = JSON.stringify({ texts, bad }); document.documentElement.dataset.ready = 'yes';`;

async function said(page) {
    await page.until('document.documentElement?.dataset.ready');
    const { texts, bad } = JSON.parse(await page.text('body'));
    assert.deepStrictEqual(texts, want);
    assert.match(bad, /not a GGUF file/);
}

async function main() {
    for (const name of ['mgpt.js', 'mgpt.wasm', 'mgpt.file.js']) fs.copyFileSync(path.join(folder, name), path.join(tmp, name));
    fs.copyFileSync(model, path.join(tmp, 'names.gguf'));
    fs.writeFileSync(path.join(tmp, 'module.html'), `<!doctype html><title>module</title><link rel="icon" href="data:,"><body><script type="module">
        import { Model } from './mgpt.js'; const m = await Model.fetch('names.gguf'); ${WRITE}</script>`);
    fs.writeFileSync(path.join(tmp, 'file.html'), `<!doctype html><title>file</title><body><script src="mgpt.file.js"></script><script>(async () => {
        const { Model } = mgpt, m = await Model.open(Uint8Array.from(atob('${fs.readFileSync(model).toString('base64')}'), (c) => c.charCodeAt(0))); ${WRITE} })();</script>`);
    const types = { '.js': 'text/javascript', '.html': 'text/html', '.wasm': 'application/wasm' };
    const server = http.createServer((request, response) => {
        const file = path.join(tmp, path.basename(request.url));
        response.writeHead(200, { 'content-type': types[path.extname(file)] || 'application/octet-stream' });
        response.end(fs.readFileSync(file));
    });
    await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
    const chrome = new Chrome(binary, 'MAP * ~NOTFOUND, EXCLUDE 127.0.0.1');
    await test('a module, from a server', async () => {
        const page = await chrome.open();
        await page.send('Page.navigate', { url: `http://127.0.0.1:${server.address().port}/module.html` });
        await said(page);
        assert.deepStrictEqual(page.errors.filter((e) => !e.startsWith('request: http://127.0.0.1:')), []);
    });
    await test('a script, from a file', async () => {
        const page = await chrome.open();
        await page.go(path.join(tmp, 'file.html'));
        await said(page);
        assert.deepStrictEqual(page.errors, []);
    });
    server.close();
    await chrome.close();
    fs.rmSync(tmp, { recursive: true });
    return finish();
}

main().then((code) => process.exit(code));
