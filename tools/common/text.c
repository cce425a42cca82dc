/* Prompts, escaping, token streams. See text.h. */
#include "common/text.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "common/screen.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_AT_FIRST = 64, TEXT_TOGETHER = 4096 }; /* bytes of a stream's buffer */

/* ---- in -------------------------------------------------------------------------------------- */

int text_prompt(const struct cli_command *command, const char *text, const char *file, char **bytes,
                size_t *n_bytes)
{
    return text_prompt_limited(command, text, file, (struct cli_limits){.all = 0}, bytes, n_bytes);
}

int text_prompt_limited(const struct cli_command *command, const char *text, const char *file,
                        struct cli_limits limits, char **bytes, size_t *n_bytes)
{
    mgpt_error err;
    if (text && file)
        return cli_usage(command, "-p and -f exclude each other");
    if (file) {
        *bytes = cli_read_limited(file, limits, n_bytes, &err);
        return *bytes ? EXIT_OK : cli_fail(strcmp(file, "-") == 0 ? "stdin" : file, &err);
    }
    *n_bytes = text ? strlen(text) : 0;
    *bytes = malloc(*n_bytes + 1);
    if (!*bytes) {
        err_memory(&err, "the prompt", *n_bytes);
        return cli_fail(NULL, &err);
    }
    memcpy(*bytes, text ? text : "", *n_bytes + 1);
    return EXIT_OK;
}

size_t text_cut_line(const char **at, const char *end, const char **line)
{
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    size_t n = (size_t)((stop ? stop : end) - *at);
    *line = *at;
    *at = stop ? stop + 1 : end;
    return n > 0 && (*line)[n - 1] == '\r' ? n - 1 : n;
}

int text_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

int text_next_id(const char **at, int32_t *id)
{
    char *end;
    while (isspace((unsigned char)**at) || **at == ',')
        (*at)++;
    if (!**at)
        return 0;
    errno = 0;
    long long v = strtoll(*at, &end, 10);
    if (end == *at || errno || v < INT32_MIN || v > INT32_MAX ||
        !(isspace((unsigned char)*end) || *end == ',' || *end == 0))
        return -1;
    *id = (int32_t)v;
    *at = end;
    return 1;
}

/* ---- escaping -------------------------------------------------------------------------------- */

static void print_escape(FILE *to, const char *p, uint32_t code)
{
    static const char from[] = "\n\t\r\"\\", names[] = "ntr\"\\";
    const char *at = code < 128 && code ? strchr(from, (int)code) : NULL;
    if (at)
        fprintf(to, "\\%c", names[at - from]);
    else if (code == UTF8_BAD)
        fprintf(to, "\\x%02X", (unsigned char)*p);
    else
        fprintf(to, "\\u{%X}", (unsigned)code);
}

void text_print_quoted(FILE *to, const char *bytes, size_t n_bytes)
{
    fputc('"', to);
    for (size_t i = 0; i < n_bytes;) {
        uint32_t code;
        size_t n = utf8_next(bytes + i, n_bytes - i, &code);
        if (code == '"' || code == '\\' || utf8_dangerous(code) || utf8_invisible(code))
            print_escape(to, bytes + i, code);
        else
            fwrite(bytes + i, 1, n, to);
        i += n;
    }
    fputc('"', to);
}

void text_print_token(FILE *to, const mgpt_model *model, int32_t token)
{
    size_t n;
    const char *bytes = mgpt_piece(model, token, &n);
    if (n > 0) {
        text_print_quoted(to, bytes, n);
        return;
    }
    bytes = mgpt_token_text(model, token, &n);
    for (size_t i = 0; i < n; i++) /* a control token's name; only ASCII is printed */
        fputc(bytes[i] > 32 && bytes[i] < 127 ? bytes[i] : '?', to);
    if (n == 0)
        fputs("(none)", to);
}

int text_token_label(const mgpt_model *model, int32_t token, size_t columns, char *out, size_t cap)
{
    char *text = NULL;
    size_t n = 0;
    int done = 0;
    FILE *memory = open_memstream(&text, &n);
    if (memory) {
        text_print_token(memory, model, token);
        done = fclose(memory) == 0 && text; /* or the text is not whole */
    }
    if (done)
        screen_cut(text, columns);
    snprintf(out, cap, "%s", done ? text : "");
    free(text);
    return done;
}

/* Prints bytes to a terminal: line ends and tabs pass, dangerous and hidden characters are escaped. */
static void print_safely(FILE *to, const char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes;) {
        uint32_t code;
        size_t n = utf8_next(bytes + i, n_bytes - i, &code);
        if (code != '\n' && code != '\t' && (utf8_dangerous(code) || utf8_hidden(code)))
            print_escape(to, bytes + i, code);
        else
            fwrite(bytes + i, 1, n, to);
        i += n;
    }
}

int text_clip(const char *p, size_t n)
{
    if (n > TEXT_SHOW)
        n = TEXT_SHOW - utf8_incomplete(p, TEXT_SHOW);
    return (int)n;
}

/* ---- out ------------------------------------------------------------------------------------- */

int text_json_line(struct jtext *value)
{
    size_t n;
    const char *line = jtext_end(value, isatty(STDOUT_FILENO), &n); /* the whole line or nothing */
    int code = EXIT_FULL;
    if (line) {
        puts(line);
        code = EXIT_OK;
    } else {
        cli_note("out of memory: a line of JSON");
    }
    jtext_free(value);
    return code;
}

