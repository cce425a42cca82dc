/* mgpt attend: attention on small matrices, stage by stage. No model: the lesson is the
 * arithmetic. */
#include "attend/attend_examples.h"
#include "attend/attend_stages.h"
#include "common/commands.h"
#include "common/text.h"

#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct attend {
    const char *x_name, *names[3]; /* files or names: X; W_Q, W_K, W_V */
    const char *isa;
    const struct attend_example *example;
    double tau;
    int32_t n_heads, digits;
    int causal, no_causal, json;
    struct matrix x, w[3];
    struct attend_stages stages;
};

static const char *const options_of[] = {"--wq", "--wk", "--wv"};

static const char notes[] =
    "A row of X is a token. Projections are files too, or one of: identity, zero, negate, flip\n"
    "(dimensions in reverse order), dim:K (only the K-th, from 1). A file is .npy, or text with a "
    "row\n"
    "per line. Everything is computed in float32 by the kernels of the engine:\n"
    "  Q = X W_Q, K = X W_K, V = X W_V, S = Q K^T, S / tau, mask, A = softmax, A V\n\n"
    "Built-in examples: identity, causal, average, one-hot, bigram. What options say replaces what "
    "the\n"
    "example has.\n\n"
    "examples:\n"
    "  mgpt attend identity\n"
    "  mgpt attend identity --causal --tau 0.1\n"
    "  mgpt attend identity --wq dim:1 --wk flip\n"
    "  mgpt attend -x x.txt --wq wq.npy --heads 2 --json\n";

static const char *const exits[EXIT_N_CODES] = {
    [EXIT_AT_USAGE] = "usage or sizes that do not fit",
    [EXIT_AT_REFUSED] = "a file that is not a matrix",
};

/* ---- matrices ---- */

static int load_text(struct matrix *m, const char *text)
{
    mgpt_error err;
    return matrix_parse(m, text, strlen(text), &err) < 0 ? cli_fail(NULL, &err) : EXIT_OK;
}

static int load_file(struct matrix *m, const char *path)
{
    mgpt_error err;
    if (matrix_read(m, path, &err) == MGPT_OK)
        return EXIT_OK;
    return cli_fail(strcmp(path, "-") == 0 ? "stdin" : path, &err);
}

/* The projection i: what the user says, else what the example has, else the identity. */
static int load_projection(struct attend *a, size_t i)
{
    const struct attend_example *e = a->example;
    const char *own[3] = {"identity", "identity", "identity"};
    mgpt_error err;
    if (e)
        memcpy(own, (const char *[3]){e->wq, e->wk, e->wv}, sizeof own);
    const char *name = a->names[i] ? a->names[i] : own[i];
    int got = matrix_preset(&a->w[i], name, a->x.cols, &err);
    if (got < 0)
        return cli_fail(options_of[i], &err);
    if (got > 0)
        return EXIT_OK;
    return a->names[i] ? load_file(&a->w[i], name) : load_text(&a->w[i], name);
}

static int attend_load(struct attend *a)
{
    int code = a->x_name ? load_file(&a->x, a->x_name) : load_text(&a->x, a->example->x);
    for (size_t i = 0; i < 3 && code == EXIT_OK; i++)
        code = load_projection(a, i);
    return code;
}

/* ---- text ---- */

static void print_matrix(const struct attend *a, const char *title, const struct matrix *m)
{
    printf("%s  [%zu, %zu]\n", title, m->rows, m->cols);
    for (size_t i = 0; i < m->rows; i++) {
        for (size_t j = 0; j < m->cols; j++)
            printf("%*.*f", (int)a->digits + 6, (int)a->digits, (double)m->v[i * m->cols + j]);
        putchar('\n');
    }
    putchar('\n');
}

static void print_head(const struct attend *a, const struct attend_head *h, int causal)
{
    char title[64];
    snprintf(title, sizeof title, "S / tau, tau = %.*g", (int)a->digits + 2, a->stages.tau);
    print_matrix(a, "S = Q K^T", &h->s);
    print_matrix(a, title, &h->scaled);
    if (causal)
        print_matrix(a, "masked: a query sees itself and what is before it", &h->masked);
    else
        puts("mask: none, every query sees every key\n");
    print_matrix(a, "A = softmax, row by row", &h->a);
    print_matrix(a, "A V", &h->out);
}

static void print_stages(const struct attend *a, int causal)
{
    const struct attend_stages *s = &a->stages;
    if (a->example)
        printf("%s: %s\n\n", a->example->name, a->example->about);
    print_matrix(a, "X", &a->x);
    print_matrix(a, "Q = X W_Q", &s->q);
    print_matrix(a, "K = X W_K", &s->k);
    print_matrix(a, "V = X W_V", &s->v);
    for (size_t i = 0; i < s->n_heads; i++) {
        if (s->n_heads > 1)
            printf("---- head %zu\n\n", i);
        print_head(a, &s->heads[i], causal);
    }
    if (s->n_heads > 1)
        print_matrix(a, "---- all heads side by side", &s->out);
}

/* ---- JSON ---- */

/* Rows of numbers; JSON has no infinity, so what is masked is null. */
static struct jtext *json_matrix(const struct matrix *m)
{
    struct jtext *rows = jtext("[]");
    for (size_t i = 0; i < m->rows; i++) {
        struct jtext *row = jtext("[]");
        for (size_t j = 0; j < m->cols; j++)
            jtext_add(row, "f", (double)m->v[i * m->cols + j]);
        jtext_add(rows, "o", row);
    }
    return rows;
}

