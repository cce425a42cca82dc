/* The ids of BOS, EOS and other special tokens, taken from the most specific file that has them: the
 * post-processor (what is added to texts), tokenizer_config.json (names), generation_config.json,
 * config.json (numbers).
 */
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/vocab/hf_tokenizer_impl.h"

#include <string.h>

/* Ids that notes name; ends that are kept; named tokens that are looked for one by one. */
enum { MAX_NOTED = 8, MAX_ENDS = 64, MAX_NAMED = 1024 };

/* A flag of tokenizer_config.json: 0, 1, or -1 when it says nothing. */
static int config_flag(const struct hf_tok *t, const char *key)
{
    const struct jval *v = jval_get(t->configs.tokenizer, key);
    return jval_is_flag(v) ? jval_is(v, JVAL_TRUE) : -1;
}

/* ---- BOS and EOS ----------------------------------------------------------------------------- */

/* A token by its name in tokenizer_config.json: a text, or an object with its content. */
static int32_t named(const struct hf_tok *t, const char *key)
{
    const struct jval *v = jval_get(t->configs.tokenizer, key);
    const char *text = jval_text(jval_is(v, JVAL_OBJECT) ? jval_get(v, "content") : v);
    return text ? vocab_slots_find(&t->slots, text) : -1;
}

int64_t hf_ids_number(const struct jval *config, const char *key, size_t i)
{
    const struct jval *v = jval_get(config, key);
    if (jval_is(v, JVAL_ARRAY))
        v = jval_at(v, i);
    return jval_is(v, JVAL_INTEGER) ? jval_whole(v) : -1;
}

size_t hf_ids_count(const struct jval *config, const char *key)
{
    const struct jval *v = jval_get(config, key);
    return jval_is(v, JVAL_ARRAY) ? jval_size(v) : v != NULL;
}

/* The i-th of them as a token's id; -1: none, or out of range. */
static int32_t numbered(const struct hf_tok *t, const struct jval *config, const char *key,
                        size_t i)
{
    int64_t id = hf_ids_number(config, key, i);
    return id >= 0 && (uint64_t)id < t->slots.n && t->slots.slots[id].type ? (int32_t)id : -1;
}

static void set_if_none(int32_t *to, int32_t id)
{
    if (*to < 0)
        *to = id;
}

/* Whether a text can give this id: a piece of one character, or one that a merge makes.
 * "<|endoftext|>" in vocab.json is neither. */
static int is_text(const struct hf_tok *t, int32_t id)
{
    const struct vocab_slot *s = &t->slots.slots[id];
    const struct gguf_str *merges = t->c->vocab.merges;
    uint32_t code;
    if (s->type != TOKEN_NORMAL || s->text.n == 0)
        return 0;
    int is_piece = utf8_next(s->text.p, s->text.n, &code) == s->text.n || !arr_len(merges);
    for (size_t i = 0; !is_piece && i < arr_len(merges); i++) {
        const char *space = merges[i].n > 1 ? memchr(merges[i].p + 1, ' ', merges[i].n - 1) : NULL;
        size_t n = space ? (size_t)(space - merges[i].p) : 0;
        is_piece = space && merges[i].n == s->text.n + 1 &&
                   memcmp(merges[i].p, s->text.p, n) == 0 &&
                   memcmp(space + 1, s->text.p + n, s->text.n - n) == 0;
    }
    return is_piece;
}

/* Notes ids in config.json that are not tokens, or are text: they may belong to another tokenizer. */
static void note_ids(const struct hf_tok *t, const char *file, const struct jval *config)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id"};
    for (size_t i = 0; i < 2 * MAX_NOTED; i++) {
        const char *key = keys[i / MAX_NOTED];
        size_t k = i % MAX_NOTED;
        int64_t id = k < hf_ids_count(config, key) ? hf_ids_number(config, key, k) : -1;
        int32_t known = id >= 0 ? numbered(t, config, key, k) : -1;
        if (id >= 0 && known < 0)
            ckpt_note(t->c, "ignored: %s of %s is %lld, %.60s has no such token", key, file,
                      (long long)id, t->file);
        else if (id >= 0 && is_text(t, known))
            ckpt_note(t->c, "%s of %s is %lld, '%.*s', which stays text", key, file, (long long)id,
                      CKPT_CLIP(t->slots.slots[known].text.p, t->slots.slots[known].text.n));
    }
}

void hf_ids_keep_end(struct checkpoint *c, int32_t id)
{
    struct ckpt_vocab *v = &c->vocab;
    set_if_none(&v->eos, id);
    if (id != v->eos)
        set_if_none(&v->eot, id);
    int known = id == v->eos || id == v->eot;
    for (size_t i = 0; i < arr_len(v->ends); i++)
        known |= v->ends[i] == id;
    if (!known && arr_len(v->ends) < MAX_ENDS)
        ckpt_push(c, v->ends, id);
}

/* A token that ends generation. A token that a file names is special in the original as well; an id that
 * is only a number (is_named 0) may be a piece of text, which stays text. */
static void add_end(struct hf_tok *t, int32_t id, int is_named)
{
    if (id < 0)
        return;
    if (t->slots.slots[id].type == TOKEN_NORMAL && (is_named || !is_text(t, id)))
        t->slots.slots[id].type = TOKEN_CONTROL;
    hf_ids_keep_end(t->c, id);
}

/* Tokens that tokenizer_config.json names are special, even if the tokenizer's file has them as text:
 * transformers looks for them before anything else. */
