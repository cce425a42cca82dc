/* The tables of all Hugging Face families as text, which hf_models.txt is.
 *
 * In models.txt a family has what another has that it is like. What it has by mistake shows here: few
 * conversions are different with it.
 */
#include "convert/families/hf.h"
#include "support/unit.h"

static void print_key(FILE *to, const char *name, const char *key)
{
    if (key)
        fprintf(to, " %s=%s", name, key);
}

static void print_keys(FILE *to, const struct hf_keys *k)
{
    fprintf(to, "  keys");
    print_key(to, "n_embd", k->n_embd);
    print_key(to, "n_layer", k->n_layer);
    print_key(to, "n_head", k->n_head);
    print_key(to, "n_head_kv", k->n_head_kv);
    print_key(to, "head_dim", k->head_dim);
    print_key(to, "n_ff", k->n_ff);
    print_key(to, "n_ctx", k->n_ctx);
    print_key(to, "eps", k->eps);
    print_key(to, "activation", k->activation);
    fprintf(to, "\n  absent");
    print_key(to, "activation", k->activation_absent);
    if (k->n_ctx_absent)
        fprintf(to, " n_ctx=%u", k->n_ctx_absent);
    if (k->n_ff_absent)
        fprintf(to, " n_ff=%u*n_embd", k->n_ff_absent);
    fprintf(to, "\n");
}

static const struct {
    unsigned flag;
    const char *name;
} flags[] = {{STATE_OPTIONAL, "optional"},
             {STATE_BARE, "bare"},
             {STATE_TRANSPOSED, "transposed"},
             {STATE_PAIRS, "pairs"},
             {STATE_SWAP, "swap"},
             {STATE_PLUS_ONE, "+1"},
             {STATE_Q, "q"},
             {STATE_K, "k"},
             {STATE_V, "v"},
             {STATE_GATE, "gate"},
             {STATE_UP, "up"},
             {STATE_GROUPED, "grouped"},
             {STATE_BIAS, "bias"},
             {STATE_BIAS_OPTIONAL, "bias_optional"},
             {STATE_BIAS_ZEROS, "bias_zeros"},
             {STATE_ATTENTION, "attention"},
             {STATE_CONVOLUTION, "convolution"},
             {HF_ATTENTION_BIAS, "bias?attention_bias"},
             {HF_OUT_BIAS, "bias?attention_out_bias"},
             {HF_MLP_BIAS, "bias?mlp_bias"},
             {HF_USE_BIAS, "bias?use_bias"},
             {HF_QKV_BIAS, "bias?use_qkv_bias"},
             {HF_ENABLE_BIAS, "bias?enable_bias"},
             {HF_BIAS, "bias?bias"},
             {HF_SEQUENTIAL, "sequential"},
             {HF_VARIANT, "variant"},
             {HF_USUAL, "usual"},
             {HF_WHOLE_ROWS, "whole_rows"},
             {STATE_FIRST_ROWS, "first_rows"}};

static void print_flags(FILE *to, unsigned of)
{
    for (size_t i = 0; i < COUNT(flags); i++)
        if (of & flags[i].flag)
            fprintf(to, " %s", flags[i].name);
    for (size_t i = 0; i < COUNT(flags); i++)
        of &= ~flags[i].flag;
    assert_int_equal(of, 0); /* a flag without a name */
}

#define NUMBER_MEMBER(field, ...) {HF_TO_FLOAT(field), #field},
static const struct {
    size_t at;
    const char *name;
} members[] = {{HF_TO_VARIANT, "variant"},
               {HF_TO_INT(parallel), "parallel"},
               {HF_TO_SIZE(n_ff), "n_ff"},
               {HF_TO_SIZE(n_ff_expert), "n_ff_expert"},
               {HF_TO_SIZE(n_ff_shared), "n_ff_shared"},
               {HF_TO_SIZE(n_input), "n_input"},
               {HF_TO_SIZE(n_expert), "n_expert"},
               {HF_TO_SIZE(n_expert_used), "n_expert_used"},
               {HF_TO_FLOAT(expert_scale), "expert_scale"},
               MODEL_NUMBERS(NUMBER_MEMBER){HF_TO_FLOAT(norm_eps), "norm_eps"}};

