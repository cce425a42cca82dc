/* Fuzz target: a record of check --attest, in memory (one_file.h). One that is accepted comes back
 * when it is written. */
#include "check/self/attest.h"
#include "fuzz/fuzz.h"
#include "fuzz/one_file.h"

static void check_same(const struct attest *a, const struct attest *b)
{
    MUST(a->model == b->model && a->logits == b->logits && a->n == b->n);
    MUST(strcmp(a->kv, b->kv) == 0);
    MUST(memcmp(a->tokens, b->tokens, a->n * sizeof *a->tokens) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct attest record, again;
    const struct self_bits bits = {0};
    mgpt_error err = {0};
    one_file_put(data, size);
    if (attest_read("record.json", &record, &err) < 0) {
        MUST(err.text[0] && !strchr(err.text, '\n'));
        return 0;
    }
    for (const char *c = record.by; *c; c++)
        MUST(*c >= ' ' && *c < 127);
    MUST(attest_write("record.json", &record, &bits, &err) == MGPT_OK);
    MUST(attest_read("record.json", &again, &err) == MGPT_OK);
    check_same(&record, &again);
    free(record.tokens);
    free(again.tokens);
    return 0;
}
