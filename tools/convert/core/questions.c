/* The tables of questions and of programs. See questions.h. */
#include "convert/core/questions.h"

#include "base/error.h"
#include "common/cli.h"
#include "common/text.h"
#include "kernels/activations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The answers of a question: the list and its length. */
#define ANSWERS(...) (const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__}))
#define A_NUMBER NULL, 0

/* clang-format off */
const struct ckpt_question ckpt_questions[] = {
    [FACT_HEADS] = {OPT_HEADS, "the number of attention heads",
        "n_head, num_heads or n_embd / head_size", A_NUMBER},
    [FACT_ACTIVATION] = {OPT_ACTIVATION, "the activation of the MLP",
        "nn.ReLU() is relu, nn.GELU() and F.gelu(x) gelu_erf, GELU with approximate='tanh' gelu_tanh, nn.SiLU() silu",
        ANSWERS(ACTIVATIONS(ACTIVATION_NAME))},
    [FACT_NORMS] = {OPT_NORMS, "the order of the norms",
        "x = x + attn(ln1(x)) is --pre-norm, x = ln1(x + attn(x)) is --post-norm, as "
        "nn.TransformerEncoderLayer has it by default; other orders do not run",
        ANSWERS("pre", "post")},
    [FACT_QK_SCALE] = {OPT_QK_SCALE, "what the scores of attention are divided by",
        "k.shape[-1]**-0.5 and head_size**-0.5 are head, C**-0.5 with B, T, C = x.shape is embd: the root of n_embd",
        ANSWERS("head", "embd")},
    [FACT_MASK] = {OPT_CAUSAL, "whether attention is causal",
        "nn.MultiheadAttention and nn.TransformerEncoderLayer mask only what attn_mask or mask says; a model that was "
        "trained without it is no GPT",
        ANSWERS("causal")},
    [FACT_NORM] = {OPT_NORM, "the kind of the norms, which have no biases",
        "nn.LayerNorm(n, bias=False) is layer; nn.RMSNorm, or a class without a mean, is rms",
        ANSWERS("layer", "rms")},
    [FACT_EPS] = {OPT_EPS, "the epsilon of RMSNorm",
        "nn.RMSNorm(n) has 1.1920929e-07, Llama's class 1e-5 or 1e-6", A_NUMBER},
    [FACT_POSITIONS] = {OPT_POSITIONS, "the positions, of which the file has no table",
        "half rotates q and k as rotate_half, adjacent as complex numbers; sinusoidal adds sines and cosines in turn; "
        "none adds nothing",
        ANSWERS("half", "adjacent", "sinusoidal", "none")},
    [FACT_ROPE] = {OPT_ROPE, "the base of the rotation of half and adjacent", "mostly 10000", A_NUMBER},
    [FACT_EMBEDDING] = {OPT_EMBEDDING_SCALE, "the factor of the token embedding",
        "with sinusoidal positions: embedding(x) * math.sqrt(d_model) is root, embedding(x) alone is none",
        ANSWERS("none", "root")},
    [FACT_QKV] = {OPT_QKV, "the order of the rows in the matrix of q, k and v",
        "split or chunk(3) before heads are made is blocks; view(B, T, n_head, 3 * head_dim) and chunk after it is heads; "
        "other orders do not run",
        ANSWERS("blocks", "heads")},
    [FACT_BARE] = {OPT_BARE, "the layout of matrices that are an nn.Parameter",
        "x @ self.W is in-out, F.linear(x, self.W) out-in", ANSWERS("out-in", "in-out")},
    [FACT_GATE] = {OPT_GATE, "which of the two first matrices of the MLP is its gate",
        "in the order of their names: silu(w1(x)) * w2(x) is first", ANSWERS("first", "second")},
};
/* clang-format on */
_Static_assert(sizeof ckpt_questions / sizeof *ckpt_questions == CKPT_N_FACTS, "a row each");

/* ---- programs -------------------------------------------------------------------------------- */

