/* llama2.c's tokenizer.bin: a SentencePiece vocabulary with its scores.
 *
 *     u32 max_token_length, then for each id: f32 score, u32 length, bytes
 *
 * There is no count and no magic: the file must end exactly after the last token, and the number of
 * tokens must be the model's. The exporter replaced U+2581 by a space and renamed ids 1 and 2; both
 * are undone here, as GGUF expects SentencePiece's own texts.
 */
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/llama2c.h"
#include "convert/vocab/vocab_slots.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { UNKNOWN_ID, BOS_ID, EOS_ID, N_SPECIAL };

struct llama2c_token {
    float score;
    const char *p;
    uint32_t n;
};

static int next_token(struct cursor *c, struct llama2c_token *t)
{
    t->score = cursor_f32(c);
    t->n = cursor_u32(c);
    t->p = (const char *)cursor_take(c, t->n);
    return !c->failed;
}

/* The number of tokens in the whole file. */
static uint64_t count_tokens(struct checkpoint *c, struct span bytes, const char *name)
{
    struct cursor cur = cursor_over(bytes.data, bytes.size);
    struct llama2c_token t;
    uint64_t n;
    cursor_u32(&cur);
    for (n = 0; !cur.failed && cursor_left(&cur) > 0; n++) {
        size_t at = cur.pos;
        if (!next_token(&cur, &t))
            ckpt_stop(c,
                      "tokenizer %s: token %llu at byte %zu does not fit into the file's %zu bytes",
                      name, (unsigned long long)n, at, bytes.size);
        if (!isfinite(t.score))
            ckpt_stop(c, "tokenizer %s: token %llu at byte %zu: its score is not a number", name,
                      (unsigned long long)n, at);
    }
    return n;
}

/* The special ids have fixed meanings; their texts depend on the exporter. */
static void add_special(struct checkpoint *c, uint64_t id, const struct llama2c_token *t)
{
    static const struct {
        const char *text, *other; /* SentencePiece's, the exporter's */
        int32_t type;
    } special[N_SPECIAL] = {
        [UNKNOWN_ID] = {"<unk>", "\n<unk>\n", TOKEN_UNKNOWN},
        [BOS_ID] = {"<s>", "\n<s>\n", TOKEN_CONTROL},
        [EOS_ID] = {"</s>", "\n</s>\n", TOKEN_CONTROL},
    };
    const char *text = special[id].text, *other = special[id].other;
    if ((t->n != strlen(text) || memcmp(t->p, text, t->n) != 0) &&
        (t->n != strlen(other) || memcmp(t->p, other, t->n) != 0))
        ckpt_note(c, "inferred: token %d is %s (the tokenizer calls it otherwise)", (int)id, text);
    ckpt_token(c, text, strlen(text), special[id].type);
}

/* Adds a normal token. Every space becomes U+2581. */
static void llama2c_tokens_add_text(struct checkpoint *c, const struct llama2c_token *t, char *room)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->p[i] != ' ') {
            room[n++] = t->p[i];
            continue;
        }
        memcpy(room + n, VOCAB_SPACE, 3);
        n += 3;
    }
    ckpt_token(c, room, n, TOKEN_NORMAL);
}

static void add_tokens(struct checkpoint *c, struct span bytes, char *room)
{
    struct cursor cur = cursor_over(bytes.data, bytes.size);
    struct llama2c_token t;
    cursor_u32(&cur);
    for (uint64_t id = 0; cursor_left(&cur) > 0; id++) {
        next_token(&cur, &t);
        if (id < N_SPECIAL)
            add_special(c, id, &t);
        else if (vocab_is_byte((struct gguf_str){t.p, t.n}))
            ckpt_token(c, t.p, t.n, TOKEN_BYTE);
        else
            llama2c_tokens_add_text(c, &t, room);
        ckpt_push(c, c->vocab.scores, t.score);
    }
}

int llama2c_find_tokens(struct checkpoint *c, const struct ckpt_input *in, struct ckpt_side *side)
{
    char own[32];
    int n = snprintf(own, sizeof own, "tok%u.bin", c->hp.n_vocab);
    const char *const candidates[] = {ckpt_copy(c, own, (size_t)n), "tokenizer.bin"};
    return ckpt_side(c, in, OPT_TOKENIZER, candidates, 2, side);
}

void llama2c_vocabulary(struct checkpoint *c, struct span bytes, const char *name, uint64_t n_vocab)
{
    uint64_t n = count_tokens(c, bytes, name);
    if (n != n_vocab)
        ckpt_stop(c, "tokenizer %s holds %llu tokens, the model has %llu", name,
                  (unsigned long long)n, (unsigned long long)n_vocab);
    add_tokens(c, bytes, ckpt_temp(c, bytes.size, sizeof VOCAB_SPACE - 1));
    c->vocab.model = "llama";
    c->vocab.bos = BOS_ID;
    c->vocab.eos = EOS_ID;
    c->vocab.unknown = UNKNOWN_ID;
    c->vocab.add_bos = 1;
    c->vocab.add_eos = 0;
    c->vocab.add_space_prefix = 1;
}