static struct jtext *json_heads(const struct attend_stages *s)
{
    struct jtext *heads = jtext("[]");
    for (size_t i = 0; i < s->n_heads; i++) {
        const struct attend_head *h = &s->heads[i];
        jtext_add(heads, "{s:o, s:o, s:o, s:o, s:o}", "s", json_matrix(&h->s), "scaled",
                  json_matrix(&h->scaled), "masked", json_matrix(&h->masked), "a",
                  json_matrix(&h->a), "av", json_matrix(&h->out));
    }
    return heads;
}

static int attend_print_json(const struct attend *a, int causal)
{
    const struct attend_stages *s = &a->stages;
    return text_json_line(jtext("{s:f, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "tau", (double)s->tau,
                                "causal", causal, "x", json_matrix(&a->x), "q", json_matrix(&s->q),
                                "k", json_matrix(&s->k), "v", json_matrix(&s->v), "heads",
                                json_heads(s), "out", json_matrix(&s->out)));
}

/* ---- the command ---- */

static int cmd_attend_run(struct attend *a)
{
    struct kernels kernels;
    mgpt_error err;
    int causal = a->causal || (a->example && a->example->causal && !a->no_causal);
    if (!kernels_init(&kernels, a->isa)) {
        cli_note("--isa: this machine has no '%s'", a->isa);
        return EXIT_USAGE;
    }
    int code = attend_load(a);
    if (code != EXIT_OK)
        return code;
    struct attend_input in = {&a->x,  &a->w[0], &a->w[1],          &a->w[2],
                              a->tau, causal,   (size_t)a->n_heads};
    if (attend_run(&a->stages, &in, &kernels, &err) < 0)
        return cli_fail(NULL, &err);
    if (a->json)
        return cli_finish(attend_print_json(a, causal));
    print_stages(a, causal);
    return cli_finish(EXIT_OK);
}

static int choose_example(struct attend *a, const struct cli_command *command, const char *name)
{
    const char *names[16], *near;
    size_t n = attend_n_examples < 16 ? attend_n_examples : 16;
    for (size_t i = 0; i < n; i++) {
        names[i] = attend_examples[i].name;
        if (strcmp(name, names[i]) == 0) {
            a->example = &attend_examples[i];
            return EXIT_OK;
        }
    }
    near = cli_nearest(name, names, n);
    if (near)
        return cli_usage(command, "no example is called '%s', did you mean '%s'?", name, near);
    return cli_usage(command, "no example is called '%s'; a file is given with -x", name);
}

static int check_options(struct attend *a, const struct cli_command *command, int n,
                         const char *name)
{
    if (a->causal && a->no_causal)
        return cli_usage(command, "--causal and --no-causal exclude each other");
    if (n == 0 && !a->x_name)
        return cli_usage(command, "attention on what? Give an example's name or -x FILE");
    return n > 0 ? choose_example(a, command, name) : EXIT_OK;
}

int cmd_attend(int argc, char **argv)
{
    struct attend a = {.n_heads = 1, .digits = 4};
    const struct cli_option options[] = {
        {"-x, --input", "FILE", CLI_TEXT, &a.x_name, 0, 0, "the tokens, a row each; - is stdin",
         IN_FEW},
        {"--wq", "FILE", CLI_TEXT, &a.names[0], 0, 0,
         "projection to queries: a file or a name (default: identity)", IN_FEW},
        {"--wk", "FILE", CLI_TEXT, &a.names[1], 0, 0, "to keys", IN_FEW},
        {"--wv", "FILE", CLI_TEXT, &a.names[2], 0, 0, "to values", IN_FEW},
        {"--tau", "X", CLI_REAL, &a.tau, 1e-6, 1e6,
         "temperature (default: the square root of a head's width)", IN_FEW},
        {"--causal", NULL, CLI_FLAG, &a.causal, 0, 0, "a token sees itself and what is before it",
         IN_FEW},
        {"--no-causal", NULL, CLI_FLAG, &a.no_causal, 0, 0, "every token sees every token", IN_FEW},
        {"--heads", "N", CLI_INT, &a.n_heads, 1, MATRIX_MAX, "heads (default 1)", IN_FEW},
        {"--digits", "N", CLI_INT, &a.digits, 0, 9, "digits after the point (default 4)", IN_FEW},
        {"--json", NULL, CLI_FLAG, &a.json, 0, 0, "one JSON object; what is masked is null",
         IN_FEW},
        {"--isa", "NAME", CLI_TEXT, &a.isa, 0, 0,
         "instruction set: scalar, avx2, avx512, amx (default: the best)", IN_FEW},
    };
    const struct cli_command command =
        CLI_COMMAND("attend", "[EXAMPLE]", "Attention on small matrices, stage by stage.", notes,
                    exits, options, 0, 1);
    const char *operands[1] = {NULL};
    int n = cli_parse(&command, argc, argv, operands);
    if (n < 0)
        return cli_parse_exit(n);
    int code = check_options(&a, &command, n, operands[0]);
    if (code == EXIT_OK)
        code = cmd_attend_run(&a);
    attend_free(&a.stages);
    matrix_free(&a.x);
    for (size_t i = 0; i < 3; i++)
        matrix_free(&a.w[i]);
    return code;
}
