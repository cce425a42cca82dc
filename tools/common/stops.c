/* Stop texts. See stops.h. */
#include "common/stops.h"

#include "base/error.h"
#include "base/utf8.h"
#include "common/unescape.h"

#include <stdlib.h>
#include <string.h>

static int read_stop(struct stop *stop, const char *text, const struct cli_command *command,
                     const char *option)
{
    stop->bytes = strdup(text);
    if (!stop->bytes) {
        cli_note("out of memory: the stop texts");
        return EXIT_FULL;
    }
    int64_t n = text_unescape(stop->bytes, strlen(stop->bytes));
    if (n < 0)
        return cli_usage(command,
                         "%s %s: a backslash begins \\n, \\t, \\r, \\\", \\\\, \\xHH or \\u{HHHH}",
                         option, text);
    if (n == 0)
        return cli_usage(command, "%s: expected a text, found an empty one", option);
    stop->n = (size_t)n;
    if (utf8_well_formed(stop->bytes, stop->n) != stop->n)
        return cli_usage(command, "%s %s: expected whole characters of UTF-8", option, text);
    return EXIT_OK;
}

static int longest_first(const void *a, const void *b)
{
    const struct stop *x = a, *y = b;
    return x->n < y->n ? 1 : -(x->n > y->n);
}

int stops_open(struct stops *stops, const struct cli_command *command, const char *option,
               const struct cli_many *texts, const mgpt_model *model)
{
    int code = EXIT_OK;
    if (texts->n > 0 && text_is_none(model))
        return cli_usage(command, "%s: the model has no vocabulary, so its text is ids", option);
    for (; code == EXIT_OK && stops->n < texts->n; stops->n++)
        code = read_stop(&stops->list[stops->n], texts->values[stops->n], command, option);
    if (stops->n > 0)
        qsort(stops->list, stops->n, sizeof *stops->list, longest_first);
    return code;
}

int stops_add(struct stops *stops, const char *bytes, size_t n)
{
    struct stop stop = {malloc(n), n};
    if (!stop.bytes)
        return 0;
    memcpy(stop.bytes, bytes, n);
    stops->list[stops->n++] = stop;
    qsort(stops->list, stops->n, sizeof *stops->list, longest_first);
    return 1;
}

void stops_close(struct stops *stops)
{
    while (stops->n > 0)
        free(stops->list[--stops->n].bytes);
}

const struct stop *stops_find(const struct stops *stops, const char *bytes, size_t from,
                              size_t before, size_t n, size_t *at)
{
    for (size_t end = before + 1; end <= n; end++)
        for (size_t i = 0; i < stops->n; i++) {
            const struct stop *s = &stops->list[i];
            if (from + s->n <= end && bytes[end - 1] == s->bytes[s->n - 1] &&
                memcmp(bytes + end - s->n, s->bytes, s->n) == 0) {
                *at = end - s->n;
                return s;
            }
        }
    return NULL;
}

size_t stops_held(const struct stops *stops, const char *bytes, size_t from, size_t n)
{
    size_t held = 0;
    for (size_t i = 0; i < stops->n; i++)
        for (size_t k = stops->list[i].n - 1; k > held; k--)
            if (from + k <= n && memcmp(bytes + n - k, stops->list[i].bytes, k) == 0)
                held = k;
    return held;
}
