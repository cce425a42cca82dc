/* The tokenizer next to a checkpoint: which file, and what the other files say about it.
 *
 * tokenizer.json comes first, since Hugging Face itself runs it. The ids of BOS and EOS are taken
 * from the most specific file that has them: the post-processor (what is added to texts),
 * tokenizer_config.json (names), generation_config.json, config.json (numbers).
 */
#include "convert/vocab/hf_tokenizer.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/vocab/hf_tokenizer_impl.h"
#include "convert/vocab/tiktoken.h"

#include <string.h>

enum { GLM4_MASK = 151331, GLM4_SOP = 151333 }; /* [gMASK], <sop> */
enum { MAX_NOTED = 8, MAX_ENDS = 64 };          /* ids that notes name; ends that are kept */

int hf_tok_refuse(const struct hf_tok *t, const char *part, const char *what, mgpt_error *err)
{
    return ckpt_refuse(err, "%.60s: %.60s: %.90s", t->file, part, what);
}

/* ---- side files of JSON ---------------------------------------------------------------------- */

/* What the three configurations say; each may be NULL. */
struct configs {
    const struct jval *tokenizer, *generation, *model;
};

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
    return jval_is(v, JSON_NULL) ? NULL : v;
}

static int open_configs(struct configs *f, const struct ckpt_input *in, mgpt_error *err)
{
    int status = hf_tok_open(in, "tokenizer_config.json", &f->tokenizer, err);
    if (status >= 0)
        status = hf_tok_open(in, "generation_config.json", &f->generation, err);
    if (status >= 0)
        status = hf_tok_open(in, "config.json", &f->model, err);
    return status;
}

static void close_configs(struct configs *f)
{
    jval_free(f->tokenizer);
    jval_free(f->generation);
    jval_free(f->model);
}

/* A flag of tokenizer_config.json: 0, 1, or -1 when it says nothing. */
static int config_flag(const struct configs *f, const char *key)
{
    const struct jval *v = jval_get(f->tokenizer, key);
    return jval_is_flag(v) ? jval_is(v, JSON_TRUE) : -1;
}

/* ---- BOS and EOS ----------------------------------------------------------------------------- */

/* A token by its name in tokenizer_config.json: a text, or an object with its content. */
static int32_t named(const struct hf_tok *t, const struct configs *f, const char *key)
{
    const struct jval *v = jval_get(f->tokenizer, key);
    const char *text = jval_text(jval_is(v, JSON_OBJECT) ? jval_get(v, "content") : v);
    return text ? vocab_slots_find(&t->slots, text) : -1;
}

/* The i-th number under a key that holds one or a list of them, -1: not a number; the count of
 * them. */
static json_int_t config_number(const struct jval *config, const char *key, size_t i)
{
    const struct jval *v = jval_get(config, key);
    if (jval_is(v, JSON_ARRAY))
        v = jval_at(v, i);
    return jval_is(v, JSON_INTEGER) ? jval_whole(v) : -1;
}

static size_t count_numbers(const struct jval *config, const char *key)
{
    const struct jval *v = jval_get(config, key);
    return jval_is(v, JSON_ARRAY) ? jval_size(v) : v != NULL;
}

/* The i-th of them as a token's id; -1: none, or out of range. */
static int32_t numbered(const struct hf_tok *t, const struct jval *config, const char *key,
                        size_t i)
{
    json_int_t id = config_number(config, key, i);
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
        json_int_t id = k < count_numbers(config, key) ? config_number(config, key, k) : -1;
        int32_t known = id >= 0 ? numbered(t, config, key, k) : -1;
        if (id >= 0 && known < 0)
            ckpt_note(t->c, "ignored: %s of %s is %lld, %.60s has no such token", key, file,
                      (long long)id, t->file);
        else if (id >= 0 && is_text(t, known))
            ckpt_note(t->c, "%s of %s is %lld, '%.*s', which stays text", key, file, (long long)id,
                      CKPT_CLIP(t->slots.slots[known].text.p, t->slots.slots[known].text.n));
    }
}

