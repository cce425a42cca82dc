/* mgpt check --self, printed. See self.h. */
#include "base/mem.h"
#include "check/self/attest.h"
#include "check/self/self.h"
#include "common/files.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "engine/engine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MOST = 56, TOKENS_LEAST = 6 };

size_t self_n_tokens(const mgpt_info *info)
{
    /* Some 2 * 10^9 products in float64 take a few seconds. */
    double fits = 2e9 / ((double)info->n_params + 1);
    size_t n = fits < TOKENS_MOST ? (size_t)fits : TOKENS_MOST;
    n = n < TOKENS_LEAST ? TOKENS_LEAST : n;
    return n < (size_t)info->n_ctx ? n : (size_t)info->n_ctx;
}

void self_tokens(const mgpt_info *info, int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)((i * i * 7919 + i * 13 + 5) % (size_t)info->n_tokens);
}

static mgpt_model *open_again(void *user, const char *isa, mgpt_error *err)
{
    return engine_reopen(user, isa, err);
}

/* ---- tokens ------------------------------------------------------------------------------------ */

/* The beginning of the text, or the fixed sequence; malloc'ed. */
static int choose_tokens(const struct self_options *o, struct engine *e, int32_t **tokens,
                         size_t *n)
{
    const mgpt_info *info = &e->info;
    size_t limit = o->n_tokens ? (size_t)o->n_tokens : self_n_tokens(info);
    if (limit > (size_t)info->n_ctx) {
        cli_note("%zu tokens do not fit: the context is %d", limit, (int)info->n_ctx);
        return EXIT_FULL;
    }
    *n = limit;
    if (!o->text) {
        *tokens = mem_new(limit, sizeof **tokens);
        if (*tokens)
            self_tokens(info, *tokens, limit);
        else
            cli_note("out of memory: tokens");
        return *tokens ? EXIT_OK : EXIT_FULL;
    }
    int code = engine_encode(e, "the text", o->text, o->n_text, 0, info->add_bos ? info->bos : -1,
                             tokens, n);
    if (code == EXIT_OK && *n == 0) {
        cli_note("the text is empty");
        code = EXIT_USAGE;
    }
    *n = *n < limit ? *n : limit;
    return code;
}

/* ---- bits -------------------------------------------------------------------------------------- */

static void print_variant(const struct self_variant *w)
{
    char chunk[16] = "chosen";
    if (w->n_chunk)
        snprintf(chunk, sizeof chunk, "%d", (int)w->n_chunk);
    printf("%-11s %-20s %7d   %-6s  %016" PRIx64 "\n", w->isa, w->name, (int)w->n_threads, chunk,
           w->hash);
}

static struct jtext *variant_json(const struct self_variant *w)
{
    char hash[20];
    snprintf(hash, sizeof hash, "%016" PRIx64, w->hash);
    return jtext("{s:s, s:s, s:i, s:i, s:s}", "isa", w->isa, "way", w->name, "threads",
                 (int)w->n_threads, "chunk", (int)w->n_chunk, "hash", hash);
}

static void print_bits(const struct self_bits *bits)
{
    printf("bits: all logits of every variant\n"
           "isa         variant              threads   chunk   hash\n");
    for (size_t i = 0; i < arr_len(bits->variants); i++)
        print_variant(&bits->variants[i]);
    if (bits->differs) {
        const struct self_difference *d = &bits->difference;
        printf("first difference: %s, %s: position %zu, id %zu: %.9g, not %.9g as %s, %s\n",
               d->variant.isa, d->variant.name, d->pos, d->id, (double)d->found,
               (double)d->expected, d->first.isa, d->first.name);
    }
    if (bits->n_skipped)
        printf("left out because they take long: %zu variants (--full tries them)\n",
               bits->n_skipped);
}

static int print_bits_json(const struct self_bits *bits)
{
    const struct self_difference *d = &bits->difference;
    int code = EXIT_OK;
    for (size_t i = 0; i < arr_len(bits->variants) && code == EXIT_OK; i++)
        code = text_json_line(variant_json(&bits->variants[i]));
    if (code == EXIT_OK && bits->differs)
        code = text_json_line(jtext(
            "{s:s, s:o, s:o, s:I, s:I, s:f, s:f}", "difference", "bits", "way",
            variant_json(&d->variant), "first", variant_json(&d->first), "pos", (int64_t)d->pos,
            "id", (int64_t)d->id, "expected", (double)d->expected, "found", (double)d->found));
    return code;
}

