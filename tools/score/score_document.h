/* mgpt score --window: a file as one text of any length, in windows (score_windows.h).
 *
 * The file is read, cut into tokens and scored piece by piece. Memory holds a piece, not the file, where the
 * tokenizer allows that (score_document.c); else it holds the file and its tokens.
 */
#ifndef MGPT_SCORE_DOCUMENT_H
#define MGPT_SCORE_DOCUMENT_H

#include "score/score_texts.h"
#include "score/score_totals.h"

struct score_document {
    struct score_team *team;
    const char *file;
    int no_bos;
    struct score_totals totals; /* of what has been scored so far, also after a failure */
};

/* Scores the file. Returns an exit code; the user has been told of a failure. */
int score_document(struct score_document *d);

#endif
