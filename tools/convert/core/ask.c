/* mgpt convert --ask: the open questions, one after the other, on the terminal. See questions.h. */
#include "convert/core/questions.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LINE = 100 };

static void print_question(enum ckpt_fact fact, const struct checkpoint *c)
{
    const struct ckpt_question *q = &ckpt_questions[fact];
    fprintf(stderr, "%s (%s)\n", q->what, q->how);
    for (size_t i = 0; i < q->n_values; i++)
        fprintf(stderr, "  %zu  %s\n", i + 1, q->values[i]);
    if (fact == FACT_HEADS)
        fprintf(stderr, "  a number that divides %u\n", c->hp.n_embd);
}

/* The value whose number was typed, or what was typed. */
static const char *answer_of(const struct ckpt_question *q, const char *line)
{
    if (q->n_values && line[0] >= '1' && line[0] <= '9' && !line[1] &&
        (size_t)(line[0] - '0') <= q->n_values)
        return q->values[line[0] - '1'];
    return line;
}

static int is_possible(const struct checkpoint *c, enum ckpt_fact fact,
                       const struct ckpt_options *o)
{
    return fact != FACT_HEADS || c->hp.n_embd % (uint32_t)o->n_head == 0;
}

static int ask_one(const struct checkpoint *c, enum ckpt_fact fact, struct ckpt_options *o)
{
    char line[MAX_LINE];
    const struct ckpt_question *q = &ckpt_questions[fact];
    print_question(fact, c);
    for (;;) {
        fputs(q->n_values ? "number or name> " : "number> ", stderr);
        if (!fgets(line, sizeof line, stdin))
            return 0;
        line[strcspn(line, "\r\n")] = 0;
        if (ckpt_give(o, fact, answer_of(q, line)) && is_possible(c, fact, o))
            return 1;
        fprintf(stderr, "'%s' is no answer\n", line);
    }
}

/* An answer to another question can settle it. */
static int is_moot(enum ckpt_fact fact, const struct ckpt_options *o)
{
    const char *how = o->given & OPT_POSITIONS ? o->positions : "";
    int rotates = strcmp(how, "half") == 0 || strcmp(how, "adjacent") == 0;
    if (fact == FACT_EPS)
        return o->given & OPT_NORM && strcmp(o->norm, "layer") == 0;
    if (fact == FACT_ROPE)
        return *how && !rotates;
    return fact == FACT_EMBEDDING && *how && strcmp(how, "sinusoidal") != 0;
}

int ckpt_ask_user(const struct checkpoint *c, struct ckpt_options *o)
{
    for (int i = 0; i < CKPT_N_FACTS; i++)
        if (c->open >> i & 1 && !is_moot((enum ckpt_fact)i, o) && !ask_one(c, (enum ckpt_fact)i, o))
            return 0;
    return 1;
}
