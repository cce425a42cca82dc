/* Tests: what a return address stands in, to tell ways through the program apart by names. */
#ifndef TESTS_SYMBOLS_H
#define TESTS_SYMBOLS_H

/* The name of the function of this program, static or not, or of the library ("libc.so.6"); "?" when
 * neither is known. */
const char *symbol_name(const void *address);

#endif
