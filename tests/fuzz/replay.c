/* A plain program around a fuzz target, for builds without a fuzzer.
 *
 *   replay FILE|DIRECTORY...      runs every file once
 *   --damage N                    and damaged copies of each: every truncation, every byte changed to ^01,
 *                                 ^80, 00 and FF, and every 4 and 8 bytes overwritten with the numbers at
 *                                 the edges of integers: N of them, evenly chosen, and all of a file
 *                                 that is called tiny* or has up to 400 bytes
 *   --few N                       the same with N copies of small files as well
 *   --outcomes FILE               what targets get (fuzz_saw) must be what FILE has: a line NAME HASH of each
 *                                 file and its copies. MGPT_WRITE=1 writes it. With --verbose each run's hash
 *                                 is printed: compare those of two builds to find the copy.
 *
 * A copy is in a block of exactly its size, so that sanitizers see every access after it. The
 * damage is a function of the file alone: same file, same copies. On a crash the copy's description
 * has been printed when --verbose is given.
 */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

static const uint64_t edges[] = {0,
                                 1,
                                 UINT64_MAX,
                                 INT32_MAX,
                                 UINT64_C(1) << 31,
                                 UINT32_MAX,
                                 UINT64_C(1) << 62,
                                 UINT64_C(1) << 63,
                                 13};
enum {
    N_EDGES = sizeof edges / sizeof *edges,
    N_BYTES = 4,
    N_KINDS = 1 + N_BYTES + 2 * N_EDGES,
    ALL_UP_TO = 400
};

static size_t n_files, n_runs;
static int verbose, is_few;

/* The file of outcomes: what is expected, and what was found. */
static const char *outcomes_path;
static char *expected;
static FILE *written;
static size_t n_expected, n_wrong;
static uint64_t file_outcome;

static void replay_one(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    MUST(exact);
    if (size)
        memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    uint64_t outcome = fuzz_outcome();
    file_outcome = (file_outcome << 1 | file_outcome >> 63) ^ outcome;
    if (verbose)
        fprintf(stderr, "    %016llx\n", (unsigned long long)outcome);
    free(exact);
    n_runs++;
}

static void overwrite(uint8_t *at, size_t width, uint64_t value)
{
    for (size_t i = 0; i < width; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* Damage `kind` at `pos` of data[0 .. size), which is put right again. */
static void damage(uint8_t *data, size_t size, size_t pos, size_t kind)
{
    uint8_t old[8];
    size_t n = size - pos < sizeof old ? size - pos : sizeof old;
    if (verbose)
        fprintf(stderr, "  position %zu, damage %zu\n", pos, kind);
    if (kind == 0) {
        replay_one(data, pos);
        return;
    }
    memcpy(old, data + pos, n);
    if (kind <= N_BYTES) {
        const uint8_t to[N_BYTES] = {(uint8_t)(old[0] ^ 0x01), (uint8_t)(old[0] ^ 0x80), 0x00,
                                     0xFF};
        data[pos] = to[kind - 1];
    } else {
        size_t edge = kind - N_BYTES - 1, width = edge < N_EDGES ? 4 : 8;
        overwrite(data + pos, width < n ? width : n, edges[edge % N_EDGES]);
    }
    replay_one(data, size);
    memcpy(data + pos, old, n);
}

static void damage_all(uint8_t *data, size_t size, size_t most)
{
    size_t total = size * N_KINDS, step = total > most ? total / most : 1;
    step |= 1; /* so that all kinds have their turn */
    while (N_KINDS % step == 0 && step > 1)
        step += 2;
    for (size_t i = 0; i < total; i += step)
        damage(data, size, i / N_KINDS, i % N_KINDS);
}

static uint8_t *file_bytes(const char *path, long *size)
{
    FILE *f = fopen(path, "rb");
    MUST(f && fseek(f, 0, SEEK_END) == 0);
    *size = ftell(f);
    MUST(*size >= 0 && fseek(f, 0, SEEK_SET) == 0);
    uint8_t *data = malloc((size_t)*size + 1);
    MUST(data && fread(data, 1, (size_t)*size, f) == (size_t)*size);
    fclose(f);
    return data;
}

/* ---- outcomes ---- */

static void open_outcomes(const char *path)
{
    long size;
    outcomes_path = path;
    if (getenv("MGPT_WRITE")) {
        MUST(written = fopen(path, "w"));
        return;
    }
    expected = (char *)file_bytes(path, &size);
    expected[size] = 0;
    for (const char *at = expected; (at = strchr(at, '\n')); at++)
        n_expected++;
}

static void check_outcome(const char *name)
{
    char line[300];
    int n = snprintf(line, sizeof line, "%s %08x\n", name, (unsigned)(file_outcome >> 32));
    MUST(n > 0 && (size_t)n < sizeof line);
    if (written)
        MUST(fputs(line, written) >= 0);
    if (!expected)
        return;
    const char *at = strstr(expected, line);
    if (at && (at == expected || at[-1] == '\n'))
        return;
    printf("another outcome than in %s: %s", outcomes_path, line);
    n_wrong++;
}

static int close_outcomes(void)
{
    MUST(!written || fclose(written) == 0);
    if (expected && n_files != n_expected)
        printf("%zu files, %s has %zu\n", n_files, outcomes_path, n_expected);
    if (n_wrong)
        printf("errors or values of %zu files and their damaged copies changed. If that is meant: "
               "MGPT_WRITE=1\n",
               n_wrong);
    return n_wrong == 0 && (!expected || n_files == n_expected);
}

/* ---- files ---- */

static void run_file(const char *path, size_t most)
{
    long size;
    uint8_t *data = file_bytes(path, &size);
    file_outcome = 0;
    if (verbose)
        fprintf(stderr, "%s\n", path);
    replay_one(data, (size_t)size);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!is_few && (strncmp(name, "tiny", 4) == 0 || size <= ALL_UP_TO))
        most *= (size_t)size * N_KINDS;
    if (most)
        damage_all(data, (size_t)size, most);
    check_outcome(name);
    free(data);
    n_files++;
}

static int by_file_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void run_path(const char *path, size_t most)
{
    struct stat st;
    struct dirent **names;
    MUST(stat(path, &st) == 0);
    if (!S_ISDIR(st.st_mode)) {
        run_file(path, most);
        return;
    }
    int n = scandir(path, &names, NULL, by_file_name);
    MUST(n >= 0);
    for (int i = 0; i < n; i++) {
        char inside[4096];
        snprintf(inside, sizeof inside, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            run_path(inside, most);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    size_t most = 0;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--verbose") == 0)
            verbose = 1;
        else if ((strcmp(argv[i], "--damage") == 0 || strcmp(argv[i], "--few") == 0) &&
                 i + 1 < argc) {
            is_few = argv[i][2] == 'f';
            most = (size_t)strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--outcomes") == 0 && i + 1 < argc)
            open_outcomes(argv[++i]);
        else
            run_path(argv[i], most);
    printf("%zu files, %zu runs\n", n_files, n_runs);
    return close_outcomes() && n_files > 0 ? 0 : 1;
}
