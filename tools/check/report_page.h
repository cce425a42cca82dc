/* check --report: one page with what check found, to paste into an issue: Markdown, or HTML where the
 * name ends in .html. */
#ifndef MGPT_REPORT_PAGE_H
#define MGPT_REPORT_PAGE_H

#include "engine/engine.h"

#include <stdio.h>

struct report_page {
    const char *path; /* of the page; NULL: there is none */
    FILE *held;       /* what was printed; NULL before report_page_begin */
    int out;          /* a copy of stdout's descriptor */
};

/* From now on what goes to stdout is held. Call it before sandbox_enter. Returns an exit code. */
int report_page_begin(struct report_page *page, const char *path);

/* Prints what was held and writes the page: a summary, the command, versions, facts of the engine's
 * model, if it is open, and what was printed. `code` is what check came to; returns it, or that of a
 * failure to write. Does nothing without a page. */
int report_page_end(struct report_page *page, const struct engine *e, int argc, char **argv,
                    int code);

#endif
