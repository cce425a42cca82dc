/* See hf_coded.h. */
#include "convert/families/hf_coded.h"

#include "base/mem.h"
#include "convert/families/hf_quant.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_STATE = 4096 /* bytes of the facts of one matrix */ };

struct coded_model {
    struct state *state;
    uint64_t rows, columns; /* of a block; 0: not stated */
    float (*books)[HF_N_CODES];
};

static const char *const methods[] = {
    "fp8", "fbgemm_fp8", "compressed-tensors", "modelopt", "bitsandbytes", "bnb", "hqq"};

int hf_is_coded(const char *method)
{
    for (size_t i = 0; method && i < HF_COUNT(methods); i++)
        if (strcasecmp(method, methods[i]) == 0)
            return 1;
    return 0;
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* The columns or rows of a block where `count` blocks have n of them. One block may have them all, but not in a grid of
 * several scales whose stated blocks are smaller: such a grid lacks scales. */
static uint64_t block_edge(struct coded_model *m, const struct state_tensor *t, uint64_t n,
                           uint64_t count, uint64_t stated)
{
    int lacks_some = t->n_dims == 2 && hf_part_size(t) != 1 && stated > 0 && n > stated;
    if (count == 1 && !lacks_some)
        return n;
    if (count == n)
        return 1;
    if (count > 0 && stated > 0 && (n + stated - 1) / stated == count)
        return stated;
    if (count == 0 || n % count || stated)
        ckpt_stop_tensor(
            m->state->c, t->name, "%llu scales for %llu rows or columns do not fit blocks of %llu",
            (unsigned long long)count, (unsigned long long)n, (unsigned long long)stated);
    return n / count;
}

/* Scales of the whole matrix (no more than one), of rows ([n_out] or [n_out, 1]), or of a grid. */
static void read_scales(struct coded_model *m, const char *base, const char *part,
                        struct hf_coded *to)
{
    const struct state_tensor *t;
    to->scales = hf_part_floats(m->state, base, part, &t);
    uint64_t down = t->n_dims > 0 ? t->shape[0] : 1, across = t->n_dims > 1 ? t->shape[1] : 1;
    if (t->n_dims > 2)
        ckpt_stop_tensor(m->state->c, t->name, "%u dimensions, expected at most 2", t->n_dims);
    to->rows = block_edge(m, t, to->n_out, down, m->rows);
    to->columns = block_edge(m, t, to->n_in, across, m->columns);
    to->across = across;
}

/* Zeros of codes that are bytes: one for each scale. */
static void read_byte_zeros(struct coded_model *m, const char *base, struct hf_coded *to)
{
    uint64_t n = (to->n_out + to->rows - 1) / to->rows * to->across;
    if (!hf_part_peek(m->state, base, "weight_zero_point"))
        return;
    const struct state_tensor *t = hf_part(m->state, base, "weight_zero_point", STATE_I8);
    float *zeros = ckpt_new(m->state->c, n, sizeof *zeros);
    if (hf_part_size(t) != n)
        ckpt_stop_tensor(m->state->c, t->name, "%llu values, expected %llu",
                         (unsigned long long)hf_part_size(t), (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++)
        zeros[i] = m->books[HF_BOOK_SIGNED][t->bytes.data[i]];
    to->zeros = zeros;
}

/* ---- one matrix ------------------------------------------------------------------------------ */

static void set_bytes(struct hf_coded *to, const struct state_tensor *t)
{
    to->n_out = t->shape[0];
    to->n_in = to->row_bytes = t->shape[1];
    to->bits = 8;
}

/* X.weight of F8_E4M3 or I8. */
static void read_bytes(struct coded_model *m, const char *base, const struct state_tensor *t,
                       struct hf_coded *to)
{
    to->book = m->books[t->type == STATE_F8_E4M3 ? HF_BOOK_E4M3 : HF_BOOK_SIGNED];
    set_bytes(to, t);
    if (hf_part_peek(m->state, base, "SCB")) {
        to->factor = (float)(1 / 127.0);
        read_scales(m, base, "SCB", to);
        if (to->rows != 1)
            ckpt_stop(m->state->c, "tensor %.200s.SCB: expected a value for each row", base);
        return;
    }
    read_scales(
        m, base,
        hf_part_peek(m->state, base, "weight_scale_inv") ? "weight_scale_inv" : "weight_scale", to);
    read_byte_zeros(m, base, to);
    to->g_idx = hf_column_groups(m->state, base, "weight_g_idx", to->n_in, to->across);
}

/* A whole number of the facts of a matrix of bitsandbytes. */
static uint64_t fact(struct coded_model *m, const char *name, const json_t *v, const char *key)
{
    if (!json_is(v, JSON_INTEGER) || json_integer_value(v) < 1 ||
        json_integer_value(v) > HF_MAX_SIDE)
        ckpt_stop_tensor(m->state->c, name, "%s: expected a number from 1 to %d", key, HF_MAX_SIDE);
    return (uint64_t)json_integer_value(v);
}

/* The facts of a matrix: JSON in a tensor of bytes. */
static const json_t *read_facts(struct coded_model *m, const char *base)
{
    int is_nf4 = hf_part_peek(m->state, base, "weight.quant_state.bitsandbytes__nf4") != NULL;
    const struct state_tensor *t = hf_part(m->state, base,
                                           is_nf4 ? "weight.quant_state.bitsandbytes__nf4"
                                                  : "weight.quant_state.bitsandbytes__fp4",
                                           STATE_U8);
    uint64_t n = hf_part_size(t);
    if (n > MAX_STATE || t->n_dims != 1)
        ckpt_stop_tensor(m->state->c, t->name, "%llu bytes of JSON, the limit is %d",
                         (unsigned long long)n, MAX_STATE);
    return hf_json(m->state->c, (struct span){t->bytes.data, (size_t)n}, t->name);
}

/* absmax that is codes again: nested_quant_map[code] * nested_absmax + nested_offset. */
static const float *nested_scales(struct coded_model *m, const char *base, const json_t *facts,
                                  uint64_t n)
{
    const struct state_tensor *codes = hf_part(m->state, base, "weight.absmax", STATE_U8), *map,
                              *each;
    const float *book = hf_part_floats(m->state, base, "weight.nested_quant_map", &map);
    const float *absmax = hf_part_floats(m->state, base, "weight.nested_absmax", &each);
    uint64_t size = fact(m, codes->name, hf_value(facts, "nested_blocksize"), "nested_blocksize");
    const json_t *offset = hf_value(facts, "nested_offset");
    if (!json_is_numeric(offset) || !hf_is_vector(codes, n) || !hf_is_vector(map, HF_N_CODES) ||
        !hf_is_vector(each, (n + size - 1) / size))
        ckpt_stop_tensor(m->state->c, codes->name,
                         "its nested scales do not fit %llu blocks in blocks of %llu",
                         (unsigned long long)n, (unsigned long long)size);
    float *to = ckpt_new(m->state->c, n, sizeof *to);
    for (uint64_t i = 0; i < n; i++)
        to[i] = book[codes->bytes.data[i]] * absmax[i / size] + (float)json_number_value(offset);
    return to;
}

/* X.weight of U8: two codes a byte, [n / 2, 1]. */
static void read_nibbles(struct coded_model *m, const char *base, const struct state_tensor *t,
                         struct hf_coded *to)
{
    const json_t *facts = read_facts(m, base), *shape = hf_value(facts, "shape");
    const struct state_tensor *map, *absmax = hf_part_peek(m->state, base, "weight.absmax");
    to->n_out = fact(m, t->name, json_array_get(shape, 0), "shape");
    to->n_in = fact(m, t->name, json_array_get(shape, 1), "shape");
    to->columns = fact(m, t->name, hf_value(facts, "blocksize"), "blocksize");
    uint64_t n = to->n_out * to->n_in, n_blocks = (n + to->columns - 1) / to->columns;
    if (hf_part_size(t) != (n + 1) / 2 || json_array_size(shape) != 2)
        ckpt_stop_tensor(m->state->c, t->name, "%llu bytes for %llu weights of 4 bits",
                         (unsigned long long)hf_part_size(t), (unsigned long long)n);
    *to = (struct hf_coded){.bits = 4,
                            .high_first = 1,
                            .flat = 1,
                            .n_out = to->n_out,
                            .n_in = to->n_in,
                            .columns = to->columns,
                            .factor = 1,
                            .codes = to->codes};
    to->book = hf_part_floats(m->state, base, "weight.quant_map", &map);
    if (absmax && absmax->type == STATE_U8)
        to->scales = nested_scales(m, base, facts, n_blocks);
    else
        to->scales = hf_part_floats(m->state, base, "weight.absmax", &absmax);
    if (!hf_is_vector(absmax, n_blocks) || !hf_is_vector(map, 16))
        ckpt_stop_tensor(m->state->c, absmax->name, "%llu values, expected %llu",
                         (unsigned long long)hf_part_size(absmax), (unsigned long long)n_blocks);
}

/* Zeros of packed codes: words down the rows of each column, [n_out * bits / 32, across]. */
static void read_word_zeros(struct coded_model *m, const char *base, struct hf_coded *to)
{
    uint64_t n = to->n_out * to->across, each = 32 / to->bits;
    to->book = m->books[to->bits == 4 ? HF_BOOK_AROUND_8 : HF_BOOK_AROUND_128];
    if (!hf_part_peek(m->state, base, "weight_zero_point"))
        return;
    const struct state_tensor *t = hf_part(m->state, base, "weight_zero_point", STATE_I32);
    state_check_shape(m->state->c, t, (to->n_out + each - 1) / each, to->across);
    float *zeros = ckpt_new(m->state->c, n, sizeof *zeros);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t row = i / to->across, word = row / each * to->across + i % to->across;
        unsigned shift = (unsigned)(row % each) * to->bits;
        zeros[i] = (float)(hf_packed_word(t->bytes.data, word) >> shift & ((1u << to->bits) - 1));
    }
    to->book = m->books[HF_BOOK_COUNTS];
    to->zeros = zeros;
}

/* X.weight_packed: words along a row, the first code in the lowest bits. */
static void read_packed_words(struct coded_model *m, const char *base, const struct state_tensor *t,
                              struct hf_coded *to)
{
    const struct state_tensor *shape = hf_part(m->state, base, "weight_shape", STATE_I64);
    uint64_t sizes[2] = {0};
    if (!hf_is_vector(shape, 2))
        ckpt_stop_tensor(m->state->c, shape->name, "expected two sizes");
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 8; k++)
            sizes[i] |= (uint64_t)shape->bytes.data[8 * i + k] << 8 * k;
    to->n_out = sizes[0];
    to->n_in = sizes[1];
    to->row_bytes = 4 * t->shape[1];
    to->bits = to->n_in <= HF_MAX_SIDE && t->shape[1] == (to->n_in + 7) / 8 ? 4 : 8;
    if (to->n_out != t->shape[0] || to->n_in > HF_MAX_SIDE ||
        t->shape[1] != (to->n_in * to->bits + 31) / 32)
        ckpt_stop_tensor(m->state->c, t->name,
                         "%llu words in a row for %llu weights: neither 4 nor 8 bits",
                         (unsigned long long)t->shape[1], (unsigned long long)to->n_in);
    read_scales(m, base, "weight_scale", to);
    if (to->rows != 1)
        ckpt_stop(m->state->c, "tensor %.200s.weight_scale: expected values for each row", base);
    read_word_zeros(m, base, to);
    to->g_idx = hf_column_groups(m->state, base, "weight_g_idx", to->n_in, to->across);
}

