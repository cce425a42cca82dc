/* tokenizer.json: tokens, added tokens, merges. What kind of tokenizer it is: hf_tokenizer_shape.c.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/vocab/hf_steps.h"

#include <string.h>

/* ---- tokens ---------------------------------------------------------------------------------- */

_Noreturn static void bad_id(const struct hf_tok *t, const char *text)
{
    ckpt_stop(t->c, "%.60s: token '%.*s': its id is not a number from 0 on", t->file,
              CKPT_CLIP(text, strlen(text)));
}

uint64_t hf_tok_room(uint64_t n, const struct jval *id)
{
    int64_t v = jval_whole(id);
    return v >= 0 && v < INT32_MAX && (uint64_t)v + 1 > n ? (uint64_t)v + 1 : n;
}

void hf_tok_vocab(struct hf_tok *t, const struct jval *vocab, uint64_t n_other)
{
    uint64_t n = n_other;
    t->model_vocab = vocab;
    for (struct jval_iter i = jval_begin(vocab); jval_next(&i);) {
        if (!jval_is(i.value, JVAL_INTEGER) || jval_whole(i.value) < 0 ||
            jval_whole(i.value) >= INT32_MAX)
            bad_id(t, i.key);
        n = hf_tok_room(n, i.value);
    }
    if (n == 0)
        hf_tok_refuse(t, "model", "no vocab");
    vocab_slots_init(&t->slots, t->c, t->file, n, t->n_rows);
    for (struct jval_iter i = jval_begin(vocab); jval_next(&i);)
        vocab_slots_set(&t->slots, jval_whole(i.value), i.key, strlen(i.key), TOKEN_NORMAL, NULL);
}

