/* vocab.json and merges.txt whose pieces end in </w>: BPE of characters, with the splitting of the
 * program that wrote them. GPT (2018) is read as the tokenizer.json that transformers makes of it;
 * all others are refused by name.
 */
#include "base/error.h"
#include "convert/vocab/hf_tokenizer_impl.h"

#include <string.h>

int hf_tok_is_suffix(struct span merges)
{
    static const char mark[] = "</w>";
    const char *p = (const char *)merges.data;
    for (size_t i = 0; i + 4 < merges.size; i++)
        if (memcmp(p + i, mark, 4) == 0 && (p[i + 4] == '\n' || p[i + 4] == '\r'))
            return 1;
    return 0;
}

/* The lines of merges.txt as the list of a tokenizer.json. */
static json_t *merges_of(struct span bytes)
{
    json_t *list = json_array();
    const char *p = (const char *)bytes.data, *end = p + bytes.size;
    while (list && p < end) {
        const char *line_end = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((line_end ? line_end : end) - p);
        size_t kept = n - (n > 0 && p[n - 1] == '\r');
        if (kept > 0 && !(kept >= 9 && memcmp(p, "#version:", 9) == 0) &&
            json_array_append_new(list, json_stringn(p, kept)) < 0) {
            json_decref(list);
            return NULL;
        }
        p += n + 1;
    }
    return list;
}

/* What transformers' OpenAIGPTTokenizer makes of its two files. */
static json_t *gpt1_root(const json_t *vocab, struct span merges)
{
    json_t *added = json_object_get(vocab, "<unk>")
                        ? json_pack("[{s:O, s:s, s:b}]", "id", json_object_get(vocab, "<unk>"),
                                    "content", "<unk>", "special", 1)
                        : json_array();
    return json_pack("{s:o, s:{s:s, s:b}, s:{s:s}, s:{s:s, s:O, s:o, s:s, s:s}, s:{s:s, s:s}}",
                     "added_tokens", added, "normalizer", "type", "BertNormalizer", "lowercase", 1,
                     "pre_tokenizer", "type", "BertPreTokenizer", "model", "type", "BPE", "vocab",
                     vocab, "merges", merges_of(merges), "unk_token", "<unk>", "end_of_word_suffix",
                     "</w>", "decoder", "type", "BPEDecoder", "suffix", "</w>");
}

int hf_tok_suffix(struct hf_tok *t, const json_t *vocab, struct span merges, mgpt_error *err)
{
    const char *class = json_string_value(json_object_get(t->config, "tokenizer_class"));
    const char *type = t->c->model_type ? t->c->model_type : "";
    const char *name = class ? class : type;
    if (strncmp(name, "BioGpt", 6) == 0 || strcmp(name, "biogpt") == 0)
        return hf_tok_refuse(t, "BioGPT's words are those of Moses (sacremoses)",
                             "not supported; --no-tokenizer leaves them out", err);
    if (strncmp(name, "OpenAIGPT", 9) != 0 && strcmp(name, "openai-gpt") != 0)
        return hf_tok_refuse(t, "its pieces end in </w>, and which words they are made of",
                             *name ? name : "no file says (tokenizer.json would)", err);
    t->made = gpt1_root(vocab, merges);
    if (!t->made)
        return err_memory(err, "the merges", merges.size);
    ckpt_note(t->c,
              "pieces of %.60s end in </w>: texts are split as in transformers' "
              "OpenAIGPTTokenizer",
              t->file);
    return hf_tok_json(t, t->made, err);
}
