/* Tools: facts that a PyTorch file's tensors do not have, from the files next to it. */
#include "support/torch_made.h"
#include "support/unit.h"

/* ---- Llama ----------------------------------------------------------------------------------- */

static const char *const llama[] = {"tok_embeddings.weight 5 4",
                                    "layers.0.attention_norm.weight 4",
                                    "layers.0.attention.wq.weight 4 4",
                                    "layers.0.attention.wk.weight 4 4",
                                    "layers.0.attention.wv.weight 4 4",
                                    "layers.0.attention.wo.weight 4 4",
                                    "layers.0.ffn_norm.weight 4",
                                    "layers.0.feed_forward.w1.weight 6 4",
                                    "layers.0.feed_forward.w2.weight 4 6",
                                    "layers.0.feed_forward.w3.weight 6 4",
                                    "norm.weight 4",
                                    "output.weight",
                                    "model.layers.0.self_attn.q_proj.weight",
                                    NULL};

#define HEADS2 "{\"n_heads\":2"

TEST(bad_llama)
{
    static const struct {
        const char *params; /* NULL: no such file */
        const char *instead;
        const char *expected;
    } rows[] = {
        {NULL, NULL, "the number of heads is not in the file (n_embd is 4): set it with --heads"},
        {"[", NULL, "side file params.json: not a JSON object"},
        {"[]", NULL, "side file params.json: not a JSON object"},
        {HEADS2 ",\"use_scaled_rope\":true}", NULL, "use_scaled_rope does not say by how much"},
        {"{\"n_heads\":3}", NULL, "n_head is 3, it must divide n_embd = 4"},
        {"{\"n_heads\":8}", NULL, "n_head is 8, it must divide n_embd = 4"},
        {"{\"n_heads\":4}", NULL,
         "wk: 4 rows do not form KV heads of width 1; their number must divide 4 query heads"},
        {HEADS2 "}", "layers.0.attention.wk.weight 3 4", "wk: 3 rows"},
        {HEADS2 "}", "layers.0.attention.wk.weight 0 4", "wk: 0 rows"},
        {HEADS2 "}", "layers.0.attention.wk.weight 6 4", "wk: 6 rows"},
        {HEADS2 "}", "layers.0.attention.wk.weight 4", "wk.weight: 1 dimensions, expected 2"},
        {HEADS2 "}", "layers.0.attention.wk.weight", "wk.weight"},
        {HEADS2 "}", "layers.0.feed_forward.w1.weight", "w1.weight"},
        {HEADS2 "}", "tok_embeddings.weight", "tok_embeddings.weight"},
        {HEADS2 "}", "tok_embeddings.weight 5 0", "dim is 0, expected 1 to 2147483647"},
        {HEADS2 ",\"dim\":5}", NULL, "params.json: n_embd is stated as 5, the tensors say 4"},
        {HEADS2 ",\"n_layers\":2}", NULL, "n_layer is stated as 2, the tensors say 1"},
        {HEADS2 ",\"vocab_size\":6}", NULL, "vocab_size is stated as 6, the tensors say 5"},
        {HEADS2 ",\"n_kv_heads\":1}", NULL, "n_kv_head is stated as 1, the tensors say 2"},
        {HEADS2 "}", "norm.weight 5", "norm.weight: shape [5], expected [4]"},
        {HEADS2 "}", "norm.weight 4 1 2", "norm.weight: shape [4, 1, 2], expected [4]"},
        {HEADS2 "}", "model.layers.0.self_attn.q_proj.weight 4 4",
         "no llama2.c or Meta's Llama has it; model.layers.0.self_attn.q_proj.weight is"},
        {HEADS2 "}", "output.weight 5 4", NULL}, /* as the tokens: tied */
        {HEADS2 "}", "output.weight 6 4", "output.weight: shape [6, 4], expected [5, 4]"},
        {HEADS2 "}", "output.weight 5", "output.weight: shape [5], expected [5, 4]"},
        {"{\"head_dim\":2}", NULL, NULL},
        {"{\"head_dim\":3}", NULL, "the number of heads is not in the file (n_embd is 4)"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct made f = {.d = {.n = 0}};
        make(&f, llama, rows[i].instead);
        if (rows[i].params)
            add_file(&f.d, "params.json", rows[i].params);
        map(&f, &llama2c_pt_mapping, rows[i].expected);
        unmake(&f);
    }
}

/* What the user says counts, then what the file says, then what the program's models have. */
TEST(llama_numbers)
{
    static const char tokenizer[] = "\1\0\0\0" /* five tokens of one byte, score 0 */
                                    "\0\0\0\0\1\0\0\0a\0\0\0\0\1\0\0\0b\0\0\0\0\1\0\0\0c"
                                    "\0\0\0\0\1\0\0\0d\0\0\0\0\1\0\0\0e";
    struct made f = {.d = {.n = 0}};
    add_file(&f.d, "params.json",
             HEADS2 ",\"vocab_size\":-1,\"max_seq_len\":77,\"norm_eps\":1e-6,\"rope_theta\":500}");
    add_bytes(&f.d, "tokenizer.bin", tokenizer, sizeof tokenizer - 1);
    make(&f, llama, NULL);
    map(&f, &llama2c_pt_mapping, NULL);
    assert_true(f.c.hp.n_ctx == 77 && f.c.hp.norm_eps == 1e-6f && f.c.hp.rope_base == 500);
    assert_true(f.c.hp.n_head == 2 && f.c.hp.n_head_kv == 2 && f.c.hp.n_rot == 2);
    assert_int_equal(arr_len(f.c.vocab.tokens), 5);
    assert_true(has_note(&f.c, "the tokenizer is tokenizer.bin (next to the input; --tokenizer)"));
    unmake(&f);
    f.o = (struct ckpt_options){.given = OPT_CONTEXT | OPT_ROPE | OPT_EPS | OPT_TOKENIZER,
                                .n_ctx = 9,
                                .rope_base = 250,
                                .eps = 1e-4};
    f.d.members[1].name = "params.json"; /* any file will do for --tokenizer */
    f.d.n = 1;
    make(&f, llama, NULL);
    map(&f, &llama2c_pt_mapping, NULL);
    assert_true(f.c.hp.n_ctx == 9 && f.c.hp.norm_eps == 1e-4f && f.c.hp.rope_base == 250);
    unmake(&f);
    add_bytes(&f.d, "tokenizer.bin", tokenizer, sizeof tokenizer - 1);
    make(&f, llama, NULL);
    map(&f, &llama2c_pt_mapping, NULL);
    assert_int_equal(arr_len(f.c.vocab.tokens), 5);
    assert_false(has_note(&f.c, "the tokenizer is tokenizer.bin"));
    unmake(&f);
    f.o = (struct ckpt_options){.given = OPT_NO_TOKENIZER};
    static const char *const embeddings[] = {"tok_embeddings.weight 5 4",
                                             "tok_embeddings.weight 128256 4"};
    static const uint64_t contexts[] = {2048, 8192};
    for (size_t i = 0; i < 2; i++) {
        f.d.n = 0;
        add_file(&f.d, "params.json", HEADS2 "}");
        make(&f, llama, embeddings[i]);
        map(&f, &llama2c_pt_mapping, NULL);
        assert_int_equal(f.c.hp.n_ctx, contexts[i]);
        unmake(&f);
    }
}

/* ---- the others ------------------------------------------------------------------------------ */

#define LONG_NAME "a.b.c.d.e.f.g.h.i.j.k.l.m"
#define MISSPELT "trf_blocks.0.att.projj.weight"
#define ODD_HEAD "trf_blocks.0.att.heads.x.key.weight"

static const char *const scratch[] = {"tok_emb.weight 5 4",
                                      "pos_emb.weight 8 4",
                                      "final_norm.scale 4",
                                      "final_norm.shift 4",
                                      "out_head.weight 5 4",
                                      LONG_NAME,
                                      ODD_HEAD,
                                      MISSPELT,
                                      NULL};

static const char *const no_shift[] = {"tok_emb.weight 5 4",
                                       "pos_emb.weight 8 4",
                                       "trf_blocks.0.norm1.scale 4",
                                       "trf_blocks.0.ff.layers.0.weight 8 4",
                                       "final_norm.scale 4",
                                       "final_norm.shift 4",
                                       NULL};

static const char *const twice[] = {"tok_emb.weight 5 4", "token_emb.weight 5 4",
                                    "pos_emb.weight 8 4", NULL};

static const char *const mixed[] = {"tok_emb.weight 5 4",           "pos_emb.weight 8 4",
                                    "trf_blocks.0.norm1.scale 4",   "trf_blocks.10.norm1.scale 4",
                                    "transformer.h.1.ln_1.scale 4", NULL};

static const char *const bigram[] = {"token_embedding_table.weight 5 5",
                                     "position_embedding_table.weight", "lm_head.weight", NULL};

static const char *const embedded[] = {"token_embedding_table.weight 5 4",
                                       "position_embedding_table.weight 8 4", "lm_head.weight 5 4",
                                       "lm_head.bias 5", NULL};

static const char *const mingpt[] = {"transformer.wte.weight 5 48", "transformer.wpe.weight 8 48",
                                     "transformer.ln_f.weight 48",  "transformer.ln_f.bias 48",
                                     "lm_head.weight 5 48",         NULL};

/* Sizes that a shape lacks; models without layers are models. */
struct variant {
    const char *const *shapes;
    const struct ckpt_options *options;
    const char *config;  /* config.json, or NULL */
    const char *instead; /* a tensor of another shape, or left out */
    const char *expected;
};

static void map_variants(const struct torch_mapping *mapping, const struct variant *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct made f = {.d = {.n = 0}, .o = *rows[i].options};
        make(&f, rows[i].shapes, rows[i].instead);
        if (rows[i].config)
            add_file(&f.d, "config.json", rows[i].config);
        map(&f, mapping, rows[i].expected);
        unmake(&f);
    }
}

