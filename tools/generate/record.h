/* A record of generate --records: {"prompt": "..."} or {"ids": [...]}, with an "id" of any kind and settings of its own. */
#ifndef MGPT_RECORD_H
#define MGPT_RECORD_H

#include "common/jval.h"
#include "generate/records.h"
#include "generate/sample_text.h"

struct record {
    const struct jval *object; /* owns strings; NULL: not an object */
    size_t line;               /* from 1 on */
    mgpt_error wrong;          /* status < 0: why nothing is drawn */
    int is_done;
    struct samples ask; /* the command's, with the record's settings */
    mgpt_sampler sampler;
    struct heal heal;
    struct edit_rules rules; /* the command's, with heal */
    struct chooser chooser;
    struct stops stops;
    struct choices choices; /* empty: tokens are drawn */
    int32_t *prompt;        /* malloc'ed */
    struct sample_text text;
    mgpt_session *session; /* of a record in work */
    const int32_t *to_run; /* [n_to_run] of the next pass */
    size_t n_to_run, n_drawn;
    int32_t token; /* drawn last */
    enum ending ending;
};

/* Reads a line. NULL: out of memory. A record that is wrong is done. */
struct record *record_read(const struct records_ask *ask, size_t line, const char *text, size_t n);

/* Draws a token after the pass of to_run. The token becomes to_run, or the record is done. */
void record_draw(struct record *record);

/* Prints a record that is done. Returns an exit code. */
int record_print(struct record *record);
void record_free(struct record *record);

#endif