/* Makes an id EOS, or else EOT, or else one more in v->ends. 0 when out of memory. */
static int keep_end(struct ckpt_vocab *v, int32_t id)
{
    set_if_none(&v->eos, id);
    if (id == v->eos)
        return 1;
    set_if_none(&v->eot, id);
    if (id == v->eot)
        return 1;
    for (size_t i = 0; i < arr_len(v->ends); i++)
        if (v->ends[i] == id)
            return 1;
    return arr_len(v->ends) == MAX_ENDS || arr_push(v->ends, id);
}

/* A token that ends generation. A token that a file names is special in the original as well; an id that is only a number (is_named 0) may be a piece
 * of text, which stays text. 0 when out of memory. */
static int add_end(struct hf_tok *t, int32_t id, int is_named)
{
    struct ckpt_vocab *v = &t->c->vocab;
    if (id < 0)
        return 1;
    if (t->slots.slots[id].type == TOKEN_NORMAL && (is_named || !is_text(t, id)))
        t->slots.slots[id].type = TOKEN_CONTROL;
    return keep_end(v, id);
}

/* The first id is EOS, all others end generation as well. */
static int hf_tokenizer_read_ids(struct hf_tok *t, const struct configs *f, mgpt_error *err)
{
    struct ckpt_vocab *v = &t->c->vocab;
    const struct jval *sources[] = {f->generation, f->model, jval_get(f->model, "text_config")};
    static const char *const files[] = {"generation_config.json", "config.json", "config.json"};
    int32_t bos = named(t, f, "bos_token"), eos = named(t, f, "eos_token");
    v->bos = bos >= 0 ? bos : v->bos;
    v->eos = eos >= 0 ? eos : v->eos;
    for (size_t i = 0; i < 3; i++) {
        set_if_none(&v->bos, numbered(t, sources[i], "bos_token_id", 0));
        note_ids(t, files[i], sources[i]);
    }
    int ok = add_end(t, v->eos, v->eos == eos);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0, n = count_numbers(sources[i], "eos_token_id"); k < n; k++)
            ok &= add_end(t, numbered(t, sources[i], "eos_token_id", k), 0);
    if (v->bos >= 0 && t->slots.slots[v->bos].type == TOKEN_NORMAL &&
        (v->bos == bos || !is_text(t, v->bos)))
        t->slots.slots[v->bos].type = TOKEN_CONTROL;
    return ok ? MGPT_OK : err_memory(err, "the ids that end a text", arr_len(v->ends));
}

/* For tokenizers of Llama's and Gemma's classes tokenizer_config.json overrides the
 * post-processor. */
static int goes_by_config(const struct configs *f)
{
    const char *name = jval_text(jval_get(f->tokenizer, "tokenizer_class"));
    return name && (strncmp(name, "Llama", 5) == 0 || strncmp(name, "Gemma", 5) == 0 ||
                    strncmp(name, "CodeLlama", 9) == 0);
}

/* The last token that is put after texts is EOS; the ends so far end generation as well. */
static int set_eos(struct hf_tok *t, int32_t id)
{
    struct ckpt_vocab *v = &t->c->vocab;
    const int32_t eos = v->eos, eot = v->eot;
    if (id == eos)
        return 1;
    v->eos = id;
    v->eot = -1;
    return add_end(t, eos, 0) && add_end(t, eot, 0);
}

/* Several tokens on a side are a list; GGUF's own keys have one. */
static int put_frame(int32_t **list, const struct hf_frame *f, int side)
{
    int ok = 1;
    for (size_t i = 0; f->n[side] > 1 && i < f->n[side] && ok; i++)
        ok = arr_push(*list, f->ids[side][i]);
    return ok;
}

