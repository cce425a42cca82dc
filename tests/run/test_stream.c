/* Streams of text, through the public header: half characters are held back, what can
 * belong to none becomes U+FFFD, the space in front is dropped once, a small buffer changes
 * nothing. */
#include "base/utf8.h"
#include "support/build_model.h"
#include "support/tok_file.h"
#include "support/unit.h"

#define SPACE "\xE2\x96\x81"
#define BAD "\xEF\xBF\xBD" /* U+FFFD */

/* ids: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 bytes, then these */
enum { SP = 259, SP_A, A, USER, E_ACUTE, LONG };

struct streamed {
    struct tok_file f;
    mgpt_model *model;
    mgpt_stream s;
    char buf[512];
    size_t n; /* bytes in buf */
};

static int open_stream(void **state)
{
    struct streamed *x = calloc(1, sizeof *x);
    if (!x)
        return -1;
    *state = x;
    tok_file_begin(&x->f, "llama", NULL);
    tok_file_sentencepiece(&x->f, 1);
    tok_file_token(&x->f, SPACE, 1, 0);
    tok_file_token(&x->f, SPACE "a", 1, 0);
    tok_file_token(&x->f, "a", 1, 0);
    tok_file_token(&x->f, " u", 4, 0);
    tok_file_token(&x->f, "\xC3\xA9", 1, 0);
    tok_file_token(&x->f, "\xA9\xFFz\xF0\x9F", 1, 0);
    tok_file_encode(&x->f);
    x->model =
        mgpt_open_bytes(x->f.g.data, x->f.g.size, &(mgpt_model_params){.vocab_only = 1}, NULL);
    return x->model ? 0 : -1;
}

static int close_stream(void **state)
{
    struct streamed *x = *state;
    mgpt_close(x->model);
    tok_file_free(&x->f);
    free(x);
    return 0;
}

static void begin(struct streamed *x)
{
    x->s = (mgpt_stream){0};
    x->n = 0;
}

static void put_token(struct streamed *x, int32_t token)
{
    x->n += mgpt_stream_put(&x->s, x->model, token, x->buf + x->n, sizeof x->buf - x->n);
    assert_true(x->n <= sizeof x->buf);
}

static void end(struct streamed *x)
{
    x->n += mgpt_stream_end(&x->s, x->buf + x->n, sizeof x->buf - x->n);
    assert_int_equal(x->s.n_held, 0);
    assert_int_equal(x->s.started, 0);
}

static void holds(const struct streamed *x, const char *text)
{
    assert_int_equal(x->n, strlen(text));
    assert_memory_equal(x->buf, text, x->n);
}

static void put_byte_tokens(struct streamed *x, const char *bytes)
{
    for (; *bytes; bytes++)
        put_token(x, 3 + (uint8_t)*bytes);
}

enum { END = INT32_MIN };

/* Puts tokens up to END; the buffer then holds the text. */
static void gives(struct streamed *x, const char *text, ...)
{
    va_list ap;
    va_start(ap, text);
    for (int token = va_arg(ap, int); token != END; token = va_arg(ap, int))
        put_token(x, token);
    va_end(ap);
    holds(x, text);
}

TEST(space_in_front)
{
    struct streamed *x = *state;
    begin(x);
    gives(x, "a", 1, SP_A, END);          /* <s> is not text: what follows it is the beginning */
    gives(x, "a a  ", SP_A, SP, SP, END); /* only the first one */
    end(x);
    holds(x, "a a  ");
    gives(x, "a a  a", SP_A, END); /* a new text */
    begin(x);
    gives(x, "", SP, END);
    gives(x, " a", SP_A, END); /* the lone space was the one in front */
    begin(x);
    gives(x, "a a", A, SP_A, END);
    begin(x);
    gives(x, " u", USER, END); /* user-defined and byte tokens keep their space */
    begin(x);
    gives(x, " ", 3 + ' ', END);
}

TEST(half_characters)
{
    struct streamed *x = *state;
    begin(x);
    put_byte_tokens(x, "\xF0\x9F\x9A");
    holds(x, "");
    gives(x, "", 1, -1, 1 << 30, END); /* they print nothing and end nothing */
    put_byte_tokens(x, "\x80");
    gives(x, "\xF0\x9F\x9A\x80\xC3\xA9", E_ACUTE, END);
    put_byte_tokens(x, "\xE6\x97\xA5\n");
    end(x);
    holds(x, "\xF0\x9F\x9A\x80\xC3\xA9\xE6\x97\xA5\n");
}

