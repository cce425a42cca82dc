/* What is possible inside the sandbox of the commands that read strangers' files, tried from
 * inside: each row of the table is an attempt in a process of its own. Skipped where the kernel has
 * no Landlock. */
#define _GNU_SOURCE /* syscall */
#include "base/outfile.h"
#include "common/sandbox.h"
#include "support/unit.h"
#include "support/wrap_malloc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The folder that main made is the current one:
 *     in/model in/config in/far -> ../secret/blob in/sub/deep   named/text named/other
 *     out/old   secret/key secret/blob secret/dir/              hf/config.json hf/weights */
static const char *const folders[] = {"in", "in/sub", "named", "out", "secret", "secret/dir", "hf"};
static const char *const files[] = {"in/model",       "in/config", "in/sub/deep", "named/text",
                                    "named/other",    "out/old",   "secret/key",  "secret/blob",
                                    "hf/config.json", "hf/weights"};

enum sandbox_act { READ, WRITE, CREATE, REMOVE, RENAME, REPLACE, LIST };

/* Tries to do something with a file. Returns 0 or errno. */
static int attempt(enum sandbox_act act, const char *path)
{
    struct outfile out;
    int status = 0;
    switch (act) {
    case READ:
        status = open(path, O_RDONLY);
        break;
    case WRITE:
        status = open(path, O_WRONLY);
        break;
    case CREATE:
        status = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        break;
    case REMOVE:
        status = unlink(path);
        break;
    case RENAME:
        status = rename(path, "out/moved");
        break;
    case LIST:
        status = open(path, O_RDONLY | O_DIRECTORY);
        break;
    case REPLACE:
        if (outfile_open(&out, path, NULL) < 0)
            return EACCES;
        outfile_write(&out, "new", 3);
        return outfile_commit(&out, NULL) == MGPT_OK ? 0 : EACCES;
    }
    return status < 0 ? errno : 0;
}

static int try_inside(enum sandbox_act act, const char *path)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        sandbox_enter(&(struct sandbox){
            .checkpoints = {"in/model", "hf"}, .files = {"named/text", "-"}, .output = "out/new"});
        _exit(attempt(act, path));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(what_is_possible)
{
    static const struct {
        enum sandbox_act act;
        const char *path;
        int want;
    } rows[] = {
        /* what was named, what is next to a checkpoint, and what links there lead to */
        {READ, "in/model", 0},
        {READ, "in/config", 0},
        {READ, "in/far", 0},
        {READ, "secret/blob", 0}, /* the same file */
        {READ, "hf/config.json", 0},
        {READ, "hf/weights", 0},
        {READ, "named/text", 0},
        /* nothing else */
        {READ, "named/other", EACCES},
        {READ, "in/sub/deep", EACCES},
        {READ, "secret/key", EACCES},
        {READ, "in/../secret/key", EACCES},
        {READ, "out/old", EACCES},
        {READ, "/etc/passwd", EACCES},
        {LIST, "secret", EACCES},
        {LIST, "in", EACCES},
        {LIST, "/", EACCES},
        /* writing: the output's folder */
        {REPLACE, "out/new", 0},
        {REPLACE, "out/old", 0},
        {CREATE, "out/another", 0},
        {REMOVE, "out/old", 0},
        {WRITE, "in/model", EACCES},
        {WRITE, "secret/key", EACCES},
        {CREATE, "in/new", EACCES},
        {CREATE, "secret/new", EACCES},
        {CREATE, "new", EACCES},
        {REPLACE, "secret/key", EACCES},
        {REMOVE, "in/model", EACCES},
        {REMOVE, "secret/key", EACCES},
        {RENAME, "secret/key", EACCES},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int found = try_inside(rows[i].act, rows[i].path);
        if (found != rows[i].want)
            fail_msg("row %zu, %s: found %s, expected %s", i, rows[i].path, strerror(found),
                     strerror(rows[i].want));
        unlink("out/another");
        close(open("out/old", O_WRONLY | O_CREAT, 0600));
    }
}

/* ---- system calls ---------------------------------------------------------------------------- */

static long call_by_number(long number)
{
    return syscall(number, 0, 0, 0, 0, 0, 0);
}

