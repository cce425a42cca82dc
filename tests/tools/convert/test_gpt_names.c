/* Names of tensors in public programs: what the words of each say. */
#include "base/xxh64.h"
#include "support/made_rows.h"
#include "support/torch_made.h"
#include "support/unit.h"

#include "convert/core/questions.h"
#include "convert/families/gpt_names.h"

static const struct {
    const char *name;
    uint32_t n_dims;
    const char *alias; /* NULL: nothing is known */
} names[] = {
    {"transformer.wte.weight", 2, "token_embd.weight"},
    {"token_embedding_lookup_table.weight", 2, "token_embd.weight"},
    {"embedding.weight", 2, "token_embd.weight"},
    {"gpt.t_embedding.weight", 2, "token_embd.weight"},
    {"token_and_position_embedding.token_emb.weight", 2, "token_embd.weight"},
    {"gpt.p_embedding.weight", 2, "position_embd.weight"},
    {"positional_encodings_table.weight", 2, "position_embd.weight"},
    {"model.positon_embedding.weight", 2, "position_embd.weight"},
    {"pos_encoder.pe", 3, "position_embd.weight"},
    {"transformer.post_ln.bias", 1, "output_norm.bias"},
    {"layer_norm_final.weight", 1, "output_norm.weight"},
    {"blocks.6.weight", 1, "output_norm.weight"},
    {"emb_norm.weight", 1, NULL},
    {"pre_ln.weight", 1, NULL},
    {"glowa.weight", 2, "output.weight"},
    {"gpt.ln_out.weight", 2, "output.weight"},
    {"language_model_out_linear_layer.bias", 1, "output.bias"},
    {"unembedding.weight", 2, "output.weight"},
    {"ff.net.0.weight", 2, NULL},
    {"attention.heads.0.key.weight", 2, NULL},
    {"bloki.0.ln1.weight", 1, "blk.0.attn_norm.weight"},
    {"blocks.12.rms2.weight", 1, "blk.12.ffn_norm.weight"},
    {"blocks.0.ln1.norm.weight", 1, "blk.0.attn_norm.weight"},
    {"h.1.post_attention_layernorm.weight", 1, "blk.1.ffn_norm.weight"},
    {"h.1.attention_ln.beta", 1, "blk.1.attn_norm.bias"},
    {"h.1.n1.weight", 1, "blk.1.attn_norm.weight"},
    {"h.1.second_layernorm.weight", 1, "blk.1.ffn_norm.weight"},
    {"h.1.layer_norm.weight", 1, NULL},
    {"h.1.attn.q_norm.weight", 1, NULL},
    {"h.1.attn.layer_norm.weight", 1, NULL},
    {"decoder_stack.0.mmha.Wq.bias", 1, "blk.0.attn_q.bias"},
    {"layers.0.WK.weight", 2, "blk.0.attn_k.weight"},
    {"blocks.0.attn.heads.3.proj_v.weight", 2, "blk.0.attn_v.3.weight"},
    {"transformer_attn.0.attn.c_attn.weight", 2, "blk.0.attn_qkv.weight"},
    {"blocks.0.attn.in_proj_weight", 2, "blk.0.attn_qkv.weight"},
    {"blocks.0.attn.in_proj_bias", 1, "blk.0.attn_qkv.bias"},
    {"layers.0.attention.query_key_value.weight", 2, NULL},
    {"blocks.0.attn.to_out.0.weight", 2, "blk.0.attn_output.weight"},
    {"blocks.0.mha_parallel.U.weight", 2, NULL},
    {"blocks.0.att.heads.x.key.weight", 2, NULL},
    {"blocks.0.sa_head.heads.0.local_pos.weight", 2, NULL},
    {"decoder_stack.0.mmha.decode_out_proj.weight", 2, "blk.0.attn_output.weight"},
    {"t.0.feed_forward.ff2.weight", 2, "blk.0.ffn_down.weight"},
    {"t.0.ffn_1.weight", 2, "blk.0.ffn_up.weight"},
    {"t.0.ffn.w_gate.weight", 2, "blk.0.ffn_gate.weight"},
    {"t.0.mlp.attn.weight", 2, NULL},
    {"t.0.nn_linear.weight", 2, NULL},
};

