/* Splitting regexes of tokenizers, recognised by their text. See pattern.h.
 *
 * A regex is known or it is refused: no attempt is made to understand it. Each row of the table has
 * been compared with the rule of src/tokenizer/tok_rules.c by running both.
 */
#include "convert/vocab/pattern.h"

#include <string.h>

enum { MAX_REGEX = 1024 };

#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define WORDS_TIKTOKEN "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REST_TIKTOKEN "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(suffix)                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER  \
    "*" suffix "|"
#define SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define REST_CASED "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *regex, *pre;
} rows[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", "gpt-2"},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", "gpt-2"},
    {WORDS "\\p{N}{1,3}" REST, "llama-bpe"},
    {WORDS_TIKTOKEN "\\p{N}{1,3}" REST_TIKTOKEN, "llama-bpe"},
    {WORDS "\\p{N}{1,2}" REST, "nanochat"},
    {WORDS_TIKTOKEN "\\p{N}{1,2}" REST_TIKTOKEN, "nanochat"},
    {WORDS "\\p{N}" REST, "qwen2"},
    {WORDS_TIKTOKEN "\\p{N}" REST_TIKTOKEN, "qwen2"},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
     "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "qwen35"},
    {CASED(SUFFIX) "\\p{N}{1,3}" REST_CASED, "gpt-4o"},
    {CASED("") "\\p{N}" REST_CASED, "tekken"},
};

/* Is the last of n characters a quantifier, or the end of one such as {1,3}? */
static int is_quantifier(const char *p, size_t n)
{
    if (n < 2 || p[n - 2] == '\\')
        return 0;
    if (p[n - 1] != '}')
        return p[n - 1] == '+' || p[n - 1] == '*' || p[n - 1] == '?';
    for (n--; n > 0 && ((p[n - 1] >= '0' && p[n - 1] <= '9') || p[n - 1] == ',');)
        n--;
    return n > 1 && p[n - 1] == '{'; /* {L} of \p{L} has a letter */
}

/* Leaves out the '+' that makes a quantifier possessive; 0 when the regex is too long. In Ruby's
 * syntax {1,3}+ is not possessive: it repeats {1,3}. */
static size_t simplify(struct gguf_str regex, int is_ruby, char out[MAX_REGEX])
{
    size_t n = 0;
    if (regex.n > MAX_REGEX)
        return 0;
    for (size_t i = 0; i < regex.n; i++)
        if (regex.p[i] != '+' || !is_quantifier(out, n) || (is_ruby && out[n - 1] == '}'))
            out[n++] = regex.p[i];
    return n;
}

const char *pattern_rule(struct gguf_str regex, int is_ruby)
{
    char simple[MAX_REGEX];
    size_t n = simplify(regex, is_ruby, simple);
    for (size_t i = 0; n > 0 && i < sizeof rows / sizeof *rows; i++)
        if (n == strlen(rows[i].regex) && memcmp(simple, rows[i].regex, n) == 0)
            return rows[i].pre;
    return NULL;
}
