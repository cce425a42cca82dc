/* Private to hf_regex*.c: a pattern being translated. */
#ifndef MGPT_CONVERT_HF_REGEX_IMPL_H
#define MGPT_CONVERT_HF_REGEX_IMPL_H

#include <stddef.h>
#include <stdint.h>

enum { REGEX_DEPTH = 40 };

struct regex_reader {
    const char *p;                   /* what is left */
    char **out;                      /* stb_ds array */
    const char *what;                /* what is refused */
    int failed;                      /* out of memory */
    unsigned depth;                  /* of parentheses */
    uint64_t caseless;               /* bit of each depth: inside (?i */
    unsigned group[REGEX_DEPTH + 1]; /* of each depth: the number of the group, 0: none */
    unsigned n_groups;
    uint32_t closed; /* bit of each group */
    int named;       /* some have names */
};

/* Appends to *r->out. */
void regex_emit(struct regex_reader *r, const char *text);
void regex_emit_n(struct regex_reader *r, const char *p, size_t n);

/* The first reason stays. */
void regex_refuse(struct regex_reader *r, const char *what);

int regex_is_caseless(const struct regex_reader *r);

/* What an escape of a class matches, as it is written inside [...]; NULL: another escape. */
const char *regex_class_members(char c, int in_class);

/* Escapes of one character, in a class or not; 0 if it is another escape. */
int regex_char_escape(struct regex_reader *r, int in_class);

/* A class, after its [ (hf_regex_class.c). */
void regex_read_class(struct regex_reader *r);

#endif
