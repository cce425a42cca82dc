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

#include <stdlib.h>
#include <string.h>

/* A tokenizer being read; the lists are stb_ds arrays. */
struct tekken {
    struct hf_tok *t;
    struct tiktoken_token *ranks, *specials;
    int64_t n_special, n_ranks;
};

static int64_t tekken_number(const struct jval *object, const char *key)
{
    const struct jval *v = jval_get(object, key);
    return jval_is(v, JVAL_INTEGER) ? jval_whole(v) : -1;
}

static int tekken_push(struct tekken *k, struct tiktoken_token **list, const char *p, size_t n,
                       int64_t rank, mgpt_error *err)
{
    struct tiktoken_token token = {{p, n}, rank};
    return p && arr_push(*list, token) ? MGPT_OK : err_memory(err, k->t->file, n);
}

static int tekken_read_rank(struct tekken *k, const struct jval *entry, mgpt_error *err)
{
    const struct jval *bytes = jval_get(entry, "token_bytes");
    const char *text = jval_text(bytes);
    size_t n = jval_text_size(bytes);
    int64_t rank = tekken_number(entry, "rank");
    if (!text || rank < 0)
        return hf_tok_refuse(k->t, "vocab", "an entry without rank and token_bytes", err);
    if (rank >= k->n_ranks)
        return MGPT_OK;
    char *copy = ckpt_text(k->t->c, text, n);
    int64_t n_bytes = copy ? tiktoken_decode(copy, n) : 0;
    if (n_bytes < 0)
        return hf_tok_refuse(k->t, "vocab", "token_bytes is not base64", err);
    return tekken_push(k, &k->ranks, copy, (size_t)n_bytes, rank, err);
}

/* The names of older files. */
static int tekken_default_special(struct tekken *k, int64_t id, mgpt_error *err)
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
    size_t n = strlen(text);
    return tekken_push(k, &k->specials, ckpt_text(k->t->c, text, n), n, id, err);
}

static int tekken_read_specials(struct tekken *k, const struct jval *list, mgpt_error *err)
{
    uint8_t *seen = mem_new((size_t)k->n_special, 1);
    int status = seen ? MGPT_OK : err_memory(err, k->t->file, (size_t)k->n_special);
    for (size_t i = 0; i < jval_size(list) && status == MGPT_OK; i++) {
        const struct jval *entry = jval_at(list, i), *text = jval_get(entry, "token_str");
        int64_t rank = tekken_number(entry, "rank");
        if (!jval_is(text, JVAL_STRING) || rank < 0 || rank >= k->n_special || seen[rank])
            status = hf_tok_refuse(k->t, "special_tokens", "an entry without its own rank", err);
        else
            status = tekken_push(k, &k->specials, jval_text(text), jval_text_size(text), rank, err);
        if (status == MGPT_OK)
            seen[rank] = 1;
    }
    for (int64_t i = 0; i < k->n_special && status == MGPT_OK; i++)
        if (!seen[i])
            status = tekken_default_special(k, i, err);
    free(seen);
    return status;
}

int hf_tok_is_tekken(struct span text)
{
    static const char key[] = "\"token_bytes\"";
    for (size_t i = 0; i + sizeof key <= text.size; i++)
        if (memcmp(text.data + i, key, sizeof key - 1) == 0)
            return 1;
    return 0;
}

int hf_tok_tekken(struct hf_tok *t, const struct jval *root, mgpt_error *err)
{
    struct tekken k = {.t = t};
    const struct jval *config = jval_get(root, "config"), *vocab = jval_get(root, "vocab");
    const struct jval *pattern = jval_get(config, "pattern");
    int64_t size = tekken_number(config, "default_vocab_size");
    k.n_special = tekken_number(config, "default_num_special_tokens");
    k.n_ranks = size - k.n_special;
    if (!jval_is(pattern, JVAL_STRING) || k.n_special < 3 || k.n_special > 100000 ||
        k.n_ranks < 256 || size > INT32_MAX)
        return hf_tok_refuse(
            t, "config", "expected pattern, default_vocab_size, default_num_special_tokens", err);
    int status = tekken_read_specials(&k, jval_get(root, "special_tokens"), err);
    for (size_t i = 0; i < jval_size(vocab) && status == MGPT_OK; i++)
        status = tekken_read_rank(&k, jval_at(vocab, i), err);
    const struct tiktoken tokens = {
        .ranks = k.ranks,
        .n_ranks = arr_len(k.ranks),
        .specials = k.specials,
        .n_specials = arr_len(k.specials),
        .first = k.n_special,
        .pattern = {jval_text(pattern), jval_text_size(pattern)},
        .bos = "<s>",
        .eos = "</s>",
    };
    if (status == MGPT_OK)
        status = tiktoken_read_as(t->c, &tokens, t->file, t->n_rows, err);
    if (status == MGPT_OK)
        t->c->vocab.eot = -1; /* BOS ends nothing here */
    arr_free(k.ranks);
    arr_free(k.specials);
    return status;
}
