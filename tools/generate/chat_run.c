/* mgpt generate --chat: turns in, answers out. See chat.h.
 *
 * A session that has tokens (--session) is a conversation that goes on after its last answer. The
 * session then ends with an answer, however the run ends.
 *
 * The whole conversation stays in the context. When a turn does not fit, --keep-turns forgets the oldest ones; without it the
 * turn ends the conversation. Answers go to
 * stdout, one after the other, each with a line end; what the user types is not repeated.
 */
#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "engine/chat.h"
#include "generate/choices.h"
#include "repl/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    struct engine *engine;
    struct sampling *sampling;
    const struct chat_request *request;
    struct chat chat;
    struct text_out out;
};

static int put_token(struct run *r, size_t *n_put, int32_t token)
{
    text_out_token(&r->out, token, 0);
    ++*n_put;
    return chat_answer(&r->chat, token);
}

/* Adds the session's tokens before `end` that are not in the answer yet, from *n_put on. */
static int put_until(struct run *r, size_t *n_put, size_t end)
{
    int code = EXIT_OK;
    while (*n_put < end && code == EXIT_OK && !r->out.stopped)
        code = put_token(r, n_put, mgpt_tokens(r->engine->session)[*n_put]);
    return code;
}

/* Runs a token that was drawn, which may complete a banned text. NULL: failed. */
static const float *keep(struct run *r, int32_t token, mgpt_error *err)
{
    mgpt_session *session = r->engine->session;
    const float *logits = engine_step(r->engine, token, err);
    size_t n = mgpt_pos(session);
    int64_t to = logits ? chooser_back(&r->sampling->chooser, mgpt_tokens(session), n, NULL) : 0;
    if (to < 0)
        err_memory(err, "the answer", n);
    if (!logits || to < 0 || (size_t)to == n)
        return to < 0 ? NULL : logits;
    int32_t last = mgpt_tokens(session)[to - 1];
    mgpt_rewind(session, (size_t)to - 1, NULL);
    return engine_step(r->engine, last, err);
}

/* The answer is one of the choices. */
static int choose_answer(struct run *r)
{
    struct choices *c = r->request->choices;
    mgpt_session *session = r->engine->session;
    mgpt_error err;
    int taken = choices_score(c, r->engine, session, 1, &err);
    if (taken == MGPT_OK)
        taken = choices_draw(c, &r->sampling->sampler, &err);
    if (taken < 0)
        return cli_fail(NULL, &err);
    const struct choice *k = &c->list[taken];
    text_out_bytes(&r->out, k->text, k->n);
    int code = engine_sync(r->engine, session, k->tokens, k->n_tokens);
    for (size_t i = c->n_common; i < k->n_tokens && code == EXIT_OK; i++)
        code = chat_answer(&r->chat, k->tokens[i]);
    return code;
}

/* Draws one answer. The context may be full at its end: then the next turn will say so. */
static int chat_run_draw(struct run *r)
{
    mgpt_session *session = r->engine->session;
    struct chooser *chooser = &r->sampling->chooser;
    const float *logits = mgpt_logits(session);
    size_t begin = mgpt_pos(session), n_put = begin, most = (size_t)r->request->n_predict;
    int code = EXIT_OK, bans = edit_rules_is_on(&r->sampling->rules, EDIT_BAN);
    mgpt_error err;
    text_out_drawn(&r->out, r->request->stops);
    chooser_begin(chooser, begin, 0);
    while (mgpt_pos(session) - begin < most && code == EXIT_OK && !r->out.stopped) {
        if (interrupted())
            return EXIT_INTERRUPTED;
        if (ferror(stdout))
            return EXIT_IO;
        int32_t token =
            chooser_draw(chooser, &r->sampling->sampler, logits, engine_n_choices(r->engine),
                         mgpt_tokens(session), mgpt_pos(session), &err);
        if (token < 0)
            return cli_fail(NULL, &err);
        if (chat_is_end(&r->chat, token))
            break;
        if (mgpt_pos(session) == mgpt_n_ctx(session)) {
            cli_info("the context is full (%zu positions): the answer ends there",
                     mgpt_n_ctx(session));
            code = put_until(r, &n_put, mgpt_pos(session));
            return code == EXIT_OK ? put_token(r, &n_put, token) : code;
        }
        if (!bans) /* shown before its pass */
            code = put_token(r, &n_put, token);
        logits = code == EXIT_OK ? keep(r, token, &err) : NULL;
        if (!logits)
            return code == EXIT_OK ? cli_fail(NULL, &err) : code;
        if (chooser_is_complete(chooser, mgpt_tokens(session), mgpt_pos(session)))
            break;
        if (bans)
            code = put_until(r, &n_put,
                             chooser_final(chooser, mgpt_tokens(session), mgpt_pos(session)));
    }
    return code == EXIT_OK ? put_until(r, &n_put, mgpt_pos(session)) : code;
}

