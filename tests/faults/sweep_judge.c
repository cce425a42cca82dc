/* Tests: what a run with a fault may leave. See sweep.c. */
#include "common/files.h"
#include "faults/spared.h"
#include "faults/sweep_impl.h"

#include <stdio.h>
#include <string.h>

static int same_bytes(struct file_bytes a, struct file_bytes b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

const char *sweep_old(const char *name)
{
    static const char *const olds[][2] = {
        {".npz", "PK\3\4 this was here before \17 " FILES_NPZ_COMMENT}, /* 15 bytes of comment */
        {".safetensors", "12345678{\"__metadata__\":{\"" FILES_WRITTEN_BY "\":\"" FILES_WRITER
                         "\"}} this was here before\n"},
        {".html", "<!DOCTYPE html><h1>mgpt <span>lab</span></h1> this was here before\n"},
        {".txt", FILES_TABLE_LINE "\n# this was here before\n1\n"},
    };
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end && i < sizeof olds / sizeof *olds; i++)
        if (strcmp(end, olds[i][0]) == 0)
            return olds[i][1];
    return "{\"format\":\"mgpt session\"} this was here before\n";
}

/* ---- judging --------------------------------------------------------------------------------- */

static const struct file_bytes *file_named(const struct outcome *o, const char *name)
{
    for (int i = 0; i < o->n_files && i < MAX_FILES; i++)
        if (strcmp(o->files[i].name, name) == 0)
            return &o->files[i].bytes;
    return NULL;
}

/* Every file is what the run without faults wrote, or as before: old or absent. None is new. With
 * `all`, every one has been written. */
static int files_whole(const struct sweep *s, const struct outcome *base, const struct outcome *o,
                       int all)
{
    int n = 0;
    for (int i = 0; i < base->n_files; i++) {
        const struct file_bytes *now = file_named(o, base->files[i].name);
        n += now != NULL;
        if (now && same_bytes(*now, base->files[i].bytes))
            continue;
        int as_before =
            s->replaces ? now && strcmp(now->p, sweep_old(base->files[i].name)) == 0 : !now;
        if (all || !as_before)
            return 0;
    }
    return n == o->n_files;
}

/* Moves the lines of stderr that a run without faults does not print to its beginning. */
static const char *said_more(const struct outcome *base, const struct outcome *o)
{
    char *to = o->err.p, line[1024];
    for (const char *p = o->err.p, *next; *p; p = next) {
        size_t n = strcspn(p, "\n");
        next = p + n + (p[n] == '\n');
        snprintf(line, sizeof line, "%.*s\n", (int)n, p);
        if (strstr(base->err.p, line))
            continue;
        memmove(to, p, (size_t)(next - p));
        to += next - p;
    }
    *to = 0;
    return o->err.p;
}

static int is_temporary(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".tmp") == 0;
}

static int some_temporary(const struct outcome *o)
{
    for (int i = 0; i < o->n_files && i < MAX_FILES; i++)
        if (is_temporary(o->files[i].name))
            return 1;
    return o->n_files > MAX_FILES;
}

static int one_line(const char *text)
{
    size_t n = strcspn(text, "\n");
    return strncmp(text, "mgpt", 4) == 0 && text[n] == '\n' && text[n + 1] == 0 && n < 400;
}

int sweep_same(const struct sweep *s, const struct outcome *base, const struct outcome *o)
{
    return o->code == base->code && same_bytes(o->out, base->out) &&
           same_bytes(o->err, base->err) && files_whole(s, base, o, 1);
}

/* A line that was begun may have been ended. */
static int is_prefix(struct file_bytes a, struct file_bytes of)
{
    size_t n = a.n > 0 && a.p[a.n - 1] == '\n' ? a.n - 1 : a.n;
    return n <= of.n && memcmp(a.p, of.p, n) == 0;
}

const char *sweep_judge(const struct sweep *s, const struct outcome *base, const struct outcome *o)
{
    int want = report->kind <= FAULT_THREAD ? 4 : 5;
    if (o->code >= 1000)
        return "it crashed or hung";
    if (strstr(o->err.p, "Sanitizer:") || strstr(o->err.p, "runtime error"))
        return "a sanitizer complains";
    if (report->n_open != 0)
        return "a descriptor is left open";
    if (strstr(o->err.p, "NULL argument"))
        return "a call gets what another did not return";
    if (sweep_same(s, base, o)) {
        total.tolerated++;
        return spared(report) ? NULL : "it did without, and spared.c does not say why it may";
    }
    if (s->rule == SWEEP_GOES_ON ? some_temporary(o) : !files_whole(s, base, o, 0))
        return "a file is left over or half written";
    const char *more = said_more(base, o);
    if (s->rule == SWEEP_GOES_ON && o->code == want && strncmp(more, "mgpt: ", 6) == 0)
        return NULL; /* what was to follow may fail as well, and comes out otherwise */
    if (!one_line(more))
        return "stderr is not one line";
    if (o->code != want)
        return want == 4 ? "the exit code is not 4" : "the exit code is not 5";
    if (!is_prefix(o->out, base->out))
        return "stdout is not the beginning of what it should be";
    return NULL;
}
