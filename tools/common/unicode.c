/* Unicode by utf8proc. See unicode.h.
 *
 * utf8proc refuses a text with any ill-formed byte, so each well-formed part is passed to it alone.
 * A text already in normal form is also copied, which keeps callers simple.
 */
#include "common/unicode.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static int append_composed(char **to, const char *p, size_t n)
{
    utf8proc_uint8_t *composed = NULL;
    utf8proc_ssize_t got = utf8proc_map((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n, &composed,
                                        UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    int done = got >= 0 && arr_append(to, (const char *)composed, (size_t)got);
    free(composed);
    return done;
}

int nfc_copy(const char *text, size_t n, char **copy, size_t *n_copy, mgpt_error *err)
{
    char *out = NULL;
    *copy = NULL;
    int ok = arr_reserve(out, n + 1);
    for (size_t at = 0, good; at < n && ok; at += good) {
        good = utf8_well_formed(text + at, n - at);
        ok = good ? append_composed(&out, text + at, good) : arr_append(&out, text + at, 1);
        good += good == 0;
    }
    if (ok)
        *copy = malloc(arr_len(out) + 1);
    if (*copy) {
        *n_copy = arr_len(out);
        if (*n_copy)
            memcpy(*copy, out, *n_copy);
        (*copy)[*n_copy] = 0;
    }
    arr_free(out);
    return *copy ? MGPT_OK : err_memory(err, "a copy of the text", n);
}

size_t unicode_columns(uint32_t code)
{
    int width = code == UTF8_BAD ? 1 : utf8proc_charwidth((utf8proc_int32_t)code);
    return width > 0 ? (size_t)width : 0;
}
