/* Values of a checkpoint file behind one interface: JSON, a pickle, an .npz archive.
 *
 * A value is a handle into its file, which must stay open. In a hostile pickle containers may be
 * shared or hold themselves: walkers go to fixed depths, and a file gives at most *left members in
 * all, which tree_read checks.
 */
#ifndef MGPT_CONVERT_TREE_H
#define MGPT_CONVERT_TREE_H

#include "common/jval.h"
#include "convert/containers/npy_state.h"
#include "convert/families/microgpt.h"

enum tree_kind {
    TREE_NONE,   /* absent, null, None */
    TREE_NUMBER, /* also an object with a number in .data: microgpt's Value */
    TREE_FLAG,
    TREE_TEXT,
    TREE_OPAQUE, /* bytes and the like: nothing that a model is made of */
    TREE_LIST,   /* containers, from here on */
    TREE_DICT,   /* or the attributes of an object */
    TREE_ARRAY,  /* of NumPy */
    TREE_OBJECT  /* any other */
};

struct tree_file {
    const struct tree_ops *ops;
    const void *data;
    uint64_t *left; /* members that may still be asked for */
};

struct tree {
    enum tree_kind kind;
    const struct tree_file *file; /* NULL: absent */
    uint64_t at;                  /* in the file */
    const struct jval *json;      /* of JSON */
    double number;                /* of a flag: 0 or 1 */
    int is_whole;                 /* 1: the number is whole, `whole` */
    int64_t whole;
    struct gguf_str text;
    size_t n;         /* members of a list or dict */
    const char *what; /* "a list": for messages */
};

/* for (struct tree_iter i = tree_items(t); tree_next(&i);) ... i.value: the members of a list or
 * dict, in the order of the file. */
struct tree_iter {
    struct tree of, value;
    struct gguf_str key; /* of a dict's member; p NULL: the key is not text */
    int64_t id;          /* the key as a whole number, also from its digits; -1: it is none */
    size_t n;            /* members so far */
    struct jval_iter json;
    struct pickle_iter pickle;
};

struct tree_ops {
    int (*next)(struct tree_iter *i); /* sets value, key and id, as tree_next */
    void (*array)(const struct tree *t, struct mg_parts *m, const char *name); /* adds its matrix */
};

enum {
    TREE_MAX_NESTING = 8,
    TREE_MAX_NAME = 200,
    TREE_LOOKS =
        64 /* *left for each byte of the file: how often all walks together may see a member */
};

/* The first value of a file of n bytes. The file is set up in *file and *left. */
struct tree tree_of_json(struct tree_file *file, uint64_t *left, const struct jval *root, size_t n);
struct tree tree_of_pickle(struct tree_file *file, uint64_t *left, const struct pickle *p,
                           pickle_id root, size_t n);

/* Up to 9 digits as a number; -1: the text is something else. For adapters. */
int64_t tree_digits(struct gguf_str s);

struct tree_iter tree_items(struct tree t);
int tree_next(struct tree_iter *i);

/* The member of a dict; the first of a list. Absent ones have the kind TREE_NONE. */
struct tree tree_get(struct tree dict, const char *key);
struct tree tree_first(struct tree list);

static inline int tree_is_container(struct tree t)
{
    return t.kind >= TREE_LIST;
}

static inline int tree_same(struct tree a, struct tree b)
{
    return a.file == b.file && a.at == b.at;
}

/* The member's key, NUL-terminated and clipped, or words for one that is not text. */
void tree_key(const struct tree_iter *i, char buf[TREE_MAX_NAME]);

/* ---- microgpt in a tree ---------------------------------------------------------------------- */

/* tree_matrix.c. Adds all matrices of a value under the name: an array, rows of numbers, a list of
 * numbers (a gain), a dict with a shape and data, a dict of matrices ("NAME.KEY"), a list of dicts
 * ("NAME.i") or of matrices ("NAME_i", one per layer). */
void tree_add_matrices(struct mg_parts *m, const char *name, struct tree t);

/* The matrices of a parameter list, in microgpt's order: all numbers in one list or array, or a
 * list of matrices. Needs the facts of the file. */
void tree_add_params(struct mg_parts *m, struct tree list);

/* json_base64.c. Adds the little-endian values that are encoded as base64; rows 0: a vector. */
void base64_add(struct mg_parts *m, const char *name, struct gguf_str data, struct gguf_str dtype,
                uint64_t rows, uint64_t cols);

/* npy_model.c. What an array of objects was made of: the object of a 0-d array, the list of others.
 * `p` is the pickle after the header; 0 when it is no such array. */
pickle_id npy_objects(const struct pickle *p);

/* npz_model.c. The model of an .npz archive. */
void microgpt_npz(struct mg_parts *m, const struct npz_member *arrays);

/* tree_facts.c. A dict with the token embedding in it, under any of its names. */
int tree_names_matrices(struct tree dict);

/* Takes what a member states, and all that the dicts in it state: 1; 0: nothing. */
int tree_take(struct mg_parts *m, const char *key, struct tree v);

/* Takes what all members of a dict but one state, as tree_take. Members that state nothing are noted if
 * `note`. */
void tree_facts(struct mg_parts *m, struct tree dict, struct tree but, int note);

/* The note about a member that is left out. */
void tree_ignore(struct mg_parts *m, const char *key, struct tree v);

/* Sets m->entries, unless they are set, from a list of texts, one text, {"character": id} or {"id":
 * "character"}. */
void tree_vocabulary(struct mg_parts *m, const char *key, struct tree v);

/* tree_model.c. Finds the weights in a file, and takes them and the facts around them. `formats`,
 * or NULL: names for m->c->format of flat, wrapped, list. */
void tree_read(struct mg_parts *m, struct tree root, const char *const formats[3]);

/* Whether the file is a microgpt and not another program's state dict. */
int tree_is_microgpt(struct tree root);

#endif
