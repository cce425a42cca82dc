/* Sequences of a JSON reference that have log-probabilities of some tokens only, with OpenAI's names. */
#ifndef MGPT_REFERENCE_PARTIAL_H
#define MGPT_REFERENCE_PARTIAL_H

#include "check/reference/reference_impl.h"

/* 1 when the object has top_logprobs, itself or in its "logprobs". */
int reference_has_partial(const json_t *object);

/* Reads and checks it. */
int reference_partial_item(struct reference *ref, struct ref_item *item, const json_t *object,
                           mgpt_error *err);
int reference_partial_row(struct reference *ref, size_t i, size_t row, double *out,
                          mgpt_error *err);

/* In reference_json.c: the list of ids of an object, whatever it is called. */
int reference_json_ids(const struct reference *ref, struct ref_item *item, const json_t *object,
                       mgpt_error *err);

#endif