#define BOOK OPT_HEADS | OPT_ASSUME, .assume = "llms-from-scratch"
static const struct ckpt_options none = {0}, heads2 = {.given = BOOK, .n_head = 2};

TEST(scratch_variants)
{
    static const struct ckpt_options tanh = {
        .given = OPT_HEADS | OPT_ACTIVATION, .n_head = 2, .activation = "tanh"};
    static const struct variant rows[] = {
        {scratch, &heads2, NULL, NULL, NULL},
        {scratch, &none, NULL, NULL, "the number of heads is not in the file"},
        {scratch, &none, NULL, "tok_emb.weight",
         "no tensor of the file is known as the token embedding"},
        {scratch, &none, NULL, "pos_emb.weight 0 4", "block_size is 0"},
        {scratch, &heads2, NULL, "out_head.weight 4 4",
         "out_head.weight: shape [4, 4], expected [5, 4]"},
        {scratch, &heads2, NULL, LONG_NAME " 4", LONG_NAME ": no such tensor of a GPT that"},
        {scratch, &heads2, NULL, ODD_HEAD " 4 4", ODD_HEAD ": no such tensor of a GPT"},
        {scratch, &heads2, NULL, MISSPELT " 4 4", "GPT that mgpt knows; nearest: proj"},
        {no_shift, &heads2, NULL, NULL, "known as the bias of the first norm"},
        {no_shift, &heads2, NULL, "trf_blocks.0.ff.layers.0.weight 4 4",
         "known as the bias of the first norm"},
        {no_shift, &heads2, NULL, "trf_blocks.0.ff.layers.0.weight",
         "known as the first matrix of the MLP of a layer"},
        {scratch, &heads2, NULL, "pos_emb.weight 1 8 4", NULL},
        {scratch, &heads2, NULL, "pos_emb.weight 8 1 4", NULL},
        {scratch, &heads2, NULL, "pos_emb.weight 2 8 4",
         "pos_emb.weight: 3 dimensions, expected 2"},
        {scratch, &tanh, NULL, NULL, "activation tanh: expected one of relu"},
        {twice, &heads2, NULL, NULL,
         "token_emb.weight: tok_emb.weight has a name of the same meaning"},
        {mixed, &heads2, NULL, NULL,
         "transformer.h.1.ln_1.scale: layer 0 has trf_blocks.0.norm1.scale: names of two programs"},
    };
    map_variants(&scratch_mapping, rows, COUNT(rows));
}

