/* Shared by the files that translate JSON schemas. */
#ifndef MGPT_SCHEMA_IMPL_H
#define MGPT_SCHEMA_IMPL_H

#include "choose/schema.h"
#include "common/jval.h"

/* In (?j: ): any character. */
#define SCHEMA_ANY "[\\x00-\\u{10FFFF}]"
#define SCHEMA_COMMA ", ?"

enum { SCHEMA_INSIDE = 32 };

struct schema {
    const struct jval *root;
    char *text;      /* stb_ds array: the expression so far */
    char place[256]; /* "/properties/a", cut at its end */
    const struct jval *inside[SCHEMA_INSIDE];
    size_t depth;
    mgpt_error *err;
};

/* All return 0 when *s->err says what is wrong. */
int schema_refuse(struct schema *s, const char *what, ...) __attribute__((format(printf, 2, 3)));
int schema_put(struct schema *s, const char *text);
int schema_put_n(struct schema *s, const char *text, size_t n);

/* A schema in the keyword `key`, as a group. */
int schema_put_inside(struct schema *s, const char *key, const struct jval *v);

/* A string, any value, as it is written. */
int schema_put_literal(struct schema *s, const char *text, size_t n);
int schema_put_value(struct schema *s, const struct jval *v);

/* Strings in which `pattern` is found; of a `format`. Integers between minimum and maximum. */
int schema_put_search(struct schema *s, const struct jval *pattern);
int schema_put_format(struct schema *s, const struct jval *format);
int schema_put_range(struct schema *s, const struct jval *v);

#endif
