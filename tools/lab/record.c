/* A recorded run. See record.h. The page's own module computes it (module.c, compiled for this
 * machine), so that a recorded page shows what a live one would. */
#include "lab/record.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "lab/module.h"

#include <math.h>
#include <string.h>

/* Values of a hook as lab_value gives them. */
static int count_of(const struct hook *hook, size_t n, uint64_t *count)
{
    uint64_t dims[4];
    if (!hook_is_attention(hook->point))
        return hook_shape(hook, n, dims, count);
    return ck_mul(n, n + 1, count) && ck_mul(*count / 2, hook->dims[0], count);
}

uint64_t record_size(const struct record_of_run *run)
{
    uint64_t sum = 0, count, bytes;
    for (size_t i = 0; i < arr_len(run->hooks); i++)
        if (!count_of(&run->hooks[i], run->n_tokens, &count) ||
            !ck_mul(count, sizeof(float), &bytes) || !ck_add(sum, bytes, &sum))
            return UINT64_MAX;
    return sum;
}

static int of_module(mgpt_error *err, int status)
{
    return err_set(err, status, MGPT_NO_OFFSET, "%s", lab_error());
}

/* ---- values ---- */

static int put_values(const struct record_of_run *run, struct page_out *page, struct jtext *trace,
                      mgpt_error *err)
{
    int64_t at = 0;
    int status = page_begin(page, "mgpt-trace", err);
    for (size_t i = 0; i < arr_len(run->hooks) && status == MGPT_OK; i++) {
        const struct hook *hook = &run->hooks[i];
        uint64_t count;
        const float *rows =
            lab_value(LAB_SHOWN, (int)hook->point, hook->layer < 0 ? 0 : hook->layer);
        if (!rows || !count_of(hook, run->n_tokens, &count))
            return of_module(err, MGPT_EARG);
        page_add(page, rows, (size_t)count * sizeof *rows);
        jtext_add(trace, "s:{s:I, s:I}", hook->name, "offset", at, "count", (int64_t)count);
        at += (int64_t)count;
    }
    page_end(page);
    return status;
}

/* ---- the logit lens ---- */

/* The likeliest of the first n tokens of a row of logits, and the logarithm of the sum of all. */
static struct jtext *tops_json(const float *logits, size_t n)
{
    mgpt_candidate top[RECORD_TOP];
    struct jtext *ids = jtext("[]"), *values = jtext("[]");
    size_t n_top = mgpt_top(logits, n, top, RECORD_TOP);
    double logsum = n_top > 0 ? (double)top[0].logit - top[0].logprob : 0;
    for (size_t i = 0; i < n_top && isfinite(top[i].logit); i++) {
        jtext_add(ids, "i", (int)top[i].token);
        jtext_add(values, "g", (double)top[i].logit);
    }
    return jtext("{s:o, s:o, s:g}", "ids", ids, "values", values, "logsum",
                 isfinite(logsum) ? logsum : 0);
}

/* 1 for the states that engine.js counts: the input of the first layer, and the residual stream after
 * each half of a layer. */
static int is_residual(const struct hook *hook)
{
    return hook->point == MGPT_RESID_MID || hook->point == MGPT_RESID_POST ||
           (hook->point == MGPT_RESID_PRE && hook->layer == 0);
}

static int put_lens(const struct record_of_run *run, size_t pos, struct jtext *lens,
                    mgpt_error *err)
{
    struct jtext *rows = jtext("[]");
    int status = MGPT_OK;
    for (size_t i = 0; i < arr_len(run->hooks) && status == MGPT_OK; i++) {
        const struct hook *hook = &run->hooks[i];
        if (!is_residual(hook))
            continue;
        const float *logits = lab_lens(LAB_SHOWN, (int)hook->point, hook->layer, pos);
        if (logits)
            jtext_add(rows, "o", tops_json(logits, run->n_choices));
        else
            status = of_module(err, MGPT_EMEM);
    }
    jtext_add(lens, "o", rows);
    return status;
}

/* ---- attribution ---- */

static int record_put_parts(const mgpt_info *info, size_t pos, int32_t token, struct jtext *list,
                            mgpt_error *err)
{
    const double *parts = lab_dla(LAB_SHOWN, pos, token);
    struct jtext *numbers = jtext("[]");
    if (!parts) {
        jtext_free(numbers);
        return of_module(err, MGPT_EMEM);
    }
    for (size_t i = 0; i < 5 + (size_t)info->n_layer * ((size_t)info->n_head + 1); i++)
        jtext_add(numbers, "g", isfinite(parts[i]) ? parts[i] : 0);
    jtext_add(list, "{s:i, s:o}", "token", (int)token, "parts", numbers);
    return MGPT_OK;
}

/* For the likeliest token, and for the one that the text goes on with. */
static int put_dla(const struct record_of_run *run, const mgpt_info *info, size_t pos,
                   struct jtext *dla, mgpt_error *err)
{
    struct jtext *list = jtext("[]");
    mgpt_candidate top = {0};
    const float *logits = lab_value(LAB_SHOWN, MGPT_LOGITS, 0) + pos * (size_t)info->n_vocab;
    mgpt_top(logits, run->n_choices, &top, 1);
    int status = record_put_parts(info, pos, top.token, list, err);
    if (status == MGPT_OK && pos + 1 < run->n_tokens && run->tokens[pos + 1] != top.token)
        status = record_put_parts(info, pos, run->tokens[pos + 1], list, err);
    jtext_add(dla, "o", list);
    return status;
}

/* ---- the run ---- */

static int record_look(const struct record_of_run *run, struct jtext *lens, struct jtext *dla,
                       mgpt_error *err)
{
    mgpt_info info;
    int status = mgpt_get_info(run->model, &info, err);
    for (size_t pos = 0; pos < run->n_tokens && status == MGPT_OK; pos++) {
        status = put_lens(run, pos, lens, err);
        if (status == MGPT_OK)
            status = put_dla(run, &info, pos, dla, err);
        if (interrupted())
            return 1;
    }
    return status;
}

static int run_and_put(const struct record_of_run *run, struct page_out *page, struct jtext *about,
                       mgpt_error *err)
{
    int status = lab_run(LAB_SHOWN, run->tokens, run->n_tokens);
    if (status < 0)
        return of_module(err, status);
    struct jtext *trace = jtext("{}"), *lens = jtext("[]"), *dla = jtext("[]");
    status = record_look(run, lens, dla, err);
    if (status == MGPT_OK)
        status = put_values(run, page, trace, err);
    jtext_add(about, "s:o, s:o, s:o", "trace", trace, "lens", lens, "dla", dla);
    return status;
}

int record_put(const struct record_of_run *run, struct page_out *page, struct jtext *about,
               mgpt_error *err)
{
    int status = lab_adopt(run->model);
    status = status < 0 ? of_module(err, status) : run_and_put(run, page, about, err);
    lab_close();
    return status;
}
