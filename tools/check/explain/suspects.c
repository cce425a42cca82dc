/* The usual suspects. See suspects.h. Each names what the reference does and this program does
 * not. */
#include "check/explain/suspects.h"

#include "base/error.h"
#include "base/mem.h"
#include "check/explain/stages.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the table --------------------------------------------------------------------------------- */

#define BIT(point) MGPT_POINT_BIT(MGPT_##point)
#define AT_ROPE (BIT(ROT_Q) | BIT(ROT_K))
#define AT_QKV (BIT(Q) | BIT(K) | BIT(V))
#define AT_START (BIT(EMBD) | BIT(POS_EMBD) | BIT(EMBD_NORM) | BIT(RESID_PRE))
#define AT_NORMS (BIT(ATTN_IN) | BIT(MLP_IN) | BIT(FINAL) | BIT(EMBD_NORM))
#define ANYWHERE (MGPT_POINT_BIT(MGPT_N_POINTS) - 1)
#define OF_TENSORS 0

/* Operations: set a number, negate a flag, read tensors otherwise, or a function of
 * whatif_edit.c. */
#define SET_SPEC(name, number)                                                                     \
    .edit = {.apply = edit_spec, .member = offsetof(struct oracle_spec, name), .x = number}
#define SET_LAYERS(name, number)                                                                   \
    .edit = {.apply = edit_layers, .member = offsetof(struct oracle_layer, name), .x = number}
#define FLIP_SPEC(name) .edit = {.apply = flip_spec, .member = offsetof(struct oracle_spec, name)}
#define FLIP_LAYERS(name)                                                                          \
    .edit = {.apply = flip_layers, .member = offsetof(struct oracle_layer, name)}
#define DO(function, number) .edit = {.apply = function, .a = number}
#define READ(how, which) .edit = {.apply = edit_tensors, .change = how, .names = which}
#define SWAP(one, two)                                                                             \
    .edit = {.apply = edit_tensors, .change = TENSORS_SWAPPED, .names = one, .other = two}
#define MOVE_LAYERS(by) .edit = {.apply = edit_tensors, .change = LAYERS_MOVED, .a = by}
#define ADD_TO_GAINS(number) .edit = {.apply = edit_tensors, .change = GAINS_SHIFTED, .x = number}

/* Arguments. */
#define COUNT(type, ...) (sizeof((const type[]){__VA_ARGS__}) / sizeof(type))
#define NUMBERS(...) .numbers = (const double[]){__VA_ARGS__}, .n = COUNT(double, __VA_ARGS__)
#define EACH_OF(...)                                                                               \
    .tensors = (const char *const[]){__VA_ARGS__}, .n = COUNT(char *const, __VA_ARGS__)
#define TIMES(name, to_power) .size = offsetof(struct oracle_spec, name), .power = to_power
#define MATRICES                                                                                   \
    EACH_OF("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up",         \
            "ffn_down")
#define OF_HEADS                                                                                   \
    EACH_OF("attn_q attn_k attn_v=q, k and v", "attn_q=q", "attn_k attn_v=k and v", "attn_k=k",    \
            "attn_v=v", "attn_output=attention's output")
#define QK_ROWS EACH_OF("attn_q attn_k=q and k", "attn_q=q", "attn_k=k")

