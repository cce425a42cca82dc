"""Writes man pages from what `mgpt --help` and `mgpt COMMAND --help` print.

usage: pages.py CHANGELOG.md OUTPUT_FOLDER MGPT...

MGPT is the program, with what runs it in front where it is another machine's.

OUTPUT_FOLDER gets man1/mgpt.1 and man1/mgpt-COMMAND.1. A line of help that has another form than cli_options.c and
main.c print ends the program. The date of the pages is that of the version's heading in CHANGELOG.md.
"""
import collections
import itertools
import os
import pathlib
import re
import subprocess
import sys
import textwrap

Option = collections.namedtuple('Option', 'names arg help')
Command = collections.namedtuple('Command', 'name about usage summary options notes')
ROW = re.compile(r'  (?:(-\w)(?:, (--[\w-]+))?|    (--[\w-]+))(?: ([A-Z[]\S*))? +(\S.*)')


def fail(text):
    sys.exit('pages.py: ' + text)


# ---- what mgpt prints ----

def help_of(mgpt, *words):
    return subprocess.run([*mgpt, *words], check=True, capture_output=True, text=True).stdout


def parse_option(line):
    m = ROW.fullmatch(line) or fail('an option in another form: ' + line)
    text, _, alias = m[5].partition('; also ')
    return Option([n for n in (m[1], m[2] or m[3], alias) if n], m[4] or '', text)


def parse_options(text):
    """Options, and the titles of their groups."""
    for line in text.split('\n'):
        yield line.strip(' :') if re.fullmatch(r' \w.*:', line) else parse_option(line)


def parse_command(name, about, text):
    m = re.fullmatch(r'usage: (.*)\n\n(.*)\n\noptions:\n(.*?)\n(?:\n(.*))?', text, re.S) or fail(name + ' --help')
    return Command(name, about, m[1], m[2], list(parse_options(m[3])), m[4] or '')


def read_commands(mgpt):
    """The text of mgpt --help, and its commands."""
    text = help_of(mgpt, '--help')
    rows = re.findall(r'^  (\w+) +(.*)', text.partition('commands:\n')[2].partition('\n\n')[0], re.M)
    return text, [parse_command(name, about, help_of(mgpt, name, '--help')) for name, about in rows]


# ---- man pages ----

def roff(text):
    text = text.replace('\\', r'\e').replace('-', r'\-').replace("'", r'\(aq').replace('^', r'\(ha')
    return re.sub('^[.]', r'\\&.', text.replace('~', r'\(ti').replace('`', r'\(ga'), flags=re.M)


def filled(text):
    return roff(textwrap.fill(text, 70, break_long_words=False, break_on_hyphens=False))


def paragraph(lines):
    """Indented lines as they are, others filled."""
    for is_literal, group in itertools.groupby(lines, lambda line: line.startswith('  ')):
        if is_literal:
            yield '.RS 2\n.nf\n%s\n.fi\n.RE' % roff('\n'.join(line[2:] for line in group))
        else:
            yield filled(' '.join(group))


def body(notes):
    """Paragraphs; 'examples:' and 'exit codes: ...' begin sections."""
    for part in filter(None, notes.rstrip('\n').split('\n\n')):
        title, _, rest = part.partition(':')
        yield {'examples': '.SH EXAMPLES', 'exit codes': '.SH EXIT STATUS'}.get(title, '.PP')
        if title in ('examples', 'exit codes'):
            part = rest.lstrip('\n') if title == 'examples' else ' '.join(rest.split())
        yield from paragraph(part.split('\n'))


def option_rows(options):
    for o in options:
        if isinstance(o, str):
            yield '.SS %s' % roff(o[0].upper() + o[1:])
            continue
        names = ', '.join(r'\fB%s\fR' % roff(n) for n in o.names)
        yield '.TP\n%s%s\n%s' % (names, r' \fI%s\fR' % roff(o.arg) if o.arg else '', filled(o.help))


def page(name, about, usage, sections, others):
    """One page without its .TH line."""
    return '\n'.join(['.SH NAME', '%s \\- %s' % (roff(name), roff(about)), '.SH SYNOPSIS', roff(usage), '.SH DESCRIPTION',
                      *sections, '.SH SEE ALSO', ',\n'.join('.BR %s (1)' % roff(o) for o in others), ''])


def command_page(c):
    before, found, after = c.notes.partition('examples:\n')
    sections = [filled(c.summary), *body(before), '.SH OPTIONS', *option_rows(c.options), *body(found + after)]
    return page('mgpt-' + c.name, c.about, c.usage, sections, ['mgpt'])


def main_page(text, commands):
    usage, summary, notes = re.fullmatch(r'usage: (.*)\n\n(.*)\n\ncommands:\n.*?\n\n(.*)', text, re.S).groups()
    pages = ['mgpt-' + c.name for c in commands]
    sections = [filled(summary), '.SH COMMANDS']
    sections += ['.TP\n.BR %s (1)\n%s' % (roff(p), filled(c.about)) for p, c in zip(pages, commands)]
    sections += ['.SH NOTES', *list(body(notes))[1:]]
    return page('mgpt', summary.partition(':')[0], usage, sections, pages)


def main():
    changes, folder, *runner, mgpt = sys.argv[1:]
    program = [*runner, os.path.abspath(mgpt)]
    text, commands = read_commands(program)
    version = help_of(program, '--version').split()[1]
    dates = dict(re.findall(r'^## (\S+) \((\S+)\)', pathlib.Path(changes).read_text(encoding='utf-8'), re.M))
    date = dates.get(version) or fail('CHANGELOG.md has no heading "## %s (DATE)"' % version)
    pages = {'mgpt': main_page(text, commands), **{'mgpt-' + c.name: command_page(c) for c in commands}}
    os.makedirs(os.path.join(folder, 'man1'), exist_ok=True)
    for name, content in pages.items():
        head = '.TH %s 1 %s "mgpt %s"\n' % (roff(name.upper()), date, version)
        pathlib.Path(folder, 'man1', name + '.1').write_text(head + content, encoding='utf-8')


if __name__ == '__main__':
    main()
