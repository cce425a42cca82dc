/* Tables of characters for the steps of a tokenizer: from utf8proc, as Hugging Face's tokenizers
 * has them. See hf_steps.h.
 *
 * Its normal forms are those of Unicode 11, which stay the same in later versions except for new
 * characters; these are left out here. Its lower case is newer than utf8proc's.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/vocab/hf_steps.h"
#include "convert/vocab/hf_unicode.inc"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define LAST 0x2FA20 /* no character after it has a decomposition, a class or a lower case */
#define N_RANGES(a) (sizeof(a) / sizeof *(a))

static int in_ranges(const uint32_t (*ranges)[2], size_t n, uint32_t code)
{
    for (size_t i = 0; i < n && ranges[i][0] <= code; i++)
        if (code <= ranges[i][1])
            return 1;
    return 0;
}

static void push_word(struct checkpoint *c, uint32_t word)
{
    struct ckpt_map *last = &c->vocab.maps[arr_len(c->vocab.maps) - 1];
    ckpt_push(c, last->words, word);
}

/* Appends a record to the last table: first to last become the n words. */
static void put_record(struct checkpoint *c, uint32_t first, uint32_t last, const uint32_t *words,
                       size_t n)
{
    push_word(c, first | (uint32_t)n << 24);
    push_word(c, last);
    for (size_t i = 0; i < n; i++)
        push_word(c, words[i]);
}

static void put_ranges(struct checkpoint *c, const uint32_t (*ranges)[2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_record(c, ranges[i][0], ranges[i][1], NULL, 0);
}

/* ---- normal forms ---------------------------------------------------------------------------- */

/* Characters with a decomposition that came after Unicode 11. */
static const uint32_t new_decomposed[][2] = {
    {0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},   {0xAB69, 0xAB69},   {0x105C9, 0x105E4},
    {0x10780, 0x107BA}, {0x11380, 0x113C8}, {0x11938, 0x11938}, {0x16121, 0x16128},
    {0x16D68, 0x16D6A}, {0x1CCD6, 0x1CCF9}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C},
    {0x1FBF0, 0x1FBF9}};

/* The full decomposition; 0: none. Hangul is left to the library. */
static size_t decompose(uint32_t code, int compatible, uint32_t out[32])
{
    utf8proc_int32_t got[32];
    int boundary = 0;
    if ((code >= 0x3400 && code <= 0x9FFF) || (code >= 0xAC00 && code <= 0xDFFF))
        return 0;
    utf8proc_ssize_t n = utf8proc_decompose_char(
        (utf8proc_int32_t)code, got, 32,
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0), &boundary);
    if (n < 1 || n > 32 || (n == 1 && (uint32_t)got[0] == code) ||
        in_ranges(new_decomposed, N_RANGES(new_decomposed), code))
        return 0;
    for (utf8proc_ssize_t i = 0; i < n; i++)
        out[i] = (uint32_t)got[i];
    return (size_t)n;
}

static void put_decompositions(struct checkpoint *c, int compatible)
{
    uint32_t out[32];
    for (uint32_t code = 0x80; code <= LAST; code++) {
        size_t n = decompose(code, compatible, out);
        if (n)
            put_record(c, code, code, out, n);
    }
}

static uint32_t class_of_char(uint32_t code)
{
    uint32_t class = (uint32_t)utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
    return class && in_ranges(hf_no_class, N_RANGES(hf_no_class), code) ? 0 : class;
}

static void put_classes(struct checkpoint *c)
{
    for (uint32_t code = 0x300, end; code <= LAST; code = end) {
        uint32_t class = class_of_char(code);
        for (end = code + 1; end <= LAST && class_of_char(end) == class;)
            end++;
        if (class)
            put_record(c, code, end - 1, &class, 1);
    }
}

/* A canonical composition: second, first, composed. */
struct composition {
    uint32_t second, first, whole;
};

static int compare_compositions(const void *x, const void *y)
{
    const struct composition *a = x, *b = y;
    int c = (a->second > b->second) - (a->second < b->second);
    return c ? c : (a->first > b->first) - (a->first < b->first);
}

/* The pair that composes to `code`: the one that NFC makes of its decomposition. 0: none. */
static int composition_of(uint32_t code, struct composition *c)
{
    uint32_t full[32];
    size_t n = decompose(code, 0, full);
    utf8proc_int32_t whole[32];
    if (n < 2)
        return 0;
    for (size_t i = 0; i < n; i++)
        whole[i] = (utf8proc_int32_t)full[i];
    if (utf8proc_normalize_utf32(whole, (utf8proc_ssize_t)n, UTF8PROC_STABLE | UTF8PROC_COMPOSE) !=
            1 ||
        (uint32_t)whole[0] != code)
        return 0; /* excluded from composition */
    for (size_t i = 0; i < n - 1; i++)
        whole[i] = (utf8proc_int32_t)full[i];
    if (n > 2 && utf8proc_normalize_utf32(whole, (utf8proc_ssize_t)n - 1,
                                          UTF8PROC_STABLE | UTF8PROC_COMPOSE) != 1)
        return 0;
    *c = (struct composition){full[n - 1], n > 2 ? (uint32_t)whole[0] : full[0], code};
    return 1;
}

static void put_compositions(struct checkpoint *c)
{
    struct composition *list = ckpt_temp(c, LAST, sizeof *list);
    size_t n = 0;
    for (uint32_t code = 0x80; code <= LAST; code++)
        n += (size_t)composition_of(code, &list[n]);
    qsort(list, n, sizeof *list, compare_compositions);
    for (size_t from = 0, end; from < n; from = end) {
        uint32_t pairs[256];
        size_t n_pairs = 0;
        for (end = from; end < n && list[end].second == list[from].second && n_pairs < 254; end++) {
            pairs[n_pairs++] = list[end].first;
            pairs[n_pairs++] = list[end].whole;
        }
        put_record(c, list[from].second, list[from].second, pairs, n_pairs);
    }
}

