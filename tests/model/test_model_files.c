/* Tests of models that must be refused: each with MGPT_EFILE, one line that names the tensor or key
 * with what was expected and found, and nothing leaked (run under ASan). Damage to GGUF's own structure
 * is test_gguf's business; here the structure is sound and the model is wrong. */
#include "support/build_model.h"
#include "support/unit.h"

#include <math.h>

static const struct toy_spec llama = {.label = "llama",
                                      .arch = "llama",
                                      .n_layer = 2,
                                      .n_embd = 16,
                                      .n_head = 4,
                                      .n_head_kv = 2,
                                      .n_ff = 24,
                                      .n_ctx = 32,
                                      .n_vocab = 20,
                                      .seed = 1};
static const struct toy_spec microgpt = {.label = "microgpt",
                                         .arch = "microgpt",
                                         .n_layer = 1,
                                         .n_embd = 16,
                                         .n_head = 4,
                                         .n_ff = 64,
                                         .n_ctx = 16,
                                         .n_vocab = 27,
                                         .characters = 1,
                                         .seed = 2};
static const struct toy_spec gpt2 = {.label = "gpt2",
                                     .arch = "gpt2",
                                     .n_layer = 1,
                                     .n_embd = 16,
                                     .n_head = 4,
                                     .n_ff = 64,
                                     .n_ctx = 16,
                                     .n_vocab = 27,
                                     .tied = 1,
                                     .biases = 1,
                                     .seed = 3};

static struct toy *resized(const struct toy_spec *spec, const char *name, int dim, uint64_t size)
{
    struct toy *m = toy_build(spec);
    struct toy_tensor *t = toy_find(m, name);
    assert_non_null(t);
    t->dims[dim] = size;
    return m;
}

static struct toy *with_u32(const struct toy_spec *spec, const char *key, uint32_t v)
{
    struct toy *m = toy_build(spec);
    toy_put_u32(m, key, v);
    return m;
}

/* ---- tensors -----------------------------------------------------------------------------------
 */

/* Every tensor of a file is needed, but for those whose absence means something. */
static void check_each_missing(const struct toy_spec *spec, const char *const *optional)
{
    struct toy *whole = toy_build(spec);
    for (size_t i = 0; i < whole->n_tensors; i++) {
        const char *name = whole->tensors[i].name;
        int may_lack = strstr(name, ".bias") != NULL;
        for (size_t j = 0; optional[j]; j++)
            may_lack |= strcmp(name, optional[j]) == 0;
        struct toy *m = toy_build(spec);
        toy_drop_tensor(m, name);
        if (!may_lack) {
            toy_check_refused(m, name, "missing", NULL);
            continue;
        }
        mgpt_close(toy_open(m, NULL));
        toy_free(m);
    }
    toy_free(whole);
}

TEST(missing_tensors)
{
    check_each_missing(&llama, (const char *const[]){"output.weight", NULL});
    check_each_missing(&microgpt,
                       (const char *const[]){"output.weight", "position_embd.weight", NULL});
    check_each_missing(&gpt2, (const char *const[]){"output.weight", NULL});
}

