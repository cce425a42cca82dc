/* A template is tried on short messages before the conversation begins. See chat.h. */
#include "base/mem.h"
#include "engine/chat.h"

#include <string.h>

#define MESSAGE(role, text)                                                                        \
    {                                                                                              \
        role, text, sizeof text - 1                                                                \
    }

/* The control token at the beginning of what follows an answer; -1: text, or nothing. */
static int32_t end_token(const struct chat *c, const char *text, size_t n, mgpt_error *err)
{
    size_t length = 0;
    while (n > 0 && strchr(" \n\t", *text) && *text) {
        text++;
        n--;
    }
    for (size_t i = 1; i <= n && i < 64; i++) { /* the longest */
        int32_t id = text[i - 1] == '>' || text[i - 1] == ']' || i == n
                         ? chat_control_token(c->engine->model, text, i, err)
                         : -1;
        length = id >= 0 ? i : length;
    }
    return length && strchr("<[", *text) ? chat_control_token(c->engine->model, text, length, err)
                                         : -1;
}

/* The length of something like <|im_end|> at the beginning of the text, after white space; 0:
 * none. *at moves to it. */
static size_t looks_like_token(const char **at, size_t n)
{
    const char *p = *at, *last = p + n;
    while (p < last && strchr(" \n\t", *p) && *p)
        p++;
    *at = p;
    if (p == last || *p != '<')
        return 0;
    size_t length = 1;
    while (p + length < last && length < 40 && !strchr("<> \n", p[length]))
        length++;
    return length > 1 && p + length < last && p[length] == '>' ? length + 1 : 0;
}

/* Takes what follows the answer for the token that ends one. is_last: no message follows; then a text
 * that looks like a token, but is not one, is of another vocabulary. */
static int find_end_after_answer(struct chat *c, const struct jinja_output *out, int is_last)
{
    mgpt_error err = {0};
    size_t from = chat_after_answer(out), all = arr_len(out->text);
    if (!from)
        return EXIT_OK;
    const char *at = out->text + from;
    size_t length = looks_like_token(&at, all - from);
    c->end = length ? chat_control_token(c->engine->model, at, length, &err)
                    : end_token(c, at, all - (size_t)(at - out->text), &err);
    if (err.status == MGPT_EMEM)
        return chat_refuse(c, &err);
    if (length == 0 || c->end >= 0 || !is_last)
        return EXIT_OK;
    cli_note("the chat template ends an answer with %.*s: the vocabulary has no such token, the "
             "template is of another one",
             (int)length, at);
    return EXIT_USAGE;
}

/* Finds the token that ends an answer, in the text after one that is the last message, or that is
 * followed by a turn. */
int chat_find_end(struct chat *c)
{
    static const struct jinja_message messages[] = {MESSAGE("user", CHAT_QUESTION),
                                                    MESSAGE("assistant", CHAT_ANSWER),
                                                    MESSAGE("user", CHAT_QUESTION)};
    int code = EXIT_OK;
    mgpt_error err = {0};
    c->end = -1;
    for (size_t n = 2; n <= 3 && c->end < 0 && code == EXIT_OK; n++) {
        struct jinja_output out;
        if (chat_render(c, messages, n, n == 3, &out, &err) == MGPT_OK) {
            code = find_end_after_answer(c, &out, n == 2);
            jinja_output_free(&out);
        } else if (err.status == MGPT_EMEM) {
            code = chat_refuse(c, &err);
        }
    }
    return code;
}

static size_t n_typed(const struct jinja_output *out)
{
    size_t n = 0;
    for (size_t i = 0; i < arr_len(out->typed); i++)
        n += (size_t)out->typed[i];
    return n;
}

/* One turn, as it will be asked for. */
int chat_try_turn(struct chat *c, const struct chat_style *style)
{
    const char *system = style->system ? style->system : "";
    const struct jinja_message messages[] = {{"system", system, strlen(system)},
                                             MESSAGE("user", CHAT_QUESTION)};
    const size_t skipped = style->system ? 0 : 1;
    struct jinja_output out;
    mgpt_error err;
    if (chat_render(c, messages + skipped, 2 - skipped, 1, &out, &err) < 0)
        return chat_refuse(c, &err);
    int code = EXIT_OK;
    if (strspn(system, " \t\r\n") < strlen(system) && n_typed(&out) <= sizeof CHAT_QUESTION - 1) {
        cli_note("--system: the chat template does not write a system text");
        code = EXIT_USAGE;
    }
    jinja_output_free(&out);
    return code;
}

/* Do on and off differ in what is written? */
int chat_try_think(struct chat *c, const struct cli_command *command)
{
    static const struct jinja_message message = MESSAGE("user", CHAT_QUESTION);
    struct jinja_output out[2];
    mgpt_error err;
    int same = 0;
    for (int k = 0; k < 2; k++) {
        if (chat_render(c, &message, 1, 1, &out[k], &err) < 0) {
            if (k == 1)
                jinja_output_free(&out[0]);
            return chat_refuse(c, &err);
        }
        for (size_t i = 0; i < arr_len(c->facts); i++) /* the other way, and back */
            if (c->facts[i].type == JINJA_TRUE || c->facts[i].type == JINJA_FALSE)
                for (size_t t = 0; t < CHAT_THINK_NAMES; t++)
                    if (c->facts[i].name == chat_think_names[t])
                        c->facts[i].type =
                            c->facts[i].type == JINJA_TRUE ? JINJA_FALSE : JINJA_TRUE;
    }
    same = arr_len(out[0].text) == arr_len(out[1].text) && arr_len(out[0].text) > 0 &&
           memcmp(out[0].text, out[1].text, arr_len(out[0].text)) == 0;
    jinja_output_free(&out[0]);
    jinja_output_free(&out[1]);
    return same ? cli_usage(command, "--think: the chat template writes the same for on and off")
                : EXIT_OK;
}
