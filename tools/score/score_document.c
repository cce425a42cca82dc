/* A file as one text. See score_document.h.
 *
 * Where a piece ends, the tokens of the whole must have a border. A piece therefore ends before a line end between two
 * ASCII letters where the text on both sides, CONTEXT bytes each, has the same tokens in one call as in two. Rules
 * that cut a text into words look no further than that. A tokenizer that puts a space before each text, or takes
 * white space away, has other tokens in two calls: then no border is found, and the piece grows to the whole file.
 */
#include "score/score_document.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "common/progress.h"
#include "common/reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 1 << 20,     /* bytes of a piece, at first */
    CONTEXT = 1 << 11,   /* bytes on each side of a border that are looked at */
    TRIES = 8,           /* borders that are looked at in a piece */
    MOST_PIECE = 1 << 30 /* bytes that one call encodes */
};

/* Windows run together: of about so many bytes of weights by tokens, but within these tokens. */
enum { LEAST_ROWS = 768, MOST_ROWS = 1 << 16 };
static const double WORK = 1.6e10;

struct rolling {
    struct score_document *d;
    struct text_reader reader;
    int32_t *tokens; /* stb_ds array: those that are not scored yet, and what is seen before them */
    size_t n_before; /* tokens that have been dropped from its beginning */
    mgpt_error err;
};

/* ---- borders ---- */

static int encode_part(const struct rolling *r, const char *text, size_t n, int32_t **tokens,
                       size_t *n_tokens, mgpt_error *err)
{
    return engine_try_encode(r->d->team->engine, text, n, MGPT_NO_SPECIAL_TOKENS, -1, tokens,
                             n_tokens, err);
}

/* 1: the tokens of bytes [from, to) are those of [from, at) and then those of [at, to). */
static int parts_at(const struct rolling *r, const char *bytes, size_t from, size_t at, size_t to)
{
    const struct {
        size_t from, to;
    } spans[] = {{from, at}, {at, to}, {from, to}};
    int32_t *tokens[3] = {0};
    size_t n[3] = {0};
    int same = 1;
    for (size_t i = 0; i < 3 && same; i++)
        same = encode_part(r, bytes + spans[i].from, spans[i].to - spans[i].from, &tokens[i], &n[i],
                           NULL) == MGPT_OK;
    same = same && n[2] == n[0] + n[1] &&
           memcmp(tokens[2], tokens[0], n[0] * sizeof **tokens) == 0 &&
           memcmp(tokens[2] + n[0], tokens[1], n[1] * sizeof **tokens) == 0;
    for (size_t i = 0; i < 3; i++)
        free(tokens[i]);
    return same;
}

/* The first byte at `at` or after it that begins a character. */
static size_t character_at(const char *bytes, size_t at, size_t n)
{
    while (at < n && ((unsigned char)bytes[at] & 0xC0) == 0x80)
        at++;
    return at;
}

/* The last of n bytes where the text may be cut in two; 0: none. */
static size_t last_border(const struct rolling *r, const char *bytes, size_t n)
{
    int n_tried = 0;
    for (size_t at = n > CONTEXT ? n - CONTEXT : 0; at > 1 && n_tried < TRIES; at--) {
        if (bytes[at] != '\n' || !isalpha((unsigned char)bytes[at - 1]) ||
            !isalpha((unsigned char)bytes[at + 1]))
            continue;
        size_t from = character_at(bytes, at > CONTEXT ? at - CONTEXT : 0, at);
        if (parts_at(r, bytes, from, at, character_at(bytes, at + CONTEXT, n)))
            return at;
        n_tried++;
    }
    return 0;
}

/* ---- reading ---- */

/* Appends the tokens of the file's next piece. 1, 0 at the end, or a status. */
static int read_piece(struct rolling *r)
{
    size_t n, n_tokens = 0, end = 0, used = arr_len(r->tokens);
    int32_t *tokens = NULL;
    const char *bytes;
    int status;
    for (size_t piece = PIECE;; piece *= 2) {
        status = reader_hold(&r->reader, piece, &r->err);
        bytes = reader_bytes(&r->reader, &n);
        if (status < 0 || (n == 0 && r->reader.is_end))
            return status;
        if (n > MOST_PIECE)
            return err_set(&r->err, MGPT_EFILE, MGPT_NO_OFFSET,
                           "more than %d bytes of a text that the tokenizer reads as a whole",
                           MOST_PIECE);
        end = r->reader.is_end ? n : last_border(r, bytes, n);
        if (end > 0)
            break;
    }
    status = encode_part(r, bytes, end, &tokens, &n_tokens, &r->err);
    if (status == MGPT_OK && !arr_reserve(r->tokens, used + n_tokens))
        status = err_memory(&r->err, "the tokens", n_tokens * sizeof *tokens);
    if (status == MGPT_OK && n_tokens > 0)
        memcpy(r->tokens + used, tokens, n_tokens * sizeof *tokens);
    if (status == MGPT_OK)
        arr_set_len(r->tokens, used + n_tokens);
    free(tokens);
    if (status < 0)
        return status;
    totals_add_bytes(&r->d->totals, bytes, end, 0);
    reader_use(&r->reader, end);
    return 1;
}

/* ---- scoring ---- */

