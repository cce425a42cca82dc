/* Names of PEFT's adapters, and the rows of families that they mean. See peft.h.
 *
 * "base_model.model.model.layers.0.mlp.up_proj.lora_A.default.weight" is factor A of the module
 * "model.layers.0.mlp.up_proj"; without the family's prefix that is a row's name.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/peft.h"

#include <stdio.h>
#include <string.h>

#define PEFT_PREFIX "base_model.model."

/* ---- names ----------------------------------------------------------------------------------- */

static int is_one_word(const char *p, size_t n, const char *list)
{
    char word[40];
    snprintf(word, sizeof word, "%.*s", (int)n, p);
    return n < sizeof word && ckpt_is_one_of(word, list);
}

/* "base_model.model.h.0.attn.c_attn.lora_A.default.weight" as "h.0.attn.c_attn.lora_A": without the
 * words that PEFT adds. 0: it does not begin as PEFT's names do. */
static int peft_alias(const char *name, char to[STATE_MAX_ROW_NAME])
{
    static const char factors[] =
        " lora_A lora_B lora_embedding_A lora_embedding_B lora_magnitude_vector ";
    size_t n = 0, n_prefix = strlen(PEFT_PREFIX);
    int after_factor = 0;
    if (strncmp(name, PEFT_PREFIX, n_prefix) != 0)
        return 0;
    for (const char *at = name + n_prefix, *end; *at; at = end + (*end == '.')) {
        end = at + strcspn(at, ".");
        size_t length = (size_t)(end - at);
        if (is_one_word(at, length, " base_layer modules_to_save default ") ||
            (after_factor && !*end && is_one_word(at, length, " weight ")))
            continue;
        after_factor |= is_one_word(at, length, factors);
        n += (size_t)snprintf(to + n, STATE_MAX_ROW_NAME - n, "%s%.*s", n ? "." : "", (int)length,
                              at); /* a name has at most 255 bytes */
    }
    return n > 0;
}

void peft_add_aliases(struct peft *p)
{
    char name[STATE_MAX_ROW_NAME];
    for (size_t i = 0; i < arr_len(p->state->tensors); i++) {
        struct state_tensor *t = &p->state->tensors[i];
        if (!peft_alias(t->name, name))
            ckpt_stop_tensor(p->c, t->name, "expected a name that begins " PEFT_PREFIX);
        t->alias = ckpt_copy(p->c, name, strlen(name));
    }
    state_seal(p->state);
}

/* The name without the family's prefixes. */
static const char *bare_name(const struct hf_family *f, const char *name)
{
    for (const char *const *prefix = f->prefixes; *prefix;) {
        size_t n = strlen(*prefix);
        int found = strncmp(name, *prefix, n) == 0 && name[n];
        name += found ? n : 0;
        prefix = found ? f->prefixes : prefix + 1;
    }
    return name;
}

/* ---- rows of the family ---------------------------------------------------------------------- */

/* Whether the row, or its bias, is of this name; the layer it is in. */
static int peft_row_is(const struct state_row *row, const char *name, uint32_t *layer, int *is_bias)
{
    char full[STATE_MAX_ROW_NAME];
    const char *n = strstr(row->from, ".N.");
    size_t before = n ? (size_t)(n - row->from) + 1 : 0, digits;
    *layer = 0;
    if (n && strncmp(row->from, name, before) != 0)
        return 0;
    digits = n ? strspn(name + before, "0123456789") : 0;
    if (n && (digits < 1 || digits > 4))
        return 0;
    for (size_t i = 0; i < digits; i++)
        *layer = *layer * 10 + (uint32_t)(name[before + i] - '0');
    for (*is_bias = 0; *is_bias < 2; ++*is_bias) {
        state_row_name(full, row->from, row, *layer, *is_bias);
        if (strcmp(full, name) == 0)
            return 1;
    }
    return 0;
}

enum { ONE_OF = HF_USUAL | HF_VARIANT };

/* Whether rows a and b can be in one model's table. */
static int go_together(const struct state_row *a, const struct state_row *b)
{
    return strcmp(a->to, b->to) == 0 && ((a->flags ^ b->flags) & ONE_OF) == 0;
}

