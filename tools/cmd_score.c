/* mgpt score: log-probabilities of texts, perplexity of all of them.
 *
 * A text is a line. It is read as a document: BOS in front when the model has one, the end token
 * behind it when the model has one; every token but the first is scored. A text longer than the
 * context is scored as far as the context goes, as microgpt does.
 */
#include "commands.h"
#include "engine.h"
#include "interrupt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct score {
    struct engine engine;
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

/* Sum of -log p over tokens[1 .. n_scored]; one step for each token before them. */
static int add_up(struct score *s, const int32_t *tokens, size_t n_scored, double *nll)
{
    mgpt_error err;
    mgpt_session *session = s->engine.session;
    *nll = 0;
    if (mgpt_rewind(session, 0, &err) < 0)
        return cli_fail(NULL, &err);
    for (size_t i = 0; i < n_scored; i++) {
        const float *logits = mgpt_step(session, tokens[i], &err);
        if (interrupted())
            return EXIT_INTERRUPTED;
        if (!logits)
            return cli_fail(NULL, &err);
        *nll -= mgpt_logprob(logits, (size_t)s->engine.info.n_vocab, tokens[i + 1]);
    }
    return EXIT_OK;
}

static int score_tokens(struct score *s, const char *text, size_t n_bytes, const int32_t *tokens,
                        size_t n)
{
    size_t n_scored = n > 0 ? n - 1 : 0, n_ctx = mgpt_n_ctx(s->engine.session);
    double nll;
    if (n_scored > n_ctx) {
        n_scored = n_ctx;
        s->n_cut++;
    }
    int code = add_up(s, tokens, n_scored, &nll);
    if (code != EXIT_OK)
        return code;
    s->n_texts++;
    s->n_tokens += n_scored;
    s->nll += nll;
    if (s->each) {
        printf("%.17g\t%zu\t", nll, n_scored);
        fwrite(text, 1, n_bytes, stdout);
        putchar('\n');
    }
    return ferror(stdout) ? EXIT_IO : EXIT_OK;
}

static int score_text(struct score *s, size_t line, const char *text, size_t n_bytes)
{
    const mgpt_info *info = &s->engine.info;
    char what[32];
    int32_t *tokens;
    size_t n;
    snprintf(what, sizeof what, "line %zu", line);
    int code = engine_encode(&s->engine, what, text, n_bytes, MGPT_NO_SPECIAL_TOKENS,
                             s->no_bos ? -1 : info->bos, &tokens, &n);
    if (code == EXIT_OK) {
        if (info->eos >= 0 && !s->no_end)
            tokens[n++] = info->eos;
        code = score_tokens(s, text, n_bytes, tokens, n);
    }
    free(tokens);
    return code;
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
            code = score_text(s, line, bytes + at, n);
        at = next;
    }
    return code;
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
    engine_close(&s.engine);
    return code;
}
