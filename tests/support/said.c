/* Texts that functions print. See said.h. */
#include "support/said.h"

#include "support/unit.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <unistd.h>

static const char *file_name;
static char *expected; /* the whole file */
static char *made;     /* all sections of this run */
static size_t n_made, made_cap;
static FILE *captured;
static int saved = -1;

/* ---- text ---- */

static char *said_whole(FILE *f)
{
    long size = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    char *text = size >= 0 ? calloc((size_t)size + 1, 1) : NULL;
    rewind(f);
    if (!text || fread(text, 1, (size_t)size, f) != (size_t)size)
        fail_msg("cannot read what is printed");
    return text;
}

static void said_add(const char *text, size_t n)
{
    if (n_made + n + 1 > made_cap) {
        made_cap = 2 * (n_made + n + 1);
        made = realloc(made, made_cap);
        assert_non_null(made);
    }
    memcpy(made + n_made, text, n);
    n_made += n;
    made[n_made] = 0;
}

/* A number with a point or an exponent, rounded, in out. Its length, 0: there is none at `at`. */
static size_t said_number(const char *at, char out[40])
{
    static const char digits[] = "0123456789";
    size_t n = strspn(at, digits), point = at[n] == '.' ? strspn(at + n + 1, digits) : 0;
    size_t end = n + (point ? 1 + point : 0),
           sign = at[end] == 'e' ? strspn(at + end + 1, "+-") : 0;
    size_t power = at[end] == 'e' ? strspn(at + end + 1 + sign, digits) : 0;
    if (n == 0 || (point == 0 && power == 0))
        return 0;
    double value = strtod(at, NULL);
    int rounding = value != 0 && fabs(value) < 1e-11;
    snprintf(out, 40, rounding ? "~0" : "%.4g", value);
    return end + (power ? 1 + sign + power : 0);
}

static void said_text(const char *text)
{
    char number[40];
    for (const char *at = text; *at; at++) {
        size_t n = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '.' || at[-1] == '_')
                       ? said_number(at, number)
                       : 0;
        if (n) {
            said_add(number, strlen(number));
            at += n - 1;
        } else {
            said_add(at, 1);
        }
    }
}

/* ---- files ---- */

static int said_end(void **state)
{
    (void)state;
    FILE *f = getenv("MGPT_WRITE") ? fopen(unit_path(file_name), "w") : NULL;
    if (f && (fwrite(made, 1, n_made, f) != n_made || fclose(f) != 0))
        fprintf(stderr, "%s: cannot write\n", file_name);
    free(made);
    free(expected);
    return 0;
}

void said_in(const char *file)
{
    file_name = file;
    unit_group(NULL, said_end);
}

static const char *read_expected(void)
{
    FILE *f = expected ? NULL : fopen(unit_path(file_name), "r");
    if (f) {
        expected = said_whole(f);
        fclose(f);
    }
    return expected ? expected : "";
}

/* ---- sections ---- */

void said_begin(void)
{
    captured = tmpfile();
    assert_non_null(captured);
    fflush(stdout);
    saved = dup(STDOUT_FILENO);
    assert_true(saved >= 0 && dup2(fileno(captured), STDOUT_FILENO) >= 0);
}

static void end_capture(void)
{
    fflush(stdout);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    close(saved);
    char *text = said_whole(captured);
    fclose(captured);
    said_text(text);
    said_add("\n", *text && text[strlen(text) - 1] != '\n');
    free(text);
}

/* The section that begins with this line, its length; NULL: there is none. */
static const char *find_section(const char *text, const char *head, size_t *n)
{
    size_t n_head = strlen(head);
    const char *at = text;
    while (at && strncmp(at, head, n_head) != 0) {
        at = strstr(at, "\n== ");
        at += at ? 1 : 0;
    }
    const char *end = at && *at ? strstr(at, "\n== ") : NULL;
    *n = !at ? 0 : end ? (size_t)(end + 1 - at) : strlen(at);
    return at;
}

static void print_first_difference(const char *head, const char *is, size_t n_is, const char *was,
                                   size_t n_was)
{
    while (n_is && n_was) {
        size_t a = strcspn(is, "\n"), b = strcspn(was, "\n");
        a = a < n_is ? a : n_is;
        b = b < n_was ? b : n_was;
        if (a != b || memcmp(is, was, a) != 0)
            break;
        n_is -= a < n_is ? a + 1 : a;
        n_was -= b < n_was ? b + 1 : b;
        is += a + 1;
        was += b + 1;
    }
    print_message("%.*s:\n  is  %.*s\n  was %.*s\n", (int)strcspn(head, "\n"), head,
                  (int)(n_is ? strcspn(is, "\n") : 0), is, (int)(n_was ? strcspn(was, "\n") : 0),
                  was);
}

int said_as(const char *name, ...)
{
    char head[256] = "== ";
    size_t first = n_made, n_was = 0, n;
    va_list args;
    va_start(args, name);
    vsnprintf(head + 3, sizeof head - 20, name, args);
    va_end(args);
    size_t n_head = strlen(head);
    strcpy(head + n_head, "\n");
    for (int again = 2; made && find_section(made, head, &n); again++)
        snprintf(head + n_head, 16, " (%d)\n", again);
    said_add(head, strlen(head));
    end_capture();
    if (getenv("MGPT_WRITE"))
        return 1;
    const char *was = find_section(read_expected(), head, &n_was), *is = made + first;
    size_t n_is = n_made - first;
    if (was && n_was == n_is && memcmp(was, is, n_is) == 0)
        return 1;
    print_first_difference(head, is, n_is, was ? was : "", n_was);
    return 0;
}
