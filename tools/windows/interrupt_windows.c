/* Ctrl-C, Ctrl-Break and the closing of a console window. See interrupt.h; common/interrupt.c is the one for signals.
 * Windows calls the handler in a thread of its own. */
#include "common/cli.h"
#include "common/interrupt.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <windows.h>

enum { NOTHING, STOPS, ENDS };

static atomic_int came;               /* one of these */
static mgpt_session *_Atomic running; /* what it stops, or NULL */
static int is_caught;

/* Returning FALSE lets Windows end the process, as it does at the second Ctrl-C. */
static BOOL WINAPI on_control(DWORD event)
{
    int is_key = event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
    if (is_key && atomic_load(&came))
        return FALSE;
    atomic_store(&came, is_key ? STOPS : ENDS);
    mgpt_stop(atomic_load(&running));
    if (!is_key)
        Sleep(INFINITE); /* the process ends when this returns: main ends it first */
    return TRUE;
}

void interrupt_stops(mgpt_session *session)
{
    atomic_store(&running, session);
    if (interrupted())
        mgpt_stop(session);
}

void interrupt_stops_end(mgpt_session *session)
{
    atomic_store(&running, NULL);
    if (interrupted())
        mgpt_rewind(session, mgpt_pos(session), NULL);
}

void interrupt_catch(void)
{
    if (interrupt_is_final())
        return;
    atomic_store(&came, NOTHING);
    if (!is_caught)
        is_caught = SetConsoleCtrlHandler(on_control, TRUE);
}

void interrupt_release(void)
{
    if (is_caught)
        is_caught = !SetConsoleCtrlHandler(on_control, FALSE);
}

int interrupted(void)
{
    return atomic_load(&came) != NOTHING;
}

int interrupt_is_final(void)
{
    return atomic_load(&came) == ENDS;
}

void interrupt_die(void)
{
    if (interrupt_is_final())
        exit(EXIT_INTERRUPTED);
}
