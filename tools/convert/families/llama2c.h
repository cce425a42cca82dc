/* llama2.c, inside: what its two files share. */
#ifndef MGPT_CONVERT_LLAMA2C_H
#define MGPT_CONVERT_LLAMA2C_H

#include "convert/core/readers.h"

/* The file with the tokens of a model of hp.n_vocab: --tokenizer, tokN.bin or tokenizer.bin. 0: there is
 * none. */
int llama2c_find_tokens(struct checkpoint *c, const struct ckpt_input *in, struct ckpt_side *side);

/* Fills c->vocab from a tokenizer.bin that must hold exactly n_vocab tokens and nothing more.
 * `name` is the file's, for messages. */
void llama2c_vocabulary(struct checkpoint *c, struct span bytes, const char *name,
                        uint64_t n_vocab);

#endif
