/* Exact speculation. See speculate.h. */
#include "generate/speculate.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* What one more row costs in a pass, measured in passes of one row. Weights that are read from
 * memory are read once for all rows; weights that lie in the cache leave the arithmetic, which
 * grows with the rows. */
static const double ROW_COST_MEMORY = 0.12, ROW_COST_CACHE = 0.35;
static const uint64_t CACHE_BYTES = (uint64_t)32 << 20;

int speculate_open(struct speculation *s, struct engine *engine, size_t most, mgpt_error *err)
{
    const mgpt_info *info = &engine->info;
    *s = (struct speculation){.engine = engine, .session = engine->session};
    s->most = most < SPECULATE_MAX ? most : SPECULATE_MAX;
    double row_cost = info->bytes_per_token > CACHE_BYTES ? ROW_COST_MEMORY : ROW_COST_CACHE;
    s->n_vocab = (size_t)info->n_vocab;
    s->rows = calloc((1 + s->most) * s->n_vocab, sizeof *s->rows);
    if (s->rows && lookup_open(&s->lookup, row_cost))
        return MGPT_OK;
    return err_memory(err, "the logits of a proposal",
                      (1 + s->most) * s->n_vocab * sizeof *s->rows);
}

void speculate_close(struct speculation *s)
{
    lookup_close(&s->lookup);
    free(s->rows);
    *s = (struct speculation){0};
}

void speculate_begin(struct speculation *s)
{
    const int32_t *tokens = mgpt_tokens(s->session);
    s->pos = mgpt_pos(s->session);
    s->n_ahead = s->at = 0;
    lookup_clear(&s->lookup);
    for (size_t i = 0; i < s->pos; i++)
        lookup_add(&s->lookup, tokens[i]);
}

static int keep_rows(const mgpt_value *value, void *user)
{
    struct speculation *s = user;
    size_t first = (size_t)value->pos - s->pos;
    for (size_t i = 0; i < (size_t)value->rows; i++)
        memcpy(s->rows + (first + i) * s->n_vocab, value->data + i * value->stride,
               s->n_vocab * sizeof *s->rows);
    return 0;
}

/* The logits after the i-th token ahead, at position pos; NULL: they are refused. */
static const float *row_at(const struct speculation *s, size_t i, size_t pos, mgpt_error *err)
{
    const float *row = s->rows + i * s->n_vocab;
    return engine_check(s->engine, row, pos, err) == MGPT_OK ? row : NULL;
}

/* Runs `ahead` after the tokens that count. NULL: failed, and nothing has changed. */
static const float *run_ahead(struct speculation *s, size_t n, mgpt_error *err)
{
    struct watcher keep = {MGPT_POINT_BIT(MGPT_LOGITS), keep_rows, s, NULL};
    if (n == 1)
        return engine_step(s->engine, s->ahead[0], err);
    int status = engine_feed(s->engine, s->session, s->ahead, n, &keep, err);
    return status == MGPT_OK ? row_at(s, 0, s->pos, err) : NULL;
}

const float *speculate_step(struct speculation *s, int32_t token, size_t draws, mgpt_error *err)
{
    size_t room = mgpt_n_ctx(s->session) - s->pos;
    s->n_steps++;
    if (s->at + 1 < s->n_ahead && s->ahead[s->at + 1] == token) {
        s->at++;
        s->pos++;
        s->n_right++;
        lookup_add(&s->lookup, token);
        return row_at(s, s->at, s->pos - 1, err);
    }
    if (s->n_ahead > 1)
        lookup_learn(&s->lookup, s->n_ahead - 1, s->at);
    s->n_ahead = s->at = 0;
    if (mgpt_rewind(s->session, s->pos, err) < 0)
        return NULL;
    lookup_add(&s->lookup, token);
    size_t most = s->most < draws ? s->most : draws;
    size_t n =
        room > 1 ? lookup_propose(&s->lookup, s->ahead + 1, most < room - 1 ? most : room - 1) : 0;
    s->ahead[0] = token;
    const float *logits = run_ahead(s, n + 1, err);
    if (!logits)
        return NULL;
    s->n_ahead = n + 1;
    s->n_proposed += n;
    s->n_passes++;
    s->pos++;
    return logits;
}

size_t speculate_pos(const struct speculation *s)
{
    return s->pos;
}
