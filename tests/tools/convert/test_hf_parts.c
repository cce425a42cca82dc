/* Hugging Face models of which the text part is read, and which JSON files are their config.json.
 *
 * The golden models as parts of others.
 */
#include "support/hf_dir.h"
#include "support/unit.h"

/* ---- models of several parts -------------------------------------------------------------------- */

/* config.json as the part `key` of another; NULL: next to vision_config. */
static void wrap_config(struct dir *d, const char *whole, const char *key, const char *text_type)
{
    json_t *text = get_config(d), *root = key ? json_object() : json_incref(text);
    if (text_type)
        json_object_set_new(text, "model_type", json_string(text_type));
    else
        json_object_del(text, "model_type");
    if (key)
        json_object_set(root, key, text);
    json_object_set_new(root, "model_type", json_string(whole));
    json_object_set_new(root, "architectures", json_pack("[s]", "SomeForConditionalGeneration"));
    json_object_set_new(root, "vision_config", json_object());
    set_config(d, root);
    json_decref(root);
    json_decref(text);
}

/* Names of tensors that begin with "model." begin with `to` instead. */
static void rename_tensors(struct dir *d, const char *to)
{
    json_t *header = header_of(d), *renamed = json_object(), *entry;
    const char *name;
    json_object_foreach(header, name, entry)
    {
        char other[160];
        int in_model = strncmp(name, "model.", 6) == 0;
        snprintf(other, sizeof other, "%s%s", in_model ? to : "", in_model ? name + 6 : name);
        json_object_set(renamed, other, entry);
    }
    set_header(d, renamed);
    json_decref(header);
    json_decref(renamed);
}

TEST(text_parts)
{
    static const struct {
        const char *model, *whole, *key, *text_type, *prefix, *other;
    } cases[] = {
        {"gemma3", "gemma3", "text_config", "gemma3_text", "language_model.model.",
         "vision_tower.vision_model.head.weight"},
        {"gemma4", "gemma4_unified", "text_config", "gemma4_unified_text", "model.language_model.",
         "model.vision_embedder.patch_ln1.weight"},
        {"llama", "emu3", "text_config", "emu3_text_model", "text_model.model.",
         "vqmodel.quantize.embedding.weight"},
        {"apertus", "apertus1p5", "text_config", "apertus1p5_text", "model.language_model.",
         "model.audio_tokenizer.quantizer.codebook.weight"},
        {"phi3_longrope", "phi4_multimodal", NULL, "phi4_multimodal", "model.",
         "model.embed_tokens_extend.image_embed.glb_GN.weight"},
        {"persimmon", "fuyu", "text_config", "persimmon", "language_model.model.",
         "vision_embed_tokens.weight"},
        {"llama", "smolvlm", "text_config", "llama", "model.text_model.",
         "model.connector.modality_projection.proj.weight"},
        {"llama", "idefics3", "text_config", "llama", "model.text_model.",
         "model.vision_model.patch_embedding.weight"},
        {"llama", "llava", "text_config", "llama", "language_model.model.",
         "multi_modal_projector.linear_1.weight"},
        {"llama", "llava", NULL, "llava", "model.", "model.mm_projector.0.weight"},
        {"mistral_yarn", "mistral3", "text_config", "mistral", "model.language_model.",
         "model.vision_tower.ln_pre.weight"},
        {"qwen3", "qwen3_vl", "text_config", "qwen3_vl_text", "model.language_model.",
         "model.visual.merger.norm.weight"},
        {"cohere_compass", "cohere_compass", "text_config", "cohere_compass_text",
         "model.language_model.", "model.visual.merger.norm.weight"},
        {"aria", "aria", "text_config", "aria_text", "language_model.model.",
         "multi_modal_projector.query"},
        {"mllama", "mllama", "text_config", "mllama_text_model", "model.language_model.",
         "vision_model.class_embedding"},
        {"qwen3", "moss_transcribe_diarize", "text_config", "qwen3", "model.language_model.",
         "model.audio_tower.layer_norm.weight"},
        {"qwen2_window", "got_ocr2", "text_config", "qwen2", "language_model.model.",
         "vision_tower.pos_embed.weight"},
        {"qwen2_window", "qwen2_vl", NULL, "qwen2_vl", "model.", "visual.patch_embed.proj.weight"},
        {"qwen2_window", "qwen2_5_vl", "text_config", "qwen2_5_vl_text", "model.language_model.",
         "model.visual.blocks.0.norm1.weight"},
        {"qwen2_window", "internvl_chat", "llm_config", "qwen2", "language_model.model.",
         "mlp1.1.weight"},
        {"qwen2_window", "internvl", "text_config", NULL, "language_model.model.",
         "multi_modal_projector.layer_norm.weight"},
    };
    const float x[4] = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden(cases[i].model);
        struct checkpoint a, b;
        char format[80];
        must_read(&a, &d, cases[i].model);
        wrap_config(&d, cases[i].whole, cases[i].key, cases[i].text_type);
        rename_tensors(&d, cases[i].prefix);
        append_tensor(&d, cases[i].other, 2, 2, x);
        must_read(&b, &d, cases[i].whole);
        snprintf(format, sizeof format, ", the text part of a %s", cases[i].whole);
        assert_non_null(strstr(b.format, format));
        must_note(&b, cases[i].whole, "ignored: 1 tensors of the parts of a ");
        assert_int_equal(arr_len(a.tensors), arr_len(b.tensors));
        assert_string_equal(a.hp.arch, b.hp.arch);
        ckpt_free(&a);
        ckpt_free(&b);
        append_tensor(&d, "other_part.weight", 2, 2, x);
        assert_read(&d, "config.json", "another tensor", "other_part.weight: no ");
        dir_free(&d);
    }
}

