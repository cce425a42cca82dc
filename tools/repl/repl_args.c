/* Messages of the repl's commands, and reading their arguments: words, numbers, heads, tokens. Whatever is
 * out of range is refused with the range. */
#include "base/error.h"
#include "common/text.h"
#include "repl/repl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void repl_error(const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fflush(stdout);
    cli_note("%s", line);
}

void repl_say(const char *fmt, ...)
{
    char line[1024], clean[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    text_format(clean, sizeof clean, "%s", line);
    puts(clean);
}

void repl_file_failed(const char *file, const mgpt_error *err)
{
    fflush(stdout);
    if (err->status == MGPT_ESTOP)
        cli_note("stopped");
    else
        cli_fail(file, err);
}

void repl_failed(const mgpt_error *err)
{
    repl_file_failed(NULL, err);
}

void repl_no_memory(void)
{
    repl_error("out of memory");
}

void repl_bad_escape(void)
{
    repl_error("a backslash begins one of \\n \\t \\r \\\\ \\\" \\xFF \\u{1F600}");
}

char *repl_word(char **at)
{
    char *word = *at + strspn(*at, " \t");
    char *end = word + strcspn(word, " \t");
    *at = end + strspn(end, " \t");
    *end = 0;
    return word;
}

/* The whole of args as a number in [min, max]; absent: `otherwise`. */
int repl_count(const char *args, int32_t min, int32_t otherwise, int32_t *n)
{
    const struct cli_option row = {.kind = CLI_INT, .to = n, .min = min, .max = INT32_MAX};
    *n = otherwise;
    if (!*args || cli_set_number(&row, args))
        return 1;
    repl_error("expected a whole number from %d on, found '%s'", (int)min, args);
    return 0;
}

int repl_read_index(const char *what, const char *word, size_t n, int32_t *index)
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

int repl_read_part(const struct repl *r, char *word, int32_t *layer, int32_t *head)
{
    const mgpt_info *info = &r->engine.info;
    char *point = strchr(word, '.');
    if (!point) {
        repl_error("expected a head L.H or mlp.L, found '%s'", word);
        return 0;
    }
    *point++ = 0;
    *head = -1;
    if (strcmp(word, "mlp") == 0)
        return repl_read_index("layer", point, (size_t)info->n_layer, layer);
    return repl_read_index("layer", word, (size_t)info->n_layer, layer) &&
           repl_read_index("head", point, (size_t)info->n_head, head);
}

/* The first token that stands for exactly these bytes, -1 when there is none. */
static int32_t token_of(const struct repl *r, const char *bytes, size_t n)
{
    for (int32_t i = 0; i < r->engine.info.n_tokens && n > 0; i++) {
        size_t length;
        const char *piece = mgpt_piece(r->engine.model, i, &length);
        if (length == n && memcmp(piece, bytes, n) == 0)
            return i;
    }
    return -1;
}

/* What the tokenizer makes of a text must be one token. */
static int encode_one(const struct repl *r, const char *text, size_t n, int32_t *token)
{
    size_t n_tokens;
    int32_t *tokens;
    int code = engine_encode(&r->engine, "text", text, n,
                             MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL, -1, &tokens, &n_tokens);
    int one = code == EXIT_OK && n_tokens == 1;
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
        return repl_read_index("token", args, repl_n_logits(r), token);
    if (n < 2 || args[0] != '"' || args[n - 1] != '"')
        return encode_one(r, args, n, token);
    int64_t length = text_unescape(args + 1, n - 2);
    if (length < 0) {
        repl_bad_escape();
        return 0;
    }
    *token = token_of(r, args + 1, (size_t)length);
    return *token >= 0 || encode_one(r, args + 1, (size_t)length, token);
}
