/* The exports of a lab page's module. See module.h.
 *
 * A pass is mgpt_sync with a tap at every point, so what is kept is what the engine computed, and a
 * token more costs one step. The taps apply the edits first: what is kept is what the model went on
 * with.
 */
#include "lab/module_impl.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/xxh64.h"
#include "mgpt.h"
#include "repl/dla.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All rows of one point of one layer. */
struct lab_record {
    float *rows; /* stb_ds array */
    size_t cols; /* of a row; 0: nothing has been kept */
};

struct lane {
    mgpt_session *session;
    mgpt_session *draft;       /* what lab_draft made of it, or NULL */
    struct lab_change *change; /* NULL: none */
    int no_memory;
    struct lab_record *records; /* [MGPT_N_POINTS][n_layer, at least 1] */
};

/* A page has one engine. */
static struct lab_state {
    mgpt_error err;
    mgpt_model *model;
    uint8_t *bytes; /* the model's file */
    mgpt_info info;
    int32_t *tokens; /* stb_ds array: of the last text */
    struct lane lanes[LAB_LANES];
    float *lens;    /* [n_vocab] */
    float *weights; /* of the last tensor that was read, stb_ds array */
    double *parts;  /* of the last attribution, stb_ds array */
} lab;

const char *lab_error(void)
{
    return lab.err.text;
}

mgpt_error *lab_last_error(void)
{
    return &lab.err;
}

void *lab_room(size_t n)
{
    void *room = malloc(n ? n : 1);
    if (!room)
        err_memory(&lab.err, "what the page hands over", n);
    return room;
}

void lab_free(void *p)
{
    free(p);
}

int lab_refuse(const char *what)
{
    return err_set(&lab.err, MGPT_EARG, MGPT_NO_OFFSET, "%s", what);
}

/* ---- opening ---- */

static size_t n_records(void)
{
    return (size_t)MGPT_N_POINTS * (size_t)(lab.info.n_layer > 0 ? lab.info.n_layer : 1);
}

static struct lab_record *record_of(struct lane *lane, int point, int layer)
{
    size_t per_point = n_records() / MGPT_N_POINTS;
    return &lane->records[(size_t)point * per_point + (size_t)(layer > 0 ? layer : 0)];
}

/* NULL for what the model lacks or has not run. */
static const struct lab_record *record_find(int lane, int point, int layer)
{
    if (!lab.model || lane < 0 || lane >= LAB_LANES || point < 0 || point >= MGPT_N_POINTS ||
        layer < 0 || (layer > 0 && layer >= lab.info.n_layer))
        return NULL;
    const struct lab_record *r = record_of(&lab.lanes[lane], point, layer);
    return r->cols > 0 && lab_n_tokens(lane) > 0 ? r : NULL;
}

static int lane_open(struct lane *lane)
{
    const mgpt_session_params params = {.kv_type = MGPT_KV_F32};
    lane->session = mgpt_session_new(lab.model, &params, &lab.err);
    lane->records = mem_new(n_records(), sizeof *lane->records);
    if (lane->session && !lane->records)
        err_memory(&lab.err, "the values", n_records() * sizeof *lane->records);
    return lane->session && lane->records ? MGPT_OK : MGPT_EMEM;
}

int lab_adopt(mgpt_model *model)
{
    lab.model = model;
    int status = mgpt_get_info(model, &lab.info, &lab.err);
    lab_change_open(lab.model, &lab.info);
    for (int i = 0; i < LAB_LANES && status == MGPT_OK; i++)
        status = lane_open(&lab.lanes[i]);
    lab.lanes[LAB_SHOWN].change = lab_change();
    if (status == MGPT_OK && !(lab.lens = mem_new((size_t)lab.info.n_vocab, sizeof *lab.lens)))
        status = err_memory(&lab.err, "logits", (size_t)lab.info.n_vocab * sizeof *lab.lens);
    return status;
}

static void lane_close(struct lane *lane)
{
    mgpt_session_free(lane->draft);
    mgpt_session_free(lane->session);
    for (size_t i = 0; lane->records && i < n_records(); i++)
        arr_free(lane->records[i].rows);
    free(lane->records);
}

