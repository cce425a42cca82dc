/* What a text on a command line means to a model. See unescape.h. */
#include "common/unescape.h"

#include "base/utf8.h"

#include <string.h>

static int hex_value(char c)
{
    const char *digits = "0123456789abcdef", *at;
    char lower = c >= 'A' && c <= 'F' ? (char)(c + 32) : c;
    at = lower ? strchr(digits, lower) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Reads up to max hex digits at p; stores the value and returns the number of digits. */
static size_t hex_number(const char *p, size_t n, size_t max, uint32_t *value)
{
    size_t i = 0;
    *value = 0;
    for (; i < n && i < max && hex_value(p[i]) >= 0; i++)
        *value = *value * 16 + (uint32_t)hex_value(p[i]);
    return i;
}

/* Reads the escape after a backslash, at p. Writes its bytes to out (never more than were read)
 * and stores their number. Returns the bytes of p used, 0 if it is not an escape. */
static size_t read_escape(const char *p, size_t n, char *out, size_t *n_out)
{
    static const char names[] = "ntr\"\\,", to[] = "\n\t\r\"\\,";
    const char *at = n && *p ? strchr(names, *p) : NULL;
    uint32_t code;
    *n_out = 1;
    if (at) {
        *out = to[at - names];
        return 1;
    }
    if (n >= 3 && *p == 'x' && hex_number(p + 1, n - 1, 2, &code) == 2) {
        *out = (char)code;
        return 3;
    }
    if (n < 4 || p[0] != 'u' || p[1] != '{')
        return 0;
    size_t digits = hex_number(p + 2, n - 2, 6, &code);
    if (digits == 0 || 2 + digits >= n || p[2 + digits] != '}' || code > 0x10FFFF ||
        (code >= 0xD800 && code <= 0xDFFF))
        return 0;
    *n_out = utf8_put(code, out);
    return digits + 3;
}

int64_t text_unescape(char *bytes, size_t n_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_bytes;) {
        if (bytes[i] != '\\') {
            bytes[n++] = bytes[i++];
            continue;
        }
        char piece[4];
        size_t n_piece, took = read_escape(bytes + i + 1, n_bytes - i - 1, piece, &n_piece);
        if (took == 0)
            return -1;
        memcpy(bytes + n, piece, n_piece);
        n += n_piece;
        i += 1 + took;
    }
    return (int64_t)n;
}

int text_is_none(const mgpt_model *model)
{
    mgpt_info info;
    return mgpt_get_info(model, &info, NULL) == MGPT_OK && strcmp(info.tokenizer, "none") == 0;
}
