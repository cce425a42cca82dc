/* Private to tok*.c: the vocabulary, the table of functions of a tokenizer kind, the state of one
 * encode call, and the merging functions of both BPE kinds.
 *
 * A struct tok never changes after tok_open; an encode call keeps its state in struct tok_call.
 * Token texts point into the file, decoded pieces into one block. Symbols and bytes are counted
 * with 32 bits: TOK_TEXT_MAX keeps a text below 2^32 bytes even when every space becomes three
 * bytes.
 */
#ifndef MGPT_TOK_IMPL_H
#define MGPT_TOK_IMPL_H

#include "base/mem.h"
#include "base/utf8.h"
#include "tokenizer/tok.h"
#include "tokenizer/tok_chars.h"
#include "tokenizer/tok_kinds.h"
#include "tokenizer/tok_match.h"
#include "tokenizer/tok_split.h"
#include "tokenizer/tok_steps.h"

#define TOK_TEXT_MAX ((size_t)1 << 30) /* bytes that one call encodes */
#define TOK_TOKEN_MAX 65535            /* bytes of one token's text */
#define AROUND_MAX 16                  /* tokens that are put on a side of a text */
#define TOK_NAME_MAX 48                /* buffer for tok_name_unit */

#define SPACE "\xE2\x96\x81" /* U+2581: how SentencePiece writes a space */
#define SPACE_BYTES 3

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
    uint8_t marks; /* the constants below */
};

enum {
    STRIPS_LEFT = 1, /* white space next to the token is removed with it */
    STRIPS_RIGHT = 2,
    SINGLE_WORD = 4, /* it counts only between characters that are not of words */
    NORMALIZED = 8,  /* it is looked for in the normalized text, as the normalized token */
    ONLY_ADDED = 16, /* the model itself does not have it (tok_text.c) */
    IS_END = 32,     /* it ends generation */
    LITERAL = 64 /* a normal token that is also looked for in the text as it is, U+2581 and all */
};

struct tok_call;
struct merge_symbol;

/* The result of merging two neighbours. Smaller orders merge first, leftmost on ties. */
struct merge_pair {
    uint32_t order;
    int32_t id;
};

/* One row per kind. `encode` appends the tokens of n >= 1 bytes of plain text, a part of
 * c->text. `close` must work after a failed `open`. `pair` is NULL for kinds that do not merge. */
struct tok_kind {
    const char *name;
    int spaces; /* its tokens have U+2581 for a space, not the byte alphabet */
    int (*open)(struct tok *t, const struct gguf *g, mgpt_error *err);
    void (*close)(struct tok *t);
    int (*encode)(struct tok_call *c, const char *p, size_t n);
    int (*pair)(const struct tok_call *c, const struct merge_symbol *left,
                const struct merge_symbol *right, struct merge_pair *pair);
};

extern const struct tok_kind tok_kind_char;
#define TOK_KIND_DECLARED(id, model) extern const struct tok_kind tok_kind_##id;
TOK_KINDS(TOK_KIND_DECLARED)

/* A token that is searched for in the text before anything else. */
struct tok_special {
    struct gguf_str text; /* as it occurs in texts */
    uint32_t id;
    uint8_t type;
};

/* The special tokens that are looked for in the text as it is, or in the normalized text. */
struct special_set {
    struct tok_special *rows;
    size_t n;
    struct tok_match all, user; /* user: user-defined ones only */
};

struct tok {
    const struct tok_kind *kind; /* NULL: "none" */
    size_t n;
    struct tok_entry *entries;
    char *pieces;
    int32_t bos, eos, unk;         /* -1: none */
    int32_t around[2][AROUND_MAX]; /* tokens that are put before and after texts */
    size_t n_around[2];
    char *ignored; /* names the keys whose ids are no tokens; NULL: none */
    uint8_t adds_bos, adds_eos, nfc;
    uint8_t adds_space;    /* SentencePiece: add a space before each part of a text */
    uint8_t space_missing; /* adds_space only if the part does not begin with a space */
    uint8_t space_first;   /* adds_space only at the start of the whole text */
    uint8_t space_alone;   /* no space merges with the space before it */
    uint8_t collapses;     /* SentencePiece: remove_extra_whitespaces */
    uint8_t user_pieces;   /* SentencePiece: the model itself finds user-defined tokens, `users` */
    uint8_t drops_unknown; /* byte-level BPE: bytes that are not tokens vanish */
    uint8_t whole_pieces;  /* byte-level BPE: RULE_WHOLE */
    const struct split_rule *rule; /* NULL: tok_bpe.c refuses the file */
    struct tok_steps *steps;       /* NULL: the kind encodes texts as they are */
    struct special_set specials, normal_specials;
    struct tok_match users;  /* user-defined tokens, with U+2581 for spaces; matched backward */
    char *special_texts;     /* normalized texts of special tokens, or those of `users` */
    struct char_map *word;   /* the characters of words; NULL: no token has SINGLE_WORD */
    struct tok_chars *chars; /* only the one of the kind in use is not NULL */
    struct tok_bpe *bpe;
    struct tok_spm *spm;
    struct tok_unigram *unigram;
    struct tok_charsmap *charsmap; /* NULL: no character is replaced */
    struct tok_text *text;
    struct tok_words *words;
    uint8_t drops_space; /* tok_decode.c: the first space of a text is dropped */
};

