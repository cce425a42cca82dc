/* Tests: one operation again and again; in run k the k-th call that can fail fails.
 *
 * Each run is a child process with a working directory of its own, stdout and stderr in files. The
 * parent compares it with the run without faults: the exit code is 4 (memory, threads) or 5 (input,
 * output), stderr has one more line, no file has changed or is new, no descriptor is open, no
 * sanitizer has complained. Where the program may do without the call (spared.c), the result is the
 * same to the byte instead.
 *
 * Not every k is tried when there are many. Of each call path (a hash of the return addresses) the
 * first and the last call fail, alone and with all later ones; so do the first 60 calls and one in
 * a hundred. Under a sanitizer: the first of each path and one call in a thousand. MGPT_FAULTS=all
 * tries every k, MGPT_FAULTS=2/5 the second of five parts of what is tried without: each operation
 * has some of its k in each part.
 */
#define _GNU_SOURCE /* dladdr */
#include "faults/sweep.h"

#include "faults/sweep_impl.h"
#include "faults/symbols.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORDS = 24, SHOWN = 12, SECONDS = 60 };
/* A sanitizer makes a child many times slower, and needs to see each call path once. */
#if defined(__SANITIZE_ADDRESS__)
enum { ALL_UP_TO = 0, ONE_IN = 1000, LAST_TOO = 0, ONWARDS_ONE_IN = 16 };
#else
enum { ALL_UP_TO = 60, ONE_IN = 100, LAST_TOO = 1, ONWARDS_ONE_IN = 1 };
#endif

static char top[256]; /* the directory of this test */
struct fault_report *report;
static int exhaustive;
static size_t part = 1, n_parts = 1; /* of the k that are chosen */
struct sweep_total total;

/* ---- files ----------------------------------------------------------------------------------- */

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static char *path_of(const char *directory, const char *name)
{
    static char path[4][768];
    static unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s/%s", top, directory, name);
    return p;
}

static struct file_bytes read_file(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0)
        die(path);
    struct file_bytes b = {malloc((size_t)st.st_size + 1), (size_t)st.st_size};
    if (!b.p || read(fd, b.p, b.n) != (ssize_t)b.n)
        die(path);
    b.p[b.n] = 0;
    close(fd);
    return b;
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        die(path);
    close(fd);
}

/* ---- arguments ------------------------------------------------------------------------------- */

struct sweep_words {
    int n;
    char *list[MAX_WORDS + 1];
    char text[MAX_WORDS][512];
};

