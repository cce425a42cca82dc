/* tokenizer.json: which of the known tokenizers it is.
 *
 * Byte-level BPE is recognised by its list of pre-tokenizers, each described in one line and
 * compared with a table; SentencePiece by how it treats spaces. Everything else is refused: with a
 * skipped normalizer or a pattern that is nearly right the model would run on another text.
 */
#include "base/mem.h"
#include "convert/vocab/hf_steps_impl.h"
#include "convert/vocab/hf_tokenizer_impl.h"
#include "convert/vocab/pattern.h"
#include "convert/vocab/vocab_chars.h"
#include "tokenizer/tok_split.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

enum { MAX_WORD = 640 };

/* ---- the JSON -------------------------------------------------------------------------------- */

static int is(const struct jval *object, const char *type)
{
    return strcmp(steps_string(object, "type"), type) == 0;
}

int hf_tok_flag(const struct jval *object, const char *key, int absent)
{
    const struct jval *v = hf_tok_value(object, key);
    return v ? jval_is(v, JVAL_TRUE) : absent;
}

_Noreturn static void refuse_type(const struct hf_tok *t, const char *what, const struct jval *part)
{
    char name[64];
    snprintf(name, sizeof name, "%s %.40s", what, steps_string(part, "type"));
    hf_tok_refuse(t, name, "not supported here");
}

/* ---- byte-level BPE -------------------------------------------------------------------------- */

/* The pre-tokenizers of a family, and the rule that does the same (NULL: by the Split's pattern).
 */
static const struct shape_row {
    const char *parts[HF_TOK_PARTS];
    const char *pre;
} shapes[] = {
    {{"ByteLevel"}, "gpt-2"},
    {{"Digits individual", "ByteLevel"}, "smollm"},
    {{"Split ?", "ByteLevel no-regex"}, NULL},
    {{"Punctuation Contiguous", "ByteLevel", "Digits", "Split [0-9][0-9][0-9] Isolated"}, "falcon"},
    {{"Split [\r\n] Isolated", "Split \\s?\\p{L}+ Isolated", "Split \\s?\\p{P}+ Isolated",
      "Split [\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+ Isolated", "Digits individual",
      "ByteLevel no-regex"},
     "deepseek-coder"},
    {{"Split \\p{N}{1,3} Isolated", "Split [\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+ Isolated",
      "Split [!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
      "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+ Isolated",
      "ByteLevel no-regex"},
     "deepseek-v3"},
};

/* One pre-tokenizer in a line of text. */
static void shape_describe(const struct jval *part, char word[MAX_WORD])
{
    const struct jval *pattern = jval_get(part, "pattern");
    const char *regex = steps_string(pattern, "Regex");
    if (is(part, "ByteLevel"))
        snprintf(word, MAX_WORD, "ByteLevel%s%s",
                 hf_tok_flag(part, "add_prefix_space", 1) ? " add_prefix_space" : "",
                 hf_tok_flag(part, "use_regex", 1) ? "" : " no-regex");
    else if (is(part, "Digits"))
        snprintf(word, MAX_WORD, "Digits%s",
                 hf_tok_flag(part, "individual_digits", 0) ? " individual" : "");
    else if (is(part, "Punctuation"))
        snprintf(word, MAX_WORD, "Punctuation %s", steps_string(part, "behavior"));
    else if (is(part, "Split") && *regex && !hf_tok_flag(part, "invert", 0))
        snprintf(word, MAX_WORD, "Split %s %s", regex, steps_string(part, "behavior"));
    else
        snprintf(word, MAX_WORD, "%s", steps_string(part, "type"));
}

static int fits(const struct shape_row *s, char words[][MAX_WORD], int n)
{
    for (int i = 0; i < n; i++)
        if (!s->parts[i] ||
            (strcmp(s->parts[i], words[i]) != 0 &&
             !(strcmp(s->parts[i], "Split ?") == 0 && strncmp(words[i], "Split ", 6) == 0)))
            return 0;
    return n == HF_TOK_PARTS || !s->parts[n];
}

/* The rule of an isolating Split, by its pattern. shape_describe has no pattern of an inverted one. */
static const char *rule_of_split(const struct jval *part)
{
    const char *regex = steps_string(jval_get(part, "pattern"), "Regex");
    if (strcmp(steps_string(part, "behavior"), "Isolated") != 0)
        return NULL;
    return pattern_rule((struct gguf_str){regex, strlen(regex)}, 1);
}

