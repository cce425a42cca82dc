/* Character vocabularies: microgpt's and nanoGPT's, for GGUF.
 *
 * Each character is stored in GPT-2's byte alphabet with the merges that build it from its bytes,
 * so that every GGUF reader can use the file. A token that is not a character (BOS) is a control
 * token.
 */
#ifndef MGPT_VOCAB_CHARS_H
#define MGPT_VOCAB_CHARS_H

#include "convert/core/readers.h"

/* Checks that every entry is one character, each once, or the name of a special token. Returns MGPT_OK, or
 * MGPT_EFILE naming the entry that is neither. */
int vocab_chars_check(const struct gguf_str *entries, size_t n, mgpt_error *err);

/* Fills c->vocab from the entries as the checkpoint lists them, one character each, or the name of
 * a special token such as "<BOS>". `bos` is its id when the checkpoint says, else -1; then it is
 * the special entry, or, when there is one entry less than n_vocab, the missing id: the last.
 * Leaves the run (checkpoint.h) with an error that names the entry. */
void vocab_chars_set(struct checkpoint *c, const struct gguf_str *entries, size_t n, int64_t bos,
                     uint64_t n_vocab);

/* As vocab_chars_set, for a model of hp.n_vocab tokens, out of the text that --chars names (vocab_text.c):
 * its characters in order when none repeats (a newline at the end does not count); otherwise the sorted set
 * of the characters of its lines, which is how microgpt makes its vocabulary, or, when the number fits only
 * then, of the whole text with its newlines, as nanoGPT does. */
void vocab_chars_from_option(struct checkpoint *c, const struct ckpt_input *in, int64_t bos);

/* n bytes in GPT-2's byte alphabet: at most 2 n bytes of UTF-8 at out; returns how many. */
size_t vocab_put_bytes(const char *p, size_t n, char *out);

#endif
