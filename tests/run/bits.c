/* bits [-n TOKENS] MODEL...: one hash of all logits for each model file, however they are computed.
 *
 * The variants are those of mgpt check --self (tools/check/self/self_ways.c), the expensive ones
 * included. The exit status is 1 when a variant gives other bits, and the line names it. Works on
 * any model file, so also on those that are too large for the tests: 56 tokens, or TOKENS where the
 * scalar code would take hours over them.
 */
#include "base/mem.h"
#include "check/self/self.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TOKENS_MAX = 56 };

static mgpt_model *open_path(void *user, const char *isa, mgpt_error *err)
{
    mgpt_model_params params = {.isa = isa};
    return mgpt_open(user, &params, err);
}

static int check_file(char *path, size_t most)
{
    int32_t tokens[N_TOKENS_MAX];
    struct self_request q = {.open = open_path, .user = path, .tokens = tokens, .full = 1};
    struct self_bits bits = {0};
    mgpt_error err;
    mgpt_info info;
    mgpt_model *model = mgpt_open(path, NULL, &err);
    int ok = model && mgpt_get_info(model, &info, &err) == MGPT_OK;
    mgpt_close(model);
    if (ok) {
        q.n = (size_t)info.n_ctx < most ? (size_t)info.n_ctx : most;
        self_tokens(&info, tokens, q.n);
        ok = self_bits(&q, &bits, &err) == MGPT_OK;
    }
    const struct self_difference *d = &bits.difference;
    if (!ok)
        printf("%s: %s\n", path, err.text);
    else if (bits.differs)
        printf("%s: %s, %s, %d threads, chunks of %d: position %zu, id %zu: %.9g, not %.9g\n", path,
               d->variant.isa, d->variant.name, (int)d->variant.n_threads, (int)d->variant.n_chunk,
               d->pos, d->id, (double)d->found, (double)d->expected);
    else
        printf("%016llx  %s  %zu variants, %zu instruction sets\n",
               (unsigned long long)bits.variants[0].hash, path, arr_len(bits.variants),
               bits.n_isas);
    arr_free(bits.variants);
    return !ok || bits.differs;
}

int main(int argc, char **argv)
{
    int bad = 0, given = argc > 2 && strcmp(argv[1], "-n") == 0;
    long most = given ? strtol(argv[2], NULL, 10) : N_TOKENS_MAX;
    if (most < 1 || most > N_TOKENS_MAX) {
        fprintf(stderr, "bits: expected -n of 1 to %d, found '%s'\n", N_TOKENS_MAX, argv[2]);
        return 2;
    }
    for (int i = given ? 3 : 1; i < argc; i++)
        bad |= check_file(argv[i], (size_t)most);
    return bad;
}