TEST(words)
{
    for (size_t i = 0; i < COUNT(names); i++) {
        const struct state_tensor t = {.name = names[i].name, .n_dims = names[i].n_dims};
        struct gpt_name name;
        char alias[64] = "";
        if (gpt_name_read(&t, &name) && name.role != GPT_NONE)
            gpt_name_alias(&name, alias);
        if (strcmp(alias, names[i].alias ? names[i].alias : "") != 0)
            fail_msg("%s: '%s', expected %s", names[i].name, alias,
                     names[i].alias ? names[i].alias : "nothing");
    }
}

/* ---- every pair of words ---- */

static const char *const words[] = {
    "norm",  "norms",  "ln",        "lnf",       "lnorm", "rms",     "layernorm", "1",
    "first", "attn",   "attention", "att",       "sa",    "input",   "2",         "second",
    "mlp",   "ffn",    "ff",        "ffwd",      "feed",  "post",    "pre",       "in",
    "msa",   "mha",    "mmha",      "multihead", "q",     "query",   "wq",        "k",
    "key",   "wk",     "v",         "value",     "wv",    "qkv",     "proj",      "projection",
    "out",   "output", "o",         "wo",        "fc",    "linear",  "dense",     "pos",
    "wpe",   "pe",     "p",         "head",      "lm",    "unembed", "logits",    "classifier",
    "wte",   "tok",    "token",     "word",      "embd",  "emb",     "embedding", "up",
    "down",  "gate",   "hidden",    "w1",        "w2",    "w3",      "c",         "final",
    "f",     "n",      "0",         "3",         "heads", "layers",  "strange",   "encoder"};

static void hash_name(struct xxh64 *h, const char *text, uint32_t n_dims)
{
    const struct state_tensor t = {.name = text, .n_dims = n_dims};
    struct gpt_name name = {.role = GPT_NONE};
    char alias[64] = "";
    int known = gpt_name_read(&t, &name);
    if (known && name.role != GPT_NONE)
        gpt_name_alias(&name, alias);
    const int facts[] = {known,        (int)name.role, name.in_layer,     name.is_head,
                         name.is_bias, name.by_shape,  name.is_attention, name.is_bare};
    xxh64_add(h, facts, known ? sizeof facts : sizeof *facts);
    xxh64_add(h, alias, sizeof alias);
}

static void print_word(FILE *to, const char *first)
{
    static const char *const forms[] = {"%s_%s.weight",          "%s.%s.bias",
                                        "blocks.2.%s.%s.weight", "blocks.2.%s_%s.bias",
                                        "net.%s.1.%s.weight",    "blocks.0.attn.%s.%s.weight",
                                        "h.1.mlp.%s_%s.bias",    "%s%s"};
    struct xxh64 h;
    xxh64_begin(&h);
    for (size_t i = 0; i < COUNT(words); i++)
        for (size_t k = 0; k < COUNT(forms) * 2; k++) {
            char text[100];
            snprintf(text, sizeof text, forms[k / 2], first, words[i]);
            hash_name(&h, text, 1 + k % 2);
        }
    fprintf(to, "%s %08x\n", first, (unsigned)(xxh64_end(&h) >> 32));
}

/* What names of any two words mean, as hashes in gpt_words.txt. MGPT_SOURCE_ROOT=$PWD MGPT_WRITE=1
 * build/tests/test_gpt_names '*pairs*' writes it again. */
TEST(pairs_of_words)
{
    FILE *made = made_begin();
    for (size_t i = 0; i < COUNT(words); i++)
        print_word(made, words[i]);
    made_end(made, "tests/tools/convert/gpt_words.txt");
}

