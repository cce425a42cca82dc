/* Fuzz target: one reader of checkpoints (FUZZ_READER, e.g. hf_safetensors_read), and every value of what
 * it accepts.
 *
 * An input is the bytes of the main file or, when it begins with "PARTS", several files: for each a byte
 * with the length of its name, the name, four bytes with its size (least first), its bytes. The first is
 * the main file, the others answer the reader's questions for side files.
 */
#include "convert/readers.h"
#include "convert/write.h"
#include "fuzz.h"
#include "mem.h"

enum { PARTS_MOST = 6 };

struct parts {
    struct {
        char name[64];
        struct span bytes;
    } p[PARTS_MOST];
    size_t n;
};

static void take_apart(struct parts *parts, const uint8_t *data, size_t size)
{
    struct feed f = {data + 5, size - 5};
    for (parts->n = 0; parts->n < PARTS_MOST && f.size > 0; parts->n++) {
        size_t i, n_name = feed_byte(&f) % sizeof parts->p->name;
        for (i = 0; i < n_name; i++)
            parts->p[parts->n].name[i] = (char)feed_byte(&f);
        parts->p[parts->n].name[i] = 0;
        size_t n = feed_u32(&f);
        n = n < f.size ? n : f.size;
        parts->p[parts->n].bytes = (struct span){f.data, n};
        f.data += n;
        f.size -= n;
    }
}

static int find_side(void *user, enum ckpt_option option, const char *const *candidates, size_t n,
                     struct ckpt_side *side, mgpt_error *err)
{
    const struct parts *parts = user;
    (void)option;
    (void)err;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 1; k < parts->n; k++)
            if (strcmp(parts->p[k].name, candidates[i]) == 0) {
                *side = (struct ckpt_side){candidates[i], parts->p[k].bytes};
                return 1;
            }
    return 0;
}

static void read_all(const struct checkpoint *c)
{
    float row[256];
    struct ckpt_written w;
    for (size_t i = 0; i < arr_len(c->tensors) && c->failed.status >= 0; i++) {
        const struct ckpt_tensor *t = &c->tensors[i];
        size_t block = t->type ? t->type->block : 1;
        for (uint64_t at = 0; at < t->n_values && at < 65536 && c->failed.status >= 0;) {
            uint64_t left = t->n_values - at;
            size_t n = left < 256 ? (size_t)left : 256 / block * block;
            ckpt_values(t, at, n, row);
            at += n;
        }
    }
    ckpt_measure(c, NULL, &w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ckpt_options none = {.n_layer = -1, .bos = -1, .eps = -1, .softcap = -1};
    struct parts parts = {.p[0].bytes = {data, size}, .n = 1};
    struct checkpoint c;
    mgpt_error err = {0};
    if (size >= 5 && memcmp(data, "PARTS", 5) == 0)
        take_apart(&parts, data, size);
    struct ckpt_input in = {parts.p[0].bytes, "fuzz", &none, find_side, &parts, NULL};
    ckpt_init(&c);
    if (FUZZ_READER(&c, &in, &err) == MGPT_OK)
        read_all(&c);
    else
        MUST(err.status < 0 && err.text[0] && !strchr(err.text, '\n'));
    ckpt_free(&c);
    return 0;
}
