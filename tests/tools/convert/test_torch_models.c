/* Checkpoints of training programs: what the readers make of the fixtures, and of damaged ones.
 *
 * That the models compute what their programs compute is tests/cli/convert_torch.sh's to show.
 */
#include "support/torch_input.h"
#include "support/unit.h"

#include "convert/core/readers.h"

/* Files next to the checkpoint, read from its directory in tests/fixtures. */
struct torch_sides {
    const char *directory;
    struct file files[8];
    size_t n;
};

static int find_beside(void *user, enum ckpt_option option, const char *const *candidates, size_t n,
                       struct ckpt_side *side, mgpt_error *err)
{
    struct torch_sides *b = user;
    char folder[128];
    (void)option;
    snprintf(folder, sizeof folder, "tests/fixtures/torch/%s", b->directory);
    for (size_t i = 0; i < n; i++) {
        struct file f;
        if (b->n == COUNT(b->files) || repo_open(&f, folder, candidates[i], err) < 0)
            continue;
        b->files[b->n++] = f;
        *side = (struct ckpt_side){candidates[i], {f.data, f.size}};
        return 1;
    }
    return 0;
}

/* Reads bytes as a file of this name in the directory, then every value of every tensor. */
static int read_model(struct checkpoint *c, struct span bytes, const char *directory,
                      const char *name, const struct ckpt_options *o, mgpt_error *err)
{
    struct torch_sides b = {.directory = directory};
    struct ckpt_input in = {bytes, name, o, find_beside, &b, directory, NULL};
    float values[256];
    ckpt_init(c);
    int status = ckpt_read(c, &in, err);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(c->tensors); i++) {
        const struct ckpt_tensor *t = &c->tensors[i];
        for (uint64_t at = 0; at < t->n_values; at += COUNT(values)) {
            uint64_t left = t->n_values - at;
            ckpt_values(t, at, left < COUNT(values) ? (size_t)left : COUNT(values), values);
        }
    }
    for (size_t i = 0; i < b.n; i++)
        file_close(&b.files[i]);
    return status;
}

static const struct ckpt_options no_options = {0};