TEST(bigram_variants)
{
    static const struct variant rows[] = {
        {bigram, &none, NULL, NULL, NULL},
        {bigram, &none, NULL, "token_embedding_table.weight 5",
         "token_embedding_table.weight: 1 dimensions, expected 2"},
        {bigram, &none, NULL, "token_embedding_table.weight 5 4", "tensor lm_head.weight: missing"},
        {bigram, &none, NULL, "token_embedding_table.weight 0 0", "vocab_size is 0"},
        {embedded, &none, NULL, NULL, NULL},
        {embedded, &none, NULL, "position_embedding_table.weight 8",
         "position_embedding_table.weight: 1 dimensions, expected 2"},
        {embedded, &none, NULL, "position_embedding_table.weight 8 5",
         "shape [8, 5], expected [8, 4]"},
        {embedded, &none, NULL, "lm_head.weight 4 4", "shape [4, 4], expected [5, 4]"},
    };
    map_variants(&bigram_mapping, rows, COUNT(rows));
}

TEST(mingpt_variants)
{
    static const struct variant rows[] = {
        {mingpt, &heads2, NULL, NULL, NULL},
        {mingpt, &none, "{\"model\":{\"model_type\":\"gpt-nano\"}}", NULL, NULL},
        {mingpt, &none, "{\"n_head\":3}", NULL, NULL},
        {mingpt, &none, "{\"model_type\":\"gpt-5\"}", NULL, "the number of heads"},
        {mingpt, &none, "3", NULL, "side file config.json: not a JSON object"},
        {mingpt, &none, NULL, "transformer.wpe.weight 0 48", "block_size is 0"},
        {mingpt, &none, NULL, "transformer.wpe.weight", "set --heads, --positions, --rope"},
    };
    map_variants(&mingpt_mapping, rows, COUNT(rows));
}