static void find_rule(struct hf_tok *t, const struct jval *parts[HF_TOK_PARTS], int n)
{
    char words[HF_TOK_PARTS][MAX_WORD], what[160];
    const struct shape_row *found = NULL;
    for (int i = 0; i < n; i++)
        shape_describe(parts[i], words[i]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !found; i++)
        if (fits(&shapes[i], words, n))
            found = &shapes[i];
    if (found)
        t->c->vocab.pre = found->pre ? found->pre : rule_of_split(parts[0]);
    if (t->c->vocab.pre)
        return;
    size_t len = 0;
    for (int i = 0; i < n && len < 90; i++)
        len += (size_t)snprintf(what + len, 64, "%s%.50s", i ? ", " : "", words[i]);
    hf_tok_refuse(t, "pre_tokenizer not supported", what);
}

/* Rules say whether a piece that is a token is taken whole; the key ignore_merges overrides
 * them. */
static void set_whole(struct ckpt_vocab *v, int ignore_merges)
{
    if (strcmp(v->pre, "llama-bpe") == 0 && !ignore_merges)
        v->pre = "smaug-bpe";
    int usual = (split_find((struct gguf_str){v->pre, strlen(v->pre)})->flags & RULE_WHOLE) != 0;
    if (usual != ignore_merges)
        v->whole_pieces = ignore_merges;
}

static void read_nfc(struct hf_tok *t, const struct jval *root)
{
    const struct jval *parts[HF_TOK_PARTS];
    int n = hf_tok_parts(t, root, "normalizer", "normalizers", parts);
    t->c->vocab.nfc = n > 0;
    for (int i = 0; i < n; i++)
        if (!is(parts[i], "NFC"))
            refuse_type(t, "normalizer", parts[i]);
}

static void byte_level(struct hf_tok *t, const struct jval *root,
                       const struct jval *parts[HF_TOK_PARTS], int n)
{
    find_rule(t, parts, n);
    read_nfc(t, root);
    t->c->vocab.model = "gpt2";
    set_whole(&t->c->vocab, hf_tok_flag(jval_get(root, "model"), "ignore_merges", 0));
}

/* ---- SentencePiece --------------------------------------------------------------------------- */

/* Prepend U+2581 and replace spaces by it; the order in the file does not matter. */
static void read_spaces(struct hf_tok *t, const struct jval *root, int *escapes)
{
    const struct jval *parts[HF_TOK_PARTS];
    int n = hf_tok_parts(t, root, "normalizer", "normalizers", parts);
    t->c->vocab.add_space_prefix = 0;
    for (int i = 0; i < n; i++) {
        const struct jval *pattern = jval_get(parts[i], "pattern");
        if (is(parts[i], "Prepend") && strcmp(steps_string(parts[i], "prepend"), VOCAB_SPACE) == 0)
            t->c->vocab.add_space_prefix = 1;
        else if (is(parts[i], "Precompiled") && t->unigram && i == 0)
            hf_tok_charsmap(t, parts[i]);
        else if (is(parts[i], "Replace") && strcmp(steps_string(pattern, "String"), " ") == 0 &&
                 strcmp(steps_string(parts[i], "content"), VOCAB_SPACE) == 0)
            *escapes = 1;
        else
            refuse_type(t, "normalizer", parts[i]);
    }
}

/* Metaspace escapes spaces itself, and adds one only where the text has none. */
static void read_metaspace(struct hf_tok *t, const struct jval *part)
{
    struct ckpt_vocab *v = &t->c->vocab;
    const char *scheme = steps_string(part, "prepend_scheme");
    if (!*scheme)
        scheme = hf_tok_flag(part, "add_prefix_space", 1) ? "always" : "never";
    if (strcmp(steps_string(part, "replacement"), VOCAB_SPACE) != 0)
        hf_tok_refuse(t, "pre_tokenizer Metaspace", "its replacement is not U+2581");
    if (strcmp(scheme, "never") != 0) {
        v->add_space_prefix = 1;
        v->space_missing = 1;
        v->space_first = strcmp(scheme, "first") == 0;
    }
    v->space_alone = hf_tok_flag(part, "split", 1);
}

