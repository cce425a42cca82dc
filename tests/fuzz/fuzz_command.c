/* Fuzz target: the command line. An input is the words after "mgpt", a line each, up to an empty
 * line; what follows is stdin and the file "in". With FUZZ_SCORE the input is the file alone, for
 * mgpt score --json, and each of its lines must give a record.
 *
 * The command runs in a folder of its own with links to a few files of the repository. Opening for
 * writing and names outside of that folder are refused; outputs are in memory (one_file.h). What
 * takes long is cut: Ctrl-C comes after some passes, a clock goes a second at each look, and the
 * machine's bandwidth is not measured. No sandbox, which would stay for the next input.
 */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include "bench/bench_cases.h"
#include "common/sandbox.h"
#include "fuzz/one_file.h"
#include "fuzz/quiet.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS_MOST = 24, PASSES_MOST = 60, THREADS_MOST = 8, SMALL_CHUNK = 12 };

int mgpt_main(int argc, char **argv); /* main.c */

/* ---- what the command may not do ------------------------------------------------------------- */

static int running;
static atomic_uint n_passes; /* generate runs passes in several threads */
static unsigned n_threads, n_looks;

static int refuses_open(const char *path, int flags)
{
    if (!running)
        return 0;
    errno = ENOENT;
    if ((flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT)
        errno = EACCES;
    return errno == EACCES || path[0] == '/' || strstr(path, "..");
}

/* An open for writing, which would need a mode, is refused while a command runs. */
#define OPEN(name)                                                                                 \
    int __real_##name(const char *path, int flags, ...);                                           \
    int __wrap_##name(const char *path, int flags, ...);                                           \
    int __wrap_##name(const char *path, int flags, ...)                                            \
    {                                                                                              \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        unsigned mode = flags & O_CREAT ? va_arg(more, unsigned) : 0;                              \
        va_end(more);                                                                              \
        return refuses_open(path, flags) ? -1 : __real_##name(path, flags, mode);                  \
    }
OPEN(open)
OPEN(open64)

/* Ctrl-C, where the command catches it; once, as a second one ends the program at once. */
static void count_pass(void)
{
    struct sigaction now;
    if (running && ++n_passes == PASSES_MOST && sigaction(SIGINT, NULL, &now) == 0 &&
        now.sa_handler != SIG_IGN && now.sa_handler != SIG_DFL)
        raise(SIGINT);
}

#define PASS(result, name, parameters, arguments)                                                  \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters                                                                \
    {                                                                                              \
        count_pass();                                                                              \
        return __real_##name arguments;                                                            \
    }
PASS(const float *, mgpt_step, (mgpt_session * s, int32_t token, mgpt_error *err), (s, token, err))
PASS(int, mgpt_feed, (mgpt_session * s, const int32_t *tokens, size_t n, mgpt_error *err),
     (s, tokens, n, err))
PASS(int, mgpt_sync, (mgpt_session * s, const int32_t *tokens, size_t n, mgpt_error *err),
     (s, tokens, n, err))
PASS(int, mgpt_step_many,
     (mgpt_session *const *s, const int32_t *tokens, size_t n, mgpt_error *err),
     (s, tokens, n, err))
PASS(int, mgpt_feed_many, (const mgpt_run *runs, size_t n, mgpt_error *err), (runs, n, err))

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    return running && ++n_threads > THREADS_MOST ? EAGAIN : __real_pthread_create(t, a, fn, arg);
}

/* Opening the model is a third of a command's time, and what is open stays the same: it is kept open
 * for most commands. Every 64th opens and closes its own. */
static mgpt_model *kept[2][2];
static unsigned n_commands;

mgpt_model *__real_mgpt_open(const char *path, const mgpt_model_params *p, mgpt_error *err);
mgpt_model *__wrap_mgpt_open(const char *path, const mgpt_model_params *p, mgpt_error *err);
mgpt_model *__wrap_mgpt_open(const char *path, const mgpt_model_params *p, mgpt_error *err)
{
    int is_plain = p && !p->isa && p->top_k == 0 && strcmp(path, "m.gguf") == 0;
    if (!is_plain || n_commands % 64 == 0)
        return __real_mgpt_open(path, p, err);
    mgpt_model **model = &kept[p->vocab_only != 0][p->no_fused != 0];
    if (!*model)
        *model = __real_mgpt_open(path, p, err);
    return *model;
}

