/* JSON that is written piece by piece has the bytes of jansson's. */
#include "common/json_out.h"

#include "support/build_model.h"
#include "support/unit.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

/* Compares what the writer writes of one value, which is freed, with what jansson writes. */
static void same_text(json_t *value, const char *p, size_t n, double v, int ascii)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    struct json_out out = {to, ascii};
    if (p)
        json_out_string(&out, p, n);
    else
        json_out_real(&out, v);
    fclose(to);
    char *expected =
        json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | (ascii ? JSON_ENSURE_ASCII : 0u));
    assert_string_equal(text, expected);
    free(expected);
    free(text);
    json_decref(value);
}

TEST(json_out_reals)
{
    static const double values[] = {0,           -0.0,  1,      -1.5,   1e22,    1e-5, 1e-7,
                                    1e16,        1e17,  5e-324, 1e300,  -1e-300, 0.1,  1. / 3,
                                    123456789.0, 1e100, -2e-10, 1.5e15, 17,      1e9};
    uint64_t rng = 1;
    for (size_t i = 0; i < COUNT(values); i++)
        same_text(json_real(values[i]), NULL, 0, values[i], 0);
    for (size_t i = 0; i < 20000; i++) {
        uint64_t bits = toy_random(&rng);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (isfinite(v))
            same_text(json_real(v), NULL, 0, v, 0);
    }
    same_text(json_null(), NULL, 0, NAN, 0);
    same_text(json_null(), NULL, 0, -INFINITY, 0);
}

TEST(json_out_strings)
{
    char text[8];
    for (uint32_t code = 0; code < 0x11000; code++) {
        size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        if (code >= 0xD800 && code < 0xE000)
            continue;
        static const uint8_t first[] = {0, 0, 0xC0, 0xE0, 0xF0};
        for (size_t i = 0; i < n; i++)
            text[i] = (char)(i || n == 1 ? (n == 1 ? code : 0x80 | (code >> 6 * (n - 1 - i) & 63))
                                         : first[n] | code >> 6 * (n - 1));
        for (int ascii = 0; ascii < 2; ascii++)
            same_text(json_stringn(text, n), text, n, 0, ascii);
    }
}
