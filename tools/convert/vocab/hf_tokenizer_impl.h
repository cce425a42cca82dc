/* The parts of hf_tokenizer.c: each reads one kind of file. Faults leave the run (checkpoint.h). They fill c->vocab except for the ids
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
    const struct ckpt_input *in;
    const char *file; /* for messages */
    uint64_t n_rows;
    struct {
        const struct jval *tokenizer, *generation, *model;
    } configs; /* tokenizer_config.json, generation_config.json, config.json; NULL: none */
    const struct jval *model_vocab; /* of tokenizer.json: {text: id} */
    struct vocab_slots slots;
    /* The kind of model: byte-level BPE if none of these is set. */
    int sentencepiece; /* 1: SentencePiece, BPE unless `unigram` */
    int steps;         /* 1: a model with steps (hf_steps.h), BPE unless `unigram` or `words` */
    int unigram;
    int words;                /* 1: WordPiece or WordLevel; has steps */
    enum vocab_scores scores; /* what is written of slots' scores */
    int bytes;                /* a character that is not a token becomes tokens <0xHH> */
    const struct jval *post;  /* tokenizer.json, for its post-processor; NULL: there is none */
    int has_post;             /* it has one, even if that adds nothing */
};

/* A side file of JSON; NULL when there is none. */
const struct jval *hf_tok_open(const struct hf_tok *t, const char *name);

/* The value of a key, NULL when absent or null. */
const struct jval *hf_tok_value(const struct jval *object, const char *key);

/* The number of ids, after this one: ids that no vocabulary can have do not count. */
uint64_t hf_tok_room(uint64_t n, const struct jval *id);

/* "tokenizer.json: PART: WHAT" */
_Noreturn void hf_tok_refuse(const struct hf_tok *t, const char *part, const char *what);

/* ---- special tokens (hf_tokenizer_ids.c) ----------------------------------------------------- */

/* The i-th number under a key that holds one or a list of them, -1: not a number; the count of
 * them. */
int64_t hf_ids_number(const struct jval *config, const char *key, size_t i);
size_t hf_ids_count(const struct jval *config, const char *key);

/* Makes an id EOS, or else EOT, or else one more in v->ends. */
void hf_ids_keep_end(struct checkpoint *c, int32_t id);

/* Sets BOS, EOS and the other ends of c->vocab; what is put around texts. */
void hf_ids_read(struct hf_tok *t);
void hf_ids_read_frame(struct hf_tok *t);

/* ---- tokenizer.json (hf_tokenizer_json.c, hf_tokenizer_shape.c) ------------------------------ */

void hf_tok_json(struct hf_tok *t, const struct jval *root);

enum { HF_TOK_LINE = 2 * 65535 + 2 }; /* of a merge: two tokens, a space, NUL */

/* Merge i is "left right" in `line`: n bytes and a NUL, the first n_left are the left part. Both
 * parts and their concatenation must be in the vocabulary. Afterwards `line` is the
 * concatenation. */
void hf_tok_merge(const struct hf_tok *t, const struct jval *vocab, char *line, size_t n,
                  size_t n_left, size_t i);

/* The value of a flag; absent and null: `absent`. */
int hf_tok_flag(const struct jval *object, const char *key, int absent);

/* Sets model, pre, nfc, spaces, ... from normalizer, pre-tokenizer, model flags and post-processor;
 * refuses unknown shapes. */
void hf_tok_shape(struct hf_tok *t, const struct jval *root);

/* ---- post-processors (hf_tokenizer_post.c) --------------------------------------------------- */

enum { HF_TOK_PARTS = 8 };

/* The component of the root, or its members if it is a sequence. Returns their number, 0 without a
 * component. */
int hf_tok_parts(const struct hf_tok *t, const struct jval *root, const char *key,
                 const char *members, const struct jval *parts[HF_TOK_PARTS]);

/* Sets post and has_post. */
void hf_tok_post(struct hf_tok *t, const struct jval *root);

/* The ids that post-processors put before ([0]) and after ([1]) a text, in order. */
enum { HF_TOK_FRAME = 16 };
struct hf_frame {
    int32_t ids[2][HF_TOK_FRAME];
    size_t n[2];
};

/* Reads the frame's ids. The vocabulary must be complete. */
void hf_tok_frame(const struct hf_tok *t, struct hf_frame *frame);

/* ---- Unigram (hf_tokenizer_unigram.c) -------------------------------------------------------- */

/* The tokens and scores of a model; room for ids below n_other (added tokens). */
void hf_tok_unigram(struct hf_tok *t, const struct jval *model, uint64_t n_other);

/* Stores a charsmap; what is in its trie and its texts, the library checks. */
void hf_tok_set_charsmap(struct hf_tok *t, struct gguf_str map);

/* The charsmap of a normalizer Precompiled. */
void hf_tok_charsmap(struct hf_tok *t, const struct jval *part);

/* ---- vocab.json and merges.txt (hf_tokenizer_lists.c) ---------------------------------------- */

/* `text`: vocab.json itself. */
void hf_tok_lists(struct hf_tok *t, const struct jval *vocab, struct span text);

/* Makes slots for {text: id} and for ids below `n_other` (added tokens), and fills those of {text:
 * id}. */
void hf_tok_vocab(struct hf_tok *t, const struct jval *vocab, uint64_t n_other);

/* Pieces that end in </w> (hf_tokenizer_suffix.c): whether merges.txt has them, and such files. */
int hf_tok_is_suffix(struct span merges);
void hf_tok_suffix(struct hf_tok *t, const struct jval *vocab, struct span text,
                   struct span merges);

/* ---- tekken.json (tekken.c) ------------------------------------------------------------------ */

/* 1: a text of JSON that is one. Its strings may hold NUL: the token of the byte 0 does. */
int hf_tok_is_tekken(struct span text);
void hf_tok_tekken(struct hf_tok *t, const struct jval *root);

/* ---- tokenizer.model (sentencepiece.c) ------------------------------------------------------- */

void hf_tok_sentencepiece(struct hf_tok *t, struct span bytes);

/* U+2581 as a space in user-defined tokens, which readers of GGUF look for in the text as it is. */
void hf_tok_write_spaces(struct hf_tok *t);

#endif
