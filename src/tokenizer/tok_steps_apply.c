/* The steps that turn a text into another. See tok_steps.h. */
#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/tok_impl.h"
#include "tokenizer/tok_steps_impl.h"

static int step_code(char **to, uint32_t code)
{
    char utf8[4];
    return arr_append(to, utf8, utf8_put(code, utf8));
}

/* ---- characters ------------------------------------------------------------------------------ */

static int map_text(const struct char_map *map, const char *p, size_t n, char **out, int *at_start)
{
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        size_t n_to = 0;
        length = utf8_next(p + i, n - i, &code);
        const uint32_t *to = char_map_find(map, code, &n_to);
        if (!to && !arr_append(out, p + i, length))
            return 0;
        for (size_t k = 0; k < n_to; k++)
            if (!step_code(out, to[k]))
                return 0;
        if (to && n_to == 0 && i == 0)
            *at_start = 0;
    }
    return 1;
}

static int decompose_char(struct chars *c, const struct char_map *map, uint32_t code)
{
    uint32_t letters[3];
    size_t n_to;
    const uint32_t *to = char_map_find(map, code, &n_to);
    if (!to) {
        hangul_split(code, letters, &n_to);
        to = letters;
    }
    if (n_to == 0)
        return to != letters || chars_push(c, code);
    for (size_t k = 0; k < n_to; k++)
        if (!chars_push(c, to[k]))
            return 0;
    return 1;
}

/* Decomposes by `map`, or composes if it is NULL. */
static int normal_form(const struct tok_steps *s, const struct char_map *map, const char *p,
                       size_t n, char **out)
{
    struct chars c = {NULL};
    int ok = 1;
    for (size_t i = 0; i < n && ok;) {
        uint32_t code;
        i += utf8_next(p + i, n - i, &code);
        ok = map ? decompose_char(&c, map, code) : chars_push(&c, code);
    }
    if (ok && map)
        ok = chars_order(&c, s->classes);
    else if (ok)
        chars_compose(&c, s->classes, s->compositions);
    for (size_t i = 0; i < arr_len(c.p) && ok; i++)
        ok = step_code(out, c.p[i]);
    arr_free(c.p);
    return ok;
}

/* GPT-2's alphabet: visible bytes are themselves, the others U+0100 and up in their order. */
static uint32_t alphabet_code(uint8_t byte)
{
    if (byte < 33)
        return 0x100u + byte;
    if (byte >= 127 && byte <= 160)
        return 0x121u + byte - 127u;
    return byte == 173 ? 0x143u : byte;
}

static int write_bytes(const char *p, size_t n, char **out)
{
    for (size_t i = 0; i < n; i++)
        if (!step_code(out, alphabet_code((uint8_t)p[i])))
            return 0;
    return 1;
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* A replacement gets the offset of the last character of its match, as in Hugging Face's
 * tokenizers. */
static void note_start(const struct span_part *first, const struct step *step, const char *p,
                       size_t n, int *at_start)
{
    uint32_t code;
    if (step->op != STEP_REPLACE || !first->is_match || first->to == 0)
        return;
    if (step->text.n == 0 || first->to > utf8_next(p, n, &code))
        *at_start = 0;
}

static int replace_matches(const struct step *step, const char *p, size_t n, char **out,
                           int *at_start, mgpt_error *err)
{
    struct span_part *parts = NULL;
    int ok = 1, status = regex_parts(step->regex, p, n, &parts, err);
    for (size_t i = 0; status == MGPT_OK && i < arr_len(parts) && ok; i++) {
        int keep = !parts[i].is_match || step->op == STEP_SURROUND;
        if (parts[i].is_match)
            ok = arr_append(out, step->text.p, step->text.n);
        if (keep && ok)
            ok = arr_append(out, p + parts[i].from, parts[i].to - parts[i].from);
        if (parts[i].is_match && keep && ok)
            ok = arr_append(out, step->text.p, step->text.n);
    }
    if (status == MGPT_OK && arr_len(parts) > 0)
        note_start(&parts[0], step, p, n, at_start);
    arr_free(parts);
    return status < 0 || ok ? status : err_memory(err, "a normalized text", n);
}

/* ---- the charsmap ---------------------------------------------------------------------------- */

struct charsmap_text {
    char **out;
    mgpt_error *err;
};

static int put_replaced(void *user, struct gguf_str text)
{
    struct charsmap_text *to = user;
    if (arr_append(to->out, text.p, text.n))
        return MGPT_OK;
    return err_memory(to->err, "a normalized text", text.n);
}

static int replace_graphemes(const struct tok_charsmap *map, const char *p, size_t n, char **out,
                             mgpt_error *err)
{
    struct charsmap_text to = {out, err};
    const struct charsmap_sink sink = {put_replaced, &to, err};
    return tok_charsmap_graphemes(map, p, n, &sink);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int strip_text(unsigned sides, const char *p, size_t n, char **out, int *at_start)
{
    size_t from = sides & 1 ? tok_strip_right(p, 0, n) : 0;
    size_t to = sides & 2 ? tok_strip_left(p, from, n) : n;
    if (from > 0)
        *at_start = 0;
    return arr_append(out, p + from, to - from);
}

int step_apply(const struct tok_steps *s, const struct step *step, const char *p, size_t n,
               char **out, int *at_start, mgpt_error *err)
{
    int ok = arr_reserve(*out, n + 16);
    if (ok)
        arr_set_len(*out, 0);
    if (ok && (step->op == STEP_REPLACE || step->op == STEP_SURROUND))
        return replace_matches(step, p, n, out, at_start, err);
    if (ok && step->op == STEP_CHARSMAP)
        return replace_graphemes(s->charsmap, p, n, out, err);
    if (ok && step->op == STEP_MAP)
        ok = map_text(step->map, p, n, out, at_start);
    else if (ok && (step->op == STEP_DECOMPOSE || step->op == STEP_COMPOSE))
        ok = normal_form(s, step->map, p, n, out);
    else if (ok && step->op == STEP_STRIP)
        ok = strip_text(step->how, p, n, out, at_start);
    else if (ok && step->op == STEP_BYTES)
        ok = write_bytes(p, n, out);
    else if (ok) /* STEP_PREPEND, STEP_LEAD */
        ok = (n == 0 || arr_append(out, step->text.p, step->text.n)) && arr_append(out, p, n);
    return ok ? MGPT_OK : err_memory(err, "a normalized text", n);
}
