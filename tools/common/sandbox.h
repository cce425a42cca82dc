/* Commands that read untrusted files drop rights before they open the first one: reading other
 * files than the named ones and those next to a checkpoint, writing outside the output's folder,
 * the network, signals to other processes. This limits what a bug in a reader can do.
 *
 * Uses Landlock (Linux 5.13 and newer). Does nothing where the kernel lacks it.
 */
#ifndef MGPT_SANDBOX_H
#define MGPT_SANDBOX_H

#include "common/cli.h"

/* NULL: not used; "-" is ignored. */
struct sandbox {
    const char *checkpoints[2];      /* read: a folder's files, or a file and those in its folder */
    const char *files[2];            /* read */
    const char *output;              /* written, with its whole folder */
    const struct cli_many *adapters; /* of --lora: as checkpoints, a scale after a colon aside */
};

/* Restricts the process for the rest of its life; call it before starting threads. */
void sandbox_enter(const struct sandbox *s);

/* The kernel's version of Landlock; 0: none. */
int sandbox_works(void);

#endif
