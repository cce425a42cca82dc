/* The keys of a vocabulary in a GGUF file, beside its model, tokens, scores, types and merges: one row each.
 * From it follow the field of struct ckpt_vocab, what it is before anything is read, how it is written
 * (write.c), whether a note says that llama.cpp ignores it (elsewhere.c), and that it is freed.
 *
 * X(kind, type, field, none, key, note)
 *   kind   how it is written. ID, REAL, CHOICE: below 0 is no key. SWITCH: 0 is no key. FLAG: always. TEXT, BYTES:
 *          n 0 is no key. TEXTS: a list, always. IDS, DOUBLES: a list; NULL is no key. Lists are stb_ds arrays
 *   none   before anything is read
 *   note   IGNORED: llama.cpp runs the file wrongly without it, and says nothing; empty: it knows the key, or
 *          refuses the whole vocabulary, or never normalises texts
 */
#ifndef MGPT_CONVERT_VOCAB_KEYS_H
#define MGPT_CONVERT_VOCAB_KEYS_H

/* clang-format off */
#define VOCAB_KEYS(X)                                                                              \
    X(ID, int32_t, bos, -1, "tokenizer.ggml.bos_token_id", )                                       \
    X(ID, int32_t, eos, -1, "tokenizer.ggml.eos_token_id", )                                       \
    X(ID, int32_t, eot, -1, "tokenizer.ggml.eot_token_id", )                                       \
    X(ID, int32_t, unknown, -1, "tokenizer.ggml.unknown_token_id", )                               \
    X(CHOICE, int, add_bos, -1, "tokenizer.ggml.add_bos_token", )                                  \
    X(CHOICE, int, add_eos, -1, "tokenizer.ggml.add_eos_token", )                                  \
    X(CHOICE, int, add_space_prefix, -1, "tokenizer.ggml.add_space_prefix", )                      \
    X(CHOICE, int, collapses, -1, "tokenizer.ggml.remove_extra_whitespaces", )                     \
    X(BYTES, struct gguf_str, charsmap, {0}, "tokenizer.ggml.precompiled_charsmap", )              \
    X(TEXT, struct gguf_str, chat_template, {0}, "tokenizer.chat_template", )                      \
    /* how the author draws (choose/author.h) */                                                   \
    X(REAL, float, temp, -1, "general.sampling.temp", )                                            \
    X(ID, int32_t, top_k, -1, "general.sampling.top_k", )                                          \
    X(REAL, float, top_p, -1, "general.sampling.top_p", )                                          \
    X(REAL, float, min_p, -1, "general.sampling.min_p", )                                          \
    X(REAL, float, penalty_repeat, -1, "general.sampling.penalty_repeat", )                        \
    /* texts are to be normalised */                                                               \
    X(CHOICE, int, nfc, -1, "mgpt.tokenizer.nfc", )                                                \
    /* a piece that is a token is taken whole; -1: as the rule `pre` says */                       \
    X(CHOICE, int, whole_pieces, -1, "mgpt.tokenizer.whole_pieces", IGNORED)                       \
    /* model "llama": merges, not scores, decide */                                                \
    X(SWITCH, int, ranked, 0, "mgpt.tokenizer.ranked", IGNORED)                                    \
    X(SWITCH, int, user_pieces, 0, "mgpt.tokenizer.user_pieces", IGNORED)                          \
    X(SWITCH, int, space_missing, 0, "mgpt.tokenizer.space_missing", IGNORED)                      \
    X(SWITCH, int, space_first, 0, "mgpt.tokenizer.space_first", IGNORED)                          \
    X(SWITCH, int, space_alone, 0, "mgpt.tokenizer.space_alone", IGNORED)                          \
    X(SWITCH, int, graphemes, 0, "mgpt.tokenizer.graphemes", IGNORED)                              \
    X(DOUBLES, double *, doubles, NULL, "mgpt.tokenizer.scores", IGNORED)                          \
    /* ids that end generation beside eos and eot */                                               \
    X(IDS, int32_t *, ends, NULL, "mgpt.tokenizer.end_token_ids", IGNORED)                         \
    /* several tokens around texts, instead of BOS and EOS */                                      \
    X(IDS, int32_t *, before, NULL, "mgpt.tokenizer.before", IGNORED)                              \
    X(IDS, int32_t *, after, NULL, "mgpt.tokenizer.after", IGNORED)                                \
    X(IDS, int32_t *, lstrip, NULL, "mgpt.tokenizer.lstrip", IGNORED)                              \
    X(IDS, int32_t *, rstrip, NULL, "mgpt.tokenizer.rstrip", IGNORED)                              \
    X(IDS, int32_t *, literal, NULL, "mgpt.tokenizer.literal", IGNORED)                            \
    /* model "gpt2": bytes that are not tokens vanish */                                           \
    X(SWITCH, int, drops_unknown, 0, "mgpt.tokenizer.drops_unknown", IGNORED)

/* Written if the vocabulary has steps: src/tokenizer/tok_steps.h, tok_text.c and tok_decode.c say what they
 * mean. Its tables of characters are written between these. */
#define VOCAB_STEP_LISTS(X)                                                                        \
    X(TEXTS, struct gguf_str *, normalizers, NULL, "mgpt.tokenizer.normalizers", )                 \
    X(TEXTS, struct gguf_str *, pre_tokenizers, NULL, "mgpt.tokenizer.pre_tokenizers", )           \
    X(TEXTS, struct gguf_str *, decoders, NULL, "mgpt.tokenizer.decoders", )                       \
    X(FLAG, int, drops_space, 0, "mgpt.tokenizer.drops_space", )

#define VOCAB_STEP_KEYS(X)                                                                         \
    X(IDS, int32_t *, merge_ids, NULL, "mgpt.tokenizer.merge_ids", )                               \
    X(IDS, int32_t *, added, NULL, "mgpt.tokenizer.added", )                                       \
    X(IDS, int32_t *, single_word, NULL, "mgpt.tokenizer.single_word", )                           \
    X(IDS, int32_t *, normalized, NULL, "mgpt.tokenizer.normalized", )                             \
    X(TEXT, struct gguf_str, prefix, {0}, "mgpt.tokenizer.prefix", )                               \
    X(TEXT, struct gguf_str, suffix, {0}, "mgpt.tokenizer.suffix", )                               \
    X(ID, int, word_chars, -1, "mgpt.tokenizer.word_chars", )                                      \
    X(SWITCH, int, byte_fallback, 0, "mgpt.tokenizer.byte_fallback", )                             \
    X(SWITCH, int, fuse_unknown, 0, "mgpt.tokenizer.fuse_unknown", )
/* clang-format on */

#define VOCAB_FIELDS(X) VOCAB_KEYS(X) VOCAB_STEP_LISTS(X) VOCAB_STEP_KEYS(X)

#define VOCAB_FIELD(kind, type, field, ...) type field;

#endif
