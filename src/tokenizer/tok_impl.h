/* Floor 3, private to tok*.c. The vocabulary as its readers see it, the row that makes a kind of
 * tokenizer, the state of one call, and the merging engine of both BPE kinds.
 *
 * A struct tok never changes after tok_open; whatever an encode call needs lives in its struct
 * tok_call. Texts of tokens stay in the file, their decoded pieces are in one block. Symbols and
 * bytes are counted with 32 bits: TOK_TEXT_MAX keeps a text, with every space grown to three bytes,
 * below 2^32.
 */
#ifndef MGPT_TOK_IMPL_H
#define MGPT_TOK_IMPL_H

#include "base/mem.h"
#include "base/utf8.h"
#include "tokenizer/tok.h"
#include "tokenizer/tok_split.h"

#define TOK_TEXT_MAX ((size_t)1 << 30) /* bytes that one call encodes */
#define TOK_TOKEN_MAX 65535            /* bytes of one token's text */
#define TOK_NAME_MAX 48                /* buffer for tok_name_unit */

/* Values of tokenizer.ggml.token_type. */
enum {
    TOK_NORMAL = 1,
    TOK_UNKNOWN = 2,
    TOK_CONTROL = 3,
    TOK_USER = 4,
    TOK_UNUSED = 5,
    TOK_BYTE = 6
};

struct tok_entry {
    struct gguf_str text; /* in the file */
    const char *piece;    /* in tok.pieces */
    uint16_t n_piece;
    uint8_t type;
    uint8_t is_end;
    uint8_t strips; /* STRIPS_LEFT, STRIPS_RIGHT */
};

/* White space beside a special token that is swallowed with it. */
enum { STRIPS_LEFT = 1, STRIPS_RIGHT = 2 };

struct tok_call;
struct merge_symbol;

/* What two neighbours become, if anything: smaller orders merge first, leftmost on ties. */
struct merge_pair {
    uint32_t order;
    int32_t id;
};

/* One row per kind. `encode` appends the tokens of n >= 1 bytes of plain text, a part of c->text.
 * `close` allows a tokenizer whose `open` failed. `pair` is NULL for kinds that do not merge. */
struct tok_kind {
    const char *name;
    int (*open)(struct tok *t, const struct gguf *g, mgpt_error *err);
    void (*close)(struct tok *t);
    int (*encode)(struct tok_call *c, const char *p, size_t n);
    int (*pair)(const struct tok_call *c, const struct merge_symbol *left,
                const struct merge_symbol *right, struct merge_pair *pair);
};

extern const struct tok_kind tok_kind_char, tok_kind_bpe, tok_kind_spm;

/* A token that is searched for in the text before anything else. */
struct tok_special {
    struct gguf_str text; /* as it stands in texts */
    uint32_t id;
    uint8_t type;
};

struct tok {
    const struct tok_kind *kind; /* NULL: "none" */
    size_t n;
    struct tok_entry *entries;
    char *pieces;
    int32_t bos, eos, unk; /* -1: none */
    uint8_t adds_bos, adds_eos, nfc;
    uint8_t adds_space;            /* SentencePiece: a space in front of a stretch of text, */
    uint8_t space_missing;         /* but only if it does not begin with one, */
    uint8_t space_first;           /* and only at the beginning of the whole text */
    uint8_t space_alone;           /* no space merges with one in front of it */
    uint8_t whole_pieces;          /* byte-level BPE: RULE_WHOLE */
    const struct split_rule *rule; /* NULL: not known here; tok_bpe.c says so */
    struct tok_special *specials;  /* in order of bytes, then type; one per text and type */
    size_t n_specials;
    uint32_t special_first[257]; /* those that begin with byte b: [first[b], first[b + 1]) */
    struct tok_chars *chars;     /* of the kind in use, the others NULL */
    struct tok_bpe *bpe;
    struct tok_spm *spm;
};

/* ---- one call of tok_encode ------------------------------------------------------------------ */

struct merge_symbol {
    uint32_t at, n;      /* its bytes: base[at .. at + n) */
    uint32_t prev, next; /* neighbours, MERGE_END at the ends; prev is MERGE_GONE when swallowed */
    uint32_t last;   /* the symbol it swallowed last, MERGE_END: none. So merges can be undone */
    uint32_t before; /* in a swallowed one: what its owner had swallowed before */
    int32_t id;      /* -1: no token */
    struct merge_pair pair; /* short runs only: with its next; id -1: none */
};