/* ---- other maps ------------------------------------------------------------------------------ */

/* One character after the other, as Rust's char::to_lowercase: no final sigma. */
static void put_lowercase(struct checkpoint *c)
{
    static const uint32_t dotted[] = {0x69, 0x307};
    for (uint32_t code = 'A'; code <= LAST; code++) {
        uint32_t low = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
        for (size_t i = 0; low == code && i < N_RANGES(hf_new_lower); i++)
            if (hf_new_lower[i][0] == code)
                low = hf_new_lower[i][1];
        if (code == 0x130)
            put_record(c, code, code, dotted, 2);
        else if (low != code)
            put_record(c, code, code, &low, 1);
    }
}

/* BertNormalizer's clean_text: control characters vanish, white space becomes spaces. */
static void put_control(struct checkpoint *c)
{
    static const uint32_t white[][2] = {{9, 10},          {13, 13},         {0xA0, 0xA0},
                                        {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                        {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    static const uint32_t space[] = {' '};
    size_t w = 0;
    put_record(c, 0, 0, NULL, 0);
    for (size_t i = 0; i < N_RANGES(hf_control); i++) {
        for (; w < N_RANGES(white) && white[w][0] < hf_control[i][0]; w++)
            put_record(c, white[w][0], white[w][1], space, 1);
        put_record(c, hf_control[i][0], hf_control[i][1], NULL, 0);
    }
}

static void put_nmt(struct checkpoint *c)
{
    static const struct {
        uint32_t first, last, n;
    } rows[] = {{0x1, 0x8, 0},       {0x9, 0xA, 1},       {0xB, 0xB, 0},       {0xC, 0xD, 1},
                {0xE, 0x1F, 0},      {0x7F, 0x7F, 0},     {0x8F, 0x8F, 0},     {0x9F, 0x9F, 0},
                {0x1680, 0x1680, 1}, {0x200B, 0x200F, 1}, {0x2028, 0x2029, 1}, {0x2581, 0x2581, 1},
                {0xFEFF, 0xFEFF, 1}, {0xFFFD, 0xFFFD, 1}};
    static const uint32_t space[] = {' '};
    for (size_t i = 0; i < N_RANGES(rows); i++)
        put_record(c, rows[i].first, rows[i].last, space, rows[i].n);
}

void hf_table_add(struct checkpoint *c, const char *name)
{
    struct ckpt_map map = {name, NULL};
    for (size_t i = 0; i < arr_len(c->vocab.maps); i++)
        if (strcmp(c->vocab.maps[i].name, name) == 0)
            return;
    ckpt_push(c, c->vocab.maps, map);
    if (strcmp(name, "canonical") == 0 || strcmp(name, "compatibility") == 0)
        put_decompositions(c, name[2] == 'm');
    else if (strcmp(name, "classes") == 0)
        put_classes(c);
    else if (strcmp(name, "compositions") == 0)
        put_compositions(c);
    else if (strcmp(name, "lowercase") == 0)
        put_lowercase(c);
    else if (strcmp(name, "control") == 0)
        put_control(c);
    else if (strcmp(name, "nmt") == 0)
        put_nmt(c);
    else if (strcmp(name, "marks") == 0)
        put_ranges(c, hf_marks, N_RANGES(hf_marks));
    else if (strcmp(name, "nonspacing") == 0)
        put_ranges(c, hf_nonspacing, N_RANGES(hf_nonspacing));
    else
        put_ranges(c, hf_words, N_RANGES(hf_words));
}

/* ---- classes as patterns --------------------------------------------------------------------- */

/* A class of ranges between two texts. */
static int put_class(char **out, const char *begin, const uint32_t (*ranges)[2], size_t n,
                     const char *end)
{
    int ok = hf_regex_put(out, begin);
    char text[48];
    for (size_t i = 0; i < n && ok; i++) {
        if (ranges[i][0] == ranges[i][1])
            text_format(text, sizeof text, "\\x{%x}", ranges[i][0]);
        else
            text_format(text, sizeof text, "\\x{%x}-\\x{%x}", ranges[i][0], ranges[i][1]);
        ok = hf_regex_put(out, text);
    }
    return ok && hf_regex_put(out, end);
}

char *hf_regex_class(struct checkpoint *c, const char *kind)
{
    static const uint32_t chinese[][2] = {
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
        {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    char *out = NULL;
    int ok;
    if (strcmp(kind, "words") == 0)
        ok = put_class(&out, "[" HF_WORD, hf_new_words, N_RANGES(hf_new_words), "]+|") &&
             put_class(&out, "[^" HF_WORD, hf_new_words, N_RANGES(hf_new_words), HF_WHITE "]+");
    else if (strcmp(kind, "number") == 0)
        ok = put_class(&out, "[\\p{N}", hf_new_numbers, N_RANGES(hf_new_numbers), "]");
    else if (strcmp(kind, "punctuation") == 0)
        ok = put_class(&out, "[", hf_punctuation, N_RANGES(hf_punctuation), "]");
    else if (strcmp(kind, "chinese") == 0)
        ok = put_class(&out, "[", chinese, N_RANGES(chinese), "]");
    else
        ok = put_class(&out, "[", NULL, 0, HF_WHITE "]");
    return hf_regex_keep(c, out, ok);
}
