/* config.json of a Hugging Face directory: the object that has the text model's keys, and which of them were read.
 *
 * A key whose value is null counts as absent, as in the original. What the keys mean is not known here
 * (from_hf.c, hf_rope.c and models.txt).
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
    const char *whole_type; /* of the model around the text model; NULL: there is none */
};

/* Reads JSON that must be an object, and is there until the run ends; faults leave it (checkpoint.h). `file`
 * is for messages. */
json_t *hf_json(struct checkpoint *c, struct span bytes, const char *file);

/* Reads as hf_json a file that can be large: a vocabulary or an index. `flags` are those of jval.h. */
const struct jval *hf_values(struct checkpoint *c, struct span bytes, const char *file, int flags);

/* root: of config.json, which is changed. model_type stays NULL where neither the root nor its text part has
 * one. */
void hf_config_read(struct checkpoint *c, struct hf_config *cfg, json_t *root);

/* The value of a key, NULL when absent or null. */
const json_t *hf_value(const json_t *object, const char *key);

/* Gives hf_config.text a key that it does not have; takes the value, NULL: out of memory. */
void hf_set(struct checkpoint *c, struct hf_config *cfg, const char *key, json_t *value);

/* 1: no reader has asked for this key of hf_config.text. */
int hf_unread(const json_t *text, const char *key);

#endif
