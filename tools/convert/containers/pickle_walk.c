/* Reading the tree of a pickle. See pickle.h.
 *
 * Every function accepts any id of any kind and returns "none" where it does not fit, so that a
 * reader can ask for checkpoint["config"]["n_head"] without checking each step.
 */
#include "base/mem.h"
#include "convert/containers/pickle.h"

#include <string.h>

pickle_id pickle_item(const struct pickle *p, pickle_id id, size_t i)
{
    struct pickle_iter it = pickle_items(p, id);
    if (it.pairs)
        return 0;
    for (size_t k = 0; pickle_next(&it); k++)
        if (k == i)
            return it.value;
    return 0;
}

static int is_text_of(struct gguf_str s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

int pickle_is_text(const struct pickle *p, pickle_id id, const char *text)
{
    struct pickle_node n = pickle_at(p, id);
    return n.kind == PICKLE_TEXT && is_text_of((struct gguf_str){n.as.text, n.n}, text);
}

/* If a key occurs twice, the last one counts, as in Python. */
static pickle_id dict_get(const struct pickle *p, pickle_id dict, const char *key)
{
    pickle_id found = 0;
    if (pickle_at(p, dict).kind != PICKLE_DICT)
        return 0;
    for (struct pickle_iter i = pickle_items(p, dict); pickle_next(&i);)
        if (pickle_is_text(p, i.key, key))
            found = i.value;
    return found;
}

pickle_id pickle_get(const struct pickle *p, pickle_id id, const char *key)
{
    struct pickle_node n = pickle_at(p, id);
    if (n.kind == PICKLE_DICT)
        return dict_get(p, id, key);
    if (n.kind != PICKLE_OBJECT)
        return 0;
    pickle_id found = dict_get(p, n.state, key);
    for (size_t k = 0; !found && k < 2; k++)
        found = dict_get(p, pickle_item(p, n.state, k), key);
    return found;
}

int pickle_is_global(const struct pickle *p, pickle_id id, const char *module, const char *name)
{
    struct pickle_node n = pickle_at(p, id);
    return n.kind == PICKLE_GLOBAL && is_text_of(n.as.global.name, name) &&
           (!module || is_text_of(n.as.global.module, module));
}

int pickle_is_call(const struct pickle *p, pickle_id id, const char *module, const char *name)
{
    struct pickle_node n = pickle_at(p, id);
    return n.kind == PICKLE_CALL && pickle_is_global(p, n.as.call.callee, module, name);
}

pickle_id pickle_arg(const struct pickle *p, pickle_id id, size_t i)
{
    struct pickle_node n = pickle_at(p, id);
    return n.kind == PICKLE_CALL ? pickle_item(p, n.as.call.args, i) : 0;
}

const char *pickle_kind_text(enum pickle_kind kind)
{
    static const char *const names[] = {
        [PICKLE_NONE] = "None",        [PICKLE_BOOL] = "a bool",
        [PICKLE_INT] = "an int",       [PICKLE_LONG] = "an int",
        [PICKLE_REAL] = "a float",     [PICKLE_TEXT] = "a str",
        [PICKLE_BYTES] = "bytes",      [PICKLE_TUPLE] = "a tuple",
        [PICKLE_LIST] = "a list",      [PICKLE_DICT] = "a dict",
        [PICKLE_GLOBAL] = "a global",  [PICKLE_CALL] = "an object",
        [PICKLE_OBJECT] = "an object", [PICKLE_PERSISTENT] = "a storage",
    };
    return names[kind];
}

const char *pickle_kind_name(const struct pickle *p, pickle_id id)
{
    return pickle_kind_text(pickle_at(p, id).kind);
}
