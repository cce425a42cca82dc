/* mgpt score --json: a line {"id": ..., "text": "..."}, or with "ids", becomes a text to score, one with a context
 * and continuations a text for each of these; scored texts become a record.
 *
 * A line that cannot be scored becomes a record too, with "error" in the place of numbers: records
 * are as many as lines, in their order.
 */
#ifndef MGPT_SCORE_JSON_H
#define MGPT_SCORE_JSON_H

#include "common/jval.h"
#include "score/score_pair.h"

/* What a record needs besides its text. */
struct score_line {
    size_t number;             /* of the line, from 1 */
    const struct jval *object; /* the record, which keeps the strings; NULL: it is not an object */
    mgpt_error wrong;          /* status < 0: why it cannot be scored */
    int ids;                   /* 1: it has the ids of its text */
    size_t first, n;           /* its texts: [first, first + n) of the window */
};

/* Reads a line; a field that is not known is refused. Returns the number of texts, or 0 with
 * line->wrong. */
size_t score_json_read(struct score_line *line, const char *text, size_t n);

/* Text i of the line: either text and n_bytes are set, or text is NULL and *pair is set; of a line with ids
 * also tokens, malloc'ed, which are below n_vocab. Strings live as long as line->object. 0 with line->wrong. */
int score_json_text(struct score_line *line, size_t i, int32_t n_vocab, struct scored_text *text,
                    struct score_pair *pair);

/* Makes room for log-probabilities, and the n_top likeliest tokens, when the number to score is
 * known. 0 when out of memory. */
int score_json_room(struct scored_text *text, size_t n_top);
void scored_text_free(struct scored_text *text); /* its tokens, and that room */

/* Prints the record of the line's texts. Returns an exit code. */
int score_json_print(const mgpt_model *model, const struct score_line *line,
                     const struct scored_text *texts);

#endif
