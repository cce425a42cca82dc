/* Making and looking at the words of a pickle's tree. See pickle_words.h. */
#include "base/mem.h"
#include "convert/containers/pickle_impl.h"

#include <string.h>

/* ---- making ---------------------------------------------------------------------------------- */

static void put_words(struct pickle_machine *m, const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pickle_put(m, &m->p->words, words[i]);
}

static uint32_t head_of(struct pickle_machine *m, uint32_t kind, size_t number)
{
    if (number > PICKLE_MAX_ITEMS)
        pickle_bad(m, "too many items in a container");
    return kind + PICKLE_NUMBER * (uint32_t)number;
}

pickle_id pickle_new(struct pickle_machine *m, enum pickle_kind kind, size_t number,
                     const uint32_t *words, size_t n)
{
    size_t at = arr_len(m->p->words);
    pickle_put(m, &m->p->words, head_of(m, kind, number));
    put_words(m, words, n);
    return PICKLE_FIRST + (uint32_t)at;
}

pickle_id pickle_new_container(struct pickle_machine *m, enum pickle_kind kind)
{
    const uint32_t no_run = 0;
    return pickle_new(m, kind, 0, &no_run, 1);
}

/* How many of n items, from the first one on, follow each other in the input. */
static size_t values_in_order(const struct pickle_machine *m, const pickle_id *items, size_t n)
{
    size_t i = 1;
    while (i < n && !pickle_is_word(items[i - 1]) && pickle_after(m->p, items[i - 1]) == items[i])
        i++;
    return n > 0 && !pickle_is_word(items[0]) ? i : 0;
}

pickle_id pickle_new_tuple(struct pickle_machine *m, const pickle_id *items, size_t n)
{
    int is_range = n > 1 && values_in_order(m, items, n) == n;
    pickle_id id = pickle_new(m, PICKLE_TUPLE, n, items, is_range ? 1 : n);
    if (is_range)
        *pickle_words_of(m->p, id) += PICKLE_RANGE;
    return id;
}

/* Adds a run without items, which becomes the last of the container's. */
static uint32_t add_run(struct pickle_machine *m, pickle_id container, uint32_t head)
{
    uint32_t at = (uint32_t)arr_len(m->p->words), last = pickle_words_of(m->p, container)[1];
    const uint32_t run[] = {head, last ? m->p->words[last + 1] : at};
    put_words(m, run, 2);
    if (last)
        m->p->words[last + 1] = at;
    pickle_words_of(m->p, container)[1] = at;
    return at;
}

/* Adds ids to the last run, if it ends where the words end, or to a new one. */
static void add_ids(struct pickle_machine *m, pickle_id container, const pickle_id *items, size_t n)
{
    uint32_t run = pickle_words_of(m->p, container)[1],
             head = run ? m->p->words[run] : PICKLE_RANGE;
    if ((head & PICKLE_RANGE) || run + 2 + (size_t)pickle_number(head) != arr_len(m->p->words))
        run = add_run(m, container, PICKLE_RUN);
    put_words(m, items, n);
    m->p->words[run] += PICKLE_NUMBER * (uint32_t)n;
}

void pickle_append(struct pickle_machine *m, pickle_id container, const pickle_id *items, size_t n)
{
    uint32_t head = *pickle_words_of(m->p, container);
    head = head_of(m, head % PICKLE_RANGE, pickle_number(head) + n);
    for (size_t i = 0, k; i < n; i += k) {
        k = values_in_order(m, items + i, n - i);
        if (k > PICKLE_FEW) {
            add_run(m, container, head_of(m, PICKLE_RUN + PICKLE_RANGE, k));
            pickle_put(m, &m->p->words, items[i]);
        } else {
            k = k ? k : 1;
            add_ids(m, container, items + i, k);
        }
    }
    *pickle_words_of(m->p, container) = head;
}

/* ---- looking at them ------------------------------------------------------------------------- */

static struct gguf_str text_at(const struct pickle *p, pickle_id id)
{
    struct pickle_node n = pickle_at(p, id);
    return (struct gguf_str){n.as.text, n.n};
}

