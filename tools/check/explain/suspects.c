/* The usual suspects. See suspects.h. Each names what the reference does where we do otherwise. */
#include "check/explain/suspects_impl.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BIT(point) MGPT_POINT_BIT(MGPT_##point)

static const uint64_t at_rope = BIT(ROT_Q) | BIT(ROT_K), at_qk = BIT(Q) | BIT(K),
                      at_scores = BIT(SCORES),
                      at_start = BIT(EMBD) | BIT(POS_EMBD) | BIT(EMBD_NORM);
static const uint64_t at_norms = BIT(ATTN_IN) | BIT(MLP_IN) | BIT(FINAL) | BIT(EMBD_NORM);
static const uint64_t anywhere = MGPT_POINT_BIT(MGPT_N_POINTS) - 1;

struct list {
    struct suspect *rows;
    int failed;
};

static void suspects_put(struct list *l, const char *cause, struct suspect row)
{
    text_format(row.cause, sizeof row.cause, "%s", cause);
    if (!arr_push(l->rows, row))
        l->failed = 1;
}

/* The same with a number in the text. */
static void put_number(struct list *l, const char *cause, double x, struct suspect row)
{
    char text[sizeof row.cause];
    snprintf(text, sizeof text, cause, x);
    row.x = x;
    suspects_put(l, text, row);
}

/* Rows in the order of another rotation. */
static void put_pairs(struct list *l, const char *what, const char *stems, uint64_t points)
{
    static const char *const orders[] = {"halves'", "pairs'"};
    char text[112];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "rows of %s permuted once too often, or not at all: in %s order", what, orders[i]);
        suspects_put(l, text,
                     (struct suspect){.points = points,
                                      .per_layer = 1,
                                      .a = i ? ORDER_TO_PAIRS : ORDER_FROM_PAIRS,
                                      .s = stems,
                                      .apply = suspect_order});
    }
}

static void put_rope(struct list *l, const struct whatif *w)
{
    static const double bases[] = {1e4,   5e5, 1e6, 5e6, 1e5,   1.5e5, 2e5,   2.5e5, 5e4,
                                   1.6e5, 1e3, 5e3, 2e4, 2.5e4, 4e4,   7.5e4, 3e5,   4e5,
                                   1.5e6, 2e6, 3e6, 4e6, 8e6,   1e7,   5e7,   1e8,   500};
    static const double factors[] = {2, 4, 8, 16, 32, 0.5, 0.25, 0.125};
    const char *now = w->layers[0].halves
                          ? "RoPE turns adjacent pairs, not halves (or rows of q and k stand so)"
                          : "RoPE turns halves, not adjacent pairs (or rows of q and k stand so)";
    char text[112];
    suspects_put(l, now,
                 (struct suspect){.points = at_rope, .per_layer = 1, .apply = suspect_pairs});
    put_pairs(l, "q and k", "attn_q attn_k", at_qk);
    put_pairs(l, "q", "attn_q", BIT(Q));
    put_pairs(l, "k", "attn_k", BIT(K));
    suspects_put(
        l, "q and k recorded as GGUF and llama2.c have them, a pair side by side, not in halves",
        (struct suspect){.points = at_qk | at_rope, .per_layer = 1, .apply = suspect_stored});
    suspects_put(l, "no RoPE at all",
                 (struct suspect){.points = at_rope, .per_layer = 1, .apply = suspect_no_rope});
    suspects_put(
        l, "RoPE turns the other way",
        (struct suspect){.points = at_rope, .per_layer = 1, .x = -1, .apply = suspect_factor});
    suspects_put(l, "rope frequencies without scaling or divisors",
                 (struct suspect){.points = at_rope, .apply = suspect_unscaled});
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        snprintf(text, sizeof text, "rope base %.6g, not %.6g", bases[i],
                 (double)w->info.rope_base);
        suspects_put(l, text,
                     (struct suspect){.points = at_rope, .x = bases[i], .apply = suspect_base});
    }
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        put_number(l, "rope positions divided by %.4g", factors[i],
                   (struct suspect){.points = at_rope, .apply = suspect_factor});
    put_number(l, "rope scaled as Llama 3.1 does, factor %.4g", 8,
               (struct suspect){.points = at_rope, .apply = suspect_llama3});
    put_number(l, "rope scaled as Llama 3.1 does, factor %.4g", 32,
               (struct suspect){.points = at_rope, .apply = suspect_llama3});
}

