'use strict';
// A headless Chromium, driven over the pipe of its DevTools protocol (messages end with a zero
// byte). Nothing but Node's own modules. The browser has no network: every host name resolves to
// nowhere, and a request that is not for the page's own file is recorded as an error, as are
// messages on the console and refusals of the page's policy.
const { spawn } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

const FLAGS = ['--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', '--no-first-run', '--disable-extensions',
    '--disable-background-networking', '--disable-component-update', '--disable-sync', '--hide-scrollbars', '--mute-audio',
    '--disable-dev-shm-usage', '--force-color-profile=srgb'];
const TIMEOUT = 120000; // of one command, milliseconds

class Chrome {
    // hosts: rules for their names.
    constructor(binary, hosts = 'MAP * ~NOTFOUND') {
        this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-browser-'));
        this.process = spawn(binary, [...FLAGS, `--host-resolver-rules=${hosts}`, `--user-data-dir=${this.dir}`, 'about:blank'],
            { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
        this.waiting = new Map();
        this.listeners = [];
        this.next = 1;
        let held = '';
        this.process.stdio[4].setEncoding('utf8');
        this.process.stdio[4].on('data', (data) => {
            const parts = (held + data).split('\0');
            held = parts.pop();
            parts.forEach((p) => this.take(JSON.parse(p)));
        });
        this.process.stdio[3].on('error', () => {});
        this.process.on('exit', (code) => {
            for (const w of this.waiting.values()) w.reject(new Error(`the browser ended (${code})`));
            this.waiting.clear();
        });
    }

    take(message) {
        const w = this.waiting.get(message.id);
        if (!w) return this.listeners.forEach((fn) => fn(message));
        this.waiting.delete(message.id);
        clearTimeout(w.timer);
        return message.error ? w.reject(new Error(`${w.method}: ${message.error.message}`)) : w.resolve(message.result);
    }

    send(method, params = {}, sessionId = undefined) {
        const id = this.next++;
        return new Promise((resolve, reject) => {
            const timer = setTimeout(() => reject(new Error(`${method}: no answer in ${TIMEOUT / 1000} s`)), TIMEOUT);
            this.waiting.set(id, { resolve, reject, method, timer });
            this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + '\0');
        });
    }

    // A new tab of this size. dark: as the system would ask for it.
    async open({ width = 1280, height = 900, dark = false, touch = false, motion = false } = {}) {
        const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
        const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
        const page = new Page(this, sessionId, targetId);
        await page.begin({ width, height, dark, touch, motion });
        return page;
    }

    async close() {
        const ended = new Promise((resolve) => this.process.once('exit', resolve));
        await this.send('Browser.close').catch(() => this.process.kill());
        await ended;
        fs.rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
    }
}

class Page {
    constructor(chrome, sessionId, targetId) {
        Object.assign(this, { chrome, sessionId, targetId, errors: [], loaded: () => {} });
        chrome.listeners.push((m) => m.sessionId === sessionId && this.event(m.method, m.params));
    }

    send(method, params) {
        return this.chrome.send(method, params, this.sessionId);
    }

    event(method, p) {
        if (method === 'Runtime.consoleAPICalled')
            this.errors.push(`console.${p.type}: ${p.args.map((a) => a.value || a.description).join(' ')}`);
        if (method === 'Runtime.exceptionThrown')
            this.errors.push(`exception: ${p.exceptionDetails.exception?.description || p.exceptionDetails.text}`);
        if (method === 'Log.entryAdded') this.errors.push(`log ${p.entry.level}: ${p.entry.text}`);
        if (method === 'Network.requestWillBeSent' && !/^(file|about|data|blob):/.test(p.request.url))
            this.errors.push(`request: ${p.request.url}`);
        if (method === 'Page.loadEventFired') this.loaded();
    }

    async begin({ width, height, dark, touch, motion }) {
        for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await this.send(`${domain}.enable`);
        await this.resize(width, height, touch);
        await this.send('Emulation.setEmulatedMedia', { features: [
            { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }, { name: 'prefers-reduced-motion', value: motion ? 'no-preference' : 'reduce' }] });
    }

    resize(width, height, mobile = false) {
        return this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile });
    }

    // Loads a file and waits for it to say that it is ready.
    async go(file, hash = '') {
        const loaded = new Promise((resolve) => { this.loaded = resolve; });
        const { loaderId } = await this.send('Page.navigate', { url: `file://${path.resolve(file)}${hash}` });
        if (loaderId) await loaded; // none: only the part after '#' has changed
        await this.until('document.documentElement.dataset.ready');
    }

    // The value of an expression in the page.
    async eval(expression) {
        const r = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
        if (r.exceptionDetails) throw new Error(`${expression}: ${r.exceptionDetails.exception?.description}`);
        return r.result.value;
    }

    async until(expression) {
        for (let i = 0; i < 600; i++) {
            const v = await this.eval(expression);
            if (v) return v;
            await new Promise((resolve) => setTimeout(resolve, 20));
        }
        throw new Error(`never true: ${expression}`);
    }

    // One key as a person presses it; `text` of a printable one is the key itself.
    async press(key) {
        const text = key.length === 1 ? key : key === 'Enter' ? '\r' : undefined;
        const code = { Enter: 13, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40, Delete: 46, Tab: 9, Escape: 27 }[key] ||
            key.toUpperCase().charCodeAt(0);
        const event = { key, windowsVirtualKeyCode: code };
        await this.send('Input.dispatchKeyEvent', { type: text ? 'keyDown' : 'rawKeyDown', text, ...event });
        await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...event });
    }

    type(text) {
        return this.send('Input.insertText', { text });
    }

    text(selector) {
        return this.eval(`document.querySelector(${JSON.stringify(selector)})?.innerText`);
    }

    async shot(file, { full = true } = {}) {
        const { data } = await this.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: full });
        fs.writeFileSync(file, Buffer.from(data, 'base64'));
    }

    async pdf(file) {
        const { data } = await this.send('Page.printToPDF', { printBackground: false });
        fs.writeFileSync(file, Buffer.from(data, 'base64'));
    }

    close() {
        return this.chrome.send('Target.closeTarget', { targetId: this.targetId });
    }
}

// The first of these programs that is there, or null. A variable may name another.
function find(names = ['chromium', 'chromium-browser', 'google-chrome'], variable = 'MGPT_CHROMIUM') {
    if (process.env[variable]) names = [process.env[variable]];
    for (const dir of (process.env.PATH || '').split(':'))
        for (const name of names) {
            const file = name.includes('/') ? name : path.join(dir, name);
            if (fs.existsSync(file)) return file;
        }
    return null;
}

module.exports = { Chrome, find };
