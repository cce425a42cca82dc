/* mgpt generate --session FILE: the engine's session, kept in a file from run to run.
 *
 * Both calls tell the user what fails and return an exit code.
 */
#ifndef MGPT_RESUME_H
#define MGPT_RESUME_H

#include "engine/engine.h"
#include "engine/sampling.h"

struct resume {
    const char *path; /* option; NULL: no --session */
    int32_t *stored;  /* malloc'ed, [n_stored]: the tokens of the file */
    size_t n_stored;
    int had_ended; /* after them an end token was drawn */
    int read_only; /* the file has no write permission */
};

/* Makes the engine's session hold what the file holds: nothing if the file does not exist or is
 * empty. A file that cannot be written later is refused now, unless it is read only. */
int resume_load(struct resume *r, struct engine *e);

/* Continues the random numbers where the file has left them, unless it has none of this kind or a
 * seed was given. */
int resume_numbers(const struct resume *r, const struct engine *e, struct sampling *s);

/* Notes the state of `sampler` for the file; NULL: none, if there is more than one sample. */
void resume_note(struct engine *e, const struct sampling *s, const mgpt_sampler *sampler);

/* Notes, after resume_note, that the text has ended with an end token; 1: the file says so. */
void resume_note_end(struct engine *e);
int resume_has_ended(const struct engine *e);

/* Where the text that goes on was begun to be drawn, and its mu; 0: the file does not say. */
void resume_edits(const struct resume *r, const struct engine *e, size_t *begin, double *mu);

/* 1: the file has a prompt after which nothing was drawn, as --heal notes it. */
int resume_is_undrawn(const struct resume *r, const struct engine *e);

/* Notes what the edits of its draws go on with: where the drawn text begins, Mirostat's mu or 0. */
void resume_note_edits(struct engine *e, size_t begin, double mu);

/* 1 when there is a file that may be written. */
int resume_writes(const struct resume *r);

/* Writes the engine's session to the file, which resume_writes, unless it says the same. */
int resume_save(const struct resume *r, struct engine *e);

/* How many of n tokens the file begins with. */
size_t resume_shared(const struct resume *r, const int32_t *tokens, size_t n);

#endif
