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
    const struct pickle_node *g = pickle_at(m->p, global);
    const struct pickle_node *module = pickle_at(m->p, g->as.global.module);
    const struct pickle_node *name = pickle_at(m->p, g->as.global.name);
    pickle_leave(m, err_set(m->err, MGPT_EFILE, m->at, "pickle: global %.*s.%.*s is not allowed%s",
                            CKPT_CLIP(module->as.text, module->n),
                            CKPT_CLIP(name->as.text, name->n), advice));
}

/* A whole torch.nn.Module: its class is of torch.nn, or its attributes begin with these. */
static int is_module(const struct pickle_machine *m, pickle_id module_name)
{
    const struct pickle_node *module = pickle_at(m->p, module_name);
    size_t n = m->in.size < MODULE_BEGIN ? m->in.size : MODULE_BEGIN;
    return (module->n >= 8 && memcmp(module->as.text, "torch.nn", 8) == 0) ||
           (memmem(m->in.data, n, "_parameters", 11) && memmem(m->in.data, n, "_buffers", 8));
}

/* ---- globals, calls, objects ----------------------------------------------------------------- */

static void push_global(struct pickle_machine *m, pickle_id module, pickle_id name)
{
    const struct pickle_node *a = pickle_node_of(m, module), *b = pickle_node_of(m, name);
    enum pickle_use use =
        pickle_use_of((struct gguf_str){a->as.text, a->n}, (struct gguf_str){b->as.text, b->n});
    pickle_id id = pickle_new(m, (struct pickle_node){.kind = PICKLE_GLOBAL, .use = (uint8_t)use});
    pickle_node_of(m, id)->as.global.module = module;
    pickle_node_of(m, id)->as.global.name = name;
    if (use == USE_NONE)
        not_allowed(m, id, is_module(m, module) ? "; save model.state_dict(), not the model" : "");
    pickle_push(m, id);
}

/* A text up to the end of the line, without it. */
static pickle_id read_line(struct pickle_machine *m)
{
    size_t left = cursor_left(&m->in);
    const uint8_t *p = m->in.data + m->in.pos;
    const uint8_t *end = left ? memchr(p, '\n', left < MAX_LINE ? left : MAX_LINE) : NULL;
    if (!end && left >= MAX_LINE)
        pickle_bad(m, "a name of more than 1000 bytes");
    size_t n = end ? (size_t)(end - p) : left;
    if (!cursor_take(&m->in, n + 1))
        pickle_leave(m, MGPT_EFILE);
    return pickle_new(
        m, (struct pickle_node){.kind = PICKLE_TEXT, .n = (uint32_t)n, .as.text = (const char *)p});
}

void pickle_op_global(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id module = read_line(m);
    push_global(m, module, read_line(m));
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
    if (pickle_node_of(m, name)->kind != PICKLE_TEXT ||
        pickle_node_of(m, module)->kind != PICKLE_TEXT)
        pickle_bad(m, "STACK_GLOBAL of what is not text");
    push_global(m, module, name);
}

/* OrderedDict(), defaultdict(factory), Counter(dict), OrderedDict(pairs) */
static pickle_id call_dict(struct pickle_machine *m, pickle_id args)
{
    pickle_id first = pickle_item(m->p, args, 0);
    if (pickle_node_of(m, args)->n && pickle_node_of(m, first)->kind == PICKLE_DICT)
        return first;
    pickle_id id = pickle_new(m, (struct pickle_node){.kind = PICKLE_DICT});
    struct pickle_iter i = pickle_items(m->p, pickle_node_of(m, args)->n ? first : 0);
    while (!i.pairs && pickle_next(&i)) {
        pickle_id key = pickle_item(m->p, i.value, 0), value = pickle_item(m->p, i.value, 1);
        if (!key || !value)
            pickle_bad(m, "a pair without two items");
        pickle_append(m, id, key);
        pickle_append(m, id, value);
    }
    return id;
}

static pickle_id call_list(struct pickle_machine *m, pickle_id args)
{
    pickle_id first = pickle_item(m->p, args, 0);
    int is_list = first && (pickle_node_of(m, first)->kind == PICKLE_LIST ||
                            pickle_node_of(m, first)->kind == PICKLE_TUPLE);
    return is_list ? first : pickle_new(m, (struct pickle_node){.kind = PICKLE_LIST});
}

void pickle_op_reduce(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id args = pickle_pop(m), callee = pickle_pop(m);
    if (pickle_node_of(m, callee)->kind != PICKLE_GLOBAL ||
        pickle_node_of(m, args)->kind != PICKLE_TUPLE)
        pickle_bad(m, "a call of what is not a global, or without a tuple");
    switch (pickle_node_of(m, callee)->use) {
    case USE_CALL:
        pickle_push_new(m, (struct pickle_node){.kind = PICKLE_CALL,
                                                .as.call.callee = callee,
                                                .as.call.args = args});
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
    if (pickle_node_of(m, class)->kind != PICKLE_GLOBAL ||
        pickle_node_of(m, args)->kind != PICKLE_TUPLE)
        pickle_bad(m, "an object without a class, or without a tuple");
    if (pickle_node_of(m, class)->use != USE_NEW)
        not_allowed(m, class, " as a class");
    pickle_push_new(m, (struct pickle_node){
                           .kind = PICKLE_OBJECT, .as.call.callee = class, .as.call.args = args});
}

/* The state of a dict (PyTorch's _metadata) says nothing about weights. */
void pickle_op_build(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id state = pickle_pop(m);
    struct pickle_node *to = pickle_node_of(m, m->stack[arr_len(m->stack) - 1]);
    if (to->kind == PICKLE_DICT)
        return;
    if (to->kind != PICKLE_CALL && to->kind != PICKLE_OBJECT)
        pickle_bad(m, "a state for what is not an object");
    if (to->state)
        pickle_bad(m, "a second state for an object");
    to->state = state;
}

void pickle_op_persistent(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id id = pickle_new(m, (struct pickle_node){.kind = PICKLE_PERSISTENT});
    pickle_append(m, id, pickle_pop(m));
    pickle_push(m, id);
}
