/* Tests of readers: what a checkpoint has become, as a hash. */
#ifndef TESTS_BECAME_H
#define TESTS_BECAME_H

#include "base/mem.h"
#include "base/xxh64.h"
#include "convert/core/write.h"

#include <stdlib.h>
#include <string.h>

static inline void became_text(struct xxh64 *h, const char *text)
{
    xxh64_add(h, text, strlen(text) + 1);
}

/* Names, sizes and first values of the tensors, the notes, then a file without tensors, which the checkpoint loses. */
static inline void became_checkpoint(struct xxh64 *h, struct checkpoint *c)
{
    struct ckpt_memory file = {0};
    mgpt_error err = {.text = ""};
    for (size_t i = 0; i < arr_len(c->tensors); i++) {
        const struct ckpt_tensor *t = &c->tensors[i];
        size_t n = t->n_values < 8 ? (size_t)t->n_values : 8;
        float x[256] = {0};
        became_text(h, t->name);
        xxh64_add(h, t->dims, sizeof t->dims);
        n = t->type && n % t->type->block ? t->type->block : n;
        ckpt_values(t, 0, n, x);
        xxh64_add(h, x, n * sizeof *x);
    }
    for (size_t i = 0; i < arr_len(c->notes); i++)
        became_text(h, c->notes[i]);
    if (c->tensors)
        arr_set_len(c->tensors, 0);
    if (ckpt_write_memory(c, NULL, &file, &err) == MGPT_OK)
        xxh64_add(h, file.bytes, file.size);
    became_text(h, err.text);
    free(file.bytes);
}

#endif