mgpt_model *lab_model(void)
{
    return lab.model;
}

const mgpt_info *lab_info(void)
{
    return &lab.info;
}

mgpt_session *lab_session(int lane)
{
    return lab.lanes[lane].session;
}

void lab_close(void)
{
    lab_patch_close();
    lab_neuron_close();
    lab_many_close();
    lab_circuit_close();
    lab_change_close();
    for (int i = 0; i < LAB_LANES; i++)
        lane_close(&lab.lanes[i]);
    arr_free(lab.tokens);
    arr_free(lab.parts);
    arr_free(lab.weights);
    free(lab.lens);
    mgpt_close(lab.model);
    free(lab.bytes);
    lab = (struct lab_state){0};
}

int lab_open(uint8_t *bytes, size_t n)
{
    if (lab.model)
        return lab_refuse("a model is open");
    mgpt_model *model = mgpt_open_bytes(bytes, n, NULL, &lab.err);
    if (!model)
        return lab.err.status;
    lab.bytes = bytes;
    return lab_adopt(model);
}

int lab_n_ctx(void)
{
    return lab.lanes[0].session ? (int)mgpt_n_ctx(lab.lanes[0].session) : 0;
}

/* ---- text ---- */

int lab_encode(const char *text, size_t n)
{
    return lab_encode_as(text, n, MGPT_NO_SPECIAL_TOKENS);
}

int lab_encode_as(const char *text, size_t n, unsigned flags)
{
    if (!lab.model)
        return lab_refuse("no model is open");
    int64_t count = mgpt_encode(lab.model, text, n, flags, NULL, 0, &lab.err);
    if (count < 0)
        return (int)count;
    if (!arr_reserve(lab.tokens, (size_t)count))
        return err_memory(&lab.err, "the tokens", (size_t)count * sizeof *lab.tokens);
    return (int)mgpt_encode(lab.model, text, n, flags, lab.tokens, arr_cap(lab.tokens), &lab.err);
}

const int32_t *lab_tokens(void)
{
    return lab.tokens;
}

/* ---- edits ---- */

/* The mean over the unedited run of the same tokens. */
static void take_mean(const struct edits *edits, struct edit *edit, size_t n)
{
    const struct lab_record *r = record_find(LAB_PLAIN, (int)edit_point(edit), edit->layer);
    const float *rows = r->rows + edit_first(edits, edit);
    for (size_t i = 0; i < edit_width(edits, edit); i++) {
        double sum = 0;
        for (size_t row = 0; row < n; row++)
            sum += (double)rows[row * r->cols + i];
        edit->mean[i] = (float)(sum / (double)n);
    }
}

/* Fills in the means of edits; they depend on all tokens, so everything is computed anew. */
static int take_means(struct lab_change *change, const int32_t *tokens, size_t n)
{
    struct edits *edits = &change->edits;
    int status = MGPT_OK, found = 0;
    for (size_t i = 0; i < arr_len(edits->list); i++)
        found |= edits->list[i].kind == EDIT_MEAN;
    if (!found || n == 0)
        return MGPT_OK;
    status = lab_run(LAB_PLAIN, tokens, n);
    for (size_t i = 0; i < arr_len(edits->list) && status == MGPT_OK; i++)
        if (edits->list[i].kind == EDIT_MEAN)
            take_mean(edits, &edits->list[i], n);
    change->is_new = 1;
    return status;
}

/* ---- a pass ---- */

/* Where a value goes, or NULL. Attention has a row per head for one query, as long as there are
 * keys: 1 for the first query, 2 for the second. */
static float *room_of(struct lab_record *r, const mgpt_value *value)
{
    size_t pos = (size_t)value->pos, rows = (size_t)value->rows, cols = (size_t)value->cols;
    size_t first = pos * cols, last = first + rows * cols;
    r->cols = cols;
    if (value->point == MGPT_SCORES || value->point == MGPT_WEIGHTS) {
        first = rows * (pos * (pos + 1) / 2);
        last = first + rows * cols;
    }
    if (!arr_reserve(r->rows, last))
        return NULL;
    if (arr_len(r->rows) < last)
        arr_set_len(r->rows, last);
    return r->rows + first;
}

