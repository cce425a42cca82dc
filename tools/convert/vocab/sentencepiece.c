/* tokenizer.model: SentencePiece's protobuf.
 *
 *     1  piece       1 text, 2 score (float), 3 type; one for each id
 *     2  trainer     3 model_type (1 unigram, 2 bpe, 4 char), 24 treat_whitespace_as_suffix,
 *                    46 47 the pieces for BOS and EOS
 *     3  normalizer  1 name, 2 charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
 *                    5 escape_whitespaces
 *
 * Unknown fields are skipped, as protobuf requires.
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/containers/protobuf.h"
#include "convert/vocab/hf_tokenizer_impl.h"

#include <math.h>
#include <string.h>

_Noreturn static void broken(const struct hf_tok *t, const struct cursor *c)
{
    ckpt_stop(t->c, "%.60s: not a SentencePiece model (no protobuf field near byte %zu)", t->file,
              c->pos);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static uint64_t count_pieces(struct span bytes)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    struct proto_field f;
    uint64_t n = 0;
    while (proto_next(&c, &f) == 1)
        n += f.number == 1 && f.wire == PROTO_BYTES;
    return n;
}

static void add_piece(struct hf_tok *t, struct span bytes, int64_t id)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    struct span text = {(const uint8_t *)"", 0};
    uint64_t bits = 0, type = TOKEN_NORMAL;
    const struct proto_wanted fields[] = {{1, PROTO_BYTES, NULL, &text},
                                          {2, PROTO_FIXED32, &bits, NULL},
                                          {3, PROTO_VARINT, &type, NULL}};
    int got = proto_take(&c, fields, 3);
    float score;
    uint32_t low = (uint32_t)bits;
    memcpy(&score, &low, sizeof score);
    if (got < 0 || type < TOKEN_NORMAL || type > TOKEN_BYTE || !isfinite(score))
        ckpt_stop(t->c, "%.60s: piece %d: its type or score is wrong", t->file, vocab_shown(id));
    struct vocab_slot *slot;
    vocab_slots_set(&t->slots, id, (const char *)text.data, text.size, (int32_t)type, &slot);
    slot->score = score;
    t->c->vocab.user_pieces |= type == TOKEN_USER;
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Pieces that are never found in a text: user-defined ones of BPE with a space, since it has U+2581
 * there; and NUL where bytes are tokens (sentencepiece 0.2.1 and later). */
static void drop_unfound(struct hf_tok *t)
{
    int has_bytes = 0;
    for (size_t i = 0; i < t->slots.n; i++)
        has_bytes |= t->slots.slots[i].type == TOKEN_BYTE;
    for (size_t i = 0; i < t->slots.n; i++) {
        struct vocab_slot *s = &t->slots.slots[i];
        int spaced = s->type == TOKEN_USER && memchr(s->text.p, ' ', s->text.n) && !t->unigram;
        int is_nul = s->type == TOKEN_NORMAL && has_bytes && s->text.n == 1 && !*s->text.p;
        if (spaced || is_nul)
            s->type = TOKEN_UNUSED;
    }
}

/* A special piece by its type and text, as sentencepiece finds it: the trainer's ids are those of the
 * time of training, before pieces were added in front. text.data NULL: of any text. -1: none. */
static int32_t piece_id(const struct hf_tok *t, struct span text, int32_t type)
{
    for (size_t i = 0; i < t->slots.n; i++) {
        const struct vocab_slot *s = &t->slots.slots[i];
        int same =
            !text.data || (s->text.n == text.size && memcmp(s->text.p, text.data, text.size) == 0);
        if (s->type == type && same)
            return (int32_t)i;
    }
    return -1;
}

/* Pieces of one character never merge: a character model is BPE without merges. */
static int is_characters(const struct hf_tok *t)
{
    uint32_t code;
    for (size_t i = 0; i < t->slots.n; i++) {
        const struct vocab_slot *s = &t->slots.slots[i];
        if (s->type == TOKEN_NORMAL && utf8_next(s->text.p, s->text.n, &code) != s->text.n)
            return 0;
    }
    return 1;
}

