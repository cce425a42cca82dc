/* Tools: vocabularies that are not JSON: SentencePiece's tokenizer.model; what comes
 * out, what is refused, and hostile files. tiktoken's ranks: test_tiktoken.c. */
#include "support/tok_directory.h"
#include "support/unit.h"

#include <math.h>

/* ---- tokenizer.model ------------------------------------------------------------------------- */

struct message {
    uint8_t bytes[1024];
    size_t n;
};

static void put_byte(struct message *m, unsigned v)
{
    m->bytes[m->n++] = (uint8_t)v;
}

static void put_number(struct message *m, unsigned field, uint32_t v)
{
    for (put_byte(m, (field << 3 & 0x7F) | (field > 15 ? 0x80u : 0u)); field > 15; field = 0)
        put_byte(m, field >> 4);
    for (; v > 127; v >>= 7)
        put_byte(m, 0x80 | (v & 127));
    put_byte(m, v);
}

static void put_bytes(struct message *m, unsigned field, const void *p, size_t n)
{
    put_byte(m, field << 3 | 2);
    put_byte(m, (unsigned)n); /* all are short */
    memcpy(m->bytes + m->n, p, n);
    m->n += n;
}

/* A text in a field of a number beyond 15. */
static void put_trainer_text(struct message *m, unsigned field, const char *text)
{
    size_t n = strlen(text);
    put_byte(m, (field << 3 & 0x7F) | 0x82);
    put_byte(m, field >> 4);
    put_byte(m, (unsigned)n);
    memcpy(m->bytes + m->n, text, n);
    m->n += n;
}

static void put_piece(struct message *m, const char *text, float score, unsigned type)
{
    struct message piece = {.n = 0};
    put_bytes(&piece, 1, text, strlen(text));
    if (score < 0) { /* protobuf leaves out 0, the default */
        put_byte(&piece, 2 << 3 | 5);
        memcpy(piece.bytes + piece.n, &score, 4);
        piece.n += 4;
    }
    if (type != TOKEN_NORMAL)
        put_number(&piece, 3, type);
    put_number(&piece, 1, 'x'); /* of another wire type, so other fields */
    put_bytes(&piece, 3, "x", 1);
    put_bytes(m, 1, piece.bytes, piece.n);
}

/* A small tokenizer.model; model_type 2 is BPE. It has no token for padding, whose id is then -1, a number of
 * ten bytes; and a number of eight bytes that is not read. */
static struct message model_of(unsigned model_type, int collapses, const char *map, size_t n_map)
{
    static const uint8_t others[] = {0xD8, 2,    255, 255, 255, 255, 255, 255, 255, 255, 255,
                                     1,    0x79, 24,  24,  24,  24,  24,  24,  24,  24};
    struct message m = {.n = 0}, trainer = {.n = 0}, normalizer = {.n = 0};
    put_piece(&m, "<unk>", 0, TOKEN_UNKNOWN);
    put_piece(&m, "<s>", 0, TOKEN_CONTROL);
    put_piece(&m, "</s>", 0, TOKEN_CONTROL);
    put_piece(&m, "<0x41>", 0, TOKEN_BYTE);
    put_piece(&m, "\u2581", -1, TOKEN_NORMAL);
    put_piece(&m, "a", -2, TOKEN_NORMAL);
    put_piece(&m, "\u2581x", 0, TOKEN_USER);
    put_piece(&m, "a x", 0, TOKEN_USER);
    put_number(&trainer, 3, model_type);
    memcpy(trainer.bytes + trainer.n, others, sizeof others);
    trainer.n += sizeof others;
    put_number(&trainer, 40, 0);
    put_number(&trainer, 41, 1);
    put_number(&trainer, 42, 2);
    put_bytes(&trainer, 3, "x", 1); /* other fields, here too */
    put_bytes(&m, 2, trainer.bytes, trainer.n);
    if (map)
        put_bytes(&normalizer, 2, map, n_map);
    put_number(&normalizer, 3, 0);
    put_number(&normalizer, 4, (unsigned)collapses);
    put_number(&normalizer, 2, 'x');
    put_bytes(&m, 3, normalizer.bytes, normalizer.n);
    return m;
}

TEST(sentencepiece)
{
    struct message m = model_of(2, 0, NULL, 0);
    struct directory d = {.n = 0};
    struct checkpoint c;
    for (unsigned field = 1; field <= 3; field++) /* numbers, which are other fields */
        put_number(&m, field, 5);
    add_bytes(&d, "tokenizer.model", m.bytes, m.n);
    reads(&c, &d, 8);
    assert_string_equal(c.vocab.model, "llama");
    assert_int_equal(c.vocab.add_space_prefix, 0);
    assert_int_equal(c.vocab.unknown, 0);
    assert_int_equal(c.vocab.bos, 1);
    assert_int_equal(c.vocab.eos, 2);
    assert_int_equal(c.vocab.add_bos, 1);
    has_token(&c, 3, "<0x41>", TOKEN_BYTE);
    has_token(&c, 5, "a", TOKEN_NORMAL);
    has_token(&c, 6, " x", TOKEN_USER);
    has_token(&c, 7, "a x", TOKEN_UNUSED); /* never found in a text */
    assert_int_equal(c.vocab.user_pieces, 1);
    assert_true(c.vocab.scores[5] == -2 && c.vocab.scores[6] == 0);
    assert_null(c.vocab.merges);
    ckpt_free(&c);
    refuses(&d, 6, "tokenizer.model has 8 tokens, the embedding 6 rows");
}