/* Forgets old turns if the conversation does not fit, or not with an answer of -n tokens. */
static int forget_turns(struct run *r)
{
    const struct chat_request *ask = r->request;
    size_t n_ctx = mgpt_n_ctx(r->engine->session),
           answer = ask->n_predict > 0 ? (size_t)ask->n_predict : 0;
    size_t n = arr_len(r->chat.tokens);
    if (n + (ask->keep_turns ? answer : 0) <= n_ctx)
        return EXIT_OK;
    size_t n_forgotten = ask->keep_turns ? chat_forget(&r->chat, (size_t)ask->keep_turns) : 0;
    if (n_forgotten > 0)
        cli_info("the context is full (%zu positions): %zu of the oldest turns are forgotten",
                 n_ctx, n_forgotten);
    return n_forgotten > 0 ? chat_write(&r->chat) : EXIT_OK;
}

/* Answers the turn that the conversation ends with. */
static int answer_last(struct run *r)
{
    int code = forget_turns(r);
    if (code == EXIT_OK)
        code = engine_fits(r->engine,
                           r->request->keep_turns
                               ? "the conversation"
                               : "the conversation (--keep-turns N forgets old turns)",
                           arr_len(r->chat.tokens));
    if (code == EXIT_OK)
        code = engine_sync(r->engine, r->engine->session, r->chat.tokens, arr_len(r->chat.tokens));
    if (code != EXIT_OK)
        return code;
    code = r->request->choices ? choose_answer(r) : chat_run_draw(r);
    text_out_end(&r->out);
    if (r->out.failed.status < 0)
        return code == EXIT_OK ? cli_fail(NULL, &r->out.failed) : code; /* one line is enough */
    putchar('\n');
    fflush(stdout);
    return code == EXIT_OK ? chat_answered(&r->chat) : code;
}

static int answer(struct run *r, const char *text, size_t n_bytes)
{
    int code = chat_user(&r->chat, text, n_bytes);
    return code == EXIT_OK ? answer_last(r) : code;
}

/* ---- where turns come from ------------------------------------------------------------------- */

/* An empty line is not a turn. */
static int answer_lines(struct run *r, const char *text, size_t n)
{
    int code = EXIT_OK;
    for (const char *line, *end = text + n; text < end && code == EXIT_OK;) {
        size_t length = text_cut_line(&text, end, &line);
        if (length > 0)
            code = answer(r, line, length);
    }
    return code;
}

static int answer_file(struct run *r)
{
    size_t n;
    mgpt_error err;
    struct cli_limits limits = {.line = engine_text_bytes(r->engine)};
    char *text = cli_read_limited(r->request->file, limits, &n, &err);
    if (!text)
        return cli_fail(r->request->file, &err);
    int code = answer_lines(r, text, n);
    free(text);
    return code;
}

/* Answers turns as they are typed. In a terminal Ctrl-C stops an answer, and the conversation goes on. */
static int answer_typed(struct run *r)
{
    struct line_reader reader;
    char *line;
    size_t n;
    int code = EXIT_OK;
    line_open(&reader, NULL, NULL, NULL, NULL);
    while (code == EXIT_OK && (line = line_next(&reader, "> ", &n))) {
        if (n == 0)
            continue;
        interrupt_catch();
        code = answer(r, line, n);
        interrupt_release();
        if (code == EXIT_INTERRUPTED && reader.terminal && !interrupt_is_final())
            code = chat_answered(&r->chat);
    }
    line_close(&reader, NULL);
    if (code == EXIT_OK && reader.failed.status < 0)
        return cli_fail("stdin", &reader.failed);
    return code;
}

int chat_run(struct engine *engine, struct sampling *sampling, const struct chat_request *request,
             const struct cli_command *command)
{
    struct run r = {.engine = engine, .sampling = sampling, .request = request};
    int code = chat_open(&r.chat, engine, command, request->style);
    if (code == EXIT_OK && mgpt_pos(engine->session) > 0)
        code = chat_resume(&r.chat);
    if (code == EXIT_OK && request->chat_file)
        code = chat_read(&r.chat, request->chat_file);
    int asks = code == EXIT_OK && request->chat_file && chat_asks(&r.chat);
    if (asks && (request->text || request->file))
        code = cli_usage(command,
                         "%s ends with a turn of the user, which is answered: leave out -p and -f",
                         request->chat_file);
    text_out_open(&r.out, engine->model, stdout);
    if (code == EXIT_OK && r.chat.name && !request->style->format)
        cli_info("chat format: %s, by the names of the model's tokens", r.chat.name);
    if (request->text || request->file || asks)
        interrupt_catch();
    if (code == EXIT_OK && asks)
        code = chat_write(&r.chat);
    if (code == EXIT_OK && asks)
        code = answer_last(&r);
    else if (code == EXIT_OK && request->text)
        code = answer(&r, request->text, strlen(request->text));
    else if (code == EXIT_OK && request->file && strcmp(request->file, "-") != 0)
        code = answer_file(&r);
    else if (code == EXIT_OK)
        code = answer_typed(&r);
    text_out_close(&r.out);
    chat_close(&r.chat);
    return cli_finish(code);
}
