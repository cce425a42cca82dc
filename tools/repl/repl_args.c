/* Reading the arguments of the repl's commands by type. What is out of range is refused with the
 * range. */
#include "repl/repl_args.h"

#include "base/mem.h"
#include "common/text.h"
#include "engine/layers.h"
#include "repl/repl.h"

#include <stdlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------- */

/* The end of the text in quotes at `at`, or `at` when the second quote is missing. */
static char *end_of_quoted(char *at)
{
    char *end = at + 1;
    while (*end && *end != '"')
        end += end[0] == '\\' && end[1] ? 2 : 1;
    return *end ? end + 1 : at;
}

char *repl_cut(char **at, const char *separators)
{
    char *word = *at + strspn(*at, separators);
    char *end = *word == '"' ? end_of_quoted(word) : word;
    end += strcspn(end, separators);
    *at = end + strspn(end, separators);
    *end = 0;
    return word;
}

char *repl_word(struct repl_args *a)
{
    return repl_cut(&a->rest, " \t");
}

/* Takes all that is left. */
static char *rest_of_line(struct repl_args *a)
{
    char *rest = a->rest;
    a->rest += strlen(rest);
    return rest;
}

/* Takes the next word if it is this one, of n bytes. */
static int take_word(struct repl_args *a, const char *word, size_t n)
{
    if (strcspn(a->rest, " \t") != n || memcmp(a->rest, word, n) != 0)
        return 0;
    repl_word(a);
    return 1;
}

/* "=a|b" without the sign, n bytes: which of the words comes next, from 1; 0: none. */
static int take_one_of(struct repl_args *a, const char *words, size_t n)
{
    int number = 1;
    for (size_t at = 0, length; at < n; at += length + 1, number++) {
        length = strcspn(words + at, "| ");
        if (take_word(a, words + at, length))
            return number;
    }
    return 0;
}

