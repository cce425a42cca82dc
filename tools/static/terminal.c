/* A terminal where the system has no description of it (terminfo): what ECMA-48 and xterm have in common, which is what
 * terminals of today understand. The linker sends libedit's calls to these functions (--wrap), which ask libtinfo
 * first. Under TERM=dumb, or none, there is nothing to ask for. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

int __real_tgetent(char *space, const char *terminal);
int __real_tgetnum(const char *name);
int __real_tgetflag(const char *name);
char *__real_tgetstr(const char *name, char **space);
int __wrap_tgetent(char *space, const char *terminal);
int __wrap_tgetnum(const char *name);
int __wrap_tgetflag(const char *name);
char *__wrap_tgetstr(const char *name, char **space);

static bool assumed; /* the last terminal has no description */

/* Names of termcap(5); a string's parameters are written as terminfo(5) has them, which tgoto takes. */
static const struct {
    char name[3];
    const char *text;
} STRINGS[] = {
    {"al", "\033[L"},
    {"bl", "\a"},
    {"cd", "\033[J"},
    {"ce", "\033[K"},
    {"ch", "\033[%i%p1%dG"},
    {"cl", "\033[H\033[J"},
    {"cm", "\033[%i%p1%d;%p2%dH"},
    {"dc", "\033[P"},
    {"dl", "\033[M"},
    {"ho", "\033[H"},
    {"ic", "\033[@"},
    {"nd", "\033[C"},
    {"up", "\033[A"},
    {"le", "\b"},
    {"md", "\033[1m"},
    {"me", "\033[m"},
    {"so", "\033[7m"},
    {"se", "\033[27m"},
    {"us", "\033[4m"},
    {"ue", "\033[24m"},
    {"DC", "\033[%p1%dP"},
    {"DO", "\033[%p1%dB"},
    {"IC", "\033[%p1%d@"},
    {"LE", "\033[%p1%dD"},
    {"RI", "\033[%p1%dC"},
    {"UP", "\033[%p1%dA"},
    {"ku", "\033[A"},
    {"kd", "\033[B"},
    {"kr", "\033[C"},
    {"kl", "\033[D"},
    {"kh", "\033[H"},
    {"@7", "\033[F"},
    {"kD", "\033[3~"},
};

int __wrap_tgetent(char *space, const char *terminal)
{
    int found = __real_tgetent(space, terminal);
    assumed = found != 1 && terminal && *terminal && strcmp(terminal, "dumb") != 0;
    return assumed ? 1 : found;
}

int __wrap_tgetnum(const char *name)
{
    if (!assumed)
        return __real_tgetnum(name);
    return strcmp(name, "co") == 0   ? 80
           : strcmp(name, "li") == 0 ? 24
                                     : -1; /* libedit asks the terminal for its size */
}

int __wrap_tgetflag(const char *name)
{
    if (!assumed)
        return __real_tgetflag(name);
    return strcmp(name, "am") == 0 ||
           strcmp(name, "xn") == 0; /* lines wrap, after the next character */
}

char *__wrap_tgetstr(const char *name, char **space)
{
    if (!assumed)
        return __real_tgetstr(name, space);
    for (size_t i = 0; i < sizeof STRINGS / sizeof *STRINGS; i++)
        if (strcmp(STRINGS[i].name, name) == 0) {
            size_t n = strlen(STRINGS[i].text) + 1;
            char *at = memcpy(*space, STRINGS[i].text, n);
            *space += n;
            return at;
        }
    return NULL;
}
