/* Repl: which heads and MLPs speak for a token. The sum is dla.c's, this is its table. */
#include "common/interrupt.h"
#include "repl/dla.h"
#include "repl/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct attribution {
    struct view view;
    struct dla dla;
    int32_t token, other;
    double logit; /* the engine's own difference, after a cap */
};

/* ---- numbers --------------------------------------------------------------------------------- */

/* Chooses the token when none was named, and keeps what the engine says. */
static int read_logits(struct attribution *a, mgpt_session *s)
{
    struct repl *r = a->view.repl;
    size_t n = engine_n_choices(&r->engine);
    float *logits = view_new((size_t)r->engine.info.n_vocab, sizeof *logits);
    mgpt_candidate top;
    mgpt_error err;
    double against = 0;
    if (!logits)
        return 0;
    int status = mgpt_unembed(s, a->dla.final, logits, &err);
    if (status == MGPT_OK && a->token == DLA_MEAN && mgpt_top(logits, n, &top, 1) == 1)
        a->token = top.token;
    for (size_t i = 0; i < n && a->other == DLA_MEAN; i++)
        against += (double)logits[i] / (double)n;
    if (a->other != DLA_MEAN)
        against = (double)logits[a->other];
    a->logit = status == MGPT_OK && a->token >= 0 ? (double)logits[a->token] - against : NAN;
    free(logits);
    if (status != MGPT_OK)
        repl_failed(&err);
    return status == MGPT_OK && a->token >= 0;
}

static int compute(struct attribution *a)
{
    struct repl *r = a->view.repl;
    mgpt_error err;
    if (dla_new(&a->dla, &r->engine.info, a->dla.pos, &err) < 0) {
        repl_failed(&err);
        return 0;
    }
    mgpt_session *s = repl_replay_kept(r, dla_points(), dla_tap, &a->dla);
    int done = s && read_logits(a, s);
    if (done && dla_run(&a->dla, r->engine.model, a->token, a->other, engine_n_choices(&r->engine),
                        &err) < 0) {
        repl_failed(&err);
        done = 0;
    }
    mgpt_session_free(s);
    return done;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void title(const struct attribution *a, char *out, size_t cap)
{
    char token[HEAT_LABEL], other[HEAT_LABEL], at[HEAT_LABEL];
    view_token(a->view.repl, a->token, 16, token);
    view_token_label(&a->view, a->dla.pos, 16, at);
    snprintf(other, sizeof other, "the mean of all");
    if (a->other != DLA_MEAN)
        view_token(a->view.repl, a->other, 16, other);
    snprintf(out, cap, "after token %zu %s: logit of %s minus %s", a->dla.pos, at, token, other);
}

static void column_label(const void *user, size_t i, size_t columns, char *out)
{
    const struct dla *d = user;
    (void)columns;
    if (i < d->n_head)
        snprintf(out, HEAT_LABEL, "%zu", i);
    else
        snprintf(out, HEAT_LABEL, "mlp");
}

static double part_of(const void *user, size_t layer, size_t column)
{
    const struct dla *d = user;
    return column < d->n_head ? d->heads[layer * d->n_head + column] : d->mlps[layer];
}

static struct view_matrix parts_of(const struct dla *d)
{
    return (struct view_matrix){.heat = {.rows = {d->n_layer, "layer", NULL, NULL, 0},
                                         .cols = {d->n_head + 1, "head", column_label, d, 1},
                                         .cell = HEAT_LARGEST_SIZE},
                                .value = part_of,
                                .user = d};
}

/* By the name that /ab takes. */
static void print_part(const struct dla *d, size_t layer, size_t column)
{
    char name[48];
    if (column < d->n_head)
        snprintf(name, sizeof name, "%zu.%zu", layer, column);
    else
        snprintf(name, sizeof name, "mlp.%zu", layer);
    printf("  %-6s %+8.4f", name, part_of(d, layer, column));
}

/* Prints only the strongest parts, if a model has many. */
static void print_strongest(const struct attribution *a)
{
    enum { SHOWN = 12 };
    const struct dla *d = &a->dla;
    const struct view_matrix parts = parts_of(d);
    size_t columns = d->n_head + 1, n = d->n_layer * columns;
    uint8_t *taken = n > 2 * SHOWN ? view_new(n, 1) : NULL;
    if (taken)
        puts("the strongest (head L.H, MLP mlp.L):");
    for (size_t k = 0; taken && k < SHOWN; k++) {
        size_t best = view_take_largest(&parts, taken);
        print_part(d, best / columns, best % columns);
        if (k % 3 == 2)
            putchar('\n');
    }
    free(taken);
}

static void print_sum(const struct attribution *a)
{
    const struct dla *d = &a->dla;
    double heads = 0, mlps = 0, cap = (double)a->view.repl->engine.info.logit_softcap;
    for (size_t i = 0; i < d->n_layer; i++) {
        mlps += d->mlps[i];
        for (size_t h = 0; h < d->n_head; h++)
            heads += d->heads[i * d->n_head + h];
    }
    printf("token embedding     %11.4f\n", d->token_part);
    if (d->has_position || d->has_smear)
        printf("%-19s %11.4f\n", d->has_smear ? "token before" : "position embedding",
               d->position_part);
    printf("all heads           %11.4f\nall MLPs            %11.4f\n", heads, mlps);
    printf("biases              %11.4f\nrounding            %11.4f\n", view_fixed(d->biases, 4),
           view_fixed(d->rest, 4));
    printf("sum                 %11.4f\n", d->total);
    printf("engine              %11.4f%s\n", a->logit, cap > 0 ? "   (after its cap)" : "");
    if (cap > 0)
        printf("the model caps logits at %g after the sum: cap * tanh(x / cap)\n", cap);
    if (d->has_final_norm || d->has_embedding_norm)
        puts("norms are frozen at the scale that they had here");
}

static void view_dla_put_file(struct attribution *a)
{
    const struct dla *d = &a->dla;
    char text[4 * HEAT_LABEL];
    title(a, text, sizeof text);
    if (!view_file_open(&a->view,
                        "%s [layer][%zu heads, MLP]; embedding %.9g, position %.9g, "
                        "biases %.9g, rounding %.9g, sum %.9g",
                        text, d->n_head, d->token_part, d->position_part, d->biases, d->rest,
                        d->total))
        return;
    const struct view_matrix parts = parts_of(d);
    view_file_matrix(&a->view, &parts);
}

static void print_attribution(const struct attribution *a)
{
    char text[4 * HEAT_LABEL];
    struct view_matrix parts = parts_of(&a->dla);
    title(a, text, sizeof text);
    puts(text);
    if (a->dla.n_layer > 0)
        view_picture(&a->view, &parts);
    print_strongest(a);
    print_sum(a);
}

void view_dla(struct repl *r, struct repl_args *args)
{
    struct attribution a = {view_of(r, args), {.pos = args->pos}, args->token, args->other, 0};
    if (compute(&a)) {
        if (a.view.path)
            view_dla_put_file(&a);
        else
            print_attribution(&a);
    }
    dla_free(&a.dla);
}
