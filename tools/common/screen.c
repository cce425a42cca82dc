/* Terminals: what they can show. See screen.h. */
#include "common/screen.h"

#include "base/utf8.h"
#include "common/cli.h"
#include "common/colours.h"
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

/* Sizes in equal steps of lightness: violet, blue, teal, green, yellow. */
static const unsigned sizes[] = {0x300c4e, 0x3a307c, 0x2e528c, 0x22708e, 0x1e8e88,
                                 0x38aa74, 0x70c456, 0xb8d838, 0xfce628};
static const unsigned signs[] = {COLOURS_SIGNS_DARK};

/* The like of it in the colours that every terminal of 256 has. */
static int index_of(enum screen_scale scale, double value)
{
    static const int of_sizes[] = {53, 54, 55, 24, 25, 30, 36, 71, 77, 149, 190, 226};
    static const int of_signs[] = {153, 74, 24, 235, 94, 173, 223};
    int n = scale == SCREEN_SIGNS ? sizeof of_signs / sizeof *of_signs
                                  : sizeof of_sizes / sizeof *of_sizes;
    double at = value > 0 ? value * n : 0;
    int i = at < n ? (int)at : n - 1;
    return scale == SCREEN_SIGNS ? of_signs[i] : of_sizes[i];
}

/* which: 38 for letters, 48 for the ground under them. */
static void set_color(const struct screen *s, FILE *to, int which, enum screen_scale scale,
                      double value)
{
    if (s->mode == SCREEN_256) {
        fprintf(to, "\033[%d;5;%dm", which, index_of(scale, value));
        return;
    }
    unsigned c = scale == SCREEN_SIGNS ? colours_at(signs, sizeof signs / sizeof *signs, value)
                                       : colours_at(sizes, sizeof sizes / sizeof *sizes, value);
    fprintf(to, "\033[%d;2;%u;%u;%um", which, c >> 16, c >> 8 & 255, c & 255);
}

char screen_ramp(double value)
{
    static const char ramp[] = " .:-=+*#%@";
    double at = value > 0 ? value * 9 + 0.5 : 0;
    return ramp[at < 9 ? (int)at : 9];
}

void screen_halves(const struct screen *s, FILE *to, enum screen_scale scale, double upper,
                   double lower)
{
    screen_reset(s, to);
    if (isnan(upper) && isnan(lower)) {
        fputs("·", to);
        return;
    }
    set_color(s, to, 38, scale, isnan(upper) ? lower : upper);
    if (!isnan(upper) && !isnan(lower))
        set_color(s, to, 48, scale, lower);
    fputs(isnan(upper) ? "▄" : "▀", to);
}

void screen_ground(const struct screen *s, FILE *to, enum screen_scale scale, double value)
{
    if (s->mode == SCREEN_PLAIN)
        return;
    int is_light = scale == SCREEN_SIGNS ? fabs(value - 0.5) > 0.25 : value > 0.5;
    set_color(s, to, 48, scale, value);
    fputs(is_light ? "\033[38;5;16m" : "\033[38;5;231m", to);
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