static void put_tokens(struct list *l)
{
    const uint64_t at = at_start | BIT(RESID_PRE);
    suspects_put(l, "a BOS in front of the tokens (missing here)",
                 (struct suspect){.points = anywhere, .apply = suspect_bos_added});
    suspects_put(l, "no BOS, the first token is not there (doubled here)",
                 (struct suspect){.points = anywhere, .apply = suspect_first_dropped});
    suspects_put(l, "row n of the reference is that of position n + 1",
                 (struct suspect){.points = anywhere, .a = -1, .apply = suspect_rows_shifted});
    suspects_put(l, "row n of the reference is that of position n - 1",
                 (struct suspect){.points = anywhere, .a = 1, .apply = suspect_rows_shifted});
    suspects_put(l, "tokens moved: the reference's token n is the one named n + 1",
                 (struct suspect){.points = anywhere, .a = 1, .apply = suspect_tokens_moved});
    suspects_put(l, "tokens moved: the reference's token n is the one named n - 1",
                 (struct suspect){.points = anywhere, .a = -1, .apply = suspect_tokens_moved});
    suspects_put(
        l, "tokens moved: the reference's begin with BOS, and token n is the one named n - 1",
        (struct suspect){.points = anywhere, .a = -1, .b = 1, .apply = suspect_tokens_moved});
    suspects_put(l, "token ids larger by one",
                 (struct suspect){.points = at, .a = 1, .apply = suspect_ids_shifted});
    suspects_put(l, "token ids smaller by one",
                 (struct suspect){.points = at, .a = -1, .apply = suspect_ids_shifted});
    suspects_put(l, "positions off by one: the first is 1",
                 (struct suspect){.points = at | at_rope, .a = 1, .apply = suspect_shift});
    suspects_put(l, "positions off by one: the first two are 0",
                 (struct suspect){.points = at | at_rope, .a = -1, .apply = suspect_shift});
    suspects_put(l, "positions off by two: the first is 2",
                 (struct suspect){.points = at | at_rope, .a = 2, .apply = suspect_shift});
}

static void suspects_put_attention(struct list *l, const struct whatif *w)
{
    double d = (double)w->spec.head_dim;
    suspects_put(
        l, "no 1/sqrt(d) in attention",
        (struct suspect){.points = at_scores, .per_layer = 1, .x = 1, .apply = suspect_attn_scale});
    suspects_put(
        l, "1/sqrt(d) in attention",
        (struct suspect){
            .points = at_scores, .per_layer = 1, .x = 1 / sqrt(d), .apply = suspect_attn_scale});
    suspects_put(l, "1/d in attention (scaled twice)",
                 (struct suspect){
                     .points = at_scores, .per_layer = 1, .x = 1 / d, .apply = suspect_attn_scale});
    suspects_put(l, "1/sqrt(n_embd) in attention",
                 (struct suspect){.points = at_scores,
                                  .x = 1 / sqrt((double)w->spec.n_embd),
                                  .apply = suspect_attn_scale});
    put_number(l, "a soft cap of %.4g on attention scores", 50,
               (struct suspect){.points = at_scores, .apply = suspect_attn_cap});
    suspects_put(l, "no sliding window",
                 (struct suspect){.points = at_scores, .apply = suspect_window});
    suspects_put(l, "a sliding window of one more",
                 (struct suspect){.points = at_scores, .a = 1, .apply = suspect_window});
    suspects_put(l, "a sliding window of one less",
                 (struct suspect){.points = at_scores, .a = -1, .apply = suspect_window});
    suspects_put(l, "query head h reads KV head h % G, not h / (H / G)",
                 (struct suspect){.points = at_scores | BIT(HEADS), .apply = suspect_kv_heads});
    suspects_put(l, "no clamp of q, k, v",
                 (struct suspect){.points = at_qk | BIT(V), .apply = suspect_unclamped});
    suspects_put(l, w->spec.qk_norm == ORACLE_QK_PLAIN ? "norms of q and k" : "no norms of q and k",
                 (struct suspect){.points = at_rope | at_scores, .apply = suspect_qk_norms});
}

