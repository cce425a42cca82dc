/* The words of a value, for the two files that know them: jval.c, jval_read.c. */
#ifndef MGPT_JVAL_IMPL_H
#define MGPT_JVAL_IMPL_H

#include "common/jval.h"

#include <stdint.h>

enum {
    JVAL_SMALL = 8,       /* members of an object without a hash table */
    JVAL_HEAD = 3,        /* words of a container before what is in it */
    JVAL_MAX_PROBES = 400 /* keys that collide by chance: a few dozen at most */
};

/* What marks a string with a NUL in it, in the place of its quote; 4 bytes of its length follow. */
#define JVAL_NUL_MARK '\x01'

struct jval {
    uint32_t back; /* from here to the text */
};

static inline const char *jval_source(const struct jval *v)
{
    return (const char *)v - v->back;
}

/* 1: a container with something in it. */
static inline int jval_is_long(const struct jval *v)
{
    const char *p = jval_source(v);
    return (*p == '[' && p[1] != ']') || (*p == '{' && p[1] != '}');
}

static inline size_t jval_words(const struct jval *v)
{
    return jval_is_long(v) ? v[1].back : 1;
}

/* Slots of the hash table of n keys. */
static inline size_t jval_slots(size_t n)
{
    return n > JVAL_SMALL ? n + n / 4 + 1 : 0;
}

/* The key in the hash table of n slots: where it is or could be; *probes: slots that are looked at.
 * Slots hold the distance from the object in words, 0: empty. */
size_t jval_find_slot(const struct jval *object, const uint32_t *slots, size_t n, const char *key,
                      size_t *probes);

#endif
