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
#include "convert/families/tree.h"
#include "convert/vocab/hf_tokenizer.h"
#include "convert/vocab/tiktoken.h"
#include "convert/vocab/vocab_chars.h"

#include <stdio.h>
#include <string.h>

/* ---- characters ------------------------------------------------------------------------------ */

/* The id of BOS: --bos, or `stated`. */
static void set_chars(struct torch_model *m, const struct gguf_str *entries, size_t n,
                      int64_t stated)
{
    const struct ckpt_options *o = m->in->options;
    vocab_chars_set(m->c, entries, n, o->given & OPT_BOS ? o->bos : stated, m->c->hp.n_vocab);
}

static void chars_of_meta(struct torch_model *m, const struct pickle *p, const char *name)
{
    struct mg_parts *meta = mg_parts_new(m->c, m->in);
    struct tree_file file;
    uint64_t left;
    struct tree root = tree_of_pickle(&file, &left, p, p->root, p->size);
    struct tree itos = tree_get(root, "itos");
    tree_vocabulary(meta, name, itos.file ? itos : tree_get(root, "stoi"));
    set_chars(m, meta->entries, arr_len(meta->entries), -1);
}

/* ---- tiktoken -------------------------------------------------------------------------------- */

/* {bytes or str: int}: their number. */
static size_t ranks_of(struct checkpoint *c, const struct pickle *p, pickle_id dict,
                       struct tiktoken_token **tokens, const char *name)
{
    size_t n = 0;
    *tokens = ckpt_temp(c, pickle_at(p, dict).n / 2 + 1, sizeof **tokens);
    for (struct pickle_iter i = pickle_items(p, dict); pickle_next(&i); n++) {
        struct pickle_node key = pickle_at(p, i.key);
        (*tokens)[n].text = (struct gguf_str){key.as.text, key.n};
        if ((key.kind != PICKLE_BYTES && key.kind != PICKLE_TEXT) ||
            !pickle_int(p, i.value, &(*tokens)[n].rank))
            ckpt_stop(c, "tokenizer %s: a token that is not bytes with a rank", name);
    }
    return n;
}

/* The text if it is a special token, else NULL. */
static const char *special_of(const struct tiktoken *t, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < t->n_specials; i++)
        if (t->specials[i].text.n == n && memcmp(t->specials[i].text.p, text, n) == 0)
            return text;
    return NULL;
}

static void tiktoken_of(struct checkpoint *c, const struct pickle *p, const char *name,
                        uint64_t n_vocab)
{
    struct tiktoken_token *ranks, *specials;
    struct pickle_node pattern = pickle_at(p, pickle_get(p, p->root, "pat_str"));
    if (pattern.kind != PICKLE_TEXT)
        ckpt_stop(c, "tokenizer %s: not a tiktoken Encoding that holds its own tables", name);
    struct tiktoken t = {.pattern = {pattern.as.text, pattern.n}};
    t.n_ranks = ranks_of(c, p, pickle_get(p, p->root, "mergeable_ranks"), &ranks, name);
    t.n_specials = ranks_of(c, p, pickle_get(p, p->root, "special_tokens"), &specials, name);
    t.ranks = ranks;
    t.specials = specials;
    t.bos = special_of(&t, "<|bos|>");
    t.eos = special_of(&t, "<|assistant_end|>");
    tiktoken_read(c, &t, "the tokenizer", n_vocab);
}

/* ---- finding it ------------------------------------------------------------------------------ */

void torch_vocab_pickle(struct torch_model *m, const struct ckpt_side *side)
{
    char who[80];
    snprintf(who, sizeof who, "side file %.60s", side->name);
    ckpt_within(m->c, who);
    const struct pickle *p = pickle_owned(m->c, side->bytes);
    ckpt_within(m->c, NULL);
    if (pickle_at(p, p->root).kind == PICKLE_OBJECT)
        tiktoken_of(m->c, p, side->name, m->c->hp.n_vocab);
    else
        chars_of_meta(m, p, side->name);
}

/* Whether meta.pkl is there, or the file that --tokenizer names is a pickle. */
static int find_meta(struct torch_model *m, const char *dataset, struct ckpt_side *side)
{
    char other[128] = "meta.pkl";
    if (dataset)
        snprintf(other, sizeof other, "../data/%s/meta.pkl", dataset);
    const char *const candidates[] = {"meta.pkl", other};
    if (!ckpt_side(m->c, m->in, OPT_TOKENIZER, candidates, dataset ? 2 : 1, side) ||
        !pickle_sniff(side->bytes))
        return 0;
    side->name = ckpt_copy(m->c, side->name, strlen(side->name)); /* it may be `other` */
    if (!(m->in->options->given & OPT_TOKENIZER))
        ckpt_note(m->c, "inferred: the vocabulary is %s (--tokenizer)", side->name);
    return 1;
}

/* The characters in the checkpoint. Words of a tokenizer of the user's are no reason to refuse the
 * model. */
static void vocab_of_file(struct torch_model *m)
{
    size_t n = arr_len(m->parts->entries);
    mgpt_error why;
    int status = vocab_chars_check(m->parts->entries, n, &why);
    if (status == MGPT_EFILE) {
        ckpt_note(m->c, "no vocabulary: the file's is left out (%s): token ids only", why.text);
        return;
    }
    if (status < 0)
        ckpt_leave(m->c, err_set(m->c->err, status, MGPT_NO_OFFSET, "%s", why.text));
    set_chars(m, m->parts->entries, n, m->parts->facts.bos);
}

void torch_vocab(struct torch_model *m, const char *dataset)
{
    const struct ckpt_options *o = m->in->options;
    uint32_t n_vocab = m->c->hp.n_vocab;
    struct ckpt_side side;
    int is_left_out = (o->given & OPT_NO_TOKENIZER) != 0;
    if (!is_left_out && o->given & OPT_CHARS) {
        vocab_chars_from_option(m->c, m->in, o->given & OPT_BOS ? o->bos : -1);
        return;
    }
    if (!is_left_out && arr_len(m->parts->entries) && !(o->given & OPT_TOKENIZER)) {
        vocab_of_file(m);
        return;
    }
    if (!is_left_out && find_meta(m, dataset, &side))
        torch_vocab_pickle(m, &side);
    else
        hf_tokenizer_read(m->c, m->in, n_vocab);
    if (is_left_out)
        return;
    if (!m->c->vocab.model)
        ckpt_note(m->c, "nor is meta.pkl, the characters of nanoGPT (--tokenizer, or the training "
                        "text with --chars)");
    if (!(o->given & OPT_BOS))
        return;
    if ((uint32_t)o->bos >= n_vocab)
        ckpt_stop(m->c, "BOS id is %d, the model has %u tokens", o->bos, n_vocab);
    m->c->vocab.bos = o->bos;
}
