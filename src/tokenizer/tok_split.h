/* Private to tok*.c. Splitting rules: how a family of byte-level BPE models cuts a text into
 * pieces before merging. The rules are in tok_rules.c, the matching in tok_split.c. */
#ifndef MGPT_TOK_SPLIT_H
#define MGPT_TOK_SPLIT_H

#include "gguf/gguf.h"
#include "mgpt.h"

#define SPLIT_STAGES 6

/* One row per name that tokenizer.ggml.pre may have. */
struct split_rule {
    const char *pre;
    const char *const *stages; /* patterns, ending with NULL */
    unsigned flags;
};

/* Defaults of the family; keys of the file override them. */
enum {
    RULE_BOS = 1,   /* texts begin with BOS */
    RULE_WHOLE = 2, /* a piece that is a token is not merged */
    RULE_NFC = 4    /* texts must be in normal form C (the caller's task) */
};

/* The row of a name, NULL if there is none. */
const struct split_rule *split_find(struct gguf_str pre);

struct split;

struct split *split_open(const struct split_rule *rule, mgpt_error *err);
void split_close(struct split *s);

/* Called for each piece, in order: subject[from .. to), never empty. A negative status stops the
 * split. */
typedef int split_piece_fn(void *user, size_t from, size_t to);

/* Cuts n bytes of valid UTF-8. Linear in n. Errors: MGPT_EMEM. */
int split_text(const struct split *s, const char *subject, size_t n, split_piece_fn *piece,
               void *user, mgpt_error *err);

#endif