TEST(nanochat_variants)
{
    static const struct ckpt_options cap = {.given = OPT_SOFTCAP};
    static const struct ckpt_options rope = {.given = OPT_HEADS | OPT_ROPE, .n_head = 2};
    static const struct ckpt_options all = {
        .given = OPT_HEADS | OPT_ROPE | OPT_SOFTCAP, .n_head = 2, .rope_base = 500};
    static const struct variant rows[] = {
        {nanochat, &none, NULL, NULL,
         "depend on it: set --heads N --rope BASE --softcap X (0: none)"},
        {nanochat, &cap, NULL, NULL, "set --heads N --rope BASE"},
        {nanochat, &rope, NULL, NULL, "set --softcap X (0: none)"},
        {nanochat, &all, NULL, NULL, NULL},
        {nanochat, &none, "{}", "lm_head.weight 4 128",
         "lm_head.weight: shape [4, 128], expected [5, 128]"},
        {nanochat, &none, "{}", "lm_head.weight 5", "lm_head.weight: shape [5], expected [5, 128]"},
        {nanochat, &none, "{\"vocab_size\":4,\"n_head\":4,\"window_pattern\":\"SL\"}", NULL, NULL},
        {nanochat, &none, "{\"vocab_size\":6}", NULL,
         "vocab_size is stated as 6, the embedding has 5 rows"},
        {nanochat, &none, "{\"window_pattern\":\"X\"}", NULL,
         "window_pattern X: expected letters S and L"},
        {nanochat, &none, "{\"n_embd\":64}", NULL, "n_embd is stated as 64"},
        {nanochat, &none, "{\"n_layer\":2}", NULL, "n_layer is stated as 2"},
        {nanochat, &none, "{}", "transformer.h.0.attn.c_k.weight 3 128",
         "c_k: 3 rows do not form KV heads of width 128; their number must divide 1 query heads"},
        {nanochat, &none, "{}", "transformer.h.0.mlp.c_fc.weight 0 128", "the hidden width is 0"},
        {nanochat, &none, "{}", "transformer.h.0.mlp.c_fc.weight", "c_fc.weight"},
        {nanochat, &none, "{}", "transformer.h.0.attn.c_k.weight", "c_k.weight"},
        {nanochat, &none, "{}", "transformer.wte.weight 5", "expected 2"},
    };
    map_variants(&nanochat_mapping, rows, COUNT(rows));
}

