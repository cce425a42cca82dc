/* Conversations in files, and conversations that are too long. See chat.h. */
#include "base/error.h"
#include "base/mem.h"
#include "common/jval.h"
#include "engine/chat.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 64 << 20 };

static const char *const roles[] = {"system", "user", "assistant"};

/* A string, or a list of {"type": "text", "text": ...}, one after the other. */
static int add_content(struct chat *c, const char *role, const struct jval *content, size_t number,
                       mgpt_error *err)
{
    size_t n_parts = jval_is(content, JVAL_ARRAY) ? jval_size(content) : 1, n = 0;
    char *text = NULL;
    for (size_t i = 0; i < n_parts; i++) {
        const struct jval *part =
            jval_is(content, JVAL_ARRAY) ? jval_get(jval_at(content, i), "text") : content;
        size_t length = jval_text_size(part);
        char *more = jval_is(part, JVAL_STRING) ? realloc(text, n + length + 1) : NULL;
        if (!more) {
            free(text);
            return jval_is(part, JVAL_STRING) ? err_memory(err, "the conversation", n)
                                              : err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                                                        "message %zu: content: expected a string, "
                                                        "or a list of parts with text",
                                                        number);
        }
        text = more;
        memcpy(text + n, jval_text(part), length);
        n += length;
    }
    int code = chat_add_message(c, role, text, n);
    free(text);
    return code == EXIT_OK ? MGPT_OK : err_memory(err, "the conversation", n);
}

static int read_message(struct chat *c, const struct jval *message, size_t number, mgpt_error *err)
{
    const char *name = jval_text(jval_get(message, "role"));
    size_t role = 0, n = sizeof roles / sizeof *roles;
    while (role < n && (!name || strcmp(name, roles[role]) != 0))
        role++;
    if (role == n)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "message %zu: role: expected system, user or assistant, found %.*s", number,
                       TEXT_CLIP(name ? name : "none", strlen(name ? name : "none")));
    return add_content(c, roles[role], jval_get(message, "content"), number, err);
}

static int read_messages(struct chat *c, const struct jval *root, mgpt_error *err)
{
    const struct jval *list = jval_is(root, JVAL_OBJECT) ? jval_get(root, "messages") : root;
    int status = MGPT_OK;
    if (!jval_is(list, JVAL_ARRAY) || jval_size(list) == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "expected a list of messages, {\"role\": \"user\", \"content\": \"...\"}");
    if (arr_len(c->messages) && jval_text(jval_get(jval_at(list, 0), "role")) &&
        strcmp(jval_text(jval_get(jval_at(list, 0), "role")), "system") == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "message 1 is a system text: leave out --system");
    for (size_t i = 0; status == MGPT_OK && i < jval_size(list); i++)
        status = read_message(c, jval_at(list, i), i + 1, err);
    return status;
}

int chat_read(struct chat *c, const char *path)
{
    struct jval_error failed;
    mgpt_error err;
    size_t n;
    char *text = cli_read_limited(path, (struct cli_limits){.all = MAX_BYTES}, &n, &err);
    if (!text)
        return cli_fail(path, &err);
    const struct jval *root = jval_read(text, n, 0, NULL, &failed);
    int status = MGPT_OK;
    if (root)
        status = read_messages(c, root, &err);
    else if (jval_no_memory(&failed, n, &err))
        status = err.status;
    else
        status = err_set(&err, MGPT_EFILE, failed.offset, "bad JSON: %.120s", failed.text);
    jval_free(root);
    free(text);
    return status < 0 ? cli_fail(path, &err) : EXIT_OK;
}

static int is_role(const struct chat *c, size_t i, const char *role)
{
    return strcmp(c->messages[i].role, role) == 0;
}

int chat_asks(const struct chat *c)
{
    size_t n = arr_len(c->messages);
    return n > 0 && is_role(c, n - 1, "user");
}

size_t chat_forget(struct chat *c, size_t keep)
{
    size_t n = arr_len(c->messages), first = 0, to = n, kept = 0, n_turns = 0;
    while (first < n && is_role(c, first, "system"))
        first++;
    for (size_t i = n; i > first && i--;) {
        int turn = is_role(c, i, "user");
        to = turn && kept < keep ? i : to;
        kept += turn && kept < keep;
        n_turns += (size_t)turn;
    }
    if (kept < keep || to == first)
        return 0;
    for (size_t i = first; i < to; i++)
        free(c->messages[i].text);
    memmove(c->messages + first, c->messages + to, (n - to) * sizeof *c->messages);
    arr_set_len(c->messages, first + n - to);
    return n_turns - kept;
}
