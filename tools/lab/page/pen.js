'use strict';
// What the page draws on a canvas, written as SVG: the part of a 2D context that the page uses.
const Pen = (() => {
    const NAMES = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot' };
    // XML has no control characters, not even as references.
    const escaped = (text) => String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd').replace(/[&<>"]/g, (c) => `&${NAMES[c]};`);
    const n = (v) => String(Number(v.toFixed(2)));

    // "italic 600 12px Georgia, serif" as attributes: a style attribute would be refused by a page like ours.
    function fontOf(font) {
        const [, italic, weight, size, family] = /^(italic )?(?:(\w+) )?([\d.]+)px (.*)$/.exec(font);
        return { 'font-family': family, 'font-size': size, ...(weight && weight !== '400' && { 'font-weight': weight }), ...(italic && { 'font-style': 'italic' }) };
    }

    // A pen for a picture of this size in pixels; text() is the file.
    function create(width, height) {
        const out = [], ruler = document.createElement('canvas').getContext('2d'), saved = [];
        let place = new DOMMatrix(), path = '', dash = '';
        const pen = { fillStyle: '#000', strokeStyle: '#000', lineWidth: 1, font: '11px sans-serif', textAlign: 'left', textBaseline: 'alphabetic', globalAlpha: 1, imageSmoothingEnabled: false };

        function put(tag, props, inside = '') {
            if (!place.isIdentity) props.transform = `matrix(${['a', 'b', 'c', 'd', 'e', 'f'].map((k) => n(place[k])).join(' ')})`;
            if (pen.globalAlpha < 1) props.opacity = n(pen.globalAlpha);
            out.push(`<${tag}${Object.entries(props).map(([k, v]) => ` ${k}="${escaped(typeof v === 'number' ? n(v) : v)}"`).join('')}${inside ? `>${escaped(inside)}</${tag}>` : '/>'}`);
        }

        const stroked = () => ({ fill: 'none', stroke: pen.strokeStyle, 'stroke-width': pen.lineWidth, ...(dash && { 'stroke-dasharray': dash }) });
        const box = (x, y, w, h) => ({ x: Math.min(x, x + w), y: Math.min(y, y + h), width: Math.abs(w), height: Math.abs(h) });
        const go = (to, ...at) => { path += to + at.map(n).join(' '); };

        function cropped(image, sx, sy, sw, sh) {
            const to = document.createElement('canvas');
            [to.width, to.height] = [Math.ceil(sx + sw) - Math.floor(sx), Math.ceil(sy + sh) - Math.floor(sy)];
            to.getContext('2d').drawImage(image, -Math.floor(sx), -Math.floor(sy));
            return to.toDataURL();
        }

        return Object.assign(pen, {
            beginPath: () => { path = ''; },
            moveTo: (x, y) => go('M', x, y),
            lineTo: (x, y) => go(path ? 'L' : 'M', x, y),
            bezierCurveTo: (...at) => go('C', ...at),
            arc: (x, y, r) => go('M', x - r, y) || (path += `a${n(r)} ${n(r)} 0 1 0 ${n(2 * r)} 0a${n(r)} ${n(r)} 0 1 0 ${n(-2 * r)} 0`), // whole circles
            roundRect: (x, y, w, h, r) => { path += `M${n(x + r)} ${n(y)}h${n(w - 2 * r)}q${n(r)} 0 ${n(r)} ${n(r)}v${n(h - 2 * r)}q0 ${n(r)} ${n(-r)} ${n(r)}h${n(2 * r - w)}q${n(-r)} 0 ${n(-r)} ${n(-r)}v${n(2 * r - h)}q0 ${n(-r)} ${n(r)} ${n(-r)}`; },
            stroke: () => put('path', { d: path, ...stroked() }),
            fill: () => put('path', { d: path, fill: pen.fillStyle }),
            fillRect: (...at) => put('rect', { ...box(...at), fill: pen.fillStyle }),
            strokeRect: (...at) => put('rect', { ...box(...at), ...stroked() }),
            fillText: (text, x, y) => put('text', { x, y, fill: pen.fillStyle, ...fontOf(pen.font), 'xml:space': 'preserve',
                ...(pen.textAlign !== 'left' && { 'text-anchor': pen.textAlign === 'center' ? 'middle' : 'end' }), ...(pen.textBaseline === 'middle' && { 'dominant-baseline': 'central' }) }, text),
            measureText: (text) => { ruler.font = pen.font; return ruler.measureText(text); },
            drawImage: (image, sx, sy, sw, sh, x, y, w, h) => put('image', { href: cropped(image, sx, sy, sw, sh), x, y, width: w, height: h, preserveAspectRatio: 'none', ...(!pen.imageSmoothingEnabled && { 'image-rendering': 'pixelated' }) }),
            setLineDash: (list) => { dash = list.join(' '); },
            setTransform: (...m) => { place = new DOMMatrix(m); },
            scale: (x, y) => { place = place.scale(x, y); },
            translate: (x, y) => { place = place.translate(x, y); },
            rotate: (by) => { place = place.rotate((by * 180) / Math.PI); },
            // What follows until restore is seen inside the path only.
            clip: () => {
                const id = `c${out.length}`, from = out.length;
                put('path', { d: path });
                out.push(`<clipPath id="${id}">${out.splice(from)}</clipPath><g clip-path="url(#${id})">`);
                saved[saved.length - 1].open++;
            },
            save: () => saved.push({ place, open: 0 }),
            restore: () => {
                const { place: before, open } = saved.pop();
                place = before;
                out.push(...new Array(open).fill('</g>'));
            },
            clearRect: () => {},
            text: () => `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">\n${out.join('\n')}\n</svg>\n`,
        });
    }

    return { create };
})();