static int module_keep(const mgpt_value *value, void *user)
{
    struct lane *lane = user;
    size_t rows = (size_t)value->rows, cols = (size_t)value->cols;
    if (lane->change)
        lab_change_apply(lane->change, value);
    float *to = room_of(record_of(lane, (int)value->point, value->layer), value);
    lane->no_memory = !to;
    for (size_t i = 0; to && i < rows; i++)
        memcpy(to + i * cols, value->data + i * value->stride, cols * sizeof *to);
    return lane->no_memory;
}

static int lane_run(struct lane *lane, const int32_t *tokens, size_t n)
{
    const uint64_t all = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;
    lane->no_memory = 0;
    int status = mgpt_tap(lane->session, all, module_keep, lane, &lab.err);
    if (status == MGPT_OK)
        status = mgpt_sync(lane->session, tokens, n, &lab.err);
    if (lane->no_memory)
        status = err_set(&lab.err, MGPT_EMEM, MGPT_NO_OFFSET,
                         "out of memory: the values of %zu tokens", n);
    return status;
}

int lab_run(int which, const int32_t *tokens, size_t n)
{
    if (!lab.model || which < 0 || which >= LAB_LANES)
        return lab_refuse("no model is open");
    struct lane *lane = &lab.lanes[which];
    int status = lane->change ? take_means(lane->change, tokens, n) : MGPT_OK;
    if (status == MGPT_OK && lane->change && lane->change->is_new)
        status = mgpt_rewind(lane->session, 0, &lab.err);
    if (status == MGPT_OK)
        status = lane_run(lane, tokens, n);
    if (lane->change)
        lane->change->is_new = status < 0;
    if (status < 0)
        mgpt_rewind(lane->session, 0, NULL);
    return status;
}

/* ---- drafts ---- */

static int draft_tap(const mgpt_value *value, void *user)
{
    lab_change_apply(user, value);
    return 0;
}

mgpt_session *lab_fork(int which, size_t n)
{
    if (which < 0 || which >= LAB_LANES || n == 0 || n > (size_t)lab_n_tokens(which)) {
        lab_refuse("nothing has run");
        return NULL;
    }
    struct lane *lane = &lab.lanes[which];
    mgpt_session *fork = mgpt_fork(lane->session, &lab.err);
    int status = fork ? mgpt_rewind(fork, n, &lab.err) : MGPT_EMEM;
    if (status == MGPT_OK && lane->change)
        status = mgpt_tap(fork, lab_change_points(lane->change), draft_tap, lane->change, &lab.err);
    if (status == MGPT_OK)
        return fork;
    mgpt_session_free(fork);
    return NULL;
}

int lab_draft(int which, size_t n)
{
    mgpt_session *fork = lab_fork(which, n);
    if (!fork)
        return lab.err.status;
    mgpt_session_free(lab.lanes[which].draft);
    lab.lanes[which].draft = fork;
    return MGPT_OK;
}

const float *lab_draft_step(int which, int token)
{
    mgpt_session *draft = which >= 0 && which < LAB_LANES ? lab.lanes[which].draft : NULL;
    if (!draft)
        lab_refuse("no draft has begun");
    return draft ? mgpt_step(draft, token, &lab.err) : NULL;
}

int lab_n_tokens(int lane)
{
    return lab.model && lane >= 0 && lane < LAB_LANES ? (int)mgpt_pos(lab.lanes[lane].session) : 0;
}

const float *lab_value(int lane, int point, int layer)
{
    const struct lab_record *r = record_find(lane, point, layer);
    if (!r)
        lab_refuse("the model has no such value, or nothing has run");
    return r ? r->rows : NULL;
}

