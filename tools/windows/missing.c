/* What mgpt has on POSIX systems only. */
#include "common/sandbox.h"
#include "repl/full.h"

int sandbox_enter(const struct sandbox *s)
{
    (void)s;
    return EXIT_OK; /* as on a Linux whose kernel has no sandbox */
}

int sandbox_works(void)
{
    return 0;
}

int full_run(struct repl *repl)
{
    (void)repl;
    cli_note("--screen full is not in mgpt for Windows: leave it out");
    return EXIT_USAGE;
}