#ifdef SYS_open
#define OLD_OPEN(...) syscall(SYS_open, __VA_ARGS__)
#else /* aarch64 */
#define OLD_OPEN(...) openat(AT_FDCWD, __VA_ARGS__)
#endif

#define CALLS(X)                                                                                   \
    X(tcp, socket(AF_INET, SOCK_STREAM, 0))                                                        \
    X(udp, socket(AF_INET, SOCK_DGRAM, 0))                                                         \
    X(udp6, socket(AF_INET6, SOCK_DGRAM, 0))                                                       \
    X(raw, socket(AF_INET, SOCK_RAW, 0))                                                           \
    X(unix_path, socket(AF_UNIX, SOCK_STREAM, 0))                                                  \
    X(netlink, socket(AF_NETLINK, SOCK_RAW, 0))                                                    \
    X(pair, socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0}))                                      \
    X(io_uring, call_by_number(SYS_io_uring_setup))                                                \
    X(mode, chmod("out/old", 0777))                                                                \
    X(mode_at, fchmodat(AT_FDCWD, "out/old", 0777, 0))                                             \
    X(mode_of_open, fchmod(open("in/model", O_RDONLY), 0777))                                      \
    X(mode_of_new, open("out/new", O_WRONLY | O_CREAT, 04700))                                     \
    X(mode_of_tmpfile, open("out", O_WRONLY | O_TMPFILE, 02700))                                   \
    X(mode_of_old_call, OLD_OPEN("out/new", O_WRONLY | O_CREAT, 06700))                            \
    X(mode_of_node, mknod("out/new", S_IFREG | 04700, 0))                                          \
    X(open_by_memory, call_by_number(437))                                                         \
    X(owner, chown("out/old", getuid(), getgid()))                                                 \
    X(times, utimensat(AT_FDCWD, "out/old", NULL, 0))                                              \
    X(cut, truncate("out/old", 0))                                                                 \
    X(program, execve("in/model", (char *[]){NULL}, (char *[]){NULL}))                             \
    X(signal_other, kill(getppid(), 0))                                                            \
    X(new_namespace, call_by_number(SYS_unshare))                                                  \
    X(namespace_of_child, syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0))                 \
    X(network_of_child, syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0))                    \
    X(typed_for_user, ioctl(open("in/model", O_RDONLY), TIOCSTI, "x"))                             \
    X(flags_of_file, ioctl(open("in/model", O_RDONLY), FS_IOC_SETFLAGS, &(int){0}))                \
    X(more_of_file, ioctl(open("in/model", O_RDONLY), FS_IOC_FSSETXATTR, &(struct fsxattr){0}))    \
    X(attribute_at, call_by_number(463))                                                           \
    X(shared_memory, shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600))                                  \
    X(queue, call_by_number(SYS_mq_open))                                                          \
    X(memory_of_other, call_by_number(SYS_process_vm_readv))                                       \
    X(trace_other, SANDBOX_LOOKS_FOR_LEAKS ? call_by_number(SYS_bpf) : call_by_number(SYS_ptrace))

#define DEFINE(name, call)                                                                         \
    static long call_##name(void)                                                                  \
    {                                                                                              \
        return call;                                                                               \
    }
#define ROW(name, call) {#name, call_##name},
CALLS(DEFINE)

static const struct {
    const char *name;
    long (*make)(void);
} calls[] = {CALLS(ROW)};