TEST(bytes_that_belong_to_none)
{
    struct streamed *x = *state;
    begin(x);
    put_byte_tokens(x, "\xFF");
    holds(x, BAD);
    put_byte_tokens(x, "\xC3");
    holds(x, BAD); /* may still become a character */
    gives(x, BAD BAD "a", A, END);
    put_byte_tokens(x, "\xE6\x97");
    gives(x, BAD BAD "a" BAD BAD "\xC3\xA9", E_ACUTE, END);
    begin(x);
    put_byte_tokens(x,
                    "\xED\xA0\x80\xC0\xAF\x80"); /* a surrogate, an overlong form, a stray byte */
    holds(x, BAD BAD BAD BAD BAD BAD);
    begin(x);
    put_byte_tokens(x, "\xC3");
    gives(x, "\xC3\xA9" BAD "z", LONG,
          END); /* ends one character, has a bad byte, begins another */
    put_byte_tokens(x, "\x9A\x80");
    holds(x, "\xC3\xA9" BAD "z\xF0\x9F\x9A\x80");
}

TEST(end)
{
    struct streamed *x = *state;
    begin(x);
    put_byte_tokens(x, "\xF0\x9F\x9A");
    mgpt_stream before = x->s;
    assert_int_equal(mgpt_stream_end(&x->s, NULL, 0), 3); /* no room: still there */
    assert_memory_equal(&x->s, &before, sizeof before);
    end(x);
    holds(x, BAD); /* one for the character that never came */
    end(x);
    holds(x, BAD);
}

TEST(small_buffer)
{
    struct streamed *x = *state;
    char buf[8];
    begin(x);
    put_byte_tokens(x, "\xC3");
    mgpt_stream before = x->s;
    memset(buf, 'x', sizeof buf);
    for (size_t cap = 0; cap < 6; cap++) {
        assert_int_equal(mgpt_stream_put(&x->s, x->model, LONG, cap ? buf : NULL, cap), 6);
        assert_memory_equal(&x->s, &before, sizeof before);
        for (size_t i = cap; i < sizeof buf; i++)
            assert_int_equal(buf[i], 'x');
    }
    assert_int_equal(mgpt_stream_put(&x->s, x->model, LONG, buf, 6), 6);
    assert_memory_equal(buf, "\xC3\xA9" BAD "z", 6);
    assert_int_equal(x->s.n_held, 2);
}

TEST(arguments)
{
    struct streamed *x = *state;
    mgpt_stream s = {0}, wild;
    char buf[16];
    assert_int_equal(mgpt_stream_put(NULL, x->model, A, buf, 16), 0);
    assert_int_equal(mgpt_stream_put(&s, NULL, A, buf, 16), 0);
    assert_int_equal(mgpt_stream_put(&s, x->model, A, NULL, 16), 1); /* the size it needs */
    assert_int_equal(s.started, 0);
    assert_int_equal(mgpt_stream_end(NULL, buf, 16), 0);
    memset(&wild, 0xFF, sizeof wild); /* not zeroed: any text, but nothing out of bounds */
    assert_in_range(mgpt_stream_put(&wild, x->model, A, buf, 16), 1, 10);
}

/* Random bytes: the output is the text with each ill-formed byte replaced, an unfinished character
 * at the end by one U+FFFD, and is itself well-formed after every token. */
TEST(random_bytes)
{
    struct streamed *x = *state;
    uint64_t rng = 1;
    for (int round = 0; round < 2000; round++) {
        char text[40], want[200];
        size_t n = toy_random(&rng) % 40, at = 0;
        static const char likely[] = "a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x9A\x80\xFF\xED";
        for (size_t i = 0; i < n; i++)
            text[i] = likely[toy_random(&rng) % (sizeof likely - 1)];
        size_t unfinished = utf8_incomplete(text, n);
        begin(x);
        for (size_t i = 0; i < n; i++) {
            put_token(x, 3 + (uint8_t)text[i]);
            uint32_t code = 0;
            for (size_t k = 0; k < x->n && code != UTF8_BAD;)
                k += utf8_next(x->buf + k, x->n - k, &code);
            assert_int_not_equal(code, UTF8_BAD);
            assert_int_equal(x->s.n_held, utf8_incomplete(text, i + 1));
        }
        end(x);
        for (size_t i = 0; i < n - unfinished;) {
            uint32_t code;
            i += utf8_next(text + i, n - unfinished - i, &code);
            at += utf8_put(code, want + at);
        }
        if (unfinished)
            at += utf8_put(UTF8_BAD, want + at);
        assert_int_equal(x->n, at);
        assert_memory_equal(x->buf, want, at);
    }
}

GROUP(open_stream, close_stream)
