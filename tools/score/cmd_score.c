/* mgpt score: log-probabilities of texts, perplexity of all of them.
 *
 * A text is a line. It is read as a document: BOS in front when the model has one, the end token
 * after it when the model has one; every token but the first is scored. A text longer than the
 * context is scored in windows (score_windows.h). With --window the file is one text (score_document.h).
 *
 * With --json a line is an object and becomes one (score_json.h), also when it cannot be scored: a
 * file can be cut into shards anywhere between lines, and their results put together. It may have
 * several texts, a context with each of its continuations (score_pair.h).
 */
#include "base/error.h"
#include "base/mem.h"
#include "common/commands.h"
#include "common/interrupt.h"
#include "common/progress.h"
#include "common/text.h"
#include "engine/engine.h"
#include "engine/input.h"
#include "score/score_document.h"
#include "score/score_json.h"
#include "score/score_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines are scored together: at most n_lines with n_tokens, so that output does not wait long; more for threads with
 * batches of their own, and for a small model, whose texts share more. A token of a line counts TEXT_WEIGHT times
 * those of contexts, which may wait for others that begin alike. */
static const struct at_once {
    size_t n_lines, n_tokens;
} usual = {4096, 1 << 17}, of_threads = {1 << 14, 1 << 20}, of_small_models = {1 << 15, 1 << 23};
enum { TEXT_WEIGHT = 16 };

/* Bytes of a line (/dev/zero is one), and those given back at once. */
enum { MOST_LINE = 64 << 20, USED = 1 << 20 };

struct score_run {
    struct engine engine;
    struct score_team team;
    struct score_line *lines;  /* stb_ds array: the window */
    struct scored_text *texts; /* stb_ds array: of these lines */
    size_t n_done, n_waiting;  /* texts that have been scored; the others' tokens */
    struct at_once most;
    const char *file;
    int each, no_bos, no_end, json;
    int32_t top, window, stride; /* options */
    size_t n_bad;                /* lines that cannot be scored */
    size_t first_bad;            /* the number of the first of them, and its reason: */
    char why_bad[sizeof(((mgpt_error *)0)->text)];
    size_t n_cut;     /* lines with a context that was cut */
    const char *used; /* where the lines begin whose memory has not been given back */
    struct score_totals totals;
};

static const char notes[] =
    "Empty lines are skipped. Prints the number of texts and tokens, the negative log-likelihood\n"
    "per token, byte and word in nats and in bits, and the perplexity. Words are what white space "
    "parts.\n"
    "Ctrl-C prints the numbers of what is done.\n\n"
    "A text with more tokens than the context is scored in windows, as loglikelihood_rolling of\n"
    "lm-evaluation-harness does it: the first window has BOS and as many tokens as fit, each "
    "further "
    "one\n"
    "scores --stride tokens after those before them that fit; BOS is in the first only. --window "
    "N (or\n"
    "without N: the context) makes the whole file one text, line ends included, of BOS (or else "
    "EOS)\n"
    "and its tokens, without an end token. It is read piece by piece. With --json the windows are "
    "those\n"
    "of each text.\n\n"
    "With --json each line is {\"text\": \"...\"}, or {\"ids\": [...]} with tokens as they are "
    "(the first\n"
    "is only seen), or a context with one or more continuations:\n"
    "{\"context\": \"...\", \"continuation\": \"...\"} or {\"context\": \"...\",\n"
    "\"continuations\": [\"...\", ...]} (at most 100000), with an \"id\" of any kind if you like "
    "and no other\n"
    "field. It becomes a record in the same place. Of a text: id, n_tokens, sum_logprob,\n"
    "perplexity, ids, and logprobs with OpenAI's names (tokens, token_logprobs; --top N adds\n"
    "top_logprobs, and makes the output a reference for mgpt check); of a text of several windows\n"
    "their number, windows. Of a continuation: n_tokens,\n"
    "sum_logprob, is_greedy, with --top also logprobs; of several, an array of these. A line that\n"
    "cannot be scored becomes a record with error and its id, or without one its line, and the\n"
    "exit code is 3 when all is done.\n\n"
    "Contexts and continuations are cut into tokens as lm-evaluation-harness does it: spaces at\n"
    "the end of the context begin the continuation; its tokens are those that both together have\n"
    "after as many as the context has alone; an empty context is BOS or EOS;\n"
    "names of control tokens count as these; what the model's context does not hold is cut from\n"
    "the left (\"truncated\"). Lines that share a context need not be neighbours: it runs once.\n\n"
    "examples:\n"
    "  mgpt score weights/names.gguf -f names.txt --each\n"
    "  mgpt score gpt2.gguf -f wiki.test.raw --window --stride 512\n"
    "  parallel --pipe -k mgpt score model.gguf --json -f - <texts.jsonl >scores.jsonl\n";

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_USAGE] = "usage or a character that the vocabulary lacks",
    [EXIT_AT_REFUSED] = "model or lines of JSON refused, or logits not finite",
};