TEST(wrong_shapes)
{
    toy_check_refused(resized(&microgpt, "blk.0.attn_q.weight", 1, 15), "blk.0.attn_q.weight",
                      "[16, 15]", "[16, 16]");
    toy_check_refused(resized(&microgpt, "blk.0.ffn_up.weight", 0, 64), "blk.0.ffn_up.weight",
                      "[64, 64]", "[16, 64]");
    toy_check_refused(resized(&microgpt, "position_embd.weight", 1, 17), "position_embd.weight",
                      "[16, 17]", "[16, 16]");
    toy_check_refused(resized(&microgpt, "output.weight", 1, 28), "output.weight", "[16, 28]",
                      "[16, 27]");
    toy_check_refused(resized(&microgpt, "token_embd.weight", 0, 15), "token_embd.weight",
                      "[15, 27]", "[16, 27]");
    toy_check_refused(resized(&llama, "blk.1.attn_k.weight", 1, 16), "blk.1.attn_k.weight",
                      "[16, 16]", "[16, 8]");
    toy_check_refused(resized(&llama, "blk.1.ffn_norm.weight", 0, 17), "blk.1.ffn_norm.weight",
                      "[17", "[16");
    toy_check_refused(resized(&llama, "output_norm.weight", 0, 1), "output_norm.weight", "[1",
                      "[16");
    toy_check_refused(resized(&gpt2, "blk.0.attn_qkv.weight", 1, 16), "blk.0.attn_qkv.weight",
                      "[16, 16]", "[16, 48]");
    toy_check_refused(resized(&gpt2, "blk.0.attn_qkv.bias", 0, 49), "blk.0.attn_qkv.bias", "[49",
                      "[48");
    struct toy *cube = toy_build(&llama);
    struct toy_tensor *t = toy_find(cube, "blk.0.ffn_down.weight");
    t->n_dims = 3;
    t->dims[2] = 2;
    toy_check_refused(cube, "blk.0.ffn_down.weight", "[24, 16, 2", "[24, 16]");
}

TEST(unknown_tensors)
{
    const char *const names[] = {"blk.0.attn_q_norm.weight", "blk.2.attn_q.weight",
                                 "blk.00.attn_q.weight", "blk.0.attn_qkv.weight", "extra"};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct toy *m = toy_build(&llama);
        toy_add(m, names[i], TOY_F32, 16, 16, 0, 1);
        toy_check_refused(m, names[i], "unknown", NULL);
    }
    struct toy *m = toy_build(&microgpt);
    toy_add(m, "blk.0.attn_qkv.bias", TOY_F32, 48, 0, 0, 1);
    toy_check_refused(m, "blk.0.attn_qkv.bias", "unknown", NULL);
}

/* A name of the greatest length is printed without spoiling the line. */
TEST(long_and_dirty_names)
{
    char name[64];
    memset(name, 'n', 63);
    name[63] = 0;
    struct toy *m = toy_build(&llama);
    toy_add(m, name, TOY_F32, 16, 16, 0, 1);
    toy_check_refused(m, "nnnnnnnn", "unknown", NULL);
    m = toy_build(&llama);
    toy_add(m, "a\nb\033[31m", TOY_F32, 16, 16, 0, 1);
    toy_check_refused(m, "a?b?[31m", NULL, NULL);
}

/* ---- keys --------------------------------------------------------------------------------------
 */

TEST(missing_keys)
{
    const char *const keys[] = {"general.architecture",
                                "llama.block_count",
                                "llama.context_length",
                                "llama.embedding_length",
                                "llama.feed_forward_length",
                                "llama.attention.head_count",
                                "llama.attention.layer_norm_rms_epsilon"};
    for (size_t i = 0; i < COUNT(keys); i++) {
        struct toy *m = toy_build(&llama);
        toy_drop_key(m, keys[i]);
        toy_check_refused(m, keys[i], "missing", NULL);
    }
}

TEST(wrong_types_of_keys)
{
    struct toy *m = toy_build(&llama);
    toy_put_string(m, "llama.block_count", "two");
    toy_check_refused(m, "llama.block_count", "integer", "string");
    m = toy_build(&llama);
    toy_put_f32(m, "llama.embedding_length", 16);
    toy_check_refused(m, "llama.embedding_length", "integer", "f32");
    m = toy_build(&llama);
    toy_put_u32(m, "llama.attention.layer_norm_rms_epsilon", 0);
    toy_check_refused(m, "llama.attention.layer_norm_rms_epsilon", "float", NULL);
    m = toy_build(&llama);
    toy_put_u32(m, "mgpt.final_norm", 1);
    toy_check_refused(m, "mgpt.final_norm", "bool", NULL);
    m = toy_build(&llama);
    toy_put_u32(m, "mgpt.activation", 1);
    toy_check_refused(m, "mgpt.activation", "string", NULL);
    m = toy_build(&llama);
    toy_put_bool(m, "general.architecture", 1);
    toy_check_refused(m, "general.architecture", "string", "bool");
}

