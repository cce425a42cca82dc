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

#include <string.h>

enum { GLM4_MASK = 151331, GLM4_SOP = 151333 }; /* [gMASK], <sop> */

int hf_tok_refuse(const struct hf_tok *t, const char *part, const char *what, mgpt_error *err)
{
    return ckpt_refuse(err, "%.60s: %.60s: %.90s", t->file, part, what);
}

/* ---- side files of JSON ---------------------------------------------------------------------- */

int hf_tok_open(const struct ckpt_input *in, const char *name, const struct jval **root,
                mgpt_error *err)
{
    struct ckpt_side side;
    int found = in->side(in->user, 0, &name, 1, &side, err);
    *root = found > 0 ? hf_values(side.bytes, name, 0, err) : NULL;
    if (found > 0 && !*root)
        return MGPT_EFILE;
    return found < 0 ? found : MGPT_OK;
}

const struct jval *hf_tok_value(const struct jval *object, const char *key)
{
    const struct jval *v = jval_get(object, key);
    return jval_is(v, JVAL_NULL) ? NULL : v;
}

static int open_configs(struct hf_configs *f, const struct ckpt_input *in, mgpt_error *err)
{
    int status = hf_tok_open(in, "tokenizer_config.json", &f->tokenizer, err);
    if (status >= 0)
        status = hf_tok_open(in, "generation_config.json", &f->generation, err);
    if (status >= 0)
        status = hf_tok_open(in, "config.json", &f->model, err);
    return status;
}

static void close_configs(struct hf_configs *f)
{
    jval_free(f->tokenizer);
    jval_free(f->generation);
    jval_free(f->model);
}

/* ---- the chat template ----------------------------------------------------------------------- */

/* The file of newer directories, which counts more in transformers, too; else one text, or a list of
 * named ones ("default" counts). */
static int read_template(struct hf_tok *t, const struct hf_configs *f, const struct ckpt_input *in,
                         mgpt_error *err)
{
    static const char *const name = "chat_template.jinja";
    const struct jval *v = jval_get(f->tokenizer, "chat_template");
    struct ckpt_side side;
    struct gguf_str text = {jval_text(v), jval_text_size(v)};
    for (size_t i = 0; i < jval_size(v); i++) {
        const struct jval *entry = jval_at(v, i);
        const char *key = jval_text(jval_get(entry, "name"));
        const struct jval *body = jval_get(entry, "template");
        if (key && strcmp(key, "default") == 0)
            text = (struct gguf_str){jval_text(body), jval_text_size(body)};
    }
    int found = in->side(in->user, 0, &name, 1, &side, err);
    if (found < 0)
        return found;
    if (found)
        text = (struct gguf_str){(const char *)side.bytes.data, side.bytes.size};
    if (!text.p || text.n == 0)
        return MGPT_OK;
    t->c->vocab.chat_template = (struct gguf_str){ckpt_text(t->c, text.p, text.n), text.n};
    return t->c->vocab.chat_template.p ? MGPT_OK : err_memory(err, "the chat template", text.n);
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

static int finish(struct hf_tok *t, const struct hf_configs *f, const struct ckpt_input *in,
                  mgpt_error *err)
{
    int status = hf_ids_read(t, f, err);
    if (status == MGPT_OK)
        status = hf_ids_read_frame(t, f, err);
    if (status == MGPT_OK)
        status = read_template(t, f, in, err);
    if (status == MGPT_OK)
        status = hf_tok_write_spaces(t, err);
    if (status == MGPT_OK)
        status = vocab_slots_finish(&t->slots, t->scores, err);
    if (status == MGPT_OK)
        note_vocabulary(t);
    return status;
}

/* What the files next to a tokenizer without JSON say: more ids that end generation, and the chat
 * template. GLM-4's program puts two tokens before a text. */
static int finish_ranks(struct hf_tok *t, const struct ckpt_input *in, mgpt_error *err)
{
    struct ckpt_vocab *v = &t->c->vocab;
    struct hf_configs f = {NULL, NULL, NULL};
    int status = open_configs(&f, in, err), ok = 1;
    const struct jval *sources[] = {f.generation, f.model};
    const char *class = jval_text(jval_get(f.tokenizer, "tokenizer_class"));
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0, n = hf_ids_count(sources[i], "eos_token_id"); k < n; k++) {
            int64_t id = hf_ids_number(sources[i], "eos_token_id", k);
            if (id >= 0 && (size_t)id < arr_len(v->types) && v->types[id] == TOKEN_CONTROL)
                ok &= hf_ids_keep_end(v, (int32_t)id);
        }
    if (status >= 0)
        status = read_template(t, &f, in, err);
    if (class && strcmp(class, "ChatGLM4Tokenizer") == 0 && arr_len(v->tokens) > GLM4_SOP) {
        ok &= arr_push(v->before, GLM4_MASK) && arr_push(v->before, GLM4_SOP);
        v->bos = GLM4_MASK;
        v->add_bos = 1;
    }
    close_configs(&f);
    return ok || status < 0 ? status : err_memory(err, "the ids that end a text", 1);
}

