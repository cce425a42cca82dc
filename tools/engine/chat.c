/* Conversations by templates. See chat.h. */
#include "engine/chat.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static int no_memory(void)
{
    cli_note("out of memory: the conversation");
    return EXIT_FULL;
}

int chat_refuse(const struct chat *c, const mgpt_error *err)
{
    if (err->status == MGPT_EMEM)
        return cli_fail(NULL, err);
    if (c->name)
        cli_note("the chat format %s: %s", c->name, err->text);
    else
        cli_note("the chat template: %s; --chat-template and --chat-format replace it", err->text);
    return EXIT_USAGE;
}

/* ---- which template -------------------------------------------------------------------------- */

static int load_template(struct chat *c, const char *text, size_t n)
{
    mgpt_error err;
    c->template = jinja_new(text, n, &err);
    if (c->template)
        return EXIT_OK;
    return chat_refuse(c, &err);
}

static int load_template_file(struct chat *c, const char *path)
{
    mgpt_error err;
    size_t n;
    struct cli_limits limits = {.all = (size_t)1 << 22};
    char *text = cli_read_limited(path, limits, &n, &err);
    if (!text)
        return cli_fail(path, &err);
    int code = load_template(c, text, n);
    free(text);
    return code;
}

/* The token of the format that the vocabulary lacks; NULL: it has them all. err: as chat_control_token. */
static const char *lacks_token(const struct chat_format *f, const mgpt_model *model,
                               mgpt_error *err)
{
    for (const char *const *t = f->tokens; *t; t++)
        if (chat_control_token(model, *t, strlen(*t), err) < 0)
            return *t;
    return NULL;
}

static int load_format(struct chat *c, const struct chat_format *f)
{
    mgpt_error err = {0};
    const char *missing = lacks_token(f, c->engine->model, &err);
    c->name = f->name;
    if (err.status == MGPT_EMEM)
        return chat_refuse(c, &err);
    if (missing) {
        cli_note("chat format %s: the vocabulary has no token %s", f->name, missing);
        return EXIT_USAGE;
    }
    return load_template(c, f->template, strlen(f->template));
}

static int choose_template(struct chat *c, const struct cli_command *command,
                           const struct chat_style *style)
{
    const char *own = c->engine->info.chat_template;
    mgpt_error err = {0};
    const struct chat_format *f = style->format ? chat_format_named(style->format) : NULL;
    if (style->format && style->template_file)
        return cli_usage(command, "--chat-format and --chat-template: give one of them");
    if (style->format && !f)
        return cli_usage(command, "--chat-format: expected one of %s, found '%s'",
                         chat_format_names(), style->format);
    if (style->template_file)
        return load_template_file(c, style->template_file);
    if (!f && *own)
        return load_template(c, own, strlen(own));
    for (size_t i = 0; !f && chat_format_at(i); i++)
        if (chat_format_at(i)->by_tokens && !lacks_token(chat_format_at(i), c->engine->model, &err))
            f = chat_format_at(i);
    if (err.status == MGPT_EMEM)
        return chat_refuse(c, &err);
    if (!f)
        return cli_usage(command,
                         "the model says nothing about a chat format; give --chat-format (%s) or "
                         "--chat-template",
                         chat_format_names());
    return load_format(c, f);
}

/* ---- the template's variables ---------------------------------------------------------------- */

static int add_fact(struct chat *c, struct jinja_fact fact)
{
    return arr_push(c->facts, fact) ? EXIT_OK : no_memory();
}

/* What the model wants in front of a text, as text; kept in chat->names. */
static int front_text(struct chat *c, struct jinja_fact *bos)
{
    const struct engine *e = c->engine;
    int32_t ids[ENGINE_FRONT];
    size_t n_ids = engine_front(e, e->info.bos, ids), n = 0, length;
    for (size_t i = 0; i < n_ids; i++) {
        mgpt_token_text(e->model, ids[i], &length);
        n += length;
    }
    char *text = malloc(n + 1);
    if (!text || !arr_push(c->names, text)) {
        free(text);
        return no_memory();
    }
    for (size_t i = 0; i < n_ids; i++) {
        const char *token = mgpt_token_text(e->model, ids[i], &length);
        memcpy(text + bos->n, token, length);
        bos->n += length;
    }
    bos->text = text;
    return EXIT_OK;
}

