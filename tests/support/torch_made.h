/* Tests: models of training programs as tensors by name and shape, all zeros, and the files next to
 * them. */
#ifndef TESTS_TORCH_MADE_H
#define TESTS_TORCH_MADE_H

#include "convert/families/torch_model.h"
#include "support/convert.h"
#include "support/run.h"
#include "support/tok_directory.h"

struct made {
    struct checkpoint c;
    struct directory d;
    struct ckpt_options o;
    struct ckpt_input in;
    struct torch_file file;
    struct state state;
    struct mg_parts parts;
    struct torch_model m;
    struct span saved; /* a pickle of what was saved next to the weights; NULL: an empty dict */
};

static const uint8_t zeros[128256 * 4 * 4];

/* A model of nanochat, one layer. */
static const char *const nanochat[] = {"transformer.wte.weight 5 128",
                                       "transformer.h.0.attn.c_q.weight 128 128",
                                       "transformer.h.0.attn.c_k.weight 128 128",
                                       "transformer.h.0.attn.c_v.weight 128 128",
                                       "transformer.h.0.attn.c_proj.weight 128 128",
                                       "transformer.h.0.mlp.c_fc.weight 6 128",
                                       "transformer.h.0.mlp.c_proj.weight 128 6",
                                       "lm_head.weight 5 128",
                                       NULL};

/* "name 5 4": a tensor of this shape; "name": none of this name. */
static inline void add_tensor(struct made *f, const char *shape)
{
    char name[64];
    unsigned long long dims[3] = {0};
    mgpt_error err;
    int n = sscanf(shape, "%63s %llu %llu %llu", name, &dims[0], &dims[1], &dims[2]);
    struct state_tensor t = {.type = STATE_F32,
                             .n_dims = (uint32_t)n - 1,
                             .shape = {dims[0], dims[1], dims[2]},
                             .bytes = {zeros, sizeof zeros}};
    state_contiguous(&t);
    if (n > 1)
        assert_int_equal(run_add(&f->state, name, t, &err), MGPT_OK);
}

static inline int same_name(const char *a, const char *b)
{
    size_t n = strcspn(a, " ");
    return strcspn(b, " ") == n && memcmp(a, b, n) == 0;
}

/* The tensors of a list that NULL ends; the one called as `instead` has that shape. */
static inline void make(struct made *f, const char *const *shapes, const char *instead)
{
    mgpt_error err;
    ckpt_init(&f->c);
    f->m = (struct torch_model){
        .c = &f->c, .in = &f->in, .file = &f->file, .state = &f->state, .parts = &f->parts};
    f->in = (struct ckpt_input){
        .bytes = f->saved, .name = "ckpt", .options = &f->o, .side = find_member, .user = &f->d};
    static const struct span nothing = {(const uint8_t *)"\x80\2}.", 4};
    assert_int_equal(pickle_read(&f->file.pickle, f->saved.data ? f->saved : nothing, &err),
                     MGPT_OK);
    f->file.container = "pickle";
    f->m.root = f->file.pickle.root;
    state_init(&f->state, &f->c);
    f->parts = (struct mg_parts){.c = &f->c, .in = &f->in, .room = f->in.bytes.size};
    mg_facts_init(&f->parts.facts);
    for (size_t i = 0; shapes[i]; i++)
        add_tensor(f, instead && same_name(instead, shapes[i]) ? instead : shapes[i]);
    assert_int_equal(run_seal(&f->state, &err), MGPT_OK);
    torch_facts(&f->m);
}

static inline void unmake(struct made *f)
{
    state_free(&f->state);
    arr_free(f->parts.entries);
    pickle_free(&f->file.pickle);
    ckpt_free(&f->c);
}

/* One function of the reader, whose faults leave a run (checkpoint.h): a mapping's, torch_vocab_pickle's, or
 * torch_vocab's. */
struct made_step {
    struct torch_model *m;
    const struct torch_mapping *mapping;
    const struct ckpt_side *pickle;
    const char *dataset;
};

static inline void made_step(void *arg)
{
    const struct made_step *step = arg;
    if (step->mapping)
        step->mapping->map(step->m);
    else if (step->pickle)
        torch_vocab_pickle(step->m, step->pickle);
    else
        torch_vocab(step->m, step->dataset);
}

static inline int run_made(struct made_step step, mgpt_error *err)
{
    return ckpt_run(step.m->c, made_step, &step, err);
}

/* Maps; expected NULL: it must succeed. The caller looks and unmakes. */
static inline void map(struct made *f, const struct torch_mapping *mapping, const char *expected)
{
    mgpt_error err = {.text = ""};
    int status = run_made((struct made_step){.m = &f->m, .mapping = mapping}, &err);
    must_say("tensors", status, &err, expected);
}

#endif
