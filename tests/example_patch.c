/* Example: which attention heads does a text need? A program on the public header alone.
 *
 * Each head in turn is silenced by writing zeros through a tap, and the text is scored again: the loss
 * in nats per token is what the head contributes. Run it as
 *
 *     example_patch weights/names.gguf olivia
 *
 * It is built and run by the tests, so that it keeps working. */
#include "mgpt.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TOKENS = 512 };

struct head {
    int32_t layer, index, head_dim;
};

/* At MGPT_HEADS a row holds the outputs of all heads, one after another. */
static int silence(const mgpt_value *value, void *user)
{
    const struct head *head = user;
    for (int32_t i = 0; i < value->rows && value->layer == head->layer; i++) {
        float *row = value->data + (size_t)i * value->stride;
        memset(row + head->index * head->head_dim, 0, (size_t)head->head_dim * sizeof *row);
    }
    return 0;
}

/* Mean of -log p(token | tokens before), in nats; negative on failure. */
static double score(mgpt_session *session, const int32_t *tokens, size_t n, size_t n_vocab,
                    mgpt_error *err)
{
    double sum = 0;
    if (mgpt_rewind(session, 0, err) < 0)
        return -1;
    for (size_t i = 0; i + 1 < n; i++) {
        const float *logits = mgpt_step(session, tokens[i], err);
        if (!logits)
            return -1;
        sum -= mgpt_logprob(logits, n_vocab, tokens[i + 1]);
    }
    return sum / (double)(n - 1);
}

static int report(mgpt_session *session, const int32_t *tokens, size_t n, const mgpt_info *info,
                  mgpt_error *err)
{
    size_t n_vocab = (size_t)info->n_vocab;
    double whole = score(session, tokens, n, n_vocab, err);
    if (whole < 0)
        return -1;
    printf("all heads: %.4f nats per token\n", whole);
    for (int32_t layer = 0; layer < info->n_layer; layer++) {
        for (int32_t index = 0; index < info->n_head; index++) {
            struct head head = {layer, index, info->head_dim};
            if (mgpt_tap(session, MGPT_POINT_BIT(MGPT_HEADS), silence, &head, err) < 0)
                return -1;
            double without = score(session, tokens, n, n_vocab, err);
            mgpt_tap(session, 0, NULL, NULL, NULL);
            if (without < 0)
                return -1;
            printf("without layer %d head %d: %+.4f\n", layer, index, without - whole);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return fprintf(stderr, "usage: example_patch MODEL TEXT\n"), 2;
    mgpt_error err = {MGPT_OK, MGPT_NO_OFFSET, "the text is empty or too long"};
    mgpt_info info;
    int32_t tokens[MAX_TOKENS];
    int status = -1;
    mgpt_model *model = mgpt_open(argv[1], NULL, &err);
    mgpt_session *session = model ? mgpt_session_new(model, NULL, &err) : NULL;
    if (session && mgpt_get_info(model, &info, &err) == MGPT_OK) {
        int64_t n = mgpt_encode(model, argv[2], strlen(argv[2]), 0, tokens, MAX_TOKENS, &err);
        if (n >= 2 && n <= MAX_TOKENS)
            status = report(session, tokens, (size_t)n, &info, &err);
    }
    if (status < 0)
        fprintf(stderr, "example_patch: %s\n", err.text);
    mgpt_session_free(session);
    mgpt_close(model);
    return status < 0;
}
