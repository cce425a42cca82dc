/* The description of a checkpoint: memory, notes, tensors. See checkpoint.h.
 *
 * Small texts (names, tokens, notes) live in a chain of blocks that is freed as a whole, so that
 * readers need not track who owns which string.
 */
#include "convert/core/checkpoint.h"

#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "common/jval.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 65536, MAX_NOTE = 400, MAX_NOTES = 200 };

struct ckpt_block {
    struct ckpt_block *next;
    size_t used, cap;
    char bytes[];
};

#define INITIAL(kind, type, field, none, ...) .field = none,

void ckpt_init(struct checkpoint *c)
{
    *c = (struct checkpoint){.name = ""};
    c->vocab = (struct ckpt_vocab){VOCAB_FIELDS(INITIAL).maps = NULL};
}

static void free_list(void *list)
{
    arr_free(*(void **)list);
}

static void free_nothing(void *value)
{
    (void)value;
}

#define FREE(kind, type, field, ...)                                                               \
    _Generic(c->vocab.field, int32_t * : free_list, double * : free_list, struct gguf_str *        \
             : free_list, default                                                                  \
             : free_nothing)(&c->vocab.field);

void ckpt_free(struct checkpoint *c)
{
    if (c->release)
        c->release(c->source);
    while (c->blocks) {
        struct ckpt_block *next = c->blocks->next;
        free(c->blocks);
        c->blocks = next;
    }
    arr_free(c->vocab.tokens);
    arr_free(c->vocab.types);
    arr_free(c->vocab.scores);
    arr_free(c->vocab.merges);
    VOCAB_FIELDS(FREE)
    for (size_t i = 0; i < arr_len(c->vocab.maps); i++)
        arr_free(c->vocab.maps[i].words);
    arr_free(c->vocab.maps);
    arr_free(c->tensors);
    arr_free(c->notes);
    ckpt_init(c);
}

