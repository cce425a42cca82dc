/* What the keys of a checkpoint say about its model: one table of spellings, one lookup for all
 * readers. See microgpt.h.
 *
 * A key is compared without its case and without what is not a letter or a digit: n_head, nHead,
 * N-HEAD and _n_head are one spelling. A word that programs use for two things ("hidden_dim",
 * "tokens") is not in the table: a wrong fact is worse than a missing one.
 */
#include "base/error.h"
#include "convert/families/microgpt.h"
#include "kernels/activations.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEY = 48 };

/* What a number next to a key is; a text is stored at text_at, 0: nowhere. */
enum fact_type { NOTHING, WHOLE, REAL, FLAG };

static const struct mg_key {
    enum mg_kind kind;
    enum fact_type type;
    size_t at, text_at;    /* in struct mg_facts */
    const char *spellings; /* between spaces */
} keys[] = {
#define SIZE(i) MG_FACT, WHOLE, offsetof(struct mg_facts, sizes[i]), 0
#define AT(type, member) MG_FACT, type, offsetof(struct mg_facts, member), 0
#define TEXT_AT(member) MG_FACT, NOTHING, 0, offsetof(struct mg_facts, member)
    {SIZE(MG_VOCAB), " vocabsize nvocab vocabularysize numvocab vocablen dvocab nvocabulary "},
    {SIZE(MG_EMBD),
     " nembd nembed nemb nembedding dmodel dembd dembed modeldim embd embeddim embdim embeddingdim "
     "embeddingsize embedsize embdsize embeddinglength hiddensize dim "},
    {SIZE(MG_LAYERS),
     " nlayer nlayers numlayer numlayers numhiddenlayers layers layercount nblock nblocks "
     "numblocks "
     "blockcount depth "},
    {SIZE(MG_CONTEXT),
     " blocksize nctx ctx ctxlen ctxsize context contextlen contextlength contextsize "
     "contextwindow maxseqlen maxseqlength maxsequencelength maxcontext seqlen sequencelen "
     "sequencelength npositions nposition maxpositionembeddings "},
    {SIZE(MG_HEADS),
     " nhead nheads numhead numheads heads headcount nattentionheads numattentionheads "
     "attentionheads nattnheads numattnheads attnheads numqueryheads nqheads attentionheadcount "},
    {SIZE(MG_KV_HEADS),
     " nkvhead nkvheads nheadkv nheadskv kvheads numkvheads numkeyvalueheads headcountkv "
     "attentionheadcountkv "},
    {SIZE(MG_HEAD_DIM), " headdim headsize headwidth dhead dimhead dimperhead attentionheaddim "},
    {MG_FACT, WHOLE, offsetof(struct mg_facts, bos), offsetof(struct mg_facts, bos_text),
     " bos bosid bostokenid bostoken bosindex bosidx idbos tokenbos "},
    {AT(REAL, eps),
     " rmseps rmsepsilon rmsnormeps rmsnormepsilon normeps normepsilon lneps layernormeps "
     "layernormepsilon layernormrmsepsilon epsnorm epsrms epsrmsnorm "},
    {AT(REAL, some_eps), " eps epsilon "},
    {AT(REAL, rope_base), " ropetheta ropebase ropefreqbase rotarybase theta "},
    {AT(REAL, softcap),
     " softcap logitsoftcap logitssoftcap finallogitsoftcapping logitsoftcapping logitcap "},
    {MG_VOCABULARY, WHOLE, offsetof(struct mg_facts, sizes[MG_VOCAB]), 0,
     " uchars chars characters vocab vocabulary vocabchars uniquechars charset charlist alphabet "
     "itos stoi itoc ctoi idtochar chartoid idtotoken tokentoid idtostr indextochar chartoindex "
     "idxtochar chartoidx ixtochar chartoix id2char char2id idx2char char2idx ix2char char2ix "
     "int2char char2int tokens "},
    {TEXT_AT(activation),
     " activation act actfn actfunc activationfn activationfunction activationtype hiddenact "
     "hiddenactivation mlpactivation mlpact ffnactivation nonlinearity nonlin "},
    {TEXT_AT(norm), " norm normtype normalization normalisation normkind normlayer "},
    {TEXT_AT(positions), " positions ropetype ropestyle ropelayout ropepairing rotary rope "},
    {AT(FLAG, embedding_norm),
     " embeddingnorm embednorm embdnorm embnorm normembedding normembeddings normafterembedding "
     "inputnorm useembeddingnorm "},
    {AT(FLAG, final_norm), " finalnorm normfinal normf outputnorm usefinalnorm normbeforehead "},
    {AT(FLAG, bias), " bias "},
    {MG_TRAINING, NOTHING, 0, 0, " beta1 beta2 betas lr learningrate weightdecay epsadam adameps "},
    {MG_CONFIG, NOTHING, 0, 0,
     " config configuration hyperparameters hyperparams hparams hp modelargs modelconfig gptconfig "
     "args meta metadata tokenizer architecture arch info header settings specialtokens "},
    {MG_WEIGHTS, NOTHING, 0, 0,
     " weights model statedict modelstatedict modelstate params parameters tensors modelweights "},
    {MG_OPTIMIZER, NOTHING, 0, 0,
     " optimizer optimiser optimizerstate optimizerstatedict optim adam adamw scheduler sampling "
     "sampler generation generationconfig adamm adamv "},
#undef SIZE
#undef AT
#undef TEXT_AT
};

