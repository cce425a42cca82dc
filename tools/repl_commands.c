/* The table of the repl's commands, and what all of them share: messages, arguments, settings,
 * help. What is printed is the same in a terminal and through a pipe. */
#include "repl.h"

#include <stdarg.h>
#include <stdio.h>
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

void repl_failed(const mgpt_error *err)
{
    fflush(stdout);
    if (err->status == MGPT_ESTOP)
        cli_note("stopped");
    else
        cli_fail(NULL, err);
}

size_t repl_n_logits(const struct repl *r)
{
    return (size_t)r->engine.info.n_vocab;
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

/* The logits to choose from; an empty session of a model with BOS begins with it. */
const float *repl_logits(struct repl *r)
{
    mgpt_error err;
    int32_t bos = r->engine.info.bos;
    const float *logits = mgpt_logits(r->engine.session);
    if (logits)
        return logits;
    if (mgpt_pos(r->engine.session) > 0) {
        repl_error("no logits for the last token: /b goes back to the one before it");
        return NULL;
    }
    if (bos < 0) {
        repl_error("nothing to continue: type a text first (this model has no BOS token)");
        return NULL;
    }
    logits = mgpt_step(r->engine.session, bos, &err);
    if (!logits)
        repl_failed(&err);
    return logits;
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
    char *value = args + strcspn(args, " \t");
    while (*value == ' ' || *value == '\t')
        *value++ = 0;
    if (n == 0) {
        print_settings(r);
    } else if (change(&r->sampling, args, value)) {
        sampling_apply(&r->sampling);
        if (strcmp(args, "seed") == 0)
            sampling_seed(&r->sampling, r->sampling.seed);
    }
}

/* ---- help ---- */

static void print_one(const struct repl_command *c)
{
    printf("%s%s%s\n  %s\n  example: %s\n", c->name, *c->args ? " " : "", c->args, c->help,
           c->example);
}

static void run_help(struct repl *r, char *args, size_t n)
{
    char name[32];
    (void)r;
    if (n > 0) {
        snprintf(name, sizeof name, "%s%s", *args == '/' ? "" : "/", args);
        const struct repl_command *c = repl_find(name);
        if (c)
            print_one(c);
        return;
    }
    puts("  text            feed it to the model (a leading slash is written twice)\n"
         "  Enter           draw one token and keep it");
    for (size_t i = 0; i < repl_n_commands; i++) {
        const struct repl_command *c = &repl_commands[i];
        snprintf(name, sizeof name, "%s %s", c->name, c->args);
        printf("  %-15s %s\n", name, c->help);
    }
}

static void run_quit(struct repl *r, char *args, size_t n)
{
    (void)args;
    (void)n;
    r->quit = 1;
}

/* ---- the table ---- */

const struct repl_command repl_commands[] = {
    {"/feed", "TEXT", "feed text with escapes: \\n \\t \\\\ \\xFF \\u{1F600}",
     "/feed one line\\n    feeds the line end too", repl_run_feed},
    {"/ids", "N...", "feed tokens by id", "/ids 26 0 13", repl_run_ids},
    {"/s", "[N]", "step: draw N tokens and keep them (default 1)", "/s 5", repl_run_steps},
    {"/g", "[N]", "generate text until its end, the context, or N tokens", "/g 100",
     repl_run_generate},
    {"/b", "[N]", "back: forget the last N tokens (default 1)", "/b 3", repl_run_back},
    {"/top", "[K]", "the K likeliest next tokens (default 10) and the entropy", "/top 3",
     repl_run_top},
    {"/p", "TOKEN", "one next token: an id, or its text (in quotes if it is a number)",
     "/p \"n\"    probability, logit and rank of the token n", repl_run_p},
    {"/tokens", "", "the tokens held so far", "/tokens", repl_run_tokens},
    {"/a", "L H [scores|log] [future]", "attention of a head: weights, or scores before softmax",
     "/a 0 3    layer 0, head 3; future: also scores of keys not seen", view_attention},
    {"/h", "L", "all heads of a layer side by side, and what the last token looks at", "/h 0",
     view_heads},
    {"/qk", "L H I J", "query I times key J, dimension by dimension", "/qk 0 0 4 2", view_dot},
    {"/v", "L H I", "the values that a head mixes for query I", "/v 0 3 -1    of the last token",
     view_mix},
    {"/lens", "[P]", "what the model would say after every half layer", "/lens -1", view_lens},
    {"/dla", "[P [TOKEN [OTHER]]]", "what each head and MLP adds to a token's logit",
     "/dla -1 n a    n against a, after the last token", view_dla},
    {"/r", "", "length of the residual by layer and position", "/r", view_norms},
    {"/m", "L [P]", "the strongest neurons of an MLP", "/m 0 -1", view_neurons},
    {"/kv", "L H", "the cache: its size, keys and values of a head", "/kv 0 0", view_cache},
    {"/w", "NAME", "a tensor: shape, range, mean, histogram",
     "/w blk.0.attn_q.weight    (mgpt info --tensors lists the names)", view_tensor},
    {"/set", "[NAME X]", "choose by temp, top-k, top-p, min-p, seed; alone: show them",
     "/set temp 0.8", run_set},
    {"/reset", "", "forget all tokens, start the random numbers anew", "/reset", repl_run_reset},
    {"/help", "[COMMAND]", "this list, or one command with an example", "/help top", run_help},
    {"/quit", "", "end the session", "/quit", run_quit},
};
const size_t repl_n_commands = sizeof repl_commands / sizeof *repl_commands;

const struct repl_command *repl_find(const char *name)
{
    const char *names[sizeof repl_commands / sizeof *repl_commands], *near;
    for (size_t i = 0; i < repl_n_commands; i++) {
        names[i] = repl_commands[i].name;
        if (strcmp(name, names[i]) == 0)
            return &repl_commands[i];
    }
    near = cli_nearest(name, names, repl_n_commands);
    if (near)
        repl_error("unknown command %s, did you mean %s? (/help lists them)", name, near);
    else
        repl_error("unknown command %s (/help lists them)", name);
    return NULL;
}
