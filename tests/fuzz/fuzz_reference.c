/* Fuzz target: files of reference logits, of every kind, for a vocabulary of 27. They are read by path,
 * so the input lies in a file in memory. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"
#include "reference.h"

#include <sys/mman.h>
#include <unistd.h>

enum { VOCAB = 27 };

static int memory_file(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", 0);
    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    return fd;
}

static void read_all(struct reference *ref)
{
    double row[VOCAB];
    mgpt_error err;
    for (size_t i = 0; i < reference_count(ref); i++) {
        struct ref_sequence s = reference_sequence(ref, i);
        for (size_t k = 0; k < s.n; k++) {
            MUST(s.ids[k] >= 0 && s.ids[k] < VOCAB);
            if (reference_row(ref, i, k, row, &err) < 0)
                return;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    mgpt_error err = {0};
    int fd = memory_file(data, size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int given = 0; given < 2; given++) {
        struct reference *ref = reference_open(path, given ? "1,2,3" : NULL, VOCAB, &err);
        if (ref)
            read_all(ref);
        else
            MUST(err.status < 0 && err.text[0] && !strchr(err.text, '\n'));
        reference_close(ref);
    }
    close(fd);
    return 0;
}
