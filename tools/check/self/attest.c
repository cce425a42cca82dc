/* Records of check --self. See attest.h. */
#include "check/self/attest.h"

#include "base/error.h"
#include "base/mem.h"
#include "common/files.h"
#include "common/json_read.h"
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
static int read_hash(const json_t *text, uint64_t *to)
{
    const char *digits = json_string_value(text);
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

static int read_record_tokens(const json_t *list, struct attest *a, mgpt_error *err)
{
    size_t n = json_array_size(list);
    if (n == 0)
        return bad_record(err, "has no tokens");
    a->tokens = mem_new(n, sizeof *a->tokens);
    if (!a->tokens)
        return err_memory(err, "the tokens", n * sizeof *a->tokens);
    for (a->n = 0; a->n < n; a->n++) {
        const json_t *id = json_array_get(list, a->n);
        json_int_t v = json_integer_value(id);
        if (!json_is(id, JSON_INTEGER) || v < 0 || v > INT32_MAX)
            return err_set(err, MGPT_EFILE, MGPT_NO_OFFSET, "token %zu is not an id", a->n);
        a->tokens[a->n] = (int32_t)v;
    }
    return MGPT_OK;
}

static int check_versions(const json_t *tree, mgpt_error *err)
{
    const char *format = json_string_value(json_object_get(tree, "format"));
    json_int_t version = json_integer_value(json_object_get(tree, "version"));
    json_int_t spec = json_integer_value(json_object_get(tree, "spec"));
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

static int read_record(const json_t *tree, struct attest *a, mgpt_error *err)
{
    const json_t *model = json_object_get(tree, "model"), *by = json_object_get(tree, "by");
    const char *version = json_string_value(json_object_get(by, "mgpt"));
    const char *compiler = json_string_value(json_object_get(by, "compiler"));
    char who[sizeof a->by];
    if (check_versions(tree, err) < 0)
        return err->status;
    if (!read_hash(json_object_get(model, "xxh64"), &a->model) ||
        !read_hash(json_object_get(tree, "logits"), &a->logits))
        return bad_record(err, "lacks the hash of the model or of the logits");
    snprintf(who, sizeof who, "mgpt %s, %s", version ? version : "?", compiler ? compiler : "?");
    copy_printable(a->by, sizeof a->by, who);
    copy_printable(a->kv, sizeof a->kv, json_string_value(json_object_get(tree, "kv")));
    return read_record_tokens(json_object_get(tree, "tokens"), a, err);
}

int attest_read(const char *path, struct attest *a, mgpt_error *err)
{
    struct file file;
    json_error_t where;
    *a = (struct attest){0};
    if (files_open(&file, path, err) < 0)
        return err->status;
    json_t *tree = file.size <= RECORD_BYTES ? json_read(file.data, file.size, 0, &where) : NULL;
    int status = MGPT_OK;
    if (tree)
        status = read_record(tree, a, err);
    else if (file.size > RECORD_BYTES || !json_read_no_memory(&where, file.size, err))
        status = bad_record(err, "is not a record of check --attest");
    else
        status = err->status;
    json_decref(tree);
    file_close(&file);
    if (status < 0) {
        free(a->tokens);
        a->tokens = NULL;
    }
    return status;
}

/* ---- writing ---- */

/* The instruction sets of the variants, each once; variants are grouped by them. */
static json_t *isas_of(const struct self_bits *bits)
{
    json_t *list = json_array();
    const char *last = "";
    for (size_t i = 0; i < arr_len(bits->variants); i++) {
        const char *isa = bits->variants[i].isa;
        if (strcmp(isa, last) != 0)
            json_array_append_new(list, json_string(isa));
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
    json_watch();
    json_t *tree = json_pack("{ss si si s{ss sI} ss so ss s{ss ss so}}", "format", ATTEST_FORMAT,
                             "version", (int)ATTEST_VERSION, "spec", (int)SPEC_VERSION, "model",
                             "xxh64", model, "bytes", (json_int_t)a->n_bytes, "kv", a->kv, "tokens",
                             json_ids(a->tokens, a->n), "logits", logits, "by", "mgpt",
                             mgpt_version(), "compiler", CLI_COMPILER, "isa", isas_of(bits));
    int status = json_write(tree, path, FILES_ATTEST, err);
    json_decref(tree);
    return status;
}
