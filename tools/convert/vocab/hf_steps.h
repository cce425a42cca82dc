/* The normalizers, pre-tokenizers and decoders of a tokenizer.json as the steps of
 * src/tokenizer/tok_steps.h, with the tables of characters that they need. */
#ifndef MGPT_CONVERT_HF_STEPS_H
#define MGPT_CONVERT_HF_STEPS_H

#include "convert/vocab/hf_tokenizer_impl.h"

/* Fills the lists in c->vocab; refuses by name what the library does not run. */
int hf_steps_read(struct hf_tok *t, const struct jval *root, mgpt_error *err);

/* Appends the table `name` (canonical, compatibility, classes, compositions, lowercase, marks,
 * nonspacing, control, nmt, word) to c->vocab.maps, once. Errors: MGPT_EMEM. */
int hf_table_add(struct checkpoint *c, const char *name, mgpt_error *err);

/* White space in a class: Unicode's, which is not PCRE2's. */
#define HF_WHITE                                                                                   \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{"    \
    "205f}"                                                                                        \
    "\\x{3000}"

/* Characters of words in a class, but for those that a later Unicode has. */
#define HF_WORD "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}"

/* ---- patterns (hf_regex.c) ------------------------------------------------------------------- */

/* An Oniguruma pattern in PCRE2's language, a stb_ds array that ends with NUL. Refuses, with
 * MGPT_EFILE, what has no exact counterpart; *what names it. */
int hf_regex_translate(const char *pattern, char **out, const char **what, mgpt_error *err);

/* A text as a pattern. */
int hf_regex_quote(const char *text, char **out, mgpt_error *err);

/* A class of characters as a pattern, "[...]"; kinds: whitespace, word, number, punctuation,
 * chinese. */
int hf_regex_class(const char *kind, int negated, char **out, mgpt_error *err);

/* Appends a text; 0 when out of memory. The NUL at the end does not count. */
int hf_regex_put(char **out, const char *text);

#endif
