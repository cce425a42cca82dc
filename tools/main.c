/* The mgpt binary: a table of commands, each in a file of its own (cmd_*.c).
 *
 * What holds for all of them is set up here: the three standard streams exist, and a reader that
 * goes away, or a limit on the size of files (ulimit -f), is a write error (exit 5) instead of a
 * signal.
 */
#include "common/cli.h"
#include "common/commands.h"
#include "common/files.h"
#include "common/interrupt.h"
#include "completions.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int cmd_completions(int argc, char **argv);

static const struct command commands[] = {
    {"generate", "continue a text, one token at a time", cmd_generate},
    {"repl", "step through a model: one Enter, one token", cmd_repl},
    {"check", "compare the logits with a reference", cmd_check},
    {"trace", "every value inside a model, to a file", cmd_trace},
    {"patch", "which value inside a model makes the difference", cmd_patch},
    {"attend", "attention on small matrices, stage by stage", cmd_attend},
    {"lab", "a web page in which the model runs", cmd_lab},
    {"score", "log-probability and perplexity of texts", cmd_score},
    {"tokenize", "text to token ids and back", cmd_tokenize},
    {"info", "what is in a model file", cmd_info},
    {"convert", "a checkpoint of another program to GGUF", cmd_convert},
    {"imatrix", "what each matrix multiplies, for convert --imatrix", cmd_imatrix},
    {"bench", "speed, as a share of the machine", cmd_bench},
    {"completions", "what Tab completes in bash, zsh and fish", cmd_completions},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int cmd_completions(int argc, char **argv)
{
    return completions(commands, N_COMMANDS, argc, argv);
}

static void print_usage(FILE *to)
{
    fputs("usage: mgpt COMMAND [options]\n\n"
          "A small GPT engine: runs GGUF models one token at a time and shows what happens.\n\n"
          "commands:\n",
          to);
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].run)
            fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fputs("\nmgpt help COMMAND explains a command; mgpt --version prints the version.\n"
          "Example: mgpt generate weights/names.gguf --samples 5\n\n",
          to);
    cli_print_exits(to, NULL);
}

/* With a standard stream closed, the next file opened would take its number, and what is meant for
 * the stream would go into that file. /dev/null opened the wrong way round keeps the number taken
 * and still fails, as a closed stream should. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

/* Words that other programs have for a command: the error line for one names the command here. */
static const struct cli_synonym synonyms[] = {
    {"run", "generate"},    {"complete", "generate"},
    {"sample", "generate"}, {"chat", "generate --chat"},
    {"cli", "generate"},    {"shell", "repl"},
    {"debug", "repl"},      {"interactive", "repl"},
    {"compare", "check"},   {"verify", "check"},
    {"test", "check"},      {"diff", "check"},
    {"explain", "check"},   {"activations", "trace"},
    {"dump", "trace"},      {"attention", "attend"},
    {"serve", "lab"},       {"server", "lab"},
    {"web", "lab"},         {"page", "lab"},
    {"html", "lab"},        {"perplexity", "score"},
    {"ppl", "score"},       {"eval", "score"},
    {"loss", "score"},      {"encode", "tokenize"},
    {"decode", "tokenize"}, {"tokens", "tokenize"},
    {"show", "info"},       {"inspect", "info"},
    {"import", "convert"},  {"quantize", "convert"},
    {"benchmark", "bench"}, {"speed", "bench"},
    {"ablate", "patch"},    {"shapley", "patch --why"},
};

static int unknown_command(const char *word)
{
    const char *names[N_COMMANDS], *near;
    for (size_t i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    if (access(word, F_OK) == 0) {
        cli_note("%s is a file, expected a command: mgpt generate %s (see mgpt --help)", word,
                 word);
        return EXIT_USAGE;
    }
    near = cli_synonym(word, synonyms, sizeof synonyms / sizeof *synonyms);
    if (!near)
        near = cli_nearest(word, names, N_COMMANDS);
    if (near)
        cli_note("unknown command '%s', did you mean '%s'? (see mgpt --help)", word, near);
    else
        cli_note("unknown command '%s' (see mgpt --help)", word);
    return EXIT_USAGE;
}

#ifdef _WIN32
/* What does the same, for each of the commands that Windows has not. */
static const char *instead_of(const char *name)
{
    if (strcmp(name, "convert") == 0)
        return "convert in WSL or on Linux, the GGUF file runs here";
    if (strcmp(name, "lab") == 0)
        return "write the page in WSL or on Linux, browsers here open it";
    return "patch in WSL or on Linux, or here in Python (Model.patch with a function)";
}

static void say_missing(const struct command *command)
{
    cli_note("%s is not in the Windows program: %s", command->name, instead_of(command->name));
}
#else
static void say_missing(const struct command *command)
{
    cli_note("%s is not in this build (meson setup -D%s=enabled)", command->name,
             strcmp(command->name, "convert") == 0 ? "convert" : "lab");
}
#endif

static int run_command(const struct command *command, int argc, char **argv)
{
    if (!command->run) {
        say_missing(command);
        return EXIT_USAGE;
    }
    int code = command->run(argc, argv);
    interrupt_die();
    return code;
}

static const struct command *find_command(const char *word)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(word, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* mgpt help [COMMAND] */
static int help(int argc, char **argv)
{
    char flag[] = "--help";
    const struct command *command = argc > 2 ? find_command(argv[2]) : NULL;
    if (argc > 2 && !command && strcmp(argv[2], "help") != 0)
        return unknown_command(argv[2]);
    if (command)
        return run_command(command, 2, (char *[]){argv[2], flag, NULL});
    print_usage(stdout);
    return cli_finish(EXIT_OK);
}

/* mgpt COMMAND help, unless there is a file of that name. */
static int is_help(int argc, char **argv)
{
    return argc == 3 && strcmp(argv[2], "help") == 0 && access("help", F_OK) < 0;
}

int main(int argc, char **argv)
{
    hold_standard_streams();
#ifdef SIGPIPE /* Windows has neither */
    signal(SIGPIPE, SIG_IGN);
#endif
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN);
#endif
    files_catch_truncation();
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    const struct command *command = find_command(word);
    if (command && is_help(argc, argv))
        return help(3, (char *[]){argv[0], argv[2], argv[1], NULL});
    if (command)
        return run_command(command, argc - 1, argv + 1);
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return help(argc, argv);
    if (strcmp(word, "--version") != 0 && strcmp(word, "-V") != 0 && strcmp(word, "version") != 0)
        return unknown_command(word);
    printf("mgpt %s\n", mgpt_version());
    return cli_finish(EXIT_OK);
}