static int read_ranks(struct hf_tok *t, struct span bytes, const struct ckpt_input *in,
                      mgpt_error *err)
{
    int status = tiktoken_file_read(t->c, bytes, t->file, t->n_rows, err);
    return status < 0 ? status : finish_ranks(t, in, err);
}

static int read_json(struct hf_tok *t, struct span bytes, const struct ckpt_input *in,
                     mgpt_error *err)
{
    const struct jval *root =
        hf_values(bytes, t->file, hf_tok_is_tekken(bytes) ? JVAL_ALLOW_NUL : 0, err);
    if (!root)
        return MGPT_EFILE;
    struct hf_configs f = {NULL, NULL, NULL};
    int status = open_configs(&f, in, err);
    t->config = f.tokenizer;
    if (status >= 0 && jval_is(jval_get(root, "vocab"), JVAL_ARRAY)) {
        close_configs(&f);
        status = hf_tok_tekken(t, root, err);
        jval_free(root);
        return status < 0 ? status : finish_ranks(t, in, err);
    }
    if (status >= 0 && jval_is(jval_get(root, "model"), JVAL_OBJECT))
        status = hf_tok_json(t, root, err);
    else if (status >= 0)
        status = hf_tok_lists(t, root, bytes, in, err);
    if (status >= 0)
        status = finish(t, &f, in, err);
    close_configs(&f);
    jval_free(root);
    return status;
}

/* Classes of transformers that change texts before SentencePiece, or ids after it. */
static int check_class(const struct hf_tok *t, const struct hf_configs *f, mgpt_error *err)
{
    static const char *const others[] = {"Albert",  "Barthez",  "Bartpho", "BigBird", "Camembert",
                                         "CPM",     "Cpm",      "Deberta", "FNet",    "M2M100",
                                         "MBart",   "Marian",   "Nllb",    "PLBart",  "Pegasus",
                                         "RemBert", "Speech2T", "XGLM",    "XLM",     "XLNet"};
    const char *name = jval_text(jval_get(f->tokenizer, "tokenizer_class"));
    for (size_t i = 0; name && i < sizeof others / sizeof *others; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return ckpt_refuse(err,
                               "%.60s: %.60s changes texts or ids of SentencePiece; tokenizer.json "
                               "would say how",
                               t->file, name);
    return MGPT_OK;
}

static int read_sentencepiece(struct hf_tok *t, struct span bytes, const struct ckpt_input *in,
                              mgpt_error *err)
{
    struct hf_configs f = {NULL, NULL, NULL};
    int status = open_configs(&f, in, err);
    if (status >= 0)
        status = check_class(t, &f, err);
    if (status >= 0)
        status = hf_tok_sentencepiece(t, bytes, err);
    if (status >= 0)
        status = finish(t, &f, in, err);
    close_configs(&f);
    return status;
}

/* The first byte that is not white space. */
static int first_byte(struct span bytes)
{
    size_t i = 0;
    while (i < bytes.size && strchr(" \t\r\n", bytes.data[i]) && bytes.data[i])
        i++;
    return i < bytes.size ? bytes.data[i] : -1;
}

int hf_tokenizer_read(struct checkpoint *c, const struct ckpt_input *in, uint64_t n_rows,
                      mgpt_error *err)
{
    static const char *const names[] = {
        "tokenizer.json",       "vocab.json",     "encoder.json",   "tokenizer.model",
        "tekken.json",          "qwen.tiktoken",  "tiktoken.model", "tokenizer.tiktoken",
        "cl100k_base.tiktoken", "vocab.tiktoken", "spiece.model"};
    struct ckpt_side side;
    if (in->options->given & OPT_NO_TOKENIZER) {
        ckpt_note(c, "no vocabulary: the model will run on token ids only");
        return MGPT_OK;
    }
    int status = in->side(in->user, OPT_TOKENIZER, names, sizeof names / sizeof *names, &side, err);
    if (status < 0)
        return status;
    if (status == 0) {
        ckpt_note(c, "no vocabulary: neither tokenizer.json nor vocab.json nor tokenizer.model nor "
                     "spiece.model nor tekken.json nor a known *.tiktoken is next to the input; "
                     "the model will run "
                     "on token ids only (--tokenizer FILE names one)");
        return MGPT_OK;
    }
    struct hf_tok t = {.c = c, .file = side.name, .n_rows = n_rows};
    if (first_byte(side.bytes) == '[')
        status = ckpt_refuse(err, "%.60s: not a tokenizer: a list of JSON", side.name);
    else if (first_byte(side.bytes) == '{')
        status = read_json(&t, side.bytes, in, err);
    else if (tiktoken_sniff(side.bytes))
        status = read_ranks(&t, side.bytes, in, err);
    else
        status = read_sentencepiece(&t, side.bytes, in, err);
    vocab_slots_free(&t.slots);
    jval_free(t.added);
    jval_free(t.made);
    return status < 0 ? status : MGPT_OK;
}
