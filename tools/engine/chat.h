/* Conversations with a model that was trained for them: messages as the tokens that the model's
 * chat template writes.
 *
 * For each turn the template (jinja/) writes the whole conversation anew, as transformers does, and
 * the session keeps what it has in common with it. What a user types is text, even if it spells a
 * control token; those come from the template alone.
 */
#ifndef MGPT_CHAT_H
#define MGPT_CHAT_H

#include "common/text.h"
#include "engine/chat_formats.h"
#include "engine/engine.h"
#include "jinja/jinja.h"

/* How a conversation is written; all zero: as the model's template says. */
struct chat_style {
    const char *format;        /* one of chat_format_names */
    const char *template_file; /* a file with a template; "-": not stdin, a name */
    const char *system;        /* what the model is told first */
    const char *think;         /* "on", "off" */
    struct cli_many vars;      /* NAME=VALUE: variables of the template */
};

struct chat_message {
    const char *role;
    char *text; /* malloc'ed: n bytes */
    size_t n;
};

struct chat_control;

struct chat {
    const struct engine *engine;
    const char *name; /* of the format; NULL: a template of the model or a file */
    struct jinja *template;
    struct chat_message *messages; /* stb_ds arrays */
    struct jinja_fact *facts;
    char **names;                  /* malloc'ed texts that facts point to */
    struct chat_control *controls; /* the vocabulary's control tokens */
    int32_t *tokens;               /* stb_ds array: the conversation so far */
    int32_t end;                   /* the token after an answer; -1: none of its own */
    size_t n_kept;                 /* tokens of a conversation that chat_resume took over */
    struct text_out answer;        /* the text of the answer so far */
};

/* Begins a conversation. Tries the template on short messages, so what it refuses is refused here.
 * Returns an exit code; after a failure the user has been told. */
int chat_open(struct chat *chat, const struct engine *engine, const struct cli_command *command,
              const struct chat_style *style);
void chat_close(struct chat *chat);

/* Continues the conversation that the engine's session holds as tokens, up to the end of an answer.
 * These tokens do not change; later turns are written as the template writes them after one turn and
 * an answer. Returns an exit code. */
int chat_resume(struct chat *chat);

/* Adds a turn of the user: `tokens` are then the conversation up to the place where the answer
 * begins. Returns an exit code. */
int chat_user(struct chat *chat, const char *text, size_t n_bytes);

/* Adds the messages of a file, [{"role": "user", "content": "..."}, ...] or {"messages": ...}, as OpenAI has them. Returns an
 * exit code. chat_asks: 1 if the last one is a turn of the user, which chat_write makes tokens of as chat_user does. */
int chat_read(struct chat *chat, const char *path);
int chat_asks(const struct chat *chat);
int chat_write(struct chat *chat);

/* Forgets the oldest turns, but the last `keep` and the system text. Returns how many; then chat_write. */
size_t chat_forget(struct chat *chat, size_t keep);

/* Appends a token of the answer; ends the answer. Return exit codes. */
int chat_answer(struct chat *chat, int32_t token);
int chat_answered(struct chat *chat);

/* 1 when the token ends an answer. */
int chat_is_end(const struct chat *chat, int32_t token);

/* ---- inside (chat.c) ------------------------------------------------------------------------- */

/* The messages that a template is tried on. */
#define CHAT_QUESTION "question"
#define CHAT_ANSWER "answer"

/* The names under which templates ask whether the model is to think. */
enum { CHAT_THINK_NAMES = 2 };
extern const char *const chat_think_names[]; /* [CHAT_THINK_NAMES] */

/* Adds a message; role: a literal. Returns an exit code. */
int chat_add_message(struct chat *chat, const char *role, const char *text, size_t n);

/* Runs the template. Returns a status. */
int chat_render(const struct chat *chat, const struct jinja_message *messages, size_t n, int prompt,
                struct jinja_output *out, mgpt_error *err);

/* Tells what is wrong with the template. Returns an exit code. */
int chat_refuse(const struct chat *chat, const mgpt_error *err);

/* The byte after the first CHAT_ANSWER that is of a message; 0: there is none. */
size_t chat_after_answer(const struct jinja_output *out);

/* ---- inside (chat_try.c): each returns an exit code ------------------------------------------ */

int chat_try_turn(struct chat *chat, const struct chat_style *style);     /* one turn is written */
int chat_try_think(struct chat *chat, const struct cli_command *command); /* on and off differ */
int chat_find_end(struct chat *chat); /* fills chat->end: the token after an answer */

/* ---- inside (chat_tokens.c) ------------------------------------------------------------------ */

/* Fills chat->controls. Returns an exit code. */
int chat_find_controls(struct chat *chat);

/* Appends the tokens of text that a template wrote, from byte `from` on. Returns an exit code. */
int chat_encode(struct chat *chat, const struct jinja_output *text, size_t from);

/* The id of one control token, -1 when the text is something else in this vocabulary, or with
 * MGPT_EMEM in *err, which is not set otherwise. */
int32_t chat_control_token(const mgpt_model *model, const char *text, size_t n, mgpt_error *err);

/* ---- mgpt generate --chat (chat_run.c) ------------------------------------------------------- */

struct chat_request {
    const char *text, *file; /* the user's turns: one; or one a line; both NULL: stdin */
    const struct chat_style *style;
    int32_t n_predict;         /* most tokens of an answer; -1: until the end */
    const struct stops *stops; /* end an answer, too */
    const char *chat_file;     /* messages that the conversation begins with; NULL: none */
    int32_t keep_turns;        /* turns that stay when the context is full; 0: all */
    struct choices *choices;   /* an answer is one of them; NULL: it is drawn */
};

/* Prints the answers, each with a line end. Returns an exit code. */
int chat_run(struct engine *engine, struct sampling *sampling, const struct chat_request *request,
             const struct cli_command *command);

#endif
