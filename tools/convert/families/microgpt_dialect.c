/* microgpt's vocabulary and dialect: stated, given or inferred, and said. See microgpt_impl.h. */
#include "convert/families/microgpt_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "convert/vocab/vocab_chars.h"
#include "kernels/activations.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_EPS 1e-5

/* ---- vocabulary ------------------------------------------------------------------------------ */

static void set_entries(struct mg_build *b, const struct gguf_str *entries, size_t n, int64_t bos)
{
    vocab_chars_set(b->c, entries, n, bos, b->c->hp.n_vocab);
}

static void vocab_a_to_z(struct mg_build *b, int64_t bos)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    struct gguf_str entries[26];
    for (size_t i = 0; i < 26; i++)
        entries[i] = (struct gguf_str){letters + i, 1};
    ckpt_note(b->c,
              "inferred: vocabulary = a to z (none in the file, 27 tokens; set it with --chars)");
    set_entries(b, entries, 26, bos);
}

/* --bos, the id that is stated, or the entry whose text is; -1: not stated. */
static int64_t stated_bos(const struct mg_build *b)
{
    const struct mg_facts *f = b->facts;
    if (b->in->options->given & OPT_BOS)
        return b->in->options->bos;
    for (size_t i = 0; f->bos < 0 && f->bos_text && i < f->n_entries; i++)
        if (f->entries[i].n == strlen(f->bos_text) &&
            memcmp(f->entries[i].p, f->bos_text, f->entries[i].n) == 0)
            return (int64_t)i;
    return f->bos;
}

void mg_settle_vocabulary(struct mg_build *b)
{
    int64_t bos = stated_bos(b);
    if (b->in->options->given & OPT_CHARS)
        vocab_chars_from_option(b->c, b->in, bos);
    else if (b->facts->entries)
        set_entries(b, b->facts->entries, b->facts->n_entries, bos);
    else if (b->c->hp.n_vocab == 27)
        vocab_a_to_z(b, bos);
    else
        ckpt_note(b->c, "no vocabulary in the file: the model will run on token ids only (give it "
                        "the training text or the characters with --chars)");
}

/* ---- activation ------------------------------------------------------------------------------ */

/* What a microgpt of these matrices and this vocabulary has, and why; NULL: more than one is
 * possible. */
static const char *usual_activation(const struct mg_build *b, const char **why)
{
    const struct ckpt_vocab *v = &b->c->vocab;
    int bos_first = v->model ? v->bos == 0 && v->types[0] == TOKEN_CONTROL : b->facts->bos == 0;
    *why = bos_first ? "BOS is token 0, as in the first version of microgpt" : "the program's";
    if (mg_is_fork(b) || (bos_first && !mg_is_published(b)))
        return NULL;
    return bos_first ? "relu2" : "relu";
}

const char *mg_stated_activation(struct checkpoint *c, const struct ckpt_input *in,
                                 const struct mg_facts *facts, const char **said)
{
    int is_option = (in->options->given & OPT_ACTIVATION) != 0; /* exactly one of the names */
    *said = is_option ? in->options->activation : facts->activation;
    const char *name = *said ? mg_activation(*said) : NULL;
    if (*said && (!name || (is_option && strcmp(*said, name) != 0)))
        ckpt_leave(c, err_set(c->err, is_option ? MGPT_EARG : MGPT_EFILE, MGPT_NO_OFFSET,
                              "activation %.*s: expected one of" ACTIVATION_NAMES,
                              CKPT_CLIP(*said, strlen(*said))));
    return name;
}

