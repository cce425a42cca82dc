/* Tests: every operation that a user knows with every call failing that can fail. What must hold is
 * in sweep.c; here is what is tried, on the smallest files there are.
 *
 *     test_faults [PART...]      only operations whose name and arguments hold one of the parts
 *     MGPT_FAULTS=all            every k instead of every call path
 *     MGPT_FAULTS=2/5            the second fifth of what is tried
 */
#include "base/file.h"
#include "base/mem.h"
#include "common/commands.h"
#include "common/sandbox.h"
#include "faults/sweep.h"
#include "faults/tour.h"
#include "gguf/gguf.h"
#include "support/zip_made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The harness counts descriptors in /proc, which the sandbox closes to it (test_sandbox.c tries the
 * sandbox). */
int sandbox_enter(const struct sandbox *s)
{
    (void)s;
    return 0;
}

static const char script[] =
    "ann\n/g 3\n/branch b\n/top 3\n\n/branch 0\n/save s\n/load s\n/trace on * t.npz\nx\n"
    "/trace off\n/b 1\n/tokens\n/a 0 0\n/lens\n/dla\n/ab 0.0 zero\n/edit 1 b\n/a 0 0 -o "
    "a.txt\n/ab 0.0 off\n/patch b z\n/quit\n";

/* clang-format off */
static const struct sweep sweeps[] = {
    {"tour", tour_run, "@weights/names.gguf", NULL, SWEEP_PLAIN, 0},
    {"tour", tour_run, "%q8.gguf", NULL, SWEEP_PLAIN, 0},
    {"tour", tour_run, "%bpe.gguf", NULL, SWEEP_PLAIN, 0},
    {"info", cmd_info, "@weights/names.gguf --tensors", NULL, SWEEP_PLAIN, 0},
    {"info", cmd_info, "%bpe.gguf --json --tensors", NULL, SWEEP_PLAIN, 0},
    {"info", cmd_info, "@tests/fixtures/wild/base64.json", NULL, SWEEP_PLAIN, 0},
    {"tokenize", cmd_tokenize, "@weights/names.gguf -p anna", NULL, SWEEP_PLAIN, 0},
    {"tokenize", cmd_tokenize, "%bpe.gguf --pieces", "then the nan", SWEEP_PLAIN, 0},
    {"tokenize", cmd_tokenize, "%bpe.gguf --decode -p 5,6,7", NULL, SWEEP_PLAIN, 0},
    {"tokenize", cmd_tokenize, "%mapped.gguf -p anna", NULL, SWEEP_PLAIN, 0},
    {"tokenize", cmd_tokenize, "%unigram.gguf --pieces", "an xa 12 \303\251\n", SWEEP_PLAIN, 0},
    {"tokenize", cmd_tokenize, "%steps.gguf --pieces", "an xa 12 \303\251\n", SWEEP_PLAIN, 0},
    {"tokenize", cmd_tokenize, "%words.gguf --pieces", "an xa 12 \303\251\n", SWEEP_PLAIN, 0},
    {"generate", cmd_generate, "@weights/names.gguf --samples 3 -t 2", NULL, SWEEP_PLAIN, 0},
    {"generate", cmd_generate, "@weights/names.gguf -p an --json", NULL, SWEEP_PLAIN, 0},
    {"generate", cmd_generate, "%bpe.gguf -f - -n 4 --lookup --draft %bpe.gguf", "then the then the", SWEEP_PLAIN, 0},
    {"generate", cmd_generate, "@weights/names.gguf -p an -n 3 --session x", NULL, SWEEP_PLAIN, 0},
    {"generate", cmd_generate, "%bpe.gguf -f - -n 4 --session x --kv f16", "then the nan", SWEEP_PLAIN, 0},
    {"generate", cmd_generate, "%bpe.gguf --chat --chat-template %chat.jinja -f - -n 2 --system be", "ann\nthe\n", SWEEP_PLAIN, 0},
    /* what was said until then is kept */
    {"generate", cmd_generate, "%bpe.gguf --chat --chat-template %chat.jinja -f - -n 2 --session x", "ann\n", SWEEP_GOES_ON, 0},
    {"generate", cmd_generate, "%part-00002-of-00002.gguf -p an -n 2", NULL, SWEEP_PLAIN, 0},
    {"score", cmd_score, "@weights/names.gguf -f - --each -t 2", "anna\nbob\n", SWEEP_PLAIN, 0},
    {"score", cmd_score, "@weights/names.gguf -f - --json --top 3",
     "{\"text\": \"anna\", \"id\": 7}\n", SWEEP_PLAIN, 0},
    {"score", cmd_score, "@weights/names.gguf -f - --json",
     "{\"context\": \"abcdefghijklm\", \"continuations\": [\"na\", \"nd\"]}\n", SWEEP_PLAIN, 0},
    {"attend", cmd_attend, "identity --causal", NULL, SWEEP_PLAIN, 0},
    {"attend", cmd_attend, "-x - --heads 2 --wq dim:1 --json", "1 2\n3 4\n", SWEEP_PLAIN, 0},
    {"check", cmd_check, "@weights/names.gguf @weights/names.ref.json --tokens 3", NULL, SWEEP_PLAIN, 0},
    {"check", cmd_check, "@weights/names.gguf @weights/names.ref.json --json --explain", NULL, SWEEP_PLAIN, 0},
    {"check", cmd_check, "%qwen3.gguf @tests/golden/qwen3/ref.npz", NULL, SWEEP_PLAIN, 0},
    {"check", cmd_check, "%qwen3.gguf @tests/golden/qwen3/ref.npz --explain", NULL, SWEEP_PLAIN, 0},
    {"check", cmd_check, "@weights/names.gguf %q8.gguf --tol 100 -p anna", NULL, SWEEP_PLAIN, 0},
    {"check", cmd_check, "@weights/names.gguf %trace.safetensors", NULL, SWEEP_PLAIN, 0},
    {"check", cmd_check, "@weights/names.gguf %reference.pt --tol 100", NULL, SWEEP_PLAIN, 0},
    {"check", cmd_check, "@weights/names.gguf %answer.json --ids 26,0 --tol 100", NULL, SWEEP_PLAIN, 0},
    {"check", cmd_check, "--self %tiny.gguf", NULL, SWEEP_PLAIN, 0},
    {"trace", cmd_trace, "@weights/names.gguf -p ann -o x.npz -t 2", NULL, SWEEP_PLAIN, 0},
    {"trace", cmd_trace, "@weights/names.gguf -p ann -o x.npz", NULL, SWEEP_PLAIN, 1},
    {"trace", cmd_trace, "%bpe.gguf -p then -o x.safetensors --type f16", NULL, SWEEP_PLAIN, 0},
    {"trace", cmd_trace, "%bpe.gguf --ids 5,6,7 -o x.safetensors", NULL, SWEEP_PLAIN, 1},
    {"trace", cmd_trace, "@weights/names.gguf --list", NULL, SWEEP_PLAIN, 0},
    {"patch", cmd_patch, "@weights/names.gguf --clean ann --corrupt ana --metric kl --over z,pattern", NULL, SWEEP_PLAIN, 0},
    {"patch", cmd_patch, "@weights/names.gguf --clean ann --metric logprob:a --why --over tokens,segments,values", NULL, SWEEP_PLAIN, 0},
    {"patch", cmd_patch, "@weights/names.gguf --clean an --metric kl --why --html x.html", NULL, SWEEP_PLAIN, 0},
    {"patch", cmd_patch, "@weights/names.gguf --clean an --corrupt am --metric kl --over z,v --npz x.npz", NULL, SWEEP_PLAIN, 1},
    {"patch", cmd_patch, "%bpe.gguf --clean then --metric logprob:a --mode mean --over k --json", NULL, SWEEP_PLAIN, 1},
    {"lab", cmd_lab, "@weights/names.gguf -p ann -o x.html", NULL, SWEEP_PLAIN, 0},
    {"lab", cmd_lab, "@weights/names.gguf --ids 26,0 --static -o x.html", NULL, SWEEP_PLAIN, 1},
    {"lab", cmd_lab, "%bpe.gguf --static -p the -o x.html", NULL, SWEEP_PLAIN, 0},
    {"repl", cmd_repl, "@weights/names.gguf", script, SWEEP_GOES_ON, 0},
    {"repl", cmd_repl, "%bpe.gguf -t 2", "then\n/g 4\n/save s\n/quit\n", SWEEP_GOES_ON, 1},
    /* Every reader of tools/convert. */
    {"convert", cmd_convert, "@tests/fixtures/convert/flat.json x.gguf --heads 4", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/convert/flat.json x.gguf --heads 4", NULL, SWEEP_PLAIN, 1},
    {"convert", cmd_convert, "@tests/fixtures/wild/base64.json x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/shapes/metadata.json x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/shapes/llm-viz.json x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/shapes/nanogpt.safetensors x.gguf --assume nanogpt", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/shapes/microgpt.safetensors x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/rotated.json x.gguf --type f16 --positions half --rope 10000 --activation silu --eps 1e-5", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/stored.npz x.gguf --heads 4 --chars %chars.txt", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@weights/names.gguf x.gguf --type q8_0", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@weights/names.gguf x.gguf --type q4_k", NULL, SWEEP_PLAIN, 1},
    {"convert", cmd_convert, "@weights/names.gguf --dry-run", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/convert/v0.bin x.gguf --tokenizer @tests/fixtures/convert/tokenizer.bin", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/convert/v1.bin x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/convert/v2.bin x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "%config.json x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "%config.json x.gguf --tokenizer %unigram.json", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "%config.json x.gguf --tokenizer %steps.json", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "%config.json x.gguf --tokenizer %words.json", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "%config.json x.gguf --tokenizer %pieces.model", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "%config.json x.gguf --tokenizer %vocab.json", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/golden/qwen2_sharded x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/golden/lfm2 x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/golden/qwen2_moe x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "%part-00001-of-00002.gguf x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "%wrapper x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/golden/gptq_order x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/golden/mlx x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/golden/gpt_neox x.gguf --no-tokenizer --type q4_0", NULL, SWEEP_PLAIN, 1},
    {"convert", cmd_convert, "@tests/golden/llama x.gguf --no-tokenizer --lora @tests/fixtures/lora/llama_dora", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/golden/llama x.gguf --no-tokenizer --lora @tests/fixtures/lora/llama/lora.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/mlx/llama x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/golden/gpt2 x.gguf --no-tokenizer --lora @tests/fixtures/lora/gpt2", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/params.npz x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/deflated.npz x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/object.npy x.gguf --heads 4 --chars %chars.txt", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/flat32.npy x.gguf --embd 4 --layers 2 --context 3 --heads 4 --chars %chars.txt", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/raw.f64 x.gguf --raw f64 --head-last --embd 4 --layers 2 --context 3 --heads 4 --chars %chars.txt", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/microgpt-c.ckpt x.gguf --embd 4 --layers 2 --context 3 --heads 4", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/microgpt.bin x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/values.pkl x.gguf --heads 4 --chars %chars.txt", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/wild/arrays.pkl x.gguf --chars %chars.txt", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/nanogpt/ckpt.pt x.gguf --assume nanogpt --tokenizer @tests/fixtures/torch/nanogpt/meta.pkl", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/nanogpt-legacy/ckpt.pt x.gguf --assume nanogpt --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/mingpt/model.pt x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/build-nanogpt/model.pt x.gguf --assume nanogpt-2022", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/llama2c/ckpt.pt x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/litgpt-neox/lit_model.pth x.gguf --no-tokenizer", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/meta-llama/consolidated.00.pth x.gguf", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/ng-video-lecture/model.pth x.gguf --assume ng-video-lecture", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/scratch/model.pth x.gguf --heads 2 --assume llms-from-scratch", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/microgpt/state.pt x.gguf --heads 2", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/microgpt/arrays5.pkl x.gguf --heads 2", NULL, SWEEP_PLAIN, 0},
    {"convert", cmd_convert, "@tests/fixtures/torch/nanochat-2026-01/model_000010.pt x.gguf", NULL, SWEEP_PLAIN, 0},
};
/* clang-format on */
enum { N_SWEEPS = sizeof sweeps / sizeof *sweeps };

/* 33 tokens of byte-level BPE, for the golden gpt2. The config's BOS is id 0. */
static const char tokenizer[] =
    "{\"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true}],"
    " \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false},"
    " \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"<s>\": "
    "0,"
    " \"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4, \"e\": 5, \"f\": 6, \"g\": 7, \"h\": 8, \"i\": 9,"
    " \"j\": 10, \"k\": 11, \"l\": 12, \"m\": 13, \"n\": 14, \"o\": 15, \"p\": 16, \"q\": 17,"
    " \"r\": 18, \"s\": 19, \"t\": 20, \"u\": 21, \"v\": 22, \"w\": 23, \"x\": 24, \"y\": 25,"
    " \"z\": 26, \"\\u0120\": 27, \"an\": 28, \"na\": 29, \"th\": 30, \"\\u0120a\": 31, \"the\": "
    "32},"
    " \"merges\": [\"a n\", \"n a\", \"t h\", \"\\u0120 a\", \"th e\"]}}";

/* Tokenizers with steps of all kinds. The character map of the step Precompiled is empty. */
#define STEPS                                                                                      \
    "{\"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true},"                    \
    " {\"id\": 4, \"content\": \"xa\", \"single_word\": true, \"normalized\": true}],"             \
    " \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKC\"},"            \
    " {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"BAAAAAAAAABhAA==\"},"                \
    " {\"type\": \"BertNormalizer\"}]}, \"pre_tokenizer\": {\"type\": \"Sequence\","               \
    " \"pretokenizers\": [{\"type\": \"Whitespace\"}, {\"type\": \"Digits\"}]},"                   \
    " \"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\"}, \"model\": "

static const char unigram[] =
    STEPS "{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<s>\", 0], [\"a\", -1],"
          " [\"n\", -2], [\"an\", -2.5]]}}";
static const char steps[] =
    STEPS "{\"type\": \"BPE\", \"unk_token\": \"<s>\", \"continuing_subword_prefix\": \"##\","
          " \"vocab\": {\"<s>\": 0, \"a\": 1, \"##n\": 2, \"an\": 3},"
          " \"merges\": [\"a ##n\"]}}";
static const char words[] =
    STEPS "{\"type\": \"WordPiece\", \"unk_token\": \"<s>\", \"continuing_subword_prefix\": \"##\","
          " \"vocab\": {\"<s>\": 0, \"a\": 1, \"##n\": 2, \"an\": 3}}}";

/* A template with what most have: a macro, a namespace, filters, a loop. */
static const char chat[] =
    "{%- macro turn(m) %}{{ m.content | trim ~ ' ' }}{% endmacro %}{%- set ns = namespace(n=0) %}"
    "{% for m in messages %}{{ turn(m) }}{% set ns.n = ns.n + 1 %}{% endfor %}"
    "{% if add_generation_prompt and ns.n %}{{ ['an', 'a'] | join(' ') }} {% endif %}";

/* A tokenizer.model: <unk> and <s>, three pieces, BPE. */
static const char pieces[] = "\12\11\12\5<unk>\30\2\12\7\12\3<s>\30\3\12\3\12\1a\12\3\12\1n"
                             "\12\4\12\2an\22\2\30\2";

/* The vocabulary of the names model in a file that is so large that it is mapped. */
static void make_mapped(void)
{
    static const uint8_t zeros[1 << 20];
    const uint64_t dims[] = {1 << 20, 65};
    char path[1024];
    struct file file;
    struct gguf g;
    struct gguf_writer w;
    snprintf(path, sizeof path, "%s/weights/names.gguf", getenv("MGPT_SOURCE_ROOT"));
    int good = file_open(&file, path, NULL) == MGPT_OK &&
               gguf_parse(&g, file.data, file.size, NULL) == MGPT_OK &&
               gguf_create(&w, sweep_path("mapped.gguf"), NULL) == MGPT_OK;
    for (size_t i = 0; good && i < arr_len(g.kv); i++)
        gguf_put_kv(&w, &g.kv[i]);
    if (good)
        gguf_put_tensor(&w, "zeros", dtype_find(DTYPE_F32), 2, dims);
    for (size_t i = 0; good && i < 4 * dims[1]; i++)
        gguf_data(&w, zeros, sizeof zeros);
    if (!good || gguf_commit(&w, NULL) < 0)
        exit(1);
    gguf_free(&g);
    file_close(&file);
}

/* The names model in two parts, as llama.cpp splits a file: the second has no metadata but its number. */
static void make_parts(void)
{
    char path[1024];
    struct file file;
    struct gguf g;
    snprintf(path, sizeof path, "%s/weights/names.gguf", getenv("MGPT_SOURCE_ROOT"));
    if (file_open(&file, path, NULL) < 0 || gguf_parse(&g, file.data, file.size, NULL) < 0)
        exit(1);
    size_t n = arr_len(g.tensors), half = n / 2;
    for (unsigned part = 0; part < 2; part++) {
        struct gguf_writer w;
        size_t from = part ? half : 0, to = part ? n : half;
        snprintf(path, sizeof path, "%s",
                 sweep_path(part ? "part-00002-of-00002.gguf" : "part-00001-of-00002.gguf"));
        if (gguf_create(&w, path, NULL) < 0)
            exit(1);
        for (size_t i = 0; !part && i < arr_len(g.kv); i++)
            gguf_put_kv(&w, &g.kv[i]);
        gguf_put_u32(&w, "split.no", part);
        gguf_put_u32(&w, "split.count", 2);
        gguf_put_u32(&w, "split.tensors.count", (uint32_t)n);
        for (size_t i = from; i < to; i++)
            gguf_put_tensor(&w, g.tensors[i].name, g.tensors[i].type, g.tensors[i].n_dims,
                            g.tensors[i].dims);
        for (size_t i = from; i < to; i++)
            gguf_data(&w, g.tensors[i].data, g.tensors[i].size);
        if (gguf_commit(&w, NULL) < 0)
            exit(1);
    }
    gguf_free(&g);
    file_close(&file);
}

/* A qwen2_vl with the tensors of a qwen2 alone: the text part of a model that sees. */
static void make_wrapper(void)
{
    static const char type[] = "\"model_type\": \"qwen2\"";
    char path[1024], text[8192];
    struct file file;
    snprintf(path, sizeof path, "%s/tests/golden/qwen2_window/config.json",
             getenv("MGPT_SOURCE_ROOT"));
    if (mkdir(sweep_path("wrapper"), 0700) < 0 || file_open(&file, path, NULL) < 0)
        exit(1);
    int n = (int)file.size;
    snprintf(text, sizeof text, "%.*s", n, (const char *)file.data);
    const char *at = strstr(text, type);
    if (!at)
        exit(1);
    char whole[sizeof text + 100];
    snprintf(whole, sizeof whole, "%.*s\"model_type\": \"qwen2_vl\", \"vision_config\": {}%s",
             (int)(at - text), text, at + sizeof type - 1);
    sweep_put("wrapper/config.json", whole);
    sweep_link("wrapper/model.safetensors", "tests/golden/qwen2_window/model.safetensors");
    file_close(&file);
}

/* What torch.save writes of three tokens and their logits. */
static void make_torch(void)
{
    static const char zeros[3 * 27 * 4], ids[3 * 8],
        pickle[] = "\x80\2}(U\6tokensctorch._utils\n_rebuild_tensor_v2\n(("
                   "U\7storagectorch\nLongStorage\nU\1"
                   "0U\3cpuK\3tQK\0K\3\x85K\1\x85\x89}tRU\6logitsctorch._utils\n_rebuild_tensor_"
                   "v2\n((U\7storage"
                   "ctorch\nFloatStorage\nU\1"
                   "1U\3cpuK\x51tQK\0K\3K\x1b\x86K\x1bK\1\x86\x89}tRu.";
    const struct {
        const char *name, *data;
        size_t n;
    } parts[] = {{"a/data.pkl", pickle, sizeof pickle - 1},
                 {"a/data/0", ids, sizeof ids},
                 {"a/data/1", zeros, sizeof zeros}};
    struct zip_made zip = {0};
    for (size_t i = 0; i < 3; i++) {
        struct bytes b = {0};
        add(&b, parts[i].data, parts[i].n);
        add_entry(&zip, parts[i].name, &b, 0);
        drop(&b);
    }
    end_archive(&zip);
    FILE *f = fopen(sweep_path("reference.pt"), "wb");
    if (!f || fwrite(zip.file.data, 1, arr_len(zip.file.data), f) != arr_len(zip.file.data) ||
        fclose(f) != 0)
        exit(1);
    drop(&zip.file);
}

static void prepare(void)
{
    make_mapped();
    make_torch();
    make_parts();
    make_wrapper();
    sweep_put("answer.json",
              "{\"choices\": [{\"logprobs\": {\"content\": [{\"token\": \"n\", \"bytes\": [110], "
              "\"logprob\": -1, \"top_logprobs\": []}]}}]}");
    sweep_link("config.json", "tests/golden/gpt2/config.json");
    sweep_link("model.safetensors", "tests/golden/gpt2/model.safetensors");
    sweep_put("tokenizer.json", tokenizer);
    sweep_put("unigram.json", unigram);
    sweep_put("steps.json", steps);
    sweep_put("words.json", words);
    sweep_put("chat.jinja", chat);
    sweep_put("pieces.model", pieces);
    sweep_put("vocab.json", "{\"a\": 0, \"n\": 1, \"an\": 2, \"<|endoftext|>\": 3}");
    sweep_put("merges.txt", "#version: 0.2\na n\n");
    sweep_put("chars.txt", "ab\303\251\342\202\254\n");
    sweep_prepare(cmd_convert, "%config.json %bpe.gguf");
    sweep_prepare(cmd_convert, "%config.json %unigram.gguf --tokenizer %unigram.json");
    sweep_prepare(cmd_convert, "%config.json %steps.gguf --tokenizer %steps.json");
    sweep_prepare(cmd_convert, "%config.json %words.gguf --tokenizer %words.json");
    sweep_prepare(cmd_convert, "@tests/fixtures/convert/flat.json %tiny.gguf --heads 4");
    sweep_prepare(cmd_convert, "@tests/golden/qwen3 %qwen3.gguf --no-tokenizer");
    sweep_prepare(cmd_convert, "@weights/names.gguf %q8.gguf --type q8_0");
    sweep_prepare(cmd_trace, "@weights/names.gguf -p ann -o %trace.safetensors");
}

static int chosen(const struct sweep *s, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(s->line, argv[i]) || strcmp(s->name, argv[i]) == 0)
            return 1;
    return argc == 1;
}

int main(int argc, char **argv)
{
    int wrong = 0;
    sweep_begin();
    prepare();
    for (int i = 0; i < N_SWEEPS; i++)
        if (chosen(&sweeps[i], argc, argv))
            wrong += sweep_run(&sweeps[i]);
    sweep_end();
    return wrong != 0;
}
