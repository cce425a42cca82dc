/* config.json of a Hugging Face directory: numbers by key, each checked where it is read.
 *
 * A key whose value is null counts as absent, as in the original. Numbers may be written 1e-05,
 * 100000.0 or 10000. Errors name file, key and value: "config.json: hidden_size is 0, expected 1 to
 * 1048576". What the keys mean is not known here (from_hf.c, hf_rope.c and models.txt).
 */
#ifndef MGPT_CONVERT_HF_CONFIG_H
#define MGPT_CONVERT_HF_CONFIG_H

#include "common/jval.h"
#include "convert/containers/json_read.h"
#include "convert/core/checkpoint.h"

struct hf_config {
    json_t *root;
    const json_t *text;     /* root, or its text_config: where the keys are looked up */
    const char *model_type; /* of the text model */
    const char
        *whole_type; /* of the model that the text model is a part of; NULL: it is the whole */
};

/* Reads JSON that must be an object; its end may hold no more. `file` is for messages. */
json_t *hf_json(struct span bytes, const char *file, mgpt_error *err);

/* The same for files that can be large: vocabularies and indices. `flags`: of jval.h. */
const struct jval *hf_values(struct span bytes, const char *file, int flags, mgpt_error *err);

/* model_type stays NULL where neither the root nor its text part has one. */
int hf_config_read(struct hf_config *cfg, struct span bytes, mgpt_error *err);

/* An object in place of the text, which becomes the configuration's also after an error. */
int hf_config_take(struct hf_config *cfg, json_t *root, mgpt_error *err);
void hf_config_free(struct hf_config *cfg);

/* The value of a key, NULL when absent or null. */
const json_t *hf_value(const json_t *object, const char *key);

/* Gives hf_config.text a key that it does not have; takes the value, NULL: out of memory. */
int hf_set(struct hf_config *cfg, const char *key, json_t *value, mgpt_error *err);

/* 1: no reader has asked for this key of hf_config.text. */
int hf_unread(const json_t *text, const char *key);

/* Each returns MGPT_OK, or MGPT_EFILE with *err. Where the key is absent `absent` is taken; a
 * negative one (hf_real: NaN) means that the key is required. */
int hf_size(const json_t *object, const char *key, int64_t absent, uint32_t *to, mgpt_error *err);
int hf_real(const json_t *object, const char *key, double absent, double *to, mgpt_error *err);
int hf_flag(const json_t *object, const char *key, int absent, int *to, mgpt_error *err);
int hf_text(const json_t *object, const char *key, const char *absent, const char **to,
            mgpt_error *err);

/* "config.json: KEY: WHAT" */
int hf_refuse(const char *key, const char *what, mgpt_error *err);

/* Refuses a key that is true, or anything but null, 0, or false. */
int hf_must_be_off(const json_t *object, const char *key, mgpt_error *err);

#endif