/* ---- stages ------------------------------------------------------------------------------------ */

static const char *stage_verdict(const struct self_stage *s, double bound)
{
    return s->nmse <= bound ? "holds" : "DIFFERENT";
}

static void print_stages(const struct self_stages *t)
{
    printf("\nnumbers: every stage against float64 on its own input, NMSE <= %.2g\n"
           "stage                          worst NMSE   at                    ours, float64\n",
           t->bound);
    for (int p = 0; p < MGPT_N_POINTS; p++) {
        const struct self_stage *s = &t->points[p];
        char name[64], at[64];
        if (!s->fired)
            continue;
        mgpt_point_name((mgpt_point)p, s->layer, name, sizeof name);
        if (s->nmse == 0) {
            printf("%-30s 0\n", name);
            continue;
        }
        snprintf(at, sizeof at, "[%zu, %zu, %zu]", s->pos, s->head, s->col);
        printf("%-30s %-10.3g   %-21s %.9g, %.9g%s\n", name, s->nmse, at, s->found, s->expected,
               s->nmse <= t->bound ? "" : "   DIFFERENT");
    }
    if (isfinite(t->whole))
        printf("the whole pass in float64: NMSE of the logits %.3g\n", t->whole);
}

static int print_stages_json(const struct self_stages *t)
{
    int code = EXIT_OK;
    for (int p = 0; p < MGPT_N_POINTS && code == EXIT_OK; p++) {
        const struct self_stage *s = &t->points[p];
        char name[64];
        if (!s->fired)
            continue;
        mgpt_point_name((mgpt_point)p, s->layer, name, sizeof name);
        code =
            text_json_line(jtext("{s:s, s:f, s:I, s:I, s:I, s:f, s:f, s:s}", "stage", name, "nmse",
                                 s->nmse, "pos", (int64_t)s->pos, "head", (int64_t)s->head, "index",
                                 (int64_t)s->col, "found", (double)s->found, "expected",
                                 (double)s->expected, "verdict", stage_verdict(s, t->bound)));
    }
    return code;
}

/* ---- all --------------------------------------------------------------------------------------- */

static int print_verdict(const struct self_options *o, const struct self_bits *bits,
                         const struct self_stages *stages, size_t n)
{
    int same = !bits->differs && stages->holds;
    char hash[20];
    snprintf(hash, sizeof hash, "%016" PRIx64, bits->variants[0].hash);
    if (o->json) {
        int code = text_json_line(jtext(
            "{s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:f}", "verdict", same ? "same" : "different",
            "hash", hash, "bits", !bits->differs, "numbers", stages->holds, "tokens", (int64_t)n,
            "ways", (int64_t)arr_len(bits->variants), "instruction_sets", (int64_t)bits->n_isas,
            "left_out", (int64_t)bits->n_skipped, "whole_nmse", stages->whole));
        return code == EXIT_OK && !same ? EXIT_DIFFERENT : code;
    }
    printf("\n%s  %zu tokens, %zu variants, %zu instruction sets: %s; numbers: %s\n", hash, n,
           arr_len(bits->variants), bits->n_isas, bits->differs ? "DIFFERENT" : "one hash",
           stages->holds ? "hold" : "DIFFERENT");
    return same ? EXIT_OK : EXIT_DIFFERENT;
}

/* Compares with the record; returns an exit code. */
static int compare_record(const struct self_options *o, const struct attest *record, uint64_t hash)
{
    int same = record->logits == hash;
    char theirs[20];
    snprintf(theirs, sizeof theirs, "%016" PRIx64, record->logits);
    if (o->json) {
        int code = text_json_line(jtext("{s:s, s:s, s:s}", "attested", same ? "same" : "different",
                                        "hash", theirs, "by", record->by));
        return code == EXIT_OK && !same ? EXIT_DIFFERENT : code;
    }
    printf("%s  attested by %s: %s\n", theirs, record->by, same ? "the same" : "DIFFERENT");
    return same ? EXIT_OK : EXIT_DIFFERENT;
}

/* What the records have to do after a verdict of "same". */
static int use_records(const struct self_options *o, struct attest *record,
                       const struct self_bits *bits)
{
    mgpt_error err;
    uint64_t hash = bits->variants[0].hash;
    int code = o->attested ? compare_record(o, record, hash) : EXIT_OK;
    record->logits = hash;
    if (code == EXIT_OK && o->attest && attest_write(o->attest, record, bits, &err) < 0)
        code = cli_fail(o->attest, &err);
    return code;
}

