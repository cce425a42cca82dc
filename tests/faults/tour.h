/* Tests: open, session, feed, fork, step, step_many, unembed, encode, rewind on a model file, for
 * sweep.h. A stage that fails must leave what was there as it was and succeed when it is repeated
 * without faults, so that the tour always ends with the same values: their hash is printed. The
 * exit code is that of the failure. */
#ifndef TESTS_TOUR_H
#define TESTS_TOUR_H

int tour_run(int argc, char **argv);

#endif
