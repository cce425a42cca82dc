/* Ctrl-C, SIGTERM and SIGHUP set a flag: long loops poll interrupted() and end cleanly. */
#ifndef MGPT_INTERRUPT_H
#define MGPT_INTERRUPT_H

#include "mgpt.h"

/* From now on the first of these signals only sets a flag; the next one ends the process as
 * usual. An ignored SIGHUP stays ignored (nohup). */
void interrupt_catch(void);

/* Around a call in which the session runs tokens: a signal then ends the call (mgpt_stop), as one
 * does that has come before. end withdraws a stop that came too late for the call. */
void interrupt_stops(mgpt_session *session);
void interrupt_stops_end(mgpt_session *session);

/* The signals end the process again. The result of interrupted() is kept. */
void interrupt_release(void);

/* 1 once a signal has come since interrupt_catch. */
int interrupted(void);

/* 1 if it was SIGTERM or SIGHUP: then everything ends, including a prompt. */
int interrupt_is_final(void);

/* The last call of main: after SIGTERM or SIGHUP the process ends by that signal, as its sender
 * expects. Otherwise returns. */
void interrupt_die(void);

#endif
