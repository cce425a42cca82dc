/* The kinds of tokenizers, X(ID, model): tokenizer.ggml.model of a file, and the row of functions
 * tok_kind_ID, whose name `mgpt info` prints. A file of model "gpt2" whose tokens are all single
 * characters has the kind `char`, a file without a vocabulary none. */
#ifndef MGPT_TOK_KINDS_H
#define MGPT_TOK_KINDS_H

/* clang-format off */
#define TOK_KINDS(X)                                                                               \
    X(bpe, "gpt2")                   /* byte-level BPE: split with PCRE2, merge by rank */         \
    X(spm, "llama")                  /* SentencePiece BPE: merge by score, bytes as <0xHH> */      \
    X(gemma4, "gemma4")              /* the same, by the ranks of a merge list */                  \
    X(unigram, "t5")                 /* SentencePiece Unigram: the split of the greatest score */  \
    X(text, "mgpt-bpe")              /* BPE over characters, after the file's own steps */         \
    X(unigram_pieces, "mgpt-unigram")   /* Unigram after the file's own steps */                   \
    X(wordpiece, "mgpt-wordpiece")   /* the longest tokens of a word, from its beginning */        \
    X(wordlevel, "mgpt-wordlevel")   /* a word is a token */
/* clang-format on */

#endif
