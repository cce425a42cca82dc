/* Splitting regexes of tokenizers, recognised. */
#ifndef MGPT_CONVERT_PATTERN_H
#define MGPT_CONVERT_PATTERN_H

#include "gguf/gguf.h"

/* The tokenizer.ggml.pre whose pieces are this regex's (or, where families share one, of the best
 * known of them); NULL: mgpt has no such rule. Possessive quantifiers make no difference here.
 * is_ruby: the syntax is Oniguruma's for Ruby, as in tokenizer.json, else that of tiktoken. */
const char *pattern_rule(struct gguf_str regex, int is_ruby);

#endif