enum { NVFP4_GROUP = 16 };

/* E2M1 in nibbles, a scale in E4M3 for each 16, and one for all: a factor in ModelOpt, a divisor in
 * compressed-tensors. */
static void read_nvfp4(struct coded_model *m, const char *base, const struct state_tensor *t,
                       struct hf_coded *to)
{
    int divides = hf_part_peek(m->state, base, "weight_global_scale") != NULL;
    const struct state_tensor *all, *each = hf_part(m->state, base, "weight_scale", STATE_F8_E4M3);
    const float *by =
        hf_part_floats(m->state, base, divides ? "weight_global_scale" : "weight_scale_2", &all);
    set_bytes(to, t);
    to->n_in = 2 * to->row_bytes;
    to->bits = 4;
    to->rows = 1;
    to->columns = NVFP4_GROUP;
    to->across = (to->n_in + NVFP4_GROUP - 1) / NVFP4_GROUP;
    to->book = m->books[HF_BOOK_E2M1];
    state_check_shape(m->state->c, each, to->n_out, to->across);
    if (hf_part_size(all) != 1)
        ckpt_stop_tensor(m->state->c, all->name, "%llu values, expected 1",
                         (unsigned long long)hf_part_size(all));
    float *scales = ckpt_new(m->state->c, to->n_out * to->across, sizeof *scales);
    for (uint64_t i = 0; i < to->n_out * to->across; i++) {
        float scale = m->books[HF_BOOK_E4M3][each->bytes.data[i]];
        scales[i] = divides ? scale / *by : scale * *by;
    }
    to->scales = scales;
}

