/* The tokenizer next to a checkpoint: which file, and what the other files say about it.
 *
 * tokenizer.json comes first, since Hugging Face itself runs it. The ids of BOS and EOS:
 * hf_tokenizer_ids.c.
 */
#include "convert/vocab/hf_tokenizer.h"

#include "base/error.h"
#include "base/mem.h"
#include "convert/vocab/hf_tokenizer_impl.h"
#include "convert/vocab/tiktoken.h"

#include <math.h>
#include <string.h>

enum { GLM4_MASK = 151331, GLM4_SOP = 151333 }; /* [gMASK], <sop> */

_Noreturn void hf_tok_refuse(const struct hf_tok *t, const char *part, const char *what)
{
    ckpt_stop(t->c, "%.60s: %.60s: %.90s", t->file, part, what);
}

/* ---- side files of JSON ---------------------------------------------------------------------- */

const struct jval *hf_tok_open(const struct hf_tok *t, const char *name)
{
    struct ckpt_side side;
    return ckpt_side(t->c, t->in, 0, &name, 1, &side) ? hf_values(t->c, side.bytes, name, 0) : NULL;
}

const struct jval *hf_tok_value(const struct jval *object, const char *key)
{
    const struct jval *v = jval_get(object, key);
    return jval_is(v, JVAL_NULL) ? NULL : v;
}

static void open_configs(struct hf_tok *t)
{
    t->configs.tokenizer = hf_tok_open(t, "tokenizer_config.json");
    t->configs.generation = hf_tok_open(t, "generation_config.json");
    t->configs.model = hf_tok_open(t, "config.json");
}

/* ---- the chat template ----------------------------------------------------------------------- */

/* The file of newer directories, which counts more in transformers, too; else one text, or a list of
 * named ones ("default" counts). */
static void read_template(struct hf_tok *t)
{
    static const char *const name = "chat_template.jinja";
    const struct jval *v = jval_get(t->configs.tokenizer, "chat_template");
    struct ckpt_side side;
    struct gguf_str text = {jval_text(v), jval_text_size(v)};
    for (size_t i = 0; i < jval_size(v); i++) {
        const struct jval *entry = jval_at(v, i);
        const char *key = jval_text(jval_get(entry, "name"));
        const struct jval *body = jval_get(entry, "template");
        if (key && strcmp(key, "default") == 0)
            text = (struct gguf_str){jval_text(body), jval_text_size(body)};
    }
    if (ckpt_side(t->c, t->in, 0, &name, 1, &side))
        text = (struct gguf_str){(const char *)side.bytes.data, side.bytes.size};
    if (text.p && text.n)
        t->c->vocab.chat_template = ckpt_str(t->c, text.p, text.n);
}

/* ---- how the author draws -------------------------------------------------------------------- */

/* A number of generation_config.json from least to most; -1: there is none. What is no such number is left out. */
static double author_number(const struct hf_tok *t, const char *key, double least, double most)
{
    const struct jval *v = hf_tok_value(t->configs.generation, key);
    double x = jval_is_numeric(v) ? jval_number(v) : NAN;
    if (!v || (x >= least && x <= most && (most != INT32_MAX || x == floor(x))))
        return v ? x : -1;
    ckpt_note(t->c, "generation_config.json: %s: expected a number from %g to %g: left out", key,
              least, most);
    return -1;
}

/* With do_sample false transformers takes the likeliest token, whatever the other numbers are. */
static void read_author(struct hf_tok *t)
{
    struct ckpt_vocab *v = &t->c->vocab;
    double penalty = author_number(t, "repetition_penalty", 1e-3, 1e3);
    v->penalty_repeat = penalty == 1 ? -1 : (float)penalty;
    if (jval_is(jval_get(t->configs.generation, "do_sample"), JVAL_FALSE)) {
        v->temp = 0;
        return;
    }
    v->temp = (float)author_number(t, "temperature", 0, 1e30);
    v->top_k = (int32_t)author_number(t, "top_k", -1, INT32_MAX);
    v->top_p = (float)author_number(t, "top_p", 0, 1);
    v->min_p = (float)author_number(t, "min_p", 0, 1);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void note_vocabulary(const struct hf_tok *t)
{
    const struct ckpt_vocab *v = &t->c->vocab;
    const char *pieces = t->unigram ? "SentencePiece Unigram" : "SentencePiece";
    const char *kind =
        t->steps ? "BPE, in the file's own steps" : "byte-level BPE, splitting rule ";
    if (t->unigram)
        kind = "Unigram, in the file's own steps";
    if (t->words)
        kind = v->word_chars >= 0 ? "WordPiece, in the file's own steps"
                                  : "WordLevel, in the file's own steps";
    ckpt_note(t->c, "vocabulary: %zu tokens of %.60s (%s%s%s)", t->slots.n, t->file,
              t->sentencepiece ? pieces : kind, t->sentencepiece || t->steps ? "" : v->pre,
              v->nfc > 0 ? ", NFC" : "");
    if (t->steps && v->unknown < 0 && !v->byte_fallback && !t->bytes)
        ckpt_note(t->c,
                  t->words || t->unigram
                      ? "there is no unknown token: texts with unknown words are refused, as "
                        "with %.60s"
                      : "characters that are not tokens vanish from texts, as in %.60s",
                  t->file);
}

static void finish(struct hf_tok *t)
{
    hf_ids_read(t);
    hf_ids_read_frame(t);
    read_template(t);
    read_author(t);
    hf_tok_write_spaces(t);
    vocab_slots_finish(&t->slots, t->scores);
    note_vocabulary(t);
}

/* What the files next to a tokenizer without JSON say: more ids that end generation, and the chat
 * template. GLM-4's program puts two tokens before a text. */
static void finish_ranks(struct hf_tok *t)
{
    struct ckpt_vocab *v = &t->c->vocab;
    const struct jval *sources[] = {t->configs.generation, t->configs.model};
    const char *class = jval_text(jval_get(t->configs.tokenizer, "tokenizer_class"));
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0, n = hf_ids_count(sources[i], "eos_token_id"); k < n; k++) {
            int64_t id = hf_ids_number(sources[i], "eos_token_id", k);
            if (id >= 0 && (size_t)id < arr_len(v->types) && v->types[id] == TOKEN_CONTROL)
                hf_ids_keep_end(t->c, (int32_t)id);
        }
    read_template(t);
    read_author(t);
    if (class && strcmp(class, "ChatGLM4Tokenizer") == 0 && arr_len(v->tokens) > GLM4_SOP) {
        ckpt_push(t->c, v->before, GLM4_MASK);
        ckpt_push(t->c, v->before, GLM4_SOP);
        v->bos = GLM4_MASK;
        v->add_bos = 1;
    }
}

