/* Calls of POSIX. See posix.h. */
#include "windows/posix.h"

#include "base/wide.h"

#include <windows.h>

#include <ntsecapi.h> /* RtlGenRandom */
#include <psapi.h>

static HANDLE handle_of(int fd)
{
    return (HANDLE)_get_osfhandle(fd);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int stat_handle(HANDLE h, struct sys_stat *st)
{
    BY_HANDLE_FILE_INFORMATION info;
    DWORD type = GetFileType(h);
    *st = (struct sys_stat){.st_mode = type == FILE_TYPE_PIPE ? S_IFIFO : S_IFCHR};
    if (type != FILE_TYPE_DISK)
        return 0;
    if (!GetFileInformationByHandle(h, &info))
        return wide_fail();
    int is_folder = (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    int is_written = (info.dwFileAttributes & FILE_ATTRIBUTE_READONLY) == 0;
    st->st_mode = (is_folder ? S_IFDIR : S_IFREG) | 0444u | (is_written ? 0222u : 0u);
    st->st_dev = info.dwVolumeSerialNumber;
    st->st_ino = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
    st->st_size = (off_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow);
    return 0;
}

int sys_stat(const char *path, struct sys_stat *st)
{
    wchar_t *wide = wide_path(path);
    if (!wide)
        return -1;
    HANDLE h = CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                           OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    if (h == INVALID_HANDLE_VALUE)
        return wide_fail();
    int failed = stat_handle(h, st);
    CloseHandle(h);
    return failed;
}

int sys_fstat(int fd, struct sys_stat *st)
{
    HANDLE h = handle_of(fd);
    return h == INVALID_HANDLE_VALUE ? -1 : stat_handle(h, st);
}

int sys_open_path(const char *path, int flags, ...)
{
    wchar_t *wide = wide_path(path);
    int fd = wide ? _wopen(wide, flags | _O_BINARY | _O_NOINHERIT) : -1;
    int why = errno;
    free(wide);
    errno = why;
    return fd;
}

/* Lengths have 32 bits. */
enum { AT_ONCE = 1 << 30 };

ssize_t sys_read(int fd, void *to, size_t n)
{
    return _read(fd, to, n < AT_ONCE ? (unsigned)n : AT_ONCE);
}

ssize_t sys_write(int fd, const void *from, size_t n)
{
    return _write(fd, from, n < AT_ONCE ? (unsigned)n : AT_ONCE);
}

int sys_access(const char *path, int mode)
{
    wchar_t *wide = wide_path(path);
    int failed = wide ? _waccess(wide, mode) : -1;
    int why = errno;
    free(wide);
    errno = why;
    return failed;
}

FILE *sys_tmpfile(void)
{
    wchar_t folder[MAX_PATH + 1], path[MAX_PATH + 1];
    if (!GetTempPathW(MAX_PATH, folder) || !GetTempFileNameW(folder, L"mgpt", 0, path))
        return NULL;
    int fd = _wopen(path, _O_RDWR | _O_CREAT | _O_BINARY | _O_NOINHERIT | _O_TEMPORARY,
                    _S_IREAD | _S_IWRITE);
    return fd >= 0 ? _fdopen(fd, "w+b") : NULL;
}

int sys_fcntl(int fd, int what)
{
    (void)what;
    return handle_of(fd) == INVALID_HANDLE_VALUE ? -1 : 0;
}

int sys_isatty(int fd)
{
    DWORD mode;
    return GetConsoleMode(handle_of(fd), &mode) != 0;
}

/* ---- texts as files -------------------------------------------------------------------------- */

/* Temporary files that are used again: texts are short, and opening a file takes longer. */
enum { N_MEMORY = 4 };
static struct {
    FILE *file;
    char **text; /* NULL: free */
    size_t *n;
} memory[N_MEMORY];

FILE *sys_open_memstream(char **text, size_t *n)
{
    for (int i = 0; i < N_MEMORY; i++) {
        if (memory[i].text)
            continue;
        if (!memory[i].file && !(memory[i].file = sys_tmpfile()))
            return NULL;
        rewind(memory[i].file);
        memory[i].text = text;
        memory[i].n = n;
        *text = NULL;
        *n = 0;
        return memory[i].file;
    }
    errno = EMFILE;
    return NULL;
}

/* Reads back what was written from the beginning on. */
static int close_memory(FILE *file, char **text, size_t *n)
{
    long end = ftell(file);
    if (fflush(file) != 0 || end < 0 || !(*text = malloc((size_t)end + 1)))
        return EOF;
    rewind(file);
    *n = fread(*text, 1, (size_t)end, file);
    (*text)[*n] = 0;
    return *n == (size_t)end ? 0 : EOF;
}

int sys_fclose(FILE *file)
{
    for (int i = 0; i < N_MEMORY; i++)
        if (memory[i].text && memory[i].file == file) {
            int failed = close_memory(file, memory[i].text, memory[i].n);
            memory[i].text = NULL;
            return failed;
        }
#undef fclose
    return fclose(file);
}

ssize_t sys_getline(char **line, size_t *cap, FILE *file)
{
    size_t n = 0;
    for (int c = 0; c != '\n' && (c = getc(file)) != EOF;) {
        if (n + 2 > *cap) {
            char *bigger = realloc(*line, 2 * *cap + 128);
            if (!bigger)
                return -1;
            *line = bigger;
            *cap = 2 * *cap + 128;
        }
        (*line)[n++] = (char)c;
    }
    if (n == 0)
        return -1;
    (*line)[n] = 0;
    return (ssize_t)n;
}

/* ---- poll ------------------------------------------------------------------------------------ */

/* 1: bytes, or the end, can be read now. */
static int is_readable(HANDLE h)
{
    DWORD n = 0;
    switch (GetFileType(h)) {
    case FILE_TYPE_PIPE:
        return !PeekNamedPipe(h, NULL, 0, NULL, &n, NULL) || n > 0;
    case FILE_TYPE_CHAR:
        return WaitForSingleObject(h, 0) == WAIT_OBJECT_0;
    default:
        return 1;
    }
}

int sys_poll(struct pollfd *p, unsigned n, int wait_ms)
{
    enum { STEP_MS = 10 };
    HANDLE h = handle_of(p->fd);
    (void)n;
    p->revents = 0;
    if (p->events ==
        POLLOUT) { /* asked after a failure: that of a pipe is a reader that has gone */
        p->revents = GetFileType(h) == FILE_TYPE_PIPE ? POLLERR : POLLOUT;
        return 1;
    }
    for (int waited = 0; !is_readable(h); waited += STEP_MS) {
        if (wait_ms >= 0 && waited >= wait_ms)
            return 0;
        Sleep(STEP_MS);
    }
    p->revents = POLLIN;
    return 1;
}

/* ---- fnmatch --------------------------------------------------------------------------------- */

int sys_fnmatch(const char *pattern, const char *text, int flags)
{
    const char *star = NULL, *again = NULL; /* the last * and where its match ends */
    (void)flags;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            again = text;
        } else if (*pattern && (*pattern == '?' || *pattern == *text)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++again;
        } else {
            return 1;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern != 0;
}

/* ---- the machine ----------------------------------------------------------------------------- */

int ioctl(int fd, int what, struct winsize *size)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    (void)what;
    if (!GetConsoleScreenBufferInfo(handle_of(fd), &info))
        return -1;
    size->ws_col = (unsigned short)(info.srWindow.Right - info.srWindow.Left + 1);
    size->ws_row = (unsigned short)(info.srWindow.Bottom - info.srWindow.Top + 1);
    return 0;
}

long sysconf(int what)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (long)(what == _SC_PAGESIZE ? info.dwPageSize : info.dwNumberOfProcessors);
}

int getentropy(void *to, size_t n)
{
    return RtlGenRandom(to, (ULONG)n) ? 0 : -1;
}

int getrusage(int who, struct rusage *usage)
{
    PROCESS_MEMORY_COUNTERS counters;
    (void)who;
    if (!GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters))
        return -1;
    usage->ru_maxrss = counters.PeakWorkingSetSize / 1024;
    return 0;
}

int uname(struct utsname *system)
{
    *system = (struct utsname){"Windows", "x86_64"};
    return 0;
}
