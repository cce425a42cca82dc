/* Exact speculation. See speculate.h. */
#include "generate/speculate.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one more row usually costs in a pass, in passes of one row. Weights that are read from memory
 * are read once for all rows; weights that are in the cache leave the arithmetic, which grows with
 * the rows. */
static const double ROW_COST_MEMORY = 0.12, ROW_COST_CACHE = 0.35;
static const uint64_t CACHE_BYTES = (uint64_t)32 << 20;

enum { PASSES_TO_KNOW = 16 }; /* before measured costs are believed */

int speculate_open(struct speculation *s, struct engine *engine, size_t lookup, struct draft *draft,
                   mgpt_error *err)
{
    const mgpt_info *info = &engine->info;
    size_t most = draft && lookup < SPECULATE_DEFAULT ? SPECULATE_DEFAULT : lookup;
    *s = (struct speculation){
        .engine = engine, .session = engine->session, .lookup_most = lookup, .draft = draft};
    s->times.usual = info->bytes_per_token > CACHE_BYTES ? ROW_COST_MEMORY : ROW_COST_CACHE;
    s->times.row = s->times.usual;
    s->n_vocab = (size_t)info->n_vocab;
    s->rows = calloc((1 + most) * s->n_vocab, sizeof *s->rows);
    if (s->rows && lookup_open(&s->lookup, s->times.row))
        return MGPT_OK;
    return err_memory(err, "the logits of a proposal", (1 + most) * s->n_vocab * sizeof *s->rows);
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

/* ---- what it costs ---- */

/* An outlier says more about the machine than about the pass. */
static double at_most_twice(double seconds, double expected)
{
    return expected > 0 && seconds > 2 * expected ? 2 * expected : seconds;
}

/* Fits a straight line, seconds = one * (1 + row * (n - 1)), with a slope near the usual. */
static void time_pass(struct pass_times *p, double n, double seconds)
{
    const double forget = 0.98;
    double t = at_most_twice(seconds, p->one * (1 + p->row * (n - 1)));
    p->w = p->w * forget + 1;
    p->n = p->n * forget + n;
    p->t = p->t * forget + t;
    p->nn = p->nn * forget + n * n;
    p->nt = p->nt * forget + n * t;
    double spread = p->w * p->nn - p->n * p->n, b = (p->w * p->nt - p->n * p->t) / spread;
    if (++p->n_passes >= PASSES_TO_KNOW && spread > 0.1 * p->w * p->w) {
        p->row = b * p->w / (p->t - b * (p->n - p->w));
        p->row = fmin(fmax(p->row, p->usual / 4), p->usual * 2);
    }
    p->one = p->t / (p->w + p->row * (p->n - p->w));
}

/* The first proposal also sets the draft up, and each may read what the draft has not seen. */
static void time_draw(struct pass_times *p, const struct draft *d, double seconds)
{
    double each = seconds / (double)d->n_run;
    if (p->n_drafts++ == 1)
        p->draw = each;
    p->draw += (each < p->draw ? 0.5 : 0.1) * (at_most_twice(each, p->draw) - p->draw);
}

/* Until it is known, a token of the draft costs as much as its weights say. */
static struct draft_costs draft_costs(const struct speculation *s)
{
    const struct pass_times *p = &s->times;
    double draw = (double)s->draft->engine.info.bytes_per_token /
                  (double)(s->engine->info.bytes_per_token + 1);
    return (struct draft_costs){
        p->row, p->n_drafts > 1 && p->n_passes >= PASSES_TO_KNOW ? p->draw / p->one : draw};
}

/* ---- proposing ---- */

/* Proposes at most cap tokens after the text. The draft is asked unless a repetition is surer. */
static size_t propose(struct speculation *s, const mgpt_sampler *sampler, size_t cap)
{
    struct lookup *l = &s->lookup;
    struct draft *d = s->draft;
    size_t most = cap < s->lookup_most ? cap : s->lookup_most;
    l->row_cost = s->times.row;
    size_t n = lookup_propose(l, s->ahead + 1, most);
    s->drafted = 0;
    if (!d || l->broken || (n > 0 && odds_of(&l->odds[l->length]) > odds_of(&d->all)))
        return n;
    double start = cli_seconds();
    d->costs = draft_costs(s);
    size_t n_drafted = draft_propose(d, l->tokens, arr_len(l->tokens), sampler, s->ahead + 1,
                                     cap < SPECULATE_DEFAULT ? cap : SPECULATE_DEFAULT);
    if (d->n_run > 0)
        time_draw(&s->times, d, cli_seconds() - start);
    s->drafted = n_drafted > 0;
    return s->drafted ? n_drafted : n;
}

/* The last pass is over: tells who proposed what was right. */
static void learn(struct speculation *s)
{
    if (s->n_ahead > 1 && s->drafted)
        draft_learn(s->draft, s->at);
    else if (s->n_ahead > 1)
        lookup_learn(&s->lookup, s->n_ahead - 1, s->at);
    s->n_ahead = s->at = 0;
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

const float *speculate_step(struct speculation *s, int32_t token, const mgpt_sampler *sampler,
                            size_t draws, mgpt_error *err)
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
    learn(s);
    if (mgpt_rewind(s->session, s->pos, err) < 0)
        return NULL;
    lookup_add(&s->lookup, token);
    size_t most = room > 0 && draws >= room ? room - 1 : draws;
    size_t n = propose(s, sampler, most);
    s->ahead[0] = token;
    double start = cli_seconds();
    const float *logits = run_ahead(s, n + 1, err);
    if (!logits)
        return NULL;
    time_pass(&s->times, (double)(n + 1), cli_seconds() - start);
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
