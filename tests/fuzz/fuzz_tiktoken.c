/* Fuzz target: tiktoken vocabularies. The input is a byte of settings, then lines.
 *
 * They are read as a .tiktoken file, of which the syntax is all that can be right here (a pattern
 * is known only for vocabularies of the published sizes), and as ranks after those of the 256
 * bytes, as nanochat's pickle gives them to tiktoken_read.
 */
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "support/tiktoken_run.h"

enum { MOST = 512, N_BYTES = 256 };

static const char *const patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
    "\\w+",
};

static struct tiktoken_token token(const char *p, size_t n, int64_t rank)
{
    return (struct tiktoken_token){.text = {p, n}, .rank = rank};
}

/* Each byte, then a token for each line. A line is a letter and the token's text. The letter is the
 * distance of the rank from the next free one: 'A' 0, 'B' 1, '@' -1. */
static size_t make_ranks(struct tiktoken_token *ranks, const char *text, size_t n)
{
    static char bytes[N_BYTES];
    size_t n_ranks = 0;
    for (; n_ranks < N_BYTES; n_ranks++) {
        bytes[n_ranks] = (char)n_ranks;
        ranks[n_ranks] = token(&bytes[n_ranks], 1, (int64_t)n_ranks);
    }
    for (const char *end = text + n; text < end && n_ranks < MOST; n_ranks++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        int64_t away = text < stop ? *text++ - 'A' : 0;
        ranks[n_ranks] = token(text, (size_t)(stop - text), (int64_t)n_ranks + away);
        text = stop + (stop < end);
    }
    return n_ranks;
}

static void see_vocabulary(const struct checkpoint *c, const mgpt_error *err)
{
    const struct ckpt_vocab *v = &c->vocab;
    fuzz_saw_error(err);
    fuzz_saw(v->types, arr_len(v->types) * sizeof *v->types);
    for (size_t i = 0; i < arr_len(v->tokens); i++)
        fuzz_saw(v->tokens[i].p, v->tokens[i].n);
    for (size_t i = 0; i < arr_len(v->merges); i++)
        fuzz_saw(v->merges[i].p, v->merges[i].n);
    if (v->pre)
        fuzz_saw(v->pre, strlen(v->pre));
}

static void read_ranks(const char *text, size_t n, uint8_t how)
{
    static const char *const names[] = {NULL, "<|bos|>", "<|x|>", ""};
    struct tiktoken_token ranks[MOST], specials[2];
    struct checkpoint c;
    mgpt_error err = {0};
    size_t n_ranks = make_ranks(ranks, text, n);
    const char *pattern = patterns[how % 3];
    specials[0] = token("<|bos|>", 7, (int64_t)n_ranks);
    specials[1] = token(text, n < 8 ? n : 8, (int64_t)n_ranks + 1);
    const struct tiktoken t = {.ranks = ranks,
                               .n_ranks = n_ranks,
                               .specials = specials,
                               .n_specials = how >> 2 & 1 ? 2 : 1,
                               .pattern = {pattern, strlen(pattern)},
                               .bos = names[how >> 3 & 3],
                               .eos = names[how >> 5 & 3]};
    ckpt_init(&c);
    int status = tiktoken_status((struct tiktoken_run){.c = &c, .t = &t, .n_rows = MOST + 2}, &err);
    MUST(status == MGPT_OK || (err.status == status && err.text[0] && !strchr(err.text, '\n')));
    see_vocabulary(&c, &err);
    ckpt_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct feed f = {data, size};
    uint8_t how = feed_byte(&f);
    struct checkpoint c;
    mgpt_error err = {0};
    struct span bytes = {f.data, f.size};
    ckpt_init(&c);
    tiktoken_sniff(bytes);
    if (tiktoken_status((struct tiktoken_run){.c = &c, .file = bytes, .n_rows = 300000}, &err) < 0)
        MUST(err.status < 0 && err.text[0] && !strchr(err.text, '\n'));
    see_vocabulary(&c, &err);
    ckpt_free(&c);
    read_ranks((const char *)f.data, f.size, how);
    return 0;
}
