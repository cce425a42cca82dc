/* Contexts and continuations as tokens. See score_pair.h. */
#include "score/score_pair.h"

#include "base/error.h"
#include "base/utf8.h"
#include "common/text.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the text without the spaces at its end. */
static size_t strip_spaces(const char *text, size_t n)
{
    while (n > 0) {
        uint32_t c;
        size_t at = n - 1;
        while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80)
            at--;
        utf8_next(text + at, n - at, &c);
        if (!text_is_space(c))
            break;
        n = at;
    }
    return n;
}

static int32_t prefix_token(const struct engine *e)
{
    return e->info.bos >= 0 ? e->info.bos : e->info.eos;
}

/* As transformers' tokenizers do: with control tokens that are spelt out, and with BOS if the model
 * asks for it, unless the text begins with the name of the prefix token. */
static int encode_part(const struct engine *e, const char *text, size_t n_bytes, int no_bos,
                       int32_t **tokens, size_t *n, mgpt_error *err)
{
    size_t n_name = 0;
    const char *name = mgpt_token_text(e->model, prefix_token(e), &n_name);
    int has_bos = n_name > 0 && n_name <= n_bytes && memcmp(text, name, n_name) == 0;
    unsigned flags = MGPT_PARSE_SPECIAL | (has_bos || no_bos ? MGPT_NO_SPECIAL_TOKENS : 0);
    return engine_try_encode(e, text, n_bytes, flags, -1, tokens, n, err);
}

/* Keeps the last of n tokens, at most `most` of them, and gives the memory of the others back: of a long
 * context the model sees only these. Returns how many are left. */
static size_t keep_last(int32_t **tokens, size_t n, size_t most)
{
    size_t kept = n < most ? n : most;
    if (kept < n)
        memmove(*tokens, *tokens + n - kept, kept * sizeof **tokens);
    int32_t *smaller = realloc(*tokens, (kept + 1) * sizeof **tokens);
    if (smaller)
        *tokens = smaller;
    return kept;
}

/* Encodes both texts as one: the tokens of the context (text->n_context of them), then the
 * others. */
static int encode_both(const struct engine *e, const char *both, size_t n_bytes, size_t n_stripped,
                       int no_bos, struct scored_text *text, size_t *n, mgpt_error *err)
{
    int32_t *context = NULL;
    text->n_context = 1;
    if (n_stripped == 0 && prefix_token(e) < 0)
        return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET,
                       "an empty context, and the model has no BOS or EOS to begin with");
    if (n_stripped == 0)
        return engine_try_encode(e, both, n_bytes, MGPT_PARSE_SPECIAL | MGPT_NO_SPECIAL_TOKENS,
                                 prefix_token(e), &text->tokens, n, err);
    int status = encode_part(e, both, n_stripped, no_bos, &context, &text->n_context, err);
    size_t kept =
        status == MGPT_OK ? keep_last(&context, text->n_context, mgpt_n_ctx(e->session) + 1) : 0;
    if (status == MGPT_OK)
        status = encode_part(e, both, n_bytes, no_bos, &text->tokens, n, err);
    if (status == MGPT_OK && *n > text->n_context && kept > 0)
        memcpy(text->tokens + text->n_context - kept, context, kept * sizeof *context);
    free(context);
    return status;
}

/* Keeps of n tokens those that the model can see, and the last, which it only predicts. */
static int cut_left(const struct engine *e, struct scored_text *text, size_t n, mgpt_error *err)
{
    size_t n_ctx = mgpt_n_ctx(e->session);
    if (text->n_context == 0)
        return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET, "the context has no tokens");
    if (n <= text->n_context)
        return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET,
                       "the continuation has no token of its own: context and continuation are %zu "
                       "tokens, the context alone %zu",
                       n, text->n_context);
    text->n_scored = n - text->n_context;
    if (text->n_scored > n_ctx)
        return err_set(err, MGPT_ETEXT, MGPT_NO_OFFSET,
                       "the continuation has %zu tokens, the model's context holds %zu",
                       text->n_scored, n_ctx);
    text->cut = n > n_ctx + 1;
    text->n_context = keep_last(&text->tokens, n, n_ctx + 1) - text->n_scored;
    return MGPT_OK;
}

int score_pair_encode(const struct engine *e, const struct score_pair *pair, int no_bos,
                      struct scored_text *text, mgpt_error *err)
{
    size_t n_bytes = pair->n_context + pair->n_continuation, n;
    char *both = malloc(n_bytes + 1);
    if (!both)
        return err_memory(err, "the text", n_bytes);
    memcpy(both, pair->context, pair->n_context);
    memcpy(both + pair->n_context, pair->continuation, pair->n_continuation);
    int status = encode_both(e, both, n_bytes, strip_spaces(pair->context, pair->n_context), no_bos,
                             text, &n, err);
    free(both);
    return status < 0 ? status : cut_left(e, text, n, err);
}