/* clang-format off */
/* Text, points, whether one layer alone may have it, operation, arguments. */
const struct suspect_row suspect_rows[] = {
    {"RoPE rotates halves, not adjacent pairs (or rows of q and k are stored so)|"
     "RoPE rotates adjacent pairs, not halves (or rows of q and k are stored so)", AT_ROPE, 1,
     .edit = {.apply = edit_pairs, .member = offsetof(struct oracle_layer, halves)}},
    {"rows of %s permuted once too often, or not at all: in halves' order", OF_TENSORS, 1,
     READ(ORDER_FROM_PAIRS, ""), QK_ROWS},
    {"rows of %s permuted once too often, or not at all: in pairs' order", OF_TENSORS, 1,
     READ(ORDER_TO_PAIRS, ""), QK_ROWS},
    {"q and k recorded as GGUF and llama2.c have them, a pair side by side, not in halves",
     BIT(Q) | BIT(K) | AT_ROPE, 1, DO(edit_as_stored, 0)},
    {"no RoPE at all", AT_ROPE, 1, DO(edit_no_rope, 0)},
    {"RoPE rotates in the other direction", AT_ROPE, 1, .edit = {.apply = edit_rope_factor, .x = -1}},
    {"rope frequencies without scaling or divisors", AT_ROPE, 0, DO(edit_rope_unscaled, 0)},
    {"rope base %.6g, not %.6g", AT_ROPE, 0, DO(edit_rope_base, 0),
     NUMBERS(1e4, 5e5, 1e6, 5e6, 1e5, 1.5e5, 2e5, 2.5e5, 5e4, 1.6e5, 1e3, 5e3, 2e4, 2.5e4, 4e4,
             7.5e4, 3e5, 4e5, 1.5e6, 2e6, 3e6, 4e6, 8e6, 1e7, 5e7, 1e8, 500), .starts = {1e4}},
    {"rope positions divided by %.6g", AT_ROPE, 0, DO(edit_rope_factor, 0),
     NUMBERS(2, 4, 8, 16, 32, 0.5, 0.25, 0.125), .starts = {1.01}},
    {"rope scaled as Llama 3.1 does, factor %.6g", AT_ROPE, 0, DO(edit_rope_llama3, 0),
     NUMBERS(8, 32)},

    {"a BOS in front of the tokens (missing here)", ANYWHERE, 0, DO(edit_bos_added, 0)},
    {"no BOS, the first token is not there (doubled here)", ANYWHERE, 0, DO(edit_first_dropped, 0)},
    {"row n of the reference is that of position n + 1", ANYWHERE, 0, DO(edit_rows_shifted, -1)},
    {"row n of the reference is that of position n - 1", ANYWHERE, 0, DO(edit_rows_shifted, 1)},
    {"tokens moved: the reference's token n is the one named n + 1", ANYWHERE, 0,
     DO(edit_tokens_moved, 1)},
    {"tokens moved: the reference's token n is the one named n - 1", ANYWHERE, 0,
     DO(edit_tokens_moved, -1)},
    {"tokens moved: the reference's begin with BOS, and token n is the one named n - 1", ANYWHERE,
     0, .edit = {.apply = edit_tokens_moved, .a = -1, .b = 1}},
    {"token ids larger by one", AT_START, 0, DO(edit_ids_shifted, 1)},
    {"token ids smaller by one", AT_START, 0, DO(edit_ids_shifted, -1)},
    {"positions off by one: the first is 1", AT_START | AT_ROPE, 0, DO(edit_positions, 1)},
    {"positions off by one: the first two are 0", AT_START | AT_ROPE, 0, DO(edit_positions, -1)},
    {"positions off by two: the first is 2", AT_START | AT_ROPE, 0, DO(edit_positions, 2)},

    {"no 1/sqrt(d) in attention", BIT(SCORES), 1, SET_LAYERS(attn_scale, 1)},
    {"1/sqrt(d) in attention", BIT(SCORES), 1, SET_LAYERS(attn_scale, 1), TIMES(head_dim, -0.5)},
    {"1/d in attention (scaled twice)", BIT(SCORES), 1, SET_LAYERS(attn_scale, 1),
     TIMES(head_dim, -1)},
    {"1/sqrt(n_embd) in attention", BIT(SCORES), 0, SET_LAYERS(attn_scale, 1), TIMES(n_embd, -0.5)},
    {"attention scores times %.6g", BIT(SCORES), 0, SET_LAYERS(attn_scale, 0), .starts = {0.1, 1}},
    {"a soft cap of %.6g on attention scores", BIT(SCORES), 0, SET_SPEC(attn_cap, 0), NUMBERS(50),
     .starts = {50, 5}},
    {"no sliding window", BIT(SCORES), 0, DO(edit_window, 0)},
    {"a sliding window of one more", BIT(SCORES), 0, DO(edit_window, 1)},
    {"a sliding window of one less", BIT(SCORES), 0, DO(edit_window, -1)},
    {"query head h reads KV head h %% G, not h / (H / G)", BIT(SCORES) | BIT(HEADS), 0,
     DO(edit_kv_heads, 0)},
    {"no clamp of q, k, v", AT_QKV, 0, SET_SPEC(clamp, 0)},
    {"norms of q and k|no norms of q and k", AT_ROPE | BIT(SCORES), 0, FLIP_SPEC(qk_norm)},
    {"heads of another width", AT_ROPE | BIT(SCORES) | BIT(HEADS), 0, DO(edit_head_width, 0)},

    {"gate and up exchanged", OF_TENSORS, 1, SWAP("ffn_gate", "ffn_up")},
    {"q and k exchanged", OF_TENSORS, 1, SWAP("attn_q", "attn_k")},
    {"k and v exchanged", OF_TENSORS, 1, SWAP("attn_k", "attn_v")},
    {"q and v exchanged", OF_TENSORS, 1, SWAP("attn_q", "attn_v")},
    {"q and attention's output exchanged", OF_TENSORS, 1, SWAP("attn_q", "attn_output")},
    {"the two norms of a layer exchanged", OF_TENSORS, 1, SWAP("attn_norm", "ffn_norm")},
    {"the two norms after the branches exchanged", OF_TENSORS, 1,
     SWAP("post_attention_norm", "post_ffw_norm")},
    {"norms of q and k exchanged", OF_TENSORS, 1, SWAP("attn_q_norm", "attn_k_norm")},
    {"embedding and head exchanged", OF_TENSORS, 1, SWAP("output", "token_embd")},

    {"activation %s", BIT(MLP_POST), 1, DO(edit_activation, 0),
     EACH_OF("gelu_tanh", "gelu_erf", "gelu_quick", "silu", "relu", "relu2")},
    {"a final norm|no final norm", BIT(FINAL) | BIT(LOGITS), 0, FLIP_SPEC(final_norm)},
    {"a norm after the embedding|no norm after the embedding", BIT(EMBD_NORM) | BIT(RESID_PRE), 0,
     FLIP_SPEC(embd_norm)},
    {"LayerNorm, not RMSNorm|RMSNorm, not LayerNorm", AT_NORMS, 0, FLIP_SPEC(layer_norm)},
    {"no norm (or another) before attention", BIT(ATTN_IN), 1, FLIP_LAYERS(attn_norm)},
    {"no norm (or another) before the MLP", BIT(MLP_IN), 1, FLIP_LAYERS(mlp_norm)},
    {"gains of norms + 1", AT_NORMS, 0, ADD_TO_GAINS(1)},
    {"gains of norms - 1", AT_NORMS, 0, ADD_TO_GAINS(-1)},
    {"epsilon of norms %.6g", AT_NORMS | AT_ROPE, 0, SET_SPEC(eps, 0),
     NUMBERS(1e-5, 1e-6, 1e-8, 1e-12, 1e-4, 1e-3, 1e-2, 1e-7), .starts = {1e-3, 1e-5}},

    {"tied head: the token embedding, not output.weight", OF_TENSORS, 0,
     READ(TENSOR_HIDDEN, "output.weight")},
    {"no soft cap on the logits", BIT(LOGITS), 0, SET_SPEC(softcap, 0)},
    {"a soft cap of %.6g on the logits", BIT(LOGITS), 0, SET_SPEC(softcap, 0),
     NUMBERS(30, 15, 50, 20), .starts = {30}},
    {"embeddings times sqrt(n_embd)", BIT(EMBD), 0, SET_SPEC(embd_scale, 1), TIMES(n_embd, 0.5)},
    {"embeddings not multiplied", BIT(EMBD), 0, SET_SPEC(embd_scale, 1)},
    {"embeddings times %.6g", BIT(EMBD) | BIT(RESID_PRE), 0, SET_SPEC(embd_scale, 0),
     .starts = {1, 8}},
    {"parallel branches, not sequential|sequential branches, not parallel",
     BIT(RESID_MID) | BIT(MLP_IN), 1, FLIP_LAYERS(parallel)},
    {"layers in the reverse order", ANYWHERE, 0, MOVE_LAYERS(0)},
    {"layers one further on", ANYWHERE, 0, MOVE_LAYERS(1)},
    {"layers one further back", ANYWHERE, 0, MOVE_LAYERS(-1)},

    {"transposed: %s", OF_TENSORS, 1, READ(TENSORS_TRANSPOSED, ""),
     EACH_OF("attn_output", "attn_q attn_k attn_v attn_output", "attn_q attn_k attn_v",
             "attn_q attn_k", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_qkv attn_output",
             "ffn_up", "ffn_gate", "ffn_down", "ffn_up ffn_down", "ffn_gate ffn_up ffn_down",
             "output",
             "attn_qkv attn_output ffn_up ffn_down",
             "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down")},
    {"without %s", OF_TENSORS, 1, READ(TENSOR_HIDDEN, ""),
     EACH_OF("attn_norm.weight", "ffn_norm.weight", "output_norm.weight", "attn_norm.bias",
             "ffn_norm.bias", "output_norm.bias", "attn_q.bias", "attn_k.bias", "attn_v.bias",
             "attn_qkv.bias", "attn_output.bias", "ffn_up.bias", "ffn_down.bias", "output.bias",
             "position_embd.weight")},
    {"row n of %s is row n + 1 here", OF_TENSORS, 1, READ(ORDER_ROW_NEXT, ""), MATRICES},
    {"row n of %s is row n - 1 here", OF_TENSORS, 1, READ(ORDER_ROW_PREVIOUS, ""), MATRICES},
    {"row n of %s is row n + 1 here", OF_TENSORS, 0, READ(ORDER_ROW_NEXT, ""),
     EACH_OF("position_embd", "output")},
    {"row n of %s is row n - 1 here", OF_TENSORS, 0, READ(ORDER_ROW_PREVIOUS, ""),
     EACH_OF("position_embd", "output")},

    {"q, k and v interleaved head by head in attn_qkv", AT_QKV, 1, READ(ORDER_QKV_BY_HEAD, "")},
    {"k, v, q in attn_qkv, not q, k, v", AT_QKV, 1, READ(ORDER_QKV_PREVIOUS, "")},
    {"v, q, k in attn_qkv, not q, k, v", AT_QKV, 1, READ(ORDER_QKV_NEXT, "")},
    {"heads of %s in reverse", OF_TENSORS, 1, READ(ORDER_REVERSED, ""), OF_HEADS},
    {"heads of %s one further on", OF_TENSORS, 1, READ(ORDER_NEXT, ""), OF_HEADS},
    {"heads of %s one further back", OF_TENSORS, 1, READ(ORDER_PREVIOUS, ""), OF_HEADS},
    {"heads of %s counted by group", OF_TENSORS, 1, READ(ORDER_GROUPED, ""), OF_HEADS},
    {"heads of %s counted against groups", OF_TENSORS, 1, READ(ORDER_UNGROUPED, ""), OF_HEADS},
    {"heads %d and %d of %s exchanged", OF_TENSORS, 1, READ(ORDER_SWAPPED, ""), OF_HEADS},
};
/* clang-format on */
const size_t n_suspect_rows = sizeof suspect_rows / sizeof *suspect_rows;

