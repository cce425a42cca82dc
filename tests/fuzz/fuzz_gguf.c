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
    mgpt_error err = {0};
    int got[] = {gguf_uint(g, key, 1000, &u, &err), gguf_bool(g, key, &b, &err),
                 gguf_float(g, key, &f, &err), gguf_string(g, key, &s, &err),
                 gguf_array(g, key, GGUF_STRING, &array, &err)};
    fuzz_saw(got, sizeof got);
    fuzz_saw_error(&err);
    if (got[0] > 0)
        fuzz_saw_number(u);
    if (got[1] > 0)
        fuzz_saw_number((uint64_t)b);
    if (got[2] > 0)
        fuzz_saw_floats(&(float){(float)f}, 1);
    if (got[3] > 0)
        fuzz_saw(s.p, s.n);
    if (got[4] > 0)
        fuzz_saw(array->value, array->value_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf g;
    mgpt_error err = {0};
    int status = gguf_parse(&g, data, size, &err);
    fuzz_saw_error(&err);
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
    for (size_t i = 0; i < arr_len(g.tensors); i++) {
        MUST(g.tensors[i].offset <= size && g.tensors[i].size <= size - g.tensors[i].offset);
        fuzz_saw_number(g.tensors[i].offset);
        fuzz_saw_number(g.tensors[i].size);
        fuzz_saw(g.tensors[i].dims, sizeof g.tensors[i].dims);
    }
    gguf_free(&g);
    return 0;
}
