/* Tests: names for return addresses, to print call paths. */
#ifndef TESTS_SYMBOLS_H
#define TESTS_SYMBOLS_H

/* The name of the function of this program, static or not, or of the library ("libc.so.6"); "?"
 * when neither is known. */
const char *symbol_name(const void *address);

#endif