/* The tokens that a post-processor adds are BOS and EOS, even if other tokens have these names. */
static int read_frame(struct hf_tok *t, const struct configs *f, mgpt_error *err)
{
    struct ckpt_vocab *v = &t->c->vocab;
    struct hf_frame frame;
    int by_config = goes_by_config(f) || !t->has_post;
    int bos = by_config ? config_flag(f, "add_bos_token") : -1;
    int eos = by_config ? config_flag(f, "add_eos_token") : -1;
    int status = hf_tok_frame(t, &frame, err), ok = 1;
    if (status < 0)
        return status;
    if (bos < 0)
        bos = frame.n[0] || (!t->has_post && t->sentencepiece && !t->unigram && v->bos >= 0);
    if (eos < 0)
        eos = frame.n[1] > 0;
    if (frame.n[0])
        v->bos = frame.ids[0][0];
    if (frame.n[1])
        ok = set_eos(t, frame.ids[1][frame.n[1] - 1]);
    v->add_bos = bos && v->bos >= 0;
    v->add_eos = eos && v->eos >= 0;
    if (v->add_bos)
        ok = ok && put_frame(&v->before, &frame, 0);
    if (v->add_eos)
        ok = ok && put_frame(&v->after, &frame, 1);
    return ok ? MGPT_OK : err_memory(err, "the tokens around a text", sizeof frame);
}

/* ---- the chat template ----------------------------------------------------------------------- */

/* The file of newer directories, which counts more in transformers, too; else one text, or a list of
 * named ones ("default" counts). */
static int read_template(struct hf_tok *t, const struct configs *f, const struct ckpt_input *in,
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

static int finish(struct hf_tok *t, const struct configs *f, const struct ckpt_input *in,
                  mgpt_error *err)
{
    int status = hf_tokenizer_read_ids(t, f, err);
    if (status == MGPT_OK)
        status = read_frame(t, f, err);
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
    struct configs f = {NULL, NULL, NULL};
    int status = open_configs(&f, in, err), ok = 1;
    const struct jval *sources[] = {f.generation, f.model};
    const char *class = jval_text(jval_get(f.tokenizer, "tokenizer_class"));
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0, n = count_numbers(sources[i], "eos_token_id"); k < n; k++) {
            json_int_t id = config_number(sources[i], "eos_token_id", k);
            if (id >= 0 && (size_t)id < arr_len(v->types) && v->types[id] == TOKEN_CONTROL)
                ok &= keep_end(v, (int32_t)id);
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
        hf_values(bytes, t->file, hf_tok_is_tekken(bytes) ? JVAL_NUL : 0, err);
    if (!root)
        return MGPT_EFILE;
    struct configs f = {NULL, NULL, NULL};
    int status = open_configs(&f, in, err);
    t->config = f.tokenizer;
    if (status >= 0 && jval_is(jval_get(root, "vocab"), JSON_ARRAY)) {
        close_configs(&f);
        status = hf_tok_tekken(t, root, err);
        jval_free(root);
        return status < 0 ? status : finish_ranks(t, in, err);
    }
    if (status >= 0 && jval_is(jval_get(root, "model"), JSON_OBJECT))
        status = hf_tok_json(t, root, err);
    else if (status >= 0)
        status = hf_tok_lists(t, root, bytes, in, err);
    if (status >= 0)
        status = finish(t, &f, in, err);
    close_configs(&f);
    jval_free(root);
    return status;
}

static int read_sentencepiece(struct hf_tok *t, struct span bytes, const struct ckpt_input *in,
                              mgpt_error *err)
{
    struct configs f = {NULL, NULL, NULL};
    int status = open_configs(&f, in, err);
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
        "tokenizer.json",       "vocab.json",    "encoder.json",   "tokenizer.model",
        "tekken.json",          "qwen.tiktoken", "tiktoken.model", "tokenizer.tiktoken",
        "cl100k_base.tiktoken", "vocab.tiktoken"};
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
                     "tekken.json nor a known *.tiktoken is next to the input; the model will run "
                     "on token ids only (--tokenizer FILE names one)");
        return MGPT_OK;
    }
    struct hf_tok t = {.c = c, .file = side.name, .n_rows = n_rows};
    if (first_byte(side.bytes) == '{')
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