static const struct program {
    const char *name, *what;
    const char *has[CKPT_N_FACTS];
} programs[] = {
#define PROGRAM(n, text, act, order, by)                                                           \
    {                                                                                              \
        n, text,                                                                                   \
        {                                                                                          \
            [FACT_ACTIVATION] = act, [FACT_NORMS] = order, [FACT_QK_SCALE] = by,                   \
            [FACT_MASK] = "causal", [FACT_NORM] = "layer", [FACT_QKV] = "blocks"                   \
        }                                                                                          \
    }
    PROGRAM("ng-video-lecture", "Karpathy's lecture, gpt.py", "relu", "pre", "head"),
    PROGRAM("ng-video-lecture-2022", "the same before January 2023", "relu", "pre", "embd"),
    PROGRAM("freecodecamp", "Create a Large Language Model from Scratch", "relu", "post", "head"),
    PROGRAM("nanogpt", "nanoGPT since May 2023", "gelu_erf", "pre", "head"),
    PROGRAM("nanogpt-2022", "nanoGPT before, and build-nanogpt", "gelu_tanh", "pre", "head"),
    PROGRAM("mingpt", "minGPT since 2022, makemore", "gelu_tanh", "pre", "head"),
    PROGRAM("mingpt-2020", "minGPT of 2020", "gelu_erf", "pre", "head"),
    PROGRAM("llms-from-scratch", "Raschka's book", "gelu_tanh", "pre", "head"),
    PROGRAM("gpt1", "GPT of 2018", "gelu_tanh", "post", "head"),
    PROGRAM("encoder-layer", "nn.TransformerEncoderLayer and a causal mask", "relu", "post",
            "head"),
#undef PROGRAM
    {"llama",
     "Llama 2 in Hugging Face's order",
     {[FACT_ACTIVATION] = "silu",
      [FACT_NORMS] = "pre",
      [FACT_QK_SCALE] = "head",
      [FACT_MASK] = "causal",
      [FACT_NORM] = "rms",
      [FACT_EPS] = "1e-5",
      [FACT_POSITIONS] = "half",
      [FACT_ROPE] = "10000",
      [FACT_EMBEDDING] = "none",
      [FACT_QKV] = "blocks"}},
};

static const struct program *find_program(const char *name)
{
    for (size_t i = 0; name && i < COUNT(programs); i++)
        if (strcmp(programs[i].name, name) == 0)
            return &programs[i];
    return NULL;
}

const char *ckpt_program_name(size_t i)
{
    return i < COUNT(programs) ? programs[i].name : NULL;
}

const char *ckpt_program_has(const char *program, enum ckpt_fact fact)
{
    const struct program *p = find_program(program);
    return p ? p->has[fact] : NULL;
}

/* "a, b, c": the names of all programs. */
static void list_programs(char *to, size_t cap)
{
    size_t n = 0;
    to[0] = 0;
    for (size_t i = 0; i < COUNT(programs) && n < cap; i++)
        n += (size_t)snprintf(to + n, cap - n, "%s%s", i ? ", " : "", programs[i].name);
}

void ckpt_check_assume(struct checkpoint *c, const struct ckpt_options *o)
{
    char names[300];
    if (!(o->given & OPT_ASSUME) || find_program(o->assume))
        return;
    list_programs(names, sizeof names);
    ckpt_stop_option(c, "--assume: expected %s", names);
}

