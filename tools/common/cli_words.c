/* Words of a command line: numbers, and names that are near or mean the same. See cli.h. Nothing
 * here prints. */
#include "common/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 32 };

/* ---- numbers --------------------------------------------------------------------------------- */

static int outside(const struct cli_option *o, double v)
{
    return o->min < o->max && !(v >= o->min && v <= o->max);
}

/* strtoll and strtod skip spaces, accept "-1" for unsigned, hex, inf and nan; these are refused. */
static int plain_number(const char *text, const char *allowed)
{
    return *text && strspn(text, allowed) == strlen(text);
}

static int set_int(const struct cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (!plain_number(text, "+-0123456789") || *end || end == text || errno ||
        outside(o, (double)v) || v < INT32_MIN || v > INT32_MAX)
        return 0;
    *(int32_t *)o->to = (int32_t)v;
    return 1;
}

static int set_u64(const struct cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (!plain_number(text, "0123456789") || *end || errno || outside(o, (double)v))
        return 0;
    *(uint64_t *)o->to = v;
    return 1;
}

static int set_real(const struct cli_option *o, const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (!plain_number(text, "+-.eE0123456789") || *end || end == text || !isfinite(v) ||
        outside(o, v))
        return 0;
    *(double *)o->to = v;
    return 1;
}

int cli_set_number(const struct cli_option *o, const char *text)
{
    switch (o->kind) {
    case CLI_INT:
        return set_int(o, text);
    case CLI_U64:
        return set_u64(o, text);
    case CLI_REAL:
        return set_real(o, text);
    default:
        return 0;
    }
}

/* ---- suggestions ----------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein distance, with a swap of neighbours (the most common typo) as one edit. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][MAX_NAME + 1], na = strlen(a), nb = strlen(b);
    if (na > MAX_NAME || nb > MAX_NAME)
        return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            now[j] = least(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1, SIZE_MAX);
        }
    }
    return rows[na % 3][nb];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n_names)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 4 + 2; /* further away is another word */
    for (size_t i = 0; i < n_names; i++) {
        int begins = strlen(word) >= 2 && strncmp(names[i], word, strlen(word)) == 0;
        size_t d = begins ? 0 : distance(word, names[i]);
        if (d < best_distance && d < strlen(names[i])) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}

const char *cli_synonym(const char *word, const struct cli_synonym *rows, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++)
        if (strcmp(rows[i].word, word) == 0)
            return rows[i].name;
    return NULL;
}
