/* mgpt_find_role: every tensor has a role, and does in the pass what its role says. The products
 * and norms are computed here, in float64, from the tensors that the roles name. */
#include "support/toy_zoo.h"
#include "support/trace.h"
#include "support/unit.h"

#include <math.h>
#include <string.h>

static int has_role(const mgpt_model *m, mgpt_role role, int layer, mgpt_part part, mgpt_tensor *t)
{
    return mgpt_find_role(m, role, layer, part, t, NULL) == MGPT_OK;
}

static size_t n_values(const mgpt_tensor *t)
{
    return (size_t)(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]);
}

/* ---- coverage ---- */

/* Counts how often each value of the toy's tensors has a role. */
static void mark(const struct toy *m, const mgpt_tensor *t, unsigned char **seen)
{
    for (size_t i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, t->name) == 0) {
            assert_true(t->first + n_values(t) <= m->tensors[i].n);
            for (size_t k = 0; k < n_values(t); k++)
                seen[i][t->first + k]++;
            return;
        }
    fail_msg("%s is not in the file", t->name);
}

/* Whether the role has the tensor of another one: a tied head, one norm for both branches. */
static int is_anothers(const mgpt_model *m, mgpt_role role, int layer, mgpt_part part,
                       const mgpt_tensor *t)
{
    mgpt_tensor other;
    mgpt_role as = role == MGPT_W_U ? MGPT_W_E : role == MGPT_LN2 ? MGPT_LN1 : role;
    return as != role && has_role(m, as, layer, part, &other) && strcmp(other.name, t->name) == 0;
}

TEST_ZOO(every_tensor_has_one_role)
{
    unsigned char **seen = toy_alloc(s->m->n_tensors, sizeof *seen);
    for (size_t i = 0; i < s->m->n_tensors; i++)
        seen[i] = toy_alloc(s->m->tensors[i].n, 1);
    for (int role = 0; role < MGPT_N_ROLES; role++)
        for (int layer = 0; layer < (role < MGPT_LN1 ? 1 : s->m->spec.n_layer); layer++)
            for (int part = MGPT_WEIGHT; part <= MGPT_BIAS; part++) {
                mgpt_tensor t;
                if (has_role(s->model, (mgpt_role)role, layer, (mgpt_part)part, &t) &&
                    !is_anothers(s->model, (mgpt_role)role, layer, (mgpt_part)part, &t))
                    mark(s->m, &t, seen);
            }
    for (size_t i = 0; i < s->m->n_tensors; i++)
        for (size_t k = 0; k < s->m->tensors[i].n; k++)
            /* The rows of gate, or of up, of all experts are not together. */
            if (seen[i][k] != !strstr(s->m->tensors[i].name, "ffn_gate_up_exps"))
                fail_msg("%s: value %zu of %s has %d roles", s->m->spec.label, k,
                         s->m->tensors[i].name, seen[i][k]);
    for (size_t i = 0; i < s->m->n_tensors; i++)
        free(seen[i]);
    free(seen);
}

/* The rows of a part are where offset and n_bytes say. */
TEST_ZOO(parts_are_in_the_file)
{
    int last = s->m->spec.n_latent ? MGPT_W_Q : MGPT_W_V;
    for (int role = MGPT_W_Q; role <= last && s->m->spec.n_layer; role++) {
        mgpt_tensor t, whole;
        assert_true(has_role(s->model, (mgpt_role)role, 0, MGPT_WEIGHT, &t));
        assert_int_equal(mgpt_find_tensor(s->model, t.name, &whole, NULL), MGPT_OK);
        assert_int_equal(whole.first, 0);
        size_t n_whole = n_values(&whole);
        assert_true((t.offset - whole.offset) * n_whole == t.first * whole.n_bytes);
        assert_true(t.n_bytes * n_whole == n_values(&t) * whole.n_bytes);
        assert_true(t.dims[0] == whole.dims[0]);
    }
}

/* ---- what they do ---- */