void __real_mgpt_close(mgpt_model *m);
void __wrap_mgpt_close(mgpt_model *m);
void __wrap_mgpt_close(mgpt_model *m)
{
    for (size_t i = 0; i < 4; i++)
        if (m == kept[i / 2][i % 2])
            return;
    __real_mgpt_close(m);
}

/* Texts are short here, and the scratch of a chunk of 192 tokens is half of a command's page faults. */
mgpt_session *__real_mgpt_session_new(const mgpt_model *m, const mgpt_session_params *p,
                                      mgpt_error *err);
mgpt_session *__wrap_mgpt_session_new(const mgpt_model *m, const mgpt_session_params *p,
                                      mgpt_error *err);
mgpt_session *__wrap_mgpt_session_new(const mgpt_model *m, const mgpt_session_params *p,
                                      mgpt_error *err)
{
    mgpt_session_params small = p ? *p : (mgpt_session_params){0};
    if (small.n_chunk == 0)
        small.n_chunk = SMALL_CHUNK;
    return __real_mgpt_session_new(m, running ? &small : p, err);
}

double __wrap_cli_seconds(void);
double __wrap_cli_seconds(void)
{
    return ++n_looks;
}

int __wrap_sandbox_enter(const struct sandbox *s);
int __wrap_sandbox_enter(const struct sandbox *s)
{
    (void)s;
    return EXIT_OK;
}

void __wrap_files_catch_truncation(void);
void __wrap_files_catch_truncation(void)
{
}

int __wrap_limits_open(struct limits *l, const struct machine *m, const char *isa, int n_threads_,
                       size_t bytes);
int __wrap_limits_open(struct limits *l, const struct machine *m, const char *isa, int n_threads_,
                       size_t bytes)
{
    (void)l, (void)m, (void)isa, (void)n_threads_, (void)bytes;
    return 0;
}

