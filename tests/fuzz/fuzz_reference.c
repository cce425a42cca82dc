/* Fuzz target: files of reference logits, of every kind, for a vocabulary of 27. They are read by
 * path, so the input is a file in memory. */
#define _GNU_SOURCE /* memfd_create */
#include "check/reference/reference.h"
#include "fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

enum { VOCAB = 27 };

/* One and the same for all inputs. */
static int memory_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz", 0);
    MUST(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    return fd;
}

static void see_doubles(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fuzz_saw_floats(&(float){(float)x[i]}, 1);
}

static void read_every_array(struct reference *ref)
{
    double row[VOCAB];
    mgpt_error err;
    for (size_t i = 0; i < reference_count(ref); i++) {
        struct ref_sequence s = reference_sequence(ref, i);
        for (size_t k = 0; k < s.n; k++) {
            MUST(s.ids[k] >= 0 && s.ids[k] < VOCAB);
            if (reference_row(ref, i, k, row, &err) < 0)
                return;
            MUST(reference_about(ref).n <= VOCAB);
            fuzz_saw_number((uint64_t)s.ids[k]);
            see_doubles(row, reference_about(ref).n);
        }
    }
    for (size_t i = 0; i < reference_n_hooks(ref); i++) {
        struct ref_hook hook;
        double values[4096];
        MUST(reference_hook(ref, i, &hook) == MGPT_OK && hook.cols > 0);
        for (size_t k = 0; k < hook.rows && hook.cols <= 4096; k++)
            if (reference_hook_rows(ref, i, k, 1, values, &err) < 0)
                return;
            else
                see_doubles(values, hook.cols);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    mgpt_error err = {0};
    int fd = memory_file(data, size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    static const int32_t ids[] = {1, 2, 3};
    for (int given = 0; given < 3; given++) {
        const struct ref_options options = {.n_vocab = VOCAB,
                                            .n_layer = 2,
                                            .ids = given ? ids : NULL,
                                            .n_ids = given ? 3 : 0,
                                            .shape_rows = given == 2 ? 3 : 0,
                                            .shape_cols = VOCAB};
        struct reference *ref = reference_open(path, &options, &err);
        if (ref)
            read_every_array(ref);
        else
            MUST(err.status < 0 && err.text[0] && !strchr(err.text, '\n'));
        fuzz_saw_number((uint64_t)err.status);
        fuzz_saw_number(err.offset);
        reference_close(ref);
    }
    return 0;
}
