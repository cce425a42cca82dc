/* Whether this clang can make modules: headers, libc and the compiler's run time must be there. */
#include <stdlib.h>
#include <string.h>

__attribute__((export_name("probe"))) void *probe(const char *text);

void *probe(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}
