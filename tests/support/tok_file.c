/* Tests: vocabularies as GGUF files in memory. See tok_file.h. The encoder shares nothing with
 * src/gguf/gguf_write.c. */
#include "support/tok_file.h"
#include "support/unit.h"

/* ---- encoding ---- */

static void append_bytes(uint8_t **to, const void *p, size_t n)
{
    if (!arr_reserve(*to, arr_len(*to) + n))
        abort();
    for (size_t i = 0; i < n; i++)
        arr_put(*to, ((const uint8_t *)p)[i]);
}

static void add_uint(uint8_t **to, uint64_t v, unsigned width)
{
    for (unsigned i = 0; i < width; i++)
        append_bytes(to, &(uint8_t){(uint8_t)(v >> (8 * i))}, 1);
}

static void add_text(uint8_t **to, const char *p, size_t n)
{
    add_uint(to, n, 8);
    append_bytes(to, p, n);
}

static void add_key(struct tok_file *f, const char *key, uint32_t type)
{
    add_text(&f->entries, key, strlen(key));
    add_uint(&f->entries, type, 4);
    f->n_entries++;
}

void tok_file_string(struct tok_file *f, const char *key, const char *v)
{
    add_key(f, key, GGUF_STRING);
    add_text(&f->entries, v, strlen(v));
}

void tok_file_u32(struct tok_file *f, const char *key, uint32_t v)
{
    add_key(f, key, GGUF_U32);
    add_uint(&f->entries, v, 4);
}

void tok_file_bool(struct tok_file *f, const char *key, int v)
{
    add_key(f, key, GGUF_BOOL);
    add_uint(&f->entries, (uint64_t)v, 1);
}

static void add_words(struct tok_file *f, const char *key, uint32_t type, const uint32_t *v,
                      size_t n)
{
    add_key(f, key, GGUF_ARRAY);
    add_uint(&f->entries, type, 4);
    add_uint(&f->entries, n, 8);
    for (size_t i = 0; i < n; i++)
        add_uint(&f->entries, v[i], 4);
}

void tok_file_i32s(struct tok_file *f, const char *key, const int32_t *v, size_t n)
{
    add_words(f, key, GGUF_I32, (const uint32_t *)v, n);
}

void tok_file_u32s(struct tok_file *f, const char *key, const uint32_t *v, size_t n)
{
    add_words(f, key, GGUF_U32, v, n);
}

void tok_file_u8s(struct tok_file *f, const char *key, const char *hex)
{
    unsigned byte;
    add_key(f, key, GGUF_ARRAY);
    add_uint(&f->entries, GGUF_U8, 4);
    add_uint(&f->entries, strspn(hex, "0123456789abcdefABCDEF") / 2, 8);
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
        add_uint(&f->entries, byte, 1);
}

void tok_file_strings(struct tok_file *f, const char *key, const char *list)
{
    size_t n = *list != 0;
    for (const char *p = list; *p; p++)
        n += *p == '~';
    add_key(f, key, GGUF_ARRAY);
    add_uint(&f->entries, GGUF_STRING, 4);
    add_uint(&f->entries, n, 8);
    for (const char *p = list; n > 0; n--) {
        add_text(&f->entries, p, strcspn(p, "~"));
        p += strcspn(p, "~") + 1;
    }
}

void tok_file_begin(struct tok_file *f, const char *model, const char *pre)
{
    memset(f, 0, sizeof *f);
    tok_file_string(f, "general.architecture", "llama");
    if (model)
        tok_file_string(f, "tokenizer.ggml.model", model);
    if (pre)
        tok_file_string(f, "tokenizer.ggml.pre", pre);
}

static void close_tok(struct tok_file *f)
{
    tok_free(f->tok);
    f->tok = NULL;
    gguf_free(&f->g);
    memset(&f->g, 0, sizeof f->g);
    free(f->bytes);
    f->bytes = NULL;
}

