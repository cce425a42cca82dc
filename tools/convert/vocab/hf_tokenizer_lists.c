/* vocab.json and merges.txt (GPT-2's encoder.json and vocab.bpe): byte-level BPE. The files do not
 * say how texts are split: GPT-2's rule, unless tokenizer_config.json names another tokenizer.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/vocab/hf_tokenizer_impl.h"
#include "tokenizer/tok_split.h"

#include <string.h>

/* ---- the rule -------------------------------------------------------------------------------- */

static void set_rule(struct hf_tok *t)
{
    static const struct {
        const char *class, *pre;
    } rows[] = {
        {"GPT2Tokenizer", "gpt-2"},       {"GPT2TokenizerFast", "gpt-2"},
        {"CodeGenTokenizer", "gpt-2"},    {"CodeGenTokenizerFast", "gpt-2"},
        {"Qwen2Tokenizer", "qwen2"},      {"Qwen2TokenizerFast", "qwen2"},
        {"GPTNeoXTokenizerFast", "olmo"}, {"GPTNeoXTokenizer", "olmo"},
    };
    const char *name = jval_text(jval_get(t->configs.tokenizer, "tokenizer_class"));
    t->c->vocab.model = "gpt2";
    if (!name) {
        t->c->vocab.pre = "gpt-2";
        ckpt_note(t->c, "inferred: texts are split as GPT-2 does (%s does not say)", t->file);
    }
    for (size_t i = 0; name && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(name, rows[i].class) == 0)
            t->c->vocab.pre = rows[i].pre;
    if (!t->c->vocab.pre)
        ckpt_stop(t->c, "%.60s: how a %.*s splits texts is not known; tokenizer.json would say",
                  t->file, CKPT_CLIP(name, strlen(name)));
    struct gguf_str pre = {t->c->vocab.pre, strlen(t->c->vocab.pre)};
    t->c->vocab.nfc = (split_find(pre)->flags & RULE_NFC) != 0;
}

/* ---- merges.txt ------------------------------------------------------------------------------ */

/* A line with a space is a merge, except for the version. */
static int is_merge(const char *line, size_t n)
{
    return n > 2 && memchr(line + 1, ' ', n - 2) && !(n > 9 && memcmp(line, "#version:", 9) == 0);
}

/* Split at the first space after the first byte. */
static void hf_tokenizer_lists_add_merge(struct hf_tok *t, const struct jval *vocab, const char *p,
                                         size_t n)
{
    char line[2048]; /* tokens are much shorter */
    size_t i = arr_len(t->c->vocab.merges);
    struct gguf_str text = ckpt_str(t->c, p, n);
    ckpt_push(t->c, t->c->vocab.merges, text);
    if (n >= sizeof line)
        ckpt_stop(t->c, "merge %zu has %zu bytes", i, n);
    memcpy(line, text.p, n + 1);
    hf_tok_merge(t, vocab, line, n, strcspn(line + 1, " ") + 1, i);
}

static void read_merges(struct hf_tok *t, const struct jval *vocab, struct span bytes,
                        const char *name)
{
    const char *p = (const char *)bytes.data, *end = p + bytes.size;
    for (size_t at = 1; p < end; at++) {
        const char *line_end = memchr(p, '\n', (size_t)(end - p));
        const char *next = line_end ? line_end + 1 : end;
        size_t n = (size_t)((line_end ? line_end : end) - p);
        n -= n > 0 && p[n - 1] == '\r';
        if (!is_merge(p, n) && n > 0 && *p != '#')
            ckpt_leave(t->c,
                       err_set(t->c->err, MGPT_EFILE, (uint64_t)(p - (const char *)bytes.data),
                               "side file %.60s: line %zu is not two tokens", name, at));
        if (is_merge(p, n))
            hf_tokenizer_lists_add_merge(t, vocab, p, n);
        p = next;
    }
}

/* ---- added tokens ---------------------------------------------------------------------------- */

static int in_brackets(const char *text)
{
    size_t n = strlen(text);
    return n > 2 &&
           ((text[0] == '<' && text[n - 1] == '>') || (text[0] == '[' && text[n - 1] == ']'));
}

/* {text: id}: names in brackets are control tokens, others (runs of spaces) are text. */
static void read_added(struct hf_tok *t, const struct jval *added)
{
    for (struct jval_iter i = jval_begin(added); jval_next(&i);) {
        int type = in_brackets(i.key) ? TOKEN_CONTROL : TOKEN_USER;
        int64_t id = jval_is(i.value, JVAL_INTEGER) ? jval_whole(i.value) : -1;
        vocab_slots_set(&t->slots, id, i.key, strlen(i.key), type, NULL);
    }
}

static uint64_t count_added(const struct jval *added)
{
    uint64_t n = 0;
    for (struct jval_iter i = jval_begin(added); jval_next(&i);)
        n = hf_tok_room(n, i.value);
    return n;
}

/* 1: {text: id}, as vocab.json has it. */
static int is_vocab_table(const struct jval *vocab)
{
    for (struct jval_iter i = jval_begin(vocab); jval_next(&i);)
        if (jval_is(i.value, JVAL_INTEGER))
            return 1;
    return jval_members(vocab) == 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

void hf_tok_lists(struct hf_tok *t, const struct jval *vocab, struct span text)
{
    static const char *const names[] = {"merges.txt", "vocab.bpe"};
    struct ckpt_side side;
    if (!is_vocab_table(vocab))
        ckpt_stop(t->c,
                  "%.60s: not a tokenizer: neither \"model\" of Hugging Face's "
                  "tokenizers nor a table of tokens and ids",
                  t->file);
    if (!ckpt_side(t->c, t->in, 0, names, 2, &side))
        ckpt_stop(t->c, "%.60s needs merges.txt or vocab.bpe next to the input: neither is there",
                  t->file);
    if (hf_tok_is_suffix(side.bytes)) {
        hf_tok_suffix(t, vocab, text, side.bytes);
        return;
    }
    set_rule(t);
    const struct jval *added = hf_tok_open(t, "added_tokens.json");
    hf_tok_vocab(t, vocab, count_added(added));
    int is_named =
        jval_get(t->configs.tokenizer, "eos_token") != NULL; /* hf_tokenizer_ids.c marks it */
    int32_t end = is_named ? -1 : vocab_slots_find(&t->slots, "<|endoftext|>");
    if (end >= 0)
        t->slots.slots[end].type = TOKEN_CONTROL;
    read_added(t, added);
    read_merges(t, vocab, side.bytes, side.name);
}
