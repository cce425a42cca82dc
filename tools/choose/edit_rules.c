/* What the edits are set to. See edit_rules.h. */
#include "choose/edit_rules.h"

#include "base/error.h"
#include "base/mem.h"
#include "choose/shortest.h"
#include "common/unescape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDIT_COUNT(...) (int)(sizeof((struct edit_part[]){__VA_ARGS__}) / sizeof(struct edit_part))
#define EDIT_ROW(id, kind, name, argument, help, ...)                                              \
    {name, argument, help, EDIT_##kind, {__VA_ARGS__}, EDIT_COUNT(__VA_ARGS__)},
const struct edit_setting edit_settings[EDIT_N] = {EDIT_SETTINGS(EDIT_ROW)};

enum edit_id edit_setting_named(const char *name)
{
    for (int id = 0; id < EDIT_N; id++) {
        const char *a = edit_settings[id].name, *b = name;
        while (*a && (*a == *b || (*a == '-' && *b == '_'))) {
            a++;
            b++;
        }
        if (!*a && !*b)
            return (enum edit_id)id;
    }
    return EDIT_N;
}

void edit_rules_begin(struct edit_rules *r, const mgpt_model *model)
{
    mgpt_info info = {.n_tokens = 0};
    mgpt_get_info(model, &info, NULL);
    *r = (struct edit_rules){
        .model = model, .n_tokens = (size_t)info.n_tokens, .n_logits = (size_t)info.n_vocab};
    for (int id = 0; id < EDIT_N; id++)
        edit_rules_clear(r, (enum edit_id)id);
}

void edit_rules_clear(struct edit_rules *r, enum edit_id id)
{
    for (int i = 0; i < EDIT_PARTS; i++)
        r->value[id][i] = edit_settings[id].parts[i].usual;
    for (size_t i = 0; i < arr_len(r->texts[id]); i++) {
        free(r->texts[id][i].given);
        free(r->texts[id][i].bytes);
    }
    arr_free(r->texts[id]);
    r->texts[id] = NULL;
    if (id == EDIT_REGEX)
        pattern_free(&r->pattern);
}

void edit_rules_free(struct edit_rules *r)
{
    for (int id = 0; r->model && id < EDIT_N; id++)
        edit_rules_clear(r, (enum edit_id)id);
    free(r->breaks);
    r->breaks = NULL;
    if (r->trie)
        token_trie_free(r->trie);
    free(r->trie);
    r->trie = NULL;
}

/* ---- numbers ---- */

static int refuse_part(const struct edit_setting *s, int i, const char *found, mgpt_error *err)
{
    const struct edit_part *p = &s->parts[i];
    char range[64], number[60] = "";
    snprintf(range, sizeof range, "%.10g to %.10g", p->least, p->most);
    if (s->n_parts > 1)
        snprintf(number, sizeof number, " as number %d of %s", i + 1, s->argument);
    return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "expected a %snumber from %s%s, found '%.40s'",
                   p->whole ? "whole " : "", range, number, found);
}

/* "1.5:2": numbers that are not there are the usual ones. */
static int set_numbers(struct edit_rules *r, enum edit_id id, const char *text, mgpt_error *err)
{
    const struct edit_setting *s = &edit_settings[id];
    double value[EDIT_PARTS];
    const char *at = text;
    for (int i = 0; i < EDIT_PARTS; i++)
        value[i] = s->parts[i].usual;
    for (int i = 0; at; i++) {
        char *end;
        if (i == s->n_parts)
            return err_set(err, MGPT_EARG, MGPT_NO_OFFSET, "expected %s, found '%.40s'",
                           s->argument, text);
        value[i] = strtod(at, &end);
        if (end == at || (*end && *end != ':') || *at == ' ' || *at == '\t' || *at == '\n' ||
            !(value[i] >= s->parts[i].least && value[i] <= s->parts[i].most) ||
            (s->parts[i].whole && value[i] != floor(value[i])) ||
            (id == EDIT_MIROSTAT && i == 0 && value[i] == 1))
            return refuse_part(s, i, text, err);
        at = *end ? end + 1 : NULL;
    }
    memcpy(r->value[id], value, sizeof value);
    return MGPT_OK;
}

