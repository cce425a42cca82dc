/* Attention on matrices of one's own, without a model: exports of a lab page's module. See
 * module.h. */
#include "lab/module_impl.h"

#include "attend/attend_stages.h"
#include "base/error.h"

#include <string.h>

static struct attend_stages attended; /* the last result */

void lab_attend_free(void)
{
    attend_free(&attended);
}

static int copy_matrix(struct matrix *m, const float *from, size_t rows, size_t cols)
{
    if (rows == 0 || cols == 0 || rows > MATRIX_MAX || cols > MATRIX_MAX)
        return err_set(lab_last_error(), MGPT_EARG, MGPT_NO_OFFSET,
                       "a matrix of %zu x %zu: expected 1 to %d each", rows, cols, MATRIX_MAX);
    int status = matrix_new(m, rows, cols, lab_last_error());
    if (status == MGPT_OK)
        memcpy(m->v, from, rows * cols * sizeof *from);
    return status;
}

int lab_attend(const float *x, size_t n, size_t d, const float *wq, const float *wk, size_t d_q,
               const float *wv, size_t d_v, double tau, int causal, size_t n_heads)
{
    const struct {
        const float *from;
        size_t rows, cols;
    } sources[] = {{x, n, d}, {wq, d, d_q}, {wk, d, d_q}, {wv, d, d_v}};
    struct matrix all[4] = {{0}};
    struct kernels kernels;
    const struct attend_input in = {&all[0], &all[1], &all[2], &all[3], tau, causal, n_heads};
    int status = MGPT_OK;
    lab_attend_free();
    if (n_heads == 0 || n_heads > MATRIX_MAX || !(tau >= 0))
        return lab_refuse("expected a temperature of 0 or more and 1 to 1024 heads");
    for (int i = 0; i < 4 && status == MGPT_OK; i++)
        status = copy_matrix(&all[i], sources[i].from, sources[i].rows, sources[i].cols);
    if (status == MGPT_OK && !kernels_init(&kernels, NULL))
        status = lab_refuse("no kernels");
    if (status == MGPT_OK)
        status = attend_run(&attended, &in, &kernels, lab_last_error());
    for (int i = 0; i < 4; i++)
        matrix_free(&all[i]);
    return status;
}

const float *lab_attended(int what, size_t head)
{
    static const char names[] = "qkvostmah"; /* of the matrices below */
    static const struct attend_head none;
    const struct attend_stages *s = &attended;
    const struct attend_head *h = head < s->n_heads ? &s->heads[head] : &none;
    const struct matrix *const all[] = {&s->q,      &s->k,      &s->v, &s->out, &h->s,
                                        &h->scaled, &h->masked, &h->a, &h->out};
    const char *name = what ? strchr(names, what) : NULL;
    return name ? all[name - names]->v : NULL;
}

double lab_tau(void)
{
    return attended.tau;
}