/* ---- the model ------------------------------------------------------------------------------- */

typedef void coded_read_fn(struct coded_model *m, const char *base, const struct state_tensor *t,
                           struct hf_coded *to);

/* Tensors of codes: the end of the name, the type, and the part that tells them from others of both; NULL:
 * there are no others. */
static const struct {
    const char *end, *part;
    enum state_type type;
    coded_read_fn *read;
} coded_kinds[] = {
    {".weight", NULL, STATE_F8_E4M3, read_bytes},
    {".weight", NULL, STATE_I8, read_bytes},
    {".weight", "weight.absmax", STATE_U8, read_nibbles},
    {".weight", "weight_scale_2", STATE_U8, read_nvfp4},
    {".weight_packed", "weight_global_scale", STATE_U8, read_nvfp4},
    {".weight_packed", "weight_shape", STATE_I32, read_packed_words},
};

static void put_coded(struct coded_model *m, struct state_tensor *t, const char *base,
                      coded_read_fn *read)
{
    struct hf_coded *to = ckpt_new(m->state->c, 1, sizeof *to);
    if (!hf_is_matrix(m->state->c, t))
        ckpt_stop_tensor(m->state->c, t->name, "%u dimensions, expected a matrix of codes",
                         t->n_dims);
    *to = (struct hf_coded){.factor = 1, .codes = t->bytes.data};
    read(m, base, t, to);
    to->base.type = dtype_find(DTYPE_F32);
    to->base.values = hf_coded_values;
    hf_put_packed(m->state->c, t, base, to->n_out, to->n_in, &to->base);
}

