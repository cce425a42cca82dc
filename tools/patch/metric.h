/* What a sweep measures: one number of the logits after the last token. */
#ifndef MGPT_PATCH_METRIC_H
#define MGPT_PATCH_METRIC_H

#include "engine/engine.h"

enum metric_kind {
    METRIC_DIFFERENCE, /* "A - B": logit of token a less that of token b */
    METRIC_LOGPROB,    /* "logprob:A": log-probability of token a, in nats */
    METRIC_KL          /* "kl": KL(clean || this run), in nats */
};

struct metric {
    const char *text; /* as the user wrote it */
    const char *what; /* it in messages; NULL: "--metric" */
    enum metric_kind kind;
    int32_t a, b;
    size_t n_vocab;
    double *clean, *shares; /* METRIC_KL: log-probabilities of the clean run, and their exp */
};

/* Reads m->text. A and B are texts of one token each, with the escapes of text_unescape; ids for a
 * model without vocabulary. Returns an exit code; the user has been told. */
int metric_read(struct metric *m, const struct engine *e);

/* Keeps the logits of the clean run if the metric needs them. 0: out of memory. */
int metric_keep_clean(struct metric *m, const float *logits);

double metric_value(const struct metric *m, const float *logits);
void metric_free(struct metric *m);

#endif
