/* Opcodes of pickles that would import, call and build: here they only record what was asked for.
 *
 * A global that is not on the list of pickle_globals.c ends the pickle, used or not. A global on
 * the list may only be used as its row says. See pickle_impl.h.
 */
#define _GNU_SOURCE /* memmem */
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/pickle_impl.h"

#include <string.h>

#define MAX_LINE 1000     /* bytes of a module's or class's name */
#define MODULE_BEGIN 4096 /* a module's first attributes are in the first bytes of a file */

_Noreturn static void not_allowed(struct pickle_machine *m, pickle_id global, const char *advice)
{
    struct pickle_node g = pickle_at(m->p, global);
    struct gguf_str module = g.as.global.module, name = g.as.global.name;
    pickle_leave(m, err_set(m->err, MGPT_EFILE, m->at, "pickle: global %.*s.%.*s is not allowed%s",
                            CKPT_CLIP(module.p, module.n), CKPT_CLIP(name.p, name.n), advice));
}

/* A whole torch.nn.Module: its class is of torch.nn, or its attributes begin with these. */
static int is_module(const struct pickle_machine *m, struct gguf_str module)
{
    size_t n = m->in.size < MODULE_BEGIN ? m->in.size : MODULE_BEGIN;
    return (module.n >= 8 && memcmp(module.p, "torch.nn", 8) == 0) ||
           (memmem(m->in.data, n, "_parameters", 11) && memmem(m->in.data, n, "_buffers", 8));
}

/* ---- globals, calls, objects ----------------------------------------------------------------- */

/* Pushes a global; its texts, or 0 for the lines after the opcode. */
static void push_global(struct pickle_machine *m, pickle_id module, pickle_id name)
{
    const uint32_t words[] = {(uint32_t)m->at, module, name};
    pickle_id id = pickle_new(m, PICKLE_GLOBAL, USE_NONE, words, 3);
    struct pickle_node g = pickle_at(m->p, id);
    enum pickle_use use = pickle_use_of(g.as.global.module, g.as.global.name);
    if (use == USE_NONE)
        not_allowed(m, id,
                    is_module(m, g.as.global.module) ? "; save model.state_dict(), not the model"
                                                     : "");
    *pickle_words_of(m->p, id) = PICKLE_GLOBAL + PICKLE_NUMBER * (uint32_t)use;
    pickle_push(m, id);
}

struct gguf_str pickle_line(struct cursor *in)
{
    size_t left = cursor_left(in);
    const uint8_t *p = in->data + in->pos;
    const uint8_t *end = left ? memchr(p, '\n', left < MAX_LINE ? left : MAX_LINE) : NULL;
    size_t n = end ? (size_t)(end - p) : left;
    if ((!end && left >= MAX_LINE) || !cursor_take(in, n + 1))
        return (struct gguf_str){NULL, 0};
    return (struct gguf_str){(const char *)p, n};
}

static void check_line(struct pickle_machine *m)
{
    if (!pickle_line(&m->in).p)
        pickle_bad(m, "a name of more than 1000 bytes"); /* or the data end */
}

void pickle_op_global(struct pickle_machine *m, int arg)
{
    (void)arg;
    check_line(m);
    check_line(m);
    push_global(m, 0, 0);
}

/* INST names a class and calls it in one step. The error for the class comes first. */
void pickle_op_inst(struct pickle_machine *m, int arg)
{
    pickle_op_global(m, arg);
    pickle_bad(m, "opcode INST is not supported");
}

void pickle_op_stack_global(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id name = pickle_pop(m), module = pickle_pop(m);
    if (pickle_kind_of(m, name) != PICKLE_TEXT || pickle_kind_of(m, module) != PICKLE_TEXT)
        pickle_bad(m, "STACK_GLOBAL of what is not text");
    push_global(m, module, name);
}