static void print_step(FILE *to, const struct hf_step *s)
{
    static const char *const kinds[] = {"do",
                                        "on",
                                        "off",
                                        "has",
                                        "is",
                                        "in",
                                        "set",
                                        "unless",
                                        "flag",
                                        "flag_not",
                                        "number",
                                        "positive",
                                        "size",
                                        "experts",
                                        "expert_norm",
                                        "window_one",
                                        "window_layers",
                                        "window_layers_or_one",
                                        "window_used",
                                        "window_all"};
    assert_true(s->kind < COUNT(kinds));
    assert_true((s->call != NULL) == (s->kind == HF_DO));
    fprintf(to, "  read %s%s%s", kinds[s->kind], s->key ? " " : "", s->key ? s->key : "");
    if (s->kind >= HF_SET && s->kind <= HF_SIZE) {
        size_t i = 0;
        while (i < COUNT(members) && members[i].at != s->at)
            i++;
        assert_true(i < COUNT(members)); /* a member without a name: add it above */
        fprintf(to, " to %s", members[i].name);
    }
    fprintf(to, " %.9g%s%s\n", s->value, s->why ? ": " : "", s->why ? s->why : "");
}

static void print_family(FILE *to, const struct hf_family *f)
{
    fprintf(to, "%s\n  arch %s, %s, head %s%s%s%s%s%s%s%s%s%s%s", f->model_type, f->arch,
            f->activation, f->head, f->tied ? ", tied" : "", f->windowed ? ", windowed" : "",
            f->states_head_dim ? ", states_head_dim" : "", f->partial_rope ? ", partial_rope" : "",
            f->resting_pairs ? ", resting_pairs" : "", f->experts ? ", experts" : "",
            f->transposed_experts ? ", transposed_experts" : "",
            f->mixture_norms ? ", mixture_norms" : "", f->put.call ? ", put " : "",
            f->put.call ? f->put.name : "");
    if (f->program)
        fprintf(to, ", program %s", f->program);
    if (f->knows)
        fprintf(to, ", knows %s", f->knows);
    if (f->ignores)
        fprintf(to, ", ignores %s", f->ignores);
    if (f->window)
        fprintf(to, ", window %u", f->window);
    if (f->full_every)
        fprintf(to, ", full_every %u", f->full_every);
    fprintf(to, "\n  biases where the key is absent");
    print_flags(to, f->biases);
    fprintf(to, "\n");
    print_keys(to, f->keys);
    if (f->rope)
        fprintf(to, "  rope %s=%.9g %s=%.9g\n", f->rope->theta, f->rope->theta_absent,
                f->rope->rotated, f->rope->rotated_absent);
    for (size_t i = 0; i < f->n_steps; i++)
        print_step(to, &f->steps[i]);
    fprintf(to, "  prefixes");
    for (const char *const *p = f->prefixes; *p; p++)
        fprintf(to, " %s", *p);
    fprintf(to, "\n");
    for (size_t i = 0; i < f->n_rows; i++) {
        const struct state_row *r = &f->rows[i];
        fprintf(to, "  %s <- %s [%c%c]", r->to, r->from, r->n_out ? r->n_out : ' ', r->n_in);
        print_flags(to, r->flags);
        fprintf(to, "\n");
    }
}

/* The number of the line where they differ; 0: they do not. `family` is its family's line. */
static size_t first_difference(const char *made, const char *here, const char **family)
{
    size_t line = 1;
    *family = made;
    for (; *made || *here; line++) {
        size_t n = strcspn(made, "\n");
        if (*made != ' ')
            *family = made;
        if (n != strcspn(here, "\n") || strncmp(made, here, n) != 0)
            return line;
        made += n + (made[n] == '\n');
        here += n + (here[n] == '\n');
    }
    return 0;
}

static char *text_of(const char *path)
{
    FILE *from = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_non_null(from);
    assert_true(fread(text, 1, (1 << 20) - 1, from) > 0);
    fclose(from);
    return text;
}

/* The family after this one in the order of their names; NULL: the last is done. */
static const struct hf_family *next_family(const struct hf_family *last)
{
    const struct hf_family *f, *next = NULL;
    for (size_t i = 0; (f = hf_family_at(i)); i++)
        if ((!last || strcmp(f->model_type, last->model_type) > 0) &&
            (!next || strcmp(f->model_type, next->model_type) < 0))
            next = f;
    return next;
}

/* MGPT_SOURCE_ROOT=$PWD MGPT_WRITE=1 build/tests/test_hf_models writes hf_models.txt again. */
TEST(tables)
{
    const char *path = unit_path("tests/tools/convert/hf_models.txt"), *family;
    const struct hf_family *f = NULL;
    char *made = NULL;
    size_t n = 0;
    FILE *to = getenv("MGPT_WRITE") ? fopen(path, "wb") : open_memstream(&made, &n);
    assert_non_null(to);
    while ((f = next_family(f)))
        print_family(to, f);
    assert_int_equal(fclose(to), 0);
    char *here = text_of(path);
    size_t line = made ? first_difference(made, here, &family) : 0;
    if (line)
        fail_msg("hf_models.txt:%zu: the table of %.*s is another one now", line,
                 (int)strcspn(family, "\n"), family);
    free(made);
    free(here);
}
