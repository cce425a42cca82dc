/* Temporary files that a killed process has left, names that are taken, an open that is interrupted, and a system
 * that forbids linking. */
#define _GNU_SOURCE /* flock */
#include "base/outfile.h"
#include "support/place.h"
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

static char at[320];

static const char *in_place(const char *name)
{
    snprintf(at, sizeof at, "%s/%s", place.dir, name);
    return at;
}

static int is_there(const char *name)
{
    struct stat st;
    return lstat(in_place(name), &st) == 0;
}

static int save(void)
{
    struct outfile out;
    mgpt_error err;
    if (outfile_open(&out, place.path, &err) < 0)
        return err.status;
    outfile_write(&out, "saved", 5);
    return outfile_commit(&out, &err);
}

static int n_taken; /* so many names that a file would be linked to are other writers' */

int __real_linkat(int from, const char *a, int to, const char *b, int flags),
    __wrap_linkat(int from, const char *a, int to, const char *b, int flags);

int __wrap_linkat(int from, const char *a, int to, const char *b, int flags)
{
    if (!*a || n_taken == 0)
        return __real_linkat(from, a, to, b, flags);
    n_taken--;
    errno = EEXIST;
    return -1;
}

/* Another name is tried, 100 times. A system without unnamed files does not link. */
TEST_IN_PLACE(names_are_taken)
{
    put_file(place.path, "old");
    n_taken = 150;
    int status = save(), links = n_taken < 150;
    assert_int_equal(n_taken, links ? 50 : 150);
    assert_int_equal(status, links ? MGPT_EIO : MGPT_OK);
    assert_file(place.path, links ? "old" : "saved");
    n_taken = 3;
    assert_int_equal(save(), MGPT_OK);
    assert_int_equal(n_taken, links ? 0 : 3);
    assert_file(place.path, "saved");
    n_taken = 0;
}

TEST_IN_PLACE(left_files)
{
    static const char *const others[] = {
        ".file.abc.tmp",     ".file.ABCDEF.tmp", ".file2.abcdef.tmp", ".file.abcdef.tmp2",
        ".file.abcdefg.tmp", "file.abcdef.tmp",  ".file.abcdef"};
    for (size_t i = 0; i < COUNT(others); i++)
        put_file(in_place(others[i]), "not ours");
    for (int exists = 0; exists < 2; exists++) {
        put_file(in_place(".file.abcdef.tmp"), "half");
        put_file(in_place(".file.xy0125.tmp"), "half");
        chmod(at, 0444);
        assert_int_equal(save(), MGPT_OK);
        assert_file(place.path, "saved");
        assert_false(is_there(".file.abcdef.tmp"));
        assert_false(is_there(".file.xy0125.tmp"));
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        assert_true(is_there(others[i]));
        unlink(at);
    }
}

/* The process that writes it is alive: it has the lock. */
TEST_IN_PLACE(file_in_progress)
{
    put_file(in_place(".file.abcdef.tmp"), "half");
    int fd = open(at, O_WRONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(save(), MGPT_OK);
    assert_true(is_there(".file.abcdef.tmp"));
    close(fd);
    assert_int_equal(save(), MGPT_OK);
    assert_false(is_there(".file.abcdef.tmp"));
    assert_int_equal(symlink("file", in_place(".file.abcdef.tmp")), 0); /* not followed, not ours */
    assert_int_equal(save(), MGPT_OK);
    assert_true(is_there(".file.abcdef.tmp"));
    unlink(at);
}

/* An open that a signal interrupts, as that of a pipe which nobody reads yet, is tried again. */
static const char *fifo;
static volatile sig_atomic_t n_signals, reader;

static void read_at_last(int signal)
{
    (void)signal;
    if (++n_signals == 5)
        reader = open(fifo, O_RDONLY | O_NONBLOCK);
}

TEST_IN_PLACE(interrupted_open)
{
    const struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    const struct sigaction interrupts = {.sa_handler = read_at_last};
    struct sigaction before;
    struct outfile out;
    mgpt_error err = {.text = ""};
    assert_int_equal(mkfifo(place.path, 0600), 0);
    fifo = place.path;
    sigaction(SIGALRM, &interrupts, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    int status = outfile_open(&out, place.path, &err);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_string_equal(err.text, "");
    assert_int_equal(status, MGPT_OK);
    assert_true(n_signals >= 5 && reader >= 0);
    close(reader);
    outfile_discard(&out);
    unlink(place.path);
}

#ifdef __linux__
/* For the rest of this process linkat fails. */
static int forbid_link(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {COUNT(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_IN_PLACE(link_forbidden)
{
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
        skip(); /* qemu */
    for (int exists = 0; exists < 2; exists++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(forbid_link() && save() == MGPT_OK ? 0 : 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_file(place.path, "saved");
    }
}

static size_t n_temporary(void)
{
    glob_t found;
    size_t n = glob(in_place(".file.*"), 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return n;
}

/* What a killed process has left is known by its name, whichever letters were drawn. */
TEST_IN_PLACE(a_killed_writer)
{
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
        skip();
    for (int i = 0; i < 8; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            struct outfile out;
            _exit(!(forbid_link() && outfile_open(&out, place.path, NULL) == MGPT_OK));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(n_temporary(), 1);
        assert_int_equal(save(), MGPT_OK);
        assert_int_equal(n_temporary(), 0);
    }
}

/* A file in progress that has a name is not taken away by the next writer of the same file. */
TEST_IN_PLACE(two_writers)
{
    int status, ready[2], go[2];
    char byte = 0;
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
        skip();
    assert_int_equal(pipe(ready) | pipe(go), 0);
    pid_t child = fork();
    if (child == 0) {
        struct outfile out;
        int ok = forbid_link() && outfile_open(&out, place.path, NULL) == MGPT_OK && out.temporary;
        ok = ok && write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 1;
        outfile_write(&out, "second", 6);
        _exit(ok && outfile_commit(&out, NULL) == MGPT_OK ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(save(), MGPT_OK);
    assert_file(place.path, "saved");
    assert_int_equal(write(go[1], &byte, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_file(place.path, "second");
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}
#endif
