/* Private to tok*.c: patterns that a file brings along, and cutting a text by them.
 *
 * A pattern of a file is untrusted. It is compiled without \C, and PCRE2's effort per match is
 * limited: the limit rises in steps, and what the steps above the first may cost in one search is
 * bounded by a multiple of the text. Hostile patterns end in an error, never in a hang.
 */
#ifndef MGPT_TOK_REGEX_H
#define MGPT_TOK_REGEX_H

#include "gguf/gguf.h"
#include "mgpt.h"

struct tok_regex;

/* NULL with MGPT_EFILE: "PATTERN: PCRE2 error N at byte M", or MGPT_EMEM. */
struct tok_regex *regex_open(struct gguf_str pattern, mgpt_error *err);
void regex_close(struct tok_regex *r);

/* A part of a text: a match, or what is between two. Matches may be empty. */
struct span_part {
    size_t from, to;
    int is_match;
};

/* What happens to the matches; Hugging Face's SplitDelimiterBehavior. */
enum regex_cut { CUT_REMOVED, CUT_ISOLATED, CUT_PREVIOUS, CUT_NEXT, CUT_CONTIGUOUS };

/* Appends the parts of n bytes of valid UTF-8 in order to *parts, a stb_ds array that is emptied
 * first. Errors: MGPT_EMEM, MGPT_ETEXT if a match takes too long. */
int regex_parts(const struct tok_regex *r, const char *text, size_t n, struct span_part **parts,
                mgpt_error *err);

/* Joins the parts as `cut` says; those that are left with is_match 1 are to be dropped. `inverted`
 * exchanges matches and the rest first. */
void regex_cut_parts(struct span_part *parts, enum regex_cut cut, int inverted);

#endif
