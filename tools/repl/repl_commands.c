/* The table of the repl's commands, and what all of them share: messages, arguments, settings,
 * help. What is printed is the same in a terminal and through a pipe. */
#include "base/mem.h"
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <stdio.h>
#include <string.h>

size_t repl_n_logits(const struct repl *r)
{
    return (size_t)r->engine.info.n_vocab;
}

/* An empty session of a model with BOS begins with it. */
const float *repl_logits(struct repl *r)
{
    mgpt_error err;
    int32_t bos = r->engine.info.bos;
    if (!repl_compute_logits(r))
        return NULL;
    if (mgpt_pos(r->engine.session) > 0)
        return mgpt_logits(r->engine.session);
    const int32_t *ahead = r->branches[r->current].ahead;
    if (arr_len(ahead) > 0 && ahead[0] != bos) { /* BOS would put an end to them */
        repl_error("nothing before position 0: /goto 1 goes on");
        return NULL;
    }
    if (bos < 0) {
        repl_error("nothing to continue: type a text first (this model has no BOS token)");
        return NULL;
    }
    int status = arr_len(ahead) > 0 ? repl_go(r, 1, &err) : repl_append(r, &bos, 1, &err);
    if (status == MGPT_OK)
        return mgpt_logits(r->engine.session);
    repl_failed(&err);
    return NULL;
}

const struct hook *repl_hooks(struct repl *r)
{
    mgpt_error err;
    if (!r->hooks && !(r->hooks = hooks_list(r->engine.model, &err)))
        repl_failed(&err);
    return r->hooks;
}

/* ---- help ---- */

static void print_one(const struct repl_command *c)
{
    printf("%s%s%s\n  %s\n  example: %s\n", c->names[0], *c->usage ? " " : "", c->usage, c->help,
           c->example);
}

/* In the list: names and arguments, what it does, wrapped. */
static void list_one(const struct repl_command *c)
{
    enum { COLUMN = 22, WIDTH = 76 };
    int at = printf(" "), room = WIDTH - COLUMN;
    for (const char *const *name = c->names; *name; name++)
        at += printf(" %s", *name);
    at += printf(" %s", c->usage);
    const char *rest = c->help;
    if (at >= COLUMN)
        at = printf("\n") - 1;
    for (;;) {
        int n = (int)strlen(rest);
        if (n > room)
            for (n = room; n > 0 && rest[n] != ' ';)
                n--;
        printf("%*s%.*s\n", COLUMN - at, "", n, rest);
        if (!rest[n])
            return;
        rest += n + 1;
        at = 0;
    }
}

static void list_first(void)
{
    static const char *const first[] = {"/top", "/g", "/b", "/a", "/lens", "/ab", "/save", "/quit"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        list_one(repl_named(first[i], strlen(first[i])));
    puts("/help all lists the others, /help COMMAND explains one with an example.");
}

static void list_all(void)
{
    for (size_t i = 0; i < repl_n_commands; i++) {
        const struct repl_command *c = &repl_commands[i];
        if (!c->names[0])
            printf("%s:\n", c->help);
        else
            list_one(c);
    }
}

void repl_run_help(struct repl *r, struct repl_args *args)
{
    char name[32];
    int all = strcmp(args->rest, "all") == 0;
    (void)r;
    if (*args->rest && !all) {
        snprintf(name, sizeof name, "%s%s", *args->rest == '/' ? "" : "/", args->rest);
        const struct repl_command *c = repl_find(name);
        if (c)
            print_one(c);
        return;
    }
    puts("  text                feed it to the model (a leading slash is written twice)\n"
         "  Enter               draw one token and keep it\n"
         "  help ? quit exit    as /help and /quit (/feed quit feeds the word)");
    if (all)
        list_all();
    else
        list_first();
}

void repl_run_quit(struct repl *r, struct repl_args *args)
{
    (void)args;
    r->quit = 1;
}

/* ---- the table ---- */

#define NAMES(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define HEADING(title) {.help = title},
#define COMMAND(names, usage, types, run, help, example) {names, usage, types, run, help, example},
const struct repl_command repl_commands[] = {
#include "repl/commands.inc"
};
const size_t repl_n_commands = sizeof repl_commands / sizeof *repl_commands;

const struct repl_command *repl_named(const char *name, size_t n)
{
    for (size_t i = 0; i < repl_n_commands; i++)
        for (const char *const *own = repl_commands[i].names; *own; own++)
            if (strlen(*own) == n && memcmp(*own, name, n) == 0)
                return &repl_commands[i];
    return NULL;
}

const struct repl_command *repl_find(const char *name)
{
    const char *names[REPL_NAMES * sizeof repl_commands / sizeof *repl_commands], *near;
    const struct repl_command *found = repl_named(name, strlen(name));
    size_t n = 0;
    if (found)
        return found;
    for (size_t i = 0; i < repl_n_commands; i++)
        for (const char *const *own = repl_commands[i].names; *own; own++)
            names[n++] = *own;
    near = cli_nearest(name, names, n);
    repl_error("unknown command %s%s%s%s (/help all lists them)", name,
               near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
    return NULL;
}

/* ---- lines ---- */

static void run_command(struct repl *r, const struct repl_command *command, char *rest, size_t n)
{
    struct repl_args args = {.repl = r, .command = command, .rest = rest, .end = rest + n};
    if (repl_args_read(&args))
        command->run(r, &args);
}

static void command_line(struct repl *r, char *line, size_t n)
{
    char *rest = line + strcspn(line, " \t");
    while (*rest == ' ' || *rest == '\t')
        *rest++ = 0;
    const struct repl_command *command = repl_find(line);
    if (!command)
        return;
    n -= (size_t)(rest - line);
    while (command->run != repl_run_feed && n > 0 && (rest[n - 1] == ' ' || rest[n - 1] == '\t'))
        rest[--n] = 0; /* in a text they count */
    run_command(r, command, rest, n);
}

/* Lines that people type before they know that commands have a slash. */
static const struct cli_synonym plain[] = {
    {"quit", "/quit"}, {"exit", "/quit"}, {"help", "/help"}, {"?", "/help"}};

static void any_line(struct repl *r, char *line, size_t n)
{
    const char *meant = cli_synonym(line, plain, sizeof plain / sizeof *plain);
    if (n == 0)
        repl_step(r);
    else if (meant)
        run_command(r, repl_find(meant), line + n, 0);
    else if (line[0] == '/' && line[1] != '/')
        command_line(r, line, n);
    else if (line[0] == '/')
        repl_feed(r, line + 1, n - 1);
    else
        repl_feed(r, line, n);
}

void repl_line(struct repl *r, char *line, size_t n)
{
    any_line(r, line, n);
    repl_watch_print(r);
}
