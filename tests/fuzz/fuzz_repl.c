/* Fuzz target: lines typed into the repl on the names model, whose 16 positions bound what a line
 * costs. With FUZZ_SESSION the input is a session file: it is loaded, and lines use what came of
 * it.
 *
 * No file is touched (one_file.h), except that the model is read from the disk. What is printed
 * goes through quiet.h, which holds it to the escaper's promise.
 */
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "fuzz/one_file.h"
#include "fuzz/quiet.h"
#include "repl/repl.h"

enum { LINES_MOST = 64, LINE_MOST = 4096 };

static void type(struct repl *r, const char *line, size_t n)
{
    char copy[LINE_MOST + 1];
    n = n < LINE_MOST ? n : LINE_MOST;
    memcpy(copy, line, n);
    copy[n] = 0;
    repl_line(r, copy, n);
}

static void type_all(struct repl *r, const char *text, size_t n)
{
    const char *end = text + n;
    for (int i = 0; i < LINES_MOST && text < end && !r->quit; i++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        type(r, text, (size_t)(stop - text));
        text = stop + (stop < end);
    }
}

static char model_path[1024];

static int is_model(const char *path)
{
    return strcmp(path, model_path) == 0;
}

static void open_model(struct engine *e)
{
    const char *root = getenv("MGPT_SOURCE_ROOT");
    snprintf(model_path, sizeof model_path, "%s/weights/names.gguf", root ? root : ".");
    one_file_except(is_model);
    *e = (struct engine){.path = model_path, .n_threads = 1};
    MUST(engine_open(e) == EXIT_OK);
}

#ifdef FUZZ_SESSION
/* A session that was accepted can be used, and comes back when it is saved. */
static void run_script(struct repl *r, const uint8_t *data, size_t size)
{
    static const char use[] = "/branches\n/tokens\n/ab\n/set\n/top 3\n/s 2\n/branch zz\n/goto 0\n"
                              "/goto 1\n/set temp 1\n/g 3\n/sw 0\n/diff zz\n";
    one_file_put(data, size);
    type(r, "/load f", 7);
    if (quiet_told() > 0)
        return;
    type_all(r, use, sizeof use - 1);
    type(r, "/save f", 7);
    size_t told = quiet_told();
    type(r, "/load f", 7);
    MUST(quiet_told() == told);
}
#else
static void run_script(struct repl *r, const uint8_t *data, size_t size)
{
    one_file_put(NULL, 0);
    type_all(r, (const char *)data, size);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct engine engine;
    static const struct cli_command none = {.name = "fuzz"};
    if (!engine.model)
        open_model(&engine);
    struct repl r = {.engine = engine,
                     .sampling = {SAMPLING_INITIAL.seed = 0},
                     .screen_mode = "plain",
                     .width = 80};
    MUST(sampling_begin(&r.sampling, &none) == EXIT_OK);
    MUST(engine_session(&r.engine) == EXIT_OK && repl_begin(&r));
    quiet_begin(NULL);
    run_script(&r, data, size);
    repl_trace_end(&r);
    quiet_end();
    repl_end(&r);
    mgpt_session_free(r.engine.session);
    return 0;
}
