/* What libedit asks of the system, for a program that runs where there is nothing else.
 *
 * Users: glibc loads shared libraries to look them up, which may be of another glibc or not there. No user is known
 * here, so ~NAME is not completed.
 *
 * Locale: glibc reads files for all but C, and loads shared libraries for charsets. The linker sends libedit's calls
 * to the functions below (--wrap): characters are UTF-8 always, their classes and widths utf8proc's. */
#define _DEFAULT_SOURCE /* getpwent */
#include <errno.h>
#include <locale.h>
#include <pwd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>
#include <wchar.h>
#include <wctype.h>

enum { MOST_BYTES = 4 };
static const size_t INVALID = (size_t)-1, INCOMPLETE = (size_t)-2;

/* ---- users ---- */

void setpwent(void)
{
}
void endpwent(void)
{
}
struct passwd *getpwent(void)
{
    return NULL;
}
struct passwd *getpwuid(uid_t user)
{
    (void)user;
    return NULL;
}
int getpwuid_r(uid_t user, struct passwd *entry, char *space, size_t n, struct passwd **found)
{
    (void)user, (void)entry, (void)space, (void)n;
    *found = NULL;
    return 0;
}
int getpwnam_r(const char *name, struct passwd *entry, char *space, size_t n, struct passwd **found)
{
    (void)name, (void)entry, (void)space, (void)n;
    *found = NULL;
    return 0;
}

/* ---- characters ---- */

char *__wrap_setlocale(int category, const char *name);
size_t __wrap___ctype_get_mb_cur_max(void);
size_t __wrap_mbrtowc(wchar_t *to, const char *from, size_t n, mbstate_t *state);
size_t __wrap_mbstowcs(wchar_t *to, const char *from, size_t most);
size_t __wrap_wcrtomb(char *to, wchar_t c, mbstate_t *state);
size_t __wrap_wcstombs(char *to, const wchar_t *from, size_t most);
int __wrap_wctomb(char *to, wchar_t c);
int __wrap_wctob(wint_t c);
int __wrap_wcwidth(wchar_t c);
int __wrap_iswprint(wint_t c);
int __wrap_iswgraph(wint_t c);
int __wrap_iswalnum(wint_t c);
int __wrap_iswalpha(wint_t c);
int __wrap_iswspace(wint_t c);
wint_t __wrap_towlower(wint_t c);
wint_t __wrap_towupper(wint_t c);

char *__wrap_setlocale(int category, const char *name)
{
    static char utf8[] = "C.UTF-8";
    (void)category, (void)name;
    return utf8;
}

size_t __wrap___ctype_get_mb_cur_max(void)
{
    return MOST_BYTES;
}

/* The bytes of a character that begins with this one, 0 if none does. */
static size_t length_of(unsigned char first)
{
    return first < 0x80   ? 1
           : first < 0xc2 ? 0
           : first < 0xe0 ? 2
           : first < 0xf0 ? 3
           : first < 0xf5 ? 4
                          : 0;
}

/* What a state of glibc's size holds: the first bytes of a character. */
struct begun {
    unsigned char n, bytes[MOST_BYTES - 1];
};
_Static_assert(sizeof(struct begun) <= sizeof(mbstate_t), "a state has room");

size_t __wrap_mbrtowc(wchar_t *to, const char *from, size_t n, mbstate_t *state)
{
    static mbstate_t own; /* as the standard has it; the repl reads keys in one thread */
    struct begun begun;
    memcpy(&begun, state ? state : &own, sizeof begun);
    if (!from)
        from = "", n = 1, to = NULL;
    unsigned char bytes[MOST_BYTES];
    memcpy(bytes, begun.bytes, begun.n);
    size_t length = begun.n, want = MOST_BYTES, used = 0;
    utf8proc_int32_t c = -1;
    while (used < n && length < want) {
        bytes[length++] = (unsigned char)from[used++];
        want = length_of(bytes[0]);
        if (want == 0 || (length > 1 && (bytes[length - 1] & 0xc0) != 0x80))
            break;
    }
    bool whole = length == want && length > 0;
    bool wrong = length > 0 &&
                 (want == 0 || length > want || (length > 1 && (bytes[length - 1] & 0xc0) != 0x80));
    begun.n = whole || wrong ? 0 : (unsigned char)length;
    memcpy(begun.bytes, bytes, begun.n);
    memcpy(state ? state : &own, &begun, sizeof begun);
    if (wrong || (whole && utf8proc_iterate(bytes, (utf8proc_ssize_t)length, &c) < 0)) {
        errno = EILSEQ;
        return INVALID;
    }
    if (!whole)
        return INCOMPLETE;
    if (to)
        *to = (wchar_t)c;
    return c == 0 ? 0 : used;
}

