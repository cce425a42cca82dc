/* tokenizer.json: normalizers and pre-tokenizers as steps. See hf_steps.h.
 *
 * Each component is one function that appends steps. A component that is not in the tables is
 * refused by name.
 */
#include "convert/vocab/hf_steps_impl.h"

#include "base/error.h"
#include "base/mem.h"
#include "tokenizer/tok_regex.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 4 /* of sequences in sequences */

const char *steps_string(const struct jval *object, const char *key)
{
    const char *text = jval_text(jval_get(object, key));
    return text ? text : "";
}

void steps_refuse(const struct steps_writer *w, const struct jval *part, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s %.40s", w->part, steps_string(part, "type"));
    hf_tok_refuse(w->t, name, what);
}

void steps_word(struct steps_writer *w, const char *word)
{
    struct gguf_str text = ckpt_str(w->t->c, word, strlen(word));
    ckpt_push(w->t->c, *w->list, text);
}

void steps_words(struct steps_writer *w, const char *a, const char *b, const char *c)
{
    steps_word(w, a);
    if (b)
        steps_word(w, b);
    if (b && c)
        steps_word(w, c);
}

/* The step `op NAME` with its table. */
static void add_table(struct steps_writer *w, const char *op, const char *name)
{
    hf_table_add(w->t->c, name);
    if (strcmp(op, "decompose") == 0)
        hf_table_add(w->t->c, "classes");
    steps_words(w, op, name, NULL);
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* {"String": ...} or {"Regex": ...} as a pattern that compiles. */
static char *pattern_of(struct steps_writer *w, const struct jval *part)
{
    const struct jval *pattern = jval_get(part, "pattern");
    const char *text = jval_text(jval_get(pattern, "String"));
    const char *regex = jval_text(jval_get(pattern, "Regex")), *what;
    char message[120];
    if (!(text && *text) && !(regex && *regex))
        steps_refuse(w, part, "its pattern is empty");
    if (text)
        return hf_regex_quote(w->t->c, text);
    char *translated = hf_regex_translate(w->t->c, regex, &what);
    snprintf(message, sizeof message, "its pattern has %s", what ? what : "");
    if (what)
        steps_refuse(w, part, message);
    return translated;
}

/* Appends `op first PATTERN`, or `op PATTERN last` (first NULL), after a look at the pattern by the
 * library. */
static void add_pattern(struct steps_writer *w, const struct jval *part, const char *op,
                        const char *first, const char *pattern, const char *last)
{
    mgpt_error why = {0};
    struct tok_regex *regex = regex_open((struct gguf_str){pattern, strlen(pattern)}, &why);
    int is_good = regex != NULL;
    regex_close(regex);
    if (!is_good && why.status == MGPT_EFILE)
        steps_refuse(w, part, why.text);
    ckpt_pushed(w->t->c, is_good, 0);
    if (first)
        steps_words(w, op, first, pattern);
    else
        steps_words(w, op, pattern, last);
}

/* `split HOW` at each character of a class. */
static void add_class_split(struct steps_writer *w, const struct jval *part, const char *how,
                            const char *kind)
{
    add_pattern(w, part, "split", how, hf_regex_class(w->t->c, kind), NULL);
}

/* ---- normalizers ----------------------------------------------------------------------------- */

static void add_normal_form(struct steps_writer *w, const struct jval *part)
{
    const char *type = steps_string(part, "type"); /* NFC, NFD, NFKC, NFKD */
    add_table(w, "decompose", type[2] == 'K' ? "compatibility" : "canonical");
    if (type[strlen(type) - 1] != 'C')
        return;
    hf_table_add(w->t->c, "compositions");
    steps_word(w, "compose");
}

static void add_map(struct steps_writer *w, const struct jval *part)
{
    static const char *const rows[][2] = {
        {"Lowercase", "lowercase"}, {"StripAccents", "marks"}, {"Nmt", "nmt"}};
    for (size_t i = 0; i < 3; i++)
        if (strcmp(steps_string(part, "type"), rows[i][0]) == 0)
            add_table(w, "map", rows[i][1]);
}

static void add_replace(struct steps_writer *w, const struct jval *part)
{
    add_pattern(w, part, "replace", NULL, pattern_of(w, part), steps_string(part, "content"));
}

static void add_prepend(struct steps_writer *w, const struct jval *part)
{
    steps_words(w, "prepend", steps_string(part, "prepend"), NULL);
}

static void add_strip(struct steps_writer *w, const struct jval *part)
{
    int left = hf_tok_flag(part, "strip_left", 0), right = hf_tok_flag(part, "strip_right", 0);
    const char *one = left ? "left" : "right";
    if (left || right)
        steps_words(w, "strip", left && right ? "both" : one, NULL);
}

static void add_bert_normalizer(struct steps_writer *w, const struct jval *part)
{
    int lowercase = hf_tok_flag(part, "lowercase", 1);
    if (hf_tok_flag(part, "clean_text", 1))
        add_table(w, "map", "control");
    if (hf_tok_flag(part, "handle_chinese_chars", 1))
        add_pattern(w, part, "surround", NULL, hf_regex_class(w->t->c, "chinese"), " ");
    if (hf_tok_flag(part, "strip_accents", lowercase)) {
        add_table(w, "decompose", "canonical");
        add_table(w, "map", "nonspacing");
    }
    if (lowercase)
        add_table(w, "map", "lowercase");
}

void steps_bytes(struct steps_writer *w, const struct jval *part)
{
    (void)part;
    steps_word(w, "bytes");
}

static void add_charsmap(struct steps_writer *w, const struct jval *part)
{
    if (w->t->c->vocab.charsmap.n > 0)
        steps_refuse(w, part, "a second map");
    hf_tok_charsmap(w->t, part);
    steps_word(w, "charsmap");
}

static const struct component_row normalizer_rows[] = {
    {"NFC", add_normal_form},      {"NFD", add_normal_form},
    {"NFKC", add_normal_form},     {"NFKD", add_normal_form},
    {"Lowercase", add_map},        {"StripAccents", add_map},
    {"Replace", add_replace},      {"Prepend", add_prepend},
    {"Strip", add_strip},          {"BertNormalizer", add_bert_normalizer},
    {"ByteLevel", steps_bytes},    {"Nmt", add_map},
    {"Precompiled", add_charsmap}, {NULL, NULL}};

/* ---- pre-tokenizers -------------------------------------------------------------------------- */

/* The library's word for a behavior. */
static const char *cut_of(struct steps_writer *w, const struct jval *part)
{
    static const char *const rows[][2] = {{"Removed", "removed"},
                                          {"Isolated", "isolated"},
                                          {"MergedWithPrevious", "previous"},
                                          {"MergedWithNext", "next"},
                                          {"Contiguous", "contiguous"}};
    for (size_t i = 0; i < 5; i++)
        if (strcmp(steps_string(part, "behavior"), rows[i][0]) == 0)
            return rows[i][1];
    steps_refuse(w, part, "its behavior is not known");
}

static void add_whitespace(struct steps_writer *w, const struct jval *part)
{
    add_class_split(w, part, "not removed", "words");
}

static void add_whitespace_split(struct steps_writer *w, const struct jval *part)
{
    add_class_split(w, part, "removed", "whitespace");
}

static void add_digits(struct steps_writer *w, const struct jval *part)
{
    int each = hf_tok_flag(part, "individual_digits", 0);
    add_class_split(w, part, each ? "isolated" : "contiguous", "number");
}

static void add_punctuation(struct steps_writer *w, const struct jval *part)
{
    const char *behavior = steps_string(part, "behavior");
    add_class_split(w, part, *behavior ? cut_of(w, part) : "isolated", "punctuation");
}

static void add_bert(struct steps_writer *w, const struct jval *part)
{
    add_class_split(w, part, "removed", "whitespace");
    add_class_split(w, part, "isolated", "punctuation");
}

static void add_delimiter(struct steps_writer *w, const struct jval *part)
{
    const char *delimiter = steps_string(part, "delimiter");
    if (!*delimiter)
        steps_refuse(w, part, "its delimiter is empty");
    add_pattern(w, part, "split", "removed", hf_regex_quote(w->t->c, delimiter), NULL);
}

static void add_split(struct steps_writer *w, const struct jval *part)
{
    const char *cut = cut_of(w, part);
    char how[24];
    snprintf(how, sizeof how, "%s%s", hf_tok_flag(part, "invert", 0) ? "not " : "", cut);
    add_pattern(w, part, "split", how, pattern_of(w, part), NULL);
}

const char *steps_scheme(const struct jval *part)
{
    const char *scheme = steps_string(part, "prepend_scheme");
    if (!*scheme)
        scheme = hf_tok_flag(part, "add_prefix_space", 1) ? "always" : "never";
    if (strcmp(scheme, "first") == 0)
        return "first";
    return strcmp(scheme, "always") == 0 ? "always" : NULL;
}

static void add_metaspace(struct steps_writer *w, const struct jval *part)
{
    const char *space = steps_string(part, "replacement"), *when = steps_scheme(part);
    if (!*space)
        steps_refuse(w, part, "field 'replacement' is missing");
    steps_words(w, "replace", " ", space);
    if (when)
        steps_words(w, "lead", when, space);
    if (hf_tok_flag(part, "split", 1))
        add_pattern(w, part, "split", "next", hf_regex_quote(w->t->c, space), NULL);
}

static void add_byte_level(struct steps_writer *w, const struct jval *part)
{
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    const char *what;
    if (hf_tok_flag(part, "add_prefix_space", 1))
        steps_words(w, "lead", "always", " ");
    if (hf_tok_flag(part, "use_regex", 1))
        add_pattern(w, part, "split", "isolated", hf_regex_translate(w->t->c, gpt2, &what), NULL);
    steps_word(w, "bytes");
}

static void add_fixed_length(struct steps_writer *w, const struct jval *part)
{
    const struct jval *length = jval_get(part, "length");
    int64_t n = length ? jval_whole(length) : 5;
    char pattern[48];
    if (n < 1 || n > 60000)
        steps_refuse(w, part, "its length is not from 1 to 60000");
    snprintf(pattern, sizeof pattern, "[\\x{0}-\\x{10ffff}]{1,%d}", (int)n);
    steps_words(w, "split", "isolated", pattern);
}

static const struct component_row pre_tokenizer_rows[] = {{"Whitespace", add_whitespace},
                                                          {"WhitespaceSplit", add_whitespace_split},
                                                          {"Digits", add_digits},
                                                          {"Punctuation", add_punctuation},
                                                          {"Split", add_split},
                                                          {"BertPreTokenizer", add_bert},
                                                          {"Metaspace", add_metaspace},
                                                          {"CharDelimiterSplit", add_delimiter},
                                                          {"ByteLevel", add_byte_level},
                                                          {"FixedLength", add_fixed_length},
                                                          {NULL, NULL}};

/* ---- lists ----------------------------------------------------------------------------------- */

void steps_component(struct steps_writer *w, const struct jval *part,
                     const struct component_row *rows, const char *members, int depth)
{
    const char *type = steps_string(part, "type");
    const struct jval *list = jval_get(part, members);
    if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH) {
        for (size_t i = 0; i < jval_size(list); i++)
            steps_component(w, jval_at(list, i), rows, members, depth + 1);
        return;
    }
    while (rows->type && strcmp(type, rows->type) != 0)
        rows++;
    if (!rows->type)
        steps_refuse(w, part, "not supported here");
    rows->add(w, part);
}

void hf_steps_read(struct hf_tok *t, const struct jval *root)
{
    struct steps_writer norm = {t, "normalizer", &t->c->vocab.normalizers};
    struct steps_writer pre = {t, "pre_tokenizer", &t->c->vocab.pre_tokenizers};
    const struct jval *part = hf_tok_value(root, "normalizer");
    if (part)
        steps_component(&norm, part, normalizer_rows, "normalizers", 0);
    part = hf_tok_value(root, "pre_tokenizer");
    if (part)
        steps_component(&pre, part, pre_tokenizer_rows, "pretokenizers", 0);
    hf_decoders_read(t, root);
}
