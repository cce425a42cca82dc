/* Tensors and points. See stages.h. */
#include "check/explain/stages.h"

#include <string.h>

#define NO_INPUT MGPT_N_POINTS

static const struct {
    const char *stem, *fused;
    mgpt_point point, input; /* NO_INPUT: not a matrix that is multiplied with something */
} stages[] = {
    {"token_embd", NULL, MGPT_EMBD, NO_INPUT},
    {"position_embd", NULL, MGPT_POS_EMBD, NO_INPUT},
    {"position_embd", NULL, MGPT_RESID_PRE, NO_INPUT},
    {"attn_norm", NULL, MGPT_ATTN_IN, NO_INPUT},
    {"attn_q", "attn_qkv", MGPT_Q, MGPT_ATTN_IN},
    {"attn_k", "attn_qkv", MGPT_K, MGPT_ATTN_IN},
    {"attn_v", "attn_qkv", MGPT_V, MGPT_ATTN_IN},
    {"attn_q_norm", NULL, MGPT_ROT_Q, NO_INPUT},
    {"attn_k_norm", NULL, MGPT_ROT_K, NO_INPUT},
    {"attn_output", NULL, MGPT_ATTN_OUT, MGPT_HEADS},
    {"post_attention_norm", NULL, MGPT_ATTN_OUT, NO_INPUT},
    {"ffn_norm", NULL, MGPT_MLP_IN, NO_INPUT},
    {"ffn_gate", NULL, MGPT_MLP_PRE, MGPT_MLP_IN},
    {"ffn_up", NULL, MGPT_MLP_PRE, MGPT_MLP_IN}, /* without a gate */
    {"ffn_up", NULL, MGPT_MLP_PRE_LINEAR, MGPT_MLP_IN},
    {"ffn_down", NULL, MGPT_MLP_OUT, MGPT_MLP_POST},
    {"post_ffw_norm", NULL, MGPT_MLP_OUT, NO_INPUT},
    {"output_norm", NULL, MGPT_FINAL, NO_INPUT},
    {"output", NULL, MGPT_LOGITS, MGPT_FINAL},
    {"token_embd", NULL, MGPT_LOGITS, MGPT_FINAL}, /* a tied head */
};
enum { N_STAGES = sizeof stages / sizeof *stages };

static int is_word(const char *word, size_t n, const char *stem)
{
    return stem && strlen(stem) == n && memcmp(word, stem, n) == 0;
}

uint64_t stage_points(const char *tensors)
{
    uint64_t points = 0;
    for (const char *at = tensors; at && *at && *at != '=';) {
        size_t n = strcspn(at, " =.");
        for (size_t i = 0; i < N_STAGES; i++)
            if (is_word(at, n, stages[i].stem) || is_word(at, n, stages[i].fused))
                points |= MGPT_POINT_BIT(stages[i].point);
        at += strcspn(at, " =");
        at += *at == ' ';
    }
    return points;
}

const char *stage_norm(mgpt_point point)
{
    for (size_t i = 0; i < N_STAGES && point != MGPT_ROT_Q && point != MGPT_ROT_K; i++)
        if (stages[i].point == point && strstr(stages[i].stem, "_norm"))
            return stages[i].stem;
    return NULL;
}

int stage_tensor(const mgpt_model *m, int layer, const char *stem, const char *kind, char name[80],
                 mgpt_tensor *t)
{
    oracle_name(name, layer, stem, kind);
    return oracle_tensor_find(m, name, t);
}

/* First row of q, k or v in the tensor that holds all three. */
static size_t first_row(const mgpt_model *m, mgpt_point point)
{
    mgpt_info info;
    if (mgpt_get_info(m, &info, NULL) < 0 || point == MGPT_Q)
        return 0;
    size_t d = (size_t)info.head_dim, q = (size_t)info.n_head * d;
    return point == MGPT_K ? q : q + (size_t)info.n_head_kv * d;
}

int stage_is_normed(const mgpt_model *m, struct ref_hook hook)
{
    const char *stem = stage_norm(hook.point);
    char name[80];
    mgpt_tensor t;
    if (hook.point != MGPT_ATTN_OUT && hook.point != MGPT_MLP_OUT)
        return stem != NULL;
    return stem && stage_tensor(m, hook.layer, stem, ".weight", name, &t);
}

int stage_product(struct stage_product *p, const mgpt_model *m, struct ref_hook hook)
{
    for (size_t i = 0; i < N_STAGES && !stage_is_normed(m, hook); i++) {
        if (stages[i].point != hook.point || stages[i].input == NO_INPUT)
            continue;
        *p = (struct stage_product){.stem = stages[i].stem, .input = stages[i].input};
        int there = stage_tensor(m, hook.layer, p->stem, ".weight", p->name, &p->tensor);
        if (!there && stages[i].fused) {
            p->stem = stages[i].fused;
            p->first_row = first_row(m, hook.point);
            there = stage_tensor(m, hook.layer, p->stem, ".weight", p->name, &p->tensor);
        }
        if (hook.point == MGPT_Q || hook.point == MGPT_K)
            p->order = oracle_qk_order(m, &p->head_dim);
        p->n_in = there ? (size_t)p->tensor.dims[0] : 0;
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
