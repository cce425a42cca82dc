/* Vocabularies of models in PyTorch files. See torch_model.h.
 *
 *     meta.pkl       {"vocab_size": n, "stoi": {character: id}, "itos": {id: character}}   nanoGPT
 *     tokenizer.pkl  a tiktoken Encoding: mergeable_ranks, special_tokens, pat_str         nanochat
 *
 * Files that other programs share (tokenizer.json, vocab.json, ...) are hf_tokenizer's.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/torch_model.h"
#include "convert/vocab/hf_tokenizer.h"
#include "convert/vocab/tiktoken.h"
#include "convert/vocab/vocab_chars.h"

#include <stdio.h>
#include <string.h>

/* ---- characters ------------------------------------------------------------------------------ */

static int bad_entry(const char *name, size_t n, mgpt_error *err)
{
    return ckpt_refuse(err, "%s: expected the ids 0 to %zu, each with a character", name, n - 1);
}

static int from_list(const struct pickle *p, pickle_id list, struct gguf_str *entries,
                     const char *name, mgpt_error *err)
{
    size_t n = 0;
    for (struct pickle_iter i = pickle_items(p, list); pickle_next(&i); n++) {
        const struct pickle_node *text = pickle_at(p, i.value);
        if (text->kind != PICKLE_TEXT)
            return bad_entry(name, pickle_at(p, list)->n, err);
        entries[n] = (struct gguf_str){text->as.text, text->n};
    }
    return MGPT_OK;
}

/* {character: id} or {id: character} */
static int from_dict(const struct pickle *p, pickle_id dict, struct gguf_str *entries, size_t n,
                     const char *name, mgpt_error *err)
{
    for (struct pickle_iter i = pickle_items(p, dict); pickle_next(&i);) {
        int by_id = pickle_at(p, i.value)->kind == PICKLE_TEXT;
        const struct pickle_node *text = pickle_at(p, by_id ? i.value : i.key);
        int64_t id;
        if (text->kind != PICKLE_TEXT || !pickle_int(p, by_id ? i.key : i.value, &id) || id < 0 ||
            (uint64_t)id >= n || entries[id].p)
            return bad_entry(name, n, err);
        entries[id] = (struct gguf_str){text->as.text, text->n};
    }
    return MGPT_OK;
}

/* Appends the characters of a list, of {character: id} or of {id: character} to an stb_ds array,
 * which is the caller's to free. They point into the pickle's bytes. */
static int entries_of(const struct pickle *p, pickle_id id, struct gguf_str **entries,
                      const char *name, mgpt_error *err)
{
    const struct pickle_node *node = pickle_at(p, id);
    size_t n = node->kind == PICKLE_DICT ? node->n / 2 : node->n;
    if ((node->kind != PICKLE_DICT && node->kind != PICKLE_LIST && node->kind != PICKLE_TUPLE) ||
        !n)
        return ckpt_refuse(err, "%s: expected characters, found %s", name, pickle_kind_name(p, id));
    if (!arr_reserve(*entries, n))
        return err_memory(err, "the vocabulary", n * sizeof **entries);
    for (size_t i = 0; i < n; i++)
        arr_put(*entries, ((struct gguf_str){NULL, 0}));
    return node->kind == PICKLE_DICT ? from_dict(p, id, *entries, n, name, err)
                                     : from_list(p, id, *entries, name, err);
}

static int chars_of_meta(struct torch_model *m, const struct pickle *p, const char *name,
                         mgpt_error *err)
{
    const struct ckpt_options *o = m->in->options;
    pickle_id itos = pickle_get(p, p->root, "itos");
    pickle_id from = itos ? itos : pickle_get(p, p->root, "stoi");
    struct gguf_str *entries = NULL;
    int status = entries_of(p, from, &entries, name, err);
    if (status == MGPT_OK)
        status = vocab_chars_set(m->c, entries, arr_len(entries), o->given & OPT_BOS ? o->bos : -1,
                                 m->c->hp.n_vocab, err);
    arr_free(entries);
    return status;
}

/* ---- tiktoken -------------------------------------------------------------------------------- */

/* {bytes or str: int} */
static int ranks_of(const struct pickle *p, pickle_id dict, struct tiktoken_token **tokens,
                    const char *name, mgpt_error *err)
{
    if (!arr_reserve(*tokens, pickle_at(p, dict)->n / 2 + 1))
        return err_memory(err, "the vocabulary", pickle_at(p, dict)->n);
    for (struct pickle_iter i = pickle_items(p, dict); pickle_next(&i);) {
        const struct pickle_node *key = pickle_at(p, i.key);
        struct tiktoken_token t;
        if ((key->kind != PICKLE_BYTES && key->kind != PICKLE_TEXT) ||
            !pickle_int(p, i.value, &t.rank))
            return ckpt_refuse(err, "tokenizer %s: a token that is not bytes with a rank", name);
        t.text = (struct gguf_str){key->as.text, key->n};
        arr_put(*tokens, t);
    }
    return MGPT_OK;
}

static int has_token(const struct tiktoken_token *tokens, const char *text)
{
    for (size_t i = 0; i < arr_len(tokens); i++)
        if (tokens[i].text.n == strlen(text) && memcmp(tokens[i].text.p, text, strlen(text)) == 0)
            return 1;
    return 0;
}