/* A named format has BOS where the model wants it; a model's template says itself where. */
static int add_tokens_as_facts(struct chat *c)
{
    const mgpt_info *info = &c->engine->info;
    struct jinja_fact bos = {.name = "bos_token"}, eos = {.name = "eos_token"};
    int code = EXIT_OK;
    eos.text = mgpt_token_text(c->engine->model, info->eos, &eos.n);
    if (!c->name)
        bos.text = mgpt_token_text(c->engine->model, info->bos, &bos.n);
    else if (info->add_bos)
        code = front_text(c, &bos);
    if (code == EXIT_OK && bos.text && info->bos >= 0)
        code = add_fact(c, bos);
    return code == EXIT_OK && info->eos >= 0 ? add_fact(c, eos) : code;
}

static struct jinja_fact typed_fact(const char *name, const char *value)
{
    static const struct {
        const char *word;
        enum jinja_fact_type type;
    } words[] = {{"true", JINJA_TRUE}, {"false", JINJA_FALSE}, {"none", JINJA_NONE}};
    struct jinja_fact f = {.name = name, .text = value, .n = strlen(value)};
    char *end;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(value, words[i].word) == 0)
            f.type = words[i].type;
    if (f.n > 0 && f.n < 10 && strspn(value, "0123456789") == f.n) {
        f.type = JINJA_NUMBER;
        f.number = strtol(value, &end, 10);
    }
    return f;
}

/* Adds a variable of the template from NAME=VALUE; chat->names keeps the name. */
static int add_variable(struct chat *c, const struct cli_command *command, const char *spec)
{
    static const char *const own[] = {"messages", "tools", "documents", "add_generation_prompt"};
    size_t n = strcspn(spec, "=");
    if (n == 0 || spec[n] != '=')
        return cli_usage(command, "--chat-var: expected NAME=VALUE, found '%s'", spec);
    char *name = malloc(n + 1);
    if (!name || !arr_push(c->names, name)) {
        free(name);
        return no_memory();
    }
    memcpy(name, spec, n);
    name[n] = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0)
            return cli_usage(command, "--chat-var: %s is set by the conversation", name);
    if (!jinja_reads(c->template, name))
        return cli_usage(command, "--chat-var: the chat template has no variable %s", name);
    return add_fact(c, typed_fact(name, spec + n + 1));
}

const char *const chat_think_names[] = {"enable_thinking", "thinking"};
_Static_assert(sizeof chat_think_names / sizeof *chat_think_names == CHAT_THINK_NAMES,
               "a row each");

static int add_think(struct chat *c, const struct cli_command *command, const char *think)
{
    int on = strcmp(think, "on") == 0, code = EXIT_OK, n = 0;
    if (!on && strcmp(think, "off") != 0)
        return cli_usage(command, "--think: expected on or off, found '%s'", think);
    for (size_t i = 0; i < CHAT_THINK_NAMES && code == EXIT_OK; i++)
        if (jinja_reads(c->template, chat_think_names[i])) {
            n++;
            code = add_fact(c, (struct jinja_fact){.name = chat_think_names[i],
                                                   .type = on ? JINJA_TRUE : JINJA_FALSE});
        }
    if (code == EXIT_OK && n == 0)
        return cli_usage(command,
                         "--think: the chat template has no switch for it (it reads neither "
                         "enable_thinking nor thinking)");
    return code;
}

/* ---- writing --------------------------------------------------------------------------------- */

int chat_add_message(struct chat *c, const char *role, const char *text, size_t n)
{
    struct chat_message m = {role, malloc(n + 1), n};
    if (!m.text || !arr_push(c->messages, m)) {
        free(m.text);
        return no_memory();
    }
    if (n > 0)
        memcpy(m.text, text, n);
    return EXIT_OK;
}

int chat_render(const struct chat *c, const struct jinja_message *messages, size_t n, int prompt,
                struct jinja_output *out, mgpt_error *err)
{
    const struct jinja_input input = {messages, n, c->facts, arr_len(c->facts), prompt};
    return jinja_render(c->template, &input, out, err);
}

/* Renders the template for the conversation so far. Returns an exit code. */
static int render_all(const struct chat *c, struct jinja_output *out)
{
    size_t n = arr_len(c->messages);
    struct jinja_message *list = malloc((n + 1) * sizeof *list);
    mgpt_error err;
    if (!list)
        return no_memory();
    for (size_t i = 0; i < n; i++)
        list[i] =
            (struct jinja_message){c->messages[i].role, c->messages[i].text, c->messages[i].n};
    int status = chat_render(c, list, n, 1, out, &err);
    free(list);
    return status < 0 ? chat_refuse(c, &err) : EXIT_OK;
}