/* NUL is a byte where there are bytes, and no piece. */
TEST(sentencepiece_nul)
{
    for (unsigned bytes = 0; bytes < 2; bytes++) {
        struct message m = {.n = 0}, trainer = {.n = 0};
        struct directory d = {.n = 0};
        struct checkpoint c;
        put_piece(&m, "<unk>", 0, TOKEN_UNKNOWN);
        put_bytes(&m, 1, "\12\1\0", 3); /* a piece: NUL */
        put_piece(&m, "<0x00>", 0, bytes ? TOKEN_BYTE : TOKEN_NORMAL);
        put_number(&trainer, 3, 2);
        put_bytes(&m, 2, trainer.bytes, trainer.n);
        add_bytes(&d, "tokenizer.model", m.bytes, m.n);
        reads(&c, &d, 3);
        assert_int_equal(c.vocab.types[1], bytes ? TOKEN_UNUSED : TOKEN_NORMAL);
        ckpt_free(&c);
    }
}

/* BOS and EOS are the control pieces of the trainer's texts, else of <s> and </s>; the trainer's ids
 * (40 to 42) do not count. What is absent means the defaults of SentencePiece: Unigram, and spaces
 * are collapsed. */
TEST(sentencepiece_settings)
{
    static const struct {
        const char *pieces[4];
        unsigned types[4];
        const char *bos_text, *eos_text;
        int unknown, bos, eos;
    } rows[] = {
        {{"<unk>", "<s>", "</s>", "a"}, {2, 3, 3, 1}, NULL, NULL, 0, 1, 2},
        {{"<pad>", "</s>", "<s>", "<unk>"}, {3, 3, 3, 2}, NULL, NULL, 3, 2, 1},
        {{"U", "B", "E", "<s>"}, {2, 3, 3, 3}, "B", "E", 0, 1, 2},
        {{"a", "<s>", "</s>", "b"}, {1, 1, 4, 1}, NULL, NULL, -1, -1, -1},
    };
    static const char *const messages[] = {
        NULL, NULL, "tokenizer.model: normalizer: escape_whitespaces is off"};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct message m = {.n = 0}, trainer = {.n = 0}, normalizer = {.n = 0};
        struct directory d = {.n = 0};
        struct checkpoint c;
        for (int k = 0; k < 4; k++)
            put_piece(&m, rows[i].pieces[k], 0, rows[i].types[k]);
        put_number(&trainer, 3, 2);
        for (unsigned k = 0; k < 3; k++)
            put_number(&trainer, 40 + k, k);
        if (rows[i].bos_text)
            put_trainer_text(&trainer, 46, rows[i].bos_text);
        if (rows[i].eos_text)
            put_trainer_text(&trainer, 47, rows[i].eos_text);
        put_bytes(&m, 2, trainer.bytes, trainer.n);
        put_number(&normalizer, 4, 0);
        put_bytes(&m, 3, normalizer.bytes, normalizer.n);
        add_bytes(&d, "tokenizer.model", m.bytes, m.n);
        reads(&c, &d, 10);
        assert_int_equal(c.vocab.unknown, rows[i].unknown);
        assert_int_equal(c.vocab.bos, rows[i].bos);
        assert_int_equal(c.vocab.eos, rows[i].eos);
        ckpt_free(&c);
    }
    for (unsigned i = 0; i < 3; i++) {
        struct message m = {.n = 0}, trainer = {.n = 0}, normalizer = {.n = 0};
        struct directory d = {.n = 0};
        put_piece(&m, "a", 0, TOKEN_NORMAL);
        put_number(&trainer, i == 0 ? 40 : 3, i == 0 ? 0 : 2); /* no model_type */
        put_bytes(&m, 2, trainer.bytes, trainer.n);
        put_number(&normalizer, i == 1 ? 3 : 4, 0);
        put_number(&normalizer, 5, i != 2);
        put_bytes(&m, 3, normalizer.bytes, normalizer.n);
        add_bytes(&d, "tokenizer.model", m.bytes, m.n);
        if (messages[i]) {
            refuses(&d, 10, messages[i]);
            continue;
        }
        struct checkpoint c;
        reads(&c, &d, 10);
        assert_string_equal(c.vocab.model, i == 0 ? "t5" : "llama");
        assert_int_equal(c.vocab.collapses, i == 1 ? 1 : -1);
        ckpt_free(&c);
    }
}

