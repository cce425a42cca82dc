/* Ctrl-C, SIGTERM, SIGHUP. See interrupt.h. The flag is global because a signal handler sets it. */
#include "common/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

static volatile sig_atomic_t came;    /* number of the signal */
static mgpt_session *_Atomic running; /* what it stops, or NULL */

static void on_interrupt(int signal_number)
{
    came = signal_number;
    mgpt_stop(running);
}

/* Relaxed: the handler runs in this thread, or soon after it in another; a step of a small model takes
 * less than a microsecond. */
void interrupt_stops(mgpt_session *session)
{
    atomic_store_explicit(&running, session, memory_order_relaxed);
    if (came)
        mgpt_stop(session);
}

void interrupt_stops_end(mgpt_session *session)
{
    atomic_store_explicit(&running, NULL, memory_order_relaxed);
    if (came)
        mgpt_rewind(session, mgpt_pos(session), NULL);
}

void interrupt_catch(void)
{
    struct sigaction action, old;
    if (interrupt_is_final())
        return;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    action.sa_flags = (int)SA_RESETHAND; /* a second Ctrl-C works even if a loop never polls */
    sigemptyset(&action.sa_mask);
    came = 0;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        int is_ignored = sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN;
        if (signals[i] != SIGHUP || !is_ignored)
            sigaction(signals[i], &action, NULL);
    }
}

void interrupt_release(void)
{
    struct sigaction old;
    for (size_t i = 0; i < N_SIGNALS; i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == on_interrupt)
            signal(signals[i], SIG_DFL);
}

int interrupted(void)
{
    return came != 0;
}

int interrupt_is_final(void)
{
    return came == SIGTERM || came == SIGHUP;
}

void interrupt_die(void)
{
    if (!interrupt_is_final())
        return;
    fflush(NULL);
    signal(came, SIG_DFL);
    raise(came);
}
