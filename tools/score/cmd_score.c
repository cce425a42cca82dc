/* mgpt score: log-probabilities of texts, perplexity of all of them.
 *
 * A text is a line. It is read as a document: BOS in front when the model has one, the end token
 * after it when the model has one; every token but the first is scored. A text longer than the
 * context is scored as far as the context goes, as microgpt does.
 *
 * With --json a line is an object and becomes one (score_json.h), also when it cannot be scored: a
 * file can be cut into shards anywhere between lines, and their results put together.
 */
#include "base/error.h"
#include "common/commands.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "engine/engine.h"
#include "engine/input.h"
#include "score/score_json.h"
#include "score/score_texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts are scored in windows of so few texts or tokens that output does not wait long. */
enum { WINDOW = 1024, WINDOW_TOKENS = 1 << 13 };

enum {
    MOST_LINE = 64 << 20
}; /* bytes; a longer text is cut at the context, but somewhere it ends */

struct score_run {
    struct engine engine;
    struct scorer scorer;
    struct scored_text window[WINDOW];
    struct score_line lines[WINDOW]; /* --json: the same texts */
    size_t n_window, n_waiting;      /* texts in hand, and their tokens */
    const char *file;
    int each, no_bos, no_end, json;
    int32_t top;
    size_t n_bad,
        first_bad; /* lines that cannot be scored; the number of the first and its reason */
    char why_bad[sizeof(((mgpt_error *)0)->text)];
    size_t n_texts, n_tokens, n_cut;
    double nll; /* nats */
};

static const char notes[] =
    "Empty lines are skipped. Prints the number of texts and tokens, the negative log-likelihood\n"
    "per token in nats and in bits, and the perplexity.\n\n"
    "With --json each line is {\"text\": \"...\"}, with an \"id\" of any kind if you like and no\n"
    "other field. It becomes a record in the same place: id, n_tokens, sum_logprob, perplexity, "
    "ids,\n"
    "and logprobs with OpenAI's names (tokens, token_logprobs; --top N adds top_logprobs, and "
    "makes\n"
    "the output a reference for mgpt check). A line that cannot be scored becomes a record with "
    "error\n"
    "and line, and the exit code is 3 when all is done.\n\n"
    "examples:\n"
    "  mgpt score weights/names.gguf -f names.txt --each\n"
    "  parallel --pipe -k mgpt score model.gguf --json -f - <texts.jsonl >scores.jsonl\n\n"
    "exit codes: 0 ok, 2 usage or a character that the vocabulary lacks, 3 model or lines of JSON\n"
    "refused, or logits not finite, 4 out of memory, 5 input/output, 130 interrupted\n";

static int print_text(struct score_run *s, size_t i)
{
    const struct scored_text *t = &s->window[i];
    if (s->json)
        return score_json_print(s->engine.model, &s->lines[i], t);
    if (s->each) {
        printf("%.17g\t%zu\t", t->nll, t->n_scored);
        fwrite(t->text, 1, t->n_bytes, stdout);
        putchar('\n');
    }
    return EXIT_OK;
}

/* Scores the texts in hand and counts them, in their order. */
static int score_window(struct score_run *s)
{
    int code = score_texts(&s->scorer, s->window, s->n_window);
    for (size_t i = 0; i < s->n_window; i++) {
        struct scored_text *t = &s->window[i];
        if (code == EXIT_OK) {
            s->n_texts++;
            s->n_tokens += t->n_scored;
            s->nll += t->nll;
            code = print_text(s, i);
        }
        free(t->tokens);
        score_json_release(&s->lines[i], t);
    }
    s->n_window = s->n_waiting = 0;
    return code == EXIT_OK && ferror(stdout) ? EXIT_IO : code;
}

/* The tokens of a text, from BOS to the end token, as far as the context goes. */
static int score_read_tokens(struct score_run *s, struct scored_text *t, int *cut, mgpt_error *err)
{
    const mgpt_info *info = &s->engine.info;
    size_t n, n_ctx = mgpt_n_ctx(s->engine.session);
    int status = engine_try_encode(&s->engine, t->text, t->n_bytes, MGPT_NO_SPECIAL_TOKENS,
                                   s->no_bos ? -1 : info->bos, &t->tokens, &n, err);
    if (status < 0)
        return status;
    if (info->eos >= 0 && !s->no_end)
        t->tokens[n++] = info->eos;
    t->n_scored = n > 0 ? n - 1 : 0;
    *cut = t->n_scored > n_ctx;
    if (*cut)
        t->n_scored = n_ctx;
    s->n_cut += (size_t)*cut;
    return MGPT_OK;
}

/* Puts the text in hand at the end of the window. */
static int keep_text(struct score_run *s)
{
    s->n_waiting += s->window[s->n_window].n_scored;
    s->n_window++;
    return s->n_window == WINDOW || s->n_waiting >= WINDOW_TOKENS ? score_window(s) : EXIT_OK;
}

static int score_add_text(struct score_run *s, size_t line, const char *text, size_t n_bytes)
{
    struct scored_text *t = &s->window[s->n_window];
    mgpt_error err;
    char what[32];
    int cut;
    *t = (struct scored_text){.text = text, .n_bytes = n_bytes};
    if (score_read_tokens(s, t, &cut, &err) == MGPT_OK)
        return keep_text(s);
    free(t->tokens);
    snprintf(what, sizeof what, "line %zu", line);
    return cli_fail(what, &err);
}

