"""Writes man pages and completions for bash, zsh and fish from what `mgpt --help` and `mgpt COMMAND --help` print.

usage: pages.py MGPT CHANGELOG.md OUTPUT_FOLDER

OUTPUT_FOLDER gets man1/mgpt.1, man1/mgpt-COMMAND.1, mgpt (bash), _mgpt (zsh) and mgpt.fish. A line of help that has
another form than cli_options.c and main.c print ends the program. The version and the date of the pages are those of
the first heading of CHANGELOG.md.
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
# A list of words in an option's help: "random numbers: splitmix (default), python (CPython's random)".
WORD = r'[a-z0-9_]+(?: \([^)]*\))?'
LIST = re.compile(r'(?:^|: | in )(%s(?:(?:,| or) %s)+)(?=$|,|;| \()' % (WORD, WORD))


def fail(text):
    sys.exit('pages.py: ' + text)


# ---- what mgpt prints ----

def help_of(mgpt, *words):
    return subprocess.run([mgpt, *words], check=True, capture_output=True, text=True).stdout


def parse_option(line):
    m = ROW.fullmatch(line) or fail('an option in another form: ' + line)
    text, _, alias = m[5].partition('; also ')
    return Option([n for n in (m[1], m[2] or m[3], alias) if n], m[4] or '', text)


def parse_command(name, about, text):
    m = re.fullmatch(r'usage: (.*)\n\n(.*)\n\noptions:\n(.*?)\n(?:\n(.*))?', text, re.S) or fail(name + ' --help')
    return Command(name, about, m[1], m[2], [parse_option(line) for line in m[3].split('\n')], m[4] or '')


def read_commands(mgpt):
    """The text of mgpt --help, and its commands."""
    text = help_of(mgpt, '--help')
    rows = re.findall(r'^  (\w+) +(.*)', text.partition('commands:\n')[2].partition('\n\n')[0], re.M)
    return text, [parse_command(name, about, help_of(mgpt, name, '--help')) for name, about in rows]


def choices(option):
    """The words that the value is one of; empty if the help has no list."""
    m = option.arg not in ('', 'FILE') and LIST.search(option.help)
    return re.split(', | or ', re.sub(r' \([^)]*\)', '', m[1])) if m else []


def is_file(option):
    return 'FILE' in option.arg


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


# ---- completions: a value is one of the words of the option's row, else a file if the row says FILE ----

BASH = r'''# bash completion of mgpt
_mgpt() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options='' values=-
    [[ $word == '=' ]] && word=''
    [[ $before == '=' ]] && before=${COMP_WORDS[COMP_CWORD-2]}
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 || ($COMP_CWORD -eq 2 && $before == help) ]]; then
        mapfile -t COMPREPLY < <(compgen -W '@COMMANDS@ help --help --version' -- "$word")
        return
    fi
    case ${COMP_WORDS[1]} in
@OPTIONS@
    esac
    case "${COMP_WORDS[1]} $before" in
@VALUES@
    esac
    if [[ $values != - ]]; then
        [[ -n $values ]] || compopt +o default
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    fi
}
complete -o default -F _mgpt mgpt
'''


def bash(commands):
    options = ['    %s) options=%s ;;' % (c.name, quoted(' '.join(n for o in c.options for n in o.names)))
               for c in commands]
    values = ['    %s) values=%s ;;' % ('|'.join("'%s %s'" % (c.name, n) for n in o.names), quoted(' '.join(choices(o))))
              for c in commands for o in c.options if o.arg and o.arg[0] != '[' and not is_file(o)]
    text = BASH.replace('@COMMANDS@', ' '.join(c.name for c in commands))
    return text.replace('@OPTIONS@', '\n'.join(options)).replace('@VALUES@', '\n'.join(values))


def quoted(text):
    return "'%s'" % text.replace("'", "'\\''")


def zsh_option(o):
    value = ':%s:%s' % (re.sub(r'([][:\\])', r'\\\1', o.arg),
                        '_files' if is_file(o) else '(%s)' % ' '.join(choices(o)) if choices(o) else ' ')
    # ':: :' is a value that may be missing.
    value = (':' + value if o.arg.startswith('[') else value) if o.arg else ''
    text = re.sub(r'([][:\\])', r'\\\1', o.help)
    return ' '.join(quoted('(%s)%s[%s]%s' % (' '.join(o.names), n, text, value)) for n in o.names)


def zsh(commands):
    out = ['#compdef mgpt', 'local -a commands=(']
    out += ['    ' + quoted('%s:%s' % (c.name, c.about)) for c in commands]
    out += ['    ' + quoted('help:explain a command'), ')']
    out += ['if (( CURRENT == 2 )) || [[ CURRENT -eq 3 && $words[2] == help ]]; then',
            '    _describe command commands', '    return', 'fi', 'local command=$words[2]', 'shift words',
            '(( CURRENT-- ))', 'case $command in']
    for c in commands:
        out += [c.name + ')', '    _arguments -s \\']
        out += ['        %s \\' % zsh_option(o) for o in c.options]
        out += ["        '*:file:_files' ;;"]
    return '\n'.join(out + ['esac', ''])


def fish(commands):
    out = ['complete -c mgpt -n __fish_use_subcommand -f',
           'complete -c mgpt -n __fish_use_subcommand -a help -d "explain a command"',
           'complete -c mgpt -n "__fish_seen_subcommand_from help" -f -a "%s"' % ' '.join(c.name for c in commands)]
    for c in commands:
        out.append('complete -c mgpt -n __fish_use_subcommand -a %s -d %s' % (c.name, fish_quoted(c.about)))
        for o in c.options:
            names = ' '.join('-l ' + n[2:] if n.startswith('--') else '-s ' + n[1:] for n in o.names)
            value = '' if not o.arg or o.arg.startswith('[') else ' -r -F' if is_file(o) else ' -x'
            words = ' -a "%s"' % ' '.join(choices(o)) if choices(o) else ''
            out.append('complete -c mgpt -n "__fish_seen_subcommand_from %s" %s%s%s -d %s' %
                       (c.name, names, value, words, fish_quoted(o.help)))
    return '\n'.join(out + [''])


def fish_quoted(text):
    return "'%s'" % text.replace('\\', '\\\\').replace("'", "\\'")


def main():
    mgpt, changes, folder = sys.argv[1:]
    text, commands = read_commands(os.path.abspath(mgpt))
    version, date = re.search(r'^## (\S+) \((\S+)\)', pathlib.Path(changes).read_text(encoding='utf-8'), re.M).groups()
    pages = {'mgpt': main_page(text, commands), **{'mgpt-' + c.name: command_page(c) for c in commands}}
    files = {'man1/%s.1' % n: '.TH %s 1 %s "mgpt %s"\n%s' % (roff(n.upper()), date, version, t) for n, t in pages.items()}
    files |= {'mgpt': bash(commands), '_mgpt': zsh(commands), 'mgpt.fish': fish(commands)}
    for name, content in files.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding='utf-8')


if __name__ == '__main__':
    main()
