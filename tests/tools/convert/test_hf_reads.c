/* Hugging Face models as other years and programs have published them: keys that the class does not
 * read, other spellings, absent keys, buffers, heads.
 *
 * The golden models with keys and tensors as in such files.
 */
#include "convert/families/hf.h"
#include "support/hf_dir.h"
#include "support/unit.h"

#include <math.h>

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

/* The note names as many keys as a line has room for, and says that there are more. */
TEST(ignored_many)
{
    struct dir d = golden("llama");
    struct checkpoint c;
    for (int i = 0; i < 6; i++) {
        char key[60];
        snprintf(key, sizeof key, "key_%d_of_another_programs_configuration_file_x", i);
        set_key(&d, key, "true");
    }
    must_read(&c, &d, "six keys");
    must_note(&c, "six keys", "key_1_of_another_programs_configuration_file_x, ... (LlamaFor");
    ckpt_free(&c);
    dir_free(&d);
}

/* ---- sizes that layers have of their own -------------------------------------------------------- */

TEST(layers_of_their_own)
{
    struct dir d = golden("mimo_v2_flash");
    struct checkpoint c;
    set_key(&d, "sliding_window_size", "4"); /* and the token itself */
    must_read(&c, &d, "mimo");
    assert_int_equal(c.hp.window, 5);
    ckpt_free(&c);
    dir_free(&d);
    d = golden("laguna");
    must_read(&c, &d, "laguna");
    uint32_t n_head = c.hp.n_head;
    ckpt_free(&c);
    set_key(&d, "num_attention_heads", "2"); /* the list counts */
    must_read(&c, &d, "heads of each layer");
    assert_int_equal(c.hp.n_head, n_head);
    const uint32_t width = c.hp.head_dim;
    ckpt_free(&c);
    without_key(&d, "rope_parameters"); /* the class turns half of a head */
    must_read(&c, &d, "without rope_parameters");
    assert_int_equal(c.hp.n_rot, width / 2);
    ckpt_free(&c);
    dir_free(&d);
    d = golden("gemma4");
    must_read(&c, &d, "gemma4");
    uint32_t n = c.hp.n_layer;
    ckpt_free(&c);
    json_t *root = get_config(&d), *types = json_object_get(root, "layer_types");
    json_array_set_new(types, n - 1, json_string("sliding_attention"));
    set_config(&d, root);
    json_decref(root);
    must_read(&c, &d, "a window of the last layer");
    assert_int_equal(c.hp.windowed[n - 1], 0);
    ckpt_free(&c);
    without_key(&d, "per_layer_config"); /* heads of the class */
    assert_read(&d, "config.json", "heads", "q_proj.weight: shape [48, 20], expected [2048, 20]");
    dir_free(&d);
}

/* Values from any column on are those of the whole. */
TEST(projected_parts)
{
    struct dir d = golden("opt_350m");
    struct checkpoint c;
    float whole[60], part[30];
    must_read(&c, &d, "opt_350m");
    const struct ckpt_tensor *t = tensor_of(&c, "token_embd.weight");
    ckpt_values(t, 0, COUNT(whole), whole);
    for (size_t first = 0; first <= 30; first++) {
        ckpt_values(t, 40, 1, part);
        ckpt_values(t, first, COUNT(part), part);
        assert_memory_equal(part, whole + first, sizeof part);
    }
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
    set_key(&d, "n_ctx", "7"); /* no class reads it next to n_positions */
    assert_read(&d, "config.json", "n_ctx", NULL);
    set_key(&d, "hidden_size", "18");
    assert_read(&d, "config.json", "the same value", NULL);
    set_key(&d, "hidden_size", "20");
    assert_read(&d, "config.json", "another value", "hidden_size and n_embd are one key with two");
    dir_free(&d);
    d = golden("gpt_neox"); /* transformers 4.5x wrote both */
    set_key(&d, "rotary_pct", "0.34");
    set_key(&d, "partial_rotary_factor", "0.34");
    assert_read(&d, "config.json", "the rotated part twice", NULL);
    set_key(&d, "partial_rotary_factor", "0.5");
    assert_read(&d, "config.json", "another part",
                "partial_rotary_factor is not a setting of gpt_neox");
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

enum { ROWS = 300 }; /* more values than are compared at a time */

/* A token table of many rows in the place of the golden one. */
static void set_table(struct dir *d)
{
    static float values[ROWS * 18];
    json_t *header = header_of(d);
    for (size_t i = 0; i < COUNT(values); i++)
        values[i] = (float)i / 64;
    rename_tensor(header, "transformer.wte.weight", "h.0.attn.masked_bias");
    set_header(d, header);
    json_decref(header);
    append_tensor(d, "transformer.wte.weight", ROWS, 18, values);
    set_key(d, "vocab_size", "300");
}

/* A head beside a tied table: the same values are the table, others are a head. */
TEST(heads)
{
    struct dir d = golden("gpt2"), same;
    struct checkpoint c;
    static float values[ROWS * 18];
    set_table(&d);
    must_read(&c, &d, "tied");
    assert_null(tensor_of(&c, "output.weight"));
    ckpt_values(tensor_of(&c, "token_embd.weight"), 0, COUNT(values), values);
    ckpt_free(&c);
    same = golden("gpt2");
    set_table(&same);
    append_tensor(&same, "lm_head.weight", ROWS, 18, values);
    must_read(&c, &same, "the same values");
    must_note(&c, "the same values", NULL);
    assert_null(tensor_of(&c, "output.weight"));
    ckpt_free(&c);
    dir_free(&same);
    values[ROWS * 18 - 1] += 1;
    append_tensor(&d, "lm_head.weight", ROWS, 18, values);
    must_read(&c, &d, "another value");
    must_note(&c, "another value",
              "lm_head.weight is not the token table: used, although tie_word_embeddings is true");
    assert_non_null(tensor_of(&c, "output.weight"));
    ckpt_values(tensor_of(&c, "output.weight"), 0, COUNT(values), values);
    ckpt_free(&c);
    without_key(&d, "tie_word_embeddings"); /* tied in the class alone */
    must_read(&c, &d, "tied by the class");
    must_note(&c, "tied by the class", NULL);
    assert_non_null(tensor_of(&c, "output.weight"));
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

/* Every family has its row of the table that hf_reads.py makes. */
TEST(all_have_classes)
{
    for (size_t i = 0; hf_family_at(i); i++) {
        struct hf_model m = {.family = hf_family_at(i)};
        if (!*m.family->class.name && !m.family->program)
            fail_msg("%s has no class: make hf_reads.txt again", m.family->model_type);
    }
}
