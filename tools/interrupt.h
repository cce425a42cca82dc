/* Ctrl-C as a question instead of a death: long loops ask interrupted() and end in good order. */
#ifndef MGPT_INTERRUPT_H
#define MGPT_INTERRUPT_H

/* From now on the first Ctrl-C only sets a flag; the next one ends the process as usual. */
void interrupt_catch(void);

/* Ctrl-C ends the process again. What interrupted() says stays. */
void interrupt_release(void);

/* 1 once Ctrl-C has been pressed since interrupt_catch. */
int interrupted(void);

#endif
