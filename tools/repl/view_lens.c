/* Repl: the logit lens (nostalgebraist 2020). After every half layer the residual goes through the
 * final norm and the head, as if the layers after it did nothing: what would the model say now? */
#include "common/interrupt.h"
#include "repl/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOPS_MAX = 8, FIXED = 24, EACH = VIEW_TOP + 7 };

static const char *const names[] = {"pre", "mid", "post"};
_Static_assert(sizeof names / sizeof *names == VIEW_HALVES, "a row each");

struct lens {
    struct view view;
    size_t pos, n_embd, n_vocab, n_tops;
    struct view_want *wants; /* [n_layer][VIEW_HALVES] */
    size_t n_wants;
    float *rows, *logits; /* [n_wants][n_embd], [n_vocab] */
    mgpt_session *session;
    int32_t final; /* the token that the model chooses in the end */
};

static int view_lens_gather(struct lens *l)
{
    const mgpt_info *info = &l->view.repl->engine.info;
    l->n_embd = (size_t)info->n_embd;
    l->n_vocab = (size_t)info->n_vocab;
    l->n_wants = (size_t)info->n_layer * VIEW_HALVES;
    l->wants = view_new(l->n_wants, sizeof *l->wants);
    l->rows = l->wants ? view_new(l->n_wants * l->n_embd, sizeof *l->rows) : NULL;
    l->logits = l->rows ? view_new(l->n_vocab, sizeof *l->logits) : NULL;
    if (!l->logits)
        return 0;
    for (size_t i = 0; i < l->n_wants; i++)
        l->wants[i] = (struct view_want){view_residuals[i % VIEW_HALVES],
                                         (int32_t)(i / VIEW_HALVES),
                                         l->pos,
                                         1,
                                         0,
                                         l->n_embd,
                                         l->rows + i * l->n_embd,
                                         0};
    struct view_wants all = {l->wants, l->n_wants};
    l->session = repl_replay_kept(l->view.repl, view_points(&all), view_gather, &all);
    return l->session != NULL;
}

/* A layer begins with what the one before it left, except in models that blend something in: the
 * same row is not shown twice. */
static int is_shown(const struct lens *l, size_t i)
{
    const struct view_want *w = &l->wants[i];
    if (!w->seen)
        return 0;
    return i == 0 || w->point != MGPT_RESID_PRE || !l->wants[i - 1].seen ||
           memcmp(w->to, l->wants[i - 1].to, l->n_embd * sizeof *w->to) != 0;
}

static int unembed_row(const struct lens *l, size_t i)
{
    mgpt_error err;
    if (mgpt_unembed(l->session, l->wants[i].to, l->logits, &err) == MGPT_OK)
        return 1;
    repl_failed(&err);
    return 0;
}

static void print_tops(const struct lens *l)
{
    mgpt_candidate top[TOPS_MAX];
    view_print_tops(l->view.repl, top, mgpt_top(l->logits, l->n_vocab, top, l->n_tops));
}

static void view_lens_put_row(struct lens *l, size_t i)
{
    double p = exp(mgpt_logprob(l->logits, l->n_vocab, l->final));
    size_t rank = repl_rank(l->logits, l->n_vocab, l->final);
    char label[32];
    if (l->view.path) {
        mgpt_candidate top;
        mgpt_top(l->logits, l->n_vocab, &top, 1);
        view_file_put(&l->view, "%zu\t%zu\t%zu\t%.9g\t%d\t%.9g\n", i / VIEW_HALVES, i % VIEW_HALVES,
                      rank, p, (int)top.token, exp(top.logprob));
        return;
    }
    snprintf(label, sizeof label, "%zu %s", i / VIEW_HALVES, names[i % VIEW_HALVES]);
    printf("%-7s %6zu %7.4f ", label, rank, p);
    print_tops(l);
}

static void put_title(struct lens *l)
{
    char token[HEAT_LABEL], final[HEAT_LABEL];
    view_token_label(&l->view, l->pos, 16, token);
    view_token(l->view.repl, l->final, 16, final);
    printf("after token %zu %s the model says %s; before:\n", l->pos, token, final);
    printf("%-7s %6s %7s  likeliest\n", "layer", "rank", "of it");
}

static void print_lens(struct lens *l)
{
    mgpt_candidate top;
    if (!unembed_row(l, l->n_wants - 1)) /* the last residual: the model's own logits */
        return;
    mgpt_top(l->logits, l->n_vocab, &top, 1);
    l->final = top.token;
    if (!l->view.path)
        put_title(l);
    else if (!view_file_open(&l->view,
                             "layer, half (0 pre, 1 mid, 2 post), rank and probability of "
                             "token %d, likeliest token and its probability",
                             (int)l->final))
        return;
    int done = 1;
    for (size_t i = 0; done && i < l->n_wants; i++)
        if (is_shown(l, i)) {
            done = !interrupted() && unembed_row(l, i);
            if (done)
                view_lens_put_row(l, i);
        }
    if (done && l->view.path)
        view_file_close(&l->view);
    outfile_discard(&l->view.file);
}

void view_lens(struct repl *r, struct repl_args *args)
{
    struct lens l = {.view = view_of(r, args), .pos = args->pos};
    if (r->engine.info.n_layer == 0) {
        repl_error(
            "the model has no layers: there is nothing between embedding and head to look at");
        return;
    }
    size_t room = l.view.screen.width > FIXED ? (l.view.screen.width - FIXED) / EACH : 1;
    l.n_tops = room < 1 ? 1 : room;
    l.n_tops = l.n_tops > TOPS_MAX ? TOPS_MAX : l.n_tops;
    if (view_lens_gather(&l))
        print_lens(&l);
    mgpt_session_free(l.session);
    free(l.wants);
    free(l.rows);
    free(l.logits);
}
