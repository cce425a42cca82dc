/* Calls of POSIX for the unit tests. See unit.h. */
#include "windows/unit.h"

#include <windows.h>

int mprotect(void *at, size_t n, int rights)
{
    DWORD before;
    return VirtualProtect(at, n, rights ? PAGE_READWRITE : PAGE_NOACCESS, &before) ? 0 : -1;
}

char *mkdtemp(char *path)
{
    sprintf(path + strlen(path) - 6, "%06lu", GetTickCount() % 1000000);
    return mkdir(path) == 0 ? path : NULL;
}

int glob(const char *pattern, int flags, void *failed, glob_t *to)
{
    WIN32_FIND_DATAA found;
    HANDLE search = FindFirstFileA(pattern, &found);
    const char *slash = strrchr(pattern, '/');
    (void)flags, (void)failed;
    to->gl_pathc = 0;
    if (search == INVALID_HANDLE_VALUE)
        return 1;
    do {
        char *path = malloc(strlen(pattern) + strlen(found.cFileName) + 1);
        sprintf(path, "%.*s/%s", (int)(slash - pattern), pattern, found.cFileName);
        to->gl_pathv[to->gl_pathc++] = path;
    } while (to->gl_pathc < 64 && FindNextFileA(search, &found));
    FindClose(search);
    return 0;
}

void globfree(glob_t *to)
{
    while (to->gl_pathc > 0)
        free(to->gl_pathv[--to->gl_pathc]);
}
