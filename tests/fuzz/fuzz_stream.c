/* Fuzz target: a stream of tokens of any bytes comes out as valid UTF-8, however it is cut into
 * tokens.
 *
 * The vocabulary is SentencePiece's with its 256 byte tokens, so tokens 3..258 are the bytes; every
 * input byte is one.
 */
#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "mgpt.h"
#include "support/tok_file.h"

static mgpt_model *bytes_model(void)
{
    static struct tok_file file;
    const mgpt_model_params params = {.vocab_only = 1};
    mgpt_error err;
    tok_file_begin(&file, "llama", NULL);
    tok_file_sentencepiece(&file, 1);
    tok_file_encode(&file);
    mgpt_model *model = mgpt_open_bytes(file.bytes, file.g.size, &params, &err);
    if (!model)
        fprintf(stderr, "%s\n", err.text);
    return model;
}

static void must_be_text(const char *p, size_t n)
{
    for (size_t at = 0, step; at < n; at += step) {
        uint32_t code;
        step = utf8_next(p + at, n - at, &code);
        MUST(step > 0 && code != UTF8_BAD);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static mgpt_model *model;
    mgpt_stream stream = {0};
    char *text = malloc(3 * size + 16);
    size_t n = 0;
    if (!model)
        model = bytes_model();
    MUST(model && text);
    for (size_t i = 0; i < size; i++) {
        char piece[16];
        size_t got = mgpt_stream_put(&stream, model, 3 + data[i], piece, sizeof piece);
        MUST(got <= 12);
        must_be_text(piece, got);
        memcpy(text + n, piece, got);
        n += got;
    }
    n += mgpt_stream_end(&stream, text + n, 3);
    must_be_text(text, n);
    fuzz_saw(text, n);
    free(text);
    return 0;
}
