/* Tests: vocabularies written as text. See tok_file.h. */
#include "support/tok_file.h"
#include "support/unit.h"

/* A key without a dot is one of tokenizer.ggml. */
static const char *whole_key(const char *key)
{
    static char whole[100];
    snprintf(whole, sizeof whole, "%s%s", strchr(key, '.') ? "" : "tokenizer.ggml.", key);
    return whole;
}

/* Decimal numbers as i32, hexadecimal ones as u32. */
static void add_words_of(struct tok_file *f, const char *key, const char *v, int base)
{
    int32_t list[32];
    size_t n = 0;
    for (char *end; n < COUNT(list); v = end, n++) {
        list[n] = (int32_t)strtoll(v, &end, base);
        if (end == v)
            break;
    }
    if (base == 10)
        tok_file_i32s(f, key, list, n);
    else
        tok_file_u32s(f, key, (const uint32_t *)list, n);
}

static void cut_arrays(struct tok_file *f, const char *verb, const char *v)
{
    if (strcmp(verb, "types") == 0)
        arr_set_len(f->types, strtoul(v, NULL, 10));
    else if (strcmp(verb, "scores") == 0)
        arr_set_len(f->scores, strtoul(v, NULL, 10));
    else if (strcmp(verb, "no_scores") == 0)
        f->no_scores = 1;
    else if (strcmp(verb, "exact") == 0)
        f->exact = 1;
    else if (strcmp(verb, "no_merges") == 0)
        f->no_merges = 1;
    else
        fail_msg("no edit '%s'", verb);
}

static void set_key(struct tok_file *f, const char *verb, const char *key, const char *v)
{
    if (strcmp(verb, "string") == 0)
        tok_file_string(f, whole_key(key), v);
    else if (strcmp(verb, "u32") == 0)
        tok_file_u32(f, whole_key(key), (uint32_t)strtoul(v, NULL, 10));
    else if (strcmp(verb, "bool") == 0)
        tok_file_bool(f, whole_key(key), atoi(v));
    else if (strcmp(verb, "i32s") == 0)
        add_words_of(f, whole_key(key), v, 10);
    else if (strcmp(verb, "u8s") == 0)
        tok_file_u8s(f, whole_key(key), v);
    else if (strcmp(verb, "u32s") == 0)
        add_words_of(f, whole_key(key), v, 16);
    else if (strcmp(verb, "strings") == 0)
        tok_file_strings(f, whole_key(key), v);
    else
        cut_arrays(f, verb, key);
}

/* first and rest: what follows the verb, and what follows the first word of it. */
static void edit_once(struct tok_file *f, const char *verb, const char *first, const char *rest)
{
    int type = 1;
    double score = 0;
    if (strcmp(verb, "token") == 0) {
        sscanf(rest, "%d %lf", &type, &score);
        tok_file_token(f, first, type, score);
    } else if (strcmp(verb, "merge") == 0) {
        char line[128];
        snprintf(line, sizeof line, "%s %s", first, rest);
        tok_file_merge(f, line);
    } else if (strcmp(verb, "alphabet") == 0) {
        tok_file_alphabet(f);
    } else if (strcmp(verb, "pieces") == 0) {
        tok_file_sentencepiece(f, strcmp(first, "bytes") == 0);
    } else if (strcmp(verb, "model") == 0 || strcmp(verb, "pre") == 0) {
        tok_file_string(f, whole_key(verb), first);
    } else {
        set_key(f, verb, first, rest);
    }
}

void tok_file_edit(struct tok_file *f, const char *edits)
{
    while (*edits) {
        char verb[16] = "", first[80] = "", rest[200] = "";
        sscanf(edits, " %15[^; ] %79[^; ] %199[^;]", verb, first, rest);
        if (*verb)
            edit_once(f, verb, first, rest);
        edits += strcspn(edits, ";");
        edits += *edits == ';';
    }
}

struct tok *tok_file_make(struct tok_file *f, const char *edits)
{
    tok_file_begin(f, NULL, NULL);
    tok_file_edit(f, edits);
    return tok_file_open(f);
}
