/* Banned texts: where a text that has completed one goes back to. See chooser.h.
 *
 * Bytes are compared, wherever the borders of tokens are. The text goes back to before the token in which the
 * banned text began, and that token is not drawn again at this position while the text before it is the same.
 */
#include "base/mem.h"
#include "choose/chooser.h"

#include <string.h>

/* Walks the bytes of tokens backwards. */
struct back_bytes {
    const struct chooser *c;
    const int32_t *tokens;
    size_t token, n; /* the current one, and how many of its bytes have not been passed */
    const char *bytes;
};

static void enter_token(struct back_bytes *b, size_t token)
{
    b->token = token;
    b->bytes = mgpt_piece(b->c->rules->model, b->tokens[token], &b->n);
}

/* The byte before, or -1 where the drawn text begins. */
static int byte_before(struct back_bytes *b)
{
    while (b->n == 0) {
        if (b->token <= b->c->begin)
            return -1;
        enter_token(b, b->token - 1);
    }
    return (unsigned char)b->bytes[--b->n];
}

/* 1 if `n` bytes end where b is; then b is at their first. */
static int ends_with(struct back_bytes *b, const char *bytes, size_t n)
{
    while (n > 0 && byte_before(b) == (unsigned char)bytes[n - 1])
        n--;
    return n == 0;
}

/* Where a banned text ends with one of the last token's first `n` bytes: the position where it began. */
static size_t find_ban(const struct chooser *c, struct back_bytes at, size_t n_tokens,
                       const struct edit_text **text)
{
    const struct edit_text *bans = c->rules->texts[EDIT_BAN];
    for (size_t i = 0; i < arr_len(bans); i++) {
        struct back_bytes b = at;
        if (ends_with(&b, bans[i].bytes, bans[i].n)) {
            *text = &bans[i];
            return b.token;
        }
    }
    return n_tokens;
}

int64_t chooser_back(struct chooser *c, const int32_t *tokens, size_t n_tokens,
                     const struct edit_text **text)
{
    const struct edit_text *found = NULL;
    if (!c->is_on || !edit_rules_is_on(c->rules, EDIT_BAN) || n_tokens <= c->begin)
        return (int64_t)n_tokens;
    struct back_bytes last = {.c = c, .tokens = tokens};
    enter_token(&last, n_tokens - 1);
    size_t n_last = last.n, to = n_tokens;
    for (last.n = 1; last.n <= n_last && to == n_tokens; last.n++)
        to = find_ban(c, last, n_tokens, &found);
    if (to == n_tokens)
        return (int64_t)n_tokens;
    size_t kept = arr_len(c->banned);
    while (kept > 0 && c->banned[kept - 1].at > to)
        kept--;
    struct banned ban = {to, tokens[to]};
    if (c->banned)
        arr_set_len(c->banned, kept);
    if (text)
        *text = found;
    return arr_push(c->banned, ban) ? (int64_t)to : MGPT_EMEM;
}

size_t chooser_final(const struct chooser *c, const int32_t *tokens, size_t n_tokens)
{
    size_t final = n_tokens;
    if (!c->is_on || n_tokens <= c->begin)
        return n_tokens;
    const struct edit_text *bans = c->rules->texts[EDIT_BAN];
    for (size_t i = 0; i < arr_len(bans); i++)
        for (size_t n = bans[i].n - 1; n > 0; n--) {
            struct back_bytes b = {.c = c, .tokens = tokens};
            enter_token(&b, n_tokens - 1);
            if (ends_with(&b, bans[i].bytes, n) && b.token < final)
                final = b.token;
        }
    return final;
}
