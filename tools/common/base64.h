/* The digits of base64 (RFC 4648). */
#ifndef MGPT_BASE64_H
#define MGPT_BASE64_H

#include <stddef.h>

/* 0 to 63, or -1 for any other character. */
static inline int base64_digit(char c)
{
    static const struct {
        char first, last;
        int value;
    } ranges[] = {{'A', 'Z', 0}, {'a', 'z', 26}, {'0', '9', 52}, {'+', '+', 62}, {'/', '/', 63}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return ranges[i].value + c - ranges[i].first;
    return -1;
}

#endif
