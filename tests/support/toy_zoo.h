/* Tests: the zoo, one toy model of each kind worth having, and its members as subjects of tests of
 * equal bits: a model, tokens, and the logits of every position from the plainest run there is
 * (step by step, one thread, untraced), against which every other way to them is checked. */
#ifndef TESTS_TOY_ZOO_H
#define TESTS_TOY_ZOO_H

#include "mgpt.h"
#include "support/build_model.h"
#include "support/unit.h"

/* Every architecture, every dialect, odd sizes, and the corners. */
enum {
    ZOO_MICROGPT,
    ZOO_MICROGPT_DEEP,
    ZOO_MICROGPT_RELU2,
    ZOO_MICROGPT_BF16,
    ZOO_MICROGPT_BIGRAM,
    ZOO_MICROGPT_SMALLEST,
    ZOO_LLAMA,
    ZOO_LLAMA_TIED,
    ZOO_LLAMA_F16,
    ZOO_LLAMA_DEEP,
    ZOO_LLAMA_BIASES,
    ZOO_LLAMA_DIALECT,
    ZOO_LLAMA_BIGRAM,
    ZOO_GPT2,
    ZOO_GPT2_ERF,
    ZOO_GPT2_F16,
    ZOO_GPT2_BIGRAM,
    ZOO_GPT2_NEO,
    ZOO_LLAMA_WINDOW,
    ZOO_LLAMA_PATTERN,
    ZOO_LLAMA_TWO_BASES,
    ZOO_LLAMA_SCALED,
    ZOO_QWEN2,
    ZOO_QWEN2_SCALED,
    ZOO_QWEN3,
    ZOO_GEMMA3,
    ZOO_GEMMA3_PERIOD,
    ZOO_GEMMA3_FLAGS,
    ZOO_GPTNEOX,
    ZOO_GPTNEOX_SERIAL,
    ZOO_PHI2,
    ZOO_PHI2_SEPARATE,
    ZOO_PHI2_NORMS,
    ZOO_OLMO,
    ZOO_OLMO2,
    ZOO_SMOLLM3,
    ZOO_SMOLLM3_EVERY_2,
    ZOO_STARCODER2,
    ZOO_GRANITE,
    ZOO_GEMMA,
    ZOO_GEMMA2,
    ZOO_PHI3,
    ZOO_PHI3_LONG,
    ZOO_QWEN3_YARN,
    ZOO_STABLELM,
    ZOO_STABLELM_PARALLEL,
    ZOO_GPTJ,
    ZOO_STARCODER,
    ZOO_BLOOM,
    ZOO_MPT,
    ZOO_COMMAND_R,
    ZOO_COHERE2,
    ZOO_FALCON,
    ZOO_FALCON_TWO_NORMS,
    ZOO_ARCEE,
    ZOO_NEMOTRON,
    ZOO_JAIS2,
    ZOO_ERNIE4_5,
    ZOO_HELIUM,
    ZOO_SEED_OSS,
    ZOO_CHATGLM,
    ZOO_GLM4,
    ZOO_HUNYUAN,
    ZOO_EXAONE,
    ZOO_EXAONE4,
    ZOO_EXAONE4_FULL,
    ZOO_MINICPM,
    ZOO_VAULTGEMMA,
    ZOO_BIOGPT,
    ZOO_GPT1,
    ZOO_GPT1_SEPARATE,
    ZOO_MIXTRAL,
    ZOO_MIXTRAL_SIGMOID,
    ZOO_OLMOE,
    ZOO_QWEN2MOE,
    ZOO_QWEN3MOE,
    ZOO_GRANITEMOE,
    ZOO_QWEN3MOE_Q8_0,
    ZOO_LFM2,
    ZOO_LFM2_FIRST,
    ZOO_LFM2_ALL,
    ZOO_LFM2_Q8_0,
    ZOO_APERTUS,
    ZOO_NANOCHAT_2025,
    ZOO_NANOCHAT_2026,
    ZOO_NANOCHAT_ONE_KEY,
    ZOO_NANOCHAT_SMEAR,
    ZOO_NANOCHAT_VALUES,
    ZOO_NANOCHAT_YARN,
    ZOO_LLAMA_Q8_0,
    ZOO_QWEN3_Q4_K,
    ZOO_GPTNEOX_Q4_K,
    ZOO_LLAMA_Q4_0,
    ZOO_LLAMA_Q4_1,
    ZOO_GPT2_Q5_0,
    ZOO_GPT2_Q5_1,
    ZOO_QWEN2_Q5_K,
    ZOO_LLAMA_Q6_K,
    ZOO_LLAMA_Q2_K,
    ZOO_QWEN3_IQ4_XS,
    ZOO_LLAMA_NVFP4,
    ZOO_SIZE
};
extern const struct toy_spec toy_zoo[ZOO_SIZE];

enum { MAX_TOKENS = 66 }; /* a chunk of 64 and something after it */

struct subject {
    struct toy *m;
    mgpt_model *model;
    size_t n, n_vocab;
    int32_t tokens[MAX_TOKENS];
    float *logits; /* [n][n_vocab] */
};

/* Makes the model and runs the reference. */
struct subject subject_new(const struct toy_spec *spec, uint64_t seed);
void subject_free(struct subject *s);

/* Runs the test for every model of the zoo. */
void subject_each(void test(const struct subject *));

/* TEST_ZOO(name) { ... }: a test of every model of the zoo, s. */
#define TEST_ZOO(name) TEST_EACH(subject_each, name, const struct subject *s)

/* A member of the zoo as a subject. */
struct subject subject_zoo(size_t zoo);

/* A session, or the test fails. */
mgpt_session *subject_session(const mgpt_model *model, int32_t n_chunk, int32_t n_threads);
void subject_feed(mgpt_session *session, const int32_t *tokens, size_t n);

/* `rows` rows of logits from position `first` on must be the reference's, to the bit; what and v
 * name the case in the message. */
void subject_check(const struct subject *s, size_t first, size_t rows, const float *logits,
                   const char *what, size_t v);

/* The session holds a prefix of the subject's tokens; feeds the rest and checks every row. */
void subject_check_feed(const struct subject *s, mgpt_session *session, const char *what, size_t v);

#endif
