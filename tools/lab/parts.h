/* What every lab page is made of, embedded at build time by embed.py: the template around the title
 * and the data, and the engine's module, gzipped. */
#ifndef MGPT_LAB_PARTS_H
#define MGPT_LAB_PARTS_H

#include <stddef.h>

struct lab_part {
    const unsigned char *data;
    size_t n;
};

/* <head up to the title> title <up to the data> data <tail> */
extern const struct lab_part lab_head, lab_body, lab_tail;
extern const struct lab_part lab_module; /* the engine (tools/lab/wasm) */

#endif