TEST(numbers_out_of_range)
{
    toy_check_refused(with_u32(&llama, "llama.block_count", 1000000), "block_count", "1000000",
                      NULL);
    toy_check_refused(with_u32(&llama, "llama.context_length", 0), "context_length", "0", NULL);
    toy_check_refused(with_u32(&llama, "llama.context_length", UINT32_MAX), "context_length",
                      "4294967295", NULL);
    toy_check_refused(with_u32(&llama, "llama.embedding_length", 0), "embedding_length", "0", NULL);
    toy_check_refused(with_u32(&llama, "llama.embedding_length", 32), "token_embd.weight",
                      "[16, 20]", "[32, 20]");
    toy_check_refused(with_u32(&llama, "llama.attention.head_count", 0), "head_count", "0", NULL);
    toy_check_refused(with_u32(&llama, "llama.attention.head_count_kv", 0), "head_count_kv", "0",
                      NULL);
    toy_check_refused(with_u32(&llama, "llama.feed_forward_length", 23), "ffn_", "[16, 24]",
                      "[16, 23]");
    toy_check_refused(with_u32(&llama, "llama.rope.dimension_count", 6), "rope.dimension_count",
                      "6", "4");
    toy_check_refused(with_u32(&llama, "llama.vocab_size", 21), "vocab_size", "21", "20");
    toy_check_refused(with_u32(&llama, "llama.expert_count", 8), "expert_count", NULL, NULL);
    const float eps[] = {-1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        struct toy *m = toy_build(&llama);
        toy_put_f32(m, "llama.attention.layer_norm_rms_epsilon", eps[i]);
        toy_check_refused(m, "layer_norm_rms_epsilon", NULL, NULL);
        m = toy_build(&llama);
        toy_put_f32(m, "llama.rope.freq_base", eps[i]);
        toy_check_refused(m, "rope.freq_base", NULL, NULL);
    }
}

/* Head counts that do not divide: both numbers are said. */
TEST(head_counts)
{
    toy_check_refused(with_u32(&microgpt, "microgpt.attention.head_count", 3), "16", "3", NULL);
    toy_check_refused(with_u32(&llama, "llama.attention.head_count_kv", 3), "4", "3", NULL);
    toy_check_refused(with_u32(&llama, "llama.attention.head_count_kv", 8), "4", "8", NULL);
    toy_check_refused(with_u32(&microgpt, "microgpt.attention.head_count", 17), "16", "17", NULL);
    struct toy_spec odd = llama; /* head_dim 5 cannot rotate in pairs */
    odd.n_embd = 20;
    toy_check_refused(toy_build(&odd), "rope", "5", NULL);
}

/* head_dim is free when the file says it: 4 heads of 4 in a model 18 wide. */
TEST(head_width_of_its_own)
{
    struct toy_spec spec = llama;
    spec.n_embd = 18;
    spec.head_dim = 4;
    struct toy *m = toy_build(&spec);
    mgpt_close(toy_open(m, NULL));
    toy_free(m);
}

TEST(unknown_words)
{
    struct toy *m = toy_build(&llama);
    toy_put_string(m, "general.architecture", "mamba");
    toy_check_refused(m, "mamba", NULL, NULL);
    m = toy_build(&llama);
    toy_put_string(m, "mgpt.activation", "swish");
    toy_check_refused(m, "mgpt.activation", "swish", NULL);
    m = toy_build(&llama);
    toy_put_string(m, "general.type", "adapter");
    toy_check_refused(m, "general.type", "adapter", NULL);
    m = toy_build(&llama);
    toy_put_string(m, "llama.rope.scaling.type", "yarn");
    toy_check_refused(m, "rope.scaling.type", "yarn", NULL);
}

