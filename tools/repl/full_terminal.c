/* The terminal of --screen full: raw keys, the other screen buffer (xterm's 1049), and how it was before. What runs in
 * signal handlers is safe there: write, tcsetattr, sigaction, raise. */
#include "common/interrupt.h"
#include "repl/full.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define TAKE "\033[?1049h\033[?25l"
#define LEAVE "\033[0m\033[?25h\033[?1049l"

static struct {
    struct termios before, raw;
    int fd; /* the terminal; stdout goes elsewhere meanwhile */
    volatile sig_atomic_t is_taken, again;
} term;

void full_write(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(term.fd, bytes, n);
        if (done < 0 && errno != EINTR)
            return;
        bytes += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
}

static void take_screen(void)
{
    term.is_taken = 1;
    tcsetattr(term.fd, TCSADRAIN, &term.raw);
    full_write(TAKE, sizeof TAKE - 1);
}

static void leave_screen(void)
{
    if (!term.is_taken)
        return;
    term.is_taken = 0;
    full_write(LEAVE, sizeof LEAVE - 1);
    tcsetattr(term.fd, TCSADRAIN, &term.before);
}

static void handle(int number, void (*fn)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = fn;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* Raises a signal again with what it does by default; returns if it has only stopped the process. */
static void raise_default(int number)
{
    sigset_t set;
    handle(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void on_crash(int number)
{
    leave_screen();
    raise_default(number);
}

static void on_stop(int number)
{
    int kept = errno;
    leave_screen();
    raise_default(number);
    handle(number, on_stop);
    take_screen();
    term.again = 1;
    errno = kept;
}

static void on_resize(int number)
{
    (void)number;
    term.again = 1;
}

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT};

static void handle_all(void (*crash)(int), void (*stop)(int), void (*resize)(int))
{
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        handle(crashes[i], crash);
    handle(SIGTSTP, stop);
    handle(SIGWINCH, resize);
}

int full_take_terminal(void)
{
    term.fd = dup(STDOUT_FILENO);
    if (term.fd < 0 || tcgetattr(term.fd, &term.before) < 0)
        return 0;
    term.raw = term.before;
    term.raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    term.raw.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
    term.raw.c_cc[VMIN] = 1;
    term.raw.c_cc[VTIME] = 0;
    handle_all(on_crash, on_stop, on_resize);
    take_screen();
    return 1;
}

void full_leave_terminal(void)
{
    leave_screen();
    handle_all(SIG_DFL, SIG_DFL, SIG_DFL);
    close(term.fd);
}

void full_size(size_t *rows, size_t *cols)
{
    struct winsize size;
    int known = ioctl(term.fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *rows = known ? size.ws_row : 24;
    *cols = known ? size.ws_col : 80;
}

/* Returns the next byte that was typed, or -1 if none comes within wait_ms. */
static int next_byte(int wait_ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char byte;
    if (poll(&input, 1, wait_ms) != 1)
        return -1;
    return read(STDIN_FILENO, &byte, 1) == 1 ? byte : FULL_STOP;
}

/* Signals are looked for between waits, as one may come before the wait begins. */
int full_key(void)
{
    enum { WAIT_MS = 100, ESCAPE_MS = 50 };
    int key = -1;
    interrupt_catch();
    while (key < 0) {
        if (interrupted())
            return FULL_STOP;
        if (term.again) {
            term.again = 0;
            return FULL_AGAIN;
        }
        key = next_byte(WAIT_MS);
    }
    if (key != 27)
        return key;
    int open = next_byte(ESCAPE_MS), last = open == '[' || open == 'O' ? next_byte(ESCAPE_MS) : -1;
    return last >= 'A' && last <= 'D' ? FULL_UP + last - 'A' : 27;
}
