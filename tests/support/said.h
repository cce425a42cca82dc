/* Tests: whole texts that functions print, next to those of a file, section by section.
 *
 *     SAID_IN("tests/tools/check/explain_parts.said")    the file of this program
 *     said_begin(); ...prints to stdout...; missed += !said_as("section %d", n);
 *
 * A section that is run must be the file's: the second one of a name has " (2)" after it. Numbers are rounded
 * to four digits, those that are rounding alone are ~0, so that C libraries agree. MGPT_WRITE=1 writes the file again; look at the diff. */
#ifndef TESTS_SAID_H
#define TESTS_SAID_H

void said_in(const char *file);

#define SAID_IN(file)                                                                              \
    __attribute__((constructor)) static void said_here(void)                                       \
    {                                                                                              \
        said_in(file);                                                                             \
    }

/* From here on what is printed is kept. */
void said_begin(void);

/* Ends it; 1 if it is the file's section of that name. Else prints the first line that differs. */
__attribute__((format(printf, 1, 2))) int said_as(const char *name, ...);

#endif
