/* Tests: failed calls that a program may do without, each with the reason. Any other must be an
 * error. */
#ifndef TESTS_SPARED_H
#define TESTS_SPARED_H

#include "faults/faults.h"

/* The reason why the failure in the report need not be told, NULL when there is none. */
const char *spared(const struct fault_report *report);

#endif
