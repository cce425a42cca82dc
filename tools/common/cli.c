/* Options, messages and exit codes of all commands. See cli.h.
 *
 * Options are rows of a table on top of getopt_long, with two stricter rules: abbreviations of long
 * options are refused (a script must not change its meaning when an option is added), and numbers
 * must parse to the last character and be in range. Messages are one line each; control characters
 * from arguments and file names are shown as '?'.
 */
#include "common/cli.h"

#include "base/error.h"
#include "common/files.h"
#include "common/json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_OPTIONS = 40, LONG_ID = 256, OPERAND_ID = 1, MAX_NAME = 32, MAX_LINE = 1024 };
enum {
    LINE_BYTES = 199, /* of an error about a file, with the newline */
    TEXT_BYTES = 170, /* of its text and byte offset; the rest is for the file's name */
    MAX_TEXT = 1 << 30
};

/* ---- messages -------------------------------------------------------------------------------- */

static void print_message(const char *prefix, const char *fmt, va_list ap)
{
    char line[MAX_LINE], clean[MAX_LINE];
    if (vsnprintf(line, sizeof line, fmt, ap) < 0)
        return;
    text_format(clean, sizeof clean, "%s", line); /* arguments and names may hold any bytes */
    fprintf(stderr, "mgpt%s%s: %s", *prefix ? " " : "", prefix, clean);
}