/* Lower case letters and digits only; "" when too many are left. */
static void plain(const char *key, char out[MAX_KEY])
{
    size_t n = 0;
    for (; *key && n < MAX_KEY - 1; key++) {
        char c = *key >= 'A' && *key <= 'Z' ? (char)(*key + 32) : *key;
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            out[n++] = c;
    }
    out[*key ? 0 : n] = 0;
}

/* NULL: unknown. */
static const struct mg_key *key_of(const char *key)
{
    char word[MAX_KEY];
    plain(key, word);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (ckpt_is_one_of(word, keys[i].spellings))
            return &keys[i];
    return NULL;
}

enum mg_kind mg_kind_of(const char *key)
{
    const struct mg_key *k = key_of(key);
    return k ? k->kind : MG_OTHER;
}

/* ---- names of activations -------------------------------------------------------------------- */

const char *mg_activation(const char *name)
{
    static const struct {
        const char *ours, *spellings;
    } rows[] = {
        {"relu", " relu "},
        {"relu2", " relu2 relusq relusquare relusquared squaredrelu squarerelu sqrelu sqrrelu "},
        {"silu", " silu swish swiglu "},
        {"gelu_tanh", " gelutanh gelunew newgelu gelufast gelupytorchtanh geluapproximatetanh "
                      "geluapprox geluapproximate approxgelu approximategelu tanhgelu "},
        {"gelu_erf", " gelu geluerf geluexact exactgelu erfgelu gelupython geluapproximatenone "},
        {"gelu_quick", " geluquick quickgelu "},
        {"sigmoid", " sigmoid logistic "},
    };
    _Static_assert(sizeof rows / sizeof *rows == ACT_N_KINDS, "each activation has a row");
    char text[MAX_KEY], word[MAX_KEY];
    const char *dot = strrchr(name, '.'), *square = strstr(name, "\xC2\xB2"); /* U+00B2 */
    size_t n = strlen(dot ? dot + 1 : name);
    if (n + 2 > sizeof text)
        return NULL;
    memcpy(text, dot ? dot + 1 : name, n + 1);
    if (square)
        memcpy(text + n, "2", 2);
    plain(text, word);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (ckpt_is_one_of(word, rows[i].spellings))
            return rows[i].ours;
    return NULL;
}

