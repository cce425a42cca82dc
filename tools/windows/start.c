/* The beginning of the program on Windows: arguments in UTF-8, binary streams, a console that shows UTF-8 and colours.
 * main.c is compiled with main as mgpt_main.
 */
#include "windows/posix.h"

#include <windows.h>

int mgpt_main(int argc, char **argv);

enum { STDOUT_BYTES = 1 << 16 };

static UINT code_pages[2]; /* of the console, before */

static void restore_console(void)
{
    fflush(stdout);
    SetConsoleCP(code_pages[0]);
    SetConsoleOutputCP(code_pages[1]);
}

/* MinGW's stdout has no buffer on a console, and a character that is written byte by byte is not shown. */
static void prepare_console(void)
{
    static char buffer[STDOUT_BYTES];
    HANDLE out = GetStdHandle(STD_OUTPUT_HANDLE);
    DWORD mode;
    if (!GetConsoleMode(out, &mode))
        return;
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    code_pages[0] = GetConsoleCP();
    code_pages[1] = GetConsoleOutputCP();
    SetConsoleCP(CP_UTF8);
    SetConsoleOutputCP(CP_UTF8);
    atexit(restore_console);
    if (SetConsoleMode(out, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) && !getenv("TERM")) {
        _putenv("TERM=xterm-256color"); /* screen.c asks */
        _putenv("COLORTERM=truecolor");
    }
}

/* The arguments in UTF-8, NULL-terminated; NULL when out of memory. They live as long as the process. */
static char **utf8_arguments(int *argc)
{
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), argc);
    char **argv = wide ? calloc((size_t)*argc + 1, sizeof *argv) : NULL;
    for (int i = 0; argv && i < *argc; i++) {
        int n = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        argv[i] = malloc((size_t)n);
        if (!argv[i])
            return NULL;
        WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, argv[i], n, NULL, NULL);
    }
    LocalFree(wide);
    return argv;
}

#undef main
int main(void)
{
    int argc = 0;
    for (int fd = 0; fd < 3; fd++)
        _setmode(fd, _O_BINARY);
    prepare_console();
    char **argv = utf8_arguments(&argc);
    if (!argv) {
        fputs("mgpt: out of memory: the arguments\n", stderr);
        return 4;
    }
    return mgpt_main(argc, argv);
}
