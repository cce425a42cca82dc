/* Parsing a command's options and printing its help. See cli.h.
 *
 * The rows of a command's table become a table for getopt_long, with two stricter rules: a long
 * option may not be abbreviated (a script must not change its meaning when an option is added), and
 * a number must parse to its last character and be in range.
 */
#include "common/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_ID = 256, QUIET_ID = 2, OPERAND_ID = 1, MAX_NAME = 32 };
enum { HELP = -1, REFUSED = -2 }; /* results of cli_parse */

/* ---- the table for getopt -------------------------------------------------------------------- */

/* Options with an alias, which is valid in every command that has the option. */
static const struct cli_synonym aliases[] = {{"tokens", "predict"}};

/* Names of other programs, for hints. */
static const struct cli_synonym strange[] = {{"temperature", "temp"},
                                             {"prompt-cache", "session"},
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
    struct option longs[CLI_MAX_OPTIONS + sizeof aliases / sizeof *aliases + 3];
    char shorts[2 * CLI_MAX_OPTIONS + 4];
    size_t n_options;
};

static char short_name(const struct cli_option *o)
{
    return o->name[1] != '-' ? o->name[1] : (char)0;
}

const char *cli_long_name(const struct cli_option *o)
{
    const char *at = strstr(o->name, "--");
    return at ? at + 2 : NULL;
}

static int has_value(const struct cli_option *o)
{
    if (o->kind == CLI_FLAG)
        return no_argument;
    return o->arg[0] == '[' ? optional_argument : required_argument;
}

const char *cli_alias(const struct cli_option *o)
{
    return cli_long_name(o)
               ? cli_synonym(cli_long_name(o), aliases, sizeof aliases / sizeof *aliases)
               : NULL;
}