static void split_line(struct sweep_words *w, const char *name, const char *line)
{
    const char *root = getenv("MGPT_SOURCE_ROOT");
    memset(w, 0, sizeof *w);
    snprintf(w->text[w->n], sizeof w->text[0], "%s", name);
    for (w->n = 1; *line && w->n < MAX_WORDS; w->n++) {
        size_t n = strcspn(line, " ");
        char *to = w->text[w->n];
        if (*line == '@')
            snprintf(to, sizeof w->text[0], "%s/%.*s", root, (int)n - 1, line + 1);
        else if (*line == '%')
            snprintf(to, sizeof w->text[0], "%s/in/%.*s", top, (int)n - 1, line + 1);
        else
            snprintf(to, sizeof w->text[0], "%.*s", (int)n, line);
        line += n + (line[n] == ' ');
    }
    for (int i = 0; i < w->n; i++)
        w->list[i] = w->text[i];
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void redirect(const char *path, int flags, int to)
{
    int fd = open(path, flags, 0666);
    if (fd < 0 || dup2(fd, to) < 0)
        die(path);
    close(fd);
}

static int count_open(void)
{
    int n = 0;
    for (int fd = 0; fd < 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

_Noreturn static void child(const struct sweep *s, struct sweep_words *w, size_t k, int onwards)
{
    redirect(path_of(".", "stdin"), O_RDONLY, 0);
    redirect(path_of(".", "stdout"), O_WRONLY | O_CREAT | O_TRUNC, 1);
    redirect(path_of(".", "stderr"), O_WRONLY | O_CREAT | O_TRUNC, 2);
    if (chdir(path_of("work", ".")) < 0)
        die("chdir");
    signal(SIGPIPE, SIG_IGN);
    alarm(SECONDS); /* a hang is a crash */
    int n_open = count_open();
    faults_arm(report, k, onwards);
    int code = s->run(w->n, w->list);
    faults_disarm();
    report->n_open = count_open() - n_open;
    exit(code);
}

static struct outcome collect(int status)
{
    struct outcome o = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status)};
    struct dirent *entry;
    o.out = read_file(path_of(".", "stdout"));
    o.err = read_file(path_of(".", "stderr"));
    DIR *d = opendir(path_of("work", "."));
    if (!d)
        die("opendir");
    while ((entry = readdir(d))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (o.n_files < MAX_FILES) {
            snprintf(o.files[o.n_files].name, sizeof o.files[0].name, "%.60s", entry->d_name);
            o.files[o.n_files].bytes = read_file(path_of("work", entry->d_name));
        }
        o.n_files++;
    }
    closedir(d);
    return o;
}

static void forget(struct outcome *o)
{
    free(o->out.p);
    free(o->err.p);
    for (int i = 0; i < o->n_files && i < MAX_FILES; i++)
        free(o->files[i].bytes.p);
}

/* The working directory as it is before a run: empty, or with old files of the names that the run
 * without faults wrote. */
static void reset(const struct outcome *base, int replaces)
{
    struct dirent *entry;
    DIR *d = opendir(path_of("work", "."));
    if (!d)
        die("opendir");
    while ((entry = readdir(d)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(path_of("work", entry->d_name));
    closedir(d);
    for (int i = 0; replaces && i < base->n_files; i++)
        write_file(path_of("work", base->files[i].name), sweep_old(base->files[i].name));
}

static struct outcome run_child(const struct sweep *s, const struct outcome *base, size_t k,
                                int onwards)
{
    struct sweep_words w;
    int status;
    split_line(&w, s->name, s->line);
    reset(base, s->replaces);
    write_file(path_of(".", "stdin"), s->input ? s->input : "");
    fflush(NULL);
    report->n_open = 0;
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        child(s, &w, k, onwards);
    if (waitpid(pid, &status, 0) != pid)
        die("waitpid");
    return collect(status);
}

/* ---- choosing k ------------------------------------------------------------------------------ */

static int by_path(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b; /* {hash, k} */
    if (x[0] != y[0])
        return x[0] < y[0] ? -1 : 1;
    return x[1] < y[1] ? -1 : 1;
}

/* Leaves the marks of this part. */
static void keep_part(unsigned char *chosen, size_t n)
{
    size_t turn = total.operations;
    for (size_t k = 1; k <= n; k++)
        if (chosen[k] && ++turn % n_parts != part % n_parts)
            chosen[k] = 0;
}

/* Marks the k to try: 1 for the last of each call path, 2 for its first. */
static unsigned char *choose(size_t n)
{
    unsigned char *chosen = calloc(n + 2, 1);
    uint32_t(*sorted)[2] = malloc((n + 1) * sizeof *sorted);
    if (!chosen || !sorted || n > FAULT_PATHS)
        die("too many calls");
    for (size_t i = 0; i < n; i++) {
        sorted[i][0] = report->paths[i];
        sorted[i][1] = (uint32_t)i + 1;
    }
    qsort(sorted, n, sizeof *sorted, by_path);
    for (size_t i = 0; i < n; i++) {
        uint32_t k = sorted[i][1];
        int last = i + 1 == n || sorted[i + 1][0] != sorted[i][0];
        if ((last && LAST_TOO) || exhaustive || k <= ALL_UP_TO || k % ONE_IN == 0)
            chosen[k] = 1;
        if (i == 0 || sorted[i - 1][0] != sorted[i][0])
            chosen[k] = 2;
    }
    keep_part(chosen, n);
    free(sorted);
    return chosen;
}

/* ---- a sweep --------------------------------------------------------------------------------- */

/* The call path. */
static void print_path(void)
{
    printf("#   in");
    for (int i = 0; i < report->n_frames; i++)
        printf(" %s", symbol_name(report->frames[i]));
    printf("\n");
}

static void complain(const struct sweep *s, const struct outcome *o, size_t k, int onwards,
                     const char *what)
{
    printf("# %s, k = %zu%s (%s): %s; exit %d; %.*s\n", s->line, k, onwards ? " onwards" : "",
           fault_names[report->kind], what, o->code, o->err.n > 600 ? 600 : (int)o->err.n,
           o->err.p);
    print_path();
}

/* One k: 1 when it went wrong. *reached says whether the k-th call came. */
static int try(const struct sweep *s, const struct outcome *base, size_t k, int onwards,
               int *reached)
{
    struct outcome o = run_child(s, base, k, onwards);
    const char *wrong = NULL;
    *reached = report->hit;
    if (report->hit)
        wrong = sweep_judge(s, base, &o);
    else if (!sweep_same(s, base, &o))
        wrong = "without a fault it is not as before";
    if (wrong)
        complain(s, &o, k, onwards, wrong);
    forget(&o);
    total.runs++;
    return wrong != NULL;
}

int sweep_run(const struct sweep *s)
{
    struct outcome none = {0}, base = run_child(s, &none, 0, 0);
    size_t n = report->n, before = total.runs, spared = total.tolerated;
    int wrong = 0, reached = 1;
    if (base.code != 0 || base.n_files > MAX_FILES) {
        printf("# %s: exit %d without faults: %s\n", s->line, base.code, base.err.p);
        wrong = 1;
        n = 0;
        reached = 0;
    }
    unsigned char *chosen = choose(n);
    for (size_t k = 1; k <= n && wrong < SHOWN; k++) {
        if (chosen[k])
            wrong += try(s, &base, k, 0, &reached);
        if (chosen[k] == 2 && reached && (exhaustive || k % ONWARDS_ONE_IN == 0))
            wrong += try(s, &base, k, 1, &reached);
    }
    /* Calls that come in another order each time (threads) may add a few. */
    for (size_t k = n + 1; reached && wrong < SHOWN; k++)
        wrong += try(s, &base, k, 0, &reached);
    printf("%s %zu %s %s%s: %zu calls, %zu runs, %zu did without\n", wrong ? "not ok" : "ok",
           ++total.operations, s->name, s->line, s->replaces ? " (replacing)" : "", n,
           total.runs - before, total.tolerated - spared);
    fflush(stdout);
    free(chosen);
    forget(&base);
    total.calls += n;
    total.wrong += (size_t)wrong;
    return wrong;
}

/* ---- around it ------------------------------------------------------------------------------- */

void sweep_prepare(sweep_fn *run_it, const char *line)
{
    struct sweep_words w;
    int status;
    split_line(&w, "prepare", line);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        redirect("/dev/null", O_WRONLY, 2);
        exit(run_it(w.n, w.list));
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "cannot prepare %s\n", line);
        exit(1);
    }
}

const char *sweep_path(const char *name)
{
    return path_of("in", name);
}

void sweep_put(const char *name, const char *text)
{
    write_file(path_of("in", name), text);
}

void sweep_link(const char *name, const char *target)
{
    char path[768];
    snprintf(path, sizeof path, "%s/%s", getenv("MGPT_SOURCE_ROOT"), target);
    if (symlink(path, path_of("in", name)) < 0)
        die(path);
}

void sweep_begin(void)
{
    const char *directory = getenv("TMPDIR"), *how = getenv("MGPT_FAULTS");
    exhaustive = how && strcmp(how, "all") == 0;
    if (how && !exhaustive &&
        (sscanf(how, "%zu/%zu", &part, &n_parts) != 2 || part < 1 || part > n_parts)) {
        fprintf(stderr, "MGPT_FAULTS: expected all or a part such as 2/5, found '%s'\n", how);
        exit(2);
    }
    snprintf(top, sizeof top, "%s/mgpt-faults-XXXXXX", directory ? directory : "/tmp");
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED || !getenv("MGPT_SOURCE_ROOT") || !mkdtemp(top) ||
        mkdir(path_of("in", ""), 0777) < 0 || mkdir(path_of("work", ""), 0777) < 0)
        die("sweep_begin");
}

static void remove_all(const char *directory)
{
    struct dirent *entry;
    DIR *d = opendir(path_of(directory, "."));
    while (d && (entry = readdir(d))) {
        char inner[512];
        snprintf(inner, sizeof inner, "%s/%s", directory, entry->d_name);
        if (unlink(path_of(directory, entry->d_name)) < 0 && entry->d_name[0] != '.')
            remove_all(inner);
    }
    if (d)
        closedir(d);
    rmdir(path_of(directory, ""));
}

void sweep_end(void)
{
    remove_all("in");
    remove_all("work");
    remove_all(".");
    rmdir(top);
    printf(
        "1..%zu\n# part %zu of %zu: %zu calls that can fail, %zu runs, %zu did without, %zu went "
        "wrong\n",
        total.operations, part, n_parts, total.calls, total.runs, total.tolerated, total.wrong);
}