static int add_json(struct score_run *s, size_t number, const char *text, size_t n_bytes)
{
    struct scored_text *t = &s->window[s->n_window];
    struct score_line *line = &s->lines[s->n_window];
    const size_t n_vocab = (size_t)s->engine.info.n_vocab;
    *t = (struct scored_text){0};
    *line = (struct score_line){.number = number};
    if (score_json_read(line, text, n_bytes, &t->text, &t->n_bytes) &&
        score_read_tokens(s, t, &line->cut, &line->wrong) == MGPT_OK &&
        !score_json_room(t, (size_t)s->top < n_vocab ? (size_t)s->top : n_vocab))
        err_memory(&line->wrong, "the log-probabilities", t->n_scored);
    if (line->wrong.status == MGPT_EMEM) {
        cli_fail(s->file, &line->wrong);
        free(t->tokens);
        score_json_release(line, t);
        return EXIT_FULL;
    }
    if (line->wrong.status < 0 && s->n_bad++ == 0) {
        s->first_bad = number;
        memcpy(s->why_bad, line->wrong.text, sizeof s->why_bad);
    }
    return keep_text(s);
}

static int score_lines(struct score_run *s, const char *bytes, size_t n_bytes)
{
    int code = EXIT_OK;
    const char *text, *end = bytes + n_bytes;
    for (size_t line = 1; bytes < end && code == EXIT_OK; line++) {
        size_t n = text_cut_line(&bytes, end, &text);
        if (n > 0)
            code = s->json ? add_json(s, line, text, n) : score_add_text(s, line, text, n);
    }
    int rest = score_window(s); /* also those before a line that cannot be scored */
    return code == EXIT_OK ? rest : code;
}

static int score_report(const struct score_run *s)
{
    if (s->n_cut > 0)
        cli_note("%zu of %zu texts are longer than the context of %zu and were cut", s->n_cut,
                 s->n_texts, mgpt_n_ctx(s->engine.session));
    if (s->n_bad > 0)
        cli_note("%s: %zu of %zu lines could not be scored; line %zu: %s", s->file, s->n_bad,
                 s->n_texts, s->first_bad, s->why_bad);
    if (s->json)
        return s->n_bad > 0 ? EXIT_REFUSED : EXIT_OK;
    if (s->n_tokens == 0) {
        cli_note("%s: nothing to score", s->file);
        return EXIT_USAGE;
    }
    double mean = s->nll / (double)s->n_tokens;
    printf("texts       %zu\n", s->n_texts);
    printf("tokens      %zu\n", s->n_tokens);
    printf("nll/token   %.12f nats\n", mean);
    printf("bits/token  %.12f\n", mean / log(2.0));
    printf("perplexity  %.12f\n", exp(mean));
    return EXIT_OK;
}

static int score_run(struct score_run *s)
{
    mgpt_error err;
    size_t n;
    const struct cli_limits limits = {.line = MOST_LINE};
    char *bytes = cli_read_limited(s->file, limits, &n, &err);
    if (!bytes)
        return cli_fail(strcmp(s->file, "-") == 0 ? "stdin" : s->file, &err);
    s->scorer.engine = &s->engine;
    interrupt_catch();
    int code = score_lines(s, bytes, n);
    free(bytes);
    if (code == EXIT_OK)
        code = score_report(s);
    return cli_finish(code);
}

int cmd_score(int argc, char **argv)
{
    struct score_run s = {0};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(s.engine),
        {"-f, --file", "FILE", CLI_TEXT, &s.file, 0, 0,
         "the texts, one a line; - is stdin (default: a pipe)"},
        {"--each", NULL, CLI_FLAG, &s.each, 0, 0,
         "also one line per text: nll in nats, tokens, text, with tabs between"},
        {"--json", NULL, CLI_FLAG, &s.json, 0, 0, "JSON Lines in and out, a record per line"},
        {"--top", "N", CLI_INT, &s.top, 1, 1000, "with --json: also the N likeliest tokens"},
        {"--no-bos", NULL, CLI_FLAG, &s.no_bos, 0, 0, "do not put BOS in front of a text"},
        {"--no-end", NULL, CLI_FLAG, &s.no_end, 0, 0, "do not score the end token after it"},
        ENGINE_OPT_CTX(s.engine),
        ENGINE_OPT_THREADS(s.engine),
        ENGINE_OPT_KV(s.engine),
        ENGINE_OPT_ISA(s.engine),
        ENGINE_OPT_FINITE(s.engine),
    };
    const struct cli_command command =
        CLI_COMMAND("score", "[MODEL] -f FILE",
                    "Log-probability and perplexity of texts, one a line.", notes, options, 0, 1);
    int code;
    if (!engine_parse(&s.engine, &command, argc, argv, &code))
        return code;
    s.engine.needs_finite = 1;
    s.file = input_or_pipe(s.file, s.file != NULL);
    if (!s.file)
        return cli_usage(&command, "which texts? Give -f FILE");
    if ((s.top && !s.json) || (s.each && s.json))
        return cli_usage(&command,
                         s.each ? "--each and --json: only one of them" : "--top is for --json");
    code = engine_open(&s.engine);
    if (code == EXIT_OK)
        code = engine_session(&s.engine);
    if (code == EXIT_OK)
        code = score_run(&s);
    score_close(&s.scorer);
    engine_close(&s.engine);
    return code;
}
