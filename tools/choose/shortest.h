/* Numbers with as few digits as they need. */
#ifndef MGPT_SHORTEST_H
#define MGPT_SHORTEST_H

#include <stdio.h>
#include <stdlib.h>

/* Writes x with the fewest digits, `digits` (at most 17) or more, that read as x; with is_float, as the float that x is. As
 * snprintf. */
static inline int shortest_number(char *to, size_t cap, double x, int digits, int is_float)
{
    char text[40];
    int same;
    do {
        snprintf(text, sizeof text, "%.*g", digits, x);
        same = is_float ? strtof(text, NULL) == (float)x : strtod(text, NULL) == x;
    } while (!same && digits++ < 17);
    return snprintf(to, cap, "%s", text);
}

#endif
