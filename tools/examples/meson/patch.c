/* Which attention heads does a text need, and where does it matter?
 *
 * Ablation: one head at a time is silenced by writing zeros through a tap, and the text is scored
 * again: the loss in nats per token is what the head contributes.
 *
 * Patching: with a second text of as many tokens, one row of the residual stream at a time is taken
 * from the first text's run and put into the second's. How likely the first text's last token
 * becomes shows where the difference lives. Run it as
 *
 *     patch weights/names.gguf olivia
 *     patch weights/names.gguf olivia elivia
 */
#include <mgpt.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TOKENS = 512, MAX_WIDTH = 4096 };

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

/* A row of the residual stream, copied from one run into another. */
struct patch {
    int32_t layer, pos;
    int taking; /* 1: from the run, 0: into it */
    float *row;
};

static int carry(const mgpt_value *value, void *user)
{
    const struct patch *p = user;
    if (value->layer != p->layer || p->pos < value->pos || p->pos >= value->pos + value->rows)
        return 0;
    float *row = value->data + (size_t)(p->pos - value->pos) * value->stride;
    memcpy(p->taking ? p->row : row, p->taking ? row : p->row, (size_t)value->cols * sizeof *row);
    return 0;
}

/* log p(answer | tokens) with the patch applied, or the row taken. NaN on failure. */
static double run_patched(mgpt_session *session, struct patch *p, int taking, const int32_t *tokens,
                          size_t n, const mgpt_info *info, int32_t answer, mgpt_error *err)
{
    p->taking = taking;
    if (mgpt_tap(session, MGPT_POINT_BIT(MGPT_RESID_PRE), carry, p, err) < 0 ||
        mgpt_rewind(session, 0, err) < 0 || mgpt_feed(session, tokens, n, err) < 0)
        return NAN;
    return mgpt_logprob(mgpt_logits(session), (size_t)info->n_vocab, answer);
}

/* Texts of n tokens; the last one of a is what both are asked for. */
static int patch_all(mgpt_session *session, const int32_t *a, const int32_t *b, size_t n,
                     const mgpt_info *info, mgpt_error *err)
{
    float row[MAX_WIDTH];
    size_t differ = 0;
    for (size_t pos = 0; pos + 1 < n; pos++)
        differ += a[pos] != b[pos];
    for (int32_t layer = 0; layer < info->n_layer; layer++) {
        for (int32_t pos = 0; pos + 1 < (int32_t)n; pos++) {
            struct patch p = {layer, pos, 1, row};
            double whole = run_patched(session, &p, 1, a, n - 1, info, a[n - 1], err);
            double patched = run_patched(session, &p, 0, b, n - 1, info, a[n - 1], err);
            if (isnan(whole) || isnan(patched))
                return -1;
            printf("layer %d position %d: log p %+.4f, of the first text %+.4f\n", layer, pos,
                   patched, whole);
            /* Before the first layer a token is its row: with it, the second text is the first. */
            if (layer == 0 && differ == 1 && a[pos] != b[pos] && patched != whole)
                return -1;
        }
    }
    return mgpt_tap(session, 0, NULL, NULL, err);
}

/* Tokens of a text; negative on failure. */
static int64_t encode_text(const mgpt_model *model, const char *text, int32_t *tokens,
                           mgpt_error *err)
{
    int64_t n = mgpt_encode(model, text, strlen(text), 0, tokens, MAX_TOKENS, err);
    return n >= 2 && n <= MAX_TOKENS ? n : -1;
}

static int explain(const mgpt_model *model, mgpt_session *session, const char *text,
                   const char *other, mgpt_error *err)
{
    mgpt_info info;
    int32_t a[MAX_TOKENS], b[MAX_TOKENS];
    int64_t n = encode_text(model, text, a, err);
    if (n < 0 || mgpt_get_info(model, &info, err) < 0 || info.n_embd > MAX_WIDTH)
        return -1;
    if (!other)
        return report(session, a, (size_t)n, &info, err);
    return encode_text(model, other, b, err) == n ? patch_all(session, a, b, (size_t)n, &info, err)
                                                  : -1;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4)
        return fprintf(stderr, "usage: patch MODEL TEXT [OTHER]\n"), 2;
    mgpt_error err = {MGPT_OK, MGPT_NO_OFFSET,
                      "a text is empty or too long, or they have not as many tokens"};
    mgpt_model *model = mgpt_open(argv[1], NULL, &err);
    mgpt_session *session = model ? mgpt_session_new(model, NULL, &err) : NULL;
    int status = session ? explain(model, session, argv[2], argc > 3 ? argv[3] : NULL, &err) : -1;
    if (status < 0)
        fprintf(stderr, "patch: %s\n", err.text);
    mgpt_session_free(session);
    mgpt_close(model);
    return status < 0;
}
