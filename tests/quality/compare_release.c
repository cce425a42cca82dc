/* Two builds of mgpt side by side in one process, in turn for a few milliseconds each: what slows
 * the machine for longer slows both. Of each cell it prints the median of the rounds' ratios, old
 * time over new time, and the bounds that hold the true median in 95 of 100 cases. See
 * compare_release.sh.
 *
 *     compare_release TYPE MODEL OLD.so NEW.so SECONDS [THREADS,... [MODE,...]]
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double least = 0.97, burst_seconds = 0.006;
enum { ROUNDS_MOST = 4000, ROUNDS_LEAST = 11 };

struct release_side {
    void *opened;
    int (*run)(void *opened, int n_sessions, int n);
};

static const struct {
    const char *name;
    int n_sessions, n; /* as in side_run; n 0: chosen by the time of a step */
} modes[] = {
    {"decode", 1, 0}, {"batch8", 8, 0}, {"batch16", 16, 0}, {"prompt", 0, 128}, {"open", -1, 1}};
enum { N_MODES = sizeof modes / sizeof *modes };

static double release_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct release_side release_open(const char *library, const char *model, int n_threads)
{
    struct release_side s = {NULL, NULL};
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *(*open_side)(const char *, int) =
        handle ? (void *(*)(const char *, int))dlsym(handle, "side_open") : NULL;
    if (!open_side) {
        fprintf(stderr, "%s\n", dlerror());
        exit(5);
    }
    s.opened = open_side(model, n_threads);
    s.run = (int (*)(void *, int, int))dlsym(handle, "side_run");
    if (!s.opened)
        exit(3);
    return s;
}

/* Seconds of a burst, after a step that brings back what the other side has displaced. */
static double release_burst(const struct release_side *s, int mode, int n)
{
    int warm = modes[mode].n ? 0 : 1;
    if (warm && s->run(s->opened, modes[mode].n_sessions, 1) != 0)
        exit(4);
    double start = release_now();
    if (s->run(s->opened, modes[mode].n_sessions, n) != 0)
        exit(4);
    return release_now() - start;
}

static int release_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 1: the new build is slower than it may be. */
static int release_cell(const char *type, int n_threads, int mode, const struct release_side *sides,
                        double seconds)
{
    static double ratios[ROUNDS_MOST];
    double end = release_now() + seconds, times[2], step;
    int n = modes[mode].n, rounds = 0;
    release_burst(&sides[0], mode, n ? n : 4);
    step = release_burst(&sides[1], mode, n ? n : 4) / 4;
    if (!n) {
        double steps = burst_seconds / step;
        n = steps < 1 ? 1 : steps > 100 ? 100 : (int)steps;
    }
    while (rounds < ROUNDS_MOST && (rounds < ROUNDS_LEAST || release_now() < end)) {
        int first = rounds & 1;
        times[first] = release_burst(&sides[first], mode, n);
        times[!first] = release_burst(&sides[!first], mode, n);
        ratios[rounds++] = times[0] / times[1];
    }
    qsort(ratios, (size_t)rounds, sizeof *ratios, release_order);
    int off = (int)ceil(0.98 * sqrt(rounds)), middle = rounds / 2;
    double low = ratios[middle > off ? middle - off : 0];
    double high = ratios[middle + off < rounds ? middle + off : rounds - 1];
    int slow = high < least;
    printf("%-8s %7d  %-8s %7.3f %7.3f %7.3f %7d%s\n", type, n_threads, modes[mode].name,
           ratios[middle], low, high, rounds, slow ? "  SLOWER" : "");
    fflush(stdout);
    return slow;
}

static int release_asked(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || !at[n]))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "usage: compare_release TYPE MODEL OLD.so NEW.so SECONDS THREADS MODES\n");
        return 2;
    }
    int n_slow = 0;
    for (const char *at = argv[6]; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int n_threads = atoi(at);
        const struct release_side sides[2] = {release_open(argv[3], argv[2], n_threads),
                                              release_open(argv[4], argv[2], n_threads)};
        for (int mode = 0; mode < N_MODES; mode++)
            if (release_asked(argv[7], modes[mode].name))
                n_slow += release_cell(argv[1], n_threads, mode, sides, atof(argv[5]));
    }
    return n_slow > 0;
}
