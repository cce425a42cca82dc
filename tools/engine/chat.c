/* Chat formats as data, and their tokens. See chat.h.
 *
 * A format's texts are templates of three marks: the text between TOKEN and END is one control
 * token, TEXT is the user's (or the system's) text. Everything else is plain text, and it is
 * encoded together with the user's text next to it, as the models saw it in training.
 */
#include "engine/chat.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define TOKEN "\1"
#define END "\2"
#define TEXT "\3"

struct chat_format {
    const char *name;
    const char *marks[2]; /* a template that has all of these writes this format */
    const char *system;   /* the system's turn; NULL: there is none */
    const char *in_user;  /* ... but it goes before the user's first text */
    const char *user;     /* the user's turn and the beginning of the answer */
    const char *answered; /* after an answer; begins with the token that ends it */
    int trims;            /* white space around texts is dropped */
    int by_tokens;        /* without a template, the control tokens tell */
};

static const struct chat_format formats[] = {
    {"chatml",
     {"<|im_start|>"},
     TOKEN "<|im_start|>" END "system\n" TEXT TOKEN "<|im_end|>" END "\n",
     NULL,
     TOKEN "<|im_start|>" END "user\n" TEXT TOKEN "<|im_end|>" END "\n" TOKEN "<|im_start|>" END
           "assistant\n",
     TOKEN "<|im_end|>" END "\n",
     0,
     1},
    {"llama3",
     {"<|start_header_id|>"},
     TOKEN "<|start_header_id|>" END "system" TOKEN "<|end_header_id|>" END "\n\n" TEXT TOKEN
           "<|eot_id|>" END,
     NULL,
     TOKEN "<|start_header_id|>" END "user" TOKEN "<|end_header_id|>" END "\n\n" TEXT TOKEN
           "<|eot_id|>" END TOKEN "<|start_header_id|>" END "assistant" TOKEN
           "<|end_header_id|>" END "\n\n",
     TOKEN "<|eot_id|>" END,
     1,
     1},
    {"gemma",
     {"<start_of_turn>"},
     NULL,
     TEXT "\n\n",
     TOKEN "<start_of_turn>" END "user\n" TEXT TOKEN "<end_of_turn>" END "\n" TOKEN
           "<start_of_turn>" END "model\n",
     TOKEN "<end_of_turn>" END "\n",
     1,
     1},
    /* Phi-3's tokens include the line ends after them */
    {"phi-3",
     {"<|user|>", "<|end|>"},
     TOKEN "<|system|>" END TEXT TOKEN "<|end|>" END,
     NULL,
     TOKEN "<|user|>" END TEXT TOKEN "<|end|>" END TOKEN "<|assistant|>" END,
     TOKEN "<|end|>" END,
     1,
     1},
    {"zephyr",
     {"<|user|>"},
     "<|system|>\n" TEXT TOKEN "</s>" END "\n",
     NULL,
     "<|user|>\n" TEXT TOKEN "</s>" END "\n<|assistant|>\n",
     TOKEN "</s>" END "\n",
     0,
     0},
    {"llama2",
     {"[INST]", "<<SYS>>"},
     NULL,
     "<<SYS>>\n" TEXT "\n<</SYS>>\n\n",
     "[INST] " TEXT " [/INST]",
     TOKEN "</s>" END TOKEN "<s>" END,
     1,
     0},
    {"nanochat",
     {"<|user_start|>"},
     NULL,
     TEXT "\n\n",
     TOKEN "<|user_start|>" END TEXT TOKEN "<|user_end|>" END TOKEN "<|assistant_start|>" END,
     TOKEN "<|assistant_end|>" END,
     0,
     1},
};

enum { N_FORMATS = sizeof formats / sizeof *formats };

const char *chat_format_names(void)
{
    return "chatml, llama3, gemma, phi-3, zephyr, llama2, nanochat";
}

