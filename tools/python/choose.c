/* Edits for the Python package: a chooser with its rules, behind one pointer. See choose/chooser.h. */
#include "base/error.h"
#include "base/mem.h"
#include "choose/chooser.h"
#include "choose/schema.h"

#include <stdlib.h>
#include <string.h>

struct py_chooser {
    struct edit_rules rules;
    struct chooser chooser;
    struct heal heal;
};

/* For ctypes (_choose.py). */
int choose_complete(struct py_chooser *c, const int32_t *tokens, size_t n_tokens);
struct py_chooser *choose_new(const mgpt_model *model, mgpt_error *err);
void choose_free(struct py_chooser *c);
int choose_set(struct py_chooser *c, const char *name, const char *text, mgpt_error *err);
void choose_begin(struct py_chooser *c, size_t begin);
int choose_prepare(struct py_chooser *c, mgpt_sampler *s, const int32_t *tokens, size_t n_tokens,
                   mgpt_error *err);
int32_t choose_draw(struct py_chooser *c, mgpt_sampler *s, const float *logits, size_t n,
                    mgpt_error *err);
int64_t choose_back(struct py_chooser *c, const int32_t *tokens, size_t n_tokens);
size_t choose_final(const struct py_chooser *c, const int32_t *tokens, size_t n_tokens);
int64_t choose_schema(const char *json, size_t n, char *to, size_t cap, mgpt_error *err);
int64_t choose_heal(struct py_chooser *c, const int32_t *tokens, size_t n, mgpt_error *err);
int32_t choose_heal_next(struct py_chooser *c, int32_t *path);
int choose_heal_learn(struct py_chooser *c, const float *logits, size_t n, mgpt_error *err);
size_t choose_heal_repeats(const struct py_chooser *c, const int32_t *drawn, size_t n);

struct py_chooser *choose_new(const mgpt_model *model, mgpt_error *err)
{
    struct py_chooser *c = calloc(1, sizeof *c);
    if (!c)
        err_memory(err, "the edits", sizeof *c);
    else
        edit_rules_begin(&c->rules, model);
    return c;
}

void choose_free(struct py_chooser *c)
{
    chooser_close(&c->chooser);
    edit_rules_free(&c->rules);
    heal_close(&c->heal);
    free(c);
}

int choose_set(struct py_chooser *c, const char *name, const char *text, mgpt_error *err)
{
    int status = edit_rules_set(&c->rules, edit_setting_named(name), text, err);
    return status < 0 ? status : chooser_open(&c->chooser, &c->rules, err);
}

void choose_begin(struct py_chooser *c, size_t begin)
{
    chooser_begin(&c->chooser, begin, 0);
}

int choose_prepare(struct py_chooser *c, mgpt_sampler *s, const int32_t *tokens, size_t n_tokens,
                   mgpt_error *err)
{
    return chooser_prepare(&c->chooser, s, tokens, n_tokens, err);
}

int32_t choose_draw(struct py_chooser *c, mgpt_sampler *s, const float *logits, size_t n,
                    mgpt_error *err)
{
    return chooser_draw(&c->chooser, s, logits, n, s->tokens, s->n_tokens, err);
}

int64_t choose_back(struct py_chooser *c, const int32_t *tokens, size_t n_tokens)
{
    return chooser_back(&c->chooser, tokens, n_tokens, NULL);
}

int choose_complete(struct py_chooser *c, const int32_t *tokens, size_t n_tokens)
{
    return chooser_is_complete(&c->chooser, tokens, n_tokens);
}

size_t choose_final(const struct py_chooser *c, const int32_t *tokens, size_t n_tokens)
{
    return chooser_final(&c->chooser, tokens, n_tokens);
}

/* Writes the expression of a JSON schema and a NUL. Returns its length, also where cap is too small; or a status. */
int64_t choose_schema(const char *json, size_t n, char *to, size_t cap, mgpt_error *err)
{
    char *pattern;
    int status = schema_pattern(json, n, &pattern, err);
    if (status < 0)
        return status;
    size_t length = arr_len(pattern);
    if (length <= cap)
        memcpy(to, pattern, length);
    arr_free(pattern);
    return (int64_t)length - 1;
}

/* Returns how many tokens are kept: all, if there is nothing to draw again. */
int64_t choose_heal(struct py_chooser *c, const int32_t *tokens, size_t n, mgpt_error *err)
{
    int status = heal_open(&c->heal, c->rules.model, tokens, n, err);
    c->rules.heal = status == MGPT_OK && c->heal.n_bytes > 0 ? &c->heal : NULL;
    if (status == MGPT_OK)
        status = chooser_open(&c->chooser, &c->rules, err);
    return status < 0 ? status : (int64_t)c->heal.n_kept;
}

/* path: [HEAL_BYTES] */
int32_t choose_heal_next(struct py_chooser *c, int32_t *path)
{
    int32_t n = heal_next(&c->heal);
    if (n > 0)
        memcpy(path, c->heal.path, (size_t)n * sizeof *path);
    return n;
}

int choose_heal_learn(struct py_chooser *c, const float *logits, size_t n, mgpt_error *err)
{
    return heal_learn(&c->heal, logits, n, err);
}

size_t choose_heal_repeats(const struct py_chooser *c, const int32_t *drawn, size_t n)
{
    return n > 0 && c->rules.heal ? heal_repeats(&c->heal, drawn, n - 1, drawn[n - 1]) : 0;
}
