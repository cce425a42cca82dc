/* vocab.json and merges.txt whose pieces end in </w>: BPE of characters, with the splitting of the
 * program that wrote them. GPT (2018) is read as the tokenizer.json that transformers makes of it;
 * all others are refused by name.
 */
#include "base/error.h"
#include "common/json_out.h"
#include "convert/vocab/hf_tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
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
static void put_merges(struct json_out *out, struct span bytes)
{
    const char *p = (const char *)bytes.data, *end = p + bytes.size, *comma = "";
    while (p < end) {
        const char *line_end = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((line_end ? line_end : end) - p);
        size_t kept = n - (n > 0 && p[n - 1] == '\r');
        if (kept > 0 && !(kept >= 9 && memcmp(p, "#version:", 9) == 0)) {
            fputs(comma, out->to);
            json_out_string(out, p, kept);
            comma = ",";
        }
        p += n + 1;
    }
}

/* What transformers' OpenAIGPTTokenizer makes of its two files, as text; NULL: no memory. */
static char *gpt1_text(struct span vocab, int64_t unknown, struct span merges, size_t *n)
{
    char *text = NULL;
    struct json_out out = {open_memstream(&text, n), 0};
    if (!out.to)
        return NULL;
    fputs("{\"added_tokens\":[", out.to);
    if (unknown >= 0)
        fprintf(out.to, "{\"id\":%lld,\"content\":\"<unk>\",\"special\":true}", (long long)unknown);
    fputs("],\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},"
          "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
          "\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"},"
          "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"end_of_word_suffix\":\"</"
          "w>\",\"merges\":[",
          out.to);
    put_merges(&out, merges);
    fputs("],\"vocab\":", out.to);
    fwrite(vocab.data, 1, vocab.size, out.to);
    fputs("}}", out.to);
    int failed = ferror(out.to);
    if (fclose(out.to) == 0 && !failed)
        return text;
    free(text);
    return NULL;
}

static const struct jval *make_gpt1(struct hf_tok *t, struct span vocab, int64_t unknown,
                                    struct span merges)
{
    size_t n = 0;
    char *text = gpt1_text(vocab, unknown, merges, &n);
    if (!text)
        ckpt_leave(t->c, err_memory(t->c->err, "the merges", merges.size));
    ckpt_own(t->c, text, free);
    return hf_values(t->c, (struct span){(const uint8_t *)text, n}, t->file, 0);
}

void hf_tok_suffix(struct hf_tok *t, const struct jval *vocab, struct span text, struct span merges)
{
    const struct jval *unknown = jval_get(vocab, "<unk>");
    const char *class = jval_text(jval_get(t->configs.tokenizer, "tokenizer_class"));
    const char *type = t->c->model_type ? t->c->model_type : "";
    const char *name = class ? class : type;
    if (strncmp(name, "BioGpt", 6) == 0 || strcmp(name, "biogpt") == 0)
        hf_tok_refuse(t, "BioGPT's words are those of Moses (sacremoses)",
                      "not supported; --no-tokenizer leaves them out");
    if (strncmp(name, "OpenAIGPT", 9) != 0 && strcmp(name, "openai-gpt") != 0)
        hf_tok_refuse(t, "its pieces end in </w>, and which words they are made of",
                      *name ? name : "no file says (tokenizer.json would)");
    const struct jval *made = make_gpt1(t, text, unknown ? jval_whole(unknown) : -1, merges);
    ckpt_note(t->c,
              "pieces of %.60s end in </w>: texts are split as in transformers' "
              "OpenAIGPTTokenizer",
              t->file);
    hf_tok_json(t, made);
}