static void mark_bytes(struct hf_tok *t)
{
    int falls_back = (t->sentencepiece && !t->unigram) || t->c->vocab.byte_fallback;
    for (size_t i = 0; falls_back && i < t->slots.n; i++)
        if (t->slots.slots[i].type == TOKEN_NORMAL && vocab_is_byte(t->slots.slots[i].text))
            t->slots.slots[i].type = TOKEN_BYTE;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

static uint64_t count_added(const struct jval *added)
{
    uint64_t n = 0;
    for (size_t i = 0; i < jval_size(added); i++)
        n = hf_tok_room(n, jval_get(jval_at(added, i), "id"));
    return n;
}

/* A token that is searched in the original text but contains U+2581 is not found at spaces: there,
 * merges make it. */
static int is_literal(const struct hf_tok *t, const struct jval *token, const char *text)
{
    int raw = jval_is(jval_get(token, "normalized"), JVAL_FALSE);
    return t->sentencepiece && raw && strstr(text, VOCAB_SPACE);
}

static int32_t type_of(const struct hf_tok *t, const struct jval *token, const char *text,
                       const char *unknown)
{
    if ((t->sentencepiece || t->steps) && unknown && strcmp(text, unknown) == 0)
        return TOKEN_UNKNOWN;
    if (hf_tok_flag(token, "special", 0))
        return TOKEN_CONTROL;
    return is_literal(t, token, text) ? TOKEN_NORMAL : TOKEN_USER;
}

/* What only vocabularies with steps can say of an added token. */
static void add_marks(struct hf_tok *t, const struct jval *token, const char *text, int32_t id)
{
    struct ckpt_vocab *v = &t->c->vocab;
    int is_word = hf_tok_flag(token, "single_word", 0);
    int is_new =
        t->unigram ? (size_t)id >= jval_size(t->model_vocab) : !jval_get(t->model_vocab, text);
    if (is_new)
        ckpt_push(t->c, v->added, id);
    if (hf_tok_flag(token, "normalized", 1))
        ckpt_push(t->c, v->normalized, id);
    if (!is_word)
        return;
    ckpt_push(t->c, v->single_word, id);
    hf_table_add(t->c, "word");
}

static void add_added(struct hf_tok *t, const struct jval *token, const char *unknown)
{
    const char *text = jval_text(jval_get(token, "content"));
    const struct jval *id = jval_get(token, "id");
    struct vocab_slot *slot;
    if (!text || !jval_is(id, JVAL_INTEGER))
        hf_tok_refuse(t, "added_tokens", "an entry without id and content");
    if (!*text)
        return; /* it is ignored */
    vocab_slots_set(&t->slots, jval_whole(id), text, strlen(text), type_of(t, token, text, unknown),
                    &slot);
    if (slot->type == TOKEN_NORMAL)
        ckpt_push(t->c, t->c->vocab.literal, (int32_t)jval_whole(id));
    if (hf_tok_flag(token, "lstrip", 0))
        slot->strips |= VOCAB_STRIP_LEFT;
    if (hf_tok_flag(token, "rstrip", 0))
        slot->strips |= VOCAB_STRIP_RIGHT;
    if (t->steps)
        add_marks(t, token, text, (int32_t)jval_whole(id));
}

/* ---- merges ---------------------------------------------------------------------------------- */

/* A merge as "left right" in line, NUL-terminated; its length, or 0 when it is none. *n_left is
 * that of the left part. GGUF splits at the first space after the first byte, so only where `spaces`
 * is 1 may the left part of a list hold one. */
static size_t line_of(const struct jval *merge, int spaces, char line[HF_TOK_LINE], size_t *n_left)
{
    int is_list = jval_is(merge, JVAL_ARRAY);
    const char *left = jval_text(is_list ? jval_at(merge, 0) : merge);
    const char *right = jval_text(jval_at(merge, 1));
    if (!left || !*left || (is_list && (!right || jval_size(merge) != 2)))
        return 0;
    size_t n = strlen(left), n_right = right ? strlen(right) : 0;
    const char *space = strchr(left + 1, ' ');
    if ((is_list ? space && !spaces : !space) || n + n_right + 2 > HF_TOK_LINE)
        return 0;
    *n_left = is_list ? n : (size_t)(space - left);
    memcpy(line, left, n + 1);
    if (!is_list)
        return space[1] ? n : 0;
    line[n] = ' ';
    memcpy(line + n + 1, right, n_right + 1);
    return n_right ? n + 1 + n_right : 0;
}

void hf_tok_merge(const struct hf_tok *t, const struct jval *vocab, char *line, size_t n,
                  size_t n_left, size_t i)
{
    const char *right = line + n_left + 1, *missing = NULL;
    line[n_left] = 0;
    if (!jval_get(vocab, line))
        missing = line;
    else if (!jval_get(vocab, right))
        missing = right;
    else
        memmove(line + n_left, right, n - n_left);
    if (!missing && !jval_get(vocab, line))
        missing = line;
    if (missing)
        ckpt_stop(t->c, "%.60s: merge %zu: '%.*s' is not in the vocabulary", t->file, i,
                  CKPT_CLIP(missing, strlen(missing)));
}

/* The first merge that makes a token gives its score, for readers without merges. */
static void set_score(struct hf_tok *t, const struct jval *vocab, const char *token, size_t rank)
{
    struct vocab_slot *slot = &t->slots.slots[jval_whole(jval_get(vocab, token))];
    if (!(slot->score < 0))
        slot->score = -(double)rank - 1;
}

static void read_merges(struct hf_tok *t, const struct jval *model, char line[HF_TOK_LINE])
{
    const struct jval *merges = jval_get(model, "merges");
    const struct jval *vocab = jval_get(model, "vocab");
    size_t n_left, n_merges = jval_size(merges);
    for (size_t i = 0; i < n_merges; i++) {
        struct gguf_str text = {NULL, line_of(jval_at(merges, i), 0, line, &n_left)};
        if (text.n == 0)
            ckpt_stop(t->c, "%.60s: merge %zu is not two texts, the left without a space", t->file,
                      i);
        text.p = ckpt_copy(t->c, line, text.n);
        ckpt_push(t->c, t->c->vocab.merges, text);
        hf_tok_merge(t, vocab, line, text.n, n_left, i);
        if (t->sentencepiece)
            set_score(t, vocab, line, i);
    }
    for (size_t i = 0; t->sentencepiece && i < t->slots.n; i++)
        if (t->slots.slots[i].type == TOKEN_NORMAL && !(t->slots.slots[i].score < 0))
            t->slots.slots[i].score = -(double)(n_merges + i) - 1; /* no merge makes it */
}

/* The id of a text of the model's vocabulary, -1 if there is none. */
static int32_t model_id(const struct hf_tok *t, const char *text)
{
    const struct jval *id = jval_get(t->model_vocab, text);
    return id ? (int32_t)jval_whole(id) : -1;
}

/* Merge i as ids: the right part is appended without its prefix. */
static void read_merge_ids(struct hf_tok *t, const struct jval *merge, size_t i,
                           char line[HF_TOK_LINE])
{
    size_t n_left, n = line_of(merge, 1, line, &n_left), n_prefix = t->c->vocab.prefix.n;
    int32_t ids[3];
    if (n == 0)
        ckpt_stop(t->c, "%.60s: merge %zu is not two texts", t->file, i);
    char *right = line + n_left + 1;
    line[n_left] = 0;
    ids[0] = model_id(t, line);
    ids[1] = model_id(t, right);
    if (strlen(right) < n_prefix)
        ckpt_stop(t->c, "%.60s: merge %zu: '%.*s' is shorter than the prefix", t->file, i,
                  CKPT_CLIP(right, strlen(right)));
    memmove(line + n_left, right + n_prefix, strlen(right) - n_prefix + 1);
    ids[2] = model_id(t, line);
    for (size_t k = 0; k < 3; k++) {
        if (ids[k] < 0)
            ckpt_stop(t->c, "%.60s: merge %zu: '%.*s' or a part is not in the vocabulary", t->file,
                      i, CKPT_CLIP(line, strlen(line)));
        ckpt_push(t->c, t->c->vocab.merge_ids, ids[k]);
    }
}

/* Refuses values of other types, which would count as empty. Absent and null lists are empty. */
static void check_kinds(const struct hf_tok *t, const struct jval *root)
{
    static const struct {
        const char *in, *key; /* in "model", or of the root: NULL */
        enum jval_type kind;
        int may_be_null;
        const char *part, *what;
    } rows[] = {
        {"model", "type", JVAL_STRING, 1, "model", "type: expected a text"},
        {"model", "vocab", JVAL_OBJECT, 0, "model", "vocab: expected an object"},
        {"model", "merges", JVAL_ARRAY, 1, "model", "merges: expected a list"},
        {NULL, "added_tokens", JVAL_ARRAY, 1, "added_tokens", "expected a list"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct jval *in = rows[i].in ? jval_get(root, rows[i].in) : root;
        const struct jval *v = jval_get(in, rows[i].key);
        int is_list = t->unigram && strcmp(rows[i].key, "vocab") == 0; /* hf_tok_unigram checks */
        if (v && !is_list && !jval_is(v, rows[i].kind) &&
            !(rows[i].may_be_null && jval_is(v, JVAL_NULL)))
            hf_tok_refuse(t, rows[i].part, rows[i].what);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

void hf_tok_json(struct hf_tok *t, const struct jval *root)
{
    const struct jval *model = jval_get(root, "model");
    const struct jval *added = jval_get(root, "added_tokens");
    const char *unknown = jval_text(jval_get(model, "unk_token"));
    const struct jval *merges = jval_get(model, "merges");
    char *line = ckpt_temp(t->c, HF_TOK_LINE, 1);
    t->model_vocab = jval_get(model, "vocab");
    hf_tok_shape(t, root);
    check_kinds(t, root);
    if (t->unigram)
        hf_tok_unigram(t, model, count_added(added));
    else
        hf_tok_vocab(t, jval_get(model, "vocab"), count_added(added));
    if (t->unigram && t->c->vocab.unknown >= 0)
        unknown = t->slots.slots[t->c->vocab.unknown].text.p;
    mark_bytes(t);
    for (size_t i = 0; i < jval_size(added); i++)
        add_added(t, jval_at(added, i), unknown);
    if (t->words || t->unigram || !t->steps)
        merges = NULL; /* as ids only with steps */
    for (size_t i = 0; i < jval_size(merges); i++)
        read_merge_ids(t, jval_at(merges, i), i, line);
    if (!t->words && !t->unigram && !t->steps)
        read_merges(t, model, line);
    if (!t->unigram && (t->sentencepiece || t->steps) && unknown)
        t->c->vocab.unknown =
            t->words ? model_id(t, unknown) : vocab_slots_find(&t->slots, unknown);
}
