/* What a lab page is compared with: the engine as it runs here. For tests/lab/same_bits.js.
 *
 * native models DIRECTORY      writes one model of each kind of the zoo, and one with each kind of
 *                              vocabulary; prints their names
 * native logits MODEL          for each line of ids on stdin: XXH64 of the logits of every
 * position, from
 *                              single untapped steps
 * native encode MODEL          for each line of stdin, hex of a text: its tokens native split
 * for each line of stdin, hex of a text, and each rule: a line of JSON with the
 *                              rule's patterns and where the pieces end
 */
#include "base/xxh64.h"
#include "support/tok_file.h"
#include "support/toy_zoo.h"
#include "tokenizer/tok_split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1 << 16, IDS = 1 << 10 };

static int print_failure(const char *what, const mgpt_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err ? err->text : "failed");
    return 1;
}

/* ---- models ---- */

static int write_model(const char *directory, const char *name, struct toy *m)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.gguf", directory, name);
    toy_encode(m);
    FILE *to = fopen(path, "wb");
    int written = to && fwrite(m->file, 1, m->size, to) == m->size;
    if (!to || fclose(to) != 0 || !written)
        return print_failure(path, NULL);
    puts(name);
    return 0;
}

/* A small model with the vocabulary of tests/vectors/NAME. */
static int write_vocabulary(const char *directory, const char *name, const char *vectors,
                            const char *model, const char *pre)
{
    struct tok_file f;
    tok_file_begin(&f, model, pre);
    tok_cases_free(tok_file_vectors(&f, vectors));
    struct toy_spec spec = toy_zoo[ZOO_LLAMA];
    spec.n_vocab = (int)f.n_tokens;
    struct toy *m = toy_build(&spec);
    toy_put_string(m, "tokenizer.ggml.model", model);
    if (pre)
        toy_put_string(m, "tokenizer.ggml.pre", pre);
    toy_put_array(m, "tokenizer.ggml.tokens", GGUF_STRING, f.n_tokens, f.tokens, arr_len(f.tokens));
    toy_put_array(m, "tokenizer.ggml.merges", GGUF_STRING, f.n_merges, f.merges, arr_len(f.merges));
    toy_put_array(m, "tokenizer.ggml.token_type", GGUF_I32, f.n_tokens, f.types,
                  f.n_tokens * sizeof *f.types);
    toy_put_array(m, "tokenizer.ggml.scores", GGUF_F32, f.n_tokens, f.scores,
                  f.n_tokens * sizeof *f.scores);
    int bad = write_model(directory, name, m);
    toy_free(m);
    tok_file_free(&f);
    return bad;
}

/* A model whose logits lie between two floats: next to an odd float, half a step less a trifle. So
 * they are that float, although a double holds no trifle and ties go up. Near 1, and where floats
 * have the fewest bits; in four chains of sums (up to 64 rows) or in one. The last norm gives its
 * bias for every token. */
static int write_ties(const char *directory, const char *name, int n_vocab)
{
    struct toy_spec spec = toy_zoo[ZOO_GPT2];
    spec.tied = 0;
    spec.n_vocab = n_vocab;
    struct toy *m = toy_build(&spec);
    struct toy_tensor *head = toy_find(m, "output.weight");
    float *x = toy_find(m, "output_norm.bias")->values;
    memset(toy_find(m, "output_norm.weight")->values, 0, (size_t)spec.n_embd * sizeof *x);
    memset(x, 0, (size_t)spec.n_embd * sizeof *x);
    x[0] = 1;
    x[4] = (1 + 0x1p-20f) * 0x1p-12f;
    x[8] = (1 + 0x1p-20f) * 0x1p-75f;
    for (int i = 0; i < n_vocab; i++) {
        float *w = head->values + i * spec.n_embd, sign = i & 1 ? -1 : 1;
        memset(w, 0, (size_t)spec.n_embd * sizeof *w);
        w[0] = sign * (i & 2 ? 0x400001p-149f : 1 + 0x1p-23f);
        w[i & 2 ? 8 : 4] = sign * (1 - 0x1p-20f) * (i & 2 ? 0x1p-75f : 0x1p-12f);
    }
    int bad = write_model(directory, name, m);
    toy_free(m);
    return bad;
}

/* more-N are mixtures, short convolutions and norms of the residual: of these a page explains only the
 * numbers of the models that same_bits.js converts. */
static int write_models(const char *directory)
{
    int bad = 0;
    for (size_t i = 0; i < ZOO_SIZE && !bad; i++) {
        char name[32];
        int more = toy_zoo[i].n_expert || toy_zoo[i].n_conv || !strcmp(toy_zoo[i].arch, "gpt1");
        snprintf(name, sizeof name, "%s-%zu", more ? "more" : "zoo", i);
        struct toy *m = toy_build(&toy_zoo[i]);
        bad = write_model(directory, name, m);
        toy_free(m);
    }
    if (!bad)
        bad = write_ties(directory, "ties-4", 16) || write_ties(directory, "ties-1", 65);
    if (!bad)
        bad = write_vocabulary(directory, "bpe", "tests/vectors/tok_bpe.txt", "gpt2", "gpt-2");
    return bad ? bad
               : write_vocabulary(directory, "spm", "tests/vectors/tok_spm.txt", "llama", NULL);
}

/* ---- logits ---- */

