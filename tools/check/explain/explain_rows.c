/* Rows of embeddings, solved for: that of the token at the first position that differs, or of the
 * position. See explain_impl.h. */
#include "check/explain/explain_impl.h"

static const double most_work = 4e10;
enum { ROWS_MOST = 512 };
static const uint64_t most_values = (uint64_t)1 << 24;

static int solve_row(struct search *s, int role, size_t row)
{
    mgpt_tensor t;
    char name[ORACLE_NAME];
    oracle_model_name(s->model, -1, role, ".weight", name);
    struct whatif_tensor *given;
    int there = oracle_tensor_find(s->model, name, &t) && row < t.dims[1];
    double work = there ? 4 * (double)t.dims[0] * (double)s->as_is.info.n_params : 0;
    if (!there || t.dims[0] * t.dims[1] > most_values || work * (double)s->n > most_work)
        return MGPT_OK;
    size_t n = (size_t)t.dims[0];
    int status = solve_values(s, name, row * n, n, n * (size_t)t.dims[1], &given);
    if (status != MGPT_OK || !given)
        return status;
    return search_propose(s, given_edit(given), "row %zu of %s differs in the reference", row,
                          name);
}

/* The token's row may be that of another token, of a small vocabulary. */
static int find_row(struct search *s, int token)
{
    int n = s->as_is.info.n_vocab, status = MGPT_OK;
    for (int i = 0; i < n && n <= ROWS_MOST && status == MGPT_OK && !s->e->proved; i++) {
        struct whatif_edit edit = {
            .apply = edit_tensors, .change = ORDER_ROW_OTHER, .names = "W_E", .a = token, .b = i};
        if (i != token)
            status = search_propose(s, edit, "the embedding of token %d is that of token %d here",
                                    token, i);
    }
    return status;
}

int solve_embeddings(struct search *s)
{
    size_t pos = s->l->hooks[s->target].pos;
    if (s->base->offset)
        return MGPT_OK;
    int status = find_row(s, (int)s->a->tokens[pos]);
    if (status == MGPT_OK && !s->e->proved)
        status = solve_row(s, MGPT_W_POS, pos);
    if (status == MGPT_OK && !s->e->proved)
        status = solve_row(s, MGPT_W_E, (size_t)s->a->tokens[pos]);
    return status;
}
