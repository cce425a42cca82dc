/* The page of check --report. See report_page.h. */
#include "check/report_page.h"

#include "base/error.h"
#include "common/files.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static int fail_io(const char *what)
{
    cli_note("--report: %s", what);
    return EXIT_IO;
}

int report_page_begin(struct report_page *page, const char *path)
{
    mgpt_error err;
    if (!path)
        return EXIT_OK;
    if (files_may_write(path, FILES_REPORT, &err) < 0)
        return cli_fail(path, &err);
    page->held = tmpfile();
    page->out = dup(STDOUT_FILENO);
    if (page->held && page->out >= 0 && fflush(stdout) == 0 &&
        dup2(fileno(page->held), STDOUT_FILENO) >= 0) {
        page->path = path;
        return EXIT_OK;
    }
    return fail_io("no temporary file");
}

/* ---- the page ---- */

static void __attribute__((format(printf, 2, 3))) put(struct outfile *out, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    outfile_write(out, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* An argument as a shell reads it; control characters become '?'. */
static void put_argument(struct outfile *out, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-@%";
    int quoted = text[strspn(text, plain)] != 0 || !*text;
    put(out, quoted ? " '" : " ");
    for (; *text; text++) {
        char c = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;
        if (c == '\'')
            put(out, "'\\''");
        else
            outfile_write(out, &c, 1);
    }
    if (quoted)
        put(out, "'");
}

static void put_model(struct outfile *out, const struct engine *e)
{
    const mgpt_info *i = &e->info;
    uint64_t hash, n;
    mgpt_error err;
    put(out, "| model | %s, %d layers, %d wide, %d heads (%d of keys), vocabulary %d, %s |\n",
        i->arch, (int)i->n_layer, (int)i->n_embd, (int)i->n_head, (int)i->n_head_kv,
        (int)i->n_vocab, i->type);
    put(out, "| | %s, %s, positions: %s, epsilon %g, rope base %g, %s head |\n", i->norm,
        i->activation, i->position, (double)i->norm_eps, (double)i->rope_base,
        i->tied ? "tied" : "untied");
    if (engine_hash(e, &hash, &n, &err) == MGPT_OK)
        put(out, "| GGUF file | %" PRIu64 " bytes, XXH64 %016" PRIx64 " |\n", n, hash);
}

static const char *verdict_of(int code)
{
    static const char *const verdicts[] = {[EXIT_OK] = "the same",
                                           [EXIT_DIFFERENT] = "DIFFERENT",
                                           [EXIT_USAGE] = "not run",
                                           [EXIT_REFUSED] = "refused"};
    if (code == EXIT_INTERRUPTED)
        return "interrupted";
    return (size_t)code < sizeof verdicts / sizeof *verdicts ? verdicts[code] : "failed";
}

/* The lines that matter most begin with these words (check_table.c, locate_print.c,
 * explain_print.c, self_check.c). What a file holds is quoted, and never begins a line. */
static int is_summary(const char *line)
{
    static const char *const begins[] = {
        "verdict ", "first bad ", "first difference:", "cause ",
        "causes, ", "hint ",      "precision ",        "not finite "};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(line, begins[i], strlen(begins[i])) == 0)
            return 1;
    return strspn(line, "0123456789abcdef") == 16; /* the hash of --self and its verdict */
}

/* What was printed, as code: each line after four spaces. Or its summary: the lines that
 * is_summary finds, with those that continue them. */
static void put_held(struct outfile *out, FILE *held, int summary)
{
    char line[4096];
    int begins = 1, wanted = !summary;
    rewind(held);
    while (fgets(line, sizeof line, held)) {
        if (summary && begins && (line[0] != ' ' || !wanted))
            wanted = is_summary(line);
        if (wanted && begins && line[0] != '\n')
            put(out, "    ");
        if (wanted)
            outfile_write(out, line, strlen(line));
        begins = line[strlen(line) - 1] == '\n';
    }
}

static int write_page(const struct report_page *page, const struct engine *e, int argc, char **argv,
                      int code, mgpt_error *err)
{
    struct outfile out;
    struct utsname system = {0};
    if (files_create(&out, page->path, FILES_REPORT, err) < 0)
        return err->status;
    uname(&system);
    put(&out, "# mgpt check: %s\n\n", verdict_of(code));
    put_held(&out, page->held, 1);
    put(&out, "    to repeat   mgpt");
    for (int i = 0; i < argc; i++)
        put_argument(&out, argv[i]);
    put(&out, "\n\n| | |\n| --- | --- |\n| mgpt | %s, %s, %s %s |\n", mgpt_version(), CLI_COMPILER,
        system.sysname, system.machine);
    if (e->model) {
        put(&out, "| instruction set | %s |\n", e->info.isa);
        put_model(&out, e);
    }
    put(&out, "| exit code | %d |\n\n", code);
    put_held(&out, page->held, 0);
    return outfile_commit(&out, err);
}

/* ---- the end ---- */

static void print_held(FILE *held)
{
    char part[4096];
    size_t n;
    rewind(held);
    while ((n = fread(part, 1, sizeof part, held)) > 0)
        fwrite(part, 1, n, stdout);
}

int report_page_end(struct report_page *page, const struct engine *e, int argc, char **argv,
                    int code)
{
    mgpt_error err;
    if (!page->path)
        return code;
    fflush(stdout);
    dup2(page->out, STDOUT_FILENO);
    close(page->out);
    print_held(page->held);
    if (code == EXIT_OK || code == EXIT_DIFFERENT || code == EXIT_INTERRUPTED)
        if (write_page(page, e, argc, argv, code, &err) < 0)
            code = cli_fail(page->path, &err);
    fclose(page->held);
    return cli_finish(code);
}
