/* How surprising is each token of a text? Prints -log2 p of every token after those before it, one
 * a line, and their mean: bits per token.
 *
 *     surprise weights/names.gguf anna
 */
#include <math.h>
#include <mgpt.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TOKENS = 4096 };

static int print_surprise(mgpt_session *session, const char *text, mgpt_error *err)
{
    const mgpt_model *model = mgpt_session_model(session);
    int32_t tokens[MAX_TOKENS];
    mgpt_info info;
    double sum = 0;
    int64_t n = mgpt_encode(model, text, strlen(text), 0, tokens, MAX_TOKENS, err);
    if (n < 2 || n > MAX_TOKENS || mgpt_get_info(model, &info, err) < 0)
        return -1;
    for (int64_t i = 0; i + 1 < n; i++) {
        size_t length;
        const float *logits = mgpt_step(session, tokens[i], err);
        if (!logits)
            return -1;
        double bits = -mgpt_logprob(logits, (size_t)info.n_vocab, tokens[i + 1]) / log(2);
        const char *piece = mgpt_token_text(model, tokens[i + 1], &length);
        printf("%7.3f  %.*s\n", bits, (int)length, piece);
        sum += bits;
    }
    printf("%7.3f  bits per token\n", sum / (double)(n - 1));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return fprintf(stderr, "usage: surprise MODEL TEXT\n"), 2;
    mgpt_error err = {MGPT_EARG, MGPT_NO_OFFSET, "expected a text of 2 to 4096 tokens"};
    mgpt_model *model = mgpt_open(argv[1], NULL, &err);
    mgpt_session *session = model ? mgpt_session_new(model, NULL, &err) : NULL;
    int status = session ? print_surprise(session, argv[2], &err) : -1;
    if (status < 0)
        fprintf(stderr, "surprise: %s\n", err.text);
    mgpt_session_free(session);
    mgpt_close(model);
    return status < 0;
}
