/* Tokenizers: text to token ids and back, for the vocabularies in GGUF files. tok_kinds.h has their
 * kinds. Without a vocabulary in the file, encoding is refused and pieces are empty.
 *
 * Words of this folder:
 *   piece      the bytes that a token stands for in a text
 *   special    a token that the text names (<|endoftext|>) or the model needs (BOS), not made by merges
 *   split rule the regular expression that cuts a text into parts, which are merged apart (pre-tokenizer)
 *   part       what is between two cuts: no token crosses its ends
 *   symbol     bytes or characters of a part that have been merged so far
 *   step       a normalizer, pre-tokenizer or decoder of tokenizer.json, kept in the file (tok_steps.h)
 *
 * A vocabulary is immutable after tok_open and may be used by any number of threads.
 */
#ifndef MGPT_TOK_H
#define MGPT_TOK_H

#include "gguf/gguf.h"
#include "mgpt.h"

struct tok;

/* Builds the tokenizer from the tokenizer.ggml.* entries; g's bytes must outlive it. A file without
 * them gives a "none" tokenizer with n_tokens 0. */
struct tok *tok_open(const struct gguf *g, mgpt_error *err);
void tok_free(struct tok *t);

const char *tok_kind(const struct tok *t); /* its name, or "none" */
size_t tok_count(const struct tok *t);
int32_t tok_bos(const struct tok *t); /* -1: none */
int32_t tok_eos(const struct tok *t);
int tok_adds_bos(const struct tok *t);  /* how many tokens are put before a text */
int tok_wants_nfc(const struct tok *t); /* 1: the caller must pass text in normal form C */
int tok_has_steps(
    const struct tok *t); /* 1: normalizers or pre-tokenizers of the file (tok_steps.h) */
int tok_is_end(const struct tok *t, int32_t token);
const char *tok_ignored(
    const struct tok *t); /* "KEY is ID, ..." of ids that are no tokens, or "" */

/* The contracts of mgpt_encode, mgpt_piece, mgpt_token_text. */
int64_t tok_encode(const struct tok *t, const char *text, size_t n_bytes, unsigned flags,
                   int32_t *tokens, size_t cap, mgpt_error *err);
const char *tok_piece(const struct tok *t, int32_t token, size_t *n_bytes);
const char *tok_text(const struct tok *t, int32_t token, size_t *n_bytes);

/* 1: if `first` is the first token of a text, it begins with the space that SentencePiece added
 * and that decoding drops. */
int tok_drops_space(const struct tok *t, int32_t first);

#endif