const char *chat_format_name(const struct chat *chat)
{
    return chat->format->name;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static int no_memory(void)
{
    cli_note("out of memory: the conversation");
    return EXIT_FULL;
}

/* The id of one control token, -1 when the text is something else in this vocabulary. */
static int32_t control_token(const mgpt_model *model, const char *text, size_t n)
{
    int32_t id = -1;
    size_t n_text;
    const unsigned flags = MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL;
    if (mgpt_encode(model, text, n, flags, &id, 1, NULL) != 1)
        return -1;
    const char *own = mgpt_token_text(model, id, &n_text);
    return n_text == n && memcmp(own, text, n) == 0 ? id : -1;
}

static int add_plain(struct chat *c, const char *p, size_t n)
{
    if (!arr_reserve(c->plain, arr_len(c->plain) + n))
        return no_memory();
    if (n)
        memcpy(stbds_arraddnptr(c->plain, n), p, n);
    return EXIT_OK;
}

int chat_answer(struct chat *c, int32_t token)
{
    return arr_push(c->tokens, token) ? EXIT_OK : no_memory();
}

/* Plain text becomes tokens once it is known what follows it. */
static int flush(struct chat *c)
{
    int32_t *tokens;
    size_t n, n_plain = arr_len(c->plain);
    if (n_plain == 0)
        return EXIT_OK;
    int code = engine_encode(c->engine, "the user's text", c->plain, n_plain,
                             MGPT_NO_SPECIAL_TOKENS, -1, &tokens, &n);
    arr_set_len(c->plain, 0);
    for (size_t i = 0; i < n && code == EXIT_OK; i++)
        code = chat_answer(c, tokens[i]);
    free(tokens);
    return code;
}

static int add_token(struct chat *c, const char *p, size_t n)
{
    int32_t id = control_token(c->engine->model, p, n);
    if (id < 0) {
        cli_note("chat format %s: the vocabulary has no token %.*s", c->format->name, (int)n, p);
        return EXIT_USAGE;
    }
    int code = flush(c);
    return code == EXIT_OK ? chat_answer(c, id) : code;
}

/* Appends a template with this text in it. */
static int chat_add(struct chat *c, const char *template, const char *text, size_t n)
{
    int code = EXIT_OK;
    for (const char *p = template; *p && code == EXIT_OK;) {
        size_t run = strcspn(p, TOKEN TEXT);
        code = add_plain(c, p, run);
        p += run;
        if (code == EXIT_OK && *p == *TEXT) {
            code = add_plain(c, text, n);
            p++;
        } else if (code == EXIT_OK && *p == *TOKEN) {
            size_t name = strcspn(p + 1, END);
            code = add_token(c, p + 1, name);
            p += name + 2;
        }
    }
    return code;
}

/* ---- which format ---------------------------------------------------------------------------- */

static int has_marks(const struct chat_format *f, const char *template)
{
    return strstr(template, f->marks[0]) && (!f->marks[1] || strstr(template, f->marks[1]));
}

/* Are the control tokens of a user's turn in the vocabulary? */
static int has_tokens(const struct chat_format *f, const mgpt_model *model)
{
    for (const char *p = f->user; (p = strpbrk(p, TOKEN)); p++)
        if (control_token(model, p + 1, strcspn(p + 1, END)) < 0)
            return 0;
    return f->by_tokens;
}

static const struct chat_format *named(const char *name)
{
    for (size_t i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

static const struct chat_format *recognise(const struct engine *e)
{
    const char *template = e->info.chat_template;
    for (size_t i = 0; i < N_FORMATS && *template; i++)
        if (has_marks(&formats[i], template))
            return &formats[i];
    for (size_t i = 0; i < N_FORMATS && !*template; i++)
        if (has_tokens(&formats[i], e->model))
            return &formats[i];
    return NULL;
}

static int chat_choose(struct chat *c, const struct cli_command *command, const char *name)
{
    c->format = name ? named(name) : recognise(c->engine);
    if (c->format)
        return EXIT_OK;
    if (name)
        return cli_usage(command, "--chat-format: expected one of %s, found '%s'",
                         chat_format_names(), name);
    return cli_usage(command, "%s; give --chat-format (%s)",
                     *c->engine->info.chat_template
                         ? "the model's chat template is none of those that mgpt knows"
                         : "the model says nothing about a chat format",
                     chat_format_names());
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void trim(const char **p, size_t *n)
{
    while (*n > 0 && strchr(" \t\r\n\v\f", **p) && **p) {
        ++*p;
        --*n;
    }
    while (*n > 0 && strchr(" \t\r\n\v\f", (*p)[*n - 1]) && (*p)[*n - 1])
        --*n;
}

/* The system's text where it has no turn: in front of the user's. */
static int put_in_front(struct chat *c, char **body)
{
    const char *template = c->format->in_user, *at = strchr(template, *TEXT);
    const struct {
        const char *p;
        size_t n;
    } parts[] = {{template, (size_t)(at - template)},
                 {c->system, strlen(c->system)},
                 {at + 1, strlen(at + 1)}};
    for (size_t i = 0; i < 3; i++) {
        if (!arr_reserve(*body, arr_len(*body) + parts[i].n))
            return no_memory();
        if (parts[i].n)
            memcpy(stbds_arraddnptr(*body, parts[i].n), parts[i].p, parts[i].n);
    }
    c->system = NULL;
    return EXIT_OK;
}

int chat_user(struct chat *c, const char *text, size_t n)
{
    char *body = NULL;
    if (c->format->trims)
        trim(&text, &n);
    int code = c->system ? put_in_front(c, &body) : EXIT_OK;
    if (code == EXIT_OK && !arr_reserve(body, arr_len(body) + n + 1))
        code = no_memory();
    if (code == EXIT_OK && n)
        memcpy(stbds_arraddnptr(body, n), text, n);
    if (code == EXIT_OK)
        code = chat_add(c, c->format->user, body, arr_len(body));
    if (code == EXIT_OK)
        code = flush(c);
    arr_free(body);
    return code;
}

int chat_answered(struct chat *c)
{
    return chat_add(c, c->format->answered, "", 0);
}

int chat_resume(struct chat *c)
{
    const mgpt_session *session = c->engine->session;
    int code = EXIT_OK;
    if (c->tokens)
        arr_set_len(c->tokens, 0);
    for (size_t i = 0; i < mgpt_pos(session) && code == EXIT_OK; i++)
        code = chat_answer(c, mgpt_tokens(session)[i]);
    return code == EXIT_OK ? chat_answered(c) : code;
}

int chat_is_end(const struct chat *c, int32_t token)
{
    return token == c->end || mgpt_is_end(c->engine->model, token);
}

int chat_open(struct chat *c, const struct engine *engine, const struct cli_command *command,
              const char *name, const char *system)
{
    *c = (struct chat){.engine = engine, .end = -1};
    int code = chat_choose(c, command, name);
    if (code != EXIT_OK)
        return code;
    const char *end = c->format->answered;
    c->end = control_token(engine->model, end + 1, strcspn(end + 1, END));
    int32_t front[ENGINE_FRONT];
    size_t n_front = engine->info.add_bos ? engine_front(engine, engine->info.bos, front) : 0;
    for (size_t i = 0; i < n_front && code == EXIT_OK; i++)
        code = chat_answer(c, front[i]);
    if (!c->format->system)
        c->system = system;
    else if (code == EXIT_OK && system) {
        size_t n = strlen(system);
        if (c->format->trims)
            trim(&system, &n);
        code = chat_add(c, c->format->system, system, n);
    }
    return code;
}

void chat_close(struct chat *c)
{
    arr_free(c->tokens);
    arr_free(c->plain);
}