void cli_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    print_message("", fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

int cli_usage(const struct cli_command *command, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    print_message(command->name, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (see mgpt %s --help)\n", command->name);
    return EXIT_USAGE;
}

static int exit_code(int status)
{
    switch (status) {
    case MGPT_OK:
        return EXIT_OK;
    case MGPT_EFILE:
        return EXIT_REFUSED;
    case MGPT_EMEM:
    case MGPT_EFULL:
        return EXIT_FULL;
    case MGPT_EIO:
        return EXIT_IO;
    case MGPT_ESTOP: /* our taps stop only after Ctrl-C */
        return EXIT_INTERRUPTED;
    default:
        return EXIT_USAGE;
    }
}

/* Prints the end of a path that is too long for the line: the file's name matters most. */
static void note_of_file(const char *file, const char *text, const char *where)
{
    size_t room = LINE_BYTES - strlen("mgpt: : \n") - strlen(text) - strlen(where),
           n = strlen(file);
    const char *dots = n > room ? "..." : "";
    if (n > room)
        for (file += n - room + strlen(dots); ((unsigned char)*file & 0xC0) == 0x80;)
            file++; /* do not begin inside a UTF-8 character */
    cli_note("%s%s: %s%s", dots, file, text, where);
}

int cli_fail(const char *file, const mgpt_error *err)
{
    char where[40] = "", text[sizeof err->text];
    if (err->status == MGPT_ESTOP)
        return EXIT_INTERRUPTED;
    if (err->offset != MGPT_NO_OFFSET && err->status != MGPT_ETEXT) /* ETEXT texts have it */
        snprintf(where, sizeof where, " (byte %llu)", (unsigned long long)err->offset);
    text_format(text, TEXT_BYTES - strlen(where), "%s", err->text);
    if (file)
        note_of_file(file, text, where);
    else
        cli_note("%s%s", text, where);
    return exit_code(err->status);
}

/* 1: the reader of the pipe is gone, as in `mgpt generate ... | head`; then no message is
 * printed. */
static int reader_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

int cli_finish(int code)
{
    int failed = fflush(stdout) != 0;
    int reason = failed ? errno : EIO;
    if (!failed && !ferror(stdout))
        return code;
    if (!reader_gone())
        cli_note("cannot write to stdout: %s", strerror(reason));
    return EXIT_IO;
}

/* ---- suggestions ----------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein distance, with a swap of neighbours (the most common typo) as one edit. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][MAX_NAME + 1], na = strlen(a), nb = strlen(b);
    if (na > MAX_NAME || nb > MAX_NAME)
        return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            now[j] = least(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1, SIZE_MAX);
        }
    }
    return rows[na % 3][nb];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n_names)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 2; /* further away is another word */
    for (size_t i = 0; i < n_names; i++) {
        int begins = strlen(word) >= 2 && strncmp(names[i], word, strlen(word)) == 0;
        size_t d = begins ? 0 : distance(word, names[i]);
        if (d < best_distance && d < strlen(names[i])) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}

const char *cli_synonym(const char *word, const struct cli_synonym *rows, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++)
        if (strcmp(rows[i].word, word) == 0)
            return rows[i].name;
    return NULL;
}

/* ---- the table for getopt -------------------------------------------------------------------- */

/* Aliases of options, valid in every command that has the option. */
static const struct cli_synonym aliases[] = {{"predict", "tokens"}};

/* Names of other programs, for hints. */
static const struct cli_synonym strange[] = {{"temperature", "temp"},
                                             {"n-predict", "tokens"},
                                             {"max-tokens", "tokens"},
                                             {"max-new-tokens", "tokens"},
                                             {"num-samples", "samples"},
                                             {"n", "tokens"},
                                             {"context", "ctx-size"},
                                             {"context-size", "ctx-size"},
                                             {"n-ctx", "ctx-size"},
                                             {"input", "file"},
                                             {"num-threads", "threads"},
                                             {"cache-type-k", "kv"},
                                             {"out", "output"},
                                             {"tolerance", "tol"},
                                             {"atol", "tol"},
                                             {"n-head", "heads"},
                                             {"n-heads", "heads"},
                                             {"text", "prompt"},
                                             {"dtype", "type"},
                                             {"outtype", "type"},
                                             {"block-size", "context"}};

struct parser {
    const struct cli_command *command;
    struct option longs[MAX_OPTIONS + sizeof aliases / sizeof *aliases + 2];
    char shorts[2 * MAX_OPTIONS + 4];
    size_t n_options;
};

static char short_name(const struct cli_option *o)
{
    return o->name[1] != '-' ? o->name[1] : (char)0;
}

/* "tokens" of "-n, --tokens"; NULL for an option that has only a letter. */
static const char *long_name(const struct cli_option *o)
{
    const char *at = strstr(o->name, "--");
    return at ? at + 2 : NULL;
}

static int value_of(const struct cli_option *o)
{
    if (o->kind == CLI_FLAG)
        return no_argument;
    return o->arg[0] == '[' ? optional_argument : required_argument;
}

/* A row for each alias of option i. */
static void add_aliases(struct parser *p, size_t i, size_t *n_longs)
{
    const struct cli_option *o = &p->command->options[i];
    for (size_t k = 0; long_name(o) && k < sizeof aliases / sizeof *aliases; k++)
        if (strcmp(aliases[k].name, long_name(o)) == 0)
            p->longs[(*n_longs)++] =
                (struct option){aliases[k].word, value_of(o), NULL, LONG_ID + (int)i};
}

static void build_tables(struct parser *p, const struct cli_command *command)
{
    size_t n_longs = 0;
    char *s = p->shorts;
    *s++ = '-'; /* operands come in order, also with POSIXLY_CORRECT */
    *s++ = ':'; /* getopt reports a missing value as ':', an unknown option as '?' */
    *s++ = 'h';
    p->command = command;
    p->n_options = command->n_options < MAX_OPTIONS ? command->n_options : MAX_OPTIONS;
    for (size_t i = 0; i < p->n_options; i++) {
        const struct cli_option *o = &command->options[i];
        int has_arg = value_of(o);
        if (short_name(o))
            *s++ = short_name(o);
        if (short_name(o) && has_arg == required_argument)
            *s++ = ':';
        if (long_name(o))
            p->longs[n_longs++] = (struct option){long_name(o), has_arg, NULL, LONG_ID + (int)i};
        add_aliases(p, i, &n_longs);
    }
    p->longs[n_longs++] = (struct option){"help", no_argument, NULL, 'h'};
    p->longs[n_longs] = (struct option){0};
    *s = 0;
}

static const struct cli_option *find_option(const struct parser *p, int id)
{
    if (id >= LONG_ID)
        return &p->command->options[id - LONG_ID];
    for (size_t i = 0; i < p->n_options; i++)
        if (short_name(&p->command->options[i]) == (char)id)
            return &p->command->options[i];
    return NULL;
}

/* The row of longs whose full name is `name` (n bytes), or NULL. */
static const struct option *find_long(const struct parser *p, const char *name, size_t n)
{
    for (const struct option *o = p->longs; o->name; o++)
        if (strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    return NULL;
}

/* ---- one option ------------------------------------------------------------------------------ */

static int unknown_option(const struct parser *p, const char *word)
{
    const char *names[sizeof p->longs / sizeof *p->longs], *bare = word + strspn(word, "-"), *near;
    char name[MAX_NAME + 1];
    size_t n = 0, n_bare = strcspn(bare, "=");
    for (const struct option *o = p->longs; o->name; o++)
        names[n++] = o->name;
    snprintf(name, sizeof name, "%.*s", (int)(n_bare < MAX_NAME ? n_bare : MAX_NAME), bare);
    for (char *c = name; *c; c++) /* top_k */
        *c = *c == '_' ? '-' : *c;
    near = cli_synonym(name, strange, sizeof strange / sizeof *strange);
    if (near && !find_long(p, near, strlen(near)))
        near = NULL;
    if (!near && n_bare > 1)
        near = cli_nearest(name, names, n);
    if (near)
        cli_usage(p->command, "unknown option %.*s, did you mean --%s?",
                  (int)(bare + n_bare - word), word, near);
    else
        cli_usage(p->command, "unknown option %.*s", (int)(bare + n_bare - word), word);
    return -2;
}

static int bad_number(const struct parser *p, const struct cli_option *o, const char *text)
{
    const char *what = o->kind == CLI_REAL ? "number" : "whole number";
    if (o->min < o->max)
        cli_usage(p->command, "%s: expected a %s from %.10g to %.10g, found '%s'", o->name, what,
                  o->min, o->max, text);
    else
        cli_usage(p->command, "%s: expected a %s, found '%s'", o->name, what, text);
    return -2;
}

static int outside(const struct cli_option *o, double v)
{
    return o->min < o->max && !(v >= o->min && v <= o->max);
}

/* strtoll and strtod skip spaces, accept "-1" for unsigned, hex, inf and nan; these are refused. */
static int plain_number(const char *text, const char *allowed)
{
    return *text && strspn(text, allowed) == strlen(text);
}

static int set_int(const struct cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (!plain_number(text, "+-0123456789") || *end || end == text || errno ||
        outside(o, (double)v) || v < INT32_MIN || v > INT32_MAX)
        return 0;
    *(int32_t *)o->to = (int32_t)v;
    return 1;
}

static int set_u64(const struct cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (!plain_number(text, "0123456789") || *end || errno || outside(o, (double)v))
        return 0;
    *(uint64_t *)o->to = v;
    return 1;
}

static int set_real(const struct cli_option *o, const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (!plain_number(text, "+-.eE0123456789") || *end || end == text || !isfinite(v) ||
        outside(o, v))
        return 0;
    *(double *)o->to = v;
    return 1;
}

int cli_set_number(const struct cli_option *o, const char *text)
{
    switch (o->kind) {
    case CLI_INT:
        return set_int(o, text);
    case CLI_U64:
        return set_u64(o, text);
    case CLI_REAL:
        return set_real(o, text);
    default:
        return 0;
    }
}

static int set_option(const struct parser *p, const struct cli_option *o, const char *text)
{
    if (o->kind == CLI_FLAG)
        *(int *)o->to = 1;
    else if (!text)
        *(int32_t *)o->to = CLI_CHOSEN;
    else if (o->kind == CLI_TEXT)
        *(const char **)o->to = text;
    else if (!cli_set_number(o, text))
        return bad_number(p, o, text);
    return 0;
}

/* ---- parsing --------------------------------------------------------------------------------- */

/* 1: an unknown long option, or a known one with a single dash ("-temp"), which getopt would
 * read as -t with the value "emp". */
static int misspelt(const struct parser *p, const char *word)
{
    size_t n = strcspn(word, "=");
    if (strncmp(word, "--", 2) == 0)
        return n > 2 && !find_long(p, word + 2, n - 2);
    return n > 2 && word[0] == '-' && find_long(p, word + 1, n - 1);
}

static int refuse_option(const struct parser *p, int id, const char *word)
{
    if (id == ':') {
        const struct cli_option *o = find_option(p, optopt);
        cli_usage(p->command, "%s needs a value%s%s", word, o && o->arg ? ": " : "",
                  o && o->arg ? o->arg : "");
        return -2;
    }
    if (strncmp(word, "--", 2) == 0) {
        cli_usage(p->command, "%.*s takes no value", (int)strcspn(word, "="), word);
        return -2;
    }
    char letter[3] = {'-', (char)optopt, 0};
    return unknown_option(p, letter);
}

static int add_operand(const struct parser *p, const char **operands, int n, const char *word)
{
    if (n < p->command->max_operands) {
        operands[n] = word;
        return n + 1;
    }
    if (p->command->max_operands == 0)
        cli_usage(p->command, "unexpected argument '%s'", word);
    else
        cli_usage(p->command, "unexpected argument '%s' after '%s'", word, operands[n - 1]);
    return -2;
}

static void print_help(const struct cli_command *command)
{
    printf("usage: mgpt %s [options]%s%s\n\n%s\n\noptions:\n", command->name,
           *command->operands ? " " : "", command->operands, command->summary);
    for (size_t i = 0; i < command->n_options; i++) {
        const struct cli_option *o = &command->options[i];
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s", short_name(o) ? "" : "    ", o->name,
                 o->arg ? " " : "", o->arg ? o->arg : "");
        printf("  %-24s %s", left, o->help);
        for (size_t k = 0; long_name(o) && k < sizeof aliases / sizeof *aliases; k++)
            if (strcmp(aliases[k].name, long_name(o)) == 0)
                printf("; also --%s", aliases[k].word);
        putchar('\n');
    }
    printf("  %-24s %s\n", "-h, --help", "print this");
    if (command->notes)
        printf("\n%s", command->notes);
}

static int parse_word(struct parser *p, int id, const char *word, const char **operands, int n)
{
    const struct cli_option *o;
    if (id == OPERAND_ID)
        return add_operand(p, operands, n, optarg);
    if (misspelt(p, word))
        return unknown_option(p, word);
    if (id == '?' || id == ':')
        return refuse_option(p, id, word);
    if (id == 'h') {
        print_help(p->command);
        return -1;
    }
    o = find_option(p, id);
    if (!o)
        return unknown_option(p, word);
    return set_option(p, o, optarg) < 0 ? -2 : n;
}

/* getopt takes an optional value only after '='. Here the next word also counts if it is a
 * number. */
static void take_optional_number(const struct parser *p, int id, int argc, char **argv)
{
    const struct cli_option *o = id >= LONG_ID ? find_option(p, id) : NULL;
    if (o && value_of(o) == optional_argument && !optarg && optind < argc &&
        plain_number(argv[optind], "0123456789"))
        optarg = argv[optind++];
}

int cli_parse(const struct cli_command *command, int argc, char **argv, const char **operands)
{
    struct parser p;
    int n = 0;
    build_tables(&p, command);
    json_watch();
    opterr = 0;
    optind = 0; /* restart getopt */
    while (n >= 0) {
        int at = optind ? optind : 1; /* nothing is permuted, so the current word is argv[at] */
        int id = getopt_long(argc, argv, p.shorts, p.longs, NULL);
        if (id == -1)
            break;
        take_optional_number(&p, id, argc, argv);
        n = parse_word(&p, id, argv[at], operands, n);
    }
    while (n >= 0 && optind < argc)
        n = add_operand(&p, operands, n, argv[optind++]);
    if (n >= 0 && n < command->min_operands) {
        cli_usage(command, "expected %s", command->operands);
        return -2;
    }
    return n;
}

int cli_parse_exit(int parsed)
{
    return parsed == -1 ? cli_finish(EXIT_OK) : EXIT_USAGE;
}

/* ---- input ----------------------------------------------------------------------------------- */

static int read_error(mgpt_error *err, const char *verb)
{
    err_set(err, MGPT_EIO, MGPT_NO_OFFSET, "cannot %s: %s", verb, strerror(errno));
    return 0;
}

/* Checks the limits. buf[from..n) is new; *line is where the last line begins. */
static int within_limits(struct cli_limits limits, const char *buf, size_t from, size_t n,
                         size_t *line, mgpt_error *err)
{
    if (n > MAX_TEXT) {
        err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "more than %d bytes, the limit", MAX_TEXT);
        return 0;
    }
    for (size_t i = from; i < n; i++)
        *line = buf[i] == '\n' ? i + 1 : *line;
    if (limits.all && n > limits.all && !limits.is_prefix)
        err_set(err, MGPT_EFULL, MGPT_NO_OFFSET, "more than %zu bytes, the most that can fit",
                limits.all);
    else if (limits.line && n - *line > limits.line)
        err_set(err, MGPT_EFULL, *line, "a line of more than %zu bytes, the most that can fit",
                limits.line);
    else
        return 1;
    return 0;
}