/* A matrix of the MLP under a word of the user's is told by its shape; of nn.Sequential too. */
TEST(by_shape)
{
    static const char *const by_shape[] = {"t.0.mlp.hidden.weight", "t.0.ff.final_l.weight",
                                           "t.0.ff.3.bias", "t.0.mlp.strange.weight"};
    struct gpt_name name;
    for (size_t i = 0; i < COUNT(by_shape); i++) {
        const struct state_tensor t = {.name = by_shape[i], .n_dims = 2};
        assert_true(gpt_name_read(&t, &name) && name.by_shape);
    }
    const struct state_tensor bare = {.name = "trf_blocks.0.att.w_query", .n_dims = 2};
    assert_true(gpt_name_read(&bare, &name) && name.is_bare && name.role == GPT_Q);
    const struct state_tensor fused = {.name = "t.0.attn.in_proj_weight", .n_dims = 2};
    assert_true(gpt_name_read(&fused, &name) && !name.is_bare);
}

/* Names at the limits of length and of parts. */
TEST(long_names)
{
    char text[400];
    struct gpt_name name;
    struct state_tensor t = {.name = text, .n_dims = 2};
    for (size_t n = 1; n < sizeof text; n++) {
        for (size_t i = 0; i < n; i++)
            text[i] = "aB1.q_"[(i + n) % 6];
        text[n] = 0;
        gpt_name_read(&t, &name);
    }
    memset(text, '.', 30);
    text[30] = 0;
    assert_false(gpt_name_read(&t, &name));
    text[0] = 0;
    gpt_name_read(&t, &name);
}

/* ---- attention of nn.MultiheadAttention ---- */

static const char *const encoder[] = {"token_embedding.weight 5 4",
                                      "position_embedding.weight 8 4",
                                      "layers.0.self_attn.in_proj_weight 12 4",
                                      "layers.0.self_attn.in_proj_bias 12",
                                      "layers.0.self_attn.out_proj.weight 4 4",
                                      "layers.0.self_attn.out_proj.bias 4",
                                      "layers.0.self_attn.mask 8 8",
                                      "layers.0.linear1.weight 16 4",
                                      "layers.0.linear1.bias 16",
                                      "layers.0.linear2.weight 4 16",
                                      "layers.0.linear2.bias 4",
                                      "layers.0.norm1.weight 4",
                                      "layers.0.norm1.bias 4",
                                      "layers.0.norm2.weight 4",
                                      "layers.0.norm2.bias 4",
                                      "lm_head.weight 5 4",
                                      "lm_head.bias",
                                      NULL};

/* The file has the mask, or it is asked for; a number with its name is none. */
TEST(masks)
{
    static const char *const asked[] = {"--activation", "--causal"};
    for (int scalar = 0; scalar < 2; scalar++) {
        struct made f = {.d = {.n = 0}};
        make(&f, encoder, NULL);
        f.m.state->tensors[6].n_dims = scalar ? 0 : 2;
        map(&f, &gpt_mapping, asked[scalar]);
        unmake(&f);
    }
}

/* The head has the values of the table; its bias is its own. */
TEST(bias_of_a_tied_head)
{
    struct made f = {
        .d = {.n = 0},
        .o = {.given = OPT_HEADS | OPT_ASSUME, .assume = "encoder-layer", .n_head = 2}};
    size_t n_found = 0;
    make(&f, encoder, "lm_head.bias 5");
    map(&f, &gpt_mapping, NULL);
    for (size_t i = 0; i < arr_len(f.c.tensors); i++)
        n_found += strcmp(f.c.tensors[i].name, "output.bias") == 0;
    assert_int_equal(n_found, 1);
    unmake(&f);
}

/* ---- what two names say together ---- */

#define ATTENTION_OF_4                                                                             \
    "blocks.0.norm1.weight 4", "blocks.0.attn.wq.weight 4 4", "blocks.0.attn.wk.weight 4 4",       \
        "blocks.0.attn.wv.weight 4 4", "blocks.0.attn.wo.weight 4 4", "blocks.0.norm2.weight 4"

