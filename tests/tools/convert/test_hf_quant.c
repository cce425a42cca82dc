/* Settings of quantised Hugging Face directories: what is refused, in which words. */
#include "support/hf_dir.h"
#include "support/unit.h"

#include "convert/families/hf_coded.h"
#include "convert/families/hf_quant.h"

#include <math.h>

#define SPARSE(KEY, VALUE) "{\"quant_method\":\"compressed-tensors\",\"" KEY "\":" VALUE "}"
#define GROUPS_OF(columns, more)                                                                   \
    "{\"quant_method\":\"fp8\",\"config_groups\":{\"a\":{\"weights\":{\"block_structure\":["       \
    "24," columns "]}}" more "}}"
#define QUANT(method, bits, more)                                                                  \
    "{\"quant_method\":\"" method "\",\"bits\":" bits ",\"group_size\":32" more "}"

static const struct {
    const char *model, *key, *json;
    const char *expected; /* in the error; NULL: the directory is read */
} cases[] = {
    {"llama", "quantization_config", "{\"bits\":4}", "quant_method (none) is not read, gptq, awq"},
    {"llama", "quantization_config", "{\"quant_method\":\"aqlm\"}",
     "quant_method aqlm is not read, gptq, awq, fp8, compressed-tensors, bitsandbytes, hqq and MLX "
     "are"},
    {"llama", "quantization_config", "{\"quant_method\":\"fp8\"}", NULL},
    {"fp8", "quantization_config", "{\"quant_method\":\"fp8\",\"weight_block_size\":[24,20]}",
     "down_proj.weight_scale_inv: 3 scales for 64 rows or columns do not fit blocks of 20"},
    {"fp8", "quantization_config", "{\"quant_method\":\"fp8\",\"weight_block_size\":[0,20]}",
     "sizes of blocks: expected 1 to"},
    {"fp8", "quantization_config", "null", "element type F8_E4M3"},
    {"fp8", "quantization_config", "{\"quant_method\":\"modelopt\",\"quant_algo\":\"W4A8\"}",
     "quant_algo W4A8 is not read, FP8 and NVFP4 are"},
    {"fp8", "quantization_config", GROUPS_OF("20", ""),
     "down_proj.weight_scale_inv: 3 scales for 64 rows or columns do not fit blocks of 20"},
    {"fp8", "quantization_config", GROUPS_OF("24", ""), NULL},
    {"fp8", "quantization_config", GROUPS_OF("24", ",\"b\":{}"),
     "down_proj.weight_scale_inv: 3 scales for 64 rows or columns do not fit blocks of 0"},
    {"nvfp4", "quantization_config", "{\"quant_method\":\"fp8\"}", NULL},
    {"nvfp4", "quantization_config", "null", "q_proj.weight: missing"},
    {"hqq", "quantization_config", "{\"quant_method\":\"hqq\"}", NULL},
    {"hqq", "quantization_config", "null", "missing"},
    {"compressed", "quantization_config", SPARSE("sparsity_config", "{\"format\":\"sparse-24\"}"),
     "format sparse-24 is not read"},
    {"compressed", "quantization_config", SPARSE("sparsity_config", "{\"format\":\"dense\"}"),
     NULL},
    {"compressed", "quantization_config", SPARSE("transform_config", "{\"a\":{}}"),
     "transform_config is not read"},
    {"bitsandbytes", "quantization_config",
     "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32}", "element type"},
    {"llama", "quantization_config", QUANT("gptq", "5", ""), "bits 5 is not read, expected 2 to 8"},
    {"llama", "quantization_config", QUANT("awq", "8", ""), "bits 8 is not read, expected 4"},
    {"llama", "quantization_config", QUANT("awq", "4", ",\"version\":\"gemv\""),
     "version gemv is not"},
    {"llama", "quantization_config", QUANT("awq", "4", ",\"zero_point\":false"),
     "zero_point false"},
    {"llama", "quantization_config", QUANT("gptq", "4", ",\"checkpoint_format\":\"marlin\""),
     "checkpoint_format marlin is not read"},
    {"llama", "quantization_config", QUANT("gptq", "4", ",\"dynamic\":{\"a\":{}}"),
     "dynamic (settings"},
    {"llama", "quantization_config", QUANT("gptq", "4", ""), NULL}, /* no matrix is quantised */
    {"llama", "quantization", "{\"bits\":4,\"group_size\":32,\"mode\":\"mxfp4\"}",
     "mode mxfp4 is not"},
    {"llama", "quantization", "{\"bits\":4,\"group_size\":0}", "group_size 0 is not read"},
    {"gptq_sym", "quantization_config", "null",
     "quantization_config: missing; the tensors are those of"},
    {"gptq_sym", "quantization_config", /* the last group is short */
     "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":48}", NULL},
    {"gptq_sym", "quantization_config", QUANT("gptq", "8", ""),
     "scales: shape [2, 32], expected [1, 32]"},
    {"gptq_sym", "quantization_config", QUANT("gptq", "3", ""),
     "words are not whole numbers of 3 bits"},
    {"gptq_sym", "quantization_config", QUANT("awq", "4", ""), "scales: shape"},
    {"gptq_order", "quantization_config",
     "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-1}",
     "scales: shape [2, 32], expected [1, 32]"},
    {"mlx", "quantization", "{\"bits\":4,\"group_size\":64}", "scales: shape"},
};