/* ---- a suspect from a row ---------------------------------------------------------------------- */

/* The part of a text "A|B" that holds for the model. */
static void choose_text(const struct suspect_row *row, const struct whatif *w, char *text,
                        size_t cap)
{
    const char *bar = strchr(row->text, '|');
    const void *base = row->edit.apply == flip_spec ? (const void *)&w->spec : w->layers;
    int there = base == &w->spec || w->spec.n_layer > 0;
    int set = bar && there && *(const int *)(const void *)((const char *)base + row->edit.member);
    if (set)
        text_format(text, cap, "%s", bar + 1);
    else
        text_format(text, cap, "%.*s", (int)(bar ? (size_t)(bar - row->text) : strlen(row->text)),
                    row->text);
}

struct suspect suspect_of(const struct suspect_row *row, const struct whatif *w, double x,
                          const char *tensors)
{
    struct suspect s = {.points = row->points, .per_layer = row->per_layer, .edit = row->edit};
    const char *shown = tensors ? strchr(tensors, '=') : NULL;
    char text[sizeof s.cause];
    choose_text(row, w, text, sizeof text);
    if (tensors)
        s.edit.names = tensors;
    if (!s.points)
        s.points = stage_points(s.edit.names) | stage_points(s.edit.other);
    s.edit.x = x;
    if (tensors)
        snprintf(s.cause, sizeof s.cause, text, shown ? shown + 1 : tensors);
    else
        snprintf(s.cause, sizeof s.cause, text, x, (double)w->info.rope_base);
    return s;
}

