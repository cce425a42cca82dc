/* Named tensors: filling, finding. See state.h. */
#include "convert/core/state.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_NAME = 255,
    MAX_TENSORS = 1 << 20, /* a name in a hostile file costs less than what is kept of it */
    /* Values that a tensor may have beyond those of its storage (a repeated scalar). */
    SMALL = 65536
};

/* ---- element types --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t bytes;
} types[STATE_N_TYPES] = {
    [STATE_F32] = {"F32", 4},     [STATE_F16] = {"F16", 2}, [STATE_BF16] = {"BF16", 2},
    [STATE_F64] = {"F64", 8},     [STATE_I64] = {"I64", 8}, [STATE_I32] = {"I32", 4},
    [STATE_I16] = {"I16", 2},     [STATE_I8] = {"I8", 1},   [STATE_U8] = {"U8", 1},
    [STATE_BOOL] = {"BOOL", 1},   [STATE_U32] = {"U32", 4}, [STATE_F8_E4M3] = {"F8_E4M3", 1},
    [STATE_OTHER] = {"other", 0},
};

const char *state_type_name(enum state_type type)
{
    return types[type].name;
}

size_t state_type_bytes(enum state_type type)
{
    return types[type].bytes;
}

/* ---- filling --------------------------------------------------------------------------------- */

void state_init(struct state *s, struct checkpoint *c)
{
    *s = (struct state){.c = c};
}

void state_free(struct state *s)
{
    arr_free(s->tensors);
    arr_free(s->order);
    *s = (struct state){0};
}

static void close_state(void *s)
{
    state_free(s);
}

struct state *state_new(struct checkpoint *c)
{
    struct state *s = ckpt_new(c, 1, sizeof *s);
    state_init(s, c);
    ckpt_own(c, s, close_state);
    return s;
}

/* Gives dimensions the strides of a contiguous tensor: all, or only those of one (idle). The stride
 * of these means nothing, files hold anything there, and the tensor is not to be taken for a strided one. */
static void set_strides(struct state_tensor *t, int only_idle)
{
    uint64_t stride = 1;
    for (uint32_t left = t->n_dims; left > 0; left--) {
        uint64_t *own = &t->strides[left - 1];
        if (!only_idle || t->shape[left - 1] == 1)
            *own = stride;
        if (!ck_mul(*own, t->shape[left - 1], &stride))
            stride = UINT64_MAX; /* state_add refuses it */
    }
}

void state_contiguous(struct state_tensor *t)
{
    set_strides(t, 0);
}

/* Whether the n bytes name a module that a trainer wraps around another: torch.compile, FSDP,
 * activation checkpoints and DeepSpeed anywhere in a name, data parallel at its front. */
static int is_wrapper(const char *p, size_t n, int is_first)
{
    static const char *const names[] = {"_orig_mod", "_fsdp_wrapped_module",
                                        "_checkpoint_wrapped_module", "_forward_module"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && memcmp(names[i], p, n) == 0)
            return 1;
    return is_first && n == 6 && memcmp(p, "module", n) == 0;
}

/* Takes the wrappers out of a name in place; the last word stays. Returns the length. */
static size_t strip_wrappers(char *name, size_t n)
{
    size_t kept = 0;
    for (size_t at = 0, end; at < n; at = end) {
        const char *dot = memchr(name + at, '.', n - at);
        end = dot ? (size_t)(dot - name) + 1 : n;
        if (dot && is_wrapper(name + at, end - 1 - at, kept == 0))
            continue;
        memmove(name + kept, name + at, end - at);
        kept += end - at;
    }
    name[kept] = 0;
    return kept;
}

/* Shape and strides against the bytes there are. Everything later relies on this. */
int state_check_extent(const struct state_tensor *t, mgpt_error *err)
{
    uint64_t n = 1, last = 0, held = 0;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (t->shape[i] == 0)
            return MGPT_OK;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        uint64_t step;
        if (!ck_mul(n, t->shape[i], &n) || !ck_mul(t->shape[i] - 1, t->strides[i], &step) ||
            !ck_add(last, step, &last))
            return ckpt_refuse_tensor(err, t->name, "its shape is too large");
    }
    if (t->type == STATE_OTHER)
        return MGPT_OK;
    held = t->bytes.size / types[t->type].bytes;
    if (last >= held)
        return ckpt_refuse_tensor(err, t->name,
                                  "its last element is number %llu, its storage holds %llu",
                                  (unsigned long long)last, (unsigned long long)held);
    if (n > held && n > SMALL)
        return ckpt_refuse_tensor(err, t->name, "more values than its storage holds");
    return MGPT_OK;
}

void state_add(struct state *s, const char *name, size_t n, struct state_tensor t)
{
    char *copy = ckpt_copy(s->c, name, n);
    t.used = 0;
    t.name = copy;
    n = strip_wrappers(copy, n);
    if (n == 0 || n > MAX_NAME || memchr(copy, 0, n))
        ckpt_stop_tensor(s->c, copy, "a name of 1 to 255 bytes without NUL is expected");
    if (t.n_dims > STATE_MAX_DIMS || t.type >= STATE_N_TYPES)
        ckpt_stop_tensor(s->c, copy, "more than 8 dimensions");
    ckpt_must(s->c, state_check_extent(&t, s->c->err));
    set_strides(&t, 1);
    if (arr_len(s->tensors) >= MAX_TENSORS)
        ckpt_stop_tensor(s->c, copy, "more than a million tensors");
    ckpt_push(s->c, s->tensors, t);
}

static int compare_names(const void *a, const void *b)
{
    const struct state_name *x = a, *y = b;
    return strcmp(x->name, y->name);
}

