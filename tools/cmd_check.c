/* mgpt check: do these weights give the same logits here as in the program that made the reference?
 *
 * One step per token of the reference, one comparison per step. The verdict is about the largest
 * difference alone; the other numbers say how much it matters.
 */
#include "commands.h"
#include "compare.h"
#include "engine.h"
#include "interrupt.h"
#include "mem.h"
#include "reference.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    struct engine engine;
    struct reference *reference;
    const char *path, *ids;
    int32_t *given; /* stb_ds array: the tokens of --ids */
    double tol;
    int32_t limit; /* positions per sequence; 0: all */
    int json;
    double *row;
    struct compare_total total;
};

static const char notes[] =
    "REF holds tokens and one row of logits per token: an .npz with tokens (or input_ids) and\n"
    "logits, JSON {\"input\": [ids], \"logits\": [[...]]} or a list of these, or an .npy of\n"
    "logits with --ids. In Python, with a model of transformers:\n"
    "  numpy.savez('ref.npz', tokens=ids[0], logits=model(ids).logits[0].detach())\n\n"
    "Columns: position, token, largest difference and the vocabulary id where it is,\n"
    "KL(reference || ours) in nats, and whether the likeliest token is the same (tie: another,\n"
    "but no further from the reference's than the tolerance can explain). NaN or infinity on\n"
    "either side is a difference.\n\n"
    "example:\n"
    "  mgpt check weights/names.gguf weights/names.ref.json --tol 1e-5\n\n"
    "exit codes: 0 same, 1 different, 2 usage, 3 model or reference refused, 4 longer than the\n"
    "context or out of memory, 5 input/output, 130 interrupted\n";

static const char *const top_names[] = {"same", "tie", "DIFFERENT"};

/* ---- one sequence ---- */

static int print_row_json(size_t sequence, size_t position, int32_t token,
                          const struct compare_row *row)
{
    return text_json_line(json_pack(
        "{s:I, s:I, s:i, s:o?, s:I, s:o?, s:s}", "sequence", (json_int_t)sequence, "pos",
        (json_int_t)position, "token", (int)token, "max_abs", json_real(row->max_abs), "id",
        (json_int_t)row->at, "kl", json_real(row->kl), "top1", top_names[row->top]));
}

static int print_row(const struct check *c, size_t position, int32_t token,
                     const struct compare_row *row)
{
    printf("%5zu %7d   %-9.3g %7zu   %-9.3g   %-9s ", position, (int)token, row->max_abs, row->at,
           row->kl, top_names[row->top]);
    text_print_token(stdout, c->engine.model, token);
    putchar('\n');
    return EXIT_OK;
}

static void print_head(const struct check *c, size_t i, const struct ref_sequence *sequence)
{
    if (c->json)
        return;
    printf("%ssequence %zu: %zu tokens", i > 0 ? "\n" : "", i, sequence->n);
    if (sequence->label) {
        putchar(' ');
        text_print_quoted(stdout, sequence->label, strlen(sequence->label));
    }
    printf("\n  pos   token   max|diff|   at id   KL (nats)   top-1     token\n");
}

static int compare_position(struct check *c, size_t i, size_t position, int32_t token)
{
    mgpt_error err;
    const float *logits = mgpt_step(c->engine.session, token, &err);
    if (!logits)
        return cli_fail(NULL, &err);
    if (reference_row(c->reference, i, position, c->row, &err) < 0)
        return cli_fail(c->path, &err);
    struct compare_row row = compare_row(c->row, logits, (size_t)c->engine.info.n_vocab, c->tol);
    compare_add(&c->total, &row, i, position);
    int code =
        c->json ? print_row_json(i, position, token, &row) : print_row(c, position, token, &row);
    if (interrupted())
        return EXIT_INTERRUPTED;
    return ferror(stdout) ? EXIT_IO : code;
}

static int compare_sequence(struct check *c, size_t i)
{
    mgpt_error err;
    struct ref_sequence sequence = reference_sequence(c->reference, i);
    size_t limit = c->limit > 0 ? (size_t)c->limit : SIZE_MAX;
    size_t n = sequence.n < limit ? sequence.n : limit;
    int code = engine_fits(&c->engine, c->path, n);
    if (code == EXIT_OK && mgpt_rewind(c->engine.session, 0, &err) < 0)
        code = cli_fail(NULL, &err);
    if (code == EXIT_OK)
        print_head(c, i, &sequence);
    for (size_t position = 0; position < n && code == EXIT_OK; position++)
        code = compare_position(c, i, position, sequence.ids[position]);
    return code;
}

/* ---- the verdict ---- */