/* A size of blocks that config.json states; 0: it does not. */
static uint64_t stated_size(struct checkpoint *c, const json_t *v)
{
    json_int_t n = json_integer_value(v);
    if (v && (n < 1 || n > HF_MAX_SIDE))
        ckpt_stop(c, "config.json: quantization_config: sizes of blocks: expected 1 to %d",
                  HF_MAX_SIDE);
    return (uint64_t)n;
}

/* weight_block_size, or of the one group of settings block_structure or group_size. */
static void read_blocks(struct coded_model *m, const json_t *settings)
{
    const json_t *block = hf_value(settings, "weight_block_size");
    json_t *groups = (json_t *)hf_value(settings, "config_groups");
    const json_t *first = json_object_iter_value(json_object_iter(groups));
    const json_t *weights = json_object_size(groups) == 1 ? hf_value(first, "weights") : NULL;
    block = block ? block : hf_value(weights, "block_structure");
    if (block && json_array_size(block) != 2)
        ckpt_stop(m->state->c,
                  "config.json: quantization_config: weight_block_size: expected two numbers");
    m->rows = stated_size(m->state->c, json_array_get(block, 0));
    m->columns = stated_size(m->state->c,
                             block ? json_array_get(block, 1) : hf_value(weights, "group_size"));
}

/* What would change the pass in a way of its own. */
static void check_coded(struct checkpoint *c, const json_t *settings)
{
    const char *algorithm = json_string_value(hf_value(settings, "quant_algo"));
    const char *sparse =
        json_string_value(hf_value(hf_value(settings, "sparsity_config"), "format"));
    if (algorithm && !ckpt_is_one_of(algorithm, " FP8 NVFP4 "))
        ckpt_stop(
            c, "config.json: quantization_config: quant_algo %.24s is not read, FP8 and NVFP4 are",
            algorithm);
    if (sparse && strcmp(sparse, "dense") != 0)
        ckpt_stop(c, "config.json: quantization_config: sparsity_config: format %.24s is not read",
                  sparse);
    if (json_object_size(hf_value(settings, "transform_config")) > 0)
        ckpt_stop(c, "config.json: quantization_config: transform_config is not read");
}

/* Scales of what is not rounded here: activations, and keys and values of a cache. */
static void skip_other_scales(struct state *s)
{
    static const char *const ends[] = {
        ".input_scale",       ".activation_scale",    ".input_zero_point",    ".k_scale",
        ".v_scale",           ".k_proj.output_scale", ".v_proj.output_scale", ".weight_format",
        ".input_global_scale"};
    for (size_t i = 0; i < HF_COUNT(ends); i++)
        state_skip_suffix(s, ends[i]);
}

void hf_unpack_coded(struct hf_model *m, const json_t *settings)
{
    struct coded_model all = {.state = &m->state};
    size_t n = 0;
    check_coded(m->c, settings);
    read_blocks(&all, settings);
    all.books = ckpt_new(m->c, HF_N_BOOKS, sizeof *all.books);
    hf_coded_books(all.books);
    for (size_t i = 0; i < arr_len(m->state.tensors); i++) {
        struct state_tensor *t = &m->state.tensors[i];
        char base[HF_MAX_BASE + 1];
        for (size_t k = 0; k < HF_COUNT(coded_kinds); k++)
            if (t->type == coded_kinds[k].type && hf_ends_with(t->name, coded_kinds[k].end, base) &&
                (!coded_kinds[k].part || hf_part_peek(&m->state, base, coded_kinds[k].part))) {
                put_coded(&all, t, base, coded_kinds[k].read);
                n++;
                break;
            }
    }
    n += hf_unpack_hqq(&m->state);
    skip_other_scales(&m->state);
    ckpt_note(
        m->c,
        "quantised by %s: matrices have the exact values as %zu F32; activations are not rounded",
        json_string_value(hf_value(settings, "quant_method")), n);
}
