/* The normalizers, pre-tokenizers and decoders of a tokenizer.json as the steps of
 * src/tokenizer/tok_steps.h, with the tables of characters that they need. */
#ifndef MGPT_CONVERT_HF_STEPS_H
#define MGPT_CONVERT_HF_STEPS_H

#include "convert/vocab/hf_tokenizer_impl.h"

/* Fills the lists in c->vocab; refuses by name what the library does not run. */
void hf_steps_read(struct hf_tok *t, const struct jval *root);

/* Appends the table `name` (canonical, compatibility, classes, compositions, lowercase, marks,
 * nonspacing, control, nmt, word) to c->vocab.maps, once. */
void hf_table_add(struct checkpoint *c, const char *name);

/* White space in a class: Unicode's, which is not PCRE2's. */
#define HF_WHITE                                                                                   \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{"    \
    "205f}"                                                                                        \
    "\\x{3000}"

/* Characters of words in a class, but for those that a later Unicode has. */
#define HF_WORD "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}"

/* ---- patterns (hf_regex.c) ------------------------------------------------------------------- */

/* An Oniguruma pattern in PCRE2's language. *what names what has no exact counterpart; NULL: nothing. */
char *hf_regex_translate(struct checkpoint *c, const char *pattern, const char **what);

/* A text as a pattern. */
char *hf_regex_quote(struct checkpoint *c, const char *text);

/* A class of characters as a pattern, "[...]": whitespace, number, punctuation, chinese; or "words": words,
 * or runs of what is neither word nor white space. */
char *hf_regex_class(struct checkpoint *c, const char *kind);

/* Appends a text to an stb_ds array; 0 when out of memory. The NUL at the end does not count. */
int hf_regex_put(char **out, const char *text);

/* Such an array as a text of the checkpoint; ok 0: there was no memory for it. */
char *hf_regex_keep(struct checkpoint *c, char *out, int ok);

#endif
