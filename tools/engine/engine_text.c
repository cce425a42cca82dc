/* Texts to tokens, and what fits a context. See engine.h. */
#include "engine/engine.h"

#include "base/check.h"
#include "base/error.h"
#include "common/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { UTF8_MOST = 4 };

/* Room for n tokens; the old array is freed. */
static int32_t *token_room(int32_t *old, size_t n)
{
    size_t bytes;
    free(old);
    return ck_bytes(n, sizeof *old, &bytes) ? malloc(bytes) : NULL;
}

size_t engine_front(const struct engine *e, int32_t bos, int32_t front[ENGINE_FRONT])
{
    size_t n = e->info.add_bos > 1 && bos == e->info.bos ? (size_t)e->info.add_bos : bos >= 0;
    if (n > 1 && n <= ENGINE_FRONT / 2)
        mgpt_encode(e->model, "", 0, 0, front, ENGINE_FRONT, NULL);
    else if (n > 0)
        front[0] = bos;
    return n <= ENGINE_FRONT / 2 ? n : 1;
}

/* tokens[n_front ..] are a text: puts `front` there, unless the text begins with its first. */
static void put_front(int32_t *tokens, size_t *n, const int32_t *front, size_t n_front)
{
    if (n_front == 0)
        return;
    if (*n > 0 && tokens[n_front] == front[0]) {
        memmove(tokens, tokens + n_front, *n * sizeof *tokens);
        return;
    }
    memcpy(tokens, front, n_front * sizeof *tokens);
    *n += n_front;
}

static int encode_prompt(const struct engine *e, const char *text, size_t n_bytes, unsigned flags,
                         int32_t bos, int32_t **tokens, size_t *n, mgpt_error *err)
{
    int32_t front[ENGINE_FRONT];
    size_t n_front = engine_front(e, bos, front), cap = n_bytes + 4; /* enough for most texts */
    for (;;) {
        *tokens = token_room(*tokens, cap + n_front + 1);
        if (!*tokens)
            return err_memory(err, "the tokens", cap);
        int64_t count = mgpt_encode(e->model, text, n_bytes, flags, *tokens + n_front, cap, err);
        if (count < 0)
            return (int)count;
        *n = (size_t)count;
        if (*n <= cap) {
            put_front(*tokens, n, front, n_front);
            return MGPT_OK;
        }
        cap = *n;
    }
}

int engine_try_encode(const struct engine *e, const char *text, size_t n_bytes, unsigned flags,
                      int32_t bos, int32_t **tokens, size_t *n, mgpt_error *err)
{
    size_t n_normal = n_bytes;
    char *normal = NULL;
    *tokens = NULL;
    *n = 0;
    int status = e->info.nfc ? nfc_copy(text, n_bytes, &normal, &n_normal, err) : MGPT_OK;
    if (status == MGPT_OK)
        status = encode_prompt(e, normal ? normal : text, n_normal, flags, bos, tokens, n, err);
    free(normal);
    return status;
}

int engine_encode(const struct engine *e, const char *what, const char *text, size_t n_bytes,
                  unsigned flags, int32_t bos, int32_t **tokens, size_t *n)
{
    mgpt_error err;
    int status = engine_try_encode(e, text, n_bytes, flags, bos, tokens, n, &err);
    return status < 0 ? cli_fail(what, &err) : EXIT_OK;
}

int32_t engine_token_of(const struct engine *e, const char *bytes, size_t n)
{
    return edit_token_of(e->model, bytes, n);
}

int engine_fits(const struct engine *e, const char *what, size_t n)
{
    size_t n_ctx = mgpt_n_ctx(e->session);
    if (n <= n_ctx)
        return EXIT_OK;
    cli_note("%s: %zu tokens, but the context holds %zu", what, n, n_ctx);
    return EXIT_FULL;
}

/* The bytes of text that one token can take: its longest piece or name, or a character without a
 * piece. Composing (NFC) makes at most three of a character's bytes one. */
static size_t longest_piece(const struct engine *e)
{
    size_t longest = UTF8_MOST;
    for (int32_t id = 0; id < e->info.n_tokens; id++) {
        size_t n_piece, n_name;
        mgpt_piece(e->model, id, &n_piece);
        mgpt_token_text(e->model, id, &n_name);
        longest = n_piece > longest ? n_piece : longest;
        longest = n_name > longest ? n_name : longest;
    }
    return e->info.nfc ? 3 * longest : longest;
}

size_t engine_text_bytes(const struct engine *e)
{
    size_t n_ctx = (size_t)(e->n_ctx > 0 ? e->n_ctx : e->info.n_ctx), bytes;
    return ck_bytes(n_ctx + 1, longest_piece(e), &bytes) ? bytes : SIZE_MAX; /* and a line's end */
}

size_t engine_n_choices(const struct engine *e)
{
    int32_t n = e->info.n_tokens;
    return (size_t)(n > 0 && n < e->info.n_vocab ? n : e->info.n_vocab);
}