void tok_file_free(struct tok_file *f)
{
    close_tok(f);
    arr_free(f->entries);
    arr_free(f->tokens);
    arr_free(f->merges);
    arr_free(f->types);
    arr_free(f->scores);
    arr_free(f->doubles);
}

/* ---- vocabulary ---- */

int32_t tok_file_token_n(struct tok_file *f, const char *text, size_t n, int type, double score)
{
    add_text(&f->tokens, text, n);
    if (!arr_push(f->types, type) || !arr_push(f->scores, (float)score) ||
        !arr_push(f->doubles, score))
        abort();
    return (int32_t)f->n_tokens++;
}

int32_t tok_file_token(struct tok_file *f, const char *text, int type, double score)
{
    return tok_file_token_n(f, text, strlen(text), type, score);
}

void tok_file_merge_n(struct tok_file *f, const char *line, size_t n)
{
    add_text(&f->merges, line, n);
    f->n_merges++;
}

void tok_file_merge(struct tok_file *f, const char *line)
{
    tok_file_merge_n(f, line, strlen(line));
}

static int is_visible(unsigned byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

size_t tok_file_byte(uint8_t byte, char text[3])
{
    unsigned code = byte;
    if (!is_visible(byte)) {
        code = 256;
        for (unsigned b = 0; b < byte; b++)
            code += !is_visible(b);
    }
    memset(text, 0, 3);
    if (code < 128) {
        text[0] = (char)code;
        return 1;
    }
    text[0] = (char)(0xC0 | code >> 6);
    text[1] = (char)(0x80 | (code & 63));
    return 2;
}

void tok_file_alphabet(struct tok_file *f)
{
    char text[3];
    for (int visible = 1; visible >= 0; visible--)
        for (unsigned b = 0; b < 256; b++)
            if (is_visible(b) == visible)
                tok_file_token_n(f, text, tok_file_byte((uint8_t)b, text), 1, 0);
}

void tok_file_sentencepiece(struct tok_file *f, int bytes)
{
    tok_file_token(f, "<unk>", 2, 0);
    tok_file_token(f, "<s>", 3, 0);
    tok_file_token(f, "</s>", 3, 0);
    for (unsigned b = 0; bytes && b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", b);
        tok_file_token(f, text, 6, 0);
    }
}

/* ---- opening ---- */

static uint64_t add_array(uint8_t **to, const char *key, uint32_t element, uint64_t n,
                          const void *p, size_t n_bytes)
{
    add_text(to, key, strlen(key));
    add_uint(to, GGUF_ARRAY, 4);
    add_uint(to, element, 4);
    add_uint(to, n, 8);
    append_bytes(to, p, n_bytes);
    return 1;
}

/* The bytes go into a block of exactly their size: a sanitizer sees a read past the end. */
void tok_file_encode(struct tok_file *f)
{
    uint8_t *kv = NULL, *file = NULL;
    uint64_t n = f->n_entries;
    append_bytes(&kv, f->entries, arr_len(f->entries));
    if (f->n_tokens)
        n += add_array(&kv, "tokenizer.ggml.tokens", GGUF_STRING, f->n_tokens, f->tokens,
                       arr_len(f->tokens));
    if (f->n_tokens && !f->no_types)
        n += add_array(&kv, "tokenizer.ggml.token_type", GGUF_I32, arr_len(f->types), f->types,
                       arr_len(f->types) * sizeof *f->types);
    if (f->n_tokens && !f->no_scores)
        n += add_array(&kv, "tokenizer.ggml.scores", GGUF_F32, arr_len(f->scores), f->scores,
                       arr_len(f->scores) * sizeof *f->scores);
    if (f->n_tokens && f->exact)
        n += add_array(&kv, "mgpt.tokenizer.scores", GGUF_F64, arr_len(f->doubles), f->doubles,
                       arr_len(f->doubles) * sizeof *f->doubles);
    if (f->n_tokens && !f->no_merges)
        n += add_array(&kv, "tokenizer.ggml.merges", GGUF_STRING, f->n_merges, f->merges,
                       arr_len(f->merges));
    append_bytes(&file, "GGUF", 4);
    add_uint(&file, 3, 4);
    add_uint(&file, 0, 8);
    add_uint(&file, n, 8);
    append_bytes(&file, kv, arr_len(kv));
    close_tok(f);
    f->bytes = malloc(arr_len(file));
    if (!f->bytes)
        abort();
    memcpy(f->bytes, file, arr_len(file));
    assert_int_equal(gguf_parse(&f->g, f->bytes, arr_len(file), NULL), MGPT_OK);
    arr_free(file);
    arr_free(kv);
}

struct tok *tok_file_open(struct tok_file *f)
{
    mgpt_error err = {0};
    tok_file_encode(f);
    f->tok = tok_open(&f->g, &err);
    if (!f->tok)
        fail_msg("%s", err.text);
    assert_int_equal(err.status, 0);
    return f->tok;
}

void tok_file_refused(struct tok_file *f, const char *message)
{
    mgpt_error err = {0};
    tok_file_encode(f);
    assert_null(tok_open(&f->g, &err));
    assert_string_equal(err.text, message);
    assert_int_equal(err.status, MGPT_EFILE);
    assert_null(tok_open(&f->g, NULL));
    tok_file_free(f);
}

/* ---- vectors ---- */

/* Decodes hex digits in place; returns what follows them. */
static char *unhex(char *p, size_t *n)
{
    char *out = p, *in = p;
    unsigned byte;
    for (; sscanf(in, "%2x", &byte) == 1 && *in != ' ' && *in != '\n'; in += 2)
        *out++ = (char)byte;
    *n = (size_t)(out - p);
    return in;
}

static struct tok_case read_case(char *hex)
{
    struct tok_case c = {{NULL, 0}, NULL};
    size_t n;
    char *rest = unhex(hex, &n), *text = malloc(n + 1);
    if (!text)
        abort();
    memcpy(text, hex, n);
    c.text = (struct gguf_str){text, n};
    for (char *end = rest;; rest = end) {
        int32_t id = (int32_t)strtol(rest, &end, 10);
        if (end == rest)
            return c;
        if (!arr_push(c.ids, id))
            abort();
    }
}

struct vector_file {
    struct tok_file *f;
    struct tok_case *cases;
};

static void take_vector(char *line, void *user)
{
    struct vector_file *v = user;
    char key[80];
    int type, at = 0;
    double score;
    size_t n;
    if (sscanf(line, "token %d %lf %n", &type, &score, &at) == 2 && at) {
        unhex(line + at, &n);
        tok_file_token_n(v->f, line + at, n, type, score);
    } else if (strncmp(line, "merge ", 6) == 0) {
        unhex(line + 6, &n);
        tok_file_merge_n(v->f, line + 6, n);
    } else if (strncmp(line, "edit ", 5) == 0) {
        line[strcspn(line, "\n")] = 0;
        tok_file_edit(v->f, line + 5);
    } else if (sscanf(line, "u8s %79s %n", key, &at) == 1 && at) {
        tok_file_u8s(v->f, key, line + at);
    } else if (strncmp(line, "case ", 5) == 0 && !arr_push(v->cases, read_case(line + 5))) {
        abort();
    }
}

struct tok_case *tok_file_vectors(struct tok_file *f, const char *name)
{
    struct vector_file v = {f, NULL};
    unit_rows(name, take_vector, &v);
    assert_true(arr_len(v.cases) > 100);
    return v.cases;
}

void tok_cases_free(struct tok_case *cases)
{
    for (size_t i = 0; i < arr_len(cases); i++) {
        free((void *)(uintptr_t)cases[i].text.p);
        arr_free(cases[i].ids);
    }
    arr_free(cases);
}