/* Whether a row is in an order that the base does not have. StarCoder's c_attn has two: of models with a KV head for each
 * head (the variant), and of those with one for all. */
static int is_other_order(const struct peft *p, const struct hf_family *f,
                          const struct state_row *row)
{
    unsigned other = p->hp.n_head_kv == p->hp.n_head ? HF_USUAL : HF_VARIANT;
    int found = 0;
    for (size_t i = 0; i < f->n_rows && row->flags & other; i++)
        found |= strcmp(f->rows[i].from, row->from) == 0 && strcmp(f->rows[i].to, row->to) == 0 &&
                 !go_together(&f->rows[i], row);
    return found;
}

/* The rows of the same tensor around row i of the family. */
static void find_stack(const struct hf_family *f, size_t i, struct peft_target *target)
{
    size_t first = i, end = i + 1;
    while (first > 0 && go_together(&f->rows[first - 1], &f->rows[i]))
        first--;
    while (end < f->n_rows && end - first < PEFT_MOST_STACKED &&
           go_together(&f->rows[end], &f->rows[i]))
        end++;
    target->stack = &f->rows[first];
    target->n_stack = end - first;
    target->at = i - first;
}

int peft_next_target(const struct peft *p, const struct hf_family *f, const char *name, size_t *i,
                     struct peft_target *target)
{
    name = bare_name(f, name);
    while (*i <= f->n_rows) {
        const struct state_row head = {f->head, "output.weight", 'V', 'E', STATE_BARE};
        int is_head = *i == f->n_rows;
        target->row = is_head ? head : f->rows[*i];
        target->stack = NULL;
        target->n_stack = 1;
        target->at = 0;
        if (!is_head)
            find_stack(f, *i, target);
        ++*i;
        if (!is_head && is_other_order(p, f, &target->row))
            continue;
        if (!peft_row_is(&target->row, name, &target->layer, &target->is_bias))
            continue;
        state_row_name(target->to, target->row.to, &target->row, target->layer, target->is_bias);
        if (is_head || lora_find(p->c, target->to))
            return 1;
    }
    return 0;
}

void peft_target_name(char to[STATE_MAX_ROW_NAME], const struct state_tensor *t)
{
    const char *factor = strstr(t->alias, ".lora_");
    if (factor)
        snprintf(to, STATE_MAX_ROW_NAME, "%.*s.weight", (int)(factor - t->alias), t->alias);
    else
        snprintf(to, STATE_MAX_ROW_NAME, "%s", t->alias);
}

/* The first tensor that changes nothing of the family; NULL: there is none. */
static const struct state_tensor *first_unknown(const struct peft *p, const struct hf_family *f)
{
    char name[STATE_MAX_ROW_NAME];
    struct peft_target target;
    for (size_t i = 0, row = 0; i < arr_len(p->state->tensors); i++, row = 0) {
        peft_target_name(name, &p->state->tensors[i]);
        if (!peft_next_target(p, f, name, &row, &target))
            return &p->state->tensors[i];
    }
    return NULL;
}

void peft_choose_family(struct peft *p)
{
    const struct state_tensor *unknown = NULL;
    const struct hf_family *f;
    const char *arch = p->c->hp.arch ? p->c->hp.arch : "";
    for (size_t i = 0; !p->family && (f = hf_family_at(i)); i++) {
        int may_be = p->c->model_type ? strcmp(f->model_type, p->c->model_type) == 0
                                      : strcmp(f->arch, arch) == 0;
        if (!may_be || f->program)
            continue;
        const struct state_tensor *found = first_unknown(p, f);
        p->family = found ? NULL : f;
        unknown = unknown ? unknown : found;
    }
    if (p->family)
        return;
    if (unknown)
        ckpt_stop_tensor(p->c, unknown->name, "the base (%s) has nothing that it changes",
                         p->c->model_type ? p->c->model_type : arch);
    ckpt_stop(p->c, "no model of Hugging Face's has the architecture %.40s of the base", arch);
}
