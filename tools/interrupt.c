/* Ctrl-C. See interrupt.h. The flag is the one mutable global of the tools: a signal handler has no
 * other place to write to. */
#include "interrupt.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t pressed;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    pressed = 1;
}

void interrupt_catch(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    action.sa_flags = (int)SA_RESETHAND; /* a second Ctrl-C works even if a loop never asks */
    sigemptyset(&action.sa_mask);
    pressed = 0;
    sigaction(SIGINT, &action, NULL);
}

void interrupt_release(void)
{
    signal(SIGINT, SIG_DFL);
}

int interrupted(void)
{
    return pressed != 0;
}
