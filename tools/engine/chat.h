/* Conversations with a model that was trained for them: turns as tokens, by a fixed list of
 * formats.
 *
 * A model file may bring a chat template, a program in a language of its own. It is never run: it
 * is only looked at for marks that tell which of the formats here it writes. What a user types is
 * text, even if it spells a control token; those come from the format alone.
 */
#ifndef MGPT_CHAT_H
#define MGPT_CHAT_H

#include "engine/engine.h"

struct chat_format;

struct chat {
    const struct engine *engine;
    const struct chat_format *format;
    int32_t *tokens;    /* stb_ds array: the conversation so far */
    int32_t end;        /* the token after an answer; -1: none of its own */
    char *plain;        /* stb_ds array: text that is not in tokens yet */
    const char *system; /* waits for the user's first text; NULL: none */
};

/* "chatml, llama3, ...": the names that --chat-format takes. */
const char *chat_format_names(void);
const char *chat_format_name(const struct chat *chat);

/* Begins a conversation in the named format, or, when `name` is NULL, in the one that the model's
 * template or vocabulary tells. `system` may be NULL. Returns an exit code; after a failure the
 * user has been told. */
int chat_open(struct chat *chat, const struct engine *engine, const struct cli_command *command,
              const char *name, const char *system);
void chat_close(struct chat *chat);

/* Makes the conversation one whose tokens, up to the end of an answer, the engine's session holds.
 * Returns an exit code. */
int chat_resume(struct chat *chat);

/* Appends a turn of the user, up to the place where the answer begins. Returns an exit code. */
int chat_user(struct chat *chat, const char *text, size_t n_bytes);

/* Appends a token of the answer, and what follows an answer. */
int chat_answer(struct chat *chat, int32_t token);
int chat_answered(struct chat *chat);

/* 1 when the token ends an answer. */
int chat_is_end(const struct chat *chat, int32_t token);

/* ---- mgpt generate --chat (chat_run.c) ------------------------------------------------------- */

struct chat_request {
    const char *text, *file;     /* the user's turns: one; or one a line; both NULL: stdin */
    const char *format, *system; /* may be NULL */
    int32_t n_predict;           /* most tokens of an answer; -1: until the end */
};

/* Prints the answers, each with a line end. Returns an exit code. */
int chat_run(struct engine *engine, mgpt_sampler *sampler, const struct chat_request *request,
             const struct cli_command *command);

#endif
