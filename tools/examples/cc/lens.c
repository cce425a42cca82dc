/* The logit lens: which token would the model choose if it ended after each layer? A tap keeps the
 * residual stream of the last token, mgpt_unembed applies the final norm and the head to it.
 *
 *     lens weights/names.gguf ann
 */
#include <mgpt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 512 };

struct residual {
    float *row; /* [layers][width] */
    size_t width;
};

/* Keeps the last row of a call; a later chunk overwrites it. */
static int keep_residual(const mgpt_value *value, void *user)
{
    const struct residual *s = user;
    const float *last = value->data + (size_t)(value->rows - 1) * value->stride;
    memcpy(s->row + (size_t)value->layer * s->width, last, s->width * sizeof *last);
    return 0;
}

static int print_layer(mgpt_session *session, const struct residual *s, int layer, float *logits,
                       const mgpt_info *info, mgpt_error *err)
{
    mgpt_candidate best;
    size_t n;
    if (mgpt_unembed(session, s->row + (size_t)layer * s->width, logits, err) < 0)
        return -1;
    mgpt_top(logits, (size_t)info->n_vocab, &best, 1);
    const char *text = mgpt_token_text(mgpt_session_model(session), best.token, &n);
    printf("after layer %d: %-12.*s log p %.3f\n", layer, (int)n, text, best.logprob);
    return 0;
}

static int lens(mgpt_session *session, const mgpt_info *info, const char *text, mgpt_error *err)
{
    int32_t tokens[MAX_TOKENS];
    int64_t n =
        mgpt_encode(mgpt_session_model(session), text, strlen(text), 0, tokens, MAX_TOKENS, err);
    struct residual s = {NULL, (size_t)info->n_embd};
    float *logits = malloc((size_t)info->n_vocab * sizeof *logits);
    int status = -1;
    s.row = calloc((size_t)info->n_layer * s.width + 1, sizeof *s.row);
    if (n >= 0 && n <= MAX_TOKENS && s.row && logits &&
        mgpt_tap(session, MGPT_POINT_BIT(MGPT_RESID_POST), keep_residual, &s, err) == MGPT_OK)
        status = mgpt_feed(session, tokens, (size_t)n, err);
    for (int layer = 0; status == MGPT_OK && layer < info->n_layer; layer++)
        status = print_layer(session, &s, layer, logits, info, err);
    free(logits);
    free(s.row);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return fprintf(stderr, "usage: lens MODEL TEXT\n"), 2;
    mgpt_error err = {MGPT_EMEM, MGPT_NO_OFFSET, "more than 512 tokens, or no memory"};
    mgpt_info info;
    mgpt_model *model = mgpt_open(argv[1], NULL, &err);
    mgpt_session *session = model ? mgpt_session_new(model, NULL, &err) : NULL;
    int status = session && mgpt_get_info(model, &info, &err) == MGPT_OK
                     ? lens(session, &info, argv[2], &err)
                     : -1;
    if (status < 0)
        fprintf(stderr, "lens: %s\n", err.text);
    mgpt_session_free(session);
    mgpt_close(model);
    return status < 0;
}