static void mark_named(struct hf_tok *t, const struct jval *name)
{
    const char *text = jval_text(jval_is(name, JVAL_OBJECT) ? jval_get(name, "content") : name);
    const struct jval *id = text ? jval_get(t->model_vocab, text) : NULL;
    int64_t at = id ? jval_whole(id) : -1;
    if (text && !jval_is(t->model_vocab, JVAL_OBJECT))
        at = vocab_slots_find(&t->slots, text);
    struct vocab_slot *slot = at >= 0 ? &t->slots.slots[at] : NULL;
    if (!slot || slot->type != TOKEN_NORMAL)
        return;
    slot->type = TOKEN_CONTROL;
    slot->strips |= hf_tok_flag(name, "lstrip", 0) ? VOCAB_STRIP_LEFT : 0u;
    slot->strips |= hf_tok_flag(name, "rstrip", 0) ? VOCAB_STRIP_RIGHT : 0u;
}

static void mark_all_named(struct hf_tok *t)
{
    static const char *const keys[] = {"unk_token", "pad_token", "cls_token", "sep_token",
                                       "mask_token"};
    const struct jval *more = jval_get(t->configs.tokenizer, "additional_special_tokens");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        mark_named(t, jval_get(t->configs.tokenizer, keys[i]));
    if (jval_size(more) > MAX_NAMED && !jval_is(t->model_vocab, JVAL_OBJECT))
        ckpt_stop(t->c, "tokenizer_config.json: more than %d additional_special_tokens", MAX_NAMED);
    for (size_t i = 0; i < jval_size(more); i++)
        mark_named(t, jval_at(more, i));
}

/* The first id is EOS, all others end generation as well. */
void hf_ids_read(struct hf_tok *t)
{
    struct ckpt_vocab *v = &t->c->vocab;
    const struct jval *model = t->configs.model;
    const struct jval *sources[] = {t->configs.generation, model, jval_get(model, "text_config")};
    static const char *const files[] = {"generation_config.json", "config.json", "config.json"};
    int32_t bos = named(t, "bos_token"), eos = named(t, "eos_token");
    v->bos = bos >= 0 ? bos : v->bos;
    v->eos = eos >= 0 ? eos : v->eos;
    for (size_t i = 0; i < 3; i++) {
        set_if_none(&v->bos, numbered(t, sources[i], "bos_token_id", 0));
        note_ids(t, files[i], sources[i]);
    }
    add_end(t, v->eos, v->eos == eos);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0, n = hf_ids_count(sources[i], "eos_token_id"); k < n; k++)
            add_end(t, numbered(t, sources[i], "eos_token_id", k), 0);
    if (v->bos >= 0 && t->slots.slots[v->bos].type == TOKEN_NORMAL &&
        (v->bos == bos || !is_text(t, v->bos)))
        t->slots.slots[v->bos].type = TOKEN_CONTROL;
    mark_all_named(t);
}

/* Who says what is put around texts: for tokenizers of Llama's and Gemma's classes tokenizer_config.json
 * overrides the post-processor, the plain class knows only the post-processor (none: nothing is put),
 * and others go by tokenizer_config.json where there is no post-processor. */
enum frame_source { BY_CONFIG, BY_POST, BY_EITHER };

static enum frame_source source_of_frame(const struct hf_tok *t)
{
    static const struct {
        const char *start;
        enum frame_source source;
    } rows[] = {{"Llama", BY_CONFIG},
                {"Gemma", BY_CONFIG},
                {"CodeLlama", BY_CONFIG},
                {"PreTrainedTokenizerFast", BY_POST},
                {"TokenizersBackend", BY_POST}};
    const char *name = jval_text(jval_get(t->configs.tokenizer, "tokenizer_class"));
    for (size_t i = 0; name && i < sizeof rows / sizeof *rows; i++)
        if (strncmp(name, rows[i].start, strlen(rows[i].start)) == 0)
            return rows[i].source;
    return BY_EITHER;
}

/* The last token that is put after texts is EOS; the ends so far end generation as well. */
static void set_eos(struct hf_tok *t, int32_t id)
{
    struct ckpt_vocab *v = &t->c->vocab;
    const int32_t eos = v->eos, eot = v->eot;
    if (id == eos)
        return;
    v->eos = id;
    v->eot = -1;
    add_end(t, eos, 0);
    add_end(t, eot, 0);
}

/* The tokens that a post-processor adds are BOS and EOS, even if other tokens have these names. */
void hf_ids_read_frame(struct hf_tok *t)
{
    struct ckpt_vocab *v = &t->c->vocab;
    struct hf_frame frame;
    enum frame_source source = source_of_frame(t);
    int unsaid = !t->has_post && source != BY_POST;
    int by_config = source == BY_CONFIG || unsaid;
    int bos = by_config ? config_flag(t, "add_bos_token") : -1;
    int eos = by_config ? config_flag(t, "add_eos_token") : -1;
    hf_tok_frame(t, &frame);
    if (bos < 0)
        bos = frame.n[0] || (unsaid && t->sentencepiece && !t->unigram && v->bos >= 0);
    if (eos < 0)
        eos = frame.n[1] > 0;
    if (frame.n[0])
        v->bos = frame.ids[0][0];
    if (frame.n[1])
        set_eos(t, frame.ids[1][frame.n[1] - 1]);
    v->add_bos = bos && v->bos >= 0;
    v->add_eos = eos && v->eos >= 0;
    /* several tokens on a side are a list; GGUF's own keys have one */
    for (size_t i = 0; v->add_bos && frame.n[0] > 1 && i < frame.n[0]; i++)
        ckpt_push(t->c, v->before, frame.ids[0][i]);
    for (size_t i = 0; v->add_eos && frame.n[1] > 1 && i < frame.n[1]; i++)
        ckpt_push(t->c, v->after, frame.ids[1][i]);
}
