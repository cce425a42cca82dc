/* The fields of mgpt_info for programs. A new field of mgpt.h has a row in INFO_FIELDS, from which it
 * is in `mgpt info --json` and, if it is a flag or a real number, in what lab pages know of the model.
 */
#ifndef MGPT_INFO_JSON_H
#define MGPT_INFO_JSON_H

#include "common/jtext.h"
#include "mgpt.h"

/* clang-format off */
/* In the order of mgpt.h. info_json.c does not compile when a field is missing or of another type. */
#define INFO_FIELDS(LONG_TEXT, TEXT, INT, FLAG, REAL, COUNT)                                       \
    TEXT(arch) TEXT(name) LONG_TEXT(chat_template) TEXT(tokenizer) TEXT(isa) TEXT(type)            \
    TEXT(norm) TEXT(activation) TEXT(position) LONG_TEXT(ignored)                                  \
    INT(n_vocab) INT(n_tokens) INT(n_ctx) INT(n_embd) INT(n_layer) INT(n_head) INT(n_head_kv)      \
    INT(head_dim) INT(n_ff) INT(n_expert) INT(n_expert_used) INT(n_ff_expert) INT(n_further)       \
    INT(value_dim) INT(n_latent) INT(bos) INT(eos) FLAG(add_bos) FLAG(nfc) FLAG(steps) FLAG(gated) \
    FLAG(tied) INT(ln_embd) INT(ln_final)                                                          \
    REAL(norm_eps) REAL(rope_base) REAL(attn_scale) REAL(value_scale) REAL(logit_scale)            \
    REAL(residual_scale) REAL(logit_softcap) REAL(attn_softcap)                                    \
    COUNT(n_params) COUNT(file_bytes) COUNT(bytes_per_token) COUNT(kv_bytes)
/* clang-format on */

enum { INFO_TEXTS = 1, INFO_INTS = 2, INFO_FLAGS = 4, INFO_REALS = 8, INFO_COUNTS = 16 };
enum { INFO_ALL = 31 };

/* Adds the fields of these kinds, by their names, to an object; real: jtext's letter for real numbers. */
void info_put(struct jtext *object, const mgpt_info *info, unsigned kinds, const char *real);

#endif
