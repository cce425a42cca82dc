/* Ranges of characters. See pattern.h. */
#include "choose/pattern.h"

enum { MOST_CODE = 0x10FFFF };

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
    for (uint32_t from = 0; from <= MOST_CODE;) {
        uint32_t next = MOST_CODE + 1, covered = from;
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