/* llama.cpp's: a repetition does not go through a token that has one of these. */
static int breaks_repetition(const mgpt_model *model, int32_t token)
{
    size_t n;
    const char *bytes = mgpt_piece(model, token, &n);
    for (size_t i = 0; i < n; i++)
        if (memchr("\n:\"*", bytes[i], 4))
            return 1;
    return 0;
}

static int find_breaks(struct edit_rules *r, mgpt_error *err)
{
    if (r->breaks)
        return MGPT_OK;
    r->breaks = mem_new(r->n_tokens, 1);
    if (!r->breaks)
        return err_memory(err, "the vocabulary", r->n_tokens);
    for (size_t i = 0; i < r->n_tokens; i++)
        r->breaks[i] = (uint8_t)breaks_repetition(r->model, (int32_t)i);
    return MGPT_OK;
}

/* ---- texts ---- */

/* "TOKEN+1.5", "17-inf": the last sign is the one before the number. */
static int read_bias(const struct edit_rules *r, struct edit_text *t, mgpt_error *err)
{
    size_t sign = strlen(t->bytes);
    char *end = NULL;
    while (sign > 0 && t->bytes[sign - 1] != '+' && t->bytes[sign - 1] != '-')
        sign--;
    double add = sign > 1 ? strtod(t->bytes + sign, &end) : NAN;
    if (!end || *end || end == t->bytes + sign || isnan(add))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "expected TOKEN+NUMBER or TOKEN-NUMBER, found '%.60s'", t->given);
    t->add = (float)(t->bytes[sign - 1] == '-' ? -add : add);
    t->bytes[sign - 1] = 0;
    long long id = strtoll(t->bytes, &end, 10);
    if (*t->bytes >= '0' && *t->bytes <= '9' && !*end) {
        t->token = id < (long long)r->n_tokens ? (int32_t)id : -1;
    } else {
        char *name = t->bytes;
        size_t n = strlen(name);
        if (n > 2 && *name == '"' && name[n - 1] == '"') {
            name++;
            n -= 2;
        }
        int64_t length = text_unescape(name, n);
        t->token = length < 0 ? -1 : edit_token_of(r->model, name, (size_t)length);
        if (t->token < 0 && length > 0) /* "<|endoftext|>" has no bytes */
            t->token = edit_token_with(r->model, mgpt_token_text, name, (size_t)length);
    }
    return t->token >= 0
               ? MGPT_OK
               : err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                         "expected an id below %zu or the text of one token, found '%.60s'",
                         r->n_tokens, t->given);
}

static int read_ban(const struct edit_rules *r, struct edit_text *t, mgpt_error *err)
{
    int64_t n = text_unescape(t->bytes, strlen(t->bytes));
    t->n = n < 0 ? 0 : (size_t)n;
    if (text_is_none(r->model))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "the model has no vocabulary, so its text is ids");
    return t->n > 0
               ? MGPT_OK
               : err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                         "expected a text with escapes as \\n, \\xHH, found '%.60s'", t->given);
}

static int open_trie(struct edit_rules *r, mgpt_error *err)
{
    struct token_trie trie = {.longest = 0};
    if (r->trie)
        return MGPT_OK;
    int status = token_trie_open(&trie, r->model, err);
    if (status < 0)
        return status;
    r->trie = mem_new(1, sizeof *r->trie);
    if (!r->trie) {
        token_trie_free(&trie);
        return err_memory(err, "the vocabulary", sizeof trie);
    }
    *r->trie = trie;
    return MGPT_OK;
}