/* The values of a role, or NULL: absent. */
static float *role_values(const mgpt_model *m, mgpt_role role, int layer, mgpt_part part,
                          mgpt_tensor *t)
{
    if (!has_role(m, role, layer, part, t))
        return NULL;
    float *v = toy_alloc(n_values(t), sizeof *v);
    assert_int_equal(mgpt_read_tensor(m, t->name, t->first, n_values(t), v, NULL), MGPT_OK);
    return v;
}

/* Sum of squares of the difference, or of the difference of lengths, over that of b. */
static double apart(const double *a, const double *b, size_t n, int any_order)
{
    double diff = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        diff += (a[i] - b[i]) * (a[i] - b[i]);
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    if (bb == 0) /* ReLU may let nothing through */
        return aa;
    return any_order ? pow(sqrt(aa / bb) - 1, 2) : diff / bb;
}

struct role_check {
    const struct subject *s;
    const struct trace *trace;
    int done;
};

/* The value at a point is `times` the product of the role with the value at another. */
static void check_product(struct role_check *c, int layer, mgpt_role role, mgpt_point in,
                          mgpt_point out, double times, int any_order)
{
    const struct trace_value *x = trace_at(c->trace, in, role == MGPT_W_U ? -1 : layer);
    const struct trace_value *y = trace_at(c->trace, out, role == MGPT_W_U ? -1 : layer);
    mgpt_tensor t, b;
    float *w = role_values(c->s->model, role, layer, MGPT_WEIGHT, &t);
    float *bias = role_values(c->s->model, role, layer, MGPT_BIAS, &b);
    if (x->data && y->data) {
        assert_non_null(w);
        size_t n_in = (size_t)t.dims[0], n_out = (size_t)t.dims[1];
        assert_int_equal(x->cols, n_in);
        assert_int_equal(y->cols, n_out);
        double *want = toy_alloc(n_out, sizeof *want);
        for (size_t r = 0; r < n_out; r++) {
            want[r] = bias ? (double)bias[r] : 0;
            for (size_t i = 0; i < n_in; i++)
                want[r] += (double)w[r * n_in + i] * x->data[i];
            want[r] *= times;
        }
        double far = apart(want, y->data, n_out, any_order);
        if (!(far < 1e-3))
            fail_msg("%s: %s of layer %d: NMSE %g", c->s->m->spec.label, mgpt_role_name(role),
                     layer, far);
        free(want);
        c->done++;
    }
    free(w);
    free(bias);
}