static void heads_text(char *text, size_t cap, size_t n, size_t n_kv)
{
    size_t at = text_format(text, cap, "%zu head%s", n, n == 1 ? "" : "s");
    if (n_kv != n)
        text_format(text + at, cap - at, " (%zu KV)", n_kv);
}

/* What a converter that took the wrong number of heads did to rows of q and k, or ORDER_SAME. */
static enum whatif_order head_order(const struct whatif *w)
{
    mgpt_tensor t;
    if (w->spec.n_rot == 0)
        return ORDER_SAME;
    if (w->layers[0].stored != ORACLE_AS_SHOWN)
        return ORDER_REBLOCKED;
    int fused = oracle_tensor_find(w->model, "blk.0.attn_qkv.weight", &t);
    return fused && w->spec.n_head == w->spec.n_head_kv ? ORDER_REGROUPED : ORDER_SAME;
}

/* Every number of heads that the rows of q and k allow. */
static void put_head_counts(struct list *l, const struct whatif *w)
{
    const struct oracle_spec *o = &w->spec;
    size_t n_q = o->n_head * o->head_dim, n_kv = o->n_head_kv * o->head_dim;
    enum whatif_order orders[2] = {ORDER_SAME, head_order(w)};
    uint64_t points = at_rope | at_scores | BIT(HEADS);
    char text[144], was[48], is[48];
    heads_text(was, sizeof was, o->n_head, o->n_head_kv);
    if (orders[1] != ORDER_SAME)
        points |= at_qk | BIT(V);
    for (size_t d = n_kv; d > 0; d--) {
        if (n_q % d || n_kv % d || d == o->head_dim)
            continue;
        heads_text(is, sizeof is, n_q / d, n_kv / d);
        for (int i = 0; i < (orders[1] == ORDER_SAME ? 1 : 2); i++) {
            text_format(text, sizeof text, "%s of width %zu, not %s of width %zu%s", is, d, was,
                        o->head_dim, i ? " (q and k were reordered for those)" : "");
            suspects_put(
                l, text,
                (struct suspect){
                    .points = points, .a = (int)d, .b = (int)orders[i], .apply = suspect_heads});
        }
    }
}