/* Reads the directory with these options. */
static int read_with(struct checkpoint *c, struct dir *d, struct ckpt_options options,
                     mgpt_error *err)
{
    struct ckpt_input in = {
        *file_in(d, "config.json"), "model", &options, find_in_dir, d, "directory", NULL};
    ckpt_init(c);
    return ckpt_read(c, &in, err);
}

/* Tokens that the head has no rows for are left out: one of images, and all from the seventh on. */
TEST(head_of_fewer_rows)
{
    for (int pruned = 0; pruned < 2; pruned++) {
        struct dir d = golden(pruned ? "apertus" : "mllama");
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        const size_t n = pruned ? 33 : 34, kept = pruned ? 7 : 33;
        char json[1200], note[80];
        int at = snprintf(json, sizeof json,
                          "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
                          ","
                          "\"added_tokens\":[{\"id\":%zu,\"content\":\"<x>\",\"special\":true}],"
                          "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0",
                          n - 1);
        for (size_t i = 1; i < n - 1; i++)
            at += snprintf(json + at, sizeof json - (size_t)at, ",\"a%zu\":%zu", i, i);
        snprintf(json + at, sizeof json - (size_t)at, "}}}");
        set_file(&d, "tokenizer.json", copy_of(json, strlen(json)));
        if (pruned) {
            const float head[7 * 100] = {0};
            json_t *header = header_of(&d), *config = get_config(&d);
            int width = (int)json_integer_value(json_object_get(config, "hidden_size"));
            rename_tensor(header, "lm_head.weight", "model.x.rotary_emb.inv_freq");
            set_header(&d, header);
            append_tensor(&d, "lm_head.weight", (int)kept, width, head);
            set_key(&d, "model_type", "\"apertus1p5_text\"");
            set_key(&d, "output_vocab_size", "7");
            json_decref(header);
            json_decref(config);
        }
        must_say("a head of fewer rows", read_with(&c, &d, (struct ckpt_options){0}, &err), &err,
                 NULL);
        snprintf(note, sizeof note, "vocabulary: %zu tokens that the head has no rows for",
                 n - kept);
        must_note(&c, "the vocabulary", note);
        assert_int_equal(arr_len(c.vocab.tokens), kept);
        assert_int_equal(tensor_of(&c, "token_embd.weight")->dims[1], kept);
        assert_int_equal(tensor_of(&c, "output.weight")->dims[1], kept);
        ckpt_free(&c);
        dir_free(&d);
    }
}