/* The value at a point is the norm of kind `kind` of the residual at another. */
static void check_norm(struct role_check *c, int layer, mgpt_role role, int kind,
                       const struct trace_value *x, const struct trace_value *y)
{
    mgpt_tensor t, b;
    float *gain = role_values(c->s->model, role, layer, MGPT_WEIGHT, &t);
    float *bias = role_values(c->s->model, role, layer, MGPT_BIAS, &b);
    size_t n = (size_t)c->s->m->spec.n_embd;
    double mean = 0, square = 0, *want = toy_alloc(n, sizeof *want);
    assert_true(x->data && y->data);
    for (size_t i = 0; i < n && kind == MGPT_LAYERNORM; i++)
        mean += x->data[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        square += (x->data[i] - mean) * (x->data[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++) {
        want[i] = kind ? (x->data[i] - mean) / sqrt(square + c->s->m->spec.eps) : x->data[i];
        want[i] = want[i] * (gain ? (double)gain[i] : 1) + (bias ? (double)bias[i] : 0);
    }
    if (!(apart(want, y->data, n, 0) < 1e-6))
        fail_msg("%s: %s of layer %d: NMSE %g", c->s->m->spec.label, mgpt_role_name(role), layer,
                 apart(want, y->data, n, 0));
    free(want);
    free(gain);
    free(bias);
    c->done++;
}

static void check_layer(struct role_check *c, int i)
{
    const struct toy_spec *spec = &c->s->m->spec;
    mgpt_layer l;
    assert_int_equal(mgpt_get_layer(c->s->model, (size_t)i, &l, NULL), MGPT_OK);
    double scale = spec->residual_scale != 0 ? spec->residual_scale : 1;
    const struct trace_value *mid = trace_at(c->trace, MGPT_RESID_MID, i);
    const struct trace_value *pre = trace_at(c->trace, MGPT_RESID_PRE, i);
    int gated = trace_at(c->trace, MGPT_MLP_PRE_LINEAR, i)->data != NULL;
    int before = spec->row->norms <= NORMS_SHARED || spec->row->norms == NORMS_AROUND;
    int behind = spec->row->norms == NORMS_AFTER || spec->row->norms == NORMS_AROUND;
    assert_int_equal(l.ln1 != MGPT_NO_NORM, before && (i > 0 || !spec->row->dense_head));
    assert_int_equal(l.ln2 != MGPT_NO_NORM, before);
    assert_int_equal(l.ln1_post != MGPT_NO_NORM, behind);
    assert_int_equal(l.ln2_post != MGPT_NO_NORM, behind);
    assert_int_equal(l.ln_mid != MGPT_NO_NORM, spec->row->norms == NORMS_RESIDUAL);
    assert_int_equal(l.ln_post != MGPT_NO_NORM, spec->row->norms == NORMS_RESIDUAL);
    int qk = (spec->row->qk != QK_PLAIN || spec->head_gains || spec->qk_norms) && !l.n_conv;
    assert_int_equal(l.q_norm != MGPT_NO_NORM, qk);
    assert_int_equal(l.k_norm != MGPT_NO_NORM, qk && !toy_shares(spec, i));
    assert_int_equal(l.kv_from, toy_source(spec, i));
    assert_int_equal(l.n_head, toy_heads(spec, i));
    if (spec->qkv_clamp == 0) {
        if (!spec->n_q_latent)
            check_product(c, i, MGPT_W_Q, MGPT_ATTN_IN, MGPT_Q, 1, 1);
        if (!spec->n_latent)
            check_product(c, i, MGPT_W_K, MGPT_ATTN_IN, MGPT_K, 1, 1);
        if (!spec->value_gate && !spec->n_latent && !spec->row->v_norm)
            check_product(c, i, MGPT_W_V, MGPT_ATTN_IN, MGPT_V,
                          spec->value_scale != 0 ? spec->value_scale : 1, 0);
    }
    if (!behind)
        check_product(c, i, MGPT_W_O, MGPT_HEADS, MGPT_ATTN_OUT, scale, 0);
    check_product(c, i, MGPT_W_ROUTER, MGPT_MLP_IN, MGPT_ROUTER_SCORES, 1, 0);
    if (gated)
        check_product(c, i, MGPT_W_GATE, MGPT_MLP_IN, MGPT_MLP_PRE, 1, 0);
    check_product(c, i, MGPT_W_UP, MGPT_MLP_IN, gated ? MGPT_MLP_PRE_LINEAR : MGPT_MLP_PRE, 1, 0);
    if (!behind && !spec->n_expert)
        check_product(c, i, MGPT_W_DOWN, MGPT_MLP_POST, MGPT_MLP_OUT, scale, 0);
    if (before) {
        check_norm(c, i, MGPT_LN1, l.ln1, pre, trace_at(c->trace, MGPT_ATTN_IN, i));
        check_norm(c, i, MGPT_LN2, l.ln2, mid->data ? mid : pre,
                   trace_at(c->trace, MGPT_MLP_IN, i));
    }
}

TEST_ZOO(tensors_do_what_their_roles_say)
{
    int n_layer = s->m->spec.n_layer;
    struct role_check c = {s, trace_new(n_layer, 1), 0};
    mgpt_session *session = subject_session(s->model, 0, 1);
    mgpt_info info;
    assert_int_equal(mgpt_get_info(s->model, &info, NULL), MGPT_OK);
    assert_int_equal(mgpt_tap(session, MGPT_POINT_BIT(MGPT_N_POINTS) - 1, trace_tap,
                              (void *)(uintptr_t)c.trace, NULL),
                     MGPT_OK);
    subject_feed(session, s->tokens, 1);
    for (int i = 0; i < n_layer; i++)
        check_layer(&c, i);
    const struct trace_value *final = trace_at(c.trace, MGPT_FINAL, -1);
    assert_int_equal(info.ln_final != MGPT_NO_NORM, final->data != NULL);
    assert_int_equal(info.ln_embd != MGPT_NO_NORM,
                     trace_at(c.trace, MGPT_EMBD_NORM, -1)->data != NULL);
    if (final->data && n_layer)
        check_norm(&c, -1, MGPT_LN_FINAL, info.ln_final,
                   trace_at(c.trace, MGPT_RESID_POST, n_layer - 1), final);
    mgpt_tensor t;
    mgpt_point read =
        has_role(s->model, MGPT_W_HEAD, 0, MGPT_WEIGHT, &t) ? MGPT_HEAD_IN : MGPT_FINAL;
    assert_int_equal(read == MGPT_HEAD_IN, trace_at(c.trace, MGPT_HEAD_IN, -1)->data != NULL);
    if (info.logit_softcap == 0)
        check_product(&c, -1, MGPT_W_U, read, MGPT_LOGITS, (double)info.logit_scale, 0);
    assert_true(c.done >= 4 * n_layer);
    mgpt_session_free(session);
    trace_free((struct trace *)(uintptr_t)c.trace);
}

/* ---- names and errors ---- */

TEST(names)
{
    for (int i = 0; i < MGPT_N_ROLES; i++) {
        assert_non_null(mgpt_role_name((mgpt_role)i));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(mgpt_role_name((mgpt_role)i), mgpt_role_name((mgpt_role)k));
    }
    assert_string_equal(mgpt_role_name(MGPT_W_Q), "W_Q");
    assert_string_equal(mgpt_role_name(MGPT_LN_FINAL), "ln_final");
    assert_null(mgpt_role_name(MGPT_N_ROLES));
    assert_null(mgpt_role_name((mgpt_role)-1));
}

TEST(what_is_refused)
{
    static const struct {
        int role, layer, part;
        const char *text;
    } rows[] = {
        {MGPT_W_Q, -1, MGPT_WEIGHT, "mgpt_find_role: no W_Q in layer -1"},
        {MGPT_W_Q, 1, MGPT_WEIGHT, "mgpt_find_role: no W_Q in layer 1"},
        {MGPT_N_ROLES, 0, MGPT_WEIGHT, "mgpt_find_role: no such role in layer 0"},
        {MGPT_W_Q, 0, 2, "mgpt_find_role: no W_Q in layer 0"},
        {MGPT_W_Q, 0, MGPT_BIAS, "mgpt_find_role: the model has no bias of W_Q in layer 0"},
        {MGPT_LN1, 0, MGPT_WEIGHT, "mgpt_find_role: the model has no weight of ln1 in layer 0"},
        {MGPT_LN_FINAL, 7, MGPT_WEIGHT, "mgpt_find_role: the model has no weight of ln_final"}};
    struct subject s = subject_zoo(ZOO_MICROGPT);
    mgpt_tensor t;
    mgpt_error err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(mgpt_find_role(s.model, (mgpt_role)rows[i].role, rows[i].layer,
                                        (mgpt_part)rows[i].part, &t, &err),
                         MGPT_EARG);
        assert_string_equal(err.text, rows[i].text);
    }
    assert_int_equal(mgpt_find_role(NULL, MGPT_W_Q, 0, MGPT_WEIGHT, &t, &err), MGPT_EARG);
    assert_int_equal(mgpt_find_role(s.model, MGPT_W_Q, 0, MGPT_WEIGHT, NULL, &err), MGPT_EARG);
    assert_int_equal(mgpt_find_role(s.model, MGPT_W_E, 9, MGPT_WEIGHT, &t, &err), MGPT_OK);
    subject_free(&s);
}
