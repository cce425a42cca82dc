/* What the files of a lab page's module share. See module.h. */
#ifndef MGPT_LAB_MODULE_IMPL_H
#define MGPT_LAB_MODULE_IMPL_H

#include "engine/steer.h"
#include "lab/module.h"
#include "patch/sweep.h"
#include "repl/edits.h"

/* What lane 0 does differently. */
struct lab_change {
    struct edits edits;
    struct steer steer;     /* the vectors as they were read */
    struct steer steering;  /* the vectors times the scale; rows NULL: nothing is added */
    struct sweep_site site; /* grid NULL: no site is patched */
    int is_new;             /* the change is not that of the last run */
};

/* The model of the page, or NULL, and its change. */
mgpt_model *lab_model(void);
const mgpt_info *lab_info(void);
mgpt_session *lab_session(int lane);
struct lab_change *lab_change(void);

/* A copy of the first n tokens of a lane's run, with its changes; the caller frees it. NULL: the
 * module's error says why. */
mgpt_session *lab_fork(int lane, size_t n);

/* For a model; and without it. */
void lab_change_open(const mgpt_model *model, const mgpt_info *info);
void lab_change_close(void);

/* The points where something changes, and what changes what a tap sees there. */
uint64_t lab_change_points(const struct lab_change *change);
void lab_change_apply(const struct lab_change *change, const mgpt_value *value);

void lab_patch_close(void);
void lab_neuron_close(void);
void lab_many_close(void);
void lab_circuit_close(void);

/* The module's error, and what sets it to `what` and returns MGPT_EARG. */
mgpt_error *lab_last_error(void);
int lab_refuse(const char *what);

#endif
