/* Tokens by id, in any order. See vocab_slots.h. */
#include "convert/vocab/vocab_slots.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TOKEN = 65535 }; /* bytes: what the tokenizer takes */

int vocab_is_byte(struct gguf_str s)
{
    static const char hex[] = "0123456789ABCDEF";
    return s.n == 6 && memcmp(s.p, "<0x", 3) == 0 && memchr(hex, s.p[3], 16) &&
           memchr(hex, s.p[4], 16) && s.p[5] == '>';
}

void vocab_slots_init(struct vocab_slots *v, struct checkpoint *c, const char *file, uint64_t n,
                      uint64_t n_rows)
{
    *v = (struct vocab_slots){.c = c, .file = file, .n = (size_t)n};
    if (n > n_rows)
        ckpt_stop(c, "%.60s has %llu tokens, the embedding %llu rows", file, (unsigned long long)n,
                  (unsigned long long)n_rows);
    v->slots = ckpt_temp(c, v->n, sizeof *v->slots);
}

int vocab_shown(int64_t v)
{
    if (v > INT32_MAX)
        return INT32_MAX;
    return v < INT32_MIN ? INT32_MIN : (int)v;
}

void vocab_slots_set(struct vocab_slots *v, int64_t id, const char *p, size_t n, int32_t type,
                     struct vocab_slot **slot)
{
    if (id < 0 || (uint64_t)id >= v->n)
        ckpt_stop(v->c, "%.60s: token '%.*s' has id %d, expected 0 to %zu", v->file,
                  CKPT_CLIP(p, n), vocab_shown(id), v->n - 1);
    if (n > MAX_TOKEN)
        ckpt_stop(v->c, "%.60s: token %d: %zu bytes, at most %d", v->file, vocab_shown(id), n,
                  MAX_TOKEN);
    struct vocab_slot *s = &v->slots[id];
    if (s->type && (s->text.n != n || memcmp(s->text.p, p, n) != 0))
        ckpt_stop(v->c, "%.60s: id %d is both '%.*s' and '%.*s'", v->file, vocab_shown(id),
                  text_clip(s->text.p, s->text.n), s->text.p, CKPT_CLIP(p, n));
    s->text = (struct gguf_str){p, n};
    s->type = type;
    if (slot)
        *slot = s;
}

int32_t vocab_slots_find(const struct vocab_slots *v, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < v->n; i++)
        if (v->slots[i].type && v->slots[i].text.n == n && memcmp(v->slots[i].text.p, text, n) == 0)
            return (int32_t)i;
    return -1;
}

static void push_strips(struct vocab_slots *v, size_t id)
{
    struct ckpt_vocab *vocab = &v->c->vocab;
    if (v->slots[id].strips & VOCAB_STRIP_LEFT)
        ckpt_push(v->c, vocab->lstrip, (int32_t)id);
    if (v->slots[id].strips & VOCAB_STRIP_RIGHT)
        ckpt_push(v->c, vocab->rstrip, (int32_t)id);
}

void vocab_slots_finish(struct vocab_slots *v, enum vocab_scores scores)
{
    const size_t rows = v->c->hp.n_vocab, n = rows && rows < v->n ? rows : v->n;
    size_t n_unused = 0;
    for (size_t i = 0; i < n; i++) {
        const struct vocab_slot *s = &v->slots[i];
        char pad[32]; /* other readers want texts to differ, and none to be empty */
        int length = snprintf(pad, sizeof pad, "[PAD%zu]", i);
        n_unused += s->type == 0;
        if (s->type)
            ckpt_token(v->c, s->text.p, s->text.n, s->type);
        else
            ckpt_token(v->c, pad, (size_t)length, TOKEN_UNUSED);
        push_strips(v, i);
        if (scores)
            ckpt_push(v->c, v->c->vocab.scores, (float)s->score);
        if (scores == VOCAB_DOUBLES)
            ckpt_push(v->c, v->c->vocab.doubles, s->score);
    }
    if (n < v->n)
        ckpt_note(v->c, "vocabulary: %zu tokens that the head has no rows for are left out",
                  v->n - n);
    if (n_unused)
        ckpt_note(v->c, "vocabulary: %zu ids without a token in %s are marked as unused", n_unused,
                  v->file);
}
