/* A plain program around a fuzz target, for builds without a fuzzer.
 *
 *   replay FILE|DIRECTORY...      runs every file once
 *   --damage N                    and damaged copies of each: every truncation, every byte changed to ^01,
 *                                 ^80, 00 and FF, and every 4 and 8 bytes overwritten with the numbers at
 *                                 the edges of integers: N of them, evenly chosen, and all of a file
 *                                 that is called tiny* or has up to 400 bytes
 *   --few N                       the same with N copies of small files as well
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

static void replay_one(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    MUST(exact);
    if (size)
        memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
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

static void run_file(const char *path, size_t most)
{
    FILE *f = fopen(path, "rb");
    MUST(f && fseek(f, 0, SEEK_END) == 0);
    long size = ftell(f);
    MUST(size >= 0 && fseek(f, 0, SEEK_SET) == 0);
    uint8_t *data = malloc((size_t)size + 1);
    MUST(data && fread(data, 1, (size_t)size, f) == (size_t)size);
    fclose(f);
    if (verbose)
        fprintf(stderr, "%s\n", path);
    replay_one(data, (size_t)size);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (!is_few && (strncmp(name, "tiny", 4) == 0 || size <= ALL_UP_TO))
        most *= (size_t)size * N_KINDS;
    if (most)
        damage_all(data, (size_t)size, most);
    free(data);
    n_files++;
}

static int by_name(const struct dirent **a, const struct dirent **b)
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
    int n = scandir(path, &names, NULL, by_name);
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
        } else
            run_path(argv[i], most);
    printf("%zu files, %zu runs\n", n_files, n_runs);
    return n_files > 0 ? 0 : 1;
}