/* Llama's w1 is the gate, in capitals, too; of other pairs it is asked. */
TEST(gates)
{
    static const struct {
        const char *one, *two;
        unsigned is_asked;
    } rows[] = {{"w1", "w3", 0}, {"W1", "W3", 0}, {"w3", "w1", 0}, {"w1", "W3", 1}, {"a", "b", 1}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct made f = {.d = {.n = 0}};
        char one[64], two[64];
        const char *const shapes[] = {
            "tok_emb.weight 5 4", ATTENTION_OF_4,    one, two, "blocks.0.mlp.w2.weight 4 6",
            "norm.weight 4",      "head.weight 5 4", NULL};
        snprintf(one, sizeof one, "blocks.0.mlp.%s.weight 6 4", rows[i].one);
        snprintf(two, sizeof two, "blocks.0.mlp.%s.weight 6 4", rows[i].two);
        make(&f, shapes, NULL);
        map(&f, &gpt_mapping, "--heads");
        assert_int_equal(f.c.open >> FACT_GATE & 1, rows[i].is_asked);
        unmake(&f);
    }
}

/* minGPT's types, of which each has a number of heads; one that is stated counts more. */
TEST(heads_of_mingpt)
{
    static const struct {
        const char *config;
        uint32_t n_head;
    } rows[] = {{"\"openai-gpt\"", 12},  {"\"gpt2\"", 12},
                {"\"gpt2-medium\"", 16}, {"\"gpt2-large\"", 20},
                {"\"gpt2-xl\"", 25},     {"\"gopher-44m\"", 8},
                {"\"gpt-mini\"", 6},     {"\"gpt-micro\"", 4},
                {"\"gpt-nano\"", 3},     {"\"gpt-nano\",\"n_head\":5", 5},
                {"null,\"n_head\":2", 2}};
    static const char *const shapes[] = {
        "transformer.wte.weight 5 1200", "transformer.wpe.weight 8 1200",
        "transformer.ln_f.weight 1200",  "transformer.ln_f.bias 1200",
        "lm_head.weight 5 1200",         NULL};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct made f = {.d = {.n = 0}};
        char config[80];
        snprintf(config, sizeof config, "{\"model\":{\"model_type\":%s}}", rows[i].config);
        make(&f, shapes, NULL);
        add_file(&f.d, "config.json", config);
        map(&f, &mingpt_mapping, NULL);
        assert_int_equal(f.c.hp.n_head, rows[i].n_head);
        unmake(&f);
    }
}

/* Scores of one head, as wide as the embedding, have one scale: it is not asked. */
TEST(scale_of_one_head)
{
    for (int heads = 1; heads <= 2; heads++) {
        struct made f = {.o = {.given = OPT_HEADS, .n_head = heads}};
        static const char *const shapes[] = {"tok_emb.weight 5 4",
                                             "pos_emb.weight 8 4",
                                             ATTENTION_OF_4,
                                             "blocks.0.mlp.up.weight 16 4",
                                             "blocks.0.mlp.down.weight 4 16",
                                             "norm.weight 4",
                                             "head.weight 5 4",
                                             NULL};
        make(&f, shapes, NULL);
        map(&f, &gpt_mapping, "--activation");
        assert_int_equal(f.c.open >> FACT_QK_SCALE & 1, heads == 2);
        unmake(&f);
    }
}