static int check_request(const struct self_options *o, const struct self_request *q,
                         struct attest *record)
{
    mgpt_error err;
    struct self_bits bits;
    struct self_stages stages;
    struct progress progress;
    struct self_request shown = *q;
    shown.progress = &progress;
    progress_begin(&progress);
    int code = EXIT_OK, status = self_bits(&shown, &bits, &err);
    progress_end(&progress);
    if (status == MGPT_OK && o->json)
        code = print_bits_json(&bits);
    else if (status == MGPT_OK)
        print_bits(&bits);
    progress_begin(&progress);
    if (status == MGPT_OK && code == EXIT_OK)
        status = self_stages(&shown, &stages, &err);
    progress_end(&progress);
    if (status == MGPT_OK && code == EXIT_OK && o->json)
        code = print_stages_json(&stages);
    else if (status == MGPT_OK && code == EXIT_OK)
        print_stages(&stages);
    if (status != MGPT_OK)
        code = interrupted() ? EXIT_INTERRUPTED : cli_fail(o->path, &err);
    else if (code == EXIT_OK)
        code = print_verdict(o, &bits, &stages, q->n);
    if (status == MGPT_OK && code == EXIT_OK)
        code = use_records(o, record, &bits);
    arr_free(bits.variants);
    return cli_finish(code);
}

/* Reads the record of --attested. Its kv is that of the check. */
static int read_attested(const struct self_options *o, struct engine *e, struct attest *record)
{
    mgpt_error err;
    if (!o->attested)
        return EXIT_OK;
    if (attest_read(o->attested, record, &err) < 0)
        return cli_fail(o->attested, &err);
    if (e->kv) {
        cli_note("--attested and --kv: the record says how keys and values are kept");
        return EXIT_USAGE;
    }
    e->kv = strcmp(record->kv, "chosen") != 0 ? record->kv : NULL;
    return EXIT_OK;
}

/* Completes a record to write; refuses one of another model. */
static int match_model(const struct self_options *o, const struct engine *e, struct attest *record)
{
    mgpt_error err;
    uint64_t theirs = record->model;
    if (!o->attest && !o->attested)
        return EXIT_OK;
    if (o->attest && files_may_write(o->attest, FILES_ATTEST, &err) < 0)
        return cli_fail(o->attest, &err);
    if (engine_hash(e, &record->model, &record->n_bytes, &err) < 0)
        return cli_fail(o->path, &err);
    snprintf(record->kv, sizeof record->kv, "%s", e->kv ? e->kv : "chosen");
    if (!o->attested || theirs == record->model)
        return EXIT_OK;
    cli_note("%s: made with the model of hash %016" PRIx64 ", this one has %016" PRIx64,
             o->attested, theirs, record->model);
    return EXIT_REFUSED;
}

/* The record's tokens, or those of choose_tokens, which the record gets. */
static int take_tokens(const struct self_options *o, struct engine *e, struct attest *record)
{
    if (!o->attested)
        return choose_tokens(o, e, &record->tokens, &record->n);
    for (size_t i = 0; i < record->n; i++)
        if (record->tokens[i] >= e->info.n_vocab || record->n > (size_t)e->info.n_ctx) {
            cli_note("%s: %zu tokens up to %d do not fit the model", o->attested, record->n,
                     (int)record->tokens[i]);
            return EXIT_REFUSED;
        }
    return EXIT_OK;
}

int self_check(const struct self_options *o)
{
    struct engine e = {.path = o->path, .lora = o->lora, .isa = o->isa, .kv = o->kv};
    struct attest record = {0};
    int32_t kv_type = 0;
    int code = read_attested(o, &e, &record);
    if (code == EXIT_OK)
        code = engine_read_kv(&e, &kv_type);
    if (code == EXIT_OK)
        code = engine_open(&e);
    if (code == EXIT_OK)
        code = match_model(o, &e, &record);
    if (code == EXIT_OK)
        code = take_tokens(o, &e, &record);
    mgpt_close(e.model);
    e.model = NULL;
    if (code == EXIT_OK) {
        struct self_request q = {.open = open_again,
                                 .user = &e,
                                 .tokens = record.tokens,
                                 .n = record.n,
                                 .isa = o->isa,
                                 .kv_type = kv_type,
                                 .full = o->full};
        interrupt_catch();
        code = check_request(o, &q, &record);
    }
    free(record.tokens);
    engine_close(&e);
    return code;
}
