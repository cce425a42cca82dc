/* Unigram (T5, XLM-R, the default of SentencePiece's trainer): the split of a text into tokens with
 * the greatest sum of scores (Kudo 2018, "Subword Regularization").
 *
 * Viterbi over byte positions: best[i] is the best sum of a split of the first i bytes. Where a
 * character ends, every token that ends there (tok_match.h) proposes a sum, the longest token first;
 * the first of equal sums stays. A character that is not a token has a score of 10 less than the
 * least of all. The time is that of the bytes and of the tokens found, which are at most as many for
 * a place as tokens end one another.
 *
 * Two programs define the result, and sums that differ only by rounding make them differ:
 *   SentencePiece       float sums, as version 0.2.2 and later have them. A user-defined token of n
 *                       bytes counts as 0.1 (n - 1). A sum beyond 100,000 becomes 0, and those of
 *                       the places after it as much less. Each unknown character becomes its bytes
 *                       <0xHH>, or a run of them one unknown token.
 *   Hugging Face        double sums of the scores in mgpt.tokenizer.scores. Every entry of the
 *                       vocabulary is a token, also <0xHH>. A run of unknown characters is first
 *                       looked up, then becomes bytes or one unknown token.
 * Ill-formed bytes are characters of their own.
 *
 * In "t5" files a text's spaces become U+2581 here, and words are split at them. In "mgpt-unigram"
 * files, of Hugging Face's other tokenizers, the steps make the pieces (tok_steps.h), and each is
 * split by itself.
 */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEY_SCORES "tokenizer.ggml.scores"
#define KEY_DOUBLES "mgpt.tokenizer.scores"
#define KEY_ADDED "mgpt.tokenizer.added" /* i32: ids that only the list of added tokens has */
#define UNKNOWN_PENALTY 10
#define MOST_SUM 100000.0 /* SentencePiece begins again from 0 beyond it */

/* The best split that ends at a position. */
struct best_split {
    double sum;
    uint32_t from; /* where its last token begins; NO_SPLIT: none found yet */
    int32_t id;    /* its last token; UNKNOWN_ID: the last character is no token */
};

#define NO_SPLIT UINT32_MAX
#define UNKNOWN_ID (-1)

/* A row of the automaton, with what the split needs of it. */
struct unigram_row {
    double score; /* what it adds to a sum */
    uint32_t n, next;
    int32_t id;
    uint8_t hidden; /* counts_as_special */
};

struct tok_unigram {
    struct tok_match match;   /* the tokens that text can become */
    struct unigram_row *rows; /* of the automaton's rows */
    double *scores;           /* of each id */
    double unknown;           /* what an unknown character adds */
    int32_t bytes[256];       /* id of <0xHH>, -1: none */
    uint8_t exact;            /* Hugging Face's sums */
    uint8_t by_word;          /* no token has a space after another character */
};

/* ---- opening --------------------------------------------------------------------------------- */

static void unigram_close(struct tok *t)
{
    if (t->unigram) {
        match_free(&t->unigram->match);
        free(t->unigram->scores);
        free(t->unigram->rows);
    }
    free(t->unigram);
    t->unigram = NULL;
}

/* If two tokens have equal texts, the last one counts, as in Hugging Face; other files have no such
 * tokens. Control, unknown and byte tokens of SentencePiece are not found in a text. */
static int is_row(const struct tok_unigram *u, const struct tok_entry *e)
{
    if (e->text.n == 0 || e->marks & ONLY_ADDED)
        return 0;
    return u->exact || e->type == TOK_NORMAL || e->type == TOK_USER;
}

/* In a text, control tokens count only where the caller allows them. */
static int counts_as_special(uint8_t type)
{
    return type == TOK_CONTROL || type == TOK_UNKNOWN;
}

/* The score of a token, as it counts in a sum. */
static double row_score(const struct tok_unigram *u, const struct match_row *row)
{
    if (u->exact)
        return u->scores[row->id];
    if (row->type == TOK_USER)
        return (float)(0.1 * ((double)row->text.n - 1));
    return (float)u->scores[row->id];
}