int repl_args_end(struct repl_args *a)
{
    const char *word = repl_word(a);
    if (*word)
        repl_error("unexpected '%.40s': %s%s%s", word, a->command->names[0],
                   *a->command->usage ? " " : " takes nothing", a->command->usage);
    return !*word;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* How the arguments of a type are read: into the field at `to`; `bound` is the offset of their
 * number in mgpt_info, `what` names them in messages. */
struct arg_type {
    const char *name, *what;
    int (*read)(struct repl_args *args, const struct arg_type *type);
    size_t to, bound;
};

static void *field_of(struct repl_args *a, const struct arg_type *type)
{
    return (char *)a + type->to;
}

/* A word as one of 0 .. n - 1. */
static int read_index(const char *what, const char *word, size_t n, int32_t *index)
{
    const struct cli_option row = {.kind = CLI_INT, .to = index, .min = 0, .max = INT32_MAX};
    if (!*word)
        repl_error("which %s?", what);
    else if (n == 0)
        repl_error("%s %s: there is none", what, word);
    else if (!cli_set_number(&row, word) || (size_t)*index >= n)
        repl_error("%s %s: expected 0 to %zu", what, word, n - 1);
    else
        return 1;
    return 0;
}

int repl_next_index(struct repl_args *a, const char *what, size_t n, int32_t *index)
{
    const char *word = repl_word(a);
    if (*word)
        return read_index(what, word, n, index);
    repl_error("which %s? %s %s", what, a->command->names[0], a->command->usage);
    return 0;
}

static int read_part_of_model(struct repl_args *a, const struct arg_type *type)
{
    const int32_t *n = (const void *)((const char *)&a->repl->engine.info + type->bound);
    return repl_next_index(a, type->what, (size_t)*n, field_of(a, type));
}

/* A head of the layer before it. */
static int read_layers_head(struct repl_args *a, const struct arg_type *type)
{
    size_t n = (size_t)engine_heads(a->repl->engine.model, a->layer);
    return repl_next_index(a, type->what, n, field_of(a, type));
}

static int read_count(struct repl_args *a, const struct arg_type *type)
{
    const char *text = rest_of_line(a);
    const struct cli_option row = {
        .kind = CLI_INT, .to = field_of(a, type), .min = 1, .max = INT32_MAX};
    if (!*text || cli_set_number(&row, text))
        return 1;
    repl_error("expected a whole number from 1 on, found '%s'", text);
    return 0;
}

static int read_factor(struct repl_args *a, const struct arg_type *type)
{
    const char *text = rest_of_line(a);
    const struct cli_option row = {
        .kind = CLI_REAL, .to = field_of(a, type), .min = -1e30, .max = 1e30};
    int found = cli_set_number(&row, text);
    if (!found)
        repl_error("by which %s? Expected a number, found '%s'", type->what, text);
    return found;
}

/* "L.H", a head, or "mlp.L", an MLP. */
static int read_part(struct repl_args *a, const struct arg_type *type)
{
    const mgpt_info *info = &a->repl->engine.info;
    char *word = repl_word(a), *point = strchr(word, '.');
    (void)type;
    if (!point) {
        repl_error("expected a head L.H or mlp.L, found '%s'", word);
        return 0;
    }
    *point++ = 0;
    a->head = -1;
    if (strcmp(word, "mlp") == 0)
        return read_index("layer", point, (size_t)info->n_layer, &a->layer);
    return read_index("layer", word, (size_t)info->n_layer, &a->layer) &&
           read_index("head", point, (size_t)engine_heads(a->repl->engine.model, a->layer),
                      &a->head);
}

static int read_word(struct repl_args *a, const struct arg_type *type)
{
    *(const char **)field_of(a, type) = repl_word(a);
    return 1;
}

/* There must be a token to look at. */
static int has_tokens(const struct repl_args *a)
{
    int any = mgpt_pos(a->repl->engine.session) > 0;
    if (!any)
        repl_error("nothing to look at yet: type a text first");
    return any;
}

static int read_something(struct repl_args *a, const struct arg_type *type)
{
    (void)type;
    return repl_args_end(a) && has_tokens(a);
}

/* A position of a token held; -1 is the last one, and so is not a word when the type has brackets. */
static int read_position(struct repl_args *a, const struct arg_type *type)
{
    size_t n = mgpt_pos(a->repl->engine.session), *pos = field_of(a, type);
    int32_t index = (int32_t)n - 1;
    int last = (*type->name == '[' && !*a->rest) || take_word(a, "-1", 2);
    if (!has_tokens(a) || (!last && !repl_next_index(a, type->what, n, &index)))
        return 0;
    *pos = (size_t)index;
    return 1;
}

/* A token to change; no -1. */
static int read_held(struct repl_args *a, const struct arg_type *type)
{
    int32_t index = 0;
    int found = read_index(type->what, repl_word(a), mgpt_pos(a->repl->engine.session), &index);
    a->pos = (size_t)index;
    return found;
}

/* A position to go to, also beyond the tokens held when there are others ahead. */
static int read_place(struct repl_args *a, const struct arg_type *type)
{
    const struct repl *r = a->repl;
    size_t n = mgpt_pos(r->engine.session) + arr_len(r->branches[r->current].ahead) + 1;
    int32_t index = 0;
    int found = read_index(type->what, rest_of_line(a), n, &index);
    a->pos = (size_t)index;
    return found;
}

/* What the tokenizer makes of a text must be one token. */
static int encode_one(const struct repl *r, const char *text, size_t n, int32_t *token)
{
    size_t n_tokens;
    int32_t *tokens;
    int code = engine_encode(&r->engine, "text", text, n,
                             MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL, -1, &tokens, &n_tokens);
    int one = code == EXIT_OK && n_tokens == 1;
    repl_note_code(code);
    if (one)
        *token = tokens[0];
    else if (code == EXIT_OK)
        repl_error("this is %zu tokens, expected one: /tokens and /top show ids", n_tokens);
    free(tokens);
    return one;
}

int repl_read_token(const struct repl *r, char *args, size_t n, int32_t *token)
{
    if (n == 0) {
        repl_error("which token? An id, or its text: 13, n, \"13\"");
        return 0;
    }
    if (strspn(args, "0123456789") == n)
        return read_index("token", args, repl_n_logits(r), token);
    if (n < 2 || args[0] != '"' || args[n - 1] != '"')
        return encode_one(r, args, n, token);
    int64_t length = text_unescape(args + 1, n - 2);
    if (length < 0) {
        repl_bad_escape();
        return 0;
    }
    *token = engine_token_of(&r->engine, args + 1, (size_t)length);
    return *token >= 0 || encode_one(r, args + 1, (size_t)length, token);
}

/* The rest of the line as one token. */
static int read_last_token(struct repl_args *a, const struct arg_type *type)
{
    size_t n = (size_t)(a->end - a->rest);
    return repl_read_token(a->repl, rest_of_line(a), n, field_of(a, type));
}

static int read_optional_token(struct repl_args *a, const struct arg_type *type)
{
    char *word = repl_word(a);
    int32_t *token = field_of(a, type);
    *token = -1;
    return !*word || repl_read_token(a->repl, word, strlen(word), token);
}

static int read_branch(struct repl_args *a, const struct arg_type *type)
{
    return repl_choose_branch(a->repl, rest_of_line(a), field_of(a, type));
}

/* Without a branch *branch is SIZE_MAX, which means the second model; it is an error if there is none. */
static int read_optional_branch(struct repl_args *a, const struct arg_type *type)
{
    size_t *branch = field_of(a, type);
    *branch = SIZE_MAX;
    return (!*a->rest && a->repl->with) || read_branch(a, type);
}

/* Reads a branch that other arguments follow. */
static int read_timeline(struct repl_args *a, const struct arg_type *type)
{
    return repl_choose_branch(a->repl, repl_word(a), field_of(a, type));
}

/* "-o FILE" ends a line: a file name may hold spaces. */
static int read_path(struct repl_args *a, const struct arg_type *type)
{
    char *at = a->rest;
    (void)type;
    while ((at = strstr(at, "-o")) != NULL) {
        int begins = at == a->rest || at[-1] == ' ' || at[-1] == '\t';
        if (begins && (at[2] == ' ' || at[2] == '\t' || at[2] == 0))
            break;
        at += 2;
    }
    if (!at)
        return 1;
    char *end = at;
    at += 2;
    at += strspn(at, " \t");
    a->path = at;
    while (end > a->rest && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = 0;
    if (!*at)
        repl_error("%s: -o, but no file name after it", a->command->names[0]);
    return *at != 0;
}

#define TO(field) offsetof(struct repl_args, field)
#define OF(field) offsetof(mgpt_info, field)
static const struct arg_type types[] = {
    {"-o", "file", read_path, TO(path), 0},
    {"[count]", "count", read_count, TO(count), 0},
    {"factor", "factor", read_factor, TO(factor), 0},
    {"layer", "layer", read_part_of_model, TO(layer), OF(n_layer)},
    {"head", "head", read_layers_head, TO(head), 0},
    {"kv_head", "KV head", read_part_of_model, TO(head), OF(n_head_kv)},
    {"part", "part", read_part, 0, 0},
    {"tensor", "tensor", read_word, TO(name), 0},
    {"query", "query", read_position, TO(pos), 0},
    {"key", "key", read_position, TO(key), 0},
    {"[position]", "position", read_position, TO(pos), 0},
    {"held", "position", read_held, 0, 0},
    {"place", "position", read_place, 0, 0},
    {"something", "token", read_something, 0, 0},
    {"token", "token", read_last_token, TO(token), 0},
    {"[token]", "token", read_optional_token, TO(token), 0},
    {"[other]", "token", read_optional_token, TO(other), 0},
    {"branch", "timeline", read_branch, TO(branch), 0},
    {"[branch]", "timeline", read_optional_branch, TO(branch), 0},
    {"timeline", "timeline", read_timeline, TO(branch), 0},
    {"points", "points", read_word, TO(name), 0},
};

static const struct arg_type *arg_type_of(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == n && memcmp(types[i].name, name, n) == 0)
            return &types[i];
    return NULL;
}

int repl_read_part(struct repl_args *a)
{
    return read_part(a, NULL);
}

int repl_args_read(struct repl_args *a)
{
    const char *at = a->command->types;
    int n_words = 0;
    for (size_t n; *at; at += n + strspn(at + n, " ")) {
        n = strcspn(at, " ");
        const struct arg_type *type = arg_type_of(at, n);
        if (*at == '=')
            a->words[n_words++] = take_one_of(a, at + 1, n - 1);
        else if (!type)
            return 1; /* the command reads the rest */
        else if (!type->read(a, type))
            return 0;
    }
    return repl_args_end(a);
}
