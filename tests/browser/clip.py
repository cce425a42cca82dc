#!/usr/bin/python3
"""The clip of the README: mgpt repl on the names model, in a terminal that pyte plays (package python3-pyte).

    clip.py MGPT ROOT OUT.svg

What is typed and when it is shown is in SCENES. The picture is one SVG: each scene is the whole screen after a line was
typed, shown one after the other; whoever wants less motion sees the last.
"""
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from html import escape

import pyte

ROWS, COLS = 27, 96
WIDE, HIGH, EDGE = 8.43, 18, 14  # of a cell in a font of 14 pixels; of the border
GROUND, INK = '#16181d', '#d8dce3'
INKS = {'red': '#e0796b', 'green': '#8ec07c', 'brown': '#e2b86b', 'blue': '#7aa2f7', 'magenta': '#c099ff',
        'cyan': '#7dcfff', 'white': INK, 'black': '#000000', 'default': INK}
SCENES = [  # options of mgpt repl, then what is typed and the seconds that its screen is shown
    ([], [('anna\r', 2), ('/top 5\r', 4), ('/a 0 3\r', 5), ('/edit 3 y\r', 6)]),
    (['--screen', 'full'], [(':anna\r', 3), (' ', 2), (' ', 2), ('\x1b[C\x1b[C\x1b[C', 6)])]


class Repl:
    """The program and its screen."""

    def __init__(self, command):
        self.screen = pyte.Screen(COLS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        pid, self.fd = pty.fork()
        if pid == 0:
            os.environ.update(TERM='xterm-256color', COLORTERM='truecolor', LC_ALL='C.UTF-8')
            time.sleep(0.2)  # the size is set by then
            os.execv(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', ROWS, COLS, 0, 0))
        self.settle(1.5)

    def settle(self, quiet=0.5):
        """Reads until nothing has come for so many seconds."""
        while select.select([self.fd], [], [], quiet)[0]:
            self.stream.feed(os.read(self.fd, 65536))

    def type(self, text):
        os.write(self.fd, text.encode())
        self.settle()


def colour(name, default):
    return default if name == 'default' else INKS.get(name) or '#' + name


def runs(row):
    """(first column, text, ink, ground, bold) of neighbouring cells that look the same."""
    start, out = 0, []
    look = [(colour(row[x].fg, INK), colour(row[x].bg, GROUND), row[x].reverse, row[x].bold) for x in range(COLS)]
    for x in range(1, COLS + 1):
        if x == COLS or look[x] != look[start]:
            ink, ground, reverse, bold = look[start]
            if reverse:
                ink, ground = ground, ink
            out.append((start, ''.join(row[c].data for c in range(start, x)), ink, ground, bold))
            start = x
    return out


def drawn(screen):
    """The cells as SVG."""
    boxes, texts = [], []
    for y in range(ROWS):
        top = EDGE + y * HIGH
        for x, text, ink, ground, bold in runs(screen.buffer[y]):
            left, width = EDGE + x * WIDE, len(text) * WIDE
            if ground != GROUND:
                boxes.append(f'<rect x="{left:.1f}" y="{top}" width="{width + 0.3:.1f}" height="{HIGH}" fill="{ground}"/>')
            if text.strip():
                lead = len(text) - len(text.lstrip())
                text = text.strip()
                texts.append(f'<text x="{left + lead * WIDE:.1f}" y="{top + 13}" textLength="{len(text) * WIDE:.1f}"'
                             + (f' fill="{ink}"' if ink != INK else '') + (' font-weight="bold"' if bold else '')
                             + f'>{escape(text)}</text>')
    return ''.join(boxes + texts)


def main():
    mgpt, root, out = sys.argv[1:]
    os.chdir(root)
    scenes = []
    for options, typed in SCENES:
        repl = Repl([os.path.abspath(mgpt), 'repl', 'weights/names.gguf', *options])
        for keys, seconds in typed:
            repl.type(keys)
            scenes.append((drawn(repl.screen), seconds))
        os.close(repl.fd)
    total, at, styles, groups = sum(s for _, s in scenes), 0, [], []
    for i, (svg, seconds) in enumerate(scenes):
        first, last = 100 * at / total, 100 * (at + seconds) / total
        styles.append(f'@keyframes s{i}{{0%{{opacity:{int(i == 0)}}}{first:.2f}%{{opacity:1}}{last:.2f}%,100%{{opacity:0}}}}'
                      f'#s{i}{{opacity:{int(i == len(scenes) - 1)};animation:s{i} {total}s step-end infinite}}')
        groups.append(f'<g id="s{i}" fill="{INK}">{svg}</g>')
        at += seconds
    width, height = 2 * EDGE + COLS * WIDE, 2 * EDGE + ROWS * HIGH
    with open(out, 'w', encoding='utf-8') as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
                   f'height="{height}" role="img"><title>mgpt repl</title><style>text{{font:14px ui-monospace,Menlo,Consolas,'
                   f'"DejaVu Sans Mono",monospace;white-space:pre}}{"".join(styles)}'
                   f'@media (prefers-reduced-motion:reduce){{g{{animation:none!important}}}}</style>'
                   f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>{"".join(groups)}</svg>\n')


main()
