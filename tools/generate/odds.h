/* How often proposals of one kind were right, and how many of them pay for their rows.
 *
 * A row that verifies a proposed token costs a share of a pass, and is of use only if all tokens
 * before it are right. A proposal of n tokens gives `tokens` in expectation for `cost` passes; one
 * more token pays if it raises tokens / cost.
 */
#ifndef MGPT_ODDS_H
#define MGPT_ODDS_H

struct odds {
    double tried, right;  /* decaying counts */
    unsigned passed_over; /* proposals not made since it was last tried */
};

static inline double odds_of(const struct odds *o)
{
    return o->right / o->tried;
}

/* Adds `tried` tokens, `right` of which were right. */
static inline void odds_learn(struct odds *o, double tried, double right)
{
    const double forget = 0.95;
    o->tried = o->tried * forget + tried;
    o->right = o->right * forget + right;
    o->passed_over = 0;
}

/* A proposal as it grows; begins with the token that the pass runs anyway. */
struct chain {
    double likely;       /* all its tokens are right */
    double tokens, cost; /* expected tokens; in passes of one row */
};

#define CHAIN_START ((struct chain){1, 1, 1})

/* 1 if a token that is right with probability p pays for `cost`. */
static inline int chain_pays(const struct chain *c, double p, double cost)
{
    return c->likely * p * c->cost > cost * c->tokens;
}

static inline void chain_take(struct chain *c, double p, double cost)
{
    c->likely *= p;
    c->tokens += c->likely;
    c->cost += cost;
}

#endif