/* Without its indexer a model has the context in which it would choose all keys. */
TEST(indexed_context)
{
    static const struct {
        int asked;
        uint32_t n_ctx;
        const char *said;
    } cases[] = {{0, 24, NULL}, {24, 24, NULL}, {9, 9, NULL}, {25, 0, "--context 25: without the"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("deepseek_v32");
        struct checkpoint c;
        mgpt_error err = {.text = ""};
        struct ckpt_options o = {.given = OPT_NO_TOKENIZER, .n_ctx = cases[i].asked};
        o.given |= cases[i].asked ? OPT_CONTEXT : 0;
        must_say("index_topk 24", read_with(&c, &d, o, &err), &err, cases[i].said);
        if (!cases[i].said) {
            assert_int_equal(c.hp.n_ctx, cases[i].n_ctx);
            must_note(&c, "deepseek_v32", " of 48: up to index_topk positions");
        }
        ckpt_free(&c);
        dir_free(&d);
    }
}

/* Keys of a model of this context, for "{", or other JSON; NULL for NULL. */
static json_t *config_part(const json_t *keys, const char *json, int context)
{
    json_t *part = json && strcmp(json, "{") == 0 ? json_deep_copy(keys)
                   : json                         ? json_loads(json, JSON_DECODE_ANY, NULL)
                                                  : NULL;
    assert_true(part || !json);
    if (json_is_object(part))
        json_object_set_new(part, "max_position_embeddings", json_integer(context));
    return part;
}

static void nest_part(json_t *in, const char *key, json_t *part)
{
    if (part)
        assert_int_equal(json_object_set(in, key, part), 0);
}

/* Which object has the keys: the root, its text_config or, without one, its llm_config. Each states another context. */
TEST(which_part_is_read)
{
    enum { ROOT = 1001, TEXT, LLM };
    static const struct {
        const char *text, *llm; /* JSON, "{": the keys of the model, NULL: absent */
        int nested;             /* 1: llm_config is in text_config, 2: text_config in llm_config */
        uint32_t expected;
    } cases[] = {
        {NULL, NULL, 0, ROOT},      {"{", NULL, 0, TEXT},   {NULL, "{", 0, LLM},
        {"{", "{", 0, TEXT},        {"null", "{", 0, LLM},  {"[]", "{", 0, LLM},
        {"\"llama\"", "{", 0, LLM}, {"{", "null", 0, TEXT}, {"null", "null", 0, ROOT},
        {"[{}]", "7", 0, ROOT},     {"{", "{", 1, TEXT},    {"{", "{", 2, LLM},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("llama");
        json_t *keys = get_config(&d);
        json_t *text = config_part(keys, cases[i].text, TEXT),
               *llm = config_part(keys, cases[i].llm, LLM);
        json_t *root = config_part(keys, "{", ROOT);
        nest_part(cases[i].nested == 2 ? llm : root, "text_config", text);
        nest_part(cases[i].nested == 1 ? text : root, "llm_config", llm);
        struct checkpoint c;
        set_config(&d, root);
        must_read(&c, &d, cases[i].text ? cases[i].text : "no text_config");
        if (c.hp.n_ctx != cases[i].expected)
            fail_msg("case %zu: the part with the context %u is read", i, c.hp.n_ctx);
        ckpt_free(&c);
        json_decref(text);
        json_decref(llm);
        json_decref(keys);
        json_decref(root);
        dir_free(&d);
    }
}

/* A wrapper that is not known has no parts that may be left out. */
TEST(unknown_part)
{
    struct dir d = golden("llama");
    const float x[4] = {0};
    wrap_config(&d, "some_vl", "text_config", "llama");
    assert_read(&d, "config.json", "the text part alone", NULL);
    append_tensor(&d, "vision_tower.head.weight", 2, 2, x);
    assert_read(&d, "config.json", "with another", "vision_tower.head.weight: no llama");
    dir_free(&d);
    static const char *const marks[] = {"architectures", "transformers_version",
                                        "layer_norm_epsilon"};
    d = golden("gpt2"); /* names of other programs, too: the type of the whole alone tells */
    for (size_t i = 0; i < COUNT(marks); i++)
        without_key(&d, marks[i]);
    wrap_config(&d, "internvl", "text_config", NULL);
    assert_read(&d, "model.safetensors", "the type of the whole alone", "is a name of gpt2");
    dir_free(&d);
}

/* A file without a head: the root says, or its class does, that the table is one. */
TEST(parts_tied)
{
    static const struct {
        const char *whole, *root, *expected;
    } cases[] = {
        {"mistral3", NULL, NULL},
        {"mistral3", "false", "lm_head.weight: missing"},
        {"llava", NULL, "lm_head.weight: missing"},
        {"llava", "true", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden("llama");
        json_t *header = header_of(&d);
        rename_tensor(header, "lm_head.weight", "vision_tower.weight");
        set_header(&d, header);
        json_decref(header);
        if (i != 3) /* the text part's false does not count beside the root's true */
            without_key(&d, "tie_word_embeddings");
        wrap_config(&d, cases[i].whole, "text_config", "llama");
        if (cases[i].root)
            set_key(&d, "tie_word_embeddings", cases[i].root);
        assert_read(&d, "config.json", cases[i].whole, cases[i].expected);
        dir_free(&d);
    }
}

/* A head of its own is one, also where the root says that there is none. */
TEST(parts_not_tied)
{
    struct dir d = golden("llama");
    struct checkpoint c;
    without_key(&d, "tie_word_embeddings");
    wrap_config(&d, "llava", "text_config", "llama");
    set_key(&d, "tie_word_embeddings", "true");
    must_read(&c, &d, "llava");
    must_note(&c, "llava", "lm_head.weight is not the token table: used, although tie_word_emb");
    assert_non_null(tensor_of(&c, "output.weight"));
    ckpt_free(&c);
    dir_free(&d);
}

/* Positions of rows and columns are the usual ones only in a model that sees. */
TEST(mrope)
{
    static const char rope[] = "{\"type\":\"mrope\",\"mrope_section\":[1,1,2],\"rope_theta\":1e4}";
    struct dir d = golden("qwen2_window");
    set_key(&d, "rope_parameters", rope);
    assert_read(&d, "config.json", "qwen2", "mrope without a part that sees is not supported");
    set_key(&d, "model_type", "\"qwen2_vl\"");
    assert_read(&d, "config.json", "qwen2_vl", NULL);
    set_key(&d, "rope_parameters", "{\"type\":\"mrope\",\"rope_theta\":1e4}");
    assert_read(&d, "config.json", "no sections", "mrope without");
    dir_free(&d);
}

/* The text part of the published Gemma 3 4B has six keys: the class has the others. */
TEST(six_keys)
{
    static const char config[] =
        "{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":2560,\"intermediate_size\":"
        "10240,\"model_type\":\"gemma3_text\",\"num_hidden_layers\":34,\"rope_scaling\":{"
        "\"factor\":"
        "8.0,\"rope_type\":\"linear\"},\"sliding_window\":1024}}";
    struct dir d = golden("gemma3");
    struct checkpoint c;
    mgpt_error err;
    set_file(&d, "config.json", copy_of(config, sizeof config - 1));
    assert_int_equal(read_dir(&c, &d, "config.json", &err), MGPT_EFILE); /* the tensors are small */
    must_say("six keys", MGPT_EFILE, &err, "expected [262208, 2560]");
    must_note(&c, "six keys",
              "assumed, as Gemma3ForCausalLM does: head_dim 256, hidden_activation");
    assert_int_equal(c.hp.n_head, 8);
    assert_int_equal(c.hp.n_head_kv, 4);
    assert_int_equal(c.hp.head_dim, 256);
    assert_int_equal(c.hp.n_ctx, 131072);
    assert_true(c.hp.rope_factor == 8);
    ckpt_free(&c);
    dir_free(&d);
}

/* ---- config.json or a model in JSON ------------------------------------------------------------- */

TEST(weights_in_config)
{
    static const char quant[] = "{\"quant_method\":\"quark\",\"config_groups\":"
                                "{\"group_0\":{\"weights\":{\"type\":\"float\"}}}}";
    struct dir d = golden("llama");
    set_key(&d, "x", "{\"weights\":{\"a\":1}}");
    assert_read(&d, "config.json", "an object named weights", NULL);
    set_key(&d, "weights", "{\"type\":\"float\"}");
    set_key(&d, "factors", "[1.5, 2.0]");
    assert_read(&d, "config.json", "a key named weights", NULL);
    set_key(&d, "image_grid_pinpoints", "[[336,672],[672,336]]");
    assert_read(&d, "config.json", "lists of sizes", NULL);
    dir_free(&d);
    d = golden("llama");
    set_key(&d, "quantization_config", quant);
    assert_read(&d, "config.json", "quark", "quant_method quark is not read");
    set_key(&d, "quantization_config",
            "{\"quant_method\":\"modelopt\",\"ignore\":[\"transformer.h.0\"],\"layers\":"
            "{\"transformer.h.0.attn\":{\"weights\":{}}}}");
    assert_read(&d, "config.json", "modelopt", NULL);
    set_key(&d, "quantization_config", "{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\"}");
    assert_read(&d, "config.json", "modelopt, FP8", NULL);
    set_key(&d, "quantization_config", "{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}");
    assert_read(&d, "config.json", "modelopt, NVFP4", NULL);
    dir_free(&d);
}

TEST(no_model_type)
{
    struct dir d = golden("gpt2");
    without_key(&d, "model_type");
    assert_read(&d, "config.json", "a class",
                "model_type: missing; with GPT2LMHeadModel among its architectures write "
                "\"model_type\": \"gpt2\"");
    assert_read(&d, "model.safetensors", "the weights", "write \"model_type\": \"gpt2\"");
    without_key(&d, "architectures");
    assert_read(&d, "config.json", "keys", "missing; for n_embd and n_head of a GPT-2 write");
    static char text[602] = "\""; /* a long text with spaces is no base64 of values */
    for (size_t i = 1; i < 600; i++)
        text[i] = i % 10 ? 'a' : ' ';
    text[600] = '"';
    set_key(&d, "weights", text);
    assert_read(&d, "config.json", "a long text", "missing; for n_embd and n_head of a GPT-2");
    without_key(&d, "transformers_version");
    assert_read(&d, "config.json", "keys of old files", "missing; for n_embd and n_head of a GPT");
    without_key(&d, "layer_norm_epsilon");
    assert_read(&d, "config.json", "a key of other programs", "not in the file: set --pre");
    dir_free(&d);
    d = golden("llama");
    without_key(&d, "model_type");
    assert_read(&d, "config.json", "a class of two types", "write \"model_type\": \"llama\"");
    without_key(&d, "architectures");
    assert_read(&d, "config.json", "llama", "model_type: missing; for a Llama write");
    without_key(&d, "rms_norm_eps"); /* one of the two keys alone is that of many */
    assert_read(&d, "config.json", "a key",
                "model_type: missing; write the name that transformers");
    dir_free(&d);
    d = golden("qwen2_sharded");
    without_key(&d, "model_type");
    assert_read(&d, "config.json", "an index", "with Qwen2ForCausalLM among its architectures");
    dir_free(&d);
}