/* ---- the list ---------------------------------------------------------------------------------- */

struct suspect_list {
    struct suspect *rows; /* stb_ds array */
    const struct whatif *w;
    int failed;
};

static void list_suspect(struct suspect_list *l, struct suspect s)
{
    if (!arr_push(l->rows, s))
        l->failed = 1;
}

static size_t heads_text(char *text, size_t cap, size_t n, size_t n_kv, size_t width)
{
    size_t at = text_format(text, cap, "%zu head%s", n, n == 1 ? "" : "s");
    if (n_kv != n)
        at += text_format(text + at, cap - at, " (%zu KV)", n_kv);
    return at + text_format(text + at, cap - at, " of width %zu", width);
}

/* What a converter with the wrong number of heads does to rows of q and k. */
static enum whatif_change head_order(const struct whatif *w)
{
    mgpt_tensor t;
    if (w->spec.n_rot == 0)
        return TENSORS_AS_THEY_ARE;
    if (w->layers[0].stored != ORACLE_AS_SHOWN)
        return ORDER_REBLOCKED;
    int fused = oracle_tensor_find(w->model, "blk.0.attn_qkv.weight", &t);
    return fused && w->spec.n_head == w->spec.n_head_kv ? ORDER_REGROUPED : TENSORS_AS_THEY_ARE;
}

