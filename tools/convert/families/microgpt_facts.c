/* What the keys of a checkpoint say about its model: one table of spellings, one lookup for all readers.
 * See microgpt.h.
 *
 * A key is compared without its case and without what is not a letter or a digit: n_head, nHead,
 * N-HEAD and _n_head are one spelling. A word that programs use for two things ("hidden_dim", "tokens")
 * is not in the table: a wrong fact is worse than a missing one.
 */
#include "base/error.h"
#include "convert/families/microgpt.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_KEY = 48 };

static const struct {
    enum mg_kind kind;
    enum mg_size size;
    const char *spellings; /* between spaces */
} keys[] = {
    {MG_SIZE, MG_VOCAB, " vocabsize nvocab vocabularysize numvocab vocablen dvocab nvocabulary "},
    {MG_SIZE, MG_EMBD,
     " nembd nembed nemb nembedding dmodel dembd dembed modeldim embd embeddim embdim embeddingdim "
     "embeddingsize embedsize embdsize embeddinglength hiddensize dim "},
    {MG_SIZE, MG_LAYERS,
     " nlayer nlayers numlayer numlayers numhiddenlayers layers layercount nblock nblocks "
     "numblocks "
     "blockcount depth "},
    {MG_SIZE, MG_CONTEXT,
     " blocksize nctx ctx ctxlen ctxsize context contextlen contextlength contextsize "
     "contextwindow maxseqlen maxseqlength maxsequencelength maxcontext seqlen sequencelen "
     "sequencelength npositions nposition maxpositionembeddings "},
    {MG_SIZE, MG_HEADS,
     " nhead nheads numhead numheads heads headcount nattentionheads numattentionheads "
     "attentionheads nattnheads numattnheads attnheads numqueryheads nqheads attentionheadcount "},
    {MG_SIZE, MG_KV_HEADS,
     " nkvhead nkvheads nheadkv nheadskv kvheads numkvheads numkeyvalueheads headcountkv "
     "attentionheadcountkv "},
    {MG_SIZE, MG_HEAD_DIM,
     " headdim headsize headwidth dhead dimhead dimperhead attentionheaddim "},
    {MG_BOS, 0, " bos bosid bostokenid bostoken bosindex bosidx idbos tokenbos "},
    {MG_EPS, 0,
     " rmseps rmsepsilon rmsnormeps rmsnormepsilon normeps normepsilon lneps layernormeps "
     "layernormepsilon layernormrmsepsilon epsnorm epsrms epsrmsnorm "},
    {MG_SOME_EPS, 0, " eps epsilon "},
    {MG_ROPE_BASE, 0, " ropetheta ropebase ropefreqbase rotarybase theta "},
    {MG_SOFTCAP, 0,
     " softcap logitsoftcap logitssoftcap finallogitsoftcapping logitsoftcapping logitcap "},
    {MG_VOCABULARY, 0,
     " uchars chars characters vocab vocabulary vocabchars uniquechars charset charlist alphabet "
     "itos stoi itoc ctoi idtochar chartoid idtotoken tokentoid idtostr indextochar chartoindex "
     "idxtochar chartoidx ixtochar chartoix id2char char2id idx2char char2idx ix2char char2ix "
     "int2char char2int tokens "},
    {MG_ACTIVATION, 0,
     " activation act actfn actfunc activationfn activationfunction activationtype hiddenact "
     "hiddenactivation mlpactivation mlpact ffnactivation nonlinearity nonlin "},
    {MG_NORM, 0, " norm normtype normalization normalisation normkind normlayer "},
    {MG_POSITIONS, 0, " positions ropetype ropestyle ropelayout ropepairing rotary rope "},
    {MG_SAYS_EMBEDDING_NORM, 0,
     " embeddingnorm embednorm embdnorm embnorm normembedding normembeddings normafterembedding "
     "inputnorm useembeddingnorm "},
    {MG_SAYS_FINAL_NORM, 0, " finalnorm normfinal normf outputnorm usefinalnorm normbeforehead "},
    {MG_TRAINING, 0, " beta1 beta2 betas lr learningrate weightdecay epsadam adameps "},
    {MG_CONFIG, 0,
     " config configuration hyperparameters hyperparams hparams hp modelargs modelconfig gptconfig "
     "args meta metadata tokenizer architecture arch info header settings specialtokens "},
    {MG_WEIGHTS, 0,
     " weights model statedict modelstatedict modelstate params parameters tensors modelweights "},
    {MG_OPTIMIZER, 0,
     " optimizer optimiser optimizerstate optimizerstatedict optim adam adamw scheduler sampling "
     "sampler generation generationconfig adamm adamv "},
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

enum mg_kind mg_kind_of(const char *key, enum mg_size *size)
{
    char word[MAX_KEY];
    plain(key, word);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (ckpt_is_one_of(word, keys[i].spellings)) {
            *size = keys[i].size;
            return keys[i].kind;
        }
    return MG_OTHER;
}

/* ---- names of activations ---------------------------------------------------------------------- */

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
    };
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

