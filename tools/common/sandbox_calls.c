/* System calls that no reader needs, refused by a seccomp filter (seccomp(2)): what Landlock does
 * not cover, on any version of it. Each refused call returns EPERM, so that libc's fallbacks work.
 *
 * Signals may be sent to this process only (raise, abort). Threads are clone() without namespaces;
 * clone3() has its flags in memory, where a filter cannot see them: it "does not exist", and libc
 * takes clone(). A call of another instruction set's ABI (i386, x32) is refused as well, since its
 * numbers mean other calls.
 */
#define _GNU_SOURCE /* syscall numbers */
#include "common/sandbox.h"

#if defined __linux__ && !defined MGPT_NO_SANDBOX && (defined __x86_64__ || defined __aarch64__)
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define THIS_ABI AUDIT_ARCH_X86_64
#else
#define THIS_ABI AUDIT_ARCH_AARCH64
#endif

/* The first number of x32; numbers that are newer than some headers. */
enum {
    X32 = 0x40000000,
    CLONE3 = 435,
    OPENAT2 = 437,
    FCHMODAT2 = 452,
    SETXATTRAT = 463,
    REMOVEXATTRAT = 466,
    FILE_SETATTR = 469
};

/* aarch64 has the *at variants only. */
static const unsigned refused[] = {
    /* network, UNIX sockets, other doors to both */
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_io_uring_setup,
    /* what a file is besides its bytes; outputs are truncated through their descriptor */
    SYS_fchmod,
    SYS_fchmodat,
    FCHMODAT2,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_truncate,
    SYS_mknodat,
    OPENAT2, /* its flags are in memory */
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
#ifdef SYS_chmod
    SYS_chmod,
    SYS_creat,
    SYS_mknod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
    /* other programs and processes */
    SYS_execve,
    SYS_execveat,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_tkill,
    SYS_shmget,
    SYS_shmat,
    SYS_semget,
    SYS_msgget,
    SYS_mq_open,
    /* the system */
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
#if !SANDBOX_LOOKS_FOR_LEAKS /* the leak check stops the threads with it */
    SYS_ptrace,
#endif
};

/* Sending a signal: the first argument must be this process. */
static const unsigned own_only[] = {SYS_kill, SYS_tgkill};

/* clone(): the first argument has none of these flags. */
#define NAMESPACES                                                                                 \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)

/* ioctl(): the second argument is none of these: typing for the user, attributes of files. */
static const unsigned refused_ioctl[] = {TIOCSTI, TIOCLINUX, FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR};

enum {
    N_REFUSED = sizeof refused / sizeof *refused,
    N_OWN = sizeof own_only / sizeof *own_only,
    N_IOCTL = sizeof refused_ioctl / sizeof *refused_ioctl,
    MOST = 38 + N_REFUSED + N_OWN + N_IOCTL
};

#define STATEMENT(code, k) ((struct sock_filter)BPF_STMT((code), (k)))
#define JUMP(code, k, t, f) ((struct sock_filter)BPF_JUMP((code), (k), (uint8_t)(t), (uint8_t)(f)))
#define IF_EQUAL(k, t, f) JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), (t), (f))
#define LOAD(member) STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define RETURN(what) STATEMENT(BPF_RET | BPF_K, (what))
#define FAIL(error) RETURN(SECCOMP_RET_ERRNO | (error))

/* A file that `call` makes does not run as its owner. Argument `flags` is in front of the mode, which means
 * nothing unless a file is made. */
static unsigned short refuse_modes(struct sock_filter *f, unsigned short n, unsigned call,
                                   unsigned flags)
{
    const unsigned at = offsetof(struct seccomp_data, args);
    const unsigned made = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);
    f[n++] = IF_EQUAL(call, 0, 7);
    f[n++] = STATEMENT(BPF_LD | BPF_W | BPF_ABS, at + 8 * flags);
    f[n++] = JUMP(BPF_JMP | BPF_JSET | BPF_K, made, 1, 0);
    f[n++] = RETURN(SECCOMP_RET_ALLOW);
    f[n++] = STATEMENT(BPF_LD | BPF_W | BPF_ABS, at + 8 * (flags + 1));
    f[n++] = JUMP(BPF_JMP | BPF_JSET | BPF_K, S_ISUID | S_ISGID, 0, 1);
    f[n++] = FAIL(EPERM);
    f[n++] = RETURN(SECCOMP_RET_ALLOW);
    return n;
}

/* The low half of an argument is loaded: little-endian, and all that are looked at have 32 bits.
 * Jumps count from the next statement. */
static unsigned short write_filter(struct sock_filter *f, unsigned pid)
{
    unsigned short n = 0;
    f[n++] = LOAD(arch);
    f[n++] = IF_EQUAL(THIS_ABI, 1, 0);
    f[n++] = FAIL(EPERM);
    f[n++] = LOAD(nr);
    f[n++] = JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, N_REFUSED, 0);
    for (unsigned i = 0; i < N_REFUSED; i++)
        f[n++] = IF_EQUAL(refused[i], N_REFUSED - 1 - i, i + 1 == N_REFUSED);
    f[n++] = FAIL(EPERM);
    f[n++] = IF_EQUAL(CLONE3, 0, 1);
    f[n++] = FAIL(ENOSYS);
    f[n++] = IF_EQUAL(SYS_clone, 0, 4);
    f[n++] = LOAD(args[0]);
    f[n++] = JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1);
    f[n++] = FAIL(EPERM);
    f[n++] = RETURN(SECCOMP_RET_ALLOW);
    f[n++] = IF_EQUAL(SYS_ioctl, 0, N_IOCTL + 3);
    f[n++] = LOAD(args[1]);
    for (unsigned i = 0; i < N_IOCTL; i++)
        f[n++] = IF_EQUAL(refused_ioctl[i], N_IOCTL - 1 - i, i + 1 == N_IOCTL);
    f[n++] = FAIL(EPERM);
    f[n++] = RETURN(SECCOMP_RET_ALLOW);
    n = refuse_modes(f, n, SYS_openat, 2);
#ifdef SYS_open
    n = refuse_modes(f, n, SYS_open, 1);
#endif
    for (unsigned i = 0; i < N_OWN; i++)
        f[n++] = IF_EQUAL(own_only[i], N_OWN - i, 0);
    f[n++] = RETURN(SECCOMP_RET_ALLOW);
    f[n++] = LOAD(args[0]);
    f[n++] = IF_EQUAL(pid, 0, 1);
    f[n++] = RETURN(SECCOMP_RET_ALLOW);
    f[n++] = FAIL(EPERM);
    return n;
}

int sandbox_refuse_calls(void)
{
    struct sock_filter filter[MOST];
    struct sock_fprog program = {write_filter(filter, (unsigned)getpid()), filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
int sandbox_refuse_calls(void)
{
    return 0;
}
#endif