static void check_split(const struct hf_tok *t, const struct jval *part, int escapes)
{
    /* once the spaces are gone, splitting at them does nothing */
    const char *at = steps_string(jval_get(part, "pattern"), "String");
    if (is(part, "Split") && strcmp(at, " ") == 0 && escapes)
        return;
    refuse_type(t, "pre_tokenizer", part);
}

static void sentencepiece(struct hf_tok *t, const struct jval *root,
                          const struct jval *parts[HF_TOK_PARTS], int n)
{
    const struct jval *model = jval_get(root, "model");
    int escapes = 0, metaspace = 0;
    read_spaces(t, root, &escapes);
    t->sentencepiece = 1;
    t->scores = t->unigram ? VOCAB_DOUBLES : VOCAB_FLOATS;
    t->c->vocab.model = t->unigram ? "t5" : "llama";
    t->c->vocab.pre = "default";
    t->c->vocab.ranked = !t->unigram;
    for (int i = 0; i < n; i++) {
        metaspace |= is(parts[i], "Metaspace");
        if (is(parts[i], "Metaspace"))
            read_metaspace(t, parts[i]);
        else
            check_split(t, parts[i], escapes);
    }
    if (!escapes && !metaspace)
        hf_tok_refuse(t, "pre_tokenizer", "neither ByteLevel nor U+2581 for spaces");
    if (!t->unigram && !hf_tok_flag(model, "byte_fallback", 0))
        hf_tok_refuse(t, "model", "byte_fallback is off");
    if (hf_tok_flag(model, "ignore_merges", 0))
        hf_tok_refuse(t, "model", "ignore_merges without ByteLevel");
}

/* ---- the model ------------------------------------------------------------------------------- */

static void check_model(struct hf_tok *t, const struct jval *model)
{
    const char *type = steps_string(model, "type");
    /* old files name no type */
    t->unigram =
        strcmp(type, "Unigram") == 0 || (!*type && jval_is(jval_get(model, "vocab"), JVAL_ARRAY));
    t->words = strcmp(type, "WordPiece") == 0 || strcmp(type, "WordLevel") == 0 ||
               (!*type && jval_get(model, "max_input_chars_per_word"));
    if (jval_number(jval_get(model, "dropout")) > 0)
        ckpt_note(t->c,
                  "ignored: dropout of %.60s is for training: texts get the tokens without it",
                  t->file);
    if (t->unigram || t->words)
        return;
    if (*type && strcmp(type, "BPE") != 0)
        refuse_type(t, "model", model);
    if (!*type && !jval_is(jval_get(model, "merges"), JVAL_ARRAY))
        hf_tok_refuse(t, "model", "without type and merges");
}

/* 1: some of the 256 texts that stand for bytes are not in the vocabulary: a byte vanishes, or
 * becomes the unknown token. */
static int lacks_bytes(const struct jval *vocab, int sentencepiece)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8], one = (char)(uint8_t)byte;
        if (sentencepiece)
            snprintf(text, sizeof text, "<0x%02X>", byte);
        else
            text[vocab_put_bytes(&one, 1, text)] = 0;
        if (!jval_get(vocab, text))
            return 1;
    }
    return 0;
}

static int has_added(const struct jval *root, const char *flag, int absent)
{
    const struct jval *added = jval_get(root, "added_tokens");
    for (size_t i = 0; i < jval_size(added); i++)
        if (hf_tok_flag(jval_at(added, i), flag, absent))
            return 1;
    return 0;
}

/* 1: the normalizer changes added tokens that are looked for in normalized text: by a map of
 * characters, or by what it puts before each part of text. */
static int changes_added(const struct hf_tok *t, const struct jval *root)
{
    const struct jval *parts[HF_TOK_PARTS];
    int n = hf_tok_parts(t, root, "normalizer", "normalizers", parts), changes = 0;
    for (int i = 0; i < n; i++)
        changes |= is(parts[i], "Prepend") || is(parts[i], "Precompiled");
    return changes && has_added(root, "normalized", 0);
}

struct shape_run {
    struct hf_tok *t;
    const struct jval *root;
};