TEST(quantised)
{
    for (size_t i = 0; i < COUNT(cases); i++) {
        char what[160];
        struct dir d = golden(cases[i].model);
        snprintf(what, sizeof what, "%s with %s %.60s", cases[i].model, cases[i].key,
                 cases[i].json);
        set_key(&d, cases[i].key, cases[i].json);
        assert_read(&d, "config.json", what, cases[i].expected);
        dir_free(&d);
    }
}

/* The settings may be those of the text part; a list of groups may be empty: columns are in order. */
TEST(parts_of_quantised)
{
    struct dir d = golden("gptq_sym");
    json_t *text = get_config(&d), *header = header_of(&d), *list;
    json_t *root = json_pack("{s:s, s:O}", "model_type", "some_vl", "text_config", text);
    set_config(&d, root);
    assert_read(&d, "config.json", "settings of the text part", NULL);
    list = json_object_get(header, "model.layers.0.mlp.down_proj.g_idx");
    json_object_set_new(header, "model.x.rotary_emb.inv_freq", json_deep_copy(list));
    json_object_set_new(list, "shape", json_pack("[i]", 0));
    json_object_set_new(list, "data_offsets", json_pack("[i,i]", 0, 0));
    set_header(&d, header);
    assert_read(&d, "config.json", "no list of groups", NULL);
    json_decref(text);
    json_decref(root);
    json_decref(header);
    dir_free(&d);
}

/* In 2023 AutoGPTQ and AutoAWQ wrote the settings into a file beside config.json, without quant_method. */
TEST(settings_beside)
{
    static const struct {
        const char *model, *name, *json, *expected;
    } sides[] = {
        {"gptq_sym", "quantize_config.json", "{\"bits\":4,\"group_size\":32,\"desc_act\":false}",
         NULL},
        {"gptq_sym", "quantize_config.json", "{\"bits\":8,\"group_size\":32}",
         "scales: shape [2, 32], expected [1, 32]"},
        {"gptq_sym", "quant_config.json", "{\"w_bit\":4,\"q_group_size\":32}", "scales: shape"},
        {"gptq_sym", "quantize_config.json", "[]", "quantize_config.json: expected an object"},
        {"awq", "quant_config.json",
         "{\"zero_point\":true,\"q_group_size\":32,\"w_bit\":4,\"version\":\"GEMM\"}", NULL},
        {"awq", "quant_config.json", "{\"zero_point\":false,\"q_group_size\":32,\"w_bit\":4}",
         "zero_point false"},
        {"awq", "quantize_config.json", "{\"bits\":4,\"group_size\":32}", "qweight: "},
    };
    for (size_t i = 0; i < COUNT(sides); i++) {
        struct dir d = golden(sides[i].model);
        struct checkpoint a, b;
        must_read(&a, &d, sides[i].model);
        set_key(&d, "quantization_config", "null");
        set_file(&d, sides[i].name, copy_of(sides[i].json, strlen(sides[i].json)));
        assert_read(&d, "config.json", sides[i].json, sides[i].expected);
        if (!sides[i].expected) {
            must_read(&b, &d, sides[i].name);
            assert_int_equal(arr_len(a.tensors), arr_len(b.tensors));
            ckpt_free(&b);
        }
        ckpt_free(&a);
        dir_free(&d);
    }
}

