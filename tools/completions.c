/* What Tab completes. See completions.h. The scripts know nothing: they ask the program, whose tables of options and
 * names are what completes. */
#include "completions.h"

#include "common/cli.h"
#include "dtype/dtype.h"
#include "engine/chat_formats.h"
#ifndef MGPT_NO_CONVERT
#include "convert/core/mixtures.h"
#include "convert/core/questions.h"
#endif
#ifndef MGPT_NO_LAB
#include "patch/grid.h"
#endif

#include <ctype.h>
#include <string.h>

enum { NAME_BYTES = 64 };

/* ---- scripts --------------------------------------------------------------------------------- */

static const struct script {
    const char *shell, *text;
} scripts[] = {
    {"bash", "# bash completion of mgpt: eval \"$(mgpt completions bash)\"\n"
             "_mgpt() {\n"
             "    local line\n"
             "    COMPREPLY=()\n"
             "    while IFS= read -r line; do\n"
             "        if [[ $line == :files ]]; then compopt -o default; else "
             "COMPREPLY+=(\"${line%%$'\\t'*}\"); fi\n"
             "    done < <(\"${COMP_WORDS[0]}\" completions -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" "
             "2>/dev/null)\n"
             "}\n"
             "complete -F _mgpt mgpt\n"},
    {"zsh", "#compdef mgpt\n"
            "# zsh completion of mgpt: source <(mgpt completions zsh)\n"
            "_mgpt() {\n"
            "    local line files\n"
            "    local -a found\n"
            "    for line in ${(f)\"$(\"$words[1]\" completions -- \"${(@)words[2,CURRENT]}\" "
            "2>/dev/null)\"}; do\n"
            "        if [[ $line == :files ]]; then files=1; else "
            "found+=(\"${${line/:/\\\\:}/$'\\t'/:}\"); fi\n"
            "    done\n"
            "    (( $#found )) && _describe mgpt found\n"
            "    [[ -n $files ]] && _files\n"
            "}\n"
            "if [[ $funcstack[1] == _mgpt ]]; then _mgpt \"$@\"; else compdef _mgpt mgpt; fi\n"},
    {"fish",
     "# fish completion of mgpt: mgpt completions fish | source\n"
     "function __mgpt_complete\n"
     "    set -l words (commandline -opc) (commandline -ct)\n"
     "    for line in ($words[1] completions -- $words[2..] 2>/dev/null)\n"
     "        test \"$line\" = :files; and __fish_complete_path (commandline -ct); or echo $line\n"
     "    end\n"
     "end\n"
     "complete -c mgpt -f -a '(__mgpt_complete)'\n"},
};
enum { N_SCRIPTS = sizeof scripts / sizeof *scripts };

/* ---- values that tables of the program hold --------------------------------------------------- */

/* Name i, in a buffer of NAME_BYTES or not; NULL at the end. */
typedef const char *value_name(size_t i, char *buf);

static const char *isa_name(size_t i, char *buf)
{
    int here;
    (void)buf;
    for (size_t k = 0; mgpt_isa(k, &here); k++)
        if (here && i-- == 0)
            return mgpt_isa(k, NULL);
    return NULL;
}

static const char *chat_name(size_t i, char *buf)
{
    (void)buf;
    return chat_format_at(i) ? chat_format_at(i)->name : NULL;
}

#ifndef MGPT_NO_CONVERT
/* keep, the types that can be written, in small letters, and mixtures of them. */
static const char *written_type(size_t i, char *buf)
{
    if (i == 0)
        return "keep";
    for (uint32_t id = 0; id < DTYPE_N_IDS; id++)
        if (dtype_find(id) && dtype_find(id)->from_float && --i == 0) {
            snprintf(buf, NAME_BYTES, "%s", dtype_find(id)->name);
            for (char *c = buf; *c; c++)
                *c = (char)tolower((unsigned char)*c);
            return buf;
        }
    return ckpt_mixture_at(i - 1) ? ckpt_mixture_at(i - 1)->name : NULL;
}
#endif

/* "blocks.*.attn.hook_q": a point in all layers. */
static const char *hook_pattern(size_t i, char *buf)
{
    if (i >= MGPT_N_POINTS)
        return NULL;
    if (mgpt_point_name((mgpt_point)i, 0, buf, NAME_BYTES) && strncmp(buf, "blocks.0.", 9) == 0)
        buf[7] = '*';
    return buf;
}

#ifndef MGPT_NO_LAB
static const char *patch_point(size_t i, char *buf)
{
    (void)buf;
    return grid_point_name(i);
}
#endif
#ifndef MGPT_NO_CONVERT
static const char *program_name(size_t i, char *buf)
{
    (void)buf;
    return ckpt_program_name(i);
}
#endif

static const struct value_table {
    const char *command, *option; /* command NULL: all that have the option */
    value_name *name;
    int is_list; /* 1: values after commas, too */
} values[] = {
    {NULL, "--isa", isa_name, 0},           {NULL, "--chat-format", chat_name, 0},
    {"trace", "--hooks", hook_pattern, 1},
#ifndef MGPT_NO_LAB
    {"patch", "--over", patch_point, 1},
#endif
#ifndef MGPT_NO_CONVERT
    {"convert", "--type", written_type, 0}, {"convert", "--assume", program_name, 0},
#endif
};

