/* See metric.h. */
#include "patch/metric.h"

#include "base/mem.h"
#include "common/unescape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { METRIC_MOST = 256 }; /* bytes of a token's text */

/* ---- tokens ---- */

/* How many tokens a text is; *token is the first. Negative: the vocabulary cannot express it. */
static int64_t count_tokens(const struct engine *e, const char *text, size_t n, int32_t *token)
{
    mgpt_error err;
    int32_t *tokens;
    size_t n_tokens;
    int status = engine_try_encode(e, text, n, MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL, -1,
                                   &tokens, &n_tokens, &err);
    if (status == MGPT_OK && n_tokens > 0)
        *token = tokens[0];
    free(tokens);
    return status < 0 ? status : (int64_t)n_tokens;
}

/* count_tokens for a text with escapes. A text that is exactly the bytes of one token counts as this
 * token, even if the tokenizer would encode it otherwise. */
static int64_t find_token(const struct engine *e, const char *text, size_t n, int32_t *token)
{
    char bytes[METRIC_MOST];
    const struct cli_option id = {.kind = CLI_INT, .to = token, .max = INT32_MAX};
    if (n >= sizeof bytes)
        return -1;
    memcpy(bytes, text, n);
    bytes[n] = 0;
    if (text_is_none(e->model))
        return cli_set_number(&id, bytes) && *token < e->info.n_vocab ? 1 : -1;
    int64_t length = text_unescape(bytes, n);
    if (length <= 0)
        return -1;
    *token = engine_token_of(e, bytes, (size_t)length);
    return *token >= 0 ? 1 : count_tokens(e, bytes, (size_t)length, token);
}

static const char *metric_name(const struct metric *m)
{
    return m->what ? m->what : "--metric";
}

static int metric_token(const struct metric *m, const struct engine *e, const char *text, size_t n,
                        int32_t *token)
{
    int64_t found = find_token(e, text, n, token);
    int most = n < METRIC_MOST / 4 ? (int)n : METRIC_MOST / 4;
    if (found == 1)
        return EXIT_OK;
    if (found < 0)
        cli_note("%s: '%.*s' is not a token of the model", metric_name(m), most, text);
    else
        cli_note("%s: '%.*s' is %lld tokens, expected one", metric_name(m), most, text,
                 (long long)found);
    return EXIT_USAGE;
}

/* ---- reading ---- */

static const char separator[] = " - ";

/* The separator where both sides are tokens; failing that, the first that has two sides; or NULL. */
static const char *find_separator(const struct metric *m, const struct engine *e)
{
    const char *first = NULL, *at = *m->text ? strstr(m->text + 1, separator) : NULL;
    for (int32_t token; at && at[strlen(separator)]; at = strstr(at + 1, separator)) {
        const char *b = at + strlen(separator);
        if (find_token(e, m->text, (size_t)(at - m->text), &token) == 1 &&
            find_token(e, b, strlen(b), &token) == 1)
            return at;
        first = first ? first : at;
    }
    return first;
}

static int metric_read_difference(struct metric *m, const struct engine *e)
{
    const char *at = find_separator(m, e);
    if (!at) {
        cli_note("%s: expected 'A - B', logprob:TOKEN or kl, found '%.64s'", metric_name(m),
                 m->text);
        return EXIT_USAGE;
    }
    const char *b = at + strlen(separator);
    int code = metric_token(m, e, m->text, (size_t)(at - m->text), &m->a);
    return code == EXIT_OK ? metric_token(m, e, b, strlen(b), &m->b) : code;
}

int metric_read(struct metric *m, const struct engine *e)
{
    static const char prefix[] = "logprob:";
    const size_t n = strlen(prefix);
    m->n_vocab = (size_t)e->info.n_vocab;
    m->kind = METRIC_KL;
    if (strcmp(m->text, "kl") == 0)
        return EXIT_OK;
    m->kind = METRIC_LOGPROB;
    if (strncmp(m->text, prefix, n) == 0)
        return metric_token(m, e, m->text + n, strlen(m->text + n), &m->a);
    m->kind = METRIC_DIFFERENCE;
    return metric_read_difference(m, e);
}

/* ---- values ---- */

/* Returns the logarithm of the sum of exp(logits). A logit minus it is a log-probability. */
static double log_sum(const struct metric *m, const float *logits)
{
    return (double)logits[0] - mgpt_logprob(logits, m->n_vocab, 0);
}

int metric_keep_clean(struct metric *m, const float *logits)
{
    if (m->kind != METRIC_KL || m->clean)
        return 1;
    double log_all = log_sum(m, logits);
    m->clean = mem_new(m->n_vocab, sizeof *m->clean);
    m->shares = mem_new(m->n_vocab, sizeof *m->shares);
    for (size_t i = 0; m->clean && m->shares && i < m->n_vocab; i++) {
        m->clean[i] = (double)logits[i] - log_all;
        m->shares[i] = exp(m->clean[i]);
    }
    return m->clean && m->shares;
}

static double metric_divergence(const struct metric *m, const float *logits)
{
    double sum = 0, log_all = log_sum(m, logits);
    for (size_t i = 0; i < m->n_vocab; i++)
        sum += m->shares[i] * (m->clean[i] - ((double)logits[i] - log_all));
    return sum;
}

double metric_value(const struct metric *m, const float *logits)
{
    if (m->kind == METRIC_KL)
        return metric_divergence(m, logits);
    if (m->kind == METRIC_LOGPROB)
        return mgpt_logprob(logits, m->n_vocab, m->a);
    return (double)logits[m->a] - (double)logits[m->b];
}

void metric_free(struct metric *m)
{
    free(m->clean);
    free(m->shares);
    m->clean = m->shares = NULL;
}
