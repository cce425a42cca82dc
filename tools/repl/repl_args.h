/* The arguments of a repl command, read as the types of its row say (commands.inc). */
#ifndef MGPT_REPL_ARGS_H
#define MGPT_REPL_ARGS_H

#include <stddef.h>
#include <stdint.h>

struct repl;
struct repl_command;

struct repl_args {
    struct repl *repl;
    const struct repl_command *command;
    char *rest;           /* what no type has read; may be changed */
    const char *end;      /* where the line ends: it may hold NULs */
    const char *path;     /* -o FILE, or NULL */
    int32_t count;        /* 0: none given */
    int32_t layer, head;  /* head -1: the layer's MLP */
    size_t pos, key;      /* positions */
    int32_t token, other; /* -1: none given */
    size_t branch;
    double factor;
    const char *name; /* a tensor or a file */
    int words[2];     /* of each "=a|b": 0 none, 1 a, 2 b */
};

/* Reads the line's arguments by the command's types, and checks that nothing is left. Returns 0
 * after printing what is wrong and what was expected. */
int repl_args_read(struct repl_args *args);

/* Cuts off the next word, "" at the end, and moves *at to the one after it. Separators divide
 * words, except within quotes. */
char *repl_cut(char **at, const char *separators);
char *repl_word(struct repl_args *args);

/* Reads the next word, which must be there, as a number from 0 to n - 1. Returns 0 after an error, which calls it `what`. */
int repl_next_index(struct repl_args *args, const char *what, size_t n, int32_t *index);

/* 1 if nothing is left; otherwise 0 after printing what is. */
int repl_args_end(struct repl_args *args);

/* The next word as a head L.H or an MLP mlp.L. Returns 0 after printing an error. */
int repl_read_part(struct repl_args *args);

/* Reads a token: an id, or anything else, or anything in quotes, as the text of one token. The text
 * (n bytes and a NUL) may be changed. Returns 0 after printing an error. */
int repl_read_token(const struct repl *repl, char *text, size_t n, int32_t *token);

#endif