int ckpt_refuse_tensor(mgpt_error *err, const char *name, const char *fmt, ...)
{
    char why[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return ckpt_refuse(err, "tensor %.*s: %s", CKPT_CLIP(name, strlen(name)), why);
}

int ckpt_is_one_of(const char *word, const char *list)
{
    size_t n = strlen(word);
    for (const char *p = list; n && p && (p = strstr(p, word)); p++)
        if (p > list && p[-1] == ' ' && p[n] == ' ')
            return strchr(word, ' ') == NULL;
    return 0;
}

/* n bytes of the newest block, or of a new one; n is at most SIZE_MAX / 2. */
static char *checkpoint_take(struct checkpoint *c, size_t n)
{
    struct ckpt_block *b = c->blocks;
    if (!b || n > b->cap - b->used) {
        size_t cap = n < BLOCK_BYTES ? BLOCK_BYTES : n;
        b = malloc(sizeof *b + cap);
        if (!b)
            return NULL;
        *b = (struct ckpt_block){.next = c->blocks, .cap = cap};
        c->blocks = b;
    }
    b->used += n;
    return b->bytes + b->used - n;
}

char *ckpt_text(struct checkpoint *c, const char *p, size_t n)
{
    char *copy = checkpoint_take(c, n + 1);
    if (!copy)
        return NULL;
    if (n)
        memcpy(copy, p, n);
    copy[n] = 0;
    return copy;
}

void *ckpt_alloc(struct checkpoint *c, size_t n, size_t each)
{
    const size_t align = _Alignof(max_align_t);
    size_t bytes;
    if (!ck_bytes(n, each, &bytes) || bytes > SIZE_MAX / 4)
        return NULL;
    char *p = checkpoint_take(c, bytes + align);
    if (!p)
        return NULL;
    p += (align - (uintptr_t)p % align) % align;
    memset(p, 0, bytes);
    return p;
}

/* ---- leaving a reader ------------------------------------------------------------------------ */

struct ckpt_owned {
    struct ckpt_owned *before;
    void *p;
    void (*release)(void *p);
};

int ckpt_run(struct checkpoint *c, void (*step)(void *arg), void *arg, mgpt_error *err)
{
    jmp_buf out;
    mgpt_error local, *const err_before = c->err;
    void *const out_before = c->out;
    const char *const within_before = c->within;
    const struct ckpt_owned *const owned_before = c->owned;
    int status = MGPT_OK;
    c->err = err ? err : &local;
    c->out = &out;
    c->within = NULL;
    if (setjmp(out))
        status = c->err->status;
    else
        step(arg);
    for (; c->owned != owned_before; c->owned = c->owned->before)
        c->owned->release(c->owned->p);
    c->err = err_before;
    c->out = out_before;
    c->within = within_before;
    return status;
}

void ckpt_leave(struct checkpoint *c, int status)
{
    const mgpt_error was = *c->err;
    (void)status;
    if (c->within)
        err_set(c->err, was.status, was.offset, "%.60s: %s", c->within, was.text);
    longjmp(*(jmp_buf *)c->out, 1);
}

void ckpt_must(struct checkpoint *c, int status)
{
    if (status < 0)
        ckpt_leave(c, status);
}

void ckpt_within(struct checkpoint *c, const char *what)
{
    c->within = what;
}

void ckpt_stop(struct checkpoint *c, const char *fmt, ...)
{
    char text[sizeof c->err->text];
    va_list ap;
    va_start(ap, fmt);
    text_format_v(text, sizeof text, fmt, &ap);
    va_end(ap);
    ckpt_leave(c, ckpt_refuse(c->err, "%s", text));
}

void ckpt_stop_tensor(struct checkpoint *c, const char *name, const char *fmt, ...)
{
    char why[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    ckpt_leave(c, ckpt_refuse_tensor(c->err, name, "%s", why));
}

void ckpt_own(struct checkpoint *c, void *p, void (*release)(void *p))
{
    struct ckpt_owned *o = ckpt_alloc(c, 1, sizeof *o);
    if (!o)
        release(p);
    ckpt_pushed(c, o != NULL, sizeof *o);
    *o = (struct ckpt_owned){c->owned, p, release};
    c->owned = o;
}

static void free_json(void *root)
{
    jval_free(root);
}

void ckpt_own_json(struct checkpoint *c, const struct jval *root)
{
    ckpt_own(c, (void *)(uintptr_t)root, free_json);
}

void *ckpt_new(struct checkpoint *c, size_t n, size_t each)
{
    void *p = ckpt_alloc(c, n, each);
    ckpt_pushed(c, p != NULL, n * each);
    return p;
}

void *ckpt_temp(struct checkpoint *c, size_t n, size_t each)
{
    void *p = mem_new(n, each);
    ckpt_pushed(c, p != NULL, n * each);
    ckpt_own(c, p, free);
    return p;
}

char *ckpt_copy(struct checkpoint *c, const char *p, size_t n)
{
    char *copy = ckpt_text(c, p, n);
    ckpt_pushed(c, copy != NULL, n);
    return copy;
}

struct gguf_str ckpt_str(struct checkpoint *c, const char *p, size_t n)
{
    return (struct gguf_str){ckpt_copy(c, p, n), n};
}

void ckpt_pushed(struct checkpoint *c, int ok, size_t n)
{
    if (!ok)
        ckpt_leave(c, err_memory(c->err, "the checkpoint", n));
}

/* ---- notes and tensors ----------------------------------------------------------------------- */

void ckpt_note(struct checkpoint *c, const char *fmt, ...)
{
    char line[MAX_NOTE] = "further notes are left out";
    va_list ap;
    if (arr_len(c->notes) >= MAX_NOTES)
        return;
    if (arr_len(c->notes) + 1 < MAX_NOTES) {
        va_start(ap, fmt);
        vsnprintf(line, sizeof line, fmt, ap);
        va_end(ap);
    }
    char *copy = ckpt_text(c, line, strlen(line));
    if (!copy || !arr_push(c->notes, copy))
        c->lost_notes = 1;
}

void ckpt_add(struct checkpoint *c, const char *name, uint64_t n_in, uint64_t n_out,
              struct ckpt_tensor from)
{
    const uint64_t dims[4] = {n_in, n_out ? n_out : 1, 1, 1};
    size_t n = strlen(name);
    if (n > CKPT_MAX_NAME || !ck_mul(dims[0], dims[1], &from.n_values))
        ckpt_stop(c, "tensor %.*s: name or shape too large", CKPT_CLIP(name, n));
    memcpy(from.name, name, n + 1);
    memcpy(from.dims, dims, sizeof dims);
    from.n_dims = n_out ? 2 : 1;
    if (!from.type)
        from.type = dtype_find(DTYPE_F32);
    ckpt_push(c, c->tensors, from);
}

void ckpt_token(struct checkpoint *c, const char *p, size_t n, int32_t type)
{
    struct gguf_str text = ckpt_str(c, p, n);
    ckpt_push(c, c->vocab.tokens, text);
    ckpt_push(c, c->vocab.types, type);
}

void ckpt_values(const struct ckpt_tensor *t, uint64_t first, size_t n, float *out)
{
    if (t->bytes)
        t->type->to_float(t->bytes + first / t->type->block * t->type->block_bytes, out, n);
    else
        t->values(t, first, n, out);
}

void ckpt_size(struct checkpoint *c, uint32_t *to, const char *what, uint64_t v)
{
    if (v < 1 || v > INT32_MAX)
        ckpt_stop(c, "%s is %llu, expected 1 to %d", what, (unsigned long long)v, INT32_MAX);
    *to = (uint32_t)v;
}

void ckpt_sizes(struct checkpoint *c, const struct ckpt_wanted *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ckpt_size(c, sizes[i].to, sizes[i].what, sizes[i].v);
}
