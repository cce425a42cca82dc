/* Keys of config.json as the classes of transformers read them: hf_reads.txt, which hf_reads.py makes.
 *
 * A class that config.json names and that does not read a key computes the same with it and without.
 * Files of other years spell keys otherwise, or leave out those that have the class's default.
 */
#include "convert/families/hf_special.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *hf_model_type_of(const char *class_name)
{
    const struct hf_family *f;
    for (size_t i = 0; class_name && (f = hf_family_at(i)); i++)
        if (strcmp(f->class.name, class_name) == 0)
            return f->model_type;
    return NULL;
}

/* Whether `named` is the class, or its model without a head: GPT2Model for GPT2LMHeadModel. */
static int is_class(const struct hf_class *c, const char *named)
{
    static const char *const ends[] = {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration"};
    size_t n = strlen(c->name);
    if (strcasecmp(c->name, named) == 0)
        return 1;
    for (size_t i = 0; i < HF_COUNT(ends); i++) {
        size_t n_end = strlen(ends[i]);
        if (n > n_end && strcmp(c->name + n - n_end, ends[i]) == 0)
            return strncasecmp(c->name, named, n - n_end) == 0 &&
                   strcmp(named + (n - n_end), "Model") == 0;
    }
    return 0;
}

static int is_among(const char *key, const char *const *lines)
{
    while (*lines && !ckpt_is_one_of(key, *lines))
        lines++;
    return *lines != NULL;
}

int hf_is_base_key(const char *key)
{
    return is_among(key, hf_base_keys);
}

int hf_key_is_unread(const struct hf_model *m, const char *key)
{
    const struct hf_class *c = &m->family->class;
    const char *named =
        json_string_value(json_array_get(hf_value(m->cfg.text, "architectures"), 0));
    int known = c->in_library && (!named || m->wrapper || is_class(c, named));
    return known && !is_among(key, hf_read_keys);
}

/* ---- spellings and defaults ------------------------------------------------------------------ */

/* A pair of words A=B or A~B in a list; next_pair moves *at past it and returns 0 at the end. */
struct hf_pair {
    char a[64], b[64], sign;
};

static int next_pair(const char **at, struct hf_pair *p)
{
    const char *from = *at + strspn(*at, " ");
    size_t n = strcspn(from, " "), n_a = strcspn(from, "=~ ");
    *p = (struct hf_pair){.sign = from[n_a]};
    *at = from + n;
    if (n == 0)
        return 0;
    snprintf(p->a, sizeof p->a, "%.*s", (int)n_a, from);
    snprintf(p->b, sizeof p->b, "%.*s", (int)(n - n_a - 1), from + n_a + 1);
    return 1;
}

static void take_spelling(struct hf_model *m, const struct hf_pair *p)
{
    const json_t *other = json_object_get(m->cfg.text, p->a), *own = hf_get(m, p->b);
    if (!other || json_is(other, JSON_NULL))
        return;
    if (own && p->sign == '=' && json_number_value(own) != json_number_value(other))
        hf_stop(m, "%.40s and %.40s are one key with two values", p->a, p->b);
    if (own)
        return;
    ckpt_note(m->c, "%s of config.json is %s", p->a, p->b);
    hf_get(m, p->a); /* read */
    hf_set(m->c, &m->cfg, p->b, json_incref((json_t *)(uintptr_t)other));
}

void hf_spellings(struct hf_model *m)
{
    const char *at = m->family->class.spellings;
    struct hf_pair p;
    while (next_pair(&at, &p))
        take_spelling(m, &p);
}

static json_t *value_of(const char *text)
{
    char *end;
    double x = strtod(text, &end);
    return *end == 0 ? json_real(x) : json_string(text);
}

/* One of two spellings of the number of experts is there. */
static int has_experts(const struct hf_model *m, const char *key)
{
    static const char *const spellings[] = {"num_experts", "num_local_experts"};
    return (strcmp(key, spellings[0]) == 0 && json_object_get(m->cfg.text, spellings[1])) ||
           (strcmp(key, spellings[1]) == 0 && json_object_get(m->cfg.text, spellings[0]));
}

void hf_defaults(struct hf_model *m)
{
    const char *at = m->family->class.defaults;
    struct hf_pair p;
    char line[160] = "";
    int n = 0;
    while (next_pair(&at, &p)) {
        if (json_object_get(m->cfg.text, p.a) || has_experts(m, p.a))
            continue;
        hf_set(m->c, &m->cfg, p.a, value_of(p.b));
        n += snprintf(line + n, sizeof line - (size_t)n, "%s%s %s", n ? ", " : "", p.a, p.b);
        if (n > 100) {
            ckpt_note(m->c, "assumed, as %s does: %s", m->family->class.name, line);
            n = 0;
        }
    }
    if (n > 0)
        ckpt_note(m->c, "assumed, as %s does: %s", m->family->class.name, line);
}