/* Each group of HQQ's has a zero and a scale. */
TEST(hqq_groups)
{
    static const char *const parts[] = {"zero", "scale"};
    static const float few[2] = {0};
    for (size_t i = 0; i < COUNT(parts); i++) {
        struct dir d = golden("hqq");
        json_t *header = header_of(&d);
        char name[80];
        snprintf(name, sizeof name, "model.layers.0.self_attn.k_proj.%s", parts[i]);
        rename_tensor(header, name, "x.round_zero");
        set_header(&d, header);
        json_decref(header);
        append_tensor(&d, name, 1, 2, few);
        assert_read(&d, "config.json", name, "codes, scales and zeros do not fit [32, 32]");
        dir_free(&d);
    }
}

/* ---- numbers of some bits in words ---- */

enum { IN = 64, OUT = 32, N_GROUPS = 2, GROUP = IN / N_GROUPS };

struct stored {
    uint8_t q[IN * OUT], zeros[N_GROUPS * OUT], g_idx[4 * IN];
    float scales[N_GROUPS * OUT], biases[N_GROUPS * OUT];
};

/* Number i of `bits` bits in words that are `step` apart, bit by bit. */
static unsigned by_bits(const uint8_t *words, uint64_t step, uint64_t i, unsigned bits)
{
    unsigned v = 0;
    for (unsigned k = 0; k < bits; k++) {
        uint64_t bit = i * bits + k;
        v |= (words[4 * (bit / 32 * step) + bit % 32 / 8] >> bit % 8 & 1u) << k;
    }
    return v;
}

static float packed_expected(const struct hf_packed *m, const struct stored *s, size_t row,
                             size_t i)
{
    const size_t g = m->g_idx ? m->g_idx[4 * i] : i / GROUP;
    if (m->scheme == HF_MLX)
        return s->scales[row * N_GROUPS + g] *
                   (float)by_bits(s->q + row * IN * m->bits / 8, 1, i, m->bits) +
               s->biases[row * N_GROUPS + g];
    unsigned zero = by_bits(s->zeros + g * OUT * m->bits / 8, 1, row, m->bits) + m->plus;
    int q = (int)by_bits(s->q + 4 * row, OUT, i, m->bits) - (int)zero;
    return s->scales[g * OUT + row] * (float)q;
}

/* Compares the values from each column on, and those of the blocks from each 32nd column on. */
static void check_packed(const struct hf_packed *m, const struct stored *s, const char *type)
{
    char what[60];
    snprintf(what, sizeof what, "scheme %d, %u bits", (int)m->scheme, m->bits);
    if (strcmp(m->base.type->name, type) != 0)
        fail_msg("%s: %s, expected %s", what, m->base.type->name, type);
    for (size_t row = 0; row < OUT; row++)
        for (size_t first = 0; first < IN; first++) {
            float out[IN];
            uint8_t blocks[IN * 4];
            m->base.values(&m->base, row, first, IN - first, out);
            for (size_t i = first; i < IN; i++)
                if (out[i - first] != packed_expected(m, s, row, i))
                    fail_msg("%s: row %zu, column %zu from %zu", what, row, i, first);
            if (!m->base.blocks || first % 32)
                continue;
            m->base.blocks(&m->base, row, first, IN - first, blocks);
            m->base.type->to_float(blocks, out, IN - first);
            for (size_t i = first; i < IN; i++)
                if (out[i - first] != packed_expected(m, s, row, i))
                    fail_msg("%s: blocks, row %zu, column %zu", what, row, i);
        }
}