static int tiktoken_of(struct checkpoint *c, const struct pickle *p, const char *name,
                       uint64_t n_vocab, mgpt_error *err)
{
    struct tiktoken_token *ranks = NULL, *specials = NULL;
    const struct pickle_node *pattern = pickle_at(p, pickle_get(p, p->root, "pat_str"));
    if (pattern->kind != PICKLE_TEXT)
        return ckpt_refuse(err, "tokenizer %s: not a tiktoken Encoding that holds its own tables",
                           name);
    int status = ranks_of(p, pickle_get(p, p->root, "mergeable_ranks"), &ranks, name, err);
    if (status == MGPT_OK)
        status = ranks_of(p, pickle_get(p, p->root, "special_tokens"), &specials, name, err);
    if (status == MGPT_OK) {
        struct tiktoken t = {.ranks = ranks,
                             .n_ranks = arr_len(ranks),
                             .specials = specials,
                             .n_specials = arr_len(specials),
                             .pattern = {pattern->as.text, pattern->n},
                             .bos = has_token(specials, "<|bos|>") ? "<|bos|>" : NULL};
        t.eos = has_token(specials, "<|assistant_end|>") ? "<|assistant_end|>" : NULL;
        status = tiktoken_read(c, &t, n_vocab, err);
    }
    arr_free(ranks);
    arr_free(specials);
    return status;
}

/* ---- finding it ------------------------------------------------------------------------------ */

int torch_vocab_pickle(struct torch_model *m, const struct ckpt_side *side, mgpt_error *err)
{
    struct pickle p;
    mgpt_error why;
    int status = pickle_read(&p, side->bytes, &why);
    if (status < 0)
        return err_set(err, status, MGPT_NO_OFFSET, "side file %s: %s", side->name, why.text);
    if (pickle_at(&p, p.root)->kind == PICKLE_OBJECT)
        status = tiktoken_of(m->c, &p, side->name, m->c->hp.n_vocab, err);
    else
        status = chars_of_meta(m, &p, side->name, err);
    pickle_free(&p);
    return status;
}

/* meta.pkl, or the file that --tokenizer names when it is a pickle: 1, 0 or negative */
static int find_meta(struct torch_model *m, const char *dataset, struct ckpt_side *side,
                     mgpt_error *err)
{
    char other[128] = "meta.pkl";
    if (dataset)
        snprintf(other, sizeof other, "../data/%s/meta.pkl", dataset);
    const char *const candidates[] = {"meta.pkl", other};
    int found = m->in->side(m->in->user, OPT_TOKENIZER, candidates, dataset ? 2 : 1, side, err);
    if (found > 0 && !pickle_sniff(side->bytes))
        return 0;
    if (found <= 0)
        return found;
    side->name = ckpt_text(m->c, side->name, strlen(side->name)); /* it may be `other` */
    if (!side->name)
        return err_memory(err, "a file name", sizeof other);
    if (!(m->in->options->given & OPT_TOKENIZER))
        ckpt_note(m->c, "inferred: the vocabulary is %s (--tokenizer)", side->name);
    return 1;
}

/* --chars: the training text, or its characters in order. */
static int vocab_of_text(struct torch_model *m, mgpt_error *err)
{
    const struct ckpt_options *o = m->in->options;
    struct ckpt_side side;
    struct gguf_str *entries = NULL;
    int status = m->in->side(m->in->user, OPT_CHARS, NULL, 0, &side, err);
    if (status == 0)
        return ckpt_refuse(err, "--chars: no such file");
    if (status > 0)
        status =
            vocab_chars_from_text(m->c, &entries, side.bytes, side.name, m->c->hp.n_vocab, err);
    if (status == MGPT_OK)
        status = vocab_chars_set(m->c, entries, arr_len(entries), o->given & OPT_BOS ? o->bos : -1,
                                 m->c->hp.n_vocab, err);
    arr_free(entries);
    return status;
}

/* The characters in the checkpoint. Words of a tokenizer of the user's are no reason to refuse the
 * model. */
static int vocab_of_file(struct torch_model *m, mgpt_error *err)
{
    const struct ckpt_options *o = m->in->options;
    size_t n = arr_len(m->parts.entries);
    mgpt_error why;
    int status = vocab_chars_check(m->parts.entries, n, &why);
    if (status == MGPT_EFILE) {
        ckpt_note(m->c, "no vocabulary: the file's is left out (%s): token ids only", why.text);
        return MGPT_OK;
    }
    if (status < 0)
        return err_set(err, status, MGPT_NO_OFFSET, "%s", why.text);
    return vocab_chars_set(m->c, m->parts.entries, n,
                           o->given & OPT_BOS ? o->bos : m->parts.facts.bos, m->c->hp.n_vocab, err);
}

int torch_vocab(struct torch_model *m, const char *dataset, mgpt_error *err)
{
    const struct ckpt_options *o = m->in->options;
    struct ckpt_hparams *hp = &m->c->hp;
    struct ckpt_side side;
    if (o->given & OPT_NO_TOKENIZER) {
        ckpt_note(m->c, "no vocabulary: the model will run on token ids only");
        return MGPT_OK;
    }
    if (o->given & OPT_CHARS)
        return vocab_of_text(m, err);
    if (arr_len(m->parts.entries) && !(o->given & OPT_TOKENIZER))
        return vocab_of_file(m, err);
    int found = find_meta(m, dataset, &side, err);
    if (found < 0)
        return found;
    int status = found ? torch_vocab_pickle(m, &side, err)
                       : hf_tokenizer_read(m->c, m->in, hp->n_vocab, err);
    if (status == MGPT_OK && !m->c->vocab.model)
        ckpt_note(m->c, "nor is meta.pkl, the characters of nanoGPT (--tokenizer, or the training "
                        "text with --chars)");
    if (status < 0 || !(o->given & OPT_BOS))
        return status;
    if ((uint32_t)o->bos >= hp->n_vocab)
        return ckpt_refuse(err, "BOS id is %d, the model has %u tokens", o->bos, hp->n_vocab);
    m->c->vocab.bos = o->bos;
    return MGPT_OK;
}
