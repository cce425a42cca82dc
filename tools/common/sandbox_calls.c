/* System calls that no reader needs, refused by a seccomp filter (seccomp(2)): what Landlock does
 * not cover, on any version of it. Each refused call returns EPERM, so that libc's fallbacks work.
 *
 * Signals may be sent to this process only (raise, abort). A call of another instruction set's ABI
 * (i386, x32) is refused as well, since its numbers mean other calls.
 */
#define _GNU_SOURCE /* syscall numbers */
#include "common/sandbox.h"

#if defined __linux__ && !defined MGPT_NO_SANDBOX && (defined __x86_64__ || defined __aarch64__)
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#define THIS_ABI AUDIT_ARCH_X86_64
#else
#define THIS_ABI AUDIT_ARCH_AARCH64
#endif

enum { X32 = 0x40000000, FCHMODAT2 = 452 }; /* first number of x32; newer than some headers */

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
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
#ifdef SYS_chmod
    SYS_chmod,
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

enum {
    N_REFUSED = sizeof refused / sizeof *refused,
    N_OWN = sizeof own_only / sizeof *own_only,
    MOST = 8 + N_REFUSED + 2 * N_OWN
};

#define STATEMENT(code, k) ((struct sock_filter)BPF_STMT((code), (k)))
#define JUMP(code, k, t, f) ((struct sock_filter)BPF_JUMP((code), (k), (t), (f)))
#define LOAD(member) STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define REFUSE STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW STATEMENT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Layout: load; equal numbers jump to REFUSE or OWN, which are the last five statements:
 *     ALLOW, OWN: load pid, equal? -> ALLOW, REFUSE */
static unsigned short write_filter(struct sock_filter *f, unsigned pid)
{
    enum { N_CHECKS = N_REFUSED + N_OWN, FIRST = 4, ALLOWS = FIRST + N_CHECKS };
    unsigned short n = 0;
    f[n++] = LOAD(arch);
    f[n++] = JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ABI, 0, ALLOWS + 4 - 2);
    f[n++] = LOAD(nr);
    f[n++] = JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, ALLOWS + 4 - 4, 0);
    for (unsigned i = 0; i < N_REFUSED; i++, n++)
        f[n] = JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], (uint8_t)(ALLOWS + 4 - n - 1), 0);
    for (unsigned i = 0; i < N_OWN; i++, n++)
        f[n] = JUMP(BPF_JMP | BPF_JEQ | BPF_K, own_only[i], (uint8_t)(ALLOWS + 1 - n - 1), 0);
    f[n++] = ALLOW;
    f[n++] = LOAD(args[0]); /* the low half: a process number has 32 bits; little-endian */
    f[n++] = JUMP(BPF_JMP | BPF_JEQ | BPF_K, pid, 0, 1);
    f[n++] = ALLOW;
    f[n++] = REFUSE;
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
