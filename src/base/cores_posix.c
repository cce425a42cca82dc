/* Counting cores on POSIX systems. See cores.h.
 *
 * Linux says it in files: /sys/devices/system/cpu/cpuN/topology has the CPUs of a core,
 * /sys/devices/cpu_core/cpus the fast ones of an Intel hybrid, cpu_capacity the speed of ARM's. The
 * quota of a control group is in cpu.max (v2) or cpu.cfs_quota_us (v1) of the group and of each
 * group above it. A file that is missing or unreadable limits nothing.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/cores.h"

#include "base/error.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

enum { PATH_MOST = 512, TEXT_MOST = 2048 };

/* Reads the beginning of ROOT/FORMAT as a string; returns its length, 0 if it cannot be read. */
__attribute__((format(printf, 3, 4))) static size_t read_text(char text[TEXT_MOST],
                                                              const char *root, const char *format,
                                                              ...)
{
    char path[PATH_MOST];
    size_t n_root = text_format(path, sizeof path, "%s", root), n = 0;
    va_list ap;
    va_start(ap, format);
    text_format_v(path + n_root, sizeof path - n_root, format, &ap);
    va_end(ap);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got; fd >= 0 && n < TEXT_MOST - 1; n += (size_t)got)
        if ((got = read(fd, text + n, TEXT_MOST - 1 - n)) <= 0)
            break;
    if (fd >= 0)
        close(fd);
    text[n] = 0;
    return n;
}

/* A whole number at *p, which moves after it; -1: there is none. */
static long take_number(const char **p)
{
    char *end;
    long v = **p >= '0' && **p <= '9' ? strtol(*p, &end, 10) : -1;
    if (v >= 0)
        *p = end;
    return v;
}

/* Sets in[i] = 1 for each CPU of a list such as "0-3,8". Returns how many. */
static int read_list(const char *list, unsigned char in[CORES_CPUS])
{
    int n = 0;
    memset(in, 0, CORES_CPUS);
    for (long first, last; (first = take_number(&list)) >= 0; list += *list == ',') {
        last = first;
        if (*list == '-') {
            list++;
            last = take_number(&list);
        }
        for (long i = first; i <= last && i < CORES_CPUS; i++) {
            n += !in[i];
            in[i] = 1;
        }
    }
    return n;
}

static int count(const unsigned char in[CORES_CPUS])
{
    int n = 0;
    for (int i = 0; i < CORES_CPUS; i++)
        n += in[i] != 0;
    return n;
}

/* ---- kinds of CPUs --------------------------------------------------------------------------- */

/* Keeps the first CPU of each core. */
static void keep_physical(const char *root, unsigned char in[CORES_CPUS])
{
    char text[TEXT_MOST];
    unsigned char siblings[CORES_CPUS];
    for (int i = 0; i < CORES_CPUS; i++) {
        if (!in[i])
            continue;
        if (!read_text(text, root, "/sys/devices/system/cpu/cpu%d/topology/core_cpus_list", i) &&
            !read_text(text, root, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                       i))
            continue;
        read_list(text, siblings);
        for (int k = i + 1; k < CORES_CPUS; k++)
            in[k] = (unsigned char)(in[k] && !siblings[k]);
    }
}

static long capacity(const char *root, int cpu)
{
    char text[TEXT_MOST];
    const char *p = text;
    return read_text(text, root, "/sys/devices/system/cpu/cpu%d/cpu_capacity", cpu)
               ? take_number(&p)
               : -1;
}

/* Keeps the CPUs of the fast class, if there are two and one of the fast ones may be used. A slow
 * core of ARM has less than half the capacity of the fastest. */
static void keep_fast(const char *root, unsigned char in[CORES_CPUS])
{
    char text[TEXT_MOST];
    unsigned char fast[CORES_CPUS] = {0};
    long most = 0;
    if (read_text(text, root, "/sys/devices/cpu_core/cpus")) {
        read_list(text, fast);
    } else {
        for (int i = 0; i < CORES_CPUS; i++)
            if (in[i] && capacity(root, i) > most)
                most = capacity(root, i);
        for (int i = 0; most > 0 && i < CORES_CPUS; i++)
            fast[i] = in[i] && 2 * capacity(root, i) >= most;
    }
    for (int i = 0; i < CORES_CPUS; i++)
        fast[i] = (unsigned char)(fast[i] && in[i]);
    if (count(fast) > 0)
        memcpy(in, fast, sizeof fast);
}

/* ---- control groups -------------------------------------------------------------------------- */

