/* microgpt JSON, inside: what the files json_*.c share.
 *
 * The text is parsed by jansson into a tree that stays alive until the model is written; matrices
 * point into it.
 */
#ifndef MGPT_CONVERT_JSON_MODEL_H
#define MGPT_CONVERT_JSON_MODEL_H

#include "common/json_read.h"
#include "convert/families/microgpt.h"

/* "an array", "a string", ... */
const char *json_kind(const json_t *v);

/* ---- json_facts.c ------------------------------------------------------------------------------ */

/* What a member states, and all that the objects in it state: 1; 0: nothing; negative with *err. The texts
 * of a vocabulary stay in the tree. */
int json_take(struct mg_parts *m, const char *key, const json_t *v);

/* The same of all members of an object; those that state nothing are noted. */
int json_facts(struct mg_parts *m, const json_t *object);

/* The note about a member that is left out. */
void json_ignore(struct mg_parts *m, const char *key, const json_t *v);

int json_is_container(const json_t *v);

/* An object with the token embedding in it, under any of its names. */
int json_names_matrices(const json_t *v);

/* ---- json_matrix.c ----------------------------------------------------------------------------- */

/* Adds all matrices of v under the name: rows of numbers, a list of numbers (a gain), an object with a
 * shape and data, an object of matrices ("NAME.KEY"), a list of objects ("NAME.i") or of matrices
 * ("NAME_i", one per layer). */
int json_add_matrices(struct mg_parts *m, const char *name, const json_t *v);

/* Adds rows x cols numbers (cols where rows is 0) of a flat list, from number `at` on. They have been
 * checked. */
int json_add_flat(struct mg_parts *m, const char *name, const json_t *list, uint64_t at,
                  uint64_t rows, uint64_t cols);

/* All elements are numbers. */
int json_check_numbers(struct mg_parts *m, const char *name, const json_t *list);

/* ---- json_base64.c ----------------------------------------------------------------------------- */

/* Adds {"shape": ..., "dtype": "f32", "data": "base64"}, little-endian. rows 0: a vector. */
int json_add_base64(struct mg_parts *m, const char *name, const json_t *v, uint64_t rows,
                    uint64_t cols);

/* ---- json_state.c ------------------------------------------------------------------------------ */

/* The matrices are another program's (fused projections): then its mapping describes the model. */
int json_is_other(const struct mg_parts *m);
int json_map_other(struct mg_parts *m);

/* ---- json_params.c ----------------------------------------------------------------------------- */

/* The matrices of a parameter list, in microgpt's order: all numbers in one list, or a list of
 * matrices. Needs the facts of the file. */
int json_add_params(struct mg_parts *m, const json_t *list);

/* ---- json_vocab.c ------------------------------------------------------------------------------ */

/* Sets m->entries from a list of strings, one string, {"character": id} or {"id": "character"}. */
int json_vocabulary(struct mg_parts *m, const char *key, const json_t *v);

#endif