/* The number of bytes before the last character, which may be incomplete. */
static size_t whole_characters(const char *buf, size_t n)
{
    while (n > 0 && ((unsigned char)buf[n - 1] & 0xC0) == 0x80)
        n--;
    return n > 0 ? n - 1 : 0;
}

static int read_stream(int fd, struct cli_limits limits, char **buf, size_t *n_bytes,
                       mgpt_error *err)
{
    size_t cap = 0, n = 0, line = 0;
    for (;;) {
        if (cap - n < 2) {
            char *bigger = cap <= SIZE_MAX / 2 - 4096 ? realloc(*buf, cap * 2 + 4096) : NULL;
            if (!bigger) {
                err_memory(err, "the text", cap);
                return 0;
            }
            *buf = bigger;
            cap = cap * 2 + 4096;
        }
        ssize_t got = read(fd, *buf + n, cap - n - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return read_error(err, "read");
        if (got == 0)
            break;
        if (!within_limits(limits, *buf, n, n + (size_t)got, &line, err))
            return 0;
        n += (size_t)got;
        if (limits.is_prefix && n > limits.all) {
            n = whole_characters(*buf, limits.all);
            break;
        }
    }
    (*buf)[n] = 0;
    *n_bytes = n;
    return 1;
}

char *cli_read(const char *path, size_t *n_bytes, mgpt_error *err)
{
    return cli_read_limited(path, (struct cli_limits){.all = 0}, n_bytes, err);
}

char *cli_read_limited(const char *path, struct cli_limits limits, size_t *n_bytes, mgpt_error *err)
{
    int is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char *buf = NULL;
    if (fd < 0) {
        read_error(err, "open");
        return NULL;
    }
    int ok =
        files_note_stream(fd, path, err) == MGPT_OK && read_stream(fd, limits, &buf, n_bytes, err);
    if (!is_stdin)
        close(fd);
    if (!ok) {
        free(buf);
        return NULL;
    }
    return buf;
}

int cli_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}