/* The factor of the embedding is in the table; a head that is tied to it becomes a tensor without it. */
TEST(scaled_embedding)
{
    for (int tied = 0; tied < 2; tied++) {
        struct made f = {.o = {.given = OPT_HEADS | OPT_ASSUME | OPT_EMBEDDING_SCALE,
                               .assume = "encoder-layer",
                               .embedding_scale = "root",
                               .n_head = 2}};
        static const float ones[sizeof zeros / sizeof(float)] = {1, 1};
        size_t n_heads = 0;
        make(&f, encoder, tied ? "lm_head.weight" : NULL);
        f.m.state->tensors[0].bytes.data = (const uint8_t *)ones;
        map(&f, &gpt_mapping, NULL);
        for (size_t i = 0; i < arr_len(f.c.tensors); i++) {
            float x[2];
            int is_head = strcmp(f.c.tensors[i].name, "output.weight") == 0;
            ckpt_values(&f.c.tensors[i], 0, 2, x);
            if (i == 0 || is_head)
                assert_true(x[0] == x[1] && x[0] == (i == 0 ? 2.0F : tied ? 1.0F : 0.0F));
            n_heads += (size_t)is_head;
        }
        assert_int_equal(n_heads, 1);
        unmake(&f);
    }
}

/* Rows of keys are those of heads whose number divides that of queries. */
TEST(key_heads)
{
    static const struct {
        unsigned rows, n_head_kv;
        const char *expected;
    } rows[] = {{16, 0, NULL},
                {8, 2, NULL},
                {4, 1, NULL},
                {12, 0, "12 rows of keys do not form heads of width 4 of llama"},
                {10, 0, "10 rows of keys do not form heads of width 4 of llama"},
                {2, 0, "2 rows of keys do not form heads of width 4 of llama"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct made f = {.o = {.given = OPT_HEADS | OPT_ASSUME, .assume = "llama", .n_head = 4}};
        char k[64], v[64];
        const char *const shapes[] = {"tok_emb.weight 5 16",
                                      "blocks.0.norm1.weight 16",
                                      "blocks.0.attn.wq.weight 16 16",
                                      k,
                                      v,
                                      "blocks.0.attn.wo.weight 16 16",
                                      "blocks.0.norm2.weight 16",
                                      "blocks.0.mlp.w1.weight 6 16",
                                      "blocks.0.mlp.w2.weight 16 6",
                                      "blocks.0.mlp.w3.weight 6 16",
                                      "norm.weight 16",
                                      "head.weight 5 16",
                                      NULL};
        snprintf(k, sizeof k, "blocks.0.attn.wk.weight %u 16", rows[i].rows);
        snprintf(v, sizeof v, "blocks.0.attn.wv.weight %u 16", rows[i].rows);
        make(&f, shapes, NULL);
        map(&f, &gpt_mapping, rows[i].expected);
        if (!rows[i].expected)
            assert_int_equal(f.c.hp.n_head_kv, rows[i].n_head_kv);
        unmake(&f);
    }
}

/* In a model with LayerNorm and rotation any norm may lack its bias. */
TEST(biases_of_norms)
{
    static const char *const shapes[] = {"tok_emb.weight 5 4",
                                         "trf_blocks.0.norm1.weight 4",
                                         "trf_blocks.0.norm1.bias 4",
                                         "trf_blocks.0.att.W_query.weight 4 4",
                                         "trf_blocks.0.att.W_key.weight 4 4",
                                         "trf_blocks.0.att.W_value.weight 4 4",
                                         "trf_blocks.0.att.out_proj.weight 4 4",
                                         "trf_blocks.0.norm2.weight 4",
                                         "trf_blocks.0.ff.layers.0.weight 8 4",
                                         "trf_blocks.0.ff.layers.2.weight 4 8",
                                         "final_norm.weight 4",
                                         "final_norm.bias 4",
                                         "out_head.weight 5 4",
                                         NULL};
    struct made f = {
        .o = {.given = OPT_HEADS | OPT_ROPE | OPT_POSITIONS | OPT_EMBEDDING_SCALE | OPT_ASSUME,
              .n_head = 2,
              .rope_base = 10000,
              .positions = "half",
              .embedding_scale = "none",
              .assume = "llms-from-scratch"}};
    make(&f, shapes, NULL);
    map(&f, &gpt_mapping, NULL);
    assert_string_equal(f.c.hp.arch, "starcoder2");
    unmake(&f);
}
