/* Settings of quantised Hugging Face directories: what is refused, in which words. */
#include "support/hf_dir.h"
#include "support/unit.h"

#include "convert/families/hf_coded.h"

#include <math.h>

#define SPARSE(KEY, VALUE) "{\"quant_method\":\"compressed-tensors\",\"" KEY "\":" VALUE "}"
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
