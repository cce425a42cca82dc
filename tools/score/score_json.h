/* mgpt score --json: a line {"id": ..., "text": "..."} becomes a text to score, a scored text a
 * record.
 *
 * A line that cannot be scored becomes a record too, with "error" in the place of numbers: records
 * are as many as lines, in their order.
 */
#ifndef MGPT_SCORE_JSON_H
#define MGPT_SCORE_JSON_H

#include "score/score_texts.h"

#include <jansson.h>

/* What a record needs besides its text. */
struct score_line {
    size_t number;    /* of the line, from 1 */
    json_t *object;   /* what stood in it, which keeps the text; NULL where it was no object */
    mgpt_error wrong; /* status < 0: why it cannot be scored */
    int cut;          /* 1: only as much of it is scored as the context holds */
};

/* Reads a line; its fields are text and id, any other is refused. Returns 1 with its text in
 * *bytes, which lives as long as line->object; 0 with line->wrong.
 */
int score_json_read(struct score_line *line, const char *text, size_t n, const char **bytes,
                    size_t *n_bytes);

/* Makes room for log-probabilities, and the n_top likeliest tokens, when the number to score is
 * known. 0 when out of memory. */
int score_json_room(struct scored_text *text, size_t n_top);

/* Prints the record. Returns an exit code. */
int score_json_print(const mgpt_model *model, const struct score_line *line,
                     const struct scored_text *text);

/* Releases what the two own; tokens are the caller's. */
void score_json_release(struct score_line *line, struct scored_text *text);

#endif
