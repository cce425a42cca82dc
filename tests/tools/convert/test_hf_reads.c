/* Hugging Face models as other years and programs have published them: keys that the class does not
 * read, other spellings, absent keys, buffers, heads, and models of which the text part is read.
 *
 * The golden models with keys and tensors as in such files.
 */
#include "support/hf_dir.h"
#include "support/unit.h"

#include <math.h>

/* Reads the directory, which must succeed. */
static void must_read(struct checkpoint *c, struct dir *d, const char *what)
{
    mgpt_error err = {.text = ""};
    must_say(what, read_dir(c, d, "config.json", &err), &err, NULL);
}

/* A note that holds `text`; NULL: no note at all. */
static void must_note(const struct checkpoint *c, const char *what, const char *text)
{
    if (text ? !has_note(c, text) : arr_len(c->notes) > 0)
        fail_msg("%s: expected %s, found %zu notes, first: %s", what, text ? text : "no note",
                 arr_len(c->notes), arr_len(c->notes) ? c->notes[0] : "");
}

static const struct ckpt_tensor *tensor_of(const struct checkpoint *c, const char *name)
{
    for (size_t i = 0; i < arr_len(c->tensors); i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    return NULL;
}

static void without_key(struct dir *d, const char *key)
{
    json_t *root = get_config(d);
    assert_int_equal(json_object_del(root, key), 0);
    set_config(d, root);
    json_decref(root);
}

/* ---- keys that no class reads ------------------------------------------------------------------- */

TEST(ignored)
{
    static const struct {
        const char *model, *key, *json, *class, *note, *expected; /* class NULL: as it is */
    } cases[] = {
        {"gpt2", "predict_special_tokens", "true", NULL,
         "ignored: predict_special_tokens (GPT2LMHeadModel does not read it)", NULL},
        {"gpt2", "predict_special_tokens", "true", "GPT2Model", "ignored: predict_special", NULL},
        {"gpt2", "predict_special_tokens", "true", "MyGPT2", NULL, "is not a switch of gpt2"},
        {"gpt2", "output_past", "true", NULL, NULL, NULL},
        {"llama", "use_flash_attention_2", "true", NULL, "(LlamaForCausalLM does not read it)",
         NULL},
        {"llama", "use_flash_attention_2", "true", "LLaMAForCausalLM", "ignored: use_flash", NULL},
        {"llama", "use_flash_attention_2", "true", "LlamaForCausalLMEagle", NULL,
         "use_flash_attention_2: true is not a switch of llama"},
        {"bloom", "skip_bias_add", "true", NULL, "(BloomForCausalLM does not read it)", NULL},
        {"gpt_bigcode", "pad_key_length", "true", NULL, "ignored: pad_key_length", NULL},
        {"apertus", "qk_norm", "true", NULL, "ignored: qk_norm (ApertusForCausalLM", NULL},
        {"qwen3_moe", "use_qk_norm", "true", NULL, "ignored: use_qk_norm (Qwen3MoeFor", NULL},
        {"llama", "use_qk_norm", "true", NULL, NULL, "use_qk_norm: true is not a switch of llama"},
        {"llama", "attention_chunk_size", "8192", NULL, NULL, "attention_chunk_size is not a"},
        {"llama", "num_experts", "1", NULL, NULL, NULL},
        {"llama", "num_experts", "2", NULL, NULL, "num_experts: this value is not supported"},
        {"gptj", "rotary", "true", NULL, NULL, NULL},
        {"gpt_neo", "rotary", "true", NULL, NULL, "rotary: true is not a switch of gpt_neo"},
        {"cohere2", "position_embedding_type", "\"rope_gptj\"", NULL, "ignored: position_emb",
         NULL},
        {"gpt2", "position_embedding_type", "\"rope_gptj\"", NULL, NULL,
         "is not a setting of gpt2"},
        {"minicpm", "scale_lr", "true", NULL, NULL, "scale_lr: true is not a switch of minicpm"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden(cases[i].model);
        struct checkpoint c;
        char classes[80];
        snprintf(classes, sizeof classes, "[\"%s\"]", cases[i].class ? cases[i].class : "");
        set_key(&d, cases[i].key, cases[i].json);
        if (cases[i].class)
            set_key(&d, "architectures", classes);
        assert_read(&d, "config.json", cases[i].key, cases[i].expected);
        if (!cases[i].expected) {
            must_read(&c, &d, cases[i].key);
            must_note(&c, cases[i].key, cases[i].note);
            ckpt_free(&c);
        }
        dir_free(&d);
    }
}

/* Two in one line. */
TEST(ignored_two)
{
    struct dir d = golden("gpt_bigcode");
    struct checkpoint c;
    set_key(&d, "pad_key_length", "true");
    set_key(&d, "validate_runner_input", "true");
    must_read(&c, &d, "two keys");
    must_note(&c, "two keys", "ignored: pad_key_length, validate_runner_input (GPTBigCodeFor");
    must_note(&c, "two keys", "does not read them)");
    ckpt_free(&c);
    dir_free(&d);
}

/* ---- spellings and defaults --------------------------------------------------------------------- */

static void rename_key(struct dir *d, const char *from, const char *to)
{
    json_t *root = get_config(d), *v = json_object_get(root, from);
    assert_non_null(v);
    assert_int_equal(json_object_set(root, to, v), 0);
    assert_int_equal(json_object_del(root, from), 0);
    set_config(d, root);
    json_decref(root);
}

TEST(spellings)
{
    static const struct {
        const char *model, *ours, *other;
    } cases[] = {
        {"bloom", "hidden_size", "n_embed"},
        {"bloom", "n_head", "num_attention_heads"},
        {"bloom", "n_layer", "num_hidden_layers"},
        {"gpt2", "n_embd", "hidden_size"},
        {"gpt2", "n_positions", "n_ctx"},
        {"falcon", "num_attention_heads", "n_head"},
        {"exaone", "num_layers", "num_hidden_layers"},
        {"exaone", "layer_norm_epsilon", "rms_norm_eps"},
        {"mpt", "d_model", "hidden_size"},
        {"llama", "max_position_embeddings", "max_sequence_length"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct dir d = golden(cases[i].model);
        struct checkpoint a, b;
        char note[80];
        must_read(&a, &d, "as it is");
        rename_key(&d, cases[i].ours, cases[i].other);
        must_read(&b, &d, cases[i].other);
        snprintf(note, sizeof note, "%s of config.json is %s", cases[i].other, cases[i].ours);
        must_note(&b, cases[i].other, note);
        assert_int_equal(a.hp.n_ctx, b.hp.n_ctx);
        assert_int_equal(arr_len(a.tensors), arr_len(b.tensors));
        assert_true(a.hp.norm_eps == b.hp.norm_eps);
        ckpt_free(&a);
        ckpt_free(&b);
        dir_free(&d);
    }
    struct dir d = golden("gpt2");
    set_key(&d, "n_ctx", "7"); /* which nobody reads beside n_positions */
    assert_read(&d, "config.json", "n_ctx", NULL);
    set_key(&d, "hidden_size", "18");
    assert_read(&d, "config.json", "the same value", NULL);
    set_key(&d, "hidden_size", "20");
    assert_read(&d, "config.json", "another value", "hidden_size and n_embd are one key with two");
    dir_free(&d);
}

TEST(defaults)
{
    struct dir d = golden("mpt");
    struct checkpoint c;
    without_key(&d, "layer_norm_epsilon");
    must_read(&c, &d, "mpt");
    must_note(&c, "mpt", "assumed, as MptForCausalLM does: layer_norm_epsilon 1e-05");
    assert_true(fabsf(c.hp.norm_eps - 1e-5F) < 1e-9F);
    ckpt_free(&c);
    dir_free(&d);
    d = golden("llama");
    without_key(&d, "max_position_embeddings");
    must_read(&c, &d, "llama");
    must_note(&c, "llama", "assumed, as LlamaForCausalLM does: max_position_embeddings 2048");
    assert_int_equal(c.hp.n_ctx, 2048);
    ckpt_free(&c);
    without_key(&d, "hidden_size");
    assert_read(&d, "config.json", "sizes are compared", "shape [33, 24], expected [33, 4096]");
    dir_free(&d);
    d = golden("gptj"); /* n_inner follows from n_embd */
    without_key(&d, "n_inner");
    must_read(&c, &d, "gptj");
    must_note(&c, "gptj", NULL);
    ckpt_free(&c);
    dir_free(&d);
    d = golden("mixtral"); /* one spelling of the experts is enough */
    must_read(&c, &d, "mixtral");
    must_note(&c, "mixtral", NULL);
    ckpt_free(&c);
    dir_free(&d);
}

/* ---- tensors ------------------------------------------------------------------------------------ */

TEST(buffers)
{
    static const char *const names[][2] = {
        {"codegen", "transformer.h.0.attn.causal_mask"},
        {"gptj", "transformer.h.1.attn.masked_bias"},
        {"gptj", "transformer.h.0.attn.scale_attn"},
        {"llama", "model.layers.0.self_attn.rotary_emb.cos_cached"},
    };
    const float mask[4] = {1, 0, 1, 1};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct dir d = golden(names[i][0]);
        append_tensor(&d, names[i][1], 2, 2, mask);
        assert_read(&d, "config.json", names[i][1], NULL);
        dir_free(&d);
    }
}

/* A head beside a tied table: the same values are the table, others are a head. */
TEST(heads)
{
    struct dir d = golden("gpt2");
    struct checkpoint c;
    float values[33 * 18];
    must_read(&c, &d, "tied");
    assert_null(tensor_of(&c, "output.weight"));
    ckpt_values(tensor_of(&c, "token_embd.weight"), 0, COUNT(values), values);
    ckpt_free(&c);
    struct dir same = golden("gpt2");
    append_tensor(&same, "lm_head.weight", 33, 18, values);
    must_read(&c, &same, "the same values");
    must_note(&c, "the same values", NULL);
    assert_null(tensor_of(&c, "output.weight"));
    ckpt_free(&c);
    dir_free(&same);
    values[33 * 18 - 1] += 1;
    append_tensor(&d, "lm_head.weight", 33, 18, values);
    must_read(&c, &d, "another value");
    must_note(&c, "another value",
              "lm_head.weight is not the token table: used, although tie_word_embeddings is true");
    assert_non_null(tensor_of(&c, "output.weight"));
    ckpt_values(tensor_of(&c, "output.weight"), 0, COUNT(values), values);
    ckpt_free(&c);
    set_key(&d, "tie_word_embeddings", "false");
    must_read(&c, &d, "untied");
    must_note(&c, "untied", NULL);
    assert_non_null(tensor_of(&c, "output.weight"));
    ckpt_free(&c);
    dir_free(&d);
}

/* The one matrix has the head's name. */
TEST(only_a_head)
{
    struct dir d = golden("gpt2");
    struct checkpoint a, b;
    float x[33 * 18], y[33 * 18];
    json_t *header = header_of(&d);
    must_read(&a, &d, "by the table's name");
    ckpt_values(tensor_of(&a, "token_embd.weight"), 0, COUNT(x), x);
    ckpt_free(&a);
    rename_tensor(header, "transformer.wte.weight", "lm_head.weight");
    set_header(&d, header);
    json_decref(header);
    must_read(&b, &d, "by the head's name");
    must_note(&b, "note",
              "lm_head.weight is the token table, too (tie_word_embeddings; there is no");
    ckpt_values(tensor_of(&b, "token_embd.weight"), 0, COUNT(y), y);
    assert_memory_equal(x, y, sizeof x);
    assert_null(tensor_of(&b, "output.weight"));
    ckpt_free(&b);
    set_key(&d, "tie_word_embeddings", "false");
    assert_read(&d, "config.json", "untied", "tensor wte.weight: missing");
    dir_free(&d);
}

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
        assert_read(&d, "config.json", "another tensor", "other_part.weight: not part of a");
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
    assert_read(&d, "config.json", "with another", "vision_tower.head.weight: not part of a llama");
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
    static const char quant[] = "{\"quant_method\":\"compressed-tensors\",\"config_groups\":"
                                "{\"group_0\":{\"weights\":{\"type\":\"float\"}}}}";
    struct dir d = golden("llama");
    set_key(&d, "x", "{\"weights\":{\"a\":1}}");
    assert_read(&d, "config.json", "an object named weights", NULL);
    set_key(&d, "image_grid_pinpoints", "[[336,672],[672,336]]");
    assert_read(&d, "config.json", "lists of sizes", NULL);
    dir_free(&d);
    d = golden("llama");
    set_key(&d, "quantization_config", quant);
    assert_read(&d, "config.json", "compressed-tensors", "quant_method compressed-tensors is not");
    set_key(&d, "quantization_config",
            "{\"quant_method\":\"modelopt\",\"ignore\":[\"transformer.h.0\"],\"layers\":"
            "{\"transformer.h.0.attn\":{\"weights\":{}}}}");
    assert_read(&d, "config.json", "modelopt", "quant_method modelopt is not read");
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
    dir_free(&d);
    d = golden("llama");
    without_key(&d, "model_type");
    without_key(&d, "architectures");
    assert_read(&d, "config.json", "llama", "model_type: missing; for a Llama write");
    dir_free(&d);
    d = golden("qwen2_sharded");
    without_key(&d, "model_type");
    assert_read(&d, "config.json", "an index", "with Qwen2ForCausalLM among its architectures");
    dir_free(&d);
}