/* ---- whole files -------------------------------------------------------------------------------
 */

/* No beginning of a model file is a model. Every length near the front, then in strides. */
TEST(truncated_anywhere)
{
    struct toy *m = toy_build(&microgpt);
    toy_encode(m);
    for (size_t n = 0; n < m->size; n += n < 4096 ? 1 : 97) {
        mgpt_error err = {0};
        uint8_t *cut = toy_alloc(n, 1); /* its own block, so that ASan sees reads past the end */
        memcpy(cut, m->file, n);
        assert_null(mgpt_open_bytes(cut, n, NULL, &err));
        if (err.status != MGPT_EFILE)
            fail_msg("%zu of %zu bytes: status %d: %s", n, m->size, err.status, err.text);
        free(cut);
    }
    toy_free(m);
}

TEST(files_that_cannot_be_read)
{
    mgpt_error err = {0};
    assert_null(mgpt_open("/nonexistent/model.gguf", NULL, &err));
    assert_int_equal(err.status, MGPT_EIO);
    assert_null(mgpt_open("/tmp", NULL, &err));
    assert_true(err.status == MGPT_EIO || err.status == MGPT_EFILE);
    assert_null(mgpt_open("/dev/null", NULL, &err));
    assert_true(err.status == MGPT_EIO || err.status == MGPT_EFILE);
}

TEST(isa_names)
{
    struct toy *m = toy_build(&llama);
    mgpt_error err = {0};
    toy_encode(m);
    const char *const names[] = {"sse9", "", "AVX2 "};
    for (int i = 0; i < 3; i++) {
        mgpt_model_params params = {.isa = names[i]};
        assert_null(mgpt_open_bytes(m->file, m->size, &params, &err));
        assert_int_equal(err.status, MGPT_EARG);
        assert_non_null(strstr(err.text, names[i]));
    }
    toy_free(m);
}

/* A file without tensors is a vocabulary: it encodes, it cannot run. */
TEST(vocab_only)
{
    struct toy *m = toy_build(&microgpt);
    while (m->n_tensors)
        toy_drop_tensor(m, m->tensors[0].name);
    mgpt_error err = {0};
    mgpt_model_params params = {.vocab_only = 1};
    mgpt_model *model = toy_open(m, &params);
    mgpt_info info;
    assert_int_equal(mgpt_get_info(model, &info, &err), MGPT_OK);
    assert_string_equal(info.tokenizer, "char");
    assert_int_equal(info.n_tokens, 27);
    assert_int_equal(info.bos, 26);
    assert_int_equal(mgpt_encode(model, "!", 1, 0, NULL, 0, &err), 2);
    assert_int_equal(mgpt_n_tensors(model), 0);
    assert_null(mgpt_session_new(model, NULL, &err));
    assert_int_equal(err.status, MGPT_EARG);
    mgpt_close(model);
    toy_check_refused(m, "token_embd.weight", "missing", NULL);
    m = toy_build(&microgpt); /* vocab_only on a whole model is allowed */
    model = toy_open(m, &params);
    assert_null(mgpt_session_new(model, NULL, &err));
    mgpt_close(model);
    toy_free(m);
}

/* Numbers in the weights that are no numbers do no harm beyond themselves: the engine runs. */
TEST(weights_of_nan_and_infinity)
{
    struct toy *m = toy_build(&llama);
    const float odd[4] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (size_t i = 0; i < m->n_tensors; i++)
        m->tensors[i].values[i % m->tensors[i].n] = odd[i % 4];
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *session = mgpt_session_new(model, NULL, NULL);
    mgpt_sampler sampler = {.temperature = 1, .rng = 1};
    for (int i = 0; i < 20; i++) {
        const float *logits = mgpt_step(session, i, NULL);
        assert_non_null(logits);
        int32_t token = mgpt_sample(&sampler, logits, 20);
        assert_true(token >= 0 && token < 20);
    }
    mgpt_session_free(session);
    mgpt_close(model);
    toy_free(m);
}