TEST(packed)
{
    static const struct {
        enum hf_scheme scheme;
        unsigned bits, plus;
        int zeros;      /* the byte that all zeros are made of; -1: any */
        char groups[4]; /* of the first column, of the second, and of those from 32 on; "": none */
        const char *type;
    } kinds[] = {
        {HF_GPTQ, 2, 1, -1, "", "Q4_0"},    {HF_GPTQ, 3, 1, -1, "", "Q4_0"},
        {HF_GPTQ, 3, 1, -1, "110", "Q4_0"}, {HF_GPTQ, 3, 1, -1, "101", "F32"},
        {HF_GPTQ, 4, 1, -1, "", "Q5_0"},    {HF_GPTQ, 4, 1, 0x77, "110", "Q4_0"},
        {HF_GPTQ, 8, 1, 127, "", "Q8_0"},   {HF_GPTQ, 8, 0, 129, "", "F32"},
        {HF_GPTQ, 8, 0, 127, "", "F32"},    {HF_MLX, 2, 0, -1, "", "Q4_1"},
        {HF_MLX, 3, 0, -1, "", "Q4_1"},     {HF_MLX, 4, 0, -1, "", "Q4_1"},
        {HF_MLX, 5, 0, -1, "", "Q5_1"},     {HF_MLX, 6, 0, -1, "", "F32"},
        {HF_MLX, 8, 0, -1, "", "F32"},
    };
    static struct stored s;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        uint32_t random = 1;
        for (size_t k = 0; k < sizeof s.q; k++)
            s.q[k] = (uint8_t)((random = random * 1664525u + 1013904223u) >> 24);
        for (size_t k = 0; k < sizeof s.zeros; k++)
            s.zeros[k] = kinds[i].zeros < 0 ? (uint8_t)(s.q[k] * 7) : (uint8_t)kinds[i].zeros;
        for (size_t k = 0; k < COUNT(s.scales); k++) {
            s.scales[k] = (float)(k % 13 + 1) / 64;
            s.biases[k] = (float)(k % 7) / 8 - 1;
        }
        for (size_t k = 0; k < IN; k++)
            s.g_idx[4 * k] = kinds[i].groups[k < 2 ? k : 1 + k / 32] == '1';
        struct hf_packed m = {.scheme = kinds[i].scheme,
                              .bits = kinds[i].bits,
                              .n_in = IN,
                              .n_out = OUT,
                              .n_groups = N_GROUPS,
                              .group = GROUP,
                              .q = s.q,
                              .zeros = s.zeros,
                              .scales = (const uint8_t *)s.scales,
                              .g_idx = kinds[i].groups[0] ? s.g_idx : NULL,
                              .scale_type = STATE_F32,
                              .plus = kinds[i].plus};
        if (m.scheme == HF_MLX)
            m.zeros = (const uint8_t *)s.biases;
        hf_packed_seal(&m);
        check_packed(&m, &s, kinds[i].type);
    }
}

/* Every code, as the OCP's table of formats has it: E4M3 of torch.float8_e4m3fn, whose NaN is 127 alone. */
TEST(codes)
{
    static float books[HF_N_BOOKS][HF_N_CODES];
    hf_coded_books(books);
    for (int i = 0; i < HF_N_CODES; i++) {
        int at = i & 127;
        double e4m3 = (at < 8 ? at / 8.0 : 1 + (at & 7) / 8.0) * pow(2, (at < 8 ? 1 : at / 8) - 7);
        float found = books[HF_BOOK_E4M3][i];
        if (at == 127)
            assert_true(isnan(found));
        else
            assert_float_equal(found, (float)(i < 128 ? e4m3 : -e4m3), 0);
        assert_float_equal(books[HF_BOOK_SIGNED][i], (float)(int8_t)i, 0);
        assert_float_equal(books[HF_BOOK_COUNTS][i], (float)i, 0);
        assert_float_equal(books[HF_BOOK_AROUND_8][i] + 8, (float)i, 0);
        assert_float_equal(books[HF_BOOK_AROUND_128][i] + 128, (float)i, 0);
    }
    assert_float_equal(books[HF_BOOK_E4M3][126], 448, 0);
    for (int i = 0; i < 16; i++) { /* E2M1: 0, the subnormal 0.5, then 1 and 1.5 times 1, 2, 4 */
        double e2m1 = (i & 7) < 2 ? (i & 7) / 2.0 : (1 + (i & 1) / 2.0) * (1 << ((i & 7) / 2 - 1));
        assert_float_equal(books[HF_BOOK_E2M1][i], (float)(i & 8 ? -e2m1 : e2m1), 0);
    }
}