void ckpt_print_programs(void)
{
    puts("\nprograms of --assume, and what each answers:");
    for (size_t i = 0; i < COUNT(programs); i++) {
        const char *const *has = programs[i].has;
        printf("  %-22s%s: %s, %s-norm, by %s\n", programs[i].name, programs[i].what,
               has[FACT_ACTIVATION], has[FACT_NORMS], has[FACT_QK_SCALE]);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The member of *o that holds the answer as a text; NULL: a number's or a flag's. */
static const char **answer_at(struct ckpt_options *o, enum ckpt_fact fact)
{
    const struct ckpt_option_row *row = ckpt_option_row(ckpt_questions[fact].option);
    if (fact == FACT_NORMS)
        return &o->norms;
    return row->kind == CKPT_TEXT || row->kind == CKPT_CHOICE ? ckpt_option_field(row, o) : NULL;
}

const char *ckpt_given(const struct ckpt_options *o, enum ckpt_fact fact)
{
    struct ckpt_options copy = *o;
    const char **at = answer_at(&copy, fact);
    if (!(o->given & ckpt_questions[fact].option))
        return NULL;
    return at ? *at : "";
}

/* The value of the question's list that equals the text, a constant; NULL: none does. */
static const char *listed_value(const struct ckpt_question *q, const char *text)
{
    for (size_t i = 0; i < q->n_values; i++)
        if (strcmp(q->values[i], text) == 0)
            return q->values[i];
    return NULL;
}

/* Stores a number above 0 in the row's field; 0: it is out of the row's range. */
static int give_number(struct ckpt_options *o, const struct ckpt_option_row *row, double number)
{
    void *field = ckpt_option_field(row, o);
    if (!(number > 0 && number >= row->least && number <= row->most))
        return 0;
    if (row->kind == CKPT_REAL) {
        *(double *)field = number;
        return 1;
    }
    *(int32_t *)field = (int32_t)number;
    return number == (double)*(int32_t *)field;
}

int ckpt_give(struct ckpt_options *o, enum ckpt_fact fact, const char *text)
{
    const struct ckpt_question *q = &ckpt_questions[fact];
    const char **at = answer_at(o, fact);
    char *end;
    double number = strtod(text, &end);
    const char *value = listed_value(q, text);
    if (q->n_values ? !value : end == text || *end)
        return 0;
    if (!q->n_values && !give_number(o, ckpt_option_row(q->option), number))
        return 0;
    if (at)
        *at = value;
    o->given |= q->option;
    return 1;
}

const char *ckpt_assumed(struct checkpoint *c, const struct ckpt_options *o, enum ckpt_fact fact)
{
    const char *has = o->given & OPT_ASSUME ? ckpt_program_has(o->assume, fact) : NULL;
    if (has)
        ckpt_note(c, "assumed: %s: %s (--assume %s)", ckpt_questions[fact].what, has, o->assume);
    return has;
}

/* ---- open questions -------------------------------------------------------------------------- */

void ckpt_ask(struct checkpoint *c, enum ckpt_fact fact)
{
    c->open |= 1U << fact;
}

/* MGPT_EFILE naming the options of all open facts; MGPT_OK when none is open. */
static int questions_error(const struct checkpoint *c, mgpt_error *err)
{
    char list[300];
    size_t n = 0;
    if (c->open == 1U << FACT_HEADS)
        return ckpt_refuse(
            err, "the number of heads is not in the file (n_embd is %u): set it with --heads",
            c->hp.n_embd);
    for (int i = 0; i < CKPT_N_FACTS; i++)
        if (c->open >> i & 1)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "",
                                  i == FACT_NORMS ? "--pre-norm or --post-norm"
                                                  : ckpt_option_name(ckpt_questions[i].option));
    return n ? ckpt_refuse(err, "not in the file: set %s (--ask asks)", list) : MGPT_OK;
}

void ckpt_answered(struct checkpoint *c)
{
    ckpt_must(c, questions_error(c, c->err));
}

int ckpt_is_asking(const struct checkpoint *c, const mgpt_error *err)
{
    mgpt_error e;
    return c->open && questions_error(c, &e) < 0 && strcmp(e.text, err->text) == 0;
}

const char *ckpt_answer_option(enum ckpt_fact fact, const char *answer, char text[CKPT_ANSWER])
{
    const struct ckpt_option_row *row = ckpt_option_row(ckpt_questions[fact].option);
    if (fact == FACT_NORMS)
        text_format(text, CKPT_ANSWER, "--%s-norm", answer);
    else if (row->kind == CKPT_FLAG)
        text_format(text, CKPT_ANSWER, "%s", row->name);
    else
        text_format(text, CKPT_ANSWER, "%s %s", row->name, answer);
    return text;
}

/* "--qk-scale embd (ng-video-lecture-2022)": an answer, and up to three programs that have it. */
static size_t put_answer(char *to, size_t cap, enum ckpt_fact fact, size_t i)
{
    const struct ckpt_question *q = &ckpt_questions[fact];
    char option[CKPT_ANSWER];
    size_t users = 0, n = (size_t)snprintf(to, cap, "%s%s", i ? ", " : "",
                                           ckpt_answer_option(fact, q->values[i], option));
    for (size_t k = 0; k < COUNT(programs) && users < 3 && n < cap; k++) {
        const char *has = programs[k].has[fact];
        if (has && strcmp(has, q->values[i]) == 0)
            n += (size_t)snprintf(to + n, cap - n, "%s%s", users++ ? ", " : " (", programs[k].name);
    }
    if (users && n < cap)
        n += (size_t)snprintf(to + n, cap - n, ")");
    return n;
}

void ckpt_print_questions(const struct checkpoint *c)
{
    char text[400];
    if (c->open_also)
        cli_note("  and %s; --no-tokenizer goes on without a vocabulary", c->open_also);
    if (c->open == 1U << FACT_HEADS)
        return; /* the error says all */
    for (int i = 0; i < CKPT_N_FACTS; i++) {
        const struct ckpt_question *q = &ckpt_questions[i];
        size_t n = 0;
        if (!(c->open >> i & 1))
            continue;
        if (!q->n_values)
            ckpt_answer_option((enum ckpt_fact)i, ckpt_option_row(q->option)->argument, text);
        for (size_t k = 0; k < q->n_values && n < sizeof text; k++)
            n += put_answer(text + n, sizeof text - n, (enum ckpt_fact)i, k);
        if (i == FACT_HEADS)
            cli_note("  %s: --heads N, which divides %u. In the model's code: %s", q->what,
                     c->hp.n_embd, q->how);
        else
            cli_note("  %s: %s. In the model's code: %s", q->what, text, q->how);
    }
    if (c->open & ~(1U << FACT_HEADS)) {
        list_programs(text, sizeof text);
        if (c->likely)
            cli_note("  these are the names of %s, and of copies that changed it: --assume %s",
                     c->likely, c->likely);
        cli_note("  --assume PROGRAM answers for one of: %s", text);
    }
}

/* ---- as JSON --------------------------------------------------------------------------------- */

/* The programs that answer so; NULL: all programs. */
static struct jtext *users_json(enum ckpt_fact fact, const char *answer)
{
    struct jtext *names = jtext("[]");
    for (size_t i = 0; i < COUNT(programs); i++)
        if (!answer || (programs[i].has[fact] && strcmp(programs[i].has[fact], answer) == 0))
            jtext_add(names, "s", programs[i].name);
    return names;
}

/* An open question: its answers, or the option that takes a number. */
static void add_question(struct jtext *to, enum ckpt_fact fact)
{
    const struct ckpt_question *q = &ckpt_questions[fact];
    struct jtext *options = jtext("[]");
    char option[CKPT_ANSWER];
    for (size_t i = 0; i < q->n_values; i++)
        jtext_add(options, "{s:s, s:o}", "option", ckpt_answer_option(fact, q->values[i], option),
                  "programs", users_json(fact, q->values[i]));
    if (!q->n_values)
        jtext_add(options, "{s:s, s:[]}", "option",
                  ckpt_answer_option(fact, ckpt_option_row(q->option)->argument, option),
                  "programs");
    jtext_add(to, "{s:s, s:s, s:o}", "what", q->what, "how", q->how, "options", options);
}

struct jtext *ckpt_questions_json(const struct checkpoint *c, const char *path,
                                  const mgpt_error *err)
{
    struct jtext *open = jtext("[]");
    for (int i = 0; i < CKPT_N_FACTS; i++)
        if (c->open >> i & 1)
            add_question(open, (enum ckpt_fact)i);
    return jtext("{s:s, s:s, s:s, s:o, s:s, s:o}", "in", path, "error", err->text, "also",
                 c->open_also, "open", open, "likely", c->likely, "programs",
                 users_json(FACT_HEADS, NULL));
}
