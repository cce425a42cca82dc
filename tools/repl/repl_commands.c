/* The table of the repl's commands, and what all of them share: messages, arguments, settings,
 * help. What is printed is the same in a terminal and through a pipe. */
#include "base/mem.h"
#include "repl/repl.h"

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
    if (!repl_settle(r))
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

/* ---- settings ---- */

static void print_settings(const struct repl *r)
{
    const mgpt_sampler *s = &r->sampling.sampler;
    printf("temp %g, top-k %d, top-p %g, min-p %g, seed %llu\n", (double)s->temperature,
           (int)s->top_k, (double)s->top_p, (double)s->min_p, (unsigned long long)r->sampling.seed);
}

/* Stores value in the setting called name; 0 after telling the user what is wrong. */
static int change(struct sampling *s, const char *name, const char *value)
{
    const struct cli_option rows[] = {
        {"temp", NULL, CLI_REAL, &s->temperature, 0, 1e30, "a number from 0 on"},
        {"top-k", NULL, CLI_INT, &s->top_k, 0, INT32_MAX, "a whole number from 0 on"},
        {"top-p", NULL, CLI_REAL, &s->top_p, 0, 1, "a number from 0 to 1"},
        {"min-p", NULL, CLI_REAL, &s->min_p, 0, 1, "a number from 0 to 1"},
        {"seed", NULL, CLI_U64, &s->seed, 0, 0, "a whole number from 0 on"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) != 0)
            continue;
        if (cli_set_number(&rows[i], value))
            return 1;
        repl_error("%s: expected %s, found '%s'", name, rows[i].help, value);
        return 0;
    }
    repl_error("unknown setting '%s': temp, top-k, top-p, min-p or seed", name);
    return 0;
}

static void run_set(struct repl *r, char *args, size_t n)
{
    char *value = args, *name = repl_word(&value);
    if (n == 0) {
        print_settings(r);
    } else if (change(&r->sampling, name, value)) {
        sampling_apply(&r->sampling);
        if (strcmp(name, "seed") == 0)
            sampling_seed(&r->sampling, r->sampling.seed);
    }
}

/* ---- help ---- */

static void print_one(const struct repl_command *c)
{
    printf("%s%s%s\n  %s\n  example: %s\n", c->name, *c->args ? " " : "", c->args, c->help,
           c->example);
}

/* In the list: names and arguments, what it does, wrapped. */
static void list_one(const struct repl_command *c)
{
    enum { NAMES = 22, WIDTH = 76 };
    int at = printf("  %s", c->name), room = WIDTH - NAMES;
    for (int i = 0; i < REPL_ALSO && c->also[i]; i++)
        at += printf(" %s", c->also[i]);
    at += printf(" %s", c->args);
    const char *rest = c->help;
    if (at >= NAMES)
        at = printf("\n") - 1;
    for (;;) {
        int n = (int)strlen(rest);
        if (n > room)
            for (n = room; n > 0 && rest[n] != ' ';)
                n--;
        printf("%*s%.*s\n", NAMES - at, "", n, rest);
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
        if (!c->name)
            printf("%s:\n", c->help);
        else
            list_one(c);
    }
}

