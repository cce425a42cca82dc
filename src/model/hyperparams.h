/* Readers of one hyper-parameter, shared by hyperparams.c, positions.c and mixture.c. */
#ifndef MGPT_HYPERPARAMS_H
#define MGPT_HYPERPARAMS_H

#include "model/model.h"

enum { MAX_LAYERS = 1024, MAX_WIDTH = 1 << 20, MAX_HEADS = 1 << 16, MAX_CTX = 1 << 30 };

/* "<arch>.<key>" */
struct key {
    char text[96];
};

const char *hyper_key(const mgpt_model *m, const char *key, struct key *full);

/* Byte offset of a key in the file; 0 if it is absent. */
uint64_t hyper_offset(const mgpt_model *m, const char *key);

/* Reads an integer in [min, max]. A missing key gives `absent`, or MGPT_EFILE if absent < 0. */
int hyper_size(const mgpt_model *m, const char *name, uint64_t min, uint64_t max, int64_t absent,
               size_t *to, mgpt_error *err);

/* Reads an integer as hyper_size does. In architectures whose layers differ the key may be a list with an
 * integer for each layer; *to becomes the largest. shapes.c. */
int hyper_widest(const mgpt_model *m, const char *name, uint64_t min, uint64_t max, int64_t absent,
                 size_t *to, mgpt_error *err);

/* Reads a finite number in [min, max]; keeps *to if the key is absent. MGPT_OK or MGPT_EFILE. */
int hyper_real(const mgpt_model *m, const char *name, double min, double max, double *to,
               mgpt_error *err);

/* The smallest allowed divisor of a rotary frequency: d_sincos takes angles below 2^30, and the
 * last position has the largest angle. positions.c. */
double rope_least_divisor(const mgpt_model *m, double freq);

#endif