/* ---- one call of tok_encode ------------------------------------------------------------------ */

struct merge_symbol {
    uint32_t at, n;         /* its bytes: base[at .. at + n) */
    uint32_t prev, next;    /* neighbours, MERGE_END at the ends; prev is MERGE_GONE once merged */
    uint32_t last;          /* the symbol merged into it last, MERGE_END: none; for undo */
    uint32_t before;        /* in a merged symbol: its owner's `last` before */
    int32_t id;             /* -1: no token */
    struct merge_pair pair; /* short runs only: with its next; id -1: none */
};

#define MERGE_END UINT32_MAX
#define MERGE_GONE (UINT32_MAX - 1)

struct tok_call {
    const struct tok *t;
    const char *text; /* the whole text; offsets in errors count from here */
    mgpt_error *err;
    unsigned flags; /* of mgpt_encode */
    int32_t *tokens;
    size_t cap;
    uint64_t limit;   /* bytes that the steps may still produce */
    int at_start;     /* the normalized text begins with the text's first character */
    size_t part_at;   /* in a text changed by steps: where the part began in the original text */
    int64_t n;        /* tokens so far, written or not */
    const char *base; /* base of the symbols' `at` */
    struct merge_symbol *symbols; /* stb_ds array, reused for each run of symbols */
    uint64_t *heap;               /* stb_ds array of pairs: order, then left symbol */
};

/* The offset of p in the text, for errors; of its part if steps have changed the text. */
static inline uint64_t tok_place(const struct tok_call *c, const char *p)
{
    return c->t->steps ? c->part_at : (uint64_t)(p - c->text);
}

static inline void tok_put(struct tok_call *c, int32_t id)
{
    if ((uint64_t)c->n < c->cap)
        c->tokens[c->n] = id;
    c->n++;
}

/* ---- merging (tok_merge.c) ------------------------------------------------------------------- */

/* Empties the list and makes room for n symbols; 0 when out of memory. */
int merge_begin(struct tok_call *c, const char *base, size_t n);
void merge_add(struct tok_call *c, uint32_t at, uint32_t n, int32_t id);

/* Merges until no pair is left. The result is the list from symbol 0 along `next`. O(n log n).
 * Returns 0 when out of memory. */
int merge_run(struct tok_call *c);

/* Undoes the last merge of symbol i (its `last` must not be MERGE_END). The caller sets its id. */
void merge_undo(struct tok_call *c, uint32_t i);

/* ---- special tokens (tok_special.c) ---------------------------------------------------------- */

int tok_specials_load(struct tok *t, const struct gguf *g, mgpt_error *err);
void tok_specials_free(struct tok *t);

/* Finds the list of ids `key`: 1, 0 if the file has none, MGPT_EFILE if no token has one of them. */
int tok_id_list(const struct tok *t, const struct gguf *g, const char *key,
                const struct gguf_kv **kv, mgpt_error *err);
int32_t tok_list_id(const struct gguf_kv *kv, uint64_t i);

/* Sets the mark of the tokens whose ids are in the array `key`, which may be absent. */
int tok_marks_load(struct tok *t, const struct gguf *g, const char *key, unsigned mark,
                   mgpt_error *err);

/* The id of the special token that the text begins with, -1: none; flags as for mgpt_encode. */
int32_t tok_special_first(const struct special_set *set, const char *p, size_t n, unsigned flags);

/* Passes the text between special tokens to `plain`, in order, and puts those tokens. */
typedef int special_plain_fn(struct tok_call *c, const char *text, size_t from, size_t to);
int tok_specials_split(struct tok_call *c, const struct special_set *set, const char *text,
                       size_t n, special_plain_fn *plain);

/* The start of the white space that ends at `to`, not before `from`; the end of the white space
 * that begins at `from`. */
size_t tok_strip_left(const char *text, size_t from, size_t to);
size_t tok_strip_right(const char *text, size_t from, size_t to);

/* ---- texts for SentencePiece's models (tok_space.c) ------------------------------------------ */

/* A part of the text as the model sees it: normalised, with U+2581 for spaces. */
struct tok_spaced {
    char *text; /* the caller frees it, also after an error */
    size_t n;
    const char *from; /* the part in the text */
    int in_front;     /* a space was added in front */
    int changed;      /* normalised: places in `text` are not places in the part */
};

int tok_spaced_make(struct tok_call *c, const char *p, size_t n, struct tok_spaced *s);

/* The error for the character at `where` in s->text, which the vocabulary lacks. */
int tok_spaced_refuse(struct tok_call *c, const struct tok_spaced *s, size_t where);

int tok_begins_space(const char *p, size_t n); /* with U+2581 */
int tok_inner_space(struct gguf_str text);     /* 1 if U+2581 follows another character inside */

