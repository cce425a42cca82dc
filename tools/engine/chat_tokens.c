/* The text of a conversation to tokens: control tokens are those of the template. See chat.h. */
#include "base/error.h"
#include "base/mem.h"
#include "engine/chat.h"

#include <stdlib.h>
#include <string.h>

struct chat_control {
    const char *text;
    size_t n;
    int32_t id;
};

static int out_of_memory(void)
{
    cli_note("out of memory: the conversation");
    return EXIT_FULL;
}

int32_t chat_control_token(const mgpt_model *model, const char *text, size_t n, mgpt_error *err)
{
    int32_t id = -1;
    size_t n_text;
    const unsigned flags = MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL;
    mgpt_error why;
    int64_t n_ids = mgpt_encode(model, text, n, flags, &id, 1, &why);
    if (n_ids == MGPT_EMEM)
        *err = why;
    if (n_ids != 1)
        return -1;
    const char *own = mgpt_token_text(model, id, &n_text);
    return n_text == n && memcmp(own, text, n) == 0 ? id : -1;
}

/* Control tokens have a text and no piece. */
int chat_find_controls(struct chat *c)
{
    const mgpt_model *model = c->engine->model;
    for (int32_t id = 0; id < c->engine->info.n_tokens; id++) {
        size_t n_text, n_piece;
        const char *text = mgpt_token_text(model, id, &n_text);
        mgpt_piece(model, id, &n_piece);
        if (n_text > 0 && n_piece == 0 &&
            !arr_push(c->controls, ((struct chat_control){text, n_text, id})))
            return out_of_memory();
    }
    return EXIT_OK;
}

/* The longest control token at this byte; NULL: none. */
static const struct chat_control *control_at(const struct chat *c, const char *text, size_t n)
{
    const struct chat_control *longest = NULL;
    for (size_t i = 0; i < arr_len(c->controls); i++) {
        const struct chat_control *k = &c->controls[i];
        if (k->text[0] == text[0] && k->n <= n && (!longest || k->n > longest->n) &&
            memcmp(k->text, text, k->n) == 0)
            longest = k;
    }
    return longest;
}

/* Does a message spell a control token, or a part of one? */
static int spells_control(const struct chat *c, const struct jinja_output *text, size_t from)
{
    size_t n = arr_len(text->text);
    for (size_t i = from; i < n; i++) {
        const struct chat_control *k = control_at(c, text->text + i, n - i);
        if (k && memchr(text->typed + i, 1, k->n))
            return 1;
    }
    return 0;
}

static int add_tokens(struct chat *c, const char *text, size_t n, unsigned flags)
{
    int32_t *tokens;
    size_t n_tokens;
    if (n == 0)
        return EXIT_OK;
    int code = engine_encode(c->engine, "the conversation", text, n, flags | MGPT_NO_SPECIAL_TOKENS,
                             -1, &tokens, &n_tokens);
    for (size_t i = 0; code == EXIT_OK && i < n_tokens; i++)
        if (!arr_push(c->tokens, tokens[i]))
            code = out_of_memory();
    free(tokens);
    return code;
}

/* The parts between the template's own control tokens are encoded as plain text. */
static int encode_parts(struct chat *c, const struct jinja_output *text, size_t from)
{
    size_t n = arr_len(text->text), begin = from;
    int code = EXIT_OK;
    for (size_t i = from; i < n && code == EXIT_OK;) {
        const struct chat_control *k = control_at(c, text->text + i, n - i);
        if (!k || memchr(text->typed + i, 1, k->n)) {
            i++;
            continue;
        }
        code = add_tokens(c, text->text + begin, i - begin, 0);
        if (code == EXIT_OK && !arr_push(c->tokens, k->id))
            code = out_of_memory();
        begin = i += k->n;
    }
    return code == EXIT_OK ? add_tokens(c, text->text + begin, n - begin, 0) : code;
}

int chat_encode(struct chat *c, const struct jinja_output *text, size_t from)
{
    if (spells_control(c, text, from))
        return encode_parts(c, text, from);
    return add_tokens(c, text->text + from, arr_len(text->text) - from, MGPT_PARSE_SPECIAL);
}
