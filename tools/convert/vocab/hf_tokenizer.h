/* The tokenizer of a Hugging Face checkpoint: tokenizer.json, vocab.json with merges.txt, or
 * tokenizer.model next to the input, or the file that --tokenizer names.
 *
 * tokenizer.json can describe nearly any tokenizer. The shapes that mgpt runs are recognised as a
 * whole; for all others the error names the component. Nothing is approximated.
 */
#ifndef MGPT_CONVERT_HF_TOKENIZER_H
#define MGPT_CONVERT_HF_TOKENIZER_H

#include "convert/core/readers.h"

/* Fills c->vocab, or leaves c->vocab.model NULL with a note when there is no tokenizer. n_rows is
 * the embedding's: a vocabulary may be smaller (padding rows), a larger one is refused with both
 * numbers. Also reads, if present: config.json and generation_config.json (bos, eos),
 * tokenizer_config.json (bos, eos, add_bos_token, chat_template), chat_template.jinja.
 * --no-tokenizer leaves all of it out. Errors leave the run (checkpoint.h): MGPT_EFILE naming file and
 * component, MGPT_EMEM, MGPT_EIO. */
void hf_tokenizer_read(struct checkpoint *c, const struct ckpt_input *in, uint64_t n_rows);

#endif