/* The byte after the first CHAT_ANSWER that is of a message; 0: there is none. */
size_t chat_after_answer(const struct jinja_output *out)
{
    const size_t n = sizeof CHAT_ANSWER - 1, all = arr_len(out->text);
    for (size_t i = 0; i + n <= all; i++)
        if (out->typed[i] && memcmp(out->text + i, CHAT_ANSWER, n) == 0)
            return i + n;
    return 0;
}

/* ---- turns ----------------------------------------------------------------------------------- */

int chat_user(struct chat *c, const char *text, size_t n)
{
    int code = chat_add_message(c, "user", text, n);
    return code == EXIT_OK ? chat_write(c) : code;
}

int chat_write(struct chat *c)
{
    struct jinja_output out;
    int code = render_all(c, &out);
    if (code != EXIT_OK)
        return code;
    size_t from = c->n_kept ? chat_after_answer(&out) : 0;
    if (c->tokens)
        arr_set_len(c->tokens, c->n_kept);
    code = chat_encode(c, &out, from);
    jinja_output_free(&out);
    return code;
}

int chat_answer(struct chat *c, int32_t token)
{
    text_out_token(&c->answer, token, 0);
    return arr_push(c->tokens, token) ? EXIT_OK : no_memory();
}

int chat_answered(struct chat *c)
{
    text_out_end(&c->answer);
    if (c->answer.failed.status < 0)
        return cli_fail(NULL, &c->answer.failed);
    int code = chat_add_message(c, "assistant", c->answer.buffer, arr_len(c->answer.buffer));
    text_out_clear(&c->answer);
    return code;
}

int chat_resume(struct chat *c)
{
    const mgpt_session *session = c->engine->session;
    struct jinja_output out;
    int code = chat_add_message(c, "user", CHAT_QUESTION, sizeof CHAT_QUESTION - 1);
    if (code == EXIT_OK)
        code = chat_add_message(c, "assistant", CHAT_ANSWER, sizeof CHAT_ANSWER - 1);
    if (code == EXIT_OK)
        code = render_all(c, &out);
    if (code != EXIT_OK)
        return code;
    if (!chat_after_answer(&out)) {
        cli_note("the chat template does not write an answer as it is: a stored conversation "
                 "cannot go on");
        code = EXIT_USAGE;
    }
    jinja_output_free(&out);
    c->n_kept = mgpt_pos(session);
    for (size_t i = 0; i < c->n_kept && code == EXIT_OK; i++)
        if (!arr_push(c->tokens, mgpt_tokens(session)[i]))
            code = no_memory();
    return code;
}

int chat_is_end(const struct chat *c, int32_t token)
{
    return token == c->end || mgpt_is_end(c->engine->model, token);
}

int chat_open(struct chat *c, const struct engine *engine, const struct cli_command *command,
              const struct chat_style *style)
{
    *c = (struct chat){.engine = engine, .end = -1};
    text_out_open(&c->answer, engine->model, NULL);
    int code = choose_template(c, command, style);
    if (code == EXIT_OK)
        code = add_tokens_as_facts(c);
    for (size_t i = 0; i < style->vars.n && code == EXIT_OK; i++)
        code = add_variable(c, command, style->vars.values[i]);
    if (code == EXIT_OK && style->think)
        code = add_think(c, command, style->think);
    if (code == EXIT_OK)
        code = chat_try_turn(c, style);
    if (code == EXIT_OK && style->think)
        code = chat_try_think(c, command);
    if (code == EXIT_OK)
        code = chat_find_end(c);
    if (code == EXIT_OK)
        code = chat_find_controls(c);
    if (code == EXIT_OK && style->system)
        code = chat_add_message(c, "system", style->system, strlen(style->system));
    return code;
}

void chat_close(struct chat *c)
{
    for (size_t i = 0; i < arr_len(c->messages); i++)
        free(c->messages[i].text);
    for (size_t i = 0; i < arr_len(c->names); i++)
        free(c->names[i]);
    arr_free(c->messages);
    arr_free(c->names);
    arr_free(c->facts);
    arr_free(c->controls);
    arr_free(c->tokens);
    text_out_close(&c->answer);
    jinja_free(c->template);
}