/* ---- stating ----------------------------------------------------------------------------------- */

static int state_real(struct mg_parts *m, const char *key, double number, double *to)
{
    if (!(number >= 0 && number < 1e9))
        return ckpt_refuse(m->err, "%.*s: out of range", CKPT_CLIP(key, strlen(key)));
    if (*to >= 0 && (*to < number || *to > number))
        return m->first_wins ? MGPT_OK
                             : ckpt_refuse(m->err, "%.*s is stated twice, differently",
                                           CKPT_CLIP(key, strlen(key)));
    *to = number;
    return MGPT_OK;
}

int mg_state(struct mg_parts *m, const char *key, double number, enum mg_kind kind,
             enum mg_size size)
{
    int64_t *to = kind == MG_BOS ? &m->facts.bos : &m->facts.sizes[size];
    if (m->first_wins && number < 0 && number >= -1) /* as Meta says that it is not stated */
        return MGPT_OK;
    if (!(number >= 0 && number <= INT32_MAX) || number != (double)(int64_t)number)
        return ckpt_refuse(m->err, "%.*s: expected a whole number from 0 to %d",
                           CKPT_CLIP(key, strlen(key)), INT32_MAX);
    if (*to >= 0 && m->first_wins)
        return MGPT_OK;
    if (*to >= 0 && *to != (int64_t)number)
        return ckpt_refuse(m->err, "%.*s is %llu here and %llu elsewhere",
                           CKPT_CLIP(key, strlen(key)), (unsigned long long)number,
                           (unsigned long long)*to);
    *to = (int64_t)number;
    return MGPT_OK;
}

/* ---- taking ------------------------------------------------------------------------------------ */

static int microgpt_facts_take_number(struct mg_parts *m, const char *key, double v,
                                      enum mg_kind kind, enum mg_size size)
{
    struct mg_facts *f = &m->facts;
    int is_flag =
        (kind == MG_SAYS_EMBEDDING_NORM || kind == MG_SAYS_FINAL_NORM) && (v == 0 || v == 1);
    switch (kind) {
    case MG_VOCABULARY: /* "vocab": 27; but "tokens" may count anything */
        return strstr(key, "oken") ? 1 : mg_state(m, key, v, MG_SIZE, MG_VOCAB);
    case MG_SIZE:
    case MG_BOS:
        return mg_state(m, key, v, kind, size);
    case MG_EPS:
        return state_real(m, key, v, &f->eps);
    case MG_SOME_EPS:
        return state_real(m, key, v, &f->some_eps);
    case MG_ROPE_BASE:
        return state_real(m, key, v, &f->rope_base);
    case MG_SOFTCAP:
        return state_real(m, key, v, &f->softcap);
    case MG_TRAINING:
        f->trains = 1;
        return MGPT_OK;
    default:
        if (is_flag)
            *(kind == MG_SAYS_FINAL_NORM ? &f->final_norm : &f->embedding_norm) = (int)v;
        return is_flag ? MGPT_OK : 1;
    }
}

static int take_text(struct mg_parts *m, const char *key, const char *text, enum mg_kind kind)
{
    struct mg_facts *f = &m->facts;
    const char **to = kind == MG_ACTIVATION  ? &f->activation
                      : kind == MG_NORM      ? &f->norm
                      : kind == MG_POSITIONS ? &f->positions
                      : kind == MG_BOS       ? &f->bos_text
                                             : NULL;
    if (!to)
        return 1;
    if (*to && strcmp(*to, text) != 0 && !m->first_wins)
        return ckpt_refuse(m->err, "%.*s is %.*s here and %.*s elsewhere",
                           CKPT_CLIP(key, strlen(key)), CKPT_CLIP(text, strlen(text)),
                           CKPT_CLIP(*to, strlen(*to)));
    if (!*to && !(*to = ckpt_text(m->c, text, strlen(text))))
        return err_memory(m->err, "a name", strlen(text));
    return MGPT_OK;
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

/* A flag is a number for the keys that want one, and no number for all others ("bos": true). */
static int wants_flag(enum mg_kind kind)
{
    return kind == MG_SAYS_EMBEDDING_NORM || kind == MG_SAYS_FINAL_NORM;
}

int mg_take(struct mg_parts *m, const char *key, struct mg_value v)
{
    enum mg_size size = MG_VOCAB;
    enum mg_kind kind = mg_kind_of(key, &size);
    double number = v.number;
    int is_number = v.kind == MG_NUMBER || (v.kind == MG_FLAG && wants_flag(kind)), status = 1;
    if (v.kind == MG_TEXT && kind != MG_VOCABULARY && kind != MG_OTHER && kind != MG_TRAINING)
        is_number = text_number(v.text, &number);
    if (is_number)
        status = microgpt_facts_take_number(m, key, number, kind, size);
    else if (v.kind == MG_TEXT)
        status = take_text(m, key, v.text, kind);
    return status == MGPT_OK ? 1 : status < 0 ? status : 0;
}