void text_out_open(struct text_out *out, const mgpt_model *model, FILE *to)
{
    *out = (struct text_out){.model = model, .to = to, .ids = text_is_none(model)};
    out->terminal = to && isatty(fileno(to));
}

static int make_room(struct text_out *out, size_t n)
{
    if (arr_reserve(out->buffer, arr_len(out->buffer) + n))
        return 1;
    if (out->failed.status == MGPT_OK)
        err_memory(&out->failed, "the text", n);
    return 0;
}

/* Writes the buffer: always to a terminal, else when it is large enough or `all` is set. Only with `all` what may
 * begin a stop text is written. */
static void write_buffer(struct text_out *out, int all)
{
    size_t length = arr_len(out->buffer), held = all ? 0 : text_out_held(out, length);
    size_t n = length - held;
    if (!out->to || n == 0)
        return;
    if (out->terminal) {
        print_safely(out->to, out->buffer, n);
        fflush(out->to);
    } else if (all || n >= TEXT_TOGETHER) {
        fwrite(out->buffer, 1, n, out->to);
    } else {
        return;
    }
    memmove(out->buffer, out->buffer + n, held);
    arr_set_len(out->buffer, held);
    out->from = out->from > n ? out->from - n : 0;
}

void text_out_drawn(struct text_out *out, const struct stops *stops)
{
    out->stops = stops && stops->n > 0 ? stops : NULL;
    out->from = arr_len(out->buffer);
    out->stopped = NULL;
}

size_t text_out_held(const struct text_out *out, size_t length)
{
    return out->stops && !out->stopped ? stops_held(out->stops, out->buffer, out->from, length) : 0;
}

/* Ends the text before a stop text that ends after byte `before` of the buffer. */
static void find_stop(struct text_out *out, size_t before)
{
    size_t at;
    out->stopped =
        stops_find(out->stops, out->buffer, out->from, before, arr_len(out->buffer), &at);
    if (!out->stopped)
        return;
    arr_set_len(out->buffer, at);
    out->stream = (mgpt_stream){0};
}

void text_out_bytes(struct text_out *out, const char *bytes, size_t n)
{
    if (n == 0 || !make_room(out, n))
        return;
    memcpy(out->buffer + arr_len(out->buffer), bytes, n);
    arr_set_len(out->buffer, arr_len(out->buffer) + n);
    if (out->to)
        write_buffer(out, 0);
}

static void put_id(struct text_out *out, int32_t token)
{
    char id[16];
    int n = snprintf(id, sizeof id, "%s%d", out->n_ids++ ? " " : "", (int)token);
    text_out_bytes(out, id, (size_t)n);
}

struct text_mark text_out_mark(const struct text_out *out)
{
    return (struct text_mark){arr_len(out->buffer), out->n_ids, out->n_again, out->stream};
}

void text_out_back(struct text_out *out, struct text_mark mark)
{
    out->n_ids = mark.n_ids;
    out->n_again = mark.n_again;
    out->stream = mark.stream;
    out->stopped = NULL;
    if (out->buffer)
        arr_set_len(out->buffer, mark.length);
}

void text_out_token(struct text_out *out, int32_t token, int quietly)
{
    if (out->failed.status < 0) /* after a failure nothing more is added */
        return;
    if (out->ids && !quietly)
        put_id(out, token);
    if (out->ids)
        return;
    size_t length = arr_len(out->buffer), room = arr_cap(out->buffer) - length;
    char *at = out->buffer ? out->buffer + length : NULL;
    size_t n = mgpt_stream_put(&out->stream, out->model, token, at, room);
    if (n > room) { /* nothing was written: make room, then retry */
        if (!make_room(out, n > TEXT_AT_FIRST ? n : TEXT_AT_FIRST))
            return;
        at = out->buffer + length;
        n = mgpt_stream_put(&out->stream, out->model, token, at, n);
    }
    out->n_streamed += n;
    size_t again = n < out->n_again ? n : out->n_again;
    if (again > 0)
        memmove(at, at + again, n - again);
    out->n_again -= again;
    n -= again;
    if (quietly || n == 0)
        return;
    arr_set_len(out->buffer, length + n);
    if (out->stops && !out->stopped)
        find_stop(out, length);
    if (out->to)
        write_buffer(out, 0);
}

void text_out_before(struct text_out *out, const int32_t *tokens, size_t n, int quietly)
{
    mgpt_stream stream = out->stream;
    out->n_streamed = 0;
    for (size_t i = 0; i < n; i++)
        text_out_token(out, tokens[i], quietly);
    out->n_again = out->n_streamed;
    out->stream = stream;
}

void text_out_end(struct text_out *out)
{
    size_t length = arr_len(out->buffer);
    if (out->stream.n_held > 0 && out->failed.status == MGPT_OK && make_room(out, TEXT_AT_FIRST))
        arr_set_len(out->buffer,
                    length + mgpt_stream_end(&out->stream, out->buffer + length, TEXT_AT_FIRST));
    out->stream = (mgpt_stream){0};
    out->n_ids = out->n_again = 0;
    write_buffer(out, 1);
}

void text_out_clear(struct text_out *out)
{
    out->n_ids = 0;
    if (out->buffer)
        arr_set_len(out->buffer, 0);
}

void text_out_close(struct text_out *out)
{
    arr_free(out->buffer);
    out->buffer = NULL;
}
