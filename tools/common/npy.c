/* .npy headers. See npy.h. The dictionary is a Python literal; the three keys that NumPy writes
 * are accepted, each exactly once, in any order. */
#include "common/npy.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/error.h"
#include "dtype/dtype.h"

#include <string.h>

enum { DICTIONARY = 10 }; /* its offset in version 1: for messages */

struct scan {
    const char *p, *end;
    const char *begin;
    size_t base; /* offset of begin in the file */
};

static int bad_header(const struct scan *s, mgpt_error *err, const char *expected)
{
    return err_set(err, MGPT_EFILE, s->base + (size_t)(s->p - s->begin), "npy header: expected %s",
                   expected);
}

static void skip_spaces(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n'))
        s->p++;
}

static int take_char(struct scan *s, char c)
{
    skip_spaces(s);
    if (s->p >= s->end || *s->p != c)
        return 0;
    s->p++;
    return 1;
}

static int take_word(struct scan *s, const char *word)
{
    size_t n = strlen(word);
    skip_spaces(s);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return 0;
    s->p += n;
    return 1;
}

/* A short string in either kind of quotes, copied without them. */
static int take_string(struct scan *s, char *out, size_t cap)
{
    skip_spaces(s);
    char quote = s->p < s->end ? *s->p : (char)0;
    if (quote != '\'' && quote != '"')
        return 0;
    const char *from = s->p + 1, *to = memchr(from, quote, (size_t)(s->end - from));
    if (!to || (size_t)(to - from) >= cap)
        return 0;
    memcpy(out, from, (size_t)(to - from));
    out[to - from] = 0;
    s->p = to + 1;
    return 1;
}

static int take_digits(struct scan *s, uint64_t *n)
{
    skip_spaces(s);
    const char *from = s->p;
    for (*n = 0; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        if (!ck_mul(*n, 10, n) || !ck_add(*n, (uint64_t)(*s->p - '0'), n))
            return 0;
    return s->p > from;
}

/* "<f4", "|b1", "<U12", "|O" */
static int parse_descr(struct scan *s, struct npy *npy, mgpt_error *err)
{
    uint64_t width = 0;
    skip_spaces(s);
    const size_t at = s->base + (size_t)(s->p - s->begin);
    if (!take_string(s, npy->descr, sizeof npy->descr))
        return bad_header(s, err, "a simple element type such as '<f4'");
    const char *text = npy->descr;
    struct scan digits = {text + 2, text + strlen(text), text, 0};
    npy->kind = text[0] ? text[1] : (char)0;
    int ends = npy->kind && (!text[2] || take_digits(&digits, &width)) && digits.p == digits.end;
    int known = ends && (text[0] == '<' || text[0] == '|') && strchr("fiubUSOV", npy->kind);
    if (!known || width > 1u << 20)
        return err_set(err, MGPT_EFILE, at,
                       "npy header: element type '%s', expected <f2 <f4 <f8 <i4 <i8", npy->descr);
    npy->width = (unsigned)width * (npy->kind == 'U' ? 4 : 1);
    return MGPT_OK;
}

static int parse_order(struct scan *s, struct npy *npy, mgpt_error *err)
{
    npy->fortran = take_word(s, "True");
    if (npy->fortran || take_word(s, "False"))
        return MGPT_OK;
    return bad_header(s, err, "False");
}

/* "(4, 27)", "(4,)", "()". */
static int parse_shape(struct scan *s, struct npy *npy, mgpt_error *err)
{
    if (!take_char(s, '('))
        return bad_header(s, err, "a shape such as (4, 27)");
    while (!take_char(s, ')')) {
        if (npy->n_dims == NPY_MAX_DIMS)
            return bad_header(s, err, "at most 4 dimensions");
        if (!take_digits(s, &npy->dims[npy->n_dims]))
            return bad_header(s, err, "a dimension below 2^64");
        npy->n_dims++;
        if (!take_char(s, ',') && !(s->p < s->end && *s->p == ')'))
            return bad_header(s, err, "',' or ')'");
    }
    return MGPT_OK;
}

static int parse_entry(struct scan *s, struct npy *npy, unsigned *seen, mgpt_error *err)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[16];
    unsigned k = 0;
    const char *at = s->p;
    if (!take_string(s, key, sizeof key))
        return bad_header(s, err, "a key");
    while (k < 3 && strcmp(key, keys[k]) != 0)
        k++;
    if (k == 3 || (*seen & 1u << k)) {
        s->p = at;
        return bad_header(s, err, "each of descr, fortran_order, shape once");
    }
    *seen |= 1u << k;
    if (!take_char(s, ':'))
        return bad_header(s, err, "':'");
    if (k == 0)
        return parse_descr(s, npy, err);
    return k == 1 ? parse_order(s, npy, err) : parse_shape(s, npy, err);
}