static int fill_rows(struct tok_unigram *u, mgpt_error *err)
{
    size_t n = arr_len(u->match.rows);
    u->rows = mem_new(n, sizeof *u->rows);
    if (!u->rows)
        return err_memory(err, "the vocabulary", n * sizeof *u->rows);
    for (size_t i = 0; i < n; i++) {
        const struct match_row *row = &u->match.rows[i];
        u->rows[i] = (struct unigram_row){.score = row_score(u, row),
                                          .n = (uint32_t)row->text.n,
                                          .next = row->next,
                                          .id = (int32_t)row->id,
                                          .hidden = (uint8_t)counts_as_special(row->type)};
    }
    return MGPT_OK;
}

static int index_rows(struct tok *t, mgpt_error *err)
{
    struct tok_unigram *u = t->unigram;
    for (size_t i = t->n; i > 0; i--) {
        const struct tok_entry *e = &t->entries[i - 1];
        if (e->type == TOK_BYTE)
            u->bytes[(uint8_t)e->piece[0]] = (int32_t)(i - 1);
        if (!is_row(u, e))
            continue;
        if (!match_add(&u->match, e->text, (uint32_t)(i - 1), e->type))
            return err_memory(err, "the vocabulary", t->n * sizeof *u->match.rows);
        u->by_word &= !tok_inner_space(e->text);
    }
    int status = match_build(&u->match, 0, err);
    return status < 0 ? status : fill_rows(u, err);
}

/* An unknown character counts 10 less than the least score; SentencePiece looks at normal tokens. */
static void find_unknown_score(const struct tok *t, struct tok_unigram *u)
{
    double least = 0;
    int some = 0;
    for (size_t i = 0; i < t->n; i++) {
        double score = u->scores[i];
        if (u->exact ? t->entries[i].marks & ONLY_ADDED : t->entries[i].type != TOK_NORMAL)
            continue;
        least = !some || score < least ? score : least;
        some = 1;
    }
    u->unknown = u->exact ? least - UNKNOWN_PENALTY : (double)((float)least - UNKNOWN_PENALTY);
}

static int unigram_open(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    struct tok_unigram *u = t->unigram = mem_new(1, sizeof *u);
    if (u)
        u->scores = mem_new(t->n, sizeof *u->scores);
    if (!u || !u->scores)
        return err_memory(err, "the vocabulary", t->n * sizeof *u->scores);
    for (size_t b = 0; b < 256; b++)
        u->bytes[b] = -1;
    u->by_word = 1;
    int there = tok_scores_load(t, g, KEY_DOUBLES, GGUF_F64, u->scores, err);
    u->exact = there > 0;
    if (there == 0)
        there = tok_scores_load(t, g, KEY_SCORES, GGUF_F32, u->scores, err);
    if (there == 0)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "key " KEY_SCORES ": missing");
    if (there < 0)
        return there;
    find_unknown_score(t, u);
    return index_rows(t, err);
}

/* ---- the best split -------------------------------------------------------------------------- */

/* A run of text that is being split. */
struct split_run {
    const char *p;
    size_t n;
    struct best_split *best; /* n + 1 */
    size_t reset_at;         /* where the sum was last set to 0 */
    double offset;           /* the sum before that */
};

static double add_score(const struct tok_unigram *u, double score, double sum)
{
    return u->exact ? score + sum : (double)((float)score + (float)sum);
}

/* Makes the sum at a place 0 where it is beyond MOST_SUM, as SentencePiece does before it looks for
 * tokens from there: the sums of splits that cross the place become as much less. */
static void reset_sum(const struct tok_unigram *u, struct split_run *run, size_t at)
{
    double sum = run->best[at].sum;
    if (u->exact || fabs(sum) <= MOST_SUM)
        return;
    run->reset_at = at;
    run->offset = sum;
    run->best[at].sum = 0;
}

/* Returns the best split whose last token ends at `end` and is in row i or in a row of shorter
 * tokens. Tokens that begin inside a character do not count. *shortest: bytes of the shortest one
 * that counts. */
