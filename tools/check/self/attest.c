/* Records of check --self. See attest.h. */
#include "check/self/attest.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/files.h"
#include "common/jtext.h"
#include "common/jval.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEST_FORMAT "mgpt attest"
enum { ATTEST_VERSION = 1, RECORD_BYTES = 64 << 20 /* the largest record */ };

/* ---- reading ---- */

static int bad_record(mgpt_error *err, const char *what)
{
    return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "%s", what);
}

/* 16 hexadecimal digits. */
static int read_hash(const struct jval *text, uint64_t *to)
{
    const char *digits = jval_text(text);
    int is_hash =
        digits && strlen(digits) == 16 && strspn(digits, "0123456789abcdef") == strlen(digits);
    *to = is_hash ? strtoull(digits, NULL, 16) : 0;
    return is_hash;
}

/* Copies a text; what is not printable becomes '?'. */
static void copy_printable(char *to, size_t cap, const char *text)
{
    size_t n = 0;
    for (; text && text[n] && n + 1 < cap; n++)
        to[n] = text[n] >= ' ' && text[n] < 127 ? text[n] : '?';
    to[n] = 0;
}

static int read_record_tokens(const struct jval *list, struct attest *a, mgpt_error *err)
{
    size_t n = jval_size(list);
    if (n == 0)
        return bad_record(err, "has no tokens");
    a->tokens = mem_new(n, sizeof *a->tokens);
    if (!a->tokens)
        return err_memory(err, "the tokens", n * sizeof *a->tokens);
    for (a->n = 0; a->n < n; a->n++) {
        const struct jval *id = jval_at(list, a->n);
        int64_t v = jval_whole(id);
        if (!jval_is(id, JVAL_INTEGER) || v < 0 || v > INT32_MAX)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "token %zu is not an id", a->n);
        a->tokens[a->n] = (int32_t)v;
    }
    return MGPT_OK;
}

static int check_versions(const struct jval *tree, mgpt_error *err)
{
    const char *format = jval_text(jval_get(tree, "format"));
    int64_t version = jval_whole(jval_get(tree, "version"));
    int64_t spec = jval_whole(jval_get(tree, "spec"));
    if (!format || strcmp(format, ATTEST_FORMAT) != 0)
        return bad_record(err, "is not a record of check --attest");
    if (version != ATTEST_VERSION)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "has version %lld, expected %d",
                       (long long)version, (int)ATTEST_VERSION);
    if (spec != SPEC_VERSION)
        return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET,
                       "was made with version %lld of the specification, this program has %d",
                       (long long)spec, (int)SPEC_VERSION);
    return MGPT_OK;
}

static int read_record(const struct jval *tree, struct attest *a, mgpt_error *err)
{
    const struct jval *model = jval_get(tree, "model"), *by = jval_get(tree, "by");
    const char *version = jval_text(jval_get(by, "mgpt"));
    const char *compiler = jval_text(jval_get(by, "compiler"));
    char who[sizeof a->by];
    if (check_versions(tree, err) < 0)
        return err->status;
    if (!read_hash(jval_get(model, "xxh64"), &a->model) ||
        !read_hash(jval_get(tree, "logits"), &a->logits))
        return bad_record(err, "lacks the hash of the model or of the logits");
    snprintf(who, sizeof who, "mgpt %s, %s", version ? version : "?", compiler ? compiler : "?");
    copy_printable(a->by, sizeof a->by, who);
    copy_printable(a->kv, sizeof a->kv, jval_text(jval_get(tree, "kv")));
    return read_record_tokens(jval_get(tree, "tokens"), a, err);
}

int attest_read(const char *path, struct attest *a, mgpt_error *err)
{
    struct file file;
    struct jval_error where;
    *a = (struct attest){0};
    if (files_open(&file, path, err) < 0)
        return err->status;
    const struct jval *tree =
        file.size <= RECORD_BYTES ? jval_read(file.data, file.size, 0, NULL, &where) : NULL;
    int status = MGPT_OK;
    if (tree)
        status = read_record(tree, a, err);
    else if (file.size > RECORD_BYTES || !jval_no_memory(&where, file.size, err))
        status = bad_record(err, "is not a record of check --attest");
    else
        status = err->status;
    jval_free(tree);
    file_close(&file);
    if (status < 0) {
        free(a->tokens);
        a->tokens = NULL;
    }
    return status;
}

/* ---- writing ---- */

/* The instruction sets of the variants, each once; variants are grouped by them. */
static struct jtext *isas_of(const struct self_bits *bits)
{
    struct jtext *list = jtext("[]");
    const char *last = "";
    for (size_t i = 0; i < arr_len(bits->variants); i++) {
        const char *isa = bits->variants[i].isa;
        if (strcmp(isa, last) != 0)
            jtext_add(list, "s", isa);
        last = isa;
    }
    return list;
}

int attest_write(const char *path, const struct attest *a, const struct self_bits *bits,
                 mgpt_error *err)
{
    char model[17], logits[17];
    snprintf(model, sizeof model, "%016" PRIx64, a->model);
    snprintf(logits, sizeof logits, "%016" PRIx64, a->logits);
    struct jtext *record = jtext(
        "{s:s, s:i, s:i, s:{s:s, s:I}, s:s, s:o, s:s, s:{s:s, s:s, s:o}}", "format", ATTEST_FORMAT,
        "version", (int)ATTEST_VERSION, "spec", (int)SPEC_VERSION, "model", "xxh64", model, "bytes",
        (int64_t)a->n_bytes, "kv", a->kv, "tokens", jtext_ids(a->tokens, a->n), "logits", logits,
        "by", "mgpt", mgpt_version(), "compiler", CLI_COMPILER, "isa", isas_of(bits));
    int status = jtext_write(record, path, FILES_ATTEST, err);
    jtext_free(record);
    return status;
}
