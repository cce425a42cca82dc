/* /generate and /until: drawing until something happens. See repl.h. */
#include "common/interrupt.h"
#include "common/text.h"
#include "repl/repl.h"
#include "repl/repl_args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number of the next token's distribution. */
typedef double measure_fn(const float *logits, size_t n);

/* What ends the drawing before the text ends. UNTIL_NEVER: nothing does. */
struct until {
    struct stops stops;  /* a text */
    int32_t token;       /* a token; -1: none */
    measure_fn *measure; /* a number of the next token's distribution above or below a bound */
    const char *name;
    double bound, value;
    int above;
};

#define UNTIL_NEVER                                                                                \
    {                                                                                              \
        .token = -1                                                                                \
    }

static int is_never(const struct until *u)
{
    return u->stops.n == 0 && u->token < 0 && !u->measure;
}

static double entropy_of(const float *logits, size_t n)
{
    mgpt_candidate top;
    return mgpt_top(logits, n, &top, 1) ? repl_entropy(logits, n, &top) : 0;
}

static double likeliest_of(const float *logits, size_t n)
{
    mgpt_candidate top;
    return mgpt_top(logits, n, &top, 1) ? exp(top.logprob) : 0;
}

/* Text continues where it stopped: the stream gets the tokens held, without printing them. */
static void resume_text(const struct repl *r, struct text_out *out, FILE *to)
{
    text_out_open(out, r->engine.model, to);
    out->terminal = to != NULL; /* a script's output is read by people too: always escaped */
    const int32_t *tokens = mgpt_tokens(r->engine.session);
    for (size_t i = 0; i < mgpt_pos(r->engine.session); i++)
        text_out_token(out, tokens[i], 1);
}

/* 1 when it has happened with this token. `drawn` is the text so far, ended by a stop text. */
static int has_happened(struct repl *r, struct until *u, int32_t token,
                        const struct text_out *drawn)
{
    if (!u->measure)
        return token == u->token || drawn->stopped;
    const float *logits = repl_logits(r);
    u->value = logits ? u->measure(logits, repl_n_logits(r)) : 0;
    return logits && (u->above ? u->value > u->bound : u->value < u->bound);
}

static void print_end(const struct repl *r, const struct until *u, int32_t drawn, int ends,
                      int happens)
{
    printf("\ndrew %d", (int)drawn);
    if (ends)
        fputs(", end of the text", stdout);
    else if (!happens && !is_never(u))
        fputs(", it has not happened", stdout);
    else if (u->measure)
        printf(", %s %.4f", u->name, u->value);
    printf(" (%zu of %zu)\n", mgpt_pos(r->engine.session), mgpt_n_ctx(r->engine.session));
}

/* The text has gone back: both go on from there. */
static void start_again(const struct repl *r, const struct until *u, const struct edit_text *banned,
                        struct text_out *out, struct text_out *text)
{
    text_out_end(out);
    putchar('\n');
    repl_run_say_back(r, banned);
    text_out_close(out);
    text_out_close(text);
    resume_text(r, out, stdout);
    resume_text(r, text, NULL);
    text_out_drawn(text, &u->stops);
}

/* How much longer the text is than at `start`. If --ban has taken back more than that, it begins anew there. */
static int32_t grown(const struct repl *r, size_t *start)
{
    size_t pos = mgpt_pos(r->engine.session);
    *start = pos < *start ? pos : *start;
    return (int32_t)(pos - *start);
}

/* Draws until the text has `limit` tokens more. */
static void generate_until(struct repl *r, int32_t limit, struct until *u)
{
    struct text_out out, text;
    const float *logits;
    int32_t drawn = 0;
    int ends = 0, happens = 0;
    const struct edit_text *banned;
    if (!repl_logits(r)) /* an empty text gets its BOS */
        return;
    size_t start = mgpt_pos(r->engine.session);
    resume_text(r, &out, stdout);
    resume_text(r, &text, NULL);
    text_out_drawn(&text, &u->stops);
    while (drawn < limit && !happens && !ends && !interrupted() && !ferror(stdout)) {
        if (mgpt_pos(r->engine.session) == mgpt_n_ctx(r->engine.session))
            break;
        int32_t token = repl_run_draw(r, &logits);
        ends = token < 0 || mgpt_is_end(r->engine.model, token);
        if (ends || !repl_run_keep(r, token, &banned))
            break;
        text_out_token(&out, token, 0);
        drawn = grown(r, &start);
        if (banned) {
            start_again(r, u, banned, &out, &text);
            continue;
        }
        text_out_token(&text, token, 0);
        ends = chooser_is_complete(&r->sampling.chooser, mgpt_tokens(r->engine.session),
                                   mgpt_pos(r->engine.session));
        happens = has_happened(r, u, token, &text);
    }
    text_out_end(&out);
    text_out_close(&out);
    text_out_close(&text);
    if (out.failed.status < 0 || text.failed.status < 0)
        repl_failed(out.failed.status < 0 ? &out.failed : &text.failed);
    print_end(r, u, drawn, ends, happens);
}

void repl_run_generate(struct repl *r, struct repl_args *args)
{
    struct until never = UNTIL_NEVER;
    generate_until(r, args->count ? args->count : INT32_MAX, &never);
}

/* ---- what to wait for ---- */

static const struct {
    const char *name;
    measure_fn *of;
} measures[] = {{"entropy", entropy_of}, {"p", likeliest_of}};

/* "entropy > 2": 1 when the rest of the line is that, 0 when it is something else, -1 after an error. */
static int read_measure(struct repl_args *args, struct until *u)
{
    const struct cli_option number = {.kind = CLI_REAL, .to = &u->bound, .min = 0, .max = 1e30};
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
        size_t n = strlen(measures[i].name);
        if (strncmp(args->rest, measures[i].name, n) != 0)
            continue;
        const char *at = args->rest + n + strspn(args->rest + n, " ");
        if (*at != '<' && *at != '>')
            continue;
        u->above = *at++ == '>';
        at += strspn(at, " ");
        u->name = measures[i].name;
        u->measure = measures[i].of;
        if (cli_set_number(&number, at))
            return 1;
        repl_error("%s %c: expected a number from 0 on, found '%s'", u->name, u->above ? '>' : '<',
                   at);
        return -1;
    }
    return 0;
}

/* Reads the rest of the line as a text, which may be in quotes, with escapes. */
static int read_stop_text(struct repl *r, struct repl_args *args, struct until *u)
{
    char *text = args->rest;
    size_t n = (size_t)(args->end - text);
    if (n >= 2 && text[0] == '"' && text[n - 1] == '"') {
        text++;
        n -= 2;
    }
    int64_t length = text_unescape(text, n);
    if (length < 0)
        repl_bad_escape();
    else if (length == 0)
        repl_error("until what? A text, entropy > X, p < X, or token T");
    else if (text_is_none(r->engine.model))
        repl_error("the model has no vocabulary, so its text is ids: /until token T");
    else
        u->stops = (struct stops){{{text, (size_t)length}}, 1};
    return length > 0 && u->stops.n > 0;
}

void repl_run_until(struct repl *r, struct repl_args *args)
{
    static const char word[] = "token ";
    struct until until = UNTIL_NEVER;
    int found = read_measure(args, &until);
    if (found == 0 && strncmp(args->rest, word, strlen(word)) == 0) {
        args->rest += strlen(word);
        found = repl_read_token(r, args->rest, (size_t)(args->end - args->rest), &until.token);
    } else if (found == 0) {
        found = read_stop_text(r, args, &until);
    }
    if (found > 0)
        generate_until(r, INT32_MAX, &until);
}
