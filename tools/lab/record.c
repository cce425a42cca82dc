/* A recorded run. See record.h. The page's own module computes it (module.c, compiled for this
 * machine), so that a recorded page shows what a live one would. What does not get into the JSON
 * for want of memory is noticed by the caller (json_has_lost). */
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

static int put_values(const struct record_of_run *run, struct page_out *page, json_t *trace,
                      mgpt_error *err)
{
    json_int_t at = 0;
    int status = page_begin(page, "mgpt-trace", err);
    for (size_t i = 0; i < arr_len(run->hooks) && status == MGPT_OK; i++) {
        const struct hook *hook = &run->hooks[i];
        uint64_t count;
        const float *rows =
            lab_value(LAB_SHOWN, (int)hook->point, hook->layer < 0 ? 0 : hook->layer);
        if (!rows || !count_of(hook, run->n_tokens, &count))
            return of_module(err, MGPT_EARG);
        page_add(page, rows, (size_t)count * sizeof *rows);
        json_object_set_new(trace, hook->name,
                            json_pack("{s:I, s:I}", "offset", at, "count", (json_int_t)count));
        at += (json_int_t)count;
    }
    page_end(page);
    return status;
}

/* ---- the logit lens ---- */

/* The likeliest tokens of a row of logits, and the logarithm of the sum of all. */
static json_t *tops_json(const float *logits, size_t n)
{
    mgpt_candidate top[RECORD_TOP];
    json_t *ids = json_array(), *values = json_array();
    size_t n_top = mgpt_top(logits, n, top, RECORD_TOP);
    double logsum = n_top > 0 ? (double)top[0].logit - top[0].logprob : 0;
    for (size_t i = 0; i < n_top && isfinite(top[i].logit); i++) {
        json_array_append_new(ids, json_integer(top[i].token));
        json_array_append_new(values, json_real((double)top[i].logit));
    }
    return json_pack("{s:o, s:o, s:f}", "ids", ids, "values", values, "logsum",
                     isfinite(logsum) ? logsum : 0);
}

/* As engine.js counts them: what the first layer begins with, then what each half layer leaves. */
static int is_residual(const struct hook *hook)
{
    return hook->point == MGPT_RESID_MID || hook->point == MGPT_RESID_POST ||
           (hook->point == MGPT_RESID_PRE && hook->layer == 0);
}

static int put_lens(const struct record_of_run *run, size_t n_vocab, size_t pos, json_t *lens,
                    mgpt_error *err)
{
    json_t *rows = json_array();
    int status = MGPT_OK;
    for (size_t i = 0; i < arr_len(run->hooks) && status == MGPT_OK; i++) {
        const struct hook *hook = &run->hooks[i];
        if (!is_residual(hook))
            continue;
        const float *logits = lab_lens(LAB_SHOWN, (int)hook->point, hook->layer, pos);
        if (logits)
            json_array_append_new(rows, tops_json(logits, n_vocab));
        else
            status = of_module(err, MGPT_EMEM);
    }
    json_array_append_new(lens, rows);
    return status;
}

/* ---- attribution ---- */

static int record_put_parts(const mgpt_info *info, size_t pos, int32_t token, json_t *list,
                            mgpt_error *err)
{
    const double *parts = lab_dla(LAB_SHOWN, pos, token);
    json_t *numbers = json_array();
    if (!parts) {
        json_decref(numbers);
        return of_module(err, MGPT_EMEM);
    }
    for (size_t i = 0; i < 5 + (size_t)info->n_layer * ((size_t)info->n_head + 1); i++)
        json_array_append_new(numbers, json_real(isfinite(parts[i]) ? parts[i] : 0));
    json_array_append_new(list, json_pack("{s:i, s:o}", "token", (int)token, "parts", numbers));
    return MGPT_OK;
}

/* For the likeliest token, and for the one that the text goes on with. */
static int put_dla(const struct record_of_run *run, const mgpt_info *info, size_t pos, json_t *dla,
                   mgpt_error *err)
{
    json_t *list = json_array();
    mgpt_candidate top = {0};
    const float *logits = lab_value(LAB_SHOWN, MGPT_LOGITS, 0) + pos * (size_t)info->n_vocab;
    mgpt_top(logits, (size_t)info->n_vocab, &top, 1);
    int status = record_put_parts(info, pos, top.token, list, err);
    if (status == MGPT_OK && pos + 1 < run->n_tokens && run->tokens[pos + 1] != top.token)
        status = record_put_parts(info, pos, run->tokens[pos + 1], list, err);
    json_array_append_new(dla, list);
    return status;
}

/* ---- the run ---- */

static int record_look(const struct record_of_run *run, json_t *lens, json_t *dla, mgpt_error *err)
{
    mgpt_info info;
    int status = mgpt_get_info(run->model, &info, err);
    for (size_t pos = 0; pos < run->n_tokens && status == MGPT_OK; pos++) {
        status = put_lens(run, (size_t)info.n_vocab, pos, lens, err);
        if (status == MGPT_OK)
            status = put_dla(run, &info, pos, dla, err);
        if (interrupted())
            return 1;
    }
    return status;
}

static int run_and_put(const struct record_of_run *run, struct page_out *page, json_t *about,
                       mgpt_error *err)
{
    int status = lab_run(LAB_SHOWN, run->tokens, run->n_tokens);
    if (status < 0)
        return of_module(err, status);
    json_t *trace = json_object(), *lens = json_array(), *dla = json_array();
    status = record_look(run, lens, dla, err);
    if (status == MGPT_OK)
        status = put_values(run, page, trace, err);
    json_object_set_new(about, "trace", trace);
    json_object_set_new(about, "lens", lens);
    json_object_set_new(about, "dla", dla);
    return status;
}

int record_put(const struct record_of_run *run, struct page_out *page, json_t *about,
               mgpt_error *err)
{
    int status = lab_adopt(run->model);
    status = status < 0 ? of_module(err, status) : run_and_put(run, page, about, err);
    lab_close();
    return status;
}
