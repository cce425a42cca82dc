#!/usr/bin/env python3
"""tools/install/pages.py: the whole of two pages, of a program whose --help has every form; what it refuses, in one line."""
import os
import pathlib
import subprocess
import sys
import tempfile

PAGES = pathlib.Path(os.environ['MGPT_SOURCE_ROOT']) / 'tools/install/pages.py'
MAIN = """usage: mgpt COMMAND [options]

A tool: it's small.

commands:
  one  the one-by-one
  two  other things

mgpt help COMMAND explains.
Example: mgpt one x

exit codes: 0 ok, 1 check says
different
"""
ONE = r"""usage: mgpt one [options] FILE

What it does, in a sentence that is longer than a line of a page, which has seventy letters.

options:
  -m, --model FILE[:N]  the model; also --weights
      --all             everything
 how it looks:
  -q                    quiet
      --at LIST         places: '1-3'

First lines
are filled.
  cd ~ \
.dot `x` ^ stays
.first is no request.

examples:
  mgpt one -m x
  ./mgpt one \n

exit codes: 0 ok,
2 usage
"""
TWO = 'usage: mgpt two\n\nNothing.\n\noptions:\n  -h, --help  print this\n'
HEAD = '.TH MGPT%s 1 2020-02-03 "mgpt 1.2.3"\n.SH NAME\n'
WANT = {
    'mgpt': HEAD % '' + r"""mgpt \- A tool
.SH SYNOPSIS
mgpt COMMAND [options]
.SH DESCRIPTION
A tool: it\(aqs small.
.SH COMMANDS
.TP
.BR mgpt\-one (1)
the one\-by\-one
.TP
.BR mgpt\-two (1)
other things
.SH NOTES
mgpt help COMMAND explains. Example: mgpt one x
.SH EXIT STATUS
0 ok, 1 check says different
.SH SEE ALSO
.BR mgpt\-one (1),
.BR mgpt\-two (1)
""",
    'mgpt-one': HEAD % r'\-ONE' + r"""mgpt\-one \- the one\-by\-one
.SH SYNOPSIS
mgpt one [options] FILE
.SH DESCRIPTION
What it does, in a sentence that is longer than a line of a page,
which has seventy letters.
.PP
First lines are filled.
.RS 2
.nf
cd \(ti \e
.fi
.RE
\&.dot \(gax\(ga \(ha stays .first is no request.
.SH OPTIONS
.TP
\fB\-m\fR, \fB\-\-model\fR, \fB\-\-weights\fR \fIFILE[:N]\fR
the model
.TP
\fB\-\-all\fR
everything
.SS How it looks
.TP
\fB\-q\fR
quiet
.TP
\fB\-\-at\fR \fILIST\fR
places: \(aq1\-3\(aq
.SH EXAMPLES
.RS 2
.nf
mgpt one \-m x
\&./mgpt one \en
.fi
.RE
.SH EXIT STATUS
0 ok, 2 usage
.SH SEE ALSO
.BR mgpt (1)
"""}


def written(folder, texts, changes='# Changes\n\n## 1.2.4 (2021-01-01)\n\n## 1.2.3 (2020-02-03)\n'):
    """The pages of a program that prints these texts, by name; what stderr has."""
    program = '#!%s\nimport sys\nsys.stdout.write(%r[" ".join(sys.argv[1:])])\n' % (sys.executable, texts)
    (folder / 'program').write_text(program, encoding='utf-8')
    (folder / 'program').chmod(0o755)
    (folder / 'changes').write_text(changes, encoding='utf-8')
    ran = subprocess.run([sys.executable, PAGES, folder / 'changes', folder, folder / 'program'], capture_output=True, text=True)
    return {p.stem: p.read_text(encoding='utf-8') for p in (folder / 'man1').glob('*.1')}, ran.stderr


texts = {'--help': MAIN, '--version': 'mgpt 1.2.3\n', 'one --help': ONE, 'two --help': TWO}
bad = 0
with tempfile.TemporaryDirectory() as name:
    found, said = written(pathlib.Path(name), texts)
    for page, want in {**WANT, 'error': ''}.items():
        got = {**found, 'error': said}.get(page)
        bad |= got != want
        print('ok' if got == want else 'not ok: found\n' + str(got), page)
    bad |= sorted(found) != ['mgpt', 'mgpt-one', 'mgpt-two']
    for other, want in ((dict(texts, **{'two --help': TWO.replace('  -h', '  --h')}), 'pages.py: an option in another form:   --h, --help  print this\n'),
                        (dict(texts, **{'two --help': 'no usage'}), 'pages.py: two --help\n'),
                        (dict(texts, **{'--version': 'mgpt 1.2.5\n'}), 'pages.py: CHANGELOG.md has no heading "## 1.2.5 (DATE)"\n')):
        said = written(pathlib.Path(name), other)[1]
        bad |= said != want
        print('ok' if said == want else 'not ok: ' + said, want.strip())
sys.exit(bad)
