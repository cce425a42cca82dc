/* Commands that read files of strangers give up what they do not need, before they open the first one: reading
 * anything but the files that were named and those next to a checkpoint, writing anywhere but in the output's
 * folder, the network, signals to others. A bug in a reader then has little to offer.
 *
 * Landlock does it (Linux 5.13 and newer). Where the kernel lacks it, nothing happens.
 */
#ifndef MGPT_SANDBOX_H
#define MGPT_SANDBOX_H

/* NULL for what there is not; "-" is none. */
struct sandbox {
    const char
        *checkpoints[2]; /* read, with the files in the same folder; or a folder: the files in it */
    const char *files[2]; /* read */
    const char *output;   /* written: anything in its folder may be */
};

/* Enters it for the rest of the process; threads begin later. */
void sandbox_enter(const struct sandbox *s);

/* The version of Landlock that this kernel has; 0: none. */
int sandbox_works(void);

#endif
