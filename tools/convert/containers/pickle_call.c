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
#define MODULE_BEGIN 4096 /* bytes in which a module's first attributes are */

static int not_allowed(const struct pickle_machine *m, pickle_id global, const char *advice)
{
    const struct pickle_node *g = pickle_at(m->p, global);
    const struct pickle_node *module = pickle_at(m->p, g->as.global.module);
    const struct pickle_node *name = pickle_at(m->p, g->as.global.name);
    return err_set(m->err, MGPT_EFILE, m->at, "pickle: global %.*s.%.*s is not allowed%s",
                   CKPT_CLIP(module->as.text, module->n), CKPT_CLIP(name->as.text, name->n),
                   advice);
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

static int push_global(struct pickle_machine *m, pickle_id module, pickle_id name)
{
    const struct pickle_node *a = pickle_node_of(m, module), *b = pickle_node_of(m, name);
    enum pickle_use use =
        pickle_use_of((struct gguf_str){a->as.text, a->n}, (struct gguf_str){b->as.text, b->n});
    pickle_id id;
    int status =
        pickle_new(m, (struct pickle_node){.kind = PICKLE_GLOBAL, .use = (uint8_t)use}, &id);
    if (status < 0)
        return status;
    pickle_node_of(m, id)->as.global.module = module;
    pickle_node_of(m, id)->as.global.name = name;
    if (use == USE_NONE)
        return not_allowed(m, id,
                           is_module(m, module) ? "; save model.state_dict(), not the model" : "");
    return pickle_push(m, id);
}

/* A text up to the end of the line, without it. */
static int read_line(struct pickle_machine *m, pickle_id *id)
{
    size_t left = cursor_left(&m->in);
    const uint8_t *p = m->in.data + m->in.pos;
    const uint8_t *end = left ? memchr(p, '\n', left < MAX_LINE ? left : MAX_LINE) : NULL;
    if (!end && left >= MAX_LINE)
        return pickle_bad(m, "a name of more than 1000 bytes");
    size_t n = end ? (size_t)(end - p) : left;
    cursor_take(&m->in, n + 1);
    return pickle_new(
        m, (struct pickle_node){.kind = PICKLE_TEXT, .n = (uint32_t)n, .as.text = (const char *)p},
        id);
}

int pickle_op_global(struct pickle_machine *m, int arg)
{
    pickle_id module = 0, name = 0;
    (void)arg;
    int status = read_line(m, &module);
    if (status == MGPT_OK)
        status = read_line(m, &name);
    if (status < 0 || m->in.failed)
        return status;
    return push_global(m, module, name);
}

/* INST names a class and calls it in one step. The error for the class comes first. */
int pickle_op_inst(struct pickle_machine *m, int arg)
{
    int status = pickle_op_global(m, arg);
    return status < 0 || m->in.failed ? status : pickle_bad(m, "opcode INST is not supported");
}

int pickle_op_stack_global(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id name = pickle_pop(m), module = pickle_pop(m);
    if (pickle_node_of(m, name)->kind != PICKLE_TEXT ||
        pickle_node_of(m, module)->kind != PICKLE_TEXT)
        return pickle_bad(m, "STACK_GLOBAL of what is not text");
    return push_global(m, module, name);
}

/* OrderedDict(), defaultdict(factory), Counter(dict), OrderedDict(pairs) */
static int call_dict(struct pickle_machine *m, pickle_id args)
{
    pickle_id first = pickle_item(m->p, args, 0), id;
    if (pickle_node_of(m, args)->n && pickle_node_of(m, first)->kind == PICKLE_DICT)
        return pickle_push(m, first);
    int status = pickle_new(m, (struct pickle_node){.kind = PICKLE_DICT}, &id);
    struct pickle_iter i = pickle_items(m->p, pickle_node_of(m, args)->n ? first : 0);
    while (status == MGPT_OK && !i.pairs && pickle_next(&i)) {
        pickle_id key = pickle_item(m->p, i.value, 0), value = pickle_item(m->p, i.value, 1);
        if (!key || !value)
            return pickle_bad(m, "a pair without two items");
        status = pickle_append(m, id, key);
        if (status == MGPT_OK)
            status = pickle_append(m, id, value);
    }
    return status == MGPT_OK ? pickle_push(m, id) : status;
}

static int call_list(struct pickle_machine *m, pickle_id args)
{
    pickle_id first = pickle_item(m->p, args, 0);
    if (first && (pickle_node_of(m, first)->kind == PICKLE_LIST ||
                  pickle_node_of(m, first)->kind == PICKLE_TUPLE))
        return pickle_push(m, first);
    return pickle_push_new(m, (struct pickle_node){.kind = PICKLE_LIST});
}

int pickle_op_reduce(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id args = pickle_pop(m), callee = pickle_pop(m);
    if (pickle_node_of(m, callee)->kind != PICKLE_GLOBAL ||
        pickle_node_of(m, args)->kind != PICKLE_TUPLE)
        return pickle_bad(m, "a call of what is not a global, or without a tuple");
    switch (pickle_node_of(m, callee)->use) {
    case USE_CALL:
        return pickle_push_new(m, (struct pickle_node){.kind = PICKLE_CALL,
                                                       .as.call.callee = callee,
                                                       .as.call.args = args});
    case USE_DICT:
        return call_dict(m, args);
    case USE_LIST:
        return call_list(m, args);
    default:
        return not_allowed(m, callee, " to be called");
    }
}

int pickle_op_new_object(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id args = pickle_pop(m), class = pickle_pop(m);
    if (pickle_node_of(m, class)->kind != PICKLE_GLOBAL ||
        pickle_node_of(m, args)->kind != PICKLE_TUPLE)
        return pickle_bad(m, "an object without a class, or without a tuple");
    if (pickle_node_of(m, class)->use != USE_NEW)
        return not_allowed(m, class, " as a class");
    return pickle_push_new(
        m,
        (struct pickle_node){.kind = PICKLE_OBJECT, .as.call.callee = class, .as.call.args = args});
}

/* The state of a dict (PyTorch's _metadata) says nothing about weights. */
int pickle_op_build(struct pickle_machine *m, int arg)
{
    (void)arg;
    pickle_id state = pickle_pop(m);
    struct pickle_node *to = pickle_node_of(m, m->stack[arr_len(m->stack) - 1]);
    if (to->kind == PICKLE_DICT)
        return MGPT_OK;
    if (to->kind != PICKLE_CALL && to->kind != PICKLE_OBJECT)
        return pickle_bad(m, "a state for what is not an object");
    if (to->state)
        return pickle_bad(m, "a second state for an object");
    to->state = state;
    return MGPT_OK;
}

int pickle_op_persistent(struct pickle_machine *m, int arg)
{
    pickle_id id;
    (void)arg;
    int status = pickle_new(m, (struct pickle_node){.kind = PICKLE_PERSISTENT}, &id);
    if (status == MGPT_OK)
        status = pickle_append(m, id, pickle_pop(m));
    return status == MGPT_OK ? pickle_push(m, id) : status;
}