/* OrderedDict(), defaultdict(factory), Counter(dict), OrderedDict(pairs) */
static pickle_id call_dict(struct pickle_machine *m, pickle_id args)
{
    pickle_id first = pickle_item(m->p, args, 0);
    if (first && pickle_kind_of(m, first) == PICKLE_DICT)
        return first;
    pickle_id id = pickle_new_container(m, PICKLE_DICT);
    for (struct pickle_iter i = pickle_items(m->p, first); pickle_next(&i);) {
        const pickle_id pair[] = {pickle_item(m->p, i.value, 0), pickle_item(m->p, i.value, 1)};
        if (!pair[0] || !pair[1])
            pickle_bad(m, "a pair without two items");
        pickle_append(m, id, pair, 2);
    }
    return id;
}

static pickle_id call_list(struct pickle_machine *m, pickle_id args)
{
    pickle_id first = pickle_item(m->p, args, 0);
    int is_list = first && (pickle_kind_of(m, first) == PICKLE_LIST ||
                            pickle_kind_of(m, first) == PICKLE_TUPLE);
    return is_list ? first : pickle_new_container(m, PICKLE_LIST);
}

/* A text is encoded once, to bytes that are made when they are read: more than the input has would
 * be the same text many times. */
static void push_call(struct pickle_machine *m, pickle_id callee, pickle_id args)
{
    const uint32_t words[] = {(uint32_t)m->at, callee, args, 0};
    if (pickle_is_global(m->p, callee, "_codecs", "encode"))
        m->n_encoded += pickle_at(m->p, pickle_item(m->p, args, 0)).n;
    if (m->n_encoded > m->in.size)
        pickle_bad(m, "texts that are encoded more than once");
    pickle_push(m, pickle_new(m, PICKLE_CALL, 0, words, 4));
}

void pickle_op_reduce(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id args = pickle_pop(m), callee = pickle_pop(m);
    struct pickle_node global = pickle_at(m->p, callee);
    if (global.kind != PICKLE_GLOBAL || pickle_kind_of(m, args) != PICKLE_TUPLE)
        pickle_bad(m, "a call of what is not a global, or without a tuple");
    switch (global.use) {
    case USE_CALL:
        push_call(m, callee, args);
        return;
    case USE_DICT:
        pickle_push(m, call_dict(m, args));
        return;
    case USE_LIST:
        pickle_push(m, call_list(m, args));
        return;
    default:
        not_allowed(m, callee, " to be called");
    }
}

void pickle_op_new_object(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id args = pickle_pop(m), class = pickle_pop(m);
    if (pickle_kind_of(m, class) != PICKLE_GLOBAL || pickle_kind_of(m, args) != PICKLE_TUPLE)
        pickle_bad(m, "an object without a class, or without a tuple");
    if (pickle_at(m->p, class).use != USE_NEW)
        not_allowed(m, class, " as a class");
    const uint32_t words[] = {class, 0};
    pickle_push(m, pickle_new(m, PICKLE_OBJECT, 0, words, 2));
}

/* The state of a dict (PyTorch's _metadata) says nothing about weights. */
void pickle_op_build(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id state = pickle_pop(m);
    pickle_id to = m->stack[arr_len(m->stack) - 1];
    struct pickle_node node = pickle_at(m->p, to);
    if (node.kind == PICKLE_DICT)
        return;
    if (node.kind != PICKLE_CALL && node.kind != PICKLE_OBJECT)
        pickle_bad(m, "a state for what is not an object");
    if (node.state)
        pickle_bad(m, "a second state for an object");
    pickle_words_of(m->p, to)[node.kind == PICKLE_CALL ? 4 : 2] = state;
}

void pickle_op_persistent(struct pickle_machine *m, int arg)
{
    (void)arg;
    const uint32_t words[] = {(uint32_t)m->at, m->p->persistent, pickle_pop(m)};
    m->p->persistent = pickle_new(m, PICKLE_PERSISTENT, 1, words, 3);
    pickle_push(m, m->p->persistent);
}