/* Pieces of one character: BPE without merges. */
TEST(sentencepiece_characters)
{
    for (unsigned more = 0; more < 2; more++) {
        struct message m = {.n = 0}, trainer = {.n = 0};
        struct directory d = {.n = 0};
        struct checkpoint c;
        put_piece(&m, "<unk>", 0, TOKEN_UNKNOWN);
        put_piece(&m, "\u2581", -1, TOKEN_NORMAL);
        put_piece(&m, more ? "\u00e9e" : "\u00e9", -2, TOKEN_NORMAL);
        put_number(&trainer, 3, 4);
        put_bytes(&m, 2, trainer.bytes, trainer.n);
        add_bytes(&d, "spiece.model", m.bytes, m.n);
        if (more) {
            refuses(&d, 3, "spiece.model: model_type: only unigram, BPE and char are supported");
            continue;
        }
        reads(&c, &d, 3);
        assert_string_equal(c.vocab.model, "llama");
        assert_int_equal(c.vocab.bos, -1);
        ckpt_free(&c);
    }
}

TEST(sentencepiece_unigram)
{
    struct message m = model_of(1, 1, "\4\0\0\0abcdx", 9);
    struct directory d = {.n = 0};
    struct checkpoint c;
    add_bytes(&d, "tokenizer.model", m.bytes, m.n);
    reads(&c, &d, 8);
    assert_int_equal(c.vocab.user_pieces, 0);
    assert_string_equal(c.vocab.model, "t5");
    assert_int_equal(c.vocab.collapses, 1);
    assert_int_equal(c.vocab.add_bos, 0);
    assert_int_equal(c.vocab.charsmap.n, 9);
    assert_memory_equal(c.vocab.charsmap.p, "\4\0\0\0abcdx", 9);
    has_token(&c, 6, "\u2581x", TOKEN_USER); /* as the model has it: it is a piece */
    has_token(&c, 7, "a x", TOKEN_USER);
    assert_null(c.vocab.doubles);
    ckpt_free(&c);
}

TEST(bad_sentencepiece)
{
    static const struct {
        unsigned type;
        const char *map;
        size_t n;
        const char *message;
    } rows[] = {
        {3, NULL, 0, "tokenizer.model: model_type: only unigram, BPE and char are supported"},
        {2, "map", 3, "tokenizer.model: normalizer: the charsmap has no trie"},
        {1, "\4\0\0\0abcd", 8, "tokenizer.model: normalizer: the charsmap has no trie"},
        {1, "\5\0\0\0abcdefgh", 12, "tokenizer.model: normalizer: the charsmap has no trie"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct message m = model_of(rows[i].type, 0, rows[i].map, rows[i].n);
        struct directory d = {.n = 0};
        add_bytes(&d, "tokenizer.model", m.bytes, m.n);
        refuses(&d, 100, rows[i].message);
    }
    struct message m = {.n = 0}, trainer = {.n = 0};
    struct directory suffix = {.n = 0}, d = {.n = 0};
    put_piece(&m, "a", 0, TOKEN_NORMAL);
    put_number(&trainer, 3, 2);
    put_number(&trainer, 24, 1);
    put_bytes(&m, 2, trainer.bytes, trainer.n);
    add_bytes(&suffix, "tokenizer.model", m.bytes, m.n);
    refuses(&suffix, 100, "tokenizer.model: trainer: treat_whitespace_as_suffix is not supported");
    struct message infinite = {.n = 0};
    struct directory infinitely = {.n = 0};
    put_piece(&infinite, "a", -INFINITY, TOKEN_NORMAL);
    add_bytes(&infinitely, "tokenizer.model", infinite.bytes, infinite.n);
    refuses(&infinitely, 100, "tokenizer.model: piece 0: its type or score is wrong");
    struct directory albert = {.n = 0};
    m = model_of(1, 0, NULL, 0);
    add_bytes(&albert, "spiece.model", m.bytes, m.n);
    add_file(&albert, "tokenizer_config.json", "{\"tokenizer_class\": \"AlbertTokenizer\"}");
    refuses(&albert, 100,
            "spiece.model: AlbertTokenizer changes texts or ids of SentencePiece; tokenizer.json "
            "would say how");
    add_file(&d, "tokenizer.model", "hello");
    refuses(&d, 100, "tokenizer.model: not a SentencePiece model (no protobuf field near byte 0)");
    /* after a whole model: a field of number 0; one whose number has more than 32 bits */
    static const char *const fields[] = {"\2\1a", "\xCA\x80\x80\x80\x80\x01\1a"};
    for (size_t i = 0; i < 2; i++) {
        struct directory more = {.n = 0};
        m = model_of(2, 0, NULL, 0);
        memcpy(m.bytes + m.n, fields[i], strlen(fields[i]));
        m.n += strlen(fields[i]);
        add_bytes(&more, "tokenizer.model", m.bytes, m.n);
        char message[100];
        snprintf(message, sizeof message,
                 "tokenizer.model: not a SentencePiece model (no protobuf field near byte %zu)",
                 m.n);
        refuses(&more, 100, message);
    }
}

/* ---- hostile files --------------------------------------------------------------------------- */

TEST(hostile)
{
    struct message m = model_of(2, 0, NULL, 0);
    char ranks[] = "IQ== 0\nIg== 1\nIyM= 2\n";
    survive_all("tokenizer.model", m.bytes, m.n);
    survive_all("tokenizer.model", (uint8_t *)ranks, strlen(ranks));
}
