/* Fuzz target: the GGUF reader, and every typed question to what it accepted. */
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "gguf/gguf.h"

static void ask(const struct gguf *g, const char *key)
{
    uint64_t u;
    double f;
    int b;
    struct gguf_str s;
    const struct gguf_kv *array;
    gguf_uint(g, key, 1000, &u, NULL);
    gguf_bool(g, key, &b, NULL);
    gguf_float(g, key, &f, NULL);
    gguf_string(g, key, &s, NULL);
    gguf_array(g, key, GGUF_STRING, &array, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf g;
    mgpt_error err = {0};
    int status = gguf_parse(&g, data, size, &err);
    if (status < 0) {
        MUST(err.status == status && err.text[0] && strlen(err.text) < sizeof err.text);
        MUST(err.offset == MGPT_NO_OFFSET || err.offset <= size);
        return 0;
    }
    for (size_t i = 0; i < arr_len(g.kv); i++) {
        char key[256];
        size_t n = g.kv[i].key.n < sizeof key ? g.kv[i].key.n : sizeof key - 1;
        memcpy(key, g.kv[i].key.p, n);
        key[n] = 0;
        ask(&g, key);
    }
    for (size_t i = 0; i < arr_len(g.tensors); i++)
        MUST(g.tensors[i].offset <= size && g.tensors[i].size <= size - g.tensors[i].offset);
    gguf_free(&g);
    return 0;
}