/* The texts from number i on; NULL while the window has none. */
static struct scored_text *texts_from(const struct score_run *s, size_t i)
{
    return s->texts ? s->texts + i : NULL;
}

static int print_line(const struct score_run *s, const struct score_line *line)
{
    const struct scored_text *t = texts_from(s, line->first);
    if (s->json)
        return score_json_print(s->engine.model, line, t);
    if (s->each) {
        printf("%.17g\t%zu\t", t->nll, t->n_scored);
        fwrite(t->text, 1, t->n_bytes, stdout);
        putchar('\n');
    }
    return EXIT_OK;
}

/* Drops the texts from number n on. */
static void drop_texts(struct score_run *s, size_t n)
{
    for (size_t i = n; i < arr_len(s->texts); i++)
        scored_text_free(&s->texts[i]);
    if (s->texts)
        arr_set_len(s->texts, n);
    s->n_done = s->n_done < n ? s->n_done : n;
}

/* Scores the texts in hand, also those of a line that has more. */
static int score_waiting(struct score_run *s)
{
    int code = score_texts(&s->team, texts_from(s, s->n_done), arr_len(s->texts) - s->n_done);
    for (; s->n_done < arr_len(s->texts); s->n_done++)
        if (!s->texts[s->n_done].text && !s->top) /* its record has sums only */
            scored_text_free(&s->texts[s->n_done]);
    s->n_waiting = 0;
    return code;
}

/* 1: all texts of the line have their numbers. */
static int is_line_done(const struct score_run *s, const struct score_line *line)
{
    size_t n = 0;
    while (n < line->n && s->texts[line->first + n].is_done)
        n++;
    return n == line->n;
}

static void count_line(struct score_run *s, const struct score_line *line)
{
    struct score_totals *sum = &s->totals;
    int cut = 0;
    for (size_t i = line->first; i < line->first + line->n; i++) {
        const struct scored_text *t = &s->texts[i];
        sum->n_tokens += t->n_scored;
        sum->nll += t->nll;
        cut |= t->cut;
        if (!t->text)
            continue;
        sum->n_windows += t->n_windows;
        sum->n_rolled += t->n_windows > 1;
        totals_add_bytes(sum, t->text, t->n_bytes, 1);
    }
    sum->n_texts++;
    s->n_cut += (size_t)cut;
}

/* Counts, prints and drops the window's lines in order. `code` is of scoring; after a Ctrl-C, lines that are done. */
static int score_window(struct score_run *s, int code)
{
    int prints = 1;
    for (size_t i = 0; i < arr_len(s->lines); i++) {
        int is_done = code == EXIT_OK || is_line_done(s, &s->lines[i]);
        prints = prints && is_done;
        if (is_done && (code == EXIT_OK || code == EXIT_INTERRUPTED)) {
            count_line(s, &s->lines[i]);
            int printed = prints ? print_line(s, &s->lines[i]) : EXIT_OK;
            code = printed == EXIT_OK ? code : printed;
        }
        jval_free(s->lines[i].object);
    }
    drop_texts(s, 0);
    s->team.shown.from = s->team.shown.to;
    if (s->lines)
        arr_set_len(s->lines, 0);
    return code == EXIT_OK && ferror(stdout) ? EXIT_IO : code;
}

/* The tokens of a text, from BOS to the end token. */
static int score_read_tokens(const struct score_run *s, struct scored_text *t, mgpt_error *err)
{
    const mgpt_info *info = &s->engine.info;
    size_t n;
    int status = engine_try_encode(&s->engine, t->text, t->n_bytes, MGPT_NO_SPECIAL_TOKENS,
                                   s->no_bos ? -1 : info->bos, &t->tokens, &n, err);
    if (status < 0)
        return status;
    if (info->eos >= 0 && !s->no_end)
        t->tokens[n++] = info->eos;
    t->n_context = 1;
    t->n_scored = n > 0 ? n - 1 : 0;
    return MGPT_OK;
}

/* Appends a text of the window's last line. */
static int add_text(struct score_run *s, struct scored_text t, const struct score_pair *pair,
                    mgpt_error *err)
{
    size_t n_vocab = (size_t)s->engine.info.n_vocab, n_top = (size_t)s->top;
    int status = MGPT_OK;
    if (!t.text)
        status = score_pair_encode(&s->engine, pair, s->no_bos, &t, err);
    else if (!t.tokens)
        status = score_read_tokens(s, &t, err);
    t.is_greedy = !t.text;
    int lists = s->json && (t.text || n_top > 0);
    if (status == MGPT_OK && (lists || score_rolls(&s->team, &t)) &&
        !score_json_room(&t, n_top < n_vocab ? n_top : n_vocab))
        status = err_memory(err, "the log-probabilities", t.n_scored);
    if (status == MGPT_OK && !arr_push(s->texts, t))
        status = err_memory(err, "the texts", arr_len(s->texts) * sizeof t);
    if (status < 0)
        scored_text_free(&t);
    else
        s->n_waiting += t.text ? TEXT_WEIGHT * t.n_scored : t.n_context + t.n_scored;
    return status;
}