static void keep_least(int *n, long quota, long period)
{
    if (quota <= 0 || period <= 0)
        return;
    long whole = quota / period > 0 ? quota / period : 1;
    if (*n == 0 || whole < *n)
        *n = whole < CORES_CPUS ? (int)whole : CORES_CPUS;
}

/* The quota of the group at `path` below `mount`. */
static void read_group(const char *root, const char *mount, const char *path, int *n)
{
    char text[TEXT_MOST];
    const char *p = text;
    if (read_text(text, root, "%s%s/cpu.max", mount, path)) {
        long quota = take_number(&p); /* or "max" */
        p += *p == ' ';
        keep_least(n, quota, take_number(&p));
    } else if (read_text(text, root, "%s%s/cpu.cfs_quota_us", mount, path)) {
        long quota = take_number(&p); /* or -1 */
        p = text;
        if (quota > 0 && read_text(text, root, "%s%s/cpu.cfs_period_us", mount, path))
            keep_least(n, quota, take_number(&p));
    }
}

/* The group and each one above it, up to the root, which in a container is the container's. */
static void read_groups(const char *root, const char *mount, char *path, int *n)
{
    for (char *slash; (slash = strrchr(path, '/')); *slash = 0)
        read_group(root, mount, path, n);
    read_group(root, mount, "", n);
}

/* Is "cpu" one of the comma-separated controllers at p? */
static int has_cpu(const char *p, const char *end)
{
    for (const char *next; p < end; p = next + 1) {
        for (next = p; next < end && *next != ',';)
            next++;
        if (next - p == 3 && memcmp(p, "cpu", 3) == 0)
            return 1;
    }
    return 0;
}

/* Lines of /proc/self/cgroup: "0::/path" for version 2, "3:cpu,cpuacct:/path" for version 1. */
static int quota_of(const char *root)
{
    static const char *const mounts[2][2] = {{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"},
                                             {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}};
    char text[TEXT_MOST], path[TEXT_MOST];
    int n = 0;
    read_text(text, root, "/proc/self/cgroup");
    for (char *line = text, *end; *line; line = end + (*end != 0)) {
        end = line + strcspn(line, "\n");
        char *names = memchr(line, ':', (size_t)(end - line));
        char *colon = names ? memchr(names + 1, ':', (size_t)(end - names - 1)) : NULL;
        if (!colon)
            continue;
        int v1 = colon > names + 1;
        for (int i = 0; (!v1 || has_cpu(names + 1, colon)) && i < 2; i++) {
            text_format(path, sizeof path, "%.*s", (int)(end - colon - 1), colon + 1);
            read_groups(root, mounts[v1][i], path, &n);
        }
    }
    return n;
}

/* ---- together -------------------------------------------------------------------------------- */

void cores_read(struct cores *c, const char *root, const unsigned char allowed[CORES_CPUS])
{
    char text[TEXT_MOST];
    unsigned char in[CORES_CPUS];
    *c = (struct cores){.n_allowed = count(allowed), .n_quota = quota_of(root)};
    c->n_online = read_text(text, root, "/sys/devices/system/cpu/online") ? read_list(text, in) : 0;
    if (c->n_online < c->n_allowed)
        c->n_online = c->n_allowed;
    memcpy(in, allowed, sizeof in);
    keep_physical(root, in);
    c->n_physical = count(in);
    keep_fast(root, in);
    c->n_fast = count(in);
    cores_choose(c);
}

#ifdef __APPLE__
static int apple_count(const char *name, int otherwise)
{
    int n = 0;
    size_t size = sizeof n;
    return sysctlbyname(name, &n, &size, NULL, 0) == 0 && n > 0 ? n : otherwise;
}

void cores_look(struct cores *c)
{
    int n = apple_count("hw.logicalcpu", 1), physical = apple_count("hw.physicalcpu", n);
    *c = (struct cores){n, n, physical, apple_count("hw.perflevel0.physicalcpu", physical), 0, 1};
    cores_choose(c);
}
#else
void cores_look(struct cores *c)
{
    unsigned char allowed[CORES_CPUS] = {0};
#ifdef __linux__
    unsigned long mask[CORES_CPUS / (8 * sizeof(unsigned long))] = {0};
    if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask) == 0)
        for (size_t i = 0, bits = 8 * sizeof *mask; i < CORES_CPUS; i++)
            allowed[i] = mask[i / bits] >> i % bits & 1;
#endif
    if (count(allowed) == 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        memset(allowed, 1, n > 0 && n < CORES_CPUS ? (size_t)n : 1);
    }
    cores_read(c, "", allowed);
}
#endif
