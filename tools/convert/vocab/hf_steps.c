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

int steps_refuse(const struct steps_writer *w, const struct jval *part, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s %.40s", w->part, steps_string(part, "type"));
    return hf_tok_refuse(w->t, name, what, w->err);
}

int steps_word(struct steps_writer *w, const char *word)
{
    struct gguf_str text = {ckpt_text(w->t->c, word, strlen(word)), strlen(word)};
    if (!text.p || !arr_push(*w->list, text))
        return err_memory(w->err, "the steps of the tokenizer", text.n);
    return MGPT_OK;
}

int steps_words(struct steps_writer *w, const char *a, const char *b, const char *c)
{
    int status = steps_word(w, a);
    if (status == MGPT_OK && b)
        status = steps_word(w, b);
    if (status == MGPT_OK && b && c)
        status = steps_word(w, c);
    return status;
}

/* The step `op NAME` with its table. */
static int add_table(struct steps_writer *w, const char *op, const char *name)
{
    int status = hf_table_add(w->t->c, name, w->err);
    if (status == MGPT_OK && strcmp(op, "decompose") == 0)
        status = hf_table_add(w->t->c, "classes", w->err);
    return status < 0 ? status : steps_words(w, op, name, NULL);
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* {"String": ...} or {"Regex": ...} as a pattern that compiles; a stb_ds array in *out. */
static int pattern_of(struct steps_writer *w, const struct jval *part, char **out)
{
    const struct jval *pattern = jval_get(part, "pattern");
    const char *text = jval_text(jval_get(pattern, "String"));
    const char *regex = jval_text(jval_get(pattern, "Regex")), *what = NULL;
    char message[120];
    if (!(text && *text) && !(regex && *regex))
        return steps_refuse(w, part, "its pattern is empty");
    if (text)
        return hf_regex_quote(text, out, w->err);
    int status = hf_regex_translate(regex, out, &what, w->err);
    if (!what)
        return status;
    snprintf(message, sizeof message, "its pattern has %s", what);
    return steps_refuse(w, part, message);
}

/* Appends `op first PATTERN`, or `op PATTERN last` (first NULL), after a look at the pattern by the
 * library. Frees the pattern. */
static int add_pattern(struct steps_writer *w, const struct jval *part, const char *op,
                       const char *first, char *pattern, const char *last)
{
    mgpt_error why = {0};
    struct tok_regex *regex = regex_open((struct gguf_str){pattern, strlen(pattern)}, &why);
    int status = regex ? MGPT_OK : why.status;
    regex_close(regex);
    if (status == MGPT_EFILE)
        status = steps_refuse(w, part, why.text);
    else if (status < 0)
        status = err_memory(w->err, "a pattern", 0);
    if (status == MGPT_OK)
        status = first ? steps_words(w, op, first, pattern) : steps_words(w, op, pattern, last);
    arr_free(pattern);
    return status;
}

/* `split HOW` at each character of a class. */
static int add_class_split(struct steps_writer *w, const struct jval *part, const char *how,
                           const char *kind)
{
    char *pattern = NULL;
    int status = hf_regex_class(kind, 0, &pattern, w->err);
    if (status == MGPT_OK)
        return add_pattern(w, part, "split", how, pattern, NULL);
    arr_free(pattern);
    return status;
}

/* ---- normalizers ----------------------------------------------------------------------------- */

static int add_normal_form(struct steps_writer *w, const struct jval *part)
{
    const char *type = steps_string(part, "type"); /* NFC, NFD, NFKC, NFKD */
    int composes = type[strlen(type) - 1] == 'C';
    int status = add_table(w, "decompose", type[2] == 'K' ? "compatibility" : "canonical");
    if (status == MGPT_OK && composes)
        status = hf_table_add(w->t->c, "compositions", w->err);
    return status < 0 || !composes ? status : steps_word(w, "compose");
}

static int add_lowercase(struct steps_writer *w, const struct jval *part)
{
    (void)part;
    return add_table(w, "map", "lowercase");
}

static int add_strip_accents(struct steps_writer *w, const struct jval *part)
{
    (void)part;
    return add_table(w, "map", "marks");
}

static int add_nmt(struct steps_writer *w, const struct jval *part)
{
    (void)part;
    return add_table(w, "map", "nmt");
}

static int add_replace(struct steps_writer *w, const struct jval *part)
{
    char *pattern = NULL;
    int status = pattern_of(w, part, &pattern);
    if (status == MGPT_OK)
        return add_pattern(w, part, "replace", NULL, pattern, steps_string(part, "content"));
    arr_free(pattern);
    return status;
}

static int add_prepend(struct steps_writer *w, const struct jval *part)
{
    return steps_words(w, "prepend", steps_string(part, "prepend"), NULL);
}

static int add_strip(struct steps_writer *w, const struct jval *part)
{
    int left = hf_tok_flag(part, "strip_left", 0), right = hf_tok_flag(part, "strip_right", 0);
    if (!left && !right)
        return MGPT_OK;
    const char *one = left ? "left" : "right";
    return steps_words(w, "strip", left && right ? "both" : one, NULL);
}

static int add_chinese(struct steps_writer *w, const struct jval *part)
{
    char *pattern = NULL;
    int status = hf_regex_class("chinese", 0, &pattern, w->err);
    if (status == MGPT_OK)
        return add_pattern(w, part, "surround", NULL, pattern, " ");
    arr_free(pattern);
    return status;
}

static int add_bert_normalizer(struct steps_writer *w, const struct jval *part)
{
    int lowercase = hf_tok_flag(part, "lowercase", 1), status = MGPT_OK;
    int strips = hf_tok_flag(part, "strip_accents", lowercase);
    if (hf_tok_flag(part, "clean_text", 1))
        status = add_table(w, "map", "control");
    if (status == MGPT_OK && hf_tok_flag(part, "handle_chinese_chars", 1))
        status = add_chinese(w, part);
    if (status == MGPT_OK && strips)
        status = add_table(w, "decompose", "canonical");
    if (status == MGPT_OK && strips)
        status = add_table(w, "map", "nonspacing");
    if (status == MGPT_OK && lowercase)
        status = add_table(w, "map", "lowercase");
    return status;
}

int steps_bytes(struct steps_writer *w, const struct jval *part)
{
    (void)part;
    return steps_word(w, "bytes");
}

static int add_charsmap(struct steps_writer *w, const struct jval *part)
{
    if (w->t->c->vocab.charsmap.n > 0)
        return steps_refuse(w, part, "a second map");
    int status = hf_tok_charsmap(w->t, part, w->err);
    return status < 0 ? status : steps_word(w, "charsmap");
}

static const struct component_row normalizer_rows[] = {
    {"NFC", add_normal_form},      {"NFD", add_normal_form},
    {"NFKC", add_normal_form},     {"NFKD", add_normal_form},
    {"Lowercase", add_lowercase},  {"StripAccents", add_strip_accents},
    {"Replace", add_replace},      {"Prepend", add_prepend},
    {"Strip", add_strip},          {"BertNormalizer", add_bert_normalizer},
    {"ByteLevel", steps_bytes},    {"Nmt", add_nmt},
    {"Precompiled", add_charsmap}, {NULL, NULL}};

/* ---- pre-tokenizers -------------------------------------------------------------------------- */

/* The library's word for a behavior; NULL: none. */
static const char *cut_of(const char *behavior)
{
    static const char *const rows[][2] = {{"Removed", "removed"},
                                          {"Isolated", "isolated"},
                                          {"MergedWithPrevious", "previous"},
                                          {"MergedWithNext", "next"},
                                          {"Contiguous", "contiguous"}};
    for (size_t i = 0; i < 5; i++)
        if (strcmp(behavior, rows[i][0]) == 0)
            return rows[i][1];
    return NULL;
}

/* Words, or runs of what is neither word nor white space. */
static int add_whitespace(struct steps_writer *w, const struct jval *part)
{
    char *pattern = NULL;
    int status = hf_regex_class("word", 0, &pattern, w->err);
    if (status == MGPT_OK)
        status = hf_regex_put(&pattern, "+|") ? hf_regex_class("other", 1, &pattern, w->err)
                                              : err_memory(w->err, "a pattern", 0);
    if (status == MGPT_OK && !hf_regex_put(&pattern, "+"))
        status = err_memory(w->err, "a pattern", 0);
    if (status == MGPT_OK)
        return add_pattern(w, part, "split", "not removed", pattern, NULL);
    arr_free(pattern);
    return status;
}

static int add_whitespace_split(struct steps_writer *w, const struct jval *part)
{
    return add_class_split(w, part, "removed", "whitespace");
}

static int add_digits(struct steps_writer *w, const struct jval *part)
{
    int each = hf_tok_flag(part, "individual_digits", 0);
    return add_class_split(w, part, each ? "isolated" : "contiguous", "number");
}

static int add_punctuation(struct steps_writer *w, const struct jval *part)
{
    const char *behavior = steps_string(part, "behavior");
    const char *cut = *behavior ? cut_of(behavior) : "isolated";
    return cut ? add_class_split(w, part, cut, "punctuation")
               : steps_refuse(w, part, "its behavior is not known");
}

static int add_bert(struct steps_writer *w, const struct jval *part)
{
    int status = add_class_split(w, part, "removed", "whitespace");
    return status < 0 ? status : add_class_split(w, part, "isolated", "punctuation");
}

static int add_quoted(struct steps_writer *w, const struct jval *part, const char *op,
                      const char *first, const char *text, const char *last)
{
    char *pattern = NULL;
    int status = hf_regex_quote(text, &pattern, w->err);
    if (status == MGPT_OK)
        return add_pattern(w, part, op, first, pattern, last);
    arr_free(pattern);
    return status;
}

static int add_delimiter(struct steps_writer *w, const struct jval *part)
{
    const char *delimiter = steps_string(part, "delimiter");
    return *delimiter ? add_quoted(w, part, "split", "removed", delimiter, NULL)
                      : steps_refuse(w, part, "its delimiter is empty");
}

static int add_split(struct steps_writer *w, const struct jval *part)
{
    const char *cut = cut_of(steps_string(part, "behavior"));
    char *pattern = NULL, how[24];
    if (!cut)
        return steps_refuse(w, part, "its behavior is not known");
    snprintf(how, sizeof how, "%s%s", hf_tok_flag(part, "invert", 0) ? "not " : "", cut);
    int status = pattern_of(w, part, &pattern);
    if (status == MGPT_OK)
        return add_pattern(w, part, "split", how, pattern, NULL);
    arr_free(pattern);
    return status;
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

static int add_metaspace(struct steps_writer *w, const struct jval *part)
{
    const char *space = steps_string(part, "replacement"), *when = steps_scheme(part);
    if (!*space)
        return steps_refuse(w, part, "it has no replacement");
    int status = steps_words(w, "replace", " ", space);
    if (status == MGPT_OK && when)
        status = steps_words(w, "lead", when, space);
    if (status == MGPT_OK && hf_tok_flag(part, "split", 1))
        status = add_quoted(w, part, "split", "next", space, NULL);
    return status;
}

static int add_byte_level(struct steps_writer *w, const struct jval *part)
{
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    char *pattern = NULL;
    const char *what;
    int status = MGPT_OK;
    if (hf_tok_flag(part, "add_prefix_space", 1))
        status = steps_words(w, "lead", "always", " ");
    if (status == MGPT_OK && hf_tok_flag(part, "use_regex", 1)) {
        status = hf_regex_translate(gpt2, &pattern, &what, w->err);
        if (status < 0)
            arr_free(pattern);
        else
            status = add_pattern(w, part, "split", "isolated", pattern, NULL);
    }
    return status < 0 ? status : steps_word(w, "bytes");
}

static int add_fixed_length(struct steps_writer *w, const struct jval *part)
{
    const struct jval *length = jval_get(part, "length");
    int64_t n = length ? jval_whole(length) : 5;
    char pattern[48];
    if (n < 1 || n > 60000)
        return steps_refuse(w, part, "its length is not from 1 to 60000");
    snprintf(pattern, sizeof pattern, "[\\x{0}-\\x{10ffff}]{1,%d}", (int)n);
    return steps_words(w, "split", "isolated", pattern);
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

int steps_component(struct steps_writer *w, const struct jval *part,
                    const struct component_row *rows, const char *members, int depth)
{
    const char *type = steps_string(part, "type");
    const struct jval *list = jval_get(part, members);
    int status = MGPT_OK;
    if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH) {
        for (size_t i = 0; i < jval_size(list) && status == MGPT_OK; i++)
            status = steps_component(w, jval_at(list, i), rows, members, depth + 1);
        return status;
    }
    for (; rows->type; rows++)
        if (strcmp(type, rows->type) == 0)
            return rows->add(w, part);
    return steps_refuse(w, part, "not supported here");
}

int hf_steps_read(struct hf_tok *t, const struct jval *root, mgpt_error *err)
{
    struct steps_writer norm = {t, "normalizer", &t->c->vocab.normalizers, err};
    struct steps_writer pre = {t, "pre_tokenizer", &t->c->vocab.pre_tokenizers, err};
    const struct jval *part = hf_tok_value(root, "normalizer");
    int status = part ? steps_component(&norm, part, normalizer_rows, "normalizers", 0) : MGPT_OK;
    part = hf_tok_value(root, "pre_tokenizer");
    if (status == MGPT_OK && part)
        status = steps_component(&pre, part, pre_tokenizer_rows, "pretokenizers", 0);
    return status < 0 ? status : hf_decoders_read(t, root, err);
}