static void run_help(struct repl *r, char *args, size_t n)
{
    char name[32];
    int all = strcmp(args, "all") == 0;
    (void)r;
    if (n > 0 && !all) {
        snprintf(name, sizeof name, "%s%s", *args == '/' ? "" : "/", args);
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

static void run_quit(struct repl *r, char *args, size_t n)
{
    (void)args;
    (void)n;
    r->quit = 1;
}

/* ---- the table ---- */

const struct repl_command repl_commands[] = {
    {NULL, {NULL}, NULL, "moving", NULL, NULL},
    {"/feed",
     {NULL},
     "TEXT",
     "feed text with escapes: \\n \\t \\\\ \\xFF \\u{1F600}",
     "/feed ann\\x61",
     repl_run_feed},
    {"/ids",
     {NULL},
     "TOKEN...",
     "feed tokens by id, or by their text in quotes",
     "/ids 11 \"e\" 0",
     repl_run_ids},
    {"/s",
     {"/step", "/sample"},
     "[N]",
     "step: draw N tokens and keep them (default 1)",
     "/s 2",
     repl_run_steps},
    {"/g",
     {"/generate"},
     "[N]",
     "generate text until its end, the context, or N tokens",
     "/g 3",
     repl_run_generate},
    {"/b",
     {"/back"},
     "[N]",
     "back N tokens (default 1); they stay ahead until others are fed or drawn",
     "/b 3",
     repl_run_back},
    {"/goto", {NULL}, "P", "go to position P, back or forward again", "/goto 4", repl_run_goto},
    {"/reset",
     {NULL},
     "",
     "forget this timeline's tokens, start the random numbers anew",
     "/reset",
     repl_run_reset},
    {"/quit", {"/exit"}, "", "end the session", "/quit", run_quit},
    {NULL, {NULL}, NULL, "the next token", NULL, NULL},
    {"/top",
     {NULL},
     "[K]",
     "the K likeliest next tokens (default 10) and the entropy",
     "/top 3",
     repl_run_top},
    {"/p",
     {"/probability"},
     "TOKEN",
     "one next token by id or text (in quotes if it is a number): its probability",
     "/p \"n\"",
     repl_run_p},
    {"/set",
     {NULL},
     "[NAME X]",
     "choose by temp, top-k, top-p, min-p, seed; alone: show them",
     "/set temp 0.8",
     run_set},
    {NULL, {NULL}, NULL, "timelines", NULL, NULL},
    {"/tokens",
     {NULL},
     "",
     "the tokens held so far, and those ahead",
     "/tokens",
     repl_run_tokens_held},
    {"/edit",
     {NULL},
     "P TOKEN",
     "replace the token at position P, run the rest again: what changes?",
     "/edit 2 \"m\"",
     repl_run_edit},
    {"/branch",
     {NULL},
     "NAME",
     "copy this timeline under a new name and go on there",
     "/branch other",
     repl_run_branch},
    {"/sw", {"/switch"}, "NAME", "switch to another timeline", "/sw main", repl_run_switch},
    {"/branches",
     {NULL},
     "",
     "all timelines; a star marks the current one",
     "/branches",
     repl_run_branches},
    {"/diff",
     {NULL},
     "NAME",
     "where another timeline differs, and how its next token does",
     "/diff try",
     repl_run_diff},
    {"/save",
     {NULL},
     "FILE",
     "write timelines, settings and edits to a file",
     "/save names.session",
     repl_run_save},
    {"/load",
     {NULL},
     "FILE",
     "read them back, in place of those here",
     "/load names.session",
     repl_run_load},
    {NULL, {NULL}, NULL, "taking parts out", NULL, NULL},
    {"/ab",
     {"/ablate"},
     "[L.H|mlp.L zero|mean|off]",
     "ablate: head H of layer L, or an MLP, gives zeros, or its mean over this timeline as it is "
     "without edits; for all tokens and timelines. off: end it; alone: list",
     "/ab 0.1 zero",
     repl_run_ablate},
    {"/scale",
     {NULL},
     "L.H|mlp.L X",
     "multiply what a head or an MLP gives by X; 1 ends it",
     "/scale mlp.0 0.5",
     repl_run_scale},
    {NULL, {NULL}, NULL, "looking inside (each takes -o FILE: its numbers as text)", NULL, NULL},
    {"/a",
     {"/attention"},
     "L H [scores|log] [future]",
     "attention of a head: weights, or scores before softmax; future: scores that keys would have "
     "which are not seen",
     "/a 0 3",
     view_attention},
    {"/h",
     {"/heads"},
     "L",
     "all heads of a layer side by side, and what the last token looks at most",
     "/h 0",
     view_heads},
    {"/qk",
     {"/dot"},
     "L H I J",
     "query I times key J, dimension by dimension; -1 is the last position",
     "/qk 0 0 -1 1",
     view_dot},
    {"/v",
     {"/value", "/values"},
     "L H I",
     "the values that a head mixes for query I",
     "/v 0 3 -1",
     view_mix},
    {"/lens",
     {NULL},
     "[P]",
     "what the model would say at position P after every half layer",
     "/lens -1",
     view_lens},
    {"/dla",
     {"/attribution"},
     "[P [TOKEN [OTHER]]]",
     "what each head and MLP adds to the logit of TOKEN (default: the likeliest), less that of "
     "OTHER (default: the mean)",
     "/dla -1 n a",
     view_dla},
    {"/r", {"/residual"}, "", "length of the residual by layer and position", "/r", view_norms},
    {"/m",
     {"/mlp", "/neurons"},
     "L [P]",
     "the strongest neurons of an MLP at a position",
     "/m 0 -1",
     view_neurons},
    {"/kv",
     {"/cache"},
     "L H",
     "the cache: bytes, positions, keys and values of a KV head",
     "/kv 0 0",
     view_cache},
    {"/w",
     {"/weight", "/tensor"},
     "NAME",
     "a tensor of the file: shape, range, mean, histogram",
     "/w blk.0.attn_q.weight",
     view_tensor},
    {"/trace",
     {NULL},
     "[on HOOKS FILE|off]",
     "write these hooks (with * and ?) of the tokens of the timeline to a .npz or .safetensors "
     "file when it is ended; alone: is one on?",
     "/trace on blocks.*.attn.hook_pattern names.npz",
     repl_run_trace},
    {NULL, {NULL}, NULL, "help", NULL, NULL},
    {"/help",
     {"/?"},
     "[COMMAND|all]",
     "the most used commands, one command with an example, or all",
     "/help top",
     run_help},
};
const size_t repl_n_commands = sizeof repl_commands / sizeof *repl_commands;

static int has_name(const char *own, const char *name, size_t n)
{
    return own && strlen(own) == n && memcmp(own, name, n) == 0;
}

const struct repl_command *repl_named(const char *name, size_t n)
{
    for (size_t i = 0; i < repl_n_commands; i++) {
        const struct repl_command *c = &repl_commands[i];
        if (has_name(c->name, name, n))
            return c;
        for (int k = 0; k < REPL_ALSO; k++)
            if (has_name(c->also[k], name, n))
                return c;
    }
    return NULL;
}

const struct repl_command *repl_find(const char *name)
{
    const char *names[(1 + REPL_ALSO) * sizeof repl_commands / sizeof *repl_commands], *near;
    const struct repl_command *found = repl_named(name, strlen(name));
    size_t n = 0;
    if (found)
        return found;
    for (size_t i = 0; i < repl_n_commands; i++) {
        if (repl_commands[i].name)
            names[n++] = repl_commands[i].name;
        for (int k = 0; k < REPL_ALSO && repl_commands[i].also[k]; k++)
            names[n++] = repl_commands[i].also[k];
    }
    near = cli_nearest(name, names, n);
    if (near)
        repl_error("unknown command %s, did you mean %s? (/help all lists them)", name, near);
    else
        repl_error("unknown command %s (/help all lists them)", name);
    return NULL;
}

/* ---- lines ---- */

static void run_command(struct repl *r, char *line, size_t n)
{
    char *args = line + strcspn(line, " \t");
    while (*args == ' ' || *args == '\t')
        *args++ = 0;
    const struct repl_command *command = repl_find(line);
    if (!command)
        return;
    n -= (size_t)(args - line);
    while (command->run != repl_run_feed && n > 0 && (args[n - 1] == ' ' || args[n - 1] == '\t'))
        args[--n] = 0; /* in a text they count */
    command->run(r, args, n);
}

/* Lines that people type before they know that commands have a slash. */
static const struct cli_synonym plain[] = {
    {"quit", "/quit"}, {"exit", "/quit"}, {"help", "/help"}, {"?", "/help"}};

void repl_line(struct repl *r, char *line, size_t n)
{
    const char *meant = cli_synonym(line, plain, sizeof plain / sizeof *plain);
    if (n == 0)
        repl_step(r);
    else if (meant)
        repl_find(meant)->run(r, line + n, 0);
    else if (line[0] == '/' && line[1] != '/')
        run_command(r, line, n);
    else if (line[0] == '/')
        repl_feed(r, line + 1, n - 1);
    else
        repl_feed(r, line, n);
}
