/* Models that must be refused: with MGPT_EFILE and one line that names the tensor or key with what
 * was found and what was expected; nothing may leak (run under ASan). GGUF's own structure is sound
 * in these files (damage to it: test_gguf_bad.c). models.txt lists the edits and their lines. */
#include "support/toy_zoo.h"
#include "support/unit.h"

#include <math.h>

static const struct toy_spec llama = {.label = "llama, GQA 4/2 of 4",
                                      .arch = "llama",
                                      TOY_SIZES(2, 16, 4, 24, 32, 20),
                                      .n_head_kv = 2};
static const struct toy_spec *const own[] = {
    &llama,
    &(struct toy_spec){
        .label = "llama, heads of 5", .arch = "llama", TOY_SIZES(2, 20, 4, 24, 32, 20)},
    &(struct toy_spec){.label = "llama, 4 heads of 4 in 18",
                       .arch = "llama",
                       TOY_SIZES(2, 18, 4, 24, 32, 20),
                       .n_head_kv = 2,
                       .head_dim = 4}};

static struct toy *build_zoo(size_t zoo)
{
    struct toy_spec spec = toy_zoo[zoo];
    spec.seed = 60 + zoo;
    return toy_build(&spec);
}

/* ---- models.txt ---- */

/* A spec of this file or of the zoo whose label begins with the text. */
static const struct toy_spec *spec_named(const char *label)
{
    for (size_t i = 0; i < COUNT(own) + ZOO_SIZE; i++) {
        const struct toy_spec *s = i < COUNT(own) ? own[i] : &toy_zoo[i - COUNT(own)];
        if (strncmp(s->label, label, strlen(label)) == 0)
            return s;
    }
    fail_msg("no model '%s'", label);
    return NULL;
}

/* The model runs to its last position, or the 16th, and no logit is infinite or NaN. */
static void check_runs(struct toy *m)
{
    mgpt_model *model = toy_open(m, NULL);
    mgpt_session *session = subject_session(model, 0, 1);
    int32_t tokens[16];
    size_t n = mgpt_n_ctx(session) < 16 ? mgpt_n_ctx(session) : 16;
    toy_tokens(m, 1, tokens, n);
    subject_feed(session, tokens, n);
    for (int i = 0; i < m->spec.n_vocab; i++)
        assert_true(isfinite(mgpt_logits(session)[i]));
    mgpt_session_free(session);
    mgpt_close(model);
    toy_free(m);
}

static void check_refused(struct toy *m, char *line)
{
    mgpt_error err = {0};
    toy_encode(m);
    if (mgpt_open_bytes(m->file, m->size, NULL, &err))
        fail_msg("opened, expected: %s", line);
    assert_int_equal(err.status, MGPT_EFILE);
    char *rest = strstr(line, "...");
    if (rest && strlen(err.text) > (size_t)(rest - line))
        err.text[rest - line] = *rest = 0;
    assert_string_equal(err.text, line);
    toy_free(m);
}

/* A line of models.txt: EDITS => LINE, or "runs". A line that ends with ... is the beginning of one. */
static void check_model_row(const struct toy_spec *spec, char *row)
{
    char *line = strstr(row, " => ");
    struct toy *m = toy_build(spec);
    assert_non_null(line);
    *line = 0;
    line += 4;
    toy_edit(m, row);
    if (strcmp(line, "runs") == 0)
        check_runs(m);
    else
        check_refused(m, line);
}

static void take_line(char *line, void *user)
{
    const struct toy_spec **spec = user;
    if (strncmp(line, "model ", 6) == 0)
        *spec = spec_named(line + 6);
    else
        check_model_row(*spec, line);
}

TEST(models)
{
    const struct toy_spec *spec = NULL;
    assert_true(unit_rows("tests/model/models.txt", take_line, &spec) > 200);
}

/* ---- tensors that a model may have ---- */

/* Tensors that the model lacks and that its architecture knows, each by itself: of the names in `all`. */
static void list_more(const struct toy_spec *spec, const char *all, char *more)
{
    struct toy *m = toy_build(spec);
    char name[80];
    for (const char *at = all; sscanf(at, "%79s", name) == 1;
         at = strstr(at, name) + strlen(name)) {
        mgpt_error err = {0};
        if (toy_find(m, name))
            continue;
        toy_add(m, name, TOY_F32, 1, 0, 0, 1);
        toy_encode(m);
        mgpt_close(mgpt_open_bytes(m->file, m->size, NULL, &err));
        toy_drop_tensor(m, name);
        if (!strstr(err.text, "unknown to architecture"))
            more += sprintf(more, " %s", name);
    }
    toy_free(m);
}

static void take_tensors(char *line, void *user)
{
    char *all = user, *names = strchr(line, ':'), more[4096] = "";
    assert_non_null(names);
    *names++ = 0;
    if (strcmp(line, "all") == 0) {
        snprintf(all, sizeof more, "%s", names);
        return;
    }
    list_more(spec_named(line), all, more);
    if (strcmp(more, names) != 0)
        fail_msg("%s may have%s, expected%s", line, more, names);
}

