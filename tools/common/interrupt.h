/* Ctrl-C, SIGTERM and SIGHUP as a question instead of a death: long loops ask interrupted() and end in good
 * order. */
#ifndef MGPT_INTERRUPT_H
#define MGPT_INTERRUPT_H

/* From now on the first of these signals only sets a flag; the next one ends the process as usual. SIGHUP
 * stays ignored where it is (nohup). */
void interrupt_catch(void);

/* They end the process again. What interrupted() says stays. */
void interrupt_release(void);

/* 1 once a signal has come since interrupt_catch. */
int interrupted(void);

/* 1 when it was SIGTERM or SIGHUP: then nothing goes on, not even a prompt. */
int interrupt_is_final(void);

/* The last call of main: after SIGTERM or SIGHUP the process ends by that signal, as whoever sent it expects.
 * Returns otherwise. */
void interrupt_die(void);

#endif
