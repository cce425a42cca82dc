/* Terminals: what they can show. See screen.h. */
#include "common/screen.h"

#include "base/utf8.h"
#include "common/cli.h"
#include "common/unicode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_UNKNOWN = 80, WIDTH_MIN = 20, WIDTH_MAX = 1000 };

/* ---- what there is --------------------------------------------------------------------------- */

static int screen_holds(const char *text, const char *word)
{
    return text && strstr(text, word) != NULL;
}

static enum screen_mode find_mode(void)
{
    const char *term = getenv("TERM"), *color = getenv("COLORTERM"), *no = getenv("NO_COLOR");
    if (!isatty(STDOUT_FILENO) || (no && *no) || !term || strcmp(term, "dumb") == 0)
        return SCREEN_PLAIN;
    if (screen_holds(color, "truecolor") || screen_holds(color, "24bit"))
        return SCREEN_TRUECOLOR;
    return screen_holds(term, "256color") ? SCREEN_256 : SCREEN_PLAIN;
}

static size_t find_width(void)
{
    struct winsize size;
    int32_t columns = WIDTH_UNKNOWN;
    const struct cli_option row = {
        .kind = CLI_INT, .to = &columns, .min = WIDTH_MIN, .max = WIDTH_MAX};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        columns = size.ws_col;
    else if (getenv("COLUMNS"))
        cli_set_number(&row, getenv("COLUMNS"));
    return columns < WIDTH_MIN ? WIDTH_MIN : (size_t)columns;
}

int screen_look(struct screen *s, const char *name, int32_t width)
{
    static const char *const names[] = {
        [SCREEN_PLAIN] = "plain", [SCREEN_256] = "256", [SCREEN_TRUECOLOR] = "truecolor"};
    s->width = width > 0 ? (size_t)width : find_width();
    s->mode = find_mode();
    for (int i = 0; name && i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            s->mode = (enum screen_mode)i;
            return 1;
        }
    return name == NULL;
}

/* ---- colours --------------------------------------------------------------------------------- */

struct rgb {
    int r, g, b;
};

/* Colours in equal steps of lightness: violet, blue, teal, green, yellow. Values between two steps get
 * a mixed colour. */
static const struct rgb scale[] = {
    {48, 12, 78},   {58, 48, 124},  {46, 82, 140},  {34, 112, 142}, {30, 142, 136},
    {56, 170, 116}, {112, 196, 86}, {184, 216, 56}, {252, 230, 40},
};
enum { LAST = sizeof scale / sizeof *scale - 1 };

static struct rgb color_of(double value)
{
    double at = value > 0 ? value * LAST : 0;
    int i = at < LAST ? (int)at : LAST - 1;
    double f = at < LAST ? at - i : 1;
    const struct rgb *a = &scale[i], *b = a + 1;
    return (struct rgb){(int)lround(a->r + f * (b->r - a->r)),
                        (int)lround(a->g + f * (b->g - a->g)),
                        (int)lround(a->b + f * (b->b - a->b))};
}

/* The like of it in the colours that every terminal of 256 has. */
static int index_of(double value)
{
    static const int indexes[] = {53, 54, 55, 24, 25, 30, 36, 71, 77, 149, 190, 226};
    enum { N = sizeof indexes / sizeof *indexes };
    double at = value > 0 ? value * N : 0;
    return indexes[at < N ? (int)at : N - 1];
}

/* which: 38 for letters, 48 for the ground under them. */
static void set_color(const struct screen *s, FILE *to, int which, double value)
{
    if (s->mode == SCREEN_256) {
        fprintf(to, "\033[%d;5;%dm", which, index_of(value));
        return;
    }
    struct rgb c = color_of(value);
    fprintf(to, "\033[%d;2;%d;%d;%dm", which, c.r, c.g, c.b);
}

char screen_ramp(double value)
{
    static const char ramp[] = " .:-=+*#%@";
    double at = value > 0 ? value * 9 + 0.5 : 0;
    return ramp[at < 9 ? (int)at : 9];
}

void screen_halves(const struct screen *s, FILE *to, double upper, double lower)
{
    screen_reset(s, to);
    if (isnan(upper) && isnan(lower)) {
        fputs("·", to);
        return;
    }
    set_color(s, to, 38, isnan(upper) ? lower : upper);
    if (!isnan(upper) && !isnan(lower))
        set_color(s, to, 48, lower);
    fputs(isnan(upper) ? "▄" : "▀", to);
}

void screen_ground(const struct screen *s, FILE *to, double value)
{
    if (s->mode == SCREEN_PLAIN)
        return;
    set_color(s, to, 48, value);
    fputs(value > 0.5 ? "\033[38;5;16m" : "\033[38;5;231m", to);
}

void screen_reset(const struct screen *s, FILE *to)
{
    if (s->mode != SCREEN_PLAIN)
        fputs("\033[0m", to);
}

/* ---- columns --------------------------------------------------------------------------------- */

size_t screen_columns(const char *text)
{
    size_t columns = 0, n = strlen(text);
    uint32_t code;
    for (size_t i = 0; i < n;) {
        i += utf8_next(text + i, n - i, &code);
        columns += unicode_columns(code);
    }
    return columns;
}

void screen_cut(char *text, size_t columns)
{
    size_t n = strlen(text), used = 0;
    uint32_t code;
    if (columns == 0)
        *text = 0;
    if (columns == 0 || screen_columns(text) <= columns)
        return;
    for (size_t i = 0; i < n;) { /* one column is for the mark */
        size_t length = utf8_next(text + i, n - i, &code);
        if (used + unicode_columns(code) > columns - 1) {
            text[i] = '~';
            text[i + 1] = 0;
            return;
        }
        used += unicode_columns(code);
        i += length;
    }
}
