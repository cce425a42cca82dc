/* What a shell may complete in the options of a command: from its table, as --help prints it. See cli.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/cli.h"

#include <pcre2.h>
#include <string.h>

void cli_candidate(const struct cli_typed *typed, const char *word, const char *about)
{
    if (strncmp(word, typed->word, strlen(typed->word)) == 0)
        printf("%s%s\t%s\n", typed->before, word, about);
}

/* The words of a list: "a (of this), b or c". Text in parentheses is left out. */
static void put_list(const struct cli_typed *typed, const char *text, size_t n)
{
    char word[64];
    for (size_t at = 0, length; at < n; at += length + 1) {
        length = strcspn(text + at, " ,");
        if (text[at] == '(')
            length = strcspn(text + at, ")");
        else if (length > 0 && length < sizeof word &&
                 (length != 2 || memcmp(text + at, "or", 2) != 0)) {
            memcpy(word, text + at, length);
            word[length] = 0;
            cli_candidate(typed, word, "");
        }
    }
}

/* A list of words in an option's help: "random numbers: splitmix (default), python (CPython's random)". */
static void put_choices(const struct cli_typed *typed, const char *help)
{
#define WORD "[a-z0-9_]+(?: \\([^)]*\\))?"
    static const char list[] = "(?:^|: | in )(" WORD "(?:(?:,| or) " WORD ")+)(?=$|,|;| \\()";
    int error;
    size_t at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)list, PCRE2_ZERO_TERMINATED, 0, &error, &at, NULL);
    pcre2_match_data *match = code ? pcre2_match_data_create_from_pattern(code, NULL) : NULL;
    if (match && pcre2_match(code, (PCRE2_SPTR)help, strlen(help), 0, 0, match, NULL) > 0) {
        const size_t *span = pcre2_get_ovector_pointer(match);
        put_list(typed, help + span[2], span[3] - span[2]);
    }
    pcre2_match_data_free(match);
    pcre2_code_free(code);
}

/* 1 when the word is a name of the option: "-n", "--tokens", its alias. */
static int is_named(const struct cli_option *o, const char *word)
{
    const char *name = cli_long_name(o), *alias = cli_alias(o);
    if (word[0] != '-')
        return 0;
    if (word[1] != '-')
        return o->name[1] == word[1] && word[1] && !word[2];
    return (name && strcmp(name, word + 2) == 0) || (alias && strcmp(alias, word + 2) == 0);
}

static void put_value(const struct cli_option *o, const struct cli_typed *typed)
{
    if (strstr(o->arg, "FILE"))
        puts(CLI_FILES);
    else
        put_choices(typed, o->help);
}

static void put_name(const struct cli_typed *typed, const char *name, const char *help)
{
    char word[64];
    snprintf(word, sizeof word, "--%s", name);
    cli_candidate(typed, word, help);
}

void cli_complete(const struct cli_command *command, const struct cli_typed *typed)
{
    const struct cli_option *o = command->options;
    for (size_t i = 0; i < command->n_options; i++)
        if (o[i].kind != CLI_FLAG && o[i].arg[0] != '[' && is_named(&o[i], typed->option)) {
            put_value(&o[i], typed);
            return;
        }
    if (typed->word[0] != '-') {
        puts(CLI_FILES);
        return;
    }
    for (size_t i = 0; i < command->n_options; i++) {
        if (cli_long_name(&o[i]))
            put_name(typed, cli_long_name(&o[i]), o[i].help);
        else
            cli_candidate(typed, (char[]){'-', o[i].name[1], 0}, o[i].help);
        if (cli_alias(&o[i]))
            put_name(typed, cli_alias(&o[i]), o[i].help);
    }
    put_name(typed, "quiet", "nothing on stderr but errors");
    put_name(typed, "help", "print this");
}