static void read_trainer(struct hf_tok *t, struct span bytes)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    struct ckpt_vocab *v = &t->c->vocab;
    uint64_t model = 1, suffix = 0;
    struct span any = {NULL, 0}, bos = {(const uint8_t *)"<s>", 3},
                eos = {(const uint8_t *)"</s>", 4};
    const struct proto_wanted fields[] = {{3, PROTO_VARINT, &model, NULL},
                                          {24, PROTO_VARINT, &suffix, NULL},
                                          {46, PROTO_BYTES, NULL, &bos},
                                          {47, PROTO_BYTES, NULL, &eos}};
    proto_take(&c, fields, 4);
    v->unknown = piece_id(t, any, TOKEN_UNKNOWN);
    v->bos = piece_id(t, bos, TOKEN_CONTROL);
    v->eos = piece_id(t, eos, TOKEN_CONTROL);
    t->unigram = model == 1;
    v->model = t->unigram ? "t5" : "llama";
    v->user_pieces &= !t->unigram; /* Unigram finds them without this key */
    drop_unfound(t);
    if (model != 1 && model != 2 && !(model == 4 && is_characters(t)))
        hf_tok_refuse(t, "model_type", "only unigram, BPE and char are supported");
    if (suffix)
        hf_tok_refuse(t, "trainer", "treat_whitespace_as_suffix is not supported");
    if (c.failed)
        broken(t, &c);
}

/* The library looks at the map's content; here it is only copied. */
static void read_normalizer(struct hf_tok *t, struct span bytes)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    struct ckpt_vocab *v = &t->c->vocab;
    struct span map = {NULL, 0};
    uint64_t prefix = 1, collapses = 1, escapes = 1;
    const struct proto_wanted fields[] = {{2, PROTO_BYTES, NULL, &map},
                                          {3, PROTO_VARINT, &prefix, NULL},
                                          {4, PROTO_VARINT, &collapses, NULL},
                                          {5, PROTO_VARINT, &escapes, NULL}};
    proto_take(&c, fields, 4);
    v->add_space_prefix = prefix != 0;
    v->collapses = collapses ? 1 : -1;
    if (!escapes)
        hf_tok_refuse(t, "normalizer", "escape_whitespaces is off");
    if (c.failed)
        broken(t, &c);
    if (map.size)
        hf_tok_set_charsmap(t, ckpt_str(t->c, (const char *)map.data, map.size));
}

/* Readers of GGUF look for user-defined tokens in the original text, with spaces; for
 * SentencePiece's Unigram they are pieces. */
void hf_tok_write_spaces(struct hf_tok *t)
{
    int has_spaces = t->sentencepiece && !(t->unigram && t->scores == VOCAB_FLOATS);
    for (size_t i = 0; has_spaces && i < t->slots.n; i++) {
        struct gguf_str *s = &t->slots.slots[i].text;
        if (t->slots.slots[i].type != TOKEN_USER)
            continue;
        char *text = ckpt_copy(t->c, s->p, s->n);
        size_t n = 0;
        for (size_t k = 0; k < s->n;) {
            int space = s->n - k >= 3 && memcmp(s->p + k, VOCAB_SPACE, 3) == 0;
            text[n++] = space ? ' ' : s->p[k];
            k += space ? 3 : 1;
        }
        *s = (struct gguf_str){text, n};
    }
}

void hf_tok_sentencepiece(struct hf_tok *t, struct span bytes)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    struct span trainer = {NULL, 0}, normalizer = {NULL, 0};
    struct proto_field f;
    int64_t n = 0;
    int got;
    uint64_t n_pieces = count_pieces(bytes);
    if (n_pieces == 0)
        broken(t, &c);
    t->sentencepiece = 1;
    t->scores = VOCAB_FLOATS;
    t->c->vocab.pre = "default";
    vocab_slots_init(&t->slots, t->c, t->file, n_pieces, t->n_rows);
    while ((got = proto_next(&c, &f)) != 0) {
        if (got < 0)
            broken(t, &c);
        else if (f.number == 1 && f.wire == PROTO_BYTES)
            add_piece(t, f.bytes, n++);
        else if (f.number == 2 && f.wire == PROTO_BYTES)
            trainer = f.bytes;
        else if (f.number == 3 && f.wire == PROTO_BYTES)
            normalizer = f.bytes;
    }
    read_trainer(t, trainer);
    read_normalizer(t, normalizer);
}