static void read_json(struct hf_tok *t, struct span bytes)
{
    const struct jval *root =
        hf_values(t->c, bytes, t->file, hf_tok_is_tekken(bytes) ? JVAL_ALLOW_NUL : 0);
    open_configs(t);
    if (jval_is(jval_get(root, "vocab"), JVAL_ARRAY)) {
        hf_tok_tekken(t, root);
        finish_ranks(t);
        return;
    }
    if (jval_is(jval_get(root, "model"), JVAL_OBJECT))
        hf_tok_json(t, root);
    else
        hf_tok_lists(t, root, bytes);
    finish(t);
}

/* Classes of transformers that change texts before SentencePiece, or ids after it. */
static void check_class(const struct hf_tok *t)
{
    static const char *const others[] = {"Albert",  "Barthez",  "Bartpho", "BigBird", "Camembert",
                                         "CPM",     "Cpm",      "Deberta", "FNet",    "M2M100",
                                         "MBart",   "Marian",   "Nllb",    "PLBart",  "Pegasus",
                                         "RemBert", "Speech2T", "XGLM",    "XLM",     "XLNet"};
    const char *name = jval_text(jval_get(t->configs.tokenizer, "tokenizer_class"));
    for (size_t i = 0; name && i < sizeof others / sizeof *others; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            ckpt_stop(t->c,
                      "%.60s: %.60s changes texts or ids of SentencePiece; tokenizer.json "
                      "would say how",
                      t->file, name);
}

/* The first byte that is not white space. */
static int first_byte(struct span bytes)
{
    size_t i = 0;
    while (i < bytes.size && strchr(" \t\r\n", bytes.data[i]) && bytes.data[i])
        i++;
    return i < bytes.size ? bytes.data[i] : -1;
}

static void read_tokenizer(struct hf_tok *t)
{
    static const char *const names[] = {
        "tokenizer.json",       "vocab.json",     "encoder.json",   "tokenizer.model",
        "tekken.json",          "qwen.tiktoken",  "tiktoken.model", "tokenizer.tiktoken",
        "cl100k_base.tiktoken", "vocab.tiktoken", "spiece.model"};
    struct ckpt_side side;
    if (!ckpt_side(t->c, t->in, OPT_TOKENIZER, names, sizeof names / sizeof *names, &side)) {
        ckpt_note(t->c,
                  "no vocabulary: neither tokenizer.json nor vocab.json nor tokenizer.model nor "
                  "spiece.model nor tekken.json nor a known *.tiktoken is next to the input; "
                  "the model will run on token ids only (--tokenizer FILE names one)");
        return;
    }
    t->file = side.name;
    if (first_byte(side.bytes) == '[')
        ckpt_stop(t->c, "%.60s: not a tokenizer: a list of JSON", side.name);
    if (first_byte(side.bytes) == '{') {
        read_json(t, side.bytes);
        return;
    }
    if (tiktoken_sniff(side.bytes)) {
        tiktoken_file_read(t->c, side.bytes, t->file, t->n_rows);
        open_configs(t);
        finish_ranks(t);
        return;
    }
    open_configs(t);
    check_class(t);
    hf_tok_sentencepiece(t, side.bytes);
    finish(t);
}

void hf_tokenizer_read(struct checkpoint *c, const struct ckpt_input *in, uint64_t n_rows)
{
    struct hf_tok t = {.c = c, .in = in, .n_rows = n_rows};
    if (in->options->given & OPT_NO_TOKENIZER)
        ckpt_note(c, "no vocabulary: the model will run on token ids only");
    else
        read_tokenizer(&t);
}
