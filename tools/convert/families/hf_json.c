/* Which JSON files are config.json of Hugging Face, or the index of a model in several files. See hf.h.
 *
 * A microgpt in one JSON file can state a model_type, too, and the config.json of a quantised model can
 * have an object named weights. A microgpt has matrices, or keys that are names of tensors; config.json
 * has neither.
 */
#include "base/error.h"
#include "convert/families/hf.h"

#include <string.h>

enum {
    MAX_CONFIG = 1 << 20, /* bytes: in longer JSON, matrices are looked for as well */
    LOOKED_AT = 65536,
    LONG_TEXT = 512 /* bytes of a string that is values in base64 */
};

/* A walk through JSON text, as far as it is looked at: strings with their depth. */
struct json_walk {
    struct span in;
    size_t at, depth;
};

/* The next string, without its quotes: 1; 0 at the end. */
static int next_string(struct json_walk *w, struct span *text)
{
    size_t end = w->in.size < LOOKED_AT ? w->in.size : LOOKED_AT;
    for (; w->at < end && w->in.data[w->at] != '"'; w->at++) {
        uint8_t c = w->in.data[w->at];
        w->depth += c == '{' || c == '[';
        w->depth -= (c == '}' || c == ']') && w->depth > 0;
    }
    size_t from = ++w->at;
    for (; w->at < end && w->in.data[w->at] != '"'; w->at++)
        w->at += w->in.data[w->at] == '\\';
    if (w->at >= end)
        return 0;
    *text = (struct span){w->in.data + from, w->at++ - from};
    return 1;
}

static int is_blank(uint8_t c)
{
    return c == ' ' || (c >= 9 && c <= 13);
}

static size_t skip_blank(struct span s, size_t i)
{
    while (i < s.size && is_blank(s.data[i]))
        i++;
    return i;
}

/* Whether there is a key, at most so deep, that is the word, or begins with it where the word ends in
 * '*'. */
static int json_has_key(struct span bytes, const char *word, size_t deepest)
{
    struct json_walk w = {.in = bytes};
    struct span text;
    size_t n = strlen(word);
    int begins = n > 0 && word[n - 1] == '*';
    n -= (size_t)begins;
    while (next_string(&w, &text)) {
        size_t after = skip_blank(bytes, w.at);
        if (w.depth <= deepest && after < bytes.size && bytes.data[after] == ':' &&
            (begins ? text.size >= n : text.size == n) && memcmp(text.data, word, n) == 0)
            return 1;
    }
    return 0;
}

static int has_one_of(struct span bytes, const char *const *words, size_t deepest)
{
    while (*words && !json_has_key(bytes, *words, deepest))
        words++;
    return *words != NULL;
}

/* Whether a list begins at i with a number that has a fraction. */
static int is_values(struct span bytes, size_t i, size_t end)
{
    size_t first = skip_blank(bytes, i + 1), whole = first;
    while (whole < end &&
           (bytes.data[whole] == '-' || (bytes.data[whole] >= '0' && bytes.data[whole] <= '9')))
        whole++;
    return whole > first && whole < end && strchr(".eE", bytes.data[whole]);
}

/* Whether there are such lists, inside of lists where `nested`. */
static int has_lists(struct span bytes, int nested)
{
    size_t end = bytes.size < LOOKED_AT ? bytes.size : LOOKED_AT;
    uint8_t before = 0;
    for (size_t i = 0; i < end; i++) {
        int inside = before == '[' || before == ',';
        if (bytes.data[i] == '[' && (inside || !nested) && is_values(bytes, i, end))
            return 1;
        before = is_blank(bytes.data[i]) ? before : bytes.data[i];
    }
    return 0;
}

/* Whether there are such lists, or values in base64. */
static int has_values(struct span bytes, int nested)
{
    struct json_walk w = {.in = bytes};
    struct span text;
    if (has_lists(bytes, nested))
        return 1;
    while (next_string(&w, &text))
        if (text.size > LONG_TEXT && !memchr(text.data, ' ', text.size) &&
            !memchr(text.data, '{', text.size))
            return 1;
    return 0;
}

/* 1: keys near the outside name tensors. Deeper keys are those of modules with a quantisation of their
 * own. */
static int has_tensors(struct span bytes)
{
    static const char *const names[] = {"wte*", "transformer.*", "tok_emb*", "token_emb*", NULL};
    static const char *const holders[] = {"weights", "state_dict", "tensors", NULL};
    return has_one_of(bytes, names, 2) ||
           (has_one_of(bytes, holders, SIZE_MAX) && has_values(bytes, 1));
}

static int is_object(struct span bytes)
{
    size_t i = skip_blank(bytes, 0);
    return i < bytes.size && bytes.data[i] == '{';
}

int hf_is_index(struct span bytes)
{
    return json_has_key(bytes, "weight_map", 1);
}

enum ckpt_match hf_json_sniff(struct span bytes)
{
    if (!is_object(bytes))
        return MATCH_NO;
    int is_config = json_has_key(bytes, "model_type", 1) && !has_tensors(bytes) &&
                    (bytes.size < MAX_CONFIG || !has_lists(bytes, 1));
    return is_config || hf_is_index(bytes) ? MATCH_YES : MATCH_NO;
}

/* ---- without model_type ---------------------------------------------------------------------- */

enum ckpt_match hf_untyped_sniff(struct span bytes)
{
    static const char *const sizes[] = {
        "architectures", "n_embd", "hidden_size", "n_layer", "n_head", "num_hidden_layers", NULL};
    int is_config = is_object(bytes) && bytes.size < LOOKED_AT && has_one_of(bytes, sizes, 1);
    return is_config && !json_has_key(bytes, "model_type", 1) && !has_tensors(bytes) &&
                   !has_values(bytes, 0)
               ? MATCH_YES
               : MATCH_NO;
}

/* A config.json without model_type. If weights are next to it, their names say what they are. If those are
 * of a GPT of Hugging Face, the error says which model_type to write. */
void hf_untyped_read(struct checkpoint *c, const struct ckpt_input *in)
{
    static const char *const names[] = {"model.safetensors", "pytorch_model.bin",
                                        "model.safetensors.index.json",
                                        "pytorch_model.bin.index.json"};
    struct ckpt_side side;
    struct ckpt_input beside = *in;
    if (!ckpt_side(c, in, 0, names, HF_COUNT(names), &side)) {
        microgpt_json_read(c, in);
        return;
    }
    beside.bytes = side.bytes;
    if (hf_is_index(side.bytes))
        hf_json_read(c, &beside);
    else if (strcmp(side.name, names[0]) == 0)
        safetensors_read(c, &beside);
    else
        torch_reader_read(c, &beside);
}