static int parse_dictionary(struct scan *s, struct npy *npy, mgpt_error *err)
{
    unsigned seen = 0;
    if (!take_char(s, '{'))
        return bad_header(s, err, "'{'");
    while (!take_char(s, '}')) {
        int status = parse_entry(s, npy, &seen, err);
        if (status < 0)
            return status;
        if (!take_char(s, ',') && !(s->p < s->end && *s->p == '}'))
            return bad_header(s, err, "',' or '}'");
    }
    if (seen != 7)
        return bad_header(s, err, "descr, fortran_order and shape");
    skip_spaces(s);
    return s->p == s->end ? MGPT_OK : bad_header(s, err, "nothing after '}'");
}

static int set_size(struct npy *npy, size_t base, mgpt_error *err)
{
    npy->n_bytes = npy->width;
    for (unsigned i = 0; i < npy->n_dims; i++)
        if (!ck_mul(npy->n_bytes, npy->dims[i], &npy->n_bytes))
            return err_set(err, MGPT_EFILE, base, "npy header: the shape overflows");
    return MGPT_OK;
}

int npy_header(struct npy *npy, const void *data, size_t n, mgpt_error *err)
{
    struct cursor c = cursor_over(data, n);
    const uint8_t *magic = cursor_take(&c, 6);
    uint8_t major = cursor_u8(&c), minor = cursor_u8(&c);
    if (!magic || memcmp(magic, "\x93NUMPY", 6) != 0)
        return err_set(err, MGPT_EFILE, 0, "not a .npy array: no \\x93NUMPY at its beginning");
    if (!c.failed && (major < 1 || major > 3 || minor))
        return err_set(err, MGPT_EFILE, 6, "npy version %u.%u, expected 1.0 to 3.0",
                       (unsigned)major, (unsigned)minor);
    uint64_t length = cursor_uint(&c, major == 1 ? 2 : 4);
    size_t base = c.pos;
    const uint8_t *text = cursor_take(&c, length);
    if (!text)
        return err_set(err, MGPT_EFILE, c.where,
                       "npy header: says %llu bytes, %zu are there (at most %d are read)",
                       (unsigned long long)length, n - base, (int)NPY_MAX_HEADER);
    const char *begin = (const char *)text;
    struct scan s = {begin, begin + length, begin, base};
    *npy = (struct npy){.header = c.pos};
    int status = parse_dictionary(&s, npy, err);
    return status < 0 ? status : set_size(npy, base, err);
}

int npy_plain(const struct npy *npy, mgpt_error *err)
{
    static const char known[][4] = {"<f2", "<f4", "<f8", "<i4", "<i8"};
    if (npy->fortran)
        return err_set(err, MGPT_EFILE, DICTIONARY,
                       "npy header: Fortran order, expected C order (numpy.ascontiguousarray)");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(npy->descr, known[i]) == 0)
            return MGPT_OK;
    return err_set(err, MGPT_EFILE, DICTIONARY,
                   "npy header: element type '%s', expected <f2 <f4 <f8 <i4 <i8", npy->descr);
}

int npy_parse(struct npy *npy, const void *data, size_t n, mgpt_error *err)
{
    int status = npy_header(npy, data, n, err);
    return status < 0 ? status : npy_plain(npy, err);
}

double npy_real(const struct npy *npy, const uint8_t *data, size_t i)
{
    struct cursor c = cursor_over(data + i * npy->width, npy->width);
    uint64_t bits = cursor_uint(&c, npy->width);
    double real;
    if (npy->kind == 'i')
        return (double)npy_integer(npy, data, i);
    if (npy->width == 2)
        return (double)f16_to_f32((uint16_t)bits);
    if (npy->width == 4) {
        uint32_t half = (uint32_t)bits;
        float single;
        memcpy(&single, &half, sizeof single);
        return (double)single;
    }
    memcpy(&real, &bits, sizeof real);
    return real;
}

int64_t npy_integer(const struct npy *npy, const uint8_t *data, size_t i)
{
    struct cursor c = cursor_over(data + i * npy->width, npy->width);
    uint64_t bits = cursor_uint(&c, npy->width);
    int64_t wide;
    if (npy->width == 4 && bits >> 31)
        bits |= UINT64_MAX << 32; /* the sign of 32 bits, in 64 */
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}