TEST(more_tensors)
{
    char all[4096] = "";
    assert_true(unit_rows("tests/model/tensors.txt", take_tensors, all) > 40);
}

/* ---- every tensor ---- */

/* Biases are optional, but for those of q, k and v in qwen2. */
static int may_lack(const struct toy_spec *s, const char *name)
{
    static const char *const optional[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                           "resid_lambdas", "x0_lambdas"};
    for (size_t i = 0; i < COUNT(optional); i++)
        if (strcmp(name, optional[i]) == 0)
            return 1;
    if (strcmp(name, "output.weight") == 0)
        return strcmp(s->arch, "nanochat") != 0;
    if (strcmp(name, "position_embd.weight") == 0)
        return strcmp(s->arch, "microgpt") == 0;
    int qkv = strstr(name, ".attn_q.") || strstr(name, ".attn_k.") || strstr(name, ".attn_v.");
    return strstr(name, ".bias") && !(qkv && s->row->qkv_biases);
}

/* Every tensor of every architecture is needed, but for those whose absence means something. */
TEST(missing_tensors)
{
    const size_t chosen[] = {ZOO_MICROGPT,       ZOO_LLAMA,    ZOO_GPT2,          ZOO_GPT2_NEO,
                             ZOO_QWEN2,          ZOO_QWEN3,    ZOO_GEMMA3_FLAGS,  ZOO_GPTNEOX,
                             ZOO_GPTNEOX_SERIAL, ZOO_PHI2,     ZOO_PHI2_SEPARATE, ZOO_OLMO,
                             ZOO_OLMO2,          ZOO_SMOLLM3,  ZOO_NANOCHAT_2026, ZOO_LLAMA_SCALED,
                             ZOO_STARCODER2,     ZOO_GRANITE,  ZOO_GEMMA,         ZOO_GEMMA2,
                             ZOO_PHI3,           ZOO_STABLELM, ZOO_GPTJ,          ZOO_STARCODER,
                             ZOO_BLOOM,          ZOO_MPT};
    for (size_t c = 0; c < COUNT(chosen); c++) {
        struct toy *whole = build_zoo(chosen[c]);
        for (size_t i = 0; i < whole->n_tensors; i++) {
            const char *name = whole->tensors[i].name;
            struct toy *m = build_zoo(chosen[c]);
            toy_drop_tensor(m, name);
            char stem[80]; /* without a third of q, k, v the whole is missing */
            snprintf(stem, sizeof stem, "%.*s", m->spec.separate ? 11 : 79, name);
            if (may_lack(&m->spec, name))
                check_runs(m);
            else
                toy_check_refused(m, stem, "missing", NULL);
        }
        toy_free(whole);
    }
}

static void refuse_q_k_v(size_t zoo, const char *edits)
{
    struct toy *m = build_zoo(zoo);
    toy_edit(m, edits);
    toy_check_refused(m, "blk.1.attn_", NULL, NULL);
}

/* One tensor or three; not some of each, not both. */
TEST(q_k_v)
{
    const size_t fused[] = {ZOO_GPT2, ZOO_GPTNEOX, ZOO_PHI2};
    for (size_t i = 0; i < COUNT(fused); i++) {
        int n = toy_zoo[fused[i]].n_embd;
        char all[256] = "";
        for (const char *part = "qkv"; *part; part++) {
            char weight[80], edits[160];
            snprintf(weight, sizeof weight, "add blk.1.attn_%c.weight %d %d;", *part, n, n);
            refuse_q_k_v(fused[i], weight);
            snprintf(edits, sizeof edits, "drop blk.1.attn_qkv.weight; %s", weight);
            refuse_q_k_v(fused[i], edits);
            snprintf(edits, sizeof edits, "add blk.1.attn_%c.bias %d", *part, n);
            refuse_q_k_v(fused[i], edits);
            strcat(all, weight);
        }
        refuse_q_k_v(fused[i], all);
    }
}

TEST(dirty_names)
{
    struct toy *m = toy_build(&llama);
    toy_add(m, "a\nb\033[31m", TOY_F32, 16, 16, 0, 1);
    toy_check_refused(m, "a?b?[31m", NULL, NULL);
}

/* ---- whole files ---- */

/* No beginning of a model file is a model. Every length near the front, then in strides. */
TEST(truncated_anywhere)
{
    struct toy *m = build_zoo(ZOO_MICROGPT);
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
    struct toy *m = build_zoo(ZOO_MICROGPT);
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
    m = build_zoo(ZOO_MICROGPT); /* vocab_only on a whole model is allowed */
    model = toy_open(m, &params);
    assert_null(mgpt_session_new(model, NULL, &err));
    mgpt_close(model);
    toy_free(m);
}

/* Numbers in the weights that are not numbers do no harm beyond themselves: the engine runs. */
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
