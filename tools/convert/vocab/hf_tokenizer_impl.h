/* The parts of hf_tokenizer.c: each reads one kind of file. They fill c->vocab except for the ids
 * of BOS and EOS, which hf_tokenizer.c takes from the other files. */
#ifndef MGPT_CONVERT_HF_TOKENIZER_IMPL_H
#define MGPT_CONVERT_HF_TOKENIZER_IMPL_H

#include "common/jval.h"
#include "convert/containers/hf_config.h"
#include "convert/vocab/hf_tokenizer.h"
#include "convert/vocab/vocab_slots.h"

/* A tokenizer that is being read into c->vocab. */
struct hf_tok {
    struct checkpoint *c;
    const char *file; /* for messages */
    uint64_t n_rows;
    const struct jval *config;      /* tokenizer_config.json, NULL: none */
    const struct jval *model_vocab; /* of tokenizer.json: {text: id} */
    const struct jval
        *made; /* a tokenizer.json made here, for slots and post; released with `added` */
    const struct jval
        *added; /* added_tokens.json: slots point into it; hf_tokenizer.c releases it */
    struct vocab_slots slots;
    int sentencepiece;        /* else byte-level BPE, or */
    int steps;                /* a model with steps (hf_steps.h) */
    int unigram;              /* and not BPE */
    int words;                /* WordPiece or WordLevel, with steps; and not BPE */
    enum vocab_scores scores; /* what is written of slots' scores */
    int bytes;                /* a character that is not a token becomes tokens <0xHH> */
    const struct jval *post;  /* tokenizer.json, for its post-processor; NULL: there is none */
    int has_post;             /* it has one, even if that adds nothing */
};

/* A side file of JSON: *root is NULL when there is none. */
int hf_tok_open(const struct ckpt_input *in, const char *name, const struct jval **root,
                mgpt_error *err);

/* The value of a key, NULL when absent or null. */
const struct jval *hf_tok_value(const struct jval *object, const char *key);

/* The number of ids, after this one: ids that no vocabulary can have do not count. */
uint64_t hf_tok_room(uint64_t n, const struct jval *id);

/* "tokenizer.json: PART: WHAT" */
int hf_tok_refuse(const struct hf_tok *t, const char *part, const char *what, mgpt_error *err);

/* ---- special tokens (hf_tokenizer_ids.c) ----------------------------------------------------- */

/* What the three configurations say; each may be NULL. */
struct hf_configs {
    const struct jval *tokenizer, *generation, *model;
};

/* The i-th number under a key that holds one or a list of them, -1: not a number; the count of
 * them. */
int64_t hf_ids_number(const struct jval *config, const char *key, size_t i);
size_t hf_ids_count(const struct jval *config, const char *key);

/* Makes an id EOS, or else EOT, or else one more in v->ends. 0 when out of memory. */
int hf_ids_keep_end(struct ckpt_vocab *v, int32_t id);

/* Sets BOS, EOS and the other ends of c->vocab; what is put around texts. */
int hf_ids_read(struct hf_tok *t, const struct hf_configs *f, mgpt_error *err);
int hf_ids_read_frame(struct hf_tok *t, const struct hf_configs *f, mgpt_error *err);

/* ---- tokenizer.json (hf_tokenizer_json.c, hf_tokenizer_shape.c) ------------------------------ */

int hf_tok_json(struct hf_tok *t, const struct jval *root, mgpt_error *err);

enum { HF_TOK_LINE = 2 * 65535 + 2 }; /* of a merge: two tokens, a space, NUL */

/* Merge i is "left right" in `line`: n bytes and a NUL, the first n_left are the left part. Both
 * parts and their concatenation must be in the vocabulary. Afterwards `line` is the
 * concatenation. */
int hf_tok_merge(const struct hf_tok *t, const struct jval *vocab, char *line, size_t n,
                 size_t n_left, size_t i, mgpt_error *err);

/* The value of a flag; absent and null: `absent`. */
int hf_tok_flag(const struct jval *object, const char *key, int absent);

/* Sets model, pre, nfc, spaces, ... from normalizer, pre-tokenizer, model flags and post-processor;
 * refuses unknown shapes. */
int hf_tok_shape(struct hf_tok *t, const struct jval *root, mgpt_error *err);

/* ---- post-processors (hf_tokenizer_post.c) --------------------------------------------------- */

enum { HF_TOK_PARTS = 8 };

/* The component of the root, or its members if it is a sequence. Returns their number, 0 without a
 * component, or MGPT_EFILE when there are too many. */
int hf_tok_parts(const struct hf_tok *t, const struct jval *root, const char *key,
                 const char *members, const struct jval *parts[HF_TOK_PARTS], mgpt_error *err);

/* Sets post and has_post. */
int hf_tok_post(struct hf_tok *t, const struct jval *root, mgpt_error *err);

/* The ids that post-processors put before ([0]) and after ([1]) a text, in order. */
enum { HF_TOK_FRAME = 16 };
struct hf_frame {
    int32_t ids[2][HF_TOK_FRAME];
    size_t n[2];
};

/* Reads them once the vocabulary is there. */
int hf_tok_frame(const struct hf_tok *t, struct hf_frame *frame, mgpt_error *err);

/* ---- Unigram (hf_tokenizer_unigram.c) -------------------------------------------------------- */

/* The tokens and scores of a model; room for ids below n_other (added tokens). */
int hf_tok_unigram(struct hf_tok *t, const struct jval *model, uint64_t n_other, mgpt_error *err);

/* Stores a charsmap; what is in its trie and its texts, the library checks. */
int hf_tok_set_charsmap(struct hf_tok *t, struct gguf_str map, mgpt_error *err);

/* The charsmap of a normalizer Precompiled. */
int hf_tok_charsmap(struct hf_tok *t, const struct jval *part, mgpt_error *err);

/* ---- vocab.json and merges.txt (hf_tokenizer_lists.c) ---------------------------------------- */

/* `text`: vocab.json itself. */
int hf_tok_lists(struct hf_tok *t, const struct jval *vocab, struct span text,
                 const struct ckpt_input *in, mgpt_error *err);

/* Makes slots for {text: id} and for ids below `n_other` (added tokens), and fills those of {text:
 * id}. */
int hf_tok_vocab(struct hf_tok *t, const struct jval *vocab, uint64_t n_other, mgpt_error *err);

/* Pieces that end in </w> (hf_tokenizer_suffix.c): whether merges.txt has them, and such files. */
int hf_tok_is_suffix(struct span merges);
int hf_tok_suffix(struct hf_tok *t, const struct jval *vocab, struct span text, struct span merges,
                  mgpt_error *err);

/* ---- tekken.json (tekken.c) ------------------------------------------------------------------ */

/* 1: a text of JSON that is one. Its strings may hold NUL: the token of the byte 0 does. */
int hf_tok_is_tekken(struct span text);
int hf_tok_tekken(struct hf_tok *t, const struct jval *root, mgpt_error *err);

/* ---- tokenizer.model (sentencepiece.c) ------------------------------------------------------- */

int hf_tok_sentencepiece(struct hf_tok *t, struct span bytes, mgpt_error *err);

/* U+2581 as a space in user-defined tokens, which readers of GGUF look for in the text as it is. */
int hf_tok_write_spaces(struct hf_tok *t, mgpt_error *err);

#endif
