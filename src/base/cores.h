/* How many threads a machine is worth: one for each physical core that this process may use. */
#ifndef MGPT_CORES_H
#define MGPT_CORES_H

#include <stddef.h>

enum { CORES_MOST = 16, CORES_CPUS = 2048 };

/* Counts of CPUs; each of the first four is at most the one before it. */
struct cores {
    int n_online;   /* of the machine */
    int n_allowed;  /* by the affinity mask (sched_setaffinity, taskset, cpuset) */
    int n_physical; /* of those, one for each core: hardware threads share its units */
    int n_fast;     /* of those, in the fast class of a machine with two kinds of cores */
    int n_quota;    /* whole CPUs that the control group may use at a time; 0: no limit */
    int n;          /* threads: what is least, 1 to CORES_MOST */
};

/* Counts what this machine has: cores_posix.c, cores_windows.c. */
void cores_look(struct cores *cores);

/* Sets n from the other counts. */
void cores_choose(struct cores *cores);

/* Does what cores_look does on Linux with the files below `root`; "" is this machine. allowed[i] != 0: CPU i may
 * be used. */
void cores_read(struct cores *cores, const char *root, const unsigned char allowed[CORES_CPUS]);

/* Writes why n is what it is, such as "2 cores, 4 hardware threads". */
void cores_why(const struct cores *cores, char *why, size_t cap);

#endif