static void build_tables(struct parser *p, const struct cli_command *command)
{
    size_t n_longs = 0;
    char *s = p->shorts;
    *s++ = '-'; /* operands come in order, also with POSIXLY_CORRECT */
    *s++ = ':'; /* getopt reports a missing value as ':', an unknown option as '?' */
    *s++ = 'h';
    p->command = command;
    p->n_options = command->n_options; /* at most CLI_MAX_OPTIONS: CLI_COMMAND */
    for (size_t i = 0; i < p->n_options; i++) {
        const struct cli_option *o = &command->options[i];
        int has_arg = has_value(o);
        if (short_name(o))
            *s++ = short_name(o);
        if (short_name(o) && has_arg == required_argument)
            *s++ = ':';
        if (cli_long_name(o))
            p->longs[n_longs++] =
                (struct option){cli_long_name(o), has_arg, NULL, LONG_ID + (int)i};
        if (cli_alias(o))
            p->longs[n_longs++] = (struct option){cli_alias(o), has_arg, NULL, LONG_ID + (int)i};
    }
    p->longs[n_longs++] = (struct option){"quiet", no_argument, NULL, QUIET_ID};
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

/* What a checkpoint does not say is said to mgpt convert alone. */
static int is_of_convert(const struct parser *p, const char *name)
{
    static const char *const names[] = {
        "heads",    "chars",    "tokenizer", "no-tokenizer", "activation", "eps",
        "qk-scale", "pre-norm", "post-norm", "norm",         "positions",  "embedding-scale",
        "causal",   "assume",   "ask",       "rope",         "vocab-size"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return strcmp(p->command->name, "convert") != 0;
    return 0;
}

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
    if (is_of_convert(p, name)) {
        cli_usage(p->command,
                  "--%s is an option of mgpt convert, whose result this command then runs: "
                  "mgpt convert IN OUT.gguf --%s ...",
                  name, name);
        return REFUSED;
    }
    near = cli_synonym(name, strange, sizeof strange / sizeof *strange);
    if (near && !find_long(p, near, strlen(near)))
        near = NULL;
    if (!near && n_bare > 1)
        near = cli_nearest(name, names, n);
    cli_usage(p->command, "unknown option %.*s%s%s%s", (int)(bare + n_bare - word), word,
              near ? ", did you mean --" : "", near ? near : "", near ? "?" : "");
    return REFUSED;
}

static int bad_number(const struct parser *p, const struct cli_option *o, const char *text)
{
    const char *what = o->kind == CLI_REAL ? "number" : "whole number";
    if (o->min < o->max)
        cli_usage(p->command, "%s: expected a %s from %.10g to %.10g, found '%s'", o->name, what,
                  o->min, o->max, text);
    else
        cli_usage(p->command, "%s: expected a %s, found '%s'", o->name, what, text);
    return REFUSED;
}

static int add_one_value(const struct parser *p, const struct cli_option *o, const char *text)
{
    struct cli_many *many = o->to;
    if (many->n == CLI_MAX_MANY) {
        cli_usage(p->command, "%s: given more than %d times", o->name, CLI_MAX_MANY);
        return REFUSED;
    }
    many->values[many->n++] = text;
    return 0;
}

static int set_option(const struct parser *p, const struct cli_option *o, const char *text)
{
    if (o->kind == CLI_FLAG)
        *(int *)o->to = 1;
    else if (!text)
        *(int32_t *)o->to = CLI_CHOSEN;
    else if (o->kind == CLI_TEXT)
        *(const char **)o->to = text;
    else if (o->kind == CLI_MANY)
        return add_one_value(p, o, text);
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
    if (id == '?' && strncmp(word, "--", 2) != 0)
        return unknown_option(p, (char[]){'-', (char)optopt, 0});
    if (id == ':') /* only options with an arg need a value */
        cli_usage(p->command, "%s needs a value: %s", word, find_option(p, optopt)->arg);
    else
        cli_usage(p->command, "%.*s takes no value", (int)strcspn(word, "="), word);
    return REFUSED;
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
    return REFUSED;
}

void cli_print_item(struct cli_list *l, const char *item)
{
    enum { COLUMNS = 97 };
    size_t n = strlen(item), between = strlen(l->between);
    if (l->n_items && l->column + 2 * between + 1 + n > COLUMNS) {
        fprintf(l->to, "%s\n%*s", l->between, (int)l->indent, "");
        l->column = l->indent;
    } else if (l->n_items) {
        fprintf(l->to, "%s ", l->between);
        l->column += between + 1;
    }
    fputs(item, l->to);
    l->column += n;
    l->n_items++;
}

void cli_print_exits(FILE *to, const char *const *exits)
{
#define EXIT_ROW(id, number, words) {number, words},
    static const struct {
        int code;
        const char *words;
    } rows[] = {EXIT_CODES(EXIT_ROW)};
    struct cli_list list = {.to = to, .between = ",", .column = strlen("exit codes: ")};
    fputs("exit codes: ", to);
    for (int i = 0; i < EXIT_N_CODES; i++) {
        char item[160];
        snprintf(item, sizeof item, "%d %s", rows[i].code,
                 exits && exits[i] ? exits[i] : rows[i].words);
        if (!exits || exits[i] || rows[i].code != EXIT_DIFFERENT)
            cli_print_item(&list, item);
    }
    fputc('\n', to);
}

static void print_option(const struct cli_option *o)
{
    char left[64];
    snprintf(left, sizeof left, "%s%s%s%s", short_name(o) ? "" : "    ", o->name, o->arg ? " " : "",
             o->arg ? o->arg : "");
    printf("  %-24s %s%s%s\n", left, o->help, cli_alias(o) ? "; also --" : "",
           cli_alias(o) ? cli_alias(o) : "");
}

/* Prints the options by group, each after a line " TITLE:"; a short list as it is. */
static void print_options(const struct cli_command *command)
{
#define GROUP_TITLE(id, title) title,
    static const char *const titles[] = {CLI_GROUPS(GROUP_TITLE)};
    int is_list = command->n_options <= CLI_FEW;
    for (int g = 0; g < (is_list ? 1 : CLI_N_GROUPS); g++) {
        int printed = 0;
        for (size_t i = 0; i < command->n_options; i++) {
            const struct cli_option *o = &command->options[i];
            if (!is_list && (int)o->group != g)
                continue;
            if (g && !printed++)
                printf(" %s:\n", titles[g]);
            print_option(o);
        }
    }
    if (!is_list)
        puts(" every command:");
    printf("  %-24s %s\n", "    --quiet", "nothing on stderr but errors");
    printf("  %-24s %s\n", "-h, --help", "print this");
}

static void print_help(const struct cli_command *command)
{
    static const char *const none[EXIT_N_CODES] = {NULL};
    printf("usage: mgpt %s [options]%s%s\n\n%s\n\noptions:\n", command->name,
           *command->operands ? " " : "", command->operands, command->summary);
    print_options(command);
    if (command->notes_first)
        printf("\n%s", command->notes_first);
    if (command->notes)
        printf("\n%s", command->notes);
    putchar('\n');
    cli_print_exits(stdout, command->exits ? command->exits : none);
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
        return HELP;
    }
    if (id == QUIET_ID) {
        cli_set_quiet();
        return n;
    }
    o = find_option(p, id);
    if (!o)
        return unknown_option(p, word);
    return set_option(p, o, optarg) < 0 ? REFUSED : n;
}

/* getopt takes an optional value only after '='. Here the next word also counts if it is a
 * number. */
static void take_optional_number(const struct parser *p, int id, int argc, char **argv)
{
    const struct cli_option *o = id >= LONG_ID ? find_option(p, id) : NULL;
    if (o && has_value(o) == optional_argument && !optarg && optind < argc && *argv[optind] &&
        strspn(argv[optind], "0123456789") == strlen(argv[optind]))
        optarg = argv[optind++];
}

int cli_parse(const struct cli_command *command, int argc, char **argv, const char **operands)
{
    struct parser p;
    int n = 0;
    if (argc == 5 && strcmp(argv[1], CLI_COMPLETE) == 0) {
        cli_complete(command, &(struct cli_typed){argv[2], argv[3], argv[4]});
        return REFUSED; /* whoever asked does not read the exit code */
    }
    build_tables(&p, command);
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
        return REFUSED;
    }
    return n;
}

int cli_parse_exit(int parsed)
{
    return parsed == HELP ? cli_finish(EXIT_OK) : EXIT_USAGE;
}
