/* Tests: system calls and allocations that fail when they are told to.
 *
 * faults.c defines malloc, read, open, pthread_create and so on in the test program itself, where
 * the linker finds them first, for the libraries as well; each one passes the call on, to the
 * sanitizer's own version where there is one. While armed, the calls of the thread that armed are
 * counted in one sequence, and the k-th fails: once, or it and all that follow of its sort.
 */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <stddef.h>
#include <stdint.h>

enum fault {
    FAULT_MEMORY, /* malloc, calloc, realloc, aligned_alloc, posix_memalign, strdup, strndup */
    FAULT_MAP,
    FAULT_THREAD,
    FAULT_OPEN, /* also opendir and fopen */
    FAULT_READ,
    FAULT_WRITE,
    FAULT_SYNC,
    FAULT_RESERVE, /* ftruncate, posix_fallocate */
    FAULT_RENAME,
    N_FAULTS
};
extern const char *const fault_names[N_FAULTS];

enum { FAULT_FRAMES = 24, FAULT_PATHS = 1 << 20 };

/* What one process says to the other: in shared memory. */
struct fault_report {
    size_t n;        /* calls counted */
    int hit;         /* 1: call number k came and failed */
    enum fault kind; /* of that call */
    int n_frames;    /* where it came from */
    void *frames[FAULT_FRAMES];
    int renamed;                 /* files renamed before it */
    int n_open;                  /* descriptors open at the end that were not at the beginning */
    uint32_t paths[FAULT_PATHS]; /* with k = 0: a hash of the call path of call i + 1 */
};

/* From here on call number k (from 1) fails, with `onwards` also all later ones of its sort: memory
 * and threads, or input and output. k = 0: nothing fails, the call paths are recorded. */
void faults_arm(struct fault_report *report, size_t k, int onwards);

/* From here on nothing fails or counts. */
void faults_disarm(void);

#endif