static int print_json_verdict(const struct check *c, const char *verdict)
{
    const struct compare_total *t = &c->total;
    return text_json_line(json_pack(
        "{s:s, s:f, s:I, s:I, s:o?, s:I, s:I, s:I, s:o?, s:o?, s:I, s:I}", "verdict", verdict,
        "tol", c->tol, "positions", (json_int_t)t->n_rows, "not_finite", (json_int_t)t->n_bad,
        "max_abs", json_real(t->max_abs), "sequence", (json_int_t)t->sequence, "pos",
        (json_int_t)t->position, "id", (json_int_t)t->at, "nmse", json_real(compare_nmse(t)), "kl",
        json_real(t->sum_kl / (double)t->n_rows), "top1_same", (json_int_t)t->n_same, "top1_tie",
        (json_int_t)t->n_tie));
}

static int print_verdict(const struct check *c, const char *verdict)
{
    const struct compare_total *t = &c->total;
    printf("\npositions   %zu\n", t->n_rows);
    if (t->n_bad > 0)
        printf("not finite  %zu positions\n", t->n_bad);
    printf("max|diff|   %.6g at sequence %zu, position %zu, id %zu\n", t->max_abs, t->sequence,
           t->position, t->at);
    printf("NMSE        %.3g\n", compare_nmse(t));
    printf("mean KL     %.3g nats\n", t->sum_kl / (double)t->n_rows);
    printf("top-1       %zu of %zu the same", t->n_same, t->n_rows);
    if (t->n_tie > 0)
        printf(", %zu tied", t->n_tie);
    printf("\nverdict     %s (tolerance %g)\n", verdict, c->tol);
    return EXIT_OK;
}

static int run(struct check *c)
{
    int code = EXIT_OK;
    interrupt_catch();
    for (size_t i = 0; i < reference_count(c->reference) && code == EXIT_OK; i++)
        code = compare_sequence(c, i);
    if (code != EXIT_OK)
        return cli_finish(code);
    int same = compare_same(&c->total, c->tol);
    code = c->json ? print_json_verdict(c, same ? "same" : "different")
                   : print_verdict(c, same ? "same" : "DIFFERENT");
    return cli_finish(code == EXIT_OK && !same ? EXIT_DIFFERENT : code);
}

/* The tokens of --ids, which stay in c. */
static int read_ids(struct check *c, struct ref_options *options)
{
    const char *at = c->ids;
    int32_t id;
    int got;
    while ((got = text_next_id(&at, &id)) > 0)
        if (!arr_push(c->given, id))
            got = -1;
    options->ids = c->given;
    options->n_ids = arr_len(c->given);
    if (got == 0 && options->n_ids > 0)
        return EXIT_OK;
    cli_note("--ids: expected a number at byte %zu", (size_t)(at - c->ids));
    return EXIT_USAGE;
}

static int prepare(struct check *c)
{
    mgpt_error err;
    int code = engine_open(&c->engine);
    if (code != EXIT_OK)
        return code;
    struct ref_options options = {.n_vocab = c->engine.info.n_vocab,
                                  .n_layer = c->engine.info.n_layer};
    if (c->ids && read_ids(c, &options) != EXIT_OK)
        return EXIT_USAGE;
    c->reference = reference_open(c->path, &options, &err);
    if (!c->reference)
        return cli_fail(c->path, &err);
    c->row = mem_new((size_t)c->engine.info.n_vocab, sizeof *c->row);
    if (!c->row) {
        cli_note("out of memory: a row of logits");
        return EXIT_FULL;
    }
    return engine_session(&c->engine);
}

int cmd_check(int argc, char **argv)
{
    struct check c = {.tol = 1e-4, .engine.kv = "f32"}; /* as references are */
    const struct cli_option options[] = {
        ENGINE_OPT_MODEL(c.engine),
        {"--tol", "X", CLI_REAL, &c.tol, 0, 1e30, "largest difference allowed (default 1e-4)"},
        {"--ids", "LIST", CLI_TEXT, &c.ids, 0, 0, "the tokens, for an .npy: '26,0,13'"},
        {"--tokens", "N", CLI_INT, &c.limit, 1, INT32_MAX,
         "compare the first N positions of each sequence"},
        {"--json", NULL, CLI_FLAG, &c.json, 0, 0, "JSON Lines: one per position, then the verdict"},
        ENGINE_OPT_THREADS(c.engine),
        ENGINE_OPT_KV(c.engine),
        ENGINE_OPT_ISA(c.engine),
    };
    const struct cli_command command = {"check",
                                        "MODEL REF",
                                        "Compare the logits of a model with a reference.",
                                        notes,
                                        options,
                                        sizeof options / sizeof *options,
                                        1,
                                        2};
    const char *operands[2];
    int n = cli_parse(&command, argc, argv, operands);
    if (n < 0)
        return cli_parse_exit(n);
    int code = engine_choose(&c.engine, &command, operands, n, &c.path, 1);
    if (code == EXIT_OK)
        code = prepare(&c);
    if (code == EXIT_OK)
        code = run(&c);
    free(c.row);
    arr_free(c.given);
    reference_close(c.reference);
    engine_close(&c.engine);
    return code;
}
