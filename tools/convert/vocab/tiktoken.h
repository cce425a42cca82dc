/* tiktoken vocabularies: bytes with ranks, no merge list. The pair of tokens that each token is
 * merged from follows from the ranks (FORMATS: "tiktoken form"), so that GGUF's merge list says the
 * same.
 */
#ifndef MGPT_CONVERT_TIKTOKEN_H
#define MGPT_CONVERT_TIKTOKEN_H

#include "convert/core/readers.h"

struct tiktoken_token {
    struct gguf_str text; /* raw bytes; must stay until tiktoken_read returns */
    int64_t rank;         /* = id */
};

struct tiktoken {
    const struct tiktoken_token *ranks; /* mergeable_ranks, in any order */
    size_t n_ranks;
    const struct tiktoken_token *specials; /* special_tokens, in any order */
    size_t n_specials;
    int64_t first;           /* the id of rank 0; special tokens have the other ids */
    struct gguf_str pattern; /* pat_str: the splitting regex */
    const char *bos; /* a special token, "<|bos|>", that mgpt_encode puts in front; NULL: none */
    const char *eos; /* a special token; NULL: none */
};

/* Fills c->vocab (model "gpt2" with merges). Ids must be 0, 1, 2, ... without holes, every single
 * byte must have a rank, texts must differ, and n_rows must hold all ids. A pattern that mgpt does
 * not know is refused. `name` is the file's in messages. Faults leave the run (checkpoint.h). */
void tiktoken_read(struct checkpoint *c, const struct tiktoken *t, const char *name,
                   uint64_t n_rows);

/* Decodes n characters of base64, padding included, in place; -1 when they are not that. */
int64_t tiktoken_decode(char *p, size_t n);

/* A .tiktoken file: lines of base64(bytes), a space, the rank. There are no special tokens and no
 * pattern in it; they are taken from the number of ranks where that is well known (Llama 3, Qwen,
 * GPT-2, GLM-4), with a note; refused otherwise. */
int tiktoken_sniff(struct span bytes);
void tiktoken_file_read(struct checkpoint *c, struct span bytes, const char *name, uint64_t n_rows);

#endif
