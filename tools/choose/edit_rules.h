/* Edits of the logits before a draw: penalties, biases, filters. One row each; what they are set to.
 *
 * The order of the rows is that in which they apply, and llama.cpp's for the names that it has too:
 * bias, banned texts, the regular expression, repetition penalties, DRY, top-n-sigma, typical, XTC; Mirostat last. Then come
 * temperature, top-k, top-p and min-p (mgpt_sampler).
 */
#ifndef MGPT_EDIT_RULES_H
#define MGPT_EDIT_RULES_H

#include "choose/heal.h"
#include "choose/regex.h"
#include "mgpt.h"

#include <stddef.h>
#include <stdint.h>

/* clang-format off */
/* X(ID, KIND, name, argument, help, parts...): NUMBERS are up to EDIT_PARTS numbers with colons between
 * them, each {least, most, usual, whole}; the setting is off while the first one is the usual one.
 * TEXTS is a list of texts. From a row follow the option of generate and repl, /set with its completion,
 * the key in session files, and Python's argument (with _ for -). */
#define EDIT_SETTINGS(X)                                                                           \
    X(BIAS, TEXTS, "bias", "TOKEN+X",                                                              \
      "add X to a token's logit (TOKEN-inf: never); may be repeated", {0, 0, 0, 0})      \
    X(BAN, TEXTS, "ban", "TEXT",                                                                   \
      "never write TEXT: go back to where it began; may be repeated", {0, 0, 0, 0})                         \
    X(REGEX, TEXTS, "regex", "R",                                                                  \
      "draw only what makes all of the drawn text match R", {0, 0, 0, 0})  \
    X(REPEAT, NUMBERS, "repeat-penalty", "X",                                                      \
      "divide logits of tokens in the text by X, multiply negative ones (1: off)",        \
      {1e-3, 1e3, 1, 0})                                                                           \
    X(LAST, NUMBERS, "repeat-last", "N",                                                           \
      "last tokens that these penalties see (default -1: the whole text)",                         \
      {-1, INT32_MAX, -1, 1})                                                                      \
    X(PRESENCE, NUMBERS, "presence", "X",                                                          \
      "subtract X from the logits of tokens in the text (default 0)", {-1e3, 1e3, 0, 0})           \
    X(FREQUENCY, NUMBERS, "frequency", "X",                                                        \
      "subtract X each time that the token is in the text (default 0)", {-1e3, 1e3, 0, 0})         \
    X(DRY, NUMBERS, "dry", "X[:BASE:ALLOWED:LAST]",                                                \
      "less X BASE^(n-ALLOWED) after n repeated tokens (0:1.75:2:-1)",        \
      {0, 1e3, 0, 0}, {1, 1e3, 1.75, 0}, {1, INT32_MAX, 2, 1}, {-1, INT32_MAX, -1, 1})             \
    X(NSIGMA, NUMBERS, "top-nsigma", "X",                                                          \
      "drop logits X standard deviations below the largest (default 0: none)", {0, 1e30, 0, 0})    \
    X(TYPICAL, NUMBERS, "typical", "P",                                                            \
      "keep tokens of usual surprise that make up P (default 1: all)", {0, 1, 1, 0})               \
    X(XTC, NUMBERS, "xtc", "P[:T]",                                                                \
      "with probability P drop tokens above probability T (0.1), but one",      \
      {0, 1, 0, 0}, {0, 1, 0.1, 0})                                                                \
    X(MIROSTAT, NUMBERS, "mirostat", "2[:TAU:ETA]",                                                \
      "steer to TAU bits of surprise (5) by steps of ETA (0.1)",              \
      {0, 2, 0, 1}, {0, 1e3, 5, 0}, {0, 1e3, 0.1, 0})
/* clang-format on */

enum edit_values { EDIT_NUMBERS, EDIT_TEXTS };
enum { EDIT_PARTS = 4 };
#define EDIT_ID(id, ...) EDIT_##id,
enum edit_id { EDIT_SETTINGS(EDIT_ID) EDIT_N };

struct edit_part {
    double least, most, usual;
    int whole;
};

struct edit_setting {
    const char *name, *argument, *help;
    enum edit_values kind;
    struct edit_part parts[EDIT_PARTS];
    int n_parts;
};
extern const struct edit_setting edit_settings[EDIT_N];

/* A text of a setting as it was given, and what it says. */
struct edit_text {
    char *given, *bytes; /* malloc'ed */
    size_t n;            /* bytes: the banned text; 0 of a bias */
    int32_t token;       /* of a bias */
    float add;
};

struct edit_rules {
    const mgpt_model *model;
    size_t n_logits, n_tokens;        /* ids that can be drawn */
    double value[EDIT_N][EDIT_PARTS]; /* of NUMBERS */
    struct edit_text *texts[EDIT_N];  /* of TEXTS: stb_ds arrays */
    struct pattern pattern;           /* of REGEX */
    const struct heal *heal;          /* of one prompt, the caller's; NULL: none */
    struct token_trie *trie;          /* for REGEX; NULL: not made yet */
    uint8_t *breaks; /* [n_tokens] 1: no repetition goes through it, for DRY; or NULL */
};

/* Everything off. */
void edit_rules_begin(struct edit_rules *rules, const mgpt_model *model);
void edit_rules_free(struct edit_rules *rules);

/* Sets a setting, or adds to its texts, from what a user wrote. MGPT_OK; MGPT_EARG with what was expected
 * and found, MGPT_EMEM; then nothing has changed. */
int edit_rules_set(struct edit_rules *rules, enum edit_id id, const char *text, mgpt_error *err);

/* Back to the usual numbers, no texts. */
void edit_rules_clear(struct edit_rules *rules, enum edit_id id);

/* Writes a setting as edit_rules_set reads it, of TEXTS the i-th. As snprintf. */
int edit_rules_print(const struct edit_rules *rules, enum edit_id id, size_t i, char *to,
                     size_t cap);

/* 1 for NUMBERS that are on, or the number of texts. */
size_t edit_rules_count(const struct edit_rules *rules, enum edit_id id);

/* 1 while a setting has an effect; while any has. */
int edit_rules_is_on(const struct edit_rules *rules, enum edit_id id);
int edit_rules_any(const struct edit_rules *rules);

/* 1 if a draw depends on more than the text before it and the numbers drawn for it: samples with a common
 * text cannot draw together. */
int edit_rules_is_own(const struct edit_rules *rules);

/* The setting with this name, written with - or _; EDIT_N: none. */
enum edit_id edit_setting_named(const char *name);

/* The first token that text_of (mgpt_piece, mgpt_token_text) gives exactly these bytes, or -1. */
typedef const char *edit_text_fn(const mgpt_model *model, int32_t token, size_t *n);
int32_t edit_token_with(const mgpt_model *model, edit_text_fn *text_of, const char *bytes,
                        size_t n);

/* The first token that adds exactly these bytes to a text, or -1. */
int32_t edit_token_of(const mgpt_model *model, const char *bytes, size_t n);

#endif