/* The end of the run that begins at `from`: before the next word if `by_word` says that no token
 * has a space after another character, before the next space if t->space_alone. */
size_t tok_run_end(const struct tok *t, int by_word, const char *p, size_t n, size_t from);

/* ---- replaced characters (tok_charsmap.c) ---------------------------------------------------- */

/* Reads tokenizer.ggml.precompiled_charsmap; *map stays NULL when the file has none. The file's
 * bytes are borrowed. */
int tok_charsmap_open(struct tok_charsmap **map, const struct gguf *g, mgpt_error *err);
void tok_charsmap_close(struct tok_charsmap *m);

/* What the longest match at p (n >= 1 bytes left) becomes, or the character itself; the length of
 * what is replaced. */
size_t tok_charsmap_next(const struct tok_charsmap *m, const char *p, size_t n,
                         struct gguf_str *text);

/* 1: it replaces graphemes, as Hugging Face does. */
int tok_charsmap_by_grapheme(const struct tok_charsmap *m);

/* Where texts go; `put` returns a status. */
struct charsmap_sink {
    int (*put)(void *user, struct gguf_str text);
    void *user;
    mgpt_error *err;
};

/* Puts what n bytes become. */
int tok_charsmap_graphemes(const struct tok_charsmap *m, const char *p, size_t n,
                           const struct charsmap_sink *to);

/* ---- settings of Hugging Face's models (tok_text.c) ------------------------------------------- */

/* A prefix or suffix of tokens, of at most 64 bytes; it stays without the key. */
int tok_affix_load(const struct gguf *g, const char *key, struct gguf_str *affix, mgpt_error *err);

/* ---- vocabulary (tok_vocab.c) ---------------------------------------------------------------- */

/* How the texts of tokens are to be read: GPT-2's alphabet of bytes, U+2581 for spaces, or as the
 * file's decoders say. */
enum vocab_spelling { SPELL_ALPHABET, SPELL_SPACES, SPELL_DECODERS };

/* Loads tokens, token_type and pieces; with SPELL_DECODERS a piece is the token's text at first. A
 * file without tokens leaves t->n at 0. */
int tok_vocab_load(struct tok *t, const struct gguf *g, enum vocab_spelling spelling,
                   mgpt_error *err);

/* Decodes all pieces by mgpt.tokenizer.decoders (tok_decode.c). */
int tok_decode_pieces(struct tok *t, const struct gguf *g, mgpt_error *err);

/* Decodes GPT-2's alphabet; a text with any other character is copied. Returns the bytes written,
 * at most text.n. */
size_t tok_decode_alphabet(struct gguf_str text, char *out);

/* The byte of a token of type byte, <0xHH>; 0 if its text is another. */
int tok_byte_piece(const struct tok_entry *e, char *byte);

/* Texts to ids: open addressing, linear probing, at most half full. The seed is an address, so a
 * file cannot force collisions; results do not depend on it. */
struct tok_map {
    uint32_t *slots; /* id + 1, 0: free */
    size_t mask;
    uint64_t seed;
    int pieces; /* set between init and the first add: maps pieces, not texts */
};

int tok_map_init(struct tok_map *m, size_t n); /* 0 when out of memory */
void tok_map_free(struct tok_map *m);
/* Adds the text of id; the first id of a text stays. */
void tok_map_add(struct tok_map *m, const struct tok *t, uint32_t id);

/* The token whose text is a followed by b, or -1. */
int32_t tok_map_find(const struct tok_map *m, const struct tok *t, struct gguf_str a,
                     struct gguf_str b);

/* Slots for a table of n entries: a power of two, at least 2 n. 0 on overflow. */
size_t tok_table_size(size_t n);

/* Stores tokenizer.ggml.scores, or an array of f64, by `key`: t->n numbers. 1, or 0 when the file
 * has none. */
int tok_scores_load(const struct tok *t, const struct gguf *g, const char *key,
                    enum gguf_type element, double *scores, mgpt_error *err);

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
/* Reads the merges as ids, from mgpt.tokenizer.merge_ids. */
int tok_pairs_load_ids(struct tok_pairs *m, const struct tok *t, const struct gguf *g,
                       mgpt_error *err);
void tok_pairs_free(struct tok_pairs *m);

/* The result of merging two tokens; 0 if they do not merge, or one of them is -1. */
int tok_pairs_find(const struct tok_pairs *m, int32_t left, int32_t right, struct merge_pair *pair);

/* ---- ids and flags (tok_ids.c) --------------------------------------------------------------- */

int tok_ids_load(struct tok *t, const struct gguf *g, mgpt_error *err);

/* ---- errors (tok.c) -------------------------------------------------------------------------- */

/* Names the character at p (n >= 1 bytes left) for errors: "character 'é' (U+00E9)", "byte
 * 0xE9". */
void tok_name_unit(char name[TOK_NAME_MAX], const char *p, size_t n);

/* 1 if a terminal shows the code point as one visible character or a space, with no other
 * effect. */
int tok_printable(uint32_t code);

#endif