/* 1: the call gets EPERM inside the sandbox. */
static int is_refused(long (*make)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        sandbox_enter(&(struct sandbox){.checkpoints = {"in/model"}, .output = "out/new"});
        _exit(make() == -1 && errno == EPERM);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

/* Sockets of every kind, modes, owners and times of files, programs, other processes. */
TEST(refused_calls)
{
    int has_filters = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0; /* not under qemu */
    for (size_t i = 0; has_filters && i < COUNT(calls); i++)
        if (!is_refused(calls[i].make))
            fail_msg("%s is not refused", calls[i].name);
}

static void *store_one(void *to)
{
    *(int *)to = 1;
    return NULL;
}

/* Threads and processes that are not in new namespaces begin as before, and terminals answer. */
TEST(allowed_calls)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        int ran = 0, size[2], grandchild;
        sandbox_enter(&(struct sandbox){.checkpoints = {"in/model"}});
        if (pthread_create(&thread, NULL, store_one, &ran) != 0 || pthread_join(thread, NULL) != 0)
            _exit(1);
        if ((grandchild = fork()) == 0)
            _exit(7);
        if (waitpid(grandchild, &status, 0) != grandchild || WEXITSTATUS(status) != 7)
            _exit(2);
        int is_no_terminal =
            ioctl(open("in/model", O_RDONLY), TIOCGWINSZ, size) < 0 && errno == ENOTTY;
        if (syscall(SYS_openat, AT_FDCWD, "in/model", O_RDONLY, 06777) <
            0) /* no mode, it makes none */
            _exit(4);
        _exit(ran && is_no_terminal ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A signal to the process itself still works: abort, and mgpt after SIGTERM. */
TEST(own_signal)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        sandbox_enter(&(struct sandbox){.checkpoints = {"in/model"}});
        raise(SIGTERM);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* A replaced file keeps its mode, although nothing may call chmod. */
TEST(mode_is_kept)
{
    struct stat st;
    int status;
    mode_t mask = umask(022);
    assert_int_equal(chmod("out/old", 0666), 0);
    pid_t child = fork();
    if (child == 0) {
        sandbox_enter(&(struct sandbox){.checkpoints = {"in/model"}, .output = "out/old"});
        _exit(attempt(REPLACE, "out/old"));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(stat("out/old", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
    umask(mask);
}

/* Without a descriptor or memory for a rule the files would later be called forbidden. */
TEST(lack_of_descriptors)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit few = {4, 4};
        setrlimit(RLIMIT_NOFILE, &few);
        close(STDERR_FILENO); /* one line is printed there */
        while (dup(STDOUT_FILENO) >= 0)
            ;
        _exit(sandbox_enter(&(struct sandbox){.checkpoints = {"in/model"}}));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), EXIT_IO);
}

/* Every allocation on the way fails once: exit code 4, not a file that is later forbidden. */
TEST(lack_of_memory)
{
    int status, n_failed = 0;
    for (int k = 0;; k++) {
        pid_t child = fork();
        if (child == 0) {
            close(STDERR_FILENO); /* one line is printed there */
            fail_after = k;
            int code = sandbox_enter(
                &(struct sandbox){.checkpoints = {"in/model", "hf"}, .output = "out/old"});
            _exit(fail_after >= 0 ? 100 + code : code);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WEXITSTATUS(status) == 100)
            break;
        assert_int_equal(WEXITSTATUS(status), EXIT_FULL);
        n_failed++;
    }
    assert_true(n_failed > 10);
}

/* Without an output nothing can be written. */
TEST(no_output)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        sandbox_enter(&(struct sandbox){.checkpoints = {"in/model"}});
        _exit(attempt(READ, "in/model") == 0 && attempt(CREATE, "out/another") == EACCES &&
              attempt(CREATE, "in/another") == EACCES && attempt(WRITE, "/dev/null") == EACCES);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 1);
}

int main(void)
{
    char place[256];
    const char *tmp = getenv("TMPDIR");
    snprintf(place, sizeof place, "%s/mgpt-sandbox-XXXXXX", tmp ? tmp : "/tmp");
    if (sandbox_works() < 1) {
        puts("skipped: no Landlock here");
        return 77;
    }
    if (!mkdtemp(place) || chdir(place) < 0)
        return 1;
    for (size_t i = 0; i < COUNT(folders); i++)
        if (mkdir(folders[i], 0700) < 0)
            return 1;
    for (size_t i = 0; i < COUNT(files); i++)
        close(open(files[i], O_WRONLY | O_CREAT, 0600));
    if (symlink("../secret/blob", "in/far") < 0)
        return 1;
    int failed = unit_run("tests");
    unlink("in/far");
    unlink("out/new");
    for (size_t i = 0; i < COUNT(files); i++)
        unlink(files[i]);
    for (size_t i = COUNT(folders); i-- > 0;)
        rmdir(folders[i]);
    return chdir("/") < 0 || rmdir(place) < 0 ? 1 : failed;
}