/* A row of a point that is not attention. */
static const float *module_row_of(int lane, int point, int layer, size_t pos)
{
    const struct lab_record *r = record_find(lane, point, layer);
    return r && pos < (size_t)lab_n_tokens(lane) ? r->rows + pos * r->cols : NULL;
}

const float *lab_weights(const char *name, size_t first, size_t n)
{
    int status = lab.model ? MGPT_OK : lab_refuse("no model is open");
    if (status == MGPT_OK && !arr_reserve(lab.weights, n ? n : 1))
        status = err_memory(&lab.err, "the weights", n * sizeof *lab.weights);
    if (status == MGPT_OK)
        status = mgpt_read_tensor(lab.model, name, first, n, lab.weights, &lab.err);
    return status == MGPT_OK ? lab.weights : NULL;
}

/* ---- what a residual says ---- */

const float *lab_lens(int lane, int point, int layer, size_t pos)
{
    const float *row = module_row_of(lane, point, layer, pos);
    if (!row || record_find(lane, point, layer)->cols != (size_t)lab.info.n_embd) {
        lab_refuse("no residual of the run");
        return NULL;
    }
    int status = mgpt_unembed(lab.lanes[lane].session, row, lab.lens, &lab.err);
    return status == MGPT_OK ? lab.lens : NULL;
}

/* Gives an attribution what it would have seen as a tap, in the order of the pass. */
static void module_show(struct dla *dla, int lane, mgpt_point point, int layer)
{
    const float *row = module_row_of(lane, (int)point, layer, dla->pos);
    if (!row || !(MGPT_POINT_BIT(point) & dla_points()))
        return;
    size_t cols = record_find(lane, (int)point, layer)->cols;
    const mgpt_value value = {point, layer, (int32_t)dla->pos,      1, (int32_t)cols,
                              0,     cols,  (float *)(uintptr_t)row};
    dla_tap(&value, dla);
}

static void show_all(struct dla *dla, int lane)
{
    for (mgpt_point p = MGPT_EMBD; p < MGPT_RESID_PRE; p++)
        module_show(dla, lane, p, 0);
    for (int layer = 0; layer < lab.info.n_layer; layer++)
        for (mgpt_point p = MGPT_RESID_PRE; p <= MGPT_RESID_POST; p++)
            module_show(dla, lane, p, layer);
    dla->has_final_norm = record_find(lane, MGPT_FINAL, 0) != NULL;
}

static int module_put_parts(const struct dla *d)
{
    size_t n = 5 + d->n_layer * (d->n_head + 1);
    if (!arr_reserve(lab.parts, n))
        return err_memory(&lab.err, "an attribution", n * sizeof *lab.parts);
    double *to = lab.parts;
    *to++ = d->total;
    *to++ = d->token_part;
    *to++ = d->position_part;
    *to++ = d->biases;
    *to++ = d->rest;
    for (size_t i = 0; i < d->n_layer; i++) {
        memcpy(to, d->heads + i * d->n_head, d->n_head * sizeof *to);
        to += d->n_head;
        *to++ = d->mlps[i];
    }
    return MGPT_OK;
}

const double *lab_dla(int lane, size_t pos, int token)
{
    struct dla dla = {0};
    if (!module_row_of(lane, MGPT_EMBD, 0, pos) || token < 0 || token >= lab.info.n_vocab) {
        lab_refuse("no such position or token");
        return NULL;
    }
    int status = dla_new(&dla, &lab.info, pos, &lab.err);
    if (status == MGPT_OK) {
        show_all(&dla, lane);
        status = dla_run(&dla, lab.model, token, DLA_NONE, 0, &lab.err);
    }
    if (status == MGPT_OK)
        status = module_put_parts(&dla);
    dla_free(&dla);
    return status == MGPT_OK ? lab.parts : NULL;
}

/* ---- the bits ---- */

uint64_t lab_hash(int lane)
{
    const struct lab_record *r = record_find(lane, MGPT_LOGITS, 0);
    return xxh64(r ? r->rows : NULL, r ? (size_t)lab_n_tokens(lane) * r->cols * sizeof(float) : 0);
}
