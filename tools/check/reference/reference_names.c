/* Arrays that have names: tokens, logits and the values inside the model. Names are
 * TransformerLens' (mgpt_point_name) or transformers'; arrays of other names are skipped, but an
 * array with one of these names must have its shape.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "check/reference/reference_impl.h"

#include <stdlib.h>
#include <string.h>

/* The best first. Those with hooks are of the cache of TransformerLens 4. */
enum { N_NAMES = 6, MAX_LAYERS = 100000 };
static const char *const token_names[N_NAMES] = {"tokens", "input_ids", "input",
                                                 "ids",    "sequences", "embed.hook_in"};
static const char *const logit_names[N_NAMES] = {"logits", "hook_unembed", "unembed.hook_out",
                                                 "scores"};

/* The place in a list of names; N_NAMES: not in it. */
static size_t place_in(const char *const *names, const char *name)
{
    size_t i = 0;
    while (i < N_NAMES && !(names[i] && strcmp(name, names[i]) == 0))
        i++;
    return i;
}

/* ---- names of points ---- */

/* The number after `prefix`, *end after it; -1 when there is none below MAX_LAYERS. */
static int32_t number_after(const char *name, const char *prefix, const char **end)
{
    size_t n = strlen(prefix);
    int32_t number = 0;
    if (strncmp(name, prefix, n) != 0 || name[n] < '0' || name[n] > '9')
        return -1;
    for (*end = name + n; **end >= '0' && **end <= '9' && number < MAX_LAYERS; (*end)++)
        number = number * 10 + (**end - '0');
    return number < MAX_LAYERS ? number : -1;
}

/* transformers' hidden state n is what layer n reads: what the embedding gives or layer n - 1
 * leaves. */
static int find_transformers(const char *name, mgpt_point *point, int32_t *layer)
{
    static const struct {
        const char *prefix;
        mgpt_point point;
    } known[] = {{"hidden_states.", MGPT_RESID_POST},
                 {"hidden_states_", MGPT_RESID_POST},
                 {"attentions.", MGPT_WEIGHTS},
                 {"attentions_", MGPT_WEIGHTS}};
    const char *end;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((*layer = number_after(name, known[i].prefix, &end)) >= 0 && !*end) {
            *point = known[i].point;
            if (*point == MGPT_RESID_POST && --*layer < 0) {
                *point = MGPT_RESID_PRE;
                *layer = 0;
            }
            return 1;
        }
    return 0;
}

/* What a norm gives is hook_out to TransformerLens, whose hook_normalized is without the gain; to
 * us there is only the first of them, with the other name. */
static const char *our_name(const char *name, char *buf, size_t cap)
{
    size_t n = strlen(name);
    int is_norm = strstr(name, "ln1.hook_out") || strstr(name, "ln2.hook_out") ||
                  strcmp(name, "ln_final.hook_out") == 0 ||
                  strcmp(name, "mlm_head.ln.hook_out") == 0;
    if (!is_norm || n >= cap - 16)
        return name;
    text_format(buf, cap, "%.*shook_normalized", (int)(n - strlen("hook_out")), name);
    return buf;
}

static int find_point(const char *name, mgpt_point *point, int32_t *layer)
{
    char full[96], other[96];
    const char *end;
    int32_t number = number_after(name, "blocks.", &end);
    name = our_name(name, other, sizeof other);
    for (int p = 0; p < MGPT_LOGITS; p++) {
        size_t n = mgpt_point_name((mgpt_point)p, number, full, sizeof full);
        if (n < sizeof full && strcmp(name, full) == 0) {
            *point = (mgpt_point)p;
            *layer = number;
            return 1;
        }
    }
    return find_transformers(name, point, layer);
}

int ref_name_known(const char *name)
{
    mgpt_point point;
    int32_t layer;
    return place_in(token_names, name) < N_NAMES || place_in(logit_names, name) < N_NAMES ||
           find_point(name, &point, &layer);
}

/* ---- filing ---- */

/* Keeps the array with the better name. */
static void keep_better(struct ref_array *kept, struct ref_array *a, const char *const *names)
{
    struct ref_array worse = *a;
    if (!kept->name || place_in(names, a->name) < place_in(names, kept->name)) {
        worse = *kept;
        *kept = *a;
    }
    ref_array_close(&worse);
}

