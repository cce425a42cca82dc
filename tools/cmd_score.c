/* mgpt score: log-probabilities of texts, perplexity of all of them.
 *
 * A text is a line. It is read as a document: BOS in front when the model has one, the end token
 * behind it when the model has one; every token but the first is scored. A text longer than the
 * context is scored as far as the context goes, as microgpt does.
 */
#include "commands.h"
#include "engine.h"
#include "interrupt.h"
#include "score_texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many texts are scored together, or as many as have so many tokens: output does not wait long. */
enum { WINDOW = 1024, WINDOW_TOKENS = 1 << 13 };

struct score {
    struct engine engine;
    struct scorer scorer;
    struct scored_text window[WINDOW];
    size_t n_window, n_waiting; /* texts in hand, and their tokens */
    const char *file;
    int each, no_bos, no_end;
    size_t n_texts, n_tokens, n_cut;
    double nll; /* nats */
};

static const char notes[] =
    "Empty lines are skipped. Prints the number of texts and tokens, the negative log-likelihood\n"
    "per token in nats and in bits, and the perplexity.\n\n"
    "example:\n"
    "  mgpt score weights/names.gguf -f names.txt --each\n\n"
    "exit codes: 0 ok, 2 usage or a character that the vocabulary lacks, 3 model refused,\n"
    "4 out of memory, 5 input/output, 130 interrupted\n";

/* Scores the texts in hand and counts them, in their order. */
static int score_window(struct score *s)
{
    int code = score_texts(&s->scorer, s->window, s->n_window);
    for (size_t i = 0; i < s->n_window; i++) {
        const struct scored_text *t = &s->window[i];
        free(t->tokens);
        if (code != EXIT_OK)
            continue;
        s->n_texts++;
        s->n_tokens += t->n_scored;
        s->nll += t->nll;
        if (s->each) {
            printf("%.17g\t%zu\t", t->nll, t->n_scored);
            fwrite(t->text, 1, t->n_bytes, stdout);
            putchar('\n');
        }
    }
    s->n_window = s->n_waiting = 0;
    return code == EXIT_OK && ferror(stdout) ? EXIT_IO : code;
}

static int add_text(struct score *s, size_t line, const char *text, size_t n_bytes)
{
    const mgpt_info *info = &s->engine.info;
    struct scored_text *t = &s->window[s->n_window];
    size_t n, n_ctx = mgpt_n_ctx(s->engine.session);
    char what[32];
    *t = (struct scored_text){.text = text, .n_bytes = n_bytes};
    snprintf(what, sizeof what, "line %zu", line);
    int code = engine_encode(&s->engine, what, text, n_bytes, MGPT_NO_SPECIAL_TOKENS,
                             s->no_bos ? -1 : info->bos, &t->tokens, &n);
    if (code != EXIT_OK) {
        free(t->tokens);
        return code;
    }
    if (info->eos >= 0 && !s->no_end)
        t->tokens[n++] = info->eos;
    t->n_scored = n > 0 ? n - 1 : 0;
    if (t->n_scored > n_ctx) {
        t->n_scored = n_ctx;
        s->n_cut++;
    }
    s->n_waiting += t->n_scored;
    s->n_window++;
    return s->n_window == WINDOW || s->n_waiting >= WINDOW_TOKENS ? score_window(s) : EXIT_OK;
}

static int score_lines(struct score *s, const char *bytes, size_t n_bytes)
{
    int code = EXIT_OK;
    size_t line = 1;
    for (size_t at = 0; at < n_bytes && code == EXIT_OK; line++) {
        const char *end = memchr(bytes + at, '\n', n_bytes - at);
        size_t n = end ? (size_t)(end - bytes) - at : n_bytes - at;
        size_t next = at + n + 1;
        if (n > 0 && bytes[at + n - 1] == '\r')
            n--;
        if (n > 0)
            code = add_text(s, line, bytes + at, n);
        at = next;
    }
    int rest = score_window(s); /* also those before a line that cannot be scored */
    return code == EXIT_OK ? rest : code;
}

static int report(const struct score *s)
{
    if (s->n_cut > 0)
        cli_note("%zu of %zu texts are longer than the context of %zu and were cut", s->n_cut,
                 s->n_texts, mgpt_n_ctx(s->engine.session));
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

static int run(struct score *s)
{
    mgpt_error err;
    size_t n;
    char *bytes = cli_read(s->file, &n, &err);
    if (!bytes)
        return cli_fail(strcmp(s->file, "-") == 0 ? "stdin" : s->file, &err);
    s->scorer.engine = &s->engine;
    interrupt_catch();
    int code = score_lines(s, bytes, n);
    free(bytes);
    if (code == EXIT_OK)
        code = report(s);
    return cli_finish(code);
}

int cmd_score(int argc, char **argv)
{
    struct score s = {0};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(s.engine),
        {"-f, --file", "FILE", CLI_TEXT, &s.file, 0, 0, "the texts, one a line; - is stdin"},
        {"--each", NULL, CLI_FLAG, &s.each, 0, 0,
         "also one line per text: nll in nats, tokens, text, with tabs between"},
        {"--no-bos", NULL, CLI_FLAG, &s.no_bos, 0, 0, "do not put BOS in front of a text"},
        {"--no-end", NULL, CLI_FLAG, &s.no_end, 0, 0, "do not score the end token behind it"},
        ENGINE_OPT_CTX(s.engine),
        ENGINE_OPT_THREADS(s.engine),
        ENGINE_OPT_KV(s.engine),
        ENGINE_OPT_ISA(s.engine),
    };
    const struct cli_command command = {"score",
                                        "[MODEL] -f FILE",
                                        "Log-probability and perplexity of texts, one a line.",
                                        notes,
                                        options,
                                        sizeof options / sizeof *options,
                                        0,
                                        1};
    const char *operands[1];
    int n = cli_parse(&command, argc, argv, operands);
    if (n < 0)
        return cli_parse_exit(n);
    int code = engine_choose(&s.engine, &command, operands, n, NULL, 0);
    if (code == EXIT_OK && !s.file)
        code = cli_usage(&command, "which texts? Give -f FILE");
    if (code == EXIT_OK)
        code = engine_open(&s.engine);
    if (code == EXIT_OK)
        code = engine_session(&s.engine);
    if (code == EXIT_OK)
        code = run(&s);
    score_close(&s.scorer);
    engine_close(&s.engine);
    return code;
}