static void put_swaps(struct list *l)
{
    static const struct {
        const char *a, *b, *cause;
        uint64_t points;
    } rows[] = {
        {"ffn_gate", "ffn_up", "gate and up exchanged", BIT(MLP_PRE) | BIT(MLP_PRE_LINEAR)},
        {"attn_q", "attn_k", "q and k exchanged", BIT(Q) | BIT(K)},
        {"attn_k", "attn_v", "k and v exchanged", BIT(K) | BIT(V)},
        {"attn_q", "attn_v", "q and v exchanged", BIT(Q) | BIT(V)},
        {"attn_q", "attn_output", "q and attention's output exchanged", BIT(Q) | BIT(ATTN_OUT)},
        {"attn_norm", "ffn_norm", "the two norms of a layer exchanged", BIT(ATTN_IN) | BIT(MLP_IN)},
        {"post_attention_norm", "post_ffw_norm", "the two norms behind branches exchanged",
         BIT(ATTN_OUT) | BIT(MLP_OUT)},
        {"attn_q_norm", "attn_k_norm", "norms of q and k exchanged", BIT(ROT_Q) | BIT(ROT_K)},
        {"output", "token_embd", "embedding and head exchanged", BIT(EMBD) | BIT(LOGITS)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        suspects_put(l, rows[i].cause,
                     (struct suspect){.points = rows[i].points,
                                      .per_layer = 1,
                                      .s = rows[i].a,
                                      .t = rows[i].b,
                                      .apply = suspect_swapped});
}

static void put_turned(struct list *l)
{
    static const struct {
        const char *list, *one;
        uint64_t points;
    } rows[] = {
        {"attn_output", "attn_output", BIT(ATTN_OUT)},
        {"attn_q attn_k attn_v attn_output", "attn_q", BIT(Q) | BIT(K) | BIT(V) | BIT(ATTN_OUT)},
        {"attn_q attn_k attn_v", "attn_q", BIT(Q) | BIT(K) | BIT(V)},
        {"attn_q attn_k", "attn_q", BIT(Q) | BIT(K)},
        {"attn_q", "attn_q", BIT(Q)},
        {"attn_k", "attn_k", BIT(K)},
        {"attn_v", "attn_v", BIT(V)},
        {"attn_qkv", "attn_qkv", BIT(Q) | BIT(K) | BIT(V)},
        {"attn_qkv attn_output", "attn_qkv", BIT(Q) | BIT(K) | BIT(V) | BIT(ATTN_OUT)},
        {"ffn_up", "ffn_up", BIT(MLP_PRE) | BIT(MLP_PRE_LINEAR)},
        {"ffn_gate", "ffn_gate", BIT(MLP_PRE)},
        {"ffn_down", "ffn_down", BIT(MLP_OUT)},
        {"ffn_up ffn_down", "ffn_up", BIT(MLP_PRE) | BIT(MLP_PRE_LINEAR) | BIT(MLP_OUT)},
        {"ffn_gate ffn_up ffn_down", "ffn_gate", BIT(MLP_PRE) | BIT(MLP_PRE_LINEAR)},
        {"output", "output", BIT(LOGITS)},
        {"attn_qkv attn_output ffn_up ffn_down", "attn_qkv", BIT(Q) | BIT(K) | BIT(V)},
        {"attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down", "attn_q",
         BIT(Q) | BIT(K) | BIT(V)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct suspect row = {.points = rows[i].points,
                              .per_layer = 1,
                              .s = rows[i].list,
                              .t = rows[i].one,
                              .apply = suspect_turned};
        char text[sizeof row.cause];
        snprintf(text, sizeof text, "transposed: %s", rows[i].list);
        suspects_put(l, text, row);
    }
}

static void put_activations(struct list *l)
{
    static const char *const names[] = {"gelu_tanh", "gelu_erf", "gelu_quick",
                                        "silu",      "relu",     "relu2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[64];
        snprintf(text, sizeof text, "activation %s", names[i]);
        suspects_put(l, text,
                     (struct suspect){.points = BIT(MLP_POST),
                                      .per_layer = 1,
                                      .s = names[i],
                                      .apply = suspect_activation});
    }
}

static void put_norms(struct list *l, const struct whatif *w)
{
    static const double values[] = {1e-5, 1e-6, 1e-8, 1e-12, 1e-4, 1e-3, 1e-2, 1e-7};
    suspects_put(l, w->spec.final_norm ? "no final norm" : "a final norm",
                 (struct suspect){.points = BIT(FINAL) | BIT(LOGITS), .apply = suspect_final_norm});
    suspects_put(
        l, w->spec.embd_norm ? "no norm after the embedding" : "a norm after the embedding",
        (struct suspect){.points = BIT(EMBD_NORM) | BIT(RESID_PRE), .apply = suspect_embd_norm});
    suspects_put(l, w->spec.layer_norm ? "RMSNorm, not LayerNorm" : "LayerNorm, not RMSNorm",
                 (struct suspect){.points = at_norms, .apply = suspect_norm_kind});
    suspects_put(
        l, "no norm (or another) before attention",
        (struct suspect){
            .points = BIT(ATTN_IN), .per_layer = 1, .a = 1, .apply = suspect_branch_norms});
    suspects_put(l, "no norm (or another) before the MLP",
                 (struct suspect){
                     .points = BIT(MLP_IN), .per_layer = 1, .a = 2, .apply = suspect_branch_norms});
    suspects_put(l, "gains of norms as they stand + 1",
                 (struct suspect){.points = at_norms, .x = 1, .apply = suspect_gains});
    suspects_put(l, "gains of norms as they stand - 1",
                 (struct suspect){.points = at_norms, .x = -1, .apply = suspect_gains});
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        put_number(l, "epsilon of norms %.3g", values[i],
                   (struct suspect){.points = at_norms | at_rope, .apply = suspect_eps});
}

static void put_hidden(struct list *l)
{
    static const struct {
        const char *name;
        uint64_t points;
    } rows[] = {{"attn_norm.weight", BIT(ATTN_IN)},
                {"ffn_norm.weight", BIT(MLP_IN)},
                {"output_norm.weight", BIT(FINAL)},
                {"attn_norm.bias", BIT(ATTN_IN)},
                {"ffn_norm.bias", BIT(MLP_IN)},
                {"output_norm.bias", BIT(FINAL)},
                {"attn_q.bias", BIT(Q)},
                {"attn_k.bias", BIT(K)},
                {"attn_v.bias", BIT(V)},
                {"attn_qkv.bias", BIT(Q) | BIT(K) | BIT(V)},
                {"attn_output.bias", BIT(ATTN_OUT)},
                {"ffn_up.bias", BIT(MLP_PRE)},
                {"ffn_down.bias", BIT(MLP_OUT)},
                {"output.bias", BIT(LOGITS)},
                {"position_embd.weight", BIT(POS_EMBD) | BIT(RESID_PRE)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[96];
        snprintf(text, sizeof text, "without %s", rows[i].name);
        suspects_put(l, text,
                     (struct suspect){.points = rows[i].points,
                                      .per_layer = 1,
                                      .s = rows[i].name,
                                      .apply = suspect_hidden});
    }
}

static void put_rest(struct list *l, const struct whatif *w)
{
    static const double caps[] = {0, 30, 15, 50, 20};
    suspects_put(
        l, "tied head: the token embedding, not output.weight",
        (struct suspect){.points = BIT(LOGITS), .s = "output.weight", .apply = suspect_hidden});
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        put_number(l,
                   caps[i] > 0 ? "a soft cap of %.4g on the logits" : "no soft cap on the logits",
                   caps[i], (struct suspect){.points = BIT(LOGITS), .apply = suspect_softcap});
    suspects_put(l, "embeddings times sqrt(n_embd)",
                 (struct suspect){.points = BIT(EMBD),
                                  .x = sqrt((double)w->spec.n_embd),
                                  .apply = suspect_embd_scale});
    suspects_put(l, "embeddings not multiplied",
                 (struct suspect){.points = BIT(EMBD), .x = 1, .apply = suspect_embd_scale});
    suspects_put(l,
                 w->spec.n_layer && w->layers[0].parallel ? "branches in turn, not side by side"
                                                          : "branches side by side, not in turn",
                 (struct suspect){.points = BIT(RESID_MID) | BIT(MLP_IN),
                                  .per_layer = 1,
                                  .apply = suspect_branches});
    suspects_put(l, "layers in the reverse order",
                 (struct suspect){.points = anywhere, .apply = suspect_layers});
    suspects_put(l, "layers one further on",
                 (struct suspect){.points = anywhere, .a = 1, .apply = suspect_layers});
    suspects_put(l, "layers one further back",
                 (struct suspect){.points = anywhere, .a = -1, .apply = suspect_layers});
}

/* Every row of a matrix one place further on or back. */
static void put_moved(struct list *l)
{
    static const struct {
        const char *stem;
        uint64_t points;
    } rows[] = {{"attn_q", BIT(Q)},
                {"attn_k", BIT(K)},
                {"attn_v", BIT(V)},
                {"attn_qkv", BIT(Q) | BIT(K) | BIT(V)},
                {"attn_output", BIT(ATTN_OUT)},
                {"ffn_gate", BIT(MLP_PRE)},
                {"ffn_up", BIT(MLP_PRE) | BIT(MLP_PRE_LINEAR)},
                {"ffn_down", BIT(MLP_OUT)},
                {"position_embd", BIT(POS_EMBD)},
                {"output", BIT(LOGITS)}};
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof *rows); i++) {
        char text[112];
        snprintf(text, sizeof text, "row n of %s is row n %s 1 here", rows[i / 2].stem,
                 i % 2 ? "-" : "+");
        suspects_put(l, text,
                     (struct suspect){.points = rows[i / 2].points,
                                      .per_layer = i / 2 < 8,
                                      .a = i % 2 ? ORDER_ROW_PREVIOUS : ORDER_ROW_NEXT,
                                      .s = rows[i / 2].stem,
                                      .apply = suspect_order});
    }
}

/* Orders of heads, of each projection that has them. */
static void put_heads(struct list *l, const struct whatif *w)
{
    static const struct {
        const char *list, *what;
        uint64_t points;
    } rows[] = {{"attn_q attn_k attn_v", "q, k and v", BIT(Q) | BIT(K) | BIT(V)},
                {"attn_q", "q", BIT(Q)},
                {"attn_k attn_v", "k and v", BIT(K) | BIT(V)},
                {"attn_k", "k", BIT(K)},
                {"attn_v", "v", BIT(V)},
                {"attn_output", "attention's output", BIT(ATTN_OUT)}};
    static const char *const how[] = {"in reverse", "one further on", "one further back",
                                      "counted by group", "counted against groups"};
    int H = (int)w->spec.n_head;
    char text[112];
    suspects_put(l, "q, k and v interleaved head by head in attn_qkv",
                 (struct suspect){.points = at_qk | BIT(V),
                                  .per_layer = 1,
                                  .a = ORDER_QKV_BY_HEAD,
                                  .s = "",
                                  .apply = suspect_order});
    suspects_put(l, "k, v, q in attn_qkv, not q, k, v",
                 (struct suspect){.points = at_qk | BIT(V),
                                  .per_layer = 1,
                                  .a = ORDER_QKV_PREVIOUS,
                                  .s = "",
                                  .apply = suspect_order});
    suspects_put(l, "v, q, k in attn_qkv, not q, k, v",
                 (struct suspect){.points = at_qk | BIT(V),
                                  .per_layer = 1,
                                  .a = ORDER_QKV_NEXT,
                                  .s = "",
                                  .apply = suspect_order});
    for (size_t i = 0; i < sizeof rows / sizeof *rows && H > 1; i++) {
        for (int o = ORDER_REVERSED; o <= ORDER_UNGROUPED; o++) {
            snprintf(text, sizeof text, "heads of %s %s", rows[i].what, how[o - ORDER_REVERSED]);
            suspects_put(l, text,
                         (struct suspect){.points = rows[i].points,
                                          .per_layer = 1,
                                          .a = o,
                                          .s = rows[i].list,
                                          .apply = suspect_order});
        }
        int n = rows[i].points & (BIT(K) | BIT(V)) ? (int)w->spec.n_head_kv : H;
        for (int a = 0; a < n && n <= 12; a++)
            for (int b = a + 1; b < n; b++) {
                snprintf(text, sizeof text, "heads %d and %d of %s exchanged", a, b, rows[i].what);
                suspects_put(l, text,
                             (struct suspect){.points = rows[i].points,
                                              .per_layer = 1,
                                              .a = ORDER_SWAPPED,
                                              .x = a * 1024 + b,
                                              .s = rows[i].list,
                                              .apply = suspect_order});
            }
    }
}

struct suspect *suspects_list(const struct whatif *w, mgpt_error *err)
{
    struct list l = {0};
    int layers = w->spec.n_layer > 0;
    if (layers && w->spec.n_rot)
        put_rope(&l, w);
    put_tokens(&l);
    if (layers)
        suspects_put_attention(&l, w);
    if (layers)
        put_head_counts(&l, w);
    put_swaps(&l);
    put_activations(&l);
    put_norms(&l, w);
    put_rest(&l, w);
    put_turned(&l);
    put_hidden(&l);
    put_moved(&l);
    if (layers)
        put_heads(&l, w);
    if (!l.failed)
        return l.rows;
    arr_free(l.rows);
    err_memory(err, "suspects", sizeof *l.rows);
    return NULL;
}
