/* microgpt JSON, inside: what the files json_*.c share.
 *
 * The text is parsed by jansson into a tree that stays alive until the model is written; matrices
 * point into it. What is collected here goes to microgpt_build.
 */
#ifndef MGPT_CONVERT_JSON_MODEL_H
#define MGPT_CONVERT_JSON_MODEL_H

#include "microgpt.h"

#include <jansson.h>

struct json_model {
    struct checkpoint *c;
    const struct ckpt_input *in;
    struct mg_matrix *matrices; /* stb_ds arrays */
    struct gguf_str *entries;
    struct mg_facts facts;
    mgpt_error *err;
};

/* "an array", "a string", ... */
const char *json_kind(const json_t *v);

/* ---- json_matrix.c ----------------------------------------------------------------------------- */

/* Adds all matrices of v under the name: rows of numbers, {"shape": [r, c], "data": [...]}, an object
 * of matrices ("NAME.KEY"), a list of objects ("NAME.i") or of matrices ("NAME_i", one per layer). */
int json_add_matrices(struct json_model *m, const char *name, const json_t *v);

/* Adds rows x cols numbers of a flat list, from number `at` on. They have been checked. */
int json_add_flat(struct json_model *m, const char *name, const json_t *list, uint64_t at,
                  uint64_t rows, uint64_t cols);

/* All elements are numbers. */
int json_check_numbers(struct json_model *m, const char *name, const json_t *list);

/* ---- json_params.c ----------------------------------------------------------------------------- */

/* The matrices of a parameter list, in microgpt's order: all numbers in one list, or a list of
 * matrices. Needs the facts of the file. */
int json_add_params(struct json_model *m, const json_t *list);

/* ---- json_vocab.c ------------------------------------------------------------------------------ */

/* Sets m->entries from a list of strings, one string, {"character": id} or {"id": "character"}. */
int json_vocabulary(struct json_model *m, const char *key, const json_t *v);

#endif
