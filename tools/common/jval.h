/* JSON texts of any length: values in little memory. jtext.h and json_out.h write.
 *
 * A text becomes one allocation: its copy, where strings are decoded in place, and then a list of
 * 32-bit words, in the order of the text:
 *
 *     string, number, true, false, null, [] or {}    1 word
 *     array                                          3 words, its elements
 *     object                                         3 words, its members: key, value, key, value
 *
 * The first word of a value is the distance to its text in bytes, so a pointer to that word is all
 * that a value needs. The other two of a container are the number of words that it has with what is
 * in it, and the number of its elements or members. After them follow, so that no look-up is
 * linear: where the elements of an array begin, if any has more than one word; a hash table of the
 * keys of an object of more than JVAL_SMALL members.
 *
 * The words take less than twice the bytes of usual texts; more than that and a constant is refused,
 * so that the values of a text of n bytes take at most 3 n and that constant. Values do not change
 * once they are made, and any number of threads may read them.
 */
#ifndef MGPT_JVAL_H
#define MGPT_JVAL_H

#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

struct jval; /* a value; NULL: absent. Functions take absent values and those of other types. */

struct jval_error {
    size_t offset;
    int line, column; /* from 1 on; the column counts bytes */
    int is_memory;    /* an allocation failed */
    char text[112];
};

enum jval_type {
    JVAL_OBJECT,
    JVAL_ARRAY,
    JVAL_STRING,
    JVAL_INTEGER,
    JVAL_REAL,
    JVAL_TRUE,
    JVAL_FALSE,
    JVAL_NULL
};

enum {
    JVAL_FIRST = 1,    /* more may follow the value: *end */
    JVAL_ALLOW_NUL = 2 /* strings may hold U+0000, keys may not */
};

/* Reads an object or an array of unique keys. NULL with *e. `end`, or NULL: where it ends. */
const struct jval *jval_read(const void *text, size_t n, int flags, size_t *end,
                             struct jval_error *e);
void jval_free(const struct jval *root);

/* 1: jval_read failed for lack of memory; *err is set. */
int jval_no_memory(const struct jval_error *e, size_t n, mgpt_error *err);

/* JVAL_NULL for absent ones. A whole number beyond 64 bits is JVAL_REAL. */
enum jval_type jval_type(const struct jval *v);
int jval_is(const struct jval *v, enum jval_type type); /* 0: absent */
int jval_is_numeric(const struct jval *v);
int jval_is_flag(const struct jval *v);

size_t jval_size(const struct jval *array); /* number of elements; 0 for other types */
size_t jval_members(const struct jval *object);
const struct jval *jval_at(const struct jval *array, size_t i);
const struct jval *jval_get(const struct jval *object, const char *key);

/* NUL-terminated; NULL for other types. Owned by the root. */
const char *jval_text(const struct jval *string);
size_t jval_text_size(const struct jval *string);

int64_t jval_whole(const struct jval *number); /* 0 for other types */

/* A whole number beyond 64 bits as it is written: how many characters; 0: another value. */
size_t jval_long_whole(const struct jval *v, const char **digits);
double jval_number(const struct jval *number);

/* for (struct jval_iter i = jval_begin(object); jval_next(&i);) ... i.key, i.value: the members of an
 * object, in the order of the text. */
struct jval_iter {
    const char *key;
    const struct jval *value, *next;
    size_t left;
};
struct jval_iter jval_begin(const struct jval *object);
int jval_next(struct jval_iter *i);

#endif
