/* Splitting rules as data: a list of patterns per family.
 *
 * A rule is a list of stages. The first stage cuts the text into its matches and the text between
 * them, the second cuts each of those pieces, and so on. A stage sees each piece as a whole text: a
 * look-ahead sees its end. The patterns are those that the models were trained with, with two
 * changes that do not change the pieces. \s is written out as White_Space, since PCRE2's also has
 * U+180E, which Unicode removed. Quantifiers are possessive where backtracking cannot help: no
 * pattern looks at a character more than a few times, so hostile text costs no more than other
 * text, with or without PCRE2's JIT.
 */
#include "tokenizer/tok_split.h"

#include <string.h>

/* ---- the patterns ---------------------------------------------------------------------------- */

#define BLANK /* White_Space without CR and LF */                                                  \
    "\\x09\\x0B\\x0C\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"    \
    "\\x{205F}\\x{3000}"
#define WHITE BLANK "\\r\\n"

/* All but the last of a run of white space, or the whole run at the end of the text; else a
 * single one. */
#define TAIL "|[" WHITE "]+(?![^" WHITE "])|[" WHITE "]++"

/* \s*[\r\n]+ in one pass: up to the last line end of a run of white space. */
#define LINES "(?:[" BLANK "]*+[\\r\\n]++)++"

#define SUFFIXES "'s|'t|'re|'ve|'m|'ll|'d"

#define GPT2 SUFFIXES "| ?\\p{L}++| ?\\p{N}++| ?[^" WHITE "\\p{L}\\p{N}]++" TAIL

/* `letters` and `digits` are patterns, `others` are members of a negated class. */
#define GPT4(letters, digits, others)                                                              \
    "(?i:" SUFFIXES ")|[^\\r\\n\\p{L}\\p{N}]?" letters "|" digits "| ?[^" WHITE others             \
    "]++[\\r\\n]*+|" LINES TAIL

/* A word ends where a capital follows small letters: "httpXml" is "http" and "Xml". */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(suffix, digits)                                                                      \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "++" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UPPER           \
    "++" LOWER "*+" suffix "|" digits "| ?[^" WHITE "\\p{L}\\p{N}]++[\\r\\n/]*+|" LINES TAIL

/* DeepSeek's ideographs and syllables, and the letters that its first models use. */
#define CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]++"
#define ALPHABETS                                                                                  \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"                 \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"         \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"                  \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                       \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                 \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                 \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}"        \
    "\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}"         \
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"                 \
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"                  \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}"        \
    "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"         \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"                  \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"                 \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"               \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"         \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

static const char *const gpt2[] = {GPT2, NULL};
static const char *const digit_gpt2[] = {"\\p{N}", GPT2, NULL};
static const char *const llama3[] = {GPT4("\\p{L}++", "\\p{N}{1,3}+", "\\p{L}\\p{N}"), NULL};
static const char *const nanochat[] = {GPT4("\\p{L}++", "\\p{N}{1,2}+", "\\p{L}\\p{N}"), NULL};
static const char *const qwen2[] = {GPT4("\\p{L}++", "\\p{N}", "\\p{L}\\p{N}"), NULL};
static const char *const qwen35[] = {GPT4("[\\p{L}\\p{M}]++", "\\p{N}", "\\p{L}\\p{M}\\p{N}"),
                                     NULL};
static const char *const gpt4o[] = {CASED("(?i:" SUFFIXES ")?+", "\\p{N}{1,3}+"), NULL};
static const char *const tekken[] = {CASED("", "\\p{N}"), NULL};
static const char *const falcon[] = {"[\\p{P}$+<=>^~|`]++", GPT2, "[0-9][0-9][0-9]", NULL};
static const char *const deepseek_coder[] = {
    "[\\r\\n]", "[" WHITE "]?\\p{L}++", "[" WHITE "]?\\p{P}++", CJK, "\\p{N}", NULL};
static const char *const deepseek_llm[] = {
    "[\\r\\n]",
    "[" WHITE "]?[" ALPHABETS "]++",
    "[" WHITE
    "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]++",
    "(?<![" WHITE "])[" WHITE "]++\\z",
    CJK,
    "\\p{N}++",
    NULL};
#define DEEPSEEK                                                                                   \
    "[!-/:-@\\[-`{-~][A-Za-z]++|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]++"                      \
    "| ?[\\p{P}\\p{S}]++[\\r\\n]*+|" LINES TAIL
static const char *const deepseek_v3[] = {
    "\\p{N}{1,3}+", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]++", DEEPSEEK,
    NULL};
/* Digits are in threes from the right. The ranges of scripts are llama.cpp's. */
static const char *const afmoe[] = {
    "\\p{N}++", "\\A\\p{N}{1,2}(?=(?:\\p{N}{3})*+\\z)|\\p{N}{3}",
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{8C48}-\\x{FAFF}\\x{3040}-\\x{30FF}"
    "\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{EFF}\\x{1780}-\\x{17FF}"
    "\\x{1000}-\\x{109F}\\x{1100}-\\x{11FF}]++",
    DEEPSEEK, NULL};

/* Names are llama.cpp's, except nanochat's. A file without the key gets "default": it predates
 * rules. */
static const struct split_rule rules[] = {
    {"default", gpt2, 0},
    {"gpt-2", gpt2, 0},
    {"phi-2", gpt2, 0},
    {"jais", gpt2, 0},
    {"exaone4", gpt2, 0},
    {"mpt", gpt2, RULE_NFC},
    {"olmo", gpt2, RULE_NFC},
    {"smollm", digit_gpt2, 0},
    {"starcoder", digit_gpt2, 0},
    {"refact", digit_gpt2, 0},
    {"command-r", digit_gpt2, 0},
    {"codeshell", digit_gpt2, 0},
    {"exaone", digit_gpt2, 0},
    {"minerva-7b", digit_gpt2, 0},
    {"llama-bpe", llama3, RULE_BOS | RULE_WHOLE},
    {"llama3", llama3, RULE_BOS | RULE_WHOLE},
    {"llama-v3", llama3, RULE_BOS | RULE_WHOLE},
    {"falcon3", llama3, RULE_BOS | RULE_WHOLE},
    {"falcon-h1", llama3, RULE_BOS | RULE_WHOLE},
    {"pixtral", llama3, RULE_BOS | RULE_WHOLE},
    {"lfm2", llama3, RULE_BOS | RULE_WHOLE},
    {"glm4", llama3, RULE_WHOLE},
    {"dbrx", llama3, 0},
    {"smaug-bpe", llama3, 0},
    {"chatglm-bpe", llama3, 0},
    {"qwen2", qwen2, RULE_NFC},
    {"deepseek-r1-qwen", qwen2, RULE_NFC},
    {"stablelm2", qwen2, RULE_NFC},
    {"megrez", qwen2, RULE_NFC},
    {"qwen35", qwen35, RULE_NFC},
    {"nanochat", nanochat, RULE_WHOLE},
    {"gpt-4o", gpt4o, 0},
    {"tekken", tekken, RULE_BOS | RULE_WHOLE},
    {"falcon", falcon, 0},
    {"deepseek-coder", deepseek_coder, 0},
    {"deepseek-llm", deepseek_llm, 0},
    {"deepseek-v3", deepseek_v3, 0},
    {"afmoe", afmoe, 0},
};

const struct split_rule *split_find(struct gguf_str pre)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (pre.n == strlen(rules[i].pre) && memcmp(pre.p, rules[i].pre, pre.n) == 0)
            return &rules[i];
    return NULL;
}