/* The tensors of one generation, or none: parts of two are refused. */
TEST(nanochat_generations)
{
    static const char *const shapes[] = {"transformer.wte.weight 5 128",
                                         "transformer.h.0.attn.c_q.weight 128 128",
                                         "transformer.h.0.attn.c_k.weight 128 128",
                                         "transformer.h.0.attn.c_v.weight 128 128",
                                         "transformer.h.0.attn.c_proj.weight 128 128",
                                         "transformer.h.0.attn.ve_gate.weight 1 12",
                                         "transformer.h.0.mlp.c_fc.weight 8 128",
                                         "transformer.h.0.mlp.c_proj.weight 128 8",
                                         "value_embeds.0.weight 5 128",
                                         "resid_lambdas 1",
                                         "x0_lambdas 1",
                                         "smear_gate.weight 1 24",
                                         "smear_lambda 1",
                                         "backout_lambda 1",
                                         "lm_head.weight 5 128",
                                         NULL};
    static const struct variant rows[] = {
        {shapes, &none, "{}", NULL, NULL},
        {shapes, &none, "{}", "smear_gate.weight", "tensor smear_gate.weight: missing"},
        {shapes, &none, "{}", "smear_lambda", "tensor smear_lambda: missing"},
        {shapes, &none, "{}", "backout_lambda", "tensor backout_lambda: missing"},
        {shapes, &none, "{}", "resid_lambdas", "tensor resid_lambdas: missing"},
        {shapes, &none, "{}", "transformer.h.0.attn.ve_gate.weight",
         "attn.ve_gate.weight: missing"},
        {shapes, &none, "{}", "transformer.h.0.attn.ve_gate.weight 1 32",
         "32 columns, nanochat's have 12 with smear"},
        {shapes, &none, "{}", "transformer.h.0.attn.ve_gate.weight 2 12",
         "shape [2, 12], expected [1, 12]"},
        {shapes, &none, "{}", "transformer.h.0.attn.ve_gate.weight 12",
         "0 columns, nanochat's have 12"},
        {shapes, &none, "{}", "value_embeds.0.weight 4 128", "shape [4, 128], expected [5, 128]"},
        {shapes, &none, "{}", "value_embeds.0.weight", "tensor value_embeds.0.weight: missing"},
        {shapes, &none, "{}", "smear_gate.weight 2 24", "shape [2, 24], expected [1, 24]"},
        {shapes, &none, "{}", "smear_lambda 2", "shape [2], expected [1]"},
    };
    map_variants(&nanochat_mapping, rows, COUNT(rows));
}

/* A model without positions has the context that the user or the file says. */
TEST(bigram_context)
{
    static const struct ckpt_options options[] = {{0}, {.given = OPT_CONTEXT, .n_ctx = 9}};
    static const uint32_t contexts[] = {1024, 9};
    for (size_t i = 0; i < 2; i++) {
        struct made f = {.o = options[i]};
        make(&f, bigram, NULL);
        map(&f, &bigram_mapping, NULL);
        assert_int_equal(f.c.hp.n_ctx, contexts[i]);
        assert_int_equal(has_note(&f.c, "inferred: context = 1024"), i == 0);
        unmake(&f);
    }
}

