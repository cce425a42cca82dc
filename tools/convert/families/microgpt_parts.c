/* Collecting the tensors and the facts of a microgpt file. See microgpt.h. */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/microgpt.h"

#include <string.h>

void mg_parts_init(struct mg_parts *m, struct checkpoint *c, const struct ckpt_input *in,
                   mgpt_error *err)
{
    *m = (struct mg_parts){.c = c, .in = in, .err = err, .room = in->bytes.size};
    state_init(&m->state, c);
    mg_facts_init(&m->facts);
}

int mg_parts_build(struct mg_parts *m, int status)
{
    if (status == MGPT_OK && !m->state.tensors)
        status =
            ckpt_refuse(m->err, "not a microgpt: it holds no matrices (wte, wpe, lm_head, ...)");
    if (status == MGPT_OK)
        status = microgpt_build(m, &m->state);
    mg_parts_free(m);
    return status;
}

void mg_parts_free(struct mg_parts *m)
{
    state_free(&m->state);
    arr_free(m->entries);
}

int mg_use_room(struct mg_parts *m, const char *name, uint64_t n)
{
    if (n > m->room)
        return ckpt_refuse_tensor(m->err, name, "more values than the file can hold");
    m->room -= n;
    return MGPT_OK;
}

struct state_tensor mg_flat(const uint8_t *data, uint64_t rows, uint64_t n, enum state_type type)
{
    struct state_tensor t = {.type = type, .n_dims = rows ? 2 : 1, .shape = {rows ? rows : n, n}};
    t.bytes = (struct span){data, (size_t)((rows ? rows : 1) * n * state_type_bytes(type))};
    state_contiguous(&t);
    return t;
}

int mg_add(struct mg_parts *m, const char *name, struct state_tensor t)
{
    return state_add(&m->state, name, strlen(name), t, m->err);
}
