/* Private to tok_steps*.c: steps as they are run. */
#ifndef MGPT_TOK_STEPS_IMPL_H
#define MGPT_TOK_STEPS_IMPL_H

#include "base/mem.h"
#include "tokenizer/tok_chars.h"
#include "tokenizer/tok_regex.h"
#include "tokenizer/tok_steps.h"

#define STEPS_MAX 32

enum step_op {
    STEP_MAP,
    STEP_DECOMPOSE,
    STEP_COMPOSE,
    STEP_REPLACE,
    STEP_SURROUND,
    STEP_PREPEND,
    STEP_LEAD,
    STEP_STRIP,
    STEP_BYTES,
    STEP_SPLIT,
    STEP_CHARSMAP,
    N_STEP_OPS
};

struct step {
    enum step_op op;
    unsigned how; /* lead: 1 first only; strip: 1 left | 2 right; split: enum regex_cut */
    int inverted; /* split */
    struct tok_regex *regex;
    struct char_map *map;
    struct gguf_str text; /* in the file */
};

struct step_list {
    size_t n;
    struct step steps[STEPS_MAX];
};

struct tok_steps {
    struct step_list normalizers, pre_tokenizers;
    struct char_map *classes, *compositions; /* NULL: no step needs them */
    struct tok_charsmap *charsmap;
};

/* The text after one step that is not a split, into *out, which is emptied first. */
int step_apply(const struct tok_steps *s, const struct step *step, const char *p, size_t n,
               char **out, int *at_start, mgpt_error *err);

#endif
