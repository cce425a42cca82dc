/* Fuzz target: any text through each kind of tokenizer, and each splitting rule. The first byte
 * chooses the kind and the flags; what was encoded must decode to the text again.
 */
#define _GNU_SOURCE /* memmem */
#include "fuzz/fuzz.h"
#include "mgpt.h"
#include "support/tok_file.h"

/* One name of each rule in src/tokenizer/tok_split.c. */
static const char *const rules[] = {"gpt-2",  "smollm",         "llama-bpe",    "qwen2",
                                    "qwen35", "nanochat",       "gpt-4o",       "tekken",
                                    "falcon", "deepseek-coder", "deepseek-llm", "deepseek-v3"};

enum { FILES = 3, KINDS = FILES + sizeof rules / sizeof *rules, TOKENS_MOST = 8192 };

/* A model of this repository that is there for its vocabulary. */
static mgpt_model *open_weights(const char *name)
{
    const mgpt_model_params params = {.vocab_only = 1};
    const char *root = getenv("MGPT_SOURCE_ROOT");
    char path[1024];
    snprintf(path, sizeof path, "%s/weights/%s", root ? root : ".", name);
    return mgpt_open(path, &params, NULL);
}

/* The SentencePiece vocabulary of the vectors. */
static mgpt_model *open_vectors(void)
{
    static struct tok_file file;
    const mgpt_model_params params = {.vocab_only = 1};
    tok_file_begin(&file, "llama", NULL);
    tok_cases_free(tok_file_vectors(&file, "tests/vectors/tok_spm.txt"));
    tok_file_encode(&file);
    return mgpt_open_bytes(file.bytes, file.g.size, &params, NULL);
}

/* Opens a model whose vocabulary is all bytes, a few merges and a special token. */
static mgpt_model *open_rule(const char *rule)
{
    static struct tok_file files[KINDS];
    static const char *const merges[][2] = {{"t", "h"}, {"th", "e"}, {"\xc4\xa0", "a"}, {"1", "2"}};
    static size_t n;
    struct tok_file *f = &files[n++];
    const mgpt_model_params params = {.vocab_only = 1};
    char text[16], line[16];
    tok_file_begin(f, "gpt2", rule);
    tok_file_alphabet(f);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        snprintf(text, sizeof text, "%s%s", merges[i][0], merges[i][1]);
        snprintf(line, sizeof line, "%s %s", merges[i][0], merges[i][1]);
        tok_file_token(f, text, 1, 0);
        tok_file_merge(f, line);
    }
    tok_file_token(f, "<|endoftext|>", 3, 0);
    tok_file_encode(f);
    return mgpt_open_bytes(f->bytes, f->g.size, &params, NULL);
}

static mgpt_model *open_kind(size_t kind)
{
    if (kind >= FILES)
        return open_rule(rules[kind - FILES]);
    if (kind == 2)
        return open_vectors();
    return open_weights(kind == 0 ? "names.gguf" : "shakespeare.gguf");
}

/* The pieces together are the text, but for the space that SentencePiece puts in front. */
static void must_decode(const mgpt_model *model, const int32_t *tokens, size_t n, const char *text,
                        size_t n_bytes)
{
    size_t n_piece, total = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        mgpt_piece(model, tokens[i], &n_piece);
        total += n_piece;
    }
    size_t front = total - n_bytes;
    MUST(front <= 1);
    for (size_t i = 0; i < n; i++) {
        const char *piece = mgpt_piece(model, tokens[i], &n_piece);
        for (size_t k = 0; k < n_piece; k++, at++)
            MUST(piece[k] == (at < front ? ' ' : text[at - front]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static mgpt_model *models[KINDS];
    static int32_t tokens[TOKENS_MOST];
    struct feed f = {data, size};
    uint8_t first = feed_byte(&f);
    size_t kind = first % KINDS;
    unsigned flags =
        first & 0x80 ? MGPT_NO_SPECIAL_TOKENS | MGPT_PARSE_SPECIAL : MGPT_NO_SPECIAL_TOKENS;
    mgpt_error err = {0};
    if (!models[kind])
        models[kind] = open_kind(kind);
    MUST(models[kind]);
    const char *text = (const char *)f.data;
    int64_t n = mgpt_encode(models[kind], text, f.size, flags, tokens, TOKENS_MOST, &err);
    MUST(n >= 0 || (err.status < 0 && err.text[0]));
    fuzz_saw_error(&err);
    if (n >= 0)
        fuzz_saw(tokens, (n < TOKENS_MOST ? (size_t)n : TOKENS_MOST) * sizeof *tokens);
    MUST(n < 0 || n == mgpt_encode(models[kind], text, f.size, flags, NULL, 0, NULL));
    int is_spaced = kind == 2 && memmem(text, f.size, "\xe2\x96\x81", 3); /* decodes to a space */
    if (n >= 0 && n <= TOKENS_MOST && !(flags & MGPT_PARSE_SPECIAL) && !is_spaced)
        must_decode(models[kind], tokens, (size_t)n, text, f.size);
    return 0;
}
