/* Sessions in files. See resume.h. */
#include "generate/resume.h"

#include "base/error.h"
#include "common/files.h"
#include "run/session.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_writable(const char *path, mgpt_error *err)
{
    struct outfile out;
    int status = files_create(&out, path, FILES_STATE, err);
    outfile_discard(&out);
    return status;
}

/* Write permission is also asked of the mode: root has it always. */
static int load_file(struct resume *r, struct engine *e, mgpt_error *err)
{
    struct stat st = {0};
    int exists = stat(r->path, &st) == 0 || errno != ENOENT;
    int status = MGPT_OK;
    if (exists && !(S_ISREG(st.st_mode) && st.st_size == 0))
        status = mgpt_load_session(e->session, r->path, err);
    r->read_only = exists && (!(st.st_mode & 0222) || access(r->path, W_OK) < 0);
    return status < 0 || r->read_only ? status : check_writable(r->path, err);
}

int resume_load(struct resume *r, struct engine *e)
{
    mgpt_error err;
    if (load_file(r, e, &err) < 0)
        return cli_fail(r->path, &err);
    r->n_stored = mgpt_pos(e->session);
    r->had_ended = resume_has_ended(e);
    r->stored = malloc((r->n_stored + 1) * sizeof *r->stored);
    if (!r->stored) {
        err_memory(&err, "tokens", r->n_stored * sizeof *r->stored);
        return cli_fail(NULL, &err);
    }
    if (r->n_stored > 0)
        memcpy(r->stored, mgpt_tokens(e->session), r->n_stored * sizeof *r->stored);
    return EXIT_OK;
}

size_t resume_shared(const struct resume *r, const int32_t *tokens, size_t n)
{
    return engine_n_common(tokens, n, r->stored, r->n_stored);
}

/* ---- random numbers ---- */

/* What the note's state is: of SplitMix64, or words of CPython's; and whether an end token was drawn after the text. */
enum { NOTE_SPLITMIX = 1, NOTE_PYTHON = 2, NOTE_ENDED = 4 };

int resume_numbers(const struct resume *r, const struct engine *e, struct sampling *s)
{
    const struct session_note *note = &e->session->note;
    uint64_t kind = sampling_is_shared(s) ? NOTE_PYTHON : NOTE_SPLITMIX;
    mgpt_error err;
    if (r->n_stored == 0 || (note->kind & ~(uint64_t)NOTE_ENDED) != kind || s->typed_seed)
        return EXIT_OK;
    if (kind == NOTE_PYTHON && note->state > (uint64_t)SAMPLING_MAX_SKIP) {
        err_set(&err, MGPT_EFILE, MGPT_NO_OFFSET, "is after more than %llu random numbers: give -s",
                (unsigned long long)SAMPLING_MAX_SKIP);
        return cli_fail(r->path, &err);
    }
    s->skip = kind == NOTE_PYTHON ? note->state : 0;
    sampling_seed(s, note->seed);
    if (kind == NOTE_SPLITMIX)
        s->sampler.rng = note->state;
    return EXIT_OK;
}

void resume_note(struct engine *e, const struct sampling *s, const mgpt_sampler *sampler)
{
    struct session_note *note = &e->session->note;
    *note = (struct session_note){0};
    if (sampler && sampling_is_shared(s))
        *note =
            (struct session_note){.kind = NOTE_PYTHON, .seed = s->seed, .state = s->python.n_words};
    else if (sampler)
        *note =
            (struct session_note){.kind = NOTE_SPLITMIX, .seed = s->seed, .state = sampler->rng};
}

void resume_note_end(struct engine *e)
{
    if (e->session->note.kind)
        e->session->note.kind |= NOTE_ENDED;
}

int resume_has_ended(const struct engine *e)
{
    return (e->session->note.kind & NOTE_ENDED) != 0;
}

void resume_note_edits(struct engine *e, size_t begin, double mu)
{
    e->session->note.begin = begin;
    e->session->note.mu = mu;
}

void resume_edits(const struct resume *r, const struct engine *e, size_t *begin, double *mu)
{
    const struct session_note *note = &e->session->note;
    *begin = note->begin < r->n_stored ? (size_t)note->begin : 0;
    *mu = isfinite(note->mu) ? note->mu : 0;
}

int resume_is_undrawn(const struct resume *r, const struct engine *e)
{
    return e->session->note.begin == r->n_stored;
}

int resume_writes(const struct resume *r)
{
    return r->path && !r->read_only;
}

int resume_save(const struct resume *r, struct engine *e)
{
    mgpt_error err;
    size_t n = mgpt_pos(e->session);
    if (n == r->n_stored && resume_shared(r, mgpt_tokens(e->session), n) == n &&
        (r->had_ended || !resume_has_ended(e)))
        return EXIT_OK;
    fflush(stdout); /* the text first: writing takes longer */
    int status = files_may_write(r->path, FILES_STATE, &err);
    if (status == MGPT_OK)
        status = mgpt_save_session(e->session, r->path, &err);
    return status < 0 ? cli_fail(r->path, &err) : EXIT_OK;
}
