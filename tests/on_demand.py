"""Takes the tests out of Ninja's target `all`, so that `ninja` and `ninja install` build none of them.

Meson before 1.7 puts the prerequisites of all tests into `all`, also with build_by_default: false.
`meson test` builds the tests that it runs, `ninja meson-test-prereq` all of them. Meson runs this after each
configuration, in a process that has MESON_BUILD_ROOT.
"""
import os

path = os.path.join(os.environ['MESON_BUILD_ROOT'], 'build.ninja')
if os.path.exists(path):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text.replace('build all: phony meson-test-prereq meson-benchmark-prereq ', 'build all: phony '))
