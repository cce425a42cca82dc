/* What commands have and a web page has not: a terminal, signals, normal forms of text (the page makes
 * them). Messages for the user become the module's error. In place of cli.c, interrupt.c, unicode.c and
 * progress.c of tools/common. */
#include "base/error.h"
#include "common/cli.h"
#include "common/interrupt.h"
#include "common/progress.h"
#include "common/unicode.h"
#include "lab/module_impl.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The number that n bytes of text are, or NaN; the page's language reads it as strtod does, in less
 * code. */
__attribute__((import_module("page"), import_name("number"))) double page_number(const char *text,
                                                                                 size_t n);

double strtod(const char *text, char **end)
{
    size_t n = strlen(text);
    double v = page_number(text, n);
    *end = (char *)(uintptr_t)text + (v == v ? n : 0);
    return v;
}

void cli_note(const char *fmt, ...)
{
    char line[sizeof((mgpt_error *)0)->text];
    va_list ap;
    va_start(ap, fmt);
    text_format_v(line, sizeof line, fmt, &ap);
    va_end(ap);
    lab_refuse(line);
}

int cli_fail(const char *file, const mgpt_error *err)
{
    (void)file;
    err_set(lab_last_error(), err->status, err->offset, "%s", err->text);
    return EXIT_USAGE;
}

int interrupted(void)
{
    return 0;
}

void interrupt_stops(mgpt_session *session)
{
    (void)session;
}

void interrupt_stops_end(mgpt_session *session)
{
    (void)session;
}

int nfc_copy(const char *text, size_t n, char **copy, size_t *n_copy, mgpt_error *err)
{
    *copy = malloc(n ? n : 1);
    *n_copy = n;
    if (!*copy)
        return err_memory(err, "a copy of the text", n);
    memcpy(*copy, text, n);
    return MGPT_OK;
}

void progress_begin(struct progress *progress)
{
    *progress = (struct progress){0};
}

void progress_show(void *user, uint64_t n_done, uint64_t n_all)
{
    (void)user;
    (void)n_done;
    (void)n_all;
}

void progress_end(struct progress *progress)
{
    (void)progress;
}
