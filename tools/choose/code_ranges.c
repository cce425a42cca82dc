/* Ranges of characters. See pattern.h. */
#include "choose/pattern.h"

#include <stddef.h>

int codes_add(struct code_ranges *c, uint32_t low, uint32_t high)
{
    if (c->n == CODE_RANGES)
        return 0;
    c->low[c->n] = low;
    c->high[c->n++] = high;
    return 1;
}

int codes_invert(struct code_ranges *c)
{
    struct code_ranges out = {.n = 0};
    for (uint32_t from = 0; from <= CODE_MOST;) {
        uint32_t next = CODE_MOST + 1, covered = from;
        for (size_t i = 0; i < c->n; i++) {
            if (c->low[i] <= from && c->high[i] + 1 > covered)
                covered = c->high[i] + 1;
            if (c->low[i] > from && c->low[i] < next)
                next = c->low[i];
        }
        if (covered == from && !codes_add(&out, from, next - 1))
            return 0;
        from = covered == from ? next : covered;
    }
    *c = out;
    return 1;
}

int codes_have(const struct code_ranges *c, uint32_t code)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->low[i] <= code && code <= c->high[i])
            return 1;
    return 0;
}

/* Adds pairs, which end with {0, 0}. */
static int add_pairs(struct code_ranges *c, const uint32_t (*pairs)[2])
{
    int ok = 1;
    for (; ok && (*pairs)[1] > 0; pairs++)
        ok = codes_add(c, (*pairs)[0], (*pairs)[1]);
    return ok;
}

static const uint32_t line_ends[][2] = {{'\n', '\n'}, {0, 0}};
static const uint32_t all_line_ends[][2] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}, {0, 0}};

int codes_any(struct code_ranges *c, int in_json)
{
    struct code_ranges own = {.n = 0};
    int ok = add_pairs(&own, in_json ? all_line_ends : line_ends) && codes_invert(&own);
    for (size_t i = 0; ok && i < own.n; i++)
        ok = codes_add(c, own.low[i], own.high[i]);
    return ok;
}

int codes_named(struct code_ranges *c, char letter, int in_json, int inverted)
{
    static const uint32_t digits[][2] = {{'0', '9'}, {0, 0}},
                          spaces[][2] = {{'\t', '\r'}, {' ', ' '}, {0, 0}},
                          words[][2] = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}, {0, 0}},
                          all_digits[][2] = {{'0', '9'}, {0x660, CODE_MOST}, {0, 0}},
                          all_words[][2] = {{'0', '9'}, {'A', 'Z'},        {'a', 'z'},
                                            {'_', '_'}, {0x80, CODE_MOST}, {0, 0}},
                          all_spaces[][2] = {{'\t', '\r'},     {0x1C, ' '},      {0x85, 0x85},
                                             {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                             {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                             {0x3000, 0x3000}, {0xFEFF, 0xFEFF}, {0, 0}};
    int is_other = letter == 'D' || letter == 'W' || letter == 'S';
    int is_wide = in_json && is_other != inverted; /* what only other programs call so is neither */
    struct code_ranges own = {.n = 0};
    const uint32_t(*pairs)[2] = NULL;
    if (letter == 'd' || letter == 'D')
        pairs = is_wide ? all_digits : digits;
    else if (letter == 'w' || letter == 'W')
        pairs = is_wide ? all_words : words;
    else if (letter == 's' || letter == 'S')
        pairs = is_wide ? all_spaces : spaces;
    if (!pairs)
        return 0;
    int ok = add_pairs(&own, pairs) && (!is_other || codes_invert(&own));
    for (size_t i = 0; ok && i < own.n; i++)
        ok = codes_add(c, own.low[i], own.high[i]);
    return ok ? 1 : -1;
}

int codes_without_escapes(const struct code_ranges *c, struct code_ranges *plain)
{
    struct code_ranges others = *c;
    int ok = codes_invert(&others) && codes_add(&others, 0, 0x1F) && codes_add(&others, '"', '"') &&
             codes_add(&others, '\\', '\\') && codes_invert(&others);
    *plain = others;
    return ok;
}
