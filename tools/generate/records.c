/* Many prompts. See records.h.
 *
 * Records wait in a ring until those before them have been printed. Those in work have a session each, and one pass runs
 * the prompts of new ones and the last token of the others.
 */
#include "generate/records.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/interrupt.h"
#include "common/reader.h"
#include "generate/record.h"

#include <stdlib.h>
#include <string.h>

enum {
    RING = 1024,         /* records that are read before the first of them is printed */
    USUAL_BATCH = 48,    /* records in work */
    MOST_LINE = 64 << 20 /* bytes of a record */
};
static const uint64_t SESSION_BYTES = UINT64_C(1) << 30; /* of their caches */

struct records {
    const struct records_ask *ask;
    struct text_reader reader;
    struct record *ring[RING];
    size_t n_printed, n_read; /* records, and so those from n_printed on are in the ring */
    size_t line;
    struct record **work; /* [n_batch] */
    mgpt_run *runs;       /* [n_batch + 1]; the first lends its scratch */
    mgpt_session **idle;  /* [n_batch] */
    size_t n_batch, n_work, n_idle, n_sessions;
    size_t n_bad, first_bad;
    char why_bad[sizeof(((mgpt_error *)0)->text)];
};

int records_named(const char *file)
{
    static const char end[] = ".jsonl";
    size_t n = file ? strlen(file) : 0, n_end = sizeof end - 1;
    return n > n_end && strcmp(file + n - n_end, end) == 0;
}

/* Gives a record a session. Returns an exit code. */
static int begin_work(struct records *r, struct record *record)
{
    struct engine *e = r->ask->usual->engine;
    mgpt_error err;
    if (r->n_idle > 0)
        record->session = r->idle[--r->n_idle];
    else if ((record->session = engine_fork(e, e->session, &err)))
        r->n_sessions++;
    else
        return cli_fail(NULL, &err);
    mgpt_rewind(record->session, 0, NULL);
    r->work[r->n_work++] = record;
    return EXIT_OK;
}

static void count_bad(struct records *r, const struct record *record)
{
    if (r->n_bad++ > 0)
        return;
    r->first_bad = record->line;
    memcpy(r->why_bad, record->wrong.text, sizeof r->why_bad);
}

/* Reads records until enough are in work, or the ring is full. Returns an exit code. */
static int read_records(struct records *r)
{
    const char *line;
    size_t n;
    mgpt_error err;
    while (r->n_work < r->n_batch && r->n_read - r->n_printed < RING) {
        int is_ready = reader_ready(&r->reader);
        if (!is_ready && r->n_work > 0)
            break; /* these are drawn before more are waited for */
        if (!is_ready)
            fflush(stdout);
        int got = reader_line(&r->reader, MOST_LINE, &line, &n, &err);
        if (got < 0)
            return cli_fail(strcmp(r->ask->file, "-") == 0 ? "stdin" : r->ask->file, &err);
        if (got == 0)
            break;
        r->line++;
        if (n == 0)
            continue;
        struct record *record = record_read(r->ask, r->line, line, n);
        if (!record) {
            err_memory(&err, "the records", n);
            return cli_fail(NULL, &err);
        }
        r->ring[r->n_read++ % RING] = record;
        int code = record->is_done ? EXIT_OK : begin_work(r, record);
        if (code != EXIT_OK)
            return code;
    }
    return EXIT_OK;
}

/* One pass for all records in work; each draws. Returns an exit code. */
static int run_records(struct records *r)
{
    struct engine *e = r->ask->usual->engine;
    mgpt_error err;
    size_t n_left = 0;
    r->runs[0] = (mgpt_run){.session = e->session};
    for (size_t i = 0; i < r->n_work; i++)
        r->runs[i + 1] = (mgpt_run){.session = r->work[i]->session,
                                    .tokens = r->work[i]->to_run,
                                    .n = r->work[i]->n_to_run};
    if (r->n_work > 0 && engine_feed_many(e, r->runs, r->n_work + 1, &err) < 0)
        return cli_fail(NULL, &err);
    for (size_t i = 0; i < r->n_work; i++) {
        struct record *record = r->work[i];
        record_draw(record);
        if (record->is_done) {
            r->idle[r->n_idle++] = record->session;
            record->session = NULL;
        } else {
            r->work[n_left++] = record;
        }
    }
    r->n_work = n_left;
    return EXIT_OK;
}

/* Prints the records whose turn it is. Returns an exit code. */
static int print_records(struct records *r)
{
    int code = EXIT_OK;
    for (; code == EXIT_OK && r->n_printed < r->n_read; r->n_printed++) {
        struct record *record = r->ring[r->n_printed % RING];
        if (!record->is_done)
            break;
        if (record->wrong.status < 0)
            count_bad(r, record);
        code = record_print(record);
        record_free(record);
    }
    return code;
}

static int open_records(struct records *r, mgpt_error *err)
{
    const struct samples *usual = r->ask->usual;
    uint64_t each = mgpt_n_ctx(usual->engine->session) * usual->engine->info.kv_bytes + 1;
    r->n_batch = usual->batch > 0 ? (size_t)usual->batch : USUAL_BATCH;
    if (usual->batch == 0 && SESSION_BYTES / each < r->n_batch)
        r->n_batch = SESSION_BYTES / each > 0 ? (size_t)(SESSION_BYTES / each) : 1;
    r->work = mem_new(r->n_batch, sizeof *r->work);
    r->runs = mem_new(r->n_batch + 1, sizeof *r->runs);
    r->idle = mem_new(r->n_batch, sizeof(mgpt_session *));
    if (!r->work || !r->runs || !r->idle)
        return err_memory(err, "the records", r->n_batch * sizeof *r->runs);
    return reader_open(&r->reader, r->ask->file, err);
}

static void close_records(struct records *r)
{
    for (; r->n_printed < r->n_read; r->n_printed++) {
        mgpt_session_free(r->ring[r->n_printed % RING]->session);
        record_free(r->ring[r->n_printed % RING]);
    }
    while (r->n_idle > 0)
        mgpt_session_free(r->idle[--r->n_idle]);
    reader_close(&r->reader);
    free(r->work);
    free(r->runs);
    free(r->idle);
}

int records_run(const struct records_ask *ask)
{
    struct records r = {.ask = ask, .reader.fd = -1};
    mgpt_error err;
    int code = open_records(&r, &err) < 0 ? cli_fail(ask->file, &err) : EXIT_OK;
    do {
        code = code == EXIT_OK ? read_records(&r) : code;
        code = code == EXIT_OK ? run_records(&r) : code;
        int printed = print_records(&r);
        code = code == EXIT_OK ? printed : code;
        code = code == EXIT_OK ? samples_stopped() : code;
    } while (code == EXIT_OK && (r.n_work > 0 || r.n_printed < r.n_read || !r.reader.is_end ||
                                 r.reader.from < r.reader.n));
    if (r.n_bad > 0)
        cli_note("%s: %zu of %zu records could not be drawn; line %zu: %s", ask->file, r.n_bad,
                 r.n_printed, r.first_bad, r.why_bad);
    if (code == EXIT_OK && r.n_bad > 0)
        code = EXIT_REFUSED;
    close_records(&r);
    return code;
}