/* The expression takes the place of the one before. */
static int read_regex(struct edit_rules *r, const struct edit_text *t, mgpt_error *err)
{
    struct pattern pattern;
    struct regex probe = {.failed = 0};
    if (text_is_none(r->model))
        return err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                       "the model has no vocabulary, so its text is ids");
    int status = open_trie(r, err);
    if (status == MGPT_OK)
        status = pattern_parse(&pattern, t->bytes, strlen(t->bytes), err);
    if (status < 0)
        return status;
    status = constraint_open(&probe, &pattern, r->trie, r->model, err);
    if (status == MGPT_OK && constraint_is_complete(&probe, 0, 0))
        status =
            err_set(err, MGPT_EARG, MGPT_NO_OFFSET,
                    "the expression matches the empty text only, as far as this model can write");
    constraint_close(&probe);
    if (status < 0) {
        pattern_free(&pattern);
        return status;
    }
    edit_rules_clear(r, EDIT_REGEX);
    r->pattern = pattern;
    return MGPT_OK;
}

static int add_edit_text(struct edit_rules *r, enum edit_id id, const char *text, mgpt_error *err)
{
    struct edit_text t = {.given = strdup(text), .bytes = strdup(text), .token = -1};
    int status = t.given && t.bytes ? MGPT_OK : err_memory(err, "a setting", strlen(text));
    if (status == MGPT_OK)
        status = id == EDIT_BAN     ? read_ban(r, &t, err)
                 : id == EDIT_REGEX ? read_regex(r, &t, err)
                                    : read_bias(r, &t, err);
    if (status == MGPT_OK && !arr_push(r->texts[id], t))
        status = err_memory(err, "a setting", sizeof t);
    if (status < 0) {
        free(t.given);
        free(t.bytes);
    }
    return status;
}

int edit_rules_set(struct edit_rules *r, enum edit_id id, const char *text, mgpt_error *err)
{
    if (edit_settings[id].kind == EDIT_TEXTS)
        return add_edit_text(r, id, text, err);
    int status = id == EDIT_DRY ? find_breaks(r, err) : MGPT_OK;
    return status == MGPT_OK ? set_numbers(r, id, text, err) : status;
}

/* ---- what they are ---- */

int edit_rules_print(const struct edit_rules *r, enum edit_id id, size_t i, char *to, size_t cap)
{
    const struct edit_setting *s = &edit_settings[id];
    const double *v = r->value[id];
    if (s->kind == EDIT_TEXTS)
        return snprintf(to, cap, "%s", i < arr_len(r->texts[id]) ? r->texts[id][i].given : "");
    int shown = s->n_parts, n = 0;
    while (shown > 1 && v[shown - 1] == s->parts[shown - 1].usual)
        shown--;
    for (int k = 0; k < shown; k++) {
        size_t left = (size_t)n < cap ? cap - (size_t)n : 0;
        n += snprintf(left ? to + n : NULL, left, "%s", k ? ":" : "");
        left = (size_t)n < cap ? cap - (size_t)n : 0;
        n += shortest_number(left ? to + n : NULL, left, v[k], 6, 0);
    }
    return n;
}

int edit_rules_is_on(const struct edit_rules *r, enum edit_id id)
{
    return id != EDIT_LAST && edit_rules_count(r, id) > 0;
}

size_t edit_rules_count(const struct edit_rules *r, enum edit_id id)
{
    if (!r->model) /* not begun */
        return 0;
    if (edit_settings[id].kind == EDIT_TEXTS)
        return arr_len(r->texts[id]);
    return r->value[id][0] != edit_settings[id].parts[0].usual;
}

int edit_rules_any(const struct edit_rules *r)
{
    if (r->heal)
        return 1;
    for (int id = 0; id < EDIT_N; id++)
        if (edit_rules_is_on(r, (enum edit_id)id))
            return 1;
    return 0;
}

int edit_rules_is_own(const struct edit_rules *r)
{
    return edit_rules_is_on(r, EDIT_BAN) || edit_rules_is_on(r, EDIT_XTC) ||
           edit_rules_is_on(r, EDIT_MIROSTAT);
}