#define MERGE_END UINT32_MAX
#define MERGE_GONE (UINT32_MAX - 1)

struct tok_call {
    const struct tok *t;
    const char *text; /* all of it; offsets in errors count from here */
    mgpt_error *err;
    int32_t *tokens;
    size_t cap;
    int64_t n;                    /* tokens so far, written or not */
    const char *base;             /* what the symbols' `at` counts in */
    struct merge_symbol *symbols; /* stb_ds arrays, reused from run to run */
    uint64_t *heap;               /* of pairs: order, then left symbol */
};

static inline void tok_put(struct tok_call *c, int32_t id)
{
    if ((uint64_t)c->n < c->cap)
        c->tokens[c->n] = id;
    c->n++;
}

/* ---- merging (tok_merge.c) ------------------------------------------------------------------- */

/* Empties the run and makes room for n symbols; 0 when out of memory. */
int merge_begin(struct tok_call *c, const char *base, size_t n);
void merge_add(struct tok_call *c, uint32_t at, uint32_t n, int32_t id);

/* Merges until no pair is left. Walk the result from symbol 0 along `next`. O(n log n). */
int merge_run(struct tok_call *c);

/* Splits symbol i into the two it was last merged from (its `last` must not be MERGE_END). The
 * caller sets its id. */
void merge_undo(struct tok_call *c, uint32_t i);

/* ---- special tokens (tok_special.c) ---------------------------------------------------------- */

int tok_specials_load(struct tok *t, const struct gguf *g, mgpt_error *err);

/* The longest special token at p (n >= 1 bytes left), or NULL; flags as for mgpt_encode. */
const struct tok_special *tok_special_at(const struct tok *t, const char *p, size_t n,
                                         unsigned flags);

/* Where the white space begins that ends at `to`, not before `from`; where it ends that begins at
 * `from`. */
size_t tok_strip_left(const char *text, size_t from, size_t to);
size_t tok_strip_right(const char *text, size_t from, size_t to);

/* ---- vocabulary (tok_vocab.c) ---------------------------------------------------------------- */

/* tokens, token_type and pieces; `spaces` is 1 for vocabularies that write a space as U+2581, 0 for
 * those in the byte alphabet. A file without tokens leaves t->n at 0. */
int tok_vocab_load(struct tok *t, const struct gguf *g, int spaces, mgpt_error *err);

/* Texts to ids: open addressing, linear probing, at most half full. The seed is an address, so a
 * file cannot be made to collide; results do not depend on it. */
struct tok_map {
    uint32_t *slots; /* id + 1, 0: free */
    size_t mask;
    uint64_t seed;
    int pieces; /* set between init and the first add: pieces to ids instead */
};

int tok_map_init(struct tok_map *m, size_t n); /* 0 when out of memory */
void tok_map_free(struct tok_map *m);
void tok_map_add(struct tok_map *m, const struct tok *t,
                 uint32_t id); /* the first id of a text stays */

/* The token whose text is a followed by b, or -1. */
int32_t tok_map_find(const struct tok_map *m, const struct tok *t, struct gguf_str a,
                     struct gguf_str b);

/* Slots for a table of n entries: a power of two, at least 2 n. 0: too many. */
size_t tok_table_size(size_t n);

/* ---- the merge list (tok_pairs.c) ------------------------------------------------------------ */

struct pair_row;

struct tok_pairs {
    struct pair_row *rows;
    size_t mask;
    uint64_t seed;
};

/* Reads tokenizer.ggml.merges, which may be absent; `map` finds the tokens that merge. */
int tok_pairs_load(struct tok_pairs *m, const struct tok *t, const struct tok_map *map,
                   const struct gguf *g, mgpt_error *err);
void tok_pairs_free(struct tok_pairs *m);

/* What two tokens become; 0 when they do not merge, or one of them is -1. */
int tok_pairs_find(const struct tok_pairs *m, int32_t left, int32_t right, struct merge_pair *pair);

/* ---- errors (tok.c) -------------------------------------------------------------------------- */

/* Names what stands at p (n >= 1 bytes left) in error lines: "character 'é' (U+00E9)", "byte 0xE9".
 */
void tok_name_unit(char name[TOK_NAME_MAX], const char *p, size_t n);

/* 1 when a terminal shows the code point as one visible mark or a space and obeys nothing. */
int tok_printable(uint32_t code);

#endif