TEST(too_many_layers)
{
    static const struct {
        const struct torch_mapping *mapping;
        const char *const *shapes;
        const char *layer;
    } rows[] = {
        {&llama2c_pt_mapping, llama, "layers.%u.attention_norm.weight"},
        {&nanochat_mapping, nanochat, "transformer.h.%u.attn.c_q.weight"},
        {&scratch_mapping, no_shift, "trf_blocks.%u.norm1.scale"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct made f = {.d = {.n = 0}};
        mgpt_error err;
        make(&f, rows[i].shapes, NULL);
        add_file(&f.d, "config.json", "{}");
        for (uint32_t layer = 1; layer <= CKPT_MAX_LAYERS; layer++) {
            struct state_tensor t = {.type = STATE_F32, .n_dims = 1, .shape = {0}};
            char name[64];
            snprintf(name, sizeof name, rows[i].layer, layer);
            assert_int_equal(run_add(f.m.state, name, t, &err), MGPT_OK);
        }
        assert_int_equal(run_seal(f.m.state, &err), MGPT_OK);
        map(&f, rows[i].mapping, "1025 layers, expected up to 1024");
        unmake(&f);
    }
}

/* What the file itself says next to the weights: {"config": {...}}. */
TEST(saved_facts)
{
#define WORD(length, text) "X" length "\0\0\0" text
#define CONFIG(facts)                                                                              \
    {                                                                                              \
        (const uint8_t *)PICKLED(facts), sizeof PICKLED(facts) - 1                                 \
    }
#define PICKLED(facts) "\x80\2}" WORD("\6", "config") "}(" facts "us."
#define HEADS WORD("\6", "n_head") "K\2"
#define EPS "G\x3e\xb0\xc6\xf7\xa0\xb5\xed\x8d" /* 1e-6 */
    static const struct {
        const struct torch_mapping *mapping;
        const char *const *shapes;
        struct span saved;
        const char *expected;
        float eps; /* 0: the program's */
    } rows[] = {
        {&scratch_mapping, scratch, CONFIG(HEADS), NULL, 0},
        {&scratch_mapping, scratch, CONFIG(HEADS WORD("\3", "eps") EPS), NULL, 1e-6f},
        {&scratch_mapping, scratch, CONFIG(HEADS WORD("\3", "eps") EPS WORD("\2", "lr") "K\1"),
         NULL, 1e-5f}, /* the optimizer's */
        {&scratch_mapping, scratch,
         CONFIG(HEADS WORD("\x08", "norm_eps") EPS WORD("\3", "eps") "K\1"), NULL, 1e-6f},
        {&scratch_mapping, scratch, CONFIG(HEADS WORD("\3", "act") WORD("\4", "relu")), NULL, 0},
        {&scratch_mapping, scratch, CONFIG(HEADS WORD("\3", "act") WORD("\4", "tahn")),
         "activation tahn: expected one of relu", 0},
        {&nanochat_mapping, nanochat, CONFIG(HEADS), "set --rope BASE --softcap X (0: none)", 0},
        {&nanochat_mapping, nanochat,
         CONFIG(HEADS WORD("\x9", "rope_base") "K\x64" WORD("\7", "softcap") "K\x14"), NULL, 0},
        {&nanochat_mapping, nanochat,
         CONFIG(HEADS WORD("\x9", "rope_base") "K\x64" WORD("\7", "softcap") "K\x14" WORD(
             "\xa", "vocab_size") "K\6"),
         "facts: vocab_size is stated as 6, the embedding has 5 rows", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct made f = {.saved = rows[i].saved};
        make(&f, rows[i].shapes, NULL);
        map(&f, rows[i].mapping, rows[i].expected);
        if (!rows[i].expected)
            assert_int_equal(f.c.hp.n_head, 2);
        if (rows[i].eps > 0)
            assert_true(f.c.hp.norm_eps == rows[i].eps);
        unmake(&f);
    }
}

/* Only GPT-2 itself has heads that its sizes tell: another vocabulary is another model. */
TEST(published_heads)
{
    static const struct {
        uint32_t n_vocab, n_layer, n_embd, n_head;
    } rows[] = {{50257, 12, 768, 12},
                {50257, 48, 1600, 25},
                {50257, 12, 1024, 0},
                {65, 12, 768, 0},
                {50257, 6, 768, 0}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct checkpoint c = {.hp = {.n_vocab = rows[i].n_vocab,
                                      .n_layer = rows[i].n_layer,
                                      .n_embd = rows[i].n_embd}};
        struct torch_model m = {.c = &c};
        assert_int_equal(torch_gpt2_heads(&m), rows[i].n_head);
    }
}