size_t __wrap_mbstowcs(wchar_t *to, const char *from, size_t most)
{
    size_t n = 0;
    for (; !to || n < most; n++) {
        wchar_t c = 0;
        mbstate_t state = {0};
        size_t length = __wrap_mbrtowc(&c, from, MOST_BYTES, &state);
        if (length == INVALID || length == INCOMPLETE)
            return INVALID;
        if (to)
            to[n] = c;
        if (c == 0)
            return n;
        from += length;
    }
    return n;
}

size_t __wrap_wcrtomb(char *to, wchar_t c, mbstate_t *state)
{
    (void)state;
    if (!to)
        return 1;
    utf8proc_ssize_t length =
        utf8proc_codepoint_valid((utf8proc_int32_t)c)
            ? utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)to)
            : 0;
    if (length > 0)
        return (size_t)length;
    errno = EILSEQ;
    return INVALID;
}

int __wrap_wctomb(char *to, wchar_t c)
{
    return to ? (int)__wrap_wcrtomb(to, c, NULL) : 0;
}

size_t __wrap_wcstombs(char *to, const wchar_t *from, size_t most)
{
    for (size_t n = 0;; from++) {
        char bytes[MOST_BYTES];
        size_t length = __wrap_wcrtomb(bytes, *from, NULL);
        if (length == INVALID)
            return INVALID;
        if (to && length > most - n)
            return n;
        if (to)
            memcpy(to + n, bytes, length);
        if (*from == 0)
            return n;
        n += length;
    }
}

int __wrap_wctob(wint_t c)
{
    return c < 0x80 ? (int)c : EOF;
}

/* ---- classes ---- */

static utf8proc_category_t category_of(wint_t c)
{
    return utf8proc_codepoint_valid((utf8proc_int32_t)c) ? utf8proc_category((utf8proc_int32_t)c)
                                                         : UTF8PROC_CATEGORY_CN;
}

int __wrap_iswprint(wint_t c)
{
    utf8proc_category_t category = category_of(c);
    return category != UTF8PROC_CATEGORY_CN && category != UTF8PROC_CATEGORY_CC &&
           category != UTF8PROC_CATEGORY_CS;
}

int __wrap_wcwidth(wchar_t c)
{
    return c == 0 ? 0 : __wrap_iswprint((wint_t)c) ? utf8proc_charwidth((utf8proc_int32_t)c) : -1;
}

int __wrap_iswalpha(wint_t c)
{
    utf8proc_category_t category = category_of(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

int __wrap_iswalnum(wint_t c)
{
    return __wrap_iswalpha(c) || category_of(c) == UTF8PROC_CATEGORY_ND;
}

int __wrap_iswspace(wint_t c)
{
    return (c >= '\t' && c <= '\r') || category_of(c) == UTF8PROC_CATEGORY_ZS;
}

int __wrap_iswgraph(wint_t c)
{
    return __wrap_iswprint(c) && !__wrap_iswspace(c);
}

wint_t __wrap_towlower(wint_t c)
{
    return (wint_t)utf8proc_tolower((utf8proc_int32_t)c);
}

wint_t __wrap_towupper(wint_t c)
{
    return (wint_t)utf8proc_toupper((utf8proc_int32_t)c);
}
