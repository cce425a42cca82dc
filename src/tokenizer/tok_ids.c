/* The ids that a vocabulary's keys name, and its flags: BOS, EOS, unknown, the tokens that end
 * generation, the tokens that are put around texts. */
#include "base/error.h"
#include "tokenizer/tok_impl.h"

#include <string.h>

#define KEY(name) "tokenizer.ggml." name
#define OUR_KEY(name) "mgpt.tokenizer." name

/* ---- ids ------------------------------------------------------------------------------------- */

#define IGNORED_MAX 400 /* bytes of the text about all keys */

/* Appends "KEY is V". */
static int note_ignored(struct tok *t, const char *key, uint64_t v, mgpt_error *err)
{
    if (!t->ignored)
        t->ignored = mem_new(IGNORED_MAX, 1);
    if (!t->ignored)
        return err_memory(err, "the vocabulary", IGNORED_MAX);
    size_t n = strlen(t->ignored);
    text_format(t->ignored + n, IGNORED_MAX - n, "%s%s is %llu", n ? ", " : "", key,
                (unsigned long long)v);
    return MGPT_OK;
}

/* An id beyond the vocabulary is ignored, as in llama.cpp, and noted; the default stays. */
static int load_id(struct tok *t, const struct gguf *g, const char *key, int32_t *id,
                   mgpt_error *err)
{
    uint64_t v;
    int status = gguf_uint(g, key, UINT64_MAX, &v, err);
    if (status > 0 && v < t->n)
        *id = (int32_t)v;
    else if (status > 0)
        status = note_ignored(t, key, v, err);
    return status < 0 ? status : MGPT_OK;
}

int tok_id_list(const struct tok *t, const struct gguf *g, const char *key,
                const struct gguf_kv **kv, mgpt_error *err)
{
    int there = gguf_array(g, key, GGUF_I32, kv, err);
    for (uint64_t i = 0; there > 0 && i < (*kv)->n; i++) {
        int32_t id = tok_list_id(*kv, i);
        if (id < 0 || (size_t)id >= t->n)
            return err_set(err, MGPT_EFILE, (*kv)->offset, "%s[%llu]: %d, the vocabulary has %zu",
                           key, (unsigned long long)i, id, t->n);
    }
    return there;
}

int32_t tok_list_id(const struct gguf_kv *kv, uint64_t i)
{
    struct cursor c = cursor_over(kv->value + 4 * i, 4);
    return cursor_i32(&c);
}

static int load_flag(const struct gguf *g, const char *key, uint8_t *flag, mgpt_error *err)
{
    int v = 0; /* gcc does not see that gguf_bool sets it */
    int status = gguf_bool(g, key, &v, err);
    if (status > 0)
        *flag = (uint8_t)v;
    return status < 0 ? status : MGPT_OK;
}

/* Files mark the end of generation by a key or only by the text of a control token: the texts are
 * llama.cpp's, and nanochat's. */
static int is_end_text(struct gguf_str text)
{
    static const char ends[] =
        " <|endoftext|> <|end_of_text|> <|eot_id|> <|eom_id|> <|im_end|> <|end|> <end_of_turn> "
        "<|assistant_end|> </s> <eos> <EOT> _<EOT> [EOT] [EOS] <|return|> <|call|> <|flush|> "
        "<|calls|> <end_of_utterance> <\uFF5Cend\u2581of\u2581sentence\uFF5C> ";
    return gguf_str_in(text, ends);
}

static struct tok_entry *find_control(struct tok *t, const char *text)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->entries[i].type == TOK_CONTROL && gguf_str_is(t->entries[i].text, text))
            return &t->entries[i];
    return NULL;
}

/* Phi-3's <|end|> ends an answer. Where gpt-oss's <|return|> and <|call|>, or Solar Open's <|calls|>
 * and <|flush|>, do so, it only ends a message, as in llama.cpp. */
static void unmark_message_end(struct tok *t)
{
    struct tok_entry *end = find_control(t, "<|end|>");
    int has_others = end && ((find_control(t, "<|return|>") && find_control(t, "<|call|>")) ||
                             (find_control(t, "<|calls|>") && find_control(t, "<|flush|>")));
    if (has_others)
        end->marks &= (uint8_t)~IS_END;
}

