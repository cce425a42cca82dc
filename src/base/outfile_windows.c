/* Output files on Windows. See outfile_system.h.
 *
 * No other process can open the temporary file (outfile_name.h) while it is written. So a file
 * that can be removed was left by a killed process, and the next writer of NAME removes it. A complete file is
 * flushed, then moved over the target; the new file has the rights that its folder gives.
 */
#include "base/outfile_system.h"

#include "base/error.h"
#include "base/outfile_name.h"
#include "base/wide.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* Where the name begins: after a slash, a backslash or a drive's colon. */
static size_t name_of(const char *path)
{
    size_t at = strlen(path);
    while (at > 0 && !strchr("/\\:", path[at - 1]))
        at--;
    return at;
}

static HANDLE handle_of(const struct outfile *out)
{
    return (HANDLE)_get_osfhandle(out->fd);
}

/* Opens for writing, shared with nobody. Returns 1, or 0 with errno. */
static int open_alone(struct outfile *out, const char *path, DWORD how)
{
    wchar_t *wide = wide_path(path);
    if (!wide)
        return 0;
    HANDLE h = CreateFileW(wide, GENERIC_WRITE, 0, NULL, how, FILE_ATTRIBUTE_NORMAL, NULL);
    free(wide);
    if (h == INVALID_HANDLE_VALUE) {
        wide_fail();
        return 0;
    }
    out->fd = _open_osfhandle((intptr_t)h, _O_WRONLY | _O_BINARY | _O_NOINHERIT);
    if (out->fd < 0)
        CloseHandle(h);
    return out->fd >= 0;
}

/* ---- the temporary file ---------------------------------------------------------------------- */

/* A number that two processes, or two calls at different times, hardly share. */
static uint64_t unique_now(void)
{
    LARGE_INTEGER now = {0};
    QueryPerformanceCounter(&now);
    return (uint64_t)now.QuadPart ^ (uint64_t)GetCurrentProcessId() << 40;
}

/* Removes what was found beside `path` if it is a temporary file of it. */
static void remove_found(const char *path, const wchar_t *found)
{
    char name[4 * MAX_PATH];
    size_t start = name_of(path);
    int n = WideCharToMultiByte(CP_UTF8, 0, found, -1, name, sizeof name, NULL, NULL);
    char *left =
        n > 0 && outfile_is_temporary(name, path + start) ? malloc(start + (size_t)n) : NULL;
    if (!left)
        return;
    memcpy(left, path, start);
    memcpy(left + start, name, (size_t)n);
    wchar_t *wide = wide_path(left);
    if (wide)
        DeleteFileW(wide);
    free(wide);
    free(left);
}

/* Removes the temporary files of this target that no process has open. Errors are ignored. */
static void remove_left(const char *path, const char *pattern)
{
    WIN32_FIND_DATAW found;
    wchar_t *wide = wide_path(pattern);
    HANDLE search = wide ? FindFirstFileW(wide, &found) : INVALID_HANDLE_VALUE;
    if (search != INVALID_HANDLE_VALUE) {
        do
            remove_found(path, found.cFileName);
        while (FindNextFileW(search, &found));
        FindClose(search);
    }
    free(wide);
}

static int create_temporary(struct outfile *out, mgpt_error *err)
{
    out->regular = 1;
    out->temporary = outfile_temporary(out->path, name_of(out->path));
    if (!out->temporary)
        return err_memory(err, "a file name", strlen(out->path));
    remove_left(out->path, out->temporary);
    for (unsigned i = 0; i < OUTFILE_ATTEMPTS; i++) {
        outfile_put_letters(out->temporary, unique_now(), i);
        if (open_alone(out, out->temporary, CREATE_NEW))
            return MGPT_OK;
        if (errno != EEXIST)
            break;
    }
    int status = err_system(err, "create", MGPT_NO_OFFSET);
    free(out->temporary);
    out->temporary = NULL;
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

int outfile_open_target(struct outfile *out, const char *path, mgpt_error *err)
{
    wchar_t *wide = wide_path(path);
    DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    if (wide && attributes == INVALID_FILE_ATTRIBUTES)
        wide_fail();
    free(wide);
    out->fresh = attributes == INVALID_FILE_ATTRIBUTES;
    if (out->fresh && (errno != ENOENT || path[name_of(path)] == 0))
        return err_system(err, "create", MGPT_NO_OFFSET);
    if (!out->fresh && attributes & FILE_ATTRIBUTE_DIRECTORY)
        return err_set(err, MGPT_EIO, MGPT_NO_OFFSET, "is a directory, expected a file name");
    out->path = strdup(path);
    if (!out->path)
        return err_memory(err, "a file name", strlen(path) + 1);
    if (out->fresh)
        return create_temporary(out, err);
    if (!open_alone(out, path, OPEN_EXISTING)) /* moving over it needs no right to write it */
        return err_system(err, "write", MGPT_NO_OFFSET);
    if (GetFileType(handle_of(out)) != FILE_TYPE_DISK)
        return MGPT_OK;
    _close(out->fd);
    out->fd = -1;
    return create_temporary(out, err);
}

/* ---- writing --------------------------------------------------------------------------------- */

int64_t outfile_send(struct outfile *out, const void *p, size_t n, uint64_t at)
{
    enum { AT_MOST = 1 << 30 };
    OVERLAPPED place = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
    DWORD done = 0;
    if (!WriteFile(handle_of(out), p, n < AT_MOST ? (DWORD)n : AT_MOST, &done,
                   out->regular ? &place : NULL))
        return wide_fail();
    return done;
}

int outfile_reserve_blocks(struct outfile *out, uint64_t size)
{
    FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = (LONGLONG)size};
    if (size > INT64_MAX)
        return EFBIG;
    if (SetFileInformationByHandle(handle_of(out), FileEndOfFileInfo, &end, sizeof end))
        return 0;
    wide_fail();
    return errno;
}

/* ---- finishing ------------------------------------------------------------------------------- */

static void move_over(struct outfile *out)
{
    wchar_t *from = wide_path(out->temporary), *to = wide_path(out->path);
    int done = from && to &&
               (MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ||
                wide_fail() == 0);
    free(from);
    free(to);
    if (!done)
        err_system(&out->failed, "rename the finished file", MGPT_NO_OFFSET);
}

void outfile_finish(struct outfile *out)
{
    if (out->failed.status < 0)
        return;
    if (out->regular && !FlushFileBuffers(handle_of(out))) {
        wide_fail();
        err_system(&out->failed, "sync", MGPT_NO_OFFSET);
        return;
    }
    _close(out->fd);
    out->fd = -1;
    if (out->temporary)
        move_over(out);
}

void outfile_remove(struct outfile *out)
{
    if (out->fd >= 0)
        _close(out->fd);
    wchar_t *wide = out->temporary ? wide_path(out->temporary) : NULL;
    if (wide)
        DeleteFileW(wide);
    free(wide);
}
