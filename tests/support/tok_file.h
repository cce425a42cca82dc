/* Tests: vocabularies as GGUF files in memory, and the tokenizers that src/tok makes of them.
 *
 * A tok_file collects metadata entries and the four arrays of a vocabulary; tok_file_open encodes
 * them (a file without tensors), parses the bytes and opens the tokenizer. Nothing is checked: a
 * test may drop an array or make lengths differ. Running out of memory aborts.
 */
#ifndef TESTS_TOK_FILE_H
#define TESTS_TOK_FILE_H

#include "base/mem.h"
#include "mgpt.h"
#include "tokenizer/tok.h"

struct tok_file {
    uint8_t *entries; /* stb_ds arrays: encoded metadata, and the elements of the arrays below */
    uint8_t *tokens, *merges;
    int32_t *types;
    float *scores;
    double *doubles; /* as they were given; written if `exact` is set */
    int exact;
    uint64_t n_entries, n_tokens, n_merges;
    int no_types, no_scores, no_merges; /* leave the array out */
    uint8_t *bytes;                     /* of the last tok_file_open */
    struct gguf g;
    struct tok *tok;
};

struct tok_case {
    struct gguf_str text;
    int32_t *ids; /* stb_ds array */
};

/* A zeroed struct is an empty file. `model` and `pre` may be NULL: no such key. */
void tok_file_begin(struct tok_file *f, const char *model, const char *pre);
void tok_file_free(struct tok_file *f);

void tok_file_string(struct tok_file *f, const char *key, const char *v);
void tok_file_u32(struct tok_file *f, const char *key, uint32_t v);
void tok_file_bool(struct tok_file *f, const char *key, int v);
void tok_file_i32s(struct tok_file *f, const char *key, const int32_t *v, size_t n);
void tok_file_u32s(struct tok_file *f, const char *key, const uint32_t *v, size_t n);
void tok_file_u8s(struct tok_file *f, const char *key, const char *hex);
void tok_file_strings(struct tok_file *f, const char *key, const char *list); /* "a~b~c" */

/* Types are those of tokenizer.ggml.token_type. Returns the id. */
int32_t tok_file_token_n(struct tok_file *f, const char *text, size_t n, int type, double score);
int32_t tok_file_token(struct tok_file *f, const char *text, int type, double score);
void tok_file_merge_n(struct tok_file *f, const char *line, size_t n);
void tok_file_merge(struct tok_file *f, const char *line);

/* Adds to the file by a list like "model gpt2; alphabet; token <s> 3; u32 bos_token_id 256":
 *     model NAME     pre NAME     alphabet     pieces [bytes]     merge LEFT RIGHT
 *     token TEXT [TYPE [SCORE]]     types N, scores N (cut to N entries)     no_scores     no_merges
 *     exact (mgpt.tokenizer.scores are written)     u8s KEY HEXADECIMAL
 *     string, u32, bool, i32s, u32s (hexadecimal), strings (joined by '~') KEY VALUE
 * (a KEY without a dot is of tokenizer.ggml) */
void tok_file_edit(struct tok_file *f, const char *edits);

/* All 256 bytes in the alphabet of GPT-2, in GPT-2's order; and the text of one (NUL-terminated).
 */
void tok_file_alphabet(struct tok_file *f);
size_t tok_file_byte(uint8_t byte, char text[3]);

/* <unk> <s> </s> and, if asked for, the 256 byte tokens: the usual beginning of a SentencePiece
 * file. */
void tok_file_sentencepiece(struct tok_file *f, int bytes);

/* The file's bytes; the tokenizer, which must come out; and one that must be refused with this
 * text. */
void tok_file_encode(struct tok_file *f);
struct tok *tok_file_open(struct tok_file *f);
struct tok *tok_file_make(struct tok_file *f, const char *edits); /* of an empty file */
void tok_file_refused(struct tok_file *f, const char *message);

/* Reads a file of tests/vectors into f (tokens and merges) and a stb_ds array of cases. */
struct tok_case *tok_file_vectors(struct tok_file *f, const char *name);
void tok_cases_free(struct tok_case *cases);

/* Encodes and compares with n ids; -1 ends the variadic list of tok_gives. */
void tok_gives_ids(const struct tok *t, const char *text, size_t n_bytes, unsigned flags,
                   const int32_t *ids, size_t n);
void tok_gives(const struct tok *t, const char *text, unsigned flags, ...);

/* The pieces of the text's tokens joined by '|'. */
char *tok_split(const struct tok *t, const char *text, char *buf, size_t cap);

/* Encoding must fail with MGPT_ETEXT, this offset and this message. */
void tok_refuses(const struct tok *t, const char *text, size_t n_bytes, uint64_t offset,
                 const char *message);

/* The pieces of the text's tokens together are the text (at most 1000 bytes), but for the space in
 * front that decoding drops. */
void tok_round_trip(const struct tok *t, const char *text, size_t n_bytes);

/* tok_round_trip of random bytes, and of the cases with one byte replaced at random; not of cases
 * that hold the byte `not`, where it is not 0. */
void tok_round_trips(const struct tok *t, const struct tok_case *cases, char not );

/* A million times the byte: the pieces of its tokens have as many bytes, and n_more. */
void tok_long_text(const struct tok *t, char byte, size_t n_more);

/* Two threads encode all cases with one tokenizer and get the ids of the cases. */
void tok_two_threads(const struct tok *t, const struct tok_case *cases);

#endif