/* The windows that are known whole, up to `rows` tokens; at the end of the file also a shorter one. Returns their
 * number; *n_tokens: tokens that they score. */
static size_t windows_ready(const struct rolling *r, struct scored_text *texts, size_t most,
                            size_t *n_tokens)
{
    const struct score_windows *w = &r->d->team->windows;
    size_t done = r->d->totals.n_tokens, known = r->n_before + arr_len(r->tokens), n = 0;
    for (*n_tokens = 0; n < most && done + 1 < known; n++) {
        struct score_window next = windows_next(w, done, known - 1 - done);
        if (!r->reader.is_end && next.n_scored < (done ? w->stride : w->window))
            break;
        texts[n] = (struct scored_text){.tokens = r->tokens + (next.first - r->n_before),
                                        .n_context = next.n_seen,
                                        .n_scored = next.n_scored};
        done += next.n_scored;
        *n_tokens += next.n_scored;
    }
    return n;
}

/* Drops the tokens that no further window sees. */
static void drop_seen(struct rolling *r)
{
    size_t done = r->d->totals.n_tokens, window = r->d->team->windows.window;
    size_t first = done > window ? done - window : 0, n = first - r->n_before;
    if (n == 0 || n < arr_len(r->tokens) / 2)
        return;
    memmove(r->tokens, r->tokens + n, (arr_len(r->tokens) - n) * sizeof *r->tokens);
    arr_set_len(r->tokens, arr_len(r->tokens) - n);
    r->n_before = first;
}

/* Scores windows with room for `most` of them; adds what is known of them. Returns an exit code; *n: their number. */
static int score_ready(struct rolling *r, struct scored_text *texts, double *logprobs, size_t most,
                       size_t *n)
{
    struct score_totals *t = &r->d->totals;
    size_t n_tokens, at = 0;
    *n = windows_ready(r, texts, most, &n_tokens);
    for (size_t i = 0; i < *n; at += texts[i].n_scored, i++)
        texts[i].logprobs = logprobs + at;
    int code = score_texts(r->d->team, texts, *n);
    for (size_t i = 0; i < *n && texts[i].is_done; i++) {
        for (size_t k = 0; k < texts[i].n_scored; k++)
            t->nll -= texts[i].logprobs[k];
        t->n_tokens += texts[i].n_scored;
        t->n_windows++;
    }
    drop_seen(r);
    return code;
}

/* The number of windows that are run together. */
static size_t windows_at_once(const struct score_team *s)
{
    double rows = WORK / (double)(s->engine->info.bytes_per_token + 1);
    rows = rows < LEAST_ROWS ? LEAST_ROWS : rows > MOST_ROWS ? MOST_ROWS : rows;
    return (size_t)rows / s->windows.window + 1;
}

/* Bytes in the message of a text that has no tokens count from its piece. */
static int tell_place(const struct rolling *r)
{
    char what[256];
    const char *file = strcmp(r->d->file, "-") == 0 ? "stdin" : r->d->file;
    snprintf(what, sizeof what, "%.200s, from byte %llu on", file,
             (unsigned long long)r->reader.n_used);
    return cli_fail(r->err.status == MGPT_ETEXT && r->reader.n_used > 0 ? what : file, &r->err);
}

/* The part of the file that has been scored, as far as its tokens are known. */
static void show_done(const struct rolling *r, struct progress *progress)
{
    double known = (double)(r->n_before + arr_len(r->tokens) + 1);
    double done = (double)r->reader.n_used * (double)r->d->totals.n_tokens / known;
    if (r->reader.n_all > 0)
        progress_show(progress, (uint64_t)done, r->reader.n_all);
}

static int score_pieces(struct rolling *r)
{
    const struct score_windows *w = &r->d->team->windows;
    size_t most = windows_at_once(r->d->team), n = 0;
    struct scored_text *texts = mem_new(most, sizeof *texts);
    double *logprobs = mem_new(most * w->window, sizeof *logprobs);
    struct progress progress;
    int code = EXIT_OK,
        more = texts && logprobs ? 1 : err_memory(&r->err, "the windows", most * sizeof *texts);
    progress_begin(&progress);
    while (more > 0 && code == EXIT_OK) {
        more = read_piece(r);
        do {
            code = more < 0 ? EXIT_OK : score_ready(r, texts, logprobs, most, &n);
            show_done(r, &progress);
        } while (more >= 0 && code == EXIT_OK && n == most);
    }
    progress_end(&progress);
    free(texts);
    free(logprobs);
    return code == EXIT_OK && more < 0 ? tell_place(r) : code;
}

int score_document(struct score_document *d)
{
    const mgpt_info *info = &d->team->engine->info;
    int32_t first = info->bos >= 0 ? info->bos : info->eos;
    struct rolling r = {.d = d};
    if (reader_open(&r.reader, d->file, &r.err) < 0)
        return cli_fail(d->file, &r.err);
    d->totals.n_texts = 1;
    int code = EXIT_OK;
    if (first >= 0 && !d->no_bos && !arr_push(r.tokens, first)) {
        err_memory(&r.err, "the tokens", sizeof first);
        code = cli_fail(NULL, &r.err);
    }
    if (code == EXIT_OK)
        code = score_pieces(&r);
    reader_close(&r.reader);
    arr_free(r.tokens);
    return code;
}
