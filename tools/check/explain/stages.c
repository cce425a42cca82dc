/* Tensors and points. See stages.h. */
#include "check/explain/stages.h"

#include "engine/layers.h"

#include <string.h>

#define NO_INPUT MGPT_N_POINTS
enum { NO_ROLE = -1 };

static const struct {
    int role, fused;
    mgpt_point point, input; /* NO_INPUT: not a matrix that is multiplied with something */
} stages[] = {
    {MGPT_W_E, NO_ROLE, MGPT_EMBD, NO_INPUT},
    {MGPT_W_POS, NO_ROLE, MGPT_POS_EMBD, NO_INPUT},
    {MGPT_W_POS, NO_ROLE, MGPT_RESID_PRE, NO_INPUT},
    {MGPT_LN1, NO_ROLE, MGPT_ATTN_IN, NO_INPUT},
    {MGPT_W_Q, ORACLE_W_QKV, MGPT_Q, MGPT_ATTN_IN},
    {MGPT_W_K, ORACLE_W_QKV, MGPT_K, MGPT_ATTN_IN},
    {MGPT_W_V, ORACLE_W_QKV, MGPT_V, MGPT_ATTN_IN},
    {MGPT_Q_NORM, NO_ROLE, MGPT_ROT_Q, NO_INPUT},
    {MGPT_K_NORM, NO_ROLE, MGPT_ROT_K, NO_INPUT},
    {MGPT_HEAD_GATE, NO_ROLE, MGPT_GATES, MGPT_ATTN_IN},
    {MGPT_W_O, NO_ROLE, MGPT_ATTN_OUT, MGPT_HEADS},
    {MGPT_LN1_POST, NO_ROLE, MGPT_ATTN_OUT, NO_INPUT},
    {MGPT_LN2, NO_ROLE, MGPT_MLP_IN, NO_INPUT},
    {MGPT_W_GATE, NO_ROLE, MGPT_MLP_PRE, MGPT_MLP_IN},
    {MGPT_W_UP, NO_ROLE, MGPT_MLP_PRE, MGPT_MLP_IN}, /* without a gate */
    {MGPT_W_UP, NO_ROLE, MGPT_MLP_PRE_LINEAR, MGPT_MLP_IN},
    {MGPT_W_DOWN, NO_ROLE, MGPT_MLP_OUT, MGPT_MLP_POST},
    {MGPT_LN2_POST, NO_ROLE, MGPT_MLP_OUT, NO_INPUT},
    {MGPT_LN_FINAL, NO_ROLE, MGPT_FINAL, NO_INPUT},
    {MGPT_LN_HEAD, NO_ROLE, MGPT_HEAD_IN, NO_INPUT},
    {MGPT_W_U, NO_ROLE, MGPT_LOGITS, MGPT_FINAL},
    {MGPT_W_E, NO_ROLE, MGPT_LOGITS, MGPT_FINAL}, /* a tied head */
};
enum { N_STAGES = sizeof stages / sizeof *stages };

static int is_norm(int role)
{
    const char *word = oracle_word(role);
    return strncmp(word, "ln", 2) == 0 || strstr(word, "_norm") != NULL;
}

uint64_t stage_points(const char *tensors)
{
    uint64_t points = 0;
    for (const char *at = tensors; at && *at && *at != '=';) {
        int role = oracle_role_of_word(at, strcspn(at, " =."));
        for (size_t i = 0; i < N_STAGES; i++)
            if (role >= 0 && (role == stages[i].role || role == stages[i].fused))
                points |= MGPT_POINT_BIT(stages[i].point);
        at += strcspn(at, " =");
        at += *at == ' ';
    }
    return points;
}

int stage_norm(mgpt_point point)
{
    for (size_t i = 0; i < N_STAGES && point != MGPT_ROT_Q && point != MGPT_ROT_K; i++)
        if (stages[i].point == point && is_norm(stages[i].role))
            return stages[i].role;
    return NO_ROLE;
}

int stage_tensor(const mgpt_model *m, int layer, int role, const char *kind, char name[80],
                 mgpt_tensor *t)
{
    oracle_model_name(m, layer, role, kind, name);
    return oracle_tensor_find(m, name, t);
}

/* First row of q, k or v in the tensor that holds all three. */
static size_t first_row(const mgpt_model *m, int layer, mgpt_point point)
{
    mgpt_layer l = engine_layer(m, layer);
    size_t q = (size_t)l.n_head * (size_t)l.head_dim;
    if (point == MGPT_Q)
        return 0;
    return point == MGPT_K ? q : q + (size_t)l.n_head_kv * (size_t)l.head_dim;
}

int stage_is_normed(const mgpt_model *m, struct ref_hook hook)
{
    int role = stage_norm(hook.point);
    char name[80];
    mgpt_tensor t;
    if (hook.point != MGPT_ATTN_OUT && hook.point != MGPT_MLP_OUT)
        return role >= 0;
    return role >= 0 && stage_tensor(m, hook.layer, role, ".weight", name, &t);
}

int stage_product(struct stage_product *p, const mgpt_model *m, struct ref_hook hook)
{
    for (size_t i = 0; i < N_STAGES && !stage_is_normed(m, hook); i++) {
        if (stages[i].point != hook.point || stages[i].input == NO_INPUT)
            continue;
        *p = (struct stage_product){.role = stages[i].role, .input = stages[i].input};
        if (p->input == MGPT_FINAL &&
            stage_tensor(m, hook.layer, MGPT_W_HEAD, ".weight", p->name, &p->tensor))
            p->input = MGPT_HEAD_IN;
        int there = stage_tensor(m, hook.layer, p->role, ".weight", p->name, &p->tensor);
        if (!there && stages[i].fused >= 0) {
            p->role = stages[i].fused;
            p->first_row = first_row(m, hook.layer, hook.point);
            there = stage_tensor(m, hook.layer, p->role, ".weight", p->name, &p->tensor);
        }
        if (hook.point == MGPT_Q || hook.point == MGPT_K)
            p->order = oracle_qk_order(m, &p->head_dim);
        p->n_in = there ? (size_t)p->tensor.dims[0] : 0;
        mgpt_info info; /* latent attention: q, k and v are no products of the normed residual */
        if (mgpt_get_info(m, &info, NULL) == MGPT_OK && info.n_latent && hook.point <= MGPT_V)
            return 0;
        if (there)
            return 1;
    }
    return 0;
}

size_t stage_product_row(const struct stage_product *p, size_t column)
{
    size_t i = p->order ? column % p->head_dim : 0;
    return p->first_row + (p->order ? column - i + p->order[i] : column);
}