/* The rules that GGUF has names for; left where it is none of them. */
static void read_known(void *arg)
{
    struct hf_tok *t = ((struct shape_run *)arg)->t;
    const struct jval *root = ((struct shape_run *)arg)->root;
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const struct jval *model = jval_get(root, "model"), *parts[HF_TOK_PARTS];
    int bytes = 0, n = hf_tok_parts(t, root, "pre_tokenizer", "pretokenizers", parts);
    for (int i = 0; i < n; i++)
        bytes |= is(parts[i], "ByteLevel");
    if (has_added(root, "single_word", 0) || changes_added(t, root))
        hf_tok_refuse(t, "added_tokens", "single_word or normalized");
    if (t->unigram) {
        sentencepiece(t, root, parts, n);
        return;
    }
    for (size_t i = 0; i < 2; i++)
        if (*steps_string(model, affixes[i]))
            hf_tok_refuse(t, "model", affixes[i]);
    if (lacks_bytes(jval_get(model, "vocab"), !bytes)) {
        if (bytes ? hf_tok_value(model, "unk_token") != NULL : hf_tok_flag(model, "fuse_unk", 0))
            hf_tok_refuse(t, "model", "not all bytes are tokens");
        t->c->vocab.drops_unknown = bytes;
    }
    if (bytes)
        byte_level(t, root, parts, n);
    else
        sentencepiece(t, root, parts, n);
}

static void set_affix(struct hf_tok *t, const struct jval *model, const char *key,
                      struct gguf_str *to)
{
    const char *text = steps_string(model, key);
    if (strlen(text) > 60)
        hf_tok_refuse(t, "model", "a prefix or suffix of more than 60 bytes");
    *to = ckpt_str(t->c, text, strlen(text));
}

/* WordPiece or WordLevel, with steps. */
static void read_words(struct hf_tok *t, const struct jval *root)
{
    const struct jval *model = jval_get(root, "model");
    const struct jval *chars = jval_get(model, "max_input_chars_per_word");
    struct ckpt_vocab *v = &t->c->vocab;
    int64_t most = chars ? jval_whole(chars) : 100;
    t->steps = v->has_steps = 1;
    v->model = "mgpt-wordlevel";
    if (!is(model, "WordLevel")) {
        v->model = "mgpt-wordpiece";
        if ((chars && !jval_is(chars, JVAL_INTEGER)) || most < 0 || most > 10000)
            hf_tok_refuse(t, "model", "max_input_chars_per_word is not from 0 to 10000");
        v->word_chars = (int)most;
        set_affix(t, model, "continuing_subword_prefix", &v->prefix);
    }
    hf_steps_read(t, root);
}

/* Unigram of other parts than SentencePiece's, with steps. */
static void read_unigram_steps(struct hf_tok *t, const struct jval *root)
{
    struct ckpt_vocab *v = &t->c->vocab;
    t->steps = v->has_steps = 1;
    t->scores = VOCAB_DOUBLES;
    v->model = "mgpt-unigram";
    hf_steps_read(t, root);
}

/* All others: BPE of characters, with steps. */
static void read_bpe_steps(struct hf_tok *t, const struct jval *root)
{
    const struct jval *model = jval_get(root, "model");
    struct ckpt_vocab *v = &t->c->vocab;
    set_affix(t, model, "continuing_subword_prefix", &v->prefix);
    set_affix(t, model, "end_of_word_suffix", &v->suffix);
    t->steps = v->has_steps = 1;
    v->model = "mgpt-bpe";
    v->byte_fallback = hf_tok_flag(model, "byte_fallback", 0);
    v->fuse_unknown = hf_tok_flag(model, "fuse_unk", 0);
    v->whole_pieces = hf_tok_flag(model, "ignore_merges", 0) ? 1 : -1;
    hf_steps_read(t, root);
}

void hf_tok_shape(struct hf_tok *t, const struct jval *root)
{
    struct shape_run run = {t, root};
    mgpt_error why;
    check_model(t, jval_get(root, "model"));
    const struct hf_tok tok_before = *t;
    const struct ckpt_vocab before = t->c->vocab;
    int status = t->words ? MGPT_OK : ckpt_run(t->c, read_known, &run, &why);
    if (status == MGPT_EMEM)
        ckpt_leave(t->c, err_memory(t->c->err, "the vocabulary", 1));
    if (status < 0) {
        t->c->vocab = before;
        *t = tok_before;
    }
    if (t->words)
        read_words(t, root);
    else if (status < 0)
        (t->unigram ? read_unigram_steps : read_bpe_steps)(t, root);
    hf_tok_post(t, root);
}
