'use strict';
// A headless Firefox, driven over Marionette: "length:[0, id, command, parameters]" on a local
// port.
const { spawn } = require('child_process');
const fs = require('fs');
const net = require('net');
const os = require('os');
const path = require('path');

const FOREVER = 60000; // milliseconds

class Firefox {
    async start(binary) {
        this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'mgpt-firefox-'));
        this.next = 1;
        this.waiting = new Map();
        fs.writeFileSync(path.join(this.dir, 'user.js'), 'user_pref("marionette.port", 0);\nuser_pref("network.proxy.type", 1);\n' +
            'user_pref("network.proxy.http", "127.0.0.1");\nuser_pref("network.proxy.http_port", 9);\n');
        this.process = spawn(binary, ['--headless', '--no-remote', '--marionette', '--profile', this.dir],
            { stdio: 'ignore', env: { ...process.env, HOME: this.dir } });
        await this.connect(await this.port());
        await this.send('WebDriver:NewSession', {});
    }

    // Firefox chooses a port and writes it down.
    async port() {
        const file = path.join(this.dir, 'MarionetteActivePort');
        for (let i = 0; i < FOREVER / 50; i++) {
            if (fs.existsSync(file) && fs.readFileSync(file, 'utf8')) return Number(fs.readFileSync(file, 'utf8'));
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
        throw new Error('Firefox opened no port');
    }

    connect(port) {
        let held = Buffer.alloc(0);
        this.socket = net.connect(port, '127.0.0.1');
        this.socket.on('data', (data) => {
            held = Buffer.concat([held, data]);
            for (let at; (at = held.indexOf(58)) > 0;) { // ':'
                const n = Number(held.subarray(0, at).toString());
                if (held.length < at + 1 + n) return;
                this.take(JSON.parse(held.subarray(at + 1, at + 1 + n).toString()));
                held = held.subarray(at + 1 + n);
            }
        });
        return new Promise((resolve, reject) => {
            this.greeted = resolve;
            this.socket.on('error', reject);
        });
    }

    take(message) {
        if (!Array.isArray(message)) return this.greeted();
        const [, id, error, result] = message, w = this.waiting.get(id);
        this.waiting.delete(id);
        return error ? w.reject(new Error(`${w.command}: ${error.message}`)) : w.resolve(result);
    }

    send(command, params) {
        const id = this.next++, text = JSON.stringify([0, id, command, params]);
        this.socket.write(`${Buffer.byteLength(text)}:${text}`);
        return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject, command }));
    }

    async eval(expression) {
        return (await this.send('WebDriver:ExecuteScript', { script: `return ${expression}`, args: [], newSandbox: true, sandbox: null })).value;
    }

    async go(file, hash = '') {
        await this.send('WebDriver:Navigate', { url: `file://${path.resolve(file)}${hash}` });
        for (let i = 0; i < FOREVER / 50; i++) {
            const ready = await this.eval('document.documentElement.dataset.ready');
            if (ready) return ready;
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
        throw new Error('the page never was ready');
    }

    async shot(file) {
        const { value } = await this.send('WebDriver:TakeScreenshot', { full: true });
        fs.writeFileSync(file, Buffer.from(value, 'base64'));
    }

    async close() {
        const ended = new Promise((resolve) => this.process.once('exit', resolve));
        await this.send('Marionette:Quit', { flags: ['eForceQuit'] }).catch(() => this.process.kill());
        await ended;
        fs.rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
    }
}

module.exports = { Firefox };
