/* tekken.json: Mistral's tokenizer, tiktoken's ranks as JSON.
 *
 *     config          pattern, default_vocab_size, default_num_special_tokens
 *     vocab           [{rank, token_bytes (base64), token_str}]
 *     special_tokens  [{rank, token_str}]; older files have none: the names are those of
 *                     mistral-common, then <SPECIAL_N>
 *
 * Special tokens have the ids 0, 1, ...; the token of rank r has the id r + their number, and ranks
 * that do not fit the size are left out.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/vocab/hf_tokenizer_impl.h"
#include "convert/vocab/tiktoken.h"

#include <string.h>

/* A tokenizer being read. */
struct tekken {
    struct hf_tok *t;
    struct tiktoken_token *ranks, *specials;
    size_t n_read, n_named; /* entries of ranks, of specials */
    int64_t n_special, n_ranks;
};

static int64_t tekken_number(const struct jval *object, const char *key)
{
    const struct jval *v = jval_get(object, key);
    return jval_is(v, JVAL_INTEGER) ? jval_whole(v) : -1;
}

static void tekken_read_rank(struct tekken *k, const struct jval *entry)
{
    const struct jval *bytes = jval_get(entry, "token_bytes");
    const char *text = jval_text(bytes);
    size_t n = jval_text_size(bytes);
    int64_t rank = tekken_number(entry, "rank");
    if (!text || rank < 0)
        hf_tok_refuse(k->t, "vocab", "an entry without rank and token_bytes");
    if (rank >= k->n_ranks)
        return;
    char *copy = ckpt_copy(k->t->c, text, n);
    int64_t n_bytes = tiktoken_decode(copy, n);
    if (n_bytes < 0)
        hf_tok_refuse(k->t, "vocab", "token_bytes is not base64");
    k->ranks[k->n_read++] = (struct tiktoken_token){{copy, (size_t)n_bytes}, rank};
}

/* The names of older files. */
static void tekken_default_special(struct tekken *k, int64_t id)
{
    static const char *const names[] = {"<unk>",
                                        "<s>",
                                        "</s>",
                                        "[INST]",
                                        "[/INST]",
                                        "[AVAILABLE_TOOLS]",
                                        "[/AVAILABLE_TOOLS]",
                                        "[TOOL_RESULTS]",
                                        "[/TOOL_RESULTS]",
                                        "[TOOL_CALLS]",
                                        "[IMG]",
                                        "<pad>",
                                        "[IMG_BREAK]",
                                        "[IMG_END]",
                                        "[PREFIX]",
                                        "[MIDDLE]",
                                        "[SUFFIX]",
                                        "[SYSTEM_PROMPT]",
                                        "[/SYSTEM_PROMPT]",
                                        "[TOOL_CONTENT]"};
    char text[40];
    if ((size_t)id < sizeof names / sizeof *names)
        text_format(text, sizeof text, "%s", names[id]);
    else
        text_format(text, sizeof text, "<SPECIAL_%d>", (int)id);
    k->specials[k->n_named++] = (struct tiktoken_token){ckpt_str(k->t->c, text, strlen(text)), id};
}

static void tekken_read_specials(struct tekken *k, const struct jval *list)
{
    uint8_t *seen = ckpt_temp(k->t->c, (size_t)k->n_special, 1);
    k->specials = ckpt_temp(k->t->c, (size_t)k->n_special, sizeof *k->specials);
    for (size_t i = 0; i < jval_size(list); i++) {
        const struct jval *entry = jval_at(list, i), *text = jval_get(entry, "token_str");
        int64_t rank = tekken_number(entry, "rank");
        if (!jval_is(text, JVAL_STRING) || rank < 0 || rank >= k->n_special || seen[rank])
            hf_tok_refuse(k->t, "special_tokens", "an entry without its own rank");
        seen[rank] = 1;
        k->specials[k->n_named++] =
            (struct tiktoken_token){{jval_text(text), jval_text_size(text)}, rank};
    }
    for (int64_t i = 0; i < k->n_special; i++)
        if (!seen[i])
            tekken_default_special(k, i);
}

int hf_tok_is_tekken(struct span text)
{
    static const char key[] = "\"token_bytes\"";
    for (size_t i = 0; i + sizeof key <= text.size; i++)
        if (memcmp(text.data + i, key, sizeof key - 1) == 0)
            return 1;
    return 0;
}

void hf_tok_tekken(struct hf_tok *t, const struct jval *root)
{
    struct tekken k = {.t = t};
    const struct jval *config = jval_get(root, "config"), *vocab = jval_get(root, "vocab");
    const struct jval *pattern = jval_get(config, "pattern");
    int64_t size = tekken_number(config, "default_vocab_size");
    k.n_special = tekken_number(config, "default_num_special_tokens");
    k.n_ranks = size - k.n_special;
    if (!jval_is(pattern, JVAL_STRING) || k.n_special < 3 || k.n_special > 100000 ||
        k.n_ranks < 256 || size > INT32_MAX)
        hf_tok_refuse(t, "config",
                      "expected pattern, default_vocab_size, default_num_special_tokens");
    tekken_read_specials(&k, jval_get(root, "special_tokens"));
    k.ranks = ckpt_temp(t->c, jval_size(vocab), sizeof *k.ranks);
    for (size_t i = 0; i < jval_size(vocab); i++)
        tekken_read_rank(&k, jval_at(vocab, i));
    const struct tiktoken tokens = {
        .ranks = k.ranks,
        .n_ranks = k.n_read,
        .specials = k.specials,
        .n_specials = k.n_named,
        .first = k.n_special,
        .pattern = {jval_text(pattern), jval_text_size(pattern)},
        .bos = "<s>",
        .eos = "</s>",
    };
    tiktoken_read(t->c, &tokens, t->file, t->n_rows);
    t->c->vocab.eot = -1; /* BOS ends nothing here */
}