static void read_global(const struct pickle *p, const uint32_t *words, struct pickle_node *n)
{
    n->use = (int)pickle_number(words[0]);
    n->at = words[1];
    if (words[2]) {
        n->as.global.module = text_at(p, words[2]);
        n->as.global.name = text_at(p, words[3]);
        return;
    }
    struct cursor in = cursor_over(p->bytes.data, p->bytes.size);
    cursor_take(&in, (uint64_t)n->at + 1);
    n->as.global.module = pickle_line(&in);
    n->as.global.name = pickle_line(&in);
}

static struct pickle_node node_of(const struct pickle *p, const uint32_t *words)
{
    struct pickle_node n = {.kind = (enum pickle_kind)(words[0] % PICKLE_RANGE)};
    switch (n.kind) {
    case PICKLE_GLOBAL:
        read_global(p, words, &n);
        break;
    case PICKLE_CALL:
        n.at = words[1];
        n.as.call.callee = words[2];
        n.as.call.args = words[3];
        n.state = words[4];
        break;
    case PICKLE_OBJECT:
        n.as.call.callee = words[1];
        n.state = words[2];
        break;
    case PICKLE_BYTES:
        n.n = words[1];
        memcpy(&n.as.text, words + 2, sizeof n.as.text);
        break;
    case PICKLE_PERSISTENT:
        n.at = words[1];
        n.n = 1;
        break;
    default:
        n.n = pickle_number(words[0]);
    }
    return n;
}

struct pickle_node pickle_at(const struct pickle *p, pickle_id id)
{
    if (pickle_is_word(id))
        return node_of(p, pickle_words_of(p, id));
    struct cursor in = cursor_over(p->bytes.data, p->bytes.size);
    if (id == 0 || id > p->bytes.size)
        return (struct pickle_node){.kind = PICKLE_NONE};
    in.pos = id - 1;
    return pickle_value(&in);
}

void pickle_become_bytes(const struct pickle *p, pickle_id call, const char *bytes, uint32_t n)
{
    uint32_t *words = pickle_words_of(p, call);
    words[0] = PICKLE_BYTES;
    words[1] = n;
    memcpy(words + 2, &bytes, sizeof bytes);
}

pickle_id pickle_reference_before(const struct pickle *p, pickle_id persistent)
{
    return pickle_words_of(p, persistent)[2];
}

/* ---- items ----------------------------------------------------------------------------------- */

/* Starts with items whose head is this; they are at `at`. */
static void begin_run(struct pickle_iter *i, uint32_t head, uint32_t at)
{
    i->left = pickle_number(head);
    i->is_range = (head & PICKLE_RANGE) != 0;
    i->at = i->is_range ? i->p->words[at] : at;
}

struct pickle_iter pickle_items(const struct pickle *p, pickle_id id)
{
    struct pickle_iter i = {.p = p};
    if (!pickle_is_word(id))
        return i;
    const uint32_t *words = pickle_words_of(p, id);
    uint32_t at = id - PICKLE_FIRST;
    switch (words[0] % PICKLE_RANGE) {
    case PICKLE_PERSISTENT:
        begin_run(&i, words[0], at + 3);
        break;
    case PICKLE_TUPLE:
        if (pickle_number(words[0]))
            begin_run(&i, words[0], at + 1);
        break;
    case PICKLE_LIST:
    case PICKLE_DICT:
        i.pairs = words[0] % PICKLE_RANGE == PICKLE_DICT;
        i.last = words[1];
        i.run = i.last ? p->words[i.last + 1] : 0;
        if (i.run)
            begin_run(&i, p->words[i.run], i.run + 2);
        break;
    default:
        break;
    }
    return i;
}

static pickle_id pickle_walk_take(struct pickle_iter *i)
{
    pickle_id id = i->is_range ? i->at : i->p->words[i->at];
    i->left--;
    i->at = i->is_range && i->left ? pickle_after(i->p, id) : i->at + 1;
    if (!i->left && i->run != i->last) {
        i->run = i->p->words[i->run + 1];
        begin_run(i, i->p->words[i->run], i->run + 2);
    }
    return id;
}

int pickle_next(struct pickle_iter *i)
{
    if (!i->left)
        return 0;
    i->key = i->pairs ? pickle_walk_take(i) : 0;
    if (!i->left)
        return 0;
    i->value = pickle_walk_take(i);
    return 1;
}