/* ---- stating --------------------------------------------------------------------------------- */

static void state_real(struct mg_parts *m, const char *key, double number, double *to)
{
    if (!(number >= 0 && number < 1e9))
        ckpt_stop(m->c, "%.*s: out of range", CKPT_CLIP(key, strlen(key)));
    if (*to >= 0 && (*to < number || *to > number)) {
        if (!m->first_wins)
            ckpt_stop(m->c, "%.*s is stated twice, differently", CKPT_CLIP(key, strlen(key)));
        return;
    }
    *to = number;
}

static void state_whole(struct mg_parts *m, const char *key, double number, int64_t *to)
{
    if (m->first_wins && number < 0 && number >= -1) /* as Meta says that it is not stated */
        return;
    if (!(number >= 0 && number <= INT32_MAX) || number != (double)(int64_t)number)
        ckpt_stop(m->c, "%.*s: expected a whole number from 0 to %d", CKPT_CLIP(key, strlen(key)),
                  INT32_MAX);
    if (*to >= 0 && m->first_wins)
        return;
    if (*to >= 0 && *to != (int64_t)number)
        ckpt_stop(m->c, "%.*s is %llu here and %llu elsewhere", CKPT_CLIP(key, strlen(key)),
                  (unsigned long long)number, (unsigned long long)*to);
    *to = (int64_t)number;
}

/* ---- taking: 1, or 0 when nothing is stated -------------------------------------------------- */

static int take_number(struct mg_parts *m, const char *key, double v, const struct mg_key *k)
{
    void *to = (char *)&m->facts + k->at;
    int is_flag = k->type == FLAG && (v == 0 || v == 1);
    if (k->kind == MG_TRAINING)
        m->facts.trains = 1;
    if (k->kind == MG_VOCABULARY && strstr(key, "oken")) /* "tokens" may count anything */
        return 0;
    if (k->type == WHOLE)
        state_whole(m, key, v, to);
    if (k->type == REAL)
        state_real(m, key, v, to);
    if (is_flag)
        *(int *)to = (int)v;
    return is_flag || k->type == WHOLE || k->type == REAL || k->kind == MG_TRAINING;
}

static int take_text(struct mg_parts *m, const char *key, const char *text, const struct mg_key *k)
{
    const char **to = (const char **)(void *)((char *)&m->facts + k->text_at);
    if (!k->text_at)
        return 0;
    if (*to && strcmp(*to, text) != 0 && !m->first_wins)
        ckpt_stop(m->c, "%.*s is %.*s here and %.*s elsewhere", CKPT_CLIP(key, strlen(key)),
                  CKPT_CLIP(text, strlen(text)), CKPT_CLIP(*to, strlen(*to)));
    if (!*to)
        *to = ckpt_copy(m->c, text, strlen(text));
    return 1;
}

/* "4", " 1e-5", "true": text that is a number or a flag, as in the metadata of safetensors. */
static int text_number(const char *text, double *v)
{
    char *end;
    if (strcmp(text, "true") == 0 || strcmp(text, "True") == 0 || strcmp(text, "false") == 0 ||
        strcmp(text, "False") == 0) {
        *v = *text == 't' || *text == 'T';
        return 1;
    }
    *v = strtod(text, &end);
    return end != text && !*end;
}

/* A flag is a number for the keys that want one, and none for all others ("bos": true). */
int mg_take(struct mg_parts *m, const char *key, struct mg_value v)
{
    const struct mg_key *k = key_of(key);
    double number = v.number;
    if (!k)
        return 0;
    int is_number = v.kind == MG_NUMBER || (v.kind == MG_FLAG && k->type == FLAG);
    if (v.kind == MG_TEXT && k->kind == MG_FACT)
        is_number = text_number(v.text, &number);
    if (is_number)
        return take_number(m, key, number, k);
    return v.kind == MG_TEXT ? take_text(m, key, v.text, k) : 0;
}
