/* Reads a GGUF file for pass.c. It trusts its input. Keys and tensors are items. */
#pragma once

#include "blocks.h"

#include <stdio.h>

enum { MAX_ITEMS = 4096, STRING = 8, ARRAY = 9 };

struct item {
    const uint8_t *name; /* its length (8 bytes), then the text */
    uint32_t type;       /* of a key: 4 u32, 6 f32, 7 bool, 8 string, 9 array; see type_bytes */
    const uint8_t *at;   /* the value; NULL: absent. A string or array begins with its length */
    size_t cols, rows;   /* of a tensor; a third dimension continues the rows */
};
static struct item items[MAX_ITEMS];
static uint8_t file[1 << 28];
static const size_t type_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static const uint8_t *after_value(uint32_t type, const uint8_t *p)
{
    if (type == STRING)
        return p + 8 + number(p, 8);
    if (type != ARRAY)
        return p + type_bytes[type];
    uint32_t each = (uint32_t)number(p, 4);
    uint64_t n = number(p + 4, 8);
    for (p += 12; n > 0; n--)
        p = after_value(each, p);
    return p;
}

static int same(const uint8_t *string, const char *text)
{
    return number(string, 8) == strlen(text) && !memcmp(string + 8, text, strlen(text));
}

static const struct item *find(const char *name)
{
    const struct item *t = items;
    while (t->name && !same(t->name, name))
        t++;
    return t;
}

static double value_of(const struct item *t, double absent)
{
    if (!t->at || t->type == ARRAY)
        return absent;
    return t->type == 6 ? from_bits((uint32_t)number(t->at, 4))
                        : (double)number(t->at, (int)type_bytes[t->type]);
}

/* Number i of a list of floats, or the number. */
static double entry_of(const struct item *t, int i)
{
    int is_list = t->at && t->type == ARRAY;
    return is_list ? (double)from_bits((uint32_t)number(t->at + 12 + 4 * i, 4)) : value_of(t, 0);
}

/* The largest number of a list, or the number. */
static double largest(const struct item *t, double absent)
{
    uint64_t most = 0, n = t->at && t->type == ARRAY ? number(t->at + 4, 8) : 0;
    for (uint64_t i = 0; i < n; i++)
        most = number(t->at + 12 + 4 * i, 4) > most ? number(t->at + 12 + 4 * i, 4) : most;
    return n ? (double)most : value_of(t, absent);
}

static void text_of(const struct item *t, const char *absent, char *out, size_t room)
{
    int n = t->at ? (int)number(t->at, 8) : (int)strlen(absent);
    snprintf(out, room, "%.*s", n, t->at ? (const char *)t->at + 8 : absent);
}

static void read_items(void)
{
    struct item *t = items;
    const uint8_t *p = file + 24;
    for (uint64_t n = number(file + 16, 8); n > 0; n--, t++) {
        const uint8_t *type = p + 8 + number(p, 8);
        *t = (struct item){.name = p, .type = (uint32_t)number(type, 4), .at = type + 4};
        p = after_value(t->type, type + 4);
    }
    for (uint64_t n = number(file + 8, 8); n > 0; n--, t++) {
        const uint8_t *dims = p + 8 + number(p, 8) + 4, *type = dims + 8 * number(dims - 4, 4);
        *t = (struct item){p, (uint32_t)number(type, 4), file + number(type + 4, 8),
                           (size_t)number(dims, 8),
                           type > dims + 8 ? (size_t)number(dims + 8, 8) : 1};
        p = type + 12;
    }
    size_t by = (size_t)value_of(find("general.alignment"), 32);
    for (t = items; t->name; t++)
        t->at += t->cols ? ((size_t)(p - file) + by - 1) / by * by : 0;
}

/* Row `row` of a tensor. */
static const uint8_t *row_of(const struct item *t, size_t row)
{
    return t->at + row * t->cols / blocks[t->type].columns * blocks[t->type].bytes;
}

static float element(const struct item *t, size_t row, size_t column)
{
    return weight_at((int)t->type, row_of(t, row), column);
}