/* Every number of heads that the rows of q and k allow. */
static void list_head_widths(struct suspect_list *l, const struct suspect_row *row)
{
    const struct oracle_spec *o = &l->w->spec;
    size_t was = o->head_dim, n_q = o->n_head * was, n_kv = o->n_head_kv * was;
    enum whatif_change order = head_order(l->w);
    struct suspect s = {.points = row->points, .edit = row->edit};
    s.edit.names = "attn_q attn_k";
    if (order)
        s.points |= AT_QKV;
    for (size_t d = n_kv; d > 0; d--) {
        if (n_q % d || n_kv % d || d == was)
            continue;
        size_t cap = sizeof s.cause, at = heads_text(s.cause, cap, n_q / d, n_kv / d, d);
        at += text_format(s.cause + at, cap - at, ", not ");
        at += heads_text(s.cause + at, cap - at, o->n_head, o->n_head_kv, was);
        s.edit.a = (int)d;
        s.edit.change = TENSORS_AS_THEY_ARE;
        list_suspect(l, s);
        text_format(s.cause + at, cap - at, " (q and k were reordered for those)");
        s.edit.change = order;
        if (order)
            list_suspect(l, s);
    }
}

/* Every two heads of one projection. */
static void list_head_swaps(struct suspect_list *l, const struct suspect_row *row,
                            const char *tensors)
{
    struct suspect s = {.per_layer = 1, .edit = row->edit, .points = stage_points(tensors)};
    int kv = (s.points & (BIT(K) | BIT(V))) != 0;
    int n = (int)(kv ? l->w->spec.n_head_kv : l->w->spec.n_head);
    s.edit.names = tensors;
    for (int a = 0; a < n && n <= 12; a++)
        for (int b = a + 1; b < n; b++) {
            s.edit.a = a, s.edit.b = b;
            snprintf(s.cause, sizeof s.cause, row->text, a, b, strchr(tensors, '=') + 1);
            list_suspect(l, s);
        }
}

static void list_row(struct suspect_list *l, const struct suspect_row *row)
{
    const uint64_t inside = BIT(RESID_POST) * 2 - BIT(RESID_PRE);
    if (l->w->spec.n_layer == 0 && row->points && !(row->points & ~inside))
        return;
    const size_t *size = (const size_t *)(const void *)((const char *)&l->w->spec + row->size);
    double scale = row->power != 0 ? pow((double)*size, fabs(row->power)) : 1;
    double x = row->power < 0 ? row->edit.x / scale : row->edit.x * scale;
    if (row->edit.apply == edit_head_width)
        list_head_widths(l, row);
    else if (row->n == 0 && row->starts[0] == 0)
        list_suspect(l, suspect_of(row, l->w, x, NULL));
    for (size_t i = 0; i < row->n; i++)
        if (row->edit.change == ORDER_SWAPPED)
            list_head_swaps(l, row, row->tensors[i]);
        else
            list_suspect(l, suspect_of(row, l->w, row->numbers ? row->numbers[i] : x,
                                       row->tensors ? row->tensors[i] : NULL));
}

struct suspect *suspects_list(const struct whatif *w, mgpt_error *err)
{
    struct suspect_list l = {.w = w};
    for (size_t i = 0; i < n_suspect_rows; i++)
        list_row(&l, &suspect_rows[i]);
    if (!l.failed)
        return l.rows;
    arr_free(l.rows);
    err_memory(err, "suspects", sizeof *l.rows);
    return NULL;
}
