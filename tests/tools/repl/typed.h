/* Tests: a repl that gets lines as if they were typed, and what it prints. */
#ifndef TESTS_REPL_TYPED_H
#define TESTS_REPL_TYPED_H

#include "repl/repl.h"
#include "support/unit.h"

#include <unistd.h>

enum { N_VOCAB = 27 }; /* of weights/names.gguf */

struct repl_fixture {
    struct repl repl;
    char path[512], directory[64], file[96];
    int out, err;      /* the real ones */
    FILE *said, *told; /* what commands wrote to them */
};

static inline void open_repl(struct repl_fixture *f, const char *rng)
{
    const struct cli_command none = {.name = "test"};
    memset(f, 0, sizeof *f);
    snprintf(f->path, sizeof f->path, "%s/weights/names.gguf", getenv("MGPT_SOURCE_ROOT"));
    f->repl = (struct repl){.engine = {.path = f->path}, .sampling = {SAMPLING_INITIAL.rng = rng}};
    assert_int_equal(sampling_begin(&f->repl.sampling, &none), EXIT_OK);
    assert_int_equal(engine_open(&f->repl.engine), EXIT_OK);
    assert_int_equal(engine_session(&f->repl.engine), EXIT_OK);
    assert_true(repl_begin(&f->repl));
    strcpy(f->directory, "/tmp/mgpt-repl-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->file, sizeof f->file, "%s/session", f->directory);
    f->said = tmpfile();
    f->told = tmpfile();
    assert_true(f->said && f->told);
}

static inline void close_repl(struct repl_fixture *f)
{
    repl_end(&f->repl);
    engine_close(&f->repl.engine);
    unlink(f->file);
    rmdir(f->directory);
    fclose(f->said);
    fclose(f->told);
}

static inline void redirect(FILE *to, int fd)
{
    assert_int_equal(ftruncate(fileno(to), 0), 0);
    assert_int_equal(lseek(fileno(to), 0, SEEK_SET), 0);
    assert_true(dup2(fileno(to), fd) >= 0);
}

static inline void restore(int saved, int fd)
{
    assert_true(dup2(saved, fd) >= 0);
    close(saved);
}

/* Types one line. */
__attribute__((format(printf, 2, 3))) static inline void type(struct repl_fixture *f,
                                                              const char *fmt, ...)
{
    char line[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fflush(stdout);
    fflush(stderr);
    f->out = dup(STDOUT_FILENO);
    f->err = dup(STDERR_FILENO);
    redirect(f->said, STDOUT_FILENO);
    redirect(f->told, STDERR_FILENO);
    repl_line(&f->repl, line, (size_t)n);
    fflush(stdout);
    fflush(stderr);
    restore(f->out, STDOUT_FILENO);
    restore(f->err, STDERR_FILENO);
}

/* What the last line wrote to stderr, as text. */
static inline const char *told(struct repl_fixture *f)
{
    static char text[2048];
    ssize_t n = pread(fileno(f->told), text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static inline int is_one_line(const char *text)
{
    const char *end = strchr(text, '\n');
    return end && end > text && end[1] == 0;
}

#endif