static const struct ckpt_tensor *tensor_called(const struct checkpoint *c, const char *name)
{
    for (size_t i = 0; i < arr_len(c->tensors); i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    return NULL;
}

/* ---- what is read ---------------------------------------------------------------------------- */

struct model {
    const char *directory, *file, *name; /* name: without extension */
    const char *format, *arch, *activation;
    uint32_t n_layer, n_head, n_head_kv, n_embd, n_ff, n_ctx, n_vocab;
    size_t n_tensors;
    int32_t heads;      /* --heads; 0: not given */
    const char *assume; /* --assume; NULL: not given */
};

/* clang-format off */
static const struct model models[] = {
    {"nanogpt", "ckpt.pt", "ckpt", "nanoGPT (PyTorch zip)",
     "gpt2", "gelu_erf", 1, 2, 0, 8, 32, 8, 12, 16, 0, "nanogpt"},
    {"nanogpt-nobias", "ckpt.pt", "ckpt", "nanoGPT (PyTorch zip)",
     "gpt2", "gelu_erf", 1, 2, 0, 8, 32, 8, 12, 16, 0, "nanogpt"},
    {"nanogpt-legacy", "ckpt.pt", "ckpt", "nanoGPT (PyTorch legacy)",
     "gpt2", "gelu_erf", 1, 2, 0, 8, 32, 8, 12, 16, 0, "nanogpt"},
    {"build-nanogpt", "model.pt", "model", "nanoGPT (PyTorch zip)",
     "gpt2", NULL, 1, 2, 0, 8, 32, 8, 12, 16, 0, "nanogpt-2022"},
    {"mingpt", "model.pt", "model", "minGPT (PyTorch zip)",
     "gpt2", NULL, 1, 4, 0, 8, 32, 8, 12, 17, 0, NULL},
    {"scratch", "model.pth", "model", "LLMs-from-scratch GPTModel (PyTorch zip)",
     "gpt2", NULL, 1, 2, 0, 8, 32, 8, 17, 17, 2, "llms-from-scratch"},
    {"scratch-bias", "model.pth", "model", "LLMs-from-scratch GPTModel (PyTorch zip)",
     "gpt2", NULL, 1, 2, 0, 8, 32, 8, 17, 17, 2, "llms-from-scratch"},
    {"llama2c", "ckpt.pt", "ckpt", "llama2.c or Meta Llama (PyTorch zip)",
     "llama", NULL, 2, 4, 2, 16, 12, 8, 17, 20, 0, NULL},
    {"meta-llama", "consolidated.00.pth", "consolidated.00", "llama2.c or Meta Llama (PyTorch zip)",
     "llama", NULL, 1, 2, 2, 16, 20, 2048, 17, 12, 0, NULL},
    {"nanochat-2025", "model_000010.pt", "model_000010", "nanochat (PyTorch zip)",
     "nanochat", NULL, 1, 2, 1, 8, 32, 8, 270, 8, 0, NULL},
    {"nanochat-2026-01", "model_000010.pt", "model_000010", "nanochat (PyTorch zip)",
     "nanochat", NULL, 2, 2, 1, 8, 32, 8, 270, 16, 0, NULL},
    {"nanochat-2026-02", "model_000010.pt", "model_000010", "nanochat (PyTorch zip)",
     "nanochat", NULL, 2, 4, 2, 32, 128, 400, 40, 18, 0, NULL},
    {"nanochat-2026-03", "model_000010.pt", "model_000010", "nanochat (PyTorch zip)",
     "nanochat", NULL, 2, 4, 1, 24, 96, 400, 40, 18, 0, NULL},
    {"nanochat-2026", "model_000010.pt", "model_000010", "nanochat (PyTorch zip)",
     "nanochat", NULL, 3, 2, 2, 24, 96, 400, 40, 29, 0, NULL},
    {"mingpt-2020", "model.pt", "model", "GPT-2 in other names (PyTorch zip)",
     "gpt2", "gelu_erf", 2, 3, 0, 12, 48, 8, 12, 29, 3, NULL},
    {"slm4096", "ckpt.pt", "ckpt", "GPT-2 in other names (PyTorch zip)",
     "gpt2", "gelu_erf", 2, 3, 0, 12, 48, 8, 12, 28, 0, NULL},
    {"ng-video-lecture", "model.pth", "model", "GPT-2 in other names (PyTorch zip)",
     "gpt2", "relu", 2, 3, 0, 12, 48, 8, 12, 30, 0, "ng-video-lecture"},
    {"freecodecamp", "model.pth", "model", "GPT-2 in other names (PyTorch zip)",
     "gpt1", "relu", 2, 3, 0, 12, 48, 8, 12, 30, 0, "freecodecamp"},
    {"no-projection", "model.pt", "model", "GPT-2 in other names (PyTorch zip)",
     "gpt2", "gelu_erf", 2, 3, 0, 12, 20, 8, 12, 28, 0, "nanogpt"},
    {"rotated", "model.pt", "model", "GPT-2 in other names (PyTorch zip)",
     "llama", NULL, 2, 4, 2, 24, 10, 8, 12, 27, 0, "llama"},
    {"ng-bigram", "bigram.pt", "bigram", "ng-video-lecture bigram (PyTorch zip)",
     "microgpt", NULL, 0, 1, 0, 12, 48, 1024, 12, 2, 0, NULL},
    {"litgpt-llama-old", "lit_model.pth", "lit_model", "LitGPT (PyTorch zip)",
     "llama", NULL, 2, 4, 2, 12, 10, 8, 16, 21, 0, NULL},
    {"litgpt-neox", "lit_model.pth", "lit_model", "LitGPT (PyTorch zip)",
     "gptneox", NULL, 2, 2, 2, 16, 20, 8, 16, 28, 0, NULL},
    {"lightning", "model.ckpt", "model", "nanoGPT (PyTorch zip)",
     "gpt2", "gelu_erf", 1, 2, 0, 8, 32, 8, 12, 16, 0, "nanogpt"},
    {"fsdp", "model.ckpt", "model", "nanoGPT (PyTorch zip)",
     "gpt2", "gelu_erf", 1, 2, 0, 8, 32, 8, 12, 16, 0, "nanogpt"},
    {"microgpt", "state.pt", "state", "microgpt (PyTorch zip)",
     "microgpt", "relu", 2, 2, 0, 4, 16, 8, 13, 15, 2, NULL},
};
/* clang-format on */

static void path_of(const struct model *m, char path[128])
{
    snprintf(path, 128, "%s/%s", m->directory, m->file);
}

static struct ckpt_options options_of(const struct model *m)
{
    struct ckpt_options o = {.n_head = m->heads};
    if (m->heads)
        o.given = OPT_HEADS;
    if (m->assume) {
        o.given |= OPT_ASSUME;
        o.assume = m->assume;
    }
    return o;
}

static void check_torch_model(const struct model *m, const struct checkpoint *c)
{
    const struct ckpt_hparams *hp = &c->hp;
    assert_string_equal(c->format, m->format);
    assert_string_equal(hp->arch, m->arch);
    assert_true((hp->activation == NULL) == (m->activation == NULL));
    if (m->activation)
        assert_string_equal(hp->activation, m->activation);
    assert_int_equal(hp->n_layer, m->n_layer);
    assert_int_equal(hp->n_head, m->n_head);
    assert_int_equal(hp->n_head_kv, m->n_head_kv);
    assert_int_equal(hp->n_embd, m->n_embd);
    assert_int_equal(hp->n_ff, m->n_ff);
    assert_int_equal(hp->n_ctx, m->n_ctx);
    assert_int_equal(hp->n_vocab, m->n_vocab);
    assert_int_equal(arr_len(c->tensors), m->n_tensors);
}

TEST(models)
{
    char path[128];
    for (size_t i = 0; i < COUNT(models); i++) {
        struct ckpt_options o = options_of(&models[i]);
        struct checkpoint c;
        mgpt_error err;
        path_of(&models[i], path);
        struct file f = torch_fixture(path);
        if (read_model(&c, span_of(&f), models[i].directory, models[i].name, &o, &err) < 0)
            fail_msg("%s: %s", path, err.text);
        check_torch_model(&models[i], &c);
        ckpt_free(&c);
        file_close(&f);
    }
}

/* A model without biases gets zeros, because other readers of GGUF ask for them. */
TEST(zeros)
{
    struct checkpoint c;
    mgpt_error err;
    float v[24];
    struct file f = torch_fixture("nanogpt-nobias/ckpt.pt");
    assert_int_equal(read_model(&c, span_of(&f), "nanogpt-nobias", "ckpt",
                                &(struct ckpt_options){.given = OPT_ASSUME, .assume = "nanogpt"},
                                &err),
                     MGPT_OK);
    const struct ckpt_tensor *bias = tensor_called(&c, "blk.0.attn_qkv.bias");
    assert_true(bias && bias->n_values == 24);
    ckpt_values(bias, 0, 24, v);
    for (size_t i = 0; i < 24; i++)
        assert_true(v[i] == 0.0f);
    assert_null(tensor_called(&c, "output.weight")); /* tied */
    ckpt_free(&c);
    file_close(&f);
}

/* Halves of the heads change places in queries and keys, and in nothing else. */
TEST(nanochat_rows)
{
    struct checkpoint c;
    mgpt_error err;
    struct file f = torch_fixture("nanochat-2026-01/model_000010.pt");
    assert_int_equal(
        read_model(&c, span_of(&f), "nanochat-2026-01", "model_000010", &no_options, &err),
        MGPT_OK);
    assert_null(tensor_called(&c, "blk.0.attn_q.weight")->bytes);
    assert_null(tensor_called(&c, "blk.0.attn_k.weight")->bytes);
    assert_non_null(tensor_called(&c, "blk.0.attn_v.weight")->bytes);
    assert_true(tensor_called(&c, "token_embd.weight")->type->id == DTYPE_BF16);
    assert_true(tensor_called(&c, "output.weight")->dims[1] == 270); /* of 320 rows */
    assert_true(c.hp.windows[0] == 5 &&
                c.hp.windows[1] == 0); /* 8 / 2 and itself; the last sees all */
    assert_true(c.hp.logit_softcap == 15.0f && c.hp.rope_base == 10000.0f);
    assert_string_equal(c.vocab.pre, "nanochat");
    assert_int_equal(arr_len(c.vocab.tokens), 270);
    assert_true(c.vocab.bos == 261 && c.vocab.eos == 265 && c.vocab.add_bos == 1);
    ckpt_free(&c);
    file_close(&f);
}

/* What the tensors say of a generation's constants. 128: 400 / 3 and 400 / 4 in blocks of 128. */
TEST(nanochat_generations)
{
    static const struct {
        const char *directory, *note;
        double rope_base, attn_scale, gate_scale;
        int32_t window;
    } cases[] = {{"nanochat-2026-02", "January to March 2026", 1e4, 0, 2, 201},
                 {"nanochat-2026-03", "value gates of 12 columns", 1e5,
                  1.15 * 1.15 / 2.449489742783178, 3, 257},
                 {"nanochat-2026", "smear, backout", 1e5, 1.2 * 1.2 / 3.4641016151377544, 3, 129}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char path[128];
        struct checkpoint c;
        mgpt_error err;
        snprintf(path, sizeof path, "%s/model_000010.pt", cases[i].directory);
        struct file f = torch_fixture(path);
        assert_int_equal(
            read_model(&c, span_of(&f), cases[i].directory, "model_000010", &no_options, &err),
            MGPT_OK);
        assert_true(has_note(&c, cases[i].note));
        assert_true(c.hp.rope_base == (float)cases[i].rope_base);
        assert_true(c.hp.attn_scale == (float)cases[i].attn_scale);
        assert_true(c.hp.value_gate_scale == (float)cases[i].gate_scale);
        assert_int_equal(c.hp.windows[0], cases[i].window);
        assert_true(c.hp.logit_softcap == 15.0f);
        ckpt_free(&c);
        file_close(&f);
    }
}

TEST(overrides)
{
    struct ckpt_options o = {.given = OPT_ROPE | OPT_SOFTCAP | OPT_QK_SCALE | OPT_WINDOW | OPT_EPS |
                                      OPT_CONTEXT | OPT_NO_TOKENIZER,
                             .rope_base = 1e5,
                             .softcap = 20,
                             .qk_scale = 1.5,
                             .window = 3,
                             .eps = 1e-6,
                             .n_ctx = 64};
    struct checkpoint c;
    mgpt_error err;
    struct file f = torch_fixture("nanochat-2026-01/model_000010.pt");
    assert_int_equal(read_model(&c, span_of(&f), "nanochat-2026-01", "model_000010", &o, &err),
                     MGPT_OK);
    assert_true(c.hp.rope_base == 1e5f && c.hp.logit_softcap == 20.0f && c.hp.windows[0] == 3);
    assert_true(c.hp.norm_eps == 1e-6f && c.hp.n_ctx == 64);
    assert_true(c.hp.attn_scale == 1.125f); /* 1.5 * 1.5 / sqrt(4) */
    assert_null(c.vocab.model);
    assert_true(has_note(&c, "nanochat of January 2026"));
    ckpt_free(&c);
    assert_int_equal(read_model(&c, span_of(&f), "nanochat-2026-01", "model_000010",
                                &(struct ckpt_options){.given = OPT_CHARS}, &err),
                     MGPT_EARG);
    assert_non_null(strstr(err.text, "--chars does not apply to nanochat"));
    ckpt_free(&c);
    file_close(&f);
}

/* ---- files next to a checkpoint -------------------------------------------------------------- */

/* Gives one text for every side file except the tokenizer. */
static int find_text(void *user, enum ckpt_option option, const char *const *candidates, size_t n,
                     struct ckpt_side *side, mgpt_error *err)
{
    const char *text = user, *dot = n ? strrchr(candidates[0], '.') : NULL;
    (void)option;
    (void)err;
    if (!text || !dot || strcmp(dot, ".json") != 0)
        return 0;
    *side = (struct ckpt_side){candidates[0], {(const uint8_t *)text, strlen(text)}};
    return 1;
}

static int read_beside(struct checkpoint *c, const char *path, const char *name, const char *text,
                       mgpt_error *err)
{
    static const struct ckpt_options o = {.given = OPT_NO_TOKENIZER};
    struct file f = torch_fixture(path);
    struct ckpt_input in = {span_of(&f), name, &o, find_text, (void *)(uintptr_t)text, ".", NULL};
    ckpt_init(c);
    *err = (mgpt_error){0};
    int status = ckpt_read(c, &in, err);
    file_close(&f);
    return status;
}

#define NANOCHAT "nanochat-2026-01/model_000010.pt"
#define META(more) "{\"model_config\": {\"n_head\": 2" more "}}"

TEST(stated_otherwise)
{
    static const struct {
        const char *path, *text, *expected;
    } cases[] = {
        {NANOCHAT, "{", "meta_000010.json"},
        {NANOCHAT, META(", \"vocab_size\": 321"),
         "meta_000010.json: vocab_size is stated as 321, the embedding has 320 rows"},
        {NANOCHAT, META(", \"n_layer\": 3"), "n_layer is stated as 3"},
        {NANOCHAT, META(", \"n_embd\": 9"), "n_embd is stated as 9"},
        {NANOCHAT, META(", \"n_kv_head\": 2"), "n_kv_head is stated as 2"},
        {NANOCHAT, META(", \"window_pattern\": \"SX\""),
         "meta_000010.json: window_pattern SX: expected letters S and L"},
        {NANOCHAT, "{\"n_head\": 8}",
         "c_k: 4 rows do not form KV heads of width 1; their number must divide 8 query heads"},
        {NANOCHAT, "{\"n_head\": 1}",
         "c_k: 4 rows do not form KV heads of width 8; their number must divide 1 query heads"},
        {NANOCHAT, "{\"n_head\": 3}", "n_head is 3, it must divide n_embd = 8"},
        {"meta-llama/consolidated.00.pth", "{\"n_heads\": 2, \"use_scaled_rope\": true}",
         "params.json: use_scaled_rope does not say by how much"},
        {"meta-llama/consolidated.00.pth", "{\"n_heads\": 2, \"dim\": 8}", "n_embd is stated as 8"},
        {"meta-llama/consolidated.00.pth", "{\"n_heads\": 2, \"n_layers\": 2}",
         "n_layer is stated as 2"},
        {"meta-llama/consolidated.00.pth", "{\"n_heads\": 2, \"vocab_size\": 2}",
         "vocab_size is stated as 2"},
        {"meta-llama/consolidated.00.pth", "{\"n_heads\": 2, \"n_kv_heads\": 3}",
         "n_kv_head is stated as 3"},
        {"meta-llama/consolidated.00.pth", "{\"n_heads\": 16}",
         "rows do not form KV heads of width 1;"},
        {"mingpt/model.pt", "{\"model\": {\"model_type\": \"gpt-none\"}}", "--heads"},
        {"mingpt/model.pt", "{\"model\": {\"model_type\": \"openai-gpt\"}}",
         "n_head is 12, it must divide"},
        {"mingpt/model.pt", "{\"model\": {\"model_type\": \"gpt2\"}}",
         "n_head is 12, it must divide"},
        {"mingpt/model.pt", "{\"model\": {\"model_type\": \"gpt2-medium\"}}",
         "n_head is 16, it must divide"},
        {"mingpt/model.pt", "{\"model\": {\"model_type\": \"gpt2-large\"}}",
         "n_head is 20, it must divide"},
        {"mingpt/model.pt", "{\"model\": {\"model_type\": \"gpt2-xl\"}}",
         "n_head is 25, it must divide"},
        {"mingpt/model.pt", "{\"model\": {\"model_type\": \"gpt-mini\"}}",
         "n_head is 6, it must divide"},
        {"mingpt/model.pt", "{\"model\": {\"model_type\": \"gpt-nano\"}}",
         "n_head is 3, it must divide"},
        {"mingpt/model.pt", "{\"n_head\": 3}", "n_head is 3, it must divide n_embd = 8"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct checkpoint c;
        mgpt_error err;
        int status = read_beside(&c, cases[i].path, "model_000010", cases[i].text, &err);
        if (status != MGPT_EFILE || !strstr(err.text, cases[i].expected))
            fail_msg("%.60s: expected '%s', found '%s' (%d)", cases[i].text, cases[i].expected,
                     err.text, status);
        ckpt_free(&c);
    }
}

TEST(pattern_too_long)
{
    static char text[2 * CKPT_MAX_LAYERS];
    for (int n = CKPT_MAX_LAYERS; n <= CKPT_MAX_LAYERS + 1; n++) {
        struct checkpoint c;
        mgpt_error err;
        snprintf(text, sizeof text, "{\"window_pattern\": \"%0*d\", \"n_head\": 2}", n, 0);
        assert_int_equal(read_beside(&c, NANOCHAT, "model_000010", text, &err), MGPT_EFILE);
        assert_true((strstr(err.text, "window_pattern is too long") != NULL) ==
                    (n > CKPT_MAX_LAYERS));
        ckpt_free(&c);
    }
}

/* What is not said is inferred, and that is said. */
TEST(stated_by_half)
{
    struct checkpoint c;
    mgpt_error err;
    assert_int_equal(read_beside(&c, NANOCHAT, "model_000010", META(""), &err), MGPT_OK);
    assert_true(c.hp.n_ctx == 2048 && c.hp.n_vocab == 320);
    assert_true(has_note(&c, "inferred: context = 2048"));
    ckpt_free(&c);
    assert_int_equal(read_beside(&c, "meta-llama/consolidated.00.pth", "x",
                                 "{\"n_heads\": 2, \"max_seq_len\": 77, \"rope_theta\": 5e5}",
                                 &err),
                     MGPT_OK);
    assert_true(c.hp.n_ctx == 77 && c.hp.rope_base == 5e5f);
    ckpt_free(&c);
    static const char *const types[] = {"gpt-micro", "gopher-44m"};
    for (uint32_t i = 0; i < 2; i++) {
        char text[60];
        snprintf(text, sizeof text, "{\"model\": {\"model_type\": \"%s\"}}", types[i]);
        if (read_beside(&c, "mingpt/model.pt", "x", text, &err) != MGPT_OK)
            fail_msg("%s", err.text);
        assert_int_equal(c.hp.n_head, 4 << i);
        ckpt_free(&c);
    }
    assert_int_equal(read_beside(&c, "mingpt/model.pt", "x", NULL, &err), MGPT_EFILE);
    ckpt_free(&c);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* One bit changed, anywhere: a model whose values can all be read, or one error line. */
TEST(flipped)
{
    uint32_t random = 3;
    char path[128];
    for (size_t i = 0; i < COUNT(models); i++) {
        struct ckpt_options o = options_of(&models[i]);
        path_of(&models[i], path);
        struct file f = torch_fixture(path);
        struct span copy = exact_copy(span_of(&f));
        uint8_t *bytes = (uint8_t *)(uintptr_t)copy.data;
        for (int k = 0; k < 200; k++) {
            struct checkpoint c;
            mgpt_error err = {0};
            size_t at = next_random(&random) % copy.size;
            bytes[at] ^= (uint8_t)(1u << next_random(&random) % 8);
            int status = read_model(&c, copy, models[i].directory, models[i].name, &o, &err);
            if (status < 0)
                assert_true(err.status == status && strlen(err.text) > 0);
            ckpt_free(&c);
            bytes[at] = f.data[at];
        }
        free_copy(copy);
        file_close(&f);
    }
}