static int add_hook(struct ref_named *named, struct ref_array *a, mgpt_error *err)
{
    if (!find_point(a->name, &a->point, &a->layer)) {
        ref_array_close(a);
        return MGPT_OK;
    }
    if (arr_push(named->hooks, *a))
        return MGPT_OK;
    ref_array_close(a);
    return err_memory(err, "the inner values", arr_len(named->hooks) * sizeof *named->hooks);
}

int ref_named_add(struct ref_named *named, struct ref_array *a, mgpt_error *err)
{
    int is_logits = place_in(logit_names, a->name) < N_NAMES;
    if (!is_logits && place_in(token_names, a->name) == N_NAMES)
        return add_hook(named, a, err);
    if (is_logits && named->logits.name && strcmp(a->name, named->logits.name) == 0) {
        ref_array_close(a);
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "there are two arrays called %.20s",
                       named->logits.name);
    }
    keep_better(is_logits ? &named->logits : &named->tokens, a,
                is_logits ? logit_names : token_names);
    return MGPT_OK;
}

void ref_named_free(struct ref_named *named)
{
    ref_array_close(&named->tokens);
    ref_array_close(&named->logits);
    for (size_t i = 0; i < arr_len(named->hooks); i++)
        ref_array_close(&named->hooks[i]);
    arr_free(named->hooks);
    *named = (struct ref_named){0};
}

/* ---- shapes ---- */

static int bad_shape(const struct ref_array *a, size_t n_ids, const char *expected, mgpt_error *err)
{
    char shape[160];
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%s, expected %s with T = %zu",
                   reference_shape_text(a, shape, sizeof shape), expected, n_ids);
}

static int shape_attention(struct ref_array *a, size_t n_ids, mgpt_error *err)
{
    const uint64_t *d = a->npy.dims;
    uint64_t rows;
    unsigned batch = a->npy.n_dims == 4 && d[0] == 1;
    if (a->npy.n_dims - batch != 3 || d[batch] == 0 || d[batch + 1] != n_ids ||
        d[batch + 2] != n_ids)
        return bad_shape(a, n_ids, "[heads, T, T]", err);
    if (!ck_mul(d[batch], n_ids, &rows) || !ck_size(rows, &a->rows))
        return bad_shape(a, n_ids, "a smaller one", err);
    a->cols = n_ids;
    return MGPT_OK;
}

/* With one token [1, 1, n] is the same with and without a batch. */
static int shape_rows(struct ref_array *a, size_t n_ids, mgpt_error *err)
{
    const uint64_t *d = a->npy.dims;
    uint64_t cols = 1;
    unsigned batch = a->npy.n_dims > 2 && d[0] == 1 && n_ids != 1;
    if (a->npy.n_dims - batch < 2 || d[batch] != n_ids)
        return bad_shape(a, n_ids, "[T, ...]", err);
    for (unsigned i = batch + 1; i < a->npy.n_dims; i++)
        if (!ck_mul(cols, d[i], &cols))
            return bad_shape(a, n_ids, "a smaller one", err);
    a->rows = n_ids;
    if (cols == 0 || !ck_size(cols, &a->cols))
        return bad_shape(a, n_ids, "values", err);
    return MGPT_OK;
}

static int check_hook(const struct reference *ref, struct ref_array *a, size_t n_ids,
                      mgpt_error *err)
{
    const int32_t n_layer = ref->options.n_layer;
    if (!ref_array_is_real(a))
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%.60s: integers, expected floats",
                       a->name);
    if (n_layer > 0 && a->layer >= n_layer)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%.60s: the model has %d layers", a->name,
                       (int)n_layer);
    int attention = a->point == MGPT_SCORES || a->point == MGPT_WEIGHTS;
    return attention ? shape_attention(a, n_ids, err) : shape_rows(a, n_ids, err);
}

static int is_hidden(const struct ref_array *a)
{
    return strncmp(a->name, "hidden_states", strlen("hidden_states")) == 0;
}

/* transformers' last hidden state is what the head reads. (Without layers it is the first, too.) */
static void find_last_hidden(const struct reference *ref, struct ref_array *hooks)
{
    int32_t last = ref->options.n_layer - 1;
    for (size_t i = 0; i < arr_len(hooks) && ref->options.n_layer == 0; i++)
        if (is_hidden(&hooks[i]) && hooks[i].point == MGPT_RESID_POST && hooks[i].layer > last)
            last = hooks[i].layer;
    for (size_t i = 0; i < arr_len(hooks); i++)
        if (is_hidden(&hooks[i]) &&
            hooks[i].layer == (hooks[i].point == MGPT_RESID_POST ? last : last + 1)) {
            hooks[i].point = MGPT_FINAL;
            hooks[i].layer = -1;
        }
}

