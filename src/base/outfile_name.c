/* Names of temporary files. See outfile_name.h. */
#include "base/outfile_name.h"

#include <stdlib.h>
#include <string.h>

enum { STEM_MOST = 200, N_LETTERS = 6 }; /* names end at 255 bytes */

static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
static const char ending[] = ".??????.tmp";

/* Bytes of a target's name that its temporary names hold: whole characters of UTF-8. */
static size_t stem_of(const char *name)
{
    size_t n = strlen(name);
    n = n < STEM_MOST ? n : STEM_MOST;
    while (n > 0 && ((unsigned char)name[n] & 0xC0) == 0x80)
        n--;
    return n;
}

char *outfile_temporary(const char *path, size_t start)
{
    size_t stem = stem_of(path + start);
    char *temporary = malloc(start + 1 + stem + sizeof ending);
    if (!temporary)
        return NULL;
    memcpy(temporary, path, start);
    temporary[start] = '.';
    memcpy(temporary + start + 1, path + start, stem);
    memcpy(temporary + start + 1 + stem, ending, sizeof ending);
    return temporary;
}

void outfile_put_letters(char *temporary, uint64_t unique, unsigned attempt)
{
    char *to = temporary + strlen(temporary) - (sizeof ending - 1) + 1;
    uint64_t x = (unique + attempt) * UINT64_C(0x9E3779B97F4A7C15);
    for (int i = 0; i < N_LETTERS; i++, x /= 32)
        to[i] = letters[(x >> 20) % 32];
}

int outfile_is_temporary(const char *entry, const char *name)
{
    size_t stem = stem_of(name);
    if (*entry != '.' || strncmp(entry + 1, name, stem) != 0 || entry[1 + stem] != '.')
        return 0;
    const char *found = entry + 1 + stem + 1;
    return strspn(found, letters) == N_LETTERS && strcmp(found + N_LETTERS, ".tmp") == 0;
}
