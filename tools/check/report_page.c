/* The page of check --report. See report_page.h. */
#include "check/report_page.h"

#include "base/error.h"
#include "base/utf8.h"
#include "common/files.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

static int fail_io(const char *what)
{
    cli_note("--report: %s", what);
    return EXIT_IO;
}

static int ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), n_end = strlen(end);
    return n > n_end && strcasecmp(path + n - n_end, end) == 0;
}

static int is_html(const char *path)
{
    return ends_in(path, ".html") || ends_in(path, ".htm");
}

/* A name that asks for what is not written here is refused; any other is Markdown or HTML. */
static int check_name(const char *path)
{
    static const char *const others[] = {".json", ".jsonl", ".csv", ".pdf",         ".png",
                                         ".svg",  ".npz",   ".pt",  ".safetensors", ".gguf"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (ends_in(path, others[i])) {
            cli_note("--report %s: expected a name for Markdown (.md) or HTML (.html)%s", path,
                     i < 2 ? "; --json prints JSON" : "");
            return EXIT_USAGE;
        }
    return EXIT_OK;
}

int report_page_begin(struct report_page *page, const char *path)
{
    mgpt_error err;
    if (!path)
        return EXIT_OK;
    if (check_name(path) != EXIT_OK)
        return EXIT_USAGE;
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

/* ---- the page -------------------------------------------------------------------------------- */

/* Markdown, or HTML with the same parts. */
struct page_file {
    struct outfile out;
    int html;
};

/* Text of a program or a user. In HTML markup becomes references. */
static void put_escaped_bytes(struct page_file *f, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char reference[12];
        if (f->html && strchr("<>&\"'", text[i])) {
            int length = snprintf(reference, sizeof reference, "&#%d;", text[i]);
            outfile_write(&f->out, reference, (size_t)length);
        } else {
            outfile_write(&f->out, text + i, 1);
        }
    }
}

static void put_as_is(struct page_file *f, const char *text)
{
    outfile_write(&f->out, text, strlen(text));
}

static void __attribute__((format(printf, 2, 3))) put(struct page_file *f, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    put_escaped_bytes(f, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* A row of the table of facts. */
static void __attribute__((format(printf, 3, 4)))
put_row(struct page_file *f, const char *name, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    put_as_is(f, f->html ? "<tr><td>" : "| ");
    put(f, "%s", name);
    put_as_is(f, f->html ? "<td>" : *name ? " | " : "| ");
    put(f, "%s", text);
    put_as_is(f, f->html ? "\n" : " |\n");
}

/* An argument as a shell reads it; what is dangerous or hidden on a screen becomes '?'. */
static void put_argument(struct page_file *f, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-@%";
    int quoted = text[strspn(text, plain)] != 0 || !*text;
    put(f, quoted ? " '" : " ");
    for (size_t n = strlen(text), i = 0, length; i < n; i += length) {
        uint32_t code;
        length = utf8_next(text + i, n - i, &code);
        if (utf8_dangerous(code) || utf8_hidden(code))
            put(f, "?");
        else if (code == '\'')
            put(f, "'\\''");
        else
            put_escaped_bytes(f, text + i, length);
    }
    if (quoted)
        put(f, "'");
}

static void put_model(struct page_file *f, const struct engine *e)
{
    const mgpt_info *i = &e->info;
    uint64_t hash, n;
    mgpt_error err;
    put_row(f, "model", "%s, %d layers, %d wide, %d heads (%d of keys), vocabulary %d, %s", i->arch,
            (int)i->n_layer, (int)i->n_embd, (int)i->n_head, (int)i->n_head_kv, (int)i->n_vocab,
            i->type);
    put_row(f, "", "%s, %s, positions: %s, epsilon %g, rope base %g, %s head", i->norm,
            i->activation, i->position, (double)i->norm_eps, (double)i->rope_base,
            i->tied ? "tied" : "untied");
    if (engine_hash(e, &hash, &n, &err) == MGPT_OK)
        put_row(f, "GGUF file", "%" PRIu64 " bytes, XXH64 %016" PRIx64, n, hash);
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
static void put_held(struct page_file *f, FILE *held, int summary)
{
    char line[4096];
    int begins = 1, wanted = !summary;
    rewind(held);
    while (fgets(line, sizeof line, held)) {
        if (summary && begins && (line[0] != ' ' || !wanted))
            wanted = is_summary(line);
        if (wanted && begins && line[0] != '\n' && !f->html)
            put(f, "    ");
        if (wanted)
            put_escaped_bytes(f, line, strlen(line));
        begins = line[strlen(line) - 1] == '\n';
    }
}

static void put_head(struct page_file *f, int code)
{
    const char *verdict = verdict_of(code);
    if (!f->html) {
        put(f, "# mgpt check: %s\n\n", verdict);
        return;
    }
    put_as_is(f, FILES_REPORT_LINE
              "<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>mgpt check: ");
    put(f, "%s", verdict);
    put_as_is(f,
              "</title>\n<style>body{font:14px sans-serif;margin:2em}pre{white-space:pre-wrap}"
              "td{border:1px solid #ccc;padding:2px 5px}table{border-collapse:collapse}</style>\n"
              "<h1>mgpt check: ");
    put(f, "%s", verdict);
    put_as_is(f, "</h1>\n");
}

static int write_page(const struct report_page *page, const struct engine *e, int argc, char **argv,
                      int code, mgpt_error *err)
{
    struct page_file f = {.html = is_html(page->path)};
    struct utsname system = {0};
    if (files_create(&f.out, page->path, FILES_REPORT, err) < 0)
        return err->status;
    uname(&system);
    put_head(&f, code);
    put_as_is(&f, f.html ? "<pre>" : "");
    put_held(&f, page->held, 1);
    put(&f, f.html ? "to repeat   mgpt" : "    to repeat   mgpt");
    for (int i = 0; i < argc; i++)
        put_argument(&f, argv[i]);
    put_as_is(&f, f.html ? "</pre>\n<table>\n" : "\n\n| | |\n| --- | --- |\n");
    put_row(&f, "mgpt", "%s, %s, %s %s", mgpt_version(), CLI_COMPILER, system.sysname,
            system.machine);
    if (e->model) {
        put_row(&f, "instruction set", "%s", e->info.isa);
        put_model(&f, e);
    }
    put_row(&f, "exit code", "%d", code);
    put_as_is(&f, f.html ? "</table>\n<pre>" : "\n");
    put_held(&f, page->held, 0);
    put_as_is(&f, f.html ? "</pre>\n" : "");
    return outfile_commit(&f.out, err);
}

/* ---- the end ---- */

/* 0: it cannot be read again. */
static int print_held(FILE *held)
{
    char part[4096];
    size_t n;
    rewind(held);
    while ((n = fread(part, 1, sizeof part, held)) > 0)
        fwrite(part, 1, n, stdout);
    return !ferror(held);
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
    if (!print_held(page->held))
        code = fail_io("the temporary file cannot be read");
    if (code == EXIT_OK || code == EXIT_DIFFERENT || code == EXIT_INTERRUPTED)
        if (write_page(page, e, argc, argv, code, &err) < 0)
            code = cli_fail(page->path, &err);
    fclose(page->held);
    return cli_finish(code);
}