static int load_ends(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    static const char *const keys[] = {KEY("eot_token_id"), KEY("eom_token_id")};
    for (size_t i = 0; i < t->n; i++)
        if (t->entries[i].type == TOK_CONTROL && is_end_text(t->entries[i].text))
            t->entries[i].marks |= IS_END;
    unmark_message_end(t);
    if (t->eos >= 0)
        t->entries[t->eos].marks |= IS_END;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int32_t id = -1;
        int status = load_id(t, g, keys[i], &id, err);
        if (status < 0)
            return status;
        if (id >= 0)
            t->entries[id].marks |= IS_END;
    }
    return tok_marks_load(t, g, OUR_KEY("end_token_ids"), IS_END, err);
}

/* The default id of a SentencePiece file, -1 if that token is not a control token. */
static int32_t usual_id(const struct tok *t, int32_t id, uint8_t type)
{
    return (size_t)id < t->n && t->entries[id].type == type ? id : -1;
}

/* SentencePiece files may omit the usual values: <unk> <s> </s> come first (unless they are
 * ordinary tokens), BOS and a leading space are added; T5's <pad> </s> <unk>, and EOS is added.
 * Gemma 4 adds BOS.
 * Other kinds take the defaults of their splitting rule. */
static void set_defaults(struct tok *t)
{
    int spm = t->kind == &tok_kind_spm, t5 = t->kind == &tok_kind_unigram;
    t->bos = spm ? usual_id(t, 1, TOK_CONTROL) : -1;
    t->eos = spm || t5 ? usual_id(t, t5 ? 1 : 2, TOK_CONTROL) : -1;
    t->unk = usual_id(t, t5 ? 2 : 0, TOK_UNKNOWN);
    t->adds_bos = t->adds_space = (uint8_t)spm;
    t->adds_eos = (uint8_t)t5;
    unsigned flags = t->rule ? t->rule->flags : 0;
    t->adds_bos |= (flags & RULE_BOS) != 0 || t->kind == &tok_kind_gemma4;
    t->whole_pieces = (flags & RULE_WHOLE) != 0;
    t->nfc = (flags & RULE_NFC) != 0;
}

static int load_flags(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    const struct {
        const char *key;
        uint8_t *flag;
    } flags[] = {
        {KEY("add_bos_token"), &t->adds_bos},
        {KEY("add_eos_token"), &t->adds_eos},
        {KEY("add_space_prefix"), &t->adds_space},
        {OUR_KEY("space_missing"), &t->space_missing},
        {OUR_KEY("space_first"), &t->space_first},
        {OUR_KEY("space_alone"), &t->space_alone},
        {OUR_KEY("user_pieces"), &t->user_pieces},
        {OUR_KEY("whole_pieces"), &t->whole_pieces},
        {OUR_KEY("nfc"), &t->nfc},
        {KEY("remove_extra_whitespaces"), &t->collapses},
        {OUR_KEY("drops_space"), &t->drops_space},
        {OUR_KEY("drops_unknown"), &t->drops_unknown},
    };
    int status = MGPT_OK;
    for (size_t i = 0; i < sizeof flags / sizeof *flags && status == MGPT_OK; i++)
        status = load_flag(g, flags[i].key, flags[i].flag, err);
    return status;
}

/* The tokens around a text on one side: those of the key, or BOS or EOS. */
static int load_around(struct tok *t, const struct gguf *g, int side, mgpt_error *err)
{
    const char *key = side ? OUR_KEY("after") : OUR_KEY("before");
    const struct gguf_kv *kv;
    int there = tok_id_list(t, g, key, &kv, err);
    int32_t usual = side ? t->eos : t->bos;
    if (there < 0)
        return there;
    if (!there && usual >= 0 && (side ? t->adds_eos : t->adds_bos))
        t->around[side][t->n_around[side]++] = usual;
    if (!there)
        return MGPT_OK;
    if (kv->n > AROUND_MAX)
        return err_set(err, MGPT_EFILE, kv->offset, "%s: %llu tokens, at most %d", key,
                       (unsigned long long)kv->n, AROUND_MAX);
    for (uint64_t i = 0; i < kv->n; i++)
        t->around[side][t->n_around[side]++] = tok_list_id(kv, i);
    return MGPT_OK;
}

int tok_ids_load(struct tok *t, const struct gguf *g, mgpt_error *err)
{
    set_defaults(t);
    int status = load_id(t, g, KEY("bos_token_id"), &t->bos, err);
    if (status == MGPT_OK)
        status = load_id(t, g, KEY("eos_token_id"), &t->eos, err);
    if (status == MGPT_OK)
        status = load_id(t, g, KEY("unknown_token_id"), &t->unk, err);
    if (status == MGPT_OK)
        status = load_flags(t, g, err);
    for (int side = 0; side < 2 && status == MGPT_OK; side++)
        status = load_around(t, g, side, err);
    return status == MGPT_OK ? load_ends(t, g, err) : status;
}