static void settle_activation(struct mg_build *b)
{
    struct ckpt_hparams *hp = &b->c->hp;
    const char *said, *why, *usual = usual_activation(b, &why);
    const char *stated = mg_stated_activation(b->c, b->in, b->facts, &said);
    hp->activation = stated ? stated : usual;
    if (!hp->activation && hp->n_layer > 0)
        mg_want(b, mg_has(b, MG_GATE) ? "--activation NAME (Llama: silu)"
                                      : "--activation NAME (relu, relu2, ...)");
    if (!hp->activation)
        return;
    if (!said)
        ckpt_note(b->c, "inferred: activation = %s (%s; set it with --activation)", usual, why);
    if (said && strlen(said) >= 4 && strcasecmp(said + strlen(said) - 4, "gelu") == 0)
        ckpt_note(b->c, "inferred: activation %.*s is the exact one, gelu_erf (--activation)",
                  CKPT_CLIP(said, strlen(said)));
    if (strcmp(hp->arch, "llama") == 0 && strcmp(hp->activation, "silu") == 0)
        hp->activation = NULL; /* that is what llama has */
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* "eps" alone is a norm's, unless the file also holds settings of an optimizer, which has one,
 * too. */
static void settle_eps(struct mg_build *b)
{
    const struct ckpt_options *o = b->in->options;
    const struct mg_facts *f = b->facts;
    double eps = f->eps >= 0 || f->trains ? f->eps : f->some_eps;
    int is_default = fabs(f->some_eps - DEFAULT_EPS) < 1e-12;
    if (o->given & OPT_EPS)
        eps = o->eps;
    else if (f->eps < 0 && f->trains && f->some_eps >= 0 && is_default)
        eps = DEFAULT_EPS;
    else if (eps < 0 && (mg_is_fork(b) || (f->trains && f->some_eps >= 0)))
        mg_want(b, f->some_eps >= 0 ? "--eps X (\"eps\" may be the optimizer's)" : "--eps X");
    else if (eps < 0)
        ckpt_note(b->c, "inferred: eps = %g (the program's; set it with --eps)", DEFAULT_EPS);
    b->c->hp.norm_eps = (float)(eps >= 0 ? eps : DEFAULT_EPS);
}

/* "rms", "RMSNorm", "rms_norm". Another norm, and a cap on the logits, would be another model. */
static void check_others(struct mg_build *b)
{
    const struct mg_facts *f = b->facts;
    if (f->norm && !strstr(f->norm, "rms") && !strstr(f->norm, "RMS") && !strstr(f->norm, "Rms"))
        ckpt_stop(b->c, "the norm is stated as %.*s: a microgpt's is RMSNorm",
                  CKPT_CLIP(f->norm, strlen(f->norm)));
    if (f->softcap > 0)
        ckpt_stop(b->c, "softcap is stated: the logits of a microgpt have no limit");
}

/* Where the other norms have gains, no gain for the embedding norm means that there is none. */
static void settle_norms(struct mg_build *b)
{
    const struct ckpt_options *o = b->in->options;
    struct ckpt_hparams *hp = &b->c->hp;
    int gains = mg_has(b, MG_ATTN_NORM);
    hp->embedding_norm = !gains;
    hp->final_norm =
        mg_has(b, MG_FINAL_NORM) || (o->given & OPT_FINAL_NORM) != 0 || b->facts->final_norm > 0;
    if (mg_has(b, MG_FINAL_NORM) && b->facts->final_norm == 0)
        ckpt_stop(b->c, "final_norm is stated as false, the file has a gain for it");
    if (o->given & (OPT_EMBEDDING_NORM | OPT_NO_EMBEDDING_NORM))
        hp->embedding_norm = (o->given & OPT_EMBEDDING_NORM) != 0;
    else if (b->facts->embedding_norm >= 0)
        hp->embedding_norm = b->facts->embedding_norm;
    else if (gains)
        ckpt_note(b->c, "inferred: embedding_norm = false (the other norms have gains; "
                        "--embedding-norm)");
    else
        ckpt_note(b->c, "inferred: embedding_norm = true (default; --no-embedding-norm)");
    if (!hp->final_norm && b->facts->final_norm < 0)
        ckpt_note(b->c, "inferred: final_norm = false (default; --final-norm)");
}

/* Architecture "llama" has no norm after the embedding. */
static void settle_llama(struct mg_build *b)
{
    struct ckpt_hparams *hp = &b->c->hp;
    hp->n_rot = hp->n_head ? hp->n_embd / hp->n_head : 0;
    hp->final_norm = 1;
    if (b->facts->embedding_norm > 0)
        ckpt_stop(b->c, "embedding_norm is stated as true: not with rotated q and k (rope)");
    if (b->in->options->given & OPT_EMBEDDING_NORM)
        ckpt_leave(b->c, err_set(b->c->err, MGPT_EARG, MGPT_NO_OFFSET,
                                 "--embedding-norm: not with rotated q and k (rope)"));
}

void mg_settle_dialect(struct mg_build *b)
{
    check_others(b);
    settle_activation(b);
    if (strcmp(b->c->hp.arch, "llama") == 0)
        settle_llama(b);
    else
        settle_norms(b);
    settle_eps(b);
}
