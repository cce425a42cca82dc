/* Collecting the tensors and the facts of a microgpt file. See microgpt.h. */
#include "base/mem.h"
#include "convert/families/microgpt.h"

#include <string.h>

static void close_parts(void *parts)
{
    struct mg_parts *m = parts;
    state_free(&m->state);
    arr_free(m->entries);
}

struct mg_parts *mg_parts_new(struct checkpoint *c, const struct ckpt_input *in)
{
    struct mg_parts *m = ckpt_new(c, 1, sizeof *m);
    *m = (struct mg_parts){.c = c, .in = in, .room = in->bytes.size};
    state_init(&m->state, c);
    mg_facts_init(&m->facts);
    ckpt_own(c, m, close_parts);
    return m;
}

void mg_parts_build(struct mg_parts *m)
{
    if (!m->state.tensors)
        ckpt_stop(m->c, "not a microgpt: it holds no matrices (wte, wpe, lm_head, ...)");
    microgpt_build(m, &m->state);
}

void mg_use_room(struct mg_parts *m, const char *name, uint64_t n)
{
    if (n > m->room)
        ckpt_stop_tensor(m->c, name, "more values than the file can hold");
    m->room -= n;
}

struct state_tensor mg_flat(const uint8_t *data, uint64_t rows, uint64_t n, enum state_type type)
{
    struct state_tensor t = {.type = type, .n_dims = rows ? 2 : 1, .shape = {rows ? rows : n, n}};
    t.bytes = (struct span){data, (size_t)((rows ? rows : 1) * n * state_type_bytes(type))};
    state_contiguous(&t);
    return t;
}

void mg_add(struct mg_parts *m, const char *name, struct state_tensor t)
{
    state_add(&m->state, name, strlen(name), t);
}
