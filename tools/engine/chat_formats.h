/* The chat formats with names: for models without a template of their own. */
#ifndef MGPT_CHAT_FORMATS_H
#define MGPT_CHAT_FORMATS_H

#include <stddef.h>

enum { CHAT_TOKENS_MOST = 5 };

struct chat_format {
    const char *name, *template;
    const char *tokens[CHAT_TOKENS_MOST]; /* control tokens that it needs; the last is NULL */
    int by_tokens;                        /* 1: these tokens in a vocabulary tell the format */
};

/* "chatml, llama3, ...": the names that --chat-format takes. */
const char *chat_format_names(void);

/* The i-th one; NULL at the end. */
const struct chat_format *chat_format_at(size_t i);
const struct chat_format *chat_format_named(const char *name);

#endif