/* Puts a line at the end of the window. */
static int keep_line(struct score_run *s, struct score_line line)
{
    mgpt_error err;
    if (!arr_push(s->lines, line)) {
        jval_free(line.object);
        err_memory(&err, "the lines", (arr_len(s->lines) + 1) * sizeof line);
        return cli_fail(s->file, &err);
    }
    return arr_len(s->lines) == s->most.n_lines || s->n_waiting >= s->most.n_tokens
               ? score_window(s, score_waiting(s))
               : EXIT_OK;
}

static int score_add_text(struct score_run *s, size_t number, const char *text, size_t n_bytes)
{
    struct score_line line = {.number = number, .first = arr_len(s->texts), .n = 1};
    mgpt_error err;
    char what[32];
    struct scored_text t = {.text = text, .n_bytes = n_bytes};
    if (add_text(s, t, NULL, &err) == MGPT_OK)
        return keep_line(s, line);
    snprintf(what, sizeof what, "line %zu", number);
    return cli_fail(what, &err);
}

/* The line's texts, as far as they can be scored. Those of a line with many are scored before all
 * are in hand. */
static int add_texts(struct score_run *s, struct score_line *line)
{
    int code = EXIT_OK;
    for (size_t i = 0; i < line->n && line->wrong.status == MGPT_OK && code == EXIT_OK; i++) {
        struct scored_text t = {0};
        struct score_pair pair;
        if (score_json_text(line, i, s->engine.info.n_vocab, &t, &pair))
            add_text(s, t, &pair, &line->wrong);
        else
            scored_text_free(&t);
        if (s->n_waiting >= s->most.n_tokens)
            code = score_waiting(s);
    }
    return code;
}

/* The memory of lines is given back in pieces: the objects have what is needed of them. */
static int add_json(struct score_run *s, size_t number, const char *text, size_t n_bytes)
{
    struct score_line line = {.number = number, .first = arr_len(s->texts)};
    line.n = score_json_read(&line, text, n_bytes);
    if ((size_t)(text + n_bytes - s->used) >= USED) {
        mem_drop((void *)(uintptr_t)s->used, (size_t)(text + n_bytes - s->used));
        s->used = text + n_bytes;
    }
    int code = add_texts(s, &line);
    if (line.wrong.status == MGPT_EMEM)
        code = cli_fail(s->file, &line.wrong);
    if (line.wrong.status < 0) {
        drop_texts(s, line.first);
        line.n = 0;
    }
    if (code != EXIT_OK) {
        jval_free(line.object);
        return code;
    }
    if (line.wrong.status < 0 && s->n_bad++ == 0) {
        s->first_bad = number;
        memcpy(s->why_bad, line.wrong.text, sizeof s->why_bad);
    }
    return keep_line(s, line);
}

static int score_lines(struct score_run *s, const char *bytes, size_t n_bytes)
{
    int code = EXIT_OK;
    const char *text, *end = bytes + n_bytes;
    struct progress progress;
    s->used = bytes;
    progress_begin(&progress);
    progress.terminal &= (!s->json && !s->each) || !isatty(STDOUT_FILENO);
    s->team.shown = (struct score_shown){.line = &progress, .all = n_bytes};
    for (size_t line = 1; bytes < end && code == EXIT_OK; line++) {
        size_t n = text_cut_line(&bytes, end, &text);
        s->team.shown.to = n_bytes - (size_t)(end - bytes);
        if (n > 0)
            code = s->json ? add_json(s, line, text, n) : score_add_text(s, line, text, n);
    }
    /* Also those before a line that cannot be scored, if there is memory. */
    int rest = score_window(s, code == EXIT_FULL ? code : score_waiting(s));
    progress_end(&progress);
    s->team.shown.line = NULL;
    arr_free(s->lines);
    arr_free(s->texts);
    return code == EXIT_OK ? rest : code;
}