/* Numbers of a line; how many. */
static size_t read_ids(const char *line, int32_t *ids)
{
    size_t n = 0;
    char *end;
    for (long id; n < IDS && (id = strtol(line, &end, 10), end != line); line = end)
        ids[n++] = (int32_t)id;
    return n;
}

static int print_logits(mgpt_session *session, size_t n_vocab, const int32_t *ids, size_t n)
{
    mgpt_error err;
    float *all = toy_alloc(n * n_vocab, sizeof *all);
    int bad = mgpt_rewind(session, 0, &err) < 0;
    for (size_t i = 0; i < n && !bad; i++) {
        const float *logits = mgpt_step(session, ids[i], &err);
        bad = !logits;
        if (logits)
            memcpy(all + i * n_vocab, logits, n_vocab * sizeof *all);
    }
    if (!bad)
        printf("%016llx\n", (unsigned long long)xxh64(all, n * n_vocab * sizeof *all));
    free(all);
    return bad ? print_failure("logits", &err) : 0;
}

static int print_all_logits(mgpt_model *model, char *line)
{
    int32_t ids[IDS];
    mgpt_error err;
    mgpt_info info;
    const mgpt_session_params params = {.kv_type = MGPT_KV_F32};
    mgpt_session *session = mgpt_session_new(model, &params, &err);
    int bad = !session || mgpt_get_info(model, &info, &err) < 0;
    if (bad)
        print_failure("session", &err);
    while (!bad && fgets(line, LINE, stdin))
        bad = print_logits(session, (size_t)info.n_vocab, ids, read_ids(line, ids));
    mgpt_session_free(session);
    return bad;
}

/* ---- texts ---- */

/* A line of hex, in place; its bytes. */
static size_t unhex(char *line)
{
    size_t n = strcspn(line, "\n") / 2;
    for (size_t i = 0; i < n; i++) {
        const char pair[3] = {line[2 * i], line[2 * i + 1], 0};
        line[i] = (char)strtoul(pair, NULL, 16);
    }
    return n;
}

static int print_tokens(const mgpt_model *model, const char *text, size_t n)
{
    int32_t ids[IDS * 8];
    mgpt_error err;
    int64_t count = mgpt_encode(model, text, n, MGPT_NO_SPECIAL_TOKENS, ids, IDS * 8, &err);
    if (count > IDS * 8)
        return print_failure("encode: too long", NULL);
    for (int64_t i = 0; i < count; i++)
        printf("%s%d", i > 0 ? " " : "", (int)ids[i]);
    puts(count < 0 ? err.text : "");
    return 0;
}

static int print_end(void *user, size_t from, size_t to)
{
    int *n = user;
    (void)from;
    printf("%s%zu", (*n)++ > 0 ? ", " : "", to);
    return MGPT_OK;
}

/* A pattern as JSON: ASCII, so only quotes and backslashes need an escape. */
static void print_pattern(const char *p)
{
    putchar('"');
    for (; *p; p++)
        printf("%s%c", *p == '"' || *p == '\\' ? "\\" : "", *p);
    putchar('"');
}

static int print_split(const char *pre, const char *text, size_t n)
{
    const struct split_rule *rule = split_find((struct gguf_str){pre, strlen(pre)});
    mgpt_error err;
    int n_ends = 0;
    struct split *split = rule ? split_open(rule, &err) : NULL;
    if (!split)
        return print_failure(pre, NULL);
    printf("{\"rule\": \"%s\", \"stages\": [", pre);
    for (size_t i = 0; rule->stages[i]; i++) {
        fputs(i > 0 ? ", " : "", stdout);
        print_pattern(rule->stages[i]);
    }
    fputs("], \"ends\": [", stdout);
    int status = split_text(split, text, n, print_end, &n_ends, &err);
    puts("]}");
    split_close(split);
    return status < 0;
}

static int print_splits(char *line)
{
    static const char *const rules[] = {"gpt-2",  "smollm",         "llama-bpe",    "nanochat",
                                        "qwen2",  "qwen35",         "gpt-4o",       "tekken",
                                        "falcon", "deepseek-coder", "deepseek-llm", "deepseek-v3"};
    int bad = 0;
    while (!bad && fgets(line, LINE, stdin))
        for (size_t n = unhex(line), i = 0; i < sizeof rules / sizeof *rules && !bad; i++)
            bad = print_split(rules[i], line, n);
    return bad;
}

/* ---- which ---- */

static int with_model(const char *what, const char *path, char *line)
{
    mgpt_error err;
    int bad = 0;
    mgpt_model *model = mgpt_open(path, NULL, &err);
    if (!model)
        return print_failure(path, &err);
    if (strcmp(what, "logits") == 0)
        bad = print_all_logits(model, line);
    else
        while (!bad && fgets(line, LINE, stdin))
            bad = print_tokens(model, line, unhex(line));
    mgpt_close(model);
    return bad;
}

int main(int argc, char **argv)
{
    char *line = toy_alloc(LINE, 1);
    int bad = 2;
    if (argc == 3 && strcmp(argv[1], "models") == 0)
        bad = write_models(argv[2]);
    else if (argc == 2 && strcmp(argv[1], "split") == 0)
        bad = print_splits(line);
    else if (argc == 3)
        bad = with_model(argv[1], argv[2], line);
    free(line);
    return bad;
}
