/* Streams of text: take tokens, write whole characters of valid UTF-8. See mgpt.h.
 *
 * A stream holds at most the three bytes of an unfinished character. Nothing is allocated; a call
 * that does not fit into the caller's buffer changes nothing.
 */
#include "mgpt.h"

#include "base/utf8.h"
#include "model/model.h"
#include "tokenizer/tok.h"

#include <string.h>

struct stream_writer {
    char *buf;
    size_t cap, n; /* n also counts bytes that do not fit */
};

static void stream_put_code(struct stream_writer *w, uint32_t code)
{
    char utf8[4];
    size_t n = utf8_put(code, utf8); /* UTF8_BAD becomes U+FFFD */
    if (w->n <= w->cap && n <= w->cap - w->n)
        memcpy(w->buf + w->n, utf8, n);
    w->n += n;
}

/* Appends one byte to the held ones. Writes complete characters, and U+FFFD for invalid bytes. */
static void stream_put_byte(struct stream_writer *w, mgpt_stream *s, char byte)
{
    char held[sizeof s->held];
    size_t n = s->n_held & 3u, length;
    if (n == 0 && (unsigned char)byte < 0x80) { /* the usual case is a character of its own */
        if (w->n < w->cap)
            w->buf[w->n] = byte;
        w->n++;
        return;
    }
    memcpy(held, s->held, sizeof held);
    held[n++] = byte;
    for (; n > 0 && utf8_incomplete(held, n) < n; n -= length) {
        uint32_t code;
        length = utf8_next(held, n, &code);
        stream_put_code(w, code);
        memmove(held, held + length, n - length);
    }
    memcpy(s->held, held, sizeof held);
    s->n_held = (uint8_t)n;
}

size_t mgpt_stream_put(mgpt_stream *stream, const mgpt_model *model, int32_t token, char *buf,
                       size_t cap)
{
    if (!stream || !model)
        return 0;
    const struct tok *t = model_tok(model);
    struct stream_writer w = {buf, buf ? cap : 0, 0};
    mgpt_stream after = *stream;
    size_t n;
    const char *piece = tok_piece(t, token, &n);
    size_t i = !stream->started && tok_drops_space(t, token) ? 1 : 0;
    if (n > 0)
        after.started = 1;
    for (; i < n; i++)
        stream_put_byte(&w, &after, piece[i]);
    if (w.n <= w.cap)
        *stream = after;
    return w.n;
}

size_t mgpt_stream_end(mgpt_stream *stream, char *buf, size_t cap)
{
    if (!stream)
        return 0;
    struct stream_writer w = {buf, buf ? cap : 0, 0};
    if (stream->n_held > 0)
        stream_put_code(&w, UTF8_BAD);
    if (w.n <= w.cap)
        *stream = (mgpt_stream){0};
    return w.n;
}