static struct best_split best_of_rows(const struct tok_unigram *u, uint32_t i,
                                      const struct split_run *run, size_t end, int hides,
                                      size_t *shortest)
{
    struct best_split to = {.from = NO_SPLIT};
    double offset = run->offset; /* what `to` still has to lose */
    for (const struct unigram_row *r; i; i = r->next) {
        r = &u->rows[i - 1];
        size_t from = end - r->n;
        const struct best_split *before = &run->best[from];
        if (before->from == NO_SPLIT || (hides && r->hidden))
            continue;
        *shortest = r->n;
        if (offset != 0 && from >= run->reset_at) {
            to.sum = add_score(u, to.sum, -offset);
            offset = 0;
        }
        double sum = add_score(u, r->score, before->sum);
        if (to.from == NO_SPLIT || sum > to.sum)
            to = (struct best_split){sum, (uint32_t)from, r->id};
    }
    if (offset != 0)
        to.sum = add_score(u, to.sum, -offset);
    return to;
}

/* Proposes all tokens that end at `end`; the character before it has `length` bytes. */
static void propose_all(const struct tok_call *c, const struct split_run *run, size_t end,
                        size_t length, uint32_t state)
{
    const struct tok_unigram *u = c->t->unigram;
    const struct match_row *found = match_found(&u->match, state);
    uint32_t i = found ? (uint32_t)(found - u->match.rows) + 1 : 0;
    int hides = !(c->flags & MGPT_PARSE_SPECIAL);
    struct best_split *to = &run->best[end];
    size_t shortest = 0;
    *to = best_of_rows(u, i, run, end, hides, &shortest);
    if (shortest == length)
        return;
    double sum = add_score(u, u->unknown, run->best[end - length].sum);
    if (to->from == NO_SPLIT || sum > to->sum)
        *to = (struct best_split){sum, (uint32_t)(end - length), UNKNOWN_ID};
}

/* Makes `from` of each position the one where the token from there ends: the split in order. */
static void reverse_links(struct best_split *best, size_t n)
{
    size_t at = n;
    uint32_t next = NO_SPLIT;
    int32_t id = 0;
    for (;;) {
        struct best_split here = best[at];
        best[at].from = next;
        best[at].id = id;
        if (at == 0)
            return;
        next = (uint32_t)at;
        id = here.id;
        at = here.from;
    }
}

