/* Tests: the calls that a program may do without. See spared.h.
 *
 * A row is for a call that comes directly from a function or library, or from anywhere below it;
 * names are those of symbols.h, and a library's version does not count.
 */
#include "faults/spared.h"

#include "faults/symbols.h"

#include <string.h>

enum where { DIRECTLY, BELOW };

static const struct {
    enum fault kind;
    enum where where;
    const char *name;
    int renamed; /* 1: only when a file has been renamed before */
    const char *why;
} rows[] = {
    {FAULT_MEMORY, DIRECTLY, "libpcre2-8.so", 0,
     "no machine code for a pattern: it is interpreted"},
    {FAULT_MAP, DIRECTLY, "libpcre2-8.so", 0, "the same"},
    {FAULT_OPEN, DIRECTLY, "libjansson.so", 0, "no random seed for hash tables: the time is one"},
    {FAULT_READ, DIRECTLY, "libjansson.so", 0, "the same"},
    {FAULT_MEMORY, DIRECTLY, "libc.so", 0,
     "the buffer of a stream, or qsort's copy: libc writes at once, or sorts in place"},
    {FAULT_OPEN, BELOW, "outfile_commit", 1,
     "flushing the directory: the file is there and whole, too late to fail"},
    {FAULT_SYNC, BELOW, "outfile_commit", 1, "the same"},
    {FAULT_MEMORY, BELOW, "outfile_remove_left", 0,
     "what a killed save has left stays until the next save"},
    {FAULT_OPEN, BELOW, "outfile_remove_left", 0, "the same"},
    {FAULT_RENAME, DIRECTLY, "link_is_forbidden", 0,
     "a system that forbids linkat: the file has a name from the beginning"},
    {FAULT_RENAME, DIRECTLY, "create_temporary", 0, "the same, inlined"},
    {FAULT_MEMORY, BELOW, "lookup_add", 0,
     "nothing is proposed from here on: slower, the same text"},
    {FAULT_MEMORY, BELOW, "draft_propose", 0, "nothing is proposed: slower, the same text"},
    {FAULT_MEMORY, BELOW, "tree_add", 0, "a text that comes again runs again: the same numbers"},
    {FAULT_OPEN, BELOW, "pool_cores", 0, "one thread more or less: the same numbers"},
    {FAULT_READ, BELOW, "pool_cores", 0, "the same"},
    {FAULT_MEMORY, BELOW, "pool_new", 0, "threads that nobody asked for: one does the work"},
    {FAULT_THREAD, BELOW, "pool_new", 0, "the same"},
    {FAULT_MEMORY, BELOW, "background_", 0, "weights are packed at once, not in the background"},
    {FAULT_THREAD, BELOW, "background_", 0, "the same"},
    {FAULT_MEMORY, BELOW, "torch_zip_sniff", 0,
     "may be PyTorch's, says the sniffer; its reader asks again and needs the memory"},
    {FAULT_MEMORY, DIRECTLY, "keep_last", 0,
     "tokens of a long context are not given back until the text is scored"},
    {FAULT_MEMORY, DIRECTLY, "score_pair_encode", 0, "the same, inlined"},
};

/* The functions of faults.c in a call path, and those of the sanitizer. */
static int is_ours(const char *name)
{
    static const char *const all[] = {
        "fails",      "malloc",   "calloc", "realloc", "aligned_alloc", "posix_memalign",
        "strdup",     "strndup",  "open",   "open64",  "fopen",         "fopen64",
        "opendir",    "read",     "pread",  "pread64", "__read_chk",    "write",
        "pwrite",     "pwrite64", "fsync",  "mmap",    "mmap64",        "__open_2",
        "__open64_2", "linkat"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i]) == 0)
            return 1;
    return strncmp(name, "libasan.so", 10) == 0 || strncmp(name, "__interceptor", 13) == 0;
}

static int came_from(const struct fault_report *report, enum where where, const char *name)
{
    for (int i = 0; i < report->n_frames; i++) {
        const char *frame = symbol_name(report->frames[i]);
        if (is_ours(frame))
            continue;
        if (strncmp(frame, name, strlen(name)) == 0)
            return 1;
        if (where == DIRECTLY)
            return 0;
    }
    return 0;
}

const char *spared(const struct fault_report *report)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].kind == report->kind && (!rows[i].renamed || report->renamed) &&
            came_from(report, rows[i].where, rows[i].name))
            return rows[i].why;
    return NULL;
}