/* code: how the scoring has ended. Returns the exit code. */
static int score_report(const struct score_run *s, int code)
{
    const struct score_totals *sum = &s->totals;
    if (s->n_cut > 0)
        cli_note("%zu of %zu contexts do not fit the model's %zu positions with their "
                 "continuations; their beginnings were cut",
                 s->n_cut, sum->n_texts, mgpt_n_ctx(s->engine.session));
    if (s->n_bad > 0)
        cli_note("%s: %zu of %zu lines could not be scored; line %zu: %s", s->file, s->n_bad,
                 sum->n_texts, s->first_bad, s->why_bad);
    if (s->json && code == EXIT_OK)
        return s->n_bad > 0 ? EXIT_REFUSED : EXIT_OK;
    if (code == EXIT_INTERRUPTED && sum->n_tokens > 0)
        cli_note("interrupted: what follows is of %zu tokens", sum->n_tokens);
    if (s->json || (code == EXIT_INTERRUPTED && sum->n_tokens == 0))
        return code;
    if (sum->n_tokens == 0) {
        cli_note("%s: nothing to score", s->file);
        return EXIT_USAGE;
    }
    totals_print(sum, &s->team.windows, s->window && !s->json);
    return code;
}

static int score_whole(struct score_run *s)
{
    struct score_document d = {.team = &s->team, .file = s->file, .no_bos = s->no_bos};
    int code = score_document(&d);
    s->totals = d.totals;
    return code;
}

static int score_read_lines(struct score_run *s)
{
    mgpt_error err;
    size_t n;
    const struct cli_limits limits = {.line = MOST_LINE};
    char *bytes = cli_read_limited(s->file, limits, &n, &err);
    if (!bytes)
        return cli_fail(strcmp(s->file, "-") == 0 ? "stdin" : s->file, &err);
    int code = score_lines(s, bytes, n);
    free(bytes);
    return code;
}

/* Windows as the options say. Returns an exit code. */
static int choose_windows(struct score_run *s, const struct cli_command *command)
{
    size_t n_ctx = mgpt_n_ctx(s->engine.session);
    size_t window = s->window > 0 ? (size_t)s->window : n_ctx;
    size_t stride = s->stride > 0 ? (size_t)s->stride : window;
    if (window > n_ctx)
        return cli_usage(command, "--window %zu: the context holds %zu tokens", window, n_ctx);
    if (stride > window)
        return cli_usage(command, "--stride %zu: more than the window of %zu tokens", stride,
                         window);
    s->team.windows = (struct score_windows){window, stride};
    return EXIT_OK;
}

static int score_run(struct score_run *s, const struct cli_command *command)
{
    s->team.engine = &s->engine;
    s->most = score_n_scorers(&s->engine) > 1 ? of_threads : usual;
    s->most = walk_fits(&s->engine) ? of_small_models : s->most;
    int code = choose_windows(s, command);
    if (code != EXIT_OK)
        return code;
    interrupt_catch();
    code = s->window && !s->json ? score_whole(s) : score_read_lines(s);
    if (code == EXIT_OK || code == EXIT_INTERRUPTED)
        code = score_report(s, code);
    return cli_finish(code);
}

int cmd_score(int argc, char **argv)
{
    struct score_run s = {0};
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(s.engine),
        {"-f, --file", "FILE", CLI_TEXT, &s.file, 0, 0,
         "the texts, one a line; - is stdin (default: a pipe)", IN_USED},
        {"--each", NULL, CLI_FLAG, &s.each, 0, 0,
         "also one line per text: nll in nats, tokens, text, with tabs between", IN_USED},
        {"--json", NULL, CLI_FLAG, &s.json, 0, 0, "JSON Lines in and out, one record each",
         IN_USED},
        {"--window", "[N]", CLI_INT, &s.window, 1, INT32_MAX,
         "the file is one text, in windows of N tokens (default: the context)", IN_USED},
        {"--stride", "N", CLI_INT, &s.stride, 1, INT32_MAX,
         "tokens that a further window scores (default: the window)", IN_TEXT},
        {"--top", "N", CLI_INT, &s.top, 1, 1000, "with --json: also the N likeliest", IN_LOOK},
        {"--no-bos", NULL, CLI_FLAG, &s.no_bos, 0, 0, "do not put BOS in front", IN_TEXT},
        {"--no-end", NULL, CLI_FLAG, &s.no_end, 0, 0, "do not score the end token", IN_TEXT},
        ENGINE_OPT_CTX(s.engine),
        ENGINE_OPT_THREADS(s.engine),
        ENGINE_OPT_KV(s.engine),
        ENGINE_OPT_ISA(s.engine),
        ENGINE_OPT_STEER(s.engine),
        ENGINE_OPT_FINITE(s.engine),
    };
    const struct cli_command command = CLI_COMMAND(
        "score", "[MODEL] -f FILE", "Log-probability and perplexity of texts, one a line.", notes,
        exits, options, 0, 1);
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
    if (s.window && (s.each || s.no_end) && !s.json)
        return cli_usage(&command, "--window makes the file one text without an end token: not "
                                   "with --each, --no-end");
    code = engine_open(&s.engine);
    if (code == EXIT_OK)
        code = engine_session(&s.engine);
    if (code == EXIT_OK)
        code = score_run(&s, &command);
    score_close(&s.team);
    engine_close(&s.engine);
    return code;
}
