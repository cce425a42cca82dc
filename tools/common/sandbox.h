/* Commands that read untrusted files drop rights before they open the first one. This limits what a
 * bug in a reader can do. What is denied from then on:
 *     Landlock (Linux 5.13 and newer): reading other files than the named ones and those next to a
 *         checkpoint; writing outside the output's folder
 *     seccomp (x86-64, aarch64): sockets of any kind, changing modes, owners, times and attributes
 *         of files, starting programs, signals to other processes (sandbox_calls.c has the list)
 * Each does nothing where the kernel lacks it.
 */
#ifndef MGPT_SANDBOX_H
#define MGPT_SANDBOX_H

#include "common/cli.h"

/* NULL: not used; "-" is ignored. */
struct sandbox {
    const char *checkpoints[2]; /* read: a folder's files, or a file and those in its folder */
    const char *files[4];       /* read */
    const char *const *models;  /* [n_models] read, as checkpoints */
    size_t n_models;
    const char *output;              /* written, with its whole folder */
    const struct cli_many *adapters; /* of --lora: as checkpoints, a scale after a colon aside */
};

/* AddressSanitizer, for gcc and for clang. */
#ifdef __SANITIZE_ADDRESS__
#define SANDBOX_LOOKS_FOR_LEAKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANDBOX_LOOKS_FOR_LEAKS 1
#endif
#endif
#ifndef SANDBOX_LOOKS_FOR_LEAKS
#define SANDBOX_LOOKS_FOR_LEAKS 0
#endif

/* Restricts the process for the rest of its life; call it before starting threads. Sets the umask
 * so that a replaced output keeps its mode. Returns an exit code: EXIT_OK, also where the kernel
 * has no sandbox, or EXIT_FULL and EXIT_IO for a lack of memory or of descriptors, which has been
 * printed. */
int sandbox_enter(const struct sandbox *s);

/* Refuses the system calls that no reader needs. Returns 1 if the kernel has accepted the filter.
 * Part of sandbox_enter; needs PR_SET_NO_NEW_PRIVS. */
int sandbox_refuse_calls(void);

/* The kernel's version of Landlock; 0: none. */
int sandbox_works(void);

#endif