/* Splits the run, whose best[0].sum is that of all before it. */
static void find_split(const struct tok_call *c, struct split_run *run)
{
    for (size_t i = 1; i <= run->n; i++)
        run->best[i].from = NO_SPLIT;
    uint32_t state = 0;
    for (size_t at = 0, length; at < run->n;) {
        uint32_t code;
        reset_sum(c->t->unigram, run, at);
        length = utf8_next(run->p + at, run->n - at, &code);
        for (size_t end = at + length; at < end; at++)
            state = match_step(&c->t->unigram->match, state, (uint8_t)run->p[at]);
        propose_all(c, run, at, length, state);
    }
    double sum = run->best[run->n].sum;
    reverse_links(run->best, run->n);
    run->best[run->n].sum = sum;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* The token that is exactly these bytes, -1: none. */
static int32_t find_token(const struct tok_call *c, const char *p, size_t n)
{
    const struct match_row *row = match_whole(&c->t->unigram->match, p, n);
    int hides = !(c->flags & MGPT_PARSE_SPECIAL);
    return row && !(hides && counts_as_special(row->type)) ? (int32_t)row->id : -1;
}

/* Appends the tokens of n bytes that are unknown characters. *after_unknown: the unknown token was
 * the last one; it covers them, too. 0 if there are none. */
static int put_unknown_run(struct tok_call *c, const char *p, size_t n, int *after_unknown)
{
    const struct tok_unigram *u = c->t->unigram;
    int32_t whole = u->exact ? find_token(c, p, n) : -1;
    int has_bytes = whole < 0, joins = *after_unknown;
    for (size_t i = 0; i < n && has_bytes; i++)
        has_bytes = u->bytes[(uint8_t)p[i]] >= 0;
    *after_unknown = whole < 0 && !has_bytes;
    for (size_t i = 0; i < n && has_bytes; i++)
        tok_put(c, u->bytes[(uint8_t)p[i]]);
    if (whole >= 0)
        tok_put(c, whole);
    else if (*after_unknown && c->t->unk >= 0 && !joins)
        tok_put(c, c->t->unk);
    return has_bytes || whole >= 0 || c->t->unk >= 0;
}

/* 1: an unknown character, or the unknown token's own text, which counts as one. */
static int is_unknown(const struct tok *t, int32_t id)
{
    return id == UNKNOWN_ID || (t->unigram->exact && id == t->unk);
}

/* Appends the tokens of the split. 0 and the place of a character that has none. */
static int put_split(struct tok_call *c, const struct split_run *run, int *after_unknown,
                     size_t *where)
{
    for (size_t at = 0, end; at < run->n; at = end) {
        end = run->best[at].from;
        if (!is_unknown(c->t, run->best[at].id)) {
            tok_put(c, run->best[at].id);
            *after_unknown = 0;
            continue;
        }
        while (end < run->n && is_unknown(c->t, run->best[end].id))
            end = run->best[end].from;
        *where = at;
        if (!put_unknown_run(c, run->p + at, end - at, after_unknown))
            return 0;
    }
    return 1;
}

static int encode_runs(struct tok_call *c, const struct tok_spaced *s, struct best_split **best)
{
    int after_unknown = 0;
    double sum = 0;
    for (size_t from = 0, end, where; from < s->n; from = end) {
        end = tok_run_end(c->t, c->t->unigram->by_word, s->text, s->n, from);
        if (!arr_reserve(*best, end - from + 1))
            return err_memory(c->err, "the text's splits", (end - from + 1) * sizeof **best);
        struct split_run run = {s->text + from, end - from, *best, 0, 0};
        /* words that Hugging Face splits are texts of their own; else the sum goes on */
        run.best[0] = (struct best_split){.sum = c->t->space_alone ? 0 : sum};
        find_split(c, &run);
        if (!put_split(c, &run, &after_unknown, &where))
            return tok_spaced_refuse(c, s, from + where);
        sum = run.best[run.n].sum;
        after_unknown &= !c->t->space_alone;
    }
    return MGPT_OK;
}

static int unigram_encode(struct tok_call *c, const char *p, size_t n)
{
    struct tok_spaced s;
    struct best_split *best = NULL;
    int status = tok_spaced_make(c, p, n, &s);
    if (status == MGPT_OK)
        status = encode_runs(c, &s, &best);
    arr_free(best);
    free(s.text);
    return status;
}

const struct tok_kind tok_kind_unigram = {
    .name = "unigram",
    .spaces = 1,
    .open = unigram_open,
    .close = unigram_close,
    .encode = unigram_encode,
};

/* ---- pieces of the steps --------------------------------------------------------------------- */

static int unigram_pieces_open(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    int status = tok_marks_load(t, g, KEY_ADDED, ONLY_ADDED, err);
    if (status == MGPT_OK)
        status = unigram_open(t, g, err);
    if (status == MGPT_OK && !t->unigram->exact)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "key " KEY_DOUBLES ": missing");
    return status;
}

static int unigram_pieces_encode(struct tok_call *c, const char *p, size_t n)
{
    struct split_run run = {p, n, NULL, 0, 0};
    char name[TOK_NAME_MAX];
    size_t where = 0;
    int after_unknown = 0, status = MGPT_OK;
    if (n > UINT32_MAX / 2)
        return err_set(c->err, MGPT_ETEXT, c->part_at, "a piece of %zu bytes is too long", n);
    if (!arr_reserve(run.best, n + 1))
        return err_memory(c->err, "the text's splits", (n + 1) * sizeof *run.best);
    run.best[0] = (struct best_split){.sum = 0};
    find_split(c, &run);
    if (!put_split(c, &run, &after_unknown, &where)) {
        tok_name_unit(name, p + where, n - where);
        status =
            err_set(c->err, MGPT_ETEXT, tok_place(c, p),
                    "%s is not in the vocabulary, which has no token for unknown characters", name);
    }
    arr_free(run.best);
    return status;
}

const struct tok_kind tok_kind_unigram_pieces = {
    .name = "unigram",
    .open = unigram_pieces_open,
    .close = unigram_close,
    .encode = unigram_pieces_encode,
};
