/* Windows. See system.h. Paths go through the wide calls, so no code page matters. */
#include "base/system.h"
#include "base/wide.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

wchar_t *wide_path(const char *path)
{
    const char *name = strcmp(path, "/dev/null") == 0 ? "NUL" : path;
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, name, -1, NULL, 0);
    wchar_t *wide = n > 0 ? malloc((size_t)n * sizeof *wide) : NULL;
    if (wide)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, name, -1, wide, n);
    else
        errno = n > 0 ? ENOMEM : ENOENT; /* no file has a name that is not UTF-8 */
    return wide;
}

int wide_fail(void)
{
    static const struct {
        DWORD code;
        int number;
    } rows[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},
        {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},
        {ERROR_BAD_PATHNAME, ENOENT},
        {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_SHARING_VIOLATION, EBUSY},
        {ERROR_LOCK_VIOLATION, EBUSY},
        {ERROR_USER_MAPPED_FILE, EBUSY},
        {ERROR_FILE_EXISTS, EEXIST},
        {ERROR_ALREADY_EXISTS, EEXIST},
        {ERROR_DISK_FULL, ENOSPC},
        {ERROR_HANDLE_DISK_FULL, ENOSPC},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
        {ERROR_OUTOFMEMORY, ENOMEM},
        {ERROR_COMMITMENT_LIMIT, ENOMEM},
        {ERROR_BROKEN_PIPE, EPIPE},
        {ERROR_NO_DATA, EPIPE},
        {ERROR_WRITE_PROTECT, EROFS},
        {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
        {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
    };
    DWORD code = GetLastError();
    errno = EIO;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code)
            errno = rows[i].number;
    return -1;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Others may write, rename and remove the file meanwhile, as on POSIX systems. The flag opens folders, too,
 * so that they are told apart from files that may not be read. */
static HANDLE open_handle(const char *path, DWORD access)
{
    wchar_t *wide = wide_path(path);
    if (!wide)
        return INVALID_HANDLE_VALUE;
    HANDLE h =
        CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                    OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL | FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    if (h == INVALID_HANDLE_VALUE)
        wide_fail();
    return h;
}

int sys_open(const char *path)
{
    HANDLE h = open_handle(path, GENERIC_READ);
    int fd = h == INVALID_HANDLE_VALUE
                 ? -1
                 : _open_osfhandle((intptr_t)h, _O_RDONLY | _O_BINARY | _O_NOINHERIT);
    if (h != INVALID_HANDLE_VALUE && fd < 0)
        CloseHandle(h);
    return fd;
}

void sys_close(int fd)
{
    _close(fd);
}

static int look_at_handle(HANDLE h, enum sys_kind *kind, uint64_t *size)
{
    BY_HANDLE_FILE_INFORMATION info;
    *kind = SYS_OTHER;
    *size = 0;
    if (GetFileType(h) != FILE_TYPE_DISK)
        return 0;
    if (!GetFileInformationByHandle(h, &info))
        return wide_fail();
    *kind = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? SYS_FOLDER : SYS_FILE;
    if (*kind == SYS_FILE)
        *size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
    return 0;
}

int sys_look(int fd, enum sys_kind *kind, uint64_t *size)
{
    return look_at_handle((HANDLE)_get_osfhandle(fd), kind, size);
}

int sys_look_at(const char *path, enum sys_kind *kind, uint64_t *size)
{
    HANDLE h = open_handle(path, 0);
    if (h == INVALID_HANDLE_VALUE)
        return -1;
    int failed = look_at_handle(h, kind, size);
    CloseHandle(h);
    return failed;
}

int64_t sys_read_at(int fd, void *to, size_t n, uint64_t offset)
{
    enum { AT_MOST = 1 << 30 }; /* lengths have 32 bits */
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    DWORD got = 0;
    if (!ReadFile((HANDLE)_get_osfhandle(fd), to, n < AT_MOST ? (DWORD)n : AT_MOST, &got, &at) &&
        GetLastError() != ERROR_HANDLE_EOF)
        return wide_fail();
    return got;
}

/* ---- pages ----------------------------------------------------------------------------------- */

void *sys_pages(size_t n, int writable)
{
    return VirtualAlloc(NULL, n, MEM_RESERVE | MEM_COMMIT,
                        writable ? PAGE_READWRITE : PAGE_READONLY);
}

void *sys_map(int fd, size_t n)
{
    HANDLE file = (HANDLE)_get_osfhandle(fd);
    HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    void *p = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, n) : NULL;
    if (!p)
        wide_fail();
    if (mapping)
        CloseHandle(mapping); /* the view keeps it */
    return p;
}

void sys_unmap(void *pages, size_t n, int is_file)
{
    (void)n;
    if (is_file)
        UnmapViewOfFile(pages);
    else
        VirtualFree(pages, 0, MEM_RELEASE);
}

int sys_map_part(void *at, int fd, size_t n)
{
    (void)at, (void)fd, (void)n;
    errno = ENOSYS;
    return -1;
}

void sys_want_huge(void *pages, size_t n)
{
    (void)pages, (void)n; /* large pages need a privilege that nobody has */
}

void sys_drop(void *pages, size_t n)
{
    VirtualAlloc(pages, n, MEM_RESET, PAGE_READWRITE);
}