/* Compares two arrays by their place in the pass: what comes before the layers, the layers, what follows them. */
static int by_pass(const void *a, const void *b)
{
    const struct ref_array *x = a, *y = b;
    int32_t lx = x->point >= MGPT_FINAL ? MAX_LAYERS : x->layer;
    int32_t ly = y->point >= MGPT_FINAL ? MAX_LAYERS : y->layer;
    if (lx != ly)
        return lx < ly ? -1 : 1;
    if (x->point != y->point)
        return x->point < y->point ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* TransformerLens 4 has what a norm gives before and after the gain, as hook_normalized and hook_out:
 * with the second, which follows the first, the first is not ours. */
static void drop_without_gain(struct ref_array *hooks)
{
    size_t kept = 0, n = arr_len(hooks);
    for (size_t i = 0; i < n; i++) {
        struct ref_array *a = &hooks[i], *next = i + 1 < n ? a + 1 : a;
        int is_other = strstr(a->name, "hook_normalized") && strstr(next->name, "hook_out") &&
                       a->point == next->point && a->layer == next->layer;
        if (is_other)
            ref_array_close(a);
        else
            hooks[kept++] = *a;
    }
    arr_set_len(hooks, kept);
}

/* Rows that are arrays of their own, one of each token that was drawn. */
static int shape_parts(const struct reference *ref, const struct ref_array *logits, size_t *rows,
                       mgpt_error *err)
{
    char shape[160];
    int status = MGPT_OK;
    size_t one;
    *rows = arr_len(logits->parts);
    for (size_t i = 0; i < *rows && status == MGPT_OK; i++) {
        struct ref_array part = logits->parts[i];
        part.name = logits->name;
        status = reference_shape(ref, &part, &one, err);
        if (status == MGPT_OK && one != 1)
            status =
                err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "row %zu of %s, expected that of one text",
                        i, reference_shape_text(&part, shape, sizeof shape));
    }
    return status;
}

/* What generate of transformers returns has these names. */
static int is_generated(const struct ref_named *named)
{
    return named->tokens.name && strcmp(named->tokens.name, "sequences") == 0;
}

static void note_scores(struct reference *ref)
{
    text_format(
        ref->unread, sizeof ref->unread, "%s",
        "these are scores, after the processors of generate (temperature, top-k, penalties): "
        "output_logits=True gives logits");
}

static int use_logits(struct reference *ref, struct ref_named *named, mgpt_error *err)
{
    size_t rows = 0;
    if (!named->logits.name)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "no array called logits");
    int status = named->logits.parts ? shape_parts(ref, &named->logits, &rows, err)
                                     : reference_shape(ref, &named->logits, &rows, err);
    if (status < 0)
        return status;
    if (strcmp(named->logits.name, "scores") == 0)
        note_scores(ref);
    if (!named->tokens.name && !ref->options.ids)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "no array called tokens, input_ids, input or ids: give them with --ids");
    if (named->tokens.name && ref->options.ids)
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "the reference has tokens of its own");
    if (is_generated(named))
        return reference_add_generated(ref, &named->tokens, rows, err);
    return reference_add_only(ref, named->tokens.name ? &named->tokens : NULL, rows, err);
}

int ref_named_use(struct reference *ref, struct ref_named *named, mgpt_error *err)
{
    int status = use_logits(ref, named, err);
    if (status == MGPT_OK)
        find_last_hidden(ref, named->hooks);
    for (size_t i = 0; i < arr_len(named->hooks) && status == MGPT_OK; i++)
        status = check_hook(ref, &named->hooks[i], arr_len(ref->items[0].ids), err);
    if (status == MGPT_OK) {
        if (named->hooks) {
            qsort(named->hooks, arr_len(named->hooks), sizeof *named->hooks, by_pass);
            drop_without_gain(named->hooks);
        }
        ref->logits = named->logits;
        ref->hooks = named->hooks;
        named->logits = (struct ref_array){0};
        named->hooks = NULL;
    }
    ref_named_free(named);
    return status;
}
