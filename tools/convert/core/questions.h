/* Facts that change the logits and that some checkpoints do not hold: one table of questions, one
 * of programs that answer them.
 *
 * A mapping settles each fact in this order: the user's option; what the file states; --assume
 * PROGRAM; the program that the names certainly belong to. A fact that is left is open (ckpt_ask),
 * and one error lists all that are open (ckpt_answered).
 */
#ifndef MGPT_CONVERT_QUESTIONS_H
#define MGPT_CONVERT_QUESTIONS_H

#include "common/jtext.h"
#include "convert/core/readers.h"

enum ckpt_fact { /* bits of checkpoint.open */
                 FACT_HEADS,
                 FACT_ACTIVATION,
                 FACT_NORMS,     /* before the branches or after the sums */
                 FACT_QK_SCALE,  /* what the scores are divided by */
                 FACT_MASK,      /* whether attention is causal */
                 FACT_NORM,      /* LayerNorm without biases or RMSNorm */
                 FACT_EPS,       /* the epsilon of RMSNorm, which has no usual value */
                 FACT_POSITIONS, /* the kind of positions of a model without a table of them */
                 FACT_ROPE,      /* the base of the rotation, if positions rotate */
                 FACT_EMBEDDING, /* the factor of the token embedding */
                 FACT_QKV,       /* the order of rows in one matrix of q, k and v */
                 FACT_BARE,      /* the layout of matrices that are parameters without a module */
                 FACT_GATE,      /* which of two first matrices of an MLP is the gate */
                 CKPT_N_FACTS
};

struct ckpt_question {
    enum ckpt_option option;
    const char *what;          /* "the activation of the MLP" */
    const char *how;           /* where the model's code tells it */
    const char *const *values; /* the answers; */
    size_t n_values;           /* 0: a number */
};
extern const struct ckpt_question ckpt_questions[]; /* [CKPT_N_FACTS] */

/* Writes the option that gives this answer: "--norm rms", "--pre-norm". Returns text. */
enum { CKPT_ANSWER = 48 };
const char *ckpt_answer_option(enum ckpt_fact fact, const char *answer, char text[CKPT_ANSWER]);

/* What the user's options say; NULL: nothing. */
const char *ckpt_given(const struct ckpt_options *o, enum ckpt_fact fact);

/* Sets the option that answers the question, from one of its values or a number's text: 1, or 0 for
 * a text that is no answer. */
int ckpt_give(struct ckpt_options *o, enum ckpt_fact fact, const char *text);

/* What the program does; NULL: it is not in the table, or does not settle this. */
const char *ckpt_program_has(const char *program, enum ckpt_fact fact);

/* The i-th program of --assume; NULL at the end. */
const char *ckpt_program_name(size_t i);

/* Leaves the run with MGPT_EARG when --assume names no program of the table. */
void ckpt_check_assume(struct checkpoint *c, const struct ckpt_options *o);

/* The answer of --assume, with a note; NULL: there is none. */
const char *ckpt_assumed(struct checkpoint *c, const struct ckpt_options *o, enum ckpt_fact fact);

/* Marks the fact as open. */
void ckpt_ask(struct checkpoint *c, enum ckpt_fact fact);

/* Leaves the run with MGPT_EFILE naming the options of all open facts, if there are any. */
void ckpt_answered(struct checkpoint *c);

/* 1 if err is the error of ckpt_answered. */
int ckpt_is_asking(const struct checkpoint *c, const mgpt_error *err);

/* Prints, after that error, each open question with its answers and the programs that use them. */
void ckpt_print_questions(const struct checkpoint *c);

/* The open questions for --json: {"in": path, "error": err's text, "also": text or null, "open": [{"what", "how", "options":
 * [{"option": "--norm rms", "programs": [names]}]}], "likely": program or null, "programs": [names]}. */
struct jtext *ckpt_questions_json(const struct checkpoint *c, const char *path,
                                  const mgpt_error *err);

/* For mgpt convert --help. */
void ckpt_print_programs(void);

/* ---- ask.c ----------------------------------------------------------------------------------- */

/* Asks the open questions on the terminal and sets *o: 1, or 0 at the end of input. */
int ckpt_ask_user(const struct checkpoint *c, struct ckpt_options *o);

#endif