/* 1 when the option answers one of convert's questions; the answers are printed. */
static int put_answers(const struct cli_typed *typed)
{
#ifndef MGPT_NO_CONVERT
    for (size_t k = 0; k < CKPT_N_FACTS; k++) {
        const struct ckpt_question *q = &ckpt_questions[k];
        const struct ckpt_option_row *row = ckpt_option_row(q->option);
        if (!row || row->kind == CKPT_FLAG || q->n_values == 0 ||
            strcmp(row->name, typed->option) != 0)
            continue;
        for (size_t i = 0; i < q->n_values; i++)
            cli_candidate(typed, q->values[i], "");
        return 1;
    }
#endif
    (void)typed;
    return 0;
}

/* 1 when the option before the cursor has a row; its values are printed. */
static int put_table(const char *command, const struct cli_typed *typed)
{
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        const struct value_table *row = &values[k];
        char buf[NAME_BYTES], before[4 * NAME_BYTES];
        const char *comma = row->is_list ? strrchr(typed->word, ',') : NULL, *name;
        struct cli_typed last = *typed;
        if (strcmp(row->option, typed->option) != 0 ||
            (row->command && strcmp(row->command, command) != 0))
            continue;
        if (comma) {
            snprintf(before, sizeof before, "%s%.*s", typed->before, (int)(comma + 1 - typed->word),
                     typed->word);
            last = (struct cli_typed){typed->option, comma + 1, before};
        }
        for (size_t i = 0; (name = row->name(i, buf)) != NULL; i++)
            cli_candidate(&last, name, "");
        return 1;
    }
    return 0;
}

/* ---- candidates ------------------------------------------------------------------------------ */

struct tab_place {
    struct cli_typed typed;
    char option[NAME_BYTES], before[NAME_BYTES];
};

/* The option and the word at the cursor. bash gives "--kv=q" as three words; zsh and fish as one, of which a candidate
 * then has the beginning, too. */
static void read_cursor(struct tab_place *c, char **words, int n)
{
    const char *word = words[n - 1], *option = n > 1 ? words[n - 2] : "",
               *equals = strchr(word, '=');
    c->typed = (struct cli_typed){option, word, ""};
    if (strcmp(word, "=") == 0)
        c->typed.word = "";
    else if (strcmp(option, "=") == 0)
        c->typed.option = n > 2 ? words[n - 3] : "";
    else if (strncmp(word, "--", 2) == 0 && equals && equals - word < NAME_BYTES - 1) {
        snprintf(c->option, NAME_BYTES, "%.*s", (int)(equals - word), word);
        snprintf(c->before, NAME_BYTES, "%.*s", (int)(equals + 1 - word), word);
        c->typed = (struct cli_typed){c->option, equals + 1, c->before};
    }
}

static void put_commands(const struct command *commands, size_t n, const struct cli_typed *typed)
{
    for (size_t i = 0; i < n; i++)
        if (commands[i].run)
            cli_candidate(typed, commands[i].name, commands[i].summary);
    cli_candidate(typed, "help", "explain a command");
    if (typed->word[0] == '-') {
        cli_candidate(typed, "--help", "list the commands");
        cli_candidate(typed, "--version", "print the version");
    }
}

/* The candidates for the last of n words. */
static void complete(const struct command *commands, size_t n_commands, char **words, int n)
{
    struct tab_place c;
    char ask[] = CLI_COMPLETE;
    read_cursor(&c, words, n);
    if (n == 1 || (n == 2 && strcmp(words[0], "help") == 0)) {
        put_commands(commands, n_commands, &c.typed);
        return;
    }
    if (strcmp(words[0], "completions") == 0 && *c.typed.word != '-') {
        for (size_t i = 0; i < N_SCRIPTS; i++)
            cli_candidate(&c.typed, scripts[i].shell, "");
        return;
    }
    if (put_table(words[0], &c.typed) ||
        (strcmp(words[0], "convert") == 0 && put_answers(&c.typed)))
        return;
    for (size_t i = 0; i < n_commands; i++)
        if (commands[i].run && strcmp(commands[i].name, words[0]) == 0)
            commands[i].run(5, (char *[]){words[0], ask, (char *)(uintptr_t)c.typed.option,
                                          (char *)(uintptr_t)c.typed.word,
                                          (char *)(uintptr_t)c.typed.before, NULL});
}

int completions(const struct command *commands, size_t n_commands, int argc, char **argv)
{
    static const char notes[] =
        "  bash   eval \"$(mgpt completions bash)\"       in ~/.bashrc\n"
        "  zsh    source <(mgpt completions zsh)        in ~/.zshrc, after compinit\n"
        "  fish   mgpt completions fish | source        in ~/.config/fish/config.fish\n";
    const struct cli_command command = {
        .name = "completions",
        .operands = "bash|zsh|fish",
        .summary = "A script with which the shell completes commands, options and values.",
        .notes = notes,
        .min_operands = 1,
        .max_operands = 1};
    const char *shell;
    int parsed;
    if (argc > 2 && strcmp(argv[1], "--") == 0) {
        complete(commands, n_commands, argv + 2, argc - 2);
        return cli_finish(EXIT_OK);
    }
    parsed = cli_parse(&command, argc, argv, &shell);
    if (parsed < 0)
        return cli_parse_exit(parsed);
    for (size_t i = 0; i < N_SCRIPTS; i++)
        if (strcmp(scripts[i].shell, shell) == 0) {
            fputs(scripts[i].text, stdout);
            return cli_finish(EXIT_OK);
        }
    return cli_usage(&command, "expected bash, zsh or fish, found '%s'", shell);
}
