/* Two models on a text: how far the logits of B are from those of A. See check_inside.h. */
#include "base/mem.h"
#include "check/check_inside.h"
#include "check/compare/check_report.h"
#include "check/self/self.h"
#include "common/files.h"
#include "common/interrupt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char fixed_text[] =
    "the quick brown fox jumps over the lazy dog and does not look back; a text of no "
    "importance, in which every letter of the alphabet has its place";

int check_is_model(const char *path, mgpt_error *err)
{
    struct file file;
    if (strcmp(path, "-") == 0)
        return 0;
    int status = files_open_partly(&file, path, 4, err);
    if (status < 0)
        return status;
    int is = file.size >= 4 && memcmp(file.data, "GGUF", 4) == 0;
    file_close(&file);
    return is;
}

/* The text's tokens; a vocabulary that lacks characters of the fixed text gets fixed ids.
 * malloc'ed. */
static int tokens_of(const struct check_models *c, int32_t **tokens, size_t *n)
{
    const mgpt_info *info = &c->a->info;
    const char *text = c->text ? c->text : fixed_text;
    size_t n_text = c->text ? c->n_text : sizeof fixed_text - 1;
    int32_t bos = info->add_bos ? info->bos : -1;
    if (c->text || mgpt_encode(c->a->model, text, n_text, 0, NULL, 0, NULL) > 0)
        return engine_encode(c->a, "the text", text, n_text, 0, bos, tokens, n);
    *n = CHECK_TOKENS;
    *tokens = mem_new(*n, sizeof **tokens);
    if (*tokens)
        self_tokens(info, *tokens, *n);
    else
        cli_note("out of memory: tokens");
    return *tokens ? EXIT_OK : EXIT_FULL;
}

static int compare_at(const struct check_models *c, struct engine *b, const int32_t *tokens,
                      size_t n, size_t i, double *row, struct check_report *report)
{
    mgpt_error err;
    struct check_place place = {
        .position = i, .token = tokens[i], .next = i + 1 < n ? tokens[i + 1] : -1};
    struct ref_row about = {.n = (size_t)c->a->info.n_vocab};
    const float *theirs = engine_step(c->a, tokens[i], &err);
    const float *ours = theirs ? engine_step(b, tokens[i], &err) : NULL;
    if (!ours)
        return cli_fail(theirs ? b->path : c->a->path, &err);
    for (size_t j = 0; j < about.n; j++)
        row[j] = (double)theirs[j];
    return check_report_row(report, &place, row, &about, ours);
}

static int compare_all(const struct check_models *c, struct engine *b, const int32_t *tokens,
                       size_t n)
{
    struct check_report report = {.model = b->model, .bounds = c->bounds, .json = c->json};
    struct ref_sequence sequence = {.ids = tokens, .n = n};
    double *row = mem_new((size_t)c->a->info.n_vocab, sizeof *row);
    unsigned broken = 0;
    int code = row ? EXIT_OK : EXIT_FULL;
    if (!row)
        cli_note("out of memory: a row of logits");
    interrupt_catch();
    if (row && !c->json)
        check_table_head(0, &sequence);
    for (size_t i = 0; i < n && code == EXIT_OK; i++)
        code = compare_at(c, b, tokens, n, i, row, &report);
    free(row);
    if (code == EXIT_OK)
        code = check_report_verdict(&report, &broken);
    return code == EXIT_OK && broken ? EXIT_DIFFERENT : code;
}

int check_models(const struct check_models *c)
{
    struct engine b = {.path = c->path_b,
                       .isa = c->a->isa,
                       .kv = c->kv_b,
                       .n_threads = c->a->n_threads,
                       .check_finite = c->a->check_finite};
    int32_t *tokens = NULL;
    size_t n = 0, limit = c->limit ? c->limit : CHECK_TOKENS;
    int code = engine_open(&b);
    if (code == EXIT_OK)
        code = engine_same_tokens(c->a, &b);
    if (code == EXIT_OK)
        code = engine_session(&b);
    if (code == EXIT_OK)
        code = tokens_of(c, &tokens, &n);
    n = n < limit ? n : limit;
    if (code == EXIT_OK && !c->text && n > mgpt_n_ctx(c->a->session))
        n = mgpt_n_ctx(c->a->session); /* the fixed text is cut */
    if (code == EXIT_OK)
        code = engine_fits(c->a, "the text", n);
    if (code == EXIT_OK)
        code = engine_fits(&b, "the text", n);
    if (code == EXIT_OK)
        code = compare_all(c, &b, tokens, n);
    free(tokens);
    engine_close(&b);
    return cli_finish(code);
}