/* Matrices of hundreds of megabytes: there is no memory for them. */
int __wrap_bank_open(struct bank *b, const struct machine *m);
int __wrap_bank_open(struct bank *b, const struct machine *m)
{
    (void)m;
    *b = (struct bank){0};
    return 0;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static const char *const links[][2] = {
    {"m.gguf", "weights/names.gguf"},
    {"ref.json", "weights/names.ref.json"},
    {"model.json", "tests/fixtures/convert/flat.json"},
    {"nano.pt", "tests/fixtures/torch/nanogpt/ckpt.pt"},
    {"llama", "tests/golden/llama"},
    {"lora", "tests/fixtures/lora/llama"},
};
enum { N_LINKS = sizeof links / sizeof *links };

static char folder[512];
static int in_fd, home_fd, folder_fd;

static int is_on_disk(const char *path)
{
    (void)path;
    return 1;
}

static void remove_folder(void)
{
    for (size_t i = 0; i < N_LINKS; i++)
        unlinkat(folder_fd, links[i][0], 0);
    unlinkat(folder_fd, "in", 0);
    rmdir(folder);
}

static void make_folder(void)
{
    const char *root = getenv("MGPT_SOURCE_ROOT"), *tmp = getenv("TMPDIR");
    char *here = realpath(root ? root : ".", NULL), target[4096];
    snprintf(folder, sizeof folder, "%s/mgpt-fuzz-XXXXXX", tmp ? tmp : "/tmp");
    MUST(here && mkdtemp(folder));
    home_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    in_fd = memfd_create("in", MFD_CLOEXEC);
    snprintf(target, sizeof target, "/proc/self/fd/%d", in_fd);
    MUST(symlinkat(target, folder_fd, "in") == 0);
    MUST(home_fd >= 0 && folder_fd >= 0 && in_fd >= 0 && dup2(in_fd, STDIN_FILENO) == 0);
    for (size_t i = 0; i < N_LINKS; i++) {
        snprintf(target, sizeof target, "%s/%s", here, links[i][1]);
        MUST(symlinkat(target, folder_fd, links[i][0]) == 0);
    }
    free(here);
    one_file_except(is_on_disk);
    atexit(remove_folder);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static struct {
    int argc;
    char *argv[WORDS_MOST + 1];
} words;

static void add_word(const char *text, size_t n)
{
    words.argv[words.argc] = strndup(text, n);
    MUST(words.argv[words.argc]);
    words.argv[++words.argc] = NULL;
}

static void put_input(const uint8_t *data, size_t size)
{
    MUST(pwrite(in_fd, data, size, 0) == (ssize_t)size && ftruncate(in_fd, (off_t)size) == 0);
    rewind(stdin);
    MUST(lseek(STDIN_FILENO, 0, SEEK_SET) == 0);
}

/* A command that fails says why. */
static void check_code(int code)
{
    int may_differ = words.argc > 1 && strcmp(words.argv[1], "check") == 0;
    /* The repl's exit code is that of its first failure, however many follow. */
    int is_repl = words.argc > 1 && strcmp(words.argv[1], "repl") == 0;
    MUST((code >= EXIT_OK && code <= EXIT_IO) || code == EXIT_INTERRUPTED);
    MUST(code != EXIT_DIFFERENT || may_differ);
    MUST(code < EXIT_USAGE || code == EXIT_INTERRUPTED || quiet_told() > 0 || is_repl);
    MUST(code != EXIT_INTERRUPTED || n_passes >= PASSES_MOST);
}

static int run_command_line(const uint8_t *data, size_t size, quiet_out_fn *out)
{
    put_input(data, size);
    n_passes = n_threads = n_looks = 0;
    n_commands++;
    MUST(fchdir(folder_fd) == 0);
    signal(SIGINT, SIG_IGN);
    quiet_begin(out);
    running = 1;
    int code = mgpt_main(words.argc, words.argv);
    running = 0;
    quiet_end();
    MUST(fchdir(home_fd) == 0);
    check_code(code);
    while (words.argc > 0)
        free(words.argv[--words.argc]);
    return code;
}

#ifdef FUZZ_SCORE
static struct {
    char *text;
    size_t n, room;
} records;

static void keep_out(const char *text, size_t n)
{
    if (records.n + n > records.room) {
        records.room = 2 * (records.n + n);
        records.text = realloc(records.text, records.room);
        MUST(records.text);
    }
    memcpy(records.text + records.n, text, n);
    records.n += n;
}

/* Lines that are not empty. With `as_json`, each is an object. */
static size_t count_lines(const char *text, size_t n, int as_json)
{
    size_t lines = 0;
    if (n == 0)
        return 0;
    for (const char *end = text + n, *stop; text < end; text = stop + 1) {
        stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        size_t n_line = (size_t)(stop - text);
        n_line -= n_line > 0 && !as_json && text[n_line - 1] == '\r';
        json_t *record = as_json ? json_loadb(text, n_line, JSON_ALLOW_NUL, NULL) : NULL;
        MUST(!as_json || json_is_object(record));
        json_decref(record);
        lines += n_line > 0;
    }
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const line[] = {"mgpt", "score", "m.gguf", "--json", "-f",
                                       "in",   "-t",    "1",      "--top",  "3"};
    size_t n_words = size > 0 && data[0] == ' ' ? 10 : 8; /* a space in front asks for --top */
    if (!folder[0])
        make_folder();
    for (size_t i = 0; i < n_words; i++)
        add_word(line[i], strlen(line[i]));
    records.n = 0;
    int code = run_command_line(data, size, keep_out);
    MUST(code == EXIT_OK || code == EXIT_REFUSED || code == EXIT_INTERRUPTED);
    if (code != EXIT_INTERRUPTED)
        MUST(count_lines(records.text, records.n, 1) == count_lines((const char *)data, size, 0));
    return 0;
}
#else
/* Takes the words off the input. */
static void take_words(const uint8_t **data, size_t *size)
{
    const char *text = (const char *)*data, *end = text + *size;
    while (text < end && words.argc < WORDS_MOST) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((stop ? stop : end) - text);
        if (n > 0)
            add_word(text, n);
        text += n + (stop != NULL);
        if (n == 0)
            break;
    }
    *size = (size_t)(end - text);
    *data = (const uint8_t *)text;
}

static void drop_out(const char *text, size_t n)
{
    (void)text, (void)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!folder[0])
        make_folder();
    add_word("mgpt", 4);
    take_words(&data, &size);
    run_command_line(data, size, drop_out);
    return 0;
}
#endif
