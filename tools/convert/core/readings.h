/* mgpt convert --text: the readings of a checkpoint that leaves facts open, by their loss on a
 * text. */
#ifndef MGPT_CONVERT_READINGS_H
#define MGPT_CONVERT_READINGS_H

#include "convert/core/source.h"

/* s has been read and leaves questions open. Converts each combination of answers in memory, prints
 * the losses, lowest first, and the options of the lowest one. Nothing is chosen: returns
 * EXIT_REFUSED, or the code of an error that it has printed. */
int readings_compare(struct ckpt_source *s, const char *text_path);

#endif