size_t state_first_word(const struct state *s)
{
    const char *first = arr_len(s->tensors) ? s->tensors[0].name : "", *dot = strchr(first, '.');
    size_t n = dot ? (size_t)(dot - first) + 1 : 0;
    for (size_t i = 0; i < arr_len(s->tensors); i++)
        if (strncmp(s->tensors[i].name, first, n) != 0 || !s->tensors[i].name[n])
            return 0;
    return n;
}

void state_cut(struct state *s, ptrdiff_t n)
{
    for (size_t i = 0; i < arr_len(s->tensors); i++) /* their order stays */
        s->tensors[i].name += n;
    for (size_t i = 0; i < arr_len(s->order); i++)
        s->order[i].name += n;
}

_Noreturn static void refuse_twice(const struct state *s, const struct state_tensor *a,
                                   const struct state_tensor *b)
{
    if (!b->alias)
        ckpt_stop_tensor(s->c, b->name, "the name occurs twice");
    ckpt_stop_tensor(s->c, b->name, "%.*s has a name of the same meaning",
                     CKPT_CLIP(a->name, strlen(a->name)));
}

void state_seal(struct state *s)
{
    size_t n = arr_len(s->tensors);
    if (s->order)
        arr_set_len(s->order, 0);
    ckpt_pushed(s->c, arr_reserve(s->order, n), n * sizeof *s->order);
    for (uint32_t i = 0; i < n; i++) {
        const char *alias = s->tensors[i].alias;
        struct state_name entry = {alias ? alias : s->tensors[i].name, i};
        arr_put(s->order, entry);
    }
    if (n)
        qsort(s->order, n, sizeof *s->order, compare_names);
    for (size_t i = 1; i < n; i++)
        if (compare_names(&s->order[i - 1], &s->order[i]) == 0)
            refuse_twice(s, &s->tensors[s->order[i - 1].at], &s->tensors[s->order[i].at]);
}

/* ---- taking ---------------------------------------------------------------------------------- */

static struct state_tensor *lookup(const struct state *s, const char *name)
{
    const struct state_name key = {name, 0}, *found = NULL;
    if (arr_len(s->order))
        found = bsearch(&key, s->order, arr_len(s->order), sizeof key, compare_names);
    return found ? &s->tensors[found->at] : NULL;
}

const struct state_tensor *state_find(struct state *s, const char *name)
{
    struct state_tensor *t = lookup(s, name);
    if (t)
        t->used = 1;
    return t;
}

const struct state_tensor *state_peek(const struct state *s, const char *name)
{
    return lookup(s, name);
}

int state_has(const struct state *s, const char *name)
{
    return lookup(s, name) != NULL;
}

/* The N that means a layer: between dots, or at an end. */
static const char *find_n(const char *pattern)
{
    for (const char *p = pattern; *p; p++)
        if (*p == 'N' && (p == pattern || p[-1] == '.') && (p[1] == '.' || p[1] == 0))
            return p;
    return NULL;
}

int state_is_pattern(const char *name)
{
    return find_n(name) != NULL;
}

void state_layer_name(char *buf, size_t cap, const char *pattern, uint32_t layer)
{
    const char *n = find_n(pattern);
    if (n)
        snprintf(buf, cap, "%.*s%u%s", (int)(n - pattern), pattern, layer, n + 1);
    else
        snprintf(buf, cap, "%s", pattern);
}

uint32_t state_count_layers(const struct state *s, const char *pattern)
{
    char name[MAX_NAME + 1];
    for (uint32_t n = 0;; n++) {
        state_layer_name(name, sizeof name, pattern, n);
        if (!state_has(s, name))
            return n;
    }
}

void state_check_shape(struct checkpoint *c, const struct state_tensor *t, uint64_t n_out,
                       uint64_t n_in)
{
    uint64_t rows = n_out ? n_out : n_in;
    uint32_t n_dims = n_out ? 2 : 1;
    char found[64] = "";
    size_t at = 0;
    if (t->n_dims == n_dims && t->shape[0] == rows && (!n_out || t->shape[1] == n_in))
        return;
    for (uint32_t i = 0; i < t->n_dims && at < sizeof found; i++)
        at += (size_t)snprintf(found + at, sizeof found - at, "%s%llu", i ? ", " : "",
                               (unsigned long long)t->shape[i]);
    if (n_out)
        ckpt_stop_tensor(c, t->name, "shape [%s], expected [%llu, %llu]", found,
                         (unsigned long long)n_out, (unsigned long long)n_in);
    ckpt_stop_tensor(c, t->name, "shape [%s], expected [%llu]", found, (unsigned long long)n_in);
}

_Noreturn void state_missing(struct checkpoint *c, const char *name)
{
    ckpt_stop(c, "tensor %s: missing", name);
}

void state_skip_suffix(struct state *s, const char *suffix)
{
    size_t n = strlen(suffix);
    for (size_t i = 0; i < arr_len(s->tensors); i++) {
        struct state_tensor *t = &s->tensors[i];
        size_t length = strlen(t->name);
        if (length >= n && memcmp(t->name + length - n, suffix, n) == 0)
            t->used = 1;
    }
}

const struct state_tensor *state_unused(const struct state *s)
{
    for (size_t i = 0; i < arr_len(s->tensors); i++)
        if (!s->tensors[i].used)
            return &s->tensors[i];
    return NULL;
}

void state_check_used(const struct state *s, const char *what)
{
    const struct state_tensor *t = state_unused(s);
    if (t)
        ckpt_stop_tensor(s->c, t->name, "no %s has it", what);
}
