/* Unicode without utf8proc. See unicode.h. */
#include "common/unicode.h"

#include "base/error.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* The first character that a normal form can change or be changed by. */
enum { FIRST_UNSTABLE = 0x300 };

int nfc_copy(const char *text, size_t n, char **copy, size_t *n_copy, mgpt_error *err)
{
    uint32_t code;
    *copy = NULL;
    for (size_t i = 0; i < n;) {
        size_t at = i;
        i += utf8_next(text + i, n - i, &code);
        if (code != UTF8_BAD && code >= FIRST_UNSTABLE)
            return err_set(
                err, MGPT_EFILE, at,
                "U+%04X: the model reads normal form C, which this build cannot make: it "
                "has no utf8proc (meson setup -Dconvert=enabled)",
                code);
    }
    *n_copy = n;
    *copy = malloc(n + 1);
    if (!*copy)
        return err_memory(err, "a copy of the text", n);
    if (n)
        memcpy(*copy, text, n);
    (*copy)[n] = 0;
    return MGPT_OK;
}

size_t unicode_columns(uint32_t code)
{
    static const uint32_t none[][2] = {{0, 0x1F},        {0x7F, 0x9F},     {0x300, 0x36F},
                                       {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F},
                                       {0xFE20, 0xFE2F}};
    static const uint32_t wide[][2] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0x4DBF},
                                       {0x4E00, 0xA4CF},   {0xA960, 0xA97C},   {0xAC00, 0xD7A3},
                                       {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
                                       {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
                                       {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (code >= none[i][0] && code <= none[i][1])
            return 0;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (code >= wide[i][0] && code <= wide[i][1])
            return 2;
    return 1;
}
